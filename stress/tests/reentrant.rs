//! Code of the user that runs in the middle of the scheduler's, and uses the scheduler.
#![cfg(not(loom))]

use scheduler::{Handle, Scheduler, ShutdownMode};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use stress::{Claims, Fate, panic_planned, run};

const LONG: Duration = Duration::from_secs(100);

/// Uses the scheduler in some way, for one token.
fn use_it(handle: &Handle, claims: &'static Claims, id: usize) {
    match id % 6 {
        0 => handle.submit(claims.task(id)).unwrap(),
        1 => handle.spawn(claims.task(id)).unwrap().join().unwrap(),
        2 => assert_eq!(handle.submit_batch([claims.task(id)]).unwrap(), 1),
        3 => handle.scope(|scope| scope.spawn(move |_| claims.token(id).run())),
        4 => handle.register_submitter().unwrap().submit(claims.task(id)).unwrap(),
        _ => _ = handle.join(|| claims.token(id).run(), || handle.metrics().queued),
    }
}

#[test]
fn an_iterator_of_a_batch() {
    run("reentrant::an_iterator_of_a_batch", |round| {
        for on_worker in [false, true] {
            let (scheduler, other) = (round.scheduler(), round.build(round.builder_of(1)));
            let claims = Claims::new(3 * 600);
            let (handle, elsewhere) = (scheduler.handle(), other.handle());
            let batch = move || {
                let tasks = (0..600).map(|id| {
                    use_it(&handle, claims, 600 + id);
                    if id % 7 == 0 {
                        use_it(&elsewhere, claims, 1200 + id);
                    } else {
                        claims.token(1200 + id).run();
                    }
                    claims.task(id)
                });
                assert_eq!(handle.submit_batch(tasks).unwrap(), 600);
            };
            if on_worker {
                scheduler.spawn(batch).unwrap().join().unwrap()
            } else {
                batch()
            }
            assert!(scheduler.wait_idle(LONG) && other.wait_idle(LONG));
            claims.assert_all_ran();
        }
    });
}

/// Uses the scheduler when it is dropped.
struct Late(Handle, &'static Claims, usize);

impl Drop for Late {
    fn drop(&mut self) {
        use_it(&self.0, self.1, self.2);
    }
}

#[test]
fn destructors_of_captures() {
    run("reentrant::destructors_of_captures", |round| {
        let scheduler = round.scheduler();
        let claims = Claims::new(900);
        for id in 0..900 {
            let late = Late(scheduler.handle(), claims, id);
            match id % 4 {
                0 => scheduler.submit(move || drop(late)).unwrap(),
                1 => scheduler.submit(move || panic_planned(late.2 as u64)).unwrap(),
                // The result is dropped by whoever comes last.
                2 => drop(scheduler.spawn(move || late).unwrap()),
                _ => {
                    let spawned = scheduler.spawn(move || drop(late)).unwrap();
                    spawned.abort();
                }
            }
        }
        assert!(scheduler.wait_idle(LONG));
        claims.assert_all_ran();
    });
}

/// Closures that an aborting shutdown drops submit in their destructors: on the workers these belong to what is
/// dropped.
struct Echo(Handle, &'static Claims, usize, Arc<AtomicUsize>);

impl Drop for Echo {
    fn drop(&mut self) {
        if self.0.submit(self.1.task(self.2)).is_err() {
            self.3.fetch_add(1, Relaxed);
        }
    }
}

#[test]
fn destructors_during_an_abort() {
    run("reentrant::destructors_during_an_abort", |round| {
        for _ in 0..round.times(20) {
            let scheduler = round.scheduler();
            let (claims, refused) = (Claims::new(1_000), Arc::new(AtomicUsize::new(0)));
            for id in 0..1_000 {
                let echo = Echo(scheduler.handle(), claims, id, refused.clone());
                scheduler.submit(move || drop(echo)).unwrap();
            }
            assert!(scheduler.shutdown(ShutdownMode::Abort, LONG).completed);
            assert_eq!(claims.count(Fate::Pending), 0, "{refused:?} refused");
            stress::watchdog::forget();
        }
    });
}

#[test]
fn hooks() {
    run("reentrant::hooks", |round| {
        let claims = Claims::new(300);
        let place: Arc<OnceLock<Handle>> = Arc::default();
        let (started, seen) = (Arc::new(AtomicUsize::new(0)), place.clone());
        let count = started.clone();
        let on_start = move |_, _| {
            let count = count.clone();
            Handle::current().submit(move || _ = count.fetch_add(1, Relaxed)).unwrap();
        };
        let on_panic = move |payload: &(dyn std::any::Any + Send)| {
            let id = stress::planned::number(payload).unwrap() as usize;
            use_it(seen.get().unwrap(), claims, id);
        };
        let scheduler = round.build(round.builder().on_worker_start(on_start).panic_handler(on_panic));
        place.set(scheduler.handle()).unwrap();
        (0..300).for_each(|id| scheduler.submit(move || panic_planned(id)).unwrap());
        assert!(scheduler.wait_idle(LONG));
        claims.assert_all_ran();
        assert_eq!(started.load(Relaxed), round.profile.workers);
        drop(place);
    });
}

/// The last handle, the scheduler of another kind, a join handle: dropped by a task.
#[test]
fn tasks_own_everything() {
    run("reentrant::tasks_own_everything", |round| {
        for _ in 0..round.times(10) {
            let outer = round.builder().build().unwrap();
            let inner = Scheduler::builder().workers(1).build().unwrap();
            let claims = Claims::new(3);
            let join = inner.spawn(claims.task(0)).unwrap();
            inner.submit(claims.task(1)).unwrap();
            let handle = outer.handle();
            let owns = move || {
                drop(join);
                drop(inner);
                handle.submit(claims.task(2)).unwrap();
                drop(handle);
            };
            outer.submit(owns).unwrap();
            drop(outer);
            claims.assert_all_ran();
        }
    });
}
