//! Distances as the scheduler counts them, on hosts that are made up: homes are names, so what is counted is what the
//! policy does. Nothing here depends on time, except on waiting long enough.
#![cfg(not(loom))]

use scheduler::internals::worker::Tuning;
use scheduler::{Homes, Metrics, Scheduler, Topology};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::time::{Duration, Instant};

/// Two nodes of two cores: workers 0 and 2 sit on node 0, 1 and 3 on node 1.
const TWO_BY_TWO: &str = "2*node cores=2";

fn on(spec: &str, workers: usize, cpu: fn() -> u32) -> Scheduler {
    let tuning = Tuning { cpu: Some(cpu), ..Tuning::default() };
    Scheduler::builder().topology(Topology::from_spec(spec).unwrap()).workers(workers).tuning(tuning).build().unwrap()
}

#[track_caller]
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn all_asleep(scheduler: &Scheduler) {
    assert!(scheduler.wait_idle(Duration::from_secs(30)));
}

/// Submits one task and waits until everybody sleeps again.
fn one_task(scheduler: &Scheduler) {
    scheduler.submit(|| ()).unwrap();
    all_asleep(scheduler);
}

/// Keeps workers until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<(AtomicU32, AtomicBool)>);

impl Gate {
    fn task(&self) -> impl FnOnce() + Send + 'static {
        let gate = self.clone();
        move || {
            gate.0.0.fetch_add(1, AcqRel);
            while !gate.0.1.load(Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    fn kept(&self) -> u32 {
        self.0.0.load(Acquire)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.1.store(true, Release);
    }
}

fn consistent(metrics: &Metrics) {
    assert_eq!(metrics.homes, Homes::Virtual);
    assert_eq!(metrics.steals_by.total(), metrics.steals);
    assert!(metrics.tasks_by.home <= metrics.tasks && metrics.tasks <= metrics.tasks_by.total());
    for worker in &metrics.workers {
        assert_eq!(worker.steals_by.total(), worker.steals);
    }
}

/// As long as somebody of the submitter's node sleeps, nobody else is woken, and nothing is run elsewhere.
#[test]
fn wakes_stay_on_the_node() {
    let scheduler = on(TWO_BY_TWO, 4, || 3);
    all_asleep(&scheduler);
    let before = scheduler.metrics();
    for _ in 0..200 {
        one_task(&scheduler);
    }
    let after = scheduler.metrics();
    consistent(&after);
    assert!(after.wakes_by.home >= before.wakes_by.home + 100, "{after:?}");
    assert_eq!(after.wakes_by.remote, before.wakes_by.remote, "{after:?}");
    // A standby that happens to be awake may help itself.
    let local: u64 = after.workers.iter().filter(|w| w.node == 1).map(|w| w.tasks).sum();
    assert!(local >= 190, "{local} of 200 run at home");
}

/// The control of the test above: when the node has nobody left, a neighbour is woken, and what it runs counts as
/// remote.
#[test]
fn a_full_node_is_relieved_by_the_other() {
    let scheduler = on(TWO_BY_TWO, 4, || 3);
    all_asleep(&scheduler);
    let gate = Gate::default();
    for kept in 1..=4 {
        scheduler.submit(gate.task()).unwrap();
        eventually("a worker that sleeps takes the task", || gate.kept() == kept);
    }
    let metrics = scheduler.metrics();
    assert!(metrics.tasks_by.remote >= 2 && metrics.wakes_by.remote >= 1, "{metrics:?}");
    drop(gate);
    all_asleep(&scheduler);
    consistent(&scheduler.metrics());
}

/// Within a shard the worker that went to sleep last is woken first: a serial load stays on one of them.
#[test]
fn the_last_to_sleep_is_the_first_to_wake() {
    let scheduler = on("node cores=4", 4, || 0);
    all_asleep(&scheduler);
    for _ in 0..200 {
        one_task(&scheduler);
    }
    let mut shares: Vec<u64> = scheduler.metrics().workers.iter().map(|w| w.tasks).collect();
    shares.sort_unstable();
    // Two of them may take turns, the searcher and the one that follows it to bed; the other two have nothing to do.
    assert!(shares[0] + shares[1] <= 20, "{shares:?}");
}

/// A host with one node knows no remote.
#[test]
fn one_node_has_nothing_remote() {
    let scheduler = on("node llcs=2 cores=2", 4, || 0);
    for _ in 0..10_000 {
        scheduler.submit(|| ()).unwrap();
    }
    all_asleep(&scheduler);
    let metrics = scheduler.metrics();
    consistent(&metrics);
    assert_eq!((metrics.tasks_by.remote, metrics.steals_by.remote, metrics.wakes_by.remote), (0, 0, 0));
    assert_eq!(metrics.workers.iter().map(|w| w.far_claims).sum::<u64>(), 0);
}
