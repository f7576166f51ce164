//! The plugin that counts line transfers: built, and what it has counted judged against M9.

use super::{Trouble, broken, fetch};
use crate::line::{Line, Phase, Verdict};
use crate::machine::Machine;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// CPUs of a node in the counted machine.
const PER_NODE: u32 = 2;

/// Compiles the plugin.
pub(super) fn plugin(folder: &Path) -> Result<PathBuf, Trouble> {
    let compiler = fetch::program("cc").ok_or_else(|| Trouble::Missing("no C compiler for the plugin".into()))?;
    let (source, library) = (folder.join("transfers.c"), folder.join("transfers.so"));
    std::fs::write(&source, include_str!("../../plugin/transfers.c")).map_err(broken(source.display()))?;
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-o"]).arg(&library).arg(&source);
    let status = command.status().map_err(broken("cc"))?;
    if status.success() { Ok(library) } else { Err(Trouble::Broken(format!("cc {}: {status}", source.display()))) }
}

/// The argument for QEMU.
pub(super) fn argument(library: &Path, out: &Path, machine: &Machine) -> String {
    let (library, out, memory) = (library.display(), out.display(), machine.total_mb());
    format!("{library},out={out},per_node={PER_NODE},memory_mb={memory}")
}

/// What the plugin counted in one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    accesses: u64,
    same_node: u64,
    cross_node: u64,
}

fn parse(text: &str) -> BTreeMap<u32, Counts> {
    let row = |line: &str| {
        let fields: Vec<u64> = line.split(' ').map_while(|field| field.parse().ok()).collect();
        let [number, accesses, same_node, cross_node] = fields.try_into().ok()?;
        Some((u32::try_from(number).ok()?, Counts { accesses, same_node, cross_node }))
    };
    text.lines().filter_map(row).collect()
}

/// What must hold: a phase, the bounds of its transfers per unit, and the phase that must exceed them.
struct Rule {
    phase: &'static str,
    /// What is taken off both, and why.
    off: (f64, &'static str),
    least: f64,
    most: f64,
    control: &'static str,
    /// How many times as much the control must have at least.
    factor: f64,
    missed: bool,
}

const NOTHING: (f64, &str) = (0.0, "");
/// A closure travels in its slot, a line of its own: one transfer takes it there, and one brings the line back when the
/// slot is written again.
const CLOSURE: (f64, &str) = (2.0, ", without the closures");

/// The first is the test of the instrument: a round trip takes two transfers each way. The others are M9.
const RULES: &[Rule] = &[
    Rule {
        phase: "ping-pong between nodes",
        off: NOTHING,
        least: 3.9,
        most: 4.1,
        control: "ping-pong within a node",
        factor: 0.0,
        missed: false,
    },
    Rule {
        phase: "local submit",
        off: NOTHING,
        least: 0.0,
        most: 0.1,
        control: "half of them, uniform",
        factor: 5.0,
        missed: false,
    },
    // The bound is twice what was measured first.
    Rule {
        phase: "half of them",
        off: NOTHING,
        least: 0.0,
        most: 0.6,
        control: "half of them, uniform",
        factor: 5.0,
        missed: false,
    },
    Rule {
        phase: "remote submit, by 32",
        off: NOTHING,
        least: 0.0,
        most: 0.5,
        control: "remote submit, uniform",
        factor: 0.0,
        missed: true,
    },
    Rule {
        phase: "remote submit, by 32",
        off: CLOSURE,
        least: 0.0,
        most: 0.5,
        control: "remote submit, uniform",
        factor: 5.0,
        missed: false,
    },
];

/// What is shown beside it, with what it may be compared to.
const FIGURES: &[(&str, &str)] = &[
    ("local submit, uniform", "local submit"),
    ("hot node", "hot node, uniform"),
    ("remote submit, one by one", "remote submit, by 32"),
];

/// Whether the plugin came to its end and saw every access.
fn whole(text: &str) -> bool {
    text.lines().last() == Some("lost 0")
}

/// A line per rule.
pub(super) fn judge(text: &str, phases: &[Phase]) -> Vec<Line> {
    let counts = if whole(text) { parse(text) } else { BTreeMap::new() };
    let of = |name: &str| {
        let phase = phases.iter().find(|phase| phase.name == name)?;
        let counts = counts.get(&phase.number)?;
        let per = |value: u64| value as f64 / phase.units.max(1) as f64;
        let words = format!(
            "{:.3} between nodes, {:.3} within, {:.0} accesses, each per one of {}",
            per(counts.cross_node),
            per(counts.same_node),
            per(counts.accesses),
            phase.units
        );
        Some((per(counts.cross_node), words))
    };
    let missing = || (f64::NAN, "not counted".to_owned());
    let line = |rule: &Rule| {
        let (value, evidence) = of(rule.phase).unwrap_or_else(missing);
        let (other, control) = of(rule.control).unwrap_or_else(missing);
        let (value, other) = (value - rule.off.0, other - rule.off.0);
        let within = |value: f64| (rule.least..=rule.most).contains(&value);
        // A phase that was not counted is within nothing, so it must not pass for a control that bites.
        let bites = !other.is_nan() && !within(other) && other >= rule.factor * value;
        let verdict = match (within(value) && bites, rule.missed) {
            (true, false) => Verdict::Ok,
            (false, true) if !value.is_nan() && !other.is_nan() => Verdict::Miss,
            _ => Verdict::Fail,
        };
        let less = if rule.off.0 > 0.0 { format!(", less {}", rule.off.0) } else { String::new() };
        let evidence = format!("{evidence}{less}; bounds {} to {}", rule.least, rule.most);
        Line {
            name: named(rule.phase) + rule.off.1,
            verdict,
            evidence,
            control: format!("{}: {control}", rule.control),
        }
    };
    let figure = |&(phase, other): &(&str, &str)| {
        let ((_, evidence), (_, control)) = (of(phase).unwrap_or_else(missing), of(other).unwrap_or_else(missing));
        Line { name: named(phase), verdict: Verdict::Figure, evidence, control: format!("{other}: {control}") }
    };
    RULES.iter().map(line).chain(FIGURES.iter().map(figure)).collect()
}

fn named(phase: &str) -> String {
    format!("transfers: {phase}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phases() -> Vec<Phase> {
        let phase = |(number, name): (u32, &&str)| Phase { number, units: 1000, name: (*name).to_owned() };
        let names = ["ping-pong within a node", "ping-pong between nodes", "local submit", "half of them, uniform"];
        let more = ["remote submit, by 32", "remote submit, uniform"];
        (1..).zip(names.iter().chain(&more)).map(phase).collect()
    }

    fn verdicts(text: &str) -> Vec<Verdict> {
        judge(text, &phases())
            .iter()
            .filter(|line| !line.name.contains("half"))
            .take(4)
            .map(|line| line.verdict)
            .collect()
    }

    #[test]
    fn bounds_and_controls() {
        let good = "1 9 4000 10\n2 9 0 4010\nline 2 0x7f 9\n3 9 500 99\n4 9 0 900\n5 9 0 2400\n6 9 0 4100\nlost 0\n";
        let (ok, miss, fail) = (Verdict::Ok, Verdict::Miss, Verdict::Fail);
        assert_eq!(verdicts(good), [ok, ok, miss, ok]);
        // What is marked as missed must not hold.
        assert_eq!(verdicts(&good.replace("5 9 0 2400", "5 9 0 400")), [ok, ok, fail, fail]);
        assert_eq!(verdicts(&good.replace("5 9 0 2400", "5 9 0 2600")), [ok, ok, miss, fail]);
        // Out of bounds; a control that is not five times as much; one that is within the bounds.
        assert_eq!(verdicts(&good.replace("500 99", "500 101")), [ok, fail, miss, ok]);
        assert_eq!(verdicts(&good.replace("0 900", "0 490")), [ok, fail, miss, ok]);
        assert_eq!(verdicts(&good.replace("4000 10", "0 4000")), [fail, ok, miss, ok]);
        assert_eq!(verdicts(&good.replace("0 4010", "0 3000")), [fail, ok, miss, ok]);
        for incomplete in ["", &good.replace("lost 0", "lost 1"), &good.replace("lost 0\n", "")] {
            assert_eq!(verdicts(incomplete), [fail; 4]);
        }
    }
}
