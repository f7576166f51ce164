//! Closing: see `scheduler/src/phase/README.md`. A submit races with the closing and with the workers' last look: the
//! task runs and its submitter is told Ok, or it comes back; nothing else.
#![cfg(loom)]

mod world;

use loom::thread;
use loom_tests::model;
use scheduler::SubmitError;
use scheduler::internals::idle::Role;
use scheduler::internals::mode::BarrierMode::{self, Fence, Membarrier};
use scheduler::internals::phase::Phase;
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

/// Only the worker's last look, by the calls that a worker's context makes: whoever concludes that nothing is left
/// has seen every task that was accepted.
#[test]
fn last_look() {
    model("closing::last_look", Some(2), 500, || {
        let world = World::new(1, 1, Membarrier, ENDLESS);
        let mut submitter = world.submitter();
        let (tally, shared) = (world.tally, world.shared.clone());
        let other = thread::spawn(move || (submitter.submit(tally.task(0)).is_ok(), submitter));
        let worker = thread::spawn(move || {
            shared.rests.begin(false);
            shared.words[0].announce(0, Role::default(), false);
            assert!(shared.heavy_side());
            let pin = shared.lanes.scanner().pin();
            !shared.backlog(&pin) && shared.phase.get() == Phase::Sealed && shared.quiescent(&pin)
        });
        world.shared.close(false);
        let (accepted, submitter) = other.join().unwrap();
        let nothing_left = worker.join().unwrap();
        assert!(!(accepted && nothing_left), "accepted, and nobody will run it");
        drop(submitter);
        world.abandon();
    });
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
        ("last_look", "E1"),
        ("last_look", "E3"),
        ("last_look", "close-no-barrier"),
        ("batch_against_close", "closed-late"),
        ("submit_against_close", "quiet-sleeps-on-left"),
        ("submit_against_close_fenced", "C1"),
    ]);
}
