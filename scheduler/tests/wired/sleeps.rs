//! A worker with operations in flight sleeps in its ring, and hears of everything there.

use crate::support::{LONG, Op, asleep, eventually, has_rings, pipe, place, post, post_to, tuning, wired};
use scheduler::Scheduler;
use scheduler::internals::worker::current;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Worker 0 waits in its ring.
fn in_the_ring(scheduler: &Scheduler) -> (Op, crate::support::Pipe) {
    let pipe = pipe();
    let poll = pipe.poll();
    let op = scheduler.spawn(move || Op::push(poll)).unwrap().join().unwrap();
    asleep(scheduler);
    (op, pipe)
}

#[test]
fn a_future_waits_for_an_operation() {
    if !has_rings() {
        return;
    }
    let scheduler = wired(1, tuning());
    for round in 0..100 {
        let pipe = pipe();
        let poll = pipe.poll();
        let handle = scheduler.spawn_future(async move { Op::push(poll).await }).unwrap();
        if round % 2 == 0 {
            asleep(&scheduler);
            assert_eq!(place(&scheduler), "PARKED_RING");
        }
        pipe.fill();
        assert_eq!(handle.join().unwrap(), i32::from(libc::POLLIN));
    }
    asleep(&scheduler);
    assert_eq!(place(&scheduler), "PARKED_FUTEX", "nothing is in flight");
    let metrics = &scheduler.metrics().workers[0];
    assert_eq!((metrics.io_operations, metrics.io_completions), (100, 100));
    assert!(metrics.io_parks >= 50, "{metrics:?}");
}

#[test]
fn submissions_are_heard_in_the_ring() {
    if !has_rings() {
        return;
    }
    let scheduler = wired(1, tuning());
    let (op, pipe) = in_the_ring(&scheduler);
    for _ in 0..100 {
        assert_eq!(place(&scheduler), "PARKED_RING");
        scheduler.spawn(|| ()).unwrap().join().unwrap();
        asleep(&scheduler);
    }
    assert_eq!(op.result(), None);
    pipe.fill();
    assert_eq!(op.join(), i32::from(libc::POLLIN));
}

#[test]
fn a_joining_worker_is_woken_in_the_ring() {
    if !has_rings() {
        return;
    }
    let scheduler = wired(2, tuning());
    let handle = scheduler.handle();
    let (gate, opened) = std::sync::mpsc::channel::<()>();
    let pipe = pipe();
    let poll = pipe.poll();
    // One worker waits for the other's task, with an operation in flight.
    let joiner = scheduler.spawn(move || {
        let op = Op::push(poll);
        let other = handle.spawn(move || opened.recv().unwrap()).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        other.join().unwrap();
        op.result()
    });
    std::thread::sleep(Duration::from_millis(60));
    gate.send(()).unwrap();
    assert_eq!(joiner.unwrap().join().unwrap(), None);
    pipe.fill();
    assert!(scheduler.wait_idle(LONG));
}

#[test]
fn timers_are_kept_in_the_ring() {
    if !has_rings() {
        return;
    }
    let scheduler = wired(1, tuning());
    let (op, pipe) = in_the_ring(&scheduler);
    let began = Instant::now();
    let sleep = scheduler.spawn_future(scheduler::time::sleep(Duration::from_millis(20))).unwrap();
    sleep.join().unwrap();
    assert!(began.elapsed() >= Duration::from_millis(20));
    assert_eq!(op.result(), None);
    pipe.fill();
    op.join();
}

/// Waiting for I/O costs no time.
#[test]
fn idle_in_the_ring() {
    if !has_rings() {
        return;
    }
    let scheduler = wired(2, tuning());
    let (op, pipe) = in_the_ring(&scheduler);
    let before = scheduler.metrics();
    std::thread::sleep(Duration::from_millis(300));
    let after = scheduler.metrics();
    assert!(after.parks - before.parks <= 2, "{} sleeps of workers with nothing to do", after.parks - before.parks);
    pipe.fill();
    op.join();
}

#[test]
fn operations_of_other_threads() {
    if !has_rings() {
        return;
    }
    let scheduler = wired(2, tuning());
    // Nobody has a ring yet; later both sleep on the futex, later one in its ring.
    assert_eq!(post(&scheduler).join(), 0);
    (0..20).for_each(|_| assert_eq!(post(&scheduler).join(), 0));
    let (op, pipe) = in_the_ring(&scheduler);
    (0..20).for_each(|_| assert_eq!(post(&scheduler).join(), 0));
    pipe.fill();
    op.join();
    let scheduler = Arc::new(scheduler);
    let poster = |_| {
        let scheduler = scheduler.clone();
        std::thread::spawn(move || {
            for _ in 0..10 {
                let ops: Vec<_> = (0..50).map(|_| post(&scheduler)).collect();
                ops.iter().for_each(|op| assert_eq!(op.join(), 0));
            }
        })
    };
    let posters: Vec<_> = (0..4).map(poster).collect();
    posters.into_iter().for_each(|poster| poster.join().unwrap());
    eventually("spread", || scheduler.metrics().workers.iter().all(|worker| worker.io_operations > 900));
}

/// A worker that stands still until a task of another one has ended, with something in its inbox whose token is used
/// up.
#[test]
fn whoever_stands_still_serves_its_inbox() {
    if !has_rings() {
        return;
    }
    let scheduler = wired(2, tuning());
    let there = scheduler.handle();
    let (tell, told) = std::sync::mpsc::channel::<Op>();
    let stands = scheduler.spawn(move || {
        let waits = there.spawn(move || told.recv().unwrap().join()).unwrap();
        // Taken by the other worker, so that there is nothing to run here.
        std::thread::sleep(Duration::from_millis(30));
        let shared = scheduler::internals::shared(&there);
        let op = post_to(shared, worker_index());
        // As an earlier wait may do.
        shared.workers[worker_index()].parker.try_consume();
        tell.send(op).unwrap();
        waits.join_with(scheduler::Help::Own).unwrap()
    });
    assert_eq!(stands.unwrap().join().unwrap(), 0);
}

fn worker_index() -> usize {
    current().expect("a worker").index
}
