//! The frame of the page, and the pieces of HTML that all parts use.
use serde_json::Value;

const STYLE: &str = include_str!("style.css");

/// Text as text, in elements and in attributes.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

/// A value in words; nothing is a dash.
pub(super) fn words(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(s) => s.clone(),
        Value::Number(n) if n.is_f64() => number(n.as_f64().unwrap_or(f64::NAN)),
        Value::Number(n) => n.as_u64().map_or_else(|| n.to_string(), crate::stats::grouped),
        Value::Array(list) => list.iter().map(words).collect::<Vec<_>>().join(", "),
        Value::Object(map) => map.iter().map(|(k, v)| format!("{k}: {}", words(v))).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// A measured number in as many digits as mean something.
pub(super) fn number(x: f64) -> String {
    match x.abs() {
        0.0 => "0".into(),
        size if size >= 1e4 => crate::stats::grouped(x.abs().round() as u64),
        size if size >= 100.0 => format!("{x:.0}"),
        size if size >= 1.0 => format!("{x:.2}"),
        size if size >= 1e-3 => format!("{x:.4}"),
        _ => format!("{x:.1e}"),
    }
}

/// One cell of a table.
pub(super) struct Cell {
    text: String,
    class: &'static str,
}

impl Cell {
    pub(super) fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), class: "" }
    }

    /// Stands to the right.
    pub(super) fn number(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), class: "n" }
    }

    /// A comparison that speaks for or against us, in its words as well as in colour.
    pub(super) fn compared(text: impl Into<String>, good: Option<bool>) -> Cell {
        let class = match good {
            Some(true) => "n pair met",
            Some(false) => "n pair missed",
            None => "n pair",
        };
        Cell { text: text.into(), class }
    }

    /// Long: may go over several lines.
    pub(super) fn long(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), class: "wrap" }
    }

    /// A verdict, in words as well as in colour.
    pub(super) fn verdict(met: Option<bool>) -> Cell {
        match met {
            Some(true) => Cell { text: "✓ met".into(), class: "met" },
            Some(false) => Cell { text: "✗ missed".into(), class: "missed" },
            None => Cell { text: "not taken".into(), class: "" },
        }
    }
}

/// A table; a row that is not `ok` is set apart.
pub(super) fn table(heading: &[&str], rows: &[(bool, Vec<Cell>)]) -> String {
    let side = |i: usize| rows.iter().any(|(_, r)| r.get(i).is_some_and(|c| c.class.starts_with('n')));
    let head = |(i, h): (usize, &&str)| format!("<th{}>{}</th>", if side(i) { " class=\"n\"" } else { "" }, escape(h));
    let cell = |c: &Cell| match c.class {
        "" => format!("<td>{}</td>", escape(&c.text)),
        class => format!("<td class=\"{class}\">{}</td>", escape(&c.text)),
    };
    let row = |(ok, cells): &(bool, Vec<Cell>)| {
        let class = if *ok { "" } else { " class=\"off\"" };
        format!("<tr{class}>{}</tr>", cells.iter().map(cell).collect::<String>())
    };
    format!(
        "<div class=\"scroll\"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
        heading.iter().enumerate().map(head).collect::<String>(),
        rows.iter().map(row).collect::<String>()
    )
}

/// What is shown when somebody asks.
pub(super) fn details(summary: &str, inside: &str, open: bool) -> String {
    let open = if open { " open" } else { "" };
    format!("<details{open}><summary>{}</summary>{inside}</details>", escape(summary))
}

pub(super) fn card(title: &str, say: &str, inside: &str, wide: bool) -> String {
    let class = if wide { "card wide" } else { "card" };
    let say = if say.is_empty() { String::new() } else { format!("<p class=\"say\">{}</p>", escape(say)) };
    format!("<section class=\"{class}\"><h3>{}</h3>{say}{inside}</section>", escape(title))
}

/// A part of the page.
pub(super) fn part(title: &str, say: &str, cards: &[String]) -> String {
    let say = if say.is_empty() { String::new() } else { format!("<p class=\"say\">{}</p>", escape(say)) };
    format!("<h2>{}</h2>{say}<div class=\"grid\">{}</div>", escape(title), cards.concat())
}

/// What has not been measured, and why.
pub(super) fn missing(why: &str) -> String {
    format!("<p class=\"why\"><b>NOT MEASURED</b>: {}</p>", escape(why))
}

/// `good`, `bad`, `note` or nothing.
pub(super) fn pill(class: &str, text: &str) -> String {
    format!("<span class=\"pill {class}\">{}</span>", escape(text))
}

/// Whether the gate has passed.
pub(super) fn gate(gate: &Value) -> String {
    if gate["passed"] == true {
        return pill("good", &format!("✓ stress gate: {0}/{0}", words(&gate["runs"])));
    }
    pill(
        "bad",
        &format!("✗ stress gate: NOT GATED ({})", gate["why"].as_str().unwrap_or("the report does not say why")),
    )
}

/// Whether the machine was quiet.
pub(super) fn quiet(quiet: &Value) -> String {
    let two = |field: &str| quiet[field].as_f64().map_or_else(|| "unknown".into(), |x| format!("{x:.2}"));
    let figures = format!("load {}, limit {}", two("load1"), two("limit"));
    match quiet["rates"].as_str() {
        Some("measured") => pill("good", &format!("✓ rates: measured on a quiet machine ({figures})")),
        Some("forced") => pill("note", &format!("! rates: FORCED on a busy machine ({figures})")),
        Some("not_measured") => pill("note", &format!("– rates: NOT MEASURED ({figures})")),
        _ => String::new(),
    }
}

/// The whole document.
pub(super) fn document(title: &str, head: &str, body: &str, foot: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{0}</title>\n\
         <style>\n{STYLE}</style></head>\n<body><header><h1>{0}</h1>{head}</header>\n<main>{body}</main>\n\
         <footer>{foot}</footer></body></html>\n",
        escape(title)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_stays_text() {
        let table = table(&["<b>"], &[(false, vec![Cell::text("<script>"), Cell::number("1")])]);
        assert!(table.contains("&lt;b&gt;") && table.contains("&lt;script&gt;") && table.contains("class=\"off\""));
        assert!(table.contains("<td class=\"n\">1</td>"));
    }

    #[test]
    fn gate_and_quiet_say_it_in_words() {
        assert!(gate(&json!({ "passed": true, "runs": 20 })).contains("✓ stress gate: 20/20"));
        assert!(gate(&json!({ "passed": false, "why": "no stamp" })).contains("NOT GATED (no stamp)"));
        assert!(gate(&Value::Null).contains("NOT GATED"));
        let said = |rates: &str| quiet(&json!({ "rates": rates, "load1": 2.5, "limit": 0.8 }));
        assert!(said("measured").contains("measured on a quiet machine (load 2.50, limit 0.80)"));
        assert!(said("forced").contains("FORCED"));
        assert!(said("not_measured").contains("NOT MEASURED"));
    }
}
