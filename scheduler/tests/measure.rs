//! What the feature `measure` adds: the record of takes, and a scheduler whose workers do not steal.
#![cfg(not(loom))]
#![cfg(feature = "measure")]

use scheduler::internals::worker::Tuning;
use scheduler::{Handle, Scheduler};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn built(workers: usize, no_steal: bool) -> Scheduler {
    let tuning = Tuning { no_steal, ..Tuning::default() };
    Scheduler::builder().workers(workers).tuning(tuning).build().expect("a scheduler")
}

/// Submits a task that submits `tasks` others from its worker, and waits for all of them.
fn fan_out(scheduler: &Scheduler, tasks: usize) {
    let root = move || (0..tasks).for_each(|_| Handle::current().submit(|| ()).expect("open"));
    scheduler.submit(root).expect("open");
    assert!(scheduler.wait_idle(PATIENCE));
}

#[test]
fn a_take_is_recorded_with_what_it_leaves_behind() {
    let scheduler = built(1, false);
    fan_out(&scheduler, 10);
    let record = scheduler.record();
    assert_eq!(record.len(), 1);
    // The root leaves nothing; the others leave 9 8, 7 6 5 4, 3 2, 1, 0.
    assert_eq!(record[0].lengths[..5], [2, 1, 2, 4, 2]);
    assert_eq!(record[0].lengths.iter().sum::<u64>(), 11);
    assert_eq!((record[0].first_run_ns.len(), record[0].dropped), (11, 0));
    assert!(record[0].first_run_ns.is_sorted(), "one worker, one clock: {record:?}");
}

#[test]
fn a_cleared_record_begins_anew() {
    let scheduler = built(1, false);
    fan_out(&scheduler, 3);
    scheduler.clear_record();
    assert_eq!(scheduler.record()[0].lengths.iter().sum::<u64>(), 0);
    fan_out(&scheduler, 1);
    assert_eq!(scheduler.record()[0].lengths[0], 2);
    assert_eq!(scheduler.record()[0].first_run_ns.len(), 2);
}

#[test]
fn what_does_not_fit_is_counted() {
    let scheduler = built(1, false);
    for _ in 0..5_000 {
        scheduler.submit(|| ()).expect("open");
    }
    assert!(scheduler.wait_idle(PATIENCE));
    let record = scheduler.record();
    assert_eq!((record[0].first_run_ns.len(), record[0].dropped), (4_096, 904));
    assert_eq!(record[0].lengths.iter().sum::<u64>(), 5_000);
}

/// The control of the next test: two tasks of one worker's queue meet, which takes a thief.
#[test]
fn by_default_there_are_thieves() {
    let scheduler = built(2, false);
    let meeting = Arc::new(Barrier::new(2));
    let (done, all) = channel();
    let root = move || {
        for _ in 0..2 {
            let (meeting, done) = (meeting.clone(), done.clone());
            let meet = move || {
                meeting.wait();
                done.send(()).expect("the test waits");
            };
            Handle::current().submit(meet).expect("open");
        }
    };
    scheduler.submit(root).expect("open");
    for _ in 0..2 {
        all.recv_timeout(PATIENCE).expect("both have met");
    }
    assert!(scheduler.wait_idle(PATIENCE));
    assert!(scheduler.metrics().stolen >= 1);
}

#[test]
fn without_thieves_the_others_sleep() {
    const TASKS: usize = 200;
    let scheduler = built(2, true);
    // The workers have gone to sleep after their start.
    assert!(scheduler.wait_idle(PATIENCE));
    let before = scheduler.metrics();
    let here = Arc::new(AtomicUsize::new(0));
    let count = here.clone();
    let root = move || {
        let home = Handle::worker_index();
        for _ in 0..TASKS {
            let count = count.clone();
            let body = move || {
                std::thread::sleep(Duration::from_micros(50));
                count.fetch_add(usize::from(Handle::worker_index() == home), Relaxed);
            };
            Handle::current().submit(body).expect("open");
        }
    };
    scheduler.submit(root).expect("open");
    assert!(scheduler.wait_idle(PATIENCE));
    let after = scheduler.metrics();
    assert_eq!(here.load(Relaxed), TASKS, "every task ran where it was submitted");
    assert_eq!(after.stolen, 0);
    // One wake-up for the root. A worker that was woken for every task of another would show here.
    assert!(after.wakes - before.wakes <= 2, "{} wakes", after.wakes - before.wakes);
    assert!(after.parks - before.parks <= 4, "{} parks", after.parks - before.parks);
}
