//! A future on the calling thread.
#![expect(unsafe_code, reason = "the thread's current frame")]

use super::budget;
use crate::park::Parker;
use crate::sync::{Acquire, Arc, AtomicBool, Relaxed, Release, nanos, ord, planted};
use crate::timer::{NEVER, Node, Timers, tick_at, until};
use crate::worker::{Wait, current};
use std::cell::{Cell, OnceCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::ptr::null;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A future that is polled by a thread of its own: was it woken, and where does the thread sleep?
pub struct Sleeper {
    woken: AtomicBool,
    parker: Arc<Parker>,
}

impl Wake for Sleeper {
    fn wake(self: std::sync::Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &std::sync::Arc<Self>) {
        // FU11: the poll sees what was told (FU12). An exchange, so that what an earlier waker told is seen with it.
        // The token comes after it, so the sleeper looks once more.
        if planted("sleeper-store") {
            self.woken.store(true, Release);
        } else {
            self.woken.swap(true, ord("FU11", Release));
        }
        self.parker.unpark();
    }
}

impl Sleeper {
    /// Woken for its first poll.
    pub fn new(parker: Arc<Parker>) -> std::sync::Arc<Self> {
        std::sync::Arc::new(Sleeper { woken: AtomicBool::new(true), parker })
    }

    /// The polling thread, before each poll: what comes from now on is for the next one.
    pub fn take(&self) {
        // FU12: pairs with FU11.
        self.woken.swap(false, ord("FU12", Acquire));
    }

    /// The polling thread, before and after each sleep.
    pub fn is_woken(&self) -> bool {
        // Relaxed: `take` comes before the poll.
        self.woken.load(Relaxed)
    }
}

/// A worker waits for a wake.
struct Woken<'a>(&'a Sleeper);

impl Wait for Woken<'_> {
    fn is_over(&self) -> bool {
        self.0.is_woken()
    }
    fn register(&self, _: Arc<Parker>) -> bool {
        // The waker knows this worker's parker from the beginning.
        !self.is_over()
    }
}

/// What a thread that is no worker has while it polls: its timers, if the future has some.
struct Frame {
    timers: OnceCell<Arc<Timers>>,
}

thread_local! {
    static FRAME: Cell<*const Frame> = const { Cell::new(null()) };
}

/// Inserts a timer where the calling thread sleeps by it: a worker's, or that of `block_on`. Says where; `None` if
/// there is nothing.
///
/// # Safety
/// 1. As for [`Timers::insert`].
pub(crate) unsafe fn insert_timer(node: Pin<&Node>, tick: u64, waker: Waker) -> Option<Arc<Timers>> {
    if let Some(context) = current() {
        // SAFETY: 1.
        return Some(unsafe { context.insert_timer(node, tick, waker) });
    }
    // SAFETY: set by `Frame::enter` while the frame lives on this thread.
    let frame = unsafe { FRAME.get().as_ref() }?;
    let timers = frame.timers.get_or_init(|| Arc::new(Timers::new_at(tick_at(nanos()))));
    // SAFETY: 1; this thread's.
    unsafe { timers.insert(node, tick, waker) };
    Some(timers.clone())
}

/// The calling thread keeps time: a sleep may be polled here.
pub(crate) fn keeps_time() -> bool {
    current().is_some() || !FRAME.get().is_null()
}

impl Frame {
    /// Runs `body` as the outermost `block_on` of this thread, or inside of another one.
    fn enter<R>(body: impl FnOnce(&Frame) -> R) -> R {
        struct Leave(Option<Frame>);
        impl Drop for Leave {
            fn drop(&mut self) {
                if let Some(frame) = &self.0 {
                    FRAME.set(null());
                    // Timers that have gone elsewhere find other ones when they are polled.
                    frame.timers.get().into_iter().for_each(|timers| timers.end());
                }
            }
        }
        // SAFETY: as in `insert_timer`.
        if let Some(outer) = unsafe { FRAME.get().as_ref() } {
            return body(outer);
        }
        let leave = Leave(Some(Frame { timers: OnceCell::new() }));
        let frame = leave.0.as_ref().expect("just made");
        FRAME.set(frame);
        body(frame)
    }

    /// Sleeps until a token comes or a timer is due, and fires what is due.
    fn sleep(&self, parker: &Parker) {
        let timers = self.timers.get().filter(|timers| timers.next() != NEVER);
        let limit = timers.map(|timers| Duration::from_nanos(until(timers.next(), nanos())));
        if limit != Some(Duration::ZERO) {
            let _ = parker.park(limit);
        }
        if let Some(timers) = timers {
            timers.turn(tick_at(nanos()));
        }
    }
}

/// Polls a future on the calling thread until it is ready. On a worker (of any scheduler) other tasks run while it is
/// pending, on top of the caller's stack, as in [`JoinHandle::join`](crate::JoinHandle::join): the same rules hold. Any
/// other thread sleeps; timers of the future are kept by it.
///
/// # Panics
/// With the panic of the future.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// let scheduler = scheduler::Scheduler::new()?;
/// let sum = scheduler::block_on(async {
///     let one = scheduler.spawn_future(async { 1 }).expect("open");
///     scheduler::time::sleep(Duration::from_millis(1)).await;
///     one.await.expect("no panic") + 1
/// });
/// assert_eq!(sum, 2);
/// # Ok(())
/// # }
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let worker = current();
    let parker = worker.map_or_else(crate::worker::parker, |worker| worker.parker().clone());
    let sleeper = Sleeper::new(parker);
    let waker = Waker::from(sleeper.clone());
    let mut context = Context::from_waker(&waker);
    let mut poll = || {
        sleeper.take();
        budget::begin();
        future.as_mut().poll(&mut context)
    };
    if let Some(worker) = worker {
        loop {
            if let Poll::Ready(output) = poll() {
                return output;
            }
            worker.help(&Woken(&sleeper));
        }
    }
    Frame::enter(|frame| {
        loop {
            if let Poll::Ready(output) = poll() {
                return output;
            }
            while !sleeper.is_woken() {
                frame.sleep(&sleeper.parker);
            }
        }
    })
}
