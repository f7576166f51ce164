#![doc = include_str!("README.md")]
#![expect(unsafe_code, reason = "signals through memory that may be gone")]

use crate::park::{Parker, Waiter};
use crate::sync::{AcqRel, Acquire, Arc, AtomicUsize, Racy, Relaxed, Release, ord, planted};

/// Whether a waiter will hear from the latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Register {
    /// It will be unparked once; until then park and look in a loop.
    Waiting,
    /// The latch is set, and `is_set` says so too; the waiter was dropped.
    Set,
}

/// Counts the unfinished tasks of a scope. Lives on the stack of the scope's *owner*, who waits for zero and may free
/// it as soon as it saw that. Everybody who counts is a *holder* of one count until its [`ScopeLatch::done`].
pub struct ScopeLatch {
    /// Twice the unfinished tasks, plus [`ScopeLatch::REGISTERED`].
    word: AtomicUsize,
    /// The owner's until it sets REGISTERED, then the last holder's until the word is 0, then the owner's again.
    waiter: Racy<Option<Waiter>>,
}

// SAFETY: `waiter` has one user at a time, by the rule on the field.
unsafe impl Sync for ScopeLatch {}

impl Default for ScopeLatch {
    fn default() -> Self {
        Self::new()
    }
}

impl ScopeLatch {
    const REGISTERED: usize = 1;
    const ONE: usize = 2;

    /// A latch that counts nothing, and so is set.
    pub fn new() -> Self {
        ScopeLatch { word: AtomicUsize::new(0), waiter: Racy::new(None) }
    }

    /// Owner before it registers, or any holder: one more task will call [`ScopeLatch::done`].
    #[inline]
    pub fn add(&self) {
        // Relaxed: the caller's own count (or the owner, who is not waiting yet) keeps the latch from being set.
        let old = self.word.fetch_add(Self::ONE, Relaxed);
        debug_assert!(old != Self::REGISTERED, "added to a latch that was waited for");
    }

    /// Holder, once per [`ScopeLatch::add`], its last access to the latch and to the owner's stack.
    ///
    /// # Safety
    /// 1. `this` is valid when called, and is not borrowed by the caller: it may be freed before this returns.
    /// 2. The caller holds a count.
    #[inline]
    pub unsafe fn done(this: *const Self) {
        // SAFETY: 1; the owner does not free it before this count is gone.
        let latch = unsafe { &*this };
        // SL1: Release hands the task's effects to the owner, Acquire those of all tasks before to the last one.
        let old = latch.word.fetch_sub(Self::ONE, ord("SL1", AcqRel));
        debug_assert!(old >= Self::ONE, "more done than added");
        if planted("scope_touch") {
            latch.word.fetch_or(0, Relaxed);
        }
        // Unless a waiter is registered, `latch` may dangle from here on.
        if old == Self::ONE | Self::REGISTERED {
            // SAFETY: 1; a registered owner does not leave before the word is 0, which only `wake` stores now.
            unsafe { Self::wake(this) }
        }
    }

    /// Last holder, once.
    ///
    /// # Safety
    /// `this` is valid when called, the count is 0 and REGISTERED is set.
    #[cold]
    unsafe fn wake(this: *const Self) {
        // SAFETY: valid by the caller's promise, until the store of 0 below.
        let latch = unsafe { &*this };
        if planted("scope_early") {
            latch.word.store(0, Release);
        }
        // SAFETY: the flag is set and the count is 0, so the cell is ours; the owner's write came before (SL2, SL1).
        let waiter = latch.waiter.with(|slot| unsafe { &mut *slot }.take());
        // SL3: all tasks' effects. From here on `latch` may dangle; the waiter is owned.
        latch.word.store(0, ord("SL3", Release));
        if planted("scope_late") {
            latch.word.store(0, Relaxed);
        }
        debug_assert!(waiter.is_some(), "registered without a waiter");
        if let Some(waiter) = waiter
            && !planted("scope_no_wake")
        {
            waiter.unpark();
        }
    }

    /// Owner only. True: every task is done, its effects are visible, and nobody touches the latch any more.
    #[inline]
    pub fn is_set(&self) -> bool {
        // SL4: 0 is stored by the last holder as its last access, registered or not.
        self.word.load(ord("SL4", Acquire)) == 0
    }

    /// Owner only, after its last [`ScopeLatch::add`]. Once registered it stays so: a second call changes nothing.
    pub fn register(&self, waiter: Waiter) -> Register {
        loop {
            // Relaxed: while the flag is not set the cell is the owner's, and 0 is looked at properly by `is_set`.
            let old = self.word.load(Relaxed);
            if old == 0 {
                return Register::Set;
            }
            if old & Self::REGISTERED != 0 {
                return Register::Waiting;
            }
            // SAFETY: REGISTERED is not set, so the cell is the owner's.
            self.waiter.with(|slot| unsafe { *slot = Some(waiter.clone()) });
            // SL2: hands the waiter to the last holder. No fence: count and flag are one word.
            if self.word.compare_exchange(old, old | Self::REGISTERED, ord("SL2", Release), Relaxed).is_ok() {
                return Register::Waiting;
            }
        }
    }

    /// Owner only. Sleeps until the latch is set, without helping: for threads that are no workers.
    pub fn wait(&self, parker: &Arc<Parker>) {
        if self.is_set() {
            return;
        }
        let _ = self.register(Waiter::new(parker));
        while !self.is_set() {
            let _ = parker.park(None);
        }
    }

    /// Ends the latch's life: what the owner does last.
    ///
    /// # Panics
    /// In debug builds, when tasks are still counted.
    pub fn retire(self) {
        let word = self.word.into_inner();
        debug_assert_eq!(word, 0, "a scope left behind tasks");
    }
}

/// One stolen fork: lives in the fork's frame on the stack of the *joiner*. The thief sets it once, as its last
/// access to the frame; the joiner may leave the frame as soon as it saw that.
pub struct ForkLatch {
    /// PENDING, DONE, or the address of a registered waiter.
    word: AtomicUsize,
}

impl Default for ForkLatch {
    fn default() -> Self {
        Self::new()
    }
}

impl ForkLatch {
    const PENDING: usize = 0;
    /// No address: those are aligned.
    const DONE: usize = 1;

    /// A latch that is not set.
    #[inline]
    pub fn new() -> Self {
        ForkLatch { word: AtomicUsize::new(Self::PENDING) }
    }

    /// Thief, once. The result of the fork is in the frame.
    ///
    /// # Safety
    /// `this` is valid when called, and is not borrowed by the caller: it may be freed before this returns.
    #[inline]
    pub unsafe fn set(this: *const Self) {
        // SAFETY: valid by the caller's promise; the joiner does not leave before DONE is there.
        let latch = unsafe { &*this };
        // FL1: Release hands the result over, Acquire takes the waiter.
        let old = latch.word.swap(Self::DONE, ord("FL1", AcqRel));
        debug_assert_ne!(old, Self::DONE, "set twice");
        if planted("fork_touch") {
            latch.word.fetch_or(0, Relaxed);
        }
        // `latch` may dangle from here on. A waiter is owned, and outlives it.
        if old != Self::PENDING && !planted("fork_no_wake") {
            Self::wake(old);
        }
    }

    #[cold]
    fn wake(address: usize) {
        // SAFETY: `register` put it there (FL3 pairs with FL1), and the swap took it out.
        let waiter = unsafe { Waiter::from_address(address) };
        waiter.unpark();
    }

    /// Joiner only. True: the result is in the frame, and nobody else touches the frame any more.
    #[inline]
    pub fn is_set(&self) -> bool {
        // FL2: the thief's last access to the frame.
        self.word.load(ord("FL2", Acquire)) == Self::DONE
    }

    /// Joiner only. Once registered it stays so: a second call changes nothing.
    pub fn register(&self, waiter: Waiter) -> Register {
        let address = waiter.into_address();
        // FL3: the thief sees a complete parker. No fence: one word. Relaxed on failure: `is_set` comes after it.
        let seen = self.word.compare_exchange(Self::PENDING, address, ord("FL3", Release), Relaxed);
        let Err(now) = seen else {
            return Register::Waiting;
        };
        // SAFETY: the exchange failed, so the address was never shared.
        drop(unsafe { Waiter::from_address(address) });
        if now == Self::DONE { Register::Set } else { Register::Waiting }
    }

    /// Joiner only. Sleeps until the latch is set, without helping.
    pub fn wait(&self, parker: &Arc<Parker>) {
        if self.is_set() {
            return;
        }
        let _ = self.register(Waiter::new(parker));
        while !self.is_set() {
            let _ = parker.park(None);
        }
    }

    /// Ends the latch's life: what the joiner does last if the fork was stolen.
    ///
    /// # Panics
    /// In debug builds, when it is not set.
    pub fn retire(self) {
        let word = self.word.into_inner();
        debug_assert_eq!(word, Self::DONE, "a fork was left behind");
    }
}
