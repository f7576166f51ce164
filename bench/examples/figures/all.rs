//! Which figures there are, and how they are run: each in a process of its own, so that none inherits the threads, the
//! memory or the lanes of another.
mod alloc;
mod handoff;
mod idle;
mod memory;
#[expect(dead_code, reason = "of the program's own system calls only the futex ones are used here")]
#[path = "../../src/os.rs"]
mod os;
mod report;
#[expect(dead_code, reason = "of the program's statistics only percentiles and digit groups are used here")]
#[path = "../../src/stats.rs"]
mod stats;
mod stuck;
mod syscalls;
mod tools;
mod trickle;

use clap::Parser;
use report::Row;
use std::process::{Command, ExitCode};

/// A figure: its rows, or what went wrong with the counts.
type Figure = fn(&Size) -> Result<Vec<Row>, String>;

const FIGURES: [(&str, Figure); 6] = [
    ("handoff", handoff::measure),
    ("idle", idle::measure),
    ("trickle", trickle::measure),
    ("stuck", stuck::measure),
    ("memory", memory::measure),
    ("syscalls", syscalls::measure),
];

/// Measures figures of the scheduler that `compare` and `counts` do not take. Meant for a machine that does nothing
/// else. Exit codes: 0 also where a target is missed; 1 a task was lost or something could not be set up; 2 wrong
/// arguments.
#[derive(Parser)]
#[command(name = "figures")]
struct Cli {
    /// handoff, idle, trickle, stuck, memory, syscalls; all of them by default
    names: Vec<String>,
    /// Just enough to see that it works
    #[arg(long, hide = true)]
    quick: bool,
}

/// How much is measured.
pub(crate) struct Size {
    quick: bool,
}

impl Size {
    /// `full`, or `quick` if nobody will believe the figures.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    let names: Vec<&str> = match cli.names.is_empty() {
        true => FIGURES.iter().map(|(name, _)| *name).collect(),
        false => cli.names.iter().map(String::as_str).collect(),
    };
    if let Some(unknown) = names.iter().find(|name| find(name).is_none()) {
        let known = FIGURES.map(|(name, _)| name).join(", ");
        eprintln!("figures: no figure is called {unknown:?}; there are {known}");
        return ExitCode::from(2);
    }
    match names[..] {
        [name] => one(name, cli.quick),
        _ => each(&names, cli.quick),
    }
}

fn find(name: &str) -> Option<Figure> {
    FIGURES.iter().find(|(known, _)| *known == name).map(|(_, figure)| *figure)
}

/// In this process.
fn one(name: &str, quick: bool) -> ExitCode {
    let load = tools::load();
    let measured = find(name).ok_or_else(|| String::from("unknown")).and_then(|figure| figure(&Size { quick }));
    match measured {
        Ok(rows) => {
            report::print(name, &rows, quick, load);
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("figures: {name}: {message}");
            ExitCode::FAILURE
        }
    }
}

/// One process after the other; one that fails does not keep the others from being measured.
fn each(names: &[&str], quick: bool) -> ExitCode {
    let run = |name: &&str| {
        let program = std::env::current_exe()?;
        Command::new(program).arg(name).args(quick.then_some("--quick")).status()
    };
    let mut failed = false;
    for name in names {
        match run(name) {
            Ok(status) => failed |= !status.success(),
            Err(error) => {
                eprintln!("figures: {name}: {error}");
                failed = true;
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
