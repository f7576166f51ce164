#![doc = include_str!("README.md")]
#![expect(unsafe_code, reason = "wakes by address")]

use crate::sync::{Acquire, AtomicU64, FutexWord, Line, Relaxed, Release, ord, planted};
use std::fmt;

/// A lane's share is this part of the capacity, so that many lanes find some.
const SHARES: u64 = 64;
/// Most credits a lane holds: one block of its queue, beyond which the cost of taking them no longer shows.
const MAX_UNIT: u64 = 64;
/// For the futex call, whose count is signed.
const ALL: u32 = i32::MAX as u32;

/// Snapshot of the credit word: `closed:1 | blocked:23 | available:40`. Fields are counted up before and down after, so
/// that none ever borrows from its neighbour.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(u64);

impl Word {
    const AVAILABLE_BITS: u32 = 40;
    const MAX_AVAILABLE: u64 = (1 << Self::AVAILABLE_BITS) - 1;
    const BLOCKED_ONE: u64 = 1 << Self::AVAILABLE_BITS;
    const CLOSED: u64 = 1 << 63;

    fn available(self) -> u64 {
        self.0 & Self::MAX_AVAILABLE
    }
    /// Submitters that are in [`Credits::acquire`] and could not take any at first.
    fn blocked(self) -> u64 {
        (self.0 & !Self::CLOSED) >> Self::AVAILABLE_BITS
    }
    fn closed(self) -> bool {
        self.0 & Self::CLOSED != 0
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credits")
            .field("available", &self.available())
            .field("blocked", &self.blocked())
            .field("closed", &self.closed())
            .finish()
    }
}

/// How a blocking [`Credits::acquire`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Acquired {
    /// So many, at least one.
    Credits(u64),
    /// None: the credits are closed, or the caller's condition said so.
    Stopped,
}

/// The free capacity of a bounded scheduler, in tasks.
pub struct Credits {
    word: Line<AtomicU64>,
    /// Counts the wakes: a blocked submitter sleeps while it is what it was before its last look at `word`.
    bell: Line<FutexWord>,
    /// Tasks that were queued without a credit, and whose credit nobody has withheld yet.
    debt: AtomicU64,
    capacity: u64,
    unit: u64,
}

impl Credits {
    /// `capacity` credits, all of them available. More than 2^40 - 1 (a trillion) is taken as that.
    pub fn new(capacity: u64) -> Self {
        Self::new_at(capacity, (capacity / SHARES).clamp(1, MAX_UNIT), 0)
    }

    /// With a unit of its own, and the wake counter at `bell`; for tests.
    #[doc(hidden)]
    pub fn new_at(capacity: u64, unit: u64, bell: u32) -> Self {
        let capacity = capacity.min(Word::MAX_AVAILABLE);
        Credits {
            word: Line(AtomicU64::new(capacity)),
            bell: Line(FutexWord::new(bell)),
            debt: AtomicU64::new(0),
            capacity,
            unit,
        }
    }

    /// All credits there are.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How many a lane takes at a time: a 64th of the capacity, at least 1 and at most 64.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Available now; for metrics.
    pub fn available(&self) -> u64 {
        // Relaxed: a snapshot for people.
        Word(self.word.0.load(Relaxed)).available()
    }

    /// Submitters blocked now; for metrics.
    pub fn blocked(&self) -> u64 {
        // Relaxed: a snapshot for people.
        Word(self.word.0.load(Relaxed)).blocked()
    }

    /// Any thread. Takes up to `want` credits, all or some of them or 0; never waits. Also after [`Credits::close`].
    #[inline]
    pub fn take(&self, want: u64) -> u64 {
        // Relaxed: the exchange decides.
        let mut old = self.word.0.load(Relaxed);
        loop {
            let got = Word(old).available().min(want);
            if got == 0 {
                return 0;
            }
            // CR2: what the giver did before is visible to the taker.
            match self.word.0.compare_exchange(old, old - got, ord("CR2", Acquire), Relaxed) {
                Ok(_) => return got,
                Err(now) => old = now,
            }
        }
    }

    /// Any thread, before it queues a task without a credit. The next that are returned pay for it.
    pub fn borrow_one(&self) {
        // Relaxed: whoever claims the task sees this, because it precedes the publication, and gives afterwards.
        self.debt.fetch_add(1, Relaxed);
    }

    /// Withholds what was borrowed from `count` credits that come back; returns the rest.
    #[cold]
    fn pay(&self, count: u64) -> u64 {
        // Relaxed: see `borrow_one`; the exchange decides.
        let mut owed = self.debt.load(Relaxed);
        loop {
            let paid = owed.min(count);
            match self.debt.compare_exchange(owed, owed - paid, Relaxed, Relaxed) {
                Ok(_) => return count - paid,
                Err(now) => owed = now,
            }
        }
    }

    /// Any thread. Returns `count` credits that were taken. Wakes one blocked submitter per [`Credits::unit`] of
    /// them; makes no system call if nobody is blocked, and says whether it made one.
    #[inline]
    pub fn give(&self, count: u64) -> bool {
        // Relaxed: see `borrow_one`.
        let owed = self.debt.load(Relaxed) != 0 && !planted("credit_no_pay");
        let count = if owed { self.pay(count) } else { count };
        // CR1: see CR2. One word: either this sees the blocked submitter, or that one sees the credits.
        let old = Word(self.word.0.fetch_add(count, ord("CR1", Release)));
        debug_assert!(old.available() + count <= self.capacity, "more given than taken: {old:?} + {count}");
        if old.blocked() == 0 || count == 0 || planted("credit_blind_give") {
            return false;
        }
        self.wake(old.blocked().min(count.div_ceil(self.unit)).min(u64::from(ALL)) as u32);
        true
    }

    /// Any thread that may sleep. Like [`Credits::take`], but waits until there is at least one, until the credits are
    /// closed, or until `stop` says so. `stop` is asked before each sleep; whoever changes its answer calls
    /// [`Credits::rouse`] afterwards.
    pub fn acquire(&self, want: u64, stop: impl FnMut() -> bool) -> Acquired {
        match self.take(want) {
            0 if want != 0 => self.acquire_slow(want, stop),
            got => Acquired::Credits(got),
        }
    }

    #[cold]
    fn acquire_slow(&self, want: u64, mut stop: impl FnMut() -> bool) -> Acquired {
        // Relaxed: only its place in the order of the word counts.
        self.word.0.fetch_add(Word::BLOCKED_ONE, Relaxed);
        let ended = loop {
            // CR4: whatever happened before a wake that this counts is seen below. A later wake changes the bell.
            let heard = self.bell.0.value.load(ord("CR4", Acquire));
            let got = self.take(want);
            if got != 0 {
                break Acquired::Credits(got);
            }
            // Relaxed: CR4 made it new enough.
            if Word(self.word.0.load(Relaxed)).closed() || stop() {
                break Acquired::Stopped;
            }
            let heard = if planted("credit_late_bell") { self.bell.0.value.load(Acquire) } else { heard };
            // However this ends, everything is looked at again.
            let _ = self.bell.0.wait(heard, None);
        };
        // Relaxed: as above.
        let old = Word(self.word.0.fetch_sub(Word::BLOCKED_ONE, Relaxed));
        debug_assert!(old.blocked() >= 1);
        // A giver wakes one submitter per share. One that takes less, or nothing, owes the next one a wake.
        if old.available() != 0 && old.blocked() > 1 && !planted("credit_no_chain") {
            self.wake(1);
        }
        ended
    }

    /// Any thread. Makes every blocked submitter ask its `stop` again.
    pub fn rouse(&self) {
        self.wake(ALL);
    }

    /// Any thread. Ends every wait, present and future, with [`Acquired::Stopped`] once no credit is available.
    pub fn close(&self) {
        // Relaxed: ordered by the bell.
        self.word.0.fetch_or(Word::CLOSED, Relaxed);
        if !planted("credit_quiet_close") {
            self.rouse();
        }
    }

    #[cold]
    fn wake(&self, count: u32) {
        // CR3: whoever reads the new count sees what the wake is about. Wraps: see the README.
        self.bell.0.value.fetch_add(1, ord("CR3", Release));
        // SAFETY: `self` is borrowed, so the word is valid.
        unsafe { FutexWord::wake(&raw const self.bell.0, count) }
    }
}

impl fmt::Debug for Credits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: a snapshot for people.
        Word(self.word.0.load(Relaxed)).fmt(f)
    }
}
