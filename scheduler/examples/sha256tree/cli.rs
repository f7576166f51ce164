//! The command line.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, value_parser};

/// What the user asked for.
pub(crate) struct Options {
    pub(crate) root: PathBuf,
    /// `None`: as many as the host allows.
    pub(crate) workers: Option<usize>,
    pub(crate) json: bool,
}

/// Reads the command line; on a mistake prints it with the usage and exits with 2.
pub(crate) fn parse() -> Options {
    let mut found = Command::new("sha256tree")
        .about("Prints the SHA-256 of every regular file below PATH, as sha256sum would, computed on the scheduler")
        .arg(
            Arg::new("path")
                .value_name("PATH")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("Directory to walk, or one file"),
        )
        .arg(
            Arg::new("workers")
                .long("workers")
                .value_name("N")
                .value_parser(value_parser!(usize))
                .help("Number of workers [default: the CPUs this process may use]"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the closing summary (last line of stderr) as one JSON object"),
        )
        .get_matches();
    Options {
        root: found.remove_one("path").expect("clap enforces required arguments"),
        workers: found.remove_one("workers"),
        json: found.get_flag("json"),
    }
}
