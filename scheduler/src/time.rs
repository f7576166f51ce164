//! Futures that wait for a time. The clock is the monotonic one; a timer fires when its time has come and never before,
//! usually within 0.2 ms of it, and later when the worker that it belongs to is busy: see `timer/README.md`.
//!
//! They are polled by workers, or by [`block_on`](crate::block_on) on any thread; where they are made does not matter.
#![expect(unsafe_code, reason = "pinned parts of pinned futures, and nodes that wheels point to")]

use crate::future::{block_on::insert_timer, budget};
use crate::sync::{Arc, nanos, nanos_at};
use crate::timer::{Node, Stage, Timers, tick_after};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Ready when `time` has passed since the call. Times that no clock will ever show mean: never.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::{Duration, Instant};
/// let began = Instant::now();
/// scheduler::block_on(scheduler::time::sleep(Duration::from_millis(2)));
/// assert!(began.elapsed() >= Duration::from_millis(2));
/// # Ok(())
/// # }
/// ```
pub fn sleep(time: Duration) -> Sleep {
    let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Sleep::at(nanos().saturating_add(time))
}

/// Ready at `deadline`, or at once if that has passed.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::at(nanos_at(deadline))
}

/// What [`sleep`] and [`sleep_until`] return. Dropping it takes its timer out, at once and without a search.
#[must_use = "futures do nothing unless they are awaited"]
pub struct Sleep {
    node: Node,
    /// Nanoseconds on the process's clock.
    deadline: u64,
    /// Whose timers the node is in, or was.
    timers: Option<Arc<Timers>>,
    _pinned: std::marker::PhantomPinned,
}

impl Sleep {
    fn at(deadline: u64) -> Self {
        Sleep { node: Node::new(), deadline, timers: None, _pinned: std::marker::PhantomPinned }
    }

    /// The time has come.
    pub fn is_over(&self) -> bool {
        nanos() >= self.deadline
    }

    fn node(&self) -> Pin<&Node> {
        // SAFETY: whoever links it has the sleep pinned.
        unsafe { Pin::new_unchecked(&self.node) }
    }

    fn stop(&mut self) {
        if let Some(timers) = self.timers.take() {
            // SAFETY: if it is linked it is linked there.
            unsafe { timers.cancel(self.node()) };
        }
    }

    /// Sets another deadline, also after the first one has passed. Its timer is taken out; the next poll sets the new
    /// one, so a sleep that somebody waits for is to be polled again.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.reset_to(nanos_at(deadline));
    }

    fn reset_to(self: Pin<&mut Self>, deadline: u64) {
        // SAFETY: nothing is moved.
        let this = unsafe { self.get_unchecked_mut() };
        this.stop();
        this.deadline = deadline;
    }
}

impl Future for Sleep {
    type Output = ();

    /// # Panics
    /// When it has to wait and is polled neither by a worker nor by [`block_on`](crate::block_on).
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: nothing is moved.
        let this = unsafe { self.get_unchecked_mut() };
        if let (Stage::Linked, Some(timers)) = (this.node.stage(), &this.timers) {
            // SAFETY: linked there.
            if unsafe { timers.rewake(this.node(), context.waker()) } {
                return Poll::Pending;
            }
        }
        if this.is_over() {
            this.stop();
            return budget::spend(context);
        }
        this.stop();
        let (tick, waker) = (tick_after(this.deadline), context.waker().clone());
        // SAFETY: not linked; pinned, and taken out before it is dropped.
        this.timers = unsafe { insert_timer(this.node(), tick, waker) };
        if this.timers.is_none() {
            nobody_keeps_time();
        }
        Poll::Pending
    }
}

#[cold]
fn nobody_keeps_time() -> ! {
    panic!("a sleep is awaited on a thread that keeps no time: use a worker, or scheduler::block_on")
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("left", &Duration::from_nanos(self.deadline.saturating_sub(nanos()))).finish()
    }
}

/// The time was over first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time is over")
    }
}

impl std::error::Error for Elapsed {}

/// The output of `future`, or [`Elapsed`] if that takes longer than `time`. The future is polled first, so one that is
/// ready wins.
///
/// ```
/// use scheduler::time::{Elapsed, timeout};
/// use std::time::Duration;
/// let late = scheduler::block_on(timeout(Duration::from_millis(1), std::future::pending::<()>()));
/// assert_eq!(late, Err(Elapsed));
/// ```
pub fn timeout<F: Future>(time: Duration, future: F) -> Timeout<F> {
    Timeout { future, sleep: sleep(time) }
}

/// What [`timeout`] returns.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Timeout<F> {
    future: F,
    sleep: Sleep,
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: neither part is moved.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: pinned with the whole.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        if let Poll::Ready(output) = future.poll(context) {
            return Poll::Ready(Ok(output));
        }
        // SAFETY: as above.
        let sleep = unsafe { Pin::new_unchecked(&mut this.sleep) };
        sleep.poll(context).map(|()| Err(Elapsed))
    }
}

/// Ticks every `period`, the first time at once. Ticks that were missed are left out: the next one comes at the next
/// multiple of the period. A period of zero is taken for a nanosecond.
///
/// ```
/// use std::time::Duration;
/// scheduler::block_on(async {
///     let mut interval = scheduler::time::interval(Duration::from_millis(1));
///     for _ in 0..3 {
///         interval.tick().await;
///     }
/// });
/// ```
pub fn interval(period: Duration) -> Interval {
    let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1);
    Interval { sleep: Box::pin(Sleep::at(nanos())), period }
}

/// What [`interval`] returns.
#[derive(Debug)]
pub struct Interval {
    sleep: Pin<Box<Sleep>>,
    period: u64,
}

impl Interval {
    /// Waits for the next tick. Dropped before it is ready, it leaves the tick to the next call.
    pub async fn tick(&mut self) {
        std::future::poll_fn(|context| self.poll_tick(context)).await;
    }

    /// [`Interval::tick`], once.
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.sleep.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        let due = self.sleep.deadline;
        let missed = nanos().saturating_sub(due) / self.period;
        let next = due.saturating_add(self.period.saturating_mul(missed.saturating_add(1)));
        self.sleep.as_mut().reset_to(next);
        Poll::Ready(())
    }
}
