//! Places: a task goes where it should, and elsewhere when its place does not get to it.
#![cfg(not(loom))]

use scheduler::internals::worker::Tuning;
use scheduler::{Handle, Place, Scheduler, ShutdownMode, SubmitError, Topology};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::mpsc::channel;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);

fn on(spec: &str, workers: usize) -> Scheduler {
    let scheduler = Scheduler::builder().topology(Topology::from_spec(spec).unwrap()).workers(workers).build().unwrap();
    assert!(scheduler.wait_idle(LONG));
    scheduler
}

fn me() -> usize {
    Handle::worker_index().unwrap()
}

/// Keeps `worker` in a task until it is dropped.
struct Stuck(Arc<AtomicBool>);

impl Stuck {
    fn worker(scheduler: &Scheduler, worker: usize) -> Stuck {
        let (over, (begun, begins)) = (Arc::new(AtomicBool::new(false)), channel());
        let until = over.clone();
        scheduler
            .submit_on(Place::Worker(worker), move || {
                begun.send(me()).unwrap();
                while !until.load(Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            })
            .unwrap();
        assert_eq!(begins.recv_timeout(LONG).unwrap(), worker, "an idle worker takes what is for it");
        Stuck(over)
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        self.0.store(true, Release);
    }
}

#[test]
fn an_idle_worker_runs_what_is_for_it() {
    let scheduler = on("node cores=4", 4);
    for round in 0..100 {
        let worker = round * 7 % 4;
        assert_eq!(scheduler.spawn_on(Place::Worker(worker), me).unwrap().join().unwrap(), worker);
        assert!(scheduler.wait_idle(LONG));
    }
}

#[test]
fn an_idle_node_runs_what_is_for_it() {
    let scheduler = on("3*node cores=2", 6);
    let nodes: Vec<usize> = scheduler.metrics().workers.iter().map(|w| w.node).collect();
    for round in 0..100 {
        let node = round * 5 % 3;
        let ran_on = scheduler.spawn_on(Place::Node(node), me).unwrap().join().unwrap();
        assert_eq!(nodes[ran_on], node);
        assert!(scheduler.wait_idle(LONG));
    }
    assert_eq!(scheduler.metrics().tasks_by.remote, 0);
}

/// A node without workers stands for the nearest one.
#[test]
fn a_node_without_workers() {
    let scheduler = on("node cores=1; node cores=1; node cores=0 mem=1g; dist 10 20 30/20 10 15/30 15 10", 2);
    assert_eq!(scheduler.spawn_on(Place::Node(2), me).unwrap().join().unwrap(), 1);
}

#[test]
fn a_stuck_worker_does_not_hold_its_tasks() {
    let scheduler = on("node cores=2", 2);
    let stuck = Stuck::worker(&scheduler, 1);
    let tasks: Vec<_> = (0..100).map(|_| scheduler.spawn_on(Place::Worker(1), me).unwrap()).collect();
    for task in tasks {
        assert_eq!(task.join_timeout(LONG).expect("in time").unwrap(), 0, "somebody else helps");
    }
    drop(stuck);
}

#[test]
fn a_stuck_node_does_not_hold_its_tasks() {
    let scheduler = on("2*node cores=1", 2);
    let stuck = Stuck::worker(&scheduler, 1);
    let tasks: Vec<_> = (0..100).map(|_| scheduler.spawn_on(Place::Node(1), me).unwrap()).collect();
    for task in tasks {
        assert_eq!(task.join_timeout(LONG).expect("in time").unwrap(), 0);
    }
    drop(stuck);
    let metrics = scheduler.metrics();
    assert!(metrics.tasks_by.remote >= 100, "{metrics:?}");
}

/// The bound: nobody is idle, one worker is stuck, the other has always more of its own. A task for the stuck one
/// waits for at most 64 streaks of 64 tasks, and the oldest of each.
#[test]
fn the_starvation_bound() {
    for (spec, place) in [("node cores=2", Place::Worker(1)), ("2*node cores=1", Place::Node(1))] {
        let scheduler = on(spec, 2);
        let stuck = Stuck::worker(&scheduler, 1);
        let (ran, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        fn again(ran: Arc<AtomicU64>, stop: Arc<AtomicBool>) {
            ran.fetch_add(1, Relaxed);
            if !stop.load(Relaxed) {
                Handle::current().submit(move || again(ran, stop)).unwrap();
            }
        }
        let (counted, stopped) = (ran.clone(), stop.clone());
        scheduler.submit_on(Place::Worker(0), move || again(counted, stopped)).unwrap();
        while ran.load(Relaxed) < 10_000 {
            std::thread::yield_now();
        }
        // Submitted by the busy worker itself, so that both counts are of one thread.
        let (handle, counted, (told, tells)) = (scheduler.handle().clone(), ran.clone(), channel());
        scheduler
            .submit_on(Place::Worker(0), move || {
                let before = counted.load(Relaxed);
                let late = move || told.send((me(), counted.load(Relaxed) - before)).unwrap();
                handle.submit_on(place, late).unwrap();
            })
            .unwrap();
        let (worker, waited) = tells.recv_timeout(LONG).expect("it is run at all");
        assert_eq!(worker, 0);
        assert!(waited <= 64 * 66, "{place}: waited for {waited} tasks");
        stop.store(true, Relaxed);
        drop(stuck);
    }
}

#[test]
fn unknown_places_give_the_closure_back() {
    let scheduler = on("node cores=2", 2);
    let error = scheduler.submit_on(Place::Worker(2), || ()).unwrap_err();
    assert_eq!(error.to_string(), "the scheduler has no worker 2");
    assert_eq!(format!("{error:?}"), "NoSuchPlace(.., Worker(2))");
    error.into_inner()();
    let error = scheduler.spawn_on(Place::Node(1), || 42).unwrap_err();
    assert_eq!(error.to_string(), "the scheduler has no node 1");
    assert!(matches!(error, SubmitError::NoSuchPlace(_, Place::Node(1))));
    assert_eq!(error.into_inner()(), 42);
    let refused = scheduler.register_submitter_on(Place::Worker(usize::MAX)).map(drop).unwrap_err();
    assert_eq!(refused, SubmitError::NoSuchPlace((), Place::Worker(usize::MAX)));
}

#[test]
fn a_closed_scheduler_gives_the_closure_back() {
    let scheduler = on("2*node cores=1", 2);
    let handle = scheduler.handle().clone();
    handle.submit_on(Place::Worker(1), || ()).unwrap();
    scheduler.shutdown(ShutdownMode::Drain, LONG);
    for place in [Place::Any, Place::Worker(1), Place::Node(1)] {
        let error = handle.spawn_on(place, || 7).map(drop);
        assert!(matches!(error, Err(SubmitError::Closed(_))), "{place}: {error:?}");
    }
}

/// Everything that was accepted is run, wherever it should have gone.
#[test]
fn a_drain_leaves_nothing_behind() {
    for capacity in [None, Some(64)] {
        let ran = Arc::new(AtomicU32::new(0));
        let host = Topology::from_spec("2*node llcs=2 cores=1").unwrap();
        let mut builder = Scheduler::builder().topology(host).workers(4);
        if let Some(capacity) = capacity {
            builder = builder.capacity(capacity);
        }
        let scheduler = builder.build().unwrap();
        let threads = (0..3).map(|thread| {
            let (handle, ran) = (scheduler.handle().clone(), ran.clone());
            std::thread::spawn(move || {
                for task in 0..2_000 {
                    let place = match (task + thread) % 3 {
                        0 => Place::Any,
                        1 => Place::Worker(task % 4),
                        _ => Place::Node(task % 2),
                    };
                    let (ran, again) = (ran.clone(), handle.clone());
                    let task = move || {
                        ran.fetch_add(1, Relaxed);
                        // From a worker to another one.
                        let then = move || _ = ran.fetch_add(1, Relaxed);
                        again.submit_on(Place::Worker((me() + 1) % 4), then).unwrap();
                    };
                    handle.submit_on(place, task).unwrap();
                }
            })
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        drop(scheduler);
        assert_eq!(ran.load(Relaxed), 12_000, "capacity {capacity:?}");
    }
}

#[test]
fn batches_for_a_place() {
    let scheduler = on("2*node cores=1", 2);
    let mut submitter = scheduler.register_submitter_on(Place::Worker(1)).unwrap();
    let (told, tells) = channel();
    let tasks = (0..32).map(|_| {
        let told = told.clone();
        move || told.send(me()).unwrap()
    });
    assert_eq!(submitter.submit_batch(tasks).unwrap(), 32);
    let at_home = (0..32).filter(|_| tells.recv_timeout(LONG).unwrap() == 1).count();
    assert!(at_home >= 1, "it was woken for them");
    assert!(scheduler.wait_idle(LONG));
}

/// A thread that moves takes its lane along, at the next block.
#[test]
fn lanes_move_with_their_thread() {
    static CPU: AtomicU32 = AtomicU32::new(0);
    let tuning = Tuning { cpu: Some(|| CPU.load(Relaxed)), ..Tuning::default() };
    let host = Topology::from_spec("2*node cores=2").unwrap();
    let scheduler = Scheduler::builder().topology(host).workers(4).tuning(tuning).build().unwrap();
    // While workers start, those of one node may be there before the others.
    assert!(scheduler.wait_idle(LONG));
    let nodes: Vec<usize> = scheduler.metrics().workers.iter().map(|w| w.node).collect();
    let serially = |tasks: usize| {
        let one = |_| {
            let (told, tells) = channel();
            scheduler.submit(move || told.send(me()).unwrap()).unwrap();
            let worker = tells.recv_timeout(LONG).unwrap();
            assert!(scheduler.wait_idle(LONG));
            nodes[worker]
        };
        (0..tasks).map(one).collect::<Vec<_>>()
    };
    assert_eq!(serially(100), [0; 100]);
    assert_eq!(scheduler.metrics().lane_moves, 0, "nobody has moved");
    CPU.store(3, Relaxed);
    let ran_on = serially(100);
    assert_eq!(ran_on[64..], [1; 36], "one block later at the latest");
    assert_eq!(scheduler.metrics().lane_moves, 1);
}
