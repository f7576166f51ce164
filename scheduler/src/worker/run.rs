//! The main loop: run streaks of tasks, learn how long they take, look further when there are none.
#![expect(unsafe_code, reason = "calls the function word of a task")]

use super::context::Context;
use super::remote::Remote;
use super::search::Outcome;
use crate::config::{LONG_NS, SHORT_NS, SHORT_RUN, STREAK, WAKE_COST_NS};
use crate::sync::{Relaxed, ticks};
use crate::task::cells::Cells;
use crate::task::raw::{Header, Verb};
use crate::task::waiting::drop_quietly;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Context {
    /// Works until the scheduler has finished.
    pub fn main(&self) {
        loop {
            while self.run_streak() {}
            match self.search(None) {
                Outcome::Task(task) => self.run_found(task),
                Outcome::Again => {}
                Outcome::Finished => return,
            }
        }
    }

    /// Runs (or, when aborting, drops) one task. It may unwind.
    #[inline(always)]
    fn run(me: &Remote, cells: &Cells, task: *mut Header, verb: Verb) {
        me.counters.0.tasks.add(1);
        #[cfg(feature = "measure")]
        me.record.took(me.ring.public_len() + me.ring.private_hint());
        // SAFETY: a task comes out of a queue exactly once, so it is ours; the header is valid until it is called.
        let run = unsafe { (*task).run };
        // SAFETY: as above; the cells are this thread's.
        unsafe { run(task, cells, verb) };
    }

    /// Runs one task; a panic is counted and reported, not passed on.
    pub(super) fn run_guarded(&self, task: *mut Header) {
        // Whatever ran before has given back as many cells as there is room for.
        self.cells().trim();
        self.look_for_abort();
        let verb = self.verb.get();
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| Self::run(self.me(), self.cells(), task, verb))) {
            self.panicked(payload);
        }
        self.count_dropped();
        self.cells().trim();
    }

    /// From now on tasks are dropped, if the scheduler aborts. Called when the idle word says that it is closed, so
    /// that the innermost loop need not ask.
    pub(super) fn look_for_abort(&self) {
        if self.verb.get() == Verb::RUN && self.shared.phase.aborting() {
            self.verb.set(Verb::DROP);
            self.dropped_from.set(self.me().counters.0.tasks.get());
        }
    }

    #[inline]
    fn count_dropped(&self) {
        if self.verb.get() == Verb::DROP {
            let tasks = self.me().counters.0.tasks.get();
            // Relaxed: a statistic.
            self.shared.dropped.fetch_add(tasks - self.dropped_from.replace(tasks), Relaxed);
        }
    }

    /// A detached task has panicked. The one place where such a payload ends.
    #[cold]
    #[inline(never)]
    pub fn panicked(&self, payload: Box<dyn Any + Send>) {
        self.me().counters.0.panics.add(1);
        // A hook or a payload whose destructor panics must not take the worker with it.
        let guarded = catch_unwind(AssertUnwindSafe(|| {
            if let Some(hook) = &self.shared.hooks.panicked {
                hook(&*payload);
            }
        }));
        drop_quietly(payload);
        if let Err(second) = guarded {
            drop_quietly(second);
        }
    }

    /// Up to [`STREAK`] tasks, newest first, then the oldest. False: nothing of its own and nothing in the lanes.
    fn run_streak(&self) -> bool {
        self.cells().trim();
        let began = ticks();
        let before = self.me().counters.0.tasks.get();
        self.look_for_abort();
        // Relaxed, here and below: whoever begins later is noticed at the next streak.
        let mut left = if self.shared.wired.load(Relaxed) { self.streak_between_looks() } else { STREAK };
        let more = loop {
            // One landing pad for the whole streak: isolation costs nothing per task.
            let ended = catch_unwind(AssertUnwindSafe(|| self.run_some(&mut left)));
            match ended {
                Ok(more) => break more,
                Err(payload) => self.panicked(payload),
            }
        };
        // Nested waits have run tasks of their own, and learnt nothing from them: the mean covers them, too.
        let done = self.me().counters.0.tasks.get() - before;
        self.count_dropped();
        if done != 0 {
            self.learn(self.ns(ticks().wrapping_sub(began)), done);
        }
        // What that wakes is in the own queue, where a search does not look.
        let woken = self.shared.timed.load(Relaxed) && self.keep_all_time();
        if more && let Some(task) = self.oldest() {
            self.run_guarded(task);
        }
        // Last, so that it is on top: what others push there would hide it from the next streak.
        let told = self.shared.wired.load(Relaxed) && self.keep_io();
        more || woken || told
    }

    /// The innermost loop. What it uses of the context is loaded once: the tasks in between could have changed
    /// anything.
    #[inline(always)]
    fn run_some(&self, left: &mut u32) -> bool {
        let (me, word, cells, ring) = (self.me(), self.word(), self.cells(), self.ring());
        while *left != 0 {
            let mut task = ring.pop_or_null(|| self.between(word));
            if task.is_null() {
                let Some(found) = self.refill() else { return false };
                task = found;
            }
            *left -= 1;
            Self::run(me, cells, task, self.verb.get());
        }
        true
    }

    /// Adjusts the batch size, the mark and the wake policy to what the last streak took.
    fn learn(&self, total_ns: u64, done: u64) {
        let each = self.shared.tuning.task_ns.unwrap_or(total_ns / done);
        let weight = done.min(8);
        self.mean_ns.set((self.mean_ns.get() * (8 - weight) + each * weight) / 8);
        let run = if each < SHORT_NS { self.short_run.get().saturating_add(done as u32) } else { 0 };
        self.short_run.set(run);
        if self.is_fast() {
            if self.mean_ns.get() > LONG_NS {
                self.slow_down();
            } else {
                self.wake_for_backlog();
            }
        } else if run >= SHORT_RUN && !self.shared.tuning.no_standby && self.mean_ns.get() < SHORT_NS {
            self.speed_up();
        }
    }

    /// Becomes fast: submitters need wake nobody while this worker is awake. Somebody must watch it.
    #[cold]
    fn speed_up(&self) {
        let state = self.word().count_fast();
        self.me().mark_fast();
        let idle = state.idle() != 0 || self.shared.words.len() > 1;
        if idle && !self.shared.watched() {
            self.shared.wake_near(self.me().shard, true, u64::MAX);
        }
    }

    /// Stops being fast. Submitters may have relied on it until now.
    #[cold]
    pub(super) fn slow_down(&self) {
        if self.me().unmark_fast() {
            self.word().uncount_fast();
            self.look_after_demotion();
        }
    }

    /// After a fast worker was uncounted, by itself or by the standby: what was submitted meanwhile has woken nobody.
    pub(super) fn look_after_demotion(&self) {
        let sure = self.shared.heavy_side();
        if !sure || self.backlog() || self.me().public_len() != 0 {
            self.shared.notify(self.me().shard, u64::MAX);
        }
    }

    /// A fast worker wakes a second one only when the backlog is worth more time than the wake costs.
    #[inline]
    fn wake_for_backlog(&self) {
        let state = self.word().load();
        if state.searching() == 0 && (state.idle() != 0 || self.shared.words.len() > 1) {
            self.weigh_backlog();
        }
    }

    #[cold]
    fn weigh_backlog(&self) {
        let own = u64::from(self.me().public_len() + self.me().private_hint());
        if own.saturating_add(self.lane_backlog()).saturating_mul(self.mean_ns.get()) > WAKE_COST_NS {
            self.shared.wake_near(self.me().shard, true, u64::MAX);
        }
    }
}

/// Runs scheduler code that must not unwind, because somebody else uses this stack or waits for this thread.
pub fn without_unwinding<R>(f: impl FnOnce() -> R) -> R {
    struct Abort;
    impl Drop for Abort {
        fn drop(&mut self) {
            std::process::abort();
        }
    }
    let abort = Abort;
    let result = f();
    let _done = std::mem::ManuallyDrop::new(abort);
    result
}
