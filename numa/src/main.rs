//! The `numa` command: draws a host, says where workers would go, and explains where that knowledge comes from.

#[path = "cli/draw.rs"]
mod draw;
#[path = "cli/explain.rs"]
mod explain;
#[path = "cli/json.rs"]
mod json;
#[path = "cli/svg/mod.rs"]
mod svg;

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};
use numa::{CpuId, Pin, Placement, Seat, Topology};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code for input that makes no sense, the one clap uses for its own complaints.
const BAD_INPUT: u8 = 2;

/// Draws the NUMA nodes, caches and cores of a host, and where workers of the scheduler would go.
#[derive(Parser)]
#[command(name = "numa", version, disable_help_subcommand = true)]
struct Options {
    /// Read /sys and /proc below DIR instead of this host
    #[arg(long, value_name = "DIR", global = true, conflicts_with = "spec")]
    root: Option<PathBuf>,

    /// Make up a host, for example "2*node cores=4 threads=2"
    #[arg(long, value_name = "STR", global = true)]
    spec: Option<String>,

    /// Ask libhwloc instead of reading this host (needs a build with the feature hwloc)
    #[arg(long, global = true, conflicts_with_all = ["root", "spec"])]
    hwloc: bool,

    /// Number of workers to place, at most as many as CPUs can be numbered, 16,384 (the scheduler starts at most 1,024)
    /// [default: allowed CPUs, or the quota rounded up if that is less]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(CpuId::LIMIT)))]
    workers: Option<u32>,

    /// spread, pack, unpinned, cpus:LIST or nodes:LIST
    #[arg(long, value_name = "WHERE", default_value = "spread")]
    placement: Placement,

    /// auto, cpu, cache, node or none
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pin: Pin,

    /// Print JSON instead of a drawing
    #[arg(long)]
    json: bool,

    /// Write a picture to FILE (SVG, for any browser) instead of drawing with letters; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    svg: Option<PathBuf>,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// List the files that were read and what was ignored or assumed
    Explain,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.command.is_some() && (options.json || options.svg.is_some()) {
        let message = "explain prints text only, --json and --svg do not go with it";
        Options::command().error(ErrorKind::ArgumentConflict, message).exit();
    }
    match answer(&options) {
        Ok(text) => print(&text),
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(BAD_INPUT)
        }
    }
}

/// All of the output, or what is wrong with the input.
fn answer(options: &Options) -> Result<String, String> {
    let topology = topology(options)?;
    if matches!(options.command, Some(Command::Explain)) {
        return Ok(explain::explain(&topology));
    }
    let workers = options.workers.map_or_else(|| topology.default_workers(), |workers| workers as usize);
    let seats: Vec<Seat> = numa::plan(&topology, &options.placement, options.pin, workers)
        .map_err(|error| format!("--placement: {error}"))?;
    if options.json {
        return json::json(&topology, &seats).map_err(|error| error.to_string());
    }
    let by_default = options.workers.is_none();
    match &options.svg {
        None => Ok(draw::draw(&topology, &seats, by_default)),
        Some(path) if path.as_os_str() == "-" => Ok(svg::svg(&topology, &seats, by_default)),
        Some(path) => {
            let picture = svg::svg(&topology, &seats, by_default);
            std::fs::write(path, picture)
                .map_err(|error| format!("--svg: cannot write {}: {error}", path.display()))?;
            Ok(format!("{}, drawn in {}\n", draw::size(&topology), path.display()))
        }
    }
}

fn topology(options: &Options) -> Result<Topology, String> {
    if let Some(spec) = &options.spec {
        return Topology::from_spec(spec)
            .map_err(|error| format!("--spec: {error}\n{}", pointer(spec, error.position())));
    }
    if options.hwloc {
        return hwloc().map_err(|error| format!("--hwloc: {error}"));
    }
    match &options.root {
        Some(root) => Topology::from_root(root).map_err(|error| format!("--root: {error}")),
        None => Ok(Topology::discover()),
    }
}

#[cfg(feature = "hwloc")]
fn hwloc() -> Result<Topology, numa::HwlocError> {
    Topology::from_hwloc()
}

#[cfg(not(feature = "hwloc"))]
fn hwloc() -> Result<Topology, &'static str> {
    Err("this command was built without libhwloc; build it with --features hwloc")
}

/// The line of `text` that holds byte `at`, and a caret under it.
fn pointer(text: &str, at: usize) -> String {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    let column = text[start..at].chars().count();
    format!("  {line}\n  {:column$}^", "")
}

/// A reader that has seen enough, like `head`, is no failure.
fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("error: standard output: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
