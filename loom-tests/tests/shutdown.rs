//! Quiet moments and the end: see `scheduler/src/worker/README.md`. Workers leave when nothing is left and not
//! before; whoever waits for a quiet moment is told when there is one, and only then.
#![cfg(loom)]

mod world;

use loom_tests::model;
use scheduler::internals::idle::Role;
use scheduler::internals::mode::BarrierMode::{self, Fence, Membarrier};
use scheduler::internals::worker::Shared;
use std::time::Duration;
use world::{ENDLESS, World};

/// Closed with `tasks` tasks queued.
fn drained(workers: usize, tasks: usize, mode: BarrierMode) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::new(workers, tasks, mode, ENDLESS);
        let mut submitter = world.submitter();
        for task in 0..tasks {
            submitter.submit(world.tally.task(task)).unwrap();
        }
        let workers: Vec<_> = (0..workers).map(|index| world.worker(index)).collect();
        let tally = world.tally;
        world.shared.close(false);
        assert!(world.shared.await_quiet(Duration::MAX, || world.shared.all_left()));
        assert_eq!(tally.ran(), (1 << tasks) - 1, "left with work undone");
        drop(submitter);
        world.finish(workers);
    }
}

#[test]
fn one_worker_drains() {
    model("shutdown::one_worker_drains", Some(2), 1000, drained(1, 1, Membarrier));
}

#[test]
fn one_worker_drains_fenced() {
    model("shutdown::one_worker_drains_fenced", Some(2), 100, drained(1, 1, Fence));
}

#[test]
fn two_workers_leave() {
    model("shutdown::two_workers_leave", Some(1), 1000, drained(2, 0, Membarrier));
}

/// What a worker does on its way out, such as the stop hook, comes before the end of `shutdown`.
#[test]
fn what_a_worker_did_last_is_seen() {
    model("shutdown::what_a_worker_did_last_is_seen", Some(2), 100, || {
        let world = World::new(1, 1, Membarrier, ENDLESS);
        let tally = world.tally;
        let worker = world.on_worker(0, move |context| {
            context.main();
            tally.touch();
        });
        world.shared.close(false);
        assert!(world.shared.await_quiet(Duration::MAX, || world.shared.all_left()));
        tally.touch();
        world.finish([worker]);
    });
}

/// The real worker, and a thread in `wait_idle`.
#[test]
fn watcher_is_told() {
    model("shutdown::watcher_is_told", Some(2), 1000, watched(Membarrier));
}

#[test]
fn watcher_is_told_fenced() {
    model("shutdown::watcher_is_told_fenced", Some(2), 100, watched(Fence));
}

fn watched(mode: BarrierMode) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::new(1, 1, mode, ENDLESS);
        let mut submitter = world.submitter();
        submitter.submit(world.tally.task(0)).unwrap();
        let worker = world.worker(0);
        let scanner = world.shared.lanes.scanner();
        assert!(world.shared.await_quiet(Duration::MAX, || world.shared.quiescent(&scanner.pin())));
        assert_eq!(world.tally.ran(), 1, "not quiet");
        drop((submitter, scanner));
        world.finish([worker]);
    }
}

/// Two workers, by the steps of their sleep: whoever is up wakes the other and goes to sleep before that one has run
/// what it was woken for. Nothing is queued, and one of them is up all the time.
fn relay(shards: usize, hops: usize) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::in_shards(shards, 2 / shards, 0, Membarrier, ENDLESS);
        let shared = world.shared.clone();
        let rest = |shared: &Shared, index: usize, searching: bool| {
            let worker = &shared.workers[index];
            shared.rests.begin(false);
            shared.words[worker.shard].announce(worker.bit, Role { searching, fast: false }, false);
        };
        rest(&shared, 0, false);
        let relay = loom::thread::spawn(move || {
            for hop in 0..hops {
                let (sleeper, up) = (hop % 2, (hop + 1) % 2);
                let sleeper = &shared.workers[sleeper];
                assert!(shared.words[sleeper.shard].choose_this(sleeper.bit));
                rest(&shared, up, hop != 0);
            }
        });
        assert!(!world.shared.quiescent(&world.shared.lanes.scanner().pin()), "one of them is always up");
        relay.join().unwrap();
        world.free();
    }
}

#[test]
fn work_that_changes_hands() {
    model("shutdown::work_that_changes_hands", Some(3), 10, relay(1, 2));
}

#[test]
fn work_that_changes_shards() {
    model("shutdown::work_that_changes_shards", Some(5), 100, relay(2, 3));
}

/// A worker that sleeps in a join has a task on its stack, and keeps it when it is up again.
#[test]
fn a_waiting_worker_is_not_quiet() {
    model("shutdown::a_waiting_worker_is_not_quiet", Some(5), 10, || {
        let world = World::new(1, 0, Membarrier, ENDLESS);
        let shared = world.shared.clone();
        let worker = loom::thread::spawn(move || {
            shared.rests.begin(true);
            shared.words[0].announce(0, Role::default(), false);
            assert!(shared.words[0].retract(0, false));
            shared.rests.end_waiting();
        });
        assert!(!world.shared.quiescent(&world.shared.lanes.scanner().pin()), "its task has not ended");
        worker.join().unwrap();
        world.free();
    });
}

/// The worker leaves a task behind in its own queue, another one takes it and stays up.
#[test]
fn what_was_done_before_the_rest_is_seen() {
    model("shutdown::what_was_done_before_the_rest_is_seen", Some(1), 10, || {
        let world = World::new(1, 1, Membarrier, ENDLESS);
        let mut submitter = world.submitter();
        let tally = world.tally;
        let shared = world.shared.clone();
        let worker = loom::thread::spawn(move || {
            submitter.submit(tally.task(0)).unwrap();
            shared.rests.begin(false);
            shared.words[0].announce(0, Role::default(), false);
            submitter
        });
        assert!(!world.shared.quiescent(&world.shared.lanes.scanner().pin()), "a task is queued");
        let submitter = worker.join().unwrap();
        let worker = world.worker(0);
        drop(submitter);
        world.finish([worker]);
    });
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("work_that_changes_shards", "quiet-one-look"),
        ("a_waiting_worker_is_not_quiet", "rests-no-waiting"),
        ("work_that_changes_shards", "W1"),
        ("a_waiting_worker_is_not_quiet", "W2"),
        ("a_waiting_worker_is_not_quiet", "W3"),
        ("what_was_done_before_the_rest_is_seen", "I1"),
        ("what_was_done_before_the_rest_is_seen", "I2"),
        ("one_worker_drains", "W4"),
        ("watcher_is_told_fenced", "W6"),
        ("what_a_worker_did_last_is_seen", "W7"),
        ("what_a_worker_did_last_is_seen", "W8"),
    ]);
}
