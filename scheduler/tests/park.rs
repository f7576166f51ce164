//! The park token on real threads and a real futex.
#![cfg(not(loom))]

mod rounds;

use rounds::{eventually, rounds};
use scheduler::internals::park::{ADDRESS_SPARE, Due, Parked, Parker, Waiter};
use scheduler::internals::sync::{Acquire, Arc, AtomicBool, AtomicU32, AtomicU64, Relaxed, Release, pause};
use std::thread;
use std::time::{Duration, Instant};

fn asleep(parker: &Parker) -> bool {
    format!("{parker:?}") == "PARKED_FUTEX"
}

#[test]
fn a_token_is_used_once() {
    let parker = Parker::new();
    assert!(!parker.try_consume());
    assert!(!parker.unpark(), "nobody sleeps, so no system call");
    assert!(!parker.unpark(), "tokens do not add up");
    assert_eq!(parker.park(None), Parked::Notified);
    assert!(!parker.try_consume());
    assert!(!parker.unpark());
    assert!(parker.try_consume());
    assert_eq!(parker.park(Some(Duration::ZERO)), Parked::TimedOut);
}

#[test]
fn a_sleeper_is_woken_by_one_call() {
    let parker = Parker::new();
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| parker.park(None));
        eventually("asleep", || asleep(&parker));
        assert!(parker.unpark());
        assert!(!parker.unpark() || !parker.try_consume(), "one call is enough");
        assert_eq!(sleeper.join().unwrap(), Parked::Notified);
    });
}

#[test]
fn time_is_kept() {
    let parker = Parker::new();
    let limit = Duration::from_millis(20);
    let began = Instant::now();
    assert_eq!(parker.park(Some(limit)), Parked::TimedOut);
    assert!(began.elapsed() >= limit);
    assert_eq!(format!("{parker:?}"), "EMPTY");
}

#[test]
fn a_limit_beyond_the_clock_is_none() {
    let parker = Parker::new();
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| parker.park(Some(Duration::MAX)));
        eventually("asleep", || asleep(&parker));
        parker.unpark();
        assert_eq!(sleeper.join().unwrap(), Parked::Notified);
    });
}

#[test]
fn stray_wakes_do_not_end_a_sleep() {
    let (parker, told) = (Parker::new(), AtomicBool::new(false));
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            assert_eq!(parker.park(None), Parked::Notified);
            assert!(told.load(Relaxed), "woke without a token");
        });
        eventually("asleep", || asleep(&parker));
        for _ in 0..1000 {
            parker.stray_wake();
        }
        told.store(true, Relaxed);
        parker.unpark();
        sleeper.join().unwrap();
    });
}

extern "C" fn ignore(_signal: libc::c_int) {}

#[test]
fn signals_do_not_end_a_sleep() {
    // SAFETY: a zeroed sigaction is valid: no flags (so no restart), nothing masked.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as usize;
    // SAFETY: the handler touches nothing; no other test of this program uses the signal.
    let rc = unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
    assert_eq!(rc, 0);
    let (parker, told, id) = (Parker::new(), AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            // SAFETY: no arguments.
            id.store(unsafe { libc::pthread_self() }, Release);
            let limit = Some(Duration::from_secs(600));
            assert_eq!(parker.park(limit), Parked::Notified);
            assert!(told.load(Relaxed), "woke without a token");
        });
        eventually("asleep", || asleep(&parker));
        for _ in 0..200 {
            // SAFETY: the thread is not joined yet.
            unsafe { libc::pthread_kill(id.load(Acquire), libc::SIGUSR1) };
            thread::sleep(Duration::from_micros(50));
        }
        told.store(true, Relaxed);
        parker.unpark();
        sleeper.join().unwrap();
    });
}

#[test]
fn a_ring_sleeper_is_rung() {
    let parker = Parker::new();
    assert!(parker.enter_ring());
    assert_eq!(format!("{parker:?}"), "PARKED_RING");
    assert_eq!(parker.deliver(), Due::RingWake);
    assert_eq!(parker.deliver(), Due::Nothing, "the first deliverer sees to it");
    assert_eq!(parker.leave_ring(), Parked::Notified);
    assert!(parker.enter_ring());
    parker.hang_bell().expect("a descriptor");
    assert!(parker.unpark(), "one call for a ring sleeper");
    assert!(!parker.unpark(), "and not two");
    assert_eq!(parker.leave_ring(), Parked::Notified);
    assert!(parker.enter_ring());
    assert_eq!(parker.leave_ring(), Parked::TimedOut);
    parker.unpark();
    assert!(!parker.enter_ring(), "there was a token");
    assert!(!parker.try_consume(), "and it is used up");
}

#[test]
fn a_waiter_outlives_its_thread() {
    let parker = Arc::new(Parker::new());
    let waiter = Waiter::new(&parker);
    let spare = waiter.clone();
    let address = waiter.into_address();
    assert_ne!(address, 0);
    assert_eq!(address & ADDRESS_SPARE, 0);
    assert_eq!(Arc::strong_count(&parker), 3);
    drop(spare);
    // SAFETY: from `into_address`, once.
    let waiter = unsafe { Waiter::from_address(address) };
    assert!(!waiter.unpark());
    assert!(parker.try_consume());
    assert_eq!(Arc::strong_count(&parker), 1);
    let orphan = Waiter::new(&parker);
    drop(parker);
    assert!(!orphan.unpark(), "nobody left to hear it");
}

/// Two threads wake each other in turn; each waits for the other's count, so that a lost token would stop both.
#[test]
fn ping_pong() {
    const TURNS: u32 = 20_000;
    let (parkers, count) = ([Parker::new(), Parker::new()], AtomicU32::new(0));
    let side = |me: u32| {
        for turn in (me..TURNS).step_by(2) {
            while count.load(Relaxed) != turn {
                let _ = parkers[me as usize].park(None);
            }
            count.store(turn + 1, Relaxed);
            parkers[1 - me as usize].unpark();
        }
    };
    thread::scope(|scope| {
        let both = [scope.spawn(|| side(0)), scope.spawn(|| side(1))];
        eventually("all turns", || count.load(Relaxed) == TURNS);
        for one in both {
            one.join().unwrap();
        }
    });
}

/// One side's part of the token protocol, with the sleep left out.
trait Token: Sync {
    /// Puts a token down; true if a sleeper was seen.
    fn deliver(&self) -> bool;
    /// True: would sleep. False: there was a token, and it is used up.
    fn announce(&self) -> bool;
    /// Ends an announced sleep; true if a token had come.
    fn leave(&self) -> bool;
    /// Uses a token up.
    fn consume(&self) -> bool;
}

impl Token for Parker {
    fn deliver(&self) -> bool {
        Parker::deliver(self) == Due::RingWake
    }
    fn announce(&self) -> bool {
        self.enter_ring()
    }
    fn leave(&self) -> bool {
        self.leave_ring() == Parked::Notified
    }
    fn consume(&self) -> bool {
        self.try_consume()
    }
}

/// What was found in so many rounds of deliver against announce.
struct Found {
    rounds: u64,
    slept: u64,
    lost: u64,
}

/// The sleep turned into an observation: a round in which one side would sleep and the other saw no sleeper is a lost
/// wake-up. The work is announced by a Relaxed store, so the token alone must carry it.
fn dekker(token: &impl Token, time: Duration, stop_at_loss: bool) -> Found {
    let (work, seen) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut found = Found { rounds: 0, slept: 0, lost: 0 };
    let left = |n| {
        work.store(n, Relaxed);
        seen.store(token.deliver(), Relaxed);
    };
    found.rounds = rounds(time, left, |n, left_is_through| {
        if work.load(Relaxed) == n {
            left_is_through();
            assert!(token.consume(), "a token vanished");
            return true;
        }
        if !token.announce() {
            assert_eq!(work.load(Relaxed), n, "a token without its work");
            return true;
        }
        found.slept += 1;
        left_is_through();
        let lost = !seen.load(Relaxed) | !token.leave();
        found.lost += u64::from(lost);
        !(lost && stop_at_loss)
    });
    found
}

#[test]
fn dekker_rounds() {
    let found = dekker(&Parker::new(), Duration::from_secs(1), false);
    println!("rounds={} slept={} lost={}", found.rounds, found.slept, found.lost);
    assert!(found.slept != 0, "the interesting case never came up");
    assert_eq!(found.lost, 0, "lost wake-ups in {} rounds", found.rounds);
}

/// What one would write first: look, then store.
struct LookThenStore(AtomicU32);

impl LookThenStore {
    const EMPTY: u32 = 0;
    const NOTIFIED: u32 = 1;
    const PARKED: u32 = 2;

    fn look_then_store(&self, value: u32) -> u32 {
        let old = self.0.load(Acquire);
        pause();
        self.0.store(value, Release);
        old
    }
}

impl Token for LookThenStore {
    fn deliver(&self) -> bool {
        self.look_then_store(Self::NOTIFIED) == Self::PARKED
    }
    fn announce(&self) -> bool {
        if self.look_then_store(Self::PARKED) != Self::NOTIFIED {
            return true;
        }
        self.0.store(Self::EMPTY, Release);
        false
    }
    fn leave(&self) -> bool {
        self.look_then_store(Self::EMPTY) == Self::NOTIFIED
    }
    fn consume(&self) -> bool {
        self.leave()
    }
}

/// The control: these rounds find what they are for.
#[test]
fn dekker_rounds_find_a_lost_wake() {
    let found = dekker(&LookThenStore(AtomicU32::new(0)), Duration::from_secs(60), true);
    println!("rounds={} slept={} lost={}", found.rounds, found.slept, found.lost);
    assert_ne!(found.lost, 0, "none in {} rounds", found.rounds);
}
