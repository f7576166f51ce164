//! The owner's half of a worker: it lives on the worker's stack and never leaves its thread.
#![expect(unsafe_code, reason = "the owner's handles of its queues, and the thread's current context")]

use super::io::Wires;
use super::remote::Remote;
use super::shared::Shared;
use crate::config::{BATCH, MASK_CHECKS, STACK_RESERVE};
use crate::driver::Ring;
use crate::idle::{IdleWord, State};
use crate::lanes::{Aim, Entry};
use crate::park::Parker;
use crate::policy::{Rounds, Victims};
use crate::queue::{forks, local};
use crate::roll::Roll;
use crate::sync::{Arc, Registration, Relaxed, full_fence, light, ticks_per_us};
use crate::task::cells::Cells;
use crate::task::raw::{Header, Job, RawTask, Verb};
use crate::task::waiting::{drop_quietly, report_unseen_to};
use numa::PinCheck;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;

thread_local! {
    pub(super) static CURRENT: Cell<*const Context> = const { Cell::new(null()) };
}

/// The context of the calling thread, if it is a worker.
///
/// The reference is good until the worker's main function returns, which is longer than any task.
#[inline(always)]
pub fn current<'a>() -> Option<&'a Context> {
    // SAFETY: set by `Context::enter` for as long as the context lives on this thread's stack.
    unsafe { CURRENT.get().as_ref() }
}

/// The end of a panic that no handle receives.
fn unseen(payload: Box<dyn Any + Send>) {
    match current() {
        Some(context) => context.panicked(payload),
        None => drop_quietly(payload),
    }
}

/// The owner's half of a worker.
pub struct Context {
    /// The scheduler; keeps its memory, not its workers.
    pub shared: Arc<Shared>,
    /// Index of this worker.
    pub index: usize,
    pub(super) me: *const Remote,
    pub(super) word: *const IdleWord,
    /// This thread's cells.
    pub cells: *const Cells,
    pub(super) scanner: Registration,
    /// Other workers, nearest first.
    pub(super) victims: Victims,
    /// Rounds of the present search that have found nothing.
    pub(super) rounds: Cell<Rounds>,
    /// There are workers on other nodes.
    pub(super) apart: bool,
    /// Streaks run, for what happens once in a while.
    pub(super) streaks: Cell<u32>,
    /// Mean time of recent tasks, and how many in a row were short.
    pub(super) mean_ns: Cell<u64>,
    pub(super) short_run: Cell<u32>,
    /// Spin before a park, in ticks; adapts between an eighth of the limit and the limit.
    pub(super) spin: Cell<u64>,
    pub(super) ticks_per_us: u64,
    /// Where the last claim found tasks.
    pub(super) lane_start: Cell<usize>,
    pub(super) turn: Cell<u32>,
    /// This worker's own lane, for what its ring cannot hold.
    own_lane: Cell<*const Entry>,
    /// Per worker: tasks it had run when this worker last looked.
    pub(super) seen: Box<[Cell<u64>]>,
    /// The victim of the fork that was stolen last, and when; until it has run.
    pub(super) stolen_fork: Cell<Option<(u32, u64)>>,
    /// As the standby it has seen nobody get on: its next search asks for fine forks, too.
    pub(super) insist: Cell<bool>,
    /// What is done to tasks, and how many had run when that became to drop them.
    pub(super) verb: Cell<Verb>,
    pub(super) dropped_from: Cell<u64>,
    /// When the system last refused a spare thread, in ticks; 0: never.
    pub(super) refused: Cell<u64>,
    pub(super) stack_floor: Cell<usize>,
    pub(super) stack_reserve: usize,
    /// Its ring.
    pub(super) wires: Wires,
    /// Where this thread is held; `None` in models.
    binding: RefCell<Option<numa::Binding>>,
    /// Looks at it.
    looks: Cell<u32>,
}

impl Context {
    /// The context of worker `index` for the calling thread, which must be its thread.
    pub fn new(shared: &Arc<Shared>, index: usize, cells: &Cells, stack_floor: usize) -> Self {
        let me: &Remote = &shared.workers[index];
        if shared.mode.is_bare() {
            me.forks.fence_pops();
        }
        let rate = ticks_per_us();
        Context {
            shared: shared.clone(),
            index,
            me,
            word: &shared.words[me.shard],
            cells,
            scanner: shared.lanes.scanner(),
            victims: victims(shared, index),
            rounds: Cell::new(Rounds::FRESH),
            apart: shared.layout.is_apart(),
            streaks: Cell::new(0),
            mean_ns: Cell::new(0),
            short_run: Cell::new(0),
            spin: Cell::new(shared.spin.as_micros() as u64 * rate),
            ticks_per_us: rate,
            lane_start: Cell::new(index),
            turn: Cell::new(0),
            own_lane: Cell::new(null()),
            seen: shared.workers.iter().map(|_| Cell::new(0)).collect(),
            stolen_fork: Cell::new(None),
            insist: Cell::new(false),
            verb: Cell::new(Verb::RUN),
            dropped_from: Cell::new(0),
            refused: Cell::new(0),
            stack_floor: Cell::new(stack_floor),
            stack_reserve: STACK_RESERVE.min(shared.stack_size / 4),
            wires: Wires::new(None),
            binding: RefCell::new(None),
            looks: Cell::new(0),
        }
    }

    /// The same, with a ring that this thread has opened.
    pub fn wired_by(mut self, ring: Option<Ring>) -> Self {
        self.wires = Wires::new(ring);
        self
    }

    /// The same, held where `binding` says.
    pub fn bound_by(self, binding: numa::Binding) -> Self {
        self.binding.replace(Some(binding));
        self
    }

    /// Is this thread still where its seat is? The kernel takes a binding away without a word. If it did, the loss is
    /// counted and the thread bound again, or it goes on unbound and tries again at the next look. A few nanoseconds
    /// while all is well.
    pub(super) fn check_binding(&self) {
        let looks = self.looks.get().wrapping_add(1);
        self.looks.set(looks);
        self.look_at_binding(looks.is_multiple_of(MASK_CHECKS));
    }

    /// After a sleep: where the kernel has woken this thread up. What it may have changed meanwhile is seen before the
    /// first task runs far from home, and not only before the next sleep.
    pub(super) fn check_waking_place(&self) {
        self.look_at_binding(false);
    }

    /// `mask`: also whether the thread may go elsewhere, at the price of a system call.
    fn look_at_binding(&self, mask: bool) {
        let mut binding = self.binding.borrow_mut();
        let Some(binding) = binding.as_mut() else { return };
        let found = if mask { binding.check_mask() } else { binding.check() };
        if !matches!(found, PinCheck::Held | PinCheck::Unbound) {
            let counters = &self.me().counters.0;
            counters.pin_losses.set(binding.losses());
            counters.pin_repairs.set(binding.repairs());
            // Relaxed: a statistic.
            self.me().unbound.store(u32::from(binding.error().is_some()), Relaxed);
        }
    }

    /// Runs `f` with this context as the thread's current one.
    pub fn enter(&self, f: impl FnOnce()) {
        report_unseen_to(unseen);
        CURRENT.set(self);
        f();
        CURRENT.set(null());
        let lane = self.own_lane.replace(null());
        if !lane.is_null() {
            // SAFETY: acquired by this worker, which uses it no more.
            unsafe { self.shared.lanes.release(lane) };
        }
    }

    /// What others may touch of this worker.
    #[inline(always)]
    pub(super) fn me(&self) -> &Remote {
        // SAFETY: points into `shared`, which this context keeps.
        unsafe { &*self.me }
    }

    /// The idle word of this worker's shard.
    #[inline(always)]
    pub(super) fn word(&self) -> &IdleWord {
        // SAFETY: points into `shared`, which this context keeps.
        unsafe { &*self.word }
    }

    /// This thread's cells.
    #[inline(always)]
    pub fn cells(&self) -> &Cells {
        // SAFETY: the worker's main function keeps them for longer than the context.
        unsafe { &*self.cells }
    }

    /// The owner's side of the ring.
    #[inline(always)]
    pub(super) fn ring(&self) -> local::Owner<'_, Header, { crate::config::RING }> {
        // SAFETY: a context is the only user of its worker's owner side, and does not leave its thread.
        unsafe { self.me().ring.owner() }
    }

    /// The owner's side of the fork stack.
    #[inline(always)]
    pub(super) fn forks(&self) -> forks::Owner<'_, Header, { crate::config::FORKS }> {
        // SAFETY: as for the ring; `join` pairs every push with one pop, newest first.
        unsafe { self.me().forks.owner() }
    }

    // ---- submit ----------------------------------------------------------------------------------------------

    /// Queues `f` on this worker. Never fails and never blocks: a full ring spills into this worker's lane.
    ///
    /// # Safety
    /// The task must be run or dropped before anything `f` borrows ends.
    #[inline(always)]
    pub unsafe fn submit<F: Job>(&self, f: F) {
        let cell = self.cells().take();
        // SAFETY: a fresh cell; lifetimes are the caller's promise.
        unsafe { RawTask::write(cell, f) };
        if self.ring().push(cell.cast()).is_err() {
            self.spill(cell);
        }
        self.poll();
    }

    /// Queues `f` behind what this worker has: in its own lane. It will come back for it, so this alone wakes nobody.
    ///
    /// # Safety
    /// As for [`Context::submit`].
    pub unsafe fn submit_last<F: Job>(&self, f: F) {
        let lane = &self.lane().lane;
        // SAFETY: this worker owns the lane, and runs no user code before the commit.
        let slot = unsafe { lane.reserve() }.expect("a worker's own lane has no limit");
        // SAFETY: a fresh slot; lifetimes are the caller's promise.
        unsafe { RawTask::write(slot, f) };
        // SAFETY: reserved and written.
        unsafe { lane.commit() };
        // SAFETY: this worker owns the lane.
        unsafe { lane.publish() };
        self.poll();
    }

    /// Where this worker sleeps.
    pub fn parker(&self) -> &Arc<Parker> {
        &self.me().parker
    }

    /// The roll of this worker.
    pub fn roll(&self) -> &Roll<Header> {
        &self.me().roll
    }

    /// A bounded scheduler has no room, and nothing else is there to run: the job goes onto the ring, as if claimed
    /// already, or runs here.
    ///
    /// # Safety
    /// As for [`Context::submit`].
    pub unsafe fn take_in<J: Job>(&self, job: J) {
        if self.ring().room(1) != 0 {
            // SAFETY: the caller's promise.
            return unsafe { self.submit(job) };
        }
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.with_stack(|| job.run()))) {
            self.panicked(payload);
        }
    }

    /// The ring is full: the oldest tasks move to this worker's lane, where everybody looks, then `cell` fits.
    #[cold]
    #[inline(never)]
    fn spill(&self, cell: *mut RawTask) {
        let mut batch = [MaybeUninit::uninit(); BATCH as usize];
        // The cells of a batch come back on top of those that this streak has given back.
        self.cells().trim();
        self.ring().publish(BATCH as u32);
        for &mut task in self.me().ring.claim(&mut batch, |n| n) {
            self.to_lane(task.cast());
        }
        self.cells().trim();
        self.me().counters.0.spills.add(BATCH);
        if self.ring().push(cell.cast()).is_err() {
            // Thieves have made no room either, they have published nothing new: the newest goes the same way.
            self.to_lane(cell);
        }
    }

    /// Moves a cell's task into this worker's lane.
    fn to_lane(&self, cell: *mut RawTask) {
        let lane = &self.lane().lane;
        // SAFETY: this worker owns the lane, and runs no user code before the commit.
        let slot = unsafe { lane.reserve() }.expect("a worker's own lane has no limit");
        // SAFETY: a claimed task, and a fresh slot.
        unsafe { RawTask::relocate(cell, slot) };
        // SAFETY: reserved and written.
        unsafe { lane.commit() };
        // SAFETY: this worker owns the lane.
        unsafe { lane.publish() };
        // SAFETY: its task has moved out.
        unsafe { self.cells().put(cell) };
    }

    /// This worker's lane; registered at first use.
    pub fn lane(&self) -> &Entry {
        if self.own_lane.get().is_null() {
            self.own_lane.set(self.shared.lanes.acquire(self.word, self.me().shard, Aim::Node));
        }
        // SAFETY: acquired above or before, and released only when the worker leaves.
        unsafe { &*self.own_lane.get() }
    }

    /// Announces a latent fork. False: too many are nested, run it inline.
    #[inline(always)]
    pub fn push_fork(&self, frame: *mut Header) -> bool {
        let me = self.me();
        // SAFETY: as for `forks`.
        if !unsafe { me.forks.owner() }.push(frame) {
            return false;
        }
        // As in `poll`; a fork that is not worth a wake heeds less.
        light();
        if self.word().load().asks(me.heed()) {
            self.attend();
        }
        true
    }

    /// Settles the newest latent fork. True: it is the caller's. False: a thief has it, or had it.
    #[inline(always)]
    pub fn pop_fork(&self) -> bool {
        self.forks().pop(light)
    }

    // ---- hungry and parked peers -----------------------------------------------------------------------------

    /// One load and one test: does anybody want something of this worker? It comes after the push, for a parker's heavy
    /// side at least.
    #[inline(always)]
    pub(super) fn poll(&self) {
        light();
        if self.word().load().attention() {
            self.attend();
        }
    }

    /// The light side of the barrier in the middle of a pop, and the poll with it: what is popped is out of reach
    /// already, what is left may be given away.
    #[inline(always)]
    pub(super) fn between(&self, word: &IdleWord) {
        light();
        if word.load().attention() {
            self.attend_pop();
        }
    }

    /// After a push: somebody is hungry, or parked with nobody looking, or the mode asks for a fence.
    #[cold]
    #[inline(never)]
    pub(super) fn attend(&self) {
        let mut state = self.word().load();
        if state.fenced() {
            // The light side of a push against a parker in the fence mode.
            full_fence("B4");
            state = self.word().load();
        }
        if self.shall_give(state) {
            self.give(state);
        }
    }

    /// Forks that are not worth a theft wake nobody as long as a standby would find them.
    #[inline(always)]
    fn shall_give(&self, state: State) -> bool {
        let worth = || self.me().public_len() != 0 || self.me().hidden().worth_a_wake(state.standby());
        state.hungry() || state.look() && worth()
    }

    /// The same in the middle of a pop.
    #[cold]
    #[inline(never)]
    fn attend_pop(&self) {
        let state = self.word().load();
        if state.bare() {
            // The light side of a pop against a rescue where there is no membarrier.
            full_fence("B6");
        }
        if state.closed() {
            self.look_for_abort();
        }
        if self.shall_give(state) {
            self.give(state);
        }
    }

    /// Publishes for the hungry, and wakes somebody if there is something to have.
    #[cold]
    #[inline(never)]
    fn give(&self, state: State) {
        #[cfg(feature = "measure")]
        if self.shared.tuning.no_steal {
            return;
        }
        let (tasks, forks) = (self.ring().private_len(), self.me().forks.private_len());
        let mut public = self.me().public_len();
        if tasks + forks != 0 && (state.hungry() || public == 0 && tasks + forks > 1) {
            // The oldest fork is the largest piece of work there is.
            if forks == 0 || !self.forks().publish() {
                self.ring().publish(tasks.div_ceil(2));
            }
            public = self.me().public_len();
            self.word().clear_hungry();
        } else if tasks + forks == 0 && state.hungry() {
            self.word().clear_asked();
        }
        // A single private task wakes nobody as long as a standby would find it.
        if state.look() && (public != 0 || tasks + forks != 0 && !state.standby()) {
            self.shared.notify(self.me().shard, self.own_backlog());
        }
    }

    /// What this worker has queued, as a number of tasks. A fork is the larger part of something.
    pub(super) fn own_backlog(&self) -> u64 {
        let forks = self.me().forks.private_len() + self.me().forks.public_len();
        let tasks = u64::from(self.me().ring.private_hint() + self.me().ring.public_len());
        if forks != 0 { u64::MAX } else { tasks }
    }

    /// This worker is marked and counted as fast.
    pub(super) fn is_fast(&self) -> bool {
        self.me().is_fast()
    }

    /// Nanoseconds of `ticks`.
    pub(super) fn ns(&self, ticks: u64) -> u64 {
        ticks.saturating_mul(1000) / self.ticks_per_us
    }
}

/// Whom worker `index` may ask.
fn victims(shared: &Shared, index: usize) -> Victims {
    #[cfg(feature = "measure")]
    if shared.tuning.no_steal {
        return Victims::default();
    }
    Victims::new(&shared.layout, &shared.topology, index)
}
