//! Benchmarks: scenarios, peers, counts. `bench/README.md` says how every number is taken.
//!
//! Under `--cfg loom` there is nothing here: the peers know no loom.
#[cfg(not(loom))]
mod ab;
#[cfg(not(loom))]
mod alloc;
#[cfg(not(loom))]
mod args;
#[cfg(not(loom))]
mod arms;
#[cfg(not(loom))]
mod calib;
#[cfg(not(loom))]
mod check;
#[cfg(not(loom))]
mod compare;
#[cfg(not(loom))]
mod counts;
#[cfg(not(loom))]
mod gate;
#[cfg(not(loom))]
mod host;
#[cfg(not(loom))]
mod io;
#[cfg(not(loom))]
mod items;
#[cfg(not(loom))]
mod load;
#[cfg(not(loom))]
mod numa;
#[cfg(not(loom))]
mod os;
#[cfg(not(loom))]
mod output;
#[cfg(not(loom))]
mod paths;
#[cfg(not(loom))]
mod realistic;
#[cfg(not(loom))]
mod report;
#[cfg(not(loom))]
mod run;
#[cfg(not(loom))]
mod scale;
#[cfg(not(loom))]
mod scenario;
#[cfg(not(loom))]
mod schema;
#[cfg(not(loom))]
mod sem;
#[cfg(not(loom))]
mod session;
#[cfg(not(loom))]
mod skew;
#[cfg(not(loom))]
mod source;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
mod tree;
#[cfg(not(loom))]
mod wakeup;

#[cfg(loom)]
fn main() {}

/// Exit codes: 0 all is well, 1 a sample failed or a file could not be written, 2 wrong arguments.
#[cfg(not(loom))]
fn main() -> std::process::ExitCode {
    use args::{Cli, Command};
    use clap::Parser;
    use std::process::ExitCode;
    let cli = Cli::parse();
    // Only `ab` has something to put in order first, and sees to that itself.
    os::leave_when_interrupted();
    let done = match cli.command {
        None => compare::main(&cli.compare),
        Some(Command::Compare(options)) => compare::main(&options),
        Some(Command::Counts(options)) => counts::main(&options),
        Some(Command::CountChild(options)) => counts::child(&options),
        Some(Command::Wakeup(options)) => wakeup::main(&options),
        Some(Command::Items(options)) => items::main(&options),
        Some(Command::Ab(options)) => ab::main(&options),
        Some(Command::Report(options)) => report::main(&options),
        Some(Command::Skew(options)) => skew::main(&options),
        Some(Command::Realistic(options)) => realistic::main(&options),
        Some(Command::Load(options)) => load::main(&options),
        Some(Command::Numa(options)) => numa::main(&options),
        Some(Command::Io(options)) => io::main(&options),
        Some(Command::IoChild(options)) => io::child(&options),
        Some(Command::IoServe(options)) => io::serve(&options),
        Some(Command::Check(options)) => schema::main(&options),
        Some(Command::Scale(options)) => scale::main(&options),
        Some(Command::GateHash) => gate::print_hash(),
    };
    done.unwrap_or_else(|message| {
        eprintln!("bench: {message}");
        ExitCode::from(2)
    })
}
