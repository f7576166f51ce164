//! Where the next task comes from. The order is one chain: own private part, own public part, lanes; then, for a
//! searcher, the lanes again, and the other workers nearest first.
#![expect(unsafe_code, reason = "moves tasks from lane slots into cells")]

use super::context::Context;
use crate::config::{BATCH, STEAL_MAX};
use crate::sync::Pin;
use crate::task::raw::{Header, RawTask};
use std::mem::MaybeUninit;

impl Context {
    /// The newest private task, else a batch from further away.
    #[inline(always)]
    pub(super) fn next(&self) -> Option<*mut Header> {
        self.ring().pop(|| self.between(self.word())).or_else(|| self.refill())
    }

    /// The private part is empty: a batch of the own public part, then of the lanes.
    #[inline(never)]
    pub(super) fn refill(&self) -> Option<*mut Header> {
        self.cells().trim();
        let mut batch = [MaybeUninit::uninit(); BATCH as usize];
        if self.me().ring.public_len() != 0 {
            let tasks = self.me().ring.claim(&mut batch, |n| n);
            if !tasks.is_empty() {
                return self.keep(tasks);
            }
        }
        self.claim(&self.scanner.pin())
    }

    /// The first of a batch; the others stay on the ring, in reach of thieves, oldest on top.
    fn keep(&self, tasks: &mut [*mut Header]) -> Option<*mut Header> {
        let (&mut first, rest) = tasks.split_first_mut()?;
        if !rest.is_empty() {
            self.ring().push_many(&mut rest.iter().rev().copied());
        }
        Some(first)
    }

    /// Claims a batch from the first lane that has one, beginning where the last claim was. The oldest task is
    /// returned, the others are on the ring then, oldest on top.
    #[inline]
    pub(super) fn claim(&self, pin: &Pin) -> Option<*mut Header> {
        let wanted = if self.is_fast() { BATCH as u32 } else { 1 };
        let limit = self.ring().room(wanted).min(wanted);
        self.cells().reserve(limit as usize);
        let (cells, pen) = (self.cells().peek(limit as usize), self.ring().pen());
        let last = limit.wrapping_sub(1) as usize;
        let start = self.lane_start.get();
        let (taken, at) = self.shared.lanes.scan(pin, start, |entry| {
            let claim = entry.lane.claim_counted(pin, u64::from(limit), |slot, after| {
                // SAFETY: fewer than `limit` follow.
                let cell = unsafe { cells.get_unchecked(last - after as usize) }.get();
                // SAFETY: the lane gives every claimed slot to us once; the cell is fresh.
                unsafe { RawTask::relocate(slot, cell.cast()) };
                // SAFETY: there is room for `limit`, and nothing is pushed meanwhile.
                unsafe { pen.write(after as u32, cell.cast()) };
            });
            (claim.taken != 0).then_some(claim.taken as u32)
        })?;
        let oldest = cells[limit as usize - taken as usize].get();
        self.cells().take_many(taken as usize);
        self.claimed(taken, at);
        if taken > 1 {
            // SAFETY: all but the oldest lie below it.
            unsafe { self.ring().advance(taken - 1) };
        }
        Some(oldest.cast())
    }

    /// Books a claim: its credits are free again, and after a few batches the next lane gets its turn.
    #[inline(always)]
    fn claimed(&self, taken: u32, at: usize) {
        if let Some(credits) = &self.shared.credits {
            credits.give(u64::from(taken));
        }
        self.me().counters.0.claims.add(1);
        let turn = self.turn.get().wrapping_add(1);
        self.turn.set(turn);
        self.lane_start.set(if turn.is_multiple_of(4) { at + 1 } else { at });
    }

    /// The oldest task of all that is this worker's, every streak; every fourth time the lanes go first.
    #[cold]
    #[inline(never)]
    pub(super) fn oldest(&self) -> Option<*mut Header> {
        let turn = self.turn.get().wrapping_add(1);
        self.turn.set(turn);
        if turn.is_multiple_of(4)
            && let Some(task) = self.claim(&self.scanner.pin())
        {
            return Some(task);
        }
        if self.ring().private_len() > 1 && self.me().ring.public_len() == 0 {
            self.ring().publish(1);
        }
        let mut one = [MaybeUninit::uninit()];
        self.me().ring.claim(&mut one, |_| 1).first().copied()
    }

    /// Takes half of what the nearest victim with public work has, at most [`STEAL_MAX`]; a fork counts for more.
    pub(super) fn steal(&self) -> Option<*mut Header> {
        for &victim in &self.victims {
            let victim = &self.shared.workers[victim as usize];
            if victim.public_len() == 0 {
                continue;
            }
            if let Some(fork) = victim.forks.steal() {
                self.count_steal(1);
                return Some(fork);
            }
            let mut batch = [MaybeUninit::uninit(); STEAL_MAX];
            let tasks = victim.ring.claim(&mut batch, |n| n.div_ceil(2));
            if !tasks.is_empty() {
                self.count_steal(tasks.len() as u64);
                return self.keep(tasks);
            }
        }
        None
    }

    fn count_steal(&self, tasks: u64) {
        self.me().counters.0.steals.add(1);
        self.me().counters.0.stolen.add(tasks);
    }

    /// Publishes on behalf of owners that do not answer. True: something can be stolen now.
    #[cold]
    pub(super) fn rescue(&self) -> bool {
        for &victim in &self.victims {
            let victim = &self.shared.workers[victim as usize];
            let heavy = || self.shared.heavy_side();
            if victim.forks.private_len() != 0 && victim.forks.rescue(heavy)
                || victim.ring.private_hint() != 0 && victim.ring.rescue(heavy)
            {
                self.me().counters.0.rescues.add(1);
                return true;
            }
        }
        false
    }

    /// Some lane holds tasks.
    pub(super) fn backlog(&self) -> bool {
        self.shared.backlog(&self.scanner.pin())
    }

    /// Tasks in the lanes, up to a number that justifies any decision.
    pub(super) fn lane_backlog(&self) -> u64 {
        let mut sum = 0;
        self.shared.lanes.scan(&self.scanner.pin(), 0, |entry| -> Option<()> {
            sum += entry.lane.backlog();
            None
        });
        sum
    }

    /// Another worker has tasks that can be stolen now.
    pub(super) fn others_public(&self) -> bool {
        self.victims.iter().any(|&v| self.shared.workers[v as usize].public_len() != 0)
    }

    /// Another worker has tasks that only it, or a rescue, can reach.
    pub(super) fn others_private(&self) -> bool {
        self.victims.iter().any(|&v| self.shared.workers[v as usize].private_hint() != 0)
    }
}
