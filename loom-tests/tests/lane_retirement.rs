//! The list of lanes: see `scheduler/src/lanes/README.md`. The real table, lanes and claims; what retires memory is
//! the stand-in, which frees as early as the rules allow and poisons what it frees.
#![cfg(loom)]
#![expect(unsafe_code, reason = "plays the owners of lanes")]

use loom::thread;
use loom_tests::model;
use scheduler::internals::idle::{Fences, IdleWord};
use scheduler::internals::lanes::{Aim, Entry, LaneTable};
use scheduler::internals::sync::{Arc, Registration};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

struct World {
    table: LaneTable,
    word: IdleWord,
    /// How often each task was claimed; no event of the model.
    claimed: [AtomicU32; 3],
}

/// A lane that the thread owns.
struct Own(*const Entry);
// SAFETY: handed over by spawn.
unsafe impl Send for Own {}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World {
            table: LaneTable::new(1),
            word: IdleWord::new(false, Fences::None),
            claimed: [0; 3].map(AtomicU32::new),
        })
    }

    fn acquire(&self) -> Own {
        Own(self.table.acquire(&raw const self.word, 0, Aim::Thread))
    }

    fn release(&self, own: Own) {
        // SAFETY: the owner, and not used again.
        unsafe { self.table.release(own.0) };
    }

    /// Queues `task`.
    fn push(&self, own: &Own, task: u64) {
        // SAFETY: owned, so it lives.
        let lane = unsafe { &(*own.0).lane };
        // SAFETY: the owner.
        let slot = unsafe { lane.reserve() }.expect("no limit");
        // SAFETY: an empty slot; the model's tasks are numbers.
        unsafe { slot.cast::<u64>().write(task) };
        // SAFETY: written.
        unsafe { lane.commit() };
        // SAFETY: the owner.
        unsafe { lane.publish() };
    }

    /// A worker's look: claims one task. True: there was one.
    fn claim(&self, scanner: &Registration) -> bool {
        let pin = scanner.pin();
        let found = self.table.scan(&pin, 0, |entry| {
            let claim = entry.lane.claim(&pin, 1, |slot| {
                // SAFETY: claimed.
                let task = unsafe { slot.cast::<u64>().read() };
                assert_eq!(self.claimed[task as usize].fetch_add(1, Relaxed), 0, "claimed twice");
            });
            (claim.taken != 0).then_some(())
        });
        found.is_some()
    }

    /// Everybody is gone: what is left is claimed here, and then each of the first `tasks` was claimed once, and no
    /// lane is left.
    fn finish(&self, tasks: usize) {
        let scanner = self.table.scanner();
        while self.claim(&scanner) {}
        assert!(self.claimed[..tasks].iter().all(|claimed| claimed.load(Relaxed) == 1), "lost");
        self.table.reap();
        assert_eq!(self.table.count(), 0, "a drained lane without an owner stays");
    }
}

fn spawn<R: 'static>(world: &Arc<World>, body: impl FnOnce(&World) -> R + 'static) -> thread::JoinHandle<R> {
    let world = world.clone();
    thread::spawn(move || body(&world))
}

fn scanner(world: &Arc<World>, looks: usize) -> thread::JoinHandle<usize> {
    spawn(world, move |world| {
        let scanner = world.table.scanner();
        (0..looks).filter(|_| world.claim(&scanner)).count()
    })
}

/// The owner leaves while a worker looks: the task runs, and the lane goes once, when nobody can be reading it.
#[test]
fn release_against_scan() {
    model("lane_retirement::release_against_scan", Some(4), 20, || {
        let world = World::new();
        let own = world.acquire();
        world.push(&own, 0);
        let owner = spawn(&world, |world| world.release(own));
        let scanner = world.table.scanner();
        (0..3).for_each(|_| _ = world.claim(&scanner));
        owner.join().unwrap();
        world.finish(1);
    });
}

/// A worker reaps as well, before it sleeps.
#[test]
fn two_reapers_and_a_scan() {
    model("lane_retirement::two_reapers_and_a_scan", Some(2), 200, || {
        let world = World::new();
        let own = world.acquire();
        world.push(&own, 0);
        let scanner = scanner(&world, 1);
        let reaper = spawn(&world, |world| {
            let scanner = world.table.scanner();
            let orphans = world.table.orphans(&scanner.pin());
            if orphans {
                world.table.reap();
            }
        });
        world.release(own);
        reaper.join().unwrap();
        scanner.join().unwrap();
        world.finish(1);
    });
}

/// A lane that one thread leaves is taken over by another with its position and its queued tasks.
#[test]
fn release_against_adopt() {
    model("lane_retirement::release_against_adopt", Some(3), 40, || {
        let world = World::new();
        let own = world.acquire();
        world.push(&own, 0);
        let other = spawn(&world, |world| {
            let own = world.acquire();
            world.push(&own, 1);
            world.release(own);
        });
        world.push(&own, 2);
        world.release(own);
        other.join().unwrap();
        world.finish(3);
    });
}

/// Adopted, scanned and reaped at once.
#[test]
fn adopt_against_reap_and_scan() {
    model("lane_retirement::adopt_against_reap_and_scan", Some(2), 400, || {
        let world = World::new();
        let own = world.acquire();
        let adopter = spawn(&world, |world| {
            let own = world.acquire();
            world.push(&own, 0);
            world.release(own);
        });
        let scanner = scanner(&world, 1);
        world.release(own);
        adopter.join().unwrap();
        scanner.join().unwrap();
        world.finish(1);
    });
}

/// The array grows from one place to two while a worker looks for a task that has been there all the time.
#[test]
fn growth_hides_nothing() {
    model("lane_retirement::growth_hides_nothing", Some(3), 20, || {
        let world = World::new();
        let own = world.acquire();
        world.push(&own, 0);
        let scanner = scanner(&world, 1);
        let second = world.acquire();
        assert_eq!(scanner.join().unwrap(), 1, "hidden by a larger array");
        world.release(own);
        world.release(second);
        world.finish(1);
    });
}

/// A new lane is whole before it can be found: in a larger array, behind the last one, and in a hole.
#[test]
fn new_lanes_are_whole() {
    model("lane_retirement::new_lanes_are_whole", Some(3), 30, || {
        let world = World::new();
        let first = world.acquire();
        let hole = world.acquire();
        world.release(hole);
        let scanner = scanner(&world, 2);
        let second = world.acquire();
        world.push(&second, 0);
        let seen = scanner.join().unwrap();
        assert!(seen <= 1);
        world.release(first);
        world.release(second);
        world.finish(1);
    });
}

/// A lane that a closing has cut takes no more tasks, so nobody who may still submit gets it.
#[test]
fn a_cut_lane_is_not_adopted() {
    model("lane_retirement::a_cut_lane_is_not_adopted", Some(3), 10, || {
        let world = World::new();
        let own = world.acquire();
        world.push(&own, 0);
        // SAFETY: owned, so it lives.
        let lane = unsafe { &(*own.0).lane };
        // SAFETY: the owner; everything is published. Task 0 stays, what comes later would not.
        unsafe { lane.withdraw(1) };
        let other = spawn(&world, |world| {
            let own = world.acquire();
            world.push(&own, 1);
            world.release(own);
        });
        world.release(own);
        other.join().unwrap();
        world.finish(2);
    });
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("release_against_adopt", "R1"),
        ("release_against_adopt", "R2"),
        ("new_lanes_are_whole", "R3"),
        ("new_lanes_are_whole", "R4"),
        ("growth_hides_nothing", "R6"),
        ("growth_hides_nothing", "R7"),
        ("release_against_scan", "retire-first"),
        ("adopt_against_reap_and_scan", "reap-owned"),
        ("a_cut_lane_is_not_adopted", "adopt-cut"),
    ]);
}
