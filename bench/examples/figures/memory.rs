//! Ten million queued tasks: what they weigh, and what is left of it afterwards.
//!
//! Twice: by the bytes that were asked of the allocator, and by the pages that the process has.
use super::alloc::{live, weigh};
use super::report::{Row, Target, Verdict};
use super::stats::grouped;
use super::tools::{leak, wait_for};
use super::{Size, os};
use scheduler::Scheduler;
use serde_json::json;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::thread::sleep;
use std::time::Duration;

const WORKERS: u32 = 2;
const BYTES: f64 = 72.0;
const KEPT_PERCENT: f64 = 1.0;

/// Bytes by the allocator, and by the resident set.
type Weight = [i64; 2];

fn weight() -> Result<Weight, String> {
    let statm = std::fs::read_to_string("/proc/self/statm").map_err(|e| format!("/proc/self/statm: {e}"))?;
    let pages: i64 =
        statm.split(' ').nth(1).and_then(|n| n.parse().ok()).ok_or("/proc/self/statm has no second field")?;
    // SAFETY: a question without arguments in memory.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Ok([live(), pages * page])
}

/// Keeps every worker in a task until it is opened.
struct Gate {
    open: AtomicU32,
    inside: AtomicU32,
}

impl Gate {
    fn pass(&self) {
        self.inside.fetch_add(1, Release);
        while self.open.load(Acquire) == 0 {
            os::futex_wait(&self.open, 0, Duration::from_secs(1));
        }
    }
}

/// Opens the gate at the latest when it goes: a scheduler is not dropped while tasks are held.
struct Opener(&'static Gate);

impl Drop for Opener {
    fn drop(&mut self) {
        self.0.open.store(1, Release);
        os::futex_wake(&self.0.open, WORKERS as i32);
    }
}

static RAN: AtomicU64 = AtomicU64::new(0);

pub(crate) fn measure(size: &Size) -> Result<Vec<Row>, String> {
    weigh();
    let tasks: u64 = size.pick(10_000_000, 1_000_000);
    let pool = Scheduler::builder().workers(WORKERS as usize).build().map_err(|e| e.to_string())?;
    let gate = leak(Gate { open: AtomicU32::new(0), inside: AtomicU32::new(0) });
    let opener = Opener(gate);
    for _ in 0..WORKERS {
        pool.submit(|| gate.pass()).map_err(|e| e.to_string())?;
    }
    wait_for("every worker in its gate", || gate.inside.load(Acquire) == WORKERS);
    let before = weight()?;
    let task = || {
        RAN.fetch_add(1, Relaxed);
    };
    for _ in 0..tasks {
        pool.submit(task).map_err(|e| e.to_string())?;
    }
    let (full, queued) = (weight()?, pool.metrics().queued);
    if queued != tasks {
        return Err(format!("{queued} tasks are queued, {tasks} were submitted"));
    }
    drop(opener);
    if !pool.wait_idle(Duration::from_secs(120)) {
        return Err("the queue was not empty after two minutes".into());
    }
    let ran = RAN.load(Relaxed);
    if ran != tasks {
        return Err(format!("{ran} tasks ran, {tasks} were submitted"));
    }
    sleep(Duration::from_secs(1));
    let after = weight()?;
    Ok(rows(tasks, before, full, after))
}

fn rows(tasks: u64, before: Weight, full: Weight, after: Weight) -> Vec<Row> {
    let mut rows = Vec::new();
    for (way, name) in ["by the allocator", "by resident pages"].into_iter().enumerate() {
        let (peak, kept) = (full[way] - before[way], after[way] - before[way]);
        let facts = json!({
            "tasks": tasks, "before_bytes": before[way], "full_bytes": full[way], "after_bytes": after[way],
        });
        let mut row = |case: &str, bytes: i64, what, value, unit, target| {
            let mut detail = grouped(bytes.unsigned_abs());
            detail = format!("{}{detail} bytes", if bytes < 0 { "-" } else { "" });
            let verdict = Some(Verdict { what, value, unit, target });
            rows.push(Row { case: format!("{case}, {name}"), detail, verdict, facts: facts.clone() });
        };
        let each = peak as f64 / tasks as f64;
        row("queued", peak, "per task", each, "bytes", Target::AtMost(BYTES));
        let percent = 100.0 * kept as f64 / peak as f64;
        row("kept after 1 s", kept, "of the growth", percent, "%", Target::AtMost(KEPT_PERCENT));
    }
    rows
}
