//! The handle of a spawned task.

use crate::error::JoinError;
use crate::park::{Parker, Waiter};
use crate::sync::Arc;
use crate::sys::fork_generation;
use crate::task::join::Output;
use crate::task::state::Register;
use crate::worker::{Wait, block, current};
use std::fmt;
use std::time::Duration;

/// Which tasks a waiting worker may run meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Help {
    /// Any task.
    Any,
    /// Only the awaited task itself, if nobody has begun it; else the worker sleeps, and whatever it has queued can be
    /// run by the others. For waits inside of a lock that other tasks want, too. On a scheduler with one worker the
    /// awaited task must not wait for tasks that are queued behind it, unless it waits for them in this way, too.
    Own,
}

/// The right to the value of a spawned task. Dropping it detaches the task, which runs all the same.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let scheduler = scheduler::Scheduler::new()?;
/// let handle = scheduler.spawn(|| 6 * 7)?;
/// assert_eq!(handle.join()?, 42);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping the handle detaches the task"]
pub struct JoinHandle<T> {
    output: Output<T>,
    generation: u32,
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(output: Output<T>) -> Self {
        JoinHandle { output, generation: fork_generation() }
    }

    /// Waits for the task and returns its value. A worker (of any scheduler) runs other tasks meanwhile; every other
    /// thread sleeps. Never call it inside of a lock that tasks take: use [`JoinHandle::join_with`] and [`Help::Own`]
    /// there. A task should join only what it (or a task it has spawned) has spawned: a worker that waits runs other
    /// tasks on top of the waiting one, so two tasks that wait for each other's siblings may end up below one another
    /// on one stack, and wait for ever.
    ///
    /// # Errors
    /// [`JoinError::Panicked`] with the task's panic; [`JoinError::Cancelled`] if it was aborted or dropped unrun, or
    /// in the child of a fork.
    pub fn join(self) -> Result<T, JoinError> {
        self.join_with(Help::Any)
    }

    /// [`JoinHandle::join`], with a say in what a waiting worker may run.
    ///
    /// # Errors
    /// As for [`JoinHandle::join`].
    pub fn join_with(self, help: Help) -> Result<T, JoinError> {
        if self.orphaned() {
            return Err(JoinError::Cancelled);
        }
        let output = match (help, current()) {
            (Help::Own, Some(context)) => match context.with_stack(|| self.output.run_here()) {
                Ok(value) => return value,
                Err(output) => {
                    context.stand_still(&Finished(&output));
                    output
                }
            },
            _ => {
                block(&Finished(&self.output), None);
                self.output
            }
        };
        output.take()
    }

    /// [`JoinHandle::join`] for at most `limit`. A worker that runs other tasks meanwhile may overstay by one task.
    ///
    /// # Errors
    /// The handle itself when the time is over.
    pub fn join_timeout(self, limit: Duration) -> Result<Result<T, JoinError>, JoinHandle<T>> {
        if self.orphaned() {
            return Ok(Err(JoinError::Cancelled));
        }
        if block(&Finished(&self.output), Some(limit)) {
            return Ok(self.output.take());
        }
        self.output.state().unregister();
        Err(self)
    }

    /// A join would not wait.
    pub fn is_finished(&self) -> bool {
        self.output.state().is_finished()
    }

    /// Cancels the task if it has not started. True: it never ran and never will. Never blocks.
    pub fn abort(&self) -> bool {
        self.output.state().abort()
    }

    /// The task was queued before a fork, and this is the child: nobody will run it.
    fn orphaned(&self) -> bool {
        self.generation != fork_generation() && !self.is_finished()
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("state", self.output.state()).finish()
    }
}

struct Finished<'a, T>(&'a Output<T>);

impl<T> Wait for Finished<'_, T> {
    fn is_over(&self) -> bool {
        self.0.state().is_finished()
    }
    fn register(&self, parker: Arc<Parker>) -> bool {
        self.0.state().register(Waiter::new(&parker)) == Register::Waiting
    }
}
