//! What the system refuses or withholds: threads, CPUs.
#![cfg(not(loom))]

use scheduler::{BuildError, Handle, Scheduler};
use std::time::Duration;
use stress::os::{self, Ended};
use stress::report::say;
use stress::round::submitter;
use stress::{Claims, Round, alloc, run};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

const LONG: Duration = Duration::from_secs(100);
/// Exit code of a child that could not try.
const SKIPPED: i32 = 77;
const NOBODY: u32 = 65_534;

fn limit_processes(soft: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills the structure that it is given.
    if unsafe { libc::getrlimit(libc::RLIMIT_NPROC, &mut limit) } != 0 {
        return false;
    }
    limit.rlim_cur = soft.min(limit.rlim_max);
    // SAFETY: reads the structure that it is given.
    unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &limit) == 0 }
}

/// The limit does not bind root.
fn become_nobody() -> bool {
    // SAFETY: no memory is passed.
    if unsafe { libc::geteuid() } != 0 {
        return true;
    }
    // SAFETY: no memory is passed; the child has one thread.
    unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) == 0 }
}

/// In a child of its own: the system grants only some of the threads that are asked for.
fn refused_part_way() -> i32 {
    // Something that only needs to be made once per process: before the count.
    drop(Scheduler::builder().workers(1).build());
    if !become_nobody() || !limit_processes(4) {
        return SKIPPED;
    }
    let (bytes, blocks, files) = (alloc::bytes(), alloc::blocks(), os::open_files());
    for _ in 0..3 {
        match Scheduler::builder().workers(64).build() {
            Err(BuildError::Spawn { started, wanted: 64, source }) if started < 64 => {
                if source.raw_os_error() != Some(libc::EAGAIN) {
                    return 2;
                }
            }
            Err(_) => return 3,
            // Privileges that this process has not lost.
            Ok(_) => return SKIPPED,
        }
        if !os::settles(1, || os::threads().len()) || !os::settles(files, os::open_files) {
            return 4;
        }
    }
    // Some of what epochs free, they free later.
    if alloc::bytes() - bytes > 512 << 10 || alloc::blocks() - blocks > 500 {
        return 5;
    }
    if !limit_processes(u64::MAX) {
        return 6;
    }
    let Ok(scheduler) = Scheduler::builder().workers(8).build() else { return 7 };
    let sum = scheduler.spawn(|| 20 + 22).map(|join| join.join().ok());
    if matches!(sum, Ok(Some(42))) { 0 } else { 8 }
}

#[test]
fn threads_are_refused() {
    run("limits::threads_are_refused", |_| match os::wait(os::fork(60, refused_part_way)) {
        Ended::Exit(0) => {}
        Ended::Exit(SKIPPED) => say("limits::threads_are_refused: SKIPPED, this process cannot be limited"),
        other => panic!("the child ended with {other:?}"),
    });
}

fn nest(handle: &Handle, depth: u32) -> u32 {
    if depth == 0 {
        return 0;
    }
    let below = handle.clone();
    handle.spawn(move || nest(&below, depth - 1)).unwrap().join().unwrap() + 1
}

/// In a child of its own: waits nest deeper than the stack, no spare thread is granted, and later one is.
fn spares_are_refused_for_a_while(workers: usize) -> i32 {
    const DEPTH: u32 = 30_000;
    if !become_nobody() {
        return SKIPPED;
    }
    let Ok(scheduler) = Scheduler::builder().workers(workers).stack_size(256 << 10).build() else { return SKIPPED };
    // Fewer than there are: no thread more.
    if !limit_processes(1) {
        return SKIPPED;
    }
    if std::thread::Builder::new().spawn(|| ()).is_ok() {
        return SKIPPED;
    }
    let handle = scheduler.handle();
    let Ok(all) = scheduler.spawn(move || nest(&handle, DEPTH)) else { return 2 };
    let Err(all) = all.join_timeout(Duration::from_millis(200)) else { return 3 };
    if !limit_processes(u64::MAX) {
        return 4;
    }
    if all.join().is_ok_and(|depth| depth == DEPTH) { 0 } else { 5 }
}

/// Workers that got no stack used to sleep for good, and the only worker used to run into the end of its own.
#[test]
fn spares_are_refused() {
    run("limits::spares_are_refused", |_| {
        for workers in [1, 2] {
            match os::wait(os::fork(60, || spares_are_refused_for_a_while(workers))) {
                Ended::Exit(0) => {}
                Ended::Exit(SKIPPED) => say("limits::spares_are_refused: SKIPPED, this process cannot be limited"),
                other => panic!("the child with {workers} workers ended with {other:?}"),
            }
        }
    });
}

fn small_flood(round: &Round, workers: usize) {
    let scheduler = round.build(round.builder_of(workers));
    let claims = Claims::new(4 * 5_000);
    let submitters: Vec<_> = (0..4)
        .map(|part| {
            let handle = scheduler.handle();
            submitter(move || {
                for id in part * 5_000..(part + 1) * 5_000 {
                    if id % 100 == 0 {
                        handle.spawn(claims.task(id)).unwrap().join().unwrap();
                    } else {
                        handle.submit(claims.task(id)).unwrap();
                    }
                }
            })
        })
        .collect();
    submitters.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(scheduler.wait_idle(LONG));
    claims.assert_all_ran();
    stress::watchdog::forget();
}

#[test]
fn one_cpu() {
    run("limits::one_cpu", |round| {
        os::set_affinity(&os::first_cpu(&os::affinity()));
        for workers in [1, 2, 8] {
            small_flood(round, workers);
        }
    });
}

#[test]
fn more_workers_than_cpus() {
    run("limits::more_workers_than_cpus", |round| {
        for workers in [16, 100] {
            small_flood(round, workers);
        }
    });
}

/// The affinity of the process shrinks while the scheduler runs.
#[test]
fn cpus_are_taken_away() {
    run("limits::cpus_are_taken_away", |round| {
        let scheduler = round.build(round.builder_of(4));
        let all = os::affinity();
        let one = os::first_cpu(&all);
        let claims = Claims::new(20_000);
        for id in 0..20_000 {
            if id % 1_000 == 0 {
                let cpus = if id % 2_000 == 0 { one } else { all };
                scheduler.submit(move || os::set_affinity(&cpus)).unwrap();
            }
            scheduler.submit(claims.task(id)).unwrap();
        }
        assert!(scheduler.wait_idle(LONG));
        claims.assert_all_ran();
    });
}
