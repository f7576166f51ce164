//! The idle word: see `scheduler/src/idle/README.md`. Real workers, real submits; a lost wake-up is a deadlock,
//! because no sleep has a limit and nobody closes before all tasks have run.
#![cfg(loom)]

mod world;

use loom::thread;
use loom_tests::model;
use scheduler::Place;
use scheduler::internals::idle::Role;
use scheduler::internals::mode::BarrierMode::{self, Fence, Membarrier};
use scheduler::internals::park::Parker;
use scheduler::internals::sync::{Arc, AtomicU32, Relaxed, Release, light, yield_now};
use world::{ENDLESS, World};

/// The main thread submits `tasks` tasks one by one to `workers` workers.
fn one_by_one(workers: usize, tasks: usize, mode: BarrierMode) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::new(workers, tasks, mode, ENDLESS);
        let workers: Vec<_> = (0..workers).map(|index| world.helper(index)).collect();
        let mut submitter = world.submitter();
        for task in 0..tasks {
            submitter.submit(world.tally.task(task)).unwrap();
        }
        world.tally.await_done(tasks as u32);
        world.join(workers);
    }
}

#[test]
fn one_submitter_one_worker() {
    model("idle::one_submitter_one_worker", Some(2), 500, one_by_one(1, 1, Membarrier));
}

#[test]
fn one_submitter_one_worker_fenced() {
    model("idle::one_submitter_one_worker_fenced", Some(2), 500, one_by_one(1, 1, Fence));
}

#[test]
fn two_tasks_one_worker() {
    model("idle::two_tasks_one_worker", Some(2), 1000, one_by_one(1, 2, Membarrier));
}

#[test]
fn one_submitter_two_workers() {
    model("idle::one_submitter_two_workers", Some(1), 1000, one_by_one(2, 1, Membarrier));
}

#[test]
fn one_submitter_two_workers_fenced() {
    model("idle::one_submitter_two_workers_fenced", Some(1), 1000, one_by_one(2, 1, Fence));
}

fn two_submitters(mode: BarrierMode) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::new(1, 2, mode, ENDLESS);
        let worker = world.helper(0);
        let (mut mine, mut theirs) = (world.submitter(), world.submitter());
        let tally = world.tally;
        let other = thread::spawn(move || {
            theirs.submit(tally.task(0)).unwrap();
            theirs
        });
        mine.submit(world.tally.task(1)).unwrap();
        world.tally.await_done(2);
        let theirs = other.join().unwrap();
        drop((mine, theirs));
        world.join([worker]);
    }
}

#[test]
fn two_submitters_one_worker() {
    model("idle::two_submitters_one_worker", Some(2), 1000, two_submitters(Membarrier));
}

#[test]
fn two_submitters_one_worker_fenced() {
    model("idle::two_submitters_one_worker_fenced", Some(1), 1000, two_submitters(Fence));
}

/// A token that belongs to nothing: the worker looks, is announced still, and sleeps again.
#[test]
fn stray_tokens() {
    model("idle::stray_tokens", Some(2), 500, || {
        let world = World::new(1, 1, Membarrier, ENDLESS);
        let worker = world.helper(0);
        let stray = world.stray_token(0);
        let mut submitter = world.submitter();
        submitter.submit(world.tally.task(0)).unwrap();
        world.tally.await_done(1);
        stray.join().unwrap();
        world.join([worker]);
    });
}

/// One wake for a batch, and the first task of it ends only after the second has begun: the last searcher must wake
/// the next worker before it runs what it found.
#[test]
fn chain_wake() {
    model("idle::chain_wake", Some(1), 500, || {
        let world = World::new(2, 2, Membarrier, ENDLESS);
        let mut submitter = world.submitter();
        let workers = [world.helper(0), world.helper(1)];
        while world.shared.words[0].load().idle() != 3 {
            yield_now();
        }
        let meeting = Arc::new(Meeting::default());
        let tasks = [0, 1].map(|index| {
            let (meeting, task) = (meeting.clone(), world.tally.task(index));
            move || {
                meeting.attend(index);
                task();
            }
        });
        assert_eq!(submitter.submit_batch(tasks).unwrap(), 2);
        world.tally.await_done(2);
        world.join(workers);
    });
}

/// Two tasks that end only together.
#[derive(Default)]
struct Meeting {
    places: [Parker; 2],
}

impl Meeting {
    fn attend(&self, index: usize) {
        self.places[1 - index].unpark();
        let _ = self.places[index].park(None);
    }
}

/// Shards of one worker each: the submitter's own has nobody, the other one sleeps or is about to.
#[test]
fn the_other_shard() {
    model("idle::the_other_shard", Some(3), 50, || {
        let world = World::in_shards(2, 1, 1, Membarrier, ENDLESS);
        let mut submitter = world.submitter();
        let worker = world.helper(1);
        submitter.submit(world.tally.task(0)).unwrap();
        world.tally.await_done(1);
        world.join([worker]);
    });
}

/// The only searcher is in another shard, and ends its search while the submitter relies on it.
#[test]
fn the_other_shards_searcher() {
    model("idle::the_other_shards_searcher", Some(3), 5, || {
        let world = World::in_shards(2, 2, 0, Membarrier, ENDLESS);
        let queue = Arc::new(AtomicU32::new(0));
        world.shared.words[1].announce(0, Role::default(), false);
        assert!(world.shared.words[1].begin_search(1));
        let (shared, behind) = (world.shared.clone(), queue.clone());
        let searcher = thread::spawn(move || {
            shared.words[1].end_search();
            behind.load(Relaxed) != 0
        });
        queue.store(1, Release);
        light();
        let word = &world.shared.words[0];
        if word.load().attention() && word.settle().look() {
            world.shared.notify(0, 1);
        }
        let seen = searcher.join().unwrap();
        assert!(seen || world.shared.words[1].load().idle() == 0, "a task that nobody looks at");
        world.abandon();
    });
}

/// One task for a node whose worker does not come, and a sleeper of another node: nobody stands by, so it is woken
/// although the backlog is small.
#[test]
fn the_other_node() {
    model("idle::the_other_node", Some(3), 50, || {
        let world = World::in_nodes(1, 1, Membarrier, ENDLESS);
        let mut submitter = world.submitter();
        let worker = world.helper(1);
        submitter.submit(world.tally.task(0)).unwrap();
        world.tally.await_done(1);
        world.join([worker]);
    });
}

/// Another node's standby gives the role up and ends its search while the submitter relies on it.
#[test]
fn the_other_nodes_standby() {
    model("idle::the_other_nodes_standby", Some(3), 5, || {
        let world = World::in_nodes(2, 0, Membarrier, ENDLESS);
        let queue = Arc::new(AtomicU32::new(0));
        world.shared.words[1].announce(1, Role::default(), false);
        assert!(world.shared.words[1].announce(0, Role::default(), true), "the standby");
        let (shared, behind) = (world.shared.clone(), queue.clone());
        let standby = thread::spawn(move || {
            assert!(shared.words[1].retract(0, true));
            shared.words[1].end_search();
            behind.load(Relaxed) != 0
        });
        queue.store(1, Release);
        light();
        let word = &world.shared.words[0];
        if word.load().attention() && word.settle().look() {
            world.shared.notify(0, 1);
        }
        let seen = standby.join().unwrap();
        assert!(seen || world.shared.words[1].load().idle() != 2, "a task that nobody looks at");
        world.abandon();
    });
}

/// A task for one worker that is stuck, and another worker that sleeps, or is about to, or is awake.
#[test]
fn a_task_for_a_stuck_worker() {
    model("idle::a_task_for_a_stuck_worker", Some(2), 100, || {
        let world = World::new(2, 1, Membarrier, ENDLESS);
        let tally = world.tally;
        let mut submitter = world.submitter_for(Place::Worker(1));
        let workers = [world.helper(0), world.on_worker(1, move |context| tally.stuck(context))];
        submitter.submit(world.tally.task(0)).unwrap();
        world.tally.await_done(1);
        world.join(workers);
    });
}

/// A task for one worker that sleeps or is about to; nobody else is there.
fn for_one_worker(mode: BarrierMode) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::in_shards(1, 2, 1, mode, ENDLESS);
        let mut submitter = world.submitter_for(Place::Worker(1));
        let worker = world.helper(1);
        submitter.submit(world.tally.task(0)).unwrap();
        world.tally.await_done(1);
        world.join([worker]);
    }
}

#[test]
fn a_task_for_one_worker() {
    model("idle::a_task_for_one_worker", Some(2), 100, for_one_worker(Membarrier));
}

#[test]
fn a_task_for_one_worker_fenced() {
    model("idle::a_task_for_one_worker_fenced", Some(2), 100, for_one_worker(Fence));
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("one_submitter_one_worker", "light"),
        ("one_submitter_one_worker", "heavy"),
        ("one_submitter_one_worker_fenced", "B2"),
        ("one_submitter_one_worker_fenced", "B5"),
        ("one_submitter_one_worker", "park-no-look"),
        ("one_submitter_two_workers", "light"),
        ("the_other_shard", "light"),
        ("chain_wake", "last-searcher-silent"),
        ("stray_tokens", "light"),
        ("the_other_shards_searcher", "I3"),
        ("the_other_shards_searcher", "I4"),
        ("a_task_for_a_stuck_worker", "aimed-trusted"),
        ("a_task_for_one_worker", "heavy"),
        ("the_other_node", "light"),
        ("the_other_node", "remote-trusted"),
        ("the_other_nodes_standby", "I3"),
        ("the_other_nodes_standby", "I4"),
    ]);
}
