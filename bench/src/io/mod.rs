//! `io`: futures, timers and I/O on our scheduler and on the runtimes that people use, interleaved.
use crate::session::{Check, Common, Session, verdicts};
use crate::{args, host};
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;

mod arms;
mod net;
mod reads;
mod row;
mod scenario;
mod tasks;
mod trace;

pub(crate) use net::{Serve, serve};
pub(crate) use trace::{Child, child};

use arms::{Kind, Player, Trouble};
use row::Row;
use scenario::{Scenario, Taken, What};

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Scenarios, separated by commas
    #[arg(long, value_delimiter = ',')]
    scenarios: Vec<String>,
    /// Arms, separated by commas
    #[arg(long, value_delimiter = ',')]
    arms: Vec<String>,
    /// Workers of every runtime; by default as many as there are usable CPUs
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=512))]
    workers: Option<u16>,
    /// Timed rounds; a warm-up round comes before them, and one that counts allocations after them
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    samples: u16,
    /// Do not count system calls with `strace`
    #[arg(long)]
    no_trace: bool,
}

struct Seat {
    kind: &'static Kind,
    /// The runtime in this process, or why there is none.
    player: Result<Box<dyn Player>, String>,
    /// The same in a process of its own.
    server: net::Remote,
}

impl Seat {
    fn new(kind: &'static Kind, workers: usize) -> Seat {
        Seat { kind, player: (kind.build)(workers), server: net::Remote::new(kind.name, workers) }
    }

    /// Why this arm has no part in the scenario.
    fn absent(&self, scenario: &Scenario) -> Option<Trouble> {
        if scenario.what.is_remote() {
            return None;
        }
        self.player.as_ref().err().map(|why| Trouble::Absent(why.clone()))
    }

    fn take(&self, scenario: &Scenario, tiny: bool, round: Round) -> Result<Taken, Trouble> {
        let size = scenario.size[usize::from(tiny)];
        match &self.player {
            _ if scenario.what.is_remote() => self.server.take(scenario, size, tiny),
            Ok(player) => player.take(scenario, size, round == Round::Allocations),
            Err(why) => Err(Trouble::Absent(why.clone())),
        }
    }

    fn traced(&self, scenario: &Scenario, workers: usize, tiny: bool) -> Result<f64, String> {
        if scenario.what.is_remote() {
            return self.server.traced(scenario, trace::TRACED[usize::from(tiny)]);
        }
        trace::per_operation(scenario, self.kind.name, workers, tiny)
    }
}

/// What a round is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    WarmUp,
    Timed,
    Allocations,
}

fn chosen_scenarios(words: &[String]) -> Result<Vec<&'static Scenario>, String> {
    args::choose("scenario", &scenario::ALL, |s| s.name, |s, word| s.name == word, |_| true, words)
}

fn chosen_arms(words: &[String]) -> Result<Vec<&'static Kind>, String> {
    args::choose("arm", &arms::ALL, |a| a.name, |a, word| a.name == word, |a| a.default, words)
}

/// Runs the command; the exit code says whether every sample was right.
pub(crate) fn main(options: &Options) -> Result<ExitCode, String> {
    let scenarios = chosen_scenarios(&options.scenarios)?;
    let kinds = chosen_arms(&options.arms)?;
    let workers = host::workers(options.workers);
    let seats: Vec<Seat> = kinds.iter().map(|&kind| Seat::new(kind, workers)).collect();
    let mut session = Session::begin("io", &options.common, workers)?;
    session.host["peers"] = kinds.iter().map(|k| (k.name.to_owned(), json!(crate::arms::version(k.package)))).collect();
    let timed = if session.rates() { usize::from(options.samples) } else { 1 };
    let rounds: Vec<Round> = [&[Round::WarmUp][..], &vec![Round::Timed; timed], &[Round::Allocations]].concat();
    session.bar.set_length((scenarios.len() * seats.len() * (rounds.len() + 1)) as u64);
    let mut rows = vec![];
    for scenario in scenarios {
        let mut these = play(scenario, &seats, &rounds, &session);
        for (seat, row) in seats.iter().zip(&mut these) {
            session.step(format!("{} · {} · system calls from outside", scenario.name, row.arm));
            row.traced = match (&row.trouble, options.no_trace) {
                (Some(_), _) => Err("no samples".into()),
                (_, true) => Err("--no-trace".into()),
                _ => seat.traced(scenario, workers, session.tiny),
            };
        }
        session.say(&row::table(scenario, &these, session.rates()));
        rows.extend(these);
    }
    let (text, checks, _) = verdicts(&checks(&rows, &session));
    session.say(&format!("\ntargets: what ours needs as a share of what a peer needs, medians of this run\n{text}"));
    let failed = rows.iter().filter(|r| matches!(r.trouble, Some(Trouble::Failed(_)))).count();
    let results: Vec<Value> = rows.iter().map(|r| r.json(workers, session.no_rates())).collect();
    session.finish(json!({ "samples": timed, "results": results, "checks": checks }))?;
    if failed > 0 {
        eprintln!("{failed} of {} rows failed", rows.len());
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// All rounds of one scenario, every arm in turn.
fn play(scenario: &'static Scenario, seats: &[Seat], rounds: &[Round], session: &Session) -> Vec<Row> {
    let row = |seat: &Seat| Row::new(scenario, seat.kind.name, seat.absent(scenario));
    let mut rows: Vec<Row> = seats.iter().map(row).collect();
    for (n, round) in rounds.iter().enumerate() {
        for (seat, row) in seats.iter().zip(&mut rows) {
            session.step(format!("{} · {} · round {n}/{}", scenario.name, row.arm, rounds.len() - 1));
            // What another process allocates is not seen.
            let in_vain = *round == Round::Allocations && scenario.what.is_remote();
            if row.trouble.is_none() && !in_vain {
                row.take(seat.take(scenario, session.tiny, *round), *round);
            }
        }
    }
    rows
}

/// What ours may need of what a peer needs, and of system calls.
fn checks(rows: &[Row], session: &Session) -> Vec<Check> {
    let why = session.no_rates().or(session.tiny.then_some("TINY sizes"));
    let mut out = vec![];
    for ours in rows.iter().filter(|r| r.arm == "scheduler") {
        let name = ours.scenario.name;
        let peer = |arm: &str| rows.iter().find(|r| r.arm == arm && r.scenario.name == name);
        let mut share = |what: &str, of: fn(&Row) -> Option<f64>, arm: &str, bound: f64| {
            let value = of(ours).zip(peer(arm).and_then(of)).map(|(a, b)| a / b).filter(|_| why.is_none());
            let name = format!("{name}: share of {arm}'s {what}");
            out.push(Check::at_most(name, value, bound).because(why.or(Some("no figures"))));
        };
        for (arm, bound) in [("tokio", ours.scenario.share_of_tokio), ("async-executor", ours.scenario.share_of_smol)] {
            if bound > 0.0 {
                share("CPU time", |r| r.cpu().map(|s| s.median), arm, bound);
            }
        }
        match ours.scenario.what {
            What::Echo { connections: 1, .. } => share("p50", |r| r.latency().map(|l| l.p50 as f64), "tokio", 1.0),
            What::Echo { .. } => {
                // 1.3 times the messages per second.
                share("time per message", |r| r.rate().map(|s| 1.0 / s.median), "tokio", 1.0 / 1.3);
                let calls = ours.traced.as_ref().ok().copied();
                let check = Check::at_most(format!("{name}: system calls per message"), calls, 1.1);
                out.push(check.because(ours.traced.as_ref().err().map(String::as_str)));
            }
            _ => {}
        }
    }
    out
}
