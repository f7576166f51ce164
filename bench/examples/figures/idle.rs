//! What a scheduler costs that has nothing to do.
use super::Size;
use super::report::{Row, Target, Verdict};
use super::tools::cpu_ns;
use scheduler::Scheduler;
use serde_json::json;
use std::thread::sleep;
use std::time::Duration;

const WORKERS: usize = 16;

pub(crate) fn measure(size: &Size) -> Result<Vec<Row>, String> {
    let time = size.pick(Duration::from_secs(10), Duration::from_secs(1));
    let pool = Scheduler::builder().workers(WORKERS).build().map_err(|e| e.to_string())?;
    if !pool.wait_idle(Duration::from_secs(10)) {
        return Err("a new scheduler did not become idle".into());
    }
    sleep(Duration::from_millis(200));
    let (parks, before) = (pool.metrics().parks, cpu_ns());
    sleep(time);
    let used = cpu_ns() - before;
    let parks = pool.metrics().parks - parks;
    let seconds = time.as_secs();
    Ok(vec![Row {
        case: format!("{WORKERS} workers, {seconds} s"),
        detail: format!("{parks} parks meanwhile"),
        verdict: Some(Verdict {
            what: "process CPU",
            value: used as f64 / 1e6,
            unit: "ms",
            target: Target::Below(1.0),
        }),
        facts: json!({ "cpu_ns": used, "parks": parks, "workers": WORKERS, "seconds": seconds }),
    }])
}
