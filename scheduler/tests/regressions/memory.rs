//! What comes and goes leaves no memory behind.

use super::support::{Bomb, in_a_process, occupy, quiet_workers, scheduler};
use scheduler::Scheduler;
use std::time::Duration;

/// Resident memory of this process in KiB.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4
}

/// Repeats `round`: the first fifth fills whatever is kept for later, then memory grows by less than `limit` KiB.
fn stays_flat(rounds: usize, limit: usize, mut round: impl FnMut()) {
    (0..rounds / 5).for_each(|_| round());
    let before = resident();
    (rounds / 5..rounds).for_each(|_| round());
    let grown = resident().saturating_sub(before);
    assert!(grown < limit, "grown by {grown} KiB in {rounds} rounds");
}

/// 1000 tasks of 1 KiB each round.
fn abort_bombs(scheduler: &Scheduler) {
    let gate = occupy(scheduler);
    let task = |_| {
        let (bomb, ballast) = (Bomb, [0_u8; 600]);
        let task = move || {
            let _bomb = bomb;
            ballast[0]
        };
        scheduler.spawn(task).unwrap()
    };
    let tasks: Vec<_> = (0..1000).map(task).collect();
    assert!(tasks.iter().all(|task| task.abort()), "none has begun");
    gate.open();
    drop(tasks);
    assert!(scheduler.wait_idle(Duration::from_secs(30)));
}

#[test]
fn aborted_tasks_whose_destructors_panic_give_their_memory_back() {
    in_a_process("memory::aborted_tasks_whose_destructors_panic_give_their_memory_back", || {
        quiet_workers();
        let scheduler = scheduler(1);
        // Twenty times less than the 40 MiB of 40,000 tasks.
        stays_flat(50, 2048, || abort_bombs(&scheduler));
    });
}

#[test]
fn schedulers_that_come_and_go_leave_no_memory_behind() {
    in_a_process("memory::schedulers_that_come_and_go_leave_no_memory_behind", || {
        stays_flat(250, 2048, || {
            let scheduler = scheduler(2);
            let tasks: Vec<_> = (0..100).map(|i| scheduler.spawn(move || [i; 40]).unwrap()).collect();
            for task in tasks {
                task.join().unwrap();
            }
        });
    });
}

#[test]
fn submitters_that_come_and_go_leave_no_memory_behind() {
    in_a_process("memory::submitters_that_come_and_go_leave_no_memory_behind", || {
        let scheduler = scheduler(2);
        stays_flat(10_000, 2048, || drop(scheduler.register_submitter().unwrap()));
        stays_flat(10_000, 2048, || {
            let _ = scheduler.wait_idle(Duration::ZERO);
            assert!(scheduler.metrics().lanes < 100);
        });
    });
}

#[test]
fn threads_that_come_and_go_leave_no_memory_behind() {
    in_a_process("memory::threads_that_come_and_go_leave_no_memory_behind", || {
        let scheduler = scheduler(2);
        stays_flat(100, 4096, || {
            std::thread::scope(|s| {
                for _ in 0..8 {
                    s.spawn(|| (0..100).for_each(|i| drop(scheduler.spawn(move || [i; 40]).unwrap())));
                }
            });
        });
        assert!(scheduler.metrics().lanes < 100, "{} lanes of 800 threads", scheduler.metrics().lanes);
    });
}
