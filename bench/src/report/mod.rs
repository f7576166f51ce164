//! `report`: from JSON to one page that opens without a server.
use crate::{output, paths};
use clap::Args;
use page::{Cell, words};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod chart;
mod page;
mod parts;

#[derive(Args, Clone, Debug)]
pub(crate) struct Report {
    /// Reports in JSON, of any subcommand; several of `compare` make a history
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The page; by default `bench/report.html` in the target folder
    #[arg(long)]
    out: Option<PathBuf>,
}

/// The order of the parts.
const ORDER: [&str; 10] = ["ab", "compare", "counts", "io", "scale", "wakeup", "skew", "items", "realistic", "load"];

/// A report and where it came from.
struct Source {
    name: String,
    kind: String,
    report: Value,
}

impl Source {
    fn new(path: &Path, report: Value) -> Result<Source, String> {
        let kind = kind(&report).ok_or_else(|| format!("{}: not a report of this program", path.display()))?;
        let name = path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
        Ok(Source { name, kind, report })
    }

    fn date(&self) -> &str {
        self.report["host"]["date"].as_str().unwrap_or("")
    }
}

/// What it says it is, or what it looks like.
fn kind(report: &Value) -> Option<String> {
    let looks = |field: &str| report[field].is_array();
    match report["kind"].as_str() {
        Some(kind) => Some(kind.to_owned()),
        None if looks("results") => Some("compare".into()),
        None if looks("paths") => Some("counts".into()),
        None => None,
    }
}

/// Runs the command.
pub(crate) fn main(options: &Report) -> Result<ExitCode, String> {
    let read = |path: &PathBuf| Source::new(path, output::read_json(path)?);
    let sources: Vec<Source> = options.files.iter().map(read).collect::<Result<_, String>>()?;
    let out = options.out.clone().unwrap_or_else(|| paths::target().join("bench/report.html"));
    output::write(&out, &page_of(sources))?;
    println!("written: {}", out.display());
    Ok(ExitCode::SUCCESS)
}

/// The page beside a report that has just been written; `None` where the report is no ordinary file.
pub(crate) fn beside(json: &Path, report: &Value) -> Result<Option<PathBuf>, String> {
    if !json.is_file() {
        return Ok(None);
    }
    let out = json.with_extension("html");
    if out == json {
        // Whoever calls the JSON a page gets the JSON.
        return Ok(None);
    }
    output::write(&out, &page_of(vec![Source::new(json, report.clone())?]))?;
    Ok(Some(out))
}

fn page_of(mut sources: Vec<Source>) -> String {
    sources.sort_by(|a, b| a.date().cmp(b.date()));
    let compared: Vec<&Value> = sources.iter().filter(|s| s.kind == "compare").map(|s| &s.report).collect();
    let last = |kind: &str| sources.iter().rposition(|s| s.kind == kind);
    let repeated = |s: &Source| ["compare", "counts"].contains(&s.kind.as_str());
    let mut shown: Vec<&Source> = sources
        .iter()
        .enumerate()
        .filter(|(i, s)| !repeated(s) || last(&s.kind) == Some(*i))
        .map(|(_, source)| source)
        .collect();
    shown.sort_by_key(|s| ORDER.iter().position(|kind| *kind == s.kind).unwrap_or(ORDER.len()));
    let mut body: String = shown.into_iter().map(part).collect();
    if compared.len() > 1 {
        body += &parts::history::part(&compared);
    }
    let head: String = sources.iter().rev().map(|s| head(s, sources.len() > 1)).collect();
    let foot = "<p>Everything on this page is in the JSON it was made from; nothing is estimated or carried over.</p>";
    page::document("Scheduler benchmarks", &head, &body, foot)
}

fn part(source: &Source) -> String {
    let report = &source.report;
    match source.kind.as_str() {
        "compare" => parts::compare::part(report),
        "counts" => parts::counts::part(report),
        "ab" => parts::ab::part(report),
        "scale" => parts::scale::part(report),
        "wakeup" => parts::workloads::wakeup(report),
        "skew" => parts::workloads::skew(report),
        "items" => parts::workloads::items(report),
        "realistic" => parts::workloads::realistic(report),
        "load" => parts::workloads::load(report),
        "io" => parts::io::part(report),
        other => parts::generic::part(other, report),
    }
}

/// What the figures of one report stand on.
fn head(source: &Source, several: bool) -> String {
    let host = &source.report["host"];
    let commit: String = words(&host["commit"]).chars().take(12).collect();
    let mut line = format!("{} · commit {commit} · {}", source.kind, words(&host["date"]));
    if several {
        line = format!("{} · {line}", source.name);
    }
    let mut pills = page::gate(&source.report["gate"]) + &page::quiet(&source.report["quiet"]);
    if host["dirty"] == true {
        pills += &page::pill("bad", "✗ dirty: not what the commit says");
    }
    if source.report["tiny"] == true {
        pills += &page::pill("bad", "✗ TINY sizes: the figures mean nothing");
    }
    let facts = host.as_object().into_iter().flatten();
    let rows: Vec<_> =
        facts.map(|(f, v)| (true, vec![Cell::text(f.replace('_', " ")), Cell::long(words(v))])).collect();
    let machine =
        format!("{}, {} workers, kernel {}", words(&host["cpu"]), words(&host["workers"]), words(&host["kernel"]));
    format!(
        "<div class=\"source\"><p class=\"sub\">{}</p><div class=\"pills\">{pills}</div>{}</div>",
        page::escape(&line),
        page::details(&machine, &page::table(&["what", "value"], &rows), false)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn source(name: &str, report: Value) -> Source {
        Source::new(Path::new(name), report).unwrap()
    }

    fn compare(date: &str, median: f64) -> Value {
        let rate = json!({ "median": median, "min": median, "max": median });
        json!({ "kind": "compare", "host": { "date": date, "commit": "0123456789abcdef", "dirty": true }, "tiny": true,
                "gate": { "passed": false, "why": "no stamp" },
                "quiet": { "rates": "forced", "load1": 3.0, "limit": 0.8 },
                "results": [{ "scenario": "flood_1m", "arm": "scheduler", "status": "ok", "tasks_per_sec": rate }] })
    }

    #[test]
    fn a_page_stands_alone_and_says_what_it_stands_on() {
        let html = page_of(vec![source("a.json", compare("2026-11-30", 4e7))]);
        for words in ["NOT GATED (no stamp)", "FORCED", "dirty", "TINY", "commit 0123456789ab", "flood_1m", "40 M/s"] {
            assert!(html.contains(words), "{words}");
        }
        for outside in ["http://", "https://", "src=", "<script", "<link", "url("] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(!html.contains("<h2>History"), "one report is no history");
    }

    #[test]
    fn several_reports_make_a_history_in_the_order_of_their_dates() {
        let later = source("b.json", compare("2026-12-01", 5e7));
        let html = page_of(vec![later, source("a.json", compare("2026-11-30", 4e7))]);
        assert!(html.contains("<h2>History") && html.find("b.json").unwrap() < html.find("a.json").unwrap());
        assert_eq!(html.matches("<h2>Scenarios").count(), 1, "only the last one in full");
        assert!(html.contains("50 M/s"));
    }

    #[test]
    fn what_is_no_report_is_refused() {
        assert!(Source::new(Path::new("x.json"), json!([1, 2])).err().unwrap().contains("x.json: not a report"));
        assert_eq!(kind(&json!({ "paths": [] })).as_deref(), Some("counts"));
    }
}
