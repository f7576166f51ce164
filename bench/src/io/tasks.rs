//! The scenarios without descriptors, on any runtime of this process: spawning, waking, yielding, timers.
use super::arms::Runtime;
use super::reads;
use super::scenario::{FIRING, FIRST, Scenario, Taken, What};
use crate::alloc::Counted;
use crate::check::{self, token};
use crate::os::{futex_wait, futex_wake, usage};
use crate::run::{Line, PATIENCE};
use crate::stats::Latency;
use atomic_waker::AtomicWaker;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Tasks that yield, and tasks that hold the timers of `timers_pending`.
const YIELDERS: u64 = 200;
const HOLDERS: u64 = 64;
/// The deadline of timers that are not to fire.
const LATER: Duration = Duration::from_secs(3_600);
/// How long the pending timers are watched.
const WATCH: Duration = Duration::from_millis(500);

/// Counts the ends of `target` tasks, each by its token, and wakes the thread that waits for the last one.
pub(super) struct Tally {
    word: Line<AtomicU64>,
    done: Line<AtomicU32>,
    target: u64,
}

impl Tally {
    /// Never freed: a task that comes late must find it.
    pub(super) fn of(target: u64) -> &'static Tally {
        Box::leak(Box::new(Tally { word: Line::default(), done: Line::default(), target }))
    }

    #[inline(always)]
    pub(super) fn hit(&self, token: u64) {
        // AcqRel: the waiter reads what the tasks wrote before. On x86 it is the same instruction as a relaxed one.
        let before = self.word.0.fetch_add(token, AcqRel);
        if check::count(before) + 1 == self.target {
            self.done.0.store(1, Release);
            futex_wake(&self.done.0, 1);
        }
    }

    fn wait(&self) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        while self.done.0.load(Acquire) == 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let ran = check::count(self.word.0.load(Relaxed));
                return Err(format!("{ran} of {} tasks ended within {PATIENCE:?}", self.target));
            }
            futex_wait(&self.done.0, 0, left);
        }
        Ok(())
    }

    fn verify(&self) -> Result<(), String> {
        check::verify(self.target, self.word.0.load(Acquire))
    }
}

/// Takes one sample.
pub(super) fn take<R: Runtime>(
    runtime: R,
    scenario: &Scenario,
    size: u64,
    count_allocations: bool,
) -> Result<Taken, String> {
    match scenario.what {
        What::Flood => flood(runtime, size, count_allocations),
        What::Nested => nested(runtime, size, count_allocations),
        What::PingPong { pairs } => ping_pong(runtime, pairs, size / pairs, count_allocations),
        What::Yield => yield_many(runtime, size / YIELDERS, count_allocations),
        What::TimersPending => timers_pending(runtime, size / HOLDERS, count_allocations),
        What::TimersFire => timers_fire(runtime, size, count_allocations),
        What::Read { depth } => reads::take(runtime, depth, size, count_allocations),
        What::Echo { .. } | What::Http => Err("served from a process of its own".into()),
    }
}

/// Runs `go` under the clock; it ends when the tally is full.
pub(super) fn measured<R: Runtime>(
    runtime: R,
    ops: u64,
    tally: &'static Tally,
    count_allocations: bool,
    go: impl FnOnce(),
) -> Result<Taken, String> {
    let calls = runtime.syscalls();
    let counted = count_allocations.then(Counted::start);
    let before = usage();
    let start = Instant::now();
    go();
    tally.wait()?;
    let wall = start.elapsed();
    let usage = usage() - before;
    let allocations = counted.map(Counted::stop);
    let calls = calls.zip(runtime.syscalls()).map(|(before, after)| after - before);
    // Late and doubled tasks get time to show themselves.
    std::thread::sleep(Duration::from_millis(5));
    tally.verify()?;
    Ok(Taken { ops, wall, usage, allocations, calls, ..Taken::default() })
}

/// The future of the scenarios that only spawn: 24 bytes, as the closures of `compare`.
fn counting(tally: &'static Tally, i: u64) -> impl Future<Output = ()> + Send + 'static {
    let t = token(i);
    async move {
        let _captured = i;
        tally.hit(t);
    }
}

fn flood<R: Runtime>(runtime: R, tasks: u64, count_allocations: bool) -> Result<Taken, String> {
    let tally = Tally::of(tasks);
    measured(runtime, tasks, tally, count_allocations, || {
        for i in 0..tasks {
            runtime.spawn(counting(tally, i));
        }
    })
}

fn nested<R: Runtime>(runtime: R, tasks: u64, count_allocations: bool) -> Result<Taken, String> {
    let parents = tasks / 5;
    let tally = Tally::of(parents * 5);
    measured(runtime, parents * 5, tally, count_allocations, || {
        for i in 0..parents {
            runtime.spawn(async move {
                let first = parents + 4 * i;
                for child in first..first + 4 {
                    runtime.spawn_inside(counting(tally, child));
                }
                tally.hit(token(i));
            });
        }
    })
}

/// Two tasks and whose turn it is.
#[repr(align(128))]
#[derive(Default)]
struct Table {
    turn: AtomicU64,
    wakers: [AtomicWaker; 2],
}

impl Table {
    /// Waits for every second turn, `turns` of them, and gives each to the other one.
    async fn play(&self, side: usize, turns: u64) {
        for round in 0..turns {
            let mine = 2 * round + side as u64;
            poll_fn(|context| {
                if self.turn.load(Acquire) == mine {
                    return Poll::Ready(());
                }
                self.wakers[side].register(context.waker());
                if self.turn.load(Acquire) == mine { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            self.turn.store(mine + 1, Release);
            self.wakers[1 - side].wake();
        }
    }
}

fn ping_pong<R: Runtime>(runtime: R, pairs: u64, messages: u64, count_allocations: bool) -> Result<Taken, String> {
    let turns = messages / 2;
    let tally = Tally::of(2 * pairs);
    let tables: Vec<Arc<Table>> = (0..pairs).map(|_| Arc::default()).collect();
    let taken = measured(runtime, 2 * turns * pairs, tally, count_allocations, || {
        for (pair, table) in tables.iter().enumerate() {
            for side in 0..2 {
                let table = table.clone();
                runtime.spawn(async move {
                    table.play(side, turns).await;
                    tally.hit(token((2 * pair + side) as u64));
                });
            }
        }
    })?;
    match tables.iter().find(|table| table.turn.load(Acquire) != 2 * turns) {
        Some(table) => Err(format!("a pair ended at turn {} of {}", table.turn.load(Acquire), 2 * turns)),
        None => Ok(taken),
    }
}

fn yield_many<R: Runtime>(runtime: R, yields: u64, count_allocations: bool) -> Result<Taken, String> {
    let tally = Tally::of(YIELDERS);
    measured(runtime, YIELDERS * yields, tally, count_allocations, || {
        for i in 0..YIELDERS {
            runtime.spawn(async move {
                for _ in 0..yields {
                    R::yield_now().await;
                }
                tally.hit(token(i));
            });
        }
    })
}

/// Lets the holders of timers go on.
#[derive(Default)]
struct Signal {
    given: AtomicU32,
    waker: AtomicWaker,
}

impl Signal {
    async fn wait(&self) {
        poll_fn(|context| {
            self.waker.register(context.waker());
            if self.given.load(Acquire) == 1 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn give(&self) {
        self.given.store(1, Release);
        self.waker.wake();
    }
}

/// Three phases: the timers are made, which is not measured; set, which is their first poll; and dropped.
fn timers_pending<R: Runtime>(runtime: R, each: u64, count_allocations: bool) -> Result<Taken, String> {
    let [made, set, dropped] = [(); 3].map(|()| Tally::of(HOLDERS));
    let signals: Vec<Arc<[Signal; 2]>> = (0..HOLDERS).map(|_| Arc::default()).collect();
    for (i, signals) in signals.iter().enumerate() {
        let (signals, token) = (signals.clone(), token(i as u64));
        runtime.spawn(async move {
            let mut timers: Vec<_> = (0..each).map(|_| Box::pin(R::sleep(LATER))).collect();
            made.hit(token);
            signals[0].wait().await;
            poll_fn(|context| {
                let due = timers.iter_mut().map(|timer| timer.as_mut().poll(context)).filter(Poll::is_ready).count();
                // One that fires would be lost from the count.
                if due == 0 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            set.hit(token);
            signals[1].wait().await;
            drop(timers);
            dropped.hit(token);
        });
    }
    made.wait()?;
    let give = |which: usize| signals.iter().for_each(|signals| signals[which].give());
    let ops = HOLDERS * each;
    let setting = measured(runtime, ops, set, count_allocations, || give(0))?;
    // What the last of them left to do is not rest.
    std::thread::sleep(Duration::from_millis(20));
    let before = usage();
    std::thread::sleep(WATCH);
    let rest = usage() - before;
    let dropping = measured(runtime, ops, dropped, count_allocations, || give(1))?;
    let per_timer = |ns: u64| ns as f64 / ops as f64;
    let parts = vec![
        ("set_cpu_ns", per_timer(setting.usage.cpu_ns)),
        ("drop_cpu_ns", per_timer(dropping.usage.cpu_ns)),
        ("rest_cpu_us_per_s", rest.cpu_ns as f64 / 1e3 / WATCH.as_secs_f64()),
    ];
    let mut both = setting;
    both.wall += dropping.wall;
    both.usage.cpu_ns += dropping.usage.cpu_ns;
    both.usage.system_ns += dropping.usage.system_ns;
    both.usage.switches += dropping.usage.switches;
    both.allocations = both.allocations.zip(dropping.allocations).map(|(a, b)| a + b);
    both.calls = None;
    both.parts = parts;
    Ok(both)
}

/// Lateness of every timer, from its deadline to its task.
fn timers_fire<R: Runtime>(runtime: R, timers: u64, count_allocations: bool) -> Result<Taken, String> {
    let tally = Tally::of(timers);
    let late: &'static [AtomicU64] = Box::leak((0..timers).map(|_| AtomicU64::new(0)).collect::<Box<[_]>>());
    let start = Instant::now();
    let deadline = |i: u64| start + FIRST + FIRING.mul_f64(i as f64 / timers as f64);
    let mut taken = measured(runtime, timers, tally, count_allocations, || {
        for i in 0..timers {
            // Neighbours in time are not neighbours in the order of spawning: 7,919 is a prime.
            let deadline = deadline(i * 7_919 % timers);
            runtime.spawn(async move {
                R::sleep(deadline.saturating_duration_since(Instant::now())).await;
                late[i as usize].store(deadline.elapsed().as_nanos() as u64 + 1, Relaxed);
                tally.hit(token(i));
            });
        }
    })?;
    taken.latency = Latency::of(late.iter().map(|ns| ns.load(Relaxed)).collect());
    Ok(taken)
}
