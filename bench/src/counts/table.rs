//! The text report of the counts, and the budgets beside them.
use super::Row;
use crate::gate::Gate;
use serde_json::{Value, json};

/// Two runs may differ by a sleep or two at their ends: less than this per task is none.
const NONE: f64 = 5e-4;
/// How much a figure that has to be flat may differ between depths and numbers of workers.
const FLAT: f64 = 0.02;

pub(super) fn head(host: &Value, gate: &Gate, tiny: bool) {
    let dirty = if host["dirty"] == true { " (dirty)" } else { "" };
    println!("commit {}{dirty}, {}, {} build", host["commit"], host["rustc"], host["profile"]);
    println!("{}, kernel {}, peers {}", host["cpu"], host["kernel"], host["peers"]);
    println!("{}", gate.line());
    println!("per task; the body, one plain store, is included; a dash: not taken, see `why` in the JSON report");
    if tiny {
        println!("TINY sizes: a test of this program, not a measurement");
    }
}

fn number(n: Option<f64>, digits: usize) -> String {
    n.map_or_else(|| "-".into(), |n| format!("{:.digits$}", if n.abs() < NONE / 10.0 { 0.0 } else { n }))
}

/// One line of the table, with a heading where a new path begins.
pub(super) fn row(before: Option<&Row>, row: &Row) {
    let (line, c) = (&row.line, &row.counted);
    if before.is_none_or(|b| b.line.path != line.path) {
        println!("\n{}", line.path);
        println!(
            "  {:<15} {:>7} {:>9} {:>12} {:>8} {:>11} {:>9}  {:<29} {:>9}",
            "arm",
            "workers",
            "depth",
            "instructions",
            "locked",
            "allocations",
            "syscalls",
            "(wakes + waits + barriers)",
            "switches"
        );
    }
    let calls = c.calls.map_or_else(String::new, |[w, p, m]| [w, p, m].map(|n| number(Some(n), 4)).join(" + "));
    println!(
        "  {:<15} {:>7} {:>9} {:>12} {:>8} {:>11} {:>9}  {:<29} {:>9}",
        line.arm,
        line.workers,
        line.depth,
        number(c.instructions, 1),
        number(c.locked, 3),
        number(c.allocations, 4),
        number(c.syscalls, 5),
        calls,
        number(c.switches, 4)
    );
    if c.failed {
        let why: Vec<String> = c.why.iter().map(|(field, why)| format!("{field}: {why}")).collect();
        println!("    {}", why.join("; "));
    }
}

/// A budget beside what was measured.
struct Verdict {
    path: String,
    budget: String,
    measured: String,
    met: Option<bool>,
}

impl Verdict {
    fn at_most(path: &str, what: &str, budget: f64, measured: Option<f64>) -> Verdict {
        let shown = measured.map_or_else(|| "not taken".into(), |m| number(Some(m), 4));
        let met = measured.map(|m| if budget == 0.0 { m < NONE } else { m <= budget });
        Verdict { path: path.into(), budget: format!("{what} <= {budget}"), measured: shown, met }
    }
}

/// Ours, in instructions, locked instructions, allocations and system calls.
fn of_path(rows: &[Row], path: &str, limits: [f64; 4], fence: f64) -> Vec<Verdict> {
    let Some(row) = rows.iter().find(|r| r.line.path == path && r.line.arm == "scheduler") else { return vec![] };
    let c = &row.counted;
    let fenced = c.barrier.as_deref().is_some_and(|b| b != "Membarrier");
    let locked = if fenced { fence } else { limits[1] };
    vec![
        Verdict::at_most(path, "instructions", limits[0], c.instructions),
        Verdict::at_most(path, "locked", locked, c.locked),
        Verdict::at_most(path, "allocations", limits[2], c.allocations),
        Verdict::at_most(path, "syscalls", limits[3], c.syscalls),
    ]
}

fn flat(rows: &[Row]) -> Vec<Verdict> {
    let swept = rows.iter().filter(|r| r.line.path == "external-flat" && r.line.arm == "scheduler");
    let figures: Option<Vec<f64>> = swept.map(|r| r.counted.instructions).collect();
    let Some(figures) = figures.filter(|f| f.len() > 1) else { return vec![] };
    let (least, most) = (figures.iter().copied().fold(f64::MAX, f64::min), figures.iter().copied().fold(0.0, f64::max));
    vec![Verdict {
        path: "external-flat".into(),
        budget: format!("instructions flat within {:.0} %", 100.0 * FLAT),
        measured: format!("{least:.1} .. {most:.1}: {:.1} %", 100.0 * (most / least - 1.0).abs()),
        met: Some(least > 0.0 && most / least - 1.0 <= FLAT),
    }]
}

fn wakeups(rows: &[Row]) -> Vec<Verdict> {
    let ours: Vec<&Row> = rows.iter().filter(|r| r.line.path == "wakeup" && r.line.arm == "scheduler").collect();
    let mut out = vec![];
    for row in &ours {
        let path = format!("wakeup, {} workers", row.line.workers);
        let [wakes, parks, barriers] = row.counted.calls.map_or([None; 3], |c| c.map(Some));
        // A run that begins or ends between two sleeps has one more of either; 2 % is what 5,000 rounds leave of that.
        out.push(Verdict::at_most(&path, "wakes", 1.02, wakes));
        out.push(Verdict::at_most(&path, "waits", 1.02, parks));
        out.push(Verdict::at_most(&path, "barriers", 1.02, barriers));
    }
    let all: Option<Vec<f64>> = ours.iter().map(|r| r.counted.syscalls).collect();
    if let Some([four, sixteen]) = all.as_deref() {
        let apart = (sixteen / four - 1.0).abs();
        out.push(Verdict {
            path: "wakeup".into(),
            budget: "the same for 4 and 16 workers within 5 %".into(),
            measured: format!("{four:.3} and {sixteen:.3}"),
            met: Some(apart <= 0.05),
        });
    }
    out
}

fn all(rows: &[Row]) -> Vec<Verdict> {
    let mut out = of_path(rows, "external", [90.0, 0.1, 0.0, 0.001], 1.1);
    out.extend(of_path(rows, "nested", [60.0, 0.1, 0.0, 0.0], 0.1));
    out.extend(of_path(rows, "join", [60.0, 0.0, 0.0, 0.0], 0.0));
    out.extend(flat(rows));
    out.extend(wakeups(rows));
    out
}

/// The budgets as text.
pub(super) fn budgets(rows: &[Row]) {
    let verdicts = all(rows);
    if verdicts.is_empty() {
        return;
    }
    println!("\nbudgets of the scheduler");
    for v in verdicts {
        let word = v.met.map_or("", |met| if met { ": met" } else { ": missed" });
        println!("  {}: {}: {}{word}", v.path, v.budget, v.measured);
    }
}

/// The budgets for the JSON report.
pub(super) fn verdicts(rows: &[Row]) -> Vec<Value> {
    let json = |v: Verdict| json!({ "path": v.path, "budget": v.budget, "measured": v.measured, "met": v.met });
    all(rows).into_iter().map(json).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Counted, PATHS};
    use super::*;

    fn row(path: usize, workers: usize, counted: Counted) -> Row {
        let mut line = PATHS[path].lines_of("scheduler", false).remove(0);
        line.workers = workers;
        Row { line, counted }
    }

    fn met(rows: &[Row]) -> Vec<Option<bool>> {
        all(rows).into_iter().map(|v| v.met).collect()
    }

    #[test]
    fn budgets_follow_the_barrier() {
        let counted = |barrier: &str| Counted {
            instructions: Some(91.0),
            locked: Some(1.05),
            allocations: Some(0.0),
            syscalls: Some(0.0009),
            barrier: Some(barrier.into()),
            ..Counted::default()
        };
        assert_eq!(met(&[row(0, 1, counted("Membarrier"))]), [Some(false), Some(false), Some(true), Some(true)]);
        assert_eq!(met(&[row(0, 1, counted("Fence"))]), [Some(false), Some(true), Some(true), Some(true)]);
        assert_eq!(met(&[row(0, 1, Counted::default())]), [None; 4]);
    }

    #[test]
    fn flat_means_two_percent() {
        let rows = |figures: &[f64]| -> Vec<Row> {
            let counted = |i: &f64| Counted { instructions: Some(*i), ..Counted::default() };
            figures.iter().map(|i| row(1, 2, counted(i))).collect()
        };
        assert_eq!(met(&rows(&[80.0, 81.5, 80.3])), [Some(true)]);
        assert_eq!(met(&rows(&[80.0, 81.7, 80.3])), [Some(false)]);
        assert_eq!(met(&rows(&[80.0, -81.7])), [Some(false)]);
    }

    #[test]
    fn wakeups_are_the_same_for_all_pool_sizes() {
        let counted =
            |calls: [f64; 3]| Counted { calls: Some(calls), syscalls: Some(calls.iter().sum()), ..Counted::default() };
        let good = [row(4, 4, counted([1.0; 3])), row(4, 16, counted([1.0, 1.01, 1.0]))];
        assert_eq!(met(&good), [Some(true); 7]);
        let herd = [row(4, 4, counted([1.0; 3])), row(4, 16, counted([1.0, 3.0, 1.0]))];
        assert_eq!(met(&herd)[4..], [Some(false), Some(true), Some(false)]);
    }
}
