//! Sleeping in the ring and being woken there.

use crate::support::{LONG, pipe, ring};
use scheduler::internals::driver::{Caps, Ring};
use scheduler::internals::park::{Parked, Parker};
use scheduler::internals::sync::{Acquire, AtomicU64, Release};
use std::thread;
use std::time::{Duration, Instant};

fn sleep(ring: &mut Ring) -> Parked {
    let parker = ring.parker().clone();
    if !parker.enter_ring() {
        return Parked::Notified;
    }
    assert!(ring.wait(Some(LONG)));
    parker.leave_ring()
}

fn asleep(parker: &Parker) -> bool {
    format!("{parker:?}") == "PARKED_RING"
}

#[test]
fn a_token_ends_the_sleep() {
    let Some(mut ring) = ring(&Caps::ALL) else { return };
    let parker = ring.parker().clone();
    for _ in 0..100 {
        thread::scope(|scope| {
            let waker = scope.spawn(|| {
                while !asleep(&parker) {
                    thread::yield_now();
                }
                assert!(parker.unpark(), "a call");
                assert!(!parker.unpark() || !parker.try_consume(), "one call is enough");
            });
            // An earlier ring of the bell may end a sleep for nothing.
            while sleep(&mut ring) != Parked::Notified {}
            waker.join().unwrap();
        });
        parker.try_consume();
    }
    assert!(ring.counts().rung >= 50, "{:?}", ring.counts());
    assert_eq!(ring.counts().armed, 1, "the poll stays");
}

/// Tokens, completions and time limits at once: every token and every completion arrives.
#[test]
fn tokens_and_completions() {
    const ROUNDS: u64 = 20_000;
    let Some(mut ring) = ring(&Caps::ALL) else { return };
    let parker = ring.parker().clone();
    let (given, used) = (AtomicU64::new(0), AtomicU64::new(0));
    let pipe = pipe();
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                given.store(round, Release);
                parker.unpark();
                if round % 4 == 0 {
                    pipe.fill();
                }
                // In step, or all tokens but a few are merged.
                while used.load(Acquire) + 2 < round {
                    thread::yield_now();
                }
            }
        });
        let mut completions = 0;
        pipe.poll(&mut ring, 0);
        while used.load(Acquire) != ROUNDS || completions < 1 {
            if parker.enter_ring() {
                assert!(ring.wait(Some(Duration::from_secs(10))), "a token or a completion was lost");
                let _ = parker.leave_ring();
            }
            used.store(given.load(Acquire), Release);
            while ring.pop().is_some() {
                completions += 1;
                let mut byte = [0];
                std::io::Read::read_exact(&mut &pipe.read, &mut byte).unwrap();
                pipe.poll(&mut ring, completions);
            }
        }
    });
}

/// More goes out before the sleep than the queue has room for, so that the bell is heard before it.
#[test]
fn a_bell_that_is_heard_before_the_sleep_is_instead_of_it() {
    let Some(mut ring) = ring(&Caps::ALL) else { return };
    let parker = ring.parker().clone();
    let pipe = pipe();
    (0..1000).for_each(|tag| pipe.poll(&mut ring, tag));
    assert!(parker.enter_ring());
    assert!(parker.unpark(), "it is in its ring");
    let began = Instant::now();
    assert!(ring.wait(Some(LONG)));
    assert_eq!(parker.leave_ring(), Parked::Notified);
    assert!(began.elapsed() < LONG / 2, "slept with the token");
    pipe.fill();
}

/// The end of a cancellation, and signals, are completions and calls that nobody sleeps for.
#[test]
fn neither_a_cancellation_nor_a_signal_is_the_end_of_the_time() {
    const LIMIT: Duration = Duration::from_millis(60);
    extern "C" fn nothing(_: i32) {}
    let Some(mut ring) = ring(&Caps::ALL) else { return };
    let pipe = pipe();
    pipe.poll(&mut ring, 1);
    ring.look();
    ring.cancel(77, u64::MAX);
    let began = Instant::now();
    assert!(ring.wait(Some(LIMIT)));
    assert!(began.elapsed() >= LIMIT, "a cancellation of nothing: {:?}", began.elapsed());
    // SAFETY: zeros are a valid action, which does not begin calls again.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(i32) as libc::sighandler_t;
    // SAFETY: the handler does nothing.
    assert_eq!(unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) }, 0);
    // SAFETY: no memory is passed.
    let sleeper = unsafe { libc::pthread_self() };
    let enters = ring.counts().enters;
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..4 {
                thread::sleep(LIMIT / 8);
                // SAFETY: the thread waits for this one.
                unsafe { libc::pthread_kill(sleeper, libc::SIGUSR1) };
            }
        });
        let began = Instant::now();
        assert!(ring.wait(Some(LIMIT)));
        assert!(began.elapsed() >= LIMIT, "a signal: {:?}", began.elapsed());
    });
    assert!(ring.counts().enters > enters + 1, "no signal has come");
    assert_eq!((ring.pop(), ring.in_flight()), (None, 1));
    pipe.fill();
}

/// Wakes by a futex operation of the ring are lost when it was armed before the process had a second thread.
#[test]
fn the_first_thread_is_woken_by_the_second() {
    // SAFETY: the only thread of the child is this one.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends a child that hangs.
        unsafe { libc::alarm(20) };
        let slept = || {
            let mut ring = ring(&Caps::ALL)?;
            let (parker, pipe) = (ring.parker().clone(), pipe());
            pipe.poll(&mut ring, 1);
            ring.look();
            let waker = thread::spawn(move || {
                while !asleep(&parker) {
                    thread::yield_now();
                }
                parker.unpark();
            });
            while sleep(&mut ring) != Parked::Notified {}
            waker.join().ok()
        };
        let code = i32::from(std::panic::catch_unwind(std::panic::AssertUnwindSafe(slept)).is_err());
        // SAFETY: nothing of the parent's is ended here.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the kernel fills the status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "it slept with a token, or failed");
}

/// A futex operation of a ring that was closed steals the wakes of whoever sleeps on the word next.
#[test]
fn a_closed_ring_steals_no_wake() {
    let Some(mut ring) = ring(&Caps::ALL) else { return };
    let parker = ring.parker().clone();
    for _ in 0..20 {
        let pipe = pipe();
        pipe.poll(&mut ring, 1);
        assert!(parker.enter_ring());
        assert!(ring.wait(Some(Duration::from_millis(1))));
        let _ = parker.leave_ring();
        drop(ring);
        thread::scope(|scope| {
            scope.spawn(|| {
                while format!("{parker:?}") != "PARKED_FUTEX" {
                    thread::yield_now();
                }
                parker.unpark();
            });
            let began = Instant::now();
            assert_eq!(parker.park(Some(LONG)), Parked::Notified);
            assert!(began.elapsed() < LONG / 2, "the wake was stolen");
        });
        ring = Ring::open(&Caps::ALL, &parker).expect("another one");
    }
}
