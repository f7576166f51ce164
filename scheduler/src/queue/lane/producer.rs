//! The owner's side: filling, publishing, and taking back.
//!
//! Every method here is unsafe for one reason: it is the owner's. Each borrows the private state for its own duration
//! only, and none runs foreign code, so a task's constructor or destructor may submit to the same lane.

#![expect(
    unsafe_code,
    reason = "the owner's private state has no lock and no owner type: the lane's user vouches for it"
)]

use super::Lane;
use super::block::{Block, Slot};
use super::head::Head;
use crate::sync::{Relaxed, Release, ord, planted};
use std::ptr::null_mut;

/// What only the owner reads and writes.
pub(super) struct Producer<S, const BLOCK: usize> {
    /// The slot of `position`.
    cursor: *mut Slot<S>,
    /// Where [`Lane::reserve`] leaves the hot path: the end of the block or of the limit, whichever comes first.
    stop: *mut Slot<S>,
    /// Of the next task.
    position: u64,
    /// One past the current block; null together with `cursor` when there is none.
    block_end: *mut Slot<S>,
    /// The first position that must not be used.
    limit: u64,
    /// Number of the first block that was never registered. Larger than that of `position` only after a withdrawal.
    unregistered: u64,
    /// Empty blocks at hand.
    cache: *mut Block<S, BLOCK>,
}

impl<S, const BLOCK: usize> Producer<S, BLOCK> {
    pub(super) fn new(position: u64) -> Self {
        Producer {
            cursor: null_mut(),
            stop: null_mut(),
            position,
            block_end: null_mut(),
            limit: u64::MAX,
            unregistered: position / BLOCK as u64,
            cache: null_mut(),
        }
    }

    pub(super) fn take_cache(&mut self) -> *mut Block<S, BLOCK> {
        std::mem::replace(&mut self.cache, null_mut())
    }

    /// Makes `block` the current one, at `position`.
    ///
    /// # Safety
    /// `block` is the allocated block of `position`.
    unsafe fn enter(&mut self, block: *mut Block<S, BLOCK>) {
        // SAFETY: inside of the block.
        self.cursor = unsafe { Block::slot(block, (self.position % BLOCK as u64) as usize) };
        // SAFETY: its end.
        self.block_end = unsafe { Block::slot(block, BLOCK) };
        self.set_stop();
    }

    fn set_stop(&mut self) {
        let room = (self.block_end.addr() - self.cursor.addr()) / size_of::<Slot<S>>();
        let credit = self.limit.saturating_sub(self.position);
        self.stop = self.cursor.wrapping_add((room as u64).min(credit) as usize);
    }
}

/// The owner's methods. Common obligation, referred to as "the owner": the caller is the lane's only producer, and does
/// nothing with the lane between [`Lane::reserve`] and [`Lane::commit`].
impl<S, const BLOCK: usize> Lane<S, BLOCK> {
    /// Lends the private state to `work`, which calls nothing outside of the lane.
    ///
    /// # Safety
    /// 1. The owner, and not inside of another such call.
    #[inline(always)]
    unsafe fn private<R>(&self, work: impl FnOnce(&mut Producer<S, BLOCK>) -> R) -> R {
        self.producer.0.with(|producer| {
            // SAFETY: only the owner comes here, once at a time.
            work(unsafe { &mut *producer })
        })
    }

    /// The slot for the next task, or `None` at the limit. Copy the task's bits there and [`Lane::commit`].
    ///
    /// A slot that is not committed is handed out again.
    ///
    /// # Safety
    /// 1. The owner.
    #[inline(always)]
    pub unsafe fn reserve(&self) -> Option<*mut S> {
        // SAFETY: the owner.
        unsafe { self.reserve_with(|| ()) }
    }

    /// [`Lane::reserve`], and `turn` is called when a new block, or room under a new limit, is begun. It does nothing
    /// with the lane.
    ///
    /// # Safety
    /// 1. The owner.
    #[inline(always)]
    pub unsafe fn reserve_with(&self, turn: impl FnOnce()) -> Option<*mut S> {
        // SAFETY: the owner.
        let (cursor, stop) = unsafe { self.private(|own| (own.cursor, own.stop)) };
        // SAFETY: the owner.
        let slot = if cursor == stop { unsafe { self.turn_over(turn) }? } else { cursor };
        // SAFETY: in the current block.
        let slot = unsafe { &*slot };
        Some(slot.with(|storage| storage.cast()))
    }

    /// See [`Lane::reserve_with`].
    ///
    /// # Safety
    /// 1. The owner.
    #[cold]
    #[inline(never)]
    unsafe fn turn_over(&self, turn: impl FnOnce()) -> Option<*mut Slot<S>> {
        // SAFETY: the owner.
        let slot = unsafe { self.private(|own| self.next_slot(own)) };
        if slot.is_some() {
            turn();
        }
        slot
    }

    /// The way out of the hot path: the limit, or the next block.
    fn next_slot(&self, own: &mut Producer<S, BLOCK>) -> Option<*mut Slot<S>> {
        if own.position >= own.limit {
            return None;
        }
        assert!(own.position < Head::POSITION_END - BLOCK as u64, "a lane's position has 56 bits");
        let number = own.position / BLOCK as u64;
        let block = if number < own.unregistered {
            // Left here by a withdrawal: registered, and no slot of it was claimed.
            // SAFETY: it stays registered, as the slot of `position` is not even published.
            unsafe { self.directories.find(number) }
        } else {
            // SAFETY: the owner's cache.
            let block = unsafe { self.stock.provide(&mut own.cache) };
            // SAFETY: ours until it is registered.
            let done = unsafe { Block::done(block) };
            // A lane that starts inside of a block will never see the slots before. Relaxed: published by L1.
            // SAFETY: as above.
            unsafe { &*done }.store((own.position % BLOCK as u64) as u32, Relaxed);
            // SAFETY: the next number, by the owner.
            unsafe { self.directories.register(number, block) };
            own.unregistered = number + 1;
            block
        };
        // SAFETY: the block of `position`.
        unsafe { own.enter(block) };
        Some(own.cursor)
    }

    /// Counts the reserved slot as filled. It can be claimed after the next [`Lane::publish`].
    ///
    /// # Safety
    /// 1. The owner.
    /// 2. The last [`Lane::reserve`] returned a slot, the slot was written, and it was not committed before.
    #[inline(always)]
    pub unsafe fn commit(&self) {
        // SAFETY: the owner.
        unsafe {
            self.private(|own| {
                own.cursor = own.cursor.wrapping_add(1);
                own.position += 1;
            });
        }
    }

    /// Makes everything committed so far claimable.
    ///
    /// # Safety
    /// 1. The owner.
    #[inline(always)]
    pub unsafe fn publish(&self) {
        // SAFETY: the owner.
        self.tail.0.store(unsafe { self.position() }, ord("L1", Release));
    }

    /// The position of the next task.
    ///
    /// # Safety
    /// 1. The owner.
    #[inline(always)]
    pub unsafe fn position(&self) -> u64 {
        // SAFETY: the owner.
        unsafe { self.private(|own| own.position) }
    }

    /// The first position that [`Lane::reserve`] refuses; `u64::MAX` at first.
    ///
    /// # Safety
    /// 1. The owner.
    pub unsafe fn limit(&self) -> u64 {
        // SAFETY: the owner.
        unsafe { self.private(|own| own.limit) }
    }

    /// Moves the limit. It costs the hot path nothing.
    ///
    /// # Safety
    /// 1. The owner.
    pub unsafe fn set_limit(&self, limit: u64) {
        // SAFETY: the owner.
        unsafe {
            self.private(|own| {
                own.limit = limit;
                own.set_stop();
            });
        }
    }

    /// Takes back what of `[from, position)` is not claimed, and returns the first position that is the owner's again:
    /// workers have claimed exactly those before it. Tasks before `from` stay claimable; nothing from here on is,
    /// however often it is published. Never waits.
    ///
    /// The tasks of `[returned, position before the call)` can be read by [`Lane::slot_at`] until the next
    /// [`Lane::reserve`], which continues at the returned position.
    ///
    /// # Safety
    /// 1. The owner.
    /// 2. Everything committed is published, and `from` is not larger than [`Lane::position`].
    #[cold]
    pub unsafe fn withdraw(&self, from: u64) -> u64 {
        // SAFETY: the owner.
        let position = unsafe { self.position() };
        debug_assert!(from <= position && self.tail.0.load(Relaxed) == position, "withdrawn before it was published");
        // Relaxed, both: only the owner writes `end`, and the exchange below decides about `head`.
        let end = self.end.load(Relaxed);
        let mut head = Head::from_bits(self.head.0.load(Relaxed));
        // Nothing from `end` on is claimable since the last cut.
        if !head.is_cut() || from < end {
            self.end.store(from, Relaxed);
            loop {
                let cut = if planted("lane-no-cut") { head } else { head.cut() };
                let cut = if planted("lane-one-cut") && head.is_cut() { head } else { cut };
                match self.head.0.compare_exchange(head.bits(), cut.bits(), ord("L4", Release), Relaxed) {
                    Ok(_) => break,
                    Err(now) => head = Head::from_bits(now),
                }
            }
        }
        let first = from.max(head.position());
        // SAFETY: the owner; the positions from `first` on are its own.
        unsafe { self.roll_back(first) };
        first
    }

    /// Continues at `first`.
    ///
    /// # Safety
    /// 1. The owner.
    /// 2. No position from `first` on was or will be claimed before it is published again.
    unsafe fn roll_back(&self, first: u64) {
        let resume = |own: &mut Producer<S, BLOCK>| {
            if first == own.position {
                return;
            }
            own.position = first;
            if first.is_multiple_of(BLOCK as u64) {
                (own.cursor, own.block_end) = (null_mut(), null_mut());
                return own.set_stop();
            }
            // SAFETY: registered, as its slot of `first` is not counted.
            let block = unsafe { self.directories.find(first / BLOCK as u64) };
            // SAFETY: the block of `position`.
            unsafe { own.enter(block) };
        };
        // SAFETY: the owner.
        unsafe { self.private(resume) };
        // Relaxed: claimers go by `end` since the cut, and get the tasks before it with the cut (L3, L4).
        self.tail.0.store(first, Relaxed);
    }

    /// The slot of a task that was withdrawn.
    ///
    /// # Safety
    /// 1. The owner.
    /// 2. The position was withdrawn, and nothing was reserved since.
    pub unsafe fn slot_at(&self, position: u64) -> *mut S {
        // SAFETY: a block with a slot that is neither claimed nor counted is registered.
        let block = unsafe { self.directories.find(position / BLOCK as u64) };
        // SAFETY: inside of the block.
        let slot = unsafe { Block::slot(block, (position % BLOCK as u64) as usize) };
        // SAFETY: as above.
        let slot = unsafe { &*slot };
        slot.with(|storage| storage.cast())
    }
}
