//! An explicit lane.
#![expect(unsafe_code, reason = "the producer's side of a lane")]

use super::batch::batch_on_lane;
use super::place::target;
use super::{OnFull, acquire, acquire_for, on_lane, release};
use crate::error::{BatchError, SubmitError};
use crate::lanes::Entry;
use crate::phase::Phase;
use crate::policy::Place;
use crate::sync::Arc;
use crate::worker::Shared;
use std::cell::Cell;
use std::marker::PhantomData;

/// An explicit lane: for a thread that submits much, or for one submitter that moves between threads.
///
/// Tasks of one submitter are started in order as long as nobody steals. Dropping it leaves its queued tasks to run.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let scheduler = scheduler::Scheduler::new()?;
/// let mut submitter = scheduler.register_submitter()?;
/// std::thread::spawn(move || submitter.submit(|| println!("from another thread's lane")).unwrap()).join().unwrap();
/// # Ok(())
/// # }
/// ```
pub struct Submitter {
    shared: Arc<Shared>,
    entry: *const Entry,
    _not_sync: PhantomData<Cell<()>>,
}

// SAFETY: the lane has one producer, which is whoever holds this; handing it over orders its accesses.
unsafe impl Send for Submitter {}

impl Submitter {
    /// A lane for a thread of the models.
    #[doc(hidden)]
    pub fn new(shared: &Arc<Shared>) -> Result<Self, SubmitError<()>> {
        Self::aimed(shared, Place::Any)
    }

    /// A lane for tasks that should run at `place`.
    #[doc(hidden)]
    pub fn aimed(shared: &Arc<Shared>, place: Place) -> Result<Self, SubmitError<()>> {
        if shared.phase.get() != Phase::Open {
            return Err(shared.refusal(()));
        }
        let entry = match target(shared, place).ok_or(SubmitError::NoSuchPlace((), place))? {
            Some((shard, aim)) => acquire_for(shared, shard, aim),
            None => acquire(shared),
        };
        Ok(Submitter { shared: shared.clone(), entry, _not_sync: PhantomData })
    }

    #[inline(always)]
    fn entry(&self) -> &Entry {
        // SAFETY: given up by the drop only.
        unsafe { &*self.entry }
    }

    /// Queues a task; blocks while the scheduler is full (on a worker it runs tasks instead).
    ///
    /// # Errors
    /// [`SubmitError::Closed`] or [`SubmitError::Forked`], with the closure.
    #[inline(always)]
    pub fn submit<F: FnOnce() + Send + 'static>(&mut self, f: F) -> Result<(), SubmitError<F>> {
        // SAFETY: this submitter owns the lane; the task owns what it uses.
        unsafe { on_lane(&self.shared, self.entry(), f, OnFull::Wait) }
    }

    /// Queues a task; never blocks.
    ///
    /// # Errors
    /// [`SubmitError::Full`], [`SubmitError::Closed`] or [`SubmitError::Forked`], with the closure.
    #[inline(always)]
    pub fn try_submit<F: FnOnce() + Send + 'static>(&mut self, f: F) -> Result<(), SubmitError<F>> {
        // SAFETY: this submitter owns the lane; the task owns what it uses.
        unsafe { on_lane(&self.shared, self.entry(), f, OnFull::Refuse) }
    }

    /// Queues all tasks of an iterator with one publication and one wake decision; returns how many.
    ///
    /// # Errors
    /// [`BatchError`] with the number accepted and everything else.
    ///
    /// # Panics
    /// When the iterator does; what it has yielded before runs.
    pub fn submit_batch<I>(&mut self, tasks: I) -> Result<usize, BatchError<I::IntoIter>>
    where
        I: IntoIterator,
        I::Item: FnOnce() + Send + 'static,
    {
        // SAFETY: this submitter owns the lane.
        unsafe { batch_on_lane(&self.shared, self.entry(), tasks.into_iter()) }
    }
}

impl Drop for Submitter {
    fn drop(&mut self) {
        // SAFETY: this submitter's lane, not used again.
        unsafe { release(&self.shared, self.entry) };
    }
}
