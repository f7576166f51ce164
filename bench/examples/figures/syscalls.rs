//! Wakes per submit while a worker is looking for work anyway.
use super::Size;
use super::report::{Row, Target, Verdict};
use super::tools::{leak, wait_between, wait_for};
use scheduler::Scheduler;
use scheduler::internals::worker::Tuning;
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::thread::{sleep, yield_now};
use std::time::Duration;

/// Much longer than any gap between two submits; a scheduler is not dropped before it is over.
const SPIN: Duration = Duration::from_secs(1);

pub(crate) fn measure(size: &Size) -> Result<Vec<Row>, String> {
    let tasks: u64 = size.pick(10_000, 1_000);
    // A searcher counts its searches. A worker that takes tasks for short ones stays on the watch without: this one is
    // told that they are long.
    let tuning = Tuning { task_ns: Some(10_000), ..Tuning::default() };
    let built = Scheduler::builder().workers(2).spin(SPIN).tuning(tuning).build();
    let pool = built.map_err(|e| e.to_string())?;
    let ran = leak(AtomicU64::new(0));
    let searches = || pool.metrics().workers.iter().map(|worker| worker.searches).sum::<u64>();
    let task = move || {
        ran.fetch_add(1, Release);
    };
    let submit = || {
        let before = searches();
        pool.submit(task).map_err(|e| e.to_string())?;
        // The one that ran it looks for the next.
        // No sleep in between: ten thousand of them would take a second.
        wait_between("the search after a task", || searches() != before, yield_now);
        Ok::<(), String>(())
    };
    settle(&searches, &|| pool.submit(task).map_err(|e| e.to_string()))?;
    let warm_up = ran.load(Acquire);
    let before = pool.metrics();
    for _ in 0..tasks {
        submit()?;
    }
    let after = pool.metrics();
    wait_for("the last task", || ran.load(Acquire) == warm_up + tasks);
    let wakes = after.wakes - before.wakes;
    let (parks, barriers) = (after.parks - before.parks, after.membarriers - before.membarriers);
    Ok(vec![Row {
        case: format!("{tasks} submits to a searcher"),
        detail: format!("{parks} parks, {barriers} membarriers meanwhile"),
        verdict: Some(Verdict { what: "wakes", value: wakes as f64, unit: "calls", target: Target::AtMost(0.0) }),
        facts: json!({ "tasks": tasks, "wakes": wakes, "parks": parks, "membarriers": barriers }),
    }])
}

/// At the start both workers may look for work at once, and while they do, one that comes back does not begin another
/// search. Submits until a search follows every task: then one worker looks and the other sleeps.
fn settle(searches: &dyn Fn() -> u64, submit: &dyn Fn() -> Result<(), String>) -> Result<(), String> {
    let mut in_a_row = 0;
    for _ in 0..1_000 {
        let before = searches();
        submit()?;
        sleep(Duration::from_millis(5));
        in_a_row = if searches() == before + 1 { in_a_row + 1 } else { 0 };
        if in_a_row == 10 {
            return Ok(());
        }
    }
    Err("no worker keeps looking for work".into())
}
