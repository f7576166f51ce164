//! The same scenarios over several reports.
use super::super::chart::{self, Line, Lines, Point};
use super::super::page;
use super::{is_ok, name, rows, spread};
use serde_json::Value;

/// Which arms are followed: ours, and the peers that answer whether the host has changed rather than we.
const FOLLOWED: [&str; 3] = ["scheduler", "channel", "tokio"];

/// `reports` in the order of their dates.
pub(in super::super) fn part(reports: &[&Value]) -> String {
    let mut scenarios: Vec<&str> = vec![];
    for row in reports.iter().flat_map(|r| rows(r, "results")) {
        if !scenarios.contains(&name(row, "scenario")) {
            scenarios.push(name(row, "scenario"));
        }
    }
    let cards: Vec<String> = scenarios.iter().filter_map(|s| card(s, reports)).collect();
    let list: String = reports.iter().enumerate().map(|(i, r)| entry(i, r)).collect();
    let say = "Tasks per second over the reports, oldest to the left; lines across the points from the least to the \
               greatest. Peers stand beside us because they do not change: where they move too, the host has.";
    let cards = if cards.is_empty() { vec![page::missing("no report of these has rates")] } else { cards };
    page::part("History", say, &cards) + &page::details("the reports", &format!("<ol>{list}</ol>"), true)
}

fn entry(i: usize, report: &Value) -> String {
    let host = &report["host"];
    let commit: String = page::words(&host["commit"]).chars().take(12).collect();
    let dirty = if host["dirty"] == true { " (dirty)" } else { "" };
    let rates = page::words(&report["quiet"]["rates"]);
    let gate = if report["gate"]["passed"] == true { "gated" } else { "NOT GATED" };
    let text = format!(
        "{commit}{dirty}, {}, {}, rates {rates}, {gate}",
        page::words(&host["date"]),
        page::words(&host["cpu"])
    );
    format!("<li value=\"{}\">{}</li>", i + 1, page::escape(&text))
}

fn card(scenario: &str, reports: &[&Value]) -> Option<String> {
    let point = |(i, report): (usize, &&Value), arm: &str| {
        let row = rows(report, "results").iter().find(|r| name(r, "scenario") == scenario && name(r, "arm") == arm)?;
        let [median, min, max] = spread(&row["tasks_per_sec"]).filter(|_| is_ok(row))?;
        Some(Point { x: (i + 1) as f64, y: median, range: Some([min, max]) })
    };
    let line = |arm: &&str| {
        let points: Vec<Point> = reports.iter().enumerate().filter_map(|r| point(r, arm)).collect();
        (!points.is_empty()).then(|| Line { name: (*arm).to_owned(), points })
    };
    let lines: Vec<Line> = FOLLOWED.iter().filter_map(line).collect();
    if lines.is_empty() {
        return None;
    }
    let svg = Lines {
        label: format!("{scenario}: tasks per second over the reports"),
        x_axis: "report".into(),
        y_axis: "tasks per second · more is better".into(),
        x_log: false,
        y_log: false,
        x_ticks: (1..=reports.len()).map(|i| (i as f64, i.to_string())).collect(),
        x_number: chart::short,
        y_number: chart::short,
        lines,
    }
    .svg();
    Some(page::card(scenario, "", &svg, false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_report_is_a_point() {
        let report = |median: f64, date: &str| {
            let rate = json!({ "median": median, "min": median, "max": median });
            json!({ "host": { "commit": "abc", "date": date }, "results": [
                { "scenario": "flood_1m", "arm": "scheduler", "status": "ok", "tasks_per_sec": rate }] })
        };
        let (a, b) = (report(4e7, "d1"), report(5e7, "d2"));
        let html = part(&[&a, &b]);
        assert_eq!(html.matches("<circle").count(), 2, "{html}");
        assert!(html.contains("d1") && html.contains("NOT GATED"));
        let none = json!({ "results": [{ "scenario": "flood_1m", "arm": "scheduler", "tasks_per_sec": null }] });
        assert!(part(&[&none, &none]).contains("NOT MEASURED"));
    }
}
