//! The waker of a future: a counted reference to its descriptor.
#![expect(unsafe_code, reason = "a vtable over raw pointers")]

use super::Home;
use super::state::Wake;
use super::task::{Head, Right, drop_ref};
use std::future::Future;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable};

impl<F: Future, H: Home> Right<F, H> {
    pub(super) const WAKER: &'static RawWakerVTable =
        &RawWakerVTable::new(Self::clone_waker, Self::wake, Self::wake_by_ref, Self::drop_waker);

    /// # Safety
    /// `data` is of a waker of this type.
    unsafe fn clone_waker(data: *const ()) -> RawWaker {
        // SAFETY: a waker has a reference.
        unsafe { &*data.cast::<Head>() }.state.clone_ref();
        RawWaker::new(data, Self::WAKER)
    }

    /// # Safety
    /// `data` is of a waker of this type, and given up.
    unsafe fn wake(data: *const ()) {
        // SAFETY: never null.
        let head = unsafe { NonNull::new_unchecked(data.cast_mut().cast::<Head>()) };
        // SAFETY: a waker has a reference.
        match unsafe { head.as_ref() }.state.wake(true) {
            Wake::Nothing => {}
            // SAFETY: the right.
            Wake::Schedule => unsafe { Self::schedule(head) },
            // SAFETY: the waker's reference.
            Wake::Late => unsafe { drop_ref(head) },
        }
    }

    /// # Safety
    /// `data` is of a waker of this type.
    unsafe fn wake_by_ref(data: *const ()) {
        // SAFETY: never null.
        let head = unsafe { NonNull::new_unchecked(data.cast_mut().cast::<Head>()) };
        // SAFETY: a waker has a reference.
        if unsafe { head.as_ref() }.state.wake(false) == Wake::Schedule {
            // SAFETY: the right.
            unsafe { Self::schedule(head) };
        }
    }

    /// # Safety
    /// `data` is of a waker of this type, and given up.
    unsafe fn drop_waker(data: *const ()) {
        // SAFETY: never null.
        let head = unsafe { NonNull::new_unchecked(data.cast_mut().cast::<Head>()) };
        // SAFETY: the waker's reference.
        unsafe { drop_ref(head) };
    }
}
