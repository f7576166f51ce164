//! How many tasks run before a busy worker looks at its ring: a number, whatever the machine.

use crate::support::{Op, has_rings, pipe, tuning, wired};
use scheduler::Handle;
use scheduler::internals::config::STREAK;
use scheduler::internals::worker::Tuning;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;

/// Tasks without end, each of which submits the next.
fn run(handle: Handle, count: Arc<AtomicU64>, over: Arc<AtomicBool>) {
    count.fetch_add(1, Relaxed);
    if !over.load(Relaxed) {
        let next = handle.clone();
        handle.submit(move || run(next, count, over)).unwrap();
    }
}

/// Tasks that ran on the one worker between the push of an operation that is ready and its future.
fn tasks_between(tuning: Tuning) -> u64 {
    let scheduler = wired(1, tuning);
    let (count, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    for _ in 0..4 {
        let (handle, count, over) = (scheduler.handle(), count.clone(), over.clone());
        scheduler.submit(move || run(handle, count, over)).unwrap();
    }
    let pipe = pipe();
    pipe.fill();
    let (tell, told) = channel();
    for _ in 0..200 {
        let (poll, count, tell) = (pipe.poll(), count.clone(), tell.clone());
        let future = async move {
            let before = count.load(Relaxed);
            Op::push(poll).await;
            tell.send(count.load(Relaxed) - before).unwrap();
        };
        scheduler.spawn_future(future).unwrap().join().unwrap();
    }
    over.store(true, Relaxed);
    let worst = told.try_iter().max().unwrap();
    println!("at most {worst} tasks");
    worst
}

#[test]
fn among_short_tasks() {
    if has_rings() {
        let worst = tasks_between(Tuning { task_ns: Some(100), ..tuning() });
        assert!(worst <= 2 * u64::from(STREAK), "{worst} tasks");
    }
}

/// With tasks of 10 ms it looks after each.
#[test]
fn among_long_tasks() {
    if has_rings() {
        let worst = tasks_between(Tuning { task_ns: Some(10_000_000), ..tuning() });
        assert!(worst <= 8, "{worst} tasks");
    }
}

/// Operations that wait for ever, more than the kernel gets at once, and one behind them that is ready, on a worker
/// that never sleeps.
#[test]
fn behind_those_that_wait_for_ever() {
    if !has_rings() {
        return;
    }
    let scheduler = wired(1, Tuning { task_ns: Some(10_000), ..tuning() });
    let (count, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (handle, counted, end) = (scheduler.handle(), count.clone(), over.clone());
    scheduler.submit(move || run(handle, counted, end)).unwrap();
    let (idle, ready) = (pipe(), pipe());
    ready.fill();
    let polls: Vec<_> = (0..2000).map(|_| idle.poll()).chain([ready.poll()]).collect();
    let ops: Vec<_> = scheduler.spawn(move || polls.into_iter().map(Op::push).collect()).unwrap().join().unwrap();
    assert_eq!(Op::join(&ops[2000]), i32::from(libc::POLLIN));
    over.store(true, Relaxed);
    idle.fill();
    assert!(ops.iter().all(|op: &Op| op.join() == i32::from(libc::POLLIN)));
}
