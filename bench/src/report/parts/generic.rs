//! A report of a kind that has no charts of its own: every list of objects is a table, every spread in it a bar.
use super::super::chart::{self, Bars};
use super::super::page::{self, Cell};
use super::{any, bar, is_ok, spread};
use serde_json::Value;

/// Fields that stand elsewhere on the page.
const ELSEWHERE: [&str; 5] = ["kind", "host", "gate", "quiet", "tiny"];

pub(in super::super) fn part(title: &str, report: &Value) -> String {
    let fields = report.as_object().into_iter().flatten().filter(|(f, _)| !ELSEWHERE.contains(&f.as_str()));
    let mut cards = vec![];
    let mut others = vec![];
    for (field, value) in fields {
        match value.as_array() {
            Some(list) if !list.is_empty() && list.iter().all(Value::is_object) => cards.push(list_card(field, list)),
            _ => others.push((true, vec![Cell::text(field.clone()), Cell::long(page::words(value))])),
        }
    }
    if !others.is_empty() {
        cards.push(page::card("other figures", "", &page::table(&["what", "value"], &others), true));
    }
    page::part(title, "", &cards)
}

fn list_card(field: &str, list: &[Value]) -> String {
    let mut columns: Vec<&String> = vec![];
    for key in list.iter().filter_map(Value::as_object).flat_map(serde_json::Map::keys) {
        if !columns.contains(&key) {
            columns.push(key);
        }
    }
    let rows: Vec<&Value> = list.iter().collect();
    let charts: String = columns.iter().filter(|c| any(&rows, c)).map(|c| chart(c, &rows)).collect();
    let cell = |row: &Value, column: &String| match spread(&row[column]) {
        Some([median, min, max]) => {
            Cell::number(format!("{} ({} .. {})", page::number(median), page::number(min), page::number(max)))
        }
        None if row[column].is_number() => Cell::number(page::words(&row[column])),
        None => Cell::long(page::words(&row[column])),
    };
    let line = |row: &Value| (is_ok(row), columns.iter().map(|c| cell(row, c)).collect());
    let heading: Vec<&str> = columns.iter().map(|c| c.as_str()).collect();
    let table = page::table(&heading, &list.iter().map(line).collect::<Vec<_>>());
    page::card(field, "", &(charts + &table), true)
}

fn chart(column: &str, rows: &[&Value]) -> String {
    let label = |row: &Value| {
        let of = |f: &str| row[f].as_str().map(str::to_owned);
        of("arm").or_else(|| of("name")).or_else(|| of("scenario")).unwrap_or_else(|| "row".into())
    };
    Bars {
        label: column.into(),
        axis: column.replace('_', " "),
        rows: rows.iter().map(|r| bar(&label(r), r, column, chart::short)).collect(),
        marks: vec![],
        number: chart::short,
    }
    .svg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn whatever_it_is_it_is_shown() {
        let report = json!({ "kind": "new", "results": [
            { "arm": "x", "status": "ok", "speed": { "median": 5, "min": 4, "max": 6 } },
            { "arm": "y", "status": "absent: no y here" } ], "note": "hello" });
        let html = part("new", &report);
        for words in ["absent: no y here", "5.00 (4.00 .. 6.00)", "hello", "<svg"] {
            assert!(html.contains(words), "{words}: {html}");
        }
        assert!(part("empty", &json!({})).contains("<h2>empty</h2>"));
    }
}
