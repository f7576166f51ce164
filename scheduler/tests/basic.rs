//! The main paths, end to end.
#![cfg(not(loom))]

use scheduler::{Scheduler, ShutdownMode, SubmitError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

fn scheduler(workers: usize) -> Scheduler {
    Scheduler::builder().workers(workers).build().unwrap()
}

#[test]
fn every_submitted_task_runs_once() {
    let seen: Arc<Vec<AtomicU64>> = Arc::new((0..100_000).map(|_| AtomicU64::new(0)).collect());
    let scheduler = scheduler(3);
    std::thread::scope(|s| {
        for part in 0..4 {
            let (handle, seen) = (scheduler.handle(), seen.clone());
            s.spawn(move || {
                for i in (part..100_000).step_by(4) {
                    let seen = seen.clone();
                    handle
                        .submit(move || {
                            seen[i].fetch_add(1, Relaxed);
                        })
                        .unwrap();
                }
            });
        }
    });
    drop(scheduler);
    assert!(seen.iter().all(|n| n.load(Relaxed) == 1));
}

#[test]
fn workers_submit_more() {
    fn tree(depth: u32, count: Arc<AtomicUsize>) {
        count.fetch_add(1, Relaxed);
        if depth > 0 {
            for _ in 0..4 {
                let count = count.clone();
                scheduler::Handle::current().submit(move || tree(depth - 1, count)).unwrap();
            }
        }
    }
    let count = Arc::new(AtomicUsize::new(0));
    let scheduler = scheduler(2);
    let root = count.clone();
    scheduler.submit(move || tree(7, root)).unwrap();
    assert!(scheduler.wait_idle(Duration::from_secs(60)));
    assert_eq!(count.load(Relaxed), (4usize.pow(8) - 1) / 3);
}

#[test]
fn join_and_scope_and_spawn() {
    fn fib(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (a, b) = scheduler::join(|| fib(n - 1), || fib(n - 2));
        a + b
    }
    for workers in [1, 2, 4] {
        let scheduler = scheduler(workers);
        assert_eq!(scheduler.join(|| fib(20), || fib(21)), (6765, 10946));
        assert_eq!(scheduler.spawn(|| fib(22)).unwrap().join().unwrap(), 17711);
        let mut sum = [0u64; 64];
        scheduler.scope(|s| {
            for (i, x) in sum.iter_mut().enumerate() {
                s.spawn(move |s| {
                    *x = i as u64;
                    s.spawn(|_| {});
                });
            }
        });
        assert_eq!(sum.iter().sum::<u64>(), 63 * 32);
    }
}

#[test]
fn a_closed_scheduler_gives_the_closure_back() {
    let scheduler = scheduler(2);
    let handle = scheduler.handle();
    let report = scheduler.shutdown(ShutdownMode::Drain, Duration::from_secs(30));
    assert!(report.completed, "{report:?}");
    let text = String::from("mine");
    let refused = handle.submit(move || drop(text)).unwrap_err();
    assert!(matches!(refused, SubmitError::Closed(_)));
    assert!(handle.submit_batch((0..3).map(|_| || {})).is_err());
    assert_eq!(handle.scope(|_| 5), 5);
}
