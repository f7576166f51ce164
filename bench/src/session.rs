//! What the subcommands have in common: options, the facts at the head of every report, the quiet rule, and verdicts.
use crate::calib::Calibration;
use crate::gate::Gate;
use crate::host::{self, Cpus, Quiet, Rates};
use crate::{compare, output, paths};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of every subcommand that writes a report.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Output {
    /// The JSON report; by default `bench/NAME.json` in the target folder
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Sizes so small that the figures mean nothing: to test this program itself
    #[arg(long)]
    pub(crate) tiny: bool,
}

impl Output {
    /// Where the report of `kind` goes, which can be written.
    pub(crate) fn place(&self, kind: &str) -> Result<PathBuf, String> {
        let out = self.out.clone().unwrap_or_else(|| paths::target().join(format!("bench/{kind}.json")));
        output::check(&out)?;
        Ok(out)
    }
}

/// Options about the quiet rule.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Calm {
    /// Take rates although the machine is busy, and mark them
    #[arg(long)]
    pub(crate) force_rates: bool,
    /// Do not wait for the machine to become quiet
    #[arg(long)]
    pub(crate) no_wait: bool,
}

impl Calm {
    /// Decides whether rates are taken, and shows the wait for a quiet machine.
    pub(crate) fn decide(self, cpus: &Cpus, bar: &ProgressBar) -> Quiet {
        let mut told = false;
        Quiet::decide(cpus, self.force_rates, !self.no_wait, |load, limit, waited| {
            let text = format!("waiting for a quiet machine: load {load:.2}, limit {limit:.2}, up to 180 s");
            if !told && bar.is_hidden() {
                eprintln!("{text}");
                told = true;
            }
            bar.set_message(format!("{text}, {} s so far", waited.as_secs()));
            bar.tick();
        })
    }
}

/// Options of every subcommand that takes times.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) calm: Calm,
}

/// A run of a subcommand between its head and its report.
pub(crate) struct Session {
    kind: &'static str,
    out: PathBuf,
    gate: Gate,
    quiet: Quiet,
    /// Facts for the report.
    pub(crate) host: Value,
    pub(crate) calibration: Calibration,
    pub(crate) tiny: bool,
    pub(crate) bar: ProgressBar,
}

impl Session {
    /// Looks at the machine, waits for it to become quiet, and prints what the figures stand on. Pools are built by
    /// then: building is work, and the load is looked at here.
    pub(crate) fn begin(kind: &'static str, common: &Common, workers: usize) -> Result<Session, String> {
        let out = common.output.place(kind)?;
        let bar = compare::bar(0);
        let cpus = Cpus::read();
        let host = host::describe(&cpus, workers);
        let quiet = common.calm.decide(&cpus, &bar);
        let calibration = Calibration::checked()?;
        let new = Session { kind, out, gate: Gate::read(), quiet, host, calibration, tiny: common.output.tiny, bar };
        new.head();
        Ok(new)
    }

    /// Whether times may be reported.
    pub(crate) fn rates(&self) -> bool {
        self.quiet.rates != Rates::NotMeasured
    }

    /// Whether the machine was quiet, so that counts which depend on who runs when are the pool's own.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.rates == Rates::Measured
    }

    /// Why times are missing; nothing if they are not.
    pub(crate) fn no_rates(&self) -> Option<&'static str> {
        (!self.rates()).then_some("NOT MEASURED: the machine was not quiet")
    }

    fn head(&self) {
        let quiet = &self.quiet;
        let host = |name: &str| {
            let value = &self.host[name];
            value.as_str().map_or_else(|| value.to_string(), str::to_owned)
        };
        let dirty = if self.host["dirty"] == true { " (dirty)" } else { "" };
        println!("commit {}{dirty}, {}, {} build", host("commit"), host("rustc"), host("profile"));
        println!("{}, kernel {}, CPUs {}, quota {}", host("cpu"), host("kernel"), host("affinity"), host("quota"));
        println!("load {}, peers {}", host("load_before"), host("peers"));
        println!("{}", self.gate.line());
        if self.tiny {
            println!("TINY sizes: a test of this program, not a measurement");
        }
        let (load, limit) = (quiet.load1, quiet.limit);
        match quiet.rates {
            Rates::Measured => println!("rates: measured on a quiet machine"),
            Rates::Forced => println!("rates: FORCED on a busy machine (load {load:.2}, limit {limit:.2})"),
            Rates::NotMeasured => println!(
                "rates: NOT MEASURED: the load is {load:.2} and rates are taken below {limit:.2} only \
                 (--force-rates takes them anyway); counts follow"
            ),
        }
    }

    /// Shows where the run is.
    pub(crate) fn step(&self, text: impl Into<String>) {
        self.bar.set_message(text.into());
        self.bar.inc(1);
    }

    /// Prints a line or a table without disturbing the progress.
    pub(crate) fn say(&self, text: &str) {
        self.bar.suspend(|| println!("{text}"));
    }

    /// Writes the report: the common blocks and what `body` adds to them.
    pub(crate) fn finish(mut self, body: Value) -> Result<(), String> {
        self.bar.finish_and_clear();
        self.host["load_after"] = json!(host::load());
        self.host["ns_per_step"] = json!([self.calibration.ns_per_step, Calibration::take().ns_per_step]);
        let mut whole = json!({
            "kind": self.kind, "host": self.host, "gate": self.gate.json(), "quiet": self.quiet.json(),
            "tiny": self.tiny,
        });
        if let (Value::Object(whole), Value::Object(body)) = (&mut whole, body) {
            whole.extend(body);
        }
        output::json(&self.out, &whole)?;
        println!("written: {}", self.out.display());
        Ok(())
    }
}

/// The exit code of a run, and a word about what failed. `missed`: a bound that was to be held.
pub(crate) fn ended(failed: usize, rows: usize, missed: bool) -> ExitCode {
    if failed > 0 {
        eprintln!("{failed} of {rows} rows failed");
    }
    if failed > 0 || missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Something that has to hold, and what was seen.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    name: String,
    value: Option<f64>,
    bound: f64,
    why: Option<String>,
}

impl Check {
    /// `None`: it was not taken, for the reason that [`Check::because`] gives.
    pub(crate) fn at_most(name: impl Into<String>, value: Option<f64>, bound: f64) -> Check {
        Check { name: name.into(), value, bound, why: None }
    }

    /// Why there may be no value.
    pub(crate) fn because(mut self, why: Option<&str>) -> Check {
        self.why = why.filter(|_| self.value.is_none()).map(str::to_owned);
        self
    }

    /// `None`: nothing to judge.
    pub(crate) fn met(&self) -> Option<bool> {
        let value = self.value?;
        Some(value <= self.bound)
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "name": self.name, "value": self.value, "sense": "at most", "bound": self.bound, "met": self.met(),
            "why": self.why,
        })
    }

    pub(crate) fn line(&self) -> String {
        let verdict = match self.met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not judged",
        };
        let value = self.value.map_or_else(|| "-".into(), |v| format!("{v:.4}"));
        let why = self.why.as_ref().map(|w| format!(" ({w})")).unwrap_or_default();
        format!("  {verdict:<10} {}: {value} (<= {}){why}", self.name, self.bound)
    }
}

/// The checks as a table and as JSON; with them whether one was missed.
pub(crate) fn verdicts(checks: &[Check]) -> (String, Value, bool) {
    let lines: Vec<String> = checks.iter().map(Check::line).collect();
    let missed = checks.iter().any(|c| c.met() == Some(false));
    (lines.join("\n"), checks.iter().map(Check::json).collect(), missed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_itself_is_met() {
        assert_eq!(Check::at_most("x", Some(1.0), 1.0).met(), Some(true));
        assert_eq!(Check::at_most("x", Some(1.01), 1.0).met(), Some(false));
    }

    #[test]
    fn what_was_not_taken_is_neither_met_nor_missed() {
        let check = Check::at_most("x", None, 1.0).because(Some("no strace"));
        assert_eq!(check.met(), None);
        assert!(check.line().contains("not judged") && check.line().contains("no strace"), "{}", check.line());
        assert!(!verdicts(std::slice::from_ref(&check)).2);
        assert!(verdicts(&[check, Check::at_most("y", Some(2.0), 1.0)]).2);
        assert_eq!(Check::at_most("x", Some(0.5), 1.0).because(Some("unused")).json()["why"], Value::Null);
    }
}
