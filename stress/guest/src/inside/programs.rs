//! Tests of the crates and the command `numa`, as they are, inside.

use super::{Check, Finding};
use crate::machine::Machine;
use std::process::Command;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "tests: numa live",
        boots: &["five", "threads", "flat", "wide"],
        holds: |_| tests("live", &[]),
        control: |_| tests("live", &["no_such_test"]),
        missed: false,
    },
    Check {
        name: "tests: stress pingpong",
        boots: &["five"],
        holds: |_| tests("pingpong", &[]),
        control: |_| tests("pingpong", &["no_such_test"]),
        missed: false,
    },
    Check {
        name: "tests: stress limits",
        boots: &["five"],
        holds: |_| tests("limits", &[]),
        control: |_| tests("limits", &["no_such_test"]),
        missed: false,
    },
    Check {
        name: "tests: stress shutdown",
        boots: &["threads"],
        holds: |_| tests("shutdown", &[]),
        control: |_| tests("shutdown", &["no_such_test"]),
        missed: false,
    },
    Check {
        name: "the command numa",
        boots: &["five", "threads", "flat", "wide"],
        holds: |machine| command(machine, &["--json"]),
        control: |machine| command(machine, &["--json", "--root", "/tests"]),
        missed: false,
    },
];

/// The stress round with eight workers.
const ROUND: &str = "5";
/// Lines of a failing program that go to the console.
const LAST_WORDS: usize = 40;

/// A test program passes, and has something to pass.
fn tests(name: &str, arguments: &[&str]) -> Finding {
    let mut command = Command::new(format!("/tests/{name}"));
    let output = command.args(arguments).env("STRESS_ROUND", ROUND).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let result = text.lines().find_map(|line| line.strip_prefix("test result: "));
    let result = result.unwrap_or("no result").split(';').take(2).collect::<Vec<_>>().join(";");
    let evidence = format!("{result}, {}", output.status);
    if output.status.success() && !result.starts_with("ok. 0 passed") {
        return Ok(evidence);
    }
    for text in [text, String::from_utf8_lossy(&output.stderr)] {
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST_WORDS)..].iter().for_each(|line| eprintln!("    {line}"));
    }
    Err(evidence)
}

/// `numa --json` lists every node of this machine, and workers for every CPU.
fn command(machine: &Machine, arguments: &[&str]) -> Finding {
    let output = Command::new("/bin/numa").args(arguments).output().map_err(|error| error.to_string())?;
    let json: String = String::from_utf8_lossy(&output.stdout).chars().filter(|c| !c.is_whitespace()).collect();
    let count = |part: &str| json.matches(part).count();
    let (nodes, workers) = (count("\"memory_kb\":"), count("\"why\":"));
    let cpus: usize = machine.seen.nodes.iter().map(|node| node.cpus.len()).sum();
    let text = format!("{}, {nodes} nodes, {workers} workers", output.status);
    let good = output.status.success() && nodes == machine.seen.nodes.len() && workers == cpus;
    if good { Ok(text) } else { Err(format!("{text}; {}", String::from_utf8_lossy(&output.stderr))) }
}
