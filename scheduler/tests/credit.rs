//! Capacity credits on real threads and a real futex.
#![cfg(not(loom))]

mod rounds;

use proptest::prelude::*;
use rounds::{eventually, rounds};
use scheduler::internals::credit::{Acquired, Credits};
use scheduler::internals::sync::{AcqRel, AtomicBool, AtomicU64, Relaxed};
use std::thread;
use std::time::Duration;

#[test]
fn a_lanes_share() {
    let units = [0, 1, 63, 64, 127, 128, 4095, 4096, 1 << 20].map(|n| Credits::new(n).unit());
    assert_eq!(units, [1, 1, 1, 1, 1, 2, 63, 64, 64]);
    let most = Credits::new(u64::MAX);
    assert_eq!((most.capacity(), most.unit()), ((1 << 40) - 1, 64));
    assert_eq!(most.take(u64::MAX), most.capacity());
    assert_eq!((most.take(1), most.blocked()), (0, 0));
    assert!(!most.give(most.capacity()), "nobody is blocked, so no system call");
    assert_eq!(most.available(), most.capacity());
}

#[test]
fn no_capacity_takes_nothing() {
    let credits = Credits::new(0);
    assert_eq!(credits.take(1), 0);
    assert_eq!(credits.acquire(0, || panic!("wants nothing, so waits for nothing")), Acquired::Credits(0));
    assert_eq!(credits.acquire(1, || true), Acquired::Stopped);
    credits.close();
    assert_eq!(credits.acquire(1, || false), Acquired::Stopped);
}

#[test]
fn closed_credits_can_still_be_taken() {
    let credits = Credits::new(2);
    credits.close();
    assert_eq!(credits.acquire(1, || false), Acquired::Credits(1));
    assert_eq!(credits.take(2), 1);
    assert_eq!(credits.acquire(1, || false), Acquired::Stopped);
    assert!(format!("{credits:?}").contains("closed: true"));
}

#[test]
fn one_wake_per_share() {
    // The bell wraps on the way.
    let credits = Credits::new_at(8, 2, u32::MAX - 1);
    assert_eq!(credits.take(8), 8);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_eq!(credits.acquire(2, || false), Acquired::Credits(2)));
        }
        for left in [3, 2, 1] {
            eventually("blocked", || credits.blocked() == left);
            thread::sleep(Duration::from_millis(5));
            assert_eq!(credits.blocked(), left, "left without a credit");
            assert!(credits.give(2));
        }
    });
    assert_eq!((credits.available(), credits.blocked()), (0, 0));
}

#[test]
fn close_and_rouse_end_waits() {
    let (credits, stop) = (Credits::new(1), AtomicBool::new(false));
    assert_eq!(credits.take(1), 1);
    thread::scope(|scope| {
        let stopping = scope.spawn(|| credits.acquire(1, || stop.load(Relaxed)));
        let others = [0; 3].map(|_| scope.spawn(|| credits.acquire(1, || false)));
        eventually("blocked", || credits.blocked() == 4);
        stop.store(true, Relaxed);
        credits.rouse();
        assert_eq!(stopping.join().unwrap(), Acquired::Stopped);
        assert_eq!(credits.blocked(), 3);
        credits.close();
        for other in others {
            assert_eq!(other.join().unwrap(), Acquired::Stopped);
        }
    });
    assert_eq!(credits.blocked(), 0);
}

/// Never more out than there are, none lost, nobody left asleep.
#[test]
fn four_threads_and_three_credits() {
    const TURNS: u64 = 20_000;
    let (credits, out) = (Credits::new_at(3, 1, u32::MAX - 100), AtomicU64::new(0));
    let turns = AtomicU64::new(0);
    thread::scope(|scope| {
        for me in 1..=4 {
            let (credits, out, turns) = (&credits, &out, &turns);
            scope.spawn(move || {
                for _ in 0..TURNS {
                    let Acquired::Credits(got) = credits.acquire(me, || false) else { panic!("nobody closed") };
                    assert!(out.fetch_add(got, AcqRel) + got <= 3, "over capacity");
                    out.fetch_sub(got, AcqRel);
                    turns.fetch_add(1, Relaxed);
                    credits.give(got);
                }
            });
        }
        eventually("all turns", || turns.load(Relaxed) == 4 * TURNS);
    });
    assert_eq!((credits.available(), credits.blocked()), (3, 0));
}

/// The sleep turned into an observation: where a submitter would sleep it waits for the giver to finish instead, and if
/// that one saw nobody to wake, a wake-up was lost.
#[test]
fn dekker_rounds() {
    let (credits, woke) = (Credits::new(1), AtomicBool::new(false));
    assert_eq!(credits.take(1), 1);
    let (mut slept, mut lost) = (0_u64, 0_u64);
    let left = |_| woke.store(credits.give(1), Relaxed);
    let played = rounds(Duration::from_secs(1), left, |_, left_is_through| {
        let would_sleep = || {
            slept += 1;
            left_is_through();
            lost += u64::from(!woke.load(Relaxed));
            true
        };
        if credits.acquire(1, would_sleep) == Acquired::Stopped {
            assert_eq!(credits.take(1), 1, "the credit vanished");
        }
        true
    });
    println!("rounds={played} slept={slept} lost={lost}");
    assert!(slept != 0, "the interesting case never came up");
    assert_eq!(lost, 0, "lost wake-ups in {played} rounds");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Against plain arithmetic: takes and gives of one thread.
    #[test]
    fn takes_and_gives(capacity in 0_u64..200, steps in prop::collection::vec((any::<bool>(), 0_u64..100), 0..60)) {
        let credits = Credits::new(capacity);
        let mut out = 0;
        for (take, count) in steps {
            if take {
                let got = credits.take(count);
                prop_assert_eq!(got, count.min(capacity - out));
                out += got;
            } else {
                let back = count.min(out);
                credits.give(back);
                out -= back;
            }
            prop_assert_eq!(credits.available(), capacity - out);
        }
    }
}
