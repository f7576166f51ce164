//! How often a task may find something ready before it lets others run.

use crate::config::BUDGET;
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(BUDGET) };
}

/// A poll of a task begins: it has a fresh budget.
#[inline(always)]
pub fn begin() {
    LEFT.set(BUDGET);
}

/// A future of this crate is about to be ready. Pending: the task has had its share, and is woken to go on later.
pub fn spend(context: &Context<'_>) -> Poll<()> {
    let left = LEFT.get();
    if left == 0 {
        // For whoever polls without a beginning: another executor.
        begin();
        context.waker().wake_by_ref();
        return Poll::Pending;
    }
    LEFT.set(left - 1);
    Poll::Ready(())
}

/// Lets other tasks run: the task comes back behind everything that its worker has queued, and other workers may take
/// it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let scheduler = scheduler::Scheduler::new()?;
/// let task = scheduler.spawn_future(async {
///     for _ in 0..3 {
///         scheduler::yield_now().await;
///     }
///     "fair"
/// })?;
/// assert_eq!(task.join()?, "fair");
/// # Ok(())
/// # }
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// What [`yield_now`] returns.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
