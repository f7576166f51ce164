//! What others want of a worker's ring: a stack that anybody pushes to and its owner takes whole.
#![expect(unsafe_code, reason = "an intrusive list")]

use super::ring::Ring;
use crate::sync::{Acquire, AtomicPtr, Relaxed, Release, ord, planted};
use std::ptr::{NonNull, null_mut, without_provenance_mut};

/// Called once per push: by the owner's thread with its ring, to push operations and cancellations, or without one,
/// when there is none. With the ring it runs no foreign code. What is left to do when the ring is not in use any more
/// is the item again, for a call without one, which leaves nothing.
pub type Serve = unsafe fn(NonNull<Item>, Option<&mut Ring>) -> Option<NonNull<Item>>;

/// The link of something that waits in an inbox, at its head or wherever `serve` finds the rest from.
#[repr(C)]
pub struct Item {
    next: AtomicPtr<Item>,
    serve: Serve,
}

impl Item {
    /// In no inbox.
    pub fn new(serve: Serve) -> Self {
        Item { next: AtomicPtr::new(null_mut()), serve }
    }

    /// Does what it was pushed for, or the part that needs the ring: the rest is done by a call without one.
    ///
    /// # Safety
    /// 1. `item` was taken out of an inbox, refused by one, or left by a call with the ring.
    #[must_use]
    pub unsafe fn serve(item: NonNull<Item>, ring: Option<&mut Ring>) -> Option<NonNull<Item>> {
        // SAFETY: 1: valid until it is served.
        let serve = unsafe { item.as_ref() }.serve;
        // SAFETY: 1, and once.
        unsafe { serve(item, ring) }
    }

    /// Without a ring: nothing is left.
    ///
    /// # Safety
    /// As for [`Item::serve`].
    pub unsafe fn end(item: NonNull<Item>) {
        // SAFETY: the caller's promise.
        let left = unsafe { Item::serve(item, None) };
        debug_assert!(left.is_none(), "nothing more will be had");
    }
}

/// An item that was left by a call with the ring, on its way to whoever makes the other.
pub struct Left(pub NonNull<Item>);

// SAFETY: items are pushed by any thread and served by another.
unsafe impl Send for Left {}

/// The stack, newest first.
pub struct Inbox {
    head: AtomicPtr<Item>,
}

/// In place of the newest item: no more of them. Aligned like one, and on the first page, where nothing is.
fn closed() -> *mut Item {
    without_provenance_mut(align_of::<Item>())
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Inbox {
    /// Open, and empty.
    pub fn new() -> Self {
        Inbox { head: AtomicPtr::new(null_mut()) }
    }

    /// Any thread. The owner serves it, some time after it has been unparked.
    ///
    /// # Errors
    /// The owner has ended, and the item is the caller's again.
    ///
    /// # Safety
    /// 1. The item is the caller's, in no inbox, and stays in place until it is served or given back.
    pub unsafe fn push(&self, item: NonNull<Item>) -> Result<(), NonNull<Item>> {
        // Relaxed, here and on failure: only a link.
        let mut head = self.head.load(Relaxed);
        loop {
            if head == closed() && !planted("inbox-never-closed") {
                return Err(item);
            }
            // SAFETY: 1. Relaxed: published by IN1.
            unsafe { item.as_ref() }.next.store(head, Relaxed);
            // IN1: what is about the item, and its link, come before it.
            match self.head.compare_exchange(head, item.as_ptr(), ord("IN1", Release), Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => head = now,
            }
        }
    }

    /// Any thread. Nothing is there now, as far as can be told without a barrier.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: a hint, or behind the token of whoever pushed.
        let head = self.head.load(Relaxed);
        head.is_null() || head == closed()
    }

    /// Owner only, and not after it has closed. Everything that is there, in the order in which it came.
    pub fn take(&self) -> Items {
        if self.is_empty() {
            return Items(null_mut());
        }
        // IN2: what is about the items; a swap, and all of them are the owner's.
        reversed(self.head.swap(null_mut(), ord("IN2", Acquire)))
    }

    /// Owner only. Nothing comes in from now on. What was there is the caller's.
    pub fn close(&self) -> Items {
        // IN3: as IN2. Whoever comes later reads that it is closed in the same word.
        let head = self.head.swap(closed(), ord("IN3", Acquire));
        reversed(if head == closed() { null_mut() } else { head })
    }
}

fn reversed(mut newest: *mut Item) -> Items {
    let mut first = null_mut();
    while let Some(item) = NonNull::new(newest) {
        // SAFETY: taken out, so valid and the owner's.
        let next = &unsafe { item.as_ref() }.next;
        // Relaxed, both: behind IN2 or IN3.
        newest = next.load(Relaxed);
        next.store(first, Relaxed);
        first = item.as_ptr();
    }
    Items(first)
}

/// What was taken out; each must be served.
pub struct Items(*mut Item);

impl Iterator for Items {
    type Item = NonNull<Item>;
    fn next(&mut self) -> Option<NonNull<Item>> {
        let item = NonNull::new(self.0)?;
        // SAFETY: taken out and not served yet. Relaxed: the owner's.
        self.0 = unsafe { item.as_ref() }.next.load(Relaxed);
        Some(item)
    }
}
