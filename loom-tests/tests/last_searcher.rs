//! The last searcher against a submitter that relies on it: see `scheduler/src/idle/README.md`.
#![cfg(loom)]

use loom::thread;
use loom_tests::model;
use scheduler::internals::idle::{Fences, IdleWord, Role};
use scheduler::internals::sync::{Arc, AtomicU32, Relaxed, Release, light};

/// A submitter publishes while the only searcher ends its search and another worker sleeps: either the submitter is
/// told to wake somebody, or the searcher sees the task behind its back. Neither passes the heavy side of the barrier.
#[test]
fn somebody_looks() {
    model("somebody_looks", None, 4, || {
        let word = Arc::new(IdleWord::new(false, Fences::None));
        let tail = Arc::new(AtomicU32::new(0));
        word.announce(1, Role::default(), false);
        assert!(word.begin_search(1));
        let searcher = thread::spawn({
            let (word, tail) = (word.clone(), tail.clone());
            move || {
                word.end_search();
                // Relaxed: the look at a lane's backlog.
                tail.load(Relaxed) != 0
            }
        });
        tail.store(1, Release);
        light();
        let wakes = word.load().attention() && word.settle().look();
        assert!(searcher.join().unwrap() || wakes, "a task that nobody looks at");
    });
}

#[test]
fn teeth() {
    loom_tests::teeth(&[("somebody_looks", "I3"), ("somebody_looks", "B5")]);
}
