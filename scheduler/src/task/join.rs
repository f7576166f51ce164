//! A spawned task: closure, state and output in one cell, shared by whoever runs it and its `JoinHandle`.
#![expect(unsafe_code, reason = "one allocation shared by two owners, arbitrated by the task state")]

use super::cells::with_cells;
use super::state::{Complete, Detach, Start, Status, TaskState};
use crate::error::JoinError;
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

/// What the handle needs to know of a task whose closure type it has forgotten.
#[repr(C)]
pub struct Head<T> {
    /// The protocol between the two owners.
    pub state: TaskState,
    free: unsafe fn(NonNull<Head<T>>),
    /// Takes the closure out and runs it.
    run: unsafe fn(NonNull<Head<T>>) -> std::thread::Result<T>,
    output: UnsafeCell<Option<std::thread::Result<T>>>,
}

#[repr(C)]
struct Task<F, T> {
    head: Head<T>,
    body: UnsafeCell<ManuallyDrop<F>>,
}

/// The right to run a spawned task once. Dropped unrun, it cancels the task.
pub struct Runnable<F: FnOnce() -> T, T>(NonNull<Task<F, T>>);

// SAFETY: the closure and its output may be sent; the state is shared by atomics.
unsafe impl<F: FnOnce() -> T + Send, T: Send> Send for Runnable<F, T> {}

/// The right to the output.
pub struct Output<T>(NonNull<Head<T>>);

// SAFETY: the output may be sent; the state is shared by atomics.
unsafe impl<T: Send> Send for Output<T> {}
// SAFETY: `&Output` gives access to the state only.
unsafe impl<T: Send> Sync for Output<T> {}

/// Makes a task of `f`.
pub fn task<F: FnOnce() -> T, T>(f: F) -> (Runnable<F, T>, Output<T>) {
    let memory = with_cells(|cells| cells.allocate(Layout::new::<Task<F, T>>())).cast::<Task<F, T>>();
    let head =
        Head { state: TaskState::new(), free: free::<F, T>, run: run_here::<F, T>, output: UnsafeCell::new(None) };
    let task = Task { head, body: UnsafeCell::new(ManuallyDrop::new(f)) };
    // SAFETY: fresh memory of this layout.
    unsafe { memory.write(task) };
    (Runnable(memory), Output(memory.cast()))
}

/// Takes a task apart that was never queued and whose handle was not given out.
pub fn untask<F: FnOnce() -> T, T>(runnable: Runnable<F, T>, output: Output<T>) -> F {
    let task = ManuallyDrop::new(runnable).0;
    let _output = ManuallyDrop::new(output);
    // SAFETY: both owners are here, so the task is ours alone.
    let shared = unsafe { task.as_ref() };
    // SAFETY: as above.
    let body = unsafe { &mut *shared.body.get() };
    // SAFETY: taken once; the memory is freed without dropping it.
    let f = unsafe { ManuallyDrop::take(body) };
    // SAFETY: ours alone, body taken.
    unsafe { release::<F, T>(task) };
    f
}

/// Runs a task on the side of its handle.
///
/// # Safety
/// The handle has taken the task over.
unsafe fn run_here<F: FnOnce() -> T, T>(head: NonNull<Head<T>>) -> std::thread::Result<T> {
    let task = head.cast::<Task<F, T>>();
    // SAFETY: the task lives as long as its handle.
    let shared = unsafe { task.as_ref() };
    // SAFETY: the body is the handle's by the caller's promise.
    let body = unsafe { &mut *shared.body.get() };
    // SAFETY: taken once: a task is taken over once, and its runner leaves the body alone then.
    let f = unsafe { ManuallyDrop::take(body) };
    catch_unwind(AssertUnwindSafe(f))
}

/// Drops the output if there is one and frees the memory.
///
/// # Safety
/// The caller is the one that the state told to free; the body has been taken.
unsafe fn free<F, T>(head: NonNull<Head<T>>) {
    // SAFETY: ours alone by the caller's promise.
    let shared = unsafe { head.as_ref() };
    // SAFETY: as above.
    let output = unsafe { &mut *shared.output.get() };
    let output = output.take();
    // SAFETY: as above; the output is out.
    unsafe { release::<F, T>(head.cast()) };
    drop(output);
}

/// # Safety
/// The task is the caller's alone, body and output have been taken.
unsafe fn release<F, T>(task: NonNull<Task<F, T>>) {
    let layout = Layout::new::<Task<F, T>>();
    // SAFETY: the memory came from `allocate` with this layout.
    with_cells(|cells| unsafe { cells.release(task.cast(), layout) });
}

impl<F: FnOnce() -> T, T> super::raw::Job for Runnable<F, T> {
    fn run(self) {
        // A panic that nobody will join ends like that of any detached task.
        if let Some(payload) = self.run_to_end() {
            resume_unwind(payload);
        }
    }
}

impl<F: FnOnce() -> T, T> Runnable<F, T> {
    /// Runs the task; a panic becomes the output. Returns one that nobody will see, because the handle is gone.
    fn run_to_end(self) -> Option<Box<dyn std::any::Any + Send>> {
        let task = ManuallyDrop::new(self).0;
        // SAFETY: the runner's part of the task is ours.
        let shared = unsafe { task.as_ref() };
        let start = shared.head.state.start();
        if start == Start::Taken {
            return Self::finish(task, None);
        }
        // SAFETY: the body is the runner's.
        let body = unsafe { &mut *shared.body.get() };
        // SAFETY: taken once: there is one runnable.
        let f = unsafe { ManuallyDrop::take(body) };
        let result = if start == Start::Run {
            Some(catch_unwind(AssertUnwindSafe(f)))
        } else {
            // A destructor that panics must not keep the task from being finished.
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(f)));
            let unseen = Self::finish(task, None);
            return dropped.err().or(unseen);
        };
        Self::finish(task, result)
    }

    fn finish(
        task: NonNull<Task<F, T>>,
        result: Option<std::thread::Result<T>>,
    ) -> Option<Box<dyn std::any::Any + Send>> {
        // SAFETY: the task lives until `complete`.
        let shared = unsafe { task.as_ref() };
        // SAFETY: the output is the runner's until `complete`.
        let output = unsafe { &mut *shared.head.output.get() };
        *output = result;
        // SAFETY: no reference to the state is made.
        let state = unsafe { &raw const (*task.as_ptr()).head.state };
        // SAFETY: started, output written; nothing of the task is borrowed from here on.
        match unsafe { TaskState::complete(state) } {
            Complete::Keep => None,
            Complete::Discard => {
                // SAFETY: the handle is gone, so the task is ours.
                let shared = unsafe { task.as_ref() };
                // SAFETY: as above.
                let output = unsafe { &mut *shared.head.output.get() };
                let output = output.take();
                // SAFETY: ours alone; body and output have been taken.
                unsafe { release::<F, T>(task) };
                output.and_then(|result| result.err())
            }
        }
    }
}

impl<F: FnOnce() -> T, T> Drop for Runnable<F, T> {
    fn drop(&mut self) {
        let task = self.0;
        // SAFETY: the runner's part of the task is ours.
        let shared = unsafe { task.as_ref() };
        let cancelled = shared.head.state.abort();
        debug_assert!(cancelled, "dropped a runnable that had started");
        if shared.head.state.is_taken() {
            let _ = Self::finish(task, None);
            return;
        }
        // SAFETY: the body is the runner's.
        let body = unsafe { &mut *shared.body.get() };
        // SAFETY: taken once: there is one runnable.
        let f = unsafe { ManuallyDrop::take(body) };
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(f)));
        let _ = Self::finish(task, None);
        if let Err(payload) = dropped {
            resume_unwind(payload);
        }
    }
}

impl<T> Output<T> {
    /// The state.
    pub fn state(&self) -> &TaskState {
        // SAFETY: the head lives until the handle gives up its part.
        unsafe { &self.0.as_ref().state }
    }

    /// Runs the task here if nobody has begun it, and returns its value; `Err` gives the handle back.
    pub fn run_here(self) -> Result<Result<T, JoinError>, Self> {
        if !self.state().take_over() {
            return Err(self);
        }
        // SAFETY: the head lives until the handle gives up its part.
        let run = unsafe { self.0.as_ref().run };
        // SAFETY: taken over right above.
        let result = unsafe { run(self.0) };
        Ok(result.map_err(JoinError::Panicked))
    }

    /// The output of a finished task.
    pub fn take(self) -> Result<T, JoinError> {
        match self.state().status() {
            Status::Output => {
                let head = ManuallyDrop::new(self).0;
                // SAFETY: finished, so everything is the handle's.
                let shared = unsafe { head.as_ref() };
                // SAFETY: as above.
                let output = unsafe { &mut *shared.output.get() };
                let result = output.take();
                let free = shared.free;
                // SAFETY: `Status::Output` makes the handle the one that frees.
                unsafe { free(head) };
                result.expect("a finished task has its output").map_err(JoinError::Panicked)
            }
            Status::Cancelled => Err(JoinError::Cancelled),
            Status::Pending => unreachable!("taken before it was finished"),
        }
    }
}

impl<T> Drop for Output<T> {
    fn drop(&mut self) {
        if let Detach::HandleFrees { .. } = self.state().detach() {
            // SAFETY: the head is the handle's alone now.
            let free = unsafe { self.0.as_ref().free };
            // SAFETY: as above.
            unsafe { free(self.0) };
        }
    }
}
