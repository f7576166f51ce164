//! What an A/B run is about, fixed before its first round.
use super::Ab;
use crate::{args, output, scenario};
use serde_json::{Value, json};
use std::path::Path;

/// One of the two revisions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Leg {
    /// As it was called on the command line.
    pub(super) rev: String,
    pub(super) commit: String,
    /// Of the program.
    pub(super) sha256: String,
    /// What the stress gate says about its sources.
    pub(super) gate: Value,
}

impl Leg {
    fn json(&self) -> Value {
        json!({ "rev": self.rev, "commit": self.commit, "sha256": self.sha256, "gate": self.gate })
    }

    fn parse(value: &Value) -> Option<Leg> {
        let text = |name: &str| Some(value[name].as_str()?.to_owned());
        let gate = value["gate"].clone();
        Some(Leg { rev: text("rev")?, commit: text("commit")?, sha256: text("sha256")?, gate })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) date: String,
    pub(super) baseline: Leg,
    pub(super) candidate: Leg,
    /// Scenarios that must gain, with weights.
    pub(super) targets: Vec<(String, f64)>,
    pub(super) scenarios: Vec<String>,
    pub(super) workers: usize,
    pub(super) tiny: bool,
    /// Run although the gate has not passed for the candidate.
    pub(super) ungated: bool,
    /// Both legs are the same source.
    pub(super) aa: bool,
    /// What the quiet rule said before the first round.
    pub(super) quiet: Value,
}

impl Plan {
    /// Tasks per second that the bodies of a scenario allow at most, where they take time.
    pub(super) fn ceiling(&self, name: &str) -> Option<f64> {
        scenario::ALL.iter().find(|s| s.name == name)?.ceiling(self.workers, self.tiny)
    }

    pub(super) fn json(&self) -> Value {
        let targets: Vec<Value> = self.targets.iter().map(|(n, w)| json!({ "name": n, "weight": w })).collect();
        json!({
            "kind": "ab-plan", "plan": self.name, "date": self.date, "baseline": self.baseline.json(),
            "candidate": self.candidate.json(), "targets": targets, "scenarios": self.scenarios,
            "workers": self.workers, "tiny": self.tiny, "ungated": self.ungated, "aa": self.aa, "quiet": self.quiet,
        })
    }

    pub(super) fn read(path: &Path) -> Result<Plan, String> {
        let value = output::read_json(path)?;
        Plan::parse(&value).ok_or_else(|| format!("{}: not the plan of an A/B run", path.display()))
    }

    fn parse(value: &Value) -> Option<Plan> {
        let flag = |name: &str| value[name].as_bool();
        let target = |t: &Value| Some((t["name"].as_str()?.to_owned(), t["weight"].as_f64()?));
        let name = |s: &Value| Some(s.as_str()?.to_owned());
        Some(Plan {
            name: value["plan"].as_str()?.to_owned(),
            date: value["date"].as_str()?.to_owned(),
            baseline: Leg::parse(&value["baseline"])?,
            candidate: Leg::parse(&value["candidate"])?,
            targets: value["targets"].as_array()?.iter().map(target).collect::<Option<_>>()?,
            scenarios: value["scenarios"].as_array()?.iter().map(name).collect::<Option<_>>()?,
            workers: usize::try_from(value["workers"].as_u64()?).ok()?,
            tiny: flag("tiny")?,
            ungated: flag("ungated")?,
            aa: flag("aa")?,
            quiet: value["quiet"].clone(),
        })
    }
}

/// `flood_1m=2,nested_fanout_4x`: names with weights, 1 unless said otherwise.
pub(super) fn targets(words: &[String], measured: &[String]) -> Result<Vec<(String, f64)>, String> {
    let mut out: Vec<(String, f64)> = vec![];
    for word in words {
        let (name, weight) = word.split_once('=').unwrap_or((word, "1"));
        let weight: f64 = weight.parse().map_err(|_| format!("target {word:?}: {weight:?} is no number"))?;
        if !weight.is_finite() || weight <= 0.0 {
            return Err(format!("target {word:?}: a weight is greater than 0"));
        }
        if !measured.iter().any(|m| m == name) {
            return Err(format!("unknown target {name:?}; known: {}", measured.join(", ")));
        }
        if out.iter().any(|(n, _)| n == name) {
            return Err(format!("target {name:?} is named twice"));
        }
        out.push((name.to_owned(), weight));
    }
    Ok(out)
}

/// The scenarios to run: those that were asked for, or all.
pub(super) fn scenarios(options: &Ab) -> Result<Vec<String>, String> {
    let chosen: Vec<&'static scenario::Scenario> = args::scenarios(&options.scenarios)?;
    Ok(chosen.iter().map(|s| s.name.to_owned()).collect())
}

/// A name of a plan becomes the name of a folder.
pub(super) fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.is_empty() || text.len() > 60 || !text.chars().all(fits) {
        return Err(format!("plan {text:?}: a name has 1 to 60 of a-z, 0-9 and -"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| s.to_string()).collect()
    }

    #[test]
    fn targets_have_weights() {
        let measured = words(&["flood_1m", "deep_tree"]);
        let parse = |list: &[&str]| targets(&words(list), &measured);
        assert_eq!(parse(&["flood_1m=2", "deep_tree"]).unwrap(), [("flood_1m".into(), 2.0), ("deep_tree".into(), 1.0)]);
        assert!(parse(&["flod=2"]).unwrap_err().contains("unknown target \"flod\"; known: flood_1m, deep_tree"));
        assert!(parse(&["flood_1m=x"]).unwrap_err().contains("\"x\" is no number"));
        assert!(parse(&["flood_1m=0"]).unwrap_err().contains("greater than 0"));
        assert!(parse(&["flood_1m=inf"]).is_err());
        assert!(parse(&["flood_1m", "flood_1m=2"]).unwrap_err().contains("twice"));
    }

    #[test]
    fn names_are_folders() {
        assert!(name("fence-2").is_ok());
        for bad in ["", "a/b", "..", "A", "a b"] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_plan_survives_its_file() {
        let leg =
            |c: &str| Leg { rev: "r".into(), commit: c.into(), sha256: "s".into(), gate: json!({ "passed": true }) };
        let plan = Plan {
            name: "n".into(),
            date: "2026-11-30".into(),
            baseline: leg("a"),
            candidate: leg("b"),
            targets: vec![("flood_1m".into(), 2.5)],
            scenarios: words(&["flood_1m"]),
            workers: 2,
            tiny: false,
            ungated: true,
            aa: false,
            quiet: json!({ "rates": "measured" }),
        };
        assert_eq!(Plan::parse(&plan.json()), Some(plan));
        assert_eq!(Plan::parse(&json!({ "plan": "n" })), None);
    }
}
