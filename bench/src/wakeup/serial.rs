//! One sample: submit one task that posts one reused semaphore, wait for it, submit the next at once.
use crate::arms::{Arm, AsyncExecutor, Broadcast, Channel, Ours, Rayon, Runner, Signal, Syscalls, Tokio, Trouble};
use crate::arms::{go, tbb};
use crate::calib::Calibration;
use crate::check::{self, token};
use crate::os::{Usage, usage};
use crate::run::{PATIENCE, Sample};
use crate::scenario::Scenario;
use crate::sem::Semaphore;
use scheduler::Barrier;
use serde_json::Value;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What one sample says, over all of its tasks.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) wall: Duration,
    pub(super) usage: Usage,
    /// Whether `usage` says which of the switches were involuntary.
    pub(super) tells_involuntary: bool,
    /// Of the pool, by its own account.
    pub(super) pool: Option<Syscalls>,
    /// Posts and waits of the semaphore.
    pub(super) harness_calls: u64,
}

/// A pool that is asked for samples.
pub(super) trait Serial {
    fn sample(&self, tasks: u64) -> Result<Taken, String>;
    fn facts(&self) -> Value;
}

#[derive(Default)]
struct Field {
    passed: Semaphore,
    word: AtomicU64,
}

struct On<A: 'static>(&'static A);

impl<A: Arm> Serial for On<A> {
    fn sample(&self, tasks: u64) -> Result<Taken, String> {
        // Never freed: a task that comes late must find it.
        let field: &'static Field = Box::leak(Box::default());
        let (pool, used, start) = (self.0.syscalls(), usage(), Instant::now());
        for i in 0..tasks {
            let t = token(i);
            self.0.submit(move || {
                let _captured = i;
                // Relaxed: the semaphore orders it.
                field.word.fetch_add(t, Relaxed);
                field.passed.post();
            });
            if !field.passed.wait() {
                return Err(format!("task {i} of {tasks} did not run within {PATIENCE:?}"));
            }
        }
        let (wall, usage) = (start.elapsed(), usage() - used);
        let pool = pool.zip(self.0.syscalls()).map(|(before, after)| after - before);
        check::verify(tasks, field.word.load(Relaxed))?;
        Ok(Taken { wall, usage, tells_involuntary: true, pool, harness_calls: tasks + field.passed.waits() })
    }

    fn facts(&self) -> Value {
        self.0.facts()
    }
}

fn on<A: Arm>(arm: Result<A, String>) -> Result<Box<dyn Serial>, String> {
    arm.map(|arm| Box::new(On(Box::leak(Box::new(arm)))) as Box<dyn Serial>)
}

/// An arm of this workload.
#[derive(Debug)]
pub(super) struct Player {
    pub(super) name: &'static str,
    /// The name under which `counts` runs the same pool in a process of its own, for the trace.
    pub(super) traced_as: Option<&'static str>,
    pub(super) build: fn(usize) -> Result<Box<dyn Serial>, String>,
}

/// A program in another language, which has the loop in itself.
struct Program(RefCell<Box<dyn Runner>>);

impl Serial for Program {
    fn sample(&self, tasks: u64) -> Result<Taken, String> {
        let scenario: &'static Scenario = Box::leak(Box::new(Scenario::serial("serial_wakeup", tasks)));
        // There is no busy body, so the length of a step does not matter.
        let job = scenario.job(false, &Calibration { ns_per_step: 1.0 });
        match self.0.borrow_mut().sample(&job) {
            Ok(Sample { wall, usage, .. }) => {
                Ok(Taken { wall, usage, tells_involuntary: false, pool: None, harness_calls: 0 })
            }
            Err(Trouble::Absent(why) | Trouble::Failed(why)) => Err(why),
        }
    }

    fn facts(&self) -> Value {
        self.0.borrow_mut().facts()
    }
}

fn program(runner: Result<Box<dyn Runner>, String>) -> Result<Box<dyn Serial>, String> {
    runner.map(|runner| Box::new(Program(RefCell::new(runner))) as Box<dyn Serial>)
}

/// All arms, ours first, the control arms behind it.
pub(super) static PLAYERS: [Player; 11] = [
    Player { name: "scheduler", traced_as: None, build: |w| on(Ours::with(w, |b| b)) },
    Player { name: "scheduler-spin0", traced_as: Some("scheduler"), build: |w| on(Ours::for_counts(w)) },
    Player {
        name: "scheduler-spin0-fence",
        traced_as: Some("scheduler-fence"),
        build: |w| on(Ours::with(w, |b| b.spin(Duration::ZERO).barrier(Barrier::Fence))),
    },
    Player { name: "cond-broadcast", traced_as: Some("cond-broadcast"), build: |w| on(Broadcast::new(w)) },
    Player { name: "cond-signal", traced_as: Some("cond-signal"), build: |w| on(Signal::new(w)) },
    Player { name: "tokio", traced_as: Some("tokio"), build: |w| on(Tokio::new(w)) },
    Player { name: "rayon", traced_as: Some("rayon"), build: |w| on(Rayon::new(w)) },
    Player { name: "channel", traced_as: Some("channel"), build: |w| on(Channel::new(w)) },
    Player { name: "async-executor", traced_as: Some("async-executor"), build: |w| on(AsyncExecutor::new(w)) },
    Player { name: "go", traced_as: None, build: |w| program(go(w)) },
    Player { name: "tbb", traced_as: None, build: |w| program(tbb(w)) },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_runs_every_task_and_counts_the_harness() {
        let pool = on(Ours::for_counts(2)).unwrap();
        let taken = pool.sample(50).unwrap();
        assert!((50..=110).contains(&taken.harness_calls), "{taken:?}");
        assert!(taken.pool.unwrap().parks <= 60, "{taken:?}");
        assert!(on(Signal::new(2)).unwrap().sample(50).unwrap().pool.is_none());
    }
}
