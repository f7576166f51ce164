//! The parts of the page, one per kind of report.
use super::chart::{self, Bar, Tone};
use super::page::{self, Cell};
use serde_json::Value;

pub(super) mod ab;
pub(super) mod compare;
pub(super) mod counts;
pub(super) mod generic;
pub(super) mod history;
pub(super) mod io;
pub(super) mod scale;
pub(super) mod workloads;

/// The objects of a list; none if it is no list.
fn rows<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

fn name<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or("?")
}

/// Median, least and greatest of a spread, or of percentiles.
fn spread(value: &Value) -> Option<[f64; 3]> {
    let of = |names: [&str; 3]| {
        let [a, b, c] = names.map(|n| value[n].as_f64());
        Some([a?, b?, c?])
    };
    of(["median", "min", "max"]).or_else(|| of(["p50", "p0", "p100"]))
}

fn is_ok(row: &Value) -> bool {
    row["status"].as_str().is_none_or(|s| s == "ok")
}

/// Why a row has no such figure.
fn reason(row: &Value, field: &str) -> String {
    match row["status"].as_str() {
        Some(status) if status != "ok" => status.to_owned(),
        _ => row["why"][field].as_str().unwrap_or("not measured").to_owned(),
    }
}

/// The bar of one row.
fn bar(label: &str, row: &Value, field: &str, text: impl Fn(f64) -> String) -> Bar {
    let value = spread(&row[field]).filter(|_| is_ok(row));
    let text = value.map_or_else(|| reason(row, field), |[median, ..]| text(median));
    Bar { name: label.into(), tone: Tone::of_arm(label), value, text }
}

/// Whether any row has this figure: if none has, there is nothing to draw.
fn any(rows: &[&Value], field: &str) -> bool {
    rows.iter().any(|r| is_ok(r) && spread(&r[field]).is_some())
}

fn per_second(x: f64) -> String {
    format!("{}/s", chart::short(x))
}

fn ns(x: f64) -> String {
    chart::time(x)
}

/// A list of checks or targets with their verdicts.
fn checks(list: &[Value]) -> String {
    let line = |c: &Value| {
        let met = c["met"].as_bool();
        let cells = vec![
            Cell::long(page::words(&c["name"])),
            Cell::number(page::words(&c["bound"])),
            Cell::number(page::words(&c["value"])),
            Cell::verdict(met),
            Cell::long(c["why"].as_str().unwrap_or("")),
        ];
        (met.is_some(), cells)
    };
    page::table(&["what", "bound", "measured", "verdict", "why"], &list.iter().map(line).collect::<Vec<_>>())
}
