//! Models of the submitter lane. A task holds a loom `Arc`, so one that is lost or taken twice is reported by itself,
//! and the slots are cells that loom checks for races.
//!
//! One pin serves all threads of a model: the stand-in for reclamation is a mutex, and a pin per claim would order what
//! the lane has to order.
#![cfg(loom)]

use loom::thread;
use loom_tests::model;
use scheduler::internals::queue::lane::{Claim, Lane};
use scheduler::internals::sync::{Arc, Pin, Reclaimer};

/// Which task, and a reference that must be given back once.
struct Task {
    position: u64,
    _proof: Arc<()>,
}

struct World<const BLOCK: usize> {
    lane: Arc<Lane<Task, BLOCK>>,
    pin: Arc<Pin>,
    proof: Arc<()>,
    next: u64,
}

impl<const BLOCK: usize> World<BLOCK> {
    fn new() -> Self {
        let pin = Arc::new(Reclaimer::new().register().pin());
        World { lane: Arc::new(Lane::new()), pin, proof: Arc::new(()), next: 0 }
    }

    /// Commits `count` tasks numbered by position and publishes them once.
    fn push(&mut self, count: u64) {
        for _ in 0..count {
            // SAFETY: the main thread is the only producer.
            let slot = unsafe { self.lane.reserve() }.expect("no limit is set");
            // SAFETY: reserved just now.
            unsafe { slot.write(Task { position: self.next, _proof: self.proof.clone() }) };
            // SAFETY: written just now.
            unsafe { self.lane.commit() };
            self.next += 1;
        }
        // SAFETY: the main thread is the only producer.
        unsafe { self.lane.publish() };
    }

    /// Withdraws from `from` and gives back what came home; the first position that did.
    fn withdraw(&mut self, from: u64) -> u64 {
        // SAFETY: the main thread is the only producer, and everything is published.
        let first = unsafe { self.lane.withdraw(from) };
        for position in first..self.next {
            // SAFETY: withdrawn.
            let slot = unsafe { self.lane.slot_at(position) };
            // SAFETY: holds a task that is ours again.
            let task = unsafe { slot.read() };
            assert_eq!(task.position, position);
        }
        self.next = first;
        first
    }

    fn claimer(&self, max: u64, rounds: usize) -> thread::JoinHandle<Vec<u64>> {
        let (lane, pin) = (self.lane.clone(), self.pin.clone());
        thread::spawn(move || {
            let mut got = Vec::new();
            (0..rounds).for_each(|_| _ = claim(&lane, &pin, max, &mut got));
            got
        })
    }

    /// Claims the rest; all claims together must be `0..count`, each once.
    fn finish(self, mut got: Vec<u64>, count: u64) {
        while claim(&self.lane, &self.pin, u64::MAX, &mut got).taken > 0 {}
        got.sort_unstable();
        assert!(got.iter().copied().eq(0..count), "claimed {got:?} of {count}");
        assert!(self.lane.is_drained());
    }
}

fn claim<const BLOCK: usize>(lane: &Lane<Task, BLOCK>, pin: &Pin, max: u64, got: &mut Vec<u64>) -> Claim {
    lane.claim(pin, max, |slot| {
        // SAFETY: a claimed slot holds a task.
        got.push(unsafe { slot.read() }.position);
    })
}

fn join_all<const N: usize>(threads: [thread::JoinHandle<Vec<u64>>; N]) -> Vec<u64> {
    threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
}

/// The payload reaches the claimer, through both ways a block ends: claimed whole, and counted.
#[test]
fn push_and_claim() {
    model("lane push_and_claim", Some(5), 100, || {
        let mut world = World::<2>::new();
        let claimer = world.claimer(2, 3);
        world.push(1);
        world.push(2);
        let got = join_all([claimer]);
        world.finish(got, 3);
    });
}

/// Two claimers share a block, one of them the owner itself, which may be the last to count and then reuses the slots
/// with nothing but the count between the other's reads and its writes.
#[test]
fn last_counter_reuses_the_slots() {
    model("lane last_counter_reuses_the_slots", Some(4), 50, || {
        let mut world = World::<2>::new();
        world.push(2);
        let claimer = world.claimer(1, 1);
        let mut got = Vec::new();
        let _ = claim(&world.lane, &world.pin, 1, &mut got);
        world.push(2);
        got.extend(join_all([claimer]));
        world.finish(got, 4);
    });
}

/// Two claimers share a block, and its last counter sends it home while the owner goes on.
#[test]
fn slots_are_reused_while_claimers_work() {
    model("lane slots_are_reused_while_claimers_work", Some(2), 1000, || {
        let mut world = World::<2>::new();
        world.push(2);
        let claimers = [world.claimer(1, 1), world.claimer(1, 1)];
        world.push(3);
        let got = join_all(claimers);
        world.finish(got, 5);
    });
}

/// A block claimed as a whole is not counted: its way home alone must order the reuse.
#[test]
fn whole_blocks_are_reused() {
    model("lane whole_blocks_are_reused", Some(3), 100, || {
        let mut world = World::<1>::new();
        world.push(1);
        let claimer = world.claimer(1, 2);
        world.push(1);
        world.push(1);
        let got = join_all([claimer]);
        world.finish(got, 3);
    });
}

/// A larger directory takes over while the only block of the old one is claimed: either side may be the last to hold
/// the old one, and frees it.
#[test]
fn directory_is_passed() {
    model("lane directory_is_passed", Some(5), 50, || {
        let mut world = World::<1>::new();
        world.push(1);
        let claimer = world.claimer(1, 1);
        world.push(1);
        let got = join_all([claimer]);
        world.finish(got, 2);
    });
}

/// Directories of 1, 2 and 4 entries: the claimer of the oldest block walks there from the newest directory, while the
/// one in between loses its blocks.
#[test]
fn directories_go_oldest_first() {
    model("lane directories_go_oldest_first", Some(3), 1000, || {
        let mut world = World::<1>::new();
        world.push(2);
        let claimer = world.claimer(1, 1);
        world.push(2);
        let mut got = Vec::new();
        (0..3).for_each(|_| _ = claim(&world.lane, &world.pin, 1, &mut got));
        got.extend(join_all([claimer]));
        world.finish(got, 4);
    });
}

/// Somebody trims while blocks come home and the owner refills.
#[test]
fn trim_against_return_and_refill() {
    model("lane trim_against_return_and_refill", Some(2), 100, || {
        let mut world = World::<1>::new();
        world.push(3);
        let mut got = Vec::new();
        (0..2).for_each(|_| _ = claim(&world.lane, &world.pin, 1, &mut got));
        let claimer = world.claimer(1, 1);
        let lane = world.lane.clone();
        let trimmer = thread::spawn(move || {
            lane.trim();
            Vec::new()
        });
        world.push(2);
        got.extend(join_all([claimer, trimmer]));
        world.finish(got, 5);
    });
}

/// The last submit found the scheduler closed: claimed or withdrawn, and the one before stays claimable.
#[test]
fn withdraw_against_claimers() {
    model("lane withdraw_against_claimers", Some(2), 100, || {
        let mut world = World::<2>::new();
        world.push(1);
        let claimers = [world.claimer(2, 1), world.claimer(1, 1)];
        world.push(2);
        let first = world.withdraw(1);
        let got = join_all(claimers);
        world.finish(got, first);
    });
}

/// What is pushed on a closed lane comes back whole, over the slots of the first withdrawal.
#[test]
fn withdraw_again() {
    model("lane withdraw_again", Some(3), 100, || {
        let mut world = World::<2>::new();
        world.push(2);
        let claimer = world.claimer(1, 3);
        let first = world.withdraw(1);
        world.push(2);
        assert_eq!(world.withdraw(first), first);
        let got = join_all([claimer]);
        world.finish(got, first);
    });
}

/// A nested submit took back its task; the batch around it lowers the end once more, and a claim that began under the
/// first cut must fail under the second.
#[test]
fn withdraw_nested() {
    model("lane withdraw_nested", Some(4), 100, || {
        let mut world = World::<2>::new();
        world.push(2);
        let claimer = world.claimer(2, 2);
        world.withdraw(1);
        let first = world.withdraw(0);
        let got = join_all([claimer]);
        world.finish(got, first);
    });
}

/// Every ordering and every planted bug is noticed.
#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("push_and_claim", "L1"),
        ("push_and_claim", "L2"),
        ("withdraw_against_claimers", "L3"),
        ("withdraw_against_claimers", "L4"),
        ("whole_blocks_are_reused", "L5"),
        ("whole_blocks_are_reused", "L6"),
        ("trim_against_return_and_refill", "L6"),
        ("directories_go_oldest_first", "L7"),
        ("directories_go_oldest_first", "L8"),
        ("directory_is_passed", "L9:acq"),
        ("directory_is_passed", "L9:rel"),
        ("directories_go_oldest_first", "L10:acq"),
        ("directories_go_oldest_first", "L10:rel"),
        ("trim_against_return_and_refill", "L11"),
        ("last_counter_reuses_the_slots", "L12:acq"),
        ("last_counter_reuses_the_slots", "L12:rel"),
        ("withdraw_against_claimers", "lane-no-cut"),
        ("withdraw_nested", "lane-one-cut"),
        ("directories_go_oldest_first", "lane-directory-order"),
    ]);
}
