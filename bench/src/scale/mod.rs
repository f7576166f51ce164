//! `scale`: what a task costs as submitters, workers, queued tasks and their length vary, one at a time.
use crate::arms::{self, Ours, Trouble};
use crate::scenario::Scenario;
use crate::session::{self, Check, Common, Session, verdicts};
use crate::{counts, host};
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;

mod depth;
mod metg;
mod sweep;

use sweep::{Plan, Player, Point, Series};

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Arms, separated by commas; the depth and the instructions are those of our own pool only
    #[arg(long, value_delimiter = ',')]
    arms: Vec<String>,
    /// Workers where they are not what is varied; by default as many as there are usable CPUs
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=512))]
    workers: Option<u16>,
    /// Samples per point; a warm-up comes before them
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    samples: u16,
    /// Fewer points
    #[arg(long)]
    quick: bool,
    /// Do not count instructions, which takes minutes
    #[arg(long)]
    no_instructions: bool,
    /// Exit with 1 if a bound is missed
    #[arg(long)]
    gate: bool,
}

const ARMS: [&str; 4] = ["scheduler", "tokio", "rayon", "channel"];
/// CPU time per task may differ so much between numbers of submitters, and instructions between depths and workers.
const FLAT_SUBMITTERS: f64 = 0.20;
const FLAT_INSTRUCTIONS: f64 = 0.02;

/// How many points, and how large they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    Full,
    Quick,
    Tiny,
}

impl Size {
    fn pick<const F: usize, const Q: usize>(self, full: [u64; F], quick: [u64; Q], tiny: [u64; 2]) -> Vec<u64> {
        match self {
            Size::Full => full.into(),
            Size::Quick => quick.into(),
            Size::Tiny => tiny.into(),
        }
    }

    fn submitters(self) -> Plan {
        // Enough for every one of 64 submitters to outweigh its own start.
        let tasks = if self == Size::Tiny { 640 } else { 1_280_000 };
        let at = self.pick([1, 2, 4, 8, 16, 32, 64], [1, 4, 16, 64], [1, 2]).into_iter().map(|x| (x, tasks, x, 0));
        Plan { name: "submitters", unit: "submitters", at: at.collect() }
    }

    fn workers(self) -> Vec<u64> {
        self.pick([1, 2, 4, 8, 16], [1, 2, 4], [1, 2])
    }

    /// One sweep per number of workers, because each needs pools of its own.
    fn with_workers(self, workers: u64) -> Plan {
        let tasks = if self == Size::Tiny { 500 } else { 200_000 };
        Plan { name: "workers", unit: "workers", at: vec![(workers, tasks, 1, 0)] }
    }

    fn depths(self) -> Vec<u64> {
        self.pick([1_000, 10_000, 100_000, 1_000_000, 10_000_000], [1_000, 100_000, 1_000_000], [100, 500])
    }

    fn lengths(self, workers: usize) -> Plan {
        const FULL: [u64; 16] = [
            0, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
        ];
        let lengths = self.pick(FULL, [0, 20, 50, 100, 500, 2_000, 10_000, 100_000], [0, 1_000]);
        // A tenth of a second of work for every worker, within what is enough and what is too much.
        let (work, most) = (100_000_000 * workers as u64, if self == Size::Tiny { 200 } else { 200_000 });
        let tasks = |ns: u64| work.checked_div(ns).unwrap_or(most).clamp(200, most);
        Plan { name: "length_ns", unit: "body ns", at: lengths.into_iter().map(|x| (x, tasks(x), 1, x)).collect() }
    }
}

fn players(kinds: &[&'static arms::Kind], workers: usize) -> Vec<Player> {
    kinds.iter().map(|kind| Player { arm: kind.name, runner: kind.build(workers) }).collect()
}

/// One series per arm out of the sweeps of single points.
fn merged(parts: Vec<Vec<Series>>) -> Vec<Series> {
    let mut out: Vec<Series> = vec![];
    for series in parts.into_iter().flatten() {
        match out.iter_mut().find(|s| s.arm == series.arm) {
            Some(known) => known.points.extend(series.points),
            None => out.push(series),
        }
    }
    out
}

/// Our own pool with so many tasks queued before the first one runs.
fn depths(session: &Session, workers: usize, size: Size, rounds: usize) -> Result<Series, String> {
    let ours: &'static Ours = Box::leak(Box::new(Ours::with(workers, |b| b)?));
    let mut points = vec![];
    for depth in size.depths() {
        // As many tasks per sample as elsewhere, at least.
        let repeats = if size == Size::Tiny { 1 } else { (200_000 / depth).max(1) };
        let mut point = Point::new(depth, depth * repeats, 0);
        point.trouble = depth::fits(depth).err().map(Trouble::Absent);
        let scenario: &'static Scenario = Box::leak(Box::new(Scenario::flat("depth", depth, 1, 0)));
        for round in 0..=rounds {
            session.step(format!("depth {depth} · scheduler · round {round}/{rounds}"));
            if point.trouble.is_none() {
                let job = scenario.job(false, &session.calibration);
                point.take(depth::sample(ours, workers, &job, repeats).map_err(Trouble::Failed), round == 0);
            }
        }
        points.push(point);
    }
    Ok(Series { sweep: "depth", unit: "queued tasks", arm: "scheduler", points })
}

/// Instructions per task over depths and numbers of workers, under the instruction counter.
fn instructions(session: &Session, size: Size) -> Result<[Series; 2], String> {
    let few = size != Size::Full;
    let counted = counts::flat(session.tiny, few, |text| session.step(text))?;
    let point = |x: u64, seen: &Result<f64, String>| {
        let mut point = Point::new(x, 0, 0);
        point.instructions = seen.as_ref().ok().copied();
        point.trouble = seen.as_ref().err().map(|why| Trouble::Absent(why.clone()));
        point
    };
    let base = counted.first().map_or((0, 0), |c| (c.workers, c.depth));
    let widest = counted.iter().filter(|c| c.workers != base.0).map(|c| c.depth).next().unwrap_or(base.1);
    let by_depth = counted.iter().filter(|c| c.workers == base.0).map(|c| point(c.depth, &c.instructions)).collect();
    let by_workers = counted.iter().filter(|c| c.depth == widest);
    let mut by_workers: Vec<Point> = by_workers.map(|c| point(c.workers as u64, &c.instructions)).collect();
    by_workers.sort_by_key(|p| p.x);
    let series = |sweep, unit, points| Series { sweep, unit, arm: "scheduler", points };
    Ok([series("instructions_depth", "queued tasks", by_depth), series("instructions_workers", "workers", by_workers)])
}

/// The lengths at which half and a tenth of the CPU time is overhead, per arm.
fn metgs(lengths: &[Series], rates: bool) -> (String, Vec<Value>) {
    let mut text = String::from("\nMETG: task length at which that part of the CPU time is the body's, ns\n");
    let mut rows = vec![];
    for series in lengths {
        let share = |p: &Point| Some((p.x as f64, p.share()?));
        let curve: Vec<(f64, f64)> = series.points.iter().filter_map(share).collect();
        let of = |part| if rates { metg::metg(&curve, part) } else { Err("NOT MEASURED".into()) };
        let found = [of(0.5), of(0.9)];
        let shown = found.each_ref().map(|f| f.as_ref().map_or_else(|why| why.clone(), |ns| format!("{ns:.0}")));
        text += &format!("  {:<20} 50 %: {}, 90 %: {}\n", series.arm, shown[0], shown[1]);
        let [half, tenth] = &found;
        let why = |f: &Result<f64, String>| f.as_ref().err().cloned();
        rows.push(json!({
            "arm": series.arm, "metg50_ns": half.as_ref().ok(), "metg90_ns": tenth.as_ref().ok(),
            "why": { "metg50_ns": why(half), "metg90_ns": why(tenth) },
        }));
    }
    (text, rows)
}

fn checks(all: &[Series], rates: bool, why: Option<&str>) -> Vec<Check> {
    let mut out = vec![];
    for series in all.iter().filter(|s| s.arm == "scheduler") {
        match series.sweep {
            "submitters" => {
                let apart = series.unevenness(|p| p.cpu().map(|s| s.median)).filter(|_| rates);
                let name = "CPU per task, between numbers of submitters";
                out.push(Check::at_most(name, apart, FLAT_SUBMITTERS).because(why));
            }
            "instructions_depth" | "instructions_workers" => {
                let apart = series.unevenness(|p| p.instructions);
                let name = format!("instructions per task, between {}", series.unit);
                out.push(Check::at_most(name, apart, FLAT_INSTRUCTIONS).because(Some("not counted at two points")));
            }
            _ => {}
        }
    }
    out
}

/// Runs the command; the exit code says whether every task ran once, and with `--gate` whether the bounds hold.
pub(crate) fn main(options: &Options) -> Result<ExitCode, String> {
    let by_default = |a: &arms::Kind| ARMS.contains(&a.name);
    let named = |a: &arms::Kind, word: &str| a.name == word;
    let kinds = crate::args::choose("arm", &arms::ALL, |a| a.name, named, by_default, &options.arms)?;
    let workers = host::workers(options.workers);
    let mut pools = players(&kinds, workers);
    let session = Session::begin("scale", &options.common, workers)?;
    let size = match (session.tiny, options.quick) {
        (true, _) => Size::Tiny,
        (false, true) => Size::Quick,
        (false, false) => Size::Full,
    };
    let (rates, why) = (session.rates(), session.no_rates());
    // Without times one sample shows that every task runs; it is that of the warm-up.
    let rounds = if rates { usize::from(options.samples) } else { 0 };
    let (by_submitters, by_length) = (size.submitters(), size.lengths(workers));
    let sweeps = by_submitters.at.len() + by_length.at.len() + size.workers().len();
    session.bar.set_length(((sweeps * pools.len() + size.depths().len()) * (rounds + 1)) as u64);
    let submitters = by_submitters.run(&session, &mut pools, rounds);
    session.say(&sweep::table(&submitters, rates));
    let lengths = by_length.run(&session, &mut pools, rounds);
    session.say(&sweep::table(&lengths, rates));
    let (text, metg) = metgs(&lengths, rates);
    session.say(&text);
    let with = |w: u64| size.with_workers(w).run(&session, &mut players(&kinds, w as usize), rounds);
    let by_workers = merged(size.workers().into_iter().map(with).collect());
    session.say(&sweep::table(&by_workers, rates));
    let depth = depths(&session, workers, size, rounds)?;
    session.say(&sweep::table(std::slice::from_ref(&depth), rates));
    let mut all: Vec<Series> = submitters.into_iter().chain(lengths).chain(by_workers).chain([depth]).collect();
    if !options.no_instructions {
        all.extend(instructions(&session, size)?);
    }
    let (text, checks, missed) = verdicts(&checks(&all, rates, why));
    session.say(&format!("\nchecks\n{text}"));
    let failed = all.iter().filter(|s| s.failed()).count();
    let series: Vec<Value> = all.iter().map(|s| s.json(rates)).collect();
    session
        .finish(json!({ "samples": rounds, "workers": workers, "series": series, "metg": metg, "checks": checks }))?;
    Ok(session::ended(failed, all.len(), missed && options.gate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_submitter_has_the_same_share() {
        for size in [Size::Full, Size::Quick, Size::Tiny] {
            assert!(size.submitters().at.iter().all(|&(_, tasks, submitters, _)| tasks % submitters == 0));
            assert!(size.depths().iter().all(|&d| d < crate::check::MAX_TASKS));
            assert!(size.lengths(2).at.iter().all(|&(_, tasks, _, _)| (200..=200_000).contains(&tasks)));
        }
        assert_eq!(Size::Full.lengths(2).at.last(), Some(&(1_000_000, 200, 1, 1_000_000)));
        assert_eq!(Size::Full.submitters().at.last().map(|at| at.2), Some(64));
    }

    #[test]
    fn an_uneven_pool_misses_its_bound() {
        let counted = |x, instructions| {
            let mut point = Point::new(x, 1, 0);
            point.instructions = Some(instructions);
            point
        };
        let series = |points| Series { sweep: "instructions_depth", unit: "queued tasks", arm: "scheduler", points };
        let met = |of: Vec<Point>| checks(&[series(of)], false, None)[0].met();
        assert_eq!(met(vec![counted(1, 100.0), counted(2, 101.9)]), Some(true));
        assert_eq!(met(vec![counted(1, 100.0), counted(2, 102.1)]), Some(false));
        assert_eq!(met(vec![counted(1, 100.0)]), None);
    }
}
