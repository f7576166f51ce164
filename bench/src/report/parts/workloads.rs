//! Wake-ups, skew, items, latencies of the own pool, load.
use super::super::chart::{self, Bar, Bars, Line, Lines, Mark, Point, Tone};
use super::super::page::{self, Cell};
use super::{any, bar, checks, is_ok, name, ns, reason, rows};
use serde_json::Value;

/// The checks of a report, if it has any, and what it says in other words.
fn rest(report: &Value, mut cards: Vec<String>, title: &str, say: &str) -> String {
    let bounds = rows(report, "checks");
    if !bounds.is_empty() {
        cards.push(page::card("Checks", "", &checks(bounds), true));
    }
    page::part(title, say, &cards)
}

/// Bars of one field, or why there are none.
fn chart(
    report: &Value,
    list: &[&Value],
    field: &str,
    axis: &str,
    label: impl Fn(&Value) -> String,
    number: fn(f64) -> String,
) -> String {
    if !any(list, field) {
        let why = list.first().map_or_else(String::new, |r| reason(r, field));
        return page::missing(report["quiet"]["why"].as_str().unwrap_or(&why));
    }
    let one = |row: &&Value| Bar { tone: Tone::of_arm(name(row, "arm")), ..bar(&label(row), row, field, number) };
    let rows = list.iter().map(one).collect();
    Bars { label: axis.into(), axis: axis.into(), rows, marks: vec![], number }.svg()
}

pub(in super::super) fn wakeup(report: &Value) -> String {
    let all = rows(report, "results");
    let mut sizes: Vec<u64> = all.iter().filter_map(|r| r["workers"].as_u64()).collect();
    sizes.dedup();
    let label = |r: &Value| name(r, "arm").to_owned();
    let card = |workers: &u64| {
        let list: Vec<&Value> = all.iter().filter(|r| r["workers"].as_u64() == Some(*workers)).collect();
        let parts = [
            ("wall_ns", "time per wake-up · less is better", chart::time as fn(f64) -> String),
            ("cpu_ns", "CPU time per wake-up · less is better", chart::time),
            ("switches", "context switches per wake-up · less is better", chart::three),
        ];
        let mut inside: String =
            parts.iter().map(|(f, axis, number)| chart(report, &list, f, axis, label, *number)).collect();
        inside += &calls(&list);
        page::card(&format!("{workers} workers"), "", &inside, false)
    };
    let cards = sizes.iter().map(card).collect();
    rest(report, cards, "Serial wake-up", "One task, wait for it, the next. Bars: p50; whiskers from p0 to p100.")
}

/// System calls by an arm's own account, or as a tracer has counted them.
fn calls(list: &[&Value]) -> String {
    let one = |row: &&Value| {
        let own = bar(name(row, "arm"), row, "syscalls", chart::three);
        match row["syscalls_traced"].as_f64().filter(|_| own.value.is_none()) {
            Some(traced) => Bar { value: Some([traced; 3]), text: format!("{} traced", chart::three(traced)), ..own },
            None => own,
        }
    };
    let axis: String = "system calls per wake-up · less is better".into();
    let rows = list.iter().map(one).collect();
    Bars { label: axis.clone(), axis, rows, marks: vec![], number: chart::three }.svg()
}

pub(in super::super) fn items(report: &Value) -> String {
    let list: Vec<&Value> = rows(report, "results").iter().collect();
    let label = |r: &Value| name(r, "arm").to_owned();
    let rate = chart(report, &list, "items_per_sec", "items per second · more is better", label, chart::short);
    let cpu = chart(report, &list, "cpu_ns_per_item", "CPU time per item · less is better", label, chart::time);
    let line = |row: &&Value| {
        let s = &row["statistic"];
        let mut cells = vec![Cell::text(label(row))];
        cells.extend(["wakes_per_item", "allocs_per_item"].map(|f| Cell::number(page::words(&row[f]))));
        let at = ["mean", "p50", "p90", "p99", "p999", "p9999", "max"];
        cells.extend(at.map(|f| Cell::number(s[f].as_f64().map_or_else(|| "-".into(), ns))));
        cells.push(Cell::long(if is_ok(row) { String::new() } else { reason(row, "items_per_sec") }));
        (is_ok(row), cells)
    };
    let heading = ["arm", "wakes/item", "allocs/item", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max", "remark"];
    let table = page::table(&heading, &list.iter().map(line).collect::<Vec<_>>());
    let cards = vec![
        page::card("Rate", "", &rate, false),
        page::card("CPU time", "", &cpu, false),
        page::card("Statistics", "", &table, true),
    ];
    rest(report, cards, "Items", "One producer; each item touches a counter, a gauge and a statistic.")
}

pub(in super::super) fn load(report: &Value) -> String {
    let list: Vec<&Value> = rows(report, "results").iter().collect();
    let label = |r: &Value| name(r, "arm").to_owned();
    let rate = chart(report, &list, "tasks_per_sec", "tasks per second · more is better", label, chart::short);
    let lines = list.iter().filter_map(|row| {
        let l = &row["latency_ns"];
        let at = ["p50", "p90", "p99", "max"];
        let points = at.iter().enumerate().map(|(i, p)| Some(Point { x: i as f64, y: l[*p].as_f64()?, range: None }));
        Some(Line { name: label(row), points: points.collect::<Option<_>>()? })
    });
    let ticks = ["p50", "p90", "p99", "max"].iter().enumerate().map(|(i, p)| (i as f64, (*p).to_owned())).collect();
    let curves = curve(report, lines.collect(), ticks, "share of tasks");
    let line = |row: &&Value| {
        let mut cells = vec![Cell::text(label(row))];
        let fields = ["workers", "tasks", "allocs_per_task", "dropped"];
        cells.extend(fields.map(|f| Cell::number(page::words(&row[f]))));
        cells.push(Cell::number(super::spread(&row["cpu_ns_per_task"]).map_or_else(|| "-".into(), |c| ns(c[0]))));
        cells.push(Cell::long(if is_ok(row) { String::new() } else { reason(row, "tasks_per_sec") }));
        (is_ok(row), cells)
    };
    let heading = ["arm", "workers", "tasks", "allocs/task", "dropped", "CPU/task", "remark"];
    let table = page::table(&heading, &list.iter().map(line).collect::<Vec<_>>());
    let cards = vec![
        page::card("Rate", "", &rate, false),
        page::card("Latency", "", &curves, false),
        page::card("Figures", "", &table, true),
    ];
    let say = format!(
        "{} submitters, each with {} tasks in flight, bodies of {} ns, for a fixed time; the warm-up is left out.",
        page::words(&report["submitters"]),
        page::words(&report["window"]),
        page::words(&report["body_ns"])
    );
    rest(report, cards, "Load", &say)
}

fn curve(report: &Value, lines: Vec<Line>, x_ticks: Vec<(f64, String)>, x_axis: &str) -> String {
    if lines.is_empty() {
        return page::missing(report["quiet"]["why"].as_str().unwrap_or("no latency was taken"));
    }
    Lines {
        label: "latency by percentile".into(),
        x_axis: x_axis.into(),
        y_axis: "latency, logarithmic · less is better".into(),
        x_log: false,
        y_log: true,
        x_ticks,
        x_number: chart::three,
        y_number: chart::time,
        lines,
    }
    .svg()
}

pub(in super::super) fn realistic(report: &Value) -> String {
    let all = rows(report, "results");
    // Each nine gets the same room: 90 % is 1, 99 % is 2.
    let nines = |percentile: f64| -((100.0 - percentile).max(1e-3) / 100.0).log10();
    let line = |row: &Value| {
        let pairs = rows(row, "curve").iter();
        let points = pairs.filter_map(|p| Some(Point { x: nines(p[0].as_f64()?), y: p[1].as_f64()?, range: None }));
        let points: Vec<Point> = points.collect();
        (!points.is_empty() && is_ok(row)).then(|| Line { name: name(row, "scenario").into(), points })
    };
    let lines: Vec<Line> = all.iter().filter_map(line).collect();
    let ticks = [50.0, 90.0, 99.0, 99.9, 99.99].map(|p| (nines(p), format!("{p} %"))).into();
    let curves = curve(report, lines, ticks, "share of tasks that were done by then");
    let row = |row: &Value| {
        let l = &row["latency_ns"];
        let mut cells = vec![Cell::text(name(row, "scenario"))];
        cells.extend(["p50", "p95", "p99", "max"].map(|p| Cell::number(l[p].as_f64().map_or_else(|| "-".into(), ns))));
        cells.extend(["futex_per_task", "ctx_switches_per_task"].map(|f| Cell::number(page::words(&row[f]))));
        cells.push(Cell::long(if is_ok(row) { String::new() } else { reason(row, "latency_ns") }));
        (is_ok(row), cells)
    };
    let heading = ["scenario", "p50", "p95", "p99", "max", "futex/task", "switches/task", "remark"];
    let table = page::table(&heading, &all.iter().map(row).collect::<Vec<_>>());
    let cards = vec![page::card("Latency curves", "", &curves, false), page::card("Figures", "", &table, true)];
    rest(report, cards, "Latency of the own pool", "From the call of submit to the end of the body.")
}

pub(in super::super) fn skew(report: &Value) -> String {
    let cards = rows(report, "results").iter().map(skew_card).collect();
    let say = "Few long tasks, all submitted from one worker: how much longer than the ideal it takes. The control \
               does not steal and must come out at the number of workers.";
    rest(report, cards, "Skew", say)
}

fn skew_card(row: &Value) -> String {
    let title = format!("{} workers, {} tasks", page::words(&row["workers"]), page::words(&row["tasks"]));
    let runs = rows(row, "runs");
    let one = |(i, run): (usize, &Value), field: &str, what: &str, tone| {
        let value = run[field].as_f64();
        let text = value.map_or_else(|| reason(row, field), chart::three);
        Bar { name: format!("{what} {}", i + 1), tone, value: value.map(|v| [v; 3]), text }
    };
    let mut bars: Vec<Bar> = runs.iter().enumerate().map(|r| one(r, "ratio", "run", Tone::Ours)).collect();
    bars.extend(runs.iter().enumerate().map(|r| one(r, "control_ratio", "control", Tone::Bound)));
    let mark = |at: f64| Mark { at, text: at.to_string() };
    let svg = if bars.is_empty() {
        page::missing(&reason(row, "runs"))
    } else {
        let axis = "wall time / ideal · less is better".into();
        let marks = vec![mark(1.5), mark(2.0)];
        Bars { label: "ratio to the ideal, per run".into(), axis, rows: bars, marks, number: chart::three }.svg()
    };
    let median = &row["median"];
    let share = median["stolen_share"].as_f64().map_or_else(|| "-".into(), |s| format!("{:.0} %", 100.0 * s));
    let said = format!(
        "<p>median: ratio {}, {}; stolen {share}</p>",
        page::words(&median["ratio"]),
        page::escape(&page::words(&median["verdict"]))
    );
    page::card(&title, "", &(svg + &said + &histogram(row)), false)
}

/// How long a worker's own queue was each time it took a task.
fn histogram(row: &Value) -> String {
    let list = rows(row, "histogram");
    let buckets = list.iter().filter_map(Value::as_array).map(Vec::len).max().unwrap_or(0);
    if buckets == 0 {
        return String::new();
    }
    let name = |b: usize| match b {
        0 => "0".into(),
        1 => "1".into(),
        b => format!("{}-{}", 1u64 << (b - 1), (1u64 << b) - 1),
    };
    let names: Vec<String> = std::iter::once("worker".into()).chain((0..buckets).map(name)).collect();
    let line = |(i, counts): (usize, &Value)| {
        let mut cells = vec![Cell::text(i.to_string())];
        cells.extend((0..buckets).map(|b| Cell::number(page::words(&counts[b]))));
        (true, cells)
    };
    let heading: Vec<&str> = names.iter().map(String::as_str).collect();
    let lines: Vec<_> = list.iter().enumerate().map(line).collect();
    page::details("length of the own queue at each take", &page::table(&heading, &lines), false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_kind_shows_its_rows_and_its_gaps() {
        let p = json!({ "p0": 1, "p50": 2, "p100": 3 });
        let html = wakeup(&json!({ "results": [
            { "arm": "scheduler-spin0", "workers": 4, "spin": "0", "status": "ok",
              "wall_ns": p, "syscalls": p, "cpu_ns": p, "switches": p },
            { "arm": "channel", "workers": 4, "status": "ok", "syscalls": null, "syscalls_traced": 4.25 },
            { "arm": "cond-signal", "workers": 4, "status": "failed: lost one" }],
            "checks": [{ "name": "calls", "bound": 4.05, "value": 4.0, "met": true }] }));
        assert!(
            html.contains("scheduler-spin0")
                && html.contains("4.25 traced")
                && html.contains("failed: lost one")
                && html.contains("✓ met"),
            "{html}"
        );
        let html = items(&json!({ "results": [{ "arm": "pool-1", "status": "ok", "items_per_sec": null,
            "statistic": { "p50": 120 } }], "quiet": { "why": "load 9" } }));
        assert!(html.contains("NOT MEASURED") && html.contains("load 9") && html.contains("120 ns"), "{html}");
        let html = realistic(&json!({ "results": [
            { "scenario": "cpu_work_10us", "status": "ok", "curve": [[50, 100], [99, 900]] },
            { "scenario": "lane_isolation_1", "status": "absent: no lanes yet" }] }));
        assert!(html.contains("<circle") && html.contains("absent: no lanes yet"), "{html}");
        let html = skew(&json!({ "results": [{ "workers": 4, "tasks": 64, "status": "ok",
            "runs": [{ "ratio": 1.2, "control_ratio": 4.0 }], "histogram": [[1, 2, 3]],
            "median": { "ratio": 1.2, "verdict": "PASS", "stolen_share": 0.5 } }] }));
        assert!(html.contains("control 1") && html.contains("PASS") && html.contains("2-3"), "{html}");
        let html = load(&json!({ "submitters": 3, "results": [{ "arm": "scheduler", "status": "ok", "dropped": 0,
            "latency_ns": { "p50": 1, "p90": 2, "p99": 3, "max": 4 }, "tasks_per_sec": null }] }));
        assert!(html.contains("<circle") && html.contains("NOT MEASURED"), "{html}");
        assert!(html.contains("3 submitters"), "{html}");
    }
}
