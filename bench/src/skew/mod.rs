//! `skew`: how well uneven work spreads that was all submitted from one worker. Needs the cargo feature `measure`.
use crate::session::Common;
use clap::Args;
use std::process::ExitCode;

#[cfg(feature = "measure")]
mod judge;
#[cfg(feature = "measure")]
mod measured;
#[cfg(feature = "measure")]
mod plan;
#[cfg(feature = "measure")]
mod play;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Numbers of workers, separated by commas; by default 4, and as many as there are usable CPUs
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=200))]
    workers: Vec<u16>,
    /// Runs per number of workers
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    samples: u16,
    /// Exit with 1 if a run is past the factor
    #[arg(long)]
    gate: bool,
}

/// Runs the command. Exit codes: 1 past the factor with `--gate`; 2 a wrong sum, a theft where there can be none, or
/// something left behind.
#[cfg(feature = "measure")]
pub(crate) fn main(options: &Options) -> Result<ExitCode, String> {
    measured::main(options)
}

/// There is nothing to read the record from.
#[cfg(not(feature = "measure"))]
pub(crate) fn main(options: &Options) -> Result<ExitCode, String> {
    let Options { common: _, workers: _, samples: _, gate: _ } = options;
    Err("built without the feature `measure`: cargo run --release -p bench --features measure -- skew".into())
}
