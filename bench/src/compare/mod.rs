//! `compare`: all scenarios, all arms, interleaved.
use crate::arms::{self, Runner, Trouble};
use crate::calib::Calibration;
use crate::gate::Gate;
use crate::host::{self, Cpus, Rates};
use crate::run::{Overhead, Sample};
use crate::scenario::{Job, Pass, Scenario, Shape};
use crate::stats::{Latency, Spread};
use crate::{args, output, session};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Instant;

mod report;
mod targets;

/// Rounds in which latencies are taken: each has thousands of values of its own.
const LATENCY_ROUNDS: usize = 3;

/// All that is known about one arm in one scenario.
struct Row {
    scenario: &'static Scenario,
    arm: &'static str,
    tasks: u64,
    /// Timed rounds.
    samples: Vec<Sample>,
    /// Of the round that counted them; `None`: the arm cannot say.
    allocations: Option<u64>,
    latencies: Vec<Latency>,
    trouble: Option<Trouble>,
    /// Whether times may be reported.
    rates: Rates,
}

impl Row {
    fn spread(&self, of: impl Fn(&Sample) -> f64) -> Option<Spread> {
        if self.rates == Rates::NotMeasured {
            return None;
        }
        Spread::of(self.samples.iter().map(of).collect())
    }

    /// Tasks per second, the gap included.
    fn rate(&self) -> Option<Spread> {
        self.spread(|s| self.tasks as f64 / (s.wall + s.gap).as_secs_f64())
    }

    fn rate_without_gap(&self) -> Option<Spread> {
        if self.scenario.shape != Shape::Burst {
            return None;
        }
        self.spread(|s| self.tasks as f64 / s.wall.as_secs_f64())
    }

    /// CPU nanoseconds per task.
    fn cpu(&self) -> Option<Spread> {
        self.spread(|s| s.usage.cpu_ns as f64 / self.tasks as f64)
    }

    fn latency(&self) -> Option<Latency> {
        if self.rates == Rates::NotMeasured { None } else { Latency::across(&self.latencies) }
    }

    /// CPU microseconds in the 10 ms that begin 1 ms after the drain.
    fn after(&self) -> Option<f64> {
        self.spread(|s| s.after_ns.unwrap_or(0) as f64 / 1e3)
            .filter(|_| self.has(|s| s.after_ns.is_some()))
            .map(|s| s.median)
    }

    fn has(&self, what: impl Fn(&Sample) -> bool) -> bool {
        !self.samples.is_empty() && self.samples.iter().all(what)
    }

    /// A count per task, over all samples.
    fn per_task(&self, of: impl Fn(&Sample) -> Option<u64>) -> Option<f64> {
        let all: Option<u64> = self.samples.iter().map(of).sum();
        all.filter(|_| !self.samples.is_empty()).map(|n| n as f64 / (self.tasks * self.samples.len() as u64) as f64)
    }

    fn allocs(&self) -> Option<f64> {
        self.allocations.map(|n| n as f64 / self.tasks as f64)
    }

    fn futex(&self) -> Option<f64> {
        self.per_task(|s| s.syscalls.map(|c| c.futex()))
    }

    fn switches(&self) -> Option<f64> {
        self.per_task(|s| Some(s.usage.switches))
    }

    fn status(&self) -> String {
        arms::status(self.trouble.as_ref())
    }

    fn json(&self, workers: usize) -> Value {
        let spread = |s: Option<Spread>| s.map(|s| s.json());
        let mut why = serde_json::Map::new();
        if self.trouble.is_none() {
            if self.futex().is_none() {
                why.insert("futex_per_task".into(), json!("this arm does not count its own system calls"));
            }
            if self.allocs().is_none() {
                why.insert(
                    "allocs_per_task".into(),
                    json!("not seen by the counting allocator, and not reported by the arm"),
                );
            }
            if self.rates == Rates::NotMeasured {
                why.insert("tasks_per_sec".into(), json!("NOT MEASURED: the machine was not quiet"));
            }
        }
        json!({
            "scenario": self.scenario.name, "arm": self.arm, "workers": workers, "tasks": self.tasks,
            "tasks_per_sec": spread(self.rate()),
            "tasks_per_sec_without_gap": spread(self.rate_without_gap()),
            "cpu_ns_per_task": spread(self.cpu()),
            "latency_ns": self.latency().map(|l| l.json()),
            "allocs_per_task": self.allocs(),
            "futex_per_task": self.futex(),
            "ctx_switches_per_task": self.switches(),
            "cpu_us_after_drain": self.after(),
            "forced": self.rates == Rates::Forced,
            "status": self.status(),
            "why": why,
        })
    }
}

struct Player {
    kind: &'static arms::Kind,
    runner: Box<dyn Runner>,
    /// Why it is not asked any more: what is still on its way in a pool that has failed may disturb everybody.
    dropped: Option<String>,
}

/// What all rounds of a scenario need.
struct Session {
    players: Vec<Player>,
    calibration: Calibration,
    rates: Rates,
    samples: usize,
    tiny: bool,
    bar: ProgressBar,
}

impl Session {
    fn rounds(&self, scenario: &Scenario) -> Vec<Pass> {
        let timed = if self.rates == Rates::NotMeasured { 1 } else { self.samples };
        let mut passes = vec![Pass::Rate; timed + 1];
        passes.push(Pass::Allocations);
        if scenario.latency && self.rates != Rates::NotMeasured {
            passes.extend([Pass::Latency; LATENCY_ROUNDS]);
        }
        passes
    }

    fn scenario(&mut self, scenario: &'static Scenario) -> Vec<Row> {
        let job = scenario.job(self.tiny, &self.calibration);
        let row = |p: &Player| Row {
            scenario,
            arm: p.kind.name,
            tasks: job.tasks,
            samples: vec![],
            allocations: None,
            latencies: vec![],
            trouble: match (p.kind.takes_part(scenario.shape), &p.dropped) {
                (Err(why), _) => Some(Trouble::Absent(why.into())),
                (Ok(()), Some(why)) => Some(Trouble::Failed(why.clone())),
                (Ok(()), None) => None,
            },
            rates: self.rates,
        };
        let mut rows: Vec<Row> = self.players.iter().map(row).collect();
        let passes = self.rounds(scenario);
        let last = passes.len() - 1;
        for (round, pass) in passes.into_iter().enumerate() {
            for (player, row) in self.players.iter_mut().zip(&mut rows) {
                self.bar.set_message(format!("{} · {} · round {round}/{last}", scenario.name, row.arm));
                if row.trouble.is_none() {
                    Self::round(player, row, &Job { pass, ..job }, round == 0);
                }
                self.bar.inc(1);
            }
        }
        rows
    }

    fn round(player: &mut Player, row: &mut Row, job: &Job, warm_up: bool) {
        match player.runner.sample(job) {
            // Some arms have no latency to report: that is no reason to drop the rest of the row.
            Err(Trouble::Absent(_)) if job.pass == Pass::Latency => {}
            Err(trouble) => {
                if matches!(trouble, Trouble::Failed(_)) && !player.runner.can_start_again() {
                    player.dropped = Some(format!("not run: failed in {}", job.scenario.name));
                }
                row.trouble = Some(trouble);
            }
            Ok(_) if warm_up => {}
            Ok(sample) => match job.pass {
                Pass::Rate => row.samples.push(sample),
                Pass::Allocations => row.allocations = sample.allocations,
                Pass::Latency => row.latencies.extend(sample.latency),
            },
        }
    }
}

pub(crate) fn bar(length: u64) -> ProgressBar {
    // Drawn only when something changes: a ticking thread would take part in the measurement. Hidden unless on a
    // terminal.
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar
}

/// Runs the command; the exit code says whether every sample was right.
pub(crate) fn main(options: &args::Compare) -> Result<ExitCode, String> {
    let scenarios = args::scenarios(&options.scenarios)?;
    let kinds = args::arms(&options.arms)?;
    let out = options.common.output.place("compare")?;
    let cpus = Cpus::read();
    let workers = options.workers.map_or_else(|| cpus.workers(), usize::from);
    let bar = bar(0);
    // Building the peers is work, so it comes before the load is looked at.
    let build = |kind: &&'static arms::Kind| {
        bar.set_message(format!("building {}", kind.name));
        bar.tick();
        Player { kind, runner: kind.build(workers), dropped: None }
    };
    let players: Vec<Player> = kinds.iter().map(build).collect();
    let mut host = host::describe(&cpus, workers);
    let quiet = options.common.calm.decide(&cpus, &bar);
    let calibration = Calibration::checked()?;
    let (rates, samples, tiny) = (quiet.rates, usize::from(options.samples), options.common.output.tiny);
    let mut session = Session { players, calibration, rates, samples, tiny, bar: bar.clone() };
    let rounds: usize = scenarios.iter().map(|s| session.rounds(s).len()).sum();
    bar.set_length((rounds * session.players.len()) as u64);
    let gate = Gate::read();
    report::head(&host, &gate, &quiet, samples, tiny);
    let timed = rates != Rates::NotMeasured;
    let overhead = Overhead::take()?;
    bar.suspend(|| println!("{}", overhead.line(timed)));
    let mut rows = vec![];
    let began = Instant::now();
    for scenario in &scenarios {
        let done = session.scenario(scenario);
        bar.suspend(|| report::table(&done, workers, tiny, session.rates));
        rows.extend(done);
    }
    bar.finish_and_clear();
    host["load_after"] = json!(host::load());
    host["ns_per_step"] = json!([calibration.ns_per_step, Calibration::take().ns_per_step]);
    let facts = session.players.iter_mut().map(|p| (p.kind.name.to_owned(), p.runner.facts()));
    host["arms"] = Value::Object(facts.filter(|(_, f)| !f.is_null()).collect());
    let seconds = began.elapsed().as_secs_f64();
    report::tail(&host, seconds);
    let failed = rows.iter().filter(|r| matches!(r.trouble, Some(Trouble::Failed(_)))).count();
    let results: Vec<Value> = rows.iter().map(|r| r.json(workers)).collect();
    let verdicts = targets::all(&rows, workers, tiny);
    let whole = json!({
        "kind": "compare", "host": host, "gate": gate.json(), "quiet": quiet.json(), "tiny": tiny, "results": results,
        "targets": verdicts, "ceilings": ceilings(&scenarios, workers, tiny),
        "harness": overhead.json(timed), "seconds": seconds,
    });
    output::json(&out, &whole)?;
    println!("written: {}", out.display());
    if let Some(page) = crate::report::beside(&out, &whole)? {
        println!("charts: {}", page.display());
    }
    Ok(session::ended(failed, rows.len(), false))
}

/// Tasks per second that no pool can exceed, where the bodies take time.
fn ceilings(scenarios: &[&'static Scenario], workers: usize, tiny: bool) -> Value {
    let one = |s: &&'static Scenario| Some((s.name.to_owned(), json!(s.ceiling(workers, tiny)?)));
    Value::Object(scenarios.iter().filter_map(one).collect())
}
