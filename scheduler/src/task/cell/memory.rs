//! Where slabs and homes get their memory: the one seam for tests that count and for placement by node.

#![expect(unsafe_code, reason = "maps and unmaps memory")]

use super::Blank;
use crate::config::HOMES_BY_NODE;
use std::alloc::Layout;
use std::ptr::{NonNull, null_mut};

/// Below this size memory comes from the global allocator. Above it from `mmap`, because a memory allocator pays for
/// the alignment with memory and rarely gives a freed slab back to the system. Four pages: a mapping is made of
/// pages.
const MAP_FROM: usize = 4 * 4096;

/// How slabs and homes are provided and released. Called on the thread that is going to use the memory, which touches
/// it first.
#[derive(Clone, Copy)]
pub struct Source {
    provide: fn(Layout) -> *mut u8,
    release: unsafe fn(*mut u8, Layout),
    node: fn() -> u32,
}

impl Source {
    /// Pages of the system.
    pub const SYSTEM: Source = Source { provide: system_provide, release: system_release, node: system_node };

    /// A source of its own. `provide` returns null when there is no memory.
    ///
    /// # Safety `provide(layout)` returns null or memory as `layout` asks for that nobody else uses until `release`
    /// is called with the same pointer and layout. Both may be called from any thread, `release` from another one
    /// than `provide`.
    pub const unsafe fn new(provide: fn(Layout) -> *mut u8, release: unsafe fn(*mut u8, Layout)) -> Self {
        Source { provide, release, node: || 0 }
    }

    /// The same with several nodes: `node` says on which one the caller runs, and so whose memory it touches first.
    #[must_use]
    pub const fn on_nodes(self, node: fn() -> u32) -> Self {
        Source { node, ..self }
    }

    /// Where memory that the caller touches first comes from.
    pub(super) fn node(self) -> u32 {
        (self.node)()
    }

    /// Memory for `layout`; does not return when there is none.
    pub(super) fn provide(self, layout: Layout) -> NonNull<Blank> {
        match NonNull::new((self.provide)(layout)) {
            Some(memory) => memory.cast(),
            None => std::alloc::handle_alloc_error(layout),
        }
    }

    /// Gives memory back.
    ///
    /// # Safety
    /// `memory` came from [`provide`](Self::provide) of this source with this `layout`, and nobody uses it any more.
    pub(super) unsafe fn release(self, memory: NonNull<Blank>, layout: Layout) {
        // SAFETY: the caller's promise is the one that `release` asks for.
        unsafe { (self.release)(memory.as_ptr().cast(), layout) }
    }
}

/// `getcpu`. Where the system does not tell, all such threads share their homes as if on one node.
fn system_node() -> u32 {
    if HOMES_BY_NODE { numa::current_node().map_or(u32::MAX, |node| node.get()) } else { 0 }
}

fn system_provide(layout: Layout) -> *mut u8 {
    if layout.size() >= MAP_FROM {
        return map_aligned(layout.size(), layout.align());
    }
    // SAFETY: nothing that is asked for here has size zero.
    unsafe { std::alloc::alloc(layout) }
}

/// # Safety
/// See [`Source::release`].
unsafe fn system_release(memory: *mut u8, layout: Layout) {
    if layout.size() >= MAP_FROM {
        // SAFETY: a whole mapping from `map_aligned` that nobody uses.
        unsafe { unmap(memory, layout.size()) }
    } else {
        // SAFETY: below the limit it came from the global allocator with the same layout.
        unsafe { std::alloc::dealloc(memory, layout) }
    }
}

/// The kernel places mappings of one size next to each other, so that after one aligned slab the next is aligned by
/// itself. Where it is not, twice the room is mapped and the ends are cut off.
fn map_aligned(size: usize, align: usize) -> *mut u8 {
    let guess = map(size);
    if guess.addr().is_multiple_of(align) {
        return guess;
    }
    // SAFETY: just mapped, known to nobody.
    unsafe { unmap(guess, size) };
    let wide = map(size + align);
    if wide.is_null() {
        return wide;
    }
    let lead = wide.addr().next_multiple_of(align) - wide.addr();
    let slab = wide.wrapping_add(lead);
    // SAFETY: the part of the new mapping before the slab.
    unsafe { unmap(wide, lead) };
    // SAFETY: the part of the new mapping behind the slab.
    unsafe { unmap(slab.wrapping_add(size), align - lead) };
    slab
}

/// `mmap(PRIVATE | ANONYMOUS)`: null on any errno (all of them mean: no memory, no address space, or a limit).
fn map(size: usize) -> *mut u8 {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new anonymous mapping disturbs no other memory.
    let memory = unsafe { libc::mmap(null_mut(), size, access, flags, -1, 0) };
    if memory == libc::MAP_FAILED { null_mut() } else { memory.cast() }
}

/// `munmap`. ENOMEM (the hole would need one mapping more than the process may have): the pages are given back all
/// the same (`madvise(DONTNEED)`), only their addresses stay taken. No other errno can come from a mapping of ours.
///
/// # Safety
/// `[memory, memory + size)` is mapped by [`map`] and used by nobody.
unsafe fn unmap(memory: *mut u8, size: usize) {
    if size == 0 || memory.is_null() {
        return;
    }
    // SAFETY: mapped by us and unused, by the caller's promise.
    if unsafe { libc::munmap(memory.cast(), size) } != 0 {
        // SAFETY: as above; the range is still mapped.
        unsafe { libc::madvise(memory.cast(), size, libc::MADV_DONTNEED) };
    }
}
