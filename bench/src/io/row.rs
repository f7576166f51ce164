//! The rows of `io`, as a table and as JSON.
use super::Round;
use super::arms::Trouble;
use super::scenario::{Scenario, Taken};
use crate::stats::{Latency, Spread, direction};
use serde_json::{Map, Value, json};

/// All that is known about one arm in one scenario.
pub(super) struct Row {
    pub(super) scenario: &'static Scenario,
    pub(super) arm: &'static str,
    samples: Vec<Taken>,
    /// Of the round that counts them.
    allocations: Option<f64>,
    /// System calls per operation, counted from outside.
    pub(super) traced: Result<f64, String>,
    pub(super) trouble: Option<Trouble>,
}

impl Row {
    pub(super) fn new(scenario: &'static Scenario, arm: &'static str, trouble: Option<Trouble>) -> Row {
        Row { scenario, arm, samples: vec![], allocations: None, traced: Err(String::new()), trouble }
    }

    pub(super) fn take(&mut self, taken: Result<Taken, Trouble>, round: Round) {
        match taken {
            Err(trouble) => self.trouble = Some(trouble),
            Ok(_) if round == Round::WarmUp => {}
            Ok(taken) if round == Round::Allocations => {
                self.allocations = taken.allocations.map(|n| n as f64 / taken.ops.max(1) as f64);
            }
            Ok(taken) => self.samples.push(taken),
        }
    }

    fn spread(&self, of: impl Fn(&Taken) -> f64) -> Option<Spread> {
        Spread::of(self.samples.iter().map(of).collect())
    }

    pub(super) fn rate(&self) -> Option<Spread> {
        self.spread(|s| s.ops as f64 / s.wall.as_secs_f64())
    }

    /// CPU nanoseconds per operation.
    pub(super) fn cpu(&self) -> Option<Spread> {
        self.spread(|s| s.usage.cpu_ns as f64 / s.ops as f64)
    }

    fn switches(&self) -> Option<f64> {
        self.spread(|s| s.usage.switches as f64 / s.ops as f64).map(|s| s.median)
    }

    /// Futex and membarrier calls, for arms that count theirs.
    fn own_calls(&self) -> Option<f64> {
        let calls = |s: &Taken| s.calls.map(|c| (c.futex() + c.membarriers) as f64 / s.ops as f64);
        let all: Option<Vec<f64>> = self.samples.iter().map(calls).collect();
        Spread::of(all?).map(|s| s.median)
    }

    pub(super) fn latency(&self) -> Option<Latency> {
        let all: Option<Vec<Latency>> = self.samples.iter().map(|s| s.latency).collect();
        Latency::across(&all?)
    }

    /// Figures that only this scenario has.
    fn parts(&self) -> Vec<(&'static str, Spread)> {
        let names = self.samples.first().map_or(&[][..], |s| &s.parts);
        let part = |n: usize| self.spread(|s| s.parts[n].1);
        names.iter().enumerate().filter_map(|(n, (name, _))| Some((*name, part(n)?))).collect()
    }

    fn status(&self) -> String {
        match &self.trouble {
            None => "ok".into(),
            Some(Trouble::Absent(why)) => format!("absent: {why}"),
            Some(Trouble::Failed(why)) => format!("failed: {why}"),
        }
    }

    /// `no_rates`: why times are left out.
    pub(super) fn json(&self, workers: usize, no_rates: Option<&str>) -> Value {
        let mut why = Map::new();
        if self.trouble.is_none() {
            if let Some(reason) = no_rates {
                why.insert("ops_per_sec".into(), json!(reason));
            }
            if let Err(reason) = &self.traced {
                why.insert("syscalls_per_op".into(), json!(reason));
            }
            if self.allocations.is_none() {
                why.insert("allocs_per_op".into(), json!("the runtime is in a process of its own"));
            }
        }
        let timed = |s: Option<Spread>| s.filter(|_| no_rates.is_none()).map(|s| s.json());
        let parts = self.parts().into_iter().map(|(name, spread)| (name.to_owned(), json!(timed(Some(spread)))));
        json!({
            "scenario": self.scenario.name, "arm": self.arm, "workers": workers, "unit": self.scenario.unit,
            "ops": self.samples.iter().map(|s| s.ops).sum::<u64>(), "status": self.status(),
            "ops_per_sec": timed(self.rate()), "cpu_ns_per_op": timed(self.cpu()),
            "latency_ns": self.latency().filter(|_| no_rates.is_none()).map(|l| l.json()),
            "allocs_per_op": self.allocations, "syscalls_per_op": self.traced.as_ref().ok(),
            "own_calls_per_op": self.own_calls(), "ctx_switches_per_op": self.switches(),
            "parts": Value::Object(parts.collect()), "why": why,
        })
    }

    fn line(&self, rates: bool, ours: Option<f64>) -> String {
        if self.trouble.is_some() {
            return format!("  {:<16} {}", self.arm, self.status());
        }
        let number = |n: Option<f64>| n.map_or_else(|| "-".into(), |n| format!("{n:.4}"));
        let counts = format!(
            "{:>9} {:>9} {:>9}",
            number(self.allocations),
            number(self.traced.as_ref().ok().copied()),
            number(self.switches())
        );
        let (Some(rate), Some(cpu), true) = (self.rate(), self.cpu(), rates) else {
            return format!("  {:<16} {:>29} {:>9} {counts}", self.arm, "NOT MEASURED", "");
        };
        let latency = self.latency().map_or_else(String::new, |l| {
            let [p50, p99, max] = [l.p50, l.p99, l.max].map(|ns| ns as f64 / 1e3);
            format!("  p50 {p50:.1} p99 {p99:.1} max {max:.1} us")
        });
        let parts: String = self.parts().iter().map(|(name, s)| format!("  {name} {:.1}", s.median)).collect();
        let against = ours.filter(|_| self.arm != "scheduler").map_or_else(String::new, |ours| {
            format!(
                "  scheduler is {} in CPU time than {}",
                direction(cpu.median / ours, "cheaper", "dearer"),
                self.arm
            )
        });
        let range = format!("{:.1} ({:.1} .. {:.1})", rate.median / 1e3, rate.min / 1e3, rate.max / 1e3);
        format!("  {:<16} {range:>29} {:>9.1} {counts}{latency}{parts}{against}", self.arm, cpu.median)
    }
}

/// The rows of one scenario.
pub(super) fn table(scenario: &Scenario, rows: &[Row], rates: bool) -> String {
    let unit = scenario.unit;
    let mut out = format!(
        "\n{}, per {unit}\n  {:<16} {:>29} {:>9} {:>9} {:>9} {:>9}\n",
        scenario.name,
        "arm",
        format!("k {unit}s/s"),
        "CPU ns",
        "allocs",
        "syscalls",
        "switches"
    );
    let ours = rows.iter().find(|r| r.arm == "scheduler").and_then(Row::cpu).map(|s| s.median);
    rows.iter().for_each(|r| out += &(r.line(rates, ours) + "\n"));
    out.truncate(out.trim_end().len());
    out
}
