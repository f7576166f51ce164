//! `io-serve`: one arm as a server in a process of its own, so that its CPU time and its system calls are its own.
//!
//! It prints `{"echo": PORT, "http": PORT|null}` and then answers every line on its standard input with what the
//! process has used so far, until the end of the input.
use super::servers;
use crate::os::usage;
use clap::Args;
use serde_json::json;
use std::io::{BufRead, Write};
use std::process::ExitCode;

#[derive(Args, Clone, Debug)]
pub(crate) struct Serve {
    #[arg(long)]
    pub(super) arm: String,
    #[arg(long)]
    pub(super) workers: usize,
}

/// Where the two servers of an arm listen.
pub(super) struct Ports {
    pub(super) echo: u16,
    /// `Err`: why it has none.
    pub(super) http: Result<u16, String>,
}

pub(crate) fn main(options: &Serve) -> Result<ExitCode, String> {
    let ports = servers::start(&options.arm, options.workers)?;
    let mut out = std::io::stdout();
    let mut say =
        |value: serde_json::Value| writeln!(out, "{value}").and_then(|()| out.flush()).map_err(|e| e.to_string());
    say(json!({ "echo": ports.echo, "http": ports.http.as_ref().ok(), "why": ports.http.as_ref().err() }))?;
    for line in std::io::stdin().lock().lines() {
        line.map_err(|e| e.to_string())?;
        let used = usage();
        say(json!({ "cpu_ns": used.cpu_ns, "system_ns": used.system_ns, "switches": used.switches }))?;
    }
    Ok(ExitCode::SUCCESS)
}
