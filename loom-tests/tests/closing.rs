//! Closing: see `scheduler/src/phase/README.md`. A submit races with the closing and with the workers' last look: the
//! task runs and its submitter is told Ok, or it comes back; nothing else.
#![cfg(loom)]

mod world;

use loom::thread;
use loom_tests::model;
use scheduler::SubmitError;
use scheduler::internals::mode::BarrierMode::{self, Fence, Membarrier};
use world::{ENDLESS, World};

/// The submitter is a thread of its own, the main thread closes, `tasks` tasks are submitted one after the other.
fn race(tasks: usize, mode: BarrierMode) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::new(1, tasks, mode, ENDLESS);
        let worker = world.worker(0);
        let mut submitter = world.submitter();
        let tally = world.tally;
        let other = thread::spawn(move || {
            let mut accepted = 0;
            for task in 0..tasks {
                match submitter.submit(tally.task(task)) {
                    Ok(()) => accepted |= 1 << task,
                    Err(SubmitError::Closed(_)) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
            (accepted, submitter)
        });
        world.shared.close(false);
        let (accepted, submitter) = other.join().unwrap();
        worker.join().unwrap();
        assert_eq!(world.tally.ran(), accepted, "what ran, and what was accepted");
        drop(submitter);
        world.free();
    }
}

#[test]
fn submit_against_close() {
    model("closing::submit_against_close", Some(1), 500, race(1, Membarrier));
}

#[test]
fn submit_against_close_fenced() {
    model("closing::submit_against_close_fenced", Some(1), 500, race(1, Fence));
}

#[test]
fn two_submits_against_close() {
    model("closing::two_submits_against_close", Some(1), 1000, race(2, Membarrier));
}

/// A batch is accepted up to a task, and what lies behind comes back.
#[test]
fn batch_against_close() {
    model("closing::batch_against_close", Some(1), 1000, || {
        let world = World::new(1, 2, Membarrier, ENDLESS);
        let worker = world.worker(0);
        let mut submitter = world.submitter();
        let tally = world.tally;
        let other = thread::spawn(move || {
            let tasks = [tally.task(0), tally.task(1)];
            let accepted = match submitter.submit_batch(tasks) {
                Ok(all) => all,
                Err(error) => {
                    assert_eq!(error.accepted + error.returned.len() + error.rest.count(), 2);
                    error.accepted
                }
            };
            (accepted, submitter)
        });
        world.shared.close(false);
        let (accepted, submitter) = other.join().unwrap();
        worker.join().unwrap();
        assert_eq!(world.tally.ran(), (1 << accepted) - 1, "what ran, and what was accepted");
        drop(submitter);
        world.free();
    });
}

/// Two threads close; one of them wins, and the workers leave once.
#[test]
fn two_closers() {
    model("closing::two_closers", Some(1), 20, || {
        let world = World::new(1, 0, Membarrier, ENDLESS);
        let worker = world.worker(0);
        let shared = world.shared.clone();
        let other = thread::spawn(move || shared.close(false));
        world.shared.close(false);
        other.join().unwrap();
        world.finish([worker]);
    });
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("submit_against_close", "light"),
        ("submit_against_close", "heavy"),
        ("submit_against_close_fenced", "B2"),
        ("submit_against_close", "E1"),
        ("submit_against_close", "E3"),
        ("submit_against_close", "close-no-barrier"),
        ("batch_against_close", "closed-late"),
        ("submit_against_close", "quiet-sleeps-on-left"),
        ("submit_against_close_fenced", "C1"),
    ]);
}
