//! Waits and ends when something is refused, or when two things go wrong at once.

use super::support::{in_a_process, quiet_workers, scheduler};
use scheduler::{Handle, Help, Scheduler, ShutdownMode};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Panics when it is dropped, wherever that is.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the destructor of a bomb");
    }
}

/// What is left over when a join or a scope unwinds was dropped during the unwinding, where a destructor that panics
/// ends the process.
#[test]
fn what_is_left_over_goes_quietly() {
    in_a_process("ends::what_is_left_over_goes_quietly", || {
        quiet_workers();
        let s = scheduler(2);
        let stolen = || std::thread::sleep(Duration::from_millis(20));
        let cases: [&dyn Fn(); 8] = [
            &|| {
                s.scope(|x| {
                    x.spawn(|_| panic_any(Bomb));
                    panic_any("first")
                })
            },
            &|| {
                let _bomb = s.scope(|x| {
                    x.spawn(|_| panic_any("first"));
                    Bomb
                });
            },
            &|| _ = s.join(|| -> () { panic_any("first") }, || panic_any(Bomb)),
            &|| _ = s.join(|| Bomb, || -> () { panic_any("first") }),
            &|| _ = s.join(|| -> () { panic_any("first") }, || Bomb),
            &|| {
                let late = || {
                    stolen();
                    panic_any("first")
                };
                _ = s.join(late, || -> Bomb { Bomb })
            },
            &|| _ = scheduler::join(|| -> () { panic_any("first") }, || panic_any(Bomb)),
            &|| _ = scheduler::join(|| Bomb, || -> () { panic_any("first") }),
        ];
        for (number, case) in cases.iter().enumerate() {
            let payload = catch_unwind(AssertUnwindSafe(case)).expect_err("it panics");
            assert_eq!(payload.downcast_ref(), Some(&"first"), "case {number}");
        }
        assert_eq!(s.spawn(|| 1).unwrap().join().unwrap(), 1, "the workers are still there");
    });
}

/// A worker asked once per streak of 64 tasks whether the scheduler aborts.
#[test]
fn an_abort_stops_a_streak() {
    let scheduler = scheduler(1);
    let (sender, receiver) = channel();
    let (begun, started) = (channel(), Arc::new(AtomicUsize::new(0)));
    let first = move || {
        begun.0.send(()).unwrap();
        receiver.recv().unwrap();
    };
    scheduler.submit(first).unwrap();
    begun.1.recv().unwrap();
    for _ in 0..200 {
        let started = started.clone();
        scheduler.submit(move || _ = started.fetch_add(1, SeqCst)).unwrap();
    }
    assert!(!scheduler.shutdown(ShutdownMode::Abort, Duration::ZERO).completed);
    sender.send(()).unwrap();
    let report = scheduler.shutdown(ShutdownMode::Abort, Duration::from_secs(60));
    assert!(report.completed);
    assert_eq!((started.load(SeqCst), report.tasks_dropped), (0, 200));
}

/// Nobody but the one who waits could poll it.
#[test]
fn the_only_worker_waits_for_a_future_of_its_own() {
    let scheduler = scheduler(1);
    let handle = scheduler.handle();
    let wait = move || handle.spawn_future(async { 6 }).unwrap().join_with(Help::Own).unwrap();
    let outer = scheduler.spawn(wait).unwrap().join_timeout(Duration::from_secs(60));
    assert_eq!(outer.expect("it hangs").unwrap(), 6);
}

fn nest(handle: &Handle, depth: u32, limit: Duration) -> u32 {
    if depth == 0 {
        return 0;
    }
    let below = handle.clone();
    let task = handle.spawn(move || nest(&below, depth - 1, limit)).unwrap();
    task.join_timeout(limit).expect("it waits for nothing").unwrap() + 1
}

/// A wait with a limit slept when the stack was used up, though nobody else was there to run the task.
#[test]
fn a_wait_with_a_limit_goes_on_on_a_fresh_stack() {
    in_a_process("ends::a_wait_with_a_limit_goes_on_on_a_fresh_stack", || {
        let scheduler = Scheduler::builder().workers(1).stack_size(256 << 10).build().unwrap();
        let handle = scheduler.handle();
        let depth = 5_000;
        let all = scheduler.spawn(move || nest(&handle, depth, Duration::from_secs(50))).unwrap();
        assert_eq!(all.join().unwrap(), depth);
    });
}
