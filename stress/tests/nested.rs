//! Waits inside of tasks: deep, crossed, and on few workers.
#![cfg(not(loom))]

use scheduler::{Handle, Help, JoinError, JoinHandle, Scheduler};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stress::round::submitter;
use stress::{Claims, Round, run};

const LONG: Duration = Duration::from_secs(100);

thread_local! {
    /// This thread is inside of the wait that must not run strangers.
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

/// One worker is where nested waits deadlock; the number of this round is where they race.
fn one_and_many(round: &Round, f: impl Fn(&Scheduler)) {
    f(&round.build(round.builder_of(1)));
    if round.profile.workers != 1 {
        f(&round.scheduler());
    }
}

#[test]
fn spawn_and_join_sixty_four_deep() {
    run("nested::spawn_and_join_sixty_four_deep", |round| {
        fn down(depth: usize) -> usize {
            if depth == 0 { 0 } else { 1 + Handle::current().spawn(move || down(depth - 1)).unwrap().join().unwrap() }
        }
        one_and_many(round, |scheduler| {
            for _ in 0..round.times(50) {
                let joins: Vec<_> = (0..4).map(|_| scheduler.spawn(|| down(64)).unwrap()).collect();
                joins.into_iter().for_each(|join| assert_eq!(join.join().unwrap(), 64));
            }
        });
    });
}

/// Deeper than the stack allows to help: whoever waits then must sleep, and the others do the work.
#[test]
fn spawn_and_join_beyond_the_stack() {
    run("nested::spawn_and_join_beyond_the_stack", |round| {
        fn down(depth: usize) -> usize {
            let pad = std::hint::black_box([depth; 512]);
            if depth == 0 {
                return 0;
            }
            let join = Handle::current().spawn(move || down(depth - 1)).unwrap();
            join.join().unwrap() + std::hint::black_box(&pad)[7] / depth
        }
        // A worker can hold some hundred of these frames, so that two could not hold all.
        let depth = 300;
        let scheduler = round.build(round.builder_of(2).stack_size(4 << 20));
        assert_eq!(scheduler.spawn(move || down(depth)).unwrap().join().unwrap(), depth);
    });
}

#[test]
fn scopes_in_scopes() {
    run("nested::scopes_in_scopes", |round| {
        fn tree(handle: &Handle, depth: u32, count: &AtomicUsize) {
            count.fetch_add(1, Relaxed);
            if depth > 0 {
                handle.scope(|scope| {
                    for _ in 0..3 {
                        scope.spawn(move |_| tree(&Handle::current(), depth - 1, count));
                    }
                });
            }
        }
        one_and_many(round, |scheduler| {
            for _ in 0..round.times(5) {
                let count = AtomicUsize::new(0);
                tree(scheduler, 6, &count);
                assert_eq!(count.load(Relaxed), (3usize.pow(7) - 1) / 2);
            }
        });
    });
}

#[test]
fn joins_in_joins() {
    run("nested::joins_in_joins", |round| {
        fn fib(n: u64) -> u64 {
            if n < 2 {
                return n;
            }
            let (a, b) = scheduler::join(|| fib(n - 1), || fib(n - 2));
            a + b
        }
        fn comb(depth: u64) -> u64 {
            if depth == 0 { 0 } else { scheduler::join(|| 1, || comb(depth - 1)).1 + 1 }
        }
        fn left(depth: u64) -> u64 {
            if depth == 0 { 0 } else { scheduler::join(|| left(depth - 1), || 1).0 + 1 }
        }
        one_and_many(round, |scheduler| {
            let end = Instant::now() + round.time(200);
            while Instant::now() < end {
                assert_eq!(scheduler.spawn(|| fib(18)).unwrap().join().unwrap(), 2584);
            }
            // Left-deep joins nest forks beyond their stack's capacity; the rest runs inline.
            assert_eq!(scheduler.spawn(|| left(2_000)).unwrap().join().unwrap(), 2_000);
            assert_eq!(scheduler.spawn(|| comb(1_000)).unwrap().join().unwrap(), 1_000);
        });
    });
}

/// Tasks that hold a lock that all others want, while they wait for a task of their own.
fn wait_inside_of_a_lock(scheduler: &Scheduler, tasks: usize) {
    let lock: &'static Mutex<usize> = Box::leak(Box::new(Mutex::new(0)));
    let claims = Claims::new(2 * tasks);
    for id in 0..tasks {
        let locks = move || {
            let mut held = lock.lock().unwrap();
            let inner = Handle::current().spawn(claims.task(2 * id)).unwrap();
            inner.join_with(Help::Own).unwrap();
            *held += 1;
            drop(held);
            claims.token(2 * id + 1).run();
        };
        scheduler.submit(locks).unwrap();
    }
    assert!(scheduler.wait_idle(LONG));
    claims.assert_all_ran();
    assert_eq!(*lock.lock().unwrap(), tasks);
}

/// One worker, or as many waiters as leave one worker free: the awaited task may have been given to others.
#[test]
fn help_own_inside_of_a_lock() {
    run("nested::help_own_inside_of_a_lock", |round| {
        wait_inside_of_a_lock(&round.build(round.builder_of(1)), 300);
        let workers = round.profile.workers.max(2);
        let scheduler = round.build(round.builder_of(workers));
        (0..round.times(100)).for_each(|_| wait_inside_of_a_lock(&scheduler, workers - 1));
    });
}

/// All workers want the lock, so that nobody is left to run what the waiter has given away.
#[test]
fn help_own_when_all_others_want_the_lock() {
    run("nested::help_own_when_all_others_want_the_lock", |round| wait_inside_of_a_lock(&round.scheduler(), 300));
}

/// The awaited task is somebody else's, so a wait that helps with its own has nothing to help with: not even with
/// tasks that this worker has queued itself.
#[test]
fn help_own_of_a_foreign_handle() {
    run("nested::help_own_of_a_foreign_handle", |round| {
        for _ in 0..round.times(5) {
            let scheduler = round.build(round.builder_of(2));
            let (held, broken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
            let slow = scheduler.spawn(|| std::thread::sleep(Duration::from_millis(2))).unwrap();
            let (lock, count) = (held.clone(), broken.clone());
            let waits = move || {
                for _ in 0..20 {
                    let (lock, count) = (lock.clone(), count.clone());
                    let wants = move || _ = count.fetch_add(usize::from(lock.load(Relaxed) && HOLDS.get()), Relaxed);
                    Handle::current().submit(wants).unwrap();
                }
                HOLDS.set(true);
                lock.store(true, Relaxed);
                slow.join_with(Help::Own).unwrap();
                lock.store(false, Relaxed);
                HOLDS.set(false);
            };
            scheduler.spawn(waits).unwrap().join().unwrap();
            assert_eq!(broken.load(Relaxed), 0, "ran inside of the wait");
        }
    });
}

/// Two schedulers of one worker each, every level of the recursion on the other one.
#[test]
fn two_schedulers_cross() {
    run("nested::two_schedulers_cross", |round| {
        fn hop(here: &Handle, there: &Handle, depth: usize) -> usize {
            if depth == 0 {
                return 0;
            }
            let (a, b) = (there.clone(), here.clone());
            1 + there.spawn(move || hop(&a, &b, depth - 1)).unwrap().join().unwrap()
        }
        let (a, b) = (round.build(round.builder_of(1)), round.build(round.builder_of(1)));
        let threads: Vec<_> = (0..4)
            .map(|i| {
                let (a, b) = if i % 2 == 0 { (a.handle(), b.handle()) } else { (b.handle(), a.handle()) };
                let time = round.time(300);
                submitter(move || {
                    let end = Instant::now() + time;
                    while Instant::now() < end {
                        assert_eq!(hop(&a, &b, 7), 7);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let claims = Claims::new(3_000);
        for id in 0..1_000 {
            let (there, back) = (b.handle(), a.handle());
            let cross = move || {
                claims.token(3 * id).run();
                let crossed = move || {
                    claims.token(3 * id + 1).run();
                    back.scope(|scope| scope.spawn(|_| claims.token(3 * id + 2).run()));
                };
                there.submit(crossed).unwrap();
            };
            a.submit(cross).unwrap();
        }
        assert!(a.wait_idle(LONG) && b.wait_idle(LONG) && a.wait_idle(LONG) && b.wait_idle(LONG));
        claims.assert_all_ran();
    });
}

/// Handles that are joined, joined for a while, aborted or dropped while the task starts.
#[test]
fn aborts_and_timeouts_race() {
    run("nested::aborts_and_timeouts_race", |round| {
        let scheduler = round.scheduler();
        let mut random = round.random();
        let end = Instant::now() + round.time(500);
        while Instant::now() < end {
            let claims = Claims::new(1_000);
            for id in 0..1_000 {
                let task = claims.task(id);
                let slow = random.one_in(50).then(|| Duration::from_micros(random.below(200)));
                let spawned = move || {
                    if let Some(time) = slow {
                        std::thread::sleep(time);
                    }
                    task();
                    id
                };
                let handle = scheduler.spawn(spawned).unwrap();
                (0..random.below(200)).for_each(|_| std::hint::spin_loop());
                settle(handle, claims, id, random.below(5));
            }
            assert!(scheduler.wait_idle(LONG));
            assert_eq!(claims.count(stress::Fate::Pending), 0);
        }
    });
}

fn settle(handle: JoinHandle<usize>, claims: &'static Claims, id: usize, how: u64) {
    match how {
        0 => assert_eq!(handle.join().unwrap(), id),
        1 => drop(handle),
        2 => {
            let aborted = handle.abort();
            match handle.join() {
                Ok(value) => assert!(!aborted && value == id),
                Err(JoinError::Cancelled) => assert!(aborted && claims.fate(id) != stress::Fate::Ran),
                Err(other) => panic!("{other}"),
            }
        }
        3 => match handle.join_timeout(Duration::from_micros(20)) {
            Ok(value) => assert_eq!(value.unwrap(), id),
            Err(handle) => assert_eq!(handle.join().unwrap(), id),
        },
        _ => {
            let mut handle = handle;
            loop {
                match handle.join_timeout(Duration::ZERO) {
                    Ok(value) => break assert_eq!(value.unwrap(), id),
                    Err(back) => handle = back,
                }
                std::thread::yield_now();
            }
        }
    }
}
