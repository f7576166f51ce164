//! Who waits for a task: a thread that sleeps, or a future that is to be polled again.
#![expect(unsafe_code, reason = "owns a waker through a number")]

use crate::park::Waiter;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::task::Waker;

/// Where a panic goes that no handle receives. Set once, by those who know which threads are workers.
static UNSEEN: OnceLock<fn(Box<dyn Any + Send>)> = OnceLock::new();

/// From now on `report` is given the panics that no handle receives; the first one to say so is.
pub fn report_unseen_to(report: fn(Box<dyn Any + Send>)) {
    UNSEEN.get_or_init(|| report);
}

/// The right to tell one waiter once.
pub enum Waiting {
    /// A thread.
    Thread(Waiter),
    /// A future.
    Task(Waker),
}

impl From<Waiter> for Waiting {
    fn from(waiter: Waiter) -> Self {
        Waiting::Thread(waiter)
    }
}

/// On a line of its own, so that the low bits of its address are free.
#[repr(align(64))]
struct Far(Waker);

impl Waiting {
    /// Uses the right. A waker is foreign code: a panic of it must not keep a task from ending. On a worker it is
    /// reported like that of a detached task, elsewhere dropped.
    #[cold]
    pub fn tell(self) {
        match self {
            Waiting::Thread(waiter) => {
                waiter.unpark();
            }
            Waiting::Task(waker) => {
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                    UNSEEN.get().unwrap_or(&(drop_quietly as _))(payload);
                }
            }
        }
    }

    /// The right as a number whose low six bits are zero, and whether it is a future's.
    pub fn into_address(self) -> (usize, bool) {
        match self {
            Waiting::Thread(waiter) => (waiter.into_address(), false),
            Waiting::Task(waker) => (Box::into_raw(Box::new(Far(waker))).expose_provenance(), true),
        }
    }

    /// The right back from its number.
    ///
    /// # Safety
    /// 1. Both came from [`Waiting::into_address`], and that happened before this call.
    /// 2. It is turned back only once.
    pub unsafe fn from_address(address: usize, task: bool) -> Self {
        if task {
            // SAFETY: 1, 2: a box that was given up.
            let far = unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<Far>(address)) };
            Waiting::Task(far.0)
        } else {
            // SAFETY: 1, 2.
            Waiting::Thread(unsafe { Waiter::from_address(address) })
        }
    }
}

/// Drops a panic payload, or a value that nobody gets; should its destructor panic, the payload of that is leaked
/// rather than dropped.
pub fn drop_quietly<T>(value: T) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        let _leaked = std::mem::ManuallyDrop::new(second);
    }
}
