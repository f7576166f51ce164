//! `join`: two closures, perhaps in parallel, at the price of two stores when nobody steals.
#![expect(unsafe_code, reason = "a frame on the stack that a thief may use")]

use crate::latch::{ForkLatch, Register};
use crate::park::{Parker, Waiter};
use crate::sync::Arc;
use crate::task::cells::Cells;
use crate::task::raw::{Header, Verb};
use crate::worker::{Context, Wait, current};
use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs `a` and `b`, perhaps in parallel, and returns both values.
///
/// On a worker `b` becomes a *latent fork*: it is run by this worker after `a` unless another worker is hungry and takes
/// it. On any other thread both run here, one after the other; [`Handle::join`](crate::Handle::join) moves them to the
/// scheduler. Never allocates. Blocks (by running other tasks) only while another worker runs `b`.
///
/// # Panics
/// With the panic of `a`, else of `b`, after both have ended.
///
/// ```
/// fn fib(n: u64) -> u64 {
///     if n < 2 { return n }
///     let (a, b) = scheduler::join(|| fib(n - 1), || fib(n - 2));
///     a + b
/// }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let scheduler = scheduler::Scheduler::new()?;
/// let sum = scheduler.spawn(|| fib(20))?.join()?;
/// assert_eq!(sum, 6765);
/// # Ok(())
/// # }
/// ```
#[inline(always)]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    match current() {
        Some(context) => join_on(context, a, b),
        None => both(a, b),
    }
}

/// One after the other, both even if the first panics.
fn both<RA, RB>(a: impl FnOnce() -> RA, b: impl FnOnce() -> RB) -> (RA, RB) {
    let first = catch_unwind(AssertUnwindSafe(a));
    let second = catch_unwind(AssertUnwindSafe(b));
    match (first, second) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(payload), _) | (_, Err(payload)) => resume_unwind(payload),
    }
}

/// The second closure while it is latent.
#[repr(C)]
struct Frame<B, RB> {
    header: Header,
    latch: ForkLatch,
    body: UnsafeCell<ManuallyDrop<B>>,
    output: UnsafeCell<MaybeUninit<std::thread::Result<RB>>>,
}

#[inline(always)]
pub(crate) fn join_on<A, B, RA, RB>(context: &Context, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let frame = Frame {
        header: Header { run: run_fork::<B, RB> },
        latch: ForkLatch::new(),
        body: UnsafeCell::new(ManuallyDrop::new(b)),
        output: UnsafeCell::new(MaybeUninit::uninit()),
    };
    if !context.push_fork((&raw const frame).cast_mut().cast()) {
        // SAFETY: the frame was not queued: the body is ours, once.
        let b = unsafe { ManuallyDrop::take(&mut *frame.body.get()) };
        return both(a, b);
    }
    let settle = Settle { context, frame: &frame };
    let first = a();
    let settle = ManuallyDrop::new(settle);
    if context.pop_fork() {
        // SAFETY: nobody took it: the body is ours, once.
        let b = unsafe { ManuallyDrop::take(&mut *frame.body.get()) };
        return (first, b());
    }
    match settle.stolen() {
        Ok(second) => (first, second),
        Err(payload) => resume_unwind(payload),
    }
}

/// `a` unwinds: the frame must not leave the stack before `b` has ended, too.
struct Settle<'a, B: FnOnce() -> RB, RB> {
    context: &'a Context,
    frame: &'a Frame<B, RB>,
}

impl<B: FnOnce() -> RB, RB> Settle<'_, B, RB> {
    /// Waits for the thief.
    #[cold]
    #[inline(never)]
    fn stolen(&self) -> std::thread::Result<RB> {
        let abort = AbortOnUnwind;
        self.context.help(&Latched(&self.frame.latch));
        let _done = ManuallyDrop::new(abort);
        // SAFETY: the thief is through with the frame.
        let output = unsafe { &*self.frame.output.get() };
        // SAFETY: written by the thief before the latch was set, read once.
        unsafe { output.assume_init_read() }
    }
}

impl<B: FnOnce() -> RB, RB> Drop for Settle<'_, B, RB> {
    #[cold]
    fn drop(&mut self) {
        if self.context.pop_fork() {
            // SAFETY: nobody took it: the body is ours, once.
            let b = unsafe { ManuallyDrop::take(&mut *self.frame.body.get()) };
            drop(catch_unwind(AssertUnwindSafe(b)));
        } else {
            drop(self.stolen());
        }
    }
}

/// What the thief calls. A fork always runs: its joiner waits for the value, also when the scheduler aborts.
///
/// # Safety
/// See [`crate::task::raw::RunFn`]; the header is that of a stolen frame.
unsafe fn run_fork<B: FnOnce() -> RB, RB>(header: *mut Header, _: &Cells, _: Verb) {
    let frame: *mut Frame<B, RB> = header.cast();
    // SAFETY: the joiner does not leave the frame before the latch is set.
    let body = unsafe { &mut *(*frame).body.get() };
    // SAFETY: stolen once.
    let b = unsafe { ManuallyDrop::take(body) };
    let output = catch_unwind(AssertUnwindSafe(b));
    // SAFETY: as above; the joiner reads it after the latch.
    unsafe { (*(*frame).output.get()).write(output) };
    // SAFETY: no reference is made.
    let latch = unsafe { &raw const (*frame).latch };
    // SAFETY: the last access to the frame.
    unsafe { ForkLatch::set(latch) };
}

struct Latched<'a>(&'a ForkLatch);

impl Wait for Latched<'_> {
    fn is_over(&self) -> bool {
        self.0.is_set()
    }
    fn register(&self, parker: Arc<Parker>) -> bool {
        self.0.register(Waiter::new(&parker)) == Register::Waiting
    }
}

/// Scheduler code that must not unwind, because somebody else uses this stack.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}
