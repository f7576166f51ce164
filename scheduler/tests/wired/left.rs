//! What an item leaves when the ring is not in use any more: foreign code, which may want the ring itself.

use crate::support::{LONG, asleep, eventually, has_rings, tuning, wired};
use scheduler::internals::driver::{Item, Ring};
use scheduler::internals::shared;
use scheduler::internals::worker::with_ring;
use scheduler::{Io, Scheduler};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

#[repr(C)]
struct Parcel {
    item: Item,
    seen: Arc<Seen>,
}

/// Calls with a ring; calls without one, and how many of these found the ring free.
#[derive(Default)]
struct Seen {
    first: AtomicU32,
    second: AtomicU32,
    free: AtomicU32,
}

/// # Safety
/// `item` is of a boxed parcel.
unsafe fn serve(item: NonNull<Item>, ring: Option<&mut Ring>) -> Option<NonNull<Item>> {
    if ring.is_some() {
        // SAFETY: the caller's promise.
        unsafe { item.cast::<Parcel>().as_ref() }.seen.first.fetch_add(1, SeqCst);
        return Some(item);
    }
    // SAFETY: the caller's promise; nothing is left.
    let parcel = unsafe { Box::from_raw(item.cast::<Parcel>().as_ptr()) };
    let free = std::panic::catch_unwind(|| with_ring(|_| ()));
    parcel.seen.free.fetch_add(u32::from(free.is_ok()), SeqCst);
    parcel.seen.second.fetch_add(1, SeqCst);
    None
}

fn post(scheduler: &Scheduler, seen: &Arc<Seen>) {
    let parcel = Box::new(Parcel { item: Item::new(serve), seen: seen.clone() });
    // SAFETY: boxed until it is served.
    unsafe { shared(scheduler).post(NonNull::from(Box::leak(parcel)).cast()) }.expect("open");
}

#[test]
fn it_is_done_outside_of_the_borrow() {
    if !has_rings() {
        return;
    }
    let scheduler = wired(1, tuning());
    let seen = Arc::new(Seen::default());
    for posted in 1..=10 {
        post(&scheduler, &seen);
        eventually("served", || seen.second.load(SeqCst) == posted);
        asleep(&scheduler);
    }
    assert_eq!((seen.first.load(SeqCst), seen.free.load(SeqCst)), (10, 10));
}

/// The thread that serves the ring does the first part, the one that is the worker meanwhile the rest.
#[test]
fn it_is_done_by_whoever_is_the_worker() {
    if !has_rings() {
        return;
    }
    let small = Scheduler::builder().workers(1).io(Io::Auto).stack_size(128 * 1024).tuning(tuning());
    let scheduler = Arc::new(small.build().unwrap());
    let (there, seen, done) = (scheduler.clone(), Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
    let (bottom_seen, bottom_done) = (seen.clone(), done.clone());
    let handle = scheduler.handle();
    let bottom = move || {
        (0..10).for_each(|_| post(&there, &bottom_seen));
        let task = || bottom_seen.second.load(SeqCst) == 10;
        // A worker that waits for a future looks at its mail.
        scheduler::block_on(async {
            while !task() {
                scheduler::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        });
        bottom_done.store(true, SeqCst);
    };
    let outer = scheduler.spawn(move || {
        with_ring(|_| ()).expect("a ring");
        crate::stand_in::dive(&handle, Arc::new(bottom));
    });
    outer.unwrap().join().unwrap();
    assert!(done.load(SeqCst) && scheduler.wait_idle(LONG));
    assert_eq!((seen.first.load(SeqCst), seen.free.load(SeqCst)), (10, 10));
}
