//! Scenarios against peers.
use super::super::chart::{self, Bars, Line, Lines, Mark, Point};
use super::super::page::{self, Cell};
use super::{any, bar, is_ok, name, ns, per_second, reason, rows, spread};
use serde_json::Value;

/// What a task of each scenario is, for those who have not read the definitions.
const MEANING: [(&str, &str); 15] = [
    ("flood_1m", ", 1 submitter: one addition to a shared counter"),
    ("flood_1m_own_counter", ", 1 submitter: one addition to a counter per worker"),
    ("contended_spawn_8x_own_counter", ", 8 submitters: one addition to a counter per worker"),
    ("contended_spawn_8x", ", 8 submitters: one addition to a shared counter"),
    ("cpu_work_10us", ", 1 submitter: 10 us busy"),
    ("cpu_work_100us", ", 1 submitter: 100 us busy"),
    ("contended_cpu_10us", ", 4 submitters: 10 us busy"),
    ("nested_fanout_4x", ": each task from outside submits four"),
    ("burst_drain_burst", ": 50 us busy, in two bursts with 10 ms between them"),
    ("mixed_fast_slow", ": every fifth is busy for 1 ms, the others add to a counter"),
    ("deep_tree", ": each submits four, nine levels, one shared counter"),
    ("deep_tree_own_counter", ": each submits four, nine levels, a counter per worker"),
    ("join_tree", " (nodes): fork and join over a tree of 2^20 - 1, four times"),
    ("join_tree_1023", " (nodes): fork and join over a tree of 1,023, 4,096 times"),
    ("join_tree_45ns", " (nodes): fork and join, 45 ns of work per node"),
];

/// The scenarios in the order in which they come, each with its rows.
fn groups(report: &Value) -> Vec<(&str, Vec<&Value>)> {
    let mut out: Vec<(&str, Vec<&Value>)> = vec![];
    for row in rows(report, "results") {
        let scenario = name(row, "scenario");
        match out.iter_mut().find(|(s, _)| *s == scenario) {
            Some((_, rows)) => rows.push(row),
            None => out.push((scenario, vec![row])),
        }
    }
    out
}

/// That a pool has no such kind of work is said once, below the chart, and not by a row.
fn takes_part(row: &Value) -> bool {
    !row["status"].as_str().is_some_and(|s| s.starts_with("absent: has "))
}

pub(in super::super) fn part(report: &Value) -> String {
    let groups = groups(report);
    let why = report["quiet"]["why"].as_str().unwrap_or("the machine was not quiet");
    let mut out = summary(report, &groups);
    let key = "<ul class=\"key\"><li><i style=\"background:var(--c0)\"></i>scheduler</li>\
               <li><i style=\"background:var(--c1)\"></i>scheduler, used in another way</li>\
               <li><i style=\"background:var(--c2)\"></i>peers</li>\
               <li><i style=\"background:var(--c3)\"></i>floor: no pool, a bound</li></ul>";
    let cards: Vec<String> = groups.iter().map(|(scenario, rows)| card(scenario, rows, report, why)).collect();
    let say = "Medians of interleaved rounds in one process; whiskers from the least to the greatest. All arms of a \
               chart ran in the same run.";
    let scenarios = page::part("Scenarios", say, &cards);
    out += &scenarios.replacen("<div class=\"grid\">", &format!("{key}<div class=\"grid\">"), 1);
    let curves: Vec<String> = groups.iter().filter_map(|(scenario, rows)| latency(scenario, rows)).collect();
    if !curves.is_empty() {
        let say = "From the call of submit to the end of the body. Lower is better; the right end is the slowest task.";
        out += &page::part("Latency", say, &curves);
    }
    out
}

/// Ours against each peer, and the targets.
fn summary(report: &Value, groups: &[(&str, Vec<&Value>)]) -> String {
    let mut cards = vec![];
    if groups.iter().any(|(_, rows)| any(rows, "tasks_per_sec")) {
        cards.push(page::card(
            "How many times faster the scheduler is",
            "Tasks per second, medians of this run; in brackets how many times less CPU time a task costs.",
            &matrix(groups),
            true,
        ));
    }
    let targets = rows(report, "targets");
    if !targets.is_empty() {
        let met = targets.iter().filter(|t| t["met"] == true).count();
        let line = |t: &Value| {
            let cells = vec![
                Cell::text(name(t, "scenario")),
                Cell::long(name(t, "target")),
                Cell::long(name(t, "measured")),
                Cell::verdict(t["met"].as_bool()),
            ];
            (true, cells)
        };
        let lines: Vec<_> = targets.iter().map(line).collect();
        let table = page::table(&["scenario", "target", "measured", "verdict"], &lines);
        let inside = page::details("all targets", &table, false);
        let say = "What has to be reached on two cores. A target in times is met by tasks per second or by CPU time.";
        cards.push(page::card(&format!("Targets: {met} of {} met", targets.len()), say, &inside, true));
    }
    let harness = &report["harness"];
    if harness.is_object() {
        let line =
            ["ns_per_task", "bound_ns", "body_ns", "allocations"].map(|f| Cell::number(page::words(&harness[f])));
        let line = line.into_iter().chain([Cell::verdict(harness["met"].as_bool())]).collect();
        let heading = ["ns per task beside the body", "at most", "the body, ns", "allocations", "verdict"];
        let say = "What the harness itself adds to a task: the loop of a flood without any pool, less the bare body.";
        cards.push(page::card("The harness", say, &page::table(&heading, &[(true, line)]), true));
    }
    if cards.is_empty() { String::new() } else { page::part("Against the peers", "", &cards) }
}

fn matrix(groups: &[(&str, Vec<&Value>)]) -> String {
    let mut peers: Vec<&str> = vec![];
    for row in groups.iter().flat_map(|(_, rows)| rows) {
        let arm = name(row, "arm");
        if !arm.starts_with("scheduler") && arm != "floor" && !peers.contains(&arm) {
            peers.push(arm);
        }
    }
    let median = |row: &Value, field: &str| spread(&row[field]).filter(|_| is_ok(row)).map(|s| s[0]);
    let line = |(scenario, rows): &(&str, Vec<&Value>)| {
        let of = |arm: &str, field: &str| median(rows.iter().copied().find(|r| r["arm"] == arm)?, field);
        let mut cells = vec![Cell::text(*scenario)];
        cells.push(Cell::number(of("scheduler", "tasks_per_sec").map_or_else(|| "-".into(), per_second)));
        for peer in &peers {
            let rate = of("scheduler", "tasks_per_sec").zip(of(peer, "tasks_per_sec")).map(|(a, b)| a / b);
            let cpu = of(peer, "cpu_ns_per_task").zip(of("scheduler", "cpu_ns_per_task")).map(|(b, a)| b / a);
            let text = rate.map_or_else(
                || "-".into(),
                |r| {
                    // Where there is little room the bracket goes to a line of its own, and nothing else does.
                    let words = direction(r).replace(' ', "\u{a0}");
                    format!("{words} ({})", cpu.map_or("-".into(), times))
                },
            );
            let good = rate.filter(|r| !(0.995..1.005).contains(r)).map(|r| r > 1.0);
            cells.push(Cell::compared(text, good));
        }
        (true, cells)
    };
    let mut heading = vec!["scenario", "scheduler"];
    let than: Vec<String> = peers.iter().map(|p| format!("than {p}")).collect();
    heading.extend(than.iter().map(String::as_str));
    page::table(&heading, &groups.iter().map(line).collect::<Vec<_>>())
}

fn times(ratio: f64) -> String {
    if ratio.is_finite() { format!("{}x", chart::three(ratio)) } else { "-".into() }
}

fn direction(ratio: f64) -> String {
    match ratio {
        r if !r.is_finite() => "-".into(),
        r if (0.995..1.005).contains(&r) => "as fast".into(),
        r if r > 1.0 => format!("{} faster", times(r)),
        r => format!("{} slower", times(1.0 / r)),
    }
}

fn card(scenario: &str, rows: &[&Value], report: &Value, why: &str) -> String {
    let shown: Vec<&Value> = rows.iter().copied().filter(|r| takes_part(r)).collect();
    let first = rows.first().copied().unwrap_or(&Value::Null);
    let what = MEANING.iter().find(|(name, _)| *name == scenario).map_or("", |(_, what)| what);
    let say = format!("{} tasks, {} workers{what}", page::words(&first["tasks"]), page::words(&first["workers"]));
    let mut inside = String::new();
    let timed = any(&shown, "tasks_per_sec");
    if timed {
        inside += &bars(scenario, &shown, report);
        inside += &cpu(scenario, &shown);
    } else {
        inside += &page::missing(why);
    }
    inside += &page::details("all figures", &figures(rows), !timed);
    page::card(scenario, &say, &inside, false)
}

fn bars(scenario: &str, shown: &[&Value], report: &Value) -> String {
    let ceiling = report["ceilings"][scenario].as_f64();
    let marks = ceiling.map(|at| Mark { at, text: "ceiling".into() }).into_iter().collect();
    Bars {
        label: format!("{scenario}: tasks per second, all arms"),
        axis: "tasks per second · more is better".into(),
        rows: shown.iter().map(|r| bar(name(r, "arm"), r, "tasks_per_sec", per_second)).collect(),
        marks,
        number: chart::short,
    }
    .svg()
}

fn cpu(scenario: &str, shown: &[&Value]) -> String {
    Bars {
        label: format!("{scenario}: CPU time per task, all arms"),
        axis: "CPU time per task · less is better".into(),
        rows: shown.iter().map(|r| bar(name(r, "arm"), r, "cpu_ns_per_task", ns)).collect(),
        marks: vec![],
        number: chart::time,
    }
    .svg()
}

/// Everything as numbers, rows without figures included.
fn figures(rows: &[&Value]) -> String {
    let heading = [
        "arm",
        "tasks/s",
        "least",
        "greatest",
        "CPU/task",
        "allocs/task",
        "futex/task",
        "switches/task",
        "latency p50 / p95 / p99 / max",
        "remark",
    ];
    let line = |row: &&Value| {
        let rate = spread(&row["tasks_per_sec"]);
        let show = |i: usize| rate.map_or_else(|| "-".into(), |r| per_second(r[i]));
        let latency = &row["latency_ns"];
        let at = |p: &str| latency[p].as_f64().map_or_else(|| "-".into(), ns);
        let latency = if latency.is_null() { "-".into() } else { ["p50", "p95", "p99", "max"].map(at).join(" / ") };
        let remark = match (is_ok(row), row["forced"] == true) {
            (false, _) => reason(row, "tasks_per_sec"),
            (true, true) => "forced".into(),
            (true, false) => String::new(),
        };
        let cells = vec![
            Cell::text(name(row, "arm")),
            Cell::number(show(0)),
            Cell::number(show(1)),
            Cell::number(show(2)),
            Cell::number(spread(&row["cpu_ns_per_task"]).map_or_else(|| "-".into(), |c| ns(c[0]))),
            Cell::number(page::words(&row["allocs_per_task"])),
            Cell::number(page::words(&row["futex_per_task"])),
            Cell::number(page::words(&row["ctx_switches_per_task"])),
            Cell::number(latency),
            Cell::text(remark),
        ];
        (is_ok(row), cells)
    };
    page::table(&heading, &rows.iter().map(line).collect::<Vec<_>>())
}

/// Percentiles on an axis that gives each nine the same room.
fn latency(scenario: &str, rows: &[&Value]) -> Option<String> {
    const AT: [(&str, f64); 4] = [("p50", 0.5), ("p95", 0.05), ("p99", 0.01), ("max", 0.001)];
    let line = |row: &&Value| {
        let l = &row["latency_ns"];
        let point = |(i, (p, _)): (usize, &(&str, f64))| Some(Point { x: i as f64, y: l[*p].as_f64()?, range: None });
        let points: Option<Vec<Point>> = AT.iter().enumerate().map(point).collect();
        Some(Line { name: name(row, "arm").into(), points: points.filter(|_| is_ok(row))? })
    };
    let lines: Vec<Line> = rows.iter().filter_map(line).collect();
    if lines.is_empty() {
        return None;
    }
    let ticks = ["p50", "p95", "p99", "max"].iter().enumerate().map(|(i, p)| (i as f64, (*p).to_owned())).collect();
    let svg = Lines {
        label: format!("{scenario}: latency by percentile, all arms"),
        x_axis: "share of tasks that were done by then".into(),
        y_axis: "latency, logarithmic · less is better".into(),
        x_log: false,
        y_log: true,
        x_ticks: ticks,
        x_number: chart::short,
        y_number: chart::time,
        lines,
    }
    .svg();
    Some(page::card(scenario, "", &svg, false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(arm: &str, median: f64) -> Value {
        let spread = json!({ "median": median, "min": median / 2.0, "max": median * 2.0 });
        json!({ "scenario": "flood_1m", "arm": arm, "tasks": 1000, "workers": 2, "status": "ok", "why": {},
                "tasks_per_sec": spread, "cpu_ns_per_task": spread,
                "latency_ns": { "p50": 10, "p95": 20, "p99": 30, "max": 40 } })
    }

    #[test]
    fn absent_and_failed_rows_are_seen() {
        let absent = json!({ "scenario": "flood_1m", "arm": "go", "status": "absent: no `go` in PATH", "why": {} });
        let failed = json!({ "scenario": "flood_1m", "arm": "tbb", "status": "failed: said \"x\"", "why": {} });
        let report = json!({ "results": [row("scheduler", 50e6), row("tokio", 2e6), absent, failed] });
        let html = part(&report);
        for words in
            ["absent: no `go` in PATH", "failed: said &quot;x&quot;", "25x\u{a0}faster (0.04x)", "than go", "Latency"]
        {
            assert!(html.contains(words), "{words}: {html}");
        }
    }

    #[test]
    fn without_rates_the_counts_stay() {
        let row = json!({ "scenario": "flood_1m", "arm": "scheduler", "status": "ok", "allocs_per_task": 0.25,
                          "tasks_per_sec": null, "why": { "tasks_per_sec": "NOT MEASURED: busy" } });
        let report = json!({ "results": [row], "quiet": { "rates": "not_measured", "why": "load 3.00, limit 0.80" } });
        let html = part(&report);
        assert!(html.contains("<b>NOT MEASURED</b>: load 3.00, limit 0.80"), "{html}");
        assert!(html.contains("0.2500") && html.contains("<details open>") && !html.contains("<svg"), "{html}");
    }

    #[test]
    fn directions_are_words() {
        assert_eq!(direction(25.0), "25x faster");
        assert_eq!(direction(0.5), "2x slower");
        assert_eq!(direction(1.001), "as fast");
        assert_eq!(direction(f64::NAN), "-");
    }
}
