//! What all tasks of one run share.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;

use scheduler::Handle;

use crate::big::Admission;

/// Held by every task and by nobody else: when the last task is gone, so is the sender, and the receiver of the results
/// sees the end. A task that panics gives its share back while unwinding, so the end comes in any case.
pub(crate) struct Job {
    handle: Handle,
    results: Sender<Vec<Outcome>>,
    pub(crate) seen: Arc<Seen>,
    pub(crate) admission: Admission,
}

/// Running totals for the progress bar and for the check that every file found was also reported.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) files_found: AtomicU64,
    pub(crate) bytes_found: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
}

/// One file or directory that is finished with.
pub(crate) enum Outcome {
    Hashed(Hashed),
    /// A file counted in [`Seen::files_found`] that has no sum.
    Failed(PathBuf, Problem),
    /// A directory that could not be listed (completely); counts as no file.
    Unlisted(PathBuf, Problem),
}

pub(crate) struct Hashed {
    pub(crate) path: PathBuf,
    pub(crate) digest: [u8; 32],
    pub(crate) bytes: u64,
}

/// Why there is no sum.
#[derive(Debug)]
pub(crate) enum Problem {
    Io(io::Error),
    /// Size or modification time differ between opening and closing.
    Changed {
        size_before: u64,
        size_after: u64,
    },
    /// A regular file when listed, something else when opened.
    NotRegular,
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Problem::Io(error)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Io(error) => error.fmt(f),
            Problem::Changed { size_before, size_after } if size_before == size_after => {
                write!(f, "changed while it was read ({size_before} bytes rewritten in place)")
            }
            Problem::Changed { size_before, size_after } => {
                let verb = if size_after < size_before { "shrank" } else { "grew" };
                write!(f, "changed while it was read ({verb} from {size_before} to {size_after} bytes)")
            }
            Problem::NotRegular => f.write_str("is no regular file any more"),
        }
    }
}

impl Job {
    pub(crate) fn new(handle: Handle, results: Sender<Vec<Outcome>>, seen: Arc<Seen>, big_at_once: usize) -> Arc<Self> {
        let admission = Admission::new(big_at_once);
        Arc::new(Job { handle, results, seen, admission })
    }

    /// Runs `task` on the scheduler. If it takes no tasks any more, runs it here: a file is never dropped.
    pub(crate) fn submit(self: &Arc<Self>, task: impl FnOnce(Arc<Job>) + Send + 'static) {
        let job = Arc::clone(self);
        if let Err(refused) = self.handle.submit(move || task(job)) {
            (refused.into_inner())();
        }
    }

    /// Hands finished files to the collector.
    pub(crate) fn report(&self, outcomes: Vec<Outcome>) {
        // The collector only goes away when the process is about to exit; nobody wants the result then.
        let _ = self.results.send(outcomes);
    }

    /// Counts a file before anything can go wrong with it.
    pub(crate) fn found(&self, bytes: u64) {
        self.seen.files_found.fetch_add(1, Relaxed);
        self.seen.bytes_found.fetch_add(bytes, Relaxed);
    }
}
