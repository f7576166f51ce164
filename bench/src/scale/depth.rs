//! Tasks that wait: how much one costs when so many are queued before the first of them runs.
use crate::arms::{Arm, Ours};
use crate::check::{self, token};
use crate::os::{Usage, futex_wait, futex_wake, usage};
use crate::run::{PATIENCE, Run};
use crate::scenario::Job;
use crate::sem::Semaphore;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};
use std::time::Duration;

/// Keeps the workers of a pool where they are.
#[derive(Default)]
struct Hold {
    held: Semaphore,
    open: AtomicU32,
}

impl Hold {
    /// One worker after the other, so that no batch holds two of these tasks.
    fn close(&'static self, ours: &'static Ours, workers: usize) -> Result<(), String> {
        for _ in 0..workers {
            ours.submit(move || {
                self.held.post();
                while self.open.load(Acquire) == 0 {
                    futex_wait(&self.open, 0, PATIENCE);
                }
            });
            if !self.held.wait() {
                return Err(format!("a worker did not stop within {PATIENCE:?}"));
            }
        }
        Ok(())
    }

    fn open(&self) {
        self.open.store(1, Release);
        futex_wake(&self.open, i32::MAX);
    }
}

/// CPU time and wall time of so many rounds of `job.tasks` tasks each: submitted while nobody works, then run.
pub(super) fn sample(ours: &'static Ours, workers: usize, job: &Job, rounds: u64) -> Result<(Usage, Duration), String> {
    let (mut used, mut wall) = (Usage::default(), Duration::ZERO);
    for _ in 0..rounds {
        let hold: &'static Hold = Box::leak(Box::default());
        hold.close(ours, workers)?;
        let run = Run::new(job);
        let (before, start) = (usage(), std::time::Instant::now());
        for i in 0..job.tasks {
            let t = token(i);
            ours.submit(move || {
                let _captured = i;
                run.hit(t);
            });
        }
        hold.open();
        run.wait()?;
        wall += start.elapsed();
        let more = usage() - before;
        used.cpu_ns += more.cpu_ns;
        used.system_ns += more.system_ns;
        used.switches += more.switches;
        check::verify(job.tasks, run.seen())?;
    }
    Ok((used, wall))
}

/// Bytes that so many queued tasks may take: 72 each are allowed, and as much again is left to others.
pub(super) fn fits(depth: u64) -> Result<(), String> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib: Option<u64> = line.and_then(|l| l.trim().trim_end_matches(" kB").parse().ok());
    let need = depth * 2 * 72 / 1024;
    match kib {
        Some(kib) if kib < need => Err(format!("{} MiB are available, {} would be needed", kib / 1024, need / 1024)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calib::Calibration;
    use crate::scenario::Scenario;

    #[test]
    fn held_workers_run_everything_once_they_are_let_go() {
        let ours: &'static Ours = Box::leak(Box::new(Ours::with(2, |b| b).unwrap()));
        let scenario: &'static Scenario = Box::leak(Box::new(Scenario::flat("depth", 500, 1, 0)));
        let job = scenario.job(false, &Calibration { ns_per_step: 1.0 });
        let (used, wall) = sample(ours, 2, &job, 3).unwrap();
        assert!(wall > Duration::ZERO && used.switches > 0);
        assert!(fits(1).is_ok() && fits(u64::MAX / 1_000).is_err());
    }
}
