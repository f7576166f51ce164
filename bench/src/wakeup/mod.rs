//! `wakeup`: what one serial wake-up costs. Submit one task, wait for it, submit the next at once.
use crate::args;
use crate::session::{self, Check, Common, Session, verdicts};
use clap::Args;
use serde_json::json;
use std::process::ExitCode;

mod report;
mod serial;
mod trace;

pub(crate) use trace::{STRACE, total_calls, traced_calls};

use report::Row;
use serial::{PLAYERS, Player, Serial};

/// Tasks per sample, full and tiny.
const TASKS: [u64; 2] = [10_000, 50];
/// Tasks of the larger traced run, full and tiny: each call costs the tracer some 50 us.
const TRACED: [u64; 2] = [2_000, 80];
/// Samples when no times are reported: switches and calls vary little.
const COUNTED: usize = 3;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Arms, separated by commas; all by default
    #[arg(long, value_delimiter = ',')]
    arms: Vec<String>,
    /// Numbers of workers, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "4,16", value_parser = clap::value_parser!(u16).range(1..=512))]
    workers: Vec<u16>,
    /// Samples per arm; a warm-up comes before them
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=1000))]
    samples: u16,
    /// Do not count system calls with `strace`
    #[arg(long)]
    no_trace: bool,
    /// Exit with 1 if a bound on a count is missed
    #[arg(long)]
    gate: bool,
}

/// A pool that plays, or the reason why it does not.
struct Seat {
    player: &'static Player,
    workers: usize,
    pool: Result<Box<dyn Serial>, String>,
}

/// Runs the command; the exit code says whether every task ran, and with `--gate` whether every bound holds.
pub(crate) fn main(options: &Options) -> Result<ExitCode, String> {
    let players = args::choose("arm", &PLAYERS, |p| p.name, |p, word| p.name == word, |_| true, &options.arms)?;
    let workers: Vec<usize> = options.workers.iter().copied().map(usize::from).collect();
    let seat = |workers: usize, player: &'static Player| Seat { player, workers, pool: (player.build)(workers) };
    let seats: Vec<Seat> = workers.iter().flat_map(|&w| players.iter().map(move |&p| seat(w, p))).collect();
    let most = workers.iter().copied().max().unwrap_or(1);
    let session = Session::begin("wakeup", &options.common, most)?;
    let size = usize::from(session.tiny);
    let samples = if session.rates() { usize::from(options.samples) } else { COUNTED.min(options.samples.into()) };
    session.bar.set_length((seats.len() * (samples + 2)) as u64);
    let mut rows: Vec<Row> = seats.iter().map(|s| Row::new(s.player, s.workers, &s.pool, TASKS[size])).collect();
    for round in 0..=samples {
        for (seat, row) in seats.iter().zip(&mut rows) {
            session.step(format!("{} · {} workers · round {round}/{samples}", seat.player.name, seat.workers));
            if let (Ok(pool), None) = (&seat.pool, &row.trouble) {
                row.take(pool.sample(TASKS[size]), round == 0);
            }
        }
    }
    for row in &mut rows {
        session.step(format!("{} · {} workers · system calls from outside", row.arm, row.workers));
        row.traced = match (row.traced_as, options.no_trace) {
            _ if row.samples.is_empty() => Err("no samples".into()),
            (None, _) if row.arm == "scheduler" => Err("its spin would be another one under the tracer".into()),
            (None, _) => Err("runs in a program of its own".into()),
            (_, true) => Err("--no-trace".into()),
            (Some(arm), false) => trace::per_task(arm, row.workers, TRACED[size]),
        };
    }
    session.say(&report::table(&rows, session.rates()));
    let (text, json, missed) = verdicts(&checks(&rows, session.is_quiet()));
    session.say(&format!("\nchecks, at spin 0, medians per submit\n{text}"));
    let failed = rows.iter().filter(|r| r.failed).count();
    let rates = session.rates();
    let results: Vec<_> = rows.iter().map(|r| r.json(rates)).collect();
    session.finish(json!({ "tasks": TASKS[size], "samples": samples, "results": results, "checks": json }))?;
    Ok(session::ended(failed, rows.len(), missed && options.gate))
}

/// Most system calls of one submit, the semaphore's two included, without and with a membarrier.
const CALLS: [f64; 2] = [4.05, 5.05];
/// Most context switches of one submit.
const SWITCHES: f64 = 2.1;
/// The pool's own wakes, and its own waits; a sample may end before its last worker sleeps again, so two digits count.
const ONE: f64 = 1.005;
/// How far two numbers of workers may be apart.
const APART: f64 = 0.05;

/// The bounds on counts. They are for spin 0: else it depends on the clock who sleeps. On a machine that is not quiet
/// neighbours take CPUs away, and have a say in whether the kernel puts the submitter on the CPU of the worker that
/// wakes it: then that worker is often not asleep when the next task comes. So the involuntary switches are left out
/// there, and numbers of workers are not held against each other.
fn checks(rows: &[Row], quiet: bool) -> Vec<Check> {
    let mut out = vec![];
    for name in ["scheduler-spin0", "scheduler-spin0-fence"] {
        let ours: Vec<&Row> = rows.iter().filter(|r| r.arm == name && r.trouble.is_none()).collect();
        for row in &ours {
            let what = |count: &str| format!("{name}, {} workers: {count}", row.workers);
            let barrier = row.pool().is_some_and(|p| p.barriers > 0.5);
            let (switches, kind) = match quiet {
                true => (row.switches(), "context switches"),
                false => (row.voluntary(), "context switches, voluntary (the machine is not quiet)"),
            };
            out.push(Check::at_most(what("system calls"), row.calls().map(|c| c.at(50)), CALLS[usize::from(barrier)]));
            out.push(Check::at_most(what(kind), switches.map(|s| s.at(50)), SWITCHES));
            out.push(Check::at_most(what("pool-owned wakes"), row.pool().map(|p| p.wakes), ONE));
            out.push(Check::at_most(what("pool-owned waits, and returns from them"), row.pool().map(|p| p.waits), ONE));
        }
        let [first, .., last] = ours[..] else { continue };
        for (what, of) in [("system calls", Row::calls as fn(&Row) -> _), ("context switches", Row::switches)] {
            let (a, b) = (of(first).map(|s| s.at(50)), of(last).map(|s| s.at(50)));
            let apart = a.zip(b).map(|(a, b)| (a - b).abs() / a.min(b).max(f64::MIN_POSITIVE)).filter(|_| quiet);
            let name = format!("{name}: {what}, {} against {} workers, apart by", first.workers, last.workers);
            let why = "the machine is not quiet: whether a worker sleeps when the next task comes is its doing";
            out.push(Check::at_most(name, apart, APART).because(Some(why)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arms::Syscalls;
    use crate::os::Usage;
    use std::time::Duration;

    fn row(workers: usize, wakes: u64, parks: u64, harness_calls: u64) -> Row {
        switched(workers, wakes, parks, harness_calls, 200)
    }

    fn switched(workers: usize, wakes: u64, parks: u64, harness_calls: u64, switches: u64) -> Row {
        let player = PLAYERS.iter().find(|p| p.name == "scheduler-spin0").unwrap();
        let mut row = Row::new(player, workers, &Err("not asked".into()), 100);
        row.trouble = None;
        let pool = Some(Syscalls { wakes, parks, membarriers: 0 });
        let usage = Usage { cpu_ns: 1, system_ns: 1, switches, involuntary: 30 };
        let wall = Duration::from_millis(1);
        row.take(Ok(serial::Taken { wall, usage, tells_involuntary: true, pool, harness_calls }), false);
        row
    }

    fn missed(rows: &[Row]) -> Vec<String> {
        checks(rows, true).iter().filter(|c| c.met() == Some(false)).map(Check::line).collect()
    }

    #[test]
    fn a_pool_of_one_wake_and_one_wait_passes() {
        assert_eq!(missed(&[row(4, 100, 100, 200), row(16, 100, 100, 200)]), [""; 0]);
    }

    /// What the neighbours of a busy machine do is not held against the pool, what the pool does is.
    #[test]
    fn a_busy_machine_is_not_the_pools_doing() {
        let rows = [switched(4, 60, 60, 200, 239), switched(16, 100, 100, 200, 239)];
        let lines = |quiet| checks(&rows, quiet).iter().filter(|c| c.met() == Some(false)).map(Check::line).collect();
        let (quiet, busy): (Vec<String>, Vec<String>) = (lines(true), lines(false));
        assert_eq!(quiet.len(), 3, "both numbers of switches, and how far the calls are apart: {quiet:?}");
        assert!(busy.is_empty(), "209 of the 239 are voluntary: {busy:?}");
        let more = [switched(4, 60, 60, 200, 241)];
        let missed: Vec<Check> = checks(&more, false).into_iter().filter(|c| c.met() == Some(false)).collect();
        assert!(missed.len() == 1 && missed[0].line().contains("voluntary"));
    }

    #[test]
    fn a_herd_is_seen() {
        let found = missed(&[row(4, 100, 100, 200), row(16, 102, 130, 205)]);
        assert_eq!(found.len(), 4, "{found:?}");
        for what in ["16 workers: system calls", "pool-owned wakes", "pool-owned waits", "apart by"] {
            assert!(found.iter().any(|f| f.contains(what)), "{what}: {found:?}");
        }
    }
}
