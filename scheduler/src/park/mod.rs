#![doc = include_str!("README.md")]
#![expect(unsafe_code, reason = "wakes by address and owns references through an atomic word")]

use crate::sync::{
    Acquire, Arc, AtomicPtr, Bell, FutexWord, Refused, Relaxed, Release, Wait, acquire_fence, ord, planted,
};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

/// No token, and the owner is awake.
const EMPTY: u32 = 0;
/// A token is there; the next park returns at once.
const NOTIFIED: u32 = 1;
/// No token; the owner sleeps on the word, or is about to.
const PARKED_FUTEX: u32 = 2;
/// No token; the owner sleeps in its ring, where a futex call does not reach it, and the bell does.
const PARKED_RING: u32 = 3;

/// Low bits of a [`Waiter`]'s address that are always zero, for the words that store one beside their own flags.
pub const ADDRESS_SPARE: usize = align_of::<Parker>() - 1;

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Parked {
    /// A token was there or came, and is used up.
    Notified,
    /// The time was over and no token was there.
    TimedOut,
}

/// What is left to do after a token was put down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Due {
    /// Nothing: the owner is awake, or somebody else is waking it.
    Nothing,
    /// The owner sleeps on the futex word: one wake call.
    FutexWake,
    /// The owner sleeps in its ring: one ring of its bell.
    RingWake,
}

/// One thread's place to sleep. The thread is the *owner*; everybody else may only put a token down.
///
/// On lines of its own: the owner polls it, strangers write it.
#[repr(align(128))]
pub struct Parker {
    word: FutexWord,
    /// Hung up by the owner before it sleeps in a ring for the first time, and there until the parker goes.
    bell: AtomicPtr<Bell>,
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

impl Parker {
    /// A parker without a token.
    pub fn new() -> Self {
        Parker { word: FutexWord::new(EMPTY), bell: AtomicPtr::new(null_mut()) }
    }

    /// Owner only. Sleeps until a token comes and uses it up, at most for `limit`; does not sleep if one is there.
    ///
    /// A token belongs to no particular event: it may come from an earlier wait that ended another way, so the caller
    /// looks at its own condition again, in a loop.
    pub fn park(&self, limit: Option<Duration>) -> Parked {
        // Relaxed: sleeping publishes nothing, and a token that is there is taken by `leave`.
        if self.word.value.compare_exchange(EMPTY, PARKED_FUTEX, Relaxed, Relaxed).is_err() {
            return self.leave();
        }
        self.sleep(limit)
    }

    #[cold]
    fn sleep(&self, limit: Option<Duration>) -> Parked {
        // A limit beyond what the clock can say is no limit.
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let ended = self.word.wait(PARKED_FUTEX, left);
            if planted("park_if") || self.try_consume() {
                return Parked::Notified;
            }
            if ended == Wait::TimedOut {
                return self.leave();
            }
            // A signal, or a wake that was meant for an earlier user of this address: sleep on.
        }
    }

    /// Owner only. Ends a sleep or an intended one: afterwards the word is EMPTY.
    fn leave(&self) -> Parked {
        if planted("park_leave") {
            self.word.value.store(EMPTY, Relaxed);
            return Parked::TimedOut;
        }
        // PK2: a swap and not a store, so that a token which arrives in this moment is seen.
        match self.word.value.swap(EMPTY, ord("PK2", Acquire)) {
            NOTIFIED => Parked::Notified,
            _ => Parked::TimedOut,
        }
    }

    /// Owner only. Uses the token up if one is there; never sleeps, and costs one plain load when none is.
    #[inline]
    pub fn try_consume(&self) -> bool {
        // Relaxed: only decides whether to look properly.
        if self.word.value.load(Relaxed) != NOTIFIED {
            return false;
        }
        if planted("park_store") {
            self.word.value.store(EMPTY, Relaxed);
            return true;
        }
        // PK3: a swap, because a second unparker may be between; its Release counts as well.
        self.word.value.swap(EMPTY, ord("PK3", Acquire)) == NOTIFIED
    }

    /// Owner only. The bell that wakes the owner in its ring; hung up at the first call.
    ///
    /// # Errors
    /// What the kernel says: there is no descriptor to be had.
    pub fn hang_bell(&self) -> Result<&Bell, Refused> {
        if self.bell().is_none() {
            // Relaxed: published by PK4.
            self.bell.store(Arc::into_raw(Arc::new(Bell::new()?)).cast_mut(), Relaxed);
        }
        Ok(self.bell().expect("hung up just now"))
    }

    /// Owner of both, without a bell so far: is woken by that of `other`, which is hung up, from now on.
    pub fn share_bell(&self, other: &Parker) {
        debug_assert!(self.bell().is_none(), "it has one");
        // Relaxed, both: the owner's; published by PK4.
        let bell = other.bell.load(Relaxed);
        if !bell.is_null() {
            // SAFETY: a counted reference that `other` keeps.
            let bell = ManuallyDrop::new(unsafe { Arc::from_raw(bell.cast_const()) });
            self.bell.store(Arc::into_raw(Arc::clone(&bell)).cast_mut(), Relaxed);
        }
    }

    /// Owner, or whoever found it in its ring. The bell, if there is one.
    pub fn bell(&self) -> Option<&Bell> {
        // Relaxed: the owner's own store, or ordered by PK5.
        let bell = self.bell.load(Relaxed);
        // SAFETY: a counted reference that the destructor takes back.
        unsafe { bell.as_ref() }
    }

    /// Owner only. Announces a sleep in the owner's ring, which polls the bell. False: a token was there and is used
    /// up, do not sleep.
    pub fn enter_ring(&self) -> bool {
        // PK4: whoever finds the owner there finds the bell. Relaxed on failure: as in `park`.
        if self.word.value.compare_exchange(EMPTY, PARKED_RING, ord("PK4", Release), Relaxed).is_ok() {
            return true;
        }
        let _ = self.leave();
        false
    }

    /// Owner only. The owner is back from its ring, for whatever reason; says whether a token had come.
    pub fn leave_ring(&self) -> Parked {
        self.leave()
    }

    /// Any thread. Puts a token down and says what else is needed for the owner to notice; [`Parker::unpark`] does
    /// that as well.
    #[inline]
    pub fn deliver(&self) -> Due {
        // PK1: what the caller did before is visible to the owner once it has used the token up.
        match self.word.value.swap(NOTIFIED, ord("PK1", Release)) {
            PARKED_FUTEX if !planted("park_no_call") => Due::FutexWake,
            PARKED_RING => Due::RingWake,
            _ => Due::Nothing,
        }
    }

    /// Any thread. Puts a token down and wakes the owner if it sleeps; true if that took a system call.
    #[inline]
    pub fn unpark(&self) -> bool {
        match self.deliver() {
            Due::Nothing => return false,
            Due::FutexWake => self.wake(),
            Due::RingWake => self.ring(),
        }
        true
    }

    #[cold]
    fn ring(&self) {
        // PK5: the bell that the owner hung up before it went to sleep.
        acquire_fence("PK5");
        if let Some(bell) = self.bell().filter(|_| !planted("park_no_bell")) {
            bell.ring();
        }
    }

    #[cold]
    fn wake(&self) {
        // SAFETY: `self` is borrowed, so the word is valid.
        unsafe { FutexWord::wake(&raw const self.word, 1) }
    }

    /// Any thread. A wake without a token, as the kernel may produce one at any time; for tests.
    #[doc(hidden)]
    pub fn stray_wake(&self) {
        self.wake();
    }
}

impl Drop for Parker {
    fn drop(&mut self) {
        // Relaxed: nobody else is left.
        let bell = self.bell.load(Relaxed);
        if !bell.is_null() {
            // SAFETY: from `hang_bell`, and nobody borrows the parker any more.
            drop(unsafe { Arc::from_raw(bell.cast_const()) });
        }
    }
}

impl fmt::Debug for Parker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: a snapshot for people.
        f.write_str(match self.word.value.load(Relaxed) {
            EMPTY => "EMPTY",
            NOTIFIED => "NOTIFIED",
            PARKED_FUTEX => "PARKED_FUTEX",
            PARKED_RING => "PARKED_RING",
            _ => "corrupt",
        })
    }
}

/// The right to unpark one thread once.
///
/// It owns a reference to the parker. So whoever takes it out of a shared word may put the token down after that word
/// is gone: the waiter can return and free everything it waited for in between.
pub struct Waiter(Arc<Parker>);

impl Clone for Waiter {
    fn clone(&self) -> Self {
        Waiter(self.0.clone())
    }
}

impl Waiter {
    /// The right to unpark the owner of `parker`.
    pub fn new(parker: &Arc<Parker>) -> Self {
        Waiter(parker.clone())
    }

    /// Uses the right; true if it took a system call.
    pub fn unpark(self) -> bool {
        self.0.unpark()
    }

    /// The right as a number to keep in an atomic word; the bits of [`ADDRESS_SPARE`] are zero, and it is never 0.
    pub fn into_address(self) -> usize {
        let waiter = ManuallyDrop::new(self);
        Arc::as_ptr(&waiter.0).expose_provenance()
    }

    /// The right back from its number.
    ///
    /// # Safety
    /// 1. `address` came from [`Waiter::into_address`], and that happened before this call.
    /// 2. It is turned back only once.
    pub unsafe fn from_address(address: usize) -> Self {
        let parker = std::ptr::with_exposed_provenance::<Parker>(address);
        // SAFETY: 1, 2: the pointer is of an `Arc` that was given up without being dropped, and nobody else takes it
        // back.
        Waiter(unsafe { Arc::from_raw(parker) })
    }
}
