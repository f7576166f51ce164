//! `load`: a fixed number of submitters, each with a window of tasks in flight, for a stated time.
use crate::arms::{self, Runner, Trouble};
use crate::session::{self, Common, Session};
use crate::stats::{Spread, direction, grouped};
use crate::{calib, host};
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

pub(crate) mod drive;

pub(crate) use drive::{Plan, Taken};

/// What a tiny run takes instead of the seconds that were asked for.
const TINY: [f64; 2] = [0.01, 0.05];
/// Places for latencies, full and tiny.
const BUFFER: [usize; 2] = [4_000_000, 100_000];
/// The arms unless told otherwise.
const ARMS: [&str; 7] = ["scheduler", "tokio", "rayon", "channel", "async-executor", "go", "tbb"];

fn seconds(text: &str) -> Result<f64, String> {
    let parsed: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.001..=3_600.0).contains(&parsed) { Ok(parsed) } else { Err("0.001 to 3600 seconds".into()) }
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Arms, separated by commas
    #[arg(long, value_delimiter = ',')]
    arms: Vec<String>,
    /// Workers of every pool; by default as many as there are usable CPUs
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=512))]
    workers: Option<u16>,
    /// Threads that submit
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=512))]
    submitters: u16,
    /// Tasks in flight per submitter
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    window: u32,
    /// Length of the body in nanoseconds; 0: none
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    body_ns: u64,
    /// Seconds per sample
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Seconds before each sample that do not count
    #[arg(long, default_value_t = 0.5, value_parser = seconds)]
    warm_up: f64,
    /// Rounds; each takes a sample of every arm in turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    samples: u16,
}

struct Row {
    arm: &'static str,
    runner: Box<dyn Runner>,
    samples: Vec<Taken>,
    /// Per task, of a round that is not timed.
    allocations: Option<f64>,
    trouble: Option<Trouble>,
}

impl Row {
    fn take(&mut self, plan: &Plan, count_allocations: bool) {
        match self.runner.load(plan, count_allocations) {
            Err(trouble) => self.trouble = Some(trouble),
            Ok(taken) if count_allocations => {
                self.allocations = taken.allocations.map(|n| n as f64 / taken.tasks.max(1) as f64);
            }
            Ok(taken) => self.samples.push(taken),
        }
    }

    fn spread(&self, of: impl Fn(&Taken) -> f64) -> Option<Spread> {
        Spread::of(self.samples.iter().map(of).collect())
    }

    fn rate(&self) -> Option<Spread> {
        self.spread(|s| s.tasks as f64 / s.wall.as_secs_f64())
    }

    fn cpu(&self) -> Option<Spread> {
        self.spread(|s| s.usage.cpu_ns as f64 / s.tasks.max(1) as f64)
    }

    /// Average, p50, p90, p99: medians over the samples; the greatest maximum.
    fn latency(&self) -> Option<[f64; 5]> {
        let all: Option<Vec<_>> = self.samples.iter().map(|s| s.latency.summary()).collect();
        let all = all.filter(|all| !all.is_empty())?;
        let median = |of: fn(&crate::items::stat::Summary) -> f64| {
            Spread::of(all.iter().map(of).collect()).map_or(f64::NAN, |s| s.median)
        };
        let max = all.iter().map(|s| s.max).max()? as f64;
        Some([median(|s| s.mean), median(|s| s.p50 as f64), median(|s| s.p90 as f64), median(|s| s.p99 as f64), max])
    }

    fn status(&self) -> String {
        arms::status(self.trouble.as_ref())
    }

    fn json(&self, workers: usize, rates: bool, why: Option<&str>) -> Value {
        let latency = self.latency().filter(|_| rates).map(|[average, p50, p90, p99, max]| {
            json!({ "average": average, "p50": p50, "p90": p90, "p99": p99, "max": max })
        });
        let spread = |s: Option<Spread>| s.filter(|_| rates).map(|s| s.json());
        let why = why.filter(|_| self.trouble.is_none());
        json!({
            "arm": self.arm, "workers": workers, "status": self.status(),
            "why": why.map_or(json!({}), |w| json!({ "tasks_per_sec": w, "latency_ns": w })),
            "tasks": self.samples.iter().map(|s| s.tasks).sum::<u64>(),
            "tasks_per_sec": spread(self.rate()), "cpu_ns_per_task": spread(self.cpu()), "latency_ns": latency,
            "allocs_per_task": self.allocations, "dropped": self.samples.iter().map(|s| s.dropped).sum::<u64>(),
        })
    }

    fn line(&self, rates: bool, ours: Option<f64>) -> String {
        if self.trouble.is_some() {
            return format!("  {:<15} {}", self.arm, self.status());
        }
        let allocations = self.allocations.map_or("-".into(), |n| format!("{n:.4}"));
        let dropped: u64 = self.samples.iter().map(|s| s.dropped).sum();
        let (Some(rate), Some(cpu), true) = (self.rate(), self.cpu(), rates) else {
            return format!("  {:<15} NOT MEASURED; allocations per task {allocations}", self.arm);
        };
        let latency = self.latency().map_or("-".into(), |l| l.map(|ns| format!("{:.1}", ns / 1e3)).join(" / "));
        let against = ours.filter(|_| self.arm != "scheduler").map_or_else(String::new, |ours| {
            format!("scheduler is {} than {}", direction(ours / rate.median, "faster", "slower"), self.arm)
        });
        format!(
            "  {:<15} {:>29} {:>10.1} {latency:>44} {allocations:>11} {:>8}  {against}",
            self.arm,
            format!("{:.1} ({:.1} .. {:.1})", rate.median / 1e3, rate.min / 1e3, rate.max / 1e3),
            cpu.median,
            grouped(dropped)
        )
    }
}

fn plan(options: &Options, session: &Session) -> Plan {
    let [warm_up, measured] = if session.tiny { TINY } else { [options.warm_up, options.seconds] };
    // Written and not only reserved: the first touch of a page would be part of a latency.
    let buffer: Vec<AtomicU64> = (1..=BUFFER[usize::from(session.tiny)] as u64).map(AtomicU64::new).collect();
    Plan {
        submitters: usize::from(options.submitters),
        window: options.window,
        steps: session.calibration.steps(options.body_ns),
        warm_up: Duration::from_secs_f64(warm_up),
        measured: Duration::from_secs_f64(measured),
        buffer: Box::leak(buffer.into_boxed_slice()),
    }
}

/// Runs the command; the exit code says whether every task ran once.
pub(crate) fn main(options: &Options) -> Result<ExitCode, String> {
    let by_default = |a: &arms::Kind| ARMS.contains(&a.name);
    let kinds =
        crate::args::choose("arm", &arms::ALL, |a| a.name, |a, word| a.name == word, by_default, &options.arms)?;
    let workers = host::workers(options.workers);
    let row = |kind: &&'static arms::Kind| {
        let (samples, allocations, trouble) = Default::default();
        Row { arm: kind.name, runner: kind.build(workers), samples, allocations, trouble }
    };
    let mut rows: Vec<Row> = kinds.iter().map(row).collect();
    let session = Session::begin("load", &options.common, workers)?;
    if options.body_ns > 0 {
        calib::resolves("a body", options.body_ns, calib::clock_step())?;
    }
    let plan = plan(options, &session);
    let rounds = usize::from(options.samples);
    session.bar.set_length((rows.len() * (rounds + 1)) as u64);
    for round in 1..=rounds + 1 {
        for row in &mut rows {
            session.step(format!("{} · round {round}/{}", row.arm, rounds + 1));
            if row.trouble.is_none() {
                row.take(&plan, round > rounds);
            }
        }
    }
    let rates = session.rates();
    let ours = rows.iter().find(|r| r.arm == "scheduler").and_then(Row::rate).map(|s| s.median);
    let (submitters, window, body) = (plan.submitters, plan.window, options.body_ns);
    let mut text = format!(
        "\nload: {submitters} submitters with {window} tasks in flight each, body {body} ns, {workers} workers, \
         {rounds} x {:?} after {:?} of warm-up\n  {:<15} {:>29} {:>10} {:>44} {:>11} {:>8}\n",
        plan.measured,
        plan.warm_up,
        "arm",
        "k tasks/s",
        "CPU ns",
        "us average / p50 / p90 / p99 / max",
        "allocs/task",
        "dropped"
    );
    rows.iter().for_each(|r| text += &(r.line(rates, ours) + "\n"));
    session.say(&text);
    let failed = rows.iter().filter(|r| matches!(r.trouble, Some(Trouble::Failed(_)))).count();
    let why = session.no_rates();
    let results: Vec<Value> = rows.iter().map(|r| r.json(workers, rates, why)).collect();
    let body = json!({
        "submitters": submitters, "window": window, "body_ns": body, "samples": rounds,
        "seconds": plan.measured.as_secs_f64(), "warm_up_seconds": plan.warm_up.as_secs_f64(),
        "buffer": plan.buffer.len(), "results": results,
    });
    session.finish(body)?;
    Ok(session::ended(failed, rows.len(), false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_a_positive_time() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for text in ["0", "-1", "nan", "inf", "1e9", "soon"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
