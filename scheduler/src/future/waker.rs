//! The waker of a future: a counted reference to its descriptor.
#![expect(unsafe_code, reason = "a vtable over raw pointers")]

use super::state::Wake;
use super::task::{Head, drop_ref, schedule};
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable};

/// The table of all wakers. One, at one address: `Waker::will_wake` compares addresses, and a constant of a generic
/// type has one in every unit of code that names it. Then a waker would not know its own clone, and whoever wakes a
/// waker that is replaced, as async-io does, would wake the very future that registers, for ever.
pub(super) static WAKER: RawWakerVTable = RawWakerVTable::new(clone_waker, wake, wake_by_ref, drop_waker);

/// # Safety
/// `data` is of a waker with this table.
unsafe fn clone_waker(data: *const ()) -> RawWaker {
    // SAFETY: a waker has a reference.
    unsafe { &*data.cast::<Head>() }.state.clone_ref();
    RawWaker::new(data, &WAKER)
}

/// # Safety
/// `data` is of a waker with this table, and given up.
unsafe fn wake(data: *const ()) {
    // SAFETY: never null.
    let head = unsafe { NonNull::new_unchecked(data.cast_mut().cast::<Head>()) };
    // SAFETY: a waker has a reference.
    match unsafe { head.as_ref() }.state.wake(true) {
        Wake::Nothing => {}
        // SAFETY: the right.
        Wake::Schedule => unsafe { schedule(head) },
        // SAFETY: the waker's reference.
        Wake::Late => unsafe { drop_ref(head) },
    }
}

/// # Safety
/// `data` is of a waker with this table.
unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: never null.
    let head = unsafe { NonNull::new_unchecked(data.cast_mut().cast::<Head>()) };
    // SAFETY: a waker has a reference.
    if unsafe { head.as_ref() }.state.wake(false) == Wake::Schedule {
        // SAFETY: the right.
        unsafe { schedule(head) };
    }
}

/// # Safety
/// `data` is of a waker with this table, and given up.
unsafe fn drop_waker(data: *const ()) {
    // SAFETY: never null.
    let head = unsafe { NonNull::new_unchecked(data.cast_mut().cast::<Head>()) };
    // SAFETY: the waker's reference.
    unsafe { drop_ref(head) };
}
