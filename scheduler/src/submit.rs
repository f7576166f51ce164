//! From a closure to a queue: this worker's ring, or this thread's lane.
//!
//! A thread gets a lane per scheduler at its first submit and gives it up when it ends; an explicit [`Submitter`] has one
//! of its own. The hot path is one thread-local look, one slot, one store, two loads.
#![expect(unsafe_code, reason = "the producer's side of lanes, and the thread's current lane")]

use crate::credit::Acquired;
use crate::error::{BatchError, SubmitError};
use crate::idle::State;
use crate::lanes::Entry;
use crate::phase::Phase;
use crate::sync::{Arc, full_fence, light};
use crate::task::raw::{Job, RawTask};
use crate::worker::{Context, Shared, current};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ptr::null;

/// Where this thread submits to the scheduler it used last. A worker's never changes.
struct Last {
    scheduler: Cell<u64>,
    worker: Cell<*const Context>,
    entry: Cell<*const Entry>,
}

thread_local! {
    static LAST: Last = const {
        Last { scheduler: Cell::new(0), worker: Cell::new(null()), entry: Cell::new(null()) }
    };
    static HELD: RefCell<Held> = const { RefCell::new(Held(Vec::new())) };
}

/// The lanes of this thread, given up when it ends.
struct Held(Vec<(Arc<Shared>, *const Entry)>);

impl Drop for Held {
    fn drop(&mut self) {
        forget_last();
        for (shared, entry) in self.0.drain(..) {
            // SAFETY: this thread's lane, forgotten above.
            unsafe { release(&shared, entry) };
        }
    }
}

/// From here on this thread's submits begin with a look at its lanes.
pub(crate) fn forget_last() {
    LAST.with(|last| {
        last.scheduler.set(0);
        last.worker.set(null());
    });
}

/// A worker's thread submits to its own scheduler through its ring, or, if the capacity is bounded, through its lane,
/// which counts.
pub(crate) fn enter_worker(context: &Context) {
    LAST.with(|last| {
        if context.shared.credits.is_some() {
            let entry = context.lane();
            // SAFETY: this worker's lane.
            unsafe { start(&context.shared, entry) };
            last.entry.set(entry);
        } else {
            last.worker.set(context);
        }
        last.scheduler.set(context.shared.id);
    });
}

/// The limit of a lane that a thread begins to use.
///
/// # Safety
/// The caller is the lane's producer.
unsafe fn start(shared: &Shared, entry: &Entry) {
    if shared.credits.is_some() {
        // SAFETY: the producer.
        let position = unsafe { entry.lane.position() };
        // SAFETY: the producer.
        unsafe { entry.lane.set_limit(position) };
    }
}

/// Gives up a lane: unused credits go back first.
///
/// # Safety
/// The caller is the lane's producer and does not use it any more.
unsafe fn release(shared: &Shared, entry: *const Entry) {
    if let Some(credits) = &shared.credits {
        // SAFETY: the caller's lane.
        let lane = unsafe { &(*entry).lane };
        // SAFETY: the producer.
        let position = unsafe { lane.position() };
        // SAFETY: the producer.
        let unused = unsafe { lane.limit() } - position;
        // SAFETY: the producer.
        unsafe { lane.set_limit(position) };
        credits.give(unused);
    }
    // SAFETY: the caller's promise.
    unsafe { shared.lanes.release(entry) };
}

/// A new or adopted lane for the calling thread.
fn acquire(shared: &Shared) -> *const Entry {
    let shard = shared.home_shard();
    let entry = shared.lanes.acquire(&shared.words[shard], shard);
    // SAFETY: just acquired.
    let lane = unsafe { &*entry };
    // SAFETY: just acquired.
    unsafe { start(shared, lane) };
    entry
}

/// What a submit does when there is no room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFull {
    /// Give the closure back.
    Refuse,
    /// Sleep until there is room; on a worker, run other tasks or the closure itself.
    Wait,
}

/// Queues `f`.
///
/// # Safety
/// If it is accepted, the task must be run or dropped before anything `f` borrows ends.
#[inline(always)]
pub(crate) unsafe fn submit<F: Job>(shared: &Arc<Shared>, f: F, full: OnFull) -> Result<(), SubmitError<F>> {
    // Only the address leaves the closure, so that the task is not moved through it.
    // SAFETY: a thread-local without a destructor lives as long as the thread.
    let last = unsafe { &*LAST.with(std::ptr::from_ref) };
    if last.scheduler.get() != shared.id {
        // SAFETY: the caller's promise.
        return unsafe { submit_elsewhere(shared, f, full) };
    }
    // SAFETY: cleared before the context ends.
    if let Some(worker) = unsafe { last.worker.get().as_ref() } {
        // SAFETY: the caller's promise.
        unsafe { worker.submit(f) };
        return Ok(());
    }
    // SAFETY: this thread's lane for this scheduler; cleared before it is given up.
    let entry = unsafe { &*last.entry.get() };
    // SAFETY: this thread is the producer; the rest is the caller's promise.
    unsafe { on_lane(shared, entry, f, full) }
}

/// The scheduler is not the one this thread used last.
#[cold]
#[inline(never)]
unsafe fn submit_elsewhere<F: Job>(shared: &Arc<Shared>, f: F, full: OnFull) -> Result<(), SubmitError<F>> {
    if shared.phase.get() != Phase::Open {
        return Err(shared.refusal(f));
    }
    let entry = HELD.try_with(|held| held.borrow_mut().lane(shared));
    let Ok(entry) = entry else {
        // The thread's locals are gone: a lane for this one task.
        let entry = acquire(shared);
        // SAFETY: just acquired; the rest is the caller's promise.
        let result = unsafe { on_lane(shared, &*entry, f, full) };
        // SAFETY: as above, and not used again.
        unsafe { release(shared, entry) };
        return result;
    };
    if current().is_none() {
        LAST.with(|last| {
            last.scheduler.set(shared.id);
            last.entry.set(entry);
        });
    }
    // SAFETY: this thread's lane; the rest is the caller's promise.
    unsafe { on_lane(shared, &*entry, f, full) }
}

impl Held {
    /// This thread's lane for `shared`. Lanes of schedulers that have ended are given up on the way.
    fn lane(&mut self, shared: &Arc<Shared>) -> *const Entry {
        if let Some((_, entry)) = self.0.iter().find(|(held, _)| held.id == shared.id) {
            return *entry;
        }
        self.purge();
        let entry = acquire(shared);
        self.0.push((shared.clone(), entry));
        entry
    }

    fn purge(&mut self) {
        self.0.retain(|(shared, entry)| {
            let keep = matches!(shared.phase.get(), Phase::Open | Phase::Closing | Phase::Sealed);
            if !keep {
                LAST.with(|last| {
                    if last.scheduler.get() == shared.id {
                        last.scheduler.set(0);
                    }
                });
                // SAFETY: this thread's lane, forgotten above and below.
                unsafe { release(shared, *entry) };
            }
            keep
        });
    }
}

/// Gives up this thread's lanes of schedulers that have ended.
pub(crate) fn purge() {
    let _ = HELD.try_with(|held| held.borrow_mut().purge());
}

/// Queues `f` on a lane.
///
/// # Safety
/// The caller is the lane's producer. If the task is accepted it must be run or dropped before anything `f` borrows ends.
#[inline(always)]
unsafe fn on_lane<F: Job>(shared: &Shared, entry: &Entry, f: F, full: OnFull) -> Result<(), SubmitError<F>> {
    // SAFETY: the producer.
    let Some(slot) = (unsafe { entry.lane.reserve() }) else {
        // SAFETY: the caller's promise.
        return unsafe { without_credit(shared, entry, f, full) };
    };
    // SAFETY: an empty slot of ours; lifetimes are the caller's promise.
    unsafe { RawTask::write(slot, f) };
    // SAFETY: reserved and written.
    unsafe { entry.lane.commit() };
    // SAFETY: the producer.
    unsafe { entry.lane.publish() };
    light();
    // SAFETY: points into the scheduler that the caller borrows.
    let state = unsafe { &*entry.word }.load();
    if state.attention() || !shared.phase.is_open() {
        // SAFETY: the last committed task is the one of this `F`.
        return unsafe { published(shared, entry, state) };
    }
    Ok(())
}

/// After the publication: the fence where the mode asks for it, the closing protocol, the wake.
///
/// # Safety
/// The caller is the lane's producer, and the task committed last was written with this `F`.
#[cold]
#[inline(never)]
unsafe fn published<F: Job>(shared: &Shared, entry: &Entry, state: State) -> Result<(), SubmitError<F>> {
    // SAFETY: points into the scheduler that the caller borrows.
    let state = settle(unsafe { &*entry.word }, state);
    if refuses(shared) {
        // SAFETY: the producer.
        let position = unsafe { entry.lane.position() } - 1;
        // SAFETY: the producer; everything committed is published.
        if unsafe { entry.lane.withdraw(position) } == position {
            // SAFETY: withdrawn, nothing reserved since.
            let slot = unsafe { entry.lane.slot_at(position) };
            // SAFETY: written with this `F`.
            return Err(shared.refusal(unsafe { RawTask::take_back(slot) }));
        }
    }
    if state.look() {
        shared.notify(entry.shard);
    }
    Ok(())
}

/// The fence of the submitting side, and the word behind it.
fn settle(word: &crate::idle::IdleWord, state: State) -> State {
    if !state.fenced() {
        return state;
    }
    full_fence("B5");
    word.load()
}

/// The scheduler takes nothing from here any more. Its own workers may go on: their tasks belong to what is drained.
fn refuses(shared: &Shared) -> bool {
    match shared.phase.get() {
        Phase::Open => false,
        Phase::Forked | Phase::Finished => true,
        Phase::Closing | Phase::Sealed => !is_worker_of(shared),
    }
}

/// The lane has used its credits.
///
/// # Safety
/// As for `on_lane`.
#[cold]
#[inline(never)]
unsafe fn without_credit<F: Job>(shared: &Shared, entry: &Entry, f: F, full: OnFull) -> Result<(), SubmitError<F>> {
    // SAFETY: the caller's promise.
    match unsafe { get_credit(shared, entry, full) } {
        // SAFETY: the caller's promise; there is credit now.
        Credit::Granted => unsafe { on_lane(shared, entry, f, full) },
        Credit::RunInline => {
            // The worker does what it was about to hand out: nothing else frees room here.
            f.run();
            Ok(())
        }
        Credit::None => Err(SubmitError::Full(f)),
        Credit::Refused => Err(shared.refusal(f)),
    }
}

enum Credit {
    Granted,
    RunInline,
    None,
    Refused,
}

/// # Safety
/// The caller is the lane's producer.
unsafe fn get_credit(shared: &Shared, entry: &Entry, full: OnFull) -> Credit {
    let credits = shared.credits.as_ref().expect("only a bounded scheduler limits its lanes");
    loop {
        if refuses(shared) {
            return Credit::Refused;
        }
        // A 64th of what is left: many lanes together never sit on all of it.
        let share = (credits.available() / 64).clamp(1, credits.unit());
        let mut granted = credits.take(share);
        if granted == 0 && full == OnFull::Wait && !is_worker_of(shared) {
            match credits.acquire(1, || refuses(shared)) {
                Acquired::Credits(got) => granted = got,
                Acquired::Stopped => return Credit::Refused,
            }
        }
        if granted != 0 {
            // SAFETY: the producer.
            let limit = unsafe { entry.lane.limit() };
            // SAFETY: the producer.
            unsafe { entry.lane.set_limit(limit + granted) };
            return Credit::Granted;
        }
        if full == OnFull::Refuse {
            return Credit::None;
        }
        if !current().is_some_and(Context::help_once) {
            return Credit::RunInline;
        }
    }
}

fn is_worker_of(shared: &Shared) -> bool {
    current().is_some_and(|context| context.shared.id == shared.id)
}

/// A batch on its way: tasks committed and not published yet. Published when it is dropped, also by a panic of the iterator.
struct Batch<'a, J: Job> {
    shared: &'a Shared,
    entry: &'a Entry,
    /// Position of the first task that is not settled.
    from: u64,
    accepted: usize,
    _tasks: PhantomData<fn() -> J>,
}

impl<'a, J: Job> Batch<'a, J> {
    /// # Safety
    /// The caller is the lane's producer for as long as the batch lives, and writes tasks of type `J` while nobody else
    /// moves the position.
    unsafe fn new(shared: &'a Shared, entry: &'a Entry) -> Self {
        let mut batch = Batch { shared, entry, from: 0, accepted: 0, _tasks: PhantomData };
        batch.from = batch.position();
        batch
    }

    fn position(&self) -> u64 {
        // SAFETY: the producer.
        unsafe { self.entry.lane.position() }
    }

    /// Commits a task. `Err`: no credit.
    fn push(&mut self, task: J) -> Result<(), J> {
        // SAFETY: the producer.
        let Some(slot) = (unsafe { self.entry.lane.reserve() }) else { return Err(task) };
        // SAFETY: an empty slot of ours; the tasks own what they use.
        unsafe { RawTask::write(slot, task) };
        // SAFETY: reserved and written.
        unsafe { self.entry.lane.commit() };
        Ok(())
    }

    /// The iterator has submitted by itself since `expected`, which has published (and so accepted) what was there before.
    fn skip_to_own(&mut self, expected: u64) {
        let now = self.position();
        if now != expected {
            self.accepted += (expected - self.from) as usize;
            self.from = now;
        }
    }

    /// Publishes, wakes, and takes back what a closed scheduler will not run. What is not returned is accepted.
    fn settle(&mut self) -> Vec<J> {
        // SAFETY: the producer.
        unsafe { self.entry.lane.publish() };
        light();
        // SAFETY: points into the scheduler that is borrowed.
        let word = unsafe { &*self.entry.word };
        let state = settle(word, word.load());
        let end = self.position();
        let mut first = end;
        if refuses(self.shared) {
            // SAFETY: the producer; everything committed is published.
            first = unsafe { self.entry.lane.withdraw(self.from) };
        } else if state.look() {
            self.shared.notify(self.entry.shard);
        }
        self.accepted += (first - self.from) as usize;
        self.from = first;
        // SAFETY: withdrawn, nothing reserved since.
        let slots = (first..end).map(|at| unsafe { self.entry.lane.slot_at(at) });
        // SAFETY: all tasks from `from` on were written as `J`.
        slots.map(|slot| unsafe { RawTask::take_back(slot) }).collect()
    }
}

impl<J: Job> Drop for Batch<'_, J> {
    fn drop(&mut self) {
        if self.position() != self.from {
            drop(self.settle());
        }
    }
}

/// Queues all of `tasks` with one publication and one wake decision.
///
/// # Safety
/// The caller is the lane's producer.
unsafe fn batch_on_lane<I>(shared: &Shared, entry: &Entry, mut tasks: I) -> Result<usize, BatchError<I>>
where
    I: Iterator,
    I::Item: Job,
{
    // SAFETY: the producer.
    let mut batch = unsafe { Batch::new(shared, entry) };
    loop {
        let expected = batch.position();
        let next = tasks.next();
        batch.skip_to_own(expected);
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
        // SAFETY: the producer; the task owns what it uses.
        let alone = if returned.is_empty() {
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
    if let Some(context) = current()
        && context.shared.id == shared.id
        && shared.credits.is_none()
    {
        return Ok(tasks.fold(0, |count, task| {
            // SAFETY: the task owns what it uses.
            unsafe { context.submit(task) };
            count + 1
        }));
    }
    if refuses_early(shared) {
        return Err(BatchError { accepted: 0, reason: shared.refusal(()), returned: Vec::new(), rest: tasks });
    }
    let entry = match current() {
        Some(context) if context.shared.id == shared.id => Ok(std::ptr::from_ref(context.lane())),
        _ => HELD.try_with(|held| held.borrow_mut().lane(shared)),
    };
    let Ok(entry) = entry else {
        let entry = acquire(shared);
        // SAFETY: just acquired.
        let result = unsafe { batch_on_lane(shared, &*entry, tasks) };
        // SAFETY: as above, and not used again.
        unsafe { release(shared, entry) };
        return result;
    };
    // SAFETY: this thread's lane.
    unsafe { batch_on_lane(shared, &*entry, tasks) }
}

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
    pub(crate) fn new(shared: &Arc<Shared>) -> Result<Self, SubmitError<()>> {
        if shared.phase.get() != Phase::Open {
            return Err(shared.refusal(()));
        }
        Ok(Submitter { shared: shared.clone(), entry: acquire(shared), _not_sync: PhantomData })
    }

    /// Queues a task; blocks while the scheduler is full (on a worker it runs tasks instead).
    ///
    /// # Errors
    /// [`SubmitError::Closed`] or [`SubmitError::Forked`], with the closure.
    #[inline(always)]
    pub fn submit<F: FnOnce() + Send + 'static>(&mut self, f: F) -> Result<(), SubmitError<F>> {
        // SAFETY: this submitter owns the lane; the task owns what it uses.
        unsafe { on_lane(&self.shared, &*self.entry, f, OnFull::Wait) }
    }

    /// Queues a task; never blocks.
    ///
    /// # Errors
    /// [`SubmitError::Full`], [`SubmitError::Closed`] or [`SubmitError::Forked`], with the closure.
    #[inline(always)]
    pub fn try_submit<F: FnOnce() + Send + 'static>(&mut self, f: F) -> Result<(), SubmitError<F>> {
        // SAFETY: this submitter owns the lane; the task owns what it uses.
        unsafe { on_lane(&self.shared, &*self.entry, f, OnFull::Refuse) }
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
        unsafe { batch_on_lane(&self.shared, &*self.entry, tasks.into_iter()) }
    }
}

impl Drop for Submitter {
    fn drop(&mut self) {
        // SAFETY: this submitter's lane, not used again.
        unsafe { release(&self.shared, self.entry) };
    }
}
