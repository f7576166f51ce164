//! The command line.
use crate::server::Settings;
use clap::{Arg, ArgMatches, Command, value_parser};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What was asked for.
pub(crate) struct Options {
    pub(crate) settings: Settings,
    pub(crate) workers: Option<usize>,
}

fn command() -> Command {
    Command::new("http_files")
        .about("Serves the files below a folder over HTTP, on the scheduler")
        .arg(Arg::new("DIR").required(true).value_parser(value_parser!(PathBuf)).help("The folder to serve"))
        .arg(
            Arg::new("listen")
                .long("listen")
                .value_name("ADDR")
                .default_value("127.0.0.1:8080")
                .value_parser(value_parser!(SocketAddr))
                .help("Address and port; port 0: any that is free"),
        )
        .arg(
            Arg::new("workers")
                .long("workers")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..=1024))
                .help("Number of workers; by default as many as the host allows"),
        )
        .arg(seconds("header-timeout", "10", "For the head of a request, and for a connection between two"))
        .arg(seconds("grace", "30", "For responses that are under way when the server is to stop"))
}

fn seconds(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    let parser = |text: &str| match text.parse::<f64>() {
        Ok(seconds) if (0.001..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("0.001 to 86400 seconds".to_owned()),
    };
    Arg::new(name).long(name).value_name("SECONDS").default_value(default).value_parser(parser).help(help)
}

/// Reads the arguments; wrong ones end the program with exit code 2.
pub(crate) fn parse() -> Options {
    options(&command().get_matches())
}

fn options(matches: &ArgMatches) -> Options {
    let value = |name: &str| matches.get_one::<Duration>(name).copied().unwrap_or_default();
    let settings = Settings {
        root: matches.get_one::<PathBuf>("DIR").cloned().unwrap_or_default(),
        listen: matches.get_one("listen").copied().unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080))),
        header_timeout: value("header-timeout"),
        grace: value("grace"),
    };
    Options { settings, workers: matches.get_one::<u64>("workers").map(|n| *n as usize) }
}
