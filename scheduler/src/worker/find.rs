//! Where the next task comes from. The order is one chain: own private part, own public part, lanes of the own node;
//! then, for a searcher, those lanes again, and the other workers nearest first; after some empty rounds the workers
//! and the lanes of other nodes.
#![expect(unsafe_code, reason = "moves tasks from lane slots into cells")]

use super::context::Context;
use super::remote::Remote;
use crate::config::{BATCH, REMOTE_BACKLOG, STEAL_MAX};
use crate::lanes::{Aim, Entry};
use crate::policy::{Ring, Rounds, far_turn, share, spoken_for};
use crate::sync::{Pin, ticks};
use crate::task::raw::{Header, RawTask};
use std::mem::MaybeUninit;

/// The oldest task of a claim; how many it took, and whether that emptied a block; the place of the lane.
type Claimed = (*mut Header, (u32, bool), usize);

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
        self.claim_within(&self.scanner.pin(), !self.is_fast() && Rounds::FRESH.stays_in_cache())
    }

    /// The first of a batch; the others stay on the ring, in reach of thieves, oldest on top.
    fn keep(&self, tasks: &mut [*mut Header]) -> Option<*mut Header> {
        let (&mut first, rest) = tasks.split_first_mut()?;
        if !rest.is_empty() {
            self.ring().push_many(&mut rest.iter().rev().copied());
        }
        Some(first)
    }

    /// Claims a batch from the first lane of its node that has one, beginning where the last claim was. The oldest
    /// task is returned, the others are on the ring then, oldest on top.
    #[inline]
    pub(super) fn claim(&self, pin: &Pin) -> Option<*mut Header> {
        self.claim_within(pin, false)
    }

    /// The same, but lanes of other caches of the node are left out if `cache` says so: for a worker that has just run
    /// out of work, or looks around for the first time. Not for a fast one, which is relied on by the whole node.
    #[inline]
    pub(super) fn claim_within(&self, pin: &Pin, cache: bool) -> Option<*mut Header> {
        let wanted = if self.is_fast() { BATCH as u32 } else { 1 };
        let cache = cache && self.victims.spans_caches();
        let choosy = cache || self.is_choosy();
        let most = |entry: &Entry| {
            if choosy && (self.is_far(entry) || cache && self.is_elsewhere(entry)) { 0 } else { u64::MAX }
        };
        let (oldest, (taken, _), at) = self.claim_where(pin, wanted, most)?;
        self.claimed(taken, at);
        Some(oldest)
    }

    /// Claims at most `wanted` tasks, and at most `most(lane)`, from the first lane that has one. Returns the oldest,
    /// how many they are and whether their block went home with them, and the place of the lane.
    #[inline(always)]
    fn claim_where(&self, pin: &Pin, wanted: u32, most: impl Fn(&Entry) -> u64) -> Option<Claimed> {
        let limit = self.ring().room(wanted).min(wanted);
        self.cells().reserve(limit as usize);
        let (cells, pen) = (self.cells().peek(limit as usize), self.ring().pen());
        let last = limit.wrapping_sub(1) as usize;
        let start = self.lane_start.get();
        let ((taken, emptied), at) = self.shared.lanes.scan(pin, start, |entry| {
            let claim = entry.lane.claim_counted(pin, most(entry).min(u64::from(limit)), |slot, after| {
                // SAFETY: fewer than `limit` follow.
                let cell = unsafe { cells.get_unchecked(last - after as usize) }.get();
                // SAFETY: the lane gives every claimed slot to us once; the cell is fresh.
                unsafe { RawTask::relocate(slot, cell.cast()) };
                // SAFETY: there is room for `limit`, and nothing is pushed meanwhile.
                unsafe { pen.write(after as u32, cell.cast()) };
            });
            (claim.taken != 0).then_some((claim.taken as u32, claim.emptied))
        })?;
        let oldest = cells[limit as usize - taken as usize].get();
        self.cells().take_many(taken as usize);
        if taken > 1 {
            // SAFETY: all but the oldest lie below it.
            unsafe { self.ring().advance(taken - 1) };
        }
        Some((oldest.cast(), (taken, emptied), at))
    }

    /// There are lanes that this worker must not claim from as if they were its own.
    #[inline(always)]
    fn is_choosy(&self) -> bool {
        self.apart || self.shared.lanes.has_aimed()
    }

    /// The lane is for somebody else: for workers of another node, or for one other worker.
    #[inline]
    fn is_far(&self, entry: &Entry) -> bool {
        match entry.aim {
            Aim::Worker(worker) => worker != self.index,
            _ => self.apart && self.shared.layout.shards[entry.shard()].node != self.me().node,
        }
    }

    /// The lane belongs to a thread near another cache.
    #[inline]
    fn is_elsewhere(&self, entry: &Entry) -> bool {
        let shards = &self.shared.layout.shards;
        entry.aim == Aim::Thread && shards[entry.shard()].llc != shards[self.me().shard].llc
    }

    /// Somebody at home in or near `shard` is on the way to the `backlog` there. `counted`: this worker is a counted
    /// searcher itself.
    fn is_spoken_for(&self, shard: usize, backlog: u64, counted: bool, rounds: Rounds) -> bool {
        let own = |s: usize| u64::from(counted && s == self.me().shard);
        let near = self.shared.layout.shards[shard].near.iter().take_while(|&&(_, ring)| ring <= Ring::Node);
        let searched = || near.clone().any(|&(s, _)| self.shared.words[s].load().searching() > own(s));
        spoken_for(backlog, backlog < REMOTE_BACKLOG && searched(), rounds)
    }

    /// How far off the lane is, nearest first; `None` for its own ones, those without tasks, those that somebody else
    /// is on the way to, and, unless `late`, those that aim at one worker.
    fn far_rank(&self, entry: &Entry, late: bool, counted: bool) -> Option<usize> {
        let backlog = entry.lane.backlog();
        if backlog == 0 || !self.is_far(entry) || !late && matches!(entry.aim, Aim::Worker(_)) {
            return None;
        }
        let rounds = if late { Rounds::ALL } else { self.rounds.get() };
        if self.is_spoken_for(entry.shard(), backlog, counted, rounds) {
            return None;
        }
        let near = &self.shared.layout.shards[self.me().shard].near;
        near.iter().position(|&(shard, _)| shard == entry.shard())
    }

    /// Claims from the nearest lane that is for somebody else: half of it, at most `limit`. `late`: they have had their
    /// time, so lanes that aim at one worker count, too. `counted`: as a searcher.
    #[cold]
    #[inline(never)]
    pub(super) fn claim_far(&self, late: bool, counted: bool, limit: usize) -> Option<*mut Header> {
        if !self.is_choosy() {
            return None;
        }
        let pin = self.scanner.pin();
        let mut best: Option<(usize, *const Entry)> = None;
        self.shared.lanes.scan(&pin, self.lane_start.get(), |entry| -> Option<()> {
            let rank = self.far_rank(entry, late, counted)?;
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, entry));
            }
            None
        });
        let (_, best) = best?;
        let most = |entry: &Entry| {
            if std::ptr::eq(entry, best) { share(entry.lane.backlog() as usize).min(limit) as u64 } else { 0 }
        };
        let (oldest, (taken, emptied), _) = self.claim_where(&pin, STEAL_MAX as u32, most)?;
        if let Some(credits) = &self.shared.credits {
            credits.give(u64::from(taken));
        }
        self.me().counters.0.far_claims.add(1);
        self.me().counters.0.far_claimed.add(u64::from(taken));
        self.me().counters.0.blocks_returned.add(u64::from(emptied));
        Some(oldest)
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

    /// The oldest task of all that is this worker's, every streak; every fourth time the lanes go first, and once in a
    /// while those of others.
    #[cold]
    #[inline(never)]
    pub(super) fn oldest(&self) -> Option<*mut Header> {
        let turn = self.turn.get().wrapping_add(1);
        self.turn.set(turn);
        self.streaks.set(self.streaks.get().wrapping_add(1));
        if far_turn(self.streaks.get()) {
            // A worker that never sleeps is looked after here.
            self.check_binding();
            if let Some(task) = self.claim_far(true, false, 1) {
                return Some(task);
            }
        }
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

    /// Takes a share of what the nearest victim within reach has public; a fork counts for more.
    pub(super) fn steal(&self) -> Option<*mut Header> {
        for (position, index) in self.victims.asked(self.rounds.get()) {
            let victim = &self.shared.workers[index as usize];
            if !self.has_public(position, victim, self.rounds.get()) {
                continue;
            }
            if let Some(fork) = victim.forks.steal() {
                self.count_steal(position, 1);
                self.stolen_fork.set(Some((index, ticks())));
                return Some(fork);
            }
            let mut batch = [MaybeUninit::uninit(); STEAL_MAX];
            let tasks = victim.ring.claim(&mut batch, |queued| share(queued as usize) as _);
            if !tasks.is_empty() {
                self.count_steal(position, tasks.len() as u64);
                return self.keep(tasks);
            }
        }
        None
    }

    /// Runs what a search has found, and remembers what a stolen fork was worth.
    pub(super) fn run_found(&self, task: *mut Header) {
        let fork = self.stolen_fork.take();
        self.run_guarded(task);
        let Some((victim, began)) = fork else { return };
        let victim = &self.shared.workers[victim as usize];
        victim.learn_grain(self.shared.tuning.task_ns.unwrap_or_else(|| self.ns(ticks().wrapping_sub(began))));
        if victim.grain().is_fine() {
            // Finding it was no success: it does not prolong the next search.
            self.shorten_spin();
        }
    }

    fn count_steal(&self, position: usize, tasks: u64) {
        let ring = self.victims.ring(position) as usize;
        self.me().counters.0.steals[ring].add(1);
        self.me().counters.0.stolen[ring].add(tasks);
    }

    /// Publishes on behalf of owners that do not answer. True: something can be stolen now.
    #[cold]
    pub(super) fn rescue(&self) -> bool {
        for &victim in self.victims.all() {
            let victim = &self.shared.workers[victim as usize];
            let heavy = || self.shared.rescue_side();
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

    /// Some lane that is this worker's own to claim from holds tasks.
    pub(super) fn near_backlog(&self) -> bool {
        if !self.is_choosy() {
            return self.backlog();
        }
        let near = |entry: &Entry| (entry.lane.backlog() != 0 && !self.is_far(entry)).then_some(());
        self.shared.lanes.scan(&self.scanner.pin(), 0, near).is_some()
    }

    /// Some lane holds tasks, and nobody fast is at home there.
    pub(super) fn neglected(&self) -> bool {
        if !self.apart {
            let all = self.shared.words.iter().all(|word| word.load().fast() == 0);
            return all && if self.shared.lanes.has_aimed() { self.waiting_lane(|_| false) } else { self.backlog() };
        }
        let shards = &self.shared.layout.shards;
        let fast_on =
            |node| (0..shards.len()).any(|s| shards[s].node == node && self.shared.words[s].load().fast() != 0);
        self.waiting_lane(|entry| fast_on(shards[entry.shard()].node))
    }

    /// Some lane holds tasks that nobody is on the way to. `served`: whose lanes do not count.
    fn waiting_lane(&self, served: impl Fn(&Entry) -> bool) -> bool {
        let waits = |entry: &Entry| {
            let backlog = entry.lane.backlog();
            let taken = || self.is_far(entry) && self.is_spoken_for(entry.shard(), backlog, false, Rounds::ALL);
            (backlog != 0 && !served(entry) && !taken()).then_some(())
        };
        self.shared.lanes.scan(&self.scanner.pin(), 0, waits).is_some()
    }

    /// A lane that aims at another worker holds tasks that nobody else is on the way to; for a counted searcher.
    pub(super) fn aimed_elsewhere(&self) -> bool {
        let waits = |entry: &Entry| {
            let other = matches!(entry.aim, Aim::Worker(worker) if worker != self.index);
            (other && self.far_rank(entry, true, true).is_some()).then_some(())
        };
        self.shared.lanes.has_aimed() && self.shared.lanes.scan(&self.scanner.pin(), 0, waits).is_some()
    }

    /// Something that could be run and is not, more than `kept` of the own: where it is at home, and how much.
    pub(super) fn left_behind(&self, kept: u64) -> Option<(usize, u64)> {
        let own = self.own_backlog();
        if own > kept {
            return Some((self.me().shard, own));
        }
        let waits = |entry: &Entry| Some(entry.lane.backlog()).filter(|&n| n != 0).map(|n| (entry.shard(), n));
        if let Some((found, _)) = self.shared.lanes.scan(&self.scanner.pin(), 0, waits) {
            return Some(found);
        }
        let workers = || self.victims.all().iter().map(|&v| -> &Remote { &self.shared.workers[v as usize] });
        let public = |w: &Remote| (w.public_len() != 0).then(|| (w.shard, u64::from(w.public_len())));
        workers().find_map(public).or_else(|| {
            let hidden = workers().find(|w| w.private_hint() != 0)?;
            (!self.shared.watched()).then(|| (hidden.shard, u64::from(hidden.private_hint())))
        })
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

    /// The victim has tasks for this worker to steal.
    #[inline]
    fn has_public(&self, position: usize, victim: &Remote, rounds: Rounds) -> bool {
        let public = u64::from(victim.public_len());
        public != 0
            && (self.victims.ring(position) != Ring::Remote || !self.is_spoken_for(victim.shard, public, false, rounds))
    }

    /// Somebody whom this step asks has tasks that can be stolen now.
    pub(super) fn others_public(&self, reach: Rounds) -> bool {
        let has = |(position, victim)| self.has_public(position, &self.shared.workers[victim as usize], reach);
        self.victims.asked(reach).any(has)
    }

    /// Another worker within reach hides something that is worth asking for; with `insist` whatever it is.
    pub(super) fn others_hide(&self, reach: Rounds, insist: bool) -> bool {
        self.victims.within(reach).iter().any(|&v| self.shared.workers[v as usize].hidden().worth_asking(insist))
    }

    /// Asks the other shards of the node to publish, where somebody hides something. Other nodes are not asked: their
    /// work stays at home for as long as a rescue takes.
    pub(super) fn ask_near(&self, insist: bool) {
        for &victim in self.victims.near() {
            let victim = &self.shared.workers[victim as usize];
            if victim.shard != self.me().shard && victim.hidden().worth_asking(insist) {
                self.shared.words[victim.shard].ask();
            }
        }
    }

    /// Another worker has tasks that only it, or a rescue, can reach.
    pub(super) fn others_private(&self) -> bool {
        self.victims.all().iter().any(|&v| self.shared.workers[v as usize].private_hint() != 0)
    }
}
