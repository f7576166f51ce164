//! Futures, timers and I/O: a card per scenario.
use super::super::chart::{self, Bars};
use super::super::page::{self, Cell};
use super::{any, bar, checks, is_ok, name, ns, per_second, reason, rows};
use serde_json::Value;

pub(in super::super) fn part(report: &Value) -> String {
    let all = rows(report, "results");
    let mut scenarios: Vec<&str> = all.iter().map(|r| name(r, "scenario")).collect();
    scenarios.dedup();
    let card = |scenario: &str| {
        let list: Vec<&Value> = all.iter().filter(|r| name(r, "scenario") == scenario).collect();
        card(scenario, &list)
    };
    let mut cards: Vec<String> = scenarios.into_iter().map(card).collect();
    let bounds = rows(report, "checks");
    if !bounds.is_empty() {
        cards.push(page::card("Targets", "", &checks(bounds), true));
    }
    let say = "On our scheduler and on other runtimes, interleaved. CPU time is that of the process that serves.";
    page::part("Futures, timers and I/O", say, &cards)
}

fn card(scenario: &str, list: &[&Value]) -> String {
    let unit = list.first().map_or("operation", |r| name(r, "unit"));
    let bars = |field: &str, axis: String, number: fn(f64) -> String| {
        if !any(list, field) {
            let why = list.first().map_or_else(String::new, |r| reason(r, field));
            return page::missing(&why);
        }
        let rows = list.iter().map(|r| bar(name(r, "arm"), r, field, number)).collect();
        Bars { label: axis.clone(), axis, rows, marks: vec![], number }.svg()
    };
    let cpu = bars("cpu_ns_per_op", format!("CPU time per {unit} · less is better"), ns);
    let rate = bars("ops_per_sec", format!("{unit}s per second · more is better"), per_second);
    let line = |row: &&Value| {
        let mut cells = vec![Cell::text(name(row, "arm"))];
        let at = |p: &str| Cell::number(row["latency_ns"][p].as_f64().map_or_else(|| "-".into(), ns));
        cells.extend(["p50", "p99", "max"].map(at));
        let counts = ["syscalls_per_op", "allocs_per_op", "ctx_switches_per_op"];
        cells.extend(counts.map(|f| Cell::number(row[f].as_f64().map_or_else(|| "-".into(), count))));
        let parts = row["parts"].as_object().into_iter().flatten();
        let mut remarks: Vec<String> = parts.map(|(n, v)| format!("{n} {}", page::words(&v["median"]))).collect();
        if !is_ok(row) {
            remarks.push(reason(row, "cpu_ns_per_op"));
        }
        cells.push(Cell::long(remarks.join(", ")));
        (is_ok(row), cells)
    };
    let heading = ["arm", "p50", "p99", "max", "syscalls", "allocs", "switches", "remark"];
    let table = page::table(&heading, &list.iter().map(line).collect::<Vec<_>>());
    page::card(scenario, "", &(cpu + &rate + &table), false)
}

/// Counts per operation: a few per thousand are not none.
fn count(x: f64) -> String {
    if x.abs() >= 1.0 || x == 0.0 { chart::three(x) } else { format!("{x:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_scenario_has_a_card_with_its_gaps() {
        let spread = json!({ "median": 50, "min": 40, "max": 60 });
        let html = part(&json!({ "results": [
            { "scenario": "spawn_flood", "arm": "scheduler", "unit": "task", "status": "ok", "cpu_ns_per_op": spread,
              "ops_per_sec": null, "why": { "ops_per_sec": "NOT MEASURED: busy" }, "syscalls_per_op": 0.0035 },
            { "scenario": "spawn_flood", "arm": "tokio", "unit": "task", "status": "failed: lost one" },
            { "scenario": "timers_pending", "arm": "scheduler", "unit": "timer", "status": "ok",
              "parts": { "set_cpu_ns": spread }, "latency_ns": { "p50": 1500, "p99": 2000, "max": 9000 } }],
            "checks": [{ "name": "a bound", "bound": 0.2, "value": 0.1, "met": true }] }));
        for words in ["spawn_flood", "failed: lost one", "NOT MEASURED", "0.0035", "set_cpu_ns 50", "1.5 us", "✓ met"]
        {
            assert!(html.contains(words), "{words}: {html}");
        }
    }
}
