//! The measured paths. `counts` runs this program again for each of them, alone or under an instruction counter.
//!
//! The body is one plain store into a preallocated slot of its own: no locked instruction, no allocation. The slots
//! are also the proof that every task ran.
use crate::alloc::Counted;
use crate::args::CountChild;
use crate::arms::{Arm, AsyncExecutor, Broadcast, Channel, Chili, Ours, Rayon, Signal, Tokio};
use crate::os::{self, futex_wait, futex_wake, usage};
use scheduler::Barrier;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

/// A counting semaphore that sleeps at once: what waits on it never spins.
#[derive(Default)]
struct Semaphore(AtomicU32);

impl Semaphore {
    fn post(&self) {
        self.0.fetch_add(1, AcqRel);
        futex_wake(&self.0, 1);
    }

    #[inline(never)]
    fn uncounted_wait(&self) {
        loop {
            let seen = self.0.load(Acquire);
            if seen > 0 && self.0.compare_exchange(seen, seen - 1, AcqRel, Relaxed).is_ok() {
                return;
            }
            if seen == 0 {
                futex_wait(&self.0, 0, PATIENCE);
            }
        }
    }
}

/// What the tasks of one run share.
struct Field<A: 'static> {
    arm: &'static A,
    slots: Box<[AtomicU64]>,
    passed: Semaphore,
    /// Workers that are held, and their release.
    held: Semaphore,
    open: AtomicU32,
    /// 1: tasks that look at it stay where they are.
    gate: AtomicU32,
}

/// The body.
#[inline(always)]
fn mark(slot: &AtomicU64, i: u64) {
    // Relaxed: a plain store on x86. The semaphores order it before the check.
    slot.store(i + 1, Relaxed);
}

impl<A: Arm> Field<A> {
    fn new(arm: &'static A, slots: u64) -> &'static Field<A> {
        // Fresh pages of the kernel's: clearing the slots here would be counted once per task.
        let slots = Box::<[AtomicU64]>::new_zeroed_slice(slots as usize);
        // SAFETY: all-zero bytes are a valid `AtomicU64`.
        let slots = unsafe { slots.assume_init() };
        let (passed, held, open) = Default::default();
        let gate = AtomicU32::new(1);
        Box::leak(Box::new(Field { arm, slots, passed, held, open, gate }))
    }

    /// Submits tasks that only mark: 24 bytes each, a pointer and two words.
    #[inline(always)]
    fn put(&'static self, from: u64, to: u64) {
        for (slot, i) in self.slots[from as usize..to as usize].iter().zip(from..) {
            self.arm.submit(move || {
                let _captured = self;
                mark(slot, i);
            });
        }
    }

    fn put_last(&'static self, i: u64) {
        let slot = &self.slots[i as usize];
        self.arm.submit(move || {
            mark(slot, i);
            self.passed.post();
        });
    }

    /// Submits tasks that stop at the gate before they mark; the last one closes it.
    #[inline(always)]
    fn put_gated(&'static self, from: u64, to: u64) {
        for (slot, i) in self.slots[from as usize..to as usize - 1].iter().zip(from..) {
            self.arm.submit(move || {
                self.pass();
                mark(slot, i);
            });
        }
        let last = &self.slots[to as usize - 1];
        self.arm.submit(move || {
            self.pass();
            mark(last, to - 1);
            self.gate.store(1, Release);
            self.passed.post();
        });
    }

    #[inline(always)]
    fn pass(&self) {
        // Relaxed: it carries nothing; who stops at it looks again with Acquire.
        if self.gate.load(Relaxed) != 0 {
            self.uncounted_stop();
        }
    }

    #[cold]
    #[inline(never)]
    fn uncounted_stop(&self) {
        while self.gate.load(Acquire) != 0 {
            futex_wait(&self.gate, 1, PATIENCE);
        }
    }

    #[inline(never)]
    fn uncounted_go(&self) {
        self.gate.store(0, Release);
        futex_wake(&self.gate, i32::MAX);
    }

    /// Keeps every worker busy, one after the other, so that no batch holds two of these tasks.
    fn hold(&'static self, workers: usize) {
        for _ in 0..workers {
            self.arm.submit(move || {
                self.held.post();
                while self.open.load(Acquire) == 0 {
                    futex_wait(&self.open, 0, PATIENCE);
                }
            });
            self.held.uncounted_wait();
        }
    }

    fn release(&self) {
        self.open.store(1, Release);
        futex_wake(&self.open, i32::MAX);
    }
}

/// Waits until every slot is marked.
#[inline(never)]
fn uncounted_settle(slots: &[AtomicU64]) -> u64 {
    let end = Instant::now() + PATIENCE;
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let ran = slots.iter().zip(1..).filter(|(s, i)| s.load(Acquire) == *i).count();
        if ran == slots.len() || Instant::now() > end {
            return ran as u64;
        }
    }
}

/// From one thread outside, with never less than half of `depth` tasks queued.
fn external<A: Arm>(arm: &'static A, options: &CountChild) -> u64 {
    let chunk = options.depth / 2;
    let field = Field::new(arm, options.tasks);
    let put = |n: u64| {
        field.put(n * chunk, (n + 1) * chunk - 1);
        field.put_last((n + 1) * chunk - 1);
    };
    field.hold(options.workers);
    put(0);
    put(1);
    field.release();
    for n in 2..options.tasks / chunk {
        field.passed.uncounted_wait();
        put(n);
    }
    field.passed.uncounted_wait();
    field.passed.uncounted_wait();
    uncounted_settle(&field.slots)
}

/// How many tasks the standing queue loses before it is filled up again.
pub(super) fn swing(depth: u64) -> u64 {
    (depth / 2).min(50_000)
}

/// As [`external`], for any depth and number of workers: they stop wherever they are while the queue is filled up,
/// and go on together, so that they never find it empty however fast they are. The body has one load and one branch
/// more.
fn standing<A: Arm>(arm: &'static A, options: &CountChild) -> u64 {
    let chunk = swing(options.depth);
    let field = Field::new(arm, options.tasks);
    let (queued, all) = (options.depth / chunk, options.tasks / chunk);
    field.hold(options.workers);
    for n in 0..queued {
        field.put_gated(n * chunk, (n + 1) * chunk);
    }
    field.uncounted_go();
    field.release();
    for n in queued..all {
        field.passed.uncounted_wait();
        field.put_gated(n * chunk, (n + 1) * chunk);
        field.uncounted_go();
    }
    for _ in 0..queued {
        field.passed.uncounted_wait();
        field.uncounted_go();
    }
    uncounted_settle(&field.slots)
}

/// From a worker: every parent submits the next one, then four children.
fn nested<A: Arm>(arm: &'static A, options: &CountChild) -> u64 {
    let tasks = options.tasks;
    let field = Field::new(arm, tasks);
    field.arm.submit(move || chain(field, 0, tasks));
    uncounted_settle(&field.slots)
}

#[inline(always)]
fn chain<A: Arm>(field: &'static Field<A>, i: u64, tasks: u64) {
    if i + 5 < tasks {
        field.arm.submit_inside(move || chain_again(field, i + 5, tasks));
    }
    let [own, children @ ..] = &field.slots[i as usize..i as usize + 5] else { return };
    for (slot, child) in children.iter().zip(i + 1..) {
        field.arm.submit_inside(move || {
            let _captured = field;
            mark(slot, child);
        });
    }
    mark(own, i);
}

fn chain_again<A: Arm>(field: &'static Field<A>, i: u64, tasks: u64) {
    chain(field, i, tasks);
}

/// One task at a time: submit it, wait for it, submit the next at once.
fn serial<A: Arm>(arm: &'static A, options: &CountChild) -> u64 {
    let field = Field::new(arm, options.tasks);
    for i in 0..options.tasks {
        field.put_last(i);
        field.passed.uncounted_wait();
    }
    uncounted_settle(&field.slots)
}

fn fib(n: u64) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

/// How many joins `fib(n)` makes.
pub(super) fn joins(n: u64) -> u64 {
    fib(n + 1) - 1
}

/// The `n` in the place of the number of tasks is that of Fibonacci; the ran tasks are the joins.
fn join<A: Arm>(arm: &'static A, options: &CountChild) -> Result<u64, String> {
    let got = arm.fib(options.tasks).ok_or("has no fork and join")?;
    if got == fib(options.tasks) { Ok(options.tasks) } else { Err(format!("fib({}) came out as {got}", options.tasks)) }
}

fn on<A: Arm>(arm: Result<A, String>, options: &CountChild) -> Result<Value, String> {
    let arm: &'static A = Box::leak(Box::new(arm?));
    let (calls, counted, used) = (arm.syscalls(), Counted::start(), usage());
    let ran = match options.path.as_str() {
        "external" => external(arm, options),
        "external-flat" => standing(arm, options),
        "nested" => nested(arm, options),
        "join" => join(arm, options)?,
        "wakeup" => serial(arm, options),
        other => return Err(format!("unknown path {other:?}")),
    };
    let (used, allocations) = (usage() - used, counted.stop());
    let calls = calls.zip(arm.syscalls()).map(|(before, after)| after - before);
    let calls = calls.map(|c| json!({ "wakes": c.wakes, "parks": c.parks, "membarriers": c.membarriers }));
    Ok(json!({
        "ran": ran, "allocations": allocations, "switches": used.switches, "syscalls": calls, "facts": arm.facts(),
    }))
}

/// Runs one path and prints what it saw as one line of JSON.
pub(crate) fn main(options: &CountChild) -> Result<ExitCode, String> {
    os::end_with_parent();
    let w = options.workers;
    let seen = match options.arm.as_str() {
        "scheduler" => on(Ours::for_counts(w), options),
        "tokio" => on(Tokio::new(w), options),
        "rayon" => on(Rayon::new(w), options),
        "channel" => on(Channel::new(w), options),
        "async-executor" => on(AsyncExecutor::new(w), options),
        "chili" => on(Chili::new(w), options),
        "cond-broadcast" => on(Broadcast::new(w), options),
        "cond-signal" => on(Signal::new(w), options),
        "scheduler-fence" => on(Ours::with(w, |b| b.spin(Duration::ZERO).barrier(Barrier::Fence)), options),
        other => Err(format!("no arm {other:?} in this process")),
    }?;
    println!("{seen}");
    Ok(if seen["ran"] == options.tasks { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(path: &str, arm: &str, tasks: u64, depth: u64) -> CountChild {
        CountChild { path: path.into(), arm: arm.into(), workers: 2, tasks, depth }
    }

    #[test]
    fn every_path_runs_every_task() {
        for path in ["external", "external-flat", "nested", "wakeup"] {
            let seen = on(Channel::new(2), &options(path, "channel", 400, 100)).unwrap();
            assert_eq!(seen["ran"], 400, "{path}");
        }
    }

    #[test]
    fn joins_of_fib() {
        // fib(5) calls itself 15 times, 7 of which fork.
        assert_eq!(joins(5), 7);
        let seen = on(Rayon::new(1), &options("join", "rayon", 12, 0)).unwrap();
        assert_eq!(seen["ran"], 12);
        assert!(on(Channel::new(1), &options("join", "channel", 12, 0)).unwrap_err().contains("no fork and join"));
    }
}
