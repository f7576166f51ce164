//! The shelf: a home's slabs and which of their cells are in them. Owner only; passed on by value when the owner
//! changes.

#![expect(unsafe_code, reason = "takes slabs and gives them back")]

use super::memory::Source;
use super::slab::{Blank, Header, List, Slab};
use crate::sync::planted;
use std::cell::Cell;
use std::ptr::NonNull;

/// What the shelf knows of one slab.
struct Book {
    /// Dangling while the number is vacant.
    base: NonNull<Blank>,
    /// Idle cells that were out before.
    listed: List,
    /// Cells below this number were out before; memory above it is untouched.
    fresh: u32,
    /// Cells in the slab: listed and untouched ones.
    idle: u32,
}

impl Book {
    const VACANT: Book = Book { base: NonNull::dangling(), listed: List::new(), fresh: 0, idle: 0 };
}

/// The slabs of one home.
pub(super) struct Shelf<const SIZE: usize, const PER_SLAB: usize> {
    books: Vec<Book>,
    /// Vacant numbers of `books`.
    vacant: Vec<u32>,
    /// Exactly the slabs with idle cells; the last one serves next.
    open: Vec<u32>,
    /// How many slabs have all their cells.
    complete: usize,
}

impl<const SIZE: usize, const PER_SLAB: usize> Shelf<SIZE, PER_SLAB> {
    pub(super) const fn new() -> Self {
        Shelf { books: Vec::new(), vacant: Vec::new(), open: Vec::new(), complete: 0 }
    }

    /// How many slabs there are.
    pub(super) fn slabs(&self) -> usize {
        self.books.len() - self.vacant.len()
    }

    /// How many slabs have all their cells.
    pub(super) fn complete(&self) -> usize {
        self.complete
    }

    /// Moves cells of one slab to `to`; returns how many. 0: none is idle.
    pub(super) fn take(&mut self, to: &[Cell<*mut Blank>]) -> usize {
        let Some(&index) = self.open.last() else {
            return 0;
        };
        let book = &mut self.books[index as usize];
        self.complete -= usize::from(book.idle as usize == PER_SLAB);
        let mut moved = 0;
        for place in &to[..to.len().min(book.idle as usize)] {
            let cell = book.listed.pop().unwrap_or_else(|| {
                book.fresh += 1;
                Slab::<SIZE, PER_SLAB>::cell(book.base, book.fresh - 1)
            });
            place.set(cell.as_ptr());
            moved += 1;
        }
        book.idle -= moved as u32;
        if book.idle == 0 {
            self.open.pop();
        }
        moved
    }

    /// Takes a cell back.
    ///
    /// # Safety
    /// The cell is of this shelf's home, and the caller's alone; `header` is that of its slab.
    pub(super) unsafe fn put(&mut self, cell: NonNull<Blank>, header: Header) {
        let book = &mut self.books[header.index as usize];
        debug_assert!((book.idle as usize) < PER_SLAB, "a cell came back twice");
        // SAFETY: the caller's alone; the slab is freed only when all its cells are listed, which then nobody pops.
        unsafe { book.listed.push(cell) };
        if book.idle == 0 {
            self.open.push(header.index);
        }
        book.idle += 1;
        self.complete += usize::from(book.idle as usize == PER_SLAB);
    }

    /// Adds a slab. `header` tells its home; the number is chosen here.
    #[cold]
    pub(super) fn grow(&mut self, source: Source, header: Header) {
        let index = self.vacant.pop().unwrap_or(self.books.len() as u32);
        let base = Slab::<SIZE, PER_SLAB>::provide(source, Header { index, ..header });
        let book = Book { base, listed: List::new(), fresh: 0, idle: PER_SLAB as u32 };
        match self.books.get_mut(index as usize) {
            Some(vacant) => *vacant = book,
            None => self.books.push(book),
        }
        self.open.push(index);
        self.complete += 1;
    }

    /// Frees complete slabs until at most `keep` are left, and lets the fullest serve next, so that the others can
    /// become complete.
    pub(super) fn release(&mut self, source: Source, keep: usize) {
        let early = planted("cell-slab-early");
        let mut surplus = if early { self.open.len() } else { self.complete.saturating_sub(keep) };
        if surplus == 0 {
            return;
        }
        let books = &mut self.books;
        self.open.retain(|&index| {
            let book = &mut books[index as usize];
            if surplus == 0 || (!early && (book.idle as usize) < PER_SLAB) {
                return true;
            }
            surplus -= 1;
            let base = std::mem::replace(book, Book::VACANT).base;
            // SAFETY: provided in `grow` from this source (one per depot); all cells were idle and are forgotten now.
            unsafe { Slab::<SIZE, PER_SLAB>::release(source, base) };
            self.vacant.push(index);
            false
        });
        self.complete = self.complete.min(keep);
        self.open.sort_unstable_by_key(|&index| std::cmp::Reverse(books[index as usize].idle));
        if self.slabs() == 0 {
            *self = Self::new();
        }
    }
}
