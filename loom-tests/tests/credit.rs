//! Capacity credits and the sleep of a blocked submitter: see `scheduler/src/credit/README.md`.
#![cfg(loom)]

use loom::thread;
use loom_tests::model;
use scheduler::internals::credit::{Acquired, Credits};
use scheduler::internals::sync::{Acquire, Arc, AtomicBool, Racy, Relaxed, Release};

/// Credits, and what one of them stands for.
struct World {
    credits: Credits,
    room: Racy<u32>,
    stop: AtomicBool,
}

// SAFETY: loom checks every access to `room`.
unsafe impl Sync for World {}

impl World {
    /// `taken` of the `capacity` credits are out already. The bell wraps during the model.
    fn new(capacity: u64, unit: u64, taken: u64) -> Arc<World> {
        let credits = Credits::new_at(capacity, unit, u32::MAX);
        assert_eq!(credits.take(taken), taken);
        Arc::new(World { credits, room: Racy::new(0), stop: AtomicBool::new(false) })
    }

    fn spawn(this: &Arc<World>, body: impl FnOnce(&World) + 'static) -> thread::JoinHandle<()> {
        let world = this.clone();
        thread::spawn(move || body(&world))
    }

    fn never_stops(&self) -> u64 {
        match self.credits.acquire(1, || false) {
            Acquired::Credits(got) => got,
            Acquired::Stopped => panic!("nobody closed"),
        }
    }

    /// Holds the only credit for a while.
    fn turn(&self) {
        assert_eq!(self.never_stops(), 1);
        // SAFETY: there is one credit, so nobody else is here; that is what the model checks.
        self.room.with(|room| unsafe { *room += 1 });
        self.credits.give(1);
    }

    fn check(&self, available: u64) {
        assert_eq!((self.credits.available(), self.credits.blocked()), (available, 0));
    }
}

/// Whoever takes a credit sees what its giver did, and nobody sleeps on while one is available.
#[test]
fn one_credit_two_threads() {
    model("credit::one_credit_two_threads", Some(5), 100, || {
        let world = World::new(1, 1, 0);
        let other = World::spawn(&world, World::turn);
        world.turn();
        other.join().unwrap();
        world.check(1);
    });
}

#[test]
fn one_credit_three_threads() {
    model("credit::one_credit_three_threads", Some(2), 100, || {
        let world = World::new(1, 1, 0);
        let others = [0; 2].map(|_| World::spawn(&world, World::turn));
        world.turn();
        for other in others {
            other.join().unwrap();
        }
        world.check(1);
    });
}

/// Two credits come back at once and count as one share, so one wake must do for two submitters.
#[test]
fn leftover_is_passed_on() {
    model("credit::leftover_is_passed_on", Some(3), 100, || {
        let world = World::new(2, 2, 2);
        let blocked = [0; 2].map(|_| World::spawn(&world, |world| assert_eq!(world.never_stops(), 1)));
        world.credits.give(2);
        for blocked in blocked {
            blocked.join().unwrap();
        }
        world.check(0);
    });
}

/// Takers that do not wait race with one that does; nothing is lost and nothing is made.
#[test]
fn conservation() {
    model("credit::conservation", Some(3), 100, || {
        let world = World::new(3, 1, 1);
        let taker = World::spawn(&world, |world| {
            let got = world.credits.take(2);
            assert!(got <= 2);
            world.credits.give(got);
        });
        let other = World::spawn(&world, |world| match world.credits.acquire(3, || false) {
            Acquired::Credits(got) => {
                assert!((1..=3).contains(&got));
                world.credits.give(got);
            }
            Acquired::Stopped => panic!("nobody closed"),
        });
        world.credits.give(1);
        taker.join().unwrap();
        other.join().unwrap();
        world.check(3);
    });
}

/// A task that is queued without a credit is paid for by what comes back, its own or another's: nothing is made.
#[test]
fn what_is_borrowed_is_paid_back() {
    model("credit::what_is_borrowed_is_paid_back", Some(3), 20, || {
        let world = World::new(2, 1, 1);
        let queued = Arc::new(AtomicBool::new(false));
        let publish = queued.clone();
        let borrower = World::spawn(&world, move |world| {
            world.credits.borrow_one();
            publish.store(true, Release);
        });
        let claimer = World::spawn(&world, move |world| {
            if queued.load(Acquire) {
                world.credits.give(1);
            }
        });
        world.credits.give(1);
        borrower.join().unwrap();
        claimer.join().unwrap();
        // The claimer may have come too early.
        let missing = 2 - world.credits.available();
        assert!(missing <= 1);
        world.credits.give(missing);
        world.check(2);
    });
}

#[test]
fn close_ends_the_wait() {
    model("credit::close_ends_the_wait", Some(6), 10, || {
        let world = World::new(1, 1, 1);
        let blocked = World::spawn(&world, |world| {
            assert_eq!(world.credits.acquire(1, || false), Acquired::Stopped);
        });
        world.credits.close();
        blocked.join().unwrap();
        world.check(0);
    });
}

/// A credit that comes back as the credits are closed is taken or stays; the submitter returns either way.
#[test]
fn close_against_give() {
    model("credit::close_against_give", Some(3), 100, || {
        let world = World::new(1, 1, 1);
        let blocked = World::spawn(&world, |world| {
            if let Acquired::Credits(got) = world.credits.acquire(1, || false) {
                world.credits.give(got);
            }
        });
        let closer = World::spawn(&world, |world| world.credits.close());
        world.credits.give(1);
        blocked.join().unwrap();
        closer.join().unwrap();
        world.check(1);
    });
}

/// The caller's own reason to stop, which the credits know nothing of.
#[test]
fn stop_is_heard() {
    model("credit::stop_is_heard", Some(6), 10, || {
        let world = World::new(1, 1, 1);
        let blocked = World::spawn(&world, |world| {
            let stop = || world.stop.load(Relaxed);
            assert_eq!(world.credits.acquire(1, stop), Acquired::Stopped);
        });
        world.stop.store(true, Relaxed);
        world.credits.rouse();
        blocked.join().unwrap();
        world.check(0);
    });
}

/// One submitter stops while a credit comes back: the other one gets it.
#[test]
fn stopping_swallows_no_wake() {
    model("credit::stopping_swallows_no_wake", Some(2), 100, || {
        let world = World::new(1, 1, 1);
        let stopping = World::spawn(&world, |world| {
            if let Acquired::Credits(got) = world.credits.acquire(1, || true) {
                world.credits.give(got);
            }
        });
        let blocked = World::spawn(&world, |world| assert_eq!(world.never_stops(), 1));
        world.credits.give(1);
        stopping.join().unwrap();
        blocked.join().unwrap();
        world.check(0);
    });
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("one_credit_two_threads", "CR1"),
        ("one_credit_two_threads", "CR2"),
        ("one_credit_two_threads", "CR3"),
        ("stop_is_heard", "CR3"),
        ("close_ends_the_wait", "CR3"),
        ("one_credit_two_threads", "CR4"),
        ("stop_is_heard", "CR4"),
        ("close_ends_the_wait", "CR4"),
        ("what_is_borrowed_is_paid_back", "credit_no_pay"),
        ("leftover_is_passed_on", "credit_no_chain"),
        ("close_ends_the_wait", "credit_quiet_close"),
        ("one_credit_two_threads", "credit_blind_give"),
        ("one_credit_two_threads", "credit_late_bell"),
    ]);
}
