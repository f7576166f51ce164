//! A bounded scheduler: never fuller than it may be, and nobody who waits for room waits for ever.
#![cfg(not(loom))]

use scheduler::{Handle, Scheduler, SubmitError};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use stress::round::submitter;
use stress::{Claims, Fate, run};

const LONG: Duration = Duration::from_secs(100);

/// Keeps `workers` workers busy until told otherwise.
fn occupy(scheduler: &Scheduler, workers: usize) -> Arc<AtomicBool> {
    let (go, inside) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(workers + 1)));
    for _ in 0..workers {
        let (go, inside) = (go.clone(), inside.clone());
        let stay = move || {
            inside.wait();
            while !go.load(Relaxed) {
                std::thread::sleep(Duration::from_micros(100));
            }
        };
        scheduler.submit(stay).unwrap();
    }
    inside.wait();
    go
}

#[test]
fn never_exceeded_and_given_back() {
    run("capacity::never_exceeded_and_given_back", |round| {
        for capacity in [1, 2, 63, 64, 65, 1_000] {
            let scheduler = round.build(round.builder().capacity(capacity));
            let go = occupy(&scheduler, round.profile.workers);
            let claims = Claims::new(2 * capacity as usize + 10);
            let mut accepted = 0;
            for id in 0..claims.len() {
                match scheduler.try_submit(claims.task(id)) {
                    Ok(()) => accepted += 1,
                    Err(SubmitError::Full(task)) => drop(task),
                    Err(other) => panic!("{other:?}"),
                }
                assert!(scheduler.metrics().queued <= capacity);
            }
            // One submitter is alone, so nobody else sits on unused credits.
            assert_eq!(accepted, capacity);
            go.store(true, Relaxed);
            assert!(scheduler.wait_idle(LONG));
            assert_eq!((claims.count(Fate::Ran), claims.count(Fate::Pending)), (accepted as usize, 0));
            // Everything is free again, for another thread too.
            let handle = scheduler.handle();
            let go = occupy(&scheduler, round.profile.workers);
            let fits = move || (0..capacity).filter(|_| handle.try_submit(|| ()).is_ok()).count() as u64;
            let fitted = submitter(fits).join().unwrap();
            go.store(true, Relaxed);
            assert!(fitted + (capacity / 64).clamp(1, 64) >= capacity, "{fitted} of {capacity}");
            stress::watchdog::forget();
        }
    });
}

/// Submitters that block, refuse, batch and spawn, and an observer that counts queued tasks by itself.
#[test]
fn blocked_submitters_proceed() {
    run("capacity::blocked_submitters_proceed", |round| {
        let mut random = round.random();
        for capacity in [1, 3, 100] {
            let scheduler = round.build(round.builder().capacity(capacity));
            let (threads, each) = (round.profile.submitters, 1_500);
            let claims = Claims::new(threads * each);
            let over = Arc::new(AtomicU64::new(0));
            let submitters: Vec<_> = (0..threads)
                .map(|part| {
                    let (handle, mut random) = (scheduler.handle(), random.fork());
                    submitter(move || {
                        for id in part * each..(part + 1) * each {
                            match random.below(4) {
                                0 => assert_eq!(handle.submit_batch([claims.task(id)]).unwrap(), 1),
                                1 => drop(handle.spawn(claims.task(id)).unwrap()),
                                2 => keep_trying(&handle, claims, id),
                                _ => handle.submit(claims.task(id)).unwrap(),
                            }
                        }
                    })
                })
                .collect();
            while submitters.iter().any(|thread| !thread.is_finished()) {
                over.fetch_max(scheduler.metrics().queued, Relaxed);
                std::thread::sleep(Duration::from_micros(200));
            }
            submitters.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(scheduler.wait_idle(LONG));
            claims.assert_all_ran();
            // The observer adds up queues one after the other, and a task that moves between two looks counts
            // twice; the workers hold what they have claimed.
            let claimed = 65 * round.profile.workers as u64;
            assert!(over.load(Relaxed) <= 2 * capacity + claimed, "{} queued of {capacity}", over.load(Relaxed));
            assert_eq!(scheduler.metrics().blocked, 0);
            stress::watchdog::forget();
        }
    });
}

fn keep_trying(handle: &Handle, claims: &'static Claims, id: usize) {
    let mut task = claims.task(id);
    loop {
        match handle.try_submit(task) {
            Ok(()) => return,
            Err(SubmitError::Full(back)) => task = back,
            Err(other) => panic!("{other:?}"),
        }
        std::thread::yield_now();
    }
}

/// Workers never block in submit: they help, or run the task themselves.
#[test]
fn workers_fill_it_from_inside() {
    run("capacity::workers_fill_it_from_inside", |round| {
        for capacity in [1, 40] {
            let scheduler = round.build(round.builder().capacity(capacity));
            let claims = Claims::new(8 * 1_000);
            for part in 0..8 {
                let (handle, other) = (scheduler.handle(), scheduler.handle());
                let burst = move || {
                    for id in part * 1_000..(part + 1) * 1_000 {
                        match id % 3 {
                            0 => handle.submit(claims.task(id)).unwrap(),
                            1 => assert_eq!(handle.submit_batch([claims.task(id)]).unwrap(), 1),
                            _ => handle.spawn(claims.task(id)).unwrap().join().unwrap(),
                        }
                    }
                };
                other.submit(burst).unwrap();
            }
            assert!(scheduler.wait_idle(LONG));
            claims.assert_all_ran();
            stress::watchdog::forget();
        }
    });
}

/// Threads that come and go must take no credit with them.
#[test]
fn credits_of_ended_threads_return() {
    run("capacity::credits_of_ended_threads_return", |round| {
        let scheduler = round.build(round.builder().capacity(1_000));
        let ran = Arc::new(AtomicUsize::new(0));
        let end = Instant::now() + round.time(200);
        let mut sent = 0;
        while Instant::now() < end {
            let (handle, ran) = (scheduler.handle(), ran.clone());
            submitter(move || handle.submit(move || _ = ran.fetch_add(1, Relaxed)).unwrap()).join().unwrap();
            sent += 1;
        }
        assert!(scheduler.wait_idle(LONG));
        assert_eq!(ran.load(Relaxed), sent);
        let go = occupy(&scheduler, round.profile.workers);
        let fitted = (0..1_000).filter(|_| scheduler.try_submit(|| ()).is_ok()).count();
        go.store(true, Relaxed);
        assert_eq!(fitted, 1_000);
    });
}
