//! Sleeping in the ring and being woken there.

use crate::support::{LONG, pipe, ring};
use scheduler::internals::driver::{Caps, Ring};
use scheduler::internals::park::{Parked, Parker};
use scheduler::internals::sync::{Acquire, AtomicU64, Release};
use std::thread;
use std::time::Duration;

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
    let began = std::time::Instant::now();
    assert!(ring.wait(Some(LONG)));
    assert_eq!(parker.leave_ring(), Parked::Notified);
    assert!(began.elapsed() < LONG / 2, "slept with the token");
    pipe.fill();
}
