//! A worker that sleeps in its ring: see `scheduler/src/worker/README.md`, events R1 to R6. Real workers and submits; a
//! lost wake-up is a deadlock, because no sleep has a limit.
#![cfg(loom)]

mod world;

use io_uring::opcode;
use loom::thread;
use loom_tests::model;
use scheduler::internals::driver::{Caps, Item, Ring};
use scheduler::internals::mode::BarrierMode::{self, Fence, Membarrier};
use scheduler::internals::sync::Bell;
use scheduler::internals::worker::{Context, Tuning};
use std::ptr::NonNull;
use world::{ENDLESS, Tally, World};

const WIRED: Tuning = Tuning { io: Caps { try_wake: false, ..Caps::ALL }, ..ENDLESS };

/// The tag of the operation whose completion is task 0 of the world.
fn tag(tally: &'static Tally) -> u64 {
    std::ptr::from_ref(tally).expose_provenance() as u64
}

fn push(ring: &mut Ring, tally: &'static Tally) {
    // SAFETY: it points at nothing.
    unsafe { ring.push(opcode::Nop::new().build(), tag(tally)) };
}

/// The operation of worker 0 completes some time.
fn completer(world: &World) -> thread::JoinHandle<()> {
    let bell: Bell = world.shared.workers[0].parker.hang_bell().expect("a model has one").twin();
    let tally = world.tally;
    drop(tally.task(0));
    thread::spawn(move || bell.complete(tag(tally), 0))
}

fn first(tally: &'static Tally) -> impl FnOnce(&Context) + 'static {
    move |context| context.with_ring(|ring| push(ring, tally)).expect("a model has one")
}

/// The worker has an operation in flight. It completes, and the main thread submits a task: its waker may choose the
/// sleeper in the ring just as the completion arrives.
fn completion_and_submit(mode: BarrierMode) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::new(1, 2, mode, WIRED);
        let completer = completer(&world);
        let helper = world.helper_with(0, first(world.tally));
        let mut submitter = world.submitter();
        submitter.submit(world.tally.task(1)).unwrap();
        world.tally.await_done(2);
        completer.join().unwrap();
        drop(submitter);
        world.join([helper]);
    }
}

#[test]
fn one_worker() {
    model("ring_park::one_worker", Some(1), 100, completion_and_submit(Membarrier));
}

#[test]
fn one_worker_fenced() {
    model("ring_park::one_worker_fenced", Some(1), 100, completion_and_submit(Fence));
}

/// Nothing but the task: the operation never completes.
#[test]
fn submit_alone() {
    model("ring_park::submit_alone", Some(2), 100, || {
        let world = World::new(1, 1, Membarrier, WIRED);
        let helper = world.helper_with(0, first(world.tally));
        let mut submitter = world.submitter();
        submitter.submit(world.tally.task(0)).unwrap();
        world.tally.await_done(1);
        drop(submitter);
        world.join([helper]);
    });
}

/// Nothing but the completion.
#[test]
fn completion_alone() {
    model("ring_park::completion_alone", Some(2), 100, || {
        let world = World::new(1, 1, Membarrier, WIRED);
        let completer = completer(&world);
        let helper = world.helper_with(0, first(world.tally));
        world.tally.await_done(1);
        completer.join().unwrap();
        world.join([helper]);
    });
}

/// An operation of a thread that has no ring.
#[repr(C)]
struct Parcel {
    item: Item,
    tally: &'static Tally,
}

/// # Safety
/// `item` is of a parcel.
unsafe fn serve(item: NonNull<Item>, ring: Option<&mut Ring>) -> Option<NonNull<Item>> {
    // SAFETY: the caller's promise.
    let tally = unsafe { item.cast::<Parcel>().as_ref() }.tally;
    push(ring.expect("a model has one"), tally);
    None
}

/// The main thread posts an operation to a worker that may be about to sleep: on the futex, or in the ring with an
/// operation that never completes.
fn posted_to(asleep: impl Fn(&Context) + Clone + Send + Sync + 'static) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::new(1, 1, Membarrier, WIRED);
        let completer = completer(&world);
        let helper = world.helper_with(0, asleep.clone());
        let parcel = Parcel { item: Item::new(serve), tally: world.tally };
        // SAFETY: the parcel outlives the worker.
        unsafe { world.shared.post(NonNull::from(&parcel).cast()) }.expect("open");
        world.tally.await_done(1);
        completer.join().unwrap();
        world.join([helper]);
    }
}

#[test]
fn posted() {
    model("ring_park::posted", Some(1), 100, posted_to(|_| ()));
}

#[test]
fn posted_to_the_ring() {
    let never = |context: &Context| {
        // SAFETY: it points at nothing.
        context.with_ring(|ring| unsafe { ring.push(opcode::Nop::new().build(), 1) }).expect("a model has one");
    };
    model("ring_park::posted_to_the_ring", Some(1), 100, posted_to(never));
}

/// The end: an operation that would never complete is cancelled and told; what is posted is served or comes back.
#[test]
fn ended() {
    model("ring_park::ended", Some(2), 20, || {
        let world = World::new(1, 1, Membarrier, WIRED);
        drop(world.tally.task(0));
        let tally = world.tally;
        let worker = world.on_worker(0, move |context| {
            first(tally)(context);
            context.main();
            context.end_io();
        });
        world.shared.close(false);
        world.tally.await_done(1);
        worker.join().unwrap();
        world.free();
    });
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("submit_alone", "park_no_bell"),
        ("completion_alone", "io-keeps-bit"),
        ("completion_alone", "io-futex-only"),
        ("posted", "park-no-inbox"),
        ("posted_to_the_ring", "park-no-inbox"),
        ("posted_to_the_ring", "park_no_bell"),
    ]);
}
