//! Every counter near its wrap, through the queues and words themselves: a whole scheduler would have to run for
//! years.
#![cfg(not(loom))]

use scheduler::internals::credit::{Acquired, Credits};
use scheduler::internals::queue::forks::Forks;
use scheduler::internals::queue::lane::Lane;
use scheduler::internals::queue::local::Ring;
use scheduler::internals::sync::{Reclaimer, full_fence};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::Instant;
use stress::watchdog::violation;
use stress::{Random, Round, run};

/// Just before the places where a counter of 8, 16, 24, 31 or 32 bits goes round.
const STARTS: [u32; 6] = [0, u32::MAX - 70, (1 << 31) - 70, (1 << 24) - 70, (1 << 16) - 70, (1 << 8) - 5];

/// Counts how often each item was taken. An item is an address in the table; nobody reads what is there.
struct Taken {
    items: Vec<u8>,
    counts: Vec<AtomicU64>,
}

impl Taken {
    fn new(items: usize) -> Self {
        Taken { items: vec![0; items], counts: (0..items).map(|_| AtomicU64::new(0)).collect() }
    }

    fn item(&self, at: usize) -> *mut u8 {
        std::ptr::from_ref(&self.items[at]).cast_mut()
    }

    fn take(&self, item: *mut u8) {
        let at = item.addr() - self.items.as_ptr().addr();
        if self.counts[at].fetch_add(1, Relaxed) != 0 {
            violation(&format!("item {at} was taken again"));
        }
    }

    #[track_caller]
    fn assert_all(&self) {
        let lost = self.counts.iter().filter(|count| count.load(Relaxed) != 1).count();
        assert_eq!(lost, 0, "{lost} of {} items are lost", self.counts.len());
    }
}

/// `owner` on this thread, beside two threads that call `thief` until the owner is through, and once more.
fn beside_thieves(owner: impl FnOnce(), thief: impl Fn() -> bool + Sync) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Acquire) {
                    if !thief() {
                        std::thread::yield_now();
                    }
                }
                while thief() {}
            });
        }
        owner();
        over.store(true, Release);
    });
    while thief() {}
}

fn barrier() -> bool {
    full_fence("stress");
    true
}

const ITEMS: usize = 3_000;

fn ring(start: u32, random: &mut Random) {
    let (ring, taken) = (Ring::<u8, 64>::new_at(start), Taken::new(ITEMS));
    let thief = || {
        let mut batch = [MaybeUninit::uninit(); 16];
        let got = ring.claim(&mut batch, |n| n.div_ceil(2));
        got.iter().for_each(|&item| taken.take(item));
        !got.is_empty() || ring.rescue(barrier)
    };
    let owner = || {
        let mut next = 0;
        while next < ITEMS {
            // SAFETY: the one owner, on this thread.
            let owner = unsafe { ring.owner() };
            match random.below(8) {
                0..5 => next += usize::from(owner.push(taken.item(next)).is_ok()),
                5 => _ = owner.publish(random.below(9) as u32),
                _ => {
                    if let Some(item) = owner.pop(|| full_fence("stress")) {
                        taken.take(item);
                    }
                }
            }
        }
        // SAFETY: as above.
        let owner = unsafe { ring.owner() };
        while let Some(item) = owner.pop(|| full_fence("stress")) {
            taken.take(item);
        }
    };
    beside_thieves(owner, thief);
    taken.assert_all();
}

fn forks(start: u32, random: &mut Random) {
    let (forks, taken) = (Forks::<u8, 32>::new_at(u64::from(start)), Taken::new(ITEMS));
    let thief = || match forks.steal() {
        Some(item) => {
            taken.take(item);
            true
        }
        None => forks.rescue(barrier),
    };
    let owner = || {
        let (mut next, mut stack) = (0, Vec::new());
        while next < ITEMS || !stack.is_empty() {
            // SAFETY: the one owner, on this thread; every push that was accepted is paired with one pop, newest
            // first.
            let owner = unsafe { forks.owner() };
            match random.below(7) {
                0..3 if next < ITEMS => {
                    if owner.push(taken.item(next)) {
                        stack.push(next);
                        next += 1;
                    }
                }
                3 => _ = owner.publish(),
                _ => {
                    let Some(newest) = stack.pop() else { continue };
                    if owner.pop(|| full_fence("stress")) {
                        taken.take(taken.item(newest));
                    }
                }
            }
        }
    };
    beside_thieves(owner, thief);
    taken.assert_all();
}

fn lane(start: u32, random: &mut Random) {
    let reclaimer = Reclaimer::new();
    // The upper half set: the low half carries into it.
    let (lane, taken) = (Lane::<usize, 64>::new_at(7 << 32 | u64::from(start)), Taken::new(ITEMS));
    let thief = || {
        let registration = reclaimer.register();
        let pin = registration.pin();
        let claim = lane.claim(&pin, 9, |slot| {
            // SAFETY: the lane gives a claimed slot to one claimer.
            let at = unsafe { slot.read() };
            taken.take(taken.item(at));
        });
        claim.taken != 0
    };
    let owner = || {
        for next in 0..ITEMS {
            // SAFETY: this thread is the producer.
            let slot = unsafe { lane.reserve() }.expect("no limit is set");
            // SAFETY: a fresh slot.
            unsafe { slot.write(next) };
            // SAFETY: reserved and written.
            unsafe { lane.commit() };
            if random.one_in(5) || next == ITEMS - 1 {
                // SAFETY: this thread is the producer.
                unsafe { lane.publish() };
            }
            if random.one_in(100) {
                lane.trim();
            }
        }
    };
    beside_thieves(owner, thief);
    taken.assert_all();
}

fn again_and_again(name: &'static str, f: fn(u32, &mut Random)) {
    run(name, |round: &Round| {
        let mut random = round.random();
        let end = Instant::now() + round.time(150);
        while Instant::now() < end {
            let start = STARTS[random.below(STARTS.len() as u64) as usize].wrapping_add(random.below(64) as u32);
            f(start, &mut random);
        }
    });
}

#[test]
fn worker_queue() {
    again_and_again("wrap::worker_queue", ring);
}

#[test]
fn latent_forks() {
    again_and_again("wrap::latent_forks", forks);
}

#[test]
fn submitter_lane() {
    again_and_again("wrap::submitter_lane", lane);
}

/// Blocked takers and a giver, the bell going round.
#[test]
fn credits() {
    again_and_again("wrap::credits", |start, _| {
        let credits = Credits::new_at(3, 1, start);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        let Acquired::Credits(got) = credits.acquire(2, || false) else {
                            violation("credits stopped by themselves")
                        };
                        std::hint::spin_loop();
                        credits.give(got);
                    }
                });
            }
        });
        assert_eq!((credits.available(), credits.blocked()), (3, 0));
    });
}
