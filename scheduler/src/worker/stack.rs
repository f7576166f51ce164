//! What a worker does when its stack is used up: a fresh thread is the worker meanwhile. Decision 0006.
#![expect(unsafe_code, reason = "lends a worker to another thread, which it waits for")]

use super::context::{CURRENT, Context};
use super::run::without_unwinding;
use crate::config::{REFUSED_US, STACK_SIZE};
use crate::latch::ForkLatch;
use crate::park::{Parker, Waiter};
use crate::sync::{Arc, Relaxed, ticks};
use crate::sys::stack_floor;
use crate::task::cells::lend;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null;

/// Something of a waiting thread, in use by another.
struct Lent<T: ?Sized>(*const T);

// SAFETY: the lender waits, so there is one user at a time.
unsafe impl<T: ?Sized> Send for Lent<T> {}

impl Context {
    /// Runs `f` on a fresh thread that is this worker meanwhile; the calling thread waits. False: the system refused
    /// the thread, and `f` did not run.
    #[cold]
    pub(super) fn on_fresh_stack(&self, f: &dyn Fn()) -> bool {
        let last = self.refused.get();
        if last != 0 && ticks().wrapping_sub(last) < REFUSED_US * self.ticks_per_us {
            // A refusal is not asked for again at every level of a nest.
            return false;
        }
        let (context, work) = (Lent(std::ptr::from_ref(self)), Lent(std::ptr::from_ref(f)));
        let floor = self.stack_floor.get();
        let run = move || {
            let (context, work) = (context, work);
            // SAFETY: the lender waits.
            let context = unsafe { &*context.0 };
            // SAFETY: as above.
            let work = unsafe { &*work.0 };
            context.stack_floor.set(stack_floor());
            CURRENT.set(context);
            lend(context.cells, || (context.shared.stand_in)(context, work));
            CURRENT.set(null());
        };
        let over = ForkLatch::new();
        let latch = Lent(&raw const over);
        let run = move || {
            without_unwinding(run);
            let latch = latch;
            // SAFETY: the lender waits for it; the last access to what is lent. The thread's own destructors come
            // later.
            unsafe { ForkLatch::set(latch.0) };
        };
        // The worker's own parker is in use by the spare.
        let parker = Arc::new(Parker::new());
        let first = self.wires.servant.borrow().is_none();
        if first {
            self.wires.servant.replace(Some(parker.clone()));
        }
        let name = format!("spare-{}", self.index);
        let thread = std::thread::Builder::new().name(name).stack_size(self.shared.stack_size.max(STACK_SIZE));
        // Relaxed, all: statistics.
        self.shared.spares.fetch_add(1, Relaxed);
        // SAFETY: waited for right below, so what is lent outlives its use.
        if unsafe { thread.spawn_unchecked(run) }.is_err() {
            self.shared.spares.fetch_sub(1, Relaxed);
            self.refused.set(ticks().max(1));
            if first {
                self.wires.servant.replace(None);
            }
            return false;
        }
        if first {
            let _ = over.register(Waiter::new(&parker));
            self.serve_ring(&parker, &|| over.is_set());
            self.wires.servant.replace(None);
            self.serve_left();
        } else {
            over.wait(&parker);
        }
        self.shared.spares.fetch_sub(1, Relaxed);
        self.stack_floor.set(floor);
        true
    }

    /// Runs `f` where there is stack for it.
    pub fn with_stack<R>(&self, f: impl FnOnce() -> R) -> R {
        if self.stack_left() {
            return f();
        }
        let (f, result) = (Cell::new(Some(f)), Cell::new(None));
        let run = || {
            if let Some(f) = f.take() {
                result.set(Some(catch_unwind(AssertUnwindSafe(f))));
            }
        };
        if !self.on_fresh_stack(&run) {
            // The system refuses the thread: what stack there is must do.
            run();
        }
        match result.take().expect("it has run") {
            Ok(value) => value,
            Err(payload) => resume_unwind(payload),
        }
    }

    /// Bytes of stack left to the caller are enough to run other tasks on top.
    pub(super) fn stack_left(&self) -> bool {
        self.stack_above(self.stack_reserve)
    }

    /// The system refuses a spare thread: what there is may still be enough for a small one.
    pub(super) fn stack_left_at_all(&self) -> bool {
        self.stack_above(self.stack_reserve / 2)
    }

    fn stack_above(&self, reserve: usize) -> bool {
        let here = 0u8;
        let floor = self.stack_floor.get();
        floor == 0 || (&raw const here).addr().saturating_sub(floor) > reserve
    }
}
