//! Timers: the wheel against a sorted map, and sleeps of real threads.
#![cfg(not(loom))]

use proptest::prelude::*;
use scheduler::internals::timer::{NEVER, Node, Stage, Timers, tick_after, tick_at, until};
use scheduler::time::{Elapsed, interval, sleep, sleep_until, timeout};
use scheduler::{Scheduler, block_on, yield_now};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Cancel(usize),
    Turn(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Distances of every order of magnitude.
    let distance = (0u32..47).prop_flat_map(|bits| 0..=(1u64 << bits));
    let step = prop_oneof![
        3 => distance.clone().prop_map(Step::Insert),
        1 => any::<usize>().prop_map(Step::Cancel),
        2 => distance.prop_map(Step::Turn),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    /// Every timer fires in the turn that first reaches it, once; `next` never comes after the first one.
    #[test]
    fn the_wheel_is_a_sorted_map(start in 0u64..1 << 46, steps in steps()) {
        let timers = Timers::new_at(start);
        let wakes = Arc::new(Counts(AtomicUsize::new(0)));
        let waker = Waker::from(wakes.clone());
        let mut now = start;
        let mut nodes: Vec<Box<Node>> = Vec::new();
        let mut pending: BTreeMap<(u64, usize), ()> = BTreeMap::new();
        fn pin(node: &Node) -> Pin<&Node> {
            // SAFETY: boxed, and taken out or fired before it goes.
            unsafe { Pin::new_unchecked(node) }
        }
        for step in steps {
            match step {
                Step::Insert(distance) => {
                    let tick = now.saturating_add(distance).clamp(now + 1, (1 << 48) - 1);
                    let node = Box::new(Node::new());
                    // SAFETY: see `pin`.
                    let _first = unsafe { timers.insert(pin(&node), tick, waker.clone()) };
                    pending.insert((tick, nodes.len()), ());
                    nodes.push(node);
                }
                Step::Cancel(which) if !nodes.is_empty() => {
                    let which = which % nodes.len();
                    // SAFETY: inserted there.
                    unsafe { timers.cancel(pin(&nodes[which])) };
                    pending.retain(|&(_, node), ()| node != which);
                    prop_assert_ne!(nodes[which].stage(), Stage::Linked);
                }
                Step::Cancel(_) => {}
                Step::Turn(distance) => {
                    now = now.saturating_add(distance).min((1 << 48) - 2);
                    let due: Vec<_> = pending.keys().copied().take_while(|&(tick, _)| tick <= now).collect();
                    prop_assert_eq!(timers.turn(now), due.len());
                    for (tick, node) in due {
                        pending.remove(&(tick, node));
                        prop_assert_eq!(nodes[node].stage(), Stage::Fired);
                    }
                }
            }
            let first = pending.keys().next().map_or(NEVER, |&(tick, _)| tick);
            prop_assert!(timers.next() <= first);
            prop_assert!((timers.next() == NEVER) == pending.is_empty());
            for &(_, node) in pending.keys() {
                prop_assert_eq!(nodes[node].stage(), Stage::Linked);
            }
        }
        let left = pending.len();
        let before = wakes.0.load(SeqCst);
        timers.end();
        prop_assert_eq!(wakes.0.load(SeqCst) - before, left);
        prop_assert!(nodes.iter().all(|node| node.stage() != Stage::Linked));
    }
}

#[test]
fn ticks_never_come_early() {
    for nanos in [0, 1, 65_535, 65_536, 65_537, u64::MAX - 1, u64::MAX] {
        let tick = tick_after(nanos);
        assert!(tick > tick_at(nanos) || nanos.is_multiple_of(65_536) || tick == (1 << 48) - 1);
        assert!(tick == (1 << 48) - 1 || until(tick, nanos) < 65_536);
    }
    assert_eq!(until(tick_after(65_536), 65_536), 0);
}

fn scheduler(workers: usize) -> Scheduler {
    Scheduler::builder().workers(workers).build().unwrap()
}

#[test]
fn sleeps_are_not_short() {
    let scheduler = scheduler(2);
    for millis in [0, 1, 3, 20] {
        let time = Duration::from_millis(millis);
        let slept = scheduler.spawn_future(async move {
            let began = Instant::now();
            sleep(time).await;
            began.elapsed()
        });
        assert!(slept.unwrap().join().unwrap() >= time);
        let began = Instant::now();
        block_on(sleep_until(began + time));
        assert!(began.elapsed() >= time);
    }
}

#[test]
fn far_deadlines_are_never() {
    let scheduler = scheduler(1);
    block_on(async {
        for far in [Duration::MAX, Duration::from_secs(1 << 40), Duration::from_secs(3_600 * 24 * 365 * 500)] {
            assert_eq!(timeout(Duration::from_millis(1), sleep(far)).await, Err(Elapsed));
        }
    });
    let handle = scheduler.spawn_future(sleep(Duration::MAX)).unwrap();
    let handle = handle.join_timeout(Duration::from_millis(5)).expect_err("never");
    assert!(handle.abort());
    assert!(handle.join().is_err());
    let past = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    block_on(sleep_until(past));
}

#[test]
fn timeouts_and_intervals() {
    let scheduler = scheduler(2);
    let work = scheduler.spawn_future(async {
        assert_eq!(timeout(Duration::from_secs(60), async { 1 }).await, Ok(1));
        assert_eq!(timeout(Duration::ZERO, async { 2 }).await, Ok(2), "polled first");
        assert_eq!(timeout(Duration::from_millis(1), std::future::pending::<()>()).await, Err(Elapsed));
        let began = Instant::now();
        let mut ticks = interval(Duration::from_millis(2));
        for _ in 0..5 {
            ticks.tick().await;
        }
        assert!(began.elapsed() >= Duration::from_millis(8));
        let mut endless = interval(Duration::ZERO);
        for _ in 0..1_000 {
            endless.tick().await;
        }
        let mut rare = interval(Duration::MAX);
        rare.tick().await;
        assert_eq!(timeout(Duration::from_millis(1), rare.tick()).await, Err(Elapsed));
    });
    work.unwrap().join().unwrap();
}

/// Made on one thread, polled on another, dropped on a third.
#[test]
fn sleeps_travel() {
    let scheduler = scheduler(2);
    let made_here = sleep(Duration::from_millis(3));
    scheduler.spawn_future(made_here).unwrap().join().unwrap();
    let mut sleeping = Box::pin(sleep(Duration::from_secs(3_600)));
    let mut poll = || sleeping.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
    assert!(block_on(std::future::poll_fn(|_| Poll::Ready(poll()))));
    // Its thread keeps it no more; a worker does when it is polled there.
    let sleeping = scheduler
        .spawn_future(async move {
            let mut sleeping = sleeping;
            assert!(timeout(Duration::from_millis(1), sleeping.as_mut()).await.is_err());
            Some(sleeping)
        })
        .unwrap();
    let sleeping = sleeping.join().unwrap();
    std::thread::spawn(move || drop(sleeping)).join().unwrap();
    let last = scheduler.spawn_future(async {
        let mut sleeping = Box::pin(sleep(Duration::from_secs(3_600)));
        assert!(timeout(Duration::from_millis(1), sleeping.as_mut()).await.is_err());
        Some(sleeping)
    });
    let sleeping = last.unwrap().join().unwrap();
    drop(scheduler);
    drop(sleeping);
}

#[test]
fn nobody_keeps_time_here() {
    let polled = std::panic::catch_unwind(|| {
        let mut sleeping = pin!(sleep(Duration::from_secs(1)));
        let _ = sleeping.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    });
    assert!(polled.is_err(), "it says so instead of waiting for ever");
}

/// A worker is stuck in a task: somebody else fires its timers, although it sleeps and nothing is submitted.
#[test]
fn a_stuck_worker_does_not_keep_its_timers() {
    for workers in [2, 3] {
        let scheduler = scheduler(workers);
        for _ in 0..workers {
            let go = Arc::new(AtomicBool::new(false));
            let handle = scheduler.handle();
            let seen = go.clone();
            let stuck = scheduler.spawn(move || {
                let fired = seen.clone();
                // Polled here, if nobody steals it: this worker does not return to its queue before it is stuck.
                let sleeper = handle.spawn_future(async move {
                    sleep(Duration::from_millis(5)).await;
                    fired.store(true, SeqCst);
                });
                block_on(yield_now());
                block_on(async {
                    while !seen.load(SeqCst) {
                        if timeout(Duration::from_micros(1), std::future::pending::<()>()).await.is_err() {
                            break;
                        }
                    }
                });
                let began = Instant::now();
                while !seen.load(SeqCst) {
                    assert!(began.elapsed() < Duration::from_secs(15), "nobody fires for a stuck worker");
                    std::hint::spin_loop();
                }
                drop(sleeper);
            });
            stuck.unwrap().join().unwrap();
        }
    }
}

/// The end of a scheduler does not wait for timers.
#[test]
fn the_end_does_not_wait() {
    let scheduler = scheduler(2);
    let handles: Vec<_> =
        (0..100).map(|_| scheduler.spawn_future(sleep(Duration::from_secs(3_600))).unwrap()).collect();
    let began = Instant::now();
    drop(scheduler);
    assert!(handles.into_iter().all(|handle| handle.join().is_err()));
    assert!(began.elapsed() < Duration::from_secs(60));
}

/// Tasks run without a break on the only worker: timers are looked at all the same.
#[test]
fn a_busy_worker_looks_at_its_timers() {
    let scheduler = scheduler(1);
    let stop = Arc::new(AtomicBool::new(false));
    fn again(stop: Arc<AtomicBool>) {
        if !stop.load(SeqCst) {
            let here = scheduler::Handle::current();
            here.submit(move || again(stop)).unwrap();
        }
    }
    let first = stop.clone();
    scheduler.submit(move || again(first)).unwrap();
    scheduler.spawn_future(sleep(Duration::from_millis(5))).unwrap().join().unwrap();
    stop.store(true, SeqCst);
}

#[test]
fn block_on_a_worker_runs_others() {
    let scheduler = scheduler(1);
    let handle = scheduler.handle();
    let outer = scheduler.spawn(move || {
        block_on(async {
            let inner = handle.spawn_future(async { 20 }).unwrap();
            let closure = handle.spawn(|| 22).unwrap();
            sleep(Duration::from_millis(1)).await;
            inner.await.unwrap() + closure.await.unwrap()
        })
    });
    assert_eq!(outer.unwrap().join().unwrap(), 42);
    // Deeper than the stack.
    fn nested(handle: scheduler::Handle, depth: u32) -> u32 {
        if depth == 0 {
            return 0;
        }
        let inner = handle.clone();
        let below = handle.spawn_future(async move { nested(inner, depth - 1) }).unwrap();
        handle.block_on(below).unwrap() + 1
    }
    let inner = scheduler.handle();
    let deep = scheduler.spawn(move || nested(inner, 300)).unwrap();
    assert_eq!(deep.join().unwrap(), 300);
}
