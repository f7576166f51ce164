//! The claimers' side, and what any thread may ask.

#![expect(unsafe_code, reason = "claimed slots are read through raw pointers, before the block goes back to its owner")]

use super::block::Block;
use super::head::Head;
use super::{Claim, Lane};
use crate::sync::{AcqRel, Acquire, Pin, Relaxed, ord};

// SAFETY: the lane moves `S` between threads and hands out no shared reference to one. Methods that assume the owner
// are unsafe and name that obligation.
unsafe impl<S: Send, const BLOCK: usize> Send for Lane<S, BLOCK> {}
// SAFETY: as above; what claimers share is atomic, and slots belong to one side at a time.
unsafe impl<S: Send, const BLOCK: usize> Sync for Lane<S, BLOCK> {}

impl<S, const BLOCK: usize> Lane<S, BLOCK> {
    /// Takes up to `max` tasks, at most to the end of a block, and hands each slot to `take`, oldest first. `take`
    /// moves the task out by bit copy: it runs no user code and must not panic (a panic would leak the block).
    ///
    /// The slots are given back before this returns, so nothing of the lane is in use while the tasks run. The pin
    /// keeps the lane alive: do not touch the lane after it.
    ///
    /// Any thread. Lock-free: a failed round means that somebody else claimed, or that the owner cut the lane.
    #[inline]
    pub fn claim(&self, pin: &Pin, max: u64, mut take: impl FnMut(*mut S)) -> Claim {
        self.claim_counted(pin, max, |slot, _| take(slot))
    }

    /// [`Lane::claim`] that also tells `take` how many tasks of this claim are still to come.
    #[inline]
    pub fn claim_counted(&self, _pin: &Pin, max: u64, take: impl FnMut(*mut S, u64)) -> Claim {
        loop {
            // Head first: a stale head only makes the exchange fail, a stale tail would hide tasks.
            let head = Head::from_bits(self.head.0.load(ord("L3", Acquire)));
            let ready = self.limit_of(head, self.tail.0.load(ord("L2", Acquire))).saturating_sub(head.position());
            let start = head.position() % BLOCK as u64;
            let count = ready.min(max).min(BLOCK as u64 - start);
            if count == 0 {
                return Claim { taken: 0, left: ready, emptied: false };
            }
            // Relaxed: what is in the slots came with the tail (or with the cut), and that no slot is given twice is
            // the exchange's atomicity.
            if self.head.0.compare_exchange(head.bits(), head.claimed(count).bits(), Relaxed, Relaxed).is_ok() {
                // SAFETY: the exchange made these positions ours.
                let emptied = unsafe { self.hand_out(head.position(), count, take) };
                return Claim { taken: count, left: ready - count, emptied };
            }
        }
    }

    /// Where claims end for somebody who found `head`, then `tail`.
    #[inline(always)]
    fn limit_of(&self, head: Head, tail: u64) -> u64 {
        // Relaxed: the cut that was seen happens after the store of its end (L3, L4). A lower end that a further cut is
        // about to announce is harmless.
        if head.is_cut() { tail.min(self.end.load(Relaxed)) } else { tail }
    }

    /// Passes the slots of `[position, position + count)` to `take` and counts them. True: they were the last of their
    /// block, and it has gone home.
    ///
    /// # Safety
    /// 1. The caller has claimed these positions, all of one block, and calls this once.
    #[inline(always)]
    unsafe fn hand_out(&self, position: u64, count: u64, mut take: impl FnMut(*mut S, u64)) -> bool {
        let number = position / BLOCK as u64;
        // SAFETY: registered until all of its slots are counted, and ours are not.
        let block = unsafe { self.directories.find(number) };
        let start = (position % BLOCK as u64) as usize;
        let mut after = count;
        for index in start..start + count as usize {
            after -= 1;
            // SAFETY: inside of the block.
            let slot = unsafe { Block::slot(block, index) };
            // SAFETY: the block stays while our slots are uncounted.
            let slot = unsafe { &*slot };
            slot.with(|storage| take(storage.cast(), after));
        }
        if count < BLOCK as u64 {
            // SAFETY: as above.
            let done = unsafe { Block::done(block) };
            // SAFETY: as above; after the addition the block may be gone.
            let before = unsafe { &*done }.fetch_add(count as u32, ord("L12", AcqRel));
            if u64::from(before) + count < BLOCK as u64 {
                return false;
            }
        }
        // SAFETY: every slot is counted, by us last.
        unsafe { self.recycle(number, block) };
        true
    }

    /// Sends a block home.
    ///
    /// # Safety
    /// 1. All of its slots are counted, and this is the one call for it.
    #[inline(never)]
    unsafe fn recycle(&self, number: u64, block: *mut Block<S, BLOCK>) {
        // SAFETY: still registered: this is the one call that changes that.
        unsafe { self.directories.clear(number) };
        // SAFETY: nobody can find it any more, and everybody who had found it has counted.
        unsafe { self.stock.give(block, self.blocks_in_use()) };
    }

    /// Tasks published and not claimed: an estimate that is exact when nothing moves.
    ///
    /// Any thread that keeps the lane alive.
    #[inline]
    pub fn backlog(&self) -> u64 {
        // Relaxed: nothing is read on the strength of the answer, and a stale end is never too low.
        let head = Head::from_bits(self.head.0.load(Relaxed));
        self.limit_of(head, self.tail.0.load(Relaxed)).saturating_sub(head.position())
    }

    /// Whether every task that may be claimed has been. Final once the owner is gone.
    ///
    /// Any thread that keeps the lane alive.
    #[inline]
    pub fn is_drained(&self) -> bool {
        self.backlog() == 0
    }

    /// Whether the owner has withdrawn something: what is pushed here from then on can never be claimed, so such a lane
    /// must not be handed to an owner who may still submit.
    ///
    /// Any thread that keeps the lane alive.
    pub fn is_cut(&self) -> bool {
        // Relaxed: true for good, and whoever takes over the lane is ordered behind its last owner.
        Head::from_bits(self.head.0.load(Relaxed)).is_cut()
    }

    /// Frees spare blocks down to a handful. Any thread that keeps the lane alive; meant for the last one to park.
    pub fn trim(&self) {
        self.stock.trim(self.blocks_in_use());
    }

    /// Blocks that went back to the allocator since this was called last. Any thread.
    pub fn take_freed(&self) -> u64 {
        self.stock.take_freed()
    }

    /// Blocks between the two ends, rounded up: an estimate.
    fn blocks_in_use(&self) -> u64 {
        // Relaxed: a stale value keeps or frees a few blocks more.
        let head = Head::from_bits(self.head.0.load(Relaxed)).position();
        self.tail.0.load(Relaxed).div_ceil(BLOCK as u64).saturating_sub(head / BLOCK as u64)
    }
}

impl<S, const BLOCK: usize> Drop for Lane<S, BLOCK> {
    /// Frees the memory. Tasks that were never claimed are forgotten, not dropped.
    fn drop(&mut self) {
        // SAFETY: `&mut self`: neither owner nor claimers are left.
        let cache = self.producer.0.with(|producer| unsafe { (*producer).take_cache() });
        // SAFETY: the owner's list.
        unsafe { self.stock.free_all(cache) };
        self.directories.free_all();
    }
}
