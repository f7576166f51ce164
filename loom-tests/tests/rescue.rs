//! Rescue through the real workers: what a stuck owner hides is published by somebody else, once.
#![cfg(loom)]
#![expect(unsafe_code, reason = "plays an owner that is stuck")]

mod world;

use loom_tests::model;
use scheduler::internals::mode::BarrierMode::{self, Fence, Membarrier};
use scheduler::internals::worker::Tuning;
use world::{ENDLESS, SLOW, World};

/// The owner queues `tasks` tasks on its ring and never looks at it again; the other finds it hidden.
fn stuck(tasks: usize, mode: BarrierMode) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::new(2, tasks, mode, SLOW);
        let tally = world.tally;
        let owner = world.on_worker(0, move |context| {
            for task in 0..tasks {
                // SAFETY: the task borrows nothing.
                unsafe { context.submit(tally.task(task)) };
            }
            tally.stuck(context);
        });
        let thief = world.helper(1);
        world.join([owner, thief]);
    }
}

#[test]
fn stuck_owner() {
    model("rescue::stuck_owner", Some(2), 200, stuck(1, Membarrier));
}

#[test]
fn stuck_owner_of_two() {
    model("rescue::stuck_owner_of_two", Some(1), 200, stuck(2, Membarrier));
}

/// The owner goes to sleep inside its task, and publishes what it hides first. No standby: either it sees the
/// sleeper, or the sleeper sees the task.
fn sleeping(mode: BarrierMode) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::new(2, 1, mode, ENDLESS);
        let tally = world.tally;
        let owner = world.on_worker(0, move |context| {
            // SAFETY: the task borrows nothing.
            unsafe { context.submit(tally.task(0)) };
            tally.stand_still(context);
        });
        let thief = world.helper(1);
        world.join([owner, thief]);
    }
}

#[test]
fn sleeping_owner() {
    model("rescue::sleeping_owner", Some(2), 200, sleeping(Membarrier));
}

#[test]
fn sleeping_owner_fenced() {
    model("rescue::sleeping_owner_fenced", Some(2), 200, sleeping(Fence));
}

/// The owner is not stuck at all: it takes its tasks back while the other rescues.
fn lively(tasks: usize, mode: BarrierMode, tuning: Tuning) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::new(2, tasks, mode, tuning);
        let tally = world.tally;
        let owner = world.helper_with(0, move |context| {
            for task in 0..tasks {
                // SAFETY: the task borrows nothing.
                unsafe { context.submit(tally.task(task)) };
            }
        });
        let thief = world.helper(1);
        world.join([owner, thief]);
    }
}

#[test]
fn lively_owner() {
    model("rescue::lively_owner", Some(1), 200, lively(1, Membarrier, ENDLESS));
}

#[test]
fn lively_owner_fenced() {
    model("rescue::lively_owner_fenced", Some(1), 200, lively(1, Fence, ENDLESS));
}

/// Submits and parks fence, rescues do not: the owner takes its tasks back for free.
#[test]
fn lively_owner_half_fenced() {
    let tuning = Tuning { no_membarrier: false, ..ENDLESS };
    model("rescue::lively_owner_half_fenced", Some(1), 200, lively(1, Fence, tuning));
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("lively_owner", "light"),
        ("lively_owner", "heavy"),
        ("lively_owner_fenced", "B6"),
        ("lively_owner_fenced", "B7"),
        ("lively_owner_half_fenced", "light"),
        ("lively_owner_half_fenced", "heavy"),
        ("stuck_owner", "park-no-look"),
        ("sleeping_owner", "light"),
        ("sleeping_owner_fenced", "B5"),
    ]);
}
