//! What came out of an A/B run.
use super::plan::Plan;
use super::{rounds, sheet};
use crate::output;
use crate::stats::Spread;
use bench::aggregate::{self, Figure, Legs, Verdict};
use serde_json::{Value, json};
use std::path::Path;

pub(super) struct Outcome {
    pub(super) plan: Plan,
    pub(super) host: Value,
    /// Tasks per second.
    pub(super) rates: Vec<Legs>,
    /// CPU nanoseconds per task.
    pub(super) cpu: Vec<Legs>,
    /// What each scenario is judged by.
    figures: Vec<Figure>,
    pub(super) verdict: Verdict,
    /// CPUs that others kept busy meanwhile, per leg-run.
    pub(super) foreign: Option<Spread>,
}

/// Which way a change goes.
pub(super) fn words(figure: Figure, percent: f64) -> &'static str {
    match (figure, percent >= 0.0) {
        (Figure::Rate, true) => "faster",
        (Figure::Rate, false) => "slower",
        (Figure::Cpu, true) => "cheaper in CPU time",
        (Figure::Cpu, false) => "dearer in CPU time",
    }
}

impl Outcome {
    /// From the files of a complete run.
    pub(super) fn of(folder: &Path, plan: &Plan, host: Value) -> Result<Outcome, String> {
        let (rates, cpu) = rounds::collect(folder, plan)?;
        let said = |e: aggregate::Error| e.to_string();
        let one = |(rate, cpu): (&Legs, &Legs)| aggregate::figure(rate, cpu, plan.ceiling(&rate.name));
        let judged: Vec<(Figure, Legs)> = rates.iter().zip(&cpu).map(one).collect::<Result<_, _>>().map_err(said)?;
        let (figures, judged): (Vec<Figure>, Vec<Legs>) = judged.into_iter().unzip();
        let verdict = aggregate::judge(&judged, &plan.targets).map_err(said)?;
        let foreign = Spread::of(rounds::foreign(folder));
        Ok(Outcome { plan: plan.clone(), host, rates, cpu, figures, verdict, foreign })
    }

    pub(super) fn figure(&self, name: &str) -> Figure {
        let place = self.rates.iter().position(|l| l.name == name);
        place.map_or(Figure::Rate, |i| self.figures[i])
    }

    /// Change of the tasks per second in percent: positive is better.
    pub(super) fn rate_change(&self, name: &str) -> Option<f64> {
        let legs = self.rates.iter().find(|l| l.name == name)?;
        let median = |values: &Vec<f64>| Some(Spread::of(values.clone())?.median);
        Some(aggregate::percent(median(&legs.baseline)?, median(&legs.candidate)?))
    }

    pub(super) fn word(&self) -> &'static str {
        match (self.plan.aa, self.verdict.passes()) {
            (true, _) => "A/A",
            (false, true) => "PASS",
            (false, false) => "FAIL",
        }
    }

    fn cpu_medians(&self, name: &str) -> Option<(f64, f64)> {
        let legs = self.cpu.iter().find(|l| l.name == name)?;
        Some((Spread::of(legs.baseline.clone())?.median, Spread::of(legs.candidate.clone())?.median))
    }

    /// Change of the CPU time per task in percent: negative is better.
    pub(super) fn cpu_change(&self, name: &str) -> Option<f64> {
        let (a, b) = self.cpu_medians(name)?;
        (a > 0.0).then(|| 100.0 * (b / a - 1.0))
    }

    fn json(&self) -> Value {
        let one = |(change, legs): (&aggregate::Change, &Legs)| {
            let spread = |values: &[f64]| Spread::of(values.to_vec()).map(|s| s.json());
            let (cpu_a, cpu_b) = self.cpu_medians(&change.name).unzip();
            json!({
                "scenario": change.name, "weight": change.weight, "a": spread(&legs.baseline),
                "b": spread(&legs.candidate), "percent": change.percent, "figure": self.figure(&change.name).name(),
                "rate_percent": self.rate_change(&change.name), "cpu_ns_a": cpu_a, "cpu_ns_b": cpu_b,
                "cpu_percent": self.cpu_change(&change.name),
            })
        };
        let results: Vec<Value> = self.verdict.changes.iter().zip(&self.rates).map(one).collect();
        json!({
            "kind": "ab", "host": self.host["sessions"][0]["before"], "gate": self.plan.candidate.gate,
            "quiet": self.plan.quiet, "tiny": self.plan.tiny, "plan": self.plan.json(), "results": results,
            "weighted_percent": self.verdict.weighted, "greatest_percent": self.verdict.greatest(),
            "verdict": self.word(), "against": self.verdict.against,
            "foreign_cpus": self.foreign.as_ref().map(|f| json!({ "median": f.median, "max": f.max })),
        })
    }

    /// Writes the aggregate and the run sheet.
    pub(super) fn write(&self, folder: &Path) -> Result<(), String> {
        output::json(&folder.join("aggregate.json"), &self.json())?;
        output::write(&folder.join("README.md"), &sheet::write(self))
    }

    /// For the terminal.
    pub(super) fn print(&self) {
        for c in &self.verdict.changes {
            let role = c.weight.map_or_else(String::new, |w| format!("  target, weight {w}"));
            let word = words(self.figure(&c.name), c.percent);
            println!("  {:<24} {:>+8.2} %  B is {word}{role}", c.name, c.percent);
        }
        if let Some(others) = &self.foreign {
            println!("others kept {:.2} CPUs busy in the median leg-run, {:.2} at most", others.median, others.max);
        }
        if let Some(mean) = self.verdict.weighted {
            println!("weighted mean over the targets: {mean:+.2} %");
        }
        match self.plan.aa {
            true => println!("A/A: the noise floor of this run is {:.2} %", self.verdict.greatest()),
            false => println!("{}", self.word()),
        }
        self.verdict.against.iter().for_each(|why| println!("  {why}"));
    }
}
