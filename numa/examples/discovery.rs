//! How long discovery takes: `cargo run --release -p numa --example discovery [ROOT] [ROUNDS]`.
//!
//! Reads the host (or the tree below ROOT) ROUNDS times, and prints the least, the middle and the greatest time, and
//! how long this thread was on a CPU per round. On a busy machine the middle tells of the neighbours; the time on the
//! CPU tells of the reader.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let root = arguments.next().map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let rounds = match arguments.next().map(|rounds| rounds.to_string_lossy().parse::<usize>()) {
        None => 100,
        Some(Ok(rounds @ 1..)) => rounds,
        Some(_) => {
            eprintln!("error: ROUNDS: expected a number, at least 1");
            return ExitCode::from(2);
        }
    };
    let mut times = Vec::with_capacity(rounds);
    let mut last = None;
    let before = on_cpu();
    for _ in 0..rounds {
        let began = Instant::now();
        let host = numa::Topology::from_root(&root);
        times.push(began.elapsed());
        last = Some(host);
    }
    let spent = on_cpu().zip(before).map(|(now, before)| (now - before) / rounds as u32);
    times.sort_unstable();
    match last {
        Some(Ok(host)) => {
            println!("{} CPUs, {} nodes, {} files", host.cpus().len(), host.nodes().len(), host.reads().len());
            println!("least {:?}, middle {:?}, greatest {:?}", times[0], times[rounds / 2], times[rounds - 1]);
            if let Some(spent) = spent {
                println!("on the CPU {spent:?} each");
            }
            ExitCode::SUCCESS
        }
        Some(Err(error)) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
        None => ExitCode::SUCCESS,
    }
}

/// How long the main thread has been on a CPU, when the kernel keeps count.
fn on_cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
