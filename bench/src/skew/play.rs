//! One run: every task submitted from one worker, and what came of it.
use super::plan::{Plan, work};
use crate::run::PATIENCE;
use crate::sem::Semaphore;
use scheduler::Scheduler;
use scheduler::internals::worker::{Recorded, Tuning};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Instant;

/// What the tasks of one run share.
struct Field {
    left: AtomicUsize,
    sum: AtomicU64,
    over: Semaphore,
    epoch: Instant,
    began: AtomicU64,
    /// The worker that submits, and how many tasks ran on others.
    home: AtomicUsize,
    away: AtomicUsize,
    /// Length of each task in nanoseconds, where they are timed.
    lengths: Vec<AtomicU64>,
}

impl Field {
    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    fn task(&self, index: usize, iterations: u64) {
        let began = (!self.lengths.is_empty()).then(|| self.now());
        self.sum.fetch_add(work(index, iterations), Relaxed);
        let away = scheduler::Handle::worker_index() != Some(self.home.load(Relaxed));
        self.away.fetch_add(usize::from(away), Relaxed);
        if let Some(began) = began {
            self.lengths[index].store(self.now() - began, Relaxed);
        }
        // AcqRel: the waiter reads what the tasks wrote.
        if self.left.fetch_sub(1, AcqRel) == 1 {
            self.over.post();
        }
    }
}

/// What one run says.
pub(super) struct Played {
    /// From before the first submit to when the waiter saw the last end.
    pub(super) wall_ns: u64,
    /// Of each task, if they were timed.
    pub(super) lengths_ns: Vec<u64>,
    pub(super) steals: u64,
    /// Tasks that ran on another worker than the one that submitted them; a task may be stolen more than once.
    pub(super) away: u64,
    pub(super) record: Vec<Recorded>,
}

impl Played {
    /// From the start of the run, which is when the submitting task ran, to the first run of every other task.
    pub(super) fn first_runs_ns(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.record.iter().flat_map(|r| r.first_run_ns.iter().copied()).collect();
        all.sort_unstable();
        let start = all.first().copied().unwrap_or_default();
        all.iter().skip(1).map(|at| at - start).collect()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.record.iter().map(|r| r.dropped).sum()
    }
}

/// A pool for many runs.
pub(super) struct Stage(Scheduler);

impl Stage {
    /// Without thieves it is that of the control run.
    pub(super) fn new(workers: usize, thieves: bool) -> Result<Stage, String> {
        let tuning = Tuning { no_steal: !thieves, ..Tuning::default() };
        Scheduler::builder().workers(workers).tuning(tuning).build().map(Stage).map_err(|e| e.to_string())
    }

    /// Plays the plan. `Err`: the sum is wrong, something was left behind, or the run does not end.
    pub(super) fn play(&self, plan: &Plan, timed: bool) -> Result<Played, String> {
        let scheduler = &self.0;
        self.settle()?;
        scheduler.clear_record();
        let before = scheduler.metrics();
        let field = Arc::new(Field {
            left: AtomicUsize::new(plan.tasks()),
            sum: AtomicU64::new(0),
            over: Semaphore::default(),
            epoch: Instant::now(),
            began: AtomicU64::new(0),
            home: AtomicUsize::new(usize::MAX),
            away: AtomicUsize::new(0),
            lengths: (0..if timed { plan.tasks() } else { 0 }).map(|_| AtomicU64::new(0)).collect(),
        });
        let (shared, iterations) = (field.clone(), plan.iterations.clone());
        let root = move || {
            // Relaxed: submitting a task orders it before what the task reads.
            shared.home.store(scheduler::Handle::worker_index().unwrap_or(usize::MAX), Relaxed);
            shared.began.store(shared.now(), Release);
            let here = scheduler::Handle::current();
            for (index, iterations) in iterations.into_iter().enumerate() {
                let field = shared.clone();
                if here.submit(move || field.task(index, iterations)).is_err() {
                    // The waiter will say that this one did not run.
                    return;
                }
            }
        };
        scheduler.submit(root).map_err(|_| "the scheduler refused a task")?;
        if !field.over.wait() {
            return Err(format!(
                "{} of {} tasks ran within {PATIENCE:?}",
                plan.tasks() - field.left.load(Relaxed),
                plan.tasks()
            ));
        }
        let wall_ns = field.now() - field.began.load(Acquire);
        self.settle()?;
        let after = scheduler.metrics();
        let (ran, expected) = (after.tasks - before.tasks, plan.tasks() as u64 + 1);
        if ran != expected || after.queued != 0 {
            return Err(format!("{ran} of {expected} tasks ran, {} are left behind", after.queued));
        }
        let sum = field.sum.load(Relaxed);
        if sum != plan.sum {
            return Err(format!("the sum of the results is {sum}, not {}", plan.sum));
        }
        Ok(Played {
            wall_ns,
            lengths_ns: field.lengths.iter().map(|l| l.load(Relaxed)).collect(),
            steals: after.steals - before.steals,
            away: field.away.load(Relaxed) as u64,
            record: scheduler.record(),
        })
    }

    fn settle(&self) -> Result<(), String> {
        self.0.wait_idle(PATIENCE).then_some(()).ok_or_else(|| format!("not idle within {PATIENCE:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_played_whole() {
        let plan = Plan::new(2, true);
        let seen = Stage::new(2, true).unwrap().play(&plan, true).unwrap();
        assert_eq!((seen.lengths_ns.len(), seen.first_runs_ns().len(), seen.dropped()), (32, 32, 0));
        assert!(seen.lengths_ns.iter().all(|&ns| ns > 0));
    }

    #[test]
    fn nobody_steals_in_the_control_run() {
        let plan = Plan::new(2, true);
        let seen = Stage::new(2, false).unwrap().play(&plan, false).unwrap();
        assert_eq!((seen.steals, seen.away), (0, 0));
        let who: Vec<u64> = seen.record.iter().map(|r| r.lengths.iter().sum()).collect();
        assert_eq!(who.iter().max(), Some(&33), "one worker took all of them: {who:?}");
    }

    #[test]
    fn a_wrong_sum_is_refused() {
        let plan = Plan { sum: 1, ..Plan::new(1, true) };
        let error = Stage::new(1, true).unwrap().play(&plan, false).err().unwrap();
        assert!(error.starts_with("the sum of the results is "), "{error}");
    }
}
