#![cfg(loom)]
//! The idle word: see `scheduler/src/idle/README.md`. Real workers, real submits; a lost wake-up is a deadlock, because no
//! sleep has a limit and nobody closes before all tasks have run.

mod world;

use loom::thread;
use loom_tests::model;
use scheduler::internals::mode::BarrierMode::{self, Fence, Membarrier};
use scheduler::internals::sync::{Acquire, Arc, AtomicU32, Release, yield_now};
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
    model("idle::one_submitter_one_worker", Some(3), 1000, one_by_one(1, 1, Membarrier));
}

#[test]
fn one_submitter_one_worker_fenced() {
    model("idle::one_submitter_one_worker_fenced", Some(3), 1000, one_by_one(1, 1, Fence));
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
        let worker = world.worker(0);
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
        world.finish([worker]);
    }
}

#[test]
fn two_submitters_one_worker() {
    model("idle::two_submitters_one_worker", Some(1), 1000, two_submitters(Membarrier));
}

#[test]
fn two_submitters_one_worker_fenced() {
    model("idle::two_submitters_one_worker_fenced", Some(1), 1000, two_submitters(Fence));
}

/// A token that belongs to nothing: the worker looks, is announced still, and sleeps again.
#[test]
fn stray_tokens() {
    model("idle::stray_tokens", Some(1), 1000, || {
        let world = World::new(1, 1, Membarrier, ENDLESS);
        let worker = world.worker(0);
        let stray = world.stray_token(0);
        let mut submitter = world.submitter();
        submitter.submit(world.tally.task(0)).unwrap();
        world.tally.await_done(1);
        stray.join().unwrap();
        drop(submitter);
        world.finish([worker]);
    });
}

/// One wake for a batch, and the first task of it ends only after the second has begun: the last searcher must wake the
/// next worker before it runs what it found.
#[test]
fn chain_wake() {
    model("idle::chain_wake", Some(1), 1000, || {
        let world = World::new(2, 0, Membarrier, ENDLESS);
        let workers = [world.worker(0), world.worker(1)];
        let met = Arc::new(AtomicU32::new(0));
        let mut submitter = world.submitter();
        let tasks = [0; 2].map(|_| {
            let met = met.clone();
            move || {
                met.fetch_add(1, Release);
                while met.load(Acquire) != 2 {
                    yield_now();
                }
            }
        });
        assert_eq!(submitter.submit_batch(tasks).unwrap(), 2);
        while met.load(Acquire) != 2 {
            yield_now();
        }
        drop(submitter);
        world.finish(workers);
    });
}
