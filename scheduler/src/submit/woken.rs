//! Futures that were woken: they are accepted already, so nothing but the end of the scheduler refuses them.
#![expect(unsafe_code, reason = "the producer's side of lanes, and the thread's current lane")]

use super::{LAST, OnFull, ring_worker, submit};
use crate::error::SubmitError;
use crate::sync::Arc;
use crate::task::raw::Job;
use crate::worker::Shared;

/// Queues a task that was accepted before: on the scheduler's own worker, on top of its queue.
///
/// # Safety
/// 1. As for [`submit`]. `shared` is valid until the task is published, which may be the end of it.
#[inline(always)]
pub(crate) unsafe fn submit_woken<J: Job>(shared: &Arc<Shared>, job: J) -> Result<(), SubmitError<J>> {
    let scheduler = &raw const **shared;
    let known = LAST.with(|last| last.ring_of.get() == scheduler || last.lane_of.get() == scheduler);
    if !known {
        // SAFETY: the caller's promise.
        return unsafe { submit_first(shared, job) };
    }
    // The worker, or the thread's lane, keeps the scheduler.
    // SAFETY: the caller's promise.
    unsafe { submit(shared, job, OnFull::Force) }
}

/// # Safety
/// As for [`submit_woken`].
#[cold]
#[inline(never)]
unsafe fn submit_first<J: Job>(shared: &Arc<Shared>, job: J) -> Result<(), SubmitError<J>> {
    // The lane may be for one submission only, and must not be given up to a scheduler that is gone.
    let shared = shared.clone();
    // SAFETY: the caller's promise.
    unsafe { submit(&shared, job, OnFull::Force) }
}

/// Queues a task that has just run behind everything that its worker has.
///
/// # Safety
/// 1. As for [`submit`].
pub(crate) unsafe fn submit_last<J: Job>(shared: &Arc<Shared>, job: J) -> Result<(), SubmitError<J>> {
    match ring_worker(shared) {
        // SAFETY: the caller's promise.
        Some(worker) => unsafe { worker.submit_last(job) },
        // Bounded: the worker submits to its lane anyway.
        // SAFETY: the caller's promise.
        None => return unsafe { submit(shared, job, OnFull::Force) },
    }
    Ok(())
}
