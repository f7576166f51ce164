//! The half of a worker that other threads may touch.
#![expect(unsafe_code, reason = "wakes a futex word by address")]

use super::io::Mail;
use crate::config::{FORKS, RING};
use crate::driver::{Inbox, IoDriver};
use crate::idle::Heed;
use crate::park::Parker;
use crate::policy::{Grain, Hidden};
use crate::queue::forks::Forks;
use crate::queue::local::Ring;
use crate::roll::Roll;
use crate::sync::{Acquire, Arc, AtomicU32, AtomicU64, FutexWord, Line, Mutex, Relaxed, ord};
use crate::task::raw::Header;
use crate::timer::{Alarm, Timers};
use std::sync::OnceLock;

/// Counters of one worker: written by it alone with plain adds, read by anybody.
#[derive(Default)]
pub struct Counters {
    /// Tasks run.
    pub tasks: Count,
    /// Tasks that panicked without a join handle to tell.
    pub panics: Count,
    /// Successful steals by ring, and the tasks they brought.
    pub steals: [Count; 3],
    /// See `steals`.
    pub stolen: [Count; 3],
    /// Batches claimed from lanes of other nodes, and the tasks they brought.
    pub far_claims: Count,
    /// See `far_claims`.
    pub far_claimed: Count,
    /// Blocks that such a claim emptied and so sent home.
    pub blocks_returned: Count,
    /// Times it published on behalf of a stuck owner.
    pub rescues: Count,
    /// Times it slept.
    pub parks: Count,
    /// Times a sleep as the standby ended by time.
    pub naps: Count,
    /// Times it became a searcher.
    pub searches: Count,
    /// Batches claimed from lanes.
    pub claims: Count,
    /// Tasks moved to its lane because its ring was full.
    pub spills: Count,
    /// Times its binding was found to be lost, and times it was made again.
    pub pin_losses: Count,
    /// See `pin_losses`.
    pub pin_repairs: Count,
    /// Cells sent home, and the trips that took.
    pub cells_returned: Count,
    /// See `cells_returned`.
    pub cell_trips: Count,
    /// Operations pushed into its ring.
    pub operations: Count,
    /// Completions that it has told of.
    pub completions: Count,
    /// Calls of `io_uring_enter`.
    pub enters: Count,
    /// Sleeps in the ring; they are among `parks`.
    pub ring_parks: Count,
    /// Operations that had not ended when it did.
    pub leaked: Count,
}

/// A counter with one writer.
pub struct Count(AtomicU64);

impl Default for Count {
    fn default() -> Self {
        Count(AtomicU64::new(0))
    }
}

impl Count {
    /// The owner adds `n`. Relaxed, and no read-modify-write: there is one writer, and readers want no more than a
    /// number.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }
    /// Back to zero, while the owner adds nothing. Relaxed: as above.
    #[cfg(feature = "measure")]
    pub fn clear(&self) {
        self.0.store(0, Relaxed);
    }
    /// The owner has counted elsewhere.
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }
    /// The value now, or a little earlier.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What the forks of one worker have been worth: a hint that thieves keep, and what follows from it for the owner's
/// look at the idle word. Two thieves at once may leave a mask that does not follow from the mean: until the next theft
/// the owner wakes somebody for nothing, or leaves a fork to the standby, who goes by the mean.
struct Worth {
    grain: AtomicU32,
    heed: AtomicU64,
}

/// What others may touch of one worker.
pub struct Remote {
    /// Tasks.
    pub ring: Ring<Header, RING>,
    /// Latent forks.
    pub forks: Forks<Header, FORKS>,
    /// The futures that it has polled and that are pending.
    pub roll: Roll<Header>,
    /// What it will wake at a stated time.
    pub timers: Arc<Timers>,
    /// Until when it sleeps, for the worker whose timers it guards.
    pub alarm: Alarm,
    /// Where it sleeps.
    pub parker: Arc<Parker>,
    /// 1 while it is counted as fast. Whoever takes the mark away uncounts it.
    fast: Line<AtomicU32>,
    /// What its forks have been worth.
    worth: Line<Worth>,
    /// Statistics, and the sign of life that the standby watches.
    pub counters: Line<Counters>,
    /// Its shard.
    pub shard: usize,
    /// Its bit in the shard's idle word.
    pub bit: usize,
    /// Its node, as an index into the topology.
    pub node: usize,
    /// The seat it was given, and whether it could be bound to it.
    pub seat: numa::Seat,
    /// Set by the worker when binding failed.
    pub unbound: AtomicU32,
    /// What others want of its ring.
    pub inbox: Inbox,
    /// What has completed while another thread was this worker.
    pub mail: Mutex<Mail>,
    /// What does its I/O, once it has needed to know.
    pub io: OnceLock<IoDriver>,
    /// What it has taken, and when.
    #[cfg(feature = "measure")]
    pub record: super::record::Record,
}

impl Remote {
    /// A worker that has not started.
    pub fn new(shard: usize, bit: usize, seat: numa::Seat) -> Self {
        Remote {
            ring: Ring::new(),
            forks: Forks::new(),
            roll: Roll::new(),
            timers: Arc::new(Timers::new()),
            alarm: Alarm::new(),
            parker: Arc::new(Parker::new()),
            fast: Line(AtomicU32::new(0)),
            worth: Line(Worth {
                grain: AtomicU32::new(Grain::UNTRIED.bits()),
                heed: AtomicU64::new(Heed::COARSE.bits()),
            }),
            counters: Line(Counters::default()),
            shard,
            bit,
            node: seat.node,
            seat,
            unbound: AtomicU32::new(0),
            inbox: Inbox::new(),
            mail: Mutex::default(),
            io: OnceLock::new(),
            #[cfg(feature = "measure")]
            record: super::record::Record::new(),
        }
    }

    /// Tasks and forks that a thief can have at once.
    pub fn public_len(&self) -> u32 {
        self.ring.public_len() + self.forks.public_len()
    }

    /// Tasks and forks that only the owner or a rescue reaches.
    pub fn private_hint(&self) -> u32 {
        self.ring.private_hint() + self.forks.private_len()
    }

    /// What its forks have been worth. Relaxed, here and below: a hint.
    pub fn grain(&self) -> Grain {
        Grain::from_bits(self.worth.0.grain.load(Relaxed))
    }

    /// What its owner heeds after the push of a fork.
    #[inline(always)]
    pub fn heed(&self) -> Heed {
        Heed::from_bits(self.worth.0.heed.load(Relaxed))
    }

    /// A thief has run a fork of this worker in `ns`. A lost update changes the mean a little.
    pub fn learn_grain(&self, ns: u64) {
        let grain = self.grain().learn(ns);
        self.worth.0.grain.store(grain.bits(), Relaxed);
        let heed = if grain.is_fine() { Heed::FINE } else { Heed::COARSE };
        if heed != self.heed() {
            self.worth.0.heed.store(heed.bits(), Relaxed);
        }
    }

    /// What only its owner or a rescue reaches.
    #[inline]
    pub fn hidden(&self) -> Hidden {
        Hidden { tasks: self.ring.private_hint(), forks: self.forks.private_len(), grain: self.grain() }
    }

    /// The worker is counted as fast.
    #[inline(always)]
    pub fn is_fast(&self) -> bool {
        self.fast.0.load(Relaxed) == 1
    }

    /// Marks the worker; it has been counted before.
    pub fn mark_fast(&self) {
        // N1: the count is there before anybody can find the mark (N2) and take it away.
        self.fast.0.store(1, ord("N1", crate::sync::Release));
    }

    /// Takes the mark away. True: the caller must uncount it.
    pub fn unmark_fast(&self) -> bool {
        self.is_fast() && self.fast.0.swap(0, ord("N2", Acquire)) == 1
    }
}

/// Wakes sleepers of a word that outlives the call.
pub(super) fn wake_word(word: &FutexWord, count: u32) {
    // SAFETY: the word is borrowed.
    unsafe { FutexWord::wake(word, count) };
}
