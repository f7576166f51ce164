//! How a scheduler is configured.

use crate::config::{SPIN_US, STACK_MIN, STACK_SIZE, WORKERS_MAX};
use crate::error::BuildError;
use crate::pool;
use crate::scheduler::Scheduler;
use crate::worker::{Hooks, Tuning};
use numa::{Pin, Placement, PlacementError, Topology};
use std::any::Any;
use std::fmt;
use std::time::Duration;

/// Which barrier makes a submission visible to a worker that is about to sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Barrier {
    /// `membarrier(2)` on the sleeping side where the kernel has it, else a fence on both sides.
    #[default]
    Auto,
    /// `membarrier(2)`, or no scheduler.
    Membarrier,
    /// A fence on both sides: about 5 ns per submission more, one system call per sleep less. Taking hidden tasks away
    /// from a worker that is stuck uses `membarrier(2)` all the same where the kernel has it; where not, workers fence
    /// at every task they take, too.
    Fence,
}

/// What does the I/O of the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Io {
    /// A worker makes its `io_uring(7)` when it first needs one. Where it gets none it does without, like with
    /// [`Io::Epoll`]; [`WorkerMetrics::io`](crate::WorkerMetrics::io) says which, and why.
    #[default]
    Auto,
    /// A ring for every worker from the start, or no scheduler.
    Uring,
    /// No rings: one thread that polls with `epoll(7)`, and some for files.
    Epoll,
}

pub(crate) type Name = Box<dyn Fn(usize) -> String>;

/// Configures a [`Scheduler`].
///
/// What is not set here is taken from the environment: `SCHEDULER_WORKERS` (a number), `SCHEDULER_SPIN_US`
/// (microseconds), `SCHEDULER_BARRIER` (`auto`, `membarrier` or `fence`), `SCHEDULER_IO` (`auto`, `uring` or `epoll`),
/// `SCHEDULER_PLACEMENT` (`spread`, `pack`, `unpinned`, `cpus:LIST` or `nodes:LIST` with lists like `0-3,8`). What is
/// not set there either is chosen for the host.
///
/// ```
/// # fn main() -> Result<(), scheduler::BuildError> {
/// let scheduler = scheduler::Scheduler::builder().workers(2).thread_name(|i| format!("db-{i}")).build()?;
/// assert_eq!(scheduler.metrics().workers.len(), 2);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is built before `build`"]
pub struct Builder {
    pub(crate) workers: Option<usize>,
    pub(crate) placement: Option<Placement>,
    /// The value of the variable that the placement came from.
    pub(crate) placement_text: Option<String>,
    pub(crate) pin: Pin,
    pub(crate) topology: Option<Topology>,
    pub(crate) capacity: Option<u64>,
    pub(crate) spin: Option<Duration>,
    pub(crate) barrier: Option<Barrier>,
    pub(crate) io: Option<Io>,
    pub(crate) stack_size: usize,
    pub(crate) name: Name,
    pub(crate) hooks: Hooks,
    pub(crate) tuning: Tuning,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            workers: None,
            placement: None,
            placement_text: None,
            pin: Pin::Auto,
            topology: None,
            capacity: None,
            spin: None,
            barrier: None,
            io: None,
            stack_size: STACK_SIZE,
            name: Box::new(|index| format!("scheduler-{index}")),
            hooks: Hooks { panicked: None, started: None, stopped: None },
            tuning: Tuning::default(),
        }
    }
}

impl Builder {
    /// The number of workers: at least 1. By default the smaller of the allowed CPUs and the quota, rounded up.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Where the workers go; by default [`Placement::Spread`].
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = Some(placement);
        self
    }

    /// How tightly workers are bound; by default to the CPUs of their shared cache.
    pub fn pin(mut self, pin: Pin) -> Self {
        self.pin = pin;
        self
    }

    /// The host to believe in; by default the one this runs on. Workers are bound only on the real one.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// Bounds the tasks that are queued and not claimed by a worker. Submissions beyond it block, or are refused by
    /// `try_submit`, `try_spawn` and `try_spawn_future`; up to a 64th of the capacity per idle submitter may be refused
    /// early. Unbounded by default. A bounded scheduler counts every submission, also those of its workers, which then
    /// run in order of submission. A task that was aborted counts until a worker comes upon it.
    /// A submitter that blocks does nothing else, a worker of another scheduler included: two bounded schedulers whose
    /// tasks submit to each other can wait for each other for ever. Use `try_submit` there.
    pub fn capacity(mut self, tasks: u64) -> Self {
        self.capacity = Some(tasks);
        self
    }

    /// The longest spin of a worker before it sleeps; it adapts below that. By default 20 us, and 0 where workers
    /// outnumber CPUs or a quota applies.
    pub fn spin(mut self, spin: Duration) -> Self {
        self.spin = Some(spin);
        self
    }

    /// Which barrier is used.
    pub fn barrier(mut self, barrier: Barrier) -> Self {
        self.barrier = Some(barrier);
        self
    }

    /// What does the I/O of the workers.
    pub fn io(mut self, io: Io) -> Self {
        self.io = Some(io);
        self
    }

    /// Stack of each worker in bytes: at least 64 KiB, by default 2 MiB.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// Names the worker threads; by default `scheduler-0` and so on. The kernel shows the first 15 bytes.
    pub fn thread_name(mut self, name: impl Fn(usize) -> String + 'static) -> Self {
        self.name = Box::new(name);
        self
    }

    /// Called on each worker's thread before its first task, perhaps after [`Builder::build`] has returned, with its
    /// index and node. A task may also run on a worker's spare thread (when nested waits have used up the stack), which
    /// does not see thread-locals that were set here. A panic there is caught and counted.
    pub fn on_worker_start(mut self, hook: impl Fn(usize, usize) + Send + Sync + 'static) -> Self {
        self.hooks.started = Some(Box::new(hook));
        self
    }

    /// Called on each worker's thread after its last task, with its index and node. It is no worker any more then:
    /// submissions are refused and [`Handle::current`](crate::Handle::current) panics. A panic there is caught and
    /// counted.
    pub fn on_worker_stop(mut self, hook: impl Fn(usize, usize) + Send + Sync + 'static) -> Self {
        self.hooks.stopped = Some(Box::new(hook));
        self
    }

    /// Called on the worker with the payload of every panic that no join handle receives, after the process's panic
    /// hook: those of detached tasks, of destructors, and of wakers that a worker wakes. A panic of the handler is
    /// caught.
    pub fn panic_handler(mut self, handler: impl Fn(&(dyn Any + Send)) + Send + Sync + 'static) -> Self {
        self.hooks.panicked = Some(Box::new(handler));
        self
    }

    /// For measurements and tests: what the policy believes instead of what it sees.
    #[doc(hidden)]
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// Starts the workers and returns when all of them run.
    ///
    /// # Errors
    /// [`BuildError`] says what cannot be had; then nothing is left behind.
    pub fn build(mut self) -> Result<Scheduler, BuildError> {
        self.take_environment()?;
        self.check()?;
        pool::start(self).map(Scheduler::new_from)
    }

    fn check(&self) -> Result<(), BuildError> {
        if let Some(asked) = self.workers
            && !(1..=WORKERS_MAX).contains(&asked)
        {
            return Err(BuildError::Workers { asked, limit: WORKERS_MAX });
        }
        if self.capacity == Some(0) {
            return Err(BuildError::Capacity);
        }
        if self.stack_size < STACK_MIN {
            return Err(BuildError::StackSize { asked: self.stack_size, least: STACK_MIN });
        }
        Ok(())
    }

    fn take_environment(&mut self) -> Result<(), BuildError> {
        if self.workers.is_none() {
            let parse = |text: &str| text.parse().ok().filter(|n| (1..=WORKERS_MAX).contains(n));
            let expected = "expected a number of workers from 1 to 1024";
            self.workers = variable("SCHEDULER_WORKERS", |text| parse(text).ok_or(expected))?;
        }
        if self.spin.is_none() {
            let parse = |text: &str| text.parse().map(Duration::from_micros);
            let expected = "expected a number of microseconds";
            self.spin = variable("SCHEDULER_SPIN_US", |text| parse(text).map_err(|_| expected))?;
        }
        if self.barrier.is_none() {
            self.barrier = variable("SCHEDULER_BARRIER", |text| match text {
                "auto" => Ok(Barrier::Auto),
                "membarrier" => Ok(Barrier::Membarrier),
                "fence" => Ok(Barrier::Fence),
                _ => Err("expected auto, membarrier or fence"),
            })?;
        }
        if self.io.is_none() {
            self.io = variable("SCHEDULER_IO", |text| match text {
                "auto" => Ok(Io::Auto),
                "uring" => Ok(Io::Uring),
                "epoll" => Ok(Io::Epoll),
                _ => Err("expected auto, uring or epoll"),
            })?;
        }
        if self.placement.is_none() {
            let parse = |text: &str| text.parse().map_err(|e: numa::ParsePlacementError| e.reason());
            let found = variable(PLACEMENT, |text| Ok::<_, String>((parse(text)?, text.to_owned())))?;
            (self.placement, self.placement_text) = found.unzip();
        }
        Ok(())
    }

    /// Workers cannot be placed as asked, by the program or by the environment.
    pub(crate) fn misplaced(&self, error: PlacementError) -> BuildError {
        match &self.placement_text {
            Some(value) => BuildError::Environment {
                name: PLACEMENT,
                value: value.clone(),
                problem: format!("not on this host: {error}"),
            },
            None => BuildError::Placement(error),
        }
    }

    pub(crate) fn spin_for(&self, topology: &Topology, workers: usize) -> Duration {
        let crowded = workers > topology.allowed().len() || topology.quota_millicpus().is_some();
        self.spin.unwrap_or(if crowded { Duration::ZERO } else { Duration::from_micros(SPIN_US) })
    }
}

/// Where the workers go.
const PLACEMENT: &str = "SCHEDULER_PLACEMENT";

/// An environment variable; unset and empty are nothing. `parse` says what is wrong with it.
fn variable<T, E: Into<String>>(
    name: &'static str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, BuildError> {
    let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let value = value.to_string_lossy().into_owned();
    match parse(value.trim()) {
        Ok(parsed) => Ok(Some(parsed)),
        Err(problem) => Err(BuildError::Environment { name, value, problem: problem.into() }),
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("workers", &self.workers)
            .field("placement", &self.placement)
            .field("pin", &self.pin)
            .field("capacity", &self.capacity)
            .field("spin", &self.spin)
            .field("barrier", &self.barrier)
            .field("io", &self.io)
            .field("stack_size", &self.stack_size)
            .finish_non_exhaustive()
    }
}
