//! A claimed batch: from a lane into cells and onto the worker's ring, where whoever comes first takes each task. Two
//! real workers; the first is counted as fast and so claims two at once.
#![cfg(loom)]

mod world;

use loom_tests::model;
use scheduler::internals::mode::BarrierMode::{self, Fence, Membarrier};
use world::{ENDLESS, World};

/// `tasks` tasks wait in a lane; a fast worker claims them in batches, and the others help themselves to its ring.
fn batch(tasks: usize, thieves: usize, mode: BarrierMode) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::new(1 + thieves, tasks, mode, ENDLESS);
        world.shared.words[0].count_fast();
        world.shared.workers[0].mark_fast();
        let mut submitter = world.submitter();
        let all: Vec<_> = (0..tasks).map(|task| world.tally.task(task)).collect();
        assert_eq!(submitter.submit_batch(all).unwrap(), tasks);
        let workers: Vec<_> = (0..=thieves).map(|index| world.helper(index)).collect();
        world.join(workers);
    }
}

#[test]
fn owner_against_thief() {
    model("claimed_batch::owner_against_thief", Some(1), 200, batch(2, 1, Membarrier));
}

#[test]
fn owner_against_thief_fenced() {
    model("claimed_batch::owner_against_thief_fenced", Some(1), 200, batch(2, 1, Fence));
}

#[test]
fn over_two_blocks() {
    model("claimed_batch::over_two_blocks", Some(1), 200, batch(3, 1, Membarrier));
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("owner_against_thief", "light"),
        ("owner_against_thief", "heavy"),
        ("owner_against_thief_fenced", "B6"),
        ("owner_against_thief_fenced", "B7"),
        ("owner_against_thief", "WQ1c"),
    ]);
}
