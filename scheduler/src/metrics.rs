//! A snapshot of what the scheduler has done.

use crate::driver::IoDriver;
use crate::error::NoRing;
use crate::mode::BarrierMode;
use crate::sync::{Acquire, Relaxed};
use crate::worker::{Count, Shared};

/// Something counted by how far it came or went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ByDistance {
    /// Within a shared cache of one node; of tasks, those that were run where they were queued: by the worker that had
    /// queued them, or from a lane of its node.
    pub home: u64,
    /// Within one node otherwise.
    pub node: u64,
    /// Between nodes.
    pub remote: u64,
}

impl ByDistance {
    /// The sum.
    pub fn total(&self) -> u64 {
        self.home + self.node + self.remote
    }

    fn plus(self, other: ByDistance) -> ByDistance {
        let (home, node) = (self.home + other.home, self.node + other.node);
        ByDistance { home, node, remote: self.remote + other.remote }
    }
}

/// Whether distances are those of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Homes {
    /// The topology is that of the host, and workers are bound there.
    Real,
    /// The topology was given: homes are names, and what is counted says what the policy does, not what the host does.
    Virtual,
}

/// What a scheduler has done since it was built, and holds now. Counters of different workers are read one after the
/// other, so sums may be off by what happens meanwhile; in a quiet scheduler they are exact.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// One entry per worker.
    pub workers: Vec<WorkerMetrics>,
    /// Tasks in lanes and worker queues now.
    pub queued: u64,
    /// Tasks taken out of a queue and run, or dropped there because they were aborted (forks that were stolen included,
    /// forks that were not excluded).
    pub tasks: u64,
    /// Detached tasks that panicked.
    pub panics: u64,
    /// Tasks dropped unrun by an aborting shutdown.
    pub dropped: u64,
    /// Successful steals.
    pub steals: u64,
    /// Tasks and forks they brought.
    pub stolen: u64,
    /// Steals by distance between thief and victim; their sum is `steals`.
    pub steals_by: ByDistance,
    /// Tasks run, by how far they came: `home` were queued on the worker or in a lane of its node, `node` were taken
    /// from another worker of the node, `remote` from a worker or a lane of another node, or from a lane that aimed at
    /// another worker. A task that is taken twice counts twice outside of `home`.
    pub tasks_by: ByDistance,
    /// What the distances mean.
    pub homes: Homes,
    /// Times a worker published on behalf of a stuck one.
    pub rescues: u64,
    /// Workers woken by a system call.
    pub wakes: u64,
    /// Workers chosen to wake up, by distance from where the work was: whoever had not fallen asleep yet was told
    /// without a system call. Without the wakes that end the scheduler.
    pub wakes_by: ByDistance,
    /// Times a worker went to sleep.
    pub parks: u64,
    /// Calls of `membarrier(2)`.
    pub membarriers: u64,
    /// Lanes in the list: one per thread that submits, and not yet reclaimed ones of threads that have ended.
    pub lanes: usize,
    /// Times a lane moved to another node or cache, because its thread had.
    pub lane_moves: u64,
    /// Submitters that sleep because the scheduler is full.
    pub blocked: usize,
    /// Threads that stand in for a worker now, because a nested wait has used its stack up.
    pub spares: usize,
    /// The barrier in use.
    pub barrier: BarrierMode,
    /// Workers whose thread has not ended.
    pub alive: usize,
    /// Workers that are not bound to their CPUs now, although they should be: the kernel refuses.
    pub unbound: usize,
    /// Times a worker found that the kernel had taken its binding away (a cpuset shrank, a CPU went offline). Noticed
    /// when it wakes up and before it sleeps, or within 4,096 tasks.
    pub pin_losses: u64,
    /// Times a lost binding was made again.
    pub pin_repairs: u64,
    /// Cells (memory of tasks) that workers have sent home to the thread that made them, counted before long sleeps.
    pub cells_returned: u64,
    /// Trips that took: one locked instruction each.
    pub cell_trips: u64,
    /// Blocks (memory of 64 queued tasks) that a worker of another node has emptied and so sent home to the lane they
    /// came from, or one that a lane aimed at another worker; those emptied at home are not counted. Cells and blocks
    /// that end where they began make no trip.
    pub blocks_returned: u64,
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
    /// It is bound as its seat says, as far as is known, or has nothing to be bound to.
    pub bound: bool,
    /// What does its I/O, and why: `uring`, `uring without NO_IOWAIT`, `epoll: io_uring_setup EPERM`.
    pub io: IoDriver,
    /// Tasks run or, by an aborting shutdown, dropped.
    pub tasks: u64,
    /// Detached tasks that panicked.
    pub panics: u64,
    /// Successful steals.
    pub steals: u64,
    /// Those steals by distance.
    pub steals_by: ByDistance,
    /// Tasks run by how far they came: see [`Metrics::tasks_by`].
    pub tasks_by: ByDistance,
    /// Tasks and forks that steals brought.
    pub stolen: u64,
    /// Batches claimed from lanes of other nodes, or from lanes that aim at another worker.
    pub far_claims: u64,
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
    /// Times it found its binding taken away by the kernel.
    pub pin_losses: u64,
    /// Times it was bound again.
    pub pin_repairs: u64,
    /// Operations pushed into its ring.
    pub io_operations: u64,
    /// Completions of its ring that it has seen to.
    pub io_completions: u64,
    /// Calls of `io_uring_enter`.
    pub io_enters: u64,
    /// Sleeps in its ring, which it does while operations are in flight; they are among `parks`.
    pub io_parks: u64,
    /// Operations that had not ended in time when it did: what they may still write to is never freed.
    pub io_leaked: u64,
    /// Cells of other threads that it has sent home, as of its last long sleep.
    pub cells_returned: u64,
    /// Trips that took.
    pub cell_trips: u64,
    /// Blocks of lanes of other nodes, or that aim at another worker, which it has sent home.
    pub blocks_returned: u64,
}

impl Metrics {
    pub(crate) fn of(shared: &Shared) -> Self {
        let workers: Vec<_> = (0..shared.workers.len()).map(|index| WorkerMetrics::of(shared, index)).collect();
        let sum = |field: fn(&WorkerMetrics) -> u64| workers.iter().map(field).sum::<u64>();
        let by = |field: fn(&WorkerMetrics) -> ByDistance| {
            workers.iter().map(field).fold(ByDistance::default(), ByDistance::plus)
        };
        let [home, node, remote] = [0, 1, 2].map(|ring: usize| shared.choices[ring].load(Relaxed));
        let wakes_by = ByDistance { home, node, remote };
        let scanner = shared.lanes.scanner();
        let dropped = shared.dropped.load(Relaxed);
        Metrics {
            queued: shared.queued(&scanner.pin()),
            tasks: sum(|w| w.tasks).saturating_sub(dropped),
            panics: sum(|w| w.panics),
            dropped,
            steals: sum(|w| w.steals),
            stolen: sum(|w| w.stolen),
            steals_by: by(|w| w.steals_by),
            tasks_by: by(|w| w.tasks_by),
            homes: if shared.topology.is_live() { Homes::Real } else { Homes::Virtual },
            rescues: sum(|w| w.rescues),
            wakes: shared.wakes.load(Relaxed),
            wakes_by,
            parks: sum(|w| w.parks),
            membarriers: shared.mode.heavies(),
            lanes: shared.lanes.count(),
            lane_moves: shared.moves.load(Relaxed),
            blocked: shared.credits.as_ref().map_or(0, |credits| credits.blocked() as usize),
            spares: shared.spares.load(Relaxed) as usize,
            barrier: shared.mode.get(),
            alive: shared.alive.load(Acquire) as usize,
            unbound: workers.iter().filter(|w| !w.bound).count(),
            pin_losses: sum(|w| w.pin_losses),
            pin_repairs: sum(|w| w.pin_repairs),
            cells_returned: sum(|w| w.cells_returned),
            cell_trips: sum(|w| w.cell_trips),
            blocks_returned: sum(|w| w.blocks_returned),
            workers,
        }
    }
}

impl WorkerMetrics {
    fn of(shared: &Shared, index: usize) -> Self {
        let worker = &shared.workers[index];
        let counters = &worker.counters.0;
        let by = |counts: &[Count; 3]| counts.each_ref().map(Count::get);
        let ([cache, other, remote], [near, further, far]) = (by(&counters.steals), by(&counters.stolen));
        let steals_by = ByDistance { home: cache, node: other, remote };
        let (tasks, far_claimed) = (counters.tasks.get(), counters.far_claimed.get());
        let (node, remote) = (near + further, far + far_claimed);
        let unused = if shared.rings { IoDriver::Unused } else { IoDriver::Epoll(NoRing::Unwanted) };
        WorkerMetrics {
            index,
            node: worker.node,
            cpu: worker.seat.cpu.map(|cpu| cpu.get()),
            bound: worker.unbound.load(Relaxed) == 0,
            io: worker.io.get().copied().unwrap_or(unused),
            tasks,
            panics: counters.panics.get(),
            steals: steals_by.total(),
            steals_by,
            tasks_by: ByDistance { home: tasks.saturating_sub(node + remote), node, remote },
            stolen: near + further + far,
            far_claims: counters.far_claims.get(),
            rescues: counters.rescues.get(),
            parks: counters.parks.get(),
            naps: counters.naps.get(),
            searches: counters.searches.get(),
            claims: counters.claims.get(),
            spills: counters.spills.get(),
            pin_losses: counters.pin_losses.get(),
            pin_repairs: counters.pin_repairs.get(),
            io_operations: counters.operations.get(),
            io_completions: counters.completions.get(),
            io_enters: counters.enters.get(),
            io_parks: counters.ring_parks.get(),
            io_leaked: counters.leaked.get(),
            cells_returned: counters.cells_returned.get(),
            cell_trips: counters.cell_trips.get(),
            blocks_returned: counters.blocks_returned.get(),
        }
    }
}
