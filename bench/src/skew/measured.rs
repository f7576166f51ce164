//! The runs of `skew`.
use super::Options;
use super::judge::{CONTROL, Case, Round};
use super::plan::Plan;
use super::play::Stage;
use crate::calib;
use crate::session::{Check, Session, verdicts};
use serde_json::{Value, json};
use std::process::ExitCode;

/// The three pools of one number of workers.
struct Stages {
    cost: Stage,
    real: Stage,
    control: Stage,
}

impl Stages {
    fn new(workers: usize) -> Result<Stages, String> {
        Ok(Stages {
            cost: Stage::new(1, true)?,
            real: Stage::new(workers, true)?,
            control: Stage::new(workers, false)?,
        })
    }

    fn round(&self, plan: &Plan) -> Result<Round, String> {
        let cost = self.cost.play(plan, true)?;
        let real = self.real.play(plan, false)?;
        let control = self.control.play(plan, false)?;
        // Each task of the cost run is timed by itself.
        let shortest = cost.lengths_ns.iter().copied().min().unwrap_or_default();
        calib::resolves("a task", shortest, calib::clock_step())?;
        Round::of(plan, &cost, &real, &control)
    }
}

pub(super) fn main(options: &Options) -> Result<ExitCode, String> {
    let cpus = crate::host::Cpus::read().workers();
    let mut numbers: Vec<usize> = options.workers.iter().copied().map(usize::from).collect();
    if numbers.is_empty() {
        numbers = vec![4, cpus];
        numbers.dedup();
    }
    let most = numbers.iter().copied().max().unwrap_or(1);
    let stages: Vec<Stages> = numbers.iter().map(|&w| Stages::new(w)).collect::<Result<_, _>>()?;
    let session = Session::begin("skew", &options.common, most)?;
    let runs = usize::from(options.samples);
    session.bar.set_length((numbers.len() * (runs + 1)) as u64);
    let mut cases = vec![];
    for (stages, &workers) in stages.iter().zip(&numbers) {
        let mut case = Case { plan: Plan::new(workers, session.tiny), cpus, rounds: vec![] };
        for run in 0..=runs {
            session.step(format!("{workers} workers · run {run}/{runs}: cost, real, control"));
            let round = stages.round(&case.plan).map_err(|why| format!("skew, {workers} workers: {why}"))?;
            // The first one warms up.
            if run > 0 {
                case.rounds.push(round);
            }
        }
        cases.push(case);
    }
    let rates = session.rates();
    cases.iter().for_each(|c| session.say(&c.table(rates)));
    let (text, checks, _) = verdicts(&checks(&cases, rates, session.no_rates()));
    session.say(&format!("checks\n{text}"));
    let failed = rates && cases.iter().any(Case::failed);
    let results: Vec<Value> = cases.iter().map(|c| c.json(rates)).collect();
    session.finish(json!({ "samples": runs, "results": results, "checks": checks }))?;
    if failed {
        eprintln!("the work is spread worse than the factor allows");
    }
    Ok(if failed && options.gate { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The spread itself, and the control: without thieves the work takes as long as on one worker.
fn checks(cases: &[Case], rates: bool, why: Option<&str>) -> Vec<Check> {
    let of = |case: &Case| {
        let workers = case.plan.workers;
        let judged = case.median(|r| case.judged(r)).filter(|_| rates);
        let off = case.median(|r| (case.control(r) / workers as f64 - 1.0).abs()).filter(|_| rates);
        [
            Check::at_most(format!("{workers} workers: ratio"), judged, super::judge::FACTOR).because(why),
            Check::at_most(format!("{workers} workers: control off {workers} by"), off, CONTROL).because(why),
        ]
    };
    cases.iter().flat_map(of).collect()
}
