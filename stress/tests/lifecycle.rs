//! Schedulers that come and go: in a loop, at bad moments, from bad places. Threads, files and memory stay what
//! they were.
#![cfg(not(loom))]

use scheduler::{Handle, Scheduler, ShutdownMode, SubmitError};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use stress::report::say;
use stress::round::submitter;
use stress::{Claims, Random, Round, alloc, os, run};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

const LONG: Duration = Duration::from_secs(100);

fn workers_alive() -> usize {
    os::threads().iter().filter(|(_, name)| name.starts_with("w-")).count()
}

/// Threads that a scheduler or this test could have left behind. The test runner starts and ends threads of its own
/// when it likes, and the storm and the watchdog are not what is looked at.
fn threads_of_ours() -> usize {
    let here = os::thread_name();
    os::threads().iter().filter(|(_, name)| *name == here || name.starts_with("w-") || name.starts_with("sub-")).count()
}

fn await_no_workers() {
    let end = Instant::now() + Duration::from_secs(60);
    while workers_alive() != 0 {
        assert!(Instant::now() < end, "{} workers are left", workers_alive());
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// One life, in one of several ways. Allocates nothing that outlives it.
fn live(round: &Round, random: &mut Random) {
    let builder = round.builder_of(1 + random.below(4) as usize);
    let scheduler = if random.one_in(3) { builder.capacity(50) } else { builder }.build().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let tasks = [0, 1, 10, 300][random.below(4) as usize];
    let submit = |handle: &Handle| {
        for i in 0..tasks {
            let count = count.clone();
            let big = [i; 30];
            let task = move || _ = count.fetch_add(big[3] / i.max(1), Relaxed);
            match i % 3 {
                0 => handle.submit(task).unwrap(),
                1 => drop(handle.spawn(task).unwrap()),
                _ => _ = handle.submit_batch([task]).unwrap(),
            }
        }
    };
    if random.one_in(2) {
        std::thread::scope(|scope| _ = scope.spawn(|| submit(&scheduler)));
    } else {
        submit(&scheduler);
    }
    match random.below(5) {
        // Dropped before the workers have slept, or even run.
        0 | 1 => {}
        2 => assert!(scheduler.wait_idle(LONG)),
        3 => std::thread::sleep(Duration::from_micros(random.below(500))),
        _ => {
            // An abort; what was queued is dropped with what it captured.
            assert!(scheduler.shutdown(ShutdownMode::Abort, LONG).completed);
            return;
        }
    }
    drop(scheduler);
    assert_eq!(count.load(Relaxed), usize::from(tasks > 0) * (tasks.max(1) - 1));
    assert_eq!(Arc::strong_count(&count), 1, "a closure was leaked");
}

#[test]
fn in_a_loop() {
    run("lifecycle::in_a_loop", |round| {
        let mut random = round.random();
        let mut lives = 0;
        let mut many = |lives_wanted: usize, time: Duration| {
            let end = Instant::now() + time;
            let before = lives;
            while lives - before < lives_wanted && Instant::now() < end {
                live(round, &mut random);
                lives += 1;
            }
            await_no_workers();
        };
        // What is made once per process and per thread is there after some lives, the free lists have their usual
        // length.
        many(60, round.time(400));
        let (threads, files) = (threads_of_ours(), os::open_files());
        let (bytes, blocks, resident) = (alloc::bytes(), alloc::blocks(), os::resident());
        many(100_000, round.time(1_000));
        let grown = (alloc::bytes() - bytes, alloc::blocks() - blocks, os::resident().saturating_sub(resident));
        say(&format!(
            "lifecycle::in_a_loop: {lives} lives, {} bytes in {} blocks more, resident {} more",
            grown.0, grown.1, grown.2
        ));
        assert!(os::settles(threads, threads_of_ours), "threads are kept: {:?}", os::threads());
        assert!(os::settles(files, os::open_files), "files are kept");
        assert!(grown.0 < 256 << 10 && grown.1 < 500, "memory is kept: {grown:?}");
        assert!(grown.2 < 16 << 20, "resident memory is kept: {grown:?}");
    });
}

/// Many at once, so that they share CPUs, futexes and the process's registry of threads.
#[test]
fn side_by_side() {
    run("lifecycle::side_by_side", |round| {
        let mut random = round.random();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mut random = random.fork();
                let end = Instant::now() + round.time(300);
                scope.spawn(move || {
                    while Instant::now() < end {
                        live(round, &mut random);
                    }
                });
            }
        });
        await_no_workers();
    });
}

#[test]
fn dropped_inside_of_its_own_task() {
    run("lifecycle::dropped_inside_of_its_own_task", |round| {
        for _ in 0..round.times(30) {
            let scheduler = round.builder().build().unwrap();
            let (handle, claims) = (scheduler.handle(), Claims::new(600));
            (0..200).for_each(|id| scheduler.submit(claims.task(id)).unwrap());
            let (sender, receiver) = mpsc::channel();
            let last = move || {
                let here = Handle::current();
                drop(scheduler);
                // Still a worker: what a draining task submits belongs to the drain.
                (400..600).for_each(|id| here.submit(claims.task(id)).unwrap());
                sender.send(()).unwrap();
            };
            handle.submit(last).unwrap();
            let told: Vec<_> = (200..400).map(|id| handle.submit(claims.task(id)).is_ok()).collect();
            receiver.recv().unwrap();
            await_no_workers();
            claims.assert_all((0..200).chain(400..600), stress::Fate::Ran);
            for (id, accepted) in (200..400).zip(told) {
                assert_eq!(claims.fate(id), if accepted { stress::Fate::Ran } else { stress::Fate::Dropped });
            }
            assert!(matches!(handle.submit(|| ()), Err(SubmitError::Closed(_))));
        }
    });
}

#[test]
fn shut_down_inside_of_its_own_task() {
    run("lifecycle::shut_down_inside_of_its_own_task", |round| {
        for _ in 0..round.times(20) {
            let scheduler = Arc::new(round.builder().build().unwrap());
            let claims = Claims::new(100);
            (0..100).for_each(|id| scheduler.submit(claims.task(id)).unwrap());
            let own = scheduler.clone();
            let shut = move || {
                assert!(!own.wait_idle(Duration::from_millis(1)));
                assert!(!own.shutdown(ShutdownMode::Drain, LONG).completed);
            };
            scheduler.spawn(shut).unwrap().join().unwrap();
            assert!(scheduler.shutdown(ShutdownMode::Drain, LONG).completed);
            claims.assert_all_ran();
        }
        await_no_workers();
    });
}

#[test]
fn dropped_by_a_worker_of_another_one() {
    run("lifecycle::dropped_by_a_worker_of_another_one", |round| {
        for _ in 0..round.times(20) {
            let outer = round.builder_of(2).build().unwrap();
            let claims = Claims::new(4 * 200);
            for part in 0..4 {
                let inner = round.builder_of(2).build().unwrap();
                (part * 200..(part + 1) * 200).for_each(|id| inner.submit(claims.task(id)).unwrap());
                outer.submit(move || drop(inner)).unwrap();
            }
            // And one that only lives inside of a task.
            let built = || Scheduler::builder().workers(1).build().unwrap().spawn(|| 5).unwrap().join().unwrap();
            assert_eq!(outer.spawn(built).unwrap().join().unwrap(), 5);
            drop(outer);
            claims.assert_all_ran();
        }
        await_no_workers();
    });
}

/// Handles, submitters, join handles that outlive their scheduler.
#[test]
fn outlived() {
    run("lifecycle::outlived", |round| {
        for _ in 0..round.times(20) {
            let scheduler = round.builder().build().unwrap();
            let (handle, mut own) = (scheduler.handle(), scheduler.register_submitter().unwrap());
            let join = scheduler.spawn(|| 7).unwrap();
            own.submit(|| ()).unwrap();
            drop(scheduler);
            assert_eq!(join.join().unwrap(), 7);
            assert!(matches!(own.submit(|| ()), Err(SubmitError::Closed(_))));
            assert!(matches!(own.try_submit(|| ()), Err(SubmitError::Closed(_))));
            assert!(matches!(handle.spawn(|| ()), Err(SubmitError::Closed(_))));
            assert!(matches!(handle.register_submitter(), Err(SubmitError::Closed(()))));
            assert_eq!(handle.submit_batch([|| (), || ()]).unwrap_err().into_tasks().count(), 2);
            assert_eq!(handle.join(|| 1, || 2), (1, 2));
            let mut ran = false;
            handle.scope(|scope| scope.spawn(|_| ran = true));
            assert!(ran);
            let elsewhere = submitter(move || (own.submit(|| ()).is_err(), handle.submit(|| ()).is_err()));
            assert_eq!(elsewhere.join().unwrap(), (true, true));
        }
    });
}

#[test]
fn hooks_come_in_pairs() {
    run("lifecycle::hooks_come_in_pairs", |round| {
        for _ in 0..round.times(10) {
            let (started, stopped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (on, off) = (started.clone(), stopped.clone());
            let builder = round.builder().on_worker_start(move |index, _| _ = on.fetch_add(1 << (index % 30), Relaxed));
            let builder = builder.on_worker_stop(move |index, _| _ = off.fetch_add(1 << (index % 30), Relaxed));
            drop(builder.build().unwrap());
            assert!(started.load(Relaxed) >= (1 << round.profile.workers.min(30)) - 1);
            assert_eq!(started.load(Relaxed), stopped.load(Relaxed));
        }
    });
}
