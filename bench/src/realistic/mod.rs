//! `realistic`: how long tasks of our own pool take from submit to the end of the body, in the eight scenarios.
use crate::arms::{Runner, Trouble};
use crate::items::stat::Statistic;
use crate::run::Sample;
use crate::scenario::{self, Job, Pass, Scenario, Shape};
use crate::session::{self, Common, Session};
use crate::stats::{Latency, grouped};
use crate::{args, host};
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Scenarios, separated by commas; the eight of flat, nested and bursty work by default
    #[arg(long, value_delimiter = ',')]
    scenarios: Vec<String>,
    /// Workers; by default as many as there are usable CPUs
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=512))]
    workers: Option<u16>,
    /// Rounds in which latencies are taken; a warm-up round comes before them
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    samples: u16,
}

/// What has to hold as soon as there are lanes.
const LANES: [(&str, &str); 3] = [
    ("lane_isolation_1", "4B tasks block for 5 ms each on the blocking lane while cpu_work_10us runs"),
    ("lane_isolation_2", "4B tasks keep the CPU lane busy for 5 ms each while short ones run on the blocking lane"),
    ("lane_isolation_3", "a hog of 1 ms per CPU worker does not delay the blocking lane"),
];

/// Points of the latency curves, in percent.
const CURVE: [f64; 16] =
    [0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 97.5, 99.0, 99.5, 99.9, 99.95, 99.99, 100.0];

struct Row {
    scenario: &'static Scenario,
    tasks: u64,
    samples: Vec<Sample>,
    latencies: Vec<Latency>,
    /// Over all rounds.
    all: Statistic,
    failed: Option<String>,
}

impl Row {
    fn new(scenario: &'static Scenario, tiny: bool) -> Row {
        let (samples, latencies) = Default::default();
        Row { scenario, tasks: scenario.tasks(tiny), samples, latencies, all: Statistic::new(), failed: None }
    }

    fn take(&mut self, sample: Result<Sample, Trouble>, warm_up: bool) {
        match sample {
            Err(Trouble::Absent(why) | Trouble::Failed(why)) => self.failed = Some(why),
            Ok(_) if warm_up => {}
            Ok(sample) => {
                self.latencies.extend(sample.latency);
                sample.values.iter().for_each(|&ns| self.all.record(ns));
                self.samples.push(Sample { values: vec![], ..sample });
            }
        }
    }

    fn per_task(&self, of: impl Fn(&Sample) -> Option<u64>) -> Option<f64> {
        let all: Option<u64> = self.samples.iter().map(of).sum();
        all.filter(|_| !self.samples.is_empty()).map(|n| n as f64 / (self.tasks * self.samples.len() as u64) as f64)
    }

    fn futex(&self) -> Option<f64> {
        self.per_task(|s| s.syscalls.map(|c| c.futex()))
    }

    fn switches(&self) -> Option<f64> {
        self.per_task(|s| Some(s.usage.switches))
    }

    fn latency(&self, rates: bool) -> Option<Latency> {
        Latency::across(&self.latencies).filter(|_| rates)
    }

    fn json(&self, workers: usize, rates: bool, why: Option<&str>) -> Value {
        let status = self.failed.as_ref().map_or_else(|| "ok".into(), |why| format!("failed: {why}"));
        let latency = self.latency(rates);
        json!({
            "scenario": self.scenario.name, "arm": "scheduler", "workers": workers, "tasks": self.tasks,
            "submitters": self.scenario.submitters, "executed": self.tasks * self.samples.len() as u64,
            "status": status, "why": why.map_or(json!({}), |w| json!({ "latency_ns": w })),
            "latency_ns": latency.map(|l| l.json()), "curve": latency.map(|_| self.all.curve(&CURVE)),
            "futex_per_task": self.futex(), "ctx_switches_per_task": self.switches(),
        })
    }

    fn line(&self, rates: bool) -> String {
        if let Some(why) = &self.failed {
            return format!("  {:<20} failed: {why}", self.scenario.name);
        }
        let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        let latency = self.latency(rates).map_or_else(
            || "NOT MEASURED".into(),
            |l| format!("{} / {} / {} / {}", us(l.p50), us(l.p95), us(l.p99), us(l.max)),
        );
        let number = |n: Option<f64>| n.map_or("-".into(), |n| format!("{n:.5}"));
        format!(
            "  {:<20} {:>10} {:>10} {latency:>42} {:>11} {:>13}",
            self.scenario.name,
            grouped(self.tasks),
            self.scenario.submitters,
            number(self.futex()),
            number(self.switches())
        )
    }
}

/// The eight scenarios; the trees and the other counters measure something else.
fn is_one_of_eight(scenario: &Scenario) -> bool {
    !scenario.own_counter && !matches!(scenario.shape, Shape::Deep | Shape::Join | Shape::Serial)
}

fn lane_row((name, what): &(&str, &str)) -> Value {
    json!({
        "scenario": name, "arm": "scheduler", "what": what, "latency_ns": null,
        "status": "absent: this scheduler has no lanes yet",
    })
}

/// Runs the command; the exit code says whether every task ran once.
pub(crate) fn main(options: &Options) -> Result<ExitCode, String> {
    let chosen = args::scenarios(&options.scenarios)?;
    let scenarios: Vec<&'static Scenario> = chosen.into_iter().filter(|s| is_one_of_eight(s)).collect();
    if scenarios.is_empty() {
        let known: Vec<&str> = scenario::ALL.iter().filter(|s| is_one_of_eight(s)).map(|s| s.name).collect();
        return Err(format!("trees have no latency per task; known: {}", known.join(", ")));
    }
    let workers = host::workers(options.workers);
    let kind = args::arms(&["scheduler".to_owned()])?[0];
    let mut pool: Box<dyn Runner> = kind.build(workers);
    let session = Session::begin("realistic", &options.common, workers)?;
    let rounds = usize::from(options.samples);
    session.bar.set_length((scenarios.len() * (rounds + 1)) as u64);
    let mut rows: Vec<Row> = scenarios.iter().map(|&s| Row::new(s, session.tiny)).collect();
    for round in 0..=rounds {
        for row in &mut rows {
            session.step(format!("{} · round {round}/{rounds}", row.scenario.name));
            if row.failed.is_none() {
                let job = row.scenario.job(session.tiny, &session.calibration);
                row.take(pool.sample(&Job { pass: Pass::Latency, ..job }), round == 0);
            }
        }
    }
    let rates = session.rates();
    let mut text = format!(
        "\nlatency, submit called to body finished, {workers} workers, median of {rounds} rounds\n\
         {:<22} {:>10} {:>10} {:>42} {:>11} {:>13}\n",
        "  scenario", "tasks", "submitters", "us p50 / p95 / p99 / max", "futex/task", "switches/task"
    );
    rows.iter().for_each(|r| text += &(r.line(rates) + "\n"));
    LANES.iter().for_each(|(name, what)| text += &format!("  {name:<20} absent: no lanes yet ({what})\n"));
    session.say(&text);
    let failed = rows.iter().filter(|r| r.failed.is_some()).count();
    let why = session.no_rates();
    let results = rows.iter().map(|r| r.json(workers, rates, why)).chain(LANES.iter().map(lane_row));
    let results: Vec<Value> = results.collect();
    session.finish(json!({ "samples": rounds, "results": results }))?;
    Ok(session::ended(failed, rows.len(), false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_scenarios_have_latencies() {
        assert_eq!(scenario::ALL.iter().filter(|s| is_one_of_eight(s)).count(), 8);
    }
}
