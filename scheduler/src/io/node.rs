//! The node of an operation: what the kernel may use, at one address from the first to the last.
#![expect(unsafe_code, reason = "memory shared by a future, a driver and the kernel, arbitrated by one word")]

use super::state::{Complete, State};
use crate::driver::Item;
use crate::sync::{Arc as HostArc, Racy};
use crate::task::cells::with_cells;
use crate::task::waiting::{Waiting, drop_quietly};
use crate::worker::Shared;
use io_uring::squeue::Entry;
use std::alloc::Layout;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;

/// What is to be done, with everything that it needs: buffers, descriptors, paths. It moves only before it is begun
/// and after it has ended.
///
/// Results are those of system calls in a ring: a number, or a negative `errno`.
pub trait Operation: Send + Unpin + 'static {
    /// What the future returns.
    type Output;

    /// Polling thread, once, before anything else: does it if that takes no waiting.
    fn try_now(&mut self) -> Option<i32> {
        None
    }

    /// Polling thread, once, when it is in its place: takes down where everything is. From here to `output` no foreign
    /// code is run.
    fn settle(&mut self) {}

    /// Does it, on a thread that may wait. Does not unwind.
    fn run(&mut self) -> i32;

    /// The code of the ring's operation that does it; `None`: it has none.
    const CODE: Option<u8> = None;

    /// The ring's operation. What it points at is the operation's own.
    fn entry(&mut self) -> Option<Entry> {
        None
    }

    /// It was done by a ring, and might have been done otherwise: an end that says nothing about the operation itself.
    fn again(result: i32) -> bool {
        matches!(-result, libc::EAGAIN | libc::EINTR | libc::ECANCELED | libc::ENOBUFS)
    }

    /// The operation has ended.
    fn output(self, result: i32) -> Self::Output;

    /// It has ended (perhaps by `ECANCELED`, without being begun), and nobody wants it any more.
    fn ignored(self, _result: i32)
    where
        Self: Sized,
    {
        drop(self);
    }

    /// Queues it.
    fn send(right: Right)
    where
        Self: Sized,
    {
        super::way::send(right);
    }

    /// Asks whoever has begun it to give up.
    fn cancel(request: Request)
    where
        Self: Sized,
    {
        super::way::cancel(request);
    }

    /// Memory for a node.
    fn allocate(layout: Layout) -> NonNull<u8> {
        with_cells(|cells| cells.allocate(layout))
    }

    /// Gives memory back.
    ///
    /// # Safety
    /// 1. It came from `allocate` with this layout, and nobody uses it any more.
    unsafe fn release(memory: NonNull<u8>, layout: Layout) {
        // SAFETY: 1.
        with_cells(|cells| unsafe { cells.release(memory, layout) });
    }
}

/// What is known of a node whose type has been forgotten.
#[repr(C)]
pub struct Header {
    /// On the way to the worker whose ring does it: at first the right, and later a request.
    item: Item,
    pub(super) state: State,
    vtable: &'static Vtable,
    /// The future's until it has registered, then that of whoever completes.
    pub(super) waker: Racy<Option<Waker>>,
    /// The driver's until it completes, then that of whoever takes the operation out.
    result: Racy<i32>,
    /// The driver's until it has begun, then everybody's to read: whose ring does it, and the turn of the push there.
    seat: Racy<Option<(Arc<Seat>, u64)>>,
}

/// A worker with a ring.
pub struct Seat {
    /// Its scheduler, of which the memory is kept.
    pub shared: HostArc<Shared>,
    /// Its index.
    pub index: usize,
}

/// What can be done with a node whose type has been forgotten. Common obligation: the node is alive.
struct Vtable {
    /// See [`Operation::CODE`].
    code: Option<u8>,
    /// See [`Operation::again`].
    again: fn(i32) -> bool,
    /// The caller is the driver, and nobody else uses the operation.
    run: unsafe fn(NonNull<Header>) -> i32,
    /// The same.
    entry: unsafe fn(NonNull<Header>) -> Option<Entry>,
    /// The caller had the last reference.
    free: unsafe fn(NonNull<Header>),
}

#[repr(C)]
pub(super) struct Node<T> {
    pub(super) header: Header,
    /// The driver's until it completes, then that of whoever takes it out.
    operation: Racy<Option<T>>,
}

impl Header {
    /// # Safety
    /// 1. The caller has a reference, which is given up.
    pub(super) unsafe fn drop_ref(this: NonNull<Header>) {
        // SAFETY: 1.
        let header = unsafe { this.as_ref() };
        if header.state.drop_ref() {
            // SAFETY: the last reference.
            unsafe { (header.vtable.free)(this) };
        }
    }
}

impl<T: Operation> Node<T> {
    const VTABLE: &'static Vtable =
        &Vtable { code: T::CODE, again: T::again, run: Self::run, entry: Self::entry, free: Self::free };

    pub(super) fn make(operation: T, waker: Waker) -> NonNull<Self> {
        let memory = T::allocate(Layout::new::<Self>()).cast::<Self>();
        let header = Header {
            item: Item::new(super::way::serve),
            state: State::new(),
            vtable: Self::VTABLE,
            waker: Racy::new(Some(waker)),
            result: Racy::new(-libc::ECANCELED),
            seat: Racy::new(None),
        };
        // SAFETY: fresh memory of this layout.
        unsafe { memory.write(Node { header, operation: Racy::new(Some(operation)) }) };
        memory
    }

    /// # Safety
    /// As for [`Vtable::run`], and the node is of this type.
    pub(super) unsafe fn settle(header: NonNull<Header>) {
        // SAFETY: alive, and of this type.
        let node = unsafe { header.cast::<Self>().as_ref() };
        node.operation.with(|operation| {
            // SAFETY: the driver's.
            let operation = unsafe { &mut *operation };
            operation.as_mut().expect("taken only when it is done").settle();
        });
    }

    /// # Safety
    /// As for [`Vtable::run`].
    unsafe fn run(header: NonNull<Header>) -> i32 {
        // SAFETY: alive, and of this type by its vtable.
        let node = unsafe { header.cast::<Self>().as_ref() };
        node.operation.with(|operation| {
            // SAFETY: the driver's.
            let operation = unsafe { &mut *operation };
            operation.as_mut().expect("taken only when it is done").run()
        })
    }

    /// # Safety
    /// As for [`Vtable::entry`].
    unsafe fn entry(header: NonNull<Header>) -> Option<Entry> {
        // SAFETY: alive, and of this type by its vtable.
        let node = unsafe { header.cast::<Self>().as_ref() };
        node.operation.with(|operation| {
            // SAFETY: the driver's.
            let operation = unsafe { &mut *operation };
            operation.as_mut().expect("taken only when it is done").entry()
        })
    }

    /// # Safety
    /// As for [`Vtable::free`].
    unsafe fn free(header: NonNull<Header>) {
        let node = header.cast::<Self>();
        // SAFETY: alive still.
        let this = unsafe { node.as_ref() };
        // SAFETY: the last reference.
        let operation = this.operation.with(|operation| unsafe { &mut *operation }.take());
        // SAFETY: as above.
        let result = this.header.result.with(|result| unsafe { *result });
        // SAFETY: as above.
        let waker = this.header.waker.with(|waker| unsafe { &mut *waker }.take());
        // SAFETY: as above.
        let seat = this.header.seat.with(|seat| unsafe { &mut *seat }.take());
        // SAFETY: nobody has it any more, and nothing in it needs to be dropped.
        unsafe { T::release(node.cast(), Layout::new::<Self>()) };
        drop((waker, seat));
        if let Some(operation) = operation {
            // Foreign code perhaps (a buffer), on a thread that must go on.
            drop_quietly(Ending(Some(operation), result));
        }
    }

    /// # Safety
    /// 1. The caller is the future, which has a reference, and the operation is done.
    pub(super) unsafe fn take(node: NonNull<Self>) -> (T, i32) {
        // SAFETY: 1.
        let node = unsafe { node.as_ref() };
        // SAFETY: 1.
        let operation = node.operation.with(|operation| unsafe { &mut *operation }.take());
        // SAFETY: 1.
        let result = node.header.result.with(|result| unsafe { *result });
        (operation.expect("taken once"), result)
    }
}

/// Ignores an operation as it is dropped.
struct Ending<T: Operation>(Option<T>, i32);

impl<T: Operation> Drop for Ending<T> {
    fn drop(&mut self) {
        if let Some(operation) = self.0.take() {
            operation.ignored(self.1);
        }
    }
}

/// The driver's reference to a node that waits for its turn, or is being worked on.
pub struct Right(pub(super) NonNull<Header>);

// SAFETY: operations may be sent; the rest is arbitrated by the state.
unsafe impl Send for Right {}

impl Right {
    fn header(&self) -> &Header {
        // SAFETY: a reference.
        unsafe { self.0.as_ref() }
    }

    /// Before anything is done: by whose ring and at which turn, if it is one. False: nobody wants it any more;
    /// complete it.
    pub fn start(&self, seat: Option<(Arc<Seat>, u64)>) -> bool {
        // SAFETY: the driver's until it has begun.
        self.header().seat.with(|place| unsafe { *place = seat });
        self.header().state.start()
    }

    /// Does it here, and completes it.
    pub fn run(self) {
        // Begun before, it comes from a ring that could not do it, and whoever asks for a cancellation may look there.
        if !self.header().state.is_started() && !self.start(None) {
            return self.complete(-libc::ECANCELED);
        }
        // SAFETY: alive; the driver has it, and has started.
        let result = unsafe { (self.header().vtable.run)(self.0) };
        self.complete(result);
    }

    /// The code of the ring's operation that does it.
    pub(super) fn code(&self) -> Option<u8> {
        self.header().vtable.code
    }

    /// The ring's operation. The right is to be left to the kernel: [`Right::into_tag`].
    pub(super) fn entry(&self) -> Option<Entry> {
        // SAFETY: alive; the driver has it.
        unsafe { (self.header().vtable.entry)(self.0) }
    }

    /// The right as a number.
    pub(super) fn into_tag(self) -> u64 {
        ManuallyDrop::new(self).0.as_ptr().expose_provenance() as u64
    }

    /// The right back.
    ///
    /// # Safety
    /// 1. `tag` came from [`Right::into_tag`], and is turned back once.
    pub(super) unsafe fn from_tag(tag: u64) -> Right {
        let header = std::ptr::with_exposed_provenance_mut(tag as usize);
        // SAFETY: 1.
        Right(unsafe { NonNull::new_unchecked(header) })
    }

    /// The right as an item for an inbox.
    pub(super) fn into_item(self) -> NonNull<Item> {
        ManuallyDrop::new(self).0.cast()
    }

    /// It was ended by a ring in a way that says nothing.
    pub(super) fn again(&self, result: i32) -> bool {
        (self.header().vtable.again)(result) && self.header().state.is_wanted()
    }

    /// It has ended.
    pub fn complete(self, result: i32) {
        let this = ManuallyDrop::new(self);
        // SAFETY: the driver's until it is complete.
        this.header().result.with(|place| unsafe { *place = result });
        match this.header().state.complete() {
            Complete::Kept => {}
            Complete::Waker => {
                // SAFETY: it was registered, and is the driver's now.
                let waker = this.header().waker.with(|waker| unsafe { &mut *waker }.take());
                // SAFETY: the driver's reference.
                unsafe { Header::drop_ref(this.0) };
                waker.into_iter().for_each(|waker| Waiting::Task(waker).tell());
            }
            // SAFETY: the last reference.
            Complete::Last => unsafe { (this.header().vtable.free)(this.0) },
        }
    }
}

impl Drop for Right {
    /// Whoever lets a right go has refused the operation.
    fn drop(&mut self) {
        Right(self.0).complete(-libc::ECANCELED);
    }
}

/// What an item was pushed for.
pub(super) enum Posted {
    /// To be begun.
    Right(Right),
    /// To be cancelled.
    Request(Request),
}

impl Posted {
    /// # Safety
    /// 1. `item` came from one of the two `into_item`, and is turned back once.
    pub(super) unsafe fn from_item(item: NonNull<Item>) -> Posted {
        let header = item.cast::<Header>();
        // SAFETY: 1: a reference.
        match unsafe { header.as_ref() }.state.is_started() {
            true => Posted::Request(Request(header)),
            false => Posted::Right(Right(header)),
        }
    }
}

/// The reference of a request to cancel: the future is gone, and the driver had begun.
pub struct Request(pub(super) NonNull<Header>);

// SAFETY: as for `Right`.
unsafe impl Send for Request {}

impl Request {
    /// The number by which the ring knows the operation.
    pub(super) fn tag(&self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    /// Whose ring does it.
    pub fn seat(&self) -> Option<Arc<Seat>> {
        self.begun_by(|(seat, _)| seat.clone())
    }

    /// The turn at which it was pushed there.
    pub(super) fn turn(&self) -> u64 {
        self.begun_by(|(_, turn)| *turn).expect("in a ring")
    }

    fn begun_by<R>(&self, read: impl FnOnce(&(Arc<Seat>, u64)) -> R) -> Option<R> {
        // SAFETY: a reference.
        let header = unsafe { self.0.as_ref() };
        // SAFETY: it has begun, so nobody writes there any more; reading at once does no harm.
        header.seat.with(|seat| unsafe { &*seat }.as_ref().map(read))
    }

    /// The request as an item for an inbox.
    pub(super) fn into_item(self) -> NonNull<Item> {
        ManuallyDrop::new(self).0.cast()
    }

    /// On the thread that completes the operation: it has not ended yet, so there is something to cancel.
    pub fn is_wanted(&self) -> bool {
        // SAFETY: a reference.
        !unsafe { self.0.as_ref() }.state.is_done()
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // SAFETY: its reference.
        unsafe { Header::drop_ref(self.0) };
    }
}
