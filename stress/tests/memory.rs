//! Millions of queued tasks: what each costs, and that it comes back.
#![cfg(not(loom))]

use scheduler::{Scheduler, Submitter};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use stress::report::say;
use stress::{Round, alloc, os, run};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

const LONG: Duration = Duration::from_secs(150);
const PER_TASK: f64 = 72.0;
/// Bytes that do not depend on the number of tasks.
const BASE: f64 = 1_000_000.0;

static RUNS: AtomicU64 = AtomicU64::new(0);

/// Keeps all workers busy until the value is dropped.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn all(scheduler: &Scheduler, workers: usize) -> Busy {
        let (stop, inside) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(workers + 1)));
        for _ in 0..workers {
            let (stop, inside) = (stop.clone(), inside.clone());
            let stay = move || {
                inside.wait();
                while !stop.load(Relaxed) {
                    std::thread::sleep(Duration::from_micros(200));
                }
            };
            scheduler.submit(stay).unwrap();
        }
        inside.wait();
        Busy(stop)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Queues `tasks`, measures, drains, measures again.
fn fill_and_drain(round: &Round, what: &str, tasks: u64, fill: impl FnOnce(&Scheduler, u64)) {
    let workers = round.profile.workers.min(4);
    let scheduler = round.build(round.builder_of(workers));
    let busy = Busy::all(&scheduler, workers);
    RUNS.store(0, Relaxed);
    let (bytes, resident) = (alloc::bytes(), os::resident());
    let began = Instant::now();
    fill(&scheduler, tasks);
    let filled = began.elapsed();
    let peak = (alloc::bytes() - bytes) as f64;
    let peak_resident = os::resident().saturating_sub(resident);
    assert_eq!(scheduler.metrics().queued, tasks);
    drop(busy);
    assert!(scheduler.wait_idle(LONG));
    assert_eq!(RUNS.load(Relaxed), tasks);
    let drained = began.elapsed() - filled;
    std::thread::sleep(Duration::from_secs(1));
    let kept = (alloc::bytes() - bytes) as f64;
    let kept_resident = os::resident().saturating_sub(resident);
    let per_task = peak / tasks as f64;
    say(&format!(
        "memory::{what}: {tasks} tasks, {per_task:.1} bytes each, kept {kept:.0} ({:.2} %); \
         resident peak {} MiB, kept {} MiB; \
         filled in {filled:.2?}, drained in {drained:.2?}",
        100.0 * kept / peak,
        peak_resident >> 20,
        kept_resident >> 20,
    ));
    assert!(peak <= PER_TASK * tasks as f64 + BASE, "{per_task} bytes per task");
    // Where the peak is small, what a worker may keep for good counts for more than one part in a hundred.
    assert!(kept <= (peak / 100.0).max(BASE), "{kept} of {peak} bytes are kept");
}

/// The figure of the documentation, in the plain rounds; elsewhere a tenth.
fn full_size(round: &Round) -> u64 {
    if round.number % 5 == 2 { 10_000_000 } else { 1_000_000 }
}

#[test]
fn ten_million_from_a_thread() {
    run("memory::ten_million_from_a_thread", |round| {
        fill_and_drain(round, "ten_million_from_a_thread", full_size(round), |scheduler, tasks| {
            for _ in 0..tasks {
                scheduler.submit(|| _ = RUNS.fetch_add(1, Relaxed)).unwrap();
            }
        });
    });
}

#[test]
fn a_million_in_batches() {
    run("memory::a_million_in_batches", |round| {
        fill_and_drain(round, "a_million_in_batches", 1_000_000, |scheduler, tasks| {
            let mut own: Submitter = scheduler.register_submitter().unwrap();
            for _ in 0..tasks / 1_000 {
                let batch = (0..1_000).map(|_| || _ = RUNS.fetch_add(1, Relaxed));
                assert_eq!(own.submit_batch(batch).unwrap(), 1_000);
            }
        });
    });
}

/// From a worker the tasks go through its ring first.
#[test]
fn a_million_from_a_worker() {
    run("memory::a_million_from_a_worker", |round| {
        let scheduler = round.build(round.builder_of(2));
        let (bytes, tasks) = (alloc::bytes(), 1_000_000);
        RUNS.store(0, Relaxed);
        let (busy, handle) = (Busy::all(&scheduler, 1), scheduler.handle());
        let fill = move || {
            (0..tasks).for_each(|_| handle.submit(|| _ = RUNS.fetch_add(1, Relaxed)).unwrap());
            drop(busy);
            (alloc::bytes() - bytes) as f64
        };
        let peak = scheduler.spawn(fill).unwrap().join().unwrap();
        assert!(scheduler.wait_idle(LONG));
        assert_eq!(RUNS.load(Relaxed), tasks);
        std::thread::sleep(Duration::from_secs(1));
        let kept = (alloc::bytes() - bytes) as f64;
        say(&format!("memory::a_million_from_a_worker: {:.1} bytes each, kept {kept:.0}", peak / tasks as f64));
        assert!(peak <= PER_TASK * tasks as f64 + 2.0 * BASE, "{peak} bytes");
        assert!(kept <= BASE, "{kept} bytes are kept");
    });
}

/// Big closures are boxed; their boxes must go, too, when they are dropped unrun.
#[test]
fn boxes_of_dropped_tasks_go() {
    run("memory::boxes_of_dropped_tasks_go", |round| {
        let before = (alloc::bytes(), alloc::blocks());
        for _ in 0..5 {
            let scheduler = round.builder_of(2).build().unwrap();
            let busy = Busy::all(&scheduler, 2);
            for i in 0..2_000_u64 {
                let big = [i; 32];
                scheduler.submit(move || _ = std::hint::black_box(big)).unwrap();
                drop(scheduler.spawn(move || big).unwrap());
            }
            scheduler.shutdown(scheduler::ShutdownMode::Abort, Duration::ZERO);
            drop(busy);
            drop(scheduler);
        }
        let kept = (alloc::bytes() - before.0, alloc::blocks() - before.1);
        assert!(kept.0 < 1 << 20 && kept.1 < 2_000, "{kept:?}");
    });
}
