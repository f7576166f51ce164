//! The worker queue without a model checker: against a reference step by step, exhaustively behind a stuck owner, and
//! under load.
#![cfg(not(loom))]

use proptest::prelude::*;
use scheduler::internals::queue::local::Ring;
use scheduler::internals::sync::{Line, full_fence, heavy, light};
use scheduler::sys::membarrier_register;
use std::collections::VecDeque;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering::*};

/// Where positions and versions begin: around every wrap there is.
const STARTS: [u32; 7] = [0, u32::MAX - 1, u32::MAX / 2, (1 << 31) - 2, (1 << 24) - 3, (1 << 16) - 2, (1 << 8) - 2];

/// The ring dereferences nothing, so a task is a number in a pointer's clothes.
fn task(id: usize) -> *mut u8 {
    std::ptr::without_provenance_mut(id + 1)
}
fn id(task: *mut u8) -> usize {
    task.addr() - 1
}

fn claim<const CAP: usize>(ring: &Ring<u8, CAP>, most: usize, share: u32) -> Vec<usize> {
    let mut batch = [const { MaybeUninit::uninit() }; 64];
    let claimed = ring.claim(&mut batch[..most], |_| share);
    claimed.iter().map(|&t| id(t)).collect()
}

/// A thief that announces and then stands still for ever.
fn abandon<const CAP: usize>(ring: &Ring<u8, CAP>) {
    let _ = catch_unwind(AssertUnwindSafe(|| ring.rescue(|| resume_unwind(Box::new(())))));
}

/// An owner that is preempted for ever in the middle of a pop.
fn stall_in_pop<const CAP: usize>(ring: &Ring<u8, CAP>) {
    // SAFETY: the tests that call this run the ring on one thread.
    let owner = unsafe { ring.owner() };
    let _ = catch_unwind(AssertUnwindSafe(|| owner.pop(|| resume_unwind(Box::new(())))));
}

// ---- the reference ------------------------------------------------------------------------------------------------

#[derive(Clone, Debug)]
enum Op {
    Push,
    PushMany(usize),
    Pop(Vec<Op>),
    Publish(u32),
    Claim(usize, u32),
    Rescue(bool, Vec<Op>),
    Abandon,
}

#[derive(Default)]
struct Reference {
    public: VecDeque<usize>,
    private: VecDeque<usize>,
    intent: usize,
    version: u32,
}

impl Reference {
    fn make_public(&mut self, count: usize) {
        self.public.extend(self.private.drain(..count));
        self.calm();
    }
    fn calm(&mut self) {
        self.intent = 0;
        self.version += 1;
    }
    fn announce(&mut self) -> bool {
        if self.intent == 0 && !self.private.is_empty() {
            self.intent = self.private.len().min(255);
            self.version += 1;
        }
        self.intent != 0
    }
}

/// One ring beside its reference; every step compares what comes out.
struct Pair<'a, const CAP: usize> {
    ring: &'a Ring<u8, CAP>,
    is: Reference,
    made: usize,
    out: usize,
}

impl<const CAP: usize> Pair<'_, CAP> {
    fn room(&self) -> usize {
        CAP - self.is.public.len() - self.is.private.len()
    }

    fn push(&mut self) {
        // SAFETY: the test runs on one thread.
        let owner = unsafe { self.ring.owner() };
        let pushed = owner.push(task(self.made));
        if self.room() == 0 {
            assert_eq!(pushed, Err(task(self.made)), "the task comes back");
        } else {
            assert_eq!(pushed, Ok(()));
            self.is.private.push_back(self.made);
            self.made += 1;
        }
    }

    fn push_many(&mut self, count: usize) {
        // SAFETY: the test runs on one thread.
        let owner = unsafe { self.ring.owner() };
        let batch: Vec<_> = (self.made..self.made + count).map(task).collect();
        let mut batch = batch.into_iter();
        let fits = count.min(self.room());
        assert_eq!(owner.push_many(&mut batch) as usize, fits);
        assert_eq!(batch.len(), count - fits, "the rest stays in the iterator");
        self.is.private.extend(self.made..self.made + fits);
        self.made += fits;
    }

    fn pop(&mut self, between: &[Op]) {
        // SAFETY: the test runs on one thread.
        let owner = unsafe { self.ring.owner() };
        let expected = self.is.private.pop_back();
        let popped = owner.pop(|| between.iter().for_each(|op| self.step(op)));
        if expected.is_some() && self.is.private.len() < self.is.intent {
            self.is.calm();
        }
        assert_eq!(popped.map(id), expected);
        self.out += expected.is_some() as usize;
    }

    fn publish(&mut self, k: u32) {
        // SAFETY: the test runs on one thread.
        let owner = unsafe { self.ring.owner() };
        let expected = self.is.private.len().min(k as usize);
        assert_eq!(owner.publish(k) as usize, expected);
        if expected != 0 {
            self.is.make_public(expected);
        }
    }

    fn claim(&mut self, most: usize, share: u32) {
        let count = self.is.public.len().min(most).min(share.max(1) as usize);
        let expected: Vec<_> = self.is.public.drain(..count).collect();
        assert_eq!(claim(self.ring, most, share), expected);
        self.out += count;
    }

    fn rescue(&mut self, granted: bool, meanwhile: &[Op]) {
        let announced = self.is.announce();
        let version = self.is.version;
        let ring = self.ring;
        let published = ring.rescue(|| {
            meanwhile.iter().for_each(|op| self.step(op));
            granted
        });
        let mut expected = 0;
        if announced && self.is.version == version {
            let covered = self.is.intent.min(self.is.private.len());
            expected = if granted { covered } else { 0 };
            self.is.make_public(expected);
        }
        assert_eq!(published, expected != 0);
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Push => self.push(),
            Op::PushMany(count) => self.push_many(*count),
            Op::Pop(between) => self.pop(between),
            Op::Publish(k) => self.publish(*k),
            Op::Claim(most, share) => self.claim(*most, *share),
            Op::Rescue(granted, meanwhile) => self.rescue(*granted, meanwhile),
            Op::Abandon => {
                abandon(self.ring);
                self.is.announce();
            }
        }
    }

    fn compare(&self) {
        assert_eq!(self.ring.public_len() as usize, self.is.public.len());
        assert_eq!(self.ring.private_hint() as usize, self.is.private.len());
        let calm = self.is.intent == 0;
        let text = format!("{:?}", self.ring);
        let word: Vec<_> = text.split(' ').collect();
        assert_eq!(word[3] == word[5], calm, "split and limit: {text}");
    }
}

fn run<const CAP: usize>(start: u32, ops: &[Op]) {
    let ring = Ring::<u8, CAP>::new_at(start);
    let mut pair = Pair { ring: &ring, is: Reference::default(), made: 0, out: 0 };
    for op in ops {
        pair.step(op);
        pair.compare();
    }
    while !pair.is.private.is_empty() {
        pair.pop(&[]);
    }
    while !pair.is.public.is_empty() {
        pair.claim(64, 64);
    }
    pair.pop(&[]);
    pair.claim(64, 64);
    assert_eq!(pair.made, pair.out);
}

/// What a thief does, at any time.
fn thief_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0usize..6, 0u32..6).prop_map(|(most, share)| Op::Claim(most, share)),
        any::<bool>().prop_map(|granted| Op::Rescue(granted, vec![])),
        Just(Op::Abandon),
    ]
}
fn owner_op() -> impl Strategy<Value = Op> {
    // In the middle of a pop: what thieves do, and the owner's own publish and claim.
    let between = prop_oneof![thief_op(), (0u32..4).prop_map(Op::Publish)];
    prop_oneof![
        4 => Just(Op::Push),
        1 => (0usize..12).prop_map(Op::PushMany),
        4 => prop::collection::vec(between, 0..3).prop_map(Op::Pop),
        2 => (0u32..10).prop_map(Op::Publish),
    ]
}
fn any_op() -> impl Strategy<Value = Op> {
    // In the middle of a rescue: anything, from either side.
    let meanwhile = prop::collection::vec(prop_oneof![thief_op(), owner_op()], 0..5);
    let rescue = (any::<bool>(), meanwhile).prop_map(|(granted, ops)| Op::Rescue(granted, ops));
    prop_oneof![4 => owner_op(), 2 => thief_op(), 2 => rescue]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_reference(start in 0usize..STARTS.len(), ops in prop::collection::vec(any_op(), 1..60)) {
        run::<1>(STARTS[start], &ops);
        run::<4>(STARTS[start], &ops);
        run::<8>(STARTS[start], &ops);
    }
}

/// An intent holds at most 255 tasks: a longer private part is published in steps.
#[test]
fn long_rescue_goes_in_steps() {
    for start in STARTS {
        let push = Op::PushMany(700);
        let ops = [push, Op::Rescue(true, vec![Op::Pop(vec![]); 3]), Op::Rescue(true, vec![]), Op::Abandon];
        run::<1024>(start, &ops);
        let ring = Ring::<u8, 1024>::new_at(start);
        // SAFETY: one thread.
        let owner = unsafe { ring.owner() };
        assert_eq!(owner.push_many(&mut (0..700).map(task)), 700);
        for published in [255, 510, 700] {
            assert!(ring.rescue(|| true));
            assert_eq!(ring.public_len(), published);
        }
        assert!(!ring.rescue(|| unreachable!("nothing is left to announce")));
    }
}

// ---- nothing waits behind a stuck owner ---------------------------------------------------------------------------

/// Thieves alone, in the order rescue, claim; says how many steps it took.
fn drain_behind_stuck_owner<const CAP: usize>(ring: &Ring<u8, CAP>, limit: usize) -> Vec<usize> {
    let mut got = vec![];
    for _ in 0..limit {
        ring.rescue(|| true);
        got.extend(claim(ring, 64, 64));
    }
    got
}

/// Every sequence of six operations, each of them the owner's last: two steps of one thief drain what is there, and all
/// but the one task that an owner stuck in the middle of a pop is about to take.
#[test]
fn nothing_waits_behind_a_stuck_owner() {
    const OPS: usize = 8;
    const LENGTH: u32 = 6;
    for code in 0..OPS.pow(LENGTH) {
        let ring = Ring::<u8, 4>::new_at(u32::MAX - 1);
        // SAFETY: one thread.
        let owner = unsafe { ring.owner() };
        let (mut pushed, mut seen) = (0, vec![]);
        for step in 0..LENGTH {
            match code / OPS.pow(step) % OPS {
                0 | 1 => pushed += owner.push(task(pushed)).is_ok() as usize,
                2 => seen.extend(owner.pop(|| ()).map(id)),
                3 => drop(owner.publish(1)),
                4 => seen.extend(claim(&ring, 1, 1)),
                5 => drop(ring.rescue(|| true)),
                6 => drop(ring.rescue(|| false)),
                _ => abandon(&ring),
            }
        }
        let stalls = code % 2 == 0 && ring.private_hint() != 0;
        if stalls {
            stall_in_pop(&ring);
        }
        seen.extend(drain_behind_stuck_owner(&ring, 2));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), pushed - stalls as usize, "sequence {code:o} (octal, last first): {ring:?}");
    }
}

// ---- under load ---------------------------------------------------------------------------------------------------

/// xorshift, so that a run is cheap and the same everywhere.
struct Dice(u64);
impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Says how many rescues published something.
fn hammer<const CAP: usize>(start: u32, tasks: usize, between: fn(), barrier: fn() -> bool) -> usize {
    let ring = Ring::<u8, CAP>::new_at(start);
    let runs: Vec<_> = (0..tasks).map(|_| AtomicU8::new(0)).collect();
    let done = AtomicBool::new(false);
    let rescues = AtomicUsize::new(0);
    // Judged at the end, so that no thread dies while others wait for it.
    let run = |id: usize| {
        runs[id].fetch_add(1, Relaxed);
    };
    let thief = |seed: u64| {
        let mut dice = Dice(seed);
        while !done.load(Acquire) {
            match dice.below(8) {
                0..4 => claim(&ring, 1 + dice.below(8) as usize, 4).into_iter().for_each(run),
                4..7 => drop(rescues.fetch_add(ring.rescue(barrier) as usize, Relaxed)),
                _ => std::thread::yield_now(),
            }
        }
    };
    let own = || {
        // SAFETY: this thread only.
        let owner = unsafe { ring.owner() };
        let (mut dice, mut next) = (Dice(start as u64 | 1), 0);
        while next < tasks {
            match dice.below(16) {
                0..7 => next += owner.push(task(next)).is_ok() as usize,
                7 => next += owner.push_many(&mut (next..tasks.min(next + 5)).map(task)) as usize,
                8..14 => owner.pop(between).into_iter().map(id).for_each(run),
                14 => drop(owner.publish(dice.below(3) as u32)),
                // The stall that a rescue is for; rare enough to leave time for the rest.
                _ if dice.below(32) == 0 => std::thread::yield_now(),
                _ => claim(&ring, 2, 2).into_iter().for_each(run),
            }
        }
        while let Some(task) = owner.pop(between) {
            run(id(task));
        }
        while ring.public_len() != 0 {
            claim(&ring, 8, 8).into_iter().for_each(run);
        }
        done.store(true, Release);
    };
    std::thread::scope(|s| {
        s.spawn(|| thief(1));
        s.spawn(|| thief(99));
        s.spawn(own);
    });
    let wrong: Vec<_> = (0..tasks).filter(|&id| runs[id].load(Relaxed) != 1).collect();
    assert!(wrong.is_empty(), "lost or run twice: {wrong:?} {ring:?}");
    rescues.into_inner()
}

fn hammer_everywhere(between: fn(), barrier: fn() -> bool) {
    let run = |start| hammer::<8>(start, 30_000, between, barrier) + hammer::<256>(start, 30_000, between, barrier);
    let rescues: usize = STARTS.into_iter().map(run).sum();
    assert!(rescues > 100, "only {rescues} rescues: the load shows nothing");
}

#[test]
fn exactly_once_under_load_membarrier() {
    if let Err(refused) = membarrier_register() {
        eprintln!("skipped, no membarrier here: {refused}");
        return;
    }
    hammer_everywhere(light, heavy);
}

#[test]
fn exactly_once_under_load_fenced() {
    let barrier = || {
        full_fence("thief");
        true
    };
    hammer_everywhere(|| full_fence("owner"), barrier);
}

/// Owner and rescuer meet over one task again and again, with the owner's store of `tail` held up behind others:
/// without the barrier about one round in a thousand goes wrong (when the two really run side by side), where plain
/// load shows nothing in minutes.
fn rounds(rounds: u32, between: fn(), barrier: fn() -> bool) {
    let ring = Ring::<u8, 4>::new();
    let (turn, ready, answers) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    let (announced, wrong) = (AtomicU32::new(0), AtomicU32::new(0));
    // Lines that the thief has just written: the owner's stores to them keep its store of `tail` waiting.
    let slow: [_; 24] = std::array::from_fn(|_| Line(AtomicU32::new(0)));
    let store_slowly = |value| slow.iter().for_each(|line| line.0.store(value, Relaxed));
    let await_that = |ready: &dyn Fn() -> bool| {
        for spin in 1u32.. {
            if ready() {
                return;
            }
            if spin % 256 == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    };
    // A little over what the owner's stores take: each meets the other at every point of its few instructions.
    let stagger = |round: u32| (0..round.wrapping_mul(17) % 1999).for_each(|i| _ = black_box(i));
    let thief = || {
        for round in 1..=rounds {
            await_that(&|| turn.load(Acquire) == round);
            store_slowly(round);
            ready.store(round, Release);
            stagger(round);
            ring.rescue(|| {
                announced.fetch_add(1, Relaxed);
                barrier()
            });
            answers.store(round << 1 | claim(&ring, 1, 1).len() as u32, Release);
        }
    };
    let own = || {
        // SAFETY: this thread only.
        let owner = unsafe { ring.owner() };
        for round in 1..=rounds {
            owner.push(task(0)).expect("the ring is empty");
            turn.store(round, Release);
            await_that(&|| ready.load(Acquire) == round);
            store_slowly(!round);
            let popped = owner.pop(between).is_some() as u32;
            await_that(&|| answers.load(Acquire) >> 1 == round);
            let stolen = answers.load(Relaxed) & 1;
            let left = owner.pop(between).is_some() as u32 + claim(&ring, 1, 1).len() as u32;
            wrong.fetch_add((popped + stolen + left != 1) as u32, Relaxed);
        }
    };
    std::thread::scope(|s| {
        s.spawn(thief);
        s.spawn(own);
    });
    assert_eq!(wrong.into_inner(), 0, "rounds with a task lost or run twice");
    assert!(announced.into_inner() > rounds / 100, "the thief came too late");
}

#[test]
fn store_load_rounds_membarrier() {
    if let Err(refused) = membarrier_register() {
        eprintln!("skipped, no membarrier here: {refused}");
        return;
    }
    rounds(10_000, light, heavy);
}

#[test]
fn store_load_rounds_fenced() {
    let barrier = || {
        full_fence("thief");
        true
    };
    rounds(20_000, || full_fence("owner"), barrier);
}

/// The queue is part of a worker that all threads see.
#[test]
fn rings_are_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<Ring<std::cell::Cell<u8>, 4>>();
}
