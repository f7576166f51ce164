//! A scheduler for the models: the real workers, lanes and words, without the threads and the host around them.
//!
//! Real thread-locals would be shared by all threads of a model and statics cannot hold what a model checks, so
//! workers run [`Context::main`] without being the thread's current worker, and cells come from depots of the world.
//! Time stands still: every spin ends after one look, and a thief's patience is over at once.
#![allow(dead_code, reason = "each model uses a part")]

use loom::thread;
use scheduler::internals::driver::Completion;
use scheduler::internals::idle::{Fences, idle_words};
use scheduler::internals::mode::{BarrierMode, Mode};
use scheduler::internals::numa::{Local, Pin, Placement, Seat, Topology, plan};
use scheduler::internals::park::Parker;
use scheduler::internals::phase::{Phase, PhaseWord};
use scheduler::internals::sync::{AcqRel, Acquire, Arc, AtomicU32, Racy, lights_out};
use scheduler::internals::task::cells::{Cells, Depots};
use scheduler::internals::task::raw::{Header, Verb};
use scheduler::internals::worker::{Context, Hooks, Remote, Shared, Tuning, Wait};
use scheduler::{Place, Submitter};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32 as Count, Ordering::Relaxed};
use std::time::Duration;

/// No sleep has a limit: a lost wake-up is a deadlock.
pub(crate) const ENDLESS: Tuning = Tuning { no_standby: true, no_membarrier: true, ..Tuning::NONE };
/// Every task is long: nobody becomes fast, but there is a standby.
pub(crate) const SLOW: Tuning = Tuning { task_ns: Some(10_000), no_membarrier: true, ..Tuning::NONE };
/// Every task is short.
pub(crate) const FAST: Tuning = Tuning { task_ns: Some(0), no_membarrier: true, ..Tuning::NONE };

/// The scheduler, and what its tasks report to.
pub(crate) struct World {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tally: &'static Tally,
    depots: &'static Depots,
}

/// What the tasks report to.
pub(crate) struct Tally {
    /// Per task; no event of the model.
    runs: Vec<Count>,
    /// Written by the submitter of a task, read by whoever runs it.
    payloads: Vec<Racy<usize>>,
    done: AtomicU32,
    /// Where the main thread sleeps.
    parker: Parker,
    /// The workers' parkers, if they leave once all have run.
    helpers: Vec<Arc<Parker>>,
}

/// All tasks have run.
struct All(&'static Tally);

impl Wait for All {
    fn is_over(&self) -> bool {
        self.0.done.load(Acquire) as usize == self.0.runs.len()
    }
    fn register(&self, _: Arc<Parker>) -> bool {
        !self.is_over()
    }
}

// SAFETY: payloads go through the scheduler's queues; loom checks that.
unsafe impl Sync for Tally {}

impl Tally {
    fn run(&self, task: usize) {
        // SAFETY: a task has its payload alone; loom checks it.
        self.payloads[task].with(|payload| assert_eq!(unsafe { *payload }, task + 1));
        assert_eq!(self.runs[task].fetch_add(1, Relaxed), 0, "run twice");
        let done = self.done.fetch_add(1, AcqRel) + 1;
        self.parker.unpark();
        if done as usize == self.runs.len() {
            // Whoever helps until the end is told like any waiter, by a token.
            self.helpers.iter().for_each(|helper| _ = helper.unpark());
        }
    }

    /// Sleeps until `count` tasks have run.
    pub(crate) fn await_done(&self, count: u32) {
        while self.done.load(Acquire) < count {
            let _ = self.parker.park(None);
        }
    }

    /// Stuck in its task until all have run: the worker sleeps on its own parker and looks at nothing.
    pub(crate) fn stuck(&'static self, context: &Context) {
        while !All(self).is_over() {
            let _ = self.helpers[context.index].park(None);
        }
    }

    /// Sleeps inside a task until all have run, having published what it hides.
    pub(crate) fn stand_still(&'static self, context: &Context) {
        context.stand_still(&All(self));
    }

    /// Uses every payload as its last owner.
    pub(crate) fn touch(&self) {
        // SAFETY: the tasks are over; loom checks it.
        self.payloads.iter().for_each(|payload| payload.with(|payload| unsafe { *payload = 0 }));
    }

    /// What has run, as a mask.
    pub(crate) fn ran(&self) -> u32 {
        let bit = |(task, runs): (usize, &Count)| runs.load(Relaxed) << task;
        self.runs.iter().enumerate().map(bit).sum()
    }

    /// The task with this number.
    pub(crate) fn task(&'static self, task: usize) -> impl FnOnce() + Send + 'static {
        // SAFETY: nobody has the task yet.
        self.payloads[task].with(|payload| unsafe { *payload = task + 1 });
        move || self.run(task)
    }
}

/// A latent fork that reports to the tally like a task.
#[repr(C)]
pub(crate) struct Fork {
    header: Header,
    tally: &'static Tally,
    task: usize,
}

impl Fork {
    pub(crate) fn new(tally: &'static Tally, task: usize) -> Fork {
        // SAFETY: nobody has the task yet.
        tally.payloads[task].with(|payload| unsafe { *payload = task + 1 });
        Fork { header: Header { run: run_fork }, tally, task }
    }

    /// The pointer that stands in a queue.
    pub(crate) fn header(&self) -> *mut Header {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// By whoever has settled it.
    pub(crate) fn run(&self) {
        self.tally.run(self.task);
    }
}

/// # Safety The header is that of a fork which lives.
unsafe fn run_fork(header: *mut Header, _: &Cells, _: Verb) {
    // SAFETY: the caller's promise.
    unsafe { &*header.cast::<Fork>() }.run();
}

fn host(workers: usize) -> (Topology, Vec<Seat>) {
    static HOST: OnceLock<Vec<(Topology, Vec<Seat>)>> = OnceLock::new();
    let made = |workers| seated(Topology::uniform(workers), workers);
    HOST.get_or_init(|| (1..=4).map(made).collect())[workers - 1].clone()
}

/// Two nodes.
fn two_nodes(workers: usize) -> (Topology, Vec<Seat>) {
    static HOST: OnceLock<Vec<(Topology, Vec<Seat>)>> = OnceLock::new();
    let made = |workers: usize| seated(Topology::from_spec(&format!("2*node cores={workers}")).unwrap(), 2 * workers);
    HOST.get_or_init(|| (1..=2).map(made).collect())[workers - 1].clone()
}

/// Node by node.
fn seated(topology: Topology, workers: usize) -> (Topology, Vec<Seat>) {
    let seats = plan(&topology, &Placement::Pack, Pin::default(), workers).expect("seats");
    (topology, seats)
}

/// An operation of the first task, whose tag is the address of its tally, has completed.
fn completed(completion: Completion) {
    // SAFETY: the models use no other tags.
    let tally = unsafe { &*std::ptr::with_exposed_provenance::<Tally>(completion.tag as usize) };
    tally.run(0);
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// # Safety `leaked` came from `leak`, and nobody uses it any more.
unsafe fn unleak<T>(leaked: &'static T) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(std::ptr::from_ref(leaked).cast_mut()) });
}

impl World {
    /// Workers of one shard, not running yet, and `tasks` tasks to come.
    pub(crate) fn new(workers: usize, tasks: usize, mode: BarrierMode, tuning: Tuning) -> World {
        Self::in_shards(1, workers, tasks, mode, tuning)
    }

    /// `shards` shards of `workers` workers each.
    pub(crate) fn in_shards(shards: usize, workers: usize, tasks: usize, mode: BarrierMode, tuning: Tuning) -> World {
        Self::on(host(shards * workers), shards, workers, tasks, mode, tuning)
    }

    /// Two nodes of one shard of `workers` workers each.
    pub(crate) fn in_nodes(workers: usize, tasks: usize, mode: BarrierMode, tuning: Tuning) -> World {
        Self::on(two_nodes(workers), 2, workers, tasks, mode, tuning)
    }

    fn on(
        (topology, seats): (Topology, Vec<Seat>),
        shards: usize,
        workers: usize,
        tasks: usize,
        mode: BarrierMode,
        tuning: Tuning,
    ) -> World {
        let fences = match (mode, tuning.no_membarrier) {
            (BarrierMode::Fence, true) => Fences::All,
            (BarrierMode::Fence, false) => Fences::Submits,
            _ => Fences::None,
        };
        lights_out(fences == Fences::All);
        let remote = |seat: Seat| Remote::new(seat.index / workers, seat.index % workers, seat);
        let own = |remote| Local::new(remote).expect("pages");
        let mut shared = Shared::new(
            1,
            PhaseWord::new().expect("no page is mapped here"),
            Mode::new(fences),
            idle_words(shards, fences).expect("no page is mapped here"),
            seats.into_iter().map(remote).map(own).collect(),
            None,
            Duration::ZERO,
            Hooks { panicked: None, started: None, stopped: None },
            tuning,
            topology.into(),
        );
        shared.complete = completed;
        let tally = Tally {
            runs: (0..tasks).map(|_| Count::new(0)).collect(),
            payloads: (0..tasks).map(|_| Racy::new(0)).collect(),
            done: AtomicU32::new(0),
            parker: Parker::new(),
            helpers: shared.workers.iter().map(|worker| worker.parker.clone()).collect(),
        };
        World { shared: Arc::new(shared), tally: leak(tally), depots: leak(Depots::default()) }
    }

    /// A thread of the model with a worker's context.
    pub(crate) fn on_worker(&self, index: usize, body: impl FnOnce(&Context) + 'static) -> thread::JoinHandle<()> {
        let (shared, depots) = (self.shared.clone(), self.depots);
        thread::spawn(move || {
            let cells = Cells::of(depots);
            let context = Context::new(&shared, index, &cells, 0);
            body(&context);
            drop(context);
            shared.left();
        })
    }

    /// The real worker, from its first look to its end.
    pub(crate) fn worker(&self, index: usize) -> thread::JoinHandle<()> {
        self.on_worker(index, Context::main)
    }

    /// A worker that leaves as soon as all tasks have run, so that the end of the scheduler is no part of the model.
    pub(crate) fn helper(&self, index: usize) -> thread::JoinHandle<()> {
        self.helper_with(index, |_| ())
    }

    /// The same, and `first` comes before it looks for work.
    pub(crate) fn helper_with(&self, index: usize, first: impl FnOnce(&Context) + 'static) -> thread::JoinHandle<()> {
        let all = All(self.tally);
        self.on_worker(index, move |context| {
            first(context);
            context.help(&all);
        })
    }

    /// A lane for the calling thread.
    pub(crate) fn submitter(&self) -> Submitter {
        Submitter::new(&self.shared).expect("open")
    }

    /// A lane for tasks that should run at `place`.
    pub(crate) fn submitter_for(&self, place: Place) -> Submitter {
        Submitter::aimed(&self.shared, place).expect("open")
    }

    /// Somebody unparks a worker who was not chosen: a token left over from an earlier wait.
    pub(crate) fn stray_token(&self, worker: usize) -> thread::JoinHandle<()> {
        let shared = self.shared.clone();
        thread::spawn(move || _ = shared.workers[worker].parker.unpark())
    }

    /// Closes and waits for the workers' threads.
    pub(crate) fn finish(self, workers: impl IntoIterator<Item = thread::JoinHandle<()>>) {
        self.shared.close(false);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(self.shared.phase.get(), Phase::Finished);
        assert!(self.shared.all_left());
        self.free();
    }

    /// Waits for the helpers.
    pub(crate) fn join(self, helpers: impl IntoIterator<Item = thread::JoinHandle<()>>) {
        helpers.into_iter().for_each(|helper| helper.join().unwrap());
        self.free();
    }

    /// All threads are gone: nothing may be left anywhere.
    pub(crate) fn free(self) {
        assert_eq!(self.shared.queued(&self.shared.lanes.scanner().pin()), 0, "left behind");
        self.abandon();
    }

    /// All threads are gone, and what is queued is forgotten.
    pub(crate) fn abandon(self) {
        drop(self.shared);
        // SAFETY: all threads of the model have ended.
        unsafe { unleak(self.tally) };
        // SAFETY: as above.
        unsafe { unleak(self.depots) };
    }
}
