//! System calls per operation, from outside: `strace -fc` around one arm and one scenario at two sizes, the difference
//! divided. A run of its own in which nothing is timed.
use super::arms::Trouble;
use super::scenario::{Scenario, What};
use super::{chosen_arms, chosen_scenarios};
use crate::wakeup::traced_calls;
use clap::Args;
use std::process::ExitCode;

/// The larger size, full and tiny: each call costs the tracer some 50 us.
pub(super) const TRACED: [u64; 2] = [40_000, 1_280];

/// One sample without a clock, run under `strace`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Child {
    #[arg(long)]
    scenario: String,
    #[arg(long)]
    arm: String,
    #[arg(long)]
    workers: usize,
    #[arg(long)]
    ops: u64,
}

/// Calls per operation; `Err` says why there is no number.
pub(super) fn per_operation(scenario: &Scenario, arm: &str, workers: usize, tiny: bool) -> Result<f64, String> {
    if matches!(scenario.what, What::TimersPending | What::TimersFire) {
        return Err("how long the timers rest would be what is counted".into());
    }
    let many = TRACED[usize::from(tiny)];
    let few = many / 4;
    let calls = |ops: u64| {
        let (workers, ops) = (workers.to_string(), ops.to_string());
        let args = ["io-child", "--scenario", scenario.name, "--arm", arm, "--workers", &workers, "--ops", &ops];
        traced_calls(&args)
    };
    Ok((calls(many)? as f64 - calls(few)? as f64) / (many - few) as f64)
}

/// Takes one sample and says nothing about it.
pub(crate) fn child(options: &Child) -> Result<ExitCode, String> {
    let scenarios = chosen_scenarios(std::slice::from_ref(&options.scenario))?;
    let kinds = chosen_arms(std::slice::from_ref(&options.arm))?;
    let player = (kinds[0].build)(options.workers)?;
    match player.take(scenarios[0], options.ops, false) {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(Trouble::Absent(why) | Trouble::Failed(why)) => Err(why),
    }
}
