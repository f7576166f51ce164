//! The process is stopped and continued; threads are stalled and interrupted.
#![cfg(not(loom))]

use scheduler::Scheduler;
use std::time::{Duration, Instant};
use stress::profile::Fault;
use stress::round::submitter;
use stress::storm::Storm;
use stress::{Claims, Round, os, run};

const LONG: Duration = Duration::from_secs(100);

/// Everything that sleeps: a blocked submitter, joins, timeouts, a wait for silence, parks.
fn sleepy(round: &Round, scheduler: &Scheduler, time: Duration) {
    let end = Instant::now() + time;
    let mut random = round.random();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (handle, mut random) = (scheduler.handle(), random.fork());
            submitter(move || {
                while Instant::now() < end {
                    let claims = Claims::new(200);
                    for id in 0..200 {
                        match random.below(4) {
                            0 => handle.spawn(claims.task(id)).unwrap().join().unwrap(),
                            1 => {
                                let slow = handle.spawn(claims.task(id)).unwrap();
                                if let Err(slow) = slow.join_timeout(Duration::from_micros(50)) {
                                    slow.join().unwrap();
                                }
                            }
                            2 => handle.scope(|scope| scope.spawn(move |_| claims.token(id).run())),
                            _ => handle.submit(claims.task(id)).unwrap(),
                        }
                        if random.one_in(20) {
                            std::thread::sleep(Duration::from_micros(random.below(100)));
                        }
                    }
                    while claims.count(stress::Fate::Pending) != 0 {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                    claims.assert_all_ran();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(scheduler.wait_idle(LONG));
}

fn storm(round: &Round, fault: Fault) {
    let handled = Storm::handled();
    let storm = Storm::begin(fault, round.random());
    for capacity in [None, Some(5)] {
        let builder = round.builder().spin(Duration::ZERO);
        let scheduler = round.build(match capacity {
            None => builder,
            Some(few) => builder.capacity(few),
        });
        sleepy(round, &scheduler, round.time(250));
        stress::watchdog::forget();
    }
    drop(storm);
    assert!(Storm::handled() > handled + 20, "only {} signals", Storm::handled() - handled);
}

#[test]
fn stalls() {
    run("signals::stalls", |round| storm(round, Fault::Stalls));
}

#[test]
fn interruptions() {
    run("signals::interruptions", |round| storm(round, Fault::Interrupts));
}

/// In a child: stops its parent again and again. It ends after a continuation, so that nobody is left stopped.
fn stop_and_go(parent: i32, times: u32) -> i32 {
    let pause = |ms| std::thread::sleep(Duration::from_millis(ms));
    for i in 0..times {
        // SAFETY: no memory is passed.
        if unsafe { libc::getppid() } != parent {
            return 1;
        }
        // SAFETY: no memory is passed.
        unsafe { libc::kill(parent, libc::SIGSTOP) };
        pause(1 + u64::from(i % 5));
        // SAFETY: no memory is passed.
        unsafe { libc::kill(parent, libc::SIGCONT) };
        pause(1 + u64::from(i % 3));
    }
    0
}

#[test]
fn stopped_and_continued() {
    run("signals::stopped_and_continued", |round| {
        let scheduler = round.scheduler();
        let parent = std::process::id() as i32;
        let child = os::fork(60, || stop_and_go(parent, 60));
        sleepy(round, &scheduler, round.time(400));
        assert_eq!(os::wait(child), os::Ended::Exit(0));
        sleepy(round, &scheduler, Duration::from_millis(20));
    });
}
