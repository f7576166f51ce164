//! What goes in comes out: more than fits, more than one call hands out, cancelled, in any order.

use crate::support::{LONG, all, nop, pipe, ring};
use scheduler::internals::config::EASE_MS;
use scheduler::internals::driver::{Caps, Ring};
use std::time::{Duration, Instant};

fn taken(ring: &mut Ring) -> Vec<u64> {
    std::iter::from_fn(|| ring.pop()).map(|done| done.tag).collect()
}

/// The kernel hands out 20 completions per call where it defers them.
#[test]
fn one_look_takes_all_that_has_completed() {
    let Some(mut ring) = ring(&Caps::ALL) else { return };
    let pipe = pipe();
    (0..66).for_each(|tag| pipe.poll(&mut ring, tag));
    ring.look();
    assert_eq!(taken(&mut ring), []);
    pipe.fill();
    let before = ring.counts().enters;
    assert!(ring.wants_look());
    ring.look();
    assert_eq!(taken(&mut ring).len(), 66);
    if ring.driver().to_string().starts_with("uring") && !ring.driver().to_string().contains("DEFER") {
        assert!(ring.counts().enters - before > 1, "it would not have needed the loop");
    }
    assert!(!ring.wants_look(), "nothing is left");
}

/// The completion queue overflows, which ends the poll of the bell: it is armed again, and nothing is lost.
#[test]
fn overflow_loses_neither_completions_nor_the_bell() {
    for defer in [true, false] {
        // How many of them go into one call is the kernel's business: in some rounds the bell comes last and finds no
        // room.
        let ended: Vec<_> = (17..60).map_while(|count| overflow(defer, count)).collect();
        println!("the poll of the bell ended in {} of {} rounds", ended.iter().filter(|&&e| e).count(), ended.len());
        assert!(ended.is_empty() || ended.contains(&true));
    }
}

/// True: the poll of the bell has ended.
fn overflow(defer: bool, count: u64) -> Option<bool> {
    let mut ring = ring(&Caps { entries: 4, defer, ..Caps::ALL })?;
    let parker = ring.parker().clone();
    let pipe = pipe();
    (0..count).for_each(|tag| pipe.poll(&mut ring, tag));
    // Nobody's turn ends, so everybody gets one.
    for _ in 0..20 {
        ring.look();
        if ring.unsent() != 0 {
            std::thread::sleep(Duration::from_millis(EASE_MS));
        }
    }
    assert_eq!((ring.unsent(), ring.in_flight()), (0, count as usize));
    let bell = parker.bell().expect("hung up");
    pipe.fill();
    bell.ring();
    let mut tags: Vec<_> = all(&mut ring).iter().map(|done| done.tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, (0..count).collect::<Vec<_>>());
    ring.look();
    let ended = ring.counts().armed > 1;
    let rung = ring.counts().rung;
    bell.ring();
    assert!(ring.wait(Some(LONG)));
    assert!(ring.counts().rung > rung, "the bell is not heard any more");
    Some(ended)
}

#[test]
fn those_that_wait_for_ever_hold_up_nobody() {
    let Some(mut ring) = ring(&Caps { entries: 4, ..Caps::ALL }) else { return };
    let pipe = pipe();
    (0..100).for_each(|tag| pipe.poll(&mut ring, tag));
    nop(&mut ring, 100);
    ring.look();
    assert!(ring.unsent() > 80, "more than half of the completion queue was handed over at once");
    while taken(&mut ring) != [100] {
        assert!(ring.wait(Some(Duration::from_millis(1))));
    }
}

/// Looks alone, as a worker makes that never sleeps. The kernel has 64 first and twice as many after each look but the
/// second; with 1,000 that wait for ever before it, the last operation is done at the sixth.
#[test]
fn those_that_wait_for_ever_hold_up_nobody_who_only_looks() {
    let Some(mut ring) = ring(&Caps { entries: 32, ..Caps::ALL }) else { return };
    let pipe = pipe();
    (0..1000).for_each(|tag| pipe.poll(&mut ring, tag));
    nop(&mut ring, 1000);
    let looks = (1..=8).find(|_| {
        // What is not worth a look is not looked at.
        if ring.wants_look() {
            ring.look();
        }
        std::thread::sleep(2 * Duration::from_millis(EASE_MS));
        taken(&mut ring) == [1000]
    });
    assert!(looks.is_some(), "{} have not been handed over", ring.unsent());
}

/// One sleep is enough, whatever goes out in front of it.
#[test]
fn those_that_wait_for_ever_hold_up_nobody_who_sleeps() {
    let Some(mut ring) = ring(&Caps { entries: 32, ..Caps::ALL }) else { return };
    let pipe = pipe();
    (0..1000).for_each(|tag| pipe.poll(&mut ring, tag));
    nop(&mut ring, 1000);
    let began = Instant::now();
    assert!(ring.wait(Some(LONG)));
    assert!(began.elapsed() < LONG / 2, "slept with {} that it has not handed over", ring.unsent());
    assert_eq!(taken(&mut ring), [1000]);
}

/// A trickle of others that complete is not enough to hold them up either: the kernel gets as many more.
#[test]
fn a_trickle_holds_up_nobody() {
    let Some(mut ring) = ring(&Caps { entries: 32, ..Caps::ALL }) else { return };
    let (idle, busy) = (pipe(), pipe());
    busy.fill();
    (0..63).for_each(|tag| idle.poll(&mut ring, tag));
    busy.poll(&mut ring, 5000);
    (63..2000).for_each(|tag| idle.poll(&mut ring, tag));
    nop(&mut ring, 6000);
    let looks = (1..=10).find(|_| {
        ring.look();
        std::thread::sleep(2 * Duration::from_millis(EASE_MS));
        let done = taken(&mut ring);
        // One at a time is always ready.
        done.iter().filter(|&&tag| tag == 5000).for_each(|&tag| busy.poll(&mut ring, tag));
        done.contains(&6000)
    });
    assert!(looks.is_some(), "{} have not been handed over", ring.unsent());
}

/// Each is found by its turn: with a search it would take the square of their number.
#[test]
fn cancelling_costs_the_same_however_many_wait() {
    const COUNT: u64 = 200_000;
    let Some(mut ring) = ring(&Caps { entries: 32, ..Caps::ALL }) else { return };
    let pipe = pipe();
    let turns: Vec<_> = (0..COUNT)
        .map(|tag| {
            let turn = ring.turn();
            pipe.poll(&mut ring, tag);
            turn
        })
        .collect();
    ring.look();
    let began = Instant::now();
    (0..COUNT).rev().for_each(|tag| ring.cancel(tag, turns[tag as usize]));
    let took = began.elapsed();
    let mut ended = vec![false; COUNT as usize];
    for done in all(&mut ring) {
        assert!(done.result == -libc::ECANCELED && !std::mem::replace(&mut ended[done.tag as usize], true));
    }
    assert!(ended.iter().all(|&ended| ended));
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn cancelled_once_each() {
    let Some(mut ring) = ring(&Caps { entries: 4, ..Caps::ALL }) else { return };
    let pipe = pipe();
    (0..20).for_each(|tag| pipe.poll(&mut ring, tag));
    ring.look();
    assert!(ring.unsent() != 0, "some are still in user space");
    (0..20).for_each(|tag| ring.cancel(tag, tag));
    let done = all(&mut ring);
    assert_eq!(done.len(), 20);
    assert!(done.iter().all(|done| done.result == -libc::ECANCELED && !done.more()), "{done:?}");
    // Too late, and twice: nothing comes of it, and the tag is free for others.
    ring.cancel(3, 3);
    ring.cancel(3, 3);
    nop(&mut ring, 3);
    let done = all(&mut ring);
    assert_eq!(done.iter().map(|done| (done.tag, done.result)).collect::<Vec<_>>(), [(3, 0)]);
}

#[test]
fn time_is_kept() {
    let Some(mut ring) = ring(&Caps::ALL) else { return };
    let pipe = pipe();
    pipe.poll(&mut ring, 1);
    let (began, limit) = (Instant::now(), Duration::from_millis(20));
    assert!(ring.wait(Some(limit)));
    assert!(began.elapsed() >= limit);
    assert_eq!((ring.pop(), ring.in_flight()), (None, 1));
    pipe.fill();
    assert!(ring.wait(Some(Duration::MAX)), "longer than the kernel can count");
    assert_eq!(taken(&mut ring), [1]);
}
