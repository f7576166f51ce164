//! The estate: a home with its shelf, as one owner passes it to the next. Whoever has the value is the owner.

#![expect(unsafe_code, reason = "collects cells by raw pointer and frees the home")]

use super::home::Home;
use super::memory::Source;
use super::shelf::Shelf;
use super::slab::{Blank, Header, List, Slab};
use crate::sync::planted;
use std::cell::Cell;
use std::ptr::NonNull;

/// Everything that belongs to one home.
pub(super) struct Estate<const SIZE: usize, const PER_SLAB: usize> {
    home: NonNull<Home>,
    id: u32,
    /// Where its first owner ran, and so where its slabs are.
    node: u32,
    shelf: Shelf<SIZE, PER_SLAB>,
    /// Collected, not yet sorted onto the shelf: a refill takes what it needs and leaves the rest, so that a million
    /// cells that came home do not stop their owner.
    pending: List,
}

// SAFETY: raw pointers to memory that only the owner of the value uses, apart from the home's atomic word.
unsafe impl<const SIZE: usize, const PER_SLAB: usize> Send for Estate<SIZE, PER_SLAB> {}

impl<const SIZE: usize, const PER_SLAB: usize> Estate<SIZE, PER_SLAB> {
    /// A new home. `id` is used by no other living home of the depot.
    pub(super) fn new(source: Source, id: u32) -> Self {
        Estate { home: Home::provide(source), id, node: source.node(), shelf: Shelf::new(), pending: List::new() }
    }

    /// The node of its memory.
    pub(super) fn node(&self) -> u32 {
        self.node
    }

    /// Whether cells with this header belong here.
    #[inline]
    pub(super) fn owns(&self, header: Header) -> bool {
        header.home == self.home
    }

    /// How many slabs there are.
    pub(super) fn slabs(&self) -> usize {
        self.shelf.slabs()
    }

    /// Fills `to` from the front and returns how many cells it got: as many as come without new memory, at least
    /// `need`.
    pub(super) fn fill(&mut self, to: &[Cell<*mut Blank>], need: usize, source: Source) -> usize {
        let mut got = 0;
        if self.pending.is_empty() {
            self.pending = Home::collect(self.home);
        }
        while got < to.len()
            && let Some(cell) = self.pending.pop()
        {
            to[got].set(cell.as_ptr());
            got += 1;
        }
        while got < to.len() {
            match self.shelf.take(&to[got..]) {
                0 if got >= need => break,
                0 => self.shelf.grow(source, Header { home: self.home, id: self.id, index: 0 }),
                moved => got += moved,
            }
        }
        got
    }

    /// Puts a cell onto the shelf.
    ///
    /// # Safety
    /// The cell is the caller's alone and [`owns`](Self::owns) its `header`.
    pub(super) unsafe fn put(&mut self, cell: NonNull<Blank>, header: Header) {
        // SAFETY: by the caller's promise.
        unsafe { self.shelf.put(cell, header) }
    }

    /// Puts everything that came back so far onto the shelf.
    pub(super) fn absorb(&mut self) {
        loop {
            while let Some(cell) = self.pending.pop() {
                // SAFETY: a cell of this home in a living slab.
                let header = unsafe { Slab::<SIZE, PER_SLAB>::header(cell) };
                // SAFETY: given back to this home and collected, so ours alone.
                unsafe { self.shelf.put(cell, header) };
            }
            self.pending = Home::collect(self.home);
            if self.pending.is_empty() {
                return;
            }
        }
    }

    /// Frees complete slabs until at most `keep` are left.
    pub(super) fn release(&mut self, source: Source, keep: usize) {
        self.shelf.release(source, keep);
    }

    /// Busy owners free later than idle ones: when more than half of the slabs are complete, half of those.
    pub(super) fn release_some(&mut self, source: Source, keep: usize) {
        if self.shelf.complete() > keep + self.shelf.slabs() / 2 {
            self.shelf.release(source, keep + self.shelf.slabs() / 4);
        }
    }

    /// Ends the estate if all its cells are back and returns the home's number; gives the estate back otherwise.
    pub(super) fn close(mut self, source: Source) -> Result<u32, Self> {
        self.absorb();
        self.shelf.release(source, 0);
        if self.shelf.slabs() > 0 && !planted("cell-home-early") {
            return Err(self);
        }
        // SAFETY: no slab is left, so no cell is out, and the value that could collect is consumed here.
        unsafe { Home::release(self.home, source) };
        Ok(self.id)
    }
}
