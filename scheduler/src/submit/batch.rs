//! Many tasks with one publication and one wake decision.
#![expect(unsafe_code, reason = "the producer's side of a lane, over calls of the user's iterator")]

use super::{Busy, OnFull, announce, find_lane, on_lane, refuses, rehome, ring_worker, settle};
use crate::error::BatchError;
use crate::lanes::Entry;
use crate::sync::{Arc, light};
use crate::task::raw::{Job, RawTask};
use crate::worker::Shared;
use std::marker::PhantomData;

/// A batch on its way: tasks committed and not published yet. Published when it is dropped, also by a panic of the
/// iterator.
struct Batch<'a, J: Job> {
    shared: &'a Shared,
    entry: &'a Entry,
    /// Position of the first task that is not settled.
    from: u64,
    /// Where the position stood when the iterator was last called.
    expected: u64,
    accepted: usize,
    _tasks: PhantomData<fn() -> J>,
}

impl<'a, J: Job> Batch<'a, J> {
    /// # Safety
    /// The caller is the lane's producer for as long as the batch lives, and writes tasks of type `J` while nobody else
    /// moves the position.
    unsafe fn new(shared: &'a Shared, entry: &'a Entry) -> Self {
        let mut batch = Batch { shared, entry, from: 0, expected: 0, accepted: 0, _tasks: PhantomData };
        batch.from = batch.position();
        batch.expected = batch.from;
        batch
    }

    fn position(&self) -> u64 {
        // SAFETY: the producer.
        unsafe { self.entry.lane.position() }
    }

    /// Commits a task. `Err`: no credit.
    fn push(&mut self, task: J) -> Result<(), J> {
        let turn = || rehome(self.shared, self.entry);
        // SAFETY: the producer.
        let Some(slot) = (unsafe { self.entry.lane.reserve_with(turn) }) else { return Err(task) };
        // SAFETY: an empty slot of ours; the tasks own what they use.
        unsafe { RawTask::write(slot, task) };
        // SAFETY: reserved and written.
        unsafe { self.entry.lane.commit() };
        self.expected += 1;
        Ok(())
    }

    /// What the iterator has submitted by itself is not ours; doing so has published, and so accepted, what was there
    /// before.
    fn skip_to_own(&mut self) {
        let now = self.position();
        if now != self.expected {
            self.accepted += (self.expected - self.from) as usize;
            self.from = now;
        }
    }

    /// Publishes, wakes, and takes back what a closed scheduler will not run. What is not returned is accepted.
    fn settle(&mut self) -> Vec<J> {
        // SAFETY: the producer.
        unsafe { self.entry.lane.publish() };
        light();
        let state = settle(self.shared, self.entry);
        let end = self.position();
        let mut first = end;
        if refuses(self.shared) {
            // SAFETY: the producer; everything committed is published.
            first = unsafe { self.entry.lane.withdraw(self.from) };
        } else {
            announce(self.shared, self.entry, state);
        }
        self.accepted += (first - self.from) as usize;
        (self.from, self.expected) = (first, first);
        // SAFETY: withdrawn, nothing reserved since.
        let slots = (first..end).map(|at| unsafe { self.entry.lane.slot_at(at) });
        // SAFETY: all tasks from `from` on were written as `J`.
        slots.map(|slot| unsafe { RawTask::take_back(slot) }).collect()
    }
}

impl<J: Job> Drop for Batch<'_, J> {
    fn drop(&mut self) {
        self.skip_to_own();
        if self.position() != self.from {
            drop(self.settle());
        }
    }
}

/// Queues all of `tasks` with one publication and one wake decision.
///
/// # Safety
/// The caller is the lane's producer.
pub(super) unsafe fn batch_on_lane<I>(shared: &Shared, entry: &Entry, mut tasks: I) -> Result<usize, BatchError<I>>
where
    I: Iterator,
    I::Item: Job,
{
    // SAFETY: the producer.
    let mut batch = unsafe { Batch::new(shared, entry) };
    loop {
        batch.expected = batch.position();
        let next = tasks.next();
        batch.skip_to_own();
        batch.expected = batch.position();
        let refused = match next {
            Some(task) if !refuses_early(shared) => batch.push(task).err(),
            Some(task) => Some(task),
            None => {
                let returned = batch.settle();
                let (accepted, reason) = (batch.accepted, shared.refusal(()));
                let all = returned.is_empty();
                return if all { Ok(accepted) } else { Err(BatchError { accepted, reason, returned, rest: tasks }) };
            }
        };
        let Some(task) = refused else { continue };
        let mut returned = batch.settle();
        let alone = if returned.is_empty() {
            // SAFETY: the producer; the task owns what it uses.
            unsafe { on_lane(shared, entry, task, OnFull::Wait) }
        } else {
            Err(shared.refusal(task))
        };
        if let Err(error) = alone {
            let reason = error.map(|task| returned.push(task));
            return Err(BatchError { accepted: batch.accepted, reason, returned, rest: tasks });
        }
        batch.accepted += 1;
        batch.from = batch.position();
        batch.expected = batch.from;
    }
}

/// A cheap look: there is no point in filling a lane that will be withdrawn.
#[inline]
fn refuses_early(shared: &Shared) -> bool {
    !shared.phase.is_open() && refuses(shared)
}

/// Queues all of `tasks` on this worker or this thread's lane.
pub(crate) fn submit_batch<I>(shared: &Arc<Shared>, tasks: I) -> Result<usize, BatchError<I::IntoIter>>
where
    I: IntoIterator,
    I::Item: FnOnce() + Send + 'static,
{
    let tasks = tasks.into_iter();
    if let Some(context) = ring_worker(shared) {
        return Ok(tasks.fold(0, |count, task| {
            // SAFETY: the task owns what it uses.
            unsafe { context.submit(task) };
            count + 1
        }));
    }
    let _busy = Busy::new();
    match find_lane(shared) {
        // SAFETY: this thread's lane.
        Ok(lease) => unsafe { batch_on_lane(shared, lease.entry(), tasks) },
        Err(_) => Err(BatchError { accepted: 0, reason: shared.refusal(()), returned: Vec::new(), rest: tasks }),
    }
}
