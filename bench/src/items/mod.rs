//! `items`: one producer hands N items to a pool of one worker, each touching a counter, a gauge and a statistic.
use crate::alloc::Counted;
use crate::arms::{Arm, Ours};
use crate::check::{self, token};
use crate::os::usage;
use crate::run::PATIENCE;
use crate::session::{self, Check, Common, Session, verdicts};
use crate::stats::{Spread, direction, grouped};
use clap::Args;
use serde_json::{Value, json};
use stat::{Statistic, Summary};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub(crate) mod stat;

/// Items per sample, full and tiny.
const ITEMS: [u32; 2] = [1_000_000, 5_000];
/// Items of one batch.
const BATCH: u64 = 100;
/// What the metrics library tacho is said to take per item when it records in place, in nanoseconds.
const IN_PLACE_NS: f64 = 655.0;
/// Futex wakes per item under saturation.
const WAKES: f64 = 0.01;
/// A lane takes a block per 64 tasks while its backlog grows, which under saturation it does; nothing else may.
const ALLOCATIONS: f64 = 1.0 / 64.0 + 0.001;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Arms, separated by commas; all by default
    #[arg(long, value_delimiter = ',')]
    arms: Vec<String>,
    /// Items per sample
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=16_000_000))]
    items: Option<u32>,
    /// Timed rounds; a warm-up round comes before them
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    samples: u16,
    /// Exit with 1 if a bound is missed
    #[arg(long)]
    gate: bool,
}

/// How an item comes to where it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The producer does it itself.
    Inline,
    /// One task per item.
    Single,
    /// As [`Way::Single`], submitted in batches.
    Batch,
}

#[derive(Debug)]
struct Kind {
    name: &'static str,
    way: Way,
}

static KINDS: [Kind; 3] = [
    Kind { name: "inline", way: Way::Inline },
    Kind { name: "pool-1", way: Way::Single },
    Kind { name: "pool-1-batch", way: Way::Batch },
];

/// What every item touches.
struct Metrics {
    /// Counts in its low bits; the upper ones tell a lost item from one that was counted twice.
    counter: AtomicU64,
    /// The number of the item that came last.
    gauge: AtomicU64,
    /// The age of the items when they were counted, in nanoseconds. There is one worker, so nobody waits for the lock.
    ages: Mutex<Statistic>,
    epoch: Instant,
}

impl Metrics {
    fn new() -> &'static Metrics {
        let (counter, gauge) = Default::default();
        // Never freed: an item that comes late must find it.
        Box::leak(Box::new(Metrics { counter, gauge, ages: Mutex::new(Statistic::new()), epoch: Instant::now() }))
    }

    #[inline(always)]
    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// One item. Relaxed: the drain orders everything before it is read.
    #[inline(always)]
    fn touch(&self, i: u64, made: u64) {
        self.counter.fetch_add(token(i), Relaxed);
        self.gauge.store(i, Relaxed);
        let age = self.now().saturating_sub(made);
        self.ages.lock().expect("recording does not panic").record(age);
    }
}

/// The item as a task: 24 bytes, the pointer and two words.
#[inline(always)]
fn item(metrics: &'static Metrics, i: u64) -> impl FnOnce() + Send + 'static {
    let made = metrics.now();
    move || metrics.touch(i, made)
}

struct Sample {
    wall: Duration,
    cpu_ns: u64,
    wakes: u64,
    allocations: Option<u64>,
    counter: u64,
    ages: Summary,
}

/// Hands all items over, waits for the drain, and checks that each was counted once.
fn sample(pool: &'static Ours, way: Way, items: u64, count_allocations: bool) -> Result<Sample, String> {
    let metrics = Metrics::new();
    let scheduler = pool.scheduler();
    let calls = || pool.syscalls().unwrap_or_default();
    let counted = count_allocations.then(Counted::start);
    let (wakes, used, start) = (calls().wakes, usage(), Instant::now());
    match way {
        Way::Inline => (0..items).for_each(|i| metrics.touch(i, metrics.now())),
        Way::Single => (0..items).for_each(|i| pool.submit(item(metrics, i))),
        Way::Batch => {
            for from in (0..items).step_by(BATCH as usize) {
                let batch = (from..items.min(from + BATCH)).map(|i| item(metrics, i));
                scheduler.submit_batch(batch).map_err(|_| "a batch was refused")?;
            }
        }
    }
    let drained = way == Way::Inline || scheduler.wait_idle(PATIENCE);
    let (wall, cpu_ns) = (start.elapsed(), (usage() - used).cpu_ns);
    let allocations = counted.map(Counted::stop);
    if !drained {
        return Err(format!("not drained within {PATIENCE:?}"));
    }
    let counter = metrics.counter.load(Relaxed);
    check::verify(items, counter)?;
    let ages = metrics.ages.lock().map_err(|e| e.to_string())?.summary().ok_or("no item was recorded")?;
    if ages.count != items || metrics.gauge.load(Relaxed) >= items {
        return Err(format!("{} of {items} items were recorded", ages.count));
    }
    Ok(Sample { wall, cpu_ns, wakes: calls().wakes - wakes, allocations, counter: check::count(counter), ages })
}

struct Row {
    kind: &'static Kind,
    items: u64,
    samples: Vec<Sample>,
    allocations: Option<u64>,
    failed: Option<String>,
}

impl Row {
    fn take(&mut self, sample: Result<Sample, String>, round: usize) {
        match sample {
            Err(why) => self.failed = Some(why),
            Ok(sample) if sample.allocations.is_some() => self.allocations = sample.allocations,
            Ok(_) if round == 0 => {}
            Ok(sample) => self.samples.push(sample),
        }
    }

    fn spread(&self, of: impl Fn(&Sample) -> f64) -> Option<Spread> {
        Spread::of(self.samples.iter().map(of).collect())
    }

    fn rate(&self) -> Option<Spread> {
        self.spread(|s| self.items as f64 / s.wall.as_secs_f64())
    }

    fn cpu(&self) -> Option<Spread> {
        self.spread(|s| s.cpu_ns as f64 / self.items as f64)
    }

    fn wakes(&self) -> Option<f64> {
        self.spread(|s| s.wakes as f64 / self.items as f64).map(|s| s.median)
    }

    fn allocs(&self) -> Option<f64> {
        self.allocations.map(|n| n as f64 / self.items as f64)
    }

    /// The ages of the sample with the median rate.
    fn ages(&self) -> Option<&Summary> {
        let mut by_wall: Vec<&Sample> = self.samples.iter().collect();
        by_wall.sort_by_key(|s| s.wall);
        by_wall.get(by_wall.len() / 2).map(|s| &s.ages)
    }

    fn json(&self, rates: bool) -> Value {
        let spread = |s: Option<Spread>| s.filter(|_| rates).map(|s| s.json());
        let status = self.failed.as_ref().map_or_else(|| "ok".into(), |why| format!("failed: {why}"));
        let why = (!rates).then(|| json!({ "items_per_sec": "NOT MEASURED: the machine was not quiet" }));
        json!({
            "arm": self.kind.name, "items": self.items, "status": status, "why": why.unwrap_or(json!({})),
            "items_per_sec": spread(self.rate()), "cpu_ns_per_item": spread(self.cpu()),
            "wakes_per_item": self.wakes(), "allocs_per_item": self.allocs(),
            "counter": self.samples.first().map(|s| s.counter),
            "statistic": self.ages().filter(|_| rates).map(Summary::json),
        })
    }

    fn line(&self, rates: bool) -> String {
        if let Some(why) = &self.failed {
            return format!("  {:<13} failed: {why}", self.kind.name);
        }
        let number = |n: Option<f64>| n.map_or("-".into(), |n| format!("{n:.5}"));
        let shown = |s: Option<Spread>, unit: f64| {
            let s = s.filter(|_| rates)?;
            Some(format!("{:.2} ({:.2} .. {:.2})", s.median / unit, s.min / unit, s.max / unit))
        };
        let dash = || String::from("-");
        format!(
            "  {:<13} {:>22} {:>26} {:>11} {:>11} {:>10}",
            self.kind.name,
            shown(self.rate(), 1e6).unwrap_or_else(dash),
            shown(self.cpu(), 1.0).unwrap_or_else(dash),
            number(self.wakes()),
            number(self.allocs()),
            self.samples.first().map_or_else(dash, |s| grouped(s.counter))
        )
    }
}

fn table(rows: &[Row], items: u64, rates: bool) -> String {
    let mut out = format!("\nitems: {} per sample, one producer, one worker\n", grouped(items));
    if !rates {
        out += "  rates, CPU time and ages: NOT MEASURED\n";
    }
    out += &format!(
        "  {:<13} {:>22} {:>26} {:>11} {:>11} {:>10}\n",
        "arm", "M items/s", "CPU ns/item", "wakes/item", "allocs/item", "counter"
    );
    rows.iter().for_each(|r| out += &(r.line(rates) + "\n"));
    let inline = rows.iter().find(|r| r.kind.way == Way::Inline).and_then(Row::cpu);
    for row in rows.iter().filter(|_| rates) {
        if let Some(a) = row.ages() {
            out += &format!(
                "  {:<13} ages in ns: count {} min {} max {} mean {:.1} stddev {:.1} p50 {} p90 {} p95 {} p99 {} \
                 p999 {} p9999 {}\n",
                row.kind.name, a.count, a.min, a.max, a.mean, a.stddev, a.p50, a.p90, a.p95, a.p99, a.p999, a.p9999
            );
        }
        if let (Some(inline), Some(own), true) = (&inline, row.cpu(), row.kind.way != Way::Inline) {
            let ratio = inline.median / own.median;
            out +=
                &format!("  {:<13} {} in CPU time than inline\n", row.kind.name, direction(ratio, "cheaper", "dearer"));
        }
    }
    out
}

fn checks(rows: &[Row], rates: bool, why: Option<&str>) -> Vec<Check> {
    let pools = rows.iter().filter(|r| r.kind.way != Way::Inline && r.failed.is_none());
    let of = |row: &Row| {
        let what = |count: &str| format!("{}: {count}", row.kind.name);
        let cpu = row.cpu().filter(|_| rates).map(|s| s.median);
        [
            Check::at_most(what("futex wakes per item"), row.wakes(), WAKES),
            Check::at_most(what("allocations per item"), row.allocs(), ALLOCATIONS),
            Check::at_most(what("CPU ns per item"), cpu, IN_PLACE_NS).because(why),
        ]
    };
    pools.flat_map(of).collect()
}

/// Runs the command; the exit code says whether every item was counted once, and with `--gate` whether the bounds
/// hold.
pub(crate) fn main(options: &Options) -> Result<ExitCode, String> {
    let kinds = crate::args::choose("arm", &KINDS, |k| k.name, |k, word| k.name == word, |_| true, &options.arms)?;
    let pool: &'static Ours = Box::leak(Box::new(Ours::with(1, |b| b)?));
    let session = Session::begin("items", &options.common, 1)?;
    let items = u64::from(options.items.unwrap_or(ITEMS[usize::from(session.tiny)]));
    let rounds = usize::from(options.samples);
    session.bar.set_length((kinds.len() * (rounds + 2)) as u64);
    let row = |&kind: &&'static Kind| Row { kind, items, samples: vec![], allocations: None, failed: None };
    let mut rows: Vec<Row> = kinds.iter().map(row).collect();
    // The last round counts allocations, and is not timed.
    for round in 0..=rounds + 1 {
        for row in &mut rows {
            session.step(format!("{} · round {round}/{}", row.kind.name, rounds + 1));
            if row.failed.is_none() {
                row.take(sample(pool, row.kind.way, items, round > rounds), round);
            }
        }
    }
    let rates = session.rates();
    session.say(&table(&rows, items, rates));
    let (text, json, missed) = verdicts(&checks(&rows, rates, session.no_rates()));
    session.say(&format!("checks\n{text}"));
    let failed = rows.iter().filter(|r| r.failed.is_some()).count();
    let results: Vec<Value> = rows.iter().map(|r| r.json(rates)).collect();
    session.finish(json!({ "items": items, "samples": rounds, "results": results, "checks": json }))?;
    Ok(session::ended(failed, rows.len(), missed && options.gate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_counts_every_item_once() {
        let pool: &'static Ours = Box::leak(Box::new(Ours::with(1, |b| b).unwrap()));
        for kind in &KINDS {
            let seen = sample(pool, kind.way, 1_234, true).unwrap();
            assert_eq!((seen.counter, seen.ages.count), (1_234, 1_234), "{}", kind.name);
            assert!(seen.allocations.is_some());
        }
    }

    #[test]
    fn a_missed_bound_is_told() {
        let ages = Summary { count: 100, ..Summary::default() };
        let seen =
            Sample { wall: Duration::from_secs(1), cpu_ns: 70_000, wakes: 2, allocations: None, counter: 100, ages };
        let row = Row { kind: &KINDS[1], items: 100, samples: vec![seen], allocations: Some(100), failed: None };
        let met =
            |rates| checks(std::slice::from_ref(&row), rates, Some("busy")).iter().map(Check::met).collect::<Vec<_>>();
        assert_eq!(met(true), [Some(false), Some(false), Some(false)]);
        assert_eq!(met(false), [Some(false), Some(false), None]);
    }
}
