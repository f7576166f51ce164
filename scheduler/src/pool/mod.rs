//! Threads: starting them, and ending them in order.

mod recruits;

use crate::builder::{Barrier, Builder, Io};
use crate::credit::Credits;
use crate::error::BuildError;
use crate::idle::{Fences, idle_words};
use crate::mode::Mode;
use crate::phase::PhaseWord;
use crate::submit::{forget_last, lend_worker};
use crate::sync::{Arc, Mutex, Relaxed, ticks_per_us};
use crate::sys::{self, AroundFork};
use crate::task::cells;
use crate::worker::Shared;
use numa::Topology;
use recruits::Recruits;
use std::io;
use std::sync::Arc as Host;
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
    let topology = Host::new(builder.topology.take().unwrap_or_else(Topology::discover));
    let workers = builder.workers.unwrap_or_else(|| topology.default_workers());
    let placement = builder.placement.take().unwrap_or_default();
    let seats = numa::plan(&topology, &placement, builder.pin, workers).map_err(|error| builder.misplaced(error))?;
    let barrier = builder.barrier.unwrap_or_default();
    let fences = choose_fences(barrier, builder.tuning.no_membarrier)?;
    let mut mode = Mode::new(fences);
    if barrier == Barrier::Membarrier {
        mode.pin();
    }
    let phase = PhaseWord::new().map_err(BuildError::Memory)?;
    let spin = builder.spin_for(&topology, workers);
    let io = builder.io.unwrap_or_default();
    let rings = (io == Io::Uring).then_some(builder.tuning.io);
    let recruits = Recruits::spawn(&topology, seats, builder.stack_size, &builder.name, rings)?;
    let remotes = recruits.remotes()?;
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
    shared.rings = io != Io::Epoll;
    shared.complete = crate::io::complete;
    if let Some(complete) = shared.tuning.complete {
        shared.complete = complete;
    }
    // Relaxed: nobody runs yet.
    shared.wired.store(io == Io::Uring, Relaxed);
    Ok(recruits.employ(Arc::new(shared)))
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

impl Pool {
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
