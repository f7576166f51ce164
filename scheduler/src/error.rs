//! Errors that give back what they could not use.

use crate::policy::Place;
use crate::sys::uring::{Refused, administrators_switch};
use std::any::Any;
use std::fmt;
use std::io;

/// Why a task was not accepted, with the closure.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubmitError<F> {
    /// The scheduler has a capacity and no room now.
    Full(F),
    /// The scheduler shuts down or is gone.
    Closed(F),
    /// This is the child of a `fork`; its copy of the scheduler has no threads.
    Forked(F),
    /// The scheduler has no such worker, or its host no such node.
    NoSuchPlace(F, Place),
}

impl<F> SubmitError<F> {
    /// The closure.
    pub fn into_inner(self) -> F {
        match self {
            SubmitError::Full(f) | SubmitError::Closed(f) | SubmitError::Forked(f) => f,
            SubmitError::NoSuchPlace(f, _) => f,
        }
    }

    /// The same reason around another value.
    pub(crate) fn map<G>(self, to: impl FnOnce(F) -> G) -> SubmitError<G> {
        match self {
            SubmitError::Full(f) => SubmitError::Full(to(f)),
            SubmitError::Closed(f) => SubmitError::Closed(to(f)),
            SubmitError::Forked(f) => SubmitError::Forked(to(f)),
            SubmitError::NoSuchPlace(f, place) => SubmitError::NoSuchPlace(to(f), place),
        }
    }
}

impl<F> fmt::Debug for SubmitError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SubmitError::Full(_) => "Full(..)",
            SubmitError::Closed(_) => "Closed(..)",
            SubmitError::Forked(_) => "Forked(..)",
            SubmitError::NoSuchPlace(_, place) => return write!(f, "NoSuchPlace(.., {place:?})"),
        })
    }
}

impl<F> fmt::Display for SubmitError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SubmitError::Full(_) => "the scheduler is full",
            SubmitError::Closed(_) => "the scheduler is shut down",
            SubmitError::Forked(_) => "the scheduler belongs to the parent of this forked process",
            SubmitError::NoSuchPlace(_, place) => return write!(f, "the scheduler has no {place}"),
        })
    }
}

impl<F> std::error::Error for SubmitError<F> {}

/// A batch that was not accepted whole.
#[non_exhaustive]
pub struct BatchError<I: Iterator> {
    /// Tasks accepted: they run.
    pub accepted: usize,
    /// Why the rest was refused.
    pub reason: SubmitError<()>,
    /// Tasks that were taken from the iterator and given back, in order; they come before `rest`.
    pub returned: Vec<I::Item>,
    /// What is left of the iterator.
    pub rest: I,
}

impl<I: Iterator> BatchError<I> {
    /// The refused tasks in order.
    pub fn into_tasks(self) -> impl Iterator<Item = I::Item> {
        self.returned.into_iter().chain(self.rest)
    }
}

impl<I: Iterator> fmt::Debug for BatchError<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchError").field("accepted", &self.accepted).field("reason", &self.reason).finish()
    }
}

impl<I: Iterator> fmt::Display for BatchError<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tasks of the batch accepted, then: {}", self.accepted, self.reason)
    }
}

impl<I: Iterator> std::error::Error for BatchError<I> {}

/// Why a joined task has no value.
#[non_exhaustive]
pub enum JoinError {
    /// The task was aborted before it started, or dropped by an aborting shutdown.
    Cancelled,
    /// The task panicked with this payload.
    Panicked(Box<dyn Any + Send>),
}

impl JoinError {
    /// The message of a panic, where it was a string.
    pub fn message(&self) -> Option<&str> {
        let JoinError::Panicked(payload) = self else { return None };
        let text = payload.downcast_ref::<&'static str>().copied();
        text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Cancelled => f.write_str("Cancelled"),
            JoinError::Panicked(_) => write!(f, "Panicked({:?})", self.message().unwrap_or("..")),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Cancelled => f.write_str("the task was cancelled"),
            JoinError::Panicked(_) => write!(f, "the task panicked: {}", self.message().unwrap_or("(no message)")),
        }
    }
}

impl std::error::Error for JoinError {}

/// Why no scheduler was built. Nothing is left behind.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// `workers(0)`, or more than the limit.
    Workers {
        /// What was asked for.
        asked: usize,
        /// The largest number allowed.
        limit: usize,
    },
    /// `capacity(0)`.
    Capacity,
    /// A stack too small for a worker.
    StackSize {
        /// What was asked for, in bytes.
        asked: usize,
        /// The smallest size allowed, in bytes.
        least: usize,
    },
    /// An environment variable that cannot be used.
    Environment {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it: what was expected instead, or the place in it, counted from 0, and what is missing
        /// there.
        problem: String,
    },
    /// Workers cannot be placed as asked.
    Placement(numa::PlacementError),
    /// `barrier(Membarrier)` where the kernel refuses the call.
    Membarrier(io::Error),
    /// `io(Uring)` where a worker gets no ring.
    Io {
        /// The worker.
        worker: usize,
        /// What is missing.
        why: NoRing,
    },
    /// Memory of the scheduler or of a worker could not be mapped.
    Memory(io::Error),
    /// The system refused a thread.
    Spawn {
        /// Workers that had started; they have been stopped again.
        started: usize,
        /// Workers wanted.
        wanted: usize,
        /// What the system said.
        source: io::Error,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Workers { asked, limit } => write!(f, "workers({asked}): must be 1 to {limit}"),
            BuildError::Capacity => f.write_str("capacity(0): must be at least 1"),
            BuildError::StackSize { asked, least } => write!(f, "stack_size({asked}): must be at least {least} bytes"),
            BuildError::Environment { name, value, problem } => write!(f, "{name}={value:?}: {problem}"),
            BuildError::Placement(e) => write!(f, "placement: {e}"),
            BuildError::Membarrier(e) => write!(f, "barrier(Membarrier): the kernel refuses membarrier: {e}"),
            BuildError::Io { worker, why } => write!(f, "io(Uring): worker {worker} gets no ring: {why}"),
            BuildError::Memory(e) => write!(f, "cannot map memory: {e}"),
            BuildError::Spawn { started, wanted, source } => {
                write!(f, "thread creation refused after {started} of {wanted} workers had started: {source}")
            }
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Placement(e) => Some(e),
            BuildError::Membarrier(e) | BuildError::Memory(e) | BuildError::Spawn { source: e, .. } => Some(e),
            _ => None,
        }
    }
}

/// Why a worker has no ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoRing {
    /// The kernel refused a call.
    Refused {
        /// The call.
        call: &'static str,
        /// What it said, as an errno.
        errno: i32,
    },
    /// The kernel is too old for something that cannot be done without.
    Lacks(&'static str),
    /// Nothing was heard of the first wake-up, although no call was refused.
    Mute,
    /// It was not to have one.
    Unwanted,
}

impl From<Refused> for NoRing {
    fn from(refused: Refused) -> Self {
        NoRing::Refused { call: refused.call, errno: refused.errno }
    }
}

impl fmt::Display for NoRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            NoRing::Refused { call, errno } => {
                write!(f, "{call} {}", Errno(errno))?;
                match administrators_switch() {
                    Some(switch @ 1..) if errno == libc::EPERM => write!(f, " (kernel.io_uring_disabled={switch})"),
                    _ => Ok(()),
                }
            }
            NoRing::Lacks(what) => write!(f, "the kernel has no {what}"),
            NoRing::Mute => f.write_str("a ring whose bell is not heard"),
            NoRing::Unwanted => f.write_str("as configured"),
        }
    }
}

/// An errno by its name, if it is one that these calls are known to return.
struct Errno(i32);

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            libc::EPERM => "EPERM",
            libc::EACCES => "EACCES",
            libc::ENOSYS => "ENOSYS",
            libc::EOPNOTSUPP => "EOPNOTSUPP",
            libc::EINVAL => "EINVAL",
            libc::ENOMEM => "ENOMEM",
            libc::EMFILE => "EMFILE",
            libc::ENFILE => "ENFILE",
            libc::EAGAIN => "EAGAIN",
            other => return write!(f, "errno {other}"),
        })
    }
}
