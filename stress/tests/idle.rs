//! Silence: seen when it is there, not when it is not, and free of charge.
#![cfg(not(loom))]

use scheduler::Handle;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::{Duration, Instant};
use stress::report::say;
use stress::{os, run};

const LONG: Duration = Duration::from_secs(100);

/// `wait_idle` returned, so everything that this thread had submitted, and everything those tasks submitted, has
/// ended.
#[test]
fn idle_means_idle() {
    run("idle::idle_means_idle", |round| {
        fn chain(handle: &Handle, left: u64, ended: &Arc<AtomicU64>) {
            if left > 0 {
                let (next, ended) = (handle.clone(), ended.clone());
                let task = move || chain(&next, left - 1, &ended);
                if left.is_multiple_of(2) { handle.submit(task).unwrap() } else { drop(handle.spawn(task).unwrap()) }
            }
            if left.is_multiple_of(7) {
                std::thread::sleep(Duration::from_micros(30));
            }
            ended.fetch_add(1, Release);
        }
        let scheduler = round.scheduler();
        let mut random = round.random();
        let end = Instant::now() + round.time(500);
        while Instant::now() < end {
            let ended = Arc::new(AtomicU64::new(0));
            let (chains, length) = (1 + random.below(4), random.below(30));
            (0..chains).for_each(|_| chain(&scheduler, length, &ended));
            assert!(scheduler.wait_idle(LONG));
            assert_eq!(ended.load(Acquire), chains * (length + 1), "{:?}", scheduler.metrics());
        }
    });
}

/// Never idle while a task runs, waits in a join, or is queued; and then the answer comes when the time is over.
#[test]
fn busy_is_not_idle() {
    run("idle::busy_is_not_idle", |round| {
        let scheduler = round.build(round.builder_of(2));
        for joined in [false, true] {
            let release = Arc::new(AtomicUsize::new(0));
            let seen = release.clone();
            let slow = move || {
                while seen.load(Relaxed) == 0 {
                    std::thread::sleep(Duration::from_micros(50));
                }
            };
            if joined {
                // The joiner sleeps with its task on the stack, the other worker runs the slow one.
                scheduler.submit(move || Handle::current().spawn(slow).unwrap().join().unwrap()).unwrap();
            } else {
                scheduler.submit(slow).unwrap();
            }
            for _ in 0..20 {
                assert!(!scheduler.wait_idle(Duration::from_millis(1)));
            }
            release.store(1, Relaxed);
            assert!(scheduler.wait_idle(LONG));
        }
    });
}

/// Several threads wait for the same silence: each must be told.
#[test]
fn several_wait() {
    run("idle::several_wait", |round| {
        let scheduler = round.scheduler();
        let end = Instant::now() + round.time(200);
        while Instant::now() < end {
            for _ in 0..50 {
                scheduler.submit(|| std::thread::sleep(Duration::from_micros(20))).unwrap();
            }
            std::thread::scope(|scope| {
                (0..4).for_each(|_| _ = scope.spawn(|| assert!(scheduler.wait_idle(LONG))));
            });
        }
    });
}

/// CPU time that 16 idle workers may use in a second.
const SPENT_AT_MOST: Duration = Duration::from_millis(5);

#[test]
fn idle_workers_cost_nothing() {
    run("idle::idle_workers_cost_nothing", |round| {
        let scheduler = round.build(round.builder_of(16));
        (0..1_000).for_each(|_| scheduler.submit(|| ()).unwrap());
        assert!(scheduler.wait_idle(LONG));
        std::thread::sleep(Duration::from_millis(50));
        let (before, parks) = (workers_time(), scheduler.metrics().parks);
        std::thread::sleep(Duration::from_secs(1));
        let (spent, parked) = (workers_time() - before, scheduler.metrics().parks - parks);
        say(&format!("idle::idle_workers_cost_nothing: {spent} ns of CPU, {parked} sleeps in a second"));
        // Signals of a storm wake workers, and stalls run on them.
        if round.profile.fault == stress::Fault::None {
            assert!(u128::from(spent) < SPENT_AT_MOST.as_nanos(), "{spent} ns");
            assert!(parked < 5, "{parked} sleeps");
        }
        // The control: the clock moves when a worker does something.
        let before = workers_time();
        scheduler.submit(|| while os::thread_cpu_time() < 2 * SPENT_AT_MOST {}).unwrap();
        assert!(scheduler.wait_idle(LONG));
        let seen = os::settles(0, || usize::from(workers_time() - before <= SPENT_AT_MOST.as_nanos() as u64));
        assert!(seen, "a worker was busy, and the clock of the workers did not move");
    });
}

/// CPU time of all workers in nanoseconds.
fn workers_time() -> u64 {
    let time = |id| os::read_thread(id, "schedstat").split(' ').next().and_then(|ns| ns.parse::<u64>().ok());
    os::threads().into_iter().filter(|(_, name)| name.starts_with("w-")).filter_map(|(id, _)| time(id)).sum()
}
