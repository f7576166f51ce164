//! The submitter lane as a data structure: against a model, under threads, and what it keeps of the memory it takes.
#![cfg(not(loom))]

use proptest::prelude::*;
use scheduler::internals::queue::lane::{Claim, Lane};
use scheduler::internals::sync::Reclaimer;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::thread;

/// What the calling thread has allocated: tests of one binary run side by side.
struct Counting;
thread_local! {
    static BYTES: Cell<i64> = const { Cell::new(0) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
}
// SAFETY: the system allocator, with counters beside it that do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size() as i64);
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get() - layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}
#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A task of the production size; only the first word is looked at.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Task([u64; 8]);

type Production = Lane<Task, 64>;

fn push<const BLOCK: usize>(lane: &Lane<Task, BLOCK>, value: u64) -> bool {
    // SAFETY: every test has one producer per lane.
    let Some(slot) = (unsafe { lane.reserve() }) else {
        return false;
    };
    // SAFETY: reserved just now.
    unsafe { slot.write(Task([value; 8])) };
    // SAFETY: written just now.
    unsafe { lane.commit() };
    true
}

fn publish<const BLOCK: usize>(lane: &Lane<Task, BLOCK>) {
    // SAFETY: as in `push`.
    unsafe { lane.publish() }
}

fn position<const BLOCK: usize>(lane: &Lane<Task, BLOCK>) -> u64 {
    // SAFETY: as in `push`.
    unsafe { lane.position() }
}

fn claim<const BLOCK: usize>(lane: &Lane<Task, BLOCK>, max: u64, mut take: impl FnMut(u64)) -> Claim {
    let domain = Reclaimer::new();
    let pin = domain.register().pin();
    // SAFETY: claimed slots hold a task.
    lane.claim(&pin, max, |slot| take(unsafe { slot.read() }.0[7]))
}

/// Withdraws from `from` and reads back what came home.
fn withdraw<const BLOCK: usize>(lane: &Lane<Task, BLOCK>, from: u64) -> (u64, Vec<u64>) {
    let end = position(lane);
    // SAFETY: as in `push`, and all tests publish before.
    let first = unsafe { lane.withdraw(from) };
    let read = |at| {
        // SAFETY: withdrawn.
        let slot = unsafe { lane.slot_at(at) };
        // SAFETY: it holds a task.
        unsafe { slot.read() }.0[7]
    };
    (first, (first..end).map(read).collect())
}

#[derive(Clone, Debug)]
enum Op {
    Push(u8),
    Publish,
    Claim(u8),
    Limit(u8),
    Trim,
    Withdraw(u8),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        5 => (1..12u8).prop_map(Op::Push),
        5 => Just(Op::Publish),
        6 => (0..8u8).prop_map(Op::Claim),
        1 => (0..20u8).prop_map(Op::Limit),
        1 => Just(Op::Trim),
        1 => (0..10u8).prop_map(Op::Withdraw),
    ];
    prop::collection::vec(op, 1..200)
}

/// The lane and what it should hold.
struct Twin<const BLOCK: usize> {
    lane: Lane<Task, BLOCK>,
    /// Published tasks, and whether they may be claimed.
    queue: VecDeque<u64>,
    /// Committed, not published.
    pending: Vec<u64>,
    /// First position that can never be claimed.
    end: u64,
    next: u64,
    limit: u64,
}

impl<const BLOCK: usize> Twin<BLOCK> {
    fn new(start: u64) -> Self {
        let (queue, pending) = (VecDeque::new(), Vec::new());
        Twin { lane: Lane::new_at(start), queue, pending, end: u64::MAX, next: 0, limit: u64::MAX }
    }

    /// Position of the oldest task in the queue.
    fn head(&self) -> u64 {
        position(&self.lane) - (self.queue.len() + self.pending.len()) as u64
    }

    fn claimable(&self) -> u64 {
        let head = self.head();
        (head + self.queue.len() as u64).min(self.end).saturating_sub(head)
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Push(count) => (0..count).for_each(|_| {
                let room = position(&self.lane) < self.limit;
                assert_eq!(push(&self.lane, self.next), room);
                if room {
                    self.pending.push(self.next);
                    self.next += 1;
                }
            }),
            Op::Publish => {
                publish(&self.lane);
                self.queue.extend(self.pending.drain(..));
            }
            Op::Claim(max) => {
                let (head, ready) = (self.head(), self.claimable());
                let count = ready.min(max.into()).min(BLOCK as u64 - head % BLOCK as u64);
                let mut got = Vec::new();
                let claim = claim(&self.lane, max.into(), |value| got.push(value));
                let emptied = count != 0 && (head + count).is_multiple_of(BLOCK as u64);
                assert_eq!(claim, Claim { taken: count, left: ready - count, emptied });
                assert!(got.into_iter().eq(self.queue.drain(..count as usize)));
            }
            Op::Limit(ahead) => {
                self.limit = if ahead == 0 { u64::MAX } else { position(&self.lane) + u64::from(ahead) - 1 };
                // SAFETY: as in `push`.
                unsafe { self.lane.set_limit(self.limit) };
                // SAFETY: as in `push`.
                assert_eq!(unsafe { self.lane.limit() }, self.limit);
            }
            Op::Trim => self.lane.trim(),
            Op::Withdraw(back) => {
                self.apply(Op::Publish);
                let (head, tail) = (self.head(), position(&self.lane));
                let from = tail.saturating_sub(back.into()).max(head.saturating_sub(2));
                let (first, values) = withdraw(&self.lane, from);
                assert_eq!(first, from.max(head));
                assert!(values.into_iter().eq(self.queue.drain((first - head) as usize..)));
                assert_eq!(position(&self.lane), first);
                self.end = self.end.min(from);
            }
        }
        assert_eq!(self.lane.backlog(), self.claimable());
        assert_eq!(self.lane.is_drained(), self.claimable() == 0);
    }
}

const STARTS: [u64; 7] = [0, 3, (1 << 16) - 9, (1 << 31) - 9, (1 << 32) - 9, (1 << 48) - 6, (1 << 56) - 4096];

proptest! {
    #[test]
    fn behaves_like_a_queue_small_blocks(ops in ops(), start in prop::sample::select(&STARTS[..])) {
        let mut twin = Twin::<4>::new(start);
        ops.into_iter().for_each(|op| twin.apply(op));
    }

    #[test]
    fn behaves_like_a_queue_production_blocks(ops in ops(), start in prop::sample::select(&STARTS[..])) {
        let mut twin = Twin::<64>::new(start);
        ops.into_iter().for_each(|op| twin.apply(op));
    }

    #[test]
    fn behaves_like_a_queue_single_slots(ops in ops(), start in prop::sample::select(&STARTS[..])) {
        let mut twin = Twin::<1>::new(start);
        ops.into_iter().for_each(|op| twin.apply(op));
    }
}

#[test]
#[should_panic(expected = "56 bits")]
fn positions_end_at_56_bits() {
    let lane = Lane::<Task, 4>::new_at((1 << 56) - 8);
    (0..8).for_each(|value| assert!(push(&lane, value)));
}

/// A batch whose iterator submits to the same lane: the nested publication carries the outer tasks with it.
#[test]
fn a_nested_push_publishes_what_was_committed_before() {
    let lane = Lane::<Task, 4>::new();
    assert!(push(&lane, 0) && push(&lane, 1));
    assert_eq!(lane.backlog(), 0);
    assert!(push(&lane, 2));
    publish(&lane);
    assert_eq!(lane.backlog(), 3);
    assert!(push(&lane, 3) && push(&lane, 4));
    publish(&lane);
    let mut got = Vec::new();
    while claim(&lane, 64, |value| got.push(value)).taken > 0 {}
    assert_eq!(got, [0, 1, 2, 3, 4]);
}

/// The same on a closed lane: the inner submit takes back its own task, later the batch takes back the rest.
#[test]
fn nested_withdrawals_take_back_exactly_their_own() {
    let lane = Lane::<Task, 4>::new();
    (0..3).for_each(|value| assert!(push(&lane, value)));
    publish(&lane);
    let batch = position(&lane);
    (10..13).for_each(|value| assert!(push(&lane, value)));
    let inner = position(&lane);
    assert!(push(&lane, 20));
    publish(&lane);
    assert_eq!(withdraw(&lane, inner), (inner, vec![20]));
    let mut got = Vec::new();
    assert_eq!(claim(&lane, 4, |value| got.push(value)), Claim { taken: 4, left: 2, emptied: true });
    assert!(push(&lane, 13));
    publish(&lane);
    assert_eq!(withdraw(&lane, batch), (batch + 1, vec![11, 12, 13]));
    assert_eq!(claim(&lane, 4, |value| got.push(value)), Claim { taken: 0, left: 0, emptied: false });
    assert_eq!(got, [0, 1, 2, 10]);
}

/// A closed lane answers the same for ever, also when the count of cuts comes round.
#[test]
fn a_closed_lane_can_be_tried_again_and_again() {
    let lane = Lane::<Task, 4>::new();
    assert!(push(&lane, 7));
    publish(&lane);
    for value in 0..1000 {
        let from = position(&lane);
        (0..6).for_each(|_| assert!(push(&lane, value)));
        publish(&lane);
        assert_eq!(withdraw(&lane, from), (from, vec![value; 6]));
    }
    let mut got = Vec::new();
    assert_eq!(claim(&lane, 4, |value| got.push(value)), Claim { taken: 1, left: 0, emptied: false });
    assert_eq!(got, [7]);
    assert!(lane.is_cut() && !Production::new().is_cut());
}

/// More nested batches than the count of cuts has values.
#[test]
fn cuts_come_round() {
    let lane = Lane::<Task, 64>::new();
    (0..1000).for_each(|value| assert!(push(&lane, value)));
    publish(&lane);
    for from in (500..1000).rev() {
        assert_eq!(withdraw(&lane, from), (from, vec![from]));
    }
    let mut got = Vec::new();
    while claim(&lane, 64, |value| got.push(value)).taken > 0 {}
    assert!(got.into_iter().eq(0..500));
}

/// Every task once, while the owner publishes in batches of all sizes and somebody trims.
#[test]
fn each_task_once_under_threads() {
    const TASKS: u64 = 300_000;
    let lane = Lane::<Task, 8>::new_at((1 << 32) - 100_000);
    let seen: Vec<AtomicU8> = (0..TASKS).map(|_| AtomicU8::new(0)).collect();
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        let workers = [0, 1, 2u64].map(|worker| {
            let (lane, seen, done) = (&lane, &seen, &done);
            scope.spawn(move || {
                let (mut newest, mut max) = (None, worker);
                while done.load(Relaxed) < TASKS {
                    max = max % 9 + 1;
                    let claim = claim(lane, max, |value| {
                        assert!(newest < Some(value), "one claimer sees one lane in order");
                        newest = Some(value);
                        seen[value as usize].fetch_add(1, Relaxed);
                    });
                    done.fetch_add(claim.taken, Relaxed);
                    if claim.taken == 0 {
                        lane.trim();
                        thread::yield_now();
                    }
                }
            })
        });
        for value in 0..TASKS {
            assert!(push(&lane, value));
            if value % 37 == 0 || value % 11 == 3 {
                publish(&lane);
            }
        }
        publish(&lane);
        // A real join: ThreadSanitizer does not see the end of a scope.
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    assert!(seen.iter().all(|count| count.load(Relaxed) == 1));
    assert!(lane.is_drained());
}

/// Claimed or withdrawn, never both and never neither, at every moment of closing.
#[test]
fn each_task_claimed_or_withdrawn_under_threads() {
    for round in 0..2_000u64 {
        let lane = Lane::<Task, 4>::new();
        let seen: Vec<AtomicU8> = (0..16).map(|_| AtomicU8::new(0)).collect();
        let closed = AtomicBool::new(false);
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                loop {
                    let last = closed.load(std::sync::atomic::Ordering::Acquire);
                    let take = |value: u64| _ = seen[value as usize].fetch_add(1, Relaxed);
                    if claim(&lane, round % 4 + 1, take).taken == 0 && last {
                        break;
                    }
                }
            });
            (0..6).for_each(|value| assert!(push(&lane, value)));
            publish(&lane);
            (6..12).for_each(|value| assert!(push(&lane, value)));
            publish(&lane);
            for from in [9, 6] {
                for value in withdraw(&lane, from).1 {
                    assert!(value >= from);
                    seen[value as usize].fetch_add(1, Relaxed);
                }
            }
            closed.store(true, std::sync::atomic::Ordering::Release);
            // A real join: ThreadSanitizer does not see the end of a scope.
            worker.join().unwrap();
        });
        assert!(seen[..12].iter().all(|count| count.load(Relaxed) == 1), "{seen:?}");
    }
}

#[test]
fn memory_per_task_and_after_the_drain() {
    const TASKS: u64 = 1_000_000;
    let domain = Reclaimer::new();
    let pin = domain.register().pin();
    let before = BYTES.get();
    let lane = Production::new();
    (0..TASKS).for_each(|value| assert!(push(&lane, value)));
    publish(&lane);
    let peak = BYTES.get() - before;
    assert!(peak <= 66 * TASKS as i64, "{} bytes per task", peak as f64 / TASKS as f64);
    let mut next = 0;
    let take = |slot: *mut Task| {
        // SAFETY: a claimed slot.
        assert_eq!(unsafe { slot.read() }.0[0], next);
        next += 1;
    };
    let mut take = take;
    while lane.claim(&pin, 64, &mut take).taken > 0 {}
    let busy = BYTES.get() - before;
    lane.trim();
    let kept = BYTES.get() - before;
    assert!(busy <= peak / 10, "{busy} of {peak} bytes kept while busy");
    assert!(kept <= peak / 100, "{kept} of {peak} bytes kept");
    drop(lane);
    assert_eq!(BYTES.get(), before, "the lane leaks");
    println!("peak {:.2} bytes per task, busy {busy}, kept {kept}", peak as f64 / TASKS as f64);
}

/// A directory that was passed is freed as soon as its blocks are gone, not at the end.
#[test]
fn passed_directories_are_freed() {
    let lane = Production::new();
    let before = BYTES.get();
    for backlog in [1_000, 10_000, 100_000u64] {
        (0..backlog).for_each(|value| assert!(push(&lane, value)));
        publish(&lane);
        while claim(&lane, 63, |_| ()).taken > 0 {}
        lane.trim();
    }
    // The newest has 2048 entries; the handful of blocks on both sides and the current one.
    let kept = BYTES.get() - before;
    assert!(kept <= 2048 * 8 + 17 * 4160 + 256, "{kept} bytes kept");
}

#[test]
fn steady_state_allocates_nothing() {
    let domain = Reclaimer::new();
    let pin = domain.register().pin();
    let lane = Production::new();
    let round = |max| {
        (0..10_000).for_each(|value| assert!(push(&lane, value)));
        publish(&lane);
        while lane.claim(&pin, max, |_| ()).taken > 0 {}
    };
    (0..3).for_each(|_| round(64));
    let calls = CALLS.get();
    (1..40).for_each(|max| round(2 * max));
    assert_eq!(CALLS.get(), calls);
}

/// Growth costs at most one allocation per block.
#[test]
fn growth_allocates_once_per_block() {
    let lane = Production::new();
    let calls = CALLS.get();
    (0..64_000).for_each(|value| assert!(push(&lane, value)));
    let calls = CALLS.get() - calls;
    assert!((1000..=1000 + 2 * 6).contains(&calls), "{calls} allocations for 1000 blocks");
}
