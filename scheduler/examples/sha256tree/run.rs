//! One run: build the scheduler, collect what the tasks report, print it.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use scheduler::{Scheduler, ShutdownMode};

use crate::cli::Options;
use crate::job::{Hashed, Job, Outcome, Seen};
use crate::report::{Progress, Summary, complain, shown};
use crate::{manifest, walk};

/// The progress bar moves this often.
const TICK: Duration = Duration::from_millis(100);
/// Nothing is left to do when the scheduler is asked to stop; a worker that takes longer is stuck in the kernel.
const STOP_LIMIT: Duration = Duration::from_secs(10);

const UNHASHED: u8 = 1;
const UNUSABLE: u8 = 2;
/// What a shell shows for a program that SIGPIPE ended.
const READER_GONE: u8 = 128 + 13;

pub(crate) fn main(options: &Options) -> ExitCode {
    let metadata = match look_at(&options.root) {
        Ok(metadata) => metadata,
        Err(text) => return unusable(&text),
    };
    let builder = Scheduler::builder();
    let builder = match options.workers {
        Some(n) => builder.workers(n),
        None => builder,
    };
    let scheduler = match builder.build() {
        Ok(scheduler) => scheduler,
        Err(error) => return unusable(&error.to_string()),
    };
    let (mut files, mut summary, lost) = hash_all(&scheduler, options, &metadata);
    let written = manifest::write(&mut files, io::stdout().lock());
    let mut code = if summary.errors.is_empty() { 0 } else { UNHASHED };
    if lost > 0 {
        complain(&format!("{lost} files were found but never reported ({} tasks panicked)", summary.metrics.panics));
        code = UNHASHED;
    }
    if let Err(error) = written {
        if error.kind() == io::ErrorKind::BrokenPipe {
            code = READER_GONE;
        } else {
            complain(&format!("write error: {error}"));
            summary.write_error = Some(error.to_string());
            code = UNHASHED;
        }
    }
    summary.print(options.json);
    ExitCode::from(code)
}

fn unusable(text: &str) -> ExitCode {
    complain(text);
    ExitCode::from(UNUSABLE)
}

/// Follows a symlink, and opens nothing.
fn look_at(root: &Path) -> Result<Metadata, String> {
    match fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() || metadata.is_file() => Ok(metadata),
        Ok(_) => Err(format!("{}: neither a directory nor a regular file", shown(root))),
        Err(error) => Err(format!("{}: {error}", shown(root))),
    }
}

/// Everything that was hashed, the run in numbers, and how many files were found but never reported: none, unless a
/// task panicked.
fn hash_all(scheduler: &Scheduler, options: &Options, metadata: &Metadata) -> (Vec<Hashed>, Summary, u64) {
    let began = Instant::now();
    let seen = Arc::new(Seen::default());
    let (results, incoming) = mpsc::channel();
    // Two per worker: while one file waits for its next chunk, another can be hashed.
    let big_at_once = 2 * scheduler.metrics().workers.len();
    let job = Job::new(scheduler.handle(), results, Arc::clone(&seen), big_at_once);
    walk::root(&job, options.root.clone(), metadata);
    drop(job);

    let collected = collect(&incoming, &seen);
    let time = began.elapsed();
    // The last result arrives before its task has quite ended; the counters are exact once all have.
    scheduler.wait_idle(STOP_LIMIT);
    let metrics = scheduler.metrics();
    scheduler.shutdown(ShutdownMode::Drain, STOP_LIMIT);

    let lost = seen.files_found.load(Relaxed) - collected.reported;
    let bytes = collected.files.iter().map(|file| file.bytes).sum();
    let files = collected.files.len() as u64;
    let summary = Summary { files, bytes, errors: collected.errors, write_error: None, time, metrics };
    (collected.files, summary, lost)
}

#[derive(Default)]
struct Collected {
    files: Vec<Hashed>,
    errors: Vec<(PathBuf, String)>,
    reported: u64,
}

/// Receives until the last task is gone.
fn collect(incoming: &Receiver<Vec<Outcome>>, seen: &Seen) -> Collected {
    let progress = Progress::new();
    let mut collected = Collected::default();
    let mut due = Instant::now();
    loop {
        match incoming.recv_timeout(TICK) {
            Ok(outcomes) => outcomes.into_iter().for_each(|outcome| collected.add(outcome, &progress)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if Instant::now() >= due {
            progress.update(seen, collected.reported);
            due = Instant::now() + TICK;
        }
    }
    progress.finish();
    collected
}

impl Collected {
    fn add(&mut self, outcome: Outcome, progress: &Progress) {
        self.reported += u64::from(!matches!(outcome, Outcome::Unlisted(..)));
        match outcome {
            Outcome::Hashed(file) => self.files.push(file),
            Outcome::Failed(path, problem) | Outcome::Unlisted(path, problem) => {
                let problem = problem.to_string();
                progress.complain(&format!("{}: {problem}", shown(&path)));
                self.errors.push((path, problem));
            }
        }
    }
}
