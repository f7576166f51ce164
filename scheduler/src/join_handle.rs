//! The handle of a spawned task.

use crate::error::JoinError;
use crate::future::{Joiner, budget};
use crate::park::{Parker, Waiter};
use crate::sync::Arc;
use crate::sys::fork_generation;
use crate::task::join::Output;
use crate::task::state::Register;
use crate::task::waiting::Waiting;
use crate::worker::{Wait, block, current};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Which tasks a waiting worker may run meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Help {
    /// Any task.
    Any,
    /// Only the awaited task itself, if nobody has begun it; else the worker sleeps, and whatever it has queued can be
    /// run by the others. For waits inside of a lock that other tasks want, too. On a scheduler with one worker the
    /// awaited task must not wait for tasks that are queued behind it, unless it waits for them in this way, too. A
    /// future goes on when others do: for the wait for one this is the same as [`Help::Any`].
    Own,
}

/// The right to the value of a spawned task or future. It can be joined by a thread, or awaited. Dropping it detaches
/// the task, which runs all the same (a future that nobody can wake any more is dropped then).
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let scheduler = scheduler::Scheduler::new()?;
/// let handle = scheduler.spawn(|| 6 * 7)?;
/// assert_eq!(handle.join()?, 42);
///
/// let first = scheduler.spawn(|| 1)?;
/// let second = scheduler.spawn_future(async { first.await.map(|one| one + 1) })?;
/// assert_eq!(second.join()??, 2);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping the handle detaches the task"]
pub struct JoinHandle<T> {
    /// None once it has been awaited to the end.
    what: Option<What<T>>,
    generation: u32,
}

enum What<T> {
    Task(Output<T>),
    Future(Joiner<T>),
}

impl<T> What<T> {
    fn is_finished(&self) -> bool {
        match self {
            What::Task(output) => output.state().is_finished(),
            What::Future(joiner) => joiner.is_complete(),
        }
    }
    /// False: finished already.
    fn register(&self, waiting: Waiting) -> bool {
        match self {
            What::Task(output) => output.state().register(waiting) == Register::Waiting,
            What::Future(joiner) => joiner.register(waiting),
        }
    }
    fn unregister(&self) {
        match self {
            What::Task(output) => _ = output.state().unregister(),
            What::Future(joiner) => joiner.unregister(),
        }
    }
    fn take(self) -> Result<T, JoinError> {
        match self {
            What::Task(output) => output.take(),
            What::Future(joiner) => joiner.take(),
        }
    }
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(output: Output<T>) -> Self {
        JoinHandle { what: Some(What::Task(output)), generation: fork_generation() }
    }

    pub(crate) fn of_future(joiner: Joiner<T>) -> Self {
        JoinHandle { what: Some(What::Future(joiner)), generation: fork_generation() }
    }

    fn what(&self) -> &What<T> {
        self.what.as_ref().expect("a join handle is not polled again after it was ready")
    }

    fn into_what(self) -> What<T> {
        self.what.expect("a join handle is not joined after it was awaited")
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
    ///
    /// # Panics
    /// When the handle was awaited to the end before.
    pub fn join(self) -> Result<T, JoinError> {
        self.join_with(Help::Any)
    }

    /// [`JoinHandle::join`], with a say in what a waiting worker may run.
    ///
    /// # Errors
    /// As for [`JoinHandle::join`].
    ///
    /// # Panics
    /// As [`JoinHandle::join`].
    pub fn join_with(self, help: Help) -> Result<T, JoinError> {
        if self.orphaned() {
            return Err(JoinError::Cancelled);
        }
        let what = match (help, current(), self.into_what()) {
            (Help::Own, Some(context), What::Task(output)) => match context.with_stack(|| output.run_here()) {
                Ok(value) => return value,
                Err(output) => {
                    let what = What::Task(output);
                    context.stand_still(&Finished(&what));
                    what
                }
            },
            (_, _, what) => {
                block(&Finished(&what), None);
                what
            }
        };
        what.take()
    }

    /// [`JoinHandle::join`] for at most `limit`. A worker that runs other tasks meanwhile may overstay by one task.
    ///
    /// # Errors
    /// The handle itself when the time is over.
    ///
    /// # Panics
    /// As [`JoinHandle::join`].
    pub fn join_timeout(self, limit: Duration) -> Result<Result<T, JoinError>, JoinHandle<T>> {
        if self.orphaned() {
            return Ok(Err(JoinError::Cancelled));
        }
        if block(&Finished(self.what()), Some(limit)) {
            return Ok(self.into_what().take());
        }
        self.what().unregister();
        Err(self)
    }

    /// A join would not wait. True also after the handle was awaited to the end.
    pub fn is_finished(&self) -> bool {
        self.what.as_ref().is_none_or(What::is_finished)
    }

    /// Cancels the task. Never blocks. What was queued stays in its queue, and keeps its place in the
    /// [capacity](crate::Builder::capacity), until a worker comes upon it: closure or future are dropped then.
    ///
    /// A closure is cancelled if it has not started. True: it never ran and never will, and a join says so at once. A
    /// future is dropped as soon as it is not being polled. True: it was not finished; it may still become ready in a
    /// poll that goes on just now. A join returns after the future has been dropped.
    pub fn abort(&self) -> bool {
        match &self.what {
            Some(What::Task(output)) => output.state().abort(),
            Some(What::Future(joiner)) => joiner.abort(),
            None => false,
        }
    }

    /// The task was queued before a fork, and this is the child: nobody will run it.
    fn orphaned(&self) -> bool {
        self.generation != fork_generation() && !self.is_finished()
    }
}

/// The value, as [`JoinHandle::join`] returns it. In the child of a fork it is [`JoinError::Cancelled`].
///
/// # Panics
/// When it is polled after it was ready.
impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.orphaned() {
            return Poll::Ready(Err(JoinError::Cancelled));
        }
        let over = self.is_finished() || !self.what().register(Waiting::Task(context.waker().clone()));
        if !over || budget::spend(context).is_pending() {
            return Poll::Pending;
        }
        match self.what.take() {
            Some(what) => Poll::Ready(what.take()),
            None => unreachable!("looked at above"),
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state: &dyn fmt::Debug = match &self.what {
            Some(What::Task(output)) => output.state(),
            Some(What::Future(joiner)) => joiner,
            None => &"awaited",
        };
        f.debug_struct("JoinHandle").field("state", state).finish()
    }
}

struct Finished<'a, T>(&'a What<T>);

impl<T> Wait for Finished<'_, T> {
    fn is_over(&self) -> bool {
        self.0.is_finished()
    }
    fn register(&self, parker: Arc<Parker>) -> bool {
        self.0.register(Waiter::new(&parker).into())
    }
}
