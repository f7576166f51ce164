//! Where blocks come from and where they go: the owner's cache, the list of returned blocks, the allocator.
//!
//! The one place that decides about block memory, and so the seam for placing it by node.

#![expect(unsafe_code, reason = "lists of blocks are linked by raw pointers")]

use super::block::Block;
use crate::sync::{Acquire, AtomicPtr, AtomicU64, Line, Relaxed, Release, ord};
use std::ptr::null_mut;

/// Empty blocks of one lane.
pub(super) struct Stock<S, const BLOCK: usize> {
    /// A stack that is pushed to by any thread and only ever taken as a whole, so it knows no ABA.
    returned: Line<AtomicPtr<Block<S, BLOCK>>>,
    /// Blocks in existence, in use or not. Written only together with the allocator, so that a lane in steady state
    /// counts nothing.
    existing: AtomicU64,
    /// Blocks given back to the allocator since somebody asked.
    freed: AtomicU64,
}

impl<S, const BLOCK: usize> Stock<S, BLOCK> {
    /// Spare blocks per lane while workers are busy; 1024 in production: a backlog that swings by 65,536 tasks (4 MiB)
    /// allocates nothing.
    const KEEP_BUSY: u64 = 16 * BLOCK as u64;
    /// What the owner takes out of the list at a time, and what outlives [`Stock::trim`]. 8 in production: the swap is
    /// paid per 512 tasks, and an idle lane keeps at most twice this (66 KiB).
    const HANDFUL: usize = if BLOCK < 8 { 1 } else { BLOCK / 8 };

    pub(super) fn new() -> Self {
        Stock { returned: Line(AtomicPtr::new(null_mut())), existing: AtomicU64::new(0), freed: AtomicU64::new(0) }
    }

    /// A block for the owner, out of `cache` if possible.
    ///
    /// # Safety
    /// Owner only; `cache` is the owner's list of blocks from this stock.
    pub(super) unsafe fn provide(&self, cache: &mut *mut Block<S, BLOCK>) -> *mut Block<S, BLOCK> {
        if cache.is_null() {
            *cache = self.refill();
        }
        let block = *cache;
        if block.is_null() {
            self.existing.fetch_add(1, Relaxed);
            return Block::alloc();
        }
        // SAFETY: the cache is exclusively the owner's.
        *cache = unsafe { Block::next(block) };
        block
    }

    /// Takes a handful of blocks off the list. The others stay where a worker may trim them.
    fn refill(&self) -> *mut Block<S, BLOCK> {
        let first = self.take_all();
        if !first.is_null() {
            // SAFETY: taken, hence exclusive.
            let rest = unsafe { Self::split_after(first, Self::HANDFUL) };
            // SAFETY: the part of the list that is not kept.
            unsafe { self.put_back(rest) };
        }
        first
    }

    /// Returns a block that is done with: to the list, or to the allocator if `in_use` leaves more than enough.
    ///
    /// # Safety
    /// The block is from this stock and the caller holds it exclusively.
    pub(super) unsafe fn give(&self, block: *mut Block<S, BLOCK>, in_use: u64) {
        if self.spare(in_use) > Self::KEEP_BUSY {
            self.existing.fetch_sub(1, Relaxed);
            self.freed.fetch_add(1, Relaxed);
            // SAFETY: exclusive, by the caller's promise.
            return unsafe { Block::free(block) };
        }
        let mut top = self.returned.0.load(Relaxed);
        loop {
            // SAFETY: exclusive until it is on the list.
            unsafe { Block::set_next(block, top) };
            match self.returned.0.compare_exchange(top, block, ord("L5", Release), Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Frees returned blocks down to a handful. Any thread; meant for the last worker that parks.
    pub(super) fn trim(&self, in_use: u64) {
        // What the owner has cached and fills just now is not in the list.
        if self.spare(in_use) <= Self::HANDFUL as u64 {
            return;
        }
        let first = self.take_all();
        if first.is_null() {
            return;
        }
        // SAFETY: taken, hence exclusive.
        let surplus = unsafe { Self::split_after(first, Self::HANDFUL) };
        // SAFETY: the part of the list that is kept.
        unsafe { self.put_back(first) };
        // SAFETY: the part of the list that is not.
        let freed = unsafe { Self::free_list(surplus) };
        self.existing.fetch_sub(freed, Relaxed);
        self.freed.fetch_add(freed, Relaxed);
    }

    /// Blocks given back to the allocator since this was called last. Relaxed: a statistic.
    pub(super) fn take_freed(&self) -> u64 {
        if self.freed.load(Relaxed) == 0 { 0 } else { self.freed.swap(0, Relaxed) }
    }

    /// Frees all blocks that are not registered anywhere, `cache` included.
    ///
    /// # Safety
    /// `cache` is the owner's list.
    pub(super) unsafe fn free_all(&mut self, cache: *mut Block<S, BLOCK>) {
        for list in [cache, self.returned.0.load(Relaxed)] {
            // SAFETY: `&mut self`: both lists are exclusive.
            unsafe { Self::free_list(list) };
        }
    }

    /// An estimate: the counters are read one after the other.
    fn spare(&self, in_use: u64) -> u64 {
        self.existing.load(Relaxed).saturating_sub(in_use)
    }

    fn take_all(&self) -> *mut Block<S, BLOCK> {
        self.returned.0.swap(null_mut(), ord("L6", Acquire))
    }

    /// Puts a list back. If blocks were returned meanwhile, only those are walked, never the (long) list itself.
    ///
    /// # Safety
    /// The caller holds the list exclusively.
    unsafe fn put_back(&self, list: *mut Block<S, BLOCK>) {
        let mut list = list;
        while !list.is_null() {
            if self.returned.0.compare_exchange(null_mut(), list, ord("L11", Release), Relaxed).is_ok() {
                return;
            }
            let fresh = self.take_all();
            if fresh.is_null() {
                continue;
            }
            // SAFETY: taken, hence exclusive.
            let last = unsafe { Self::last(fresh, usize::MAX) };
            // SAFETY: as above.
            unsafe { Block::set_next(last, list) };
            list = fresh;
        }
    }

    /// Cuts the list behind its first `count` (at least 1) blocks and returns the rest.
    ///
    /// # Safety
    /// The caller holds the list exclusively; it is not empty.
    unsafe fn split_after(first: *mut Block<S, BLOCK>, count: usize) -> *mut Block<S, BLOCK> {
        // SAFETY: the caller's promise.
        let last = unsafe { Self::last(first, count) };
        // SAFETY: part of the list.
        let rest = unsafe { Block::next(last) };
        // SAFETY: part of the list.
        unsafe { Block::set_next(last, null_mut()) };
        rest
    }

    /// The last of the first `count` blocks.
    ///
    /// # Safety
    /// The caller holds the list exclusively; it is not empty.
    unsafe fn last(first: *mut Block<S, BLOCK>, count: usize) -> *mut Block<S, BLOCK> {
        let mut last = first;
        for _ in 1..count {
            // SAFETY: part of the list.
            let next = unsafe { Block::next(last) };
            if next.is_null() {
                break;
            }
            last = next;
        }
        last
    }

    /// Frees a list and says how long it was.
    ///
    /// # Safety
    /// The caller holds the list exclusively.
    unsafe fn free_list(first: *mut Block<S, BLOCK>) -> u64 {
        let (mut block, mut freed) = (first, 0);
        while !block.is_null() {
            // SAFETY: part of the list.
            let next = unsafe { Block::next(block) };
            // SAFETY: part of the list, and unlinked now.
            unsafe { Block::free(block) };
            (block, freed) = (next, freed + 1);
        }
        freed
    }
}
