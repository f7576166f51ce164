//! What goes to stderr: the progress bar, one line per problem, the closing line or its JSON form.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use scheduler::Metrics;
use serde_json::json;

use crate::job::Seen;

/// With more workers than this the closing line tells them by node.
const WORKERS_IN_FULL: usize = 8;

/// The progress bar; draws only if stderr is a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let style = ProgressStyle::with_template("{wide_bar} {binary_bytes} of {binary_total_bytes}, {msg}")
            .expect("the template is fixed");
        Progress { bar: ProgressBar::new(0).with_style(style) }
    }

    pub(crate) fn update(&self, seen: &Seen, files_done: u64) {
        self.bar.set_length(seen.bytes_found.load(Relaxed));
        self.bar.set_position(seen.bytes_read.load(Relaxed));
        self.bar.set_message(format!("{files_done} of {} files", seen.files_found.load(Relaxed)));
    }

    /// Prints a line above the bar.
    pub(crate) fn complain(&self, text: &str) {
        self.bar.suspend(|| complain(text));
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Prints `sha256tree: text` on stderr. A stderr that is gone is no reason to stop: the exit code tells.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "sha256tree: {text}");
}

/// A path for a message: on one line whatever its bytes are.
pub(crate) fn shown(path: &Path) -> String {
    match path.to_str() {
        Some(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => format!("{path:?}"),
    }
}

/// The run in numbers.
pub(crate) struct Summary {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) errors: Vec<(PathBuf, String)>,
    /// Why the manifest could not be written.
    pub(crate) write_error: Option<String>,
    pub(crate) time: Duration,
    pub(crate) metrics: Metrics,
}

impl Summary {
    /// The last line of stderr.
    pub(crate) fn print(&self, as_json: bool) {
        if as_json {
            let _ = writeln!(io::stderr(), "{}", self.json());
        } else {
            complain(&self.line());
        }
    }

    fn line(&self) -> String {
        let m = &self.metrics;
        let failed = match self.errors.len() {
            0 => String::new(),
            n => format!("{n} NOT HASHED, "),
        };
        format!(
            "{} files, {failed}{} bytes in {:.2} s; {} tasks on {}; {} steals, {} wakes, {} parks",
            self.files,
            self.bytes,
            self.time.as_secs_f64(),
            m.tasks,
            places(m),
            m.steals,
            m.wakes,
            m.parks
        )
    }

    fn json(&self) -> serde_json::Value {
        let m = &self.metrics;
        let worker = |w: &scheduler::WorkerMetrics| {
            json!({ "index": w.index, "node": w.node, "cpu": w.cpu, "bound": w.bound, "tasks": w.tasks,
                    "steals": w.steals, "parks": w.parks })
        };
        let errors = self.errors.iter().map(|(path, error)| as_json(path, error));
        json!({
            "files": self.files,
            "bytes": self.bytes,
            "failed": self.errors.len(),
            "seconds": self.time.as_secs_f64(),
            "tasks": m.tasks,
            "steals": m.steals,
            "wakes": m.wakes,
            "parks": m.parks,
            "panics": m.panics,
            "workers": m.workers.iter().map(worker).collect::<Vec<_>>(),
            "errors": errors.collect::<Vec<_>>(),
            "write_error": self.write_error,
        })
    }
}

/// One error. A path that is no text has its bytes beside it.
fn as_json(path: &Path, error: &str) -> serde_json::Value {
    match path.to_str() {
        Some(text) => json!({ "path": text, "error": error }),
        None => json!({ "path": path.to_string_lossy(), "path_bytes": path.as_os_str().as_bytes(), "error": error }),
    }
}

/// Where the workers ran: `2 workers (0: node 0 cpu 0, 1: node 0 cpu 1)`, or per node when they are many.
fn places(metrics: &Metrics) -> String {
    let workers = &metrics.workers;
    let plural = if workers.len() == 1 { "" } else { "s" };
    let mut text = format!("{} worker{plural} (", workers.len());
    if workers.len() <= WORKERS_IN_FULL {
        for (i, w) in workers.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            let _ = write!(text, "{comma}{}: node {}", w.index, w.node);
            match w.cpu {
                Some(cpu) if w.bound => _ = write!(text, " cpu {cpu}"),
                _ if !w.bound => text.push_str(" unbound"),
                _ => {}
            }
        }
    } else {
        let mut nodes: Vec<_> = workers.iter().map(|w| w.node).collect();
        nodes.sort_unstable();
        for (i, group) in nodes.chunk_by(|a, b| a == b).enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            let _ = write!(text, "{comma}{} on node {}", group.len(), group[0]);
        }
    }
    text.push(')');
    text
}
