//! The end of a scheduler with operations in flight.

use crate::support::{LONG, Op, asleep, has_rings, pipe, tuning, wired};
use scheduler::ShutdownMode;
use std::sync::Arc;

#[test]
fn what_is_in_flight_is_cancelled() {
    if !has_rings() {
        return;
    }
    for mode in [ShutdownMode::Drain, ShutdownMode::Abort] {
        let scheduler = wired(2, tuning());
        let pipe = Arc::new(pipe());
        let ops: Vec<_> = (0..500)
            .map(|_| {
                let poll = pipe.poll();
                scheduler.spawn(move || Op::push(poll)).unwrap().join().unwrap()
            })
            .collect();
        asleep(&scheduler);
        let report = scheduler.shutdown(mode, LONG);
        assert!(report.completed, "{report:?}");
        assert!(ops.iter().all(|op| op.result() == Some(-libc::ECANCELED)), "told");
        assert!(scheduler.metrics().workers.iter().all(|worker| worker.io_leaked == 0));
    }
}

#[test]
fn a_future_that_waits_goes_with_the_scheduler() {
    if !has_rings() {
        return;
    }
    let scheduler = wired(1, tuning());
    let pipe = pipe();
    let poll = pipe.poll();
    let handle = scheduler.spawn_future(async move { Op::push(poll).await }).unwrap();
    asleep(&scheduler);
    drop(scheduler);
    assert!(handle.join().is_err(), "cancelled");
}
