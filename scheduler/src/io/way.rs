//! Who does an operation: the ring of the worker that polls the future, that of another worker of the same scheduler,
//! or a thread that may block.
#![expect(unsafe_code, reason = "hands nodes to rings and inboxes")]

use super::fallback::pool;
use super::node::{Posted, Request, Right, Seat};
use crate::driver::{Completion, IoDriver, Item, Ring};
use crate::worker::{Context, Shared, current};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Arc;

thread_local! {
    /// This worker's: counted by those of its operations that are under way, not by everybody's.
    static SEAT: RefCell<Option<Arc<Seat>>> = const { RefCell::new(None) };
}

/// The calling worker's seat.
fn seat(context: &Context) -> Arc<Seat> {
    SEAT.with_borrow_mut(|kept| match kept {
        Some(seat) if is(seat, context) => seat.clone(),
        _ => {
            let seat = Arc::new(Seat { shared: context.shared.clone(), index: context.index });
            *kept = Some(seat.clone());
            seat
        }
    })
}

fn is(seat: &Seat, context: &Context) -> bool {
    seat.index == context.index && seat.shared.id == context.shared.id
}

/// Queues an operation that has to wait.
pub(super) fn send(right: Right) {
    let Some(context) = current().filter(|context| right.code().is_some() && may_have_rings(context)) else {
        return pool::send(right);
    };
    let mut right = Some(right);
    let own = context.with_ring(|ring| right = begin(right.take(), ring, context));
    let Some(right) = right else { return };
    if own.is_some() {
        return pool::send(right);
    }
    // Another worker's, or that of this one while another thread stands in for its own.
    post(&context.shared, right);
}

fn post(shared: &Shared, right: Right) {
    // SAFETY: the driver's, in no inbox; the node stays where it is.
    if let Err(item) = unsafe { shared.post(right.into_item()) } {
        // SAFETY: given back.
        if let Posted::Right(right) = unsafe { Posted::from_item(item) } {
            pool::send(right);
        }
    }
}

/// Hands an operation to the ring of the calling worker. Gives it back if that does not know how to do it, or nobody
/// wants it any more.
fn begin(right: Option<Right>, ring: &mut Ring, context: &Context) -> Option<Right> {
    let right = right?;
    if !right.code().is_some_and(|code| ring.supports(code)) {
        return Some(right);
    }
    // Before the start: what was started and comes back would pass for a request.
    let Some(entry) = right.entry() else { return Some(right) };
    if !right.start(Some((seat(context), ring.turn()))) {
        return Some(right);
    }
    // SAFETY: what it points at is in the node, which the right keeps until `complete` has it back.
    unsafe { ring.push(entry, right.into_tag()) };
    None
}

/// What waits in the inbox of the calling worker is served. The end of an operation may be foreign code, so what may be
/// one is left for the call without the ring.
///
/// # Safety
/// `item` was pushed by [`send`] or [`cancel`].
pub(super) unsafe fn serve(item: NonNull<Item>, ring: Option<&mut Ring>) -> Option<NonNull<Item>> {
    // SAFETY: the caller's promise.
    match (unsafe { Posted::from_item(item) }, ring, current()) {
        (Posted::Right(right), Some(ring), Some(context)) => begin(Some(right), ring, context).map(Right::into_item),
        (Posted::Request(request), Some(ring), _) => {
            ask(&request, ring);
            // Perhaps the last reference: a thread that has made the operation good drops its own at any time.
            Some(request.into_item())
        }
        (Posted::Right(right), Some(_), None) => Some(right.into_item()),
        (Posted::Right(right), None, _) => {
            pool::send(right);
            None
        }
        (Posted::Request(request), None, _) => {
            drop(request);
            None
        }
    }
}

/// On the thread whose ring does it, unless it is done.
fn ask(request: &Request, ring: &mut Ring) {
    if request.is_wanted() {
        ring.cancel(request.tag(), request.turn());
    }
}

/// Asks whoever does an operation to give up.
pub(super) fn cancel(request: Request) {
    // A thread in a system call is not interrupted.
    let Some(seat) = request.seat() else { return };
    if let Some(context) = current().filter(|context| is(&seat, context))
        && context.with_ring(|ring| ask(&request, ring)).is_some()
    {
        // What is dropped here may be the last reference: the ring is not borrowed.
        return;
    }
    // SAFETY: the request's, in no inbox; the node stays where it is.
    if let Err(item) = unsafe { seat.shared.post_to(seat.index, request.into_item()) } {
        // The worker has ended, and with it the operation.
        // SAFETY: given back.
        drop(unsafe { Posted::from_item(item) });
    }
}

/// Something has completed in the ring of the calling worker.
pub(crate) fn complete(completion: Completion) {
    if completion.more() {
        return;
    }
    // SAFETY: pushed by `begin` with this tag; the kernel has had its last word.
    let right = unsafe { Right::from_tag(completion.tag) };
    if right.again(completion.result) {
        pool::send(right);
    } else {
        right.complete(completion.result);
    }
}

/// A ring would do operations of the calling thread.
pub(super) fn has_ring() -> bool {
    current().is_some_and(|context| {
        may_have_rings(context)
            && (context.with_ring(|_| ()).is_some() || context.shared.workers.iter().any(|worker| may(worker.io.get())))
    })
}

/// They may have some, and are in this process.
fn may_have_rings(context: &Context) -> bool {
    context.shared.rings && !context.shared.forked()
}

/// There is a ring, or nobody has tried.
fn may(driver: Option<&IoDriver>) -> bool {
    !matches!(driver, Some(IoDriver::Epoll(_)))
}
