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
