//! When a worker looks at timers: its own, and those of others who do not get to it. The protocol is in the README of
//! [timers](crate::timer), events T1 to T6.

#![expect(unsafe_code, reason = "nodes that their owners keep in place")]

use super::context::Context;
use crate::sync::{Arc, Relaxed, nanos};
use crate::timer::{GRACE, NEVER, Node, Timers, tick_at, until};
use std::pin::Pin;
use std::task::Waker;
use std::time::Duration;

/// Streaks of 64 tasks after which a busy worker looks at the timers of the others.
const ROUNDS: u32 = 16;

impl Context {
    /// The timers of this worker; who asks is about to insert one.
    pub fn timers(&self) -> &Arc<Timers> {
        if !self.shared.timed.load(Relaxed) {
            // Relaxed: others look at timers a little later.
            self.shared.timed.store(true, Relaxed);
        }
        &self.me().timers
    }

    /// Between tasks of a worker that waits: fires what is due.
    #[inline(always)]
    pub(super) fn keep_time(&self) {
        if self.me().timers.next() != NEVER {
            self.fire_own();
        }
    }

    /// Fires what is due here. True: something was.
    #[cold]
    fn fire_own(&self) -> bool {
        let now = tick_at(nanos());
        self.me().timers.next() <= now && self.me().timers.turn(now) != 0
    }

    /// After a streak, if there are timers: fires what is due, and now and then what others are late with. True:
    /// something was fired.
    #[cold]
    pub(super) fn keep_all_time(&self) -> bool {
        let own = self.me().timers.next() != NEVER && self.fire_own();
        let others = self.turn.get().is_multiple_of(ROUNDS) && self.fire_for_others();
        own || others
    }

    /// A searcher's look: its own timers, and those of whoever is late. True: something was fired, so there may be
    /// tasks in the own queue.
    pub(super) fn fire_due(&self) -> bool {
        self.shared.timed.load(Relaxed)
            && (self.me().timers.next() != NEVER && self.fire_own() || self.fire_for_others())
    }

    /// The timers that should have been fired a while ago.
    fn late(&self, now: u64) -> impl Iterator<Item = &Arc<Timers>> {
        let others = self.shared.workers.iter().map(|worker| &worker.timers);
        others.filter(move |timers| timers.next() != NEVER && timers.next() + GRACE <= now)
    }

    /// The standby's look.
    pub(super) fn others_late(&self) -> bool {
        self.shared.timed.load(Relaxed) && self.late(tick_at(nanos())).next().is_some()
    }

    /// Fires what others should have fired a while ago.
    #[cold]
    fn fire_for_others(&self) -> bool {
        let now = tick_at(nanos());
        self.late(now).map(|timers| timers.turn_for_owner(now)).sum::<usize>() != 0
    }

    /// This worker is about to sleep, at most for `limit`: and not beyond its own next timer, nor until the next
    /// worker, whom it guards, is a while late with its one. Zero: something is due.
    pub(super) fn set_alarm(&self, limit: Option<Duration>) -> Option<Duration> {
        if !self.shared.timed.load(Relaxed) {
            // The alarm is still what it was at first: whoever inserts the first timer unparks this worker.
            return limit;
        }
        let workers = &self.shared.workers;
        let first = self.me().alarm.set(&self.me().timers, &workers[(self.index + 1) % workers.len()].timers);
        if limit.is_some() {
            // It looks around soon in any case.
            self.me().alarm.clear();
        }
        let timer = (first != NEVER).then(|| Duration::from_nanos(until(first, nanos())));
        shorter(limit, timer)
    }

    /// This worker is awake.
    pub(super) fn clear_alarm(&self) {
        if self.shared.timed.load(Relaxed) {
            self.me().alarm.clear();
        }
    }

    /// A timer was inserted that comes before all others: the worker that guards them must not sleep longer than that.
    #[cold]
    fn wake_guard(&self) {
        let workers = &self.shared.workers;
        let guard = &workers[(self.index + workers.len() - 1) % workers.len()];
        if workers.len() > 1 && guard.alarm.misses(&self.me().timers) && guard.parker.unpark() {
            // Relaxed: a statistic.
            self.shared.wakes.fetch_add(1, Relaxed);
        }
    }

    /// Inserts a timer.
    ///
    /// # Safety
    /// 1. As for [`Timers::insert`].
    pub unsafe fn insert_timer(&self, node: Pin<&Node>, tick: u64, waker: Waker) -> Arc<Timers> {
        let timers = self.timers().clone();
        // SAFETY: 1; this worker's.
        if unsafe { timers.insert(node, tick, waker) } {
            self.wake_guard();
        }
        timers
    }

    /// Somebody who is up has timers: worth a standby, who looks whether they are fired.
    pub(super) fn is_timed(&self, worker: usize) -> bool {
        self.shared.workers[worker].timers.next() != NEVER
    }
}

/// The shorter of two limits.
pub(super) fn shorter(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
