//! Threads that submit and go: short-lived ones, ones that leave work behind, ones whose thread-locals are going.
#![cfg(not(loom))]

use scheduler::{Handle, Scheduler};
use std::cell::RefCell;
use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant};
use stress::round::submitter;
use stress::{Claims, run};

const LONG: Duration = Duration::from_secs(100);
const THREADS: usize = 10_000;

/// Lanes of threads that have ended must go, too.
fn await_few_lanes(scheduler: &Scheduler, few: usize) {
    let end = Instant::now() + Duration::from_secs(20);
    while scheduler.metrics().lanes > few {
        assert!(Instant::now() < end, "lanes are kept: {:?}", scheduler.metrics());
        scheduler.submit(|| ()).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn ten_thousand_of_them() {
    run("submitters::ten_thousand_of_them", |round| {
        let scheduler = round.scheduler();
        let claims = Claims::new(THREADS * 2);
        let crew = 8;
        let starters: Vec<_> = (0..crew)
            .map(|part| {
                let handle = scheduler.handle();
                std::thread::spawn(move || {
                    for id in (part..THREADS).step_by(crew) {
                        let handle = handle.clone();
                        let short = submitter(move || {
                            handle.submit(claims.task(2 * id)).unwrap();
                            drop(handle.spawn(claims.task(2 * id + 1)).unwrap());
                        });
                        // Half of them are waited for, the others overlap with what comes next.
                        if id % 2 == 0 {
                            short.join().unwrap();
                        }
                    }
                })
            })
            .collect();
        starters.into_iter().for_each(|thread| thread.join().unwrap());
        let end = Instant::now() + LONG;
        while claims.count(stress::Fate::Pending) != 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        claims.assert_all_ran();
        await_few_lanes(&scheduler, 16 + round.profile.workers);
    });
}

#[test]
fn they_leave_work_behind() {
    run("submitters::they_leave_work_behind", |round| {
        let scheduler = round.scheduler();
        let workers = round.profile.workers;
        let gate = Arc::new(Barrier::new(workers + 1));
        for _ in 0..workers {
            let gate = gate.clone();
            scheduler.submit(move || _ = gate.wait()).unwrap();
        }
        let claims = Claims::new(50 * 400);
        let threads: Vec<_> = (0..50)
            .map(|part| {
                let handle = scheduler.handle();
                submitter(move || {
                    let mut own = handle.register_submitter().unwrap();
                    for id in part * 400..(part + 1) * 400 {
                        if id % 2 == 0 { handle.submit(claims.task(id)) } else { own.submit(claims.task(id)) }.unwrap();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        gate.wait();
        assert!(scheduler.wait_idle(LONG));
        claims.assert_all_ran();
        await_few_lanes(&scheduler, 16 + workers);
    });
}

/// Uses the scheduler when it is dropped.
struct Late {
    handle: Handle,
    claims: &'static Claims,
    first: usize,
}

/// What a [`Late`] does, in tasks.
const LATE: usize = 8;

impl Drop for Late {
    fn drop(&mut self) {
        let (handle, claims, id) = (&self.handle, self.claims, self.first);
        handle.submit(claims.task(id)).unwrap();
        handle.try_submit(claims.task(id + 1)).unwrap();
        handle.spawn(claims.task(id + 2)).unwrap().join().unwrap();
        assert_eq!(handle.submit_batch((id + 3..id + 5).map(|id| claims.task(id))).unwrap(), 2);
        handle.scope(|scope| scope.spawn(move |_| claims.token(id + 5).run()));
        handle.join(|| claims.token(id + 6).run(), || ());
        drop(handle.spawn(claims.task(id + 7)).unwrap());
    }
}

thread_local! {
    static BEFORE: RefCell<Option<Late>> = const { RefCell::new(None) };
    static AFTER: RefCell<Option<Late>> = const { RefCell::new(None) };
}

/// One thread-local is made before the thread's first submission and one after: one destructor runs before that of
/// the thread's lanes, the other one after it.
#[test]
fn from_destructors_of_thread_locals() {
    run("submitters::from_destructors_of_thread_locals", |round| {
        let scheduler = round.scheduler();
        let threads = 200;
        let claims = Claims::new(threads * (2 * LATE + 1));
        for thread in 0..threads {
            let handle = scheduler.handle();
            let first = thread * (2 * LATE + 1);
            let late = |first| Late { handle: handle.clone(), claims, first };
            let (before, after, task) = (late(first), late(first + LATE), claims.task(first + 2 * LATE));
            let short = submitter(move || {
                BEFORE.set(Some(before));
                if thread % 3 != 0 { handle.submit(task) } else { handle.try_submit(task) }.unwrap();
                AFTER.set(Some(after));
            });
            if thread % 4 != 0 {
                short.join().unwrap();
            }
        }
        let end = Instant::now() + LONG;
        while claims.count(stress::Fate::Pending) != 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        claims.assert_all_ran();
    });
}

thread_local! {
    static KEPT: RefCell<Option<Scheduler>> = const { RefCell::new(None) };
}

#[test]
fn a_scheduler_in_a_thread_local() {
    run("submitters::a_scheduler_in_a_thread_local", |round| {
        for _ in 0..20 {
            let claims = Claims::new(300);
            let barrier = round.profile.barrier;
            let thread = std::thread::spawn(move || {
                KEPT.set(Some(Scheduler::builder().workers(2).barrier(barrier).build().unwrap()));
                KEPT.with_borrow(|kept| {
                    let kept = kept.as_ref().unwrap();
                    (0..300).for_each(|id| kept.submit(claims.task(id)).unwrap());
                });
            });
            thread.join().unwrap();
            claims.assert_all_ran();
        }
    });
}

#[test]
fn a_submitter_travels() {
    run("submitters::a_submitter_travels", |round| {
        let scheduler = round.scheduler();
        let claims = Claims::new(100 * 60);
        let mut own = scheduler.register_submitter().unwrap();
        for stop in 0..100 {
            let (to, from) = mpsc::channel();
            let journey = submitter(move || {
                for id in stop * 60..(stop + 1) * 60 - 10 {
                    own.submit(claims.task(id)).unwrap();
                }
                let rest = (stop + 1) * 60 - 10..(stop + 1) * 60;
                assert_eq!(own.submit_batch(rest.map(|id| claims.task(id))).unwrap(), 10);
                to.send(own).unwrap();
            });
            own = from.recv().unwrap();
            journey.join().unwrap();
        }
        drop(own);
        assert!(scheduler.wait_idle(LONG));
        claims.assert_all_ran();
    });
}
