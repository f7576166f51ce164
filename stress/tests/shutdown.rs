//! Shutdown against everything that may go on meanwhile. Each submission is accepted and has its fate, or is given
//! back.
#![cfg(not(loom))]

use scheduler::{BatchError, Handle, JoinError, JoinHandle, Scheduler, ShutdownMode, SubmitError};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use stress::round::submitter;
use stress::{Claims, Fate, Random, Round, run};

const LONG: Duration = Duration::from_secs(100);

/// What one submitter was told, by number of token.
#[derive(Default)]
struct Told {
    accepted: Vec<usize>,
    refused: Vec<usize>,
    joins: Vec<(usize, JoinHandle<usize>)>,
}

impl Told {
    fn take<F>(&mut self, id: usize, result: Result<(), SubmitError<F>>) {
        match result {
            Ok(()) => self.accepted.push(id),
            Err(SubmitError::Closed(_)) => self.refused.push(id),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn take_batch<I: Iterator>(&mut self, ids: std::ops::Range<usize>, result: Result<usize, BatchError<I>>) {
        let accepted = match result {
            Ok(count) => {
                assert_eq!(count, ids.len());
                count
            }
            Err(error) => {
                assert!(matches!(error.reason, SubmitError::Closed(())), "{error}");
                let accepted = error.accepted;
                assert_eq!(accepted + error.into_tasks().count(), ids.len());
                accepted
            }
        };
        let (ran, back) = (ids.start..ids.start + accepted, ids.start + accepted..ids.end);
        self.accepted.extend(ran);
        self.refused.extend(back);
    }
}

/// Submits all of `ids` in all ways, whatever is answered. Acceptance after a refusal is legal while workers still
/// drain: a worker that takes a task before its submitter can take it back makes it accepted.
fn pester(handle: &Handle, claims: &'static Claims, mut ids: std::ops::Range<usize>, random: &mut Random) -> Told {
    let mut told = Told::default();
    let mut own = handle.register_submitter().ok();
    while let Some(id) = ids.next() {
        match random.below(8) {
            0 => match handle.spawn(spawned(claims, id)) {
                Ok(join) => told.joins.push((id, join)),
                Err(error) => told.take(id, Err(error)),
            },
            1 => {
                let batch = id..id + 1 + (random.below(150) as usize).min(ids.len());
                ids.start = batch.end;
                let tasks = batch.clone().map(|id| claims.task(id));
                match &mut own {
                    Some(own) if random.one_in(2) => told.take_batch(batch, own.submit_batch(tasks)),
                    _ => told.take_batch(batch, handle.submit_batch(tasks)),
                }
            }
            2 => told.take(id, handle.try_submit(claims.task(id))),
            3 if own.is_some() => told.take(id, own.as_mut().unwrap().submit(claims.task(id))),
            _ => told.take(id, handle.submit(claims.task(id))),
        }
    }
    told
}

fn spawned(claims: &'static Claims, id: usize) -> impl FnOnce() -> usize + Send {
    let task = claims.task(id);
    move || {
        task();
        id
    }
}

/// One race: submitters against a shutdown at a random moment.
fn race(round: &Round, scheduler: &Scheduler, mode: ShutdownMode, random: &mut Random) {
    let (threads, each) = (round.profile.submitters.min(8), 2_000);
    let claims = Claims::new(threads * each);
    let start = Arc::new(Barrier::new(threads + 1));
    let submitters: Vec<_> = (0..threads)
        .map(|part| {
            let (handle, start, mut random) = (scheduler.handle(), start.clone(), random.fork());
            submitter(move || {
                start.wait();
                pester(&handle, claims, part * each..(part + 1) * each, &mut random)
            })
        })
        .collect();
    start.wait();
    std::thread::sleep(Duration::from_micros(random.below(1_000)));
    let report = scheduler.shutdown(mode, LONG);
    assert!(report.completed, "{report:?}");
    assert!(matches!(scheduler.submit(|| ()), Err(SubmitError::Closed(_))));
    let mut dropped = 0;
    for submitter in submitters {
        let told = submitter.join().unwrap();
        claims.assert_all(told.refused, Fate::Dropped);
        let unrun = told.accepted.iter().filter(|&&id| claims.fate(id) == Fate::Dropped).count();
        assert!(unrun == 0 || mode == ShutdownMode::Abort, "{unrun} accepted tasks were dropped by a drain");
        dropped += unrun;
        for (id, join) in told.joins {
            match join.join() {
                Ok(value) => assert_eq!((value, claims.fate(id)), (id, Fate::Ran)),
                Err(JoinError::Cancelled) => {
                    assert_eq!((mode, claims.fate(id)), (ShutdownMode::Abort, Fate::Dropped));
                    dropped += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert_eq!(claims.count(Fate::Pending), 0);
    assert_eq!(report.tasks_dropped, dropped as u64, "{report:?}");
    assert_eq!((report.tasks_left, report.workers_left), (0, 0), "{report:?}");
}

fn races(name: &'static str, mode: ShutdownMode) {
    run(name, |round| {
        let mut random = round.random();
        let end = Instant::now() + round.time(600);
        while Instant::now() < end {
            let scheduler = round.scheduler();
            race(round, &scheduler, mode, &mut random);
            drop(scheduler);
            stress::watchdog::forget();
        }
    });
}

#[test]
fn drain_races_with_submitters() {
    races("shutdown::drain_races_with_submitters", ShutdownMode::Drain);
}

#[test]
fn abort_races_with_submitters() {
    races("shutdown::abort_races_with_submitters", ShutdownMode::Abort);
}

/// Tasks that a drain finds go on to submit from the workers; all of that belongs to the drain.
#[test]
fn a_drain_takes_what_its_tasks_submit() {
    run("shutdown::a_drain_takes_what_its_tasks_submit", |round| {
        fn chain(handle: &Handle, claims: &'static Claims, id: usize) {
            claims.token(id).run();
            if id % 100 != 99 {
                let next = handle.clone();
                handle.submit(move || chain(&next, claims, id + 1)).unwrap();
            }
        }
        for _ in 0..round.times(20) {
            let scheduler = round.build(round.builder());
            let claims = Claims::new(2_000);
            for first in (0..2_000).step_by(100) {
                let handle = scheduler.handle();
                scheduler.submit(move || chain(&handle, claims, first)).unwrap();
            }
            drop(scheduler);
            claims.assert_all_ran();
            stress::watchdog::forget();
        }
    });
}

/// A shutdown that is too slow says so; it can be waited for again, or be turned into an abort.
#[test]
fn a_limit_and_a_second_thought() {
    run("shutdown::a_limit_and_a_second_thought", |round| {
        let workers = round.profile.workers;
        let scheduler = round.scheduler();
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
        let claims = Claims::new(1_000);
        (0..1_000).for_each(|id| scheduler.submit(claims.task(id)).unwrap());
        let report = scheduler.shutdown(ShutdownMode::Drain, Duration::from_millis(20));
        assert!(!report.completed && report.workers_left == workers && report.tasks_left == 1_000, "{report:?}");
        assert!(matches!(scheduler.submit(|| ()), Err(SubmitError::Closed(_))));
        let report = scheduler.shutdown(ShutdownMode::Abort, Duration::ZERO);
        assert!(!report.completed, "{report:?}");
        go.store(true, Relaxed);
        let report = scheduler.shutdown(ShutdownMode::Abort, LONG);
        assert!(report.completed && report.tasks_left == 0 && report.workers_left == 0, "{report:?}");
        assert_eq!(claims.count(Fate::Pending), 0);
        assert_eq!(report.tasks_dropped as usize, claims.count(Fate::Dropped), "{report:?}");
    });
}

/// Whoever sleeps in `submit` because the scheduler is full must not sleep through its end.
#[test]
fn closing_wakes_blocked_submitters() {
    run("shutdown::closing_wakes_blocked_submitters", |round| {
        for mode in [ShutdownMode::Drain, ShutdownMode::Abort] {
            let workers = round.profile.workers;
            let scheduler = round.build(round.builder().capacity(10));
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
            let (claims, refused) = (Claims::new(30), Arc::new(AtomicUsize::new(0)));
            let blocked: Vec<_> = (0..30)
                .map(|id| {
                    let (handle, refused) = (scheduler.handle(), refused.clone());
                    submitter(move || {
                        if handle.submit(claims.task(id)).is_err() {
                            refused.fetch_add(1, Relaxed);
                        }
                    })
                })
                .collect();
            while scheduler.metrics().blocked < 20 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let report = scheduler.shutdown(mode, Duration::ZERO);
            assert!(!report.completed);
            blocked.into_iter().for_each(|thread| thread.join().unwrap());
            go.store(true, Relaxed);
            assert!(scheduler.shutdown(mode, LONG).completed);
            assert_eq!(claims.count(Fate::Pending), 0);
            assert!(refused.load(Relaxed) >= 20, "{}", refused.load(Relaxed));
            if mode == ShutdownMode::Drain {
                assert_eq!(claims.count(Fate::Dropped), refused.load(Relaxed));
            }
        }
    });
}

/// Two threads shut down at once, a third waits for idleness, a fourth asks for figures.
#[test]
fn several_at_once() {
    run("shutdown::several_at_once", |round| {
        for i in 0..round.times(30) {
            let scheduler = round.scheduler();
            let claims = Claims::new(500);
            (0..500).for_each(|id| scheduler.submit(claims.task(id)).unwrap());
            std::thread::scope(|scope| {
                let shut = |mode| assert!(scheduler.shutdown(mode, LONG).completed);
                let second = if i % 2 == 0 { ShutdownMode::Drain } else { ShutdownMode::Abort };
                scope.spawn(move || shut(ShutdownMode::Drain));
                scope.spawn(move || shut(second));
                scope.spawn(|| assert!(scheduler.wait_idle(LONG)));
                scope.spawn(|| (0..50).for_each(|_| assert!(scheduler.metrics().alive <= 64)));
            });
            assert_eq!(claims.count(Fate::Pending), 0);
            stress::watchdog::forget();
        }
    });
}

/// Scopes and joins from outside need their tasks to run or to be dropped, whatever the shutdown's mode.
#[test]
fn scopes_end_when_the_scheduler_aborts() {
    run("shutdown::scopes_end_when_the_scheduler_aborts", |round| {
        for _ in 0..round.times(20) {
            let scheduler = round.scheduler();
            let ran = AtomicUsize::new(0);
            std::thread::scope(|threads| {
                for _ in 0..3 {
                    let (scheduler, ran) = (&scheduler, &ran);
                    threads.spawn(move || {
                        for _ in 0..40 {
                            scheduler.scope(|scope| {
                                (0..30).for_each(|_| scope.spawn(move |_| _ = ran.fetch_add(1, Relaxed)));
                            });
                            let (a, b) = scheduler.join(|| 1, || 2);
                            assert_eq!((a, b), (1, 2));
                        }
                    });
                }
                std::thread::sleep(Duration::from_micros(300));
                assert!(scheduler.shutdown(ShutdownMode::Abort, LONG).completed);
            });
            stress::watchdog::forget();
        }
    });
}
