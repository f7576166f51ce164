//! What runs again and again allocates nothing.
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "counts what the system allocator hands out")]

use scheduler::{Scheduler, join};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

static COUNT: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every method hands its arguments unchanged to the system allocator and returns what that returned.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of the whole process while `f` runs, one test at a time.
fn during(f: impl FnOnce()) -> u64 {
    let before = COUNT.load(Relaxed);
    f();
    COUNT.load(Relaxed) - before
}

fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

/// A sleep used to flush the reclamation domain, whose own bookkeeping was what the next one had to flush: one
/// allocation in four wake-ups.
#[test]
fn wake_ups() {
    let _alone = alone();
    let scheduler = Scheduler::builder().workers(4).spin(Duration::ZERO).build().unwrap();
    let (sender, receiver) = sync_channel(1);
    let wake_up = || {
        let sender = sender.clone();
        scheduler.submit(move || sender.send(()).unwrap()).unwrap();
        receiver.recv().unwrap();
    };
    // Threads that come and go leave something to reclaim.
    (0..50).for_each(|_| _ = std::thread::scope(|s| s.spawn(|| scheduler.submit(|| ()).unwrap()).join()));
    // What is made once per process, thread and scheduler.
    (0..500).for_each(|_| wake_up());
    let allocations = during(|| (0..2_000).for_each(|_| wake_up()));
    assert!(allocations < 100, "{allocations} allocations in 2,000 wake-ups");
}

#[test]
fn joins() {
    fn sum(depth: u32) -> u64 {
        if depth == 0 {
            return 1;
        }
        let (a, b) = join(|| sum(depth - 1), || sum(depth - 1));
        a + b
    }
    let _alone = alone();
    let scheduler = Scheduler::builder().workers(2).build().unwrap();
    let run = || assert_eq!(scheduler.spawn(|| sum(12)).unwrap().join().unwrap(), 1 << 12);
    (0..20).for_each(|_| run());
    let allocations = during(|| (0..50).for_each(|_| run()));
    assert!(allocations < 100, "{allocations} allocations in 50 trees of 4,095 joins");
}
