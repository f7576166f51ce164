//! The slab: a block of memory, as large as it is aligned, that holds a header and cells of one size. The header
//! tells the home of a cell by a mask, so a cell pays no word for it.

#![expect(unsafe_code, reason = "turns cell addresses into slab headers, and links free cells through their memory")]

use super::home::Home;
use super::memory::Source;
use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// The memory of a cell while no task is in it: aligned to 64 bytes, contents undefined. The first word of a free
/// cell is the link to the next one.
#[repr(C, align(64))]
pub struct Blank([MaybeUninit<u8>; 64]);

/// What is known of a cell by its address. Written once when the slab is made and never changed, so every thread
/// reads it without a miss; it is alone on its line.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Header {
    /// Where the slab's cells belong.
    pub(super) home: NonNull<Home>,
    /// Number of the home, dense within its depot.
    pub(super) id: u32,
    /// Number of the slab on its home's shelf.
    pub(super) index: u32,
}

/// Geometry of the slabs of one class of cells.
pub(super) struct Slab<const SIZE: usize, const PER_SLAB: usize>;

impl<const SIZE: usize, const PER_SLAB: usize> Slab<SIZE, PER_SLAB> {
    const HEADER: usize = size_of::<Blank>();
    const BYTES: usize = {
        assert!(SIZE > 0 && SIZE.is_multiple_of(size_of::<Blank>()), "cells are whole lines");
        assert!(PER_SLAB > 0 && PER_SLAB < u32::MAX as usize);
        (Self::HEADER + SIZE * PER_SLAB).next_power_of_two()
    };
    const LAYOUT: Layout = match Layout::from_size_align(Self::BYTES, Self::BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("a slab as large as the address space"),
    };

    /// A new slab with its header.
    pub(super) fn provide(source: Source, header: Header) -> NonNull<Blank> {
        let base = source.provide(Self::LAYOUT);
        // SAFETY: fresh memory, large enough and aligned.
        unsafe { base.cast::<Header>().write(header) };
        base
    }

    /// Gives a slab back.
    ///
    /// # Safety
    /// `base` came from [`provide`](Self::provide) with the same source; every cell of it is back and unused.
    pub(super) unsafe fn release(source: Source, base: NonNull<Blank>) {
        // SAFETY: by the caller's promise.
        unsafe { source.release(base, Self::LAYOUT) }
    }

    /// The header of the slab that `cell` lies in.
    ///
    /// # Safety
    /// `cell` is a cell of a living slab of this geometry.
    #[inline]
    pub(super) unsafe fn header(cell: NonNull<Blank>) -> Header {
        let base = cell.as_ptr().map_addr(|address| address & !(Self::BYTES - 1));
        // SAFETY: slabs are aligned to their size and begin with a header that never changes.
        unsafe { base.cast::<Header>().read() }
    }

    /// Cell `number` of the slab at `base`.
    pub(super) fn cell(base: NonNull<Blank>, number: u32) -> NonNull<Blank> {
        debug_assert!((number as usize) < PER_SLAB);
        let lines = (Self::HEADER + number as usize * SIZE) / size_of::<Blank>();
        // SAFETY: within the slab by the geometry.
        unsafe { base.add(lines) }
    }
}

/// Free cells linked through their first words, last-in first-out. No list owns memory: the slabs do.
#[derive(Default)]
pub(super) struct List(Option<NonNull<Blank>>);

impl List {
    pub(super) const fn new() -> Self {
        List(None)
    }

    /// The list that begins with `first`.
    ///
    /// # Safety
    /// `first` is null or the first of a chain made by [`link`] that ends in null; its cells are the caller's alone.
    pub(super) unsafe fn from_chain(first: *mut Blank) -> Self {
        List(NonNull::new(first))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds a cell.
    ///
    /// # Safety
    /// The cell is the caller's alone and its slab lives as long as the cell is on the list.
    pub(super) unsafe fn push(&mut self, cell: NonNull<Blank>) {
        // SAFETY: the caller's alone.
        unsafe { link(cell, self.0.map_or(std::ptr::null_mut(), NonNull::as_ptr)) };
        self.0 = Some(cell);
    }

    /// Takes the cell added last.
    pub(super) fn pop(&mut self) -> Option<NonNull<Blank>> {
        let cell = self.0?;
        // SAFETY: what is on the list was linked and belongs to the list's owner.
        self.0 = NonNull::new(unsafe { cell.cast::<*mut Blank>().read() });
        Some(cell)
    }
}

/// Makes `next` follow `cell`.
///
/// # Safety
/// The cell is the caller's alone.
#[inline]
pub(super) unsafe fn link(cell: NonNull<Blank>, next: *mut Blank) {
    // SAFETY: at least a line of memory that is the caller's alone.
    unsafe { cell.cast::<*mut Blank>().write(next) }
}
