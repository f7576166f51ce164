//! Threads: starting them, and ending them in order.

use crate::builder::{Barrier, Builder};
use crate::credit::Credits;
use crate::error::BuildError;
use crate::future::retire_all;
use crate::idle::{Fences, IdleWord, idle_words};
use crate::mode::Mode;
use crate::phase::{Phase, PhaseWord};
use crate::policy::Layout;
use crate::submit::{enter_worker, forget_last, lend_worker};
use crate::sync::{Arc, Mutex, ticks_per_us};
use crate::sys::{self, AroundFork};
use crate::task::cells;
use crate::worker::{Context, Remote, Shared, without_unwinding};
use numa::{Seat, Topology};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The threads of one scheduler.
pub(crate) struct Pool {
    pub(crate) shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Starts the workers of a checked configuration and waits until all of them run.
pub(crate) fn start(mut builder: Builder) -> Result<Pool, BuildError> {
    sys::watch_forks(&AroundFork { before: cells::lock, parent: cells::unlock, child: forget_in_child });
    // Measured before the first thread: a fork in the middle of it would leave it unfinished in the child for ever.
    ticks_per_us();
    let topology = builder.topology.take().unwrap_or_else(Topology::discover);
    let workers = builder.workers.unwrap_or_else(|| topology.default_workers());
    let placement = builder.placement.take().unwrap_or_default();
    let seats = numa::plan(&topology, &placement, builder.pin, workers).map_err(BuildError::Placement)?;
    let barrier = builder.barrier.unwrap_or_default();
    let fences = choose_fences(barrier, builder.tuning.no_membarrier)?;
    let mut mode = Mode::new(fences);
    if barrier == Barrier::Membarrier {
        mode.pin();
    }
    let phase = PhaseWord::new().map_err(BuildError::Memory)?;
    let spin = builder.spin_for(&topology, workers);
    let remotes = seat(&topology, seats);
    let shards = remotes.iter().map(|worker| worker.shard + 1).max().unwrap_or(1);
    let words = idle_words(shards, fences).map_err(BuildError::Memory)?;
    let credits = builder.capacity.map(Credits::new);
    let mut shared = Shared::new(
        sys::next_id(),
        phase,
        mode,
        words,
        remotes,
        credits,
        spin,
        builder.hooks,
        builder.tuning,
        topology,
    );
    shared.stack_size = builder.stack_size;
    shared.stand_in = lend_worker;
    let shared = Arc::new(shared);
    let pool = Pool { shared, threads: Mutex::new(Vec::with_capacity(workers)) };
    pool.spawn(builder.stack_size, &builder.name)?;
    Ok(pool)
}

fn choose_fences(barrier: Barrier, refused: bool) -> Result<Fences, BuildError> {
    let registered = if refused { Err(io::ErrorKind::Unsupported.into()) } else { sys::membarrier_register() };
    match (barrier, registered) {
        (Barrier::Fence, Ok(())) => Ok(Fences::Submits),
        (Barrier::Fence | Barrier::Auto, Err(_)) => Ok(Fences::All),
        (_, Ok(())) => Ok(Fences::None),
        (Barrier::Membarrier, Err(refused)) => Err(BuildError::Membarrier(refused)),
    }
}

/// Deals the workers out to shards.
fn seat(topology: &Topology, seats: Vec<Seat>) -> Box<[Remote]> {
    let spots = Layout::new(topology, &seats).spots;
    seats.into_iter().zip(spots).map(|(seat, spot)| Remote::new(spot.shard, spot.bit, seat)).collect()
}

impl Pool {
    fn spawn(&self, stack_size: usize, name: &dyn Fn(usize) -> String) -> Result<(), BuildError> {
        let wanted = self.shared.workers.len();
        // Before the first thread: the function is the user's and may panic. A NUL cannot be part of a name.
        let names: Vec<String> = (0..wanted).map(|index| name(index).replace('\0', "")).collect();
        let (ready, readies) = channel();
        for (index, name) in names.into_iter().enumerate() {
            let (shared, ready) = (self.shared.clone(), ready.clone());
            let thread = std::thread::Builder::new().name(name).stack_size(stack_size);
            match thread.spawn(move || work(&shared, index, &ready)) {
                Ok(thread) => self.threads().push(thread),
                Err(source) => {
                    self.give_up(index);
                    return Err(BuildError::Spawn { started: index, wanted, source });
                }
            }
        }
        drop(ready);
        for _ in 0..wanted {
            // A worker that could not even start has sent nothing; its sender is gone, and so is the channel in the
            // end.
            let _ = readies.recv();
        }
        Ok(())
    }

    /// Some thread was refused: those that run leave again.
    fn give_up(&self, started: usize) {
        self.shared.words.iter().for_each(IdleWord::set_closed);
        self.shared.phase.advance(Phase::Open, Phase::Finished);
        while self.threads().iter().any(|thread| !thread.is_finished()) {
            self.shared.wake_all();
            std::thread::sleep(Duration::from_micros(100));
        }
        debug_assert_eq!(self.threads().len(), started);
        self.join();
    }

    fn threads(&self) -> crate::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Refuses submissions from now on; see [`Shared::close`].
    pub(crate) fn close(&self, abort: bool) {
        self.shared.close(abort);
    }

    /// Waits until every worker has left; true when they have.
    pub(crate) fn await_end(&self, limit: Duration) -> bool {
        let shared = &self.shared;
        shared.await_quiet(limit, || shared.all_left())
    }

    /// Joins the threads, which have left or are about to; the calling thread's own, if it is a worker, is let go.
    pub(crate) fn join(&self) {
        let own = std::thread::current().id();
        let threads = std::mem::take(&mut *self.threads());
        for thread in threads {
            if thread.thread().id() != own {
                // A worker's panics are caught; if one got through there is nothing to add to its message.
                let _ = thread.join();
            }
        }
    }

    /// The threads go on by themselves.
    pub(crate) fn detach(&self) {
        self.threads().clear();
    }
}

extern "C" fn forget_in_child() {
    cells::unlock();
    forget_last();
}

/// The main function of a worker's thread.
fn work(shared: &Arc<Shared>, index: usize, ready: &Sender<()>) {
    let worker = &shared.workers[index];
    if shared.topology.is_live()
        && let Some(cpus) = &worker.seat.bind
        && numa::bind_current_thread(cpus).is_err()
    {
        worker.unbound.store(1, crate::sync::Relaxed);
    }
    cells::enter(|cells| {
        let context = Context::new(shared, index, cells, sys::stack_floor());
        context.enter(|| {
            enter_worker(&context);
            // What is made once per process or thread is there before anybody can fork.
            cells.reserve(1);
            let _ = ready.send(());
            call(shared.hooks.started.as_deref(), &context);
            without_unwinding(|| context.main());
            forget_last();
            // What the ends of futures submit is refused; what they wake ends as well.
            without_unwinding(|| retire_all(&context));
        });
        // No worker any more: what the hook submits is refused.
        call(shared.hooks.stopped.as_deref(), &context);
    });
    shared.left();
}

type Hook = dyn Fn(usize, usize) + Send + Sync;

fn call(hook: Option<&Hook>, context: &Context) {
    let Some(hook) = hook else { return };
    let node = context.shared.workers[context.index].node;
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| hook(context.index, node))) {
        context.panicked(payload);
    }
}
