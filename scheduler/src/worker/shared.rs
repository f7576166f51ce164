//! What all threads of one scheduler share, and what they may do with it.

use super::context::Context;
use super::remote::Remote;
use super::rests::Rests;
use crate::config::LANES;
use crate::config::STACK_SIZE;
use crate::credit::Credits;
use crate::driver::{Caps, Completion};
use crate::error::SubmitError;
use crate::idle::IdleWord;
use crate::lanes::{Entry, LaneTable};
use crate::mode::BarrierMode;
use crate::mode::Mode;
use crate::phase::{Phase, PhaseWord};
use crate::policy::{Layout, Ring, Verdict, consult, reaches_out};
use crate::sync::{
    Acquire, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, FutexWord, Pin, Relaxed, Release, Wiped, full_fence, light,
    ord, planted,
};
use numa::Local;
use std::any::Any;
use std::time::{Duration, Instant};

/// Called with a panic's payload.
pub type PanicHook = dyn Fn(&(dyn Any + Send)) + Send + Sync;

/// What the user hooked in.
pub struct Hooks {
    /// Called on the worker when a detached task has panicked.
    pub panicked: Option<Box<PanicHook>>,
    /// Called on each worker before its first task, with its index and node.
    pub started: Option<Box<dyn Fn(usize, usize) + Send + Sync>>,
    /// Called on each worker after its last task.
    pub stopped: Option<Box<dyn Fn(usize, usize) + Send + Sync>>,
}

/// What the policy believes instead of what it sees: so that counts do not depend on the clock, and so that a test can
/// take a safety net away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tuning {
    /// The CPU that a submitting thread runs on.
    pub cpu: Option<fn() -> u32>,
    /// Every task takes so many nanoseconds.
    pub task_ns: Option<u64>,
    /// Nobody becomes fast and nobody stands by: no sleep has a limit, so a lost wake-up shows as a hang.
    pub no_standby: bool,
    /// Nobody steals, and nobody wakes another worker for what only a theft could give it.
    #[cfg(feature = "measure")]
    pub no_steal: bool,
    /// The kernel refuses membarrier from the start.
    pub no_membarrier: bool,
    /// What rings may use.
    pub io: Caps,
    /// Who is told what completes in them.
    pub complete: Option<fn(Completion)>,
}

impl Tuning {
    /// Believe what you see.
    pub const NONE: Tuning = Tuning {
        cpu: None,
        task_ns: None,
        no_standby: false,
        #[cfg(feature = "measure")]
        no_steal: false,
        no_membarrier: false,
        io: Caps::ALL,
        complete: None,
    };
}

/// Everything of a scheduler that outlives its handles.
pub struct Shared {
    /// Never reused in this process; 0 is nobody.
    pub id: u64,
    /// Open, closing, sealed, finished, forked.
    pub phase: PhaseWord,
    /// Membarrier or fence.
    pub mode: Mode,
    /// One idle word per shard of a few workers of one node.
    pub words: Wiped<IdleWord>,
    /// The word of lanes that aim at one worker.
    pub restless: IdleWord,
    /// The submitter lanes.
    pub lanes: LaneTable,
    /// Where the workers sit.
    pub layout: Layout,
    /// What others may touch of each worker, each on pages that the worker itself has made and touched.
    pub workers: Box<[Local<Remote>]>,
    /// The capacity, if there is one.
    pub credits: Option<Credits>,
    /// Longest spin before a park.
    pub spin: Duration,
    /// What the user hooked in.
    pub hooks: Hooks,
    /// What the policy believes.
    pub tuning: Tuning,
    /// The host.
    pub topology: std::sync::Arc<numa::Topology>,
    /// How often workers have gone idle, and how many of the idle sleep inside a join or scope.
    pub rests: Rests,
    /// Workers whose thread has not left.
    pub alive: AtomicU32,
    /// Wake-ups by system call, by anybody.
    pub wakes: AtomicU64,
    /// Workers chosen to wake up: of the same cache, of the same node, of another node.
    pub choices: [AtomicU64; 3],
    /// Lanes that moved with their thread.
    pub moves: AtomicU64,
    /// Tasks dropped by an aborting shutdown.
    pub dropped: AtomicU64,
    /// Threads that stand in for a worker whose stack is used up.
    pub spares: AtomicU64,
    /// Runs something on a thread that stands in for a worker; set by whoever knows where its submits go.
    pub stand_in: fn(&Context, &dyn Fn()),
    /// Stack of a worker in bytes.
    pub stack_size: usize,
    /// Lane blocks freed since the allocator was last asked to give memory back.
    pub freed: AtomicU64,
    /// Somebody has used a timer.
    pub timed: AtomicBool,
    /// Somebody has used a ring, or wants to.
    pub wired: AtomicBool,
    /// Workers may have rings.
    pub rings: bool,
    /// Is told what completes, on the worker whose ring it was in, or as the worker ends; must not unwind.
    pub complete: fn(Completion),
    /// Whose ring is next.
    pub(super) next_ring: AtomicUsize,
    /// Threads in `wait_idle` or `shutdown`, and the word they sleep on.
    watchers: AtomicUsize,
    quiet: FutexWord,
}

/// What a look at everything says.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Quiet {
    /// Nobody has anything to do.
    Yes,
    /// Nobody does anything, and something is queued. It may be a submission that is about to be taken back, so that
    /// nobody will wake anybody for it: look again.
    Left,
    /// Somebody is up, and will look when he goes to sleep.
    No,
}

impl Shared {
    /// Puts the parts together; everybody is busy until the workers say otherwise.
    #[expect(clippy::too_many_arguments, reason = "the one caller is the builder")]
    pub fn new(
        id: u64,
        phase: PhaseWord,
        mode: Mode,
        words: Wiped<IdleWord>,
        workers: Box<[Local<Remote>]>,
        credits: Option<Credits>,
        spin: Duration,
        hooks: Hooks,
        tuning: Tuning,
        topology: std::sync::Arc<numa::Topology>,
    ) -> Self {
        let (seats, shards): (Vec<_>, Vec<_>) = workers.iter().map(|w| (w.seat.clone(), w.shard)).unzip();
        let layout = Layout::grouped(&topology, &seats, &shards);
        debug_assert!(workers.iter().zip(&layout.spots).all(|(w, spot)| w.bit == spot.bit), "bits in order");
        Shared {
            id,
            phase,
            mode,
            words,
            layout,
            restless: IdleWord::restless(),
            moves: AtomicU64::new(0),
            lanes: LaneTable::new(LANES),
            alive: AtomicU32::new(workers.len() as u32),
            workers,
            credits,
            spin,
            hooks,
            tuning,
            topology,
            rests: Rests::new(),
            wakes: AtomicU64::new(0),
            choices: [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)],
            dropped: AtomicU64::new(0),
            spares: AtomicU64::new(0),
            stack_size: STACK_SIZE,
            stand_in: |_, work| work(),
            freed: AtomicU64::new(0),
            timed: AtomicBool::new(false),
            wired: AtomicBool::new(false),
            rings: true,
            complete: |_| (),
            next_ring: AtomicUsize::new(0),
            watchers: AtomicUsize::new(0),
            quiet: FutexWord::new(0),
        }
    }

    // ---- wake ------------------------------------------------------------------------------------------------

    /// Wakes one idle worker of `shard` unless somebody there searches (or, by default, is fast). True: woken.
    fn wake_in(&self, shard: usize, ring: Ring, despite_fast: bool) -> bool {
        let Some(bit) = self.words[shard].choose(despite_fast, &self.layout.shards[shard].cores) else { return false };
        // Relaxed: a statistic.
        self.choices[ring as usize].fetch_add(1, Relaxed);
        self.unpark(self.layout.shards[shard].members[bit]);
        true
    }

    /// Wakes at most one idle worker for `backlog` tasks at `home`, nearest shard first, unless it comes upon somebody
    /// who will find them: a searcher or, by default, somebody fast who is at home there.
    pub fn wake_near(&self, home: usize, despite_fast: bool, backlog: u64) {
        for &(shard, ring) in &self.layout.shards[home].near {
            if ring == Ring::Remote && !reaches_out(backlog, planted("remote-trusted") || self.watched()) {
                return;
            }
            let woken = match consult(ring, self.words[shard].load().for_wake(), despite_fast) {
                Verdict::Rely => true,
                Verdict::Wake => self.wake_in(shard, ring, despite_fast || ring == Ring::Remote),
                Verdict::Pass => false,
            };
            if woken {
                return;
            }
        }
    }

    /// A submitter or an owner with `backlog` tasks to give saw that its shard has nobody looking: wakes at most one
    /// worker, nearest shard first.
    #[cold]
    pub fn notify(&self, home: usize, backlog: u64) {
        if self.words.len() > 1 {
            // The look at the other shards' searchers and standby: as for the own shard in `IdleWord::settle`.
            full_fence("I4");
        }
        self.wake_near(home, false, backlog);
    }

    /// There is a task for `worker` in a lane that aims at it: wakes it, or, if it is up and nobody stands by, somebody
    /// who gives it some time and then helps.
    #[cold]
    pub fn notify_worker(&self, worker: usize) {
        // As in `notify`; and the lane's word is no word, so that in the fence mode this is the fence of the submit.
        full_fence("I4");
        let target = &self.workers[worker];
        if self.words[target.shard].choose_this(target.bit) {
            // Relaxed: a statistic.
            self.choices[Ring::Cache as usize].fetch_add(1, Relaxed);
            self.unpark(worker);
        } else if !planted("aimed-trusted") && !self.watched() {
            self.wake_near(target.shard, true, u64::MAX);
        }
    }

    /// Somebody stands by.
    pub fn watched(&self) -> bool {
        self.words.iter().any(|word| word.load().standby())
    }

    pub(super) fn unpark(&self, worker: usize) {
        if self.workers[worker].parker.unpark() {
            // Relaxed: a statistic.
            self.wakes.fetch_add(1, Relaxed);
        }
    }

    /// Shutdown only: wakes everybody who is idle. Whoever goes idle later sees the phase that was stored before.
    pub fn wake_all(&self) {
        // Both modes of the barrier: a parker announces, passes its heavy side, and looks at the phase.
        light();
        full_fence("C1");
        for (index, worker) in self.workers.iter().enumerate() {
            if self.words[worker.shard].choose_this(worker.bit) {
                self.unpark(index);
            }
        }
    }

    /// The heavy side of the barrier, for parkers and the closer.
    #[inline]
    pub fn heavy_side(&self) -> bool {
        self.mode.heavy_side(&self.words)
    }

    /// The heavy side of the barrier against an owner in a pop.
    pub fn rescue_side(&self) -> bool {
        self.mode.rescue_side(&self.words)
    }

    /// Open -> closing -> sealed: refuses submissions, and makes everything accepted visible to the workers.
    pub fn close(&self, abort: bool) {
        if abort {
            self.phase.set_abort();
        }
        // The words first: a submitter who has read Closing has cut its lane, and its next task must not pass for
        // accepted because the word still looks calm.
        let close_words = || self.words.iter().for_each(IdleWord::set_closed);
        if !planted("closed-late") {
            close_words();
        }
        if !self.phase.advance(Phase::Open, Phase::Closing) {
            return;
        }
        if planted("closed-late") {
            close_words();
        }
        // E2 of the phase protocol. Without the barrier there is only time: a store stays in a buffer for less.
        while !planted("close-no-barrier") && !self.heavy_side() {
            std::thread::sleep(Duration::from_millis(10));
            if self.mode.get() == BarrierMode::Switching {
                break;
            }
        }
        self.phase.advance(Phase::Closing, Phase::Sealed);
        if let Some(credits) = &self.credits {
            credits.close();
        }
        self.wake_all();
    }

    // ---- what there is to do ---------------------------------------------------------------------------------

    /// Some lane holds tasks.
    pub fn backlog(&self, pin: &Pin) -> bool {
        self.lanes.scan(pin, 0, |entry| (entry.lane.backlog() != 0).then_some(())).is_some()
    }

    /// Tasks in lanes and worker queues; a snapshot that may be stale by the time it returns.
    pub fn queued(&self, pin: &Pin) -> u64 {
        let mut queued = 0;
        self.lanes.scan(pin, 0, |entry| -> Option<()> {
            queued += entry.lane.backlog();
            None
        });
        queued + self.workers.iter().map(|w| u64::from(w.public_len() + w.private_hint())).sum::<u64>()
    }

    /// Every worker is idle with an empty stack, and no queue holds a task. The caller has passed the heavy side after
    /// the last thing it wants covered.
    ///
    /// A worker may be up between two looks at it, and take a task from one queue before we look there and leave
    /// another one where we have looked already. So the looks are framed: idle before and after, and nobody has gone
    /// idle between.
    pub fn quiescent(&self, pin: &Pin) -> bool {
        self.quiet(pin) == Quiet::Yes
    }

    /// See [`Shared::quiescent`].
    pub(super) fn quiet(&self, pin: &Pin) -> Quiet {
        let before = self.rests.undisturbed();
        if before.is_none() || !self.all_idle() {
            return Quiet::No;
        }
        if self.backlog(pin) || self.workers.iter().any(|w| w.public_len() + w.private_hint() != 0) {
            return if planted("quiet-sleeps-on-left") { Quiet::No } else { Quiet::Left };
        }
        let still = planted("quiet-one-look") || self.all_idle() && self.rests.undisturbed() == before;
        if still { Quiet::Yes } else { Quiet::No }
    }

    fn all_idle(&self) -> bool {
        let idle: u32 = self.words.iter().map(|w| w.load_acquire().idle().count_ones()).sum();
        idle as usize == self.workers.len()
    }

    /// A parker has found the scheduler quiescent: tells whoever waits for that.
    pub fn announce_quiet(&self) {
        // The heavy side between the announcement and this load pairs with the light side (or W6) in `await_quiet`.
        if self.watchers.load(Relaxed) != 0 {
            self.ring_quiet();
        }
    }

    /// Whoever waits for a quiet moment, or for the end, looks again.
    #[cold]
    fn ring_quiet(&self) {
        // W4: who has seen this ring (and passed W6) sees what it is about.
        self.quiet.value.fetch_add(1, ord("W4", Release));
        super::remote::wake_word(&self.quiet, u32::MAX);
    }

    /// Sleeps until `done()` or until the time is over; looks again whenever the scheduler becomes quiescent or a
    /// worker leaves. True: done.
    pub fn await_quiet(&self, limit: Duration, done: impl Fn() -> bool) -> bool {
        let deadline = Instant::now().checked_add(limit);
        // Relaxed: the barrier below orders it before the look.
        self.watchers.fetch_add(1, Relaxed);
        let result = loop {
            // Relaxed: W6 makes it an acquire load.
            let seen = self.quiet.value.load(Relaxed);
            // Both modes of the barrier: a parker announces, passes its heavy side, and looks whether somebody watches.
            light();
            full_fence("W6");
            if done() {
                break true;
            }
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break false;
            }
            let _ = self.quiet.wait(seen, left);
        };
        self.watchers.fetch_sub(1, Relaxed);
        result
    }

    /// A worker's thread is about to end.
    pub fn left(&self) {
        // W7: who knows that all have left (W8) sees what they have done.
        self.alive.fetch_sub(1, ord("W7", Release));
        self.ring_quiet();
    }

    /// Every worker's thread has ended, or is about to and touches nothing any more.
    pub fn all_left(&self) -> bool {
        self.alive.load(ord("W8", Acquire)) == 0
    }

    /// The submitting thread is about to begin a block of `entry`, its lane: has it moved?
    #[cold]
    pub fn move_lane(&self, entry: &Entry) {
        let Some(shard) = self.home_shard() else { return };
        if self.layout.shard_ring(entry.shard(), shard) != Ring::Cache {
            entry.move_to(&self.words[shard], shard);
            // Relaxed: a statistic.
            self.moves.fetch_add(1, Relaxed);
        }
    }

    /// The shard nearest to the calling thread, if that can be told.
    pub fn home_shard(&self) -> Option<usize> {
        let cpu = match self.tuning.cpu {
            _ if self.words.len() == 1 => None,
            Some(believed) => Some(numa::CpuId::new(believed())),
            None if self.topology.is_live() => numa::current_cpu().ok(),
            None => None,
        };
        cpu.and_then(|cpu| self.layout.shard_at(&self.topology, cpu))
    }

    /// Why a submission that did not find the scheduler open is refused.
    pub fn refusal<F>(&self, f: F) -> SubmitError<F> {
        match self.phase.get() {
            Phase::Forked => SubmitError::Forked(f),
            _ => SubmitError::Closed(f),
        }
    }
}
