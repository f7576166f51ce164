//! The handle's side of a spawned future.
#![expect(unsafe_code, reason = "shares the descriptor with the runner, arbitrated by one word")]

use super::state::{Abort, Detach};
use super::task::{Head, drop_ref};
use crate::error::JoinError;
use crate::task::waiting::Waiting;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// The right to the output of a future. Dropped, it detaches the future.
pub struct Joiner<T>(NonNull<Head>, PhantomData<fn() -> T>);

// SAFETY: the output may be sent; the rest is arbitrated by the state.
unsafe impl<T: Send> Send for Joiner<T> {}
// SAFETY: `&Joiner` gives access to the state only, and registers nothing.
unsafe impl<T: Send> Sync for Joiner<T> {}

impl<T> Joiner<T> {
    /// # Safety
    /// 1. The handle's reference of a fresh task, whose output is a `T`.
    pub unsafe fn new(head: NonNull<Head>) -> Self {
        Joiner(head, PhantomData)
    }

    fn head(&self) -> &Head {
        // SAFETY: the handle has a reference.
        unsafe { self.0.as_ref() }
    }

    /// The output is there, or there will be none.
    pub fn is_complete(&self) -> bool {
        self.head().state.is_complete()
    }

    /// `waiter` is told once when it is complete; an earlier one is forgotten. False: complete already. From one thread
    /// at a time.
    pub fn register(&self, waiter: Waiting) -> bool {
        self.unregister();
        if self.is_complete() {
            return false;
        }
        // SAFETY: none is registered.
        let _empty = unsafe { self.head().waiter(Some(waiter)) };
        if self.head().state.register() {
            return true;
        }
        // SAFETY: as above: it is complete.
        drop(unsafe { self.head().waiter(None) });
        false
    }

    /// Takes the waiter back, if it is there still. From one thread at a time.
    pub fn unregister(&self) {
        if self.head().state.unregister() {
            // SAFETY: none is registered any more.
            drop(unsafe { self.head().waiter(None) });
        }
    }

    /// Asks for the future to be dropped. False: it is complete.
    pub fn abort(&self) -> bool {
        match self.head().state.abort() {
            Abort::Late => false,
            Abort::Noted => true,
            Abort::Schedule => {
                // SAFETY: the right.
                unsafe { self.head().schedule() };
                true
            }
        }
    }

    /// The output of a complete future.
    pub fn take(self) -> Result<T, JoinError> {
        debug_assert!(self.is_complete());
        let joiner = ManuallyDrop::new(self);
        let mut output = None;
        // SAFETY: complete, and the handle is used up.
        unsafe { joiner.head().take(&mut output) };
        // SAFETY: the handle's reference.
        unsafe { drop_ref(joiner.0) };
        output.map_or(Err(JoinError::Cancelled), |result| result.map_err(JoinError::Panicked))
    }
}

impl<T> Joiner<T> {
    /// The end of a handle that found more than itself to end.
    #[cold]
    #[inline(never)]
    fn leave(&mut self, mut how: Detach) {
        loop {
            match how {
                Detach::Gone => return,
                Detach::Waiter => {
                    self.unregister();
                    how = self.head().state.detach();
                }
                // SAFETY: the right.
                Detach::Forgotten => return unsafe { self.head().schedule() },
                Detach::Output => {
                    // The look that makes the output visible.
                    let complete = self.is_complete();
                    debug_assert!(complete);
                    let mut output: Option<std::thread::Result<T>> = None;
                    // SAFETY: complete, and the handle ends here.
                    unsafe { self.head().take(&mut output) };
                    // SAFETY: the handle's reference.
                    return unsafe { drop_ref(self.0) };
                }
            }
        }
    }
}

impl<T> Drop for Joiner<T> {
    #[inline]
    fn drop(&mut self) {
        match self.head().state.detach() {
            Detach::Gone => {}
            how => self.leave(how),
        }
    }
}

impl<T> fmt::Debug for Joiner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head().state.fmt(f)
    }
}
