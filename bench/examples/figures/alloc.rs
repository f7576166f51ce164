//! The allocator, which can count the bytes that are allocated now.
//!
//! Off unless `memory` switches it on, before anything of the scheduler exists.
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

static ON: AtomicBool = AtomicBool::new(false);
/// Signed: what was allocated before counting began may be freed after.
static LIVE: AtomicI64 = AtomicI64::new(0);

struct Weighing;

#[inline]
fn add(bytes: i64) {
    // Relaxed: a statistic, read when those who allocate stand still.
    if ON.load(Relaxed) {
        LIVE.fetch_add(bytes, Relaxed);
    }
}

// SAFETY: every method hands its arguments unchanged to the system allocator and returns what that returned.
unsafe impl GlobalAlloc for Weighing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same for both allocators.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        add(-(layout.size() as i64));
        // SAFETY: the block came from `System` (see `alloc`) with this layout, as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        add(new_size as i64 - layout.size() as i64);
        // SAFETY: as for `dealloc`, and `new_size` is what the caller promises it to be.
        unsafe { System.realloc(at, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Weighing = Weighing;

/// From now on bytes are counted.
pub(crate) fn weigh() {
    ON.store(true, Relaxed);
}

/// The bytes allocated and not freed since [`weigh`].
pub(crate) fn live() -> i64 {
    LIVE.load(Relaxed)
}
