//! What the harness itself costs per task: the same loop over an arm that runs each task where it is submitted, less
//! the bare body.
use super::{Ctx, Run, phases};
use crate::alloc::Counted;
use crate::arms::Arm;
use crate::calib::Calibration;
use crate::check::{self, token};
use crate::scenario::{Job, Scenario};
use serde_json::{Value, json};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// What the harness may add to a task, in nanoseconds.
const BOUND_NS: f64 = 3.0;
const TASKS: u64 = 20_000;
/// The least of so many trials: an interruption lengthens one of them, not the result.
const TRIALS: usize = 100;

/// No pool at all.
struct InPlace;

impl Arm for InPlace {
    #[inline(always)]
    fn submit<F: FnOnce() + Send + 'static>(&'static self, task: F) {
        task();
    }
}

/// Nanoseconds per task of the loop and of the bare body, and the allocations of one pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overhead {
    loop_ns: f64,
    body_ns: f64,
    allocations: u64,
}

impl Overhead {
    /// Takes some tens of milliseconds.
    pub(crate) fn take() -> Result<Overhead, String> {
        let scenario: &'static Scenario = Box::leak(Box::new(Scenario::flat("harness", TASKS, 1, 0)));
        // There is no busy body, so the length of a step does not matter.
        let job = scenario.job(false, &Calibration { ns_per_step: 1.0 });
        let (mut loop_ns, mut body_ns) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..TRIALS {
            loop_ns = loop_ns.min(submit(shared(&job))?);
            body_ns = body_ns.min(bare());
        }
        // What the bodies share is made before: it is one per sample, not one per task.
        let ctx = shared(&job);
        let counted = Counted::start();
        submit(ctx)?;
        Ok(Overhead { loop_ns, body_ns, allocations: counted.stop() })
    }

    /// What is added to the body. The two overlap in the processor, so it can come out a little below zero.
    fn ns(&self) -> f64 {
        self.loop_ns - self.body_ns
    }

    fn met(&self) -> bool {
        self.ns() <= BOUND_NS && self.allocations == 0
    }

    /// For the report. Times only if they may be told.
    pub(crate) fn json(&self, rates: bool) -> Value {
        let timed = |ns: f64| rates.then_some(ns);
        json!({
            "ns_per_task": timed(self.ns()), "body_ns": timed(self.body_ns), "bound_ns": BOUND_NS,
            "allocations": self.allocations, "met": rates.then(|| self.met()),
        })
    }

    pub(crate) fn line(&self, rates: bool) -> String {
        let allocations = self.allocations;
        if !rates {
            return format!("harness: CPU per task NOT MEASURED, {allocations} allocations in {TASKS} tasks");
        }
        let (ns, body, word) = (self.ns(), self.body_ns, if self.met() { "met" } else { "MISSED" });
        format!(
            "harness: {ns:.2} ns per task beside the body's {body:.2} (<= {BOUND_NS}), {allocations} allocations in \
             {TASKS} tasks (0): {word}"
        )
    }
}

fn shared(job: &Job) -> &'static Ctx<InPlace> {
    Box::leak(Box::new(Ctx { run: Run::new(job), arm: &InPlace }))
}

fn submit(ctx: &'static Ctx<InPlace>) -> Result<f64, String> {
    let taken = phases(ctx, |ctx, i| {
        let t = token(i);
        ctx.arm.submit(move || {
            let _captured = i;
            ctx.run.hit(t);
        });
    })?;
    check::verify(TASKS, ctx.run.seen())?;
    Ok(taken.wall.as_nanos() as f64 / TASKS as f64)
}

fn bare() -> f64 {
    static WORD: AtomicU64 = AtomicU64::new(0);
    let start = Instant::now();
    for _ in 0..TASKS {
        WORD.fetch_add(1, Relaxed);
    }
    start.elapsed().as_nanos() as f64 / TASKS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harness_allocates_nothing_and_is_judged() {
        // Other tests allocate beside this one, so the pass itself is only seen to run.
        let seen = Overhead::take().unwrap();
        assert!(seen.loop_ns > 0.0 && seen.body_ns > 0.0, "{seen:?}");
        let of = |loop_ns, allocations| Overhead { loop_ns, body_ns: 5.0, allocations };
        assert!(of(8.0, 0).met() && !of(8.01, 0).met() && !of(8.0, 1).met());
        assert!(of(9.0, 0).line(true).contains("4.00 ns per task beside the body's 5.00"));
        assert!(of(9.0, 0).line(true).ends_with("MISSED") && of(9.0, 0).line(false).contains("NOT MEASURED"));
        assert_eq!(of(9.0, 0).json(false)["ns_per_task"], Value::Null);
        assert_eq!(of(9.0, 0).json(true)["met"], false);
    }
}
