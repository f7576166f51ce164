//! Looking for work, going to sleep, and the watch of the standby. The protocol is in the README, events P1 to P9.

use super::context::Context;
use super::help::Wait;
use super::remote::Remote;
use super::shared::Quiet;
use super::timers::shorter;
use crate::config::{ASK_US, FREED_BLOCKS, GATHER_NS, GIVE_BACK_MS, PATIENCE_US, STEAL_MAX, UNSURE_MS};
use crate::idle::Role;
use crate::park::Parked;
use crate::phase::Phase;
use crate::policy::{Rounds, first_nap, next_nap};
use crate::sync::{Relaxed, pause, planted, ticks, yield_now};
use crate::task::raw::Header;
use std::time::Duration;

/// How a search ended.
#[must_use]
pub(super) enum Outcome {
    /// With a task to run.
    Task(*mut Header),
    /// What the caller waits for may have happened, or there may be work in its own queues.
    Again,
    /// The scheduler has finished.
    Finished,
}

impl Context {
    /// Looks everywhere until there is a task, or `wait` is over, or the scheduler has finished; sleeps in between.
    #[cold]
    #[inline(never)]
    pub(super) fn search(&self, wait: Option<&dyn Wait>) -> Outcome {
        let over = || wait.is_some_and(Wait::is_over);
        self.rounds.set(Rounds::FRESH);
        if self.is_fast()
            && let Some(outcome) = self.linger(&over)
        {
            return outcome;
        }
        let mut searching = !self.is_fast() && self.begin_search();
        loop {
            if searching {
                match self.look_around(&over) {
                    Some(outcome) => return outcome,
                    None => self.shorten_spin(),
                }
            }
            match self.park(searching, wait) {
                Outcome::Again => searching = true,
                other => return other,
            }
            self.rounds.set(Rounds::FRESH);
            if over() {
                self.end_search();
                return Outcome::Again;
            }
        }
    }

    fn spin_limit(&self) -> u64 {
        self.shared.spin.as_micros() as u64 * self.ticks_per_us
    }

    pub(super) fn shorten_spin(&self) {
        self.spin.set((self.spin.get() / 2).max(self.spin_limit() / 8));
    }

    fn begin_search(&self) -> bool {
        let peers = self.shared.layout.shards[self.me().shard].members.len() as u64;
        let begun = self.word().begin_search((peers / 2).max(1));
        self.me().counters.0.searches.add(u64::from(begun));
        begun
    }

    /// A fast worker that has caught up: it stays counted as fast and lets tasks gather, so that the word every
    /// submitter reads is not written once per drained lane. `None`: there is nothing.
    fn linger(&self, over: &dyn Fn() -> bool) -> Option<Outcome> {
        let began = ticks();
        let gather = GATHER_NS * self.ticks_per_us / 1000;
        let mut round = 0u32;
        loop {
            let gap = ticks();
            while ticks().wrapping_sub(gap) < gather {
                pause();
            }
            // What is nearer than the other workers is found by the caller.
            if self.me().public_len() != 0 || over() || self.near_backlog() {
                return Some(Outcome::Again);
            }
            let rounds = self.rounds.get();
            if self.others_public(rounds) {
                return Some(self.steal().map_or(Outcome::Again, Outcome::Task));
            }
            if rounds.reach_far()
                && let Some(task) = self.claim_far(false, false, STEAL_MAX)
            {
                return Some(Outcome::Task(task));
            }
            self.rounds.set(self.victims.empty(rounds));
            if ticks().wrapping_sub(began) >= self.spin.get() {
                return None;
            }
            round += 1;
            if round.is_multiple_of(16) {
                yield_now();
            }
        }
    }

    /// One search as a counted searcher. `None`: the time is over, and the caller is still counted.
    fn look_around(&self, over: &dyn Fn() -> bool) -> Option<Outcome> {
        let began = ticks();
        let insist = self.insist.take();
        // A standby has waited for a nap already; what it asks now is whether the owner answers at all.
        let patience = if insist { ASK_US } else { PATIENCE_US } * self.ticks_per_us;
        let mut round = 0u32;
        let (mut private, mut private_far) = (false, false);
        loop {
            if over() || self.fire_due() || self.shared.wired.load(Relaxed) && self.keep_io() {
                // What that woke is in the own queue, and run next.
                self.end_search_with(1);
                return Some(Outcome::Again);
            }
            let reach = self.rounds.get();
            if let Some(task) = self.find() {
                self.spin.set((self.spin.get() + self.spin.get() / 4 + 1).min(self.spin_limit()));
                self.end_search();
                return Some(Outcome::Task(task));
            }
            let waited = ticks().wrapping_sub(began);
            // What others hide is looked at when all of them are asked, far away in the rounds that ask there, and
            // believed in between.
            if reach.begins() && (reach.reach_far() || self.victims.near_at_once()) {
                private = self.others_hide(reach, insist) || !reach.reach_far() && private_far;
                if reach.reach_far() {
                    private_far = private;
                }
            }
            let hidden = private || self.aimed_elsewhere();
            if private {
                self.word().raise_hungry();
                if reach.begins() && self.shared.words.len() > 1 {
                    self.ask_near(insist);
                }
                if waited >= patience && self.rescue() {
                    // Perhaps far away.
                    self.rounds.set(Rounds::ALL);
                    continue;
                }
            }
            if hidden
                && waited >= patience
                && let Some(task) = self.claim_far(true, true, STEAL_MAX)
            {
                self.end_search();
                return Some(Outcome::Task(task));
            }
            let asked = self.victims.exhausted(self.rounds.get(), self.apart);
            if asked && waited >= self.spin.get().max(if hidden { patience } else { 0 }) {
                return None;
            }
            round += 1;
            if !round.is_multiple_of(64) {
                pause();
            } else if self.shared.phase.get() >= Phase::Sealed {
                // Nobody submits any more: a long spin would only keep the shutdown waiting.
                return None;
            } else if !hidden {
                // Somebody may want this CPU, perhaps the very submitter. Not while tasks are hidden behind a stuck
                // owner: a yield may cost a whole time slice, and the patience is bounded.
                yield_now();
            }
        }
    }

    /// One look at everything that can be taken at once.
    fn find(&self) -> Option<*mut Header> {
        let rounds = self.rounds.get();
        let near = self.claim_within(&self.scanner.pin(), rounds.stays_in_cache()).or_else(|| self.steal());
        let found = near.or_else(|| if rounds.reach_far() { self.claim_far(false, true, STEAL_MAX) } else { None });
        self.rounds.set(if found.is_some() { Rounds::FRESH } else { self.victims.empty(rounds) });
        found
    }

    fn end_search(&self) {
        self.end_search_with(0);
    }

    /// Searching -> busy, and up to `kept` of the own tasks are run at once. The last searcher wakes the next if it
    /// leaves something behind, or if nobody watches.
    fn end_search_with(&self, kept: u64) {
        let old = self.word().end_search();
        let alone = old.idle() == 0 && self.shared.words.len() == 1;
        if old.searching() != 1 || alone || planted("last-searcher-silent") {
            return;
        }
        // Order (README, P4): the search ended first, this look comes last, after the claim has copied its batch. A
        // fast worker gets on with what is left; it only must not be left alone with it.
        if old.fast() != 0 {
            if !self.shared.watched() {
                self.shared.wake_near(self.me().shard, true, u64::MAX);
            }
        } else if let Some((home, backlog)) = self.left_behind(kept) {
            self.shared.wake_near(home, false, backlog);
        }
    }

    // ---- sleep -----------------------------------------------------------------------------------------------

    /// Announces, looks once more at every source, sleeps. `Again`: the caller is counted as a searcher.
    fn park(&self, searching: bool, wait: Option<&dyn Wait>) -> Outcome {
        if wait.is_some_and(|w| !w.register(self.me().parker.clone())) && !searching {
            self.word().begin_search(u64::MAX);
            return Outcome::Again;
        }
        let fast = self.me().unmark_fast();
        self.short_run.set(0);
        let _waiting = self.rest(wait.is_some());
        let others_fast = self.fast_workers() > u64::from(fast);
        let watch = (self.sample(false).watch || others_fast) && !self.shared.tuning.no_standby;
        let standby = self.word().announce(self.me().bit, Role { searching, fast }, watch);
        let sure = self.shared.heavy_side();
        // Fine forks alone are worth a look now and then.
        let mut nap =
            if standby { first_nap(self.others_hide(Rounds::ALL, false) || !self.others_private()) } else { 0 };
        let mut stuck = false;
        loop {
            if stuck || wait.is_some_and(Wait::is_over) || !planted("park-no-look") && self.work_for_me(standby) {
                return self.stay(standby);
            }
            if let Some(outcome) = self.end(standby, wait) {
                return outcome;
            }
            self.check_binding();
            let limit = if standby {
                Some(Duration::from_micros(nap))
            } else {
                self.tidy();
                (!sure).then_some(Duration::from_millis(UNSURE_MS))
            };
            let limit = self.set_alarm(limit);
            if limit == Some(Duration::ZERO) {
                self.clear_alarm();
                return self.stay(standby);
            }
            let giving = if standby { None } else { self.until_giving_back(wait) };
            let giving = giving.filter(|giving| limit.is_none_or(|limit| *giving < limit));
            self.me().counters.0.parks.add(1);
            let parked = self.sleep(shorter(limit, giving));
            self.clear_alarm();
            self.check_waking_place();
            if let Some(outcome) = self.awake(standby) {
                return outcome;
            }
            if parked == Parked::TimedOut && !sure {
                return self.stay(standby);
            }
            if parked == Parked::TimedOut && giving.is_some() {
                self.give_memory_back();
                return Outcome::Again;
            }
            if parked == Parked::TimedOut && standby {
                self.me().counters.0.naps.add(1);
                nap = next_nap(nap);
                let peers = self.sample(true);
                stuck = peers.stuck || self.others_late();
                self.insist.set(stuck && !planted("fine-never-insists"));
                if !peers.watch && !self.anyone_fast() {
                    return self.stay(standby);
                }
            }
            // Otherwise a token that belongs to a wait, or to an earlier one: look again.
        }
    }

    /// Awake and announced still, or chosen meanwhile. `None`: it may sleep again, as far as that goes.
    fn awake(&self, standby: bool) -> Option<Outcome> {
        if self.word().load().idle() & 1 << self.me().bit == 0 {
            // A waker has chosen this worker and counted it as a searcher.
            if standby {
                self.word().leave_standby();
            }
            return Some(Outcome::Again);
        }
        // Relaxed: it has been in its ring if something has completed there.
        if !self.shared.wired.load(Relaxed) || !self.io_waits() {
            return None;
        }
        Some(if planted("io-keeps-bit") { Outcome::Again } else { self.stay(standby) })
    }

    /// Idle -> searching, unless a waker was faster and has done it.
    fn stay(&self, standby: bool) -> Outcome {
        if !self.word().retract(self.me().bit, standby) && standby {
            self.word().leave_standby();
        }
        Outcome::Again
    }

    /// The last look. A standby leaves the lanes to fast workers for as long as they get on with it.
    fn work_for_me(&self, standby: bool) -> bool {
        let own = self.me().public_len() + self.me().private_hint() != 0;
        // Relaxed: whoever has posted something has unparked this worker afterwards.
        if own || self.others_public(Rounds::ALL) || self.shared.wired.load(Relaxed) && self.io_waits() {
            return true;
        }
        if !standby && !planted("standby-trusted") {
            // Hidden work needs a standby; if there is none the caller must come back as one.
            let hidden = self.others_private() && !self.shared.watched() && !self.shared.tuning.no_standby;
            return hidden || self.neglected() || self.unwatched();
        }
        self.neglected()
    }

    /// Somebody is fast and nobody watches: the parker must come back as the standby.
    fn unwatched(&self) -> bool {
        self.anyone_fast() && !self.shared.watched()
    }

    fn anyone_fast(&self) -> bool {
        self.fast_workers() != 0
    }

    fn fast_workers(&self) -> u64 {
        self.shared.words.iter().map(|word| word.load().fast()).sum()
    }

    /// A look at the others: is anybody worth watching, and is anybody stuck?
    ///
    /// Worth watching is who holds tasks, or has run some since the last look and so may have hidden some by now. Stuck
    /// is who has run nothing since the last look while tasks wait; with `demote` its mark is taken away, so that
    /// submitters wake somebody again.
    fn sample(&self, demote: bool) -> Peers {
        let mut peers = Peers { watch: false, stuck: false };
        for &victim in self.victims.all() {
            let worker = &self.shared.workers[victim as usize];
            let ran = worker.counters.0.tasks.get();
            let moved = self.seen[victim as usize].replace(ran) != ran;
            let hidden = worker.private_hint() != 0;
            let at_it = moved || self.is_timed(victim as usize);
            peers.watch |= hidden || worker.public_len() != 0 || at_it && !self.is_idle(victim as usize);
            if demote && !moved {
                peers.stuck |= hidden || self.demote(worker);
            }
        }
        peers
    }

    /// Takes the mark from a fast worker that is stuck while the lanes hold tasks. True: done.
    fn demote(&self, worker: &Remote) -> bool {
        if !worker.is_fast() || !self.backlog() || !worker.unmark_fast() {
            return false;
        }
        self.shared.words[worker.shard].uncount_fast();
        self.shared.heavy_side();
        true
    }

    fn is_idle(&self, worker: usize) -> bool {
        let worker = &self.shared.workers[worker];
        self.shared.words[worker.shard].load().idle() & 1 << worker.bit != 0
    }

    /// Before a sleep without limit: foreign cells go home, surplus memory goes back, drained lanes without an owner
    /// go.
    fn tidy(&self) {
        self.cells().settle();
        let (cells, trips) = self.cells().sent_home();
        self.me().counters.0.cells_returned.set(cells);
        self.me().counters.0.cell_trips.set(trips);
        let pin = self.scanner.pin();
        let mut freed = 0;
        self.shared.lanes.scan(&pin, 0, |entry| -> Option<()> {
            entry.lane.trim();
            freed += entry.lane.take_freed();
            None
        });
        if freed != 0 {
            // Relaxed: a number.
            self.shared.freed.fetch_add(freed, Relaxed);
        }
        let orphans = self.shared.lanes.orphans(&pin);
        drop(pin);
        if orphans {
            self.shared.lanes.reap();
        }
        self.scanner.flush();
    }

    /// How long a worker sleeps at most before it gives memory back. Many freed blocks: the allocator may sit on them.
    fn until_giving_back(&self, wait: Option<&dyn Wait>) -> Option<Duration> {
        let due = wait.is_none() && self.shared.freed.load(Relaxed) > FREED_BLOCKS;
        due.then_some(Duration::from_millis(GIVE_BACK_MS))
    }

    /// The sleep of [`Context::until_giving_back`] is over: asks the allocator to give memory back to the system. That
    /// takes milliseconds, so it comes after some idleness, from a worker that nobody counts on meanwhile.
    #[cold]
    fn give_memory_back(&self) {
        if !self.word().retract(self.me().bit, false) {
            // Chosen just now.
            return;
        }
        self.end_search();
        if self.shared.freed.swap(0, Relaxed) != 0 {
            crate::sys::release_free_memory();
        }
        self.word().begin_search(u64::MAX);
    }

    /// The worker is announced and has found nothing: is that the end, or at least a quiet moment? `None`: sleep.
    fn end(&self, standby: bool, wait: Option<&dyn Wait>) -> Option<Outcome> {
        if wait.is_some() {
            return None;
        }
        let phase = self.shared.phase.get();
        if phase == Phase::Finished {
            return Some(Outcome::Finished);
        }
        match self.shared.quiet(&self.scanner.pin()) {
            Quiet::No => return None,
            Quiet::Left => return Some(self.stay(standby)),
            Quiet::Yes => self.shared.announce_quiet(),
        }
        if phase == Phase::Sealed && self.shared.phase.advance(Phase::Sealed, Phase::Finished) {
            self.shared.wake_all();
            return Some(Outcome::Finished);
        }
        None
    }
}

/// What a look at the other workers says.
struct Peers {
    watch: bool,
    stuck: bool,
}

/// Counts a worker that sleeps with a task on its stack.
struct Waiting<'a>(&'a Context);

impl Context {
    /// This worker is about to announce itself idle; what is returned ends when it is up again.
    fn rest(&self, waiting: bool) -> Option<Waiting<'_>> {
        self.shared.rests.begin(waiting);
        waiting.then(|| Waiting(self))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.shared.rests.end_waiting();
    }
}
