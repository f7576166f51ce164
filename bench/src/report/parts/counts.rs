//! What a task costs, independent of the machine.
use super::super::chart::{self, Bar, Bars, Tone};
use super::super::page::{self, Cell};
use super::{name, rows};
use serde_json::Value;

pub(in super::super) fn part(report: &Value) -> String {
    let all = rows(report, "paths");
    let mut paths: Vec<&str> = all.iter().map(|r| name(r, "path")).collect();
    paths.dedup();
    let mut cards = vec![];
    for path in paths {
        let of: Vec<&Value> = all.iter().filter(|r| name(r, "path") == path).collect();
        let field = if path == "wakeup" { "syscalls" } else { "instructions" };
        let what = if path == "wakeup" { "system calls per wake-up" } else { "instructions per task" };
        let inside = chart(path, &of, field, what) + &page::details("all figures", &table(&of), false);
        cards.push(page::card(path, "", &inside, false));
    }
    let budgets = rows(report, "budgets");
    if !budgets.is_empty() {
        let met = budgets.iter().filter(|b| b["met"] == true).count();
        let line = |b: &Value| {
            let words = |field: &str| Cell::long(page::words(&b[field]));
            (true, vec![words("path"), words("budget"), words("measured"), Cell::verdict(b["met"].as_bool())])
        };
        let lines: Vec<_> = budgets.iter().map(line).collect();
        let inside = page::table(&["path", "budget", "measured", "verdict"], &lines);
        cards.push(page::card(&format!("Budgets: {met} of {} met", budgets.len()), "", &inside, true));
    }
    let say = "Per task, the body's one plain store included. These figures do not depend on how busy the machine is.";
    page::part("Counts", say, &cards)
}

/// `scheduler`, or `scheduler, 4 workers, 1000 deep` where the same arm has several rows.
fn label(row: &Value, of: &[&Value]) -> String {
    let same = of.iter().filter(|r| r["arm"] == row["arm"]).count();
    if same < 2 {
        return name(row, "arm").to_owned();
    }
    let depth = row["depth"].as_f64().filter(|d| *d > 0.0);
    let depth = depth.map_or_else(String::new, |d| format!(", {} deep", chart::short(d)));
    let several = of.iter().any(|r| r["arm"] != row["arm"]);
    let arm = if several { format!("{}, ", name(row, "arm")) } else { String::new() };
    format!("{arm}{} workers{depth}", page::words(&row["workers"]))
}

fn chart(path: &str, of: &[&Value], field: &str, what: &str) -> String {
    let bar = |row: &&Value| {
        let value = row[field].as_f64();
        let why = || row["why"][field].as_str().unwrap_or("not taken").to_owned();
        Bar {
            name: label(row, of),
            tone: Tone::of_arm(name(row, "arm")),
            value: value.map(|v| [v; 3]),
            text: value.map_or_else(why, page::number),
        }
    };
    Bars {
        label: format!("{path}: {what}"),
        axis: format!("{what} · less is better"),
        rows: of.iter().map(bar).collect(),
        marks: vec![],
        number: chart::short,
    }
    .svg()
}

fn table(of: &[&Value]) -> String {
    const FIELDS: [&str; 4] = ["instructions", "locked", "allocations", "syscalls"];
    let line = |row: &&Value| {
        let mut cells = vec![Cell::text(label(row, of))];
        cells.extend(FIELDS.map(|f| Cell::number(row[f].as_f64().map_or_else(|| "-".into(), page::number))));
        let why = row["why"].as_object().into_iter().flatten();
        let why: Vec<String> = why.map(|(f, w)| format!("{f}: {}", page::words(w))).collect();
        cells.push(Cell::long(why.join("; ")));
        (FIELDS.iter().any(|f| row[*f].is_number()), cells)
    };
    let heading = ["arm", "instructions", "locked", "allocations", "system calls", "why not"];
    page::table(&heading, &of.iter().map(line).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_figure_that_was_not_taken_says_why() {
        let paths = json!([
            { "path": "external", "arm": "scheduler", "instructions": 89.2, "locked": 0.066, "why": {} },
            { "path": "external", "arm": "go", "instructions": null,
              "why": { "instructions": "not under the counter" } },
        ]);
        let html = part(&json!({ "paths": paths, "budgets": [
            { "path": "external", "budget": "instructions <= 90", "measured": "89.2", "met": true }] }));
        for words in ["89.20", "not under the counter", "✓ met", "Budgets: 1 of 1 met"] {
            assert!(html.contains(words), "{words}: {html}");
        }
    }
}
