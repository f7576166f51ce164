//! The tables on standard output.
use super::{Row, targets};
use crate::arms::Trouble;
use crate::gate::Gate;
use crate::host::{Quiet, Rates};
use crate::scenario::{Scenario, Shape};
use crate::stats::{Spread, direction, grouped};
use serde_json::Value;

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What the figures below stand on.
pub(super) fn head(host: &Value, gate: &Gate, quiet: &Quiet, samples: usize, tiny: bool) {
    let dirty = if host["dirty"] == true { " (dirty)" } else { "" };
    println!("commit {}{dirty}, {}, {} build", text(&host["commit"]), text(&host["rustc"]), text(&host["profile"]));
    println!(
        "{}, kernel {}, CPUs {} usable of {} online, quota {}, nodes {}",
        text(&host["cpu"]),
        text(&host["kernel"]),
        text(&host["affinity"]),
        text(&host["cpus_online"]),
        text(&host["quota"]),
        text(&host["nodes_online"])
    );
    println!("workers {}, load {}, peers {}", host["workers"], host["load_before"], host["peers"]);
    println!("{}", gate.line());
    if tiny {
        println!("TINY sizes: a test of this program, not a measurement");
    }
    match quiet.rates {
        Rates::Measured => println!("rates: {samples} interleaved rounds, median (min .. max)"),
        Rates::Forced => println!(
            "rates: FORCED on a busy machine (load {:.2}, limit {:.2}): {samples} interleaved rounds, \
             median (min .. max)",
            quiet.load1, quiet.limit
        ),
        Rates::NotMeasured => println!(
            "rates: NOT MEASURED: the load is {:.2} and rates are taken below {:.2} only, since neighbours would be \
             measured too (--force-rates takes them anyway); counts follow",
            quiet.load1, quiet.limit
        ),
    }
}

/// The facts that only the end knows.
pub(super) fn tail(host: &Value, seconds: f64) {
    println!("\nload after {}, arms {}", host["load_after"], host["arms"]);
    println!("took {seconds:.0} s, without building the peers and waiting for a quiet machine");
}

fn rate(s: &Spread) -> String {
    let (unit, name) = if s.median >= 1e6 { (1e6, "M") } else { (1e3, "k") };
    format!("{:.2} ({:.2} .. {:.2}) {name}/s", s.median / unit, s.min / unit, s.max / unit)
}

fn cpu(s: &Spread) -> String {
    format!("{:.1} ({:.1} .. {:.1})", s.median, s.min, s.max)
}

fn count(n: Option<f64>) -> String {
    match n {
        None => "-".into(),
        Some(0.0) => "0".into(),
        Some(n) if n < 0.001 => format!("{n:.6}"),
        Some(n) => format!("{n:.4}"),
    }
}

fn against(ours: Option<&Row>, row: &Row) -> String {
    let Some((faster, cheaper)) = ours.filter(|o| o.arm != row.arm).and_then(|o| targets::ratios(o, row)) else {
        return String::new();
    };
    let (rate, cpu) = (direction(faster, "faster", "slower"), direction(cheaper, "cheaper", "dearer"));
    format!("{rate}, {cpu} than {}", row.arm)
}

fn title(scenario: &Scenario, workers: usize, tiny: bool) -> String {
    let submitters = scenario.submitters;
    let what = if scenario.shape == Shape::Join { "nodes" } else { "tasks" };
    let plural = if submitters == 1 { "" } else { "s" };
    let mut out = format!("{}: {} {what}", scenario.name, grouped(scenario.tasks(tiny)));
    if scenario.shape != Shape::Join {
        out += &format!(", {submitters} submitter{plural}");
    }
    out += &format!(", {workers} workers");
    if let Some(ceiling) = scenario.ceiling(workers, tiny) {
        out += &format!(", ceiling {}/s", grouped(ceiling as u64));
    }
    out
}

/// Rows of equal length, the first being the heading; every column as wide as its widest cell.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |c: usize| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, w)| format!("{cell:<w$}")).collect();
        format!("  {}", cells.join("  ")).trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// All rows of one scenario.
pub(super) fn table(rows: &[Row], workers: usize, tiny: bool, rates: Rates) {
    let Some(first) = rows.first() else { return };
    println!("\n{}", title(first.scenario, workers, tiny));
    let ours = rows.iter().find(|r| r.arm == "scheduler" && r.trouble.is_none());
    let timed = rates != Rates::NotMeasured;
    let latency = timed && rows.iter().any(|r| r.latency().is_some());
    let mut cells = vec![heading(timed, latency)];
    let mut notes = vec![];
    for row in rows {
        match &row.trouble {
            // That a pool lacks a kind of work is no news in every table.
            Some(Trouble::Absent(why)) if row.samples.is_empty() && why.starts_with("has ") => {}
            Some(_) => notes.push(format!("  {}: {}", row.arm, row.status())),
            None => cells.push(line(row, ours, timed, latency)),
        }
    }
    println!("{}", aligned(&cells));
    notes.iter().for_each(|n| println!("{n}"));
    if rates == Rates::Forced && cells.len() > 1 {
        println!("  (rates, CPU times and latencies above: forced)");
    }
    for verdict in targets::of(&rows.iter().collect::<Vec<_>>(), workers, tiny) {
        println!("  target {}: {}: {}", verdict.target, verdict.measured, verdict.word());
    }
}

fn heading(timed: bool, latency: bool) -> Vec<String> {
    let mut out = vec!["arm"];
    if timed {
        out.extend(["rate", "CPU ns/task"]);
    }
    out.extend(["allocs/task", "futex/task", "switches/task"]);
    if latency {
        out.push("latency us p50 / p95 / p99 / max");
    }
    if timed {
        out.push("scheduler is");
    }
    out.into_iter().map(String::from).collect()
}

fn line(row: &Row, ours: Option<&Row>, timed: bool, latency: bool) -> Vec<String> {
    let mut out = vec![row.arm.to_owned()];
    if timed {
        let mut shown = row.rate().as_ref().map_or_else(String::new, rate);
        if let Some(without) = row.rate_without_gap() {
            shown += &format!(", without the gap {:.2} k/s", without.median / 1e3);
        }
        out.push(shown);
        out.push(row.cpu().as_ref().map_or_else(String::new, cpu));
    }
    out.extend([count(row.allocs()), count(row.futex()), count(row.switches())]);
    if latency {
        let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        out.push(row.latency().map_or_else(|| "-".into(), |l| [l.p50, l.p95, l.p99, l.max].map(us).join(" / ")));
    }
    if timed {
        out.push(against(ours, row));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_are_words() {
        assert_eq!(direction(21.3, "faster", "slower"), "21.3x faster");
        assert_eq!(direction(0.5, "faster", "slower"), "2.0x slower");
        assert_eq!(direction(1.0, "cheaper", "dearer"), "1.00x cheaper");
        assert_eq!(direction(0.96, "faster", "slower"), "1.04x slower");
    }

    #[test]
    fn columns_line_up() {
        let rows = [["arm", "n"], ["scheduler", "12"], ["go", "3"]].map(|r| r.map(String::from).to_vec());
        assert_eq!(aligned(&rows), "  arm        n\n  scheduler  12\n  go         3");
    }

    #[test]
    fn small_counts_keep_their_digits() {
        assert_eq!(count(None), "-");
        assert_eq!(count(Some(0.0)), "0");
        assert_eq!(count(Some(0.000_012)), "0.000012");
        assert_eq!(count(Some(1.03)), "1.0300");
    }
}
