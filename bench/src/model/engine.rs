//! Virtual time, queues and workers. Every queue can be stolen from at any time, and nobody is ever fast: both are
//! protocol, not policy.

mod looks;

use super::{Host, Load, Rules, Tally};
use scheduler::internals::config::{SPIN_US, STANDBY_MAX_US, STANDBY_MIN_US};
use scheduler::internals::numa::{Pin, Placement, Topology, plan};
use scheduler::internals::policy::{
    Layout, Look, Recent, Ring, Rounds, Verdict, Victims, choose_idle, consult, reaches_out,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Mean length of a task. Exponential, as in the model that the policy's numbers come from.
const SERVICE_NS: f64 = 1_000.0;
/// Share of the workers' time that the load takes.
const LOAD: f64 = 0.8;
/// From a wake to the first look of who was woken.
const WAKE_NS: u64 = 5_000;
/// Between two empty rounds.
const PAUSE_NS: u64 = 100;
/// A look at the own queue.
const OWN_NS: u64 = 20;
const SPIN_NS: u64 = SPIN_US * 1_000;

#[derive(Clone, Copy)]
struct Task {
    service: u64,
    node: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Busy,
    /// Counted in its shard.
    Searching,
    Idle,
}

struct Worker {
    queue: VecDeque<Task>,
    state: State,
    rounds: Rounds,
    /// When the present search began.
    since: u64,
    /// Empty rounds of it beside a queue of two or more.
    beside: u64,
    nap: u64,
}

struct Shard {
    lane: VecDeque<Task>,
    searching: u64,
    idle: u32,
    recent: Recent,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    Look(usize),
    /// Of the standby.
    Nap(usize),
}

struct Engine<'a> {
    host: &'a Host,
    rules: Rules,
    load: Load,
    layout: Layout,
    victims: Vec<Victims>,
    workers: Vec<Worker>,
    shards: Vec<Shard>,
    standby: Option<usize>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    now: u64,
    to_come: u64,
    random: u64,
    work: u64,
    tally: Tally,
}

/// Plays `tasks` tasks.
///
/// # Panics
/// When the spec of the host is wrong.
pub fn run(host: &Host, rules: Rules, load: Load, tasks: u64, seed: u64) -> Tally {
    let topology = Topology::from_spec(host.spec).expect("a host that can be read");
    let count = topology.allowed().len();
    let seats = plan(&topology, &Placement::Spread, Pin::Auto, count).expect("seats");
    let layout = Layout::new(&topology, &seats);
    let worker =
        || Worker { queue: VecDeque::new(), state: State::Busy, rounds: Rounds::FRESH, since: 0, beside: 0, nap: 0 };
    let shard = |_| Shard { lane: VecDeque::new(), searching: 0, idle: 0, recent: Recent::START };
    let mut engine = Engine {
        host,
        rules,
        load,
        victims: (0..count).map(|index| Victims::new(&layout, &topology, index)).collect(),
        workers: (0..count).map(|_| worker()).collect(),
        shards: (0..layout.shards.len()).map(shard).collect(),
        layout,
        standby: None,
        events: BinaryHeap::new(),
        sequence: 0,
        now: 0,
        to_come: tasks,
        random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        work: 0,
        tally: Tally::default(),
    };
    for index in 0..count {
        engine.at(0, Event::Look(index));
    }
    engine.at(1, Event::Arrival);
    engine.play(tasks);
    engine.tally.optimum_ns = (engine.work as f64 / count as f64 / LOAD) as u64;
    engine.tally
}

impl Engine<'_> {
    fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence, event)));
    }

    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 11
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next_random() % count as u64) as usize
    }

    fn exponential(&mut self, mean: f64) -> u64 {
        let uniform = (self.next_random() as f64 + 1.0) / (1u64 << 53) as f64;
        (-mean * uniform.ln()) as u64
    }

    fn play(&mut self, tasks: u64) {
        while self.tally.tasks < tasks {
            let Some(Reverse((time, _, event))) = self.events.pop() else { return };
            self.now = time;
            match event {
                Event::Arrival => self.arrival(),
                Event::Look(worker) if self.workers[worker].state == State::Busy => self.free(worker),
                Event::Look(worker) => self.round(worker),
                Event::Nap(worker) => self.nap(worker),
            }
        }
    }

    fn ring(&self, from: usize, to: usize) -> usize {
        self.layout.ring(from, to) as usize
    }

    /// A line from one worker's core to another's.
    fn cost(&self, from: usize, to: usize) -> u64 {
        let spots = &self.layout.spots;
        match self.host.latency.caches {
            Some(caches) => caches[spots[from].llc][spots[to].llc],
            None => self.host.latency.rings[self.ring(from, to)],
        }
    }

    // ---- submissions -----------------------------------------------------------------------------------------

    /// A task comes: half of them from threads outside, into the lane of a shard; half from workers, into their own
    /// queues.
    fn arrival(&mut self) {
        let count = self.workers.len();
        let first = self.layout.spots[0].node;
        let place = loop {
            let worker = self.below(count);
            if self.load == Load::Balanced || self.layout.spots[worker].node == first {
                break worker;
            }
        };
        let (shard, node) = (self.layout.spots[place].shard, self.layout.spots[place].node);
        let task = Task { service: self.exponential(SERVICE_NS).max(1), node };
        self.work += task.service;
        let backlog = if self.workers[place].state == State::Busy && self.next_random().is_multiple_of(2) {
            self.workers[place].queue.push_back(task);
            self.workers[place].queue.len()
        } else {
            self.shards[shard].lane.push_back(task);
            self.shards[shard].lane.len()
        };
        // Somebody searches: he will find it.
        let herd = self.rules == Rules::Herd;
        if self.shards[shard].searching == 0 || herd {
            let before: u64 = self.tally.wakes.iter().sum();
            for _ in 0..if herd { 2 } else { 1 } {
                self.wake_near(shard, backlog as u64);
            }
            let woken = self.tally.wakes.iter().sum::<u64>() - before;
            self.tally.most_wakes = self.tally.most_wakes.max(woken);
        }
        self.to_come -= 1;
        if self.to_come != 0 {
            let gap = self.exponential(SERVICE_NS / LOAD / count as f64);
            self.at(self.now + gap, Event::Arrival);
        }
    }

    /// As `Shared::wake_near`, with nobody fast.
    fn wake_near(&mut self, home: usize, backlog: u64) {
        if self.rules == Rules::Uniform {
            return self.wake_anybody(home);
        }
        for (shard, ring) in self.layout.shards[home].near.iter().copied() {
            let watched = self.standby.is_some();
            if ring == Ring::Remote && (self.rules == Rules::Strict || !reaches_out(backlog, watched)) {
                return;
            }
            let there = &self.shards[shard];
            let searching = there.searching != 0 && self.rules != Rules::Herd;
            let look = Look { searching, fast: false, idle: there.idle != 0 };
            match consult(ring, look, false) {
                Verdict::Rely => return,
                Verdict::Pass => {}
                Verdict::Wake => {
                    let bit = choose_idle(there.idle, there.recent, &self.layout.shards[shard].cores);
                    return self.wake(home, shard, bit.expect("somebody sleeps"));
                }
            }
        }
    }

    fn wake_anybody(&mut self, home: usize) {
        if self.shards.iter().any(|shard| shard.searching != 0) {
            return;
        }
        let idle: Vec<usize> = (0..self.workers.len()).filter(|&w| self.workers[w].state == State::Idle).collect();
        if !idle.is_empty() {
            let spot = self.layout.spots[idle[self.below(idle.len())]];
            self.wake(home, spot.shard, spot.bit);
        }
    }

    fn wake(&mut self, home: usize, shard: usize, bit: usize) {
        let node = self.layout.shards[home].node;
        let asleep = |s: usize| self.layout.shards[s].node == node && self.shards[s].idle != 0;
        if (0..self.shards.len()).any(asleep) {
            self.tally.wakes_with_choice += 1;
            self.tally.wakes_at_home += u64::from(self.layout.shards[shard].node == node);
        }
        self.tally.wakes_in_vain += u64::from(self.shards[home].searching != 0);
        self.tally.wakes[self.layout.shard_ring(home, shard) as usize] += 1;
        self.begin_search(self.layout.shards[shard].members[bit], WAKE_NS);
    }

    // ---- workers ---------------------------------------------------------------------------------------------

    /// Counted as a searcher from now on; the first look comes after `delay`.
    fn begin_search(&mut self, worker: usize, delay: u64) {
        let spot = self.layout.spots[worker];
        self.shards[spot.shard].idle &= !(1 << spot.bit);
        self.shards[spot.shard].searching += 1;
        if self.standby == Some(worker) {
            self.standby = None;
        }
        let since = self.now + delay;
        let me = &mut self.workers[worker];
        (me.state, me.rounds, me.since, me.beside) = (State::Searching, Rounds::FRESH, since, 0);
        self.at(since, Event::Look(worker));
    }

    /// A task is over, or the run begins: the own queue, then the lanes of the cache, then a search.
    fn free(&mut self, worker: usize) {
        if let Some(task) = self.workers[worker].queue.pop_back() {
            return self.start(worker, task, OWN_NS);
        }
        let mut cost = OWN_NS;
        if let Some(task) = self.claim_near(worker, Rounds::FRESH, &mut cost) {
            return self.start(worker, task, cost);
        }
        let shard = self.layout.spots[worker].shard;
        let limit = (self.layout.shards[shard].members.len() as u64 / 2).max(1);
        if self.shards[shard].searching < limit {
            self.begin_search(worker, cost);
        } else {
            self.park(worker);
        }
    }

    fn start(&mut self, worker: usize, task: Task, cost: u64) {
        self.tally.tasks += 1;
        self.tally.off_node += u64::from(task.node != self.layout.spots[worker].node);
        let end = self.now + cost + task.service;
        self.tally.span_ns = self.tally.span_ns.max(end);
        self.workers[worker].state = State::Busy;
        self.at(end, Event::Look(worker));
    }

    /// One round of a search.
    fn round(&mut self, worker: usize) {
        let mut cost = OWN_NS;
        let rounds = self.workers[worker].rounds;
        let mut found = self.claim_near(worker, rounds, &mut cost);
        if found.is_none() {
            found = self.steal(worker, rounds, &mut cost);
        }
        if found.is_none() && self.looks_far(rounds) {
            found = self.claim_far(worker, &mut cost, false);
        }
        if let Some(task) = found {
            self.workers[worker].beside = 0;
            self.start(worker, task, cost);
            return self.end_search(worker);
        }
        let work = self.workers.iter().any(|w| w.queue.len() >= 2) || self.shards.iter().any(|s| s.lane.len() >= 2);
        let apart = self.layout.is_apart() && self.rules != Rules::Strict;
        let me = &mut self.workers[worker];
        me.rounds = self.victims[worker].empty(rounds);
        me.beside = if work { me.beside + 1 } else { 0 };
        self.tally.rounds_beside = self.tally.rounds_beside.max(me.beside);
        if self.victims[worker].exhausted(me.rounds, apart) && self.now + cost >= me.since + SPIN_NS {
            self.shards[self.layout.spots[worker].shard].searching -= 1;
            return self.park(worker);
        }
        self.at(self.now + cost + PAUSE_NS, Event::Look(worker));
    }

    /// As `Context::end_search`: the last searcher looks once more, and wakes the next for what is left.
    fn end_search(&mut self, worker: usize) {
        let shard = self.layout.spots[worker].shard;
        self.shards[shard].searching -= 1;
        if self.shards[shard].searching != 0 {
            return;
        }
        let own = self.workers[worker].queue.len();
        let lane = || (0..self.shards.len()).find(|&s| !self.shards[s].lane.is_empty());
        let queue = || (0..self.workers.len()).find(|&w| !self.workers[w].queue.is_empty());
        let left = if own != 0 {
            Some((shard, own))
        } else if let Some(lane) = lane() {
            Some((lane, self.shards[lane].lane.len()))
        } else {
            queue().map(|w| (self.layout.spots[w].shard, self.workers[w].queue.len()))
        };
        if let Some((home, backlog)) = left {
            self.wake_near(home, backlog as u64);
        }
    }

    /// The last look, and the sleep.
    fn park(&mut self, worker: usize) {
        let spot = self.layout.spots[worker];
        self.workers[worker].state = State::Idle;
        let shard = &mut self.shards[spot.shard];
        shard.idle |= 1 << spot.bit;
        shard.recent = shard.recent.now(spot.bit);
        if self.sees_work(worker) {
            return self.begin_search(worker, PAUSE_NS);
        }
        if self.standby.is_none() && self.workers.iter().any(|w| w.state == State::Busy) {
            self.standby = Some(worker);
            self.workers[worker].nap = STANDBY_MIN_US * 1_000;
            self.at(self.now + STANDBY_MIN_US * 1_000, Event::Nap(worker));
        }
    }

    fn nap(&mut self, worker: usize) {
        if self.standby != Some(worker) || self.workers[worker].state != State::Idle {
            return;
        }
        if self.sees_work(worker) {
            return self.begin_search(worker, 0);
        }
        if self.workers.iter().all(|w| w.state != State::Busy) && self.to_come == 0 {
            self.standby = None;
            return;
        }
        let nap = (self.workers[worker].nap * 2).min(STANDBY_MAX_US * 1_000);
        self.workers[worker].nap = nap;
        self.at(self.now + nap, Event::Nap(worker));
    }

    /// As `Context::work_for_me`: everything that is not somebody else's on the way.
    fn sees_work(&self, worker: usize) -> bool {
        let node = self.layout.spots[worker].node;
        let takes = |shard: usize, queued: usize| {
            let home = self.layout.shards[shard].node == node;
            queued != 0 && (home || self.rules != Rules::Strict && !self.is_spoken_for(shard, queued, Rounds::ALL))
        };
        let lane = (0..self.shards.len()).any(|s| takes(s, self.shards[s].lane.len()));
        lane || (0..self.workers.len()).any(|w| takes(self.layout.spots[w].shard, self.workers[w].queue.len()))
    }
}
