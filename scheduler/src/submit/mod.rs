//! From a closure to a queue: this worker's ring, or this thread's lane.
//!
//! A thread gets a lane per scheduler at its first submit and gives it up when it ends; an explicit [`Submitter`] has
//! one of its own. The hot path is one thread-local look, one slot, one store, two loads.
#![expect(unsafe_code, reason = "the producer's side of lanes, and the thread's current lane")]

mod batch;
mod place;
mod submitter;
mod woken;

pub(crate) use batch::submit_batch;
pub(crate) use place::submit_on;
pub use submitter::Submitter;
pub(crate) use woken::{submit_last, submit_woken};

use crate::credit::Acquired;
use crate::error::SubmitError;
use crate::idle::State;
use crate::lanes::{Aim, Entry};
use crate::phase::Phase;
use crate::sync::{Arc, light};
use crate::task::raw::{Job, RawTask};
use crate::worker::{Context, Shared, current};
use std::cell::{Cell, RefCell};
use std::ptr::null;

/// Where this thread submits to the scheduler it used last.
///
/// Schedulers are told apart by address: whoever is named here is kept alive by the worker or by a lane held.
struct Last {
    /// The scheduler whose worker this is, if submits go to its ring; never changes while the worker lives.
    ring_of: Cell<*const Shared>,
    worker: Cell<*const Context>,
    /// The scheduler that `entry` belongs to.
    lane_of: Cell<*const Shared>,
    entry: Cell<*const Entry>,
}

thread_local! {
    static LAST: Last = const {
        Last {
            ring_of: Cell::new(null()),
            worker: Cell::new(null()),
            lane_of: Cell::new(null()),
            entry: Cell::new(null()),
        }
    };
    static BUSY: Cell<u32> = const { Cell::new(0) };
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
        last.ring_of.set(null());
        last.lane_of.set(null());
    });
}

/// A worker's thread submits to its own scheduler through its ring, or, if the capacity is bounded, through its lane,
/// which counts.
pub(crate) fn enter_worker(context: &Context) {
    if context.shared.credits.is_some() {
        // SAFETY: this worker's lane.
        unsafe { start(&context.shared, context.lane()) };
    }
    submit_as(context);
}

fn submit_as(context: &Context) {
    LAST.with(|last| {
        let scheduler = &raw const *context.shared;
        if context.shared.credits.is_some() {
            last.entry.set(context.lane());
            last.lane_of.set(scheduler);
        } else {
            last.worker.set(context);
            last.ring_of.set(scheduler);
        }
    });
}

/// A thread stands in for a worker: while `work` runs it submits where the worker does.
pub(crate) fn lend_worker(context: &Context, work: &dyn Fn()) {
    submit_as(context);
    work();
    forget_last();
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
    acquire_for(shared, shared.home_shard().unwrap_or(0), Aim::Thread)
}

/// A new or adopted lane of `shard`.
fn acquire_for(shared: &Shared, shard: usize, aim: Aim) -> *const Entry {
    let word = match aim {
        // Who aims at one worker looks at that worker every time: see `announce`.
        Aim::Worker(_) => &shared.restless,
        _ => &shared.words[shard],
    };
    let entry = shared.lanes.acquire(word, shard, aim);
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
    /// Take a place all the same: what was accepted before is woken.
    Force,
}

/// Why a submission gets no place.
enum Refusal {
    Full,
    Closed,
    /// The worker keeps what it was about to hand out: nothing else frees room.
    Keep,
}

impl Refusal {
    /// The end of a submission that got no place.
    ///
    /// # Safety
    /// As for [`submit`].
    #[cold]
    unsafe fn with<J: Job>(self, shared: &Shared, job: J) -> Result<(), SubmitError<J>> {
        match self {
            Refusal::Full => Err(SubmitError::Full(job)),
            Refusal::Closed => Err(shared.refusal(job)),
            Refusal::Keep => {
                let context = current().expect("only a worker keeps a task");
                // SAFETY: as for the submission.
                unsafe { context.take_in(job) };
                Ok(())
            }
        }
    }
}

/// Queues `job`.
///
/// # Safety
/// If it is accepted, the task must be run or dropped before anything `job` borrows ends.
#[inline(always)]
pub(crate) unsafe fn submit<J: Job>(shared: &Arc<Shared>, job: J, full: OnFull) -> Result<(), SubmitError<J>> {
    // Only the address leaves the closure, so that the task is not moved through it.
    // SAFETY: a thread-local without a destructor lives as long as the thread.
    let last = unsafe { &*LAST.with(std::ptr::from_ref) };
    let scheduler = &raw const **shared;
    if last.ring_of.get() == scheduler {
        // SAFETY: cleared before the context ends.
        let worker = unsafe { &*last.worker.get() };
        // SAFETY: the caller's promise.
        unsafe { worker.submit(job) };
        return Ok(());
    }
    if last.lane_of.get() != scheduler {
        // SAFETY: the caller's promise.
        return unsafe { on_other_lane(shared, apart(job), full) };
    }
    // SAFETY: this thread's lane for this scheduler; cleared before it is given up.
    let entry = unsafe { &*last.entry.get() };
    // SAFETY: this thread is the producer; the rest is the caller's promise.
    unsafe { on_lane(shared, entry, job, full) }
}

/// The scheduler is not the one this thread used last.
///
/// # Safety
/// As for [`submit`].
#[cold]
#[inline(never)]
unsafe fn on_other_lane<J: Job>(shared: &Arc<Shared>, job: J, full: OnFull) -> Result<(), SubmitError<J>> {
    match find_lane(shared) {
        // SAFETY: this thread's lane; the rest is the caller's promise.
        Ok(lease) => unsafe { on_lane(shared, lease.entry(), job, full) },
        // SAFETY: the caller's promise.
        Err(refusal) => unsafe { refusal.with(shared, job) },
    }
}

/// A copy for a cold call. What is handed to a call has an address; so that only the copy does, and the closure goes
/// from registers into its slot, the compiler must not see that the two are one.
#[inline(always)]
fn apart<J>(job: J) -> J {
    std::hint::black_box(job)
}

/// This thread's worker, if it submits to `shared` through its ring.
fn ring_worker<'a>(shared: &Shared) -> Option<&'a Context> {
    LAST.with(|last| {
        let own = std::ptr::eq(last.ring_of.get(), shared);
        // SAFETY: cleared before the context ends.
        own.then(|| unsafe { &*last.worker.get() })
    })
}

/// A lane that this thread may use now.
struct Lease<'a> {
    shared: &'a Shared,
    entry: *const Entry,
    /// The thread's locals are gone: the lane is for one submission.
    once: bool,
}

impl Lease<'_> {
    fn entry(&self) -> &Entry {
        // SAFETY: not given up before the lease.
        unsafe { &*self.entry }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if self.once {
            // SAFETY: acquired for this lease.
            unsafe { release(self.shared, self.entry) };
        }
    }
}

/// The scheduler is not the one this thread used last.
#[cold]
#[inline(never)]
fn find_lane(shared: &Arc<Shared>) -> Result<Lease<'_>, Refusal> {
    // Before any lock: in the child of a fork it may be held by nobody who lives.
    if refuses(shared) {
        return Err(Refusal::Closed);
    }
    if let Some(context) = current()
        && context.shared.id == shared.id
    {
        return Ok(Lease { shared, entry: context.lane(), once: false });
    }
    purge();
    let Ok(entry) = HELD.try_with(|held| held.borrow_mut().lane(shared)) else {
        return Ok(Lease { shared, entry: acquire(shared), once: true });
    };
    LAST.with(|last| {
        last.lane_of.set(&raw const **shared);
        last.entry.set(entry);
    });
    Ok(Lease { shared, entry, once: false })
}

impl Held {
    /// This thread's lane for `shared`.
    fn lane(&mut self, shared: &Arc<Shared>) -> *const Entry {
        // SAFETY: this thread's lanes, not given up yet.
        let own = |entry: *const Entry| unsafe { &*entry }.aim == Aim::Thread;
        if let Some((_, entry)) = self.0.iter().find(|(held, entry)| held.id == shared.id && own(*entry)) {
            return *entry;
        }
        let entry = acquire(shared);
        self.0.push((shared.clone(), entry));
        entry
    }

    /// Takes out the lanes of schedulers that have ended, unless some of this thread's lanes are in use.
    fn ended(&mut self) -> Vec<(Arc<Shared>, *const Entry)> {
        if BUSY.get() != 0 {
            return Vec::new();
        }
        let live = |shared: &Shared| matches!(shared.phase.get(), Phase::Open | Phase::Closing | Phase::Sealed);
        self.0.extract_if(.., |(shared, _)| !live(shared)).collect()
    }
}

/// This thread is inside of a call that uses a lane and runs the user's code: lanes are not given up meanwhile.
struct Busy;

impl Busy {
    fn new() -> Self {
        BUSY.set(BUSY.get() + 1);
        Busy
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.set(BUSY.get() - 1);
    }
}

/// Gives up this thread's lanes of schedulers that have ended. With the last of them go the user's hooks, whose
/// destructors may submit: nothing is borrowed then.
pub(crate) fn purge() {
    let Ok(ended) = HELD.try_with(|held| held.borrow_mut().ended()) else { return };
    for (shared, entry) in ended {
        LAST.with(|last| {
            if last.entry.get() == entry {
                last.lane_of.set(null());
            }
        });
        // SAFETY: this thread's lane, forgotten above and by `ended`.
        unsafe { release(&shared, entry) };
    }
}

/// Queues `job` on a lane.
///
/// # Safety
/// The caller is the lane's producer. If the task is accepted it must be run or dropped before anything `job` borrows
/// ends.
#[inline(always)]
unsafe fn on_lane<J: Job>(shared: &Shared, entry: &Entry, job: J, full: OnFull) -> Result<(), SubmitError<J>> {
    // SAFETY: the producer.
    let slot = match unsafe { entry.lane.reserve_with(|| rehome(shared, entry)) } {
        Some(slot) => slot,
        // SAFETY: the producer.
        None => match unsafe { slot_on_credit(shared, entry, full) } {
            Ok(slot) => slot,
            // SAFETY: the caller's promise.
            Err(refusal) => return unsafe { refusal.with(shared, apart(job)) },
        },
    };
    // SAFETY: an empty slot of ours; lifetimes are the caller's promise.
    unsafe { RawTask::write(slot, job) };
    // SAFETY: reserved and written.
    unsafe { entry.lane.commit() };
    // SAFETY: the producer.
    unsafe { entry.lane.publish() };
    light();
    // SAFETY: points into the scheduler that the caller borrows.
    let word = unsafe { &*entry.word() };
    if word.load().attention() {
        // SAFETY: the last committed task is the one of this `J`.
        return unsafe { published(shared, entry) };
    }
    Ok(())
}

/// After the publication: the fence where the mode asks for it, the closing protocol, the wake.
///
/// # Safety
/// The caller is the lane's producer, and the task committed last was written with this `J`.
#[cold]
#[inline(never)]
unsafe fn published<J: Job>(shared: &Shared, entry: &Entry) -> Result<(), SubmitError<J>> {
    let state = settle(shared, entry);
    if state.merely_fenced() && !matches!(entry.aim, Aim::Worker(_)) {
        return Ok(());
    }
    if refuses(shared) {
        // SAFETY: the producer.
        let position = unsafe { entry.lane.position() } - 1;
        // SAFETY: the producer; everything committed is published.
        if unsafe { entry.lane.withdraw(position) } == position {
            // SAFETY: withdrawn, nothing reserved since.
            let slot = unsafe { entry.lane.slot_at(position) };
            // SAFETY: written with this `J`.
            return Err(shared.refusal(unsafe { RawTask::take_back(slot) }));
        }
    }
    announce(shared, entry, state);
    Ok(())
}

/// The decisive reading of the idle word after a publication on the lane.
fn settle(shared: &Shared, entry: &Entry) -> State {
    // The word of a lane that aims at one worker is never calm, and says nothing.
    shared.words[entry.shard()].settle()
}

/// Wakes somebody for what was published on the lane, if that is called for.
fn announce(shared: &Shared, entry: &Entry, state: State) {
    match entry.aim {
        Aim::Worker(worker) => shared.notify_worker(worker),
        _ if state.look() => shared.notify(entry.shard(), entry.lane.backlog()),
        _ => {}
    }
}

/// Once per block: has the submitting thread moved to another node or cache? Then its lane moves with it.
fn rehome(shared: &Shared, entry: &Entry) {
    if shared.words.len() > 1 && entry.aim == Aim::Thread {
        shared.move_lane(entry);
    }
}

/// The scheduler takes nothing from here any more. Its own workers may go on: their tasks belong to what is drained.
fn refuses(shared: &Shared) -> bool {
    match shared.phase.get() {
        Phase::Open => false,
        Phase::Forked | Phase::Finished => true,
        Phase::Closing | Phase::Sealed => !is_worker_of(shared),
    }
}

/// The lane has used its credits: a slot for more of them.
///
/// # Safety
/// The caller is the lane's producer.
#[cold]
#[inline(never)]
unsafe fn slot_on_credit(shared: &Shared, entry: &Entry, full: OnFull) -> Result<*mut RawTask, Refusal> {
    let credits = shared.credits.as_ref().expect("only a bounded scheduler limits its lanes");
    loop {
        if refuses(shared) {
            return Err(Refusal::Closed);
        }
        // A 64th of what is left: many lanes together never sit on all of it.
        let share = (credits.available() / 64).clamp(1, credits.unit());
        let mut granted = credits.take(share);
        if granted == 0 && full == OnFull::Wait && !is_worker_of(shared) {
            match credits.acquire(1, || refuses(shared)) {
                Acquired::Credits(got) => granted = got,
                Acquired::Stopped => return Err(Refusal::Closed),
            }
        }
        if granted != 0 {
            // SAFETY: the producer.
            let limit = unsafe { entry.lane.limit() };
            // SAFETY: the producer.
            unsafe { entry.lane.set_limit(limit + granted) };
        } else if full == OnFull::Force {
            credits.borrow_one();
            // SAFETY: the producer.
            let limit = unsafe { entry.lane.limit() };
            // SAFETY: the producer.
            unsafe { entry.lane.set_limit(limit + 1) };
        } else if full == OnFull::Refuse {
            return Err(Refusal::Full);
        } else if !current().is_some_and(Context::help_once) {
            return Err(Refusal::Keep);
        }
        // What the worker has run meanwhile may have submitted here: ask again rather than count.
        // SAFETY: the producer.
        if let Some(slot) = unsafe { entry.lane.reserve_with(|| rehome(shared, entry)) } {
            return Ok(slot);
        }
    }
}

fn is_worker_of(shared: &Shared) -> bool {
    current().is_some_and(|context| context.shared.id == shared.id)
}
