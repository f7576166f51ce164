//! The owner of the workers.
#![expect(unsafe_code, reason = "a field that one branch of the destructor leaks")]

use crate::builder::Builder;
use crate::error::BuildError;
use crate::handle::Handle;
use crate::phase::Phase;
use crate::pool::Pool;
use crate::submit;
use crate::task::cells;
use crate::worker::current;
use numa::Topology;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::time::Duration;

/// What happens to tasks that are queued at shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShutdownMode {
    /// They run, and so do the tasks they submit from the workers.
    Drain,
    /// They are dropped unrun, on the workers; their join handles say cancelled. Tasks that run already run to their
    /// end.
    Abort,
}

/// How a shutdown went.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Every worker has ended.
    pub completed: bool,
    /// Tasks dropped unrun so far.
    pub tasks_dropped: u64,
    /// Tasks still queued.
    pub tasks_left: u64,
    /// Workers that have not ended: each runs a task, or is about to look for one.
    pub workers_left: usize,
}

/// Owns the workers. Dropping it drains and joins: it returns when every accepted task has run. Dropped inside of one
/// of its own tasks, or in the child of a fork, it does not wait.
///
/// Futures are polled while something is queued. Those that are pending then are dropped by the workers as they leave,
/// and their join handles say cancelled: a drain does not wait for what others may or may not wake. Wakes from other
/// threads are refused as soon as a shutdown has begun; the future is then dropped on the thread that wakes it.
///
/// Everything a [`Handle`] can do a scheduler can do as well.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let scheduler = scheduler::Scheduler::new()?;
/// let handle = scheduler.handle();
/// let sum = handle.spawn(|| (1..=10).sum::<u32>())?.join()?;
/// assert_eq!(sum, 55);
/// # Ok(())
/// # }
/// ```
pub struct Scheduler {
    handle: Handle,
    pool: ManuallyDrop<Pool>,
}

impl Scheduler {
    /// A scheduler for this host: see [`Builder`].
    ///
    /// # Errors
    /// [`BuildError`] says what cannot be had; then nothing is left behind.
    pub fn new() -> Result<Scheduler, BuildError> {
        Self::builder().build()
    }

    /// Configures a scheduler.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new_from(pool: Pool) -> Self {
        Scheduler { handle: Handle { shared: pool.shared.clone() }, pool: ManuallyDrop::new(pool) }
    }

    /// A way in that can be cloned and sent.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// The host as the scheduler sees it.
    pub fn topology(&self) -> &Topology {
        &self.handle.shared.topology
    }

    /// What each worker has taken since it was built or the record was cleared. Exact while nothing runs.
    #[cfg(feature = "measure")]
    pub fn record(&self) -> Vec<crate::worker::Recorded> {
        self.handle.shared.workers.iter().map(|worker| worker.record.read()).collect()
    }

    /// Begins the record anew. Call it while nothing runs: what is taken meanwhile may be half recorded.
    #[cfg(feature = "measure")]
    pub fn clear_record(&self) {
        self.handle.shared.workers.iter().for_each(|worker| worker.record.clear());
    }

    /// Blocks until every worker is idle and no task is queued, at most for `limit`; true if that moment was seen. A
    /// worker that still spins for work ([`Builder::spin`](crate::Builder::spin)) is not idle yet. On a worker of this
    /// scheduler it can never come, and the answer is false at once.
    pub fn wait_idle(&self, limit: Duration) -> bool {
        let shared = &self.handle.shared;
        if current().is_some_and(|context| context.shared.id == shared.id) || shared.phase.get() == Phase::Forked {
            return false;
        }
        let scanner = shared.lanes.scanner();
        let ended = || shared.phase.get() == Phase::Finished;
        shared.await_quiet(limit, || ended() || shared.quiescent(&scanner.pin()))
    }

    /// Refuses submissions from now on, lets the workers run (or drop) what is queued, and waits at most for `limit`
    /// until they have ended. May be called again, also to turn a drain into an abort. On a worker of this scheduler it
    /// does not wait; in the child of a fork it does nothing.
    pub fn shutdown(&self, mode: ShutdownMode, limit: Duration) -> ShutdownReport {
        let shared = &self.handle.shared;
        let inside = current().is_some_and(|context| context.shared.id == shared.id);
        let mut completed = false;
        if shared.phase.get() != Phase::Forked {
            self.pool.close(mode == ShutdownMode::Abort);
            completed = self.pool.await_end(if inside { Duration::ZERO } else { limit });
        }
        if completed {
            self.pool.join();
            submit::purge();
        }
        let metrics = self.handle.metrics();
        ShutdownReport {
            completed,
            tasks_dropped: metrics.dropped,
            tasks_left: metrics.queued,
            workers_left: metrics.alive,
        }
    }
}

impl Deref for Scheduler {
    type Target = Handle;
    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("handle", &self.handle).finish()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let shared = &self.handle.shared;
        if shared.phase.get() == Phase::Forked {
            // The threads are the parent's; the pool stays as it is, for ever.
            return;
        }
        self.pool.close(false);
        if current().is_some_and(|context| context.shared.id == shared.id) {
            self.pool.detach();
        } else {
            self.pool.join();
            submit::purge();
            cells::sweep();
        }
        drop_pool(&mut self.pool);
    }
}

fn drop_pool(pool: &mut ManuallyDrop<Pool>) {
    // SAFETY: called once, at the end of the destructor.
    unsafe { ManuallyDrop::drop(pool) };
}
