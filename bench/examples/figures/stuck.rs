//! One of two workers is in a task of 10 ms: how long does what is queued behind it wait while the other is free?
//!
//! The wait begins when the task is queued or the long task begins, whichever is later, except for one that is
//! submitted or forked together with the long one: there it begins with the submit or the fork, as it may be over
//! before. It ends in the first line of the queued task. Where several tasks are queued, the longest wait of a
//! sample is its value.
use super::Size;
use super::report::{Row, Target, Verdict};
use super::stats::Latency;
use super::tools::{Gaps, busy, leak, percentiles, percentiles_json, us, wait_for};
use scheduler::{Handle, Scheduler};
use serde_json::json;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_millis(10);
const LIMIT_US: f64 = 500.0;

/// Short tasks before the batch with the long one: several times what makes a worker fast.
const SHORTS: u64 = 48 * 64;
/// One block of a lane, which is also the largest batch a worker claims. [`SHORTS`] fills whole blocks, so the batch
/// begins with a block.
const BATCH: u64 = 64;
/// Where in the batch the long task is.
const MIDDLE: u64 = 31;

/// Where the queued tasks are while the long one runs.
#[derive(Clone, Copy)]
enum Place {
    /// On the private stack: the long task has submitted so many.
    Private(u64),
    /// In a batch that the worker has claimed, behind the long task.
    Batch,
    /// The latent half of a join whose other half is the long task.
    Fork,
    /// In the lane, submitted together with the long task.
    Behind,
    /// In the lane, submitted a millisecond after the long task began.
    Later,
}

const PLACES: [(&str, Place); 6] = [
    ("private stack, 1 task", Place::Private(1)),
    ("private stack, 8 tasks", Place::Private(8)),
    ("claimed batch", Place::Batch),
    ("latent fork", Place::Fork),
    ("lane, behind the long task", Place::Behind),
    ("lane, 1 ms into the long task", Place::Later),
];

/// What one sample has seen so far.
struct Board {
    clock: Instant,
    /// Where waits begin, in nanoseconds of the clock; 0 before.
    since: AtomicU64,
    longest: AtomicU64,
    started: AtomicBool,
    stuck: AtomicUsize,
    /// Queued tasks that ran on the stuck worker after all.
    behind: AtomicU64,
    finished: AtomicU64,
}

impl Board {
    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    fn reset(&self) {
        self.since.store(0, Relaxed);
        self.longest.store(0, Relaxed);
        self.started.store(false, Relaxed);
        self.finished.store(0, Relaxed);
    }

    fn begin(&self) {
        self.stuck.store(Handle::worker_index().unwrap_or(usize::MAX), Relaxed);
        // Unless the submitter has said so already.
        let _ = self.since.compare_exchange(0, self.now(), Release, Relaxed);
        self.started.store(true, Release);
    }

    fn finish(&self) {
        self.finished.fetch_add(1, Release);
    }

    /// The long task, in which `queue` is called at once.
    fn long(&self, queue: impl FnOnce()) {
        self.begin();
        queue();
        busy(LONG);
        self.finish();
    }

    /// A queued task.
    fn probe(&self) {
        let since = self.since.load(Acquire);
        // It may be taken before the long task begins: then it has not waited for it.
        let wait = if since == 0 { 0 } else { self.now().saturating_sub(since) };
        self.longest.fetch_max(wait, AcqRel);
        if self.started.load(Acquire) && Handle::worker_index() == Some(self.stuck.load(Relaxed)) {
            self.behind.fetch_add(1, Relaxed);
        }
        self.finish();
    }
}

pub(crate) fn measure(size: &Size) -> Result<Vec<Row>, String> {
    let samples = size.pick(200, 10);
    PLACES.iter().map(|(case, place)| measure_place(case, *place, samples)).collect()
}

fn measure_place(case: &str, place: Place, samples: usize) -> Result<Row, String> {
    let pool = Scheduler::builder().workers(2).build().map_err(|e| e.to_string())?;
    let board = leak(Board {
        clock: Instant::now(),
        since: AtomicU64::new(0),
        longest: AtomicU64::new(0),
        started: AtomicBool::new(false),
        stuck: AtomicUsize::new(usize::MAX),
        behind: AtomicU64::new(0),
        finished: AtomicU64::new(0),
    });
    let mut gaps = Gaps::new();
    let mut waits = Vec::with_capacity(samples);
    for _ in 0..samples {
        board.reset();
        gaps.sleep();
        let tasks = queue(&pool, board, place)?;
        wait_for("the end of the tasks beside a long one", || board.finished.load(Acquire) == tasks);
        waits.push(board.longest.load(Acquire));
    }
    let latency = Latency::of(waits).ok_or("no samples")?;
    let (seen, behind) = (pool.metrics(), board.behind.load(Relaxed));
    let verdict = Verdict { what: "p99", value: us(latency.p99), unit: "us", target: Target::AtMost(LIMIT_US) };
    Ok(Row {
        case: case.into(),
        detail: format!("{}  rescues {}, waited it out {behind}", percentiles(&latency), seen.rescues),
        verdict: Some(verdict),
        facts: json!({
            "wait": percentiles_json(&latency), "samples": samples, "rescues": seen.rescues, "steals": seen.steals,
            "stolen": seen.stolen, "waited_it_out": behind,
        }),
    })
}

/// Submits the tasks of one sample and returns how many they are.
fn queue(pool: &Scheduler, board: &'static Board, place: Place) -> Result<u64, String> {
    let submit = |task: Box<dyn FnOnce() + Send>| pool.submit(task).map_err(|e| e.to_string());
    match place {
        Place::Private(probes) => {
            let queue = move || {
                for _ in 0..probes {
                    // Refused: then it is missing in the count, which the caller waits for.
                    let _ = Handle::current().submit(|| board.probe());
                }
            };
            submit(Box::new(move || board.long(queue)))?;
            Ok(1 + probes)
        }
        Place::Batch => batch(pool, board),
        Place::Fork => {
            submit(Box::new(|| {
                // It can be stolen before the long half begins.
                board.since.store(board.now(), Release);
                scheduler::join(|| board.long(|| ()), || board.probe());
            }))?;
            Ok(2)
        }
        Place::Behind => {
            let task = |i| move || if i == 0 { board.long(|| ()) } else { board.probe() };
            board.since.store(board.now(), Release);
            pool.submit_batch((0..2).map(task)).map_err(|e| e.to_string())?;
            Ok(2)
        }
        Place::Later => {
            submit(Box::new(|| board.long(|| ())))?;
            wait_for("the start of a long task", || board.started.load(Acquire));
            std::thread::sleep(Duration::from_millis(1));
            board.since.store(board.now(), Release);
            submit(Box::new(|| board.probe()))?;
            Ok(2)
        }
    }
}

/// Makes the worker fast with short tasks, then hands it one block with a long task in its middle. Nothing else is
/// submitted through this lane, so that blocks and batches stay in step.
fn batch(pool: &Scheduler, board: &'static Board) -> Result<u64, String> {
    for _ in 0..SHORTS {
        pool.submit(|| board.finish()).map_err(|e| e.to_string())?;
    }
    let task = |i| {
        move || match i {
            MIDDLE => board.long(|| ()),
            i if i < MIDDLE => board.finish(),
            _ => board.probe(),
        }
    };
    pool.submit_batch((0..BATCH).map(task)).map_err(|e| e.to_string())?;
    Ok(SHORTS + BATCH)
}
