//! Futures of a real scheduler.
#![expect(unsafe_code, reason = "a scheduler behind a pointer, and rights that wait for their thread")]

use super::task::{Head, Right, cancel, retire};
use super::{Home, Way};
use crate::roll::Place;
use crate::submit::{submit_last, submit_woken};
use crate::sync::Arc;
use crate::task::cells::with_cells;
use crate::task::raw::Header;
use crate::task::waiting::drop_quietly;
use crate::worker::{Context, Shared, current};
use std::alloc::Layout;
use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::ptr::{NonNull, null};

/// The home of the futures of a [`Shared`].
pub(crate) struct Ours;

thread_local! {
    /// This thread drops a future; and futures it shall drop after that.
    static DROPPING: Cell<bool> = const { Cell::new(false) };
    static LATER: Cell<*const Head> = const { Cell::new(null()) };
}

/// Cancels, one after the other: the end of one future wakes the next, and a chain of them must not become a chain of
/// calls.
///
/// # Safety
/// The caller has the right.
unsafe fn cancel_in_turn(head: NonNull<Head>) -> Option<Box<dyn Any + Send>> {
    if DROPPING.replace(true) {
        // SAFETY: the right has a reference.
        unsafe { head.as_ref() }.next.set(LATER.replace(head.as_ptr()));
        return None;
    }
    // SAFETY: the right.
    let unseen = unsafe { cancel(head) };
    while let Some(next) = NonNull::new(LATER.get().cast_mut()) {
        // SAFETY: put there above, with its right.
        LATER.set(unsafe { next.as_ref() }.next.get());
        // SAFETY: the right.
        let unseen = unsafe { cancel(next) };
        unseen.into_iter().for_each(drop_quietly);
    }
    DROPPING.set(false);
    unseen
}

/// Ends the futures that the calling worker has in its roll, and those that their ends lead to.
pub(crate) fn retire_all(context: &Context) {
    let nested = DROPPING.replace(true);
    // SAFETY: taken out of the roll of this scheduler's worker.
    let end = |entry: NonNull<Header>| unsafe { retire::<Ours>(entry.cast()) };
    // SAFETY: the owner, at its end.
    unsafe { context.roll().drain(end) };
    DROPPING.set(nested);
    while let Some(next) = NonNull::new(LATER.get().cast_mut()) {
        // SAFETY: put there by `cancel_in_turn`, with its right.
        LATER.set(unsafe { next.as_ref() }.next.get());
        // SAFETY: the right.
        let unseen = unsafe { cancel_in_turn(next) };
        unseen.into_iter().for_each(drop_quietly);
    }
}

impl Home for Ours {
    #[inline(always)]
    unsafe fn schedule<F: Future>(home: *const (), right: Right<F, Self>, way: Way) {
        // SAFETY: valid until the right is published: the caller is a worker, or the descriptor keeps it.
        let shared = ManuallyDrop::new(unsafe { Arc::from_raw(home.cast::<Shared>()) });
        let queued = match way {
            // SAFETY: the future owns what it uses.
            Way::Woken => unsafe { submit_woken(&shared, right) },
            // SAFETY: as above.
            Way::Last => unsafe { submit_last(&shared, right) },
        };
        if let Err(refused) = queued {
            let right = ManuallyDrop::new(refused.into_inner());
            // SAFETY: the right.
            let unseen = unsafe { cancel_in_turn(right.head()) };
            unseen.into_iter().for_each(drop_quietly);
        }
    }

    unsafe fn list(_: *const (), entry: NonNull<Header>) -> *const Place<Header> {
        let context = current().expect("futures are polled by workers");
        // SAFETY: the owner.
        unsafe { context.roll().enter(entry) }
    }

    fn cancel(head: NonNull<Head>) -> Option<Box<dyn Any + Send>> {
        // SAFETY: the right that is being dropped.
        unsafe { cancel_in_turn(head) }
    }

    unsafe fn keep(home: *const ()) {
        // SAFETY: of an `Arc`, by the caller's promise.
        unsafe { Arc::increment_strong_count(home.cast::<Shared>()) };
    }

    unsafe fn let_go(home: *const ()) {
        // SAFETY: the caller's reference.
        drop(unsafe { Arc::from_raw(home.cast::<Shared>()) });
    }

    #[inline(always)]
    fn allocate(layout: Layout) -> NonNull<u8> {
        with_cells(|cells| cells.allocate(layout))
    }

    #[inline(always)]
    unsafe fn release(memory: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        with_cells(|cells| unsafe { cells.release(memory, layout) });
    }
}
