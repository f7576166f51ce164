#![doc = include_str!("README.md")]
//!
//! # Who may touch what
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `control` | compare-exchange only: the owner publishes and takes back, thieves steal and rescue | anyone |
//! | `tail` | owner, plain stores | anyone |
//! | `slots` | owner, the slot at `tail` only | anyone |

#![expect(unsafe_code, reason = "one thread owns a stack of forks: a promise the compiler cannot check")]

use crate::sync::{
    Acquire, AtomicPtr, AtomicU32, AtomicU64, Line, Ordering, Relaxed, Release, full_fence, ord, planted,
};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::null_mut;

/// `version:39 | head:12 | pending:1 | limit:11 | bare:1`, from the low end: the owner's pop gets `limit` by one shift,
/// and a limit beyond every depth when `bare` is set. `split = limit - pending`; the word is *calm* when `pending` is
/// 0, else it carries an intent to publish one fork.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Control(u64);

impl Control {
    const POSITION_BITS: u32 = 12;
    const MASK: u64 = (1 << Self::POSITION_BITS) - 1;
    const LIMIT_SHIFT: u32 = 64 - Self::POSITION_BITS;
    const PENDING_SHIFT: u32 = Self::LIMIT_SHIFT - 1;
    const HEAD_SHIFT: u32 = Self::PENDING_SHIFT - Self::POSITION_BITS;
    const VERSIONS: u64 = 1 << Self::HEAD_SHIFT;
    /// There is no membarrier: an owner fences in each pop. Never changes once there are thieves.
    const BARE: u64 = 1 << 63;

    /// What the owner's pop compares with: [`limit`](Control::limit), unless it must fence before it may compare.
    #[inline(always)]
    const fn barred(self) -> u32 {
        (self.0 >> Self::LIMIT_SHIFT) as u32
    }
    const fn is_bare(self) -> bool {
        self.0 & Self::BARE != 0
    }
    /// First depth that no intent covers: everything from here on is the owner's alone.
    const fn limit(self) -> u32 {
        ((self.0 & !Self::BARE) >> Self::LIMIT_SHIFT) as u32
    }
    const fn pending(self) -> u32 {
        (self.0 >> Self::PENDING_SHIFT) as u32 & 1
    }
    /// End of the public part.
    const fn split(self) -> u32 {
        self.limit() - self.pending()
    }
    /// Depth of the oldest fork that is not stolen.
    const fn head(self) -> u32 {
        (self.0 >> Self::HEAD_SHIFT & Self::MASK) as u32
    }
    /// The successor with these positions and the next version.
    fn next(self, head: u32, split: u32, pending: u32) -> Control {
        let version = self.0.wrapping_add(!planted("lf_version") as u64) % Self::VERSIONS;
        let limit = (split + pending) as u64;
        let positions = limit << Self::LIMIT_SHIFT | (head as u64) << Self::HEAD_SHIFT;
        Control(self.0 & Self::BARE | positions | (pending as u64) << Self::PENDING_SHIFT | version)
    }
    /// Public are `head..split`, no intent.
    fn calm(self, head: u32, split: u32) -> Control {
        self.next(head, split, 0)
    }
    /// The same public part, and an intent to publish the next fork.
    fn intent(self) -> Control {
        self.next(self.head(), self.split(), 1)
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (head, split, limit) = (self.head(), self.split(), self.limit());
        write!(f, "head {head} split {split} limit {limit} version {}", self.0 % Self::VERSIONS)
    }
}

/// The latent forks of one worker: at most `CAP` pointers to frames on its call stack.
///
/// It never dereferences a pointer. Every fork pushed is settled exactly once: by a [`Owner::pop`] that says "mine",
/// or by the [`steal`](Forks::steal) that returned it.
pub struct Forks<T, const CAP: usize> {
    control: Line<AtomicU64>,
    tail: Line<AtomicU32>,
    slots: [AtomicPtr<T>; CAP],
}

/// A snapshot of the positions, each word read by itself.
impl<T, const CAP: usize> fmt::Debug for Forks<T, CAP> {
    // Relaxed: for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let control = Control(self.control.0.load(Relaxed));
        let tail = self.tail.0.load(Relaxed);
        write!(f, "{control:?} tail {tail} of {CAP}")
    }
}

/// The owner's side of [`Forks`]. Costs nothing; stays on its thread.
pub struct Owner<'a, T, const CAP: usize> {
    forks: &'a Forks<T, CAP>,
    _not_send: PhantomData<*const ()>,
}

impl<T, const CAP: usize> Clone for Owner<'_, T, CAP> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const CAP: usize> Copy for Owner<'_, T, CAP> {}

impl<T, const CAP: usize> Default for Forks<T, CAP> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const CAP: usize> Forks<T, CAP> {
    /// An empty stack.
    pub fn new() -> Self {
        Self::new_at(0)
    }

    /// An empty stack whose version begins at `version`, so that tests can start it near its wrap.
    pub fn new_at(version: u64) -> Self {
        const { assert!(CAP as u64 <= Control::MASK / 2) };
        Forks {
            control: Line(AtomicU64::new(version % Control::VERSIONS)),
            tail: Line(AtomicU32::new(0)),
            slots: std::array::from_fn(|_| AtomicPtr::new(null_mut())),
        }
    }

    /// From now on each pop is a full fence, as is the barrier of a [`rescue`](Forks::rescue). Before the first push.
    pub fn fence_pops(&self) {
        // Relaxed, both: nobody concludes anything from an empty stack.
        let seen = Control(self.control.0.load(Relaxed));
        let alone = self.swing(seen, Control(seen.0 | Control::BARE), Relaxed);
        debug_assert!(alone, "somebody uses the stack already");
    }

    /// The owner's side.
    ///
    /// # Safety
    /// 1. Owners of one stack are used on one thread at a time; handing the role over orders everything done before it
    ///    before everything done after it.
    /// 2. Every push that returned true is followed by exactly one pop, newest first.
    #[inline(always)]
    pub unsafe fn owner(&self) -> Owner<'_, T, CAP> {
        Owner { forks: self, _not_send: PhantomData }
    }

    /// Forks that [`steal`](Forks::steal) can have. Anyone; a hint.
    // Relaxed: a hint, nothing is read on the strength of it.
    pub fn public_len(&self) -> u32 {
        let seen = Control(self.control.0.load(Relaxed));
        seen.split() - seen.head()
    }

    /// Forks that only the owner, or a [`rescue`](Forks::rescue), can reach. Anyone; a hint.
    // Relaxed: a hint.
    pub fn private_len(&self) -> u32 {
        let split = Control(self.control.0.load(Relaxed)).split();
        self.tail.0.load(Relaxed).saturating_sub(split)
    }

    /// Takes the oldest public fork: from now on its pop says "not mine". Anyone but the owner.
    pub fn steal(&self) -> Option<*mut T> {
        loop {
            let seen = Control(self.control.0.load(ord("LF4", Acquire)));
            if seen.head() >= seen.split() {
                return None;
            }
            let fork = self.slots[seen.head() as usize].load(Relaxed);
            // Withdraws an intent: the version has moved, so whoever announced it could not commit it any more.
            if self.swing(seen, seen.calm(seen.head() + 1, seen.split()), ord("LF5", Release)) {
                return Some(fork);
            }
        }
    }

    /// Publishes the oldest private fork of an owner that does not answer. Anyone but the owner.
    ///
    /// `heavy` is the heavy side of the barrier whose light side the owner passes in [`Owner::pop`]; it says whether
    /// the barrier took place. Another thief's unfinished intent is finished (or withdrawn) like an own one. True:
    /// this call has published a fork. False: nothing there, the owner or another thief was faster, or `heavy` was
    /// refused.
    #[cold]
    pub fn rescue(&self, heavy: impl FnOnce() -> bool) -> bool {
        let Some(intent) = self.announce() else {
            return false;
        };
        let refused = !heavy() && !planted("lf_refused");
        let there = self.tail.0.load(ord("LF3", Acquire)) >= intent.limit() || planted("lf_no_recheck");
        let publish = (there && !refused) as u32;
        let after = intent.calm(intent.head(), intent.split() + publish);
        self.swing(intent, after, ord("LF6", Release)) && publish != 0
    }

    /// The intent to work on: the one that is there, or a new one. `None`: nothing to publish, or the word moved.
    fn announce(&self) -> Option<Control> {
        // Relaxed, both: the barrier orders the second look at `tail` behind them, and that is the one that counts.
        let seen = Control(self.control.0.load(Relaxed));
        if seen.pending() != 0 {
            return (!planted("lf_own_intent_only")).then_some(seen);
        }
        if self.tail.0.load(Relaxed) <= seen.split() {
            return None;
        }
        let intent = seen.intent();
        self.swing(seen, intent, Relaxed).then_some(intent)
    }

    /// The only way `control` changes.
    fn swing(&self, from: Control, to: Control, order: Ordering) -> bool {
        self.control.0.compare_exchange(from.0, to.0, order, Relaxed).is_ok()
    }
}

impl<T, const CAP: usize> Owner<'_, T, CAP> {
    /// Adds the newest fork. False: the stack is full, run both sides inline.
    #[inline(always)]
    pub fn push(self, fork: *mut T) -> bool {
        let tail = self.forks.tail.0.load(Relaxed);
        let Some(slot) = self.forks.slots.get(tail as usize) else {
            return false;
        };
        slot.store(fork, Relaxed);
        self.forks.tail.0.store(tail + 1, ord("LF1", Release));
        true
    }

    /// Settles the newest fork. True: it is the caller's to run. False: a thief has it, or had it.
    ///
    /// `light` is the light side of the barrier, between the lowering of `tail` and the look at the intents.
    #[inline(always)]
    pub fn pop(self, light: impl FnOnce()) -> bool {
        let tail = self.forks.tail.0.load(Relaxed);
        debug_assert!(tail != 0, "a pop without a push");
        let at = tail.wrapping_sub(1);
        self.forks.tail.0.store(at, ord("LF2", Release));
        light();
        // Relaxed: the barrier is what orders this load; the frame is this thread's own.
        if at >= Control(self.forks.control.0.load(Relaxed)).barred() {
            return true;
        }
        self.pop_contended(at)
    }

    #[cold]
    #[inline(never)]
    fn pop_contended(self, at: u32) -> bool {
        // Relaxed: it never changes.
        if Control(self.forks.control.0.load(Relaxed)).is_bare() {
            // The light side of a pop against a rescue where there is no membarrier.
            full_fence("LF9");
        }
        loop {
            let seen = Control(self.forks.control.0.load(ord("LF7", Acquire)));
            if at >= seen.limit() {
                return true;
            }
            // Announced and not committed, or public and still there: take it back. Stolen: step down from it, so that
            // the next push finds its slot private.
            let mine = at >= seen.head();
            let after = seen.calm(seen.head().min(at), seen.split().min(at));
            let won = planted("lf_no_cancel") && at >= seen.split() || self.forks.swing(seen, after, Relaxed);
            if won {
                return mine;
            }
        }
    }

    /// Makes the oldest private fork public: it is the largest. False: there is none. Withdraws an intent.
    pub fn publish(self) -> bool {
        loop {
            let seen = Control(self.forks.control.0.load(Relaxed));
            if seen.split() >= self.forks.tail.0.load(Relaxed) {
                return false;
            }
            let after = seen.calm(seen.head(), seen.split() + 1);
            if planted("lf_publish_store") {
                self.forks.control.0.store(after.0, Release);
                return true;
            }
            if self.forks.swing(seen, after, ord("LF8", Release)) {
                return true;
            }
        }
    }
}
