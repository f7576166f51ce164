//! However deep waits and submissions nest, they end, and no stack overflows.

use super::support::{Count, in_a_process, scheduler};
use scheduler::{Handle, Help, Scheduler};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// A stack of 2 MiB holds some thousand levels.
const LEVELS: u32 = 10_000;

#[test]
fn a_worker_with_the_smallest_stack_can_wait_for_its_own_task() {
    in_a_process("stacks::a_worker_with_the_smallest_stack_can_wait_for_its_own_task", || {
        let scheduler = Scheduler::builder().workers(1).stack_size(64 * 1024).build().unwrap();
        let handle = scheduler.handle();
        let outer = scheduler.spawn(move || handle.spawn(|| 1).unwrap().join().unwrap()).unwrap();
        assert_eq!(outer.join().unwrap(), 1);
    });
}

#[test]
fn nested_scopes_on_small_stacks_end() {
    in_a_process("stacks::nested_scopes_on_small_stacks_end", || {
        let scheduler = Scheduler::builder().workers(2).stack_size(128 * 1024).build().unwrap();
        let inner = Count::default();
        scheduler.scope(|s| {
            for _ in 0..2 {
                let inner = inner.clone();
                s.spawn(move |_| Handle::current().scope(|s| s.spawn(|_| inner.add())));
            }
        });
        assert_eq!(inner.get(), 2);
    });
}

/// On a worker's own thread, not on one that stands in for it.
fn on_own_thread() -> bool {
    std::thread::current().name().is_some_and(|name| name.starts_with("scheduler-"))
}

/// Each level waits for the next; returns the levels below, and whether the deepest is on a worker's own thread.
fn deep(handle: &Handle, levels: u32, help: Help) -> (u32, bool) {
    if levels == 0 {
        return (0, on_own_thread());
    }
    let next = handle.clone();
    let task = handle.spawn(move || deep(&next, levels - 1, help)).unwrap();
    let (below, own) = task.join_with(help).unwrap();
    (below + 1, own)
}

fn nest(workers: usize, help: Help) {
    let scheduler = scheduler(workers);
    let handle = scheduler.handle();
    let (levels, own) = scheduler.spawn(move || deep(&handle, LEVELS, help)).unwrap().join().unwrap();
    assert_eq!(levels, LEVELS);
    assert!(!own, "{LEVELS} levels fit on one stack: too few for this test");
    assert_eq!(scheduler.metrics().spares, 0, "nobody stands in any more");
}

#[test]
fn joins_nest_deeper_than_a_stack() {
    in_a_process("stacks::joins_nest_deeper_than_a_stack", || nest(1, Help::Any));
}

#[test]
fn joins_that_run_only_the_awaited_task_nest_deeper_than_a_stack() {
    in_a_process("stacks::joins_that_run_only_the_awaited_task_nest_deeper_than_a_stack", || nest(2, Help::Own));
}

/// In a bounded scheduler the task goes through the worker's lane.
#[test]
fn the_awaited_task_of_a_bounded_scheduler_is_found() {
    in_a_process("stacks::the_awaited_task_of_a_bounded_scheduler_is_found", || {
        let scheduler = Scheduler::builder().workers(1).capacity(100).build().unwrap();
        let handle = scheduler.handle();
        let outer = scheduler.spawn(move || handle.spawn(|| 1).unwrap().join_with(Help::Own).unwrap()).unwrap();
        assert_eq!(outer.join().unwrap(), 1);
    });
}

/// More tasks than the worker's ring holds.
#[test]
fn awaited_tasks_that_were_spilled_are_found() {
    in_a_process("stacks::awaited_tasks_that_were_spilled_are_found", || {
        let scheduler = scheduler(1);
        let handle = scheduler.handle();
        let outer = scheduler.spawn(move || {
            let tasks: Vec<_> = (0..5000_u64).map(|i| handle.spawn(move || i).unwrap()).collect();
            tasks.into_iter().map(|task| task.join_with(Help::Own).unwrap()).sum::<u64>()
        });
        assert_eq!(outer.unwrap().join().unwrap(), 4999 * 5000 / 2);
        assert!(scheduler.metrics().workers[0].spills != 0, "nothing was spilled: too few tasks for this test");
    });
}

/// Each task submits two more for as long as there are tickets.
fn grow(handle: &Handle, tickets: &Arc<AtomicU32>, ran: &Count) {
    ran.add();
    for _ in 0..2 {
        if tickets.try_update(AcqRel, Acquire, |left| left.checked_sub(1)).is_ok() {
            let (again, tickets, ran) = (handle.clone(), tickets.clone(), ran.clone());
            handle.submit(move || grow(&again, &tickets, &ran)).unwrap();
        }
    }
}

#[test]
fn submitting_into_a_full_scheduler_from_its_tasks_does_not_recurse_without_end() {
    in_a_process("stacks::submitting_into_a_full_scheduler_from_its_tasks_does_not_recurse_without_end", || {
        const TASKS: u32 = 200_000;
        let scheduler = Scheduler::builder().workers(1).capacity(4).build().unwrap();
        let (handle, ran) = (scheduler.handle(), Count::default());
        let (tickets, count) = (Arc::new(AtomicU32::new(TASKS)), ran.clone());
        scheduler.submit(move || grow(&handle, &tickets, &count)).unwrap();
        drop(scheduler);
        assert_eq!(ran.get(), u64::from(TASKS) + 1);
    });
}

/// Waits for a task when the thread that it was left on ends.
struct Waits(Handle, Count);

impl Drop for Waits {
    fn drop(&mut self) {
        if self.0.spawn(|| 1).is_ok_and(|task| task.join().is_ok()) {
            self.1.add();
        }
    }
}

thread_local! {
    static LEFT: RefCell<Option<Waits>> = const { RefCell::new(None) };
}

fn deep_and_leave(handle: &Handle, waited: &Count, levels: u32) {
    if !on_own_thread() {
        LEFT.with_borrow_mut(|left| {
            left.get_or_insert_with(|| Waits(handle.clone(), waited.clone()));
        });
    }
    if levels > 0 {
        let (next, count) = (handle.clone(), waited.clone());
        handle.spawn(move || deep_and_leave(&next, &count, levels - 1)).unwrap().join().unwrap();
    }
}

/// The thread that stands in for the only worker ends, and a thread-local there waits for that worker.
#[test]
fn a_thread_local_of_a_spare_thread_may_wait_for_its_worker() {
    in_a_process("stacks::a_thread_local_of_a_spare_thread_may_wait_for_its_worker", || {
        let scheduler = scheduler(1);
        let (handle, waited) = (scheduler.handle(), Count::default());
        let count = waited.clone();
        scheduler.spawn(move || deep_and_leave(&handle, &count, LEVELS)).unwrap().join().unwrap();
        super::support::eventually("the thread-local has waited", || waited.get() != 0);
    });
}
