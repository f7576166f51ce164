//! A snapshot of what the scheduler has done.

use crate::mode::BarrierMode;
use crate::sync::{Acquire, Relaxed};
use crate::worker::Shared;

/// What a scheduler has done since it was built, and holds now. Counters of different workers are read one after the
/// other, so sums may be off by what happens meanwhile; in a quiet scheduler they are exact.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// One entry per worker.
    pub workers: Vec<WorkerMetrics>,
    /// Tasks in lanes and worker queues now.
    pub queued: u64,
    /// Tasks run (forks that were stolen included, forks that were not excluded).
    pub tasks: u64,
    /// Detached tasks that panicked.
    pub panics: u64,
    /// Tasks dropped unrun by an aborting shutdown.
    pub dropped: u64,
    /// Successful steals.
    pub steals: u64,
    /// Tasks and forks they brought.
    pub stolen: u64,
    /// Times a worker published on behalf of a stuck one.
    pub rescues: u64,
    /// Workers woken by a system call.
    pub wakes: u64,
    /// Times a worker went to sleep.
    pub parks: u64,
    /// Calls of `membarrier(2)`.
    pub membarriers: u64,
    /// Lanes in the list: one per thread that submits, and not yet reclaimed ones of threads that have ended.
    pub lanes: usize,
    /// Submitters that sleep because the scheduler is full.
    pub blocked: usize,
    /// Threads that stand in for a worker now, because a nested wait has used its stack up.
    pub spares: usize,
    /// The barrier in use.
    pub barrier: BarrierMode,
    /// Workers whose thread has not ended.
    pub alive: usize,
    /// Workers that could not be bound to their CPUs.
    pub unbound: usize,
}

/// What one worker has done.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// Its index.
    pub index: usize,
    /// Its node, as an index into the topology's nodes.
    pub node: usize,
    /// The CPU it is meant for, if it is meant for one.
    pub cpu: Option<u32>,
    /// It is bound as its seat says.
    pub bound: bool,
    /// Tasks run or, by an aborting shutdown, dropped.
    pub tasks: u64,
    /// Detached tasks that panicked.
    pub panics: u64,
    /// Successful steals.
    pub steals: u64,
    /// Tasks and forks they brought.
    pub stolen: u64,
    /// Times it published on behalf of a stuck worker.
    pub rescues: u64,
    /// Times it went to sleep, short sleeps of the standby included.
    pub parks: u64,
    /// Sleeps of the standby that ended by time.
    pub naps: u64,
    /// Times it became a searcher.
    pub searches: u64,
    /// Batches claimed from lanes.
    pub claims: u64,
    /// Tasks moved to its lane because its ring was full.
    pub spills: u64,
}

impl Metrics {
    pub(crate) fn of(shared: &Shared) -> Self {
        let workers: Vec<_> = (0..shared.workers.len()).map(|index| WorkerMetrics::of(shared, index)).collect();
        let sum = |field: fn(&WorkerMetrics) -> u64| workers.iter().map(field).sum::<u64>();
        let scanner = shared.lanes.scanner();
        let dropped = shared.dropped.load(Relaxed);
        Metrics {
            queued: shared.queued(&scanner.pin()),
            tasks: sum(|w| w.tasks).saturating_sub(dropped),
            panics: sum(|w| w.panics),
            dropped,
            steals: sum(|w| w.steals),
            stolen: sum(|w| w.stolen),
            rescues: sum(|w| w.rescues),
            wakes: shared.wakes.load(Relaxed),
            parks: sum(|w| w.parks),
            membarriers: shared.mode.heavies(),
            lanes: shared.lanes.count(),
            blocked: shared.credits.as_ref().map_or(0, |credits| credits.blocked() as usize),
            spares: shared.spares.load(Relaxed) as usize,
            barrier: shared.mode.get(),
            alive: shared.alive.load(Acquire) as usize,
            unbound: workers.iter().filter(|w| !w.bound).count(),
            workers,
        }
    }
}

impl WorkerMetrics {
    fn of(shared: &Shared, index: usize) -> Self {
        let worker = &shared.workers[index];
        let counters = &worker.counters.0;
        WorkerMetrics {
            index,
            node: worker.node,
            cpu: worker.seat.cpu.map(|cpu| cpu.get()),
            bound: worker.unbound.load(Relaxed) == 0,
            tasks: counters.tasks.get(),
            panics: counters.panics.get(),
            steals: counters.steals.get(),
            stolen: counters.stolen.get(),
            rescues: counters.rescues.get(),
            parks: counters.parks.get(),
            naps: counters.naps.get(),
            searches: counters.searches.get(),
            claims: counters.claims.get(),
            spills: counters.spills.get(),
        }
    }
}
