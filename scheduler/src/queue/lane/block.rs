//! A block of slots: memory only, no policy.

#![expect(unsafe_code, reason = "blocks are created without touching their slots and live behind raw pointers")]

use crate::sync::{AtomicU32, Racy};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Room for one task.
pub(super) type Slot<S> = Racy<MaybeUninit<S>>;

/// `BLOCK` slots behind one line of header. Who may touch what:
///
/// * `done`: reset by the owner before the block is registered, then added to by claimers of the block.
/// * `next`: whoever holds the block exclusively: the owner's cache, or the list it is being pushed to.
/// * a slot: the owner until its position is published, then the claimer of that position until it has counted it.
#[repr(C, align(64))]
pub(super) struct Block<S, const BLOCK: usize> {
    header: Header<S, BLOCK>,
    slots: [Slot<S>; BLOCK],
}

struct Header<S, const BLOCK: usize> {
    done: AtomicU32,
    next: Racy<*mut Block<S, BLOCK>>,
}

impl<S, const BLOCK: usize> Block<S, BLOCK> {
    /// A fresh block. Its slots stay untouched, so it costs no page fault before it is written.
    pub(super) fn alloc() -> *mut Self {
        let raw = Box::into_raw(Box::<Self>::new_uninit()).cast::<Self>();
        let header = Header { done: AtomicU32::new(0), next: Racy::new(null_mut()) };
        // SAFETY: fresh memory of a block, which begins with its header.
        unsafe { raw.cast::<Header<S, BLOCK>>().write(header) };
        for index in 0..BLOCK {
            // SAFETY: `raw` is a whole block.
            let slot = unsafe { Self::slot(raw, index) };
            // SAFETY: as above; nothing is stored here outside of models.
            unsafe { slot.write(Racy::new(MaybeUninit::uninit())) };
        }
        raw
    }

    /// Frees a block. Tasks in it are forgotten.
    ///
    /// # Safety
    /// `block` came from [`Block::alloc`] and nobody else uses it.
    pub(super) unsafe fn free(block: *mut Self) {
        // SAFETY: from a box, and the caller's alone.
        let block = unsafe { Box::from_raw(block) };
        // Freeing is an access: this lets a model see a claimer that still reads.
        block.slots.iter().for_each(|slot| slot.with(|_| ()));
    }

    /// Address of slot `index`, or of the block's end for `BLOCK`.
    ///
    /// # Safety
    /// `block` is allocated and `index <= BLOCK`.
    #[inline(always)]
    pub(super) unsafe fn slot(block: *mut Self, index: usize) -> *mut Slot<S> {
        // SAFETY: the field lies inside of the block.
        let slots = unsafe { &raw mut (*block).slots };
        // SAFETY: at most one past the end of the array.
        unsafe { slots.cast::<Slot<S>>().add(index) }
    }

    /// The count of slots that are done with. A pointer, because the block may be gone once it is added to.
    ///
    /// # Safety
    /// `block` is allocated and initialised.
    #[inline(always)]
    pub(super) unsafe fn done(block: *mut Self) -> *const AtomicU32 {
        // SAFETY: the field lies inside of the block.
        unsafe { &raw const (*block).header.done }
    }

    /// The block behind this one in the list that holds it.
    ///
    /// # Safety
    /// The caller holds `block` exclusively.
    pub(super) unsafe fn next(block: *mut Self) -> *mut Self {
        // SAFETY: allocated, by the caller's promise.
        let cell = unsafe { &(*block).header.next };
        // SAFETY: exclusive, by the caller's promise.
        cell.with(|next| unsafe { *next })
    }

    /// Links `next` behind `block`.
    ///
    /// # Safety
    /// The caller holds `block` exclusively.
    pub(super) unsafe fn set_next(block: *mut Self, next: *mut Self) {
        // SAFETY: allocated, by the caller's promise.
        let cell = unsafe { &(*block).header.next };
        // SAFETY: exclusive, by the caller's promise.
        cell.with(|place| unsafe { *place = next });
    }
}
