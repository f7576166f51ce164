//! `bench numa`: the model executor on made-up hosts, and what must hold there.
mod chart;
mod verdicts;

use crate::output;
use crate::session::Output;
use bench::model::{HOSTS, Host, Load, Rules, Tally, run};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use verdicts::{Verdict, verdicts};

/// Tasks of one run: enough that the shares of [`Tally`] stand to a tenth of a percent.
const TASKS: u64 = 100_000;
const TINY: u64 = 3_000;
const SEED: u64 = 1;

#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    output: Output,
    /// The chart; by default `bench/numa.svg` in the target folder
    #[arg(long)]
    svg: Option<PathBuf>,
    /// Another seed gives other arrivals and lengths
    #[arg(long, default_value_t = SEED)]
    seed: u64,
}

/// One run and what it was.
struct Run {
    host: &'static Host,
    load: Load,
    rules: Rules,
    tally: Tally,
}

/// Prints what is met and what is missed; neither is a failure of the program.
pub(crate) fn main(options: &Options) -> Result<ExitCode, String> {
    let out = options.output.place("numa")?;
    let svg = options.svg.clone().unwrap_or_else(|| out.with_extension("svg"));
    output::check(&svg)?;
    let tasks = if options.output.tiny { TINY } else { TASKS };
    let mut runs = Vec::new();
    println!("model: {tasks} tasks of 1 us in virtual time at 80 % load, seed {}; counts, no times", options.seed);
    for host in &HOSTS {
        println!("\n{} (lines as on {})", host.name, host.latency.name);
        println!("{HEAD}");
        for load in [Load::Balanced, Load::Hot] {
            for rules in Rules::ALL {
                let tally = run(host, rules, load, tasks, options.seed);
                println!("{}", row(load, rules, &tally));
                runs.push(Run { host, load, rules, tally });
            }
        }
    }
    let verdicts = verdicts(&runs);
    println!("\nworst of ours and best of the control over all hosts with more than one node");
    verdicts.iter().for_each(|verdict| println!("  {verdict}"));
    output::json(&out, &report(tasks, options.seed, &runs, &verdicts))?;
    output::write(&svg, &chart::draw(&runs)?)?;
    println!("written: {}, {}", out.display(), svg.display());
    Ok(ExitCode::SUCCESS)
}

const HEAD: &str = "  load      policy       M1 off node  M2 per 100  tasks each  M3 span  rounds  M4 disorder  \
                    M5 at home  M6 wakes  most  M14 ns  looks ns";

fn row(load: Load, rules: Rules, t: &Tally) -> String {
    format!(
        "  {:<9} {:<12} {:>10.2} % {:>11.2} {:>11.1} {:>8.3} {:>7} {:>12} {:>9.1} % {:>9.4} {:>5} {:>7.1} {:>9.1}",
        load.name(),
        rules.name(),
        t.off_node_percent(),
        t.remote_per_100(),
        t.tasks_per_remote(),
        t.span(),
        t.rounds_beside,
        t.out_of_order,
        t.wakes_at_home_percent(),
        t.wakes_per_task(),
        t.most_wakes,
        t.moved_per_task(),
        t.looked_per_task(),
    )
}

fn report(tasks: u64, seed: u64, runs: &[Run], verdicts: &[Verdict]) -> Value {
    let one = |run: &Run| {
        let t = &run.tally;
        json!({
            "host": run.host.name, "spec": run.host.spec, "latency": run.host.latency.name,
            "load": run.load.name(), "policy": run.rules.name(),
            "m1_off_node_percent": t.off_node_percent(),
            "m2_remote_steals_per_100": t.remote_per_100(), "m2_tasks_per_remote_steal": t.tasks_per_remote(),
            "m3_span": t.span(), "m3_empty_rounds_beside_work": t.rounds_beside,
            "m4_out_of_order": t.out_of_order, "probes_by_ring": t.probes,
            "m5_wakes_at_home_percent": t.wakes_at_home_percent(), "wakes_by_ring": t.wakes,
            "m6_wakes_per_task": t.wakes_per_task(), "m6_most_wakes": t.most_wakes,
            "m6_wakes_in_vain": t.wakes_in_vain,
            "m14_moved_ns_per_task": t.moved_per_task(), "looked_ns_per_task": t.looked_per_task(),
        })
    };
    json!({
        "kind": "numa", "homes": "virtual", "tasks": tasks, "seed": seed,
        "runs": runs.iter().map(one).collect::<Vec<_>>(),
        "verdicts": verdicts.iter().map(Verdict::json).collect::<Vec<_>>(),
    })
}
