//! The state of a spawned task: every arrow, and both sides on real threads with memory that is really freed.
#![cfg(not(loom))]

mod rounds;

use rounds::rounds;
use scheduler::internals::park::{Parked, Parker, Waiter};
use scheduler::internals::sync::{Acquire, Arc, AtomicPtr, AtomicU64, Relaxed, Release};
use scheduler::internals::task::state::{Complete, Detach, Register, Start, Status, TaskState};
use std::ptr::null_mut;
use std::time::Duration;

fn complete(state: &TaskState) -> Complete {
    // SAFETY: the tests are the runner, and keep the state.
    unsafe { TaskState::complete(state) }
}

fn shows(state: &TaskState, text: &str) {
    assert_eq!(format!("{state:?}"), text);
}

#[test]
fn run_then_join() {
    let state = TaskState::new();
    shows(&state, "QUEUED handle");
    assert_eq!(state.status(), Status::Pending);
    assert_eq!(state.start(), Start::Run);
    shows(&state, "RUNNING handle");
    assert!(!state.is_finished());
    assert_eq!(complete(&state), Complete::Keep);
    shows(&state, "DONE handle");
    assert_eq!(state.status(), Status::Output);
    state.retire();
}

#[test]
fn detached_before_and_after_the_end() {
    let state = TaskState::new();
    assert_eq!(state.detach(), Detach::RunnerFrees);
    assert_eq!(state.start(), Start::Run);
    assert_eq!(complete(&state), Complete::Discard);
    shows(&state, "DONE");
    state.retire();

    let state = TaskState::new();
    assert_eq!(state.start(), Start::Run);
    assert_eq!(complete(&state), Complete::Keep);
    assert_eq!(state.detach(), Detach::HandleFrees { output: true });
    state.retire();
}

#[test]
fn abort_works_only_before_the_start() {
    let state = TaskState::new();
    assert!(state.abort());
    assert!(state.abort(), "and stays so");
    shows(&state, "CANCELLED handle");
    assert_eq!(state.status(), Status::Cancelled);
    assert_eq!(state.start(), Start::Cancelled);
    assert_eq!(complete(&state), Complete::Keep);
    shows(&state, "CANCELLED DONE handle");
    assert_eq!(state.status(), Status::Cancelled);
    assert_eq!(state.detach(), Detach::HandleFrees { output: false });

    let state = TaskState::new();
    assert!(state.abort());
    assert_eq!(state.detach(), Detach::RunnerFrees);
    assert_eq!(state.start(), Start::Cancelled);
    assert_eq!(complete(&state), Complete::Discard);

    let state = TaskState::new();
    assert_eq!(state.start(), Start::Run);
    assert!(!state.abort());
    assert_eq!(complete(&state), Complete::Keep);
    assert!(!state.abort());
    assert_eq!(state.status(), Status::Output);
}

#[test]
fn a_waiter_gets_one_token() {
    let (state, parker) = (TaskState::new(), Arc::new(Parker::new()));
    assert_eq!(state.register(Waiter::new(&parker)), Register::Waiting);
    shows(&state, "QUEUED handle waiter");
    assert_eq!(Arc::strong_count(&parker), 2);
    assert_eq!(state.start(), Start::Run);
    shows(&state, "RUNNING handle waiter");
    assert_eq!(complete(&state), Complete::Keep);
    assert!(parker.try_consume());
    assert!(!parker.try_consume());
    assert_eq!(Arc::strong_count(&parker), 1);
    assert_eq!(state.register(Waiter::new(&parker)), Register::Finished);
    assert!(!state.unregister());
    assert_eq!(Arc::strong_count(&parker), 1);
}

#[test]
fn abort_wakes_the_waiter() {
    let (state, parker) = (TaskState::new(), Arc::new(Parker::new()));
    assert_eq!(state.register(Waiter::new(&parker)), Register::Waiting);
    assert!(state.abort());
    assert!(parker.try_consume());
    assert_eq!(state.register(Waiter::new(&parker)), Register::Finished);
    assert_eq!(Arc::strong_count(&parker), 1);
}

#[test]
fn a_waiter_can_change_its_mind() {
    let (state, first, second) = (TaskState::new(), Arc::new(Parker::new()), Arc::new(Parker::new()));
    assert_eq!(state.register(Waiter::new(&first)), Register::Waiting);
    assert!(state.unregister());
    assert!(!state.unregister());
    assert_eq!(Arc::strong_count(&first), 1);
    assert_eq!(state.register(Waiter::new(&first)), Register::Waiting);
    assert_eq!(state.register(Waiter::new(&second)), Register::Waiting);
    assert_eq!(Arc::strong_count(&first), 1, "replaced");
    assert_eq!(state.detach(), Detach::RunnerFrees);
    assert_eq!(Arc::strong_count(&second), 1, "the handle takes its waiter along");
    assert_eq!(state.start(), Start::Run);
    assert_eq!(complete(&state), Complete::Discard);
    assert!(!first.try_consume() && !second.try_consume());
}

/// A task's cell on the heap, whose output counts how often it is dropped.
struct Cell<'a> {
    state: TaskState,
    output: Option<Output<'a>>,
    freed: &'a AtomicU64,
}

struct Output<'a>(&'a AtomicU64);

impl Drop for Output<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl Cell<'_> {
    /// # Safety
    /// The caller is the side that frees.
    unsafe fn free(this: *mut Self) {
        // SAFETY: passed on.
        let cell = unsafe { Box::from_raw(this) };
        cell.freed.fetch_add(1, Relaxed);
        cell.state.retire();
    }
}

/// The runner's half.
///
/// # Safety
/// The caller is the only runner of `cell`.
unsafe fn run<'a>(cell: *mut Cell<'a>, dropped: &'a AtomicU64) {
    // SAFETY: valid until the runner completes; borrowed for this expression only.
    let start = unsafe { &(*cell).state }.start();
    if start == Start::Run {
        // SAFETY: the runner's until it completes.
        unsafe { (*cell).output = Some(Output(dropped)) };
    }
    // SAFETY: valid until the runner completes.
    let state = unsafe { &raw const (*cell).state };
    // SAFETY: the runner, at its end.
    if unsafe { TaskState::complete(state) } == Complete::Discard {
        // SAFETY: told so.
        unsafe { Cell::free(cell) };
    }
}

/// The handle's half: in turn join, timed join, abort and join, detach, abort and detach. Returns whether there will
/// have been an output if that is known.
///
/// # Safety
/// The caller is the only handle of `cell`.
unsafe fn handle(cell: *mut Cell<'_>, parker: &Arc<Parker>, round: u64) -> Option<bool> {
    // SAFETY: the handle's until it lets go.
    let state = unsafe { &(*cell).state };
    let aborted = matches!(round % 5, 2 | 4).then(|| state.abort());
    if round % 5 < 3 {
        let mut limit = (round % 5 == 1).then_some(Duration::from_micros(round % 7));
        if state.register(Waiter::new(parker)) == Register::Waiting {
            while !state.is_finished() {
                if parker.park(limit) == Parked::TimedOut && state.unregister() {
                    limit = None;
                    let _ = state.register(Waiter::new(parker));
                }
            }
        }
        if state.status() == Status::Output {
            // SAFETY: the output is there, so the cell is the handle's.
            unsafe { Cell::free(cell) };
            assert_ne!(aborted, Some(true));
            return Some(true);
        }
        assert_eq!(state.status(), Status::Cancelled);
        assert_eq!(aborted, Some(true));
    }
    if let Detach::HandleFrees { output } = state.detach() {
        // SAFETY: told so.
        unsafe { Cell::free(cell) };
        return Some(output);
    }
    aborted.map(|aborted| !aborted)
}

#[test]
fn both_sides_meet() {
    let (freed, dropped) = (AtomicU64::new(0), AtomicU64::new(0));
    let (cell, parker) = (AtomicPtr::new(null_mut()), Arc::new(Parker::new()));
    let left = |_| {
        let mut mine = null_mut::<Cell>();
        while mine.is_null() {
            mine = cell.swap(null_mut(), Acquire);
            std::hint::spin_loop();
        }
        // SAFETY: swapped out once, so this is the only runner.
        unsafe { run(mine, &dropped) };
    };
    let mut expected = (0, 0);
    let played = rounds(Duration::from_secs(1), left, |n, left_is_through| {
        let mine = Box::into_raw(Box::new(Cell { state: TaskState::new(), output: None, freed: &freed }));
        cell.store(mine, Release);
        // SAFETY: this is the only handle.
        let output = unsafe { handle(mine, &parker, n) };
        left_is_through();
        expected.0 += 1;
        expected.1 += u64::from(output.unwrap_or(dropped.load(Relaxed) > expected.1));
        assert_eq!((freed.load(Relaxed), dropped.load(Relaxed)), expected, "round {n}");
        true
    });
    println!("rounds={played} outputs={}", expected.1);
    assert!(expected.1 != 0 && expected.1 != played, "both ends must occur");
    assert_eq!(Arc::strong_count(&parker), 1);
}
