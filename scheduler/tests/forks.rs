//! Latent forks without a model checker: against a reference step by step, exhaustively behind a stuck owner, and as
//! fork-join under load.
#![cfg(not(loom))]

use proptest::prelude::*;
use scheduler::internals::queue::forks::{Forks, Owner};
use scheduler::internals::sync::{full_fence, heavy, light};
use scheduler::sys::membarrier_register;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

/// Where versions begin: at 0, and one and two before their wrap.
const STARTS: [u64; 3] = [0, (1 << 39) - 1, (1 << 39) - 2];

/// The stack dereferences nothing, so a fork is a number in a pointer's clothes.
fn fork(id: usize) -> *mut u8 {
    std::ptr::without_provenance_mut(id + 1)
}
fn id(fork: *mut u8) -> usize {
    fork.addr() - 1
}

/// A thief that announces and then stands still for ever.
fn abandon<const CAP: usize>(forks: &Forks<u8, CAP>) {
    let _ = catch_unwind(AssertUnwindSafe(|| forks.rescue(|| resume_unwind(Box::new(())))));
}

// ---- the reference ------------------------------------------------------------------------------------------------

#[derive(Clone, Debug)]
enum Op {
    Push,
    Pop(Vec<Op>),
    Publish,
    Steal,
    Rescue(bool, Vec<Op>),
    Abandon,
}

/// One stack beside its reference; every step compares what comes out.
struct Pair<'a, const CAP: usize> {
    forks: &'a Forks<u8, CAP>,
    /// Who is in the slots, oldest first.
    stack: Vec<usize>,
    /// How many of them count: one less in the middle of a pop.
    tail: usize,
    head: usize,
    split: usize,
    intent: bool,
    version: u32,
    made: usize,
    settled: usize,
}

impl<'a, const CAP: usize> Pair<'a, CAP> {
    fn new(forks: &'a Forks<u8, CAP>) -> Self {
        let stack = vec![];
        Pair { forks, stack, tail: 0, head: 0, split: 0, intent: false, version: 0, made: 0, settled: 0 }
    }

    fn owner(&self) -> Owner<'a, u8, CAP> {
        // SAFETY: the test runs on one thread, and `step` pops only what was pushed.
        unsafe { self.forks.owner() }
    }

    fn calm(&mut self, head: usize, split: usize) {
        (self.head, self.split, self.intent) = (head, split, false);
        self.version += 1;
    }

    fn push(&mut self) {
        let pushed = self.owner().push(fork(self.made));
        assert_eq!(pushed, self.tail < CAP);
        if pushed {
            self.tail += 1;
            self.stack.push(self.made);
            self.made += 1;
        }
    }

    fn pop(&mut self, between: &[Op]) {
        if self.tail == 0 {
            return;
        }
        self.tail -= 1;
        let (at, owner) = (self.tail, self.owner());
        let mine = owner.pop(|| between.iter().for_each(|op| self.step(op)));
        assert_eq!(mine, at >= self.head);
        if at < self.split + self.intent as usize {
            self.calm(self.head.min(at), self.split.min(at));
        }
        self.stack.pop();
        self.settled += mine as usize;
    }

    fn publish(&mut self) {
        let expected = self.split < self.tail;
        assert_eq!(self.owner().publish(), expected);
        if expected {
            self.calm(self.head, self.split + 1);
        }
    }

    fn steal(&mut self) {
        let stolen = self.forks.steal().map(id);
        let expected = (self.head < self.split).then(|| self.stack[self.head]);
        assert_eq!(stolen, expected);
        if stolen.is_some() {
            self.calm(self.head + 1, self.split);
            self.settled += 1;
        }
    }

    fn rescue(&mut self, granted: bool, meanwhile: &[Op]) {
        self.announce();
        let (intent, version) = (self.intent, self.version);
        let forks = self.forks;
        let published = forks.rescue(|| {
            meanwhile.iter().for_each(|op| self.step(op));
            granted
        });
        let unspoilt = intent && self.version == version;
        let expected = unspoilt && granted && self.split < self.tail;
        if unspoilt {
            self.calm(self.head, self.split + expected as usize);
        }
        assert_eq!(published, expected);
    }

    fn announce(&mut self) {
        if !self.intent && self.split < self.tail {
            self.intent = true;
            self.version += 1;
        }
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Push => self.push(),
            Op::Pop(between) => self.pop(between),
            Op::Publish => self.publish(),
            Op::Steal => self.steal(),
            Op::Rescue(granted, meanwhile) => self.rescue(*granted, meanwhile),
            Op::Abandon => {
                abandon(self.forks);
                self.announce();
            }
        }
    }

    fn compare(&self) {
        assert_eq!(self.forks.public_len() as usize, self.split - self.head);
        assert_eq!(self.forks.private_len() as usize, self.tail - self.split);
        let limit = self.split + self.intent as usize;
        let expected = format!("head {} split {} limit {limit} ", self.head, self.split);
        let text = format!("{:?}", self.forks);
        assert!(text.starts_with(&expected), "{text}, expected {expected}");
    }
}

fn run(start: u64, ops: &[Op]) {
    const CAP: usize = 4;
    let forks = Forks::<u8, CAP>::new_at(start);
    let mut pair = Pair::<CAP>::new(&forks);
    for op in ops {
        pair.step(op);
        pair.compare();
    }
    while pair.tail != 0 {
        pair.pop(&[]);
        pair.compare();
    }
    assert_eq!(pair.made, pair.settled);
    assert_eq!(forks.steal(), None);
}

/// What a thief does, at any time.
fn thief_op() -> impl Strategy<Value = Op> {
    let rescue = any::<bool>().prop_map(|granted| Op::Rescue(granted, vec![]));
    prop_oneof![Just(Op::Steal), rescue, Just(Op::Abandon)]
}
fn owner_op() -> impl Strategy<Value = Op> {
    // In the middle of a pop: what thieves do, and the owner's own publish.
    let between = prop_oneof![3 => thief_op(), 1 => Just(Op::Publish)];
    let pop = prop::collection::vec(between, 0..3).prop_map(Op::Pop);
    prop_oneof![4 => Just(Op::Push), 3 => pop, 2 => Just(Op::Publish)]
}
fn any_op() -> impl Strategy<Value = Op> {
    // In the middle of a rescue: anything, from either side.
    let meanwhile = prop::collection::vec(prop_oneof![thief_op(), owner_op()], 0..5);
    let rescue = (any::<bool>(), meanwhile).prop_map(|(granted, ops)| Op::Rescue(granted, ops));
    prop_oneof![4 => owner_op(), 2 => thief_op(), 2 => rescue]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_reference(start in 0usize..STARTS.len(), ops in prop::collection::vec(any_op(), 1..60)) {
        run(STARTS[start], &ops);
    }
}

// ---- nothing waits behind a stuck owner ---------------------------------------------------------------------------

/// Every sequence of six operations, each of them the owner's last: a thief settles one fork per step, and leaves
/// only the one that an owner stuck in the middle of a pop is about to take.
#[test]
fn nothing_waits_behind_a_stuck_owner() {
    const OPS: usize = 8;
    const LENGTH: u32 = 6;
    for code in 0..OPS.pow(LENGTH) {
        let forks = Forks::<u8, 4>::new_at(STARTS[2]);
        let mut pair = Pair::<4>::new(&forks);
        for step in 0..LENGTH {
            pair.step(&match code / OPS.pow(step) % OPS {
                0 | 1 => Op::Push,
                2 => Op::Pop(vec![]),
                3 => Op::Publish,
                4 => Op::Steal,
                5 => Op::Rescue(true, vec![]),
                6 => Op::Rescue(false, vec![]),
                _ => Op::Abandon,
            });
        }
        // The top fork is the owner's to settle when it was private at that moment; a public one stays stealable.
        let stalls = code % 2 == 0 && pair.tail != 0;
        if stalls {
            pair.tail -= 1;
            let _ = catch_unwind(AssertUnwindSafe(|| pair.owner().pop(|| resume_unwind(Box::new(())))));
        }
        let there = pair.tail.max(pair.split) - pair.head;
        let one = |_: &usize| {
            forks.rescue(|| true);
            forks.steal().is_some()
        };
        let settled = (0..there + 2).filter(one).count();
        assert_eq!(settled, there, "sequence {code:o} (octal, last first): {forks:?}");
    }
}

// ---- under load ---------------------------------------------------------------------------------------------------

/// A fork-join tree run by one owner while thieves steal its forks: the shape of `join`, without the waiting.
struct Tree<'a> {
    forks: &'a Forks<u8, 16>,
    runs: &'a [AtomicU32],
    between: fn(),
    next: AtomicUsize,
}

impl Tree<'_> {
    fn run(&self, id: usize) {
        self.runs[id].fetch_add(1, Relaxed);
    }

    /// Pushes one fork per inner node, deeper than the stack has room for; the owner stands still now and then.
    fn walk(&self, owner: Owner<'_, u8, 16>, depth: u32) {
        let id = self.next.fetch_add(1, Relaxed);
        if depth == 0 || id >= self.runs.len() {
            (id..self.runs.len().min(id + 1)).for_each(|id| self.run(id));
            return;
        }
        let pushed = owner.push(fork(id));
        match id % 64 {
            0 | 1 => drop(owner.publish()),
            2 => std::thread::yield_now(),
            _ => (),
        }
        self.walk(owner, depth - 1);
        self.walk(owner, depth - 1);
        if !pushed || owner.pop(self.between) {
            self.run(id);
        }
    }
}

fn hammer(start: u64, between: fn(), barrier: fn() -> bool) -> u64 {
    const NODES: usize = 30_000;
    let forks = Forks::new_at(start);
    let runs: Vec<_> = (0..NODES).map(|_| AtomicU32::new(0)).collect();
    let (done, rescues) = (AtomicBool::new(false), AtomicU64::new(0));
    let tree = Tree { forks: &forks, runs: &runs, between, next: AtomicUsize::new(0) };
    let thief = |skip: u32| {
        let mut turn = 0;
        while !done.load(Acquire) {
            turn += 1;
            if turn % skip == 0 {
                rescues.fetch_add(forks.rescue(barrier) as u64, Relaxed);
            }
            if turn % 64 == 0 {
                std::thread::yield_now();
            }
            forks.steal().map(id).into_iter().for_each(|id| tree.run(id));
        }
    };
    let own = || {
        // SAFETY: this thread only; `walk` pops what it has pushed, newest first.
        let owner = unsafe { tree.forks.owner() };
        while tree.next.load(Relaxed) < NODES {
            tree.walk(owner, 17);
        }
        done.store(true, Release);
    };
    std::thread::scope(|s| {
        s.spawn(|| thief(9));
        s.spawn(|| thief(20));
        s.spawn(own);
    });
    let wrong: Vec<_> = (0..NODES).filter(|&id| runs[id].load(Relaxed) != 1).collect();
    assert!(wrong.is_empty(), "lost or run twice: {wrong:?} {forks:?}");
    rescues.into_inner()
}

fn hammer_everywhere(between: fn(), barrier: fn() -> bool) {
    let starts = STARTS.into_iter().cycle().take(3);
    let rescues: u64 = starts.map(|start| hammer(start, between, barrier)).sum();
    assert!(rescues > 100, "only {rescues} rescues: the load shows nothing");
}

#[test]
fn settled_once_under_load_membarrier() {
    if let Err(refused) = membarrier_register() {
        eprintln!("skipped, no membarrier here: {refused}");
        return;
    }
    hammer_everywhere(light, heavy);
}

#[test]
fn settled_once_under_load_fenced() {
    let barrier = || {
        full_fence("thief");
        true
    };
    hammer_everywhere(|| full_fence("owner"), barrier);
}

/// The stack is part of a worker that all threads see.
#[test]
fn stacks_are_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<Forks<std::cell::Cell<u8>, 4>>();
}
