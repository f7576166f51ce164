#![doc = include_str!("README.md")]
#![expect(unsafe_code, reason = "hands out memory by raw pointer, without bounds checks on the hot path")]

mod depot;
mod estate;
mod home;
mod memory;
mod outbox;
mod shelf;
mod slab;

pub use depot::{Depot, Lock};
pub use memory::Source;
pub use slab::Blank;

use crate::sync::planted;
use estate::Estate;
use outbox::Outbox;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::ptr::{NonNull, null_mut};

/// The unit in which the cache is filled, trimmed and overfilled: what a worker claims from a lane at once.
const BATCH: usize = 64;
/// More than this and `trim` acts.
const HIGH: usize = 2 * BATCH;
/// Room for a batch of `put`s above `HIGH`, and as much again, because `put` takes the caller's word for it.
const DEPTH: usize = HIGH + 2 * BATCH;
/// The least number of cells a busy thread sends home at once: one locked instruction (about 20 cycles, more when the
/// line is elsewhere) over 16 cells is below 2 cycles a cell, and 15 cells of every other home is what may wait.
const SHIPMENT: usize = 16;
/// Complete slabs that an idle thread keeps: with slabs of 64 KiB a quarter of a MiB, enough for 4,000 tasks at once.
const KEEP: usize = 4;

/// One thread's free cells of `SIZE` bytes, last-in first-out, from slabs of `PER_SLAB` cells. Owner only: neither
/// `Sync` nor `Send`.
///
/// Dropping it is the thread's exit: everything goes home.
pub struct Cache<'d, const SIZE: usize, const PER_SLAB: usize> {
    /// `stack[..count]` are free cells, the hottest last. Own and foreign ones alike.
    count: Cell<usize>,
    stack: [Cell<*mut Blank>; DEPTH],
    cold: RefCell<Cold<SIZE, PER_SLAB>>,
    depot: &'d Depot<SIZE, PER_SLAB>,
}

/// What the hot path does not touch.
struct Cold<const SIZE: usize, const PER_SLAB: usize> {
    /// None until the first `take`: a thread that only frees needs no home.
    estate: Option<Estate<SIZE, PER_SLAB>>,
    outbox: Outbox,
}

impl<'d, const SIZE: usize, const PER_SLAB: usize> Cache<'d, SIZE, PER_SLAB> {
    /// An empty cache.
    pub const fn new(depot: &'d Depot<SIZE, PER_SLAB>) -> Self {
        Cache {
            count: Cell::new(0),
            stack: [const { Cell::new(null_mut()) }; DEPTH],
            cold: RefCell::new(Cold { estate: None, outbox: Outbox::new() }),
            depot,
        }
    }

    /// The memory of a cell, the caller's alone until it is `put`. Does not return when the system has no memory.
    #[inline(always)]
    pub fn take(&self) -> NonNull<Blank> {
        match self.count.get().checked_sub(1) {
            Some(rest) => self.pop(rest),
            None => self.take_slowly(),
        }
    }

    /// Gives a cell back. Cells of any thread's cache are welcome.
    ///
    /// # Safety
    /// 1. `cell` was taken from a cache of the same depot and has not been put since.
    /// 2. Nobody uses the cell any more, not even by reading its first word.
    /// 3. At most 64 cells were put since [`trim`](Self::trim) or [`settle`](Self::settle) was called last.
    #[inline(always)]
    pub unsafe fn put(&self, cell: NonNull<Blank>) {
        let count = self.count.get();
        debug_assert!(count < DEPTH, "put without trim");
        // SAFETY: by promise 3 there is room: trim leaves at most `HIGH`.
        let place = unsafe { self.stack.get_unchecked(count) };
        place.set(cell.as_ptr());
        self.count.set(count + 1);
    }

    /// Makes sure that the next `cells` calls of [`take`](Self::take) only take.
    ///
    /// # Panics
    /// When more than 64 are wanted.
    #[inline(always)]
    pub fn reserve(&self, cells: usize) {
        if self.count.get() < cells {
            self.refill(cells);
        }
    }

    /// The next `cells` that [`take`](Self::take) would return, the next one last. They stay in the cache.
    ///
    /// # Panics
    /// When there are fewer: see [`reserve`](Self::reserve).
    #[inline(always)]
    pub fn peek(&self, cells: usize) -> &[Cell<*mut Blank>] {
        let count = self.count.get();
        &self.stack[count - cells..count]
    }

    /// Takes the next `cells` at once: those that [`peek`](Self::peek) has shown.
    #[inline(always)]
    pub fn take_many(&self, cells: usize) {
        debug_assert!(cells <= self.count.get(), "took more than there are");
        self.count.set(self.count.get() - cells);
    }

    /// Keeps room for 64 more `put`s: when the cache is overfull, the coldest cells go, own ones to their slabs and
    /// foreign ones home, at least 16 at once.
    #[inline(always)]
    pub fn trim(&self) {
        if self.count.get() > HIGH {
            self.spill();
        }
    }

    /// Sends every foreign cell home, collects what came home, and frees slabs that nobody needs. Before the thread
    /// sleeps; not on the hot path.
    pub fn settle(&self) {
        let cold = &mut *self.cold.borrow_mut();
        let own_too = cold.estate.as_mut().is_some_and(|estate| {
            estate.absorb();
            estate.slabs() > KEEP
        });
        let cells = self.count.replace(0);
        let kept = self.sort_out(cold, &self.stack[..cells], own_too);
        self.count.set(kept);
        cold.outbox.send(1);
        if let Some(estate) = &mut cold.estate {
            estate.release(self.depot.source(), KEEP);
        }
    }

    /// How many foreign cells were sent home, and in how many trips.
    pub fn sent_home(&self) -> (u64, u64) {
        self.cold.borrow().outbox.sent()
    }

    /// How many cells `take` can hand out without a look at the slabs.
    pub fn ready(&self) -> usize {
        self.count.get()
    }

    /// Takes the top cell and leaves `rest`.
    #[inline(always)]
    fn pop(&self, rest: usize) -> NonNull<Blank> {
        self.count.set(rest);
        // SAFETY: `rest` is one less than a count, so below `DEPTH`.
        let cell = unsafe { self.stack.get_unchecked(rest) };
        // SAFETY: places below a count hold cells.
        unsafe { NonNull::new_unchecked(cell.get()) }
    }

    #[cold]
    #[inline(never)]
    fn take_slowly(&self) -> NonNull<Blank> {
        self.refill(1);
        self.pop(self.count.get() - 1)
    }

    /// Fills up to a batch, and to `need` by all means.
    #[cold]
    #[inline(never)]
    fn refill(&self, need: usize) {
        assert!(need <= BATCH, "at most {BATCH} cells can be reserved");
        let cold = &mut *self.cold.borrow_mut();
        let estate = cold.estate.get_or_insert_with(|| self.depot.adopt());
        let count = self.count.get();
        let got = estate.fill(&self.stack[count..BATCH], need - count, self.depot.source());
        self.count.set(count + got);
    }

    /// The coldest go: all but a batch.
    #[cold]
    #[inline(never)]
    fn spill(&self) {
        let cold = &mut *self.cold.borrow_mut();
        let (count, surplus) = (self.count.get(), self.count.get() - BATCH);
        self.sort_out(cold, &self.stack[..surplus], true);
        for place in 0..BATCH {
            self.stack[place].set(self.stack[surplus + place].get());
        }
        self.count.set(count - surplus);
        cold.outbox.send(SHIPMENT);
        if let Some(estate) = &mut cold.estate {
            estate.release_some(self.depot.source(), KEEP);
        }
    }

    /// Moves the cells at `from` where they belong; own ones stay, closed up at the front, unless `own_too`. Returns
    /// how many stayed.
    fn sort_out(&self, cold: &mut Cold<SIZE, PER_SLAB>, from: &[Cell<*mut Blank>], own_too: bool) -> usize {
        let mut kept = 0;
        for cell in from.iter().filter_map(|place| NonNull::new(place.get())) {
            // SAFETY: a free cell, so its slab lives.
            let header = unsafe { Slab::<SIZE, PER_SLAB>::header(cell) };
            match &mut cold.estate {
                Some(estate) if estate.owns(header) && own_too => {
                    // SAFETY: a free cell of ours, and `owns` was asked.
                    unsafe { estate.put(cell, header) }
                }
                Some(estate) if estate.owns(header) => {
                    from[kept].set(cell.as_ptr());
                    kept += 1;
                }
                // SAFETY: a free cell of ours and its header; one depot per cache by the promise of `put`.
                _ => unsafe { cold.outbox.add(cell, header) },
            }
        }
        kept
    }
}

impl<const SIZE: usize, const PER_SLAB: usize> Drop for Cache<'_, SIZE, PER_SLAB> {
    fn drop(&mut self) {
        let cold = &mut *self.cold.borrow_mut();
        let cells = self.count.replace(0);
        self.sort_out(cold, &self.stack[..cells], true);
        if !planted("cell-exit-keeps-foreign") {
            cold.outbox.send(1);
        }
        if let Some(estate) = cold.estate.take() {
            self.depot.part(estate);
        }
    }
}
