//! What stands in a queue: a function word, then up to 56 bytes of closure.
//!
//! A [`RawTask`] is written into a lane slot by a submitter, or straight into a cell by a worker; a claim copies it
//! from the slot into a cell. A cell is run exactly once: its function moves the closure out, gives the cell back, and
//! only then runs (or drops) the closure, so that the closure's own submissions reuse the hot line.
#![expect(unsafe_code, reason = "type erasure of closures in place")]

use super::cells::Cells;
use std::mem::{MaybeUninit, align_of, size_of};

/// What to do with a task. A number, so that the innermost loop hands it on as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verb(u32);

impl Verb {
    /// Run it.
    pub const RUN: Verb = Verb(0);
    /// Drop it unrun: the scheduler aborts.
    pub const DROP: Verb = Verb(1);
}

/// The function word.
///
/// # Safety
/// The header belongs to the callee: it is called once per written task, on the thread that owns `Cells`.
pub type RunFn = unsafe fn(*mut Header, &Cells, Verb);

/// First word of everything that can stand in a queue: a task cell, or a fork's frame on some stack.
#[repr(C)]
pub struct Header {
    /// How to run or drop it.
    pub run: RunFn,
}

/// What a task does. Every closure is one.
pub trait Job {
    /// Does it. A panic is counted and reported by the worker.
    fn run(self);
}

impl<F: FnOnce()> Job for F {
    #[inline(always)]
    fn run(self) {
        self();
    }
}

/// Bytes of closure that fit in place.
pub const INLINE: usize = 56;

/// A task in place.
#[repr(C, align(64))]
pub struct RawTask {
    header: Header,
    data: [MaybeUninit<u64>; INLINE / 8],
}

impl RawTask {
    const fn fits<F>() -> bool {
        size_of::<F>() <= INLINE && align_of::<F>() <= align_of::<u64>()
    }

    /// Writes `f`. A closure that does not fit goes into memory from the thread's cells.
    ///
    /// # Safety
    /// `at` is exclusively the caller's and empty. The task must be run or dropped before anything `f` borrows ends.
    #[inline(always)]
    pub unsafe fn write<F: Job>(at: *mut RawTask, f: F) {
        // SAFETY: `at` is valid; no reference is made.
        let data = unsafe { &raw mut (*at).data };
        // SAFETY: as above.
        let run = unsafe { &raw mut (*at).header.run };
        if const { Self::fits::<F>() } {
            // SAFETY: the closure fits in size and alignment.
            unsafe { data.cast::<F>().write(f) };
            // SAFETY: `at` is the caller's.
            unsafe { run.write(run_inline::<F>) };
        } else {
            let far = super::cells::with_cells(|cells| cells.store(f));
            // SAFETY: a pointer fits.
            unsafe { data.cast::<*mut F>().write(far) };
            // SAFETY: `at` is the caller's.
            unsafe { run.write(run_far::<F>) };
        }
    }

    /// Takes back the closure that `write::<F>` put there.
    ///
    /// # Safety
    /// `at` holds a task written with this very `F`, and is empty afterwards.
    pub unsafe fn take_back<F: Job>(at: *mut RawTask) -> F {
        // SAFETY: valid by the caller's promise.
        let data = unsafe { &raw mut (*at).data };
        if const { Self::fits::<F>() } {
            // SAFETY: written by `write::<F>`.
            unsafe { data.cast::<F>().read() }
        } else {
            // SAFETY: written by `write::<F>`.
            let far = unsafe { data.cast::<*mut F>().read() };
            // SAFETY: stored by `Cells::store::<F>`, taken once.
            super::cells::with_cells(|cells| unsafe { cells.load(far) })
        }
    }

    /// Moves a task.
    ///
    /// # Safety
    /// `from` holds a task and is empty afterwards; `to` is empty, and they differ.
    #[inline(always)]
    pub unsafe fn relocate(from: *const RawTask, to: *mut RawTask) {
        // SAFETY: both are valid and differ by the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from, to, 1) };
    }
}

/// # Safety
/// See [`RunFn`]; the header is that of a cell.
unsafe fn run_inline<F: Job>(header: *mut Header, cells: &Cells, verb: Verb) {
    let task: *mut RawTask = header.cast();
    // SAFETY: the cell is ours.
    let data = unsafe { &raw mut (*task).data };
    // SAFETY: written by `write::<F>`.
    let f = unsafe { data.cast::<F>().read() };
    // SAFETY: the cell is empty and ours to give back.
    unsafe { cells.put(task) };
    if verb == Verb::RUN {
        f.run();
    } else {
        drop(f);
    }
}

/// # Safety
/// See [`RunFn`]; the header is that of a cell.
unsafe fn run_far<F: Job>(header: *mut Header, cells: &Cells, verb: Verb) {
    let task: *mut RawTask = header.cast();
    // SAFETY: the cell is ours.
    let data = unsafe { &raw mut (*task).data };
    // SAFETY: written by `write::<F>`.
    let far = unsafe { data.cast::<*mut F>().read() };
    // SAFETY: the cell is empty and ours to give back.
    unsafe { cells.put(task) };
    // SAFETY: stored by `Cells::store::<F>`, taken once.
    let f = unsafe { cells.load(far) };
    if verb == Verb::RUN {
        f.run();
    } else {
        drop(f);
    }
}
