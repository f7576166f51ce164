#![cfg(loom)]
//! Quiet moments and the end: see `scheduler/src/worker/README.md`. Workers leave when nothing is left and not before;
//! whoever waits for a quiet moment is told when there is one, and only then.

mod world;

use loom_tests::model;
use scheduler::internals::idle::Role;
use scheduler::internals::mode::BarrierMode::{self, Fence, Membarrier};
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
    model("shutdown::one_worker_drains_fenced", Some(1), 100, drained(1, 1, Fence));
}

#[test]
fn two_workers_leave() {
    model("shutdown::two_workers_leave", Some(1), 1000, drained(2, 0, Membarrier));
}

/// The real worker, and a thread in `wait_idle`.
#[test]
fn watcher_is_told() {
    model("shutdown::watcher_is_told", Some(2), 1000, watched(Membarrier));
}

#[test]
fn watcher_is_told_fenced() {
    model("shutdown::watcher_is_told_fenced", Some(1), 100, watched(Fence));
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

/// Two workers by the steps of their sleep: the second is woken by the first, which goes to sleep before the second has
/// run what it was woken for. Nothing is queued at the end, and one of them is up all the time.
fn relay(shards: usize) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::in_shards(shards, 2 / shards, 0, Membarrier, ENDLESS);
        let shared = world.shared.clone();
        let place = move |index: usize| (index % shards, if shards == 1 { index } else { 0 });
        // Worker 1 sleeps, worker 0 is up.
        shared.rests.begin(false);
        shared.words[place(1).0].announce(place(1).1, Role::default(), false);
        let relay = loom::thread::spawn(move || {
            let (word, bit) = (&shared.words[place(1).0], place(1).1);
            assert!(word.choose_this(bit));
            shared.rests.begin(false);
            shared.words[place(0).0].announce(place(0).1, Role::default(), false);
            // Worker 1 wakes the other in turn, and sleeps before it.
            assert!(shared.words[place(0).0].choose_this(place(0).1));
            shared.rests.begin(false);
            word.announce(bit, Role { searching: true, fast: false }, false);
        });
        assert!(!world.shared.quiescent(&world.shared.lanes.scanner().pin()), "one of them is always up");
        relay.join().unwrap();
        world.shared.left();
        world.free();
    }
}

#[test]
fn work_that_changes_hands() {
    model("shutdown::work_that_changes_hands", Some(3), 10, relay(1));
}

#[test]
fn work_that_changes_shards() {
    model("shutdown::work_that_changes_shards", Some(3), 10, relay(2));
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
    model("shutdown::what_was_done_before_the_rest_is_seen", Some(5), 10, || {
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
        ("work_that_changes_hands", "quiet-one-look"),
        ("work_that_changes_shards", "quiet-one-look"),
        ("a_waiting_worker_is_not_quiet", "rests-no-waiting"),
        ("work_that_changes_shards", "W1"),
        ("a_waiting_worker_is_not_quiet", "W2"),
        ("a_waiting_worker_is_not_quiet", "W3"),
        ("what_was_done_before_the_rest_is_seen", "I1:rel"),
        ("what_was_done_before_the_rest_is_seen", "I2"),
        ("watcher_is_told", "W4"),
        ("watcher_is_told", "W5"),
        ("watcher_is_told_fenced", "W6"),
        ("one_worker_drains", "W7"),
        ("one_worker_drains", "W8"),
    ]);
}
