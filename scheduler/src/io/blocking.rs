//! Work that blocks, on a thread that may.

use super::fallback::pool;
use super::node::{Operation, Right};
use super::op::Op;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The system has no thread for it; the work has not been begun.
pub struct Refused<F> {
    /// What the system says.
    pub reason: io::Error,
    /// The work.
    pub work: F,
}

impl<F> fmt::Debug for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no thread for work that blocks: {}", self.reason)
    }
}

impl<F> std::error::Error for Refused<F> {}

/// Runs `work`, which may block, on a thread for that purpose, and returns its value. There are at most four such
/// threads per CPU (and between 4 and 64); further work waits until one is free. They end when they are idle for ten
/// seconds.
///
/// Dropped before it is ready, it leaves the work undone if that was not begun; else the value is dropped there.
///
/// # Errors
/// [`Refused`], with the work, when the system has no thread at all for it, or in the child of a fork.
///
/// # Panics
/// With the panic of the work.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let host = scheduler::block_on(scheduler::io::blocking(|| std::fs::read_to_string("/proc/sys/kernel/hostname")));
/// assert!(!host.expect("a thread")?.is_empty());
/// # Ok(())
/// # }
/// ```
pub async fn blocking<F, T>(work: F) -> Result<T, Refused<F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Op::new(Blocking { work: Some(Shut(work)), value: None }).await
}

/// Never looked into while it is pinned, so it may move whatever it is.
struct Shut<F>(F);

struct Blocking<F, T> {
    work: Option<Shut<F>>,
    value: Option<std::thread::Result<T>>,
}

// Nothing of it is ever pinned.
impl<F, T> Unpin for Blocking<F, T> {}

impl<F, T> Operation for Blocking<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Output = Result<T, Refused<F>>;

    fn run(&mut self) -> i32 {
        let work = self.work.take().expect("run once").0;
        self.value = Some(catch_unwind(AssertUnwindSafe(work)));
        0
    }
    fn output(self, result: i32) -> Self::Output {
        match (self.value, self.work) {
            (Some(Ok(value)), _) => Ok(value),
            (Some(Err(panic)), _) => resume_unwind(panic),
            (None, Some(Shut(work))) => Err(Refused { reason: io::Error::from_raw_os_error(-result), work }),
            (None, None) => unreachable!("run, and nothing came of it"),
        }
    }
    fn send(right: Right) {
        pool::send(right);
    }
}
