//! The home: the one word through which foreign threads give cells back. Many push chains, one takes everything.

#![expect(unsafe_code, reason = "the home lives as long as one of its cells is out, not as long as a reference")]

use super::memory::Source;
use super::slab::{Blank, List, link};
use crate::sync::{Acquire, AtomicPtr, Line, Relaxed, Release, ord, planted};
use std::alloc::Layout;
use std::ptr::{NonNull, null_mut};

/// Cells that came back and have not been collected. On lines of its own: everybody else's cache writes it.
pub(super) struct Home {
    returned: Line<AtomicPtr<Blank>>,
}

impl Home {
    /// A home without cells.
    pub(super) fn provide(source: Source) -> NonNull<Home> {
        let home = source.provide(Layout::new::<Home>()).cast::<Home>();
        // SAFETY: fresh memory of this layout.
        unsafe { home.write(Home { returned: Line(AtomicPtr::new(null_mut())) }) };
        home
    }

    /// Frees the home.
    ///
    /// # Safety It came from [`provide`](Self::provide) with the same source. Every cell of it was collected, or
    /// never given out.
    pub(super) unsafe fn release(home: NonNull<Home>, source: Source) {
        // SAFETY: nobody reaches a home except through a cell of it that is out, and none is.
        unsafe { home.drop_in_place() };
        // SAFETY: as above.
        unsafe { source.release(home.cast(), Layout::new::<Home>()) }
    }

    /// G: gives the chain `first ..= last` back. Any thread.
    ///
    /// # Safety
    /// 1. All cells of the chain belong to this home and are the caller's alone.
    /// 2. They are linked from `first` to `last`.
    /// 3. The caller does not use them, or the home by way of them, after the call.
    pub(super) unsafe fn give(home: NonNull<Home>, first: NonNull<Blank>, last: NonNull<Blank>) {
        // SAFETY: the home lives while a cell of it is out, so until the exchange below succeeds.
        let returned = unsafe { &home.as_ref().returned.0 };
        // A guess instead of a load, which would fetch the line twice: mostly the owner has collected everything.
        let mut head = null_mut();
        if planted("cell-give-by-store") {
            // SAFETY: as below.
            unsafe { link(last, returned.load(Relaxed)) };
            return returned.store(first.as_ptr(), Release);
        }
        loop {
            // SAFETY: the caller's alone until the exchange succeeds.
            unsafe { link(last, head) };
            // CH1: Release, pairs with CH2: the last use of the cells, and their links, before their next use. A
            // failure is Relaxed: nothing is read through the head.
            match returned.compare_exchange(head, first.as_ptr(), ord("CH1", Release), Relaxed) {
                // From here on the owner may have freed the home.
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// R: takes everything that came back so far. Owner only.
    pub(super) fn collect(home: NonNull<Home>) -> List {
        // SAFETY: the owner is the one that frees the home.
        let returned = unsafe { &home.as_ref().returned.0 };
        // Relaxed: a look that saves the locked exchange. A stale null only means: next time.
        if returned.load(Relaxed).is_null() {
            return List::new();
        }
        let first = if planted("cell-collect-by-store") {
            let first = returned.load(Acquire);
            returned.store(null_mut(), Relaxed);
            first
        } else {
            // CH2: Acquire, pairs with every CH1 of the chain (exchanges continue each other's release sequence).
            returned.swap(null_mut(), ord("CH2", Acquire))
        };
        // SAFETY: chains of linked cells that their givers gave up; the swap made them ours alone.
        unsafe { List::from_chain(first) }
    }
}
