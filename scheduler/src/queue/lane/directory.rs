//! Block number to block.
//!
//! A directory serves the numbers from its `first` until a larger one takes over, so the one place where a block may be
//! found is a function of its number: growth copies nothing and cannot race with the clearing of an entry.
//!
//! A directory that was passed is freed as soon as the last of its blocks is cleared *and* every older directory is
//! gone. In that order a walk from the newest towards the directory of a block that is still registered meets only
//! directories that exist, so neither epochs nor hazard pointers are needed here.

#![expect(unsafe_code, reason = "directories are linked by raw pointers and freed by the last one to let go")]

use super::block::Block;
use crate::sync::{AcqRel, Acquire, AtomicPtr, AtomicU64, Relaxed, Release, ord, planted};
use std::ptr::null_mut;

/// What a directory holds while it is the newest: more than there are blocks.
const NEWEST: u64 = 1 << 63;

struct Directory<S, const BLOCK: usize> {
    /// The first number found here.
    first: u64,
    /// 1 if an older directory existed at creation, whose end this one waits for.
    waits: u64,
    /// Set before the directory is shared; cleared when the older one is freed.
    older: AtomicPtr<Self>,
    /// Set by the owner when a larger directory takes over.
    newer: AtomicPtr<Self>,
    /// Reasons not to free it: counted down from [`NEWEST`], which the owner trades for the real number of reasons
    /// when it goes on to a larger one.
    holds: AtomicU64,
    /// Power of two entries; number `n` is at `n` modulo the length.
    blocks: Box<[AtomicPtr<Block<S, BLOCK>>]>,
}

impl<S, const BLOCK: usize> Directory<S, BLOCK> {
    fn create(first: u64, len: usize, waits: u64) -> *mut Self {
        Box::into_raw(Box::new(Directory {
            first,
            waits,
            older: AtomicPtr::new(null_mut()),
            newer: AtomicPtr::new(null_mut()),
            holds: AtomicU64::new(NEWEST),
            blocks: (0..len).map(|_| AtomicPtr::new(null_mut())).collect(),
        }))
    }

    #[inline(always)]
    fn entry(&self, number: u64) -> &AtomicPtr<Block<S, BLOCK>> {
        &self.blocks[number as usize & (self.blocks.len() - 1)]
    }

    /// Frees a directory that nothing holds and returns the one that waited for this.
    ///
    /// # Safety
    /// The caller took the last hold.
    unsafe fn free(directory: *mut Self) -> *mut Self {
        // SAFETY: nobody else can reach it: all its blocks are cleared, and walks end at a registered block.
        let directory = unsafe { Box::from_raw(directory) };
        debug_assert!(directory.blocks.iter().all(|entry| entry.load(Relaxed).is_null()), "freed with blocks in it");
        // Relaxed: ordered by the hold that was taken last (L9, L10).
        let newer = directory.newer.load(Relaxed);
        // SAFETY: the newer directory waits for this one, so it exists.
        let link = unsafe { &(*newer).older };
        link.store(null_mut(), Relaxed);
        newer
    }
}

/// All directories of a lane, reached from the newest.
pub(super) struct Directories<S, const BLOCK: usize> {
    newest: AtomicPtr<Directory<S, BLOCK>>,
}

impl<S, const BLOCK: usize> Directories<S, BLOCK> {
    /// 32 entries in production: 2048 tasks for 256 bytes.
    const FIRST_LEN: usize = BLOCK.div_ceil(2);

    pub(super) fn new(first: u64) -> Self {
        Directories { newest: AtomicPtr::new(Directory::create(first, Self::FIRST_LEN, 0)) }
    }

    /// The directory of `number`.
    ///
    /// # Safety
    /// Block `number` is registered and the registration happens before this call, and the caller keeps it registered.
    #[inline(always)]
    unsafe fn of(&self, number: u64) -> *mut Directory<S, BLOCK> {
        let mut at = self.newest.load(ord("L8", Acquire));
        loop {
            // SAFETY: not older than the directory of a registered block, so it exists.
            let directory = unsafe { &*at };
            if number >= directory.first {
                return at;
            }
            at = directory.older.load(Relaxed);
        }
    }

    /// The block registered under `number`.
    ///
    /// # Safety
    /// As for [`Directories::of`].
    #[inline(always)]
    pub(super) unsafe fn find(&self, number: u64) -> *mut Block<S, BLOCK> {
        // SAFETY: the caller's promise.
        let directory = unsafe { self.of(number) };
        // SAFETY: it holds a registered block.
        let directory = unsafe { &*directory };
        // Relaxed: the registration happens before (L1, L2), and nobody clears it meanwhile.
        directory.entry(number).load(Relaxed)
    }

    /// Makes `block` findable.
    ///
    /// # Safety
    /// Owner only; `number` follows the last one registered.
    pub(super) unsafe fn register(&self, number: u64, block: *mut Block<S, BLOCK>) {
        let newest = self.newest.load(Relaxed);
        // SAFETY: the newest directory is never freed.
        let mut directory = unsafe { &*newest };
        // Relaxed: null means only that the entry may be used again. The block that was there returns by itself.
        if !directory.entry(number).load(Relaxed).is_null() {
            // SAFETY: just loaded, and only the owner changes it.
            let larger = unsafe { self.grow(newest, number) };
            // SAFETY: now the newest.
            directory = unsafe { &*larger };
        }
        // Relaxed: published together with the block's first task (L1).
        directory.entry(number).store(block, Relaxed);
    }

    /// Starts a directory of twice the size for the numbers from `first`.
    ///
    /// # Safety
    /// Owner only; `old` is the newest directory.
    #[cold]
    unsafe fn grow(&self, old: *mut Directory<S, BLOCK>, first: u64) -> *mut Directory<S, BLOCK> {
        // SAFETY: the newest directory exists until the trade below.
        let passed = unsafe { &*old };
        let waits = if planted("lane-directory-order") { 0 } else { 1 };
        let larger = Directory::create(first, passed.blocks.len() * 2, waits);
        // SAFETY: just created.
        let link = unsafe { &(*larger).older };
        link.store(old, Relaxed);
        passed.newer.store(larger, Relaxed);
        self.newest.store(larger, ord("L7", Release));
        let trade = (first - passed.first + passed.waits).wrapping_sub(NEWEST);
        if passed.holds.fetch_add(trade, ord("L9", AcqRel)).wrapping_add(trade) == 0 {
            // SAFETY: that was the last hold.
            let waiting = unsafe { Directory::free(old) };
            // SAFETY: it waited for `old`, whose hold is handed over.
            unsafe { self.let_go(waiting) };
        }
        larger
    }

    /// Makes `number` free for reuse.
    ///
    /// # Safety
    /// As for [`Directories::of`], and all slots of the block are counted: this is the one call for it.
    pub(super) unsafe fn clear(&self, number: u64) {
        // SAFETY: the caller's promise.
        let at = unsafe { self.of(number) };
        // SAFETY: it holds a registered block.
        let directory = unsafe { &*at };
        directory.entry(number).store(null_mut(), Relaxed);
        // SAFETY: the block's own hold.
        unsafe { self.let_go(at) };
    }

    /// Gives up one hold, and frees what nothing holds any more, oldest first.
    ///
    /// # Safety
    /// The caller owns the hold.
    unsafe fn let_go(&self, directory: *mut Directory<S, BLOCK>) {
        let mut at = directory;
        loop {
            // SAFETY: held by the caller, or by the directory freed in the round before.
            let holds = unsafe { &(*at).holds };
            if holds.fetch_sub(1, ord("L10", AcqRel)) != 1 {
                return;
            }
            // SAFETY: that was the last hold.
            at = unsafe { Directory::free(at) };
        }
    }

    /// Frees everything that is registered, and the directories.
    pub(super) fn free_all(&mut self) {
        let mut at = self.newest.load(Relaxed);
        while !at.is_null() {
            // SAFETY: `&mut self`: no claimer is left, and each directory is linked once.
            let directory = unsafe { Box::from_raw(at) };
            for entry in &directory.blocks {
                let block = entry.load(Relaxed);
                if !block.is_null() {
                    // SAFETY: registered once, and nobody uses it.
                    unsafe { Block::free(block) };
                }
            }
            at = directory.older.load(Relaxed);
        }
    }
}
