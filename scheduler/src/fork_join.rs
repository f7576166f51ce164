//! `join`: two closures, perhaps in parallel, at the price of two stores when nobody steals.
#![expect(unsafe_code, reason = "a frame on the stack that a thief may use")]

use crate::latch::{ForkLatch, Register};
use crate::park::{Parker, Waiter};
use crate::sync::Arc;
use crate::task::cells::Cells;
use crate::task::raw::{Header, Verb};
use crate::worker::{Context, Wait, current, drop_quietly, without_unwinding};
use std::any::Any;
use std::cell::UnsafeCell;
use std::marker::PhantomPinned;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs `a` and `b`, perhaps in parallel, and returns both values.
///
/// On a worker `b` becomes a *latent fork*: it is run by this worker after `a` unless another worker is hungry and
/// takes it. On any other thread both run here, one after the other; [`Handle::join`](crate::Handle::join) moves them
/// to the scheduler. Never allocates. Blocks (by running other tasks) only while another worker runs `b`.
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
#[cold]
fn both<RA, RB>(a: impl FnOnce() -> RA, b: impl FnOnce() -> RB) -> (RA, RB) {
    let first = catch_unwind(AssertUnwindSafe(a));
    let second = catch_unwind(AssertUnwindSafe(b));
    match (first, second) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(payload), other) => resume_after(other, payload),
        (other, Err(payload)) => resume_after(other, payload),
    }
}

/// Goes on unwinding with `payload`. What is left over goes first: a destructor that panics while the thread unwinds
/// would end the process.
pub(crate) fn resume_after<T>(left_over: T, payload: Box<dyn Any + Send>) -> ! {
    drop_quietly(left_over);
    resume_unwind(payload)
}

/// The second closure while it is latent.
#[repr(C)]
struct Frame<B: FnOnce() -> RB, RB> {
    header: Header,
    latch: ForkLatch,
    body: UnsafeCell<ManuallyDrop<B>>,
    output: UnsafeCell<MaybeUninit<std::thread::Result<RB>>>,
    /// The destructor's `&mut` must not claim the frame for itself: a thief may be using it.
    _shared: PhantomPinned,
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
        _shared: PhantomPinned,
    };
    if !context.push_fork((&raw const frame).cast_mut().cast()) {
        let frame = ManuallyDrop::new(frame);
        // SAFETY: the frame was not queued: the body is ours, once.
        let b = unsafe { frame.take() };
        return both(a, b);
    }
    // Should `a` unwind, the frame settles itself.
    let first = a();
    if context.pop_fork() {
        // SAFETY: nobody took it: the body is ours, once.
        let b = unsafe { frame.take() };
        let _settled = ManuallyDrop::new(frame);
        let first = LeftOver(ManuallyDrop::new(first));
        let second = b();
        return (first.take(), second);
    }
    let second = frame.stolen(context);
    let _settled = ManuallyDrop::new(frame);
    match second {
        Ok(second) => (first, second),
        Err(payload) => resume_after(first, payload),
    }
}

/// The value of `a` while `b` runs here: should `b` unwind, it goes quietly.
struct LeftOver<T>(ManuallyDrop<T>);

impl<T> LeftOver<T> {
    #[inline(always)]
    fn take(self) -> T {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: the destructor does not run any more.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl<T> Drop for LeftOver<T> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: dropped once, and not taken.
        drop_quietly(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

impl<B: FnOnce() -> RB, RB> Frame<B, RB> {
    /// # Safety
    /// The frame is not queued and not with a thief, and the body has not been taken.
    #[inline(always)]
    unsafe fn take(&self) -> B {
        // SAFETY: nobody else uses the frame.
        let body = unsafe { &mut *self.body.get() };
        // SAFETY: taken once.
        unsafe { ManuallyDrop::take(body) }
    }

    /// Waits for the thief.
    #[cold]
    #[inline(never)]
    fn stolen(&self, context: &Context) -> std::thread::Result<RB> {
        without_unwinding(|| context.help(&Latched(&self.latch)));
        // SAFETY: the thief is through with the frame.
        let output = unsafe { &*self.output.get() };
        // SAFETY: written by the thief before the latch was set, read once.
        unsafe { output.assume_init_read() }
    }
}

/// `a` unwinds: the frame must not leave the stack before `b` has ended, too.
impl<B: FnOnce() -> RB, RB> Drop for Frame<B, RB> {
    #[cold]
    fn drop(&mut self) {
        let context = current().expect("a frame is dropped on its worker");
        if context.pop_fork() {
            // SAFETY: nobody took it: the body is ours, once.
            let b = unsafe { self.take() };
            drop_quietly(catch_unwind(AssertUnwindSafe(b)));
        } else {
            drop_quietly(self.stolen(context));
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
    let shared = unsafe { &*frame };
    // SAFETY: stolen once, and by us.
    let b = unsafe { shared.take() };
    let output = catch_unwind(AssertUnwindSafe(b));
    // SAFETY: the joiner reads it after the latch only.
    let place = unsafe { &mut *shared.output.get() };
    place.write(output);
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
