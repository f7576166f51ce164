//! Scopes: tasks that borrow from the stack of whoever waits for them.
#![expect(unsafe_code, reason = "tasks with borrowed captures, awaited before the borrow ends")]

use crate::fork_join::resume_after;
use crate::latch::{Register, ScopeLatch};
use crate::park::{Parker, Waiter};
use crate::submit::{OnFull, submit};
use crate::sync::{Acquire, Arc, AtomicPtr, Relaxed, Release, ord};
use crate::worker::{Shared, Wait, block, current, drop_quietly, without_unwinding};
use std::any::Any;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;

type Payload = Box<dyn Any + Send>;

/// Spawns tasks that may borrow whatever outlives the scope. Made by [`Handle::scope`](crate::Handle::scope).
pub struct Scope<'scope> {
    shared: Arc<Shared>,
    latch: ScopeLatch,
    panic: AtomicPtr<Payload>,
    _invariant: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

/// A task of a scope: it counts down also when it is dropped unrun.
struct Task<'scope, F>(*const Scope<'scope>, ManuallyDrop<F>);

// SAFETY: the closure is Send, and a scope is used through shared references by any thread.
unsafe impl<F: Send> Send for Task<'_, F> {}

impl<'scope, F: FnOnce(&Scope<'scope>)> Task<'scope, F> {
    fn run(mut self) {
        // SAFETY: taken once: `self` is forgotten below.
        let f = unsafe { ManuallyDrop::take(&mut self.1) };
        let scope = ManuallyDrop::new(self).0;
        // SAFETY: the scope waits for this task.
        let borrowed = unsafe { &*scope };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| f(borrowed))) {
            borrowed.keep_panic(payload);
        }
        // SAFETY: the last access to the scope.
        unsafe { Self::done(scope) };
    }

    /// # Safety
    /// The task's one count; its last access to the scope.
    unsafe fn done(scope: *const Scope<'scope>) {
        // SAFETY: no reference is made.
        let latch = unsafe { &raw const (*scope).latch };
        // SAFETY: the count is ours; nothing of the scope is borrowed any more.
        unsafe { ScopeLatch::done(latch) };
    }
}

impl<F> Drop for Task<'_, F> {
    fn drop(&mut self) {
        // SAFETY: dropped once: `run` takes the closure and forgets the task.
        let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { ManuallyDrop::drop(&mut self.1) }));
        // SAFETY: the scope waits for this task.
        let scope = unsafe { &*self.0 };
        if let Err(payload) = dropped {
            scope.keep_panic(payload);
        }
        let latch = &raw const scope.latch;
        // SAFETY: the count is ours, and this is the last access to the scope.
        unsafe { ScopeLatch::done(latch) };
    }
}

impl<'scope> Scope<'scope> {
    /// Queues a task of this scope; it gets the scope, to spawn more. Never blocks on a worker.
    ///
    /// Where the scheduler refuses (it is shut down, and this is not one of its workers) the task runs here.
    pub fn spawn<F>(&self, f: F)
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        self.latch.add();
        let task = Task(std::ptr::from_ref(self), ManuallyDrop::new(f));
        // SAFETY: the scope ends after its tasks, and what they borrow outlives the scope.
        if let Err(refused) = unsafe { submit(&self.shared, move || task.run(), OnFull::Wait) } {
            refused.into_inner()();
        }
    }

    /// Keeps the first payload.
    fn keep_panic(&self, payload: Payload) {
        let boxed = Box::into_raw(Box::new(payload));
        // SC1: the payload is whole for whoever finds the pointer.
        if self.panic.compare_exchange(null_mut(), boxed, ord("SC1", Release), Relaxed).is_err() {
            // SAFETY: made above, and not stored.
            drop_quietly(*unsafe { Box::from_raw(boxed) });
        }
    }

    fn take_panic(&self) -> Option<Payload> {
        // SC2: pairs with SC1.
        let boxed = self.panic.swap(null_mut(), ord("SC2", Acquire));
        // SAFETY: stored by `keep_panic`, taken out once.
        (!boxed.is_null()).then(|| *unsafe { Box::from_raw(boxed) })
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        if let Some(payload) = self.take_panic() {
            drop_quietly(payload);
        }
    }
}

/// Runs `body` with a scope and waits for all its tasks; on a worker of `shared`, or as one task of it.
pub(crate) fn scope<'scope, R: Send>(shared: &Arc<Shared>, body: impl FnOnce(&Scope<'scope>) -> R + Send) -> R {
    run_on(shared, || {
        let scope = Scope {
            shared: shared.clone(),
            latch: ScopeLatch::new(),
            panic: AtomicPtr::new(null_mut()),
            _invariant: PhantomData,
        };
        let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
        without_unwinding(|| block(&Counted(&scope.latch), None));
        match (result, scope.take_panic()) {
            (Ok(value), None) => value,
            (Ok(value), Some(payload)) => resume_after(value, payload),
            (Err(payload), other) => resume_after(other, payload),
        }
    })
}

struct Counted<'a>(&'a ScopeLatch);

impl Wait for Counted<'_> {
    fn is_over(&self) -> bool {
        self.0.is_set()
    }
    fn register(&self, parker: Arc<Parker>) -> bool {
        self.0.register(Waiter::new(&parker)) == Register::Waiting
    }
}

/// Runs `f` on a worker of `shared` and waits for it: here, if this is one; here, too, if the scheduler refuses.
pub(crate) fn run_on<R: Send>(shared: &Arc<Shared>, f: impl FnOnce() -> R + Send) -> R {
    if current().is_some_and(|context| context.shared.id == shared.id) {
        return f();
    }
    let output = Place(UnsafeCell::new(MaybeUninit::uninit()));
    let latch = ScopeLatch::new();
    latch.add();
    let (at, count) = (Pointer(output.0.get()), Pointer((&raw const latch).cast_mut()));
    let task = OneTask { f: ManuallyDrop::new(f), at, count };
    // SAFETY: this frame waits for the task.
    if let Err(refused) = unsafe { submit(shared, move || task.run(), OnFull::Wait) } {
        refused.into_inner()();
    }
    without_unwinding(|| block(&Counted(&latch), None));
    // SAFETY: written by the task before it counted down.
    let result = unsafe { output.0.into_inner().assume_init() };
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

struct Place<R>(UnsafeCell<MaybeUninit<std::thread::Result<R>>>);

struct Pointer<T>(*mut T);

// SAFETY: points to the stack of a thread that waits.
unsafe impl<T> Send for Pointer<T> {}

/// The one task of a foreign thread's `scope` or `join`. Dropped unrun (the scheduler aborts) it runs all the same: its
/// submitter waits for a value.
struct OneTask<F: FnOnce() -> R, R> {
    f: ManuallyDrop<F>,
    at: Pointer<MaybeUninit<std::thread::Result<R>>>,
    count: Pointer<ScopeLatch>,
}

impl<F: FnOnce() -> R, R> OneTask<F, R> {
    fn run(self) {
        drop(self);
    }
}

impl<F: FnOnce() -> R, R> Drop for OneTask<F, R> {
    fn drop(&mut self) {
        // SAFETY: taken once: this is the drop.
        let f = unsafe { ManuallyDrop::take(&mut self.f) };
        let result = catch_unwind(AssertUnwindSafe(f));
        // SAFETY: the submitter waits, and reads after the latch.
        let place = unsafe { &mut *self.at.0 };
        place.write(result);
        // SAFETY: the one count; the last access to the submitter's frame.
        unsafe { ScopeLatch::done(self.count.0) };
    }
}
