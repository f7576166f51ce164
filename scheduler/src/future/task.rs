//! The descriptor of a spawned future, and what its runner does with it.
#![expect(unsafe_code, reason = "one allocation shared by runner, handle and wakers, arbitrated by one word")]

use super::budget;
use super::state::{Complete, Dropped, Look, Rest, Retire, Start, State};
use super::waker::WAKER;
use super::{Home, Way};
use crate::roll::Place;
use crate::sync::Racy;
use crate::task::raw::{Header, Job};
use crate::task::waiting::{Waiting, drop_quietly};
use std::alloc::Layout;
use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, needs_drop};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::ptr::{NonNull, null};
use std::task::{Context, Poll, RawWaker, Waker};

type Payload = Box<dyn Any + Send>;

/// What is known of a future whose type has been forgotten.
#[repr(C)]
pub struct Head {
    /// The protocol between all who hold a reference.
    pub state: State,
    vtable: &'static Vtable,
    /// The scheduler; see [`Home`].
    home: *const (),
    /// The runner's: where the future stands in a roll.
    place: Cell<*const Place<Header>>,
    /// The handle's until it has registered, then that of whoever completes.
    waiter: Racy<Option<Waiting>>,
    /// For whoever has the right and puts off using it.
    pub(super) next: Cell<*const Head>,
}

/// What can be done with a future whose type has been forgotten. Common obligation: the descriptor is alive, and its
/// output is of the type that the caller takes it for.
struct Vtable {
    /// The caller has started: drops the future, completes.
    cancel: unsafe fn(NonNull<Head>) -> Option<Payload>,
    /// The caller has the right, which goes into a queue.
    schedule: unsafe fn(NonNull<Head>),
    /// The caller is the handle of a complete future: moves the output to `*mut Option<Result<T>>`.
    take: unsafe fn(NonNull<Head>, *mut ()),
    /// The caller had the last reference.
    free: unsafe fn(NonNull<Head>),
}

/// The future until it is complete, then the output, if there is one; both at the same address.
#[repr(C)]
union Stage<F: Future> {
    future: ManuallyDrop<F>,
    output: ManuallyDrop<Option<std::thread::Result<F::Output>>>,
}

#[repr(C)]
struct Task<F: Future, H: Home> {
    head: Head,
    stage: Racy<Stage<F>>,
    home: PhantomData<H>,
}

/// The right to poll a future once. Dropped unused, it cancels the future.
pub struct Right<F: Future, H: Home>(NonNull<Task<F, H>>);

// SAFETY: the future and its output may be sent; the rest is arbitrated by atomics.
unsafe impl<F: Future<Output: Send> + Send, H: Home> Send for Right<F, H> {}

/// Makes a task of `future`: the right to poll it for the first time, and the handle's reference.
///
/// # Safety
/// 1. `home` is what `H` expects, and valid while the right exists, and while the future is listed.
#[inline(always)]
pub unsafe fn task<F: Future, H: Home>(future: F, home: *const ()) -> (Right<F, H>, NonNull<Head>) {
    let memory = H::allocate(Layout::new::<Task<F, H>>()).cast::<Task<F, H>>();
    let head = Head {
        state: State::new(),
        vtable: Right::<F, H>::VTABLE,
        home,
        place: Cell::new(null()),
        waiter: Racy::new(None),
        next: Cell::new(null()),
    };
    let stage = Racy::new(Stage { future: ManuallyDrop::new(future) });
    // SAFETY: fresh memory of this layout.
    unsafe { memory.write(Task { head, stage, home: PhantomData }) };
    (Right(memory), memory.cast())
}

/// Takes a task apart that was never queued and whose handle was not given out.
pub fn untask<F: Future, H: Home>(right: Right<F, H>) -> F {
    let task = ManuallyDrop::new(right).0;
    // SAFETY: right and handle are both the caller's, so the task is.
    let stage = unsafe { &task.as_ref().stage };
    let future = stage.with(|stage| {
        // SAFETY: not complete; taken once, as the memory goes next.
        unsafe { stage.cast::<F>().read() }
    });
    // SAFETY: ours alone, and empty.
    unsafe { H::release(task.cast(), Layout::new::<Task<F, H>>()) };
    future
}

impl Head {
    /// Nothing is left in it. Returns the home.
    fn vacate(&self) -> *const () {
        // SAFETY: the caller has the last reference.
        self.waiter.with(|waiter| debug_assert!(unsafe { &*waiter }.is_none(), "freed with a waiter"));
        self.home
    }

    /// The handle's side of the waiter's place.
    ///
    /// # Safety
    /// 1. The caller is the handle, and no waiter is registered.
    pub(super) unsafe fn waiter(&self, waiter: Option<Waiting>) -> Option<Waiting> {
        // SAFETY: 1.
        self.waiter.with(|place| std::mem::replace(unsafe { &mut *place }, waiter))
    }

    /// Moves the output to `to`.
    ///
    /// # Safety
    /// 1. The caller is the handle of this complete future, once; `T` is the type of its output.
    pub(super) unsafe fn take<T>(&self, to: &mut Option<std::thread::Result<T>>) {
        // SAFETY: 1.
        unsafe { (self.vtable.take)(NonNull::from(self), std::ptr::from_mut(to).cast()) };
    }

    /// Queues the future.
    ///
    /// # Safety
    /// 1. The caller has the right.
    pub(super) unsafe fn schedule(&self) {
        // SAFETY: 1.
        unsafe { (self.vtable.schedule)(NonNull::from(self)) };
    }
}

impl<F: Future, H: Home> Job for Right<F, H> {
    #[inline(always)]
    fn run(self) {
        let task = ManuallyDrop::new(self).0;
        // SAFETY: the right.
        if let Some(payload) = unsafe { Self::poll(task) } {
            // A panic that nobody will join ends like that of any detached task.
            resume_unwind(payload);
        }
    }
}

impl<F: Future, H: Home> Drop for Right<F, H> {
    fn drop(&mut self) {
        if let Some(payload) = H::cancel(self.0.cast())
            && !std::thread::panicking()
        {
            resume_unwind(payload);
        }
    }
}

impl<F: Future, H: Home> Right<F, H> {
    /// The descriptor, its type forgotten.
    pub fn head(&self) -> NonNull<Head> {
        self.0.cast()
    }

    /// The right again.
    ///
    /// # Safety
    /// 1. `head` is what [`Right::head`] said of a right of this type that was not used since, and was forgotten.
    pub unsafe fn from_head(head: NonNull<Head>) -> Self {
        Right(head.cast())
    }

    const VTABLE: &'static Vtable =
        &Vtable { cancel: Self::cancel, schedule: Self::schedule, take: Self::take, free: Self::free };

    /// Polls once, and sees to what comes of it. Returns a panic that nobody will see.
    ///
    /// # Safety
    /// 1. The caller has the right.
    #[inline(always)]
    unsafe fn poll(task: NonNull<Task<F, H>>) -> Option<Payload> {
        // SAFETY: the right has a reference.
        let shared = unsafe { task.as_ref() };
        if shared.head.state.start() == Start::Cancel {
            // SAFETY: started.
            return unsafe { Self::finish(task, None) };
        }
        let raw = RawWaker::new(task.as_ptr().cast_const().cast(), &WAKER);
        // SAFETY: the vtable is for these descriptors. The runner's reference stands for this waker, which is not
        // dropped; clones have their own.
        let waker = ManuallyDrop::new(unsafe { Waker::from_raw(raw) });
        let mut context = Context::from_waker(&waker);
        budget::begin();
        let polled = shared.stage.with(|stage| {
            // SAFETY: the runner's until it completes, and not complete, so it is the future.
            let future = unsafe { &mut *stage.cast::<F>() };
            // SAFETY: it stays in its descriptor until it is dropped there.
            let future = unsafe { Pin::new_unchecked(future) };
            catch_unwind(AssertUnwindSafe(|| future.poll(&mut context)))
        });
        let output = match polled {
            Ok(Poll::Ready(output)) => Ok(output),
            // SAFETY: started, and pending.
            Ok(Poll::Pending) => return unsafe { Self::rest(task) },
            Err(payload) => Err(payload),
        };
        // SAFETY: started, and never polled again.
        unsafe { Self::finish(task, Some(output)) }
    }

    /// After a poll that came back pending.
    ///
    /// # Safety
    /// 1. The caller is the runner.
    unsafe fn rest(task: NonNull<Task<F, H>>) -> Option<Payload> {
        // SAFETY: the runner has a reference until it rests.
        let head = unsafe { &task.as_ref().head };
        loop {
            match head.state.rest() {
                Rest::Resting => return None,
                Rest::Again => {
                    let right = Right(task);
                    // SAFETY: the right; valid as promised to `task`.
                    unsafe { H::schedule(head.home, right, Way::Last) };
                    return None;
                }
                Rest::Unlisted => {
                    // SAFETY: valid as promised to `task`; the caller is its worker.
                    head.place.set(unsafe { H::list(head.home, task.cast()) });
                    head.state.listed();
                }
                // SAFETY: 1.
                Rest::Cancel => return unsafe { Self::finish(task, None) },
            }
        }
    }

    /// Drops the future, leaves the output (`None`: cancelled) to the handle, tells who waits. Returns a panic that
    /// nobody will see.
    ///
    /// # Safety
    /// 1. The caller is the runner; the future has not been dropped.
    #[inline(always)]
    unsafe fn finish(task: NonNull<Task<F, H>>, output: Option<std::thread::Result<F::Output>>) -> Option<Payload> {
        // SAFETY: 1: the runner has a reference.
        let shared = unsafe { task.as_ref() };
        // SAFETY: 1.
        let output = if needs_drop::<F>() { unsafe { Self::drop_future(&shared.stage, output) } } else { output };
        let look = shared.head.state.look();
        if look.handle {
            // SAFETY: the runner's until it completes; what was there is dropped.
            shared.stage.with(|stage| unsafe { stage.cast::<Option<std::thread::Result<F::Output>>>().write(output) });
            // SAFETY: written.
            return unsafe { Self::hand_over(task, look) };
        }
        let last =
            look.alone || shared.head.state.complete(look.listed && Self::strike(&shared.head)) == Complete::Last;
        // SAFETY: complete, without a handle: the reference is still there.
        unsafe { Self::leave(task, last) };
        output.and_then(Result::err)
    }

    /// Completes a future whose output is in its place.
    ///
    /// # Safety
    /// 1. The caller is the runner.
    #[inline(always)]
    unsafe fn hand_over(task: NonNull<Task<F, H>>, look: Look) -> Option<Payload> {
        // SAFETY: 1: the runner has a reference.
        let shared = unsafe { task.as_ref() };
        let last = match shared.head.state.complete(look.listed && Self::strike(&shared.head)) {
            Complete::Handle => return None,
            // SAFETY: the reference is still there.
            Complete::Waiter => return unsafe { Self::tell(task) },
            Complete::Discard => false,
            Complete::Last => true,
        };
        // SAFETY: the handle is gone, so the output is ours.
        let output = unsafe { Self::take_output(&shared.stage) };
        // SAFETY: the reference is still there.
        unsafe { Self::leave(task, last) };
        output.and_then(Result::err)
    }

    /// Takes the future out of its roll. False: that is being drained.
    #[cold]
    fn strike(head: &Head) -> bool {
        // SAFETY: the place was given to the runner, and lives as long as the home, which does: the future is listed.
        unsafe { &*head.place.get() }.strike()
    }

    /// Gives up the runner's reference.
    ///
    /// # Safety
    /// 1. It is the caller's; `last`: there is no other.
    #[inline(always)]
    unsafe fn leave(task: NonNull<Task<F, H>>, last: bool) {
        if last {
            // SAFETY: the last reference.
            unsafe { Self::free(task.cast()) };
        } else {
            // SAFETY: the runner's reference.
            unsafe { drop_ref(task.cast()) };
        }
    }

    /// Drops the future in its place; a panic becomes the output, unless that is one already.
    ///
    /// # Safety
    /// 1. The caller is the runner; the future has not been dropped.
    #[inline]
    unsafe fn drop_future(
        stage: &Racy<Stage<F>>,
        output: Option<std::thread::Result<F::Output>>,
    ) -> Option<std::thread::Result<F::Output>> {
        let dropped = stage.with(|stage| {
            // SAFETY: 1: not complete, so it is the future; once.
            catch_unwind(AssertUnwindSafe(|| unsafe { stage.cast::<F>().drop_in_place() }))
        });
        let Err(payload) = dropped else { return output };
        match output {
            Some(Err(first)) => {
                drop_quietly(payload);
                Some(Err(first))
            }
            Some(Ok(value)) => {
                if let Err(third) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
                    drop_quietly(third);
                }
                Some(Err(payload))
            }
            None => Some(Err(payload)),
        }
    }

    /// # Safety
    /// 1. The future is complete, and its output the caller's.
    unsafe fn take_output(stage: &Racy<Stage<F>>) -> Option<std::thread::Result<F::Output>> {
        // SAFETY: 1: taken once.
        stage.with(|stage| unsafe { stage.cast::<Option<std::thread::Result<F::Output>>>().read() })
    }

    /// # Safety
    /// 1. The caller has completed, and there was a waiter; the reference is the caller's.
    #[cold]
    unsafe fn tell(task: NonNull<Task<F, H>>) -> Option<Payload> {
        // SAFETY: 1.
        let head = unsafe { &task.as_ref().head };
        // SAFETY: 1: the place is the caller's.
        let waiter = head.waiter.with(|waiter| unsafe { &mut *waiter }.take());
        // SAFETY: 1.
        unsafe { drop_ref(task.cast()) };
        // The handle may be gone already: what is told is owned.
        if let Some(waiter) = waiter {
            waiter.tell();
        }
        None
    }

    // ---- the table -------------------------------------------------------------------------------------------

    /// # Safety
    /// See [`Vtable`].
    unsafe fn cancel(head: NonNull<Head>) -> Option<Payload> {
        // SAFETY: the caller is the runner.
        unsafe { Self::finish(head.cast(), None) }
    }

    /// # Safety
    /// See [`Vtable`].
    unsafe fn schedule(head: NonNull<Head>) {
        let right = Right::<F, H>(head.cast());
        // SAFETY: the right has a reference.
        let home = unsafe { head.as_ref().home };
        // SAFETY: valid as promised to `task`.
        unsafe { H::schedule(home, right, Way::Woken) };
    }

    /// # Safety
    /// See [`Vtable`].
    unsafe fn take(head: NonNull<Head>, to: *mut ()) {
        // SAFETY: alive.
        let stage = unsafe { &head.cast::<Task<F, H>>().as_ref().stage };
        // SAFETY: complete, and the handle's.
        let output = unsafe { Self::take_output(stage) };
        // SAFETY: by the caller's promise.
        unsafe { to.cast::<Option<std::thread::Result<F::Output>>>().write(output) };
    }

    /// # Safety
    /// See [`Vtable`].
    unsafe fn free(head: NonNull<Head>) {
        // SAFETY: ours alone.
        let home = unsafe { head.as_ref() }.vacate();
        // SAFETY: alive.
        let state = unsafe { &raw const (*head.as_ptr()).state };
        // SAFETY: ours alone, and the memory goes next.
        let keeps = unsafe { state.read() }.retire_word();
        // SAFETY: nothing is left in it; a waiter has been taken.
        unsafe { H::release(head.cast(), Layout::new::<Task<F, H>>()) };
        if keeps {
            // SAFETY: the reference was left there by `retire`.
            unsafe { H::let_go(home) };
        }
    }
}

/// Queues the future.
///
/// # Safety
/// 1. The caller has the right; `head` is not used afterwards.
pub(super) unsafe fn schedule(head: NonNull<Head>) {
    // SAFETY: the right has a reference.
    let schedule = unsafe { head.as_ref() }.vtable.schedule;
    // SAFETY: 1.
    unsafe { schedule(head) };
}

/// Gives up a reference.
///
/// # Safety
/// 1. It is the caller's, and `head` is not used afterwards.
pub(super) unsafe fn drop_ref(head: NonNull<Head>) {
    // SAFETY: 1.
    let shared = unsafe { head.as_ref() };
    match shared.state.drop_ref() {
        Dropped::Shared => {}
        // SAFETY: the last one.
        Dropped::Last => unsafe { (shared.vtable.free)(head) },
        // SAFETY: the right is the caller's now.
        Dropped::Forgotten => unsafe { (shared.vtable.schedule)(head) },
    }
}

/// Drops a future instead of polling it. Returns a panic that nobody will see.
///
/// # Safety
/// 1. The caller has the right.
pub unsafe fn cancel(head: NonNull<Head>) -> Option<Payload> {
    // SAFETY: the right has a reference.
    let shared = unsafe { head.as_ref() };
    let _ = shared.state.start();
    // SAFETY: started.
    unsafe { (shared.vtable.cancel)(head) }
}

/// The end of the worker in whose roll the future stood: cancels it, or leaves that to whoever has the right.
///
/// # Safety
/// 1. The caller has taken the entry out of the roll.
/// 2. `H` is the future's home, which is valid.
pub unsafe fn retire<H: Home>(head: NonNull<Head>) {
    // SAFETY: 1: the entry has a reference.
    let shared = unsafe { head.as_ref() };
    let (home, mut kept) = (shared.home, false);
    loop {
        match shared.state.retire(kept) {
            Retire::Busy => {
                // SAFETY: 2.
                unsafe { H::keep(home) };
                kept = true;
                continue;
            }
            Retire::Left => return,
            // SAFETY: the entry's reference.
            Retire::Done => unsafe { drop_ref(head) },
            Retire::Cancel => {
                // SAFETY: started.
                let unseen = unsafe { (shared.vtable.cancel)(head) };
                unseen.into_iter().for_each(drop_quietly);
            }
        }
        break;
    }
    if kept {
        // SAFETY: taken above, and not left there; 2: the caller has another one.
        unsafe { H::let_go(home) };
    }
}
