//! Whoever could run a task is awake, and nobody is believed idle who is not.

use super::support::{Count, Gate, PATIENCE, all_asleep, eventually, in_a_process, scheduler};
use scheduler::{Barrier, Handle, Scheduler, Topology};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

/// How long the games of chance go on. A failure took some seconds of them when it was found, so a single run may miss
/// one that many runs find.
const SHORT: Duration = Duration::from_millis(1500);

fn on(spec: &str, workers: usize) -> Scheduler {
    Scheduler::builder().topology(Topology::from_spec(spec).unwrap()).workers(workers).build().unwrap()
}

/// Four sleepers on two nodes get four tasks, each of which keeps its worker.
fn all_four_wake(submit: impl FnOnce(&Scheduler, &mut dyn Iterator<Item = Box<dyn FnOnce() + Send>>)) {
    let scheduler = on("2*node cores=2", 4);
    all_asleep(&scheduler);
    let (running, gate) = (Count::default(), Gate::default());
    let mut tasks = (0..4).map(|_| {
        let (running, gate) = (running.clone(), gate.clone());
        let task = move || {
            running.add();
            gate.wait();
        };
        Box::new(task) as Box<dyn FnOnce() + Send>
    });
    submit(&scheduler, &mut tasks);
    eventually("all four run at the same time", || running.get() == 4);
    gate.open();
}

#[test]
fn tasks_submitted_one_by_one_wake_sleepers_of_every_node() {
    in_a_process("wakes::tasks_submitted_one_by_one_wake_sleepers_of_every_node", || {
        all_four_wake(|scheduler, tasks| tasks.for_each(|task| scheduler.submit(task).unwrap()));
    });
}

#[test]
fn a_batch_wakes_sleepers_of_every_node() {
    in_a_process("wakes::a_batch_wakes_sleepers_of_every_node", || {
        all_four_wake(|scheduler, tasks| {
            scheduler.submit_batch(tasks.collect::<Vec<_>>()).unwrap();
        });
    });
}

/// Short tasks make a worker one that nobody needs to wake anybody for; then it gets stuck.
#[test]
fn a_worker_stuck_after_many_short_tasks_is_relieved_by_another_node() {
    in_a_process("wakes::a_worker_stuck_after_many_short_tasks_is_relieved_by_another_node", || {
        let scheduler = on("2*node cores=1", 2);
        all_asleep(&scheduler);
        let (short, stuck, gate, late) = (Count::default(), Gate::default(), Gate::default(), Gate::default());
        for _ in 0..200_000 {
            let short = short.clone();
            scheduler.submit(move || short.add()).unwrap();
        }
        let (begin, wait) = (stuck.clone(), gate.clone());
        let long = move || {
            begin.open();
            wait.wait();
        };
        scheduler.submit(long).unwrap();
        stuck.wait();
        let ran = late.clone();
        scheduler.submit(move || ran.open()).unwrap();
        eventually("the other node runs what came late", || late.is_open());
        gate.open();
        drop(scheduler);
        assert_eq!(short.get(), 200_000);
    });
}

/// The task waits for tasks of another scheduler all the time: its worker goes to sleep and leaves again, and is never
/// idle.
#[test]
fn a_worker_that_waits_inside_of_a_task_is_not_idle() {
    in_a_process("wakes::a_worker_that_waits_inside_of_a_task_is_not_idle", || {
        let watched = Scheduler::builder().workers(1).spin(Duration::ZERO).build().unwrap();
        let other = scheduler(1);
        let (handle, begun, stop) = (other.handle(), Gate::default(), Gate::default());
        let (begin, end) = (begun.clone(), stop.clone());
        let task = watched.spawn(move || {
            begin.open();
            while !end.is_open() {
                handle.spawn(|| ()).unwrap().join().unwrap();
            }
        });
        begun.wait();
        let (began, mut looks, mut idle) = (Instant::now(), 0_u64, 0_u64);
        while began.elapsed() < SHORT {
            for _ in 0..100 {
                looks += 1;
                idle += u64::from(watched.wait_idle(Duration::ZERO));
            }
        }
        stop.open();
        task.unwrap().join().unwrap();
        assert_eq!(idle, 0, "idle {idle} times in {looks} looks, with a task running all the time");
        assert!(watched.wait_idle(PATIENCE), "idle now");
    });
}

/// Some pauses, at most `most`.
fn dawdle(random: &mut u32, most: u32) {
    *random ^= *random << 13;
    *random ^= *random >> 17;
    *random ^= *random << 5;
    for _ in 0..*random % most {
        std::hint::black_box(());
    }
}

/// Submits a task and does nothing until the other worker has run it, again and again, at about the time at which that
/// worker goes to sleep.
fn hand_over(handle: &Handle) -> u64 {
    let (ran, began, mut random, mut rounds) = (Arc::new(AtomicU64::new(0)), Instant::now(), 7, 0);
    while began.elapsed() < SHORT {
        rounds += 1;
        let (round, at) = (rounds, ran.clone());
        handle.submit(move || at.store(round, Release)).unwrap();
        let submitted = Instant::now();
        while ran.load(Acquire) != rounds {
            assert!(submitted.elapsed() < PATIENCE, "round {rounds}: the other worker sleeps on");
        }
        dawdle(&mut random, 4000);
    }
    rounds
}

fn a_push_is_seen(spec: &str, barrier: Barrier) {
    let topology = Topology::from_spec(spec).unwrap();
    let builder = Scheduler::builder().workers(2).topology(topology).spin(Duration::ZERO).barrier(barrier);
    let scheduler = builder.build().unwrap();
    let handle = scheduler.handle();
    let rounds = scheduler.spawn(move || hand_over(&handle)).unwrap().join().unwrap();
    assert!(rounds > 10, "{rounds} rounds say nothing");
}

#[test]
fn a_push_is_seen_by_a_worker_that_goes_to_sleep_fence() {
    in_a_process("wakes::a_push_is_seen_by_a_worker_that_goes_to_sleep_fence", || {
        a_push_is_seen("node cores=2", Barrier::Fence)
    });
}

#[test]
fn a_push_is_seen_by_a_worker_that_goes_to_sleep_auto() {
    in_a_process("wakes::a_push_is_seen_by_a_worker_that_goes_to_sleep_auto", || {
        a_push_is_seen("node cores=2", Barrier::Auto)
    });
}

#[test]
fn a_push_is_seen_by_a_worker_of_another_node() {
    in_a_process("wakes::a_push_is_seen_by_a_worker_of_another_node", || {
        a_push_is_seen("2*node cores=1", Barrier::Auto);
        a_push_is_seen("2*node cores=1", Barrier::Fence);
    });
}

/// The first task holds its worker until the second has run. The second comes while that worker still counts as a
/// searcher, for whose sake nobody else is woken.
#[test]
fn a_task_submitted_while_the_last_searcher_finds_another_is_not_left_alone() {
    in_a_process("wakes::a_task_submitted_while_the_last_searcher_finds_another_is_not_left_alone", || {
        let topology = Topology::from_spec("node cores=2").unwrap();
        let builder = Scheduler::builder().workers(2).topology(topology).spin(Duration::from_millis(3));
        let scheduler = builder.build().unwrap();
        let (second, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (began, mut random, mut round) = (Instant::now(), 1, 0);
        while began.elapsed() < SHORT {
            round += 1;
            let (awaited, done, here) = (second.clone(), ended.clone(), round);
            let holds = move || {
                while awaited.load(Acquire) != here {
                    std::thread::yield_now();
                }
                done.fetch_add(1, AcqRel);
            };
            scheduler.submit(holds).unwrap();
            dawdle(&mut random, 800);
            let (at, done) = (second.clone(), ended.clone());
            let releases = move || {
                at.store(round, Release);
                done.fetch_add(1, AcqRel);
            };
            scheduler.submit(releases).unwrap();
            let submitted = Instant::now();
            while ended.load(Acquire) != 2 * round {
                assert!(submitted.elapsed() < PATIENCE, "round {round}: nobody was woken");
                std::thread::yield_now();
            }
            // One worker goes on searching, the other falls asleep.
            let pause = Instant::now();
            while pause.elapsed() < Duration::from_micros(100) {
                std::hint::spin_loop();
            }
        }
        assert!(round > 10, "{round} rounds say nothing");
    });
}
