//! How often a task may find something ready before it lets others run.

use crate::config::BUDGET;
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Outside of a poll there is nobody to be fair to.
const ENDLESS: u32 = u32::MAX;

thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(ENDLESS) };
}

/// Runs one poll of a task with a fresh budget.
#[inline(always)]
pub fn within<R>(poll: impl FnOnce() -> R) -> R {
    struct Before(u32);
    impl Drop for Before {
        #[inline(always)]
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }
    let _before = Before(LEFT.replace(BUDGET));
    poll()
}

/// A future of this crate is about to be ready. Pending: the task has had its share, and is woken to go on later.
pub fn spend(context: &Context<'_>) -> Poll<()> {
    match LEFT.get() {
        ENDLESS => Poll::Ready(()),
        0 => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
        left => {
            LEFT.set(left - 1);
            Poll::Ready(())
        }
    }
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
