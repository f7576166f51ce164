//! What a searcher looks at, and what it takes.

use super::{Engine, Task};
use crate::model::Rules;
use scheduler::internals::policy::{Ring, Rounds, share, spoken_for};

impl Engine<'_> {
    pub(super) fn looks_far(&self, rounds: Rounds) -> bool {
        match self.rules {
            Rules::Strict => false,
            Rules::Uniform => true,
            _ => rounds.reach_far(),
        }
    }

    pub(super) fn is_spoken_for(&self, shard: usize, queued: usize, rounds: Rounds) -> bool {
        if self.rules == Rules::Uniform {
            return false;
        }
        let node = self.layout.shards[shard].node;
        let searched = |s: usize| self.layout.shards[s].node == node && self.shards[s].searching != 0;
        spoken_for(queued as u64, (0..self.shards.len()).any(searched), rounds)
    }

    /// One task of a lane of the cache, or in a later round of the node; for the uniform control of any lane.
    pub(super) fn claim_near(&mut self, worker: usize, rounds: Rounds, cost: &mut u64) -> Option<Task> {
        if self.rules == Rules::Uniform {
            return self.claim_far(worker, cost, true);
        }
        let spot = self.layout.spots[worker];
        for (shard, ring) in self.layout.shards[spot.shard].near.iter().copied() {
            if ring == Ring::Remote || ring == Ring::Node && rounds.stays_in_cache() {
                return None;
            }
            if let Some(task) = self.shards[shard].lane.pop_front() {
                self.moves(worker, self.layout.shards[shard].members[0], cost);
                return Some(task);
            }
        }
        None
    }

    /// A share of the nearest lane that has something and is not spoken for; `any`: of the first in a random order.
    pub(super) fn claim_far(&mut self, worker: usize, cost: &mut u64, any: bool) -> Option<Task> {
        let mut order: Vec<usize> =
            self.layout.shards[self.layout.spots[worker].shard].near.iter().map(|&(shard, _)| shard).collect();
        if any {
            let turn = self.below(order.len());
            order.rotate_left(turn);
        }
        let (node, rounds) = (self.layout.spots[worker].node, self.workers[worker].rounds);
        for shard in order {
            let queued = self.shards[shard].lane.len();
            let far = self.layout.shards[shard].node != node;
            if queued == 0 || !any && (!far || self.is_spoken_for(shard, queued, rounds)) {
                continue;
            }
            self.moves(worker, self.layout.shards[shard].members[0], cost);
            let wanted = if any { 1 } else { self.wanted(queued) };
            let taken: Vec<Task> = self.shards[shard].lane.drain(..wanted).collect();
            return self.keep(worker, taken, far);
        }
        None
    }

    pub(super) fn wanted(&self, queued: usize) -> usize {
        if self.rules == Rules::OneTask { 1 } else { share(queued) }
    }

    /// Asks the other workers.
    pub(super) fn steal(&mut self, worker: usize, rounds: Rounds, cost: &mut u64) -> Option<Task> {
        let mut order = match self.rules {
            Rules::Strict => self.victims[worker].near().to_vec(),
            Rules::Uniform => self.victims[worker].all().to_vec(),
            _ => self.victims[worker].asked(rounds).map(|(_, victim)| victim).collect(),
        };
        if self.rules == Rules::Uniform {
            for end in (1..order.len()).rev() {
                let other = self.below(end + 1);
                order.swap(end, other);
            }
        }
        let mut farthest = Ring::Cache;
        for victim in order {
            let victim = victim as usize;
            let ring = self.layout.ring(worker, victim);
            let early = ring == Ring::Remote && !rounds.reach_far();
            self.tally.out_of_order += u64::from(ring < farthest || early);
            self.tally.probes[ring as usize] += 1;
            farthest = farthest.max(ring);
            let line = self.cost(worker, victim);
            *cost += line;
            self.tally.looked_ns += line;
            let queued = self.workers[victim].queue.len();
            let shard = self.layout.spots[victim].shard;
            if queued == 0 || ring == Ring::Remote && self.is_spoken_for(shard, queued, rounds) {
                continue;
            }
            self.moves(worker, victim, cost);
            let taken: Vec<Task> =
                (0..self.wanted(queued)).filter_map(|_| self.workers[victim].queue.pop_front()).collect();
            return self.keep(worker, taken, ring == Ring::Remote);
        }
        None
    }

    /// A line moves from one to the other.
    pub(super) fn moves(&mut self, worker: usize, from: usize, cost: &mut u64) {
        let line = self.cost(worker, from);
        *cost += line;
        self.tally.moved_ns += line;
    }

    /// The oldest runs, the others are queued, oldest on top.
    pub(super) fn keep(&mut self, worker: usize, mut taken: Vec<Task>, remote: bool) -> Option<Task> {
        if remote {
            self.tally.remote_steals += 1;
            self.tally.remote_taken += taken.len() as u64;
        }
        let rest = taken.split_off(1);
        self.workers[worker].queue.extend(rest.into_iter().rev());
        taken.pop()
    }
}
