//! How cost goes with submitters, workers, depth and length of a task.
use super::super::chart::{self, Bar, Bars, Line, Lines, Point, Tone};
use super::super::page;
use super::{checks, name, rows, spread};
use serde_json::Value;

pub(in super::super) fn part(report: &Value) -> String {
    let series = rows(report, "series");
    let mut sweeps: Vec<&str> = series.iter().map(|s| name(s, "sweep")).collect();
    sweeps.dedup();
    let mut cards: Vec<String> = sweeps.iter().map(|sweep| card(sweep, series, report)).collect();
    let metg = rows(report, "metg");
    if !metg.is_empty() {
        cards.push(metg_card(metg));
    }
    let bounds = rows(report, "checks");
    if !bounds.is_empty() {
        cards.push(page::card("Checks", "", &checks(bounds), true));
    }
    page::part("Scale", "A flat line means that the cost of a task does not depend on what the axis says.", &cards)
}

/// What a sweep shows: the field of its points, and how it is read.
fn meaning(sweep: &str) -> (&'static str, &'static str, fn(f64) -> String) {
    match sweep {
        "length_ns" => ("efficiency", "share of CPU time spent in tasks · more is better", chart::three),
        s if s.starts_with("instructions") => ("instructions", "instructions per task · less is better", chart::short),
        _ => ("cpu_ns_per_task", "CPU time per task · less is better", chart::time),
    }
}

fn card(sweep: &str, series: &[Value], report: &Value) -> String {
    let (field, y_axis, y_number) = meaning(sweep);
    let point = |p: &Value| {
        let x = p["x"].as_f64()?;
        let whole = spread(&p[field]);
        let y = whole.map(|s| s[0]).or_else(|| p[field].as_f64())?;
        Some(Point { x, y, range: whole.map(|s| [s[1], s[2]]) })
    };
    let of: Vec<&Value> = series.iter().filter(|s| name(s, "sweep") == sweep).collect();
    let line = |s: &&Value| {
        let points: Vec<Point> = rows(s, "points").iter().filter_map(point).collect();
        (!points.is_empty()).then(|| Line { name: name(s, "arm").to_owned(), points })
    };
    let lines: Vec<Line> = of.iter().filter_map(line).collect();
    let unit = of.first().map_or("?", |s| name(s, "x_unit"));
    let title = sweep.replace('_', " ");
    if lines.is_empty() {
        let why = report["quiet"]["why"].as_str().unwrap_or("no figure was taken");
        return page::card(&title, "", &page::missing(why), false);
    }
    let x_number = if sweep == "length_ns" { chart::time } else { chart::short };
    let svg = Lines {
        label: format!("{y_axis} over {unit}"),
        x_axis: unit.to_owned(),
        y_axis: y_axis.into(),
        x_log: true,
        y_log: field == "cpu_ns_per_task",
        x_ticks: vec![],
        x_number,
        y_number,
        lines,
    }
    .svg();
    page::card(&title, "", &svg, false)
}

fn metg_card(metg: &[Value]) -> String {
    let bar = |row: &Value, field: &str, share: &str| {
        let value = row[field].as_f64();
        let why = || row["why"][field].as_str().unwrap_or("not measured").to_owned();
        Bar {
            name: format!("{} {share}", name(row, "arm")),
            tone: Tone::of_arm(name(row, "arm")),
            value: value.map(|v| [v; 3]),
            text: value.map_or_else(why, chart::time),
        }
    };
    let both = |row: &Value| [bar(row, "metg50_ns", "50 %"), bar(row, "metg90_ns", "90 %")];
    let svg = Bars {
        label: "smallest task length at which half, and nine tenths, of the CPU time is work".into(),
        axis: "length of a task · less is better".into(),
        rows: metg.iter().flat_map(both).collect(),
        marks: vec![],
        number: chart::time,
    }
    .svg();
    let say = "METG: the length of a task at which half (50 %), and nine tenths (90 %), of the CPU time is work.";
    page::card("Smallest useful task", say, &svg, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sweeps_are_lines_and_gaps_are_told() {
        let report = json!({
            "quiet": { "why": "load 3" },
            "series": [
                { "sweep": "submitters", "arm": "scheduler", "x_unit": "submitters", "points": [
                    { "x": 1, "cpu_ns_per_task": { "median": 30, "min": 20, "max": 40 } },
                    { "x": 64, "cpu_ns_per_task": null }] },
                { "sweep": "depth", "arm": "scheduler", "x_unit": "tasks", "points": [] },
            ],
            "metg": [{ "arm": "scheduler", "metg50_ns": 80, "metg90_ns": null,
                        "why": { "metg90_ns": "never reached" } }],
            "checks": [{ "name": "flat in submitters", "bound": "20 %", "value": 0.1, "met": true }],
        });
        let html = part(&report);
        for words in ["<circle", "NOT MEASURED", "load 3", "never reached", "80 ns", "✓ met"] {
            assert!(html.contains(words), "{words}: {html}");
        }
    }
}
