//! The scope latch and the fork latch: see `scheduler/src/latch/README.md`.
#![cfg(loom)]

use loom::thread;
use loom_tests::model;
use scheduler::internals::latch::{ForkLatch, Register, ScopeLatch};
use scheduler::internals::park::{Parker, Waiter};
use scheduler::internals::sync::{Arc, Racy, yield_now};
use std::mem::ManuallyDrop;

/// A piece of the waiter's stack: a latch, and results that its waiter reads and then gives up. The memory lives as
/// long as the model, so that a touch after [`Frame::leave`] is reported and not random.
struct Frame<L> {
    latch: ManuallyDrop<L>,
    results: [Racy<u32>; 3],
}

// SAFETY: loom checks every access to `results`.
unsafe impl<L: Sync> Sync for Frame<L> {}
// SAFETY: as above.
unsafe impl<L: Send> Send for Frame<L> {}

impl<L: Default> Frame<L> {
    fn new() -> Arc<Self> {
        Arc::new(Frame { latch: ManuallyDrop::new(L::default()), results: [0; 3].map(Racy::new) })
    }

    fn put(&self, index: usize) {
        // SAFETY: the task's alone until it is counted.
        self.results[index].with(|result| unsafe { *result = 1 });
    }

    /// The waiter reads what the tasks left, and its stack frame ends.
    fn leave(&self, results: u32) -> L {
        // SAFETY: the latch is set.
        let sum: u32 = self.results.iter().map(|result| result.with(|result| unsafe { *result })).sum();
        assert_eq!(sum, results);
        // SAFETY: the waiter comes here once, and nobody uses the latch any more.
        ManuallyDrop::into_inner(unsafe { std::ptr::read(&self.latch) })
    }
}

impl Frame<ScopeLatch> {
    /// A task: leaves its result and counts itself.
    fn task(&self, index: usize) {
        self.put(index);
        // SAFETY: valid; the task holds a count.
        unsafe { ScopeLatch::done(&raw const *self.latch) };
    }

    fn spawn(this: &Arc<Self>, index: usize) -> thread::JoinHandle<()> {
        this.latch.add();
        let frame = this.clone();
        thread::spawn(move || frame.task(index))
    }

    fn wait(&self) {
        self.latch.wait(&Arc::new(Parker::new()));
    }

    fn poll(&self) {
        while !self.latch.is_set() {
            yield_now();
        }
    }
}

#[test]
fn scope_of_one() {
    model("latch::scope_of_one", Some(6), 10, || {
        let frame = Frame::<ScopeLatch>::new();
        let task = Frame::spawn(&frame, 0);
        frame.wait();
        frame.leave(1).retire();
        task.join().unwrap();
    });
}

#[test]
fn scope_of_two() {
    model("latch::scope_of_two", Some(3), 100, || {
        let frame = Frame::<ScopeLatch>::new();
        let tasks = [0, 1].map(|index| Frame::spawn(&frame, index));
        frame.wait();
        frame.leave(2).retire();
        for task in tasks {
            task.join().unwrap();
        }
    });
}

/// The owner helps meanwhile and only asks; it never registers.
#[test]
fn scope_polled() {
    model("latch::scope_polled", Some(3), 50, || {
        let frame = Frame::<ScopeLatch>::new();
        let tasks = [0, 1].map(|index| Frame::spawn(&frame, index));
        frame.poll();
        frame.leave(2).retire();
        for task in tasks {
            task.join().unwrap();
        }
    });
}

/// The owner registers, and then helps: it never sleeps, and the token comes to a frame that is gone.
#[test]
fn scope_registered_and_polled() {
    model("latch::scope_registered_and_polled", Some(3), 50, || {
        let frame = Frame::<ScopeLatch>::new();
        let parker = Arc::new(Parker::new());
        let tasks = [0, 1].map(|index| Frame::spawn(&frame, index));
        let _ = frame.latch.register(Waiter::new(&parker));
        if frame.latch.register(Waiter::new(&parker)) == Register::Set {
            assert!(frame.latch.is_set());
        }
        frame.poll();
        frame.leave(2).retire();
        for task in tasks {
            task.join().unwrap();
        }
    });
}

/// A task adds another one while it holds its own count.
#[test]
fn scope_nested() {
    model("latch::scope_nested", Some(3), 100, || {
        let frame = Frame::<ScopeLatch>::new();
        frame.latch.add();
        let task = {
            let frame = frame.clone();
            thread::spawn(move || {
                let inner = Frame::spawn(&frame, 1);
                frame.task(0);
                inner.join().unwrap();
            })
        };
        frame.wait();
        frame.leave(2).retire();
        task.join().unwrap();
    });
}

impl Frame<ForkLatch> {
    fn steal(this: &Arc<Self>) -> thread::JoinHandle<()> {
        let frame = this.clone();
        thread::spawn(move || {
            frame.put(0);
            // SAFETY: valid; set once.
            unsafe { ForkLatch::set(&raw const *frame.latch) };
        })
    }
}

#[test]
fn fork_waits() {
    model("latch::fork_waits", Some(6), 10, || {
        let frame = Frame::<ForkLatch>::new();
        let thief = Frame::steal(&frame);
        frame.latch.wait(&Arc::new(Parker::new()));
        frame.leave(1).retire();
        thief.join().unwrap();
    });
}

#[test]
fn fork_polled() {
    model("latch::fork_polled", Some(6), 5, || {
        let frame = Frame::<ForkLatch>::new();
        let thief = Frame::steal(&frame);
        while !frame.latch.is_set() {
            yield_now();
        }
        frame.leave(1).retire();
        thief.join().unwrap();
    });
}

#[test]
fn fork_registered_and_polled() {
    model("latch::fork_registered_and_polled", Some(6), 10, || {
        let frame = Frame::<ForkLatch>::new();
        let parker = Arc::new(Parker::new());
        let thief = Frame::steal(&frame);
        let _ = frame.latch.register(Waiter::new(&parker));
        if frame.latch.register(Waiter::new(&parker)) == Register::Set {
            assert!(frame.latch.is_set());
        }
        while !frame.latch.is_set() {
            yield_now();
        }
        frame.leave(1).retire();
        thief.join().unwrap();
    });
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("scope_of_two", "SL1:acq"),
        ("scope_of_one", "SL1:acq"),
        ("scope_polled", "SL1:rel"),
        ("scope_of_two", "SL1:rel"),
        ("scope_of_one", "SL2"),
        ("scope_of_one", "SL3"),
        ("scope_of_one", "SL4"),
        ("scope_polled", "SL4"),
        ("scope_polled", "scope_touch"),
        ("scope_of_one", "scope_early"),
        ("scope_registered_and_polled", "scope_early"),
        ("scope_registered_and_polled", "scope_late"),
        ("scope_of_one", "scope_no_wake"),
        ("fork_polled", "FL1:rel"),
        ("fork_waits", "FL1:rel"),
        ("fork_waits", "FL1:acq"),
        ("fork_polled", "FL2"),
        ("fork_waits", "FL3"),
        ("fork_polled", "fork_touch"),
        ("fork_registered_and_polled", "fork_touch"),
        ("fork_waits", "fork_no_wake"),
    ]);
}
