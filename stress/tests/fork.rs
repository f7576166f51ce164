//! The child of a fork: everything is refused at once, nothing hangs; the parent goes on as if nothing had happened.
#![cfg(not(loom))]

use scheduler::internals::task::cells;
use scheduler::{Handle, JoinError, JoinHandle, Scheduler, ShutdownMode, SubmitError, Submitter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use stress::os::{Ended, fork, wait};
use stress::round::submitter;
use stress::{Claims, Round, run};

const LONG: Duration = Duration::from_secs(100);
/// A child that hangs dies by SIGALRM.
const ALARM: u32 = 10;

/// Runs a child's steps in order; the number of the first that fails is its exit code.
fn first_failure(steps: &mut [&mut dyn FnMut() -> bool]) -> i32 {
    steps.iter_mut().position(|step| !step()).map_or(0, |at| at as i32 + 1)
}

/// All that must be refused in a child.
fn refusals(handle: &Handle, own: &mut Submitter, pending: JoinHandle<()>) -> i32 {
    let mut pending = Some(pending);
    first_failure(&mut [
        &mut || matches!(handle.submit(|| ()), Err(SubmitError::Forked(_))),
        &mut || matches!(handle.try_submit(|| ()), Err(SubmitError::Forked(_))),
        &mut || matches!(handle.spawn(|| 1), Err(SubmitError::Forked(_))),
        &mut || handle.submit_batch([|| (), || ()]).is_err_and(|e| matches!(e.reason, SubmitError::Forked(()))),
        &mut || {
            let one = matches!(own.submit(|| ()), Err(SubmitError::Forked(_)));
            one && own.submit_batch([|| ()]).is_err_and(|e| e.into_tasks().count() == 1)
        },
        &mut || matches!(handle.register_submitter(), Err(SubmitError::Forked(()))),
        &mut || matches!(pending.take().unwrap().join(), Err(JoinError::Cancelled)),
        &mut || handle.join(|| 1, || 2) == (1, 2),
        &mut || {
            let mut ran = false;
            handle.scope(|scope| scope.spawn(|_| ran = true));
            ran
        },
    ])
}

/// Keeps workers busy until it is dropped.
struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A scheduler whose workers are all busy. The second value is to be dropped first, also when the test fails.
fn busy(round: &Round) -> (Scheduler, Busy) {
    let scheduler = round.scheduler();
    let go = Arc::new(AtomicBool::new(false));
    for _ in 0..round.profile.workers {
        let go = go.clone();
        let stay = move || {
            while !go.load(Relaxed) {
                std::thread::sleep(Duration::from_micros(200));
            }
        };
        scheduler.submit(stay).unwrap();
    }
    (scheduler, Busy(go))
}

#[test]
fn refuses_and_does_not_hang() {
    run("fork::refuses_and_does_not_hang", |round| {
        for _ in 0..round.times(10) {
            let (scheduler, go) = busy(round);
            let mut own = scheduler.register_submitter().unwrap();
            own.submit(|| ()).unwrap();
            let pending = scheduler.spawn(|| ()).unwrap();
            let mut scheduler = Some(scheduler);
            let mut pending = Some(pending);
            // Declared last, so dropped first: the scheduler waits for its tasks.
            let go = go;
            let child = fork(ALARM, || {
                let scheduler = scheduler.take().unwrap();
                let code = refusals(&scheduler, &mut own, pending.take().unwrap());
                if code != 0 {
                    return code;
                }
                let report = scheduler.shutdown(ShutdownMode::Drain, LONG);
                if scheduler.wait_idle(LONG) || report.completed {
                    return 50;
                }
                drop(scheduler);
                // A scheduler of the child's own works.
                let own = Scheduler::builder().workers(2).build().unwrap();
                if own.spawn(|| 6).unwrap().join().unwrap() != 6 { 51 } else { 0 }
            });
            assert_eq!(wait(child), Ended::Exit(0));
            drop(go);
            pending.take().unwrap().join().unwrap();
            let scheduler = scheduler.take().unwrap();
            own.submit(|| ()).unwrap();
            assert!(scheduler.wait_idle(LONG));
            stress::watchdog::forget();
        }
    });
}

#[test]
fn on_a_worker() {
    run("fork::on_a_worker", |round| {
        for _ in 0..round.times(10) {
            let (scheduler, go) = busy(round);
            drop(go);
            let mut own = scheduler.register_submitter().unwrap();
            let handle = scheduler.handle();
            let forks = move || {
                // Not finished at the time of the fork, whoever has it.
                let (over, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
                let (over_there, seen_there) = (over.clone(), seen.clone());
                let stays = move || {
                    while !over_there.load(Relaxed) {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                    seen_there.store(true, Relaxed);
                };
                let never = Handle::current().spawn(stays).unwrap();
                let child = fork(ALARM, || refusals(&handle, &mut own, never));
                let ended = wait(child);
                assert!(!seen.load(Relaxed));
                over.store(true, Relaxed);
                ended
            };
            assert_eq!(scheduler.spawn(forks).unwrap().join().unwrap(), Ended::Exit(0));
            assert!(scheduler.wait_idle(LONG));
            stress::watchdog::forget();
        }
    });
}

/// Forks in the middle of a flood: the parent's tasks run exactly once, in the parent.
#[test]
fn under_load() {
    run("fork::under_load", |round| {
        let scheduler = round.scheduler();
        let (threads, each) = (3, 60_000);
        let claims = Claims::new(threads * each);
        let submitters: Vec<_> = (0..threads)
            .map(|part| {
                let handle = scheduler.handle();
                submitter(move || {
                    for id in part * each..(part + 1) * each {
                        handle.submit(claims.task(id)).unwrap();
                        if id % 2_000 == 0 {
                            std::thread::sleep(Duration::from_micros(300));
                        }
                    }
                })
            })
            .collect();
        for _ in 0..round.times(15) {
            let child = fork(ALARM, || i32::from(!matches!(scheduler.submit(|| ()), Err(SubmitError::Forked(_)))));
            assert_eq!(wait(child), Ended::Exit(0));
        }
        submitters.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(scheduler.wait_idle(LONG));
        claims.assert_all_ran();
    });
}

/// Where the memory of ended threads waits there are locks. Somebody is in there at the moment of nearly every fork,
/// and does not exist in the child, which wants a scheduler of its own.
#[test]
fn a_child_builds_its_own_whatever_others_held() {
    run("fork::a_child_builds_its_own_whatever_others_held", |round| {
        let (_scheduler, over) = (round.scheduler(), Arc::new(AtomicBool::new(false)));
        let holders: Vec<_> = (0..2)
            .map(|_| {
                let over = over.clone();
                submitter(move || {
                    while !over.load(Relaxed) {
                        cells::sweep();
                    }
                })
            })
            .collect();
        let children = round.times(20);
        let build = || {
            let Ok(own) = Scheduler::builder().workers(2).build() else { return 1 };
            let sum = own.spawn(|| 20 + 22).map(JoinHandle::join);
            if matches!(sum, Ok(Ok(42))) { 0 } else { 2 }
        };
        let good = (0..children).take_while(|_| wait(fork(ALARM, build)) == Ended::Exit(0)).count();
        over.store(true, Relaxed);
        holders.into_iter().for_each(|holder| holder.join().unwrap());
        assert_eq!(good, children, "a child failed or hung");
    });
}
