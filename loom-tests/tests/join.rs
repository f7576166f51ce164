//! The state of a spawned task: see `scheduler/src/task/state/README.md`.
#![cfg(loom)]

use loom::thread;
use loom_tests::model;
use scheduler::internals::park::{Parker, Waiter};
use scheduler::internals::sync::{Arc, Racy};
use scheduler::internals::task::state::{Complete, Detach, Register, Start, Status, TaskState};
use std::mem::ManuallyDrop;
use std::time::Duration;

/// A task's cell. Its memory lives as long as the model, so that a touch after [`Cell::free`] is reported and not
/// random.
struct Cell {
    state: ManuallyDrop<TaskState>,
    /// Leak-checked stand-ins: the closure, and the output it turns into.
    closure: Racy<Option<Arc<()>>>,
    output: Racy<Option<Arc<()>>>,
    /// Something of the cell that both sides use before they let go of it.
    body: Racy<u32>,
    freed: Racy<u32>,
}

// SAFETY: loom checks every access to the cells.
unsafe impl Send for Cell {}
// SAFETY: as above.
unsafe impl Sync for Cell {}

impl Cell {
    fn new() -> Arc<Cell> {
        Arc::new(Cell {
            state: ManuallyDrop::new(TaskState::new()),
            closure: Racy::new(Some(Arc::new(()))),
            output: Racy::new(None),
            body: Racy::new(0),
            freed: Racy::new(0),
        })
    }

    fn take_closure(&self) -> Option<Arc<()>> {
        // SAFETY: the runner's alone.
        self.closure.with(|slot| unsafe { &mut *slot }.take())
    }

    fn take_output(&self) -> Option<Arc<()>> {
        // SAFETY: the runner's until DONE, then of the side that frees.
        self.output.with(|slot| unsafe { &mut *slot }.take())
    }

    fn use_body(&self) {
        // SAFETY: models take care that only one side uses it, and the other side frees.
        self.body.with(|body| unsafe { *body += 1 });
    }

    /// What the side that frees does, except giving the memory back.
    fn free(&self) {
        assert!(self.take_closure().is_none(), "freed before the runner dropped the closure");
        assert!(self.take_output().is_none(), "freed with an output");
        self.use_body();
        // SAFETY: only the side that frees comes here; loom reports two.
        self.freed.with(|freed| unsafe { *freed += 1 });
        // SAFETY: freed once, so the state is copied out once, and nobody uses it any more.
        let state = unsafe { std::ptr::read(&self.state) };
        ManuallyDrop::into_inner(state).retire();
    }

    /// The runner's half, once it has taken the task out of a queue.
    fn run(&self) {
        match self.state.start() {
            Start::Run => {
                let output = self.take_closure();
                // SAFETY: the runner's until DONE.
                self.output.with(|slot| unsafe { *slot = output });
            }
            Start::Cancelled => drop(self.take_closure()),
            Start::Taken => {}
        }
        self.complete();
    }

    fn complete(&self) {
        // SAFETY: the runner, at its end.
        match unsafe { TaskState::complete(&raw const *self.state) } {
            Complete::Keep => {}
            Complete::Discard => {
                drop(self.take_output());
                self.free();
            }
        }
    }

    /// The handle's end after a join: true if there was an output.
    fn finish(&self) -> bool {
        match self.state.status() {
            Status::Pending => panic!("woken too early"),
            Status::Output => {
                assert!(self.take_output().is_some());
                self.free();
                true
            }
            Status::Cancelled => {
                self.detach();
                false
            }
        }
    }

    fn detach(&self) {
        match self.state.detach() {
            Detach::RunnerFrees => {}
            Detach::HandleFrees { output } => {
                assert_eq!(self.take_output().is_some(), output);
                self.free();
            }
        }
    }

    fn join(&self) -> bool {
        let parker = Arc::new(Parker::new());
        if self.state.register(Waiter::new(&parker)) == Register::Waiting {
            while !self.state.is_finished() {
                let _ = parker.park(None);
            }
        }
        self.finish()
    }

    fn check(&self) {
        // SAFETY: both sides were joined.
        let freed = self.freed.with(|freed| unsafe { *freed });
        assert_eq!(freed, 1, "freed exactly once");
    }
}

/// Both halves on threads of their own; afterwards the cell must have been freed once, and nothing may leak.
fn both(name: &str, floor: u64, runner: fn(&Cell), handle: fn(&Cell)) {
    model(name, Some(6), floor, move || {
        let cell = Cell::new();
        let other = {
            let cell = cell.clone();
            thread::spawn(move || runner(&cell))
        };
        handle(&cell);
        other.join().unwrap();
        cell.check();
    });
}

#[test]
fn join_waits() {
    both("join::join_waits", 20, Cell::run, |cell| assert!(cell.join()));
}

/// The handle only asks.
#[test]
fn join_polls() {
    both("join::join_polls", 5, Cell::run, |cell| {
        while !cell.state.is_finished() {
            thread::yield_now();
        }
        assert!(cell.finish());
    });
}

#[test]
fn detach() {
    both("join::detach", 5, Cell::run, |cell| {
        cell.use_body();
        cell.detach();
    });
}

#[test]
fn detach_while_waiting() {
    both("join::detach_while_waiting", 10, Cell::run, |cell| {
        let _ = cell.state.register(Waiter::new(&Arc::new(Parker::new())));
        cell.detach();
    });
}

#[test]
fn abort_then_join() {
    both("join::abort_then_join", 10, Cell::run, |cell| {
        let aborted = cell.state.abort();
        assert_eq!(cell.join(), !aborted, "aborted if and only if there is no output");
    });
}

#[test]
fn abort_then_detach() {
    both("join::abort_then_detach", 10, Cell::run, |cell| {
        cell.state.abort();
        cell.detach();
    });
}

/// A timed join that gives up, and then either waits again (elsewhere) or lets go.
#[test]
fn join_timeout() {
    fn gives_up(cell: &Cell) -> bool {
        let parker = Arc::new(Parker::new());
        if cell.state.register(Waiter::new(&parker)) == Register::Waiting {
            let _ = parker.park(Some(Duration::from_millis(1)));
            if !cell.state.is_finished() {
                cell.state.unregister();
                return true;
            }
        }
        assert!(cell.finish());
        false
    }
    both("join::join_timeout then join", 20, Cell::run, |cell| {
        if gives_up(cell) {
            assert!(cell.join());
        }
    });
    both("join::join_timeout then detach", 20, Cell::run, |cell| {
        if gives_up(cell) {
            cell.detach();
        }
    });
}

/// The second registration replaces the first: its parker gets the token, and the first one's reference is dropped.
#[test]
fn register_again() {
    both("join::register_again", 20, Cell::run, |cell| {
        let _ = cell.state.register(Waiter::new(&Arc::new(Parker::new())));
        assert!(cell.join());
    });
}

/// A shutdown that drops what is queued aborts as the runner.
#[test]
fn runner_aborts() {
    both(
        "join::runner_aborts",
        20,
        |cell| {
            assert!(cell.state.abort());
            drop(cell.take_closure());
            cell.complete();
        },
        |cell| assert!(!cell.join()),
    );
}

/// Runner and handle abort at the same time, and the handle is dropped.
#[test]
fn take_over() {
    both(
        "take_over",
        2,
        |cell| cell.run(),
        |cell| {
            if cell.state.take_over() {
                drop(cell.take_closure().expect("the handle has the closure"));
                cell.detach();
            } else {
                cell.detach();
            }
        },
    );
}

#[test]
fn both_abort() {
    both(
        "join::both_abort",
        10,
        |cell| {
            assert!(cell.state.abort());
            drop(cell.take_closure());
            cell.complete();
        },
        |cell| {
            assert!(cell.state.abort());
            cell.detach();
        },
    );
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("detach", "TS1:acq"),
        ("detach", "TS1:rel"),
        ("join_waits", "TS2:rel"),
        ("join_polls", "TS2:rel"),
        ("detach", "TS2:rel"),
        ("join_waits", "TS2:acq"),
        ("detach", "TS2:acq"),
        ("join_waits", "TS3"),
        ("join_waits", "TS4"),
        ("join_polls", "TS4"),
        ("runner_aborts", "TS5"),
        ("detach", "state_touch"),
        ("join_waits", "state_touch"),
        ("abort_then_detach", "state_touch"),
        ("join_waits", "state_no_wake"),
        ("runner_aborts", "state_no_wake"),
        ("join_waits", "state_wake_leak"),
        ("abort_then_join", "state_deaf_start"),
    ]);
}
