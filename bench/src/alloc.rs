//! The counting allocator: how `allocs/task` is taken.
//!
//! Counting is off while anything is timed, so that the shared counter of this file is never on a measured path; what
//! is left then is one load of a line nobody writes.
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[repr(align(128))]
struct Line<T>(T);

static ON: Line<AtomicBool> = Line(AtomicBool::new(false));
static COUNT: Line<AtomicU64> = Line(AtomicU64::new(0));

struct Counting;

#[inline]
fn count() {
    // Relaxed: a statistic, read after the counted work has been waited for.
    if ON.0.load(Relaxed) {
        COUNT.0.fetch_add(1, Relaxed);
    }
}

// SAFETY: every method hands its arguments unchanged to the system allocator and returns what that returned.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`, which is the same for both allocators.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the block came from `System` (see `alloc`) with this layout, as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as for `dealloc`, and `new_size` is what the caller promises it to be.
        unsafe { System.realloc(at, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts the allocations of all threads until [`Counted::stop`]. Only one at a time: a second one waits.
pub(crate) struct Counted(MutexGuard<'static, ()>);

impl Counted {
    /// Starts counting from zero.
    pub(crate) fn start() -> Counted {
        static ONE: Mutex<()> = Mutex::new(());
        // It guards no data that a panic could have left half-done.
        let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        COUNT.0.store(0, Relaxed);
        ON.0.store(true, Relaxed);
        Counted(guard)
    }

    /// Stops and returns the number of blocks asked for.
    pub(crate) fn stop(self) -> u64 {
        ON.0.store(false, Relaxed);
        let seen = COUNT.0.load(Relaxed);
        drop(self.0);
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_only_between_start_and_stop() {
        // Other tests run beside this one: what they allocate counts too, but nothing does while the switch is off.
        let counted = Counted::start();
        ON.0.store(false, Relaxed);
        let before = COUNT.0.load(Relaxed);
        std::hint::black_box(Box::new(8_u64));
        assert_eq!(COUNT.0.load(Relaxed), before);
        ON.0.store(true, Relaxed);
        std::hint::black_box(Box::new(7_u64));
        std::hint::black_box(vec![1_u8; 100]);
        let seen = counted.stop();
        assert!(seen >= before + 2, "{before} {seen}");
    }
}
