//! Rows with their targets, as text for people and one line of JSON for programs.
use serde_json::{Value, json};

/// What a value has to be.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    AtMost(f64),
    Below(f64),
}

impl Target {
    fn limit(self) -> f64 {
        match self {
            Target::AtMost(limit) | Target::Below(limit) => limit,
        }
    }

    fn met(self, value: f64) -> bool {
        match self {
            Target::AtMost(limit) => value <= limit,
            Target::Below(limit) => value < limit,
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Target::AtMost(_) => "<=",
            Target::Below(_) => "<",
        }
    }
}

/// A value with its target.
pub(crate) struct Verdict {
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) target: Target,
}

impl Verdict {
    fn said(&self) -> &'static str {
        if self.target.met(self.value) { "met" } else { "MISSED" }
    }

    fn json(&self) -> Value {
        json!({
            "what": self.what, "value": self.value, "unit": self.unit,
            "target": format!("{} {}", self.target.sign(), self.target.limit()), "met": self.target.met(self.value),
        })
    }
}

/// One line of a figure.
pub(crate) struct Row {
    pub(crate) case: String,
    /// For people, what `facts` says.
    pub(crate) detail: String,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) facts: Value,
}

/// Prints the rows, and the line of JSON that has them all.
pub(crate) fn print(figure: &str, rows: &[Row], quick: bool, load: [f64; 3]) {
    let width = |text: fn(&Row) -> &str| rows.iter().map(|row| text(row).chars().count()).max().unwrap_or(0);
    let (cases, details) = (width(|row| &row.case), width(|row| &row.detail));
    let note = if quick { ", QUICK RUN: shows that it works, measures nothing" } else { "" };
    println!("{figure} (load {:.2}{note})", load[0]);
    for row in rows {
        let verdict = row.verdict.as_ref().map_or(String::new(), |v| {
            let (value, limit) = (number(v.value), number(v.target.limit()));
            format!("{} {value} {} (target {} {limit}): {}", v.what, v.unit, v.target.sign(), v.said())
        });
        let line = format!("  {:cases$}  {:details$}  {verdict}", row.case, row.detail);
        println!("{}", line.trim_end());
    }
    let row_json = |row: &Row| {
        let verdict = row.verdict.as_ref().map(Verdict::json);
        json!({ "case": row.case, "verdict": verdict, "facts": row.facts })
    };
    let rows: Vec<Value> = rows.iter().map(row_json).collect();
    println!("{}", json!({ "figure": figure, "quick": quick, "load_before": load, "rows": rows }));
    println!();
}

/// Three decimals where they matter, none where the number is whole.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}
