//! System calls of a whole process per task, from outside: `strace -fc` around the same workload at two sizes, the
//! difference divided. For pools that do not count their own, and as a check of ours. Tracing slows every call, so
//! it is a run of its own and nothing is timed in it.
use crate::paths;
use std::path::Path;
use std::process::{Command, Stdio};

/// Calls per task of the arm that `counts` knows as `arm`; `Err` says why there is no number.
pub(super) fn per_task(arm: &str, workers: usize, tasks: u64) -> Result<f64, String> {
    let small = tasks / 4;
    let calls = |tasks: u64| {
        let (workers, tasks) = (workers.to_string(), tasks.to_string());
        let path = ["count-child", "--path", "wakeup", "--arm", arm, "--depth", "0"];
        traced_calls(&[&path[..], &["--workers", &workers, "--tasks", &tasks]].concat())
    };
    let (few, many) = (calls(small)?, calls(tasks)?);
    Ok((many as f64 - few as f64) / (tasks - small) as f64)
}

/// System calls of this program with `args`, all threads together, in a run of its own.
pub(crate) fn traced_calls(args: &[&str]) -> Result<u64, String> {
    let strace = paths::program(&["strace"]).ok_or("no `strace` in PATH (Debian: `apt-get install strace`)")?;
    let exe = std::env::current_exe().map_err(|e| e.to_string())?;
    let summary = std::env::temp_dir().join(format!("bench-strace-{}.txt", std::process::id()));
    let mut command = Command::new(strace);
    command.args(STRACE).arg(&summary).arg(exe).args(args);
    let out = command.stdin(Stdio::null()).output().map_err(|e| format!("strace: {e}"))?;
    let calls = total_calls(&summary);
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(format!("strace ended with {}: {}", out.status, said.lines().next().unwrap_or_default()));
    }
    calls
}

/// What makes `strace` count the calls of all threads; the file of the summary and the program come next.
pub(crate) const STRACE: [&str; 5] = ["-f", "-c", "-U", "calls,name", "-o"];

/// All calls of a summary, which is removed: left behind it would only take up room.
pub(crate) fn total_calls(summary: &Path) -> Result<u64, String> {
    let text = std::fs::read_to_string(summary);
    let _ = std::fs::remove_file(summary);
    total(&text.map_err(|e| format!("{}: {e}", summary.display()))?).ok_or_else(|| "no total in its summary".into())
}

/// The number in the line of the total.
fn total(summary: &str) -> Option<u64> {
    let line = summary.lines().find(|l| l.trim_end().ends_with(" total"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found() {
        let summary = "    calls syscall\n--------- ----------------\n       34 futex\n        1 total_recall\n\
                       --------- ----------------\n       35 total\n";
        assert_eq!(total(summary), Some(35));
        assert_eq!(total("strace: attach failed\n"), None);
    }
}
