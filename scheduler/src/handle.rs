//! The cloneable way in.
#![expect(unsafe_code, reason = "erases the type of tasks that own what they use")]

use crate::error::{BatchError, SubmitError};
use crate::fork_join::join_on;
use crate::future::{self, Joiner, Ours};
use crate::join_handle::JoinHandle;
use crate::metrics::Metrics;
use crate::policy::Place;
use crate::scope::{Scope, run_on, scope};
use crate::submit::{OnFull, Submitter, submit, submit_batch, submit_on};
use crate::sync::Arc;
use crate::task::join::{task, untask};
use crate::worker::{Shared, current};
use std::fmt;
use std::future::Future;

/// Submits to a scheduler from any thread. Cheap to clone. It does not keep the workers alive: after the
/// [`Scheduler`](crate::Scheduler) is gone everything is refused as [`SubmitError::Closed`].
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Handle {
    /// The scheduler of the worker that this runs on.
    ///
    /// # Panics
    /// On a thread that is not a worker.
    pub fn current() -> Handle {
        Self::try_current().expect("Handle::current: this thread is not a worker of a scheduler")
    }

    /// The scheduler of the worker that this runs on, if this is one.
    pub fn try_current() -> Option<Handle> {
        current().map(|context| Handle { shared: context.shared.clone() })
    }

    /// The index of the worker that this runs on, whatever its scheduler.
    pub fn worker_index() -> Option<usize> {
        current().map(|context| context.index)
    }

    /// Queues a task: fire and forget. No allocation while the backlog is bounded and the closure is at most 56 bytes.
    ///
    /// On a worker of this scheduler the task goes to the worker's own queue, newest first; from any other thread to
    /// the thread's lane, oldest first. It never blocks unless the scheduler has a capacity and is full: then a foreign
    /// thread sleeps, and a worker runs other tasks or, if there are none, this very one.
    ///
    /// A panic of the task is counted and given to the panic handler.
    ///
    /// # Errors
    /// [`SubmitError::Closed`] or [`SubmitError::Forked`], with the closure. Tasks that run while the scheduler drains
    /// may go on submitting.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// static RUNS: AtomicU32 = AtomicU32::new(0);
    /// let scheduler = scheduler::Scheduler::new()?;
    /// for _ in 0..100 {
    ///     scheduler.submit(|| { RUNS.fetch_add(1, Relaxed); })?;
    /// }
    /// drop(scheduler); // drains and joins
    /// assert_eq!(RUNS.load(Relaxed), 100);
    /// # Ok(())
    /// # }
    /// ```
    #[inline(always)]
    pub fn submit<F: FnOnce() + Send + 'static>(&self, f: F) -> Result<(), SubmitError<F>> {
        // SAFETY: the task owns what it uses.
        unsafe { submit(&self.shared, f, OnFull::Wait) }
    }

    /// [`Handle::submit`] that never blocks.
    ///
    /// # Errors
    /// Also [`SubmitError::Full`].
    #[inline(always)]
    pub fn try_submit<F: FnOnce() + Send + 'static>(&self, f: F) -> Result<(), SubmitError<F>> {
        // SAFETY: the task owns what it uses.
        unsafe { submit(&self.shared, f, OnFull::Refuse) }
    }

    /// Queues a task that should run at `place`.
    ///
    /// This is a wish. A task for a worker waits in a lane that this worker looks at, and the others leave it alone for
    /// a while: a worker that has nothing else to do takes it after about 50 µs, a standby at its next look (150 µs at
    /// most), and a busy one takes one such task per 4,096 of its own. A task for a node is taken by that node's
    /// workers first, and by others as far work is: after two empty rounds of search, or one per 4,096 of their own. So
    /// a place that is stuck delays its tasks and never holds them. From a worker that is at the place already the task
    /// goes to its own queue.
    ///
    /// Each place that a thread submits to costs it a lane of its own. Otherwise like [`Handle::submit`].
    ///
    /// # Errors
    /// As for [`Handle::submit`], and [`SubmitError::NoSuchPlace`]; always with the closure.
    ///
    /// ```
    /// use scheduler::{Place, Scheduler, SubmitError};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let scheduler = Scheduler::builder().workers(2).build()?;
    /// scheduler.submit_on(Place::Worker(1), || println!("near worker 1"))?;
    /// scheduler.submit_on(Place::Node(0), || println!("on the first node"))?;
    /// let refused = scheduler.submit_on(Place::Worker(7), || ()).unwrap_err();
    /// assert!(matches!(refused, SubmitError::NoSuchPlace(_, Place::Worker(7))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn submit_on<F: FnOnce() + Send + 'static>(&self, place: Place, f: F) -> Result<(), SubmitError<F>> {
        // SAFETY: the task owns what it uses.
        unsafe { submit_on(&self.shared, place, f, OnFull::Wait) }
    }

    /// [`Handle::spawn`] of a task that should run at `place`: see [`Handle::submit_on`].
    ///
    /// # Errors
    /// As for [`Handle::submit_on`].
    pub fn spawn_on<F, T>(&self, place: Place, f: F) -> Result<JoinHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (runnable, output) = task(f);
        // SAFETY: the task owns what it uses.
        match unsafe { submit_on(&self.shared, place, runnable, OnFull::Wait) } {
            Ok(()) => Ok(JoinHandle::new(output)),
            Err(refused) => Err(refused.map(|runnable| untask(runnable, output))),
        }
    }

    /// Queues all tasks of an iterator with one publication and one wake decision; returns how many. Blocks as
    /// [`Handle::submit`] does.
    ///
    /// # Errors
    /// [`BatchError`] with the number accepted and everything else.
    ///
    /// # Panics
    /// When the iterator does; what it has yielded before runs.
    pub fn submit_batch<I>(&self, tasks: I) -> Result<usize, BatchError<I::IntoIter>>
    where
        I: IntoIterator,
        I::Item: FnOnce() + Send + 'static,
    {
        submit_batch(&self.shared, tasks)
    }

    /// Queues a task whose value can be joined.
    ///
    /// # Errors
    /// As for [`Handle::submit`].
    pub fn spawn<F, T>(&self, f: F) -> Result<JoinHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_or(OnFull::Wait, f)
    }

    /// [`Handle::spawn`] that never blocks.
    ///
    /// # Errors
    /// Also [`SubmitError::Full`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let scheduler = scheduler::Scheduler::builder().workers(1).capacity(64).build()?;
    /// let answer = match scheduler.try_spawn(|| 6 * 7) {
    ///     Ok(handle) => handle.join()?,
    ///     Err(refused) => refused.into_inner()(), // full: here and now
    /// };
    /// assert_eq!(answer, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_spawn<F, T>(&self, f: F) -> Result<JoinHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_or(OnFull::Refuse, f)
    }

    #[inline]
    fn spawn_or<F, T>(&self, full: OnFull, f: F) -> Result<JoinHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (runnable, output) = task(f);
        // SAFETY: the task owns what it uses.
        match unsafe { submit(&self.shared, runnable, full) } {
            Ok(()) => Ok(JoinHandle::new(output)),
            Err(refused) => Err(refused.map(|runnable| untask(runnable, output))),
        }
    }

    /// Queues a future; its output can be joined or awaited. It is polled by the workers until it is ready, each time
    /// that it was woken. No allocation in steady state for futures of up to about 960 bytes.
    ///
    /// Whoever wakes it may be any thread, at any time, also when the scheduler has ended. Woken on a worker it goes to
    /// the top of the worker's queue; from elsewhere it is submitted, and that is not refused for want of capacity. One
    /// that wakes itself while it is polled comes back behind the others.
    ///
    /// A panic in its poll is the output ([`JoinError::Panicked`](crate::JoinError::Panicked)), also one while it is
    /// dropped. A future that is pending and that nobody can wake any more is dropped when its handle is, and at the
    /// latest when the scheduler ends: see [`Scheduler`](crate::Scheduler).
    ///
    /// # Errors
    /// As for [`Handle::submit`], with the future, which has not been polled.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let scheduler = scheduler::Scheduler::new()?;
    /// let handle = scheduler.handle();
    /// let outer = scheduler.spawn_future(async move {
    ///     let parts: Vec<_> = (1..=3).map(|n| handle.spawn_future(async move { n * n })).collect();
    ///     let mut sum = 0;
    ///     for part in parts {
    ///         sum += part.expect("open").await.expect("no panic");
    ///     }
    ///     sum
    /// })?;
    /// assert_eq!(outer.join()?, 14);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn spawn_future<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SubmitError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_future_or(OnFull::Wait, future)
    }

    /// [`Handle::spawn_future`] that never blocks.
    ///
    /// # Errors
    /// Also [`SubmitError::Full`].
    pub fn try_spawn_future<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SubmitError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_future_or(OnFull::Refuse, future)
    }

    #[inline]
    fn spawn_future_or<F>(&self, full: OnFull, future: F) -> Result<JoinHandle<F::Output>, SubmitError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // SAFETY: the scheduler of this handle; what keeps it later is said in the README of futures.
        let (right, head) = unsafe { future::task::<F, Ours>(future, Arc::as_ptr(&self.shared).cast()) };
        // SAFETY: the task owns what it uses.
        match unsafe { submit(&self.shared, right, full) } {
            // SAFETY: the handle's reference, with its type.
            Ok(()) => Ok(JoinHandle::of_future(unsafe { Joiner::new(head) })),
            Err(refused) => Err(refused.map(future::untask)),
        }
    }

    /// [`block_on`](crate::block_on): polls the future on the calling thread, which sleeps, or on a worker runs other
    /// tasks, while it is pending.
    ///
    /// # Panics
    /// With the panic of the future.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        crate::block_on(future)
    }

    /// Runs `body` with a [`Scope`] and returns its value after all tasks of the scope have ended; they may borrow from
    /// the caller's stack. A worker runs tasks while it waits. From a foreign thread the body runs as one task of the
    /// scheduler while the thread sleeps; after shutdown, on the caller.
    ///
    /// # Panics
    /// With the panic of the body, else the first one of a task, after everything has ended.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let scheduler = scheduler::Scheduler::new()?;
    /// let mut squares = vec![0; 8];
    /// scheduler.scope(|s| {
    ///     for (i, square) in squares.iter_mut().enumerate() {
    ///         s.spawn(move |_| *square = i * i);
    ///     }
    /// });
    /// assert_eq!(squares[7], 49);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scope<'scope, R: Send>(&self, body: impl FnOnce(&Scope<'scope>) -> R + Send) -> R {
        scope(&self.shared, body)
    }

    /// [`join`](crate::join) on this scheduler: from a foreign thread both closures run there, while the thread sleeps;
    /// after shutdown, on the caller.
    ///
    /// # Panics
    /// With the panic of `a`, else of `b`, after both have ended.
    #[inline]
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        match current() {
            Some(context) if context.shared.id == self.shared.id => join_on(context, a, b),
            _ => run_on(&self.shared, || crate::join(a, b)),
        }
    }

    /// A lane of its own, for a thread that submits much or a submitter that moves between threads.
    ///
    /// # Errors
    /// [`SubmitError::Closed`] or [`SubmitError::Forked`].
    pub fn register_submitter(&self) -> Result<Submitter, SubmitError<()>> {
        Submitter::new(&self.shared)
    }

    /// [`Handle::register_submitter`] for tasks that should run at `place`, in batches too: see [`Handle::submit_on`].
    ///
    /// # Errors
    /// As for [`Handle::register_submitter`], and [`SubmitError::NoSuchPlace`].
    pub fn register_submitter_on(&self, place: Place) -> Result<Submitter, SubmitError<()>> {
        Submitter::aimed(&self.shared, place)
    }

    /// What the scheduler has done so far. Takes a few microseconds; never disturbs the workers.
    pub fn metrics(&self) -> Metrics {
        Metrics::of(&self.shared)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("workers", &self.shared.workers.len())
            .field("phase", &self.shared.phase.get())
            .finish()
    }
}
