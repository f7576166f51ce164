//! A 32-bit word that threads can sleep on. Under loom a mutex and a condition variable around the same compare.

#![expect(unsafe_code, reason = "waking takes an address that may be gone")]

use super::AtomicU32;
use std::time::Duration;

/// Why [`FutexWord::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Wait {
    /// The word differed, somebody woke us, or the kernel returned early: look at the word again.
    Again,
    /// The time was over.
    TimedOut,
}

/// The word. Its value is the caller's business; waiting never changes it.
pub struct FutexWord {
    /// The value threads agree on.
    pub value: AtomicU32,
    #[cfg(loom)]
    lock: loom::sync::Mutex<()>,
    #[cfg(loom)]
    cond: loom::sync::Condvar,
}

impl FutexWord {
    /// A word holding `value`.
    #[cfg(not(loom))]
    pub const fn new(value: u32) -> Self {
        FutexWord { value: AtomicU32::new(value) }
    }

    /// A word holding `value`.
    #[cfg(loom)]
    pub fn new(value: u32) -> Self {
        FutexWord { value: AtomicU32::new(value), lock: loom::sync::Mutex::new(()), cond: loom::sync::Condvar::new() }
    }

    /// Sleeps while the word holds `expected`, at most `limit`; may return early for any reason.
    #[cfg(not(loom))]
    pub fn wait(&self, expected: u32, limit: Option<Duration>) -> Wait {
        if crate::sys::futex_wait(&self.value, expected, limit) { Wait::TimedOut } else { Wait::Again }
    }

    /// See the real twin. A limit is modelled by its hardest case: over at once.
    #[cfg(loom)]
    pub fn wait(&self, expected: u32, limit: Option<Duration>) -> Wait {
        let guard = self.lock.lock().unwrap();
        if self.value.load(std::sync::atomic::Ordering::Relaxed) != expected {
            return Wait::Again;
        }
        if limit.is_some() {
            drop(guard);
            loom::thread::yield_now();
            return Wait::TimedOut;
        }
        drop(self.cond.wait(guard).unwrap());
        Wait::Again
    }

    /// Wakes at most `count` sleepers. Takes a pointer because the word may be gone as soon as its sleeper can have
    /// seen the value that the caller stored before: the kernel uses the address only, and a stray wake is legal
    /// everywhere.
    ///
    /// # Safety
    /// `word` must have been valid when the value was stored; under loom it must be valid still.
    pub unsafe fn wake(word: *const FutexWord, count: u32) {
        #[cfg(not(loom))]
        crate::sys::futex_wake(word.addr(), count);
        #[cfg(loom)]
        {
            // SAFETY: valid by the caller's promise.
            let word = unsafe { &*word };
            let _guard = word.lock.lock().unwrap();
            if count == 1 { word.cond.notify_one() } else { word.cond.notify_all() }
        }
    }
}
