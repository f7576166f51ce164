//! The park token: see `scheduler/src/park/README.md`.
#![cfg(loom)]

use io_uring::opcode;
use loom::thread;
use loom_tests::model;
use scheduler::internals::park::{Parked, Parker};
use scheduler::internals::sync::{Arc, AtomicU32, Port, Racy, Relaxed, Setup, Stay, yield_now};
use std::time::Duration;

/// A parker, and what tokens announce.
struct World {
    parker: Parker,
    payload: Racy<u32>,
    count: AtomicU32,
}

// SAFETY: loom checks every access to `payload`.
unsafe impl Sync for World {}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World { parker: Parker::new(), payload: Racy::new(0), count: AtomicU32::new(0) })
    }

    fn write(&self) {
        // SAFETY: the token orders it before `read`; that is what the model checks.
        self.payload.with(|value| unsafe { *value = 7 });
    }

    fn read(&self) {
        // SAFETY: as in `write`.
        assert_eq!(self.payload.with(|value| unsafe { *value }), 7);
    }
}

fn with_unparker(world: &Arc<World>) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || {
        world.write();
        world.parker.unpark();
    })
}

#[test]
fn sleeper_gets_the_token() {
    model("park::sleeper_gets_the_token", Some(6), 10, || {
        let world = World::new();
        let unparker = with_unparker(&world);
        assert_eq!(world.parker.park(None), Parked::Notified);
        world.read();
        assert!(!world.parker.try_consume(), "one token, used once");
        unparker.join().unwrap();
    });
}

#[test]
fn poller_gets_the_token() {
    model("park::poller_gets_the_token", Some(6), 5, || {
        let world = World::new();
        let unparker = with_unparker(&world);
        while !world.parker.try_consume() {
            yield_now();
        }
        world.read();
        unparker.join().unwrap();
    });
}

/// Two tokens may become one, but not one that misses what either announces.
#[test]
fn merged_tokens() {
    model("park::merged_tokens", Some(3), 100, || {
        let world = World::new();
        let unparkers = [0; 2].map(|_| {
            let world = world.clone();
            thread::spawn(move || {
                world.count.fetch_add(1, Relaxed);
                world.parker.unpark();
            })
        });
        while world.count.load(Relaxed) != 2 {
            assert_eq!(world.parker.park(None), Parked::Notified);
        }
        for unparker in unparkers {
            unparker.join().unwrap();
        }
    });
}

#[test]
fn stray_wakes() {
    model("park::stray_wakes", Some(3), 100, || {
        let world = World::new();
        let unparker = with_unparker(&world);
        let strayer = {
            let world = world.clone();
            thread::spawn(move || world.parker.stray_wake())
        };
        assert_eq!(world.parker.park(None), Parked::Notified);
        world.read();
        unparker.join().unwrap();
        strayer.join().unwrap();
    });
}

/// A timed sleep that ends as the token arrives either returns it or leaves it.
#[test]
fn timeout_loses_nothing() {
    model("park::timeout_loses_nothing", Some(6), 10, || {
        let world = World::new();
        let unparker = with_unparker(&world);
        let ended = world.parker.park(Some(Duration::from_secs(1)));
        if ended == Parked::Notified {
            world.read();
        }
        unparker.join().unwrap();
        assert_eq!(world.parker.try_consume(), ended == Parked::TimedOut);
    });
}

/// Exactly one side sees to the wake: the deliverer of the token, who finds the bell, or the owner who does not sleep.
#[test]
fn ring_sleep() {
    model("park::ring_sleep", Some(6), 10, || {
        let world = World::new();
        let unparker = with_unparker(&world);
        let mut port = port(&world);
        let mut slept = false;
        if world.parker.enter_ring() {
            port.enter(Stay::Until).expect("a model has room");
            assert_eq!(world.parker.leave_ring(), Parked::Notified, "nobody else rings");
            slept = true;
        }
        world.read();
        unparker.join().unwrap();
        assert_eq!(port.pop().is_some(), slept, "one call");
    });
}

/// A token, a completion, or both: none is lost, and neither is used for the other.
#[test]
fn ring_sleep_with_completions() {
    model("park::ring_sleep_with_completions", Some(3), 50, || {
        let world = World::new();
        let unparker = with_unparker(&world);
        let mut port = port(&world);
        let twin = world.parker.bell().expect("hung up").twin();
        let completer = thread::spawn(move || twin.complete(5, 9));
        // SAFETY: it points at nothing.
        assert!(unsafe { port.push(&opcode::Nop::new().build().user_data(5)) });
        let (mut token, mut completion) = (false, false);
        while !(token && completion) {
            if world.parker.enter_ring() {
                port.enter(Stay::Until).expect("a model has room");
                token |= world.parker.leave_ring() == Parked::Notified;
            } else {
                token = true;
            }
            while let Some(done) = port.pop() {
                completion |= (done.tag, done.result) == (5, 9);
            }
        }
        world.read();
        unparker.join().unwrap();
        completer.join().unwrap();
    });
}

/// A ring that hears the parker's bell.
fn port(world: &World) -> Port {
    let setup = Setup { entries: 1, completions: 4, submit_all: true, coop: false, defer: true, no_sqarray: true };
    let mut port = Port::open(&setup).expect("a model has one");
    assert!(port.push_poll(world.parker.hang_bell().expect("a model has one"), 1));
    port.enter(Stay::No).expect("a model has room");
    port
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("sleeper_gets_the_token", "PK1"),
        ("poller_gets_the_token", "PK1"),
        ("sleeper_gets_the_token", "PK2"),
        ("timeout_loses_nothing", "PK2"),
        ("ring_sleep", "PK2"),
        ("ring_sleep", "PK4"),
        ("ring_sleep", "PK5"),
        ("ring_sleep", "park_no_bell"),
        ("poller_gets_the_token", "PK3"),
        ("sleeper_gets_the_token", "PK3"),
        ("merged_tokens", "park_store"),
        ("stray_wakes", "park_if"),
        ("timeout_loses_nothing", "park_leave"),
        ("sleeper_gets_the_token", "park_no_call"),
    ]);
}
