//! Two revisions against each other.
use super::super::chart::{self, Bar, Bars, Mark, Tone};
use super::super::page::{self, Cell};
use super::{name, per_second, rows, spread};
use bench::aggregate::{GAIN, LOSS};
use serde_json::Value;

pub(in super::super) fn part(report: &Value) -> String {
    let plan = &report["plan"];
    let aa = plan["aa"] == true;
    let results = rows(report, "results");
    let mut bars: Vec<Bar> = results.iter().map(bar).collect();
    let mut marks = vec![];
    if !aa {
        marks = vec![Mark { at: LOSS, text: format!("{LOSS} %") }];
        if let Some(mean) = report["weighted_percent"].as_f64() {
            let (name, text) = ("targets together".into(), percent(mean));
            bars.insert(0, Bar { name, tone: Tone::Ink, value: Some([mean; 3]), text });
            marks.push(Mark { at: GAIN, text: format!("+{GAIN} %") });
        }
    }
    let svg = Bars {
        label: "change of the candidate against the baseline, per scenario".into(),
        axis: "B against A, % · more is better".into(),
        rows: bars,
        marks,
        number: chart::three,
    }
    .svg();
    let verdict = match report["verdict"].as_str() {
        Some("PASS") => page::pill("good", "✓ PASS: the candidate is kept"),
        Some("FAIL") => page::pill("bad", "✗ FAIL: the candidate is reverted"),
        _ => page::pill("", "A/A: the same source twice; what is seen is noise"),
    };
    let against = rows(report, "against").iter().map(|w| format!("<li>{}</li>", page::escape(&page::words(w))));
    let against = format!("<ul>{}</ul>", against.collect::<String>()).replace("<ul></ul>", "");
    let inside = format!("<div class=\"pills\">{verdict}</div>{against}{svg}");
    let ten = "Medians of ten rounds A,B,A,B..; targets in blue, with the gate's limits as lines. Tasks per second, or \
               (CPU) tasks per second of CPU time where the bodies allow no higher rate.";
    let cards = [
        page::card(&format!("Changes: {}", page::words(&plan["plan"])), ten, &inside, false),
        page::card("Legs", "", &legs(plan), false),
        page::card("All figures", "", &table(results), true),
    ];
    page::part("A/B", "", &cards)
}

/// Whether the rate is at its ceiling in both legs, so that tasks per second of CPU time are judged.
fn by_cpu(row: &Value) -> bool {
    row["figure"] == "tasks_per_cpu_sec"
}

fn percent(x: f64) -> String {
    format!("{x:+.2} %")
}

fn bar(row: &Value) -> Bar {
    let change = row["percent"].as_f64();
    let tone = if row["weight"].is_number() { Tone::Ours } else { Tone::Bound };
    let text = change.map_or_else(|| "not measured".into(), percent) + if by_cpu(row) { " CPU" } else { "" };
    Bar { name: name(row, "scenario").into(), tone, value: change.map(|c| [c; 3]), text }
}

fn legs(plan: &Value) -> String {
    let line = |(leg, field): (&str, &str)| {
        let l = &plan[field];
        let cut = |f: &str| page::words(&l[f]).chars().take(12).collect::<String>();
        let gate = if l["gate"]["passed"] == true { "20/20" } else { "NOT GATED" };
        let cells = [leg, &page::words(&l["rev"]), &cut("commit"), &cut("sha256"), gate].map(Cell::text);
        (true, cells.into_iter().collect())
    };
    let lines: Vec<_> = [("A", "baseline"), ("B", "candidate")].map(line).into();
    page::table(&["leg", "revision", "commit", "SHA-256", "stress gate"], &lines)
}

fn table(results: &[Value]) -> String {
    let line = |row: &Value| {
        let leg = |f: &str| spread(&row[f]).map_or_else(|| "-".into(), |s| s.map(per_second).join(" / "));
        let shown = |f: &str| row[f].as_f64().map_or_else(|| "-".into(), percent);
        let cells = vec![
            Cell::text(name(row, "scenario")),
            Cell::number(page::words(&row["weight"])),
            Cell::number(leg("a")),
            Cell::number(leg("b")),
            // Reports from before there were two figures have one change, that of the rate.
            Cell::number(shown(if row["rate_percent"].is_number() { "rate_percent" } else { "percent" })),
            Cell::number(shown("cpu_percent")),
            Cell::number(format!("{}{}", shown("percent"), if by_cpu(row) { ", CPU time" } else { "" })),
        ];
        (row["percent"].is_number(), cells)
    };
    let heading = [
        "scenario",
        "weight",
        "A: median / least / greatest",
        "B: the same",
        "tasks/s",
        "CPU per task (less is better)",
        "judged (more is better)",
    ];
    page::table(&heading, &results.iter().map(line).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_verdict_has_its_reasons() {
        let report = json!({
            "plan": { "plan": "fence", "aa": false, "baseline": { "rev": "main" }, "candidate": { "rev": "topic" } },
            "verdict": "FAIL", "weighted_percent": 1.25, "against": ["the targets gained +1.25 %"],
            "results": [{ "scenario": "flood_1m", "weight": 1.0, "percent": 1.25 },
                        { "scenario": "deep_tree", "weight": null, "percent": -4.0 }],
        });
        let html = part(&report);
        for words in ["✗ FAIL", "the targets gained +1.25 %", "+1.25 %", "-4.00 %", "NOT GATED", "deep_tree"] {
            assert!(html.contains(words), "{words}: {html}");
        }
    }
}
