//! The inbox of a ring: see `scheduler/src/driver/README.md`.
#![cfg(loom)]

use loom::thread;
use loom_tests::model;
use scheduler::internals::driver::{Inbox, Item, Ring};
use scheduler::internals::sync::{Arc, Racy, yield_now};
use std::ptr::NonNull;

/// Something that is pushed, and what it is about.
#[repr(C)]
struct Parcel {
    item: Item,
    content: Racy<u32>,
    served: Racy<u32>,
}

// SAFETY: loom checks every access.
unsafe impl Sync for Parcel {}
// SAFETY: as above.
unsafe impl Send for Parcel {}

/// # Safety
/// `item` is of a parcel.
unsafe fn serve(item: NonNull<Item>, ring: Option<&mut Ring>) -> Option<NonNull<Item>> {
    assert!(ring.is_none(), "the models have none");
    // SAFETY: the caller's promise.
    let parcel = unsafe { item.cast::<Parcel>().as_ref() };
    // SAFETY: loom checks it.
    parcel.content.with(|content| assert_eq!(unsafe { *content }, 7));
    // SAFETY: loom checks it.
    parcel.served.with(|served| unsafe { *served += 1 });
    None
}

struct World {
    inbox: Inbox,
    parcels: [Parcel; 2],
}

impl World {
    fn new() -> Arc<World> {
        let parcel = || Parcel { item: Item::new(serve), content: Racy::new(0), served: Racy::new(0) };
        Arc::new(World { inbox: Inbox::new(), parcels: [parcel(), parcel()] })
    }

    /// True: pushed. False: it came back.
    fn push(&self, index: usize) -> bool {
        let parcel = &self.parcels[index];
        // SAFETY: not pushed yet; loom checks it.
        parcel.content.with(|content| unsafe { *content = 7 });
        // SAFETY: the parcel lives as long as the world.
        unsafe { self.inbox.push(NonNull::from(parcel).cast()) }.is_ok()
    }

    fn served(&self, index: usize) -> u32 {
        // SAFETY: loom checks it.
        self.parcels[index].served.with(|served| unsafe { *served })
    }
}

fn pusher(world: &Arc<World>, index: usize) -> thread::JoinHandle<bool> {
    let world = world.clone();
    thread::spawn(move || world.push(index))
}

fn serve_all(items: impl Iterator<Item = NonNull<Item>>) -> usize {
    // SAFETY: taken out.
    items.map(|item| unsafe { Item::end(item) }).count()
}

/// Two push, the owner takes: each parcel is served once, and its content seen.
#[test]
fn taken_once() {
    model("driver::taken_once", Some(3), 50, || {
        let world = World::new();
        let pushers = [0, 1].map(|index| pusher(&world, index));
        let mut served = 0;
        while served < 2 {
            served += serve_all(world.inbox.take());
            yield_now();
        }
        for pusher in pushers {
            assert!(pusher.join().unwrap());
        }
        assert_eq!([0, 1].map(|index| world.served(index)), [1, 1]);
    });
}

/// The owner closes: a parcel is served, or comes back to whoever pushed it.
#[test]
fn closed_for_good() {
    model("driver::closed_for_good", Some(4), 10, || {
        let world = World::new();
        let pushers = [0, 1].map(|index| pusher(&world, index));
        serve_all(world.inbox.take());
        serve_all(world.inbox.close());
        let pushed = pushers.map(|pusher| pusher.join().unwrap());
        assert_eq!([0, 1].map(|index| world.served(index) == 1), pushed);
        assert!(!world.push(0), "closed for good");
        assert_eq!(serve_all(world.inbox.close()), 0);
    });
}

#[test]
fn in_order() {
    model("driver::in_order", Some(3), 1, || {
        let world = World::new();
        assert!(world.push(0) && world.push(1));
        let order: Vec<_> = world.inbox.take().map(|item| item.cast::<Parcel>().as_ptr().cast_const()).collect();
        assert_eq!(order, [&raw const world.parcels[0], &raw const world.parcels[1]]);
    });
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("taken_once", "IN1"),
        ("taken_once", "IN2"),
        ("closed_for_good", "IN3"),
        ("closed_for_good", "inbox-never-closed"),
    ]);
}
