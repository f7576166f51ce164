//! Timers: see `scheduler/src/timer/README.md`. The real wheel, its owner, and others who cancel or fire.
#![cfg(loom)]

use loom::thread;
use loom_tests::model;
use scheduler::internals::future::block_on::Sleeper;
use scheduler::internals::park::Parker;
use scheduler::internals::sync::{Arc, AtomicU32, Relaxed, yield_now};
use scheduler::internals::timer::{Alarm, NEVER, Node, Stage, Timers};
use std::pin::Pin;
use std::task::Waker;

/// A node on the heap. What it holds is checked when it goes: by loom, which then wants it alone.
struct Timer(Box<Node>);

impl Timer {
    fn pin(&self) -> Pin<&Node> {
        // SAFETY: boxed, and dropped only when it is in no wheel.
        unsafe { Pin::new_unchecked(&*self.0) }
    }

    fn start(timers: &Timers, tick: u64, waker: &Waker) -> Timer {
        let timer = Timer(Box::new(Node::new()));
        // SAFETY: each model cancels it, or sees it fired, before it goes.
        let _first = unsafe { timers.insert(timer.pin(), tick, waker.clone()) };
        timer
    }

    fn cancel(&self, timers: &Timers) {
        // SAFETY: inserted there.
        unsafe { timers.cancel(self.pin()) };
    }
}

/// Counts.
struct Wakes(AtomicU32);

impl std::task::Wake for Wakes {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn counting() -> (std::sync::Arc<Wakes>, Waker) {
    let wakes = std::sync::Arc::new(Wakes(AtomicU32::new(0)));
    (wakes.clone(), Waker::from(wakes))
}

/// The owner of a sleep drops it on another thread while the wheel's owner fires it: one of them takes it out, and it
/// is not touched afterwards.
#[test]
fn cancel_against_fire() {
    model("timers::cancel_against_fire", Some(4), 8, || {
        let timers = Arc::new(Timers::new());
        let (wakes, waker) = counting();
        let neighbour = Timer::start(&timers, 5, &waker);
        let timer = Timer::start(&timers, 5, &waker);
        let dropper = {
            let timers = timers.clone();
            thread::spawn(move || {
                timer.cancel(&timers);
                assert_ne!(timer.0.stage(), Stage::Linked);
            })
        };
        timers.turn(5);
        // Fired, so it is not the wheel's any more.
        neighbour.cancel(&timers);
        dropper.join().unwrap();
        assert!((1..=2).contains(&wakes.0.load(Relaxed)));
        assert_eq!(timers.next(), NEVER);
    });
}

/// The owner of the wheel is stuck, somebody else fires for it, and the owner comes back: each timer fires once.
#[test]
fn another_fires() {
    model("timers::another_fires", Some(3), 5, || {
        let timers = Arc::new(Timers::new());
        let (wakes, waker) = counting();
        let nodes = [3, 70].map(|tick| Timer::start(&timers, tick, &waker));
        let other = {
            let timers = timers.clone();
            thread::spawn(move || timers.turn_for_owner(80))
        };
        let own = timers.turn(80);
        let others = other.join().unwrap();
        assert_eq!((own + others, wakes.0.load(Relaxed)), (2, 2));
        assert!(nodes.iter().all(|node| node.0.stage() == Stage::Fired));
        assert_eq!(timers.next(), NEVER);
    });
}

/// The owner of a sleep sees that it was fired, and frees it without the lock.
#[test]
fn freed_without_the_lock() {
    model("timers::freed_without_the_lock", Some(4), 5, || {
        let timers = Arc::new(Timers::new());
        let (_, waker) = counting();
        let timer = Timer::start(&timers, 5, &waker);
        let other = {
            let timers = timers.clone();
            thread::spawn(move || timers.turn(5))
        };
        while timer.0.stage() != Stage::Fired {
            yield_now();
        }
        // Reaches for the inside, and takes no lock.
        timer.cancel(&timers);
        other.join().unwrap();
    });
}

/// A waker is exchanged while the old one may be woken: the last one is told, or the caller is.
#[test]
fn rewake_against_fire() {
    model("timers::rewake_against_fire", Some(4), 8, || {
        let timers = Arc::new(Timers::new());
        let ((_, first), (wakes, second)) = (counting(), counting());
        let timer = Timer::start(&timers, 5, &first);
        let other = {
            let timers = timers.clone();
            thread::spawn(move || timers.turn(5))
        };
        // SAFETY: inserted there.
        let waits = unsafe { timers.rewake(timer.pin(), &second) };
        other.join().unwrap();
        assert_eq!(wakes.0.load(Relaxed), u32::from(waits));
        assert_eq!(timer.0.stage(), Stage::Fired);
    });
}

/// The owner sleeps until its timer, a limit that is over at once, and somebody wakes it for something else or fires
/// for it: it neither sleeps on nor misses the token.
#[test]
fn sleep_until_the_timer() {
    model("timers::sleep_until_the_timer", Some(3), 50, || {
        let timers = Arc::new(Timers::new());
        let parker = Arc::new(Parker::new());
        let sleeper = Sleeper::new(parker.clone());
        sleeper.take();
        let waker = Waker::from(sleeper.clone());
        let timer = Timer::start(&timers, 5, &waker);
        let told = Arc::new(AtomicU32::new(0));
        let other = {
            let (timers, told, waker) = (timers.clone(), told.clone(), waker.clone());
            thread::spawn(move || {
                timers.turn_for_owner(5);
                told.store(1, Relaxed);
                waker.wake();
            })
        };
        let mut now = 0;
        while told.load(Relaxed) == 0 || timer.0.stage() != Stage::Fired {
            sleeper.take();
            while !sleeper.is_woken() && (told.load(Relaxed) == 0 || timer.0.stage() != Stage::Fired) {
                let limit = (timers.next() != NEVER).then_some(std::time::Duration::from_millis(1));
                let _ = parker.park(limit);
                now = if limit.is_some() { 5 } else { now };
                timers.turn(now);
            }
        }
        other.join().unwrap();
        timer.cancel(&timers);
    });
}

/// A worker inserts its first timer while its guard goes to sleep: the guard knows of it, or is woken.
#[test]
fn the_guard_knows() {
    model("timers::the_guard_knows", Some(4), 20, || {
        let (own, ward) = (Arc::new(Timers::new()), Arc::new(Timers::new()));
        let (alarm, parker) = (Arc::new(Alarm::new()), Arc::new(Parker::new()));
        alarm.clear();
        let (_, waker) = counting();
        let guard = {
            let (own, ward, alarm, parker) = (own, ward.clone(), alarm.clone(), parker.clone());
            thread::spawn(move || {
                while alarm.set(&own, &ward) == NEVER {
                    let _ = parker.park(None);
                    alarm.clear();
                }
            })
        };
        let timer = Timer::start(&ward, 5, &waker);
        if alarm.misses(&ward) {
            parker.unpark();
        }
        guard.join().unwrap();
        timer.cancel(&ward);
    });
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("freed_without_the_lock", "TW1"),
        ("freed_without_the_lock", "TW2"),
        ("cancel_against_fire", "timer-cancel-blind"),
        ("the_guard_knows", "TW3"),
        ("the_guard_knows", "TW4"),
        ("the_guard_knows", "timer-no-alarm"),
    ]);
}
