//! The standby: see `scheduler/src/idle/README.md`. Real workers beside one that is stuck with hidden work. A sleep
//! with a limit is over at once; every other sleep has none, so that a role which nobody holds is a deadlock.
#![cfg(loom)]
#![expect(unsafe_code, reason = "plays an owner that is stuck")]

mod world;

use loom_tests::model;
use scheduler::internals::mode::BarrierMode::{self, Fence, Membarrier};
use scheduler::internals::worker::Context;
use world::{Fork, SLOW, Tally, World};

/// Queues one task on its own ring and never comes back to it.
fn hide(context: &Context, tally: &'static Tally, task: usize) {
    // SAFETY: the task borrows nothing.
    unsafe { context.submit(tally.task(task)) };
}

/// One worker, idle or about to be, and one that gets stuck: either the sleeper sees the hidden task in its last
/// look, or the owner sees the sleeper, or the sleeper is the standby.
fn one_sleeper(mode: BarrierMode) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::new(2, 1, mode, SLOW);
        let tally = world.tally;
        let sleeper = world.helper(0);
        let owner = world.on_worker(1, move |context| {
            hide(context, tally, 0);
            tally.stuck(context);
        });
        world.join([sleeper, owner]);
    }
}

#[test]
fn one_sleeper_finds_hidden_work() {
    model("standby::one_sleeper_finds_hidden_work", Some(2), 1000, one_sleeper(Membarrier));
}

/// The standby is chosen by a submitter for a task of another kind, gets stuck in it, and the role must go to
/// somebody else: the sleeper that saw the bit and went to sleep without a limit.
#[test]
fn hand_over() {
    model("standby::hand_over", Some(1), 1000, || {
        let world = World::new(2, 2, Membarrier, SLOW);
        let tally = world.tally;
        // Worker 0 is the standby already and wakes up as chosen; the task it then finds hides another and is long.
        let word = &world.shared.words[0];
        assert!(word.announce(0, Default::default(), true));
        assert_eq!(word.choose(false, &[]), Some(0));
        let sleeper = world.helper(1);
        let chosen = world.on_worker(0, move |context| {
            context.shared.words[0].leave_standby();
            context.shared.words[0].end_search();
            hide(context, tally, 0);
            hide(context, tally, 1);
            tally.stuck(context);
        });
        world.join([chosen, sleeper]);
    });
}

/// The same with the real search of the chosen one between the wake and the task.
#[test]
fn hand_over_by_the_last_searcher() {
    model("standby::hand_over_by_the_last_searcher", Some(1), 100, || {
        let world = World::new(2, 2, Membarrier, SLOW);
        let tally = world.tally;
        let mut submitter = world.submitter();
        let chosen = world.helper(0);
        let stuck = world.on_worker(1, move |context| {
            hide(context, tally, 0);
            tally.stuck(context);
        });
        submitter.submit(world.tally.task(1)).unwrap();
        world.tally.await_done(2);
        world.join([chosen, stuck]);
    });
}

#[test]
fn one_sleeper_fenced() {
    model("standby::one_sleeper_fenced", Some(2), 100, one_sleeper(Fence));
}

/// As [`one_sleeper`], and what is hidden is a fork of a worker whose forks have not been worth a theft: nobody is
/// woken for it as long as somebody stands by, nobody asks for it at first, and the standby insists after a nap.
fn fine_fork(mode: BarrierMode) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::new(2, 1, mode, SLOW);
        let tally = world.tally;
        while !world.shared.workers[1].grain().is_fine() {
            world.shared.workers[1].learn_grain(0);
        }
        let sleeper = world.helper(0);
        let owner = world.on_worker(1, move |context| {
            let fork = Fork::new(tally, 0);
            assert!(context.push_fork(fork.header()));
            tally.stuck(context);
            assert!(!context.pop_fork(), "it has run elsewhere");
        });
        world.join([sleeper, owner]);
    }
}

#[test]
fn fine_fork_of_a_stuck_owner() {
    model("standby::fine_fork_of_a_stuck_owner", Some(2), 200, fine_fork(Membarrier));
}

#[test]
fn fine_fork_of_a_stuck_owner_fenced() {
    model("standby::fine_fork_of_a_stuck_owner_fenced", Some(2), 50, fine_fork(Fence));
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("one_sleeper_finds_hidden_work", "light"),
        ("one_sleeper_finds_hidden_work", "heavy"),
        ("one_sleeper_finds_hidden_work", "standby-trusted"),
        ("one_sleeper_fenced", "B4"),
        ("hand_over", "standby-trusted"),
        ("hand_over", "standby-keeps-role"),
        ("fine_fork_of_a_stuck_owner", "light"),
        ("fine_fork_of_a_stuck_owner", "heavy"),
        ("fine_fork_of_a_stuck_owner", "fine-never-insists"),
        ("fine_fork_of_a_stuck_owner", "fine-wakes-nobody"),
        ("fine_fork_of_a_stuck_owner_fenced", "B4"),
    ]);
}
