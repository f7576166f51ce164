//! Panics everywhere. Afterwards all workers are still there, every joiner has its answer, and nothing is counted
//! wrong.
#![cfg(not(loom))]

use scheduler::{Handle, JoinError, Scheduler, ShutdownMode};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use stress::planned::number;
use stress::{Bomb, Claims, Fate, Round, panic_planned, run};

const LONG: Duration = Duration::from_secs(100);

/// All workers are alive and take tasks.
fn assert_whole(round: &Round, scheduler: &Scheduler) {
    assert!(scheduler.wait_idle(LONG));
    assert_eq!(scheduler.metrics().alive, round.profile.workers);
    let claims = Claims::new(1_000);
    (0..1_000).for_each(|id| scheduler.submit(claims.task(id)).unwrap());
    assert!(scheduler.wait_idle(LONG));
    claims.assert_all_ran();
}

/// Number of the planned panic that `f` ends with.
fn caught(f: impl FnOnce()) -> u64 {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("a panic");
    number(&*payload).expect("a planned panic")
}

/// Runs `f` both on this thread and on a worker.
fn here_and_there(scheduler: &Scheduler, f: impl Fn(&Handle) + Clone + Send + 'static) {
    let handle = scheduler.handle();
    f(&handle);
    let inside = handle.clone();
    handle.spawn(move || f(&inside)).unwrap().join().unwrap();
}

#[test]
fn in_tasks() {
    run("panics::in_tasks", |round| {
        let heard = Arc::new(AtomicU64::new(0));
        let count = heard.clone();
        let hook = move |payload: &(dyn std::any::Any + Send)| _ = count.fetch_add(number(payload).unwrap(), Relaxed);
        let scheduler = round.build(round.builder().panic_handler(hook));
        let claims = Claims::new(4_000);
        for id in 0..4_000 {
            let task = claims.task(id);
            let panics = move || {
                task();
                if id % 4 == 0 {
                    panic_planned(1);
                }
            };
            if id % 3 == 0 {
                assert_eq!(scheduler.submit_batch([panics]).unwrap(), 1)
            } else {
                scheduler.submit(panics).unwrap()
            }
        }
        assert!(scheduler.wait_idle(LONG));
        claims.assert_all_ran();
        assert_eq!((heard.load(Relaxed), scheduler.metrics().panics), (1_000, 1_000));
        assert_whole(round, &scheduler);
    });
}

#[test]
fn in_destructors_of_captures() {
    run("panics::in_destructors_of_captures", |round| {
        let scheduler = round.scheduler();
        for id in 0..500 {
            let (bomb, big) = (Bomb(id), [id; 40]);
            match id % 3 {
                // Runs, then the capture panics while the closure's frame ends.
                0 => scheduler.submit(move || drop(bomb)).unwrap(),
                1 => scheduler.submit(move || assert_eq!((bomb.number(), big[7]), (id, id))).unwrap(),
                _ => {
                    let joined = scheduler.spawn(move || assert_eq!(bomb.number(), id)).unwrap().join();
                    let Err(JoinError::Panicked(payload)) = joined else { panic!("{joined:?}") };
                    assert_eq!(number(&*payload), Some(id));
                }
            }
        }
        assert_whole(round, &scheduler);
    });
}

#[test]
fn in_destructors_of_results() {
    run("panics::in_destructors_of_results", |round| {
        let scheduler = round.scheduler();
        for id in 0..300 {
            // Detached: the worker, or this thread, drops a result that panics.
            let handle = scheduler.spawn(move || Bomb(id)).unwrap();
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(handle)));
            if let Err(payload) = dropped {
                assert_eq!(number(&*payload), Some(id));
            }
        }
        assert_whole(round, &scheduler);
    });
}

#[test]
fn in_payloads_and_hooks() {
    run("panics::in_payloads_and_hooks", |round| {
        let builder = round.builder().panic_handler(|_| panic_planned(2));
        let builder = builder.on_worker_start(|_, _| panic_planned(3)).on_worker_stop(|_, _| panic_planned(4));
        let scheduler = round.build(builder);
        for id in 0..500 {
            // The payload panics when it is dropped, and so does the hook that sees it.
            scheduler.submit(move || std::panic::panic_any(Bomb(id))).unwrap();
        }
        for id in 0..100 {
            let joined = scheduler.spawn(move || std::panic::panic_any(Bomb(id))).unwrap().join();
            let Err(JoinError::Panicked(payload)) = joined else { panic!("{joined:?}") };
            assert_eq!(caught(|| drop(payload)), id);
            // Detached: whoever comes last, the worker or this thread, drops the payload.
            let detached = scheduler.spawn(move || std::panic::panic_any(Bomb(id))).unwrap();
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(detached))) {
                assert_eq!(number(&*payload), Some(id));
            }
        }
        assert_whole(round, &scheduler);
        assert!(scheduler.metrics().panics >= 500);
        assert!(scheduler.shutdown(ShutdownMode::Drain, LONG).completed);
    });
}

#[test]
fn on_both_sides_of_join() {
    run("panics::on_both_sides_of_join", |round| {
        let scheduler = round.scheduler();
        for _ in 0..round.times(60) {
            here_and_there(&scheduler, |handle| {
                let ended = AtomicUsize::new(0);
                let fine = || _ = ended.fetch_add(1, Relaxed);
                let ends = |n| {
                    ended.fetch_add(1, Relaxed);
                    panic_planned(n)
                };
                assert_eq!(caught(|| _ = handle.join(|| ends(1), fine)), 1);
                assert_eq!(caught(|| _ = handle.join(fine, || ends(2))), 2);
                assert_eq!(caught(|| _ = handle.join(|| ends(3), || ends(4))), 3);
                let inner = || scheduler::join(|| ends(5), || scheduler::join(fine, || ends(6)));
                assert_eq!(caught(|| _ = handle.join(fine, inner)), 5);
                assert_eq!(ended.load(Relaxed), 10);
            });
        }
        assert_whole(round, &scheduler);
    });
}

#[test]
fn in_tasks_of_scopes() {
    run("panics::in_tasks_of_scopes", |round| {
        let scheduler = round.scheduler();
        for _ in 0..round.times(60) {
            here_and_there(&scheduler, |handle| {
                let ended = AtomicUsize::new(0);
                let scope = |body_panics: bool| {
                    handle.scope(|scope| {
                        for i in 0..20 {
                            let ended = &ended;
                            scope.spawn(move |scope| {
                                ended.fetch_add(1, Relaxed);
                                scope.spawn(move |_| _ = ended.fetch_add(1, Relaxed));
                                if i % 5 == 0 {
                                    panic_planned(7);
                                }
                            });
                        }
                        if body_panics {
                            panic_planned(8);
                        }
                    });
                };
                assert_eq!(caught(|| scope(false)), 7);
                assert_eq!(caught(|| scope(true)), 8);
                assert_eq!(ended.load(Relaxed), 80);
            });
        }
        assert_whole(round, &scheduler);
    });
}

#[test]
fn in_an_iterator_of_a_batch() {
    run("panics::in_an_iterator_of_a_batch", |round| {
        let scheduler = round.scheduler();
        for stop in [0, 1, 63, 64, 65, 130, 199] {
            let claims = Claims::new(200);
            here_and_there_batch(&scheduler, claims, stop);
            assert!(scheduler.wait_idle(LONG));
            claims.assert_all(0..stop, Fate::Ran);
            claims.assert_all(stop..100.max(stop), Fate::Pending);
        }
        assert_whole(round, &scheduler);
    });
}

/// A batch that panics after `stop` tasks, on this thread for even numbers and on a worker for odd ones.
fn here_and_there_batch(scheduler: &Scheduler, claims: &'static Claims, stop: usize) {
    let handle = scheduler.handle();
    let batch = move || {
        let tasks = (0..200).map(|id| if id == stop { panic_planned(9) } else { claims.task(id) });
        assert_eq!(caught(|| _ = handle.submit_batch(tasks)), 9);
    };
    if stop.is_multiple_of(2) { batch() } else { scheduler.spawn(batch).unwrap().join().unwrap() }
}

#[test]
fn during_shutdown() {
    run("panics::during_shutdown", |round| {
        for i in 0..round.times(20) {
            let scheduler = round.scheduler();
            let claims = Claims::new(900);
            for id in 0..900 {
                let (task, bomb) = (claims.task(id), (id % 3 == 0).then(|| Bomb(id as u64)));
                let panics = move || {
                    task();
                    drop(bomb);
                    if id % 3 == 1 {
                        panic_planned(1);
                    }
                };
                scheduler.submit(panics).unwrap();
            }
            let mode = if i % 2 == 0 { ShutdownMode::Drain } else { ShutdownMode::Abort };
            let report = scheduler.shutdown(mode, LONG);
            assert!(report.completed && report.workers_left == 0, "{report:?}");
            assert_eq!(claims.count(Fate::Pending), 0);
            stress::watchdog::forget();
        }
    });
}
