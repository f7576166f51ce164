//! The future of an operation.
#![expect(unsafe_code, reason = "holds a reference to a node")]

use super::node::{Header, Node, Operation, Request, Right};
use super::state::Ignore;
use crate::future::budget;
use std::fmt;
use std::future::Future;
use std::mem::replace;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker, ready};

enum Stage<T> {
    Fresh(T),
    /// With what happens if the future goes.
    Sent(NonNull<Node<T>>, unsafe fn(NonNull<Header>)),
    Over,
}

/// The future of an operation. Dropped before it is ready, it leaves the operation to the driver, which is asked to
/// give up: what the operation owns lives until the kernel has answered.
#[must_use = "futures do nothing unless they are awaited"]
pub struct Op<T> {
    stage: Stage<T>,
}

// With no more than `T: Send`: that it is an operation would be asked of it for every lifetime in an `async` block.
// SAFETY: operations may be sent; the rest is arbitrated by the state.
unsafe impl<T: Send> Send for Op<T> {}
// SAFETY: `&Op` gives access to nothing.
unsafe impl<T: Send> Sync for Op<T> {}

impl<T: Operation> Op<T> {
    /// Nothing is done before the first poll.
    pub fn new(operation: T) -> Self {
        Op { stage: Stage::Fresh(operation) }
    }

    /// As `poll` of one that was begun, for a task that has paid for it already.
    pub(super) fn poll_now(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T::Output> {
        self.get_mut().advance(context, |_| Poll::Ready(()))
    }

    /// Begins it, with everything but [`Operation::try_now`] and [`Operation::send`]: that is for the caller to do, who
    /// may have something locked here and nothing there.
    pub(super) fn begun(operation: T, waker: Waker) -> (Self, Right) {
        let node = Node::make(operation, waker);
        (Op { stage: Stage::Sent(node, ignore::<T>) }, Right(node.cast()))
    }

    fn advance(&mut self, context: &Context<'_>, pay: fn(&Context<'_>) -> Poll<()>) -> Poll<T::Output> {
        let node = match self.stage {
            Stage::Fresh(_) => {
                ready!(pay(context));
                return self.begin(context);
            }
            Stage::Sent(node, _) => node,
            Stage::Over => panic!("an operation was polled after it was ready"),
        };
        // SAFETY: the future has a reference.
        let header = unsafe { &node.as_ref().header };
        if !header.state.is_done() && Self::rewake(header, context.waker()) {
            return Poll::Pending;
        }
        // Registering fails when it is done: this is the look that makes the result visible.
        let done = header.state.is_done();
        debug_assert!(done);
        ready!(pay(context));
        self.stage = Stage::Over;
        // SAFETY: done.
        let (operation, result) = unsafe { Node::take(node) };
        // SAFETY: the future's reference.
        unsafe { Header::drop_ref(node.cast()) };
        Poll::Ready(operation.output(result))
    }

    fn begin(&mut self, context: &Context<'_>) -> Poll<T::Output> {
        let Stage::Fresh(mut operation) = replace(&mut self.stage, Stage::Over) else { unreachable!() };
        if let Some(result) = operation.try_now() {
            return Poll::Ready(operation.output(result));
        }
        let (begun, right) = Op::begun(operation, context.waker().clone());
        *self = begun;
        // SAFETY: the driver's, whose right is here. A panic of a buffer's drops it, so that nothing is ever done.
        unsafe { Node::<T>::settle(right.0) };
        T::send(right);
        Poll::Pending
    }

    /// The waker is this one from now on. False: it is done.
    fn rewake(header: &Header, waker: &Waker) -> bool {
        if !header.state.unregister() && header.state.is_done() {
            return false;
        }
        header.waker.with(|place| {
            // SAFETY: none is registered.
            let place = unsafe { &mut *place };
            if !place.as_ref().is_some_and(|known| known.will_wake(waker)) {
                *place = Some(waker.clone());
            }
        });
        header.state.register()
    }
}

impl<T: Operation> Future for Op<T> {
    type Output = T::Output;

    /// # Panics
    /// After it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T::Output> {
        self.get_mut().advance(context, budget::spend)
    }
}

impl<T> Drop for Op<T> {
    fn drop(&mut self) {
        if let Stage::Sent(node, ignore) = self.stage {
            // SAFETY: the future's reference.
            unsafe { ignore(node.cast()) };
        }
    }
}

/// The future of an operation goes.
///
/// # Safety
/// 1. The caller is the future, whose reference is given up.
unsafe fn ignore<T: Operation>(node: NonNull<Header>) {
    // SAFETY: 1.
    let header = unsafe { node.as_ref() };
    if header.state.unregister() {
        // SAFETY: none is registered any more.
        drop(header.waker.with(|waker| unsafe { &mut *waker }.take()));
    }
    match header.state.ignore() {
        Ignore::Queued => {}
        Ignore::Flight => T::cancel(Request(node)),
        // SAFETY: 1; whoever drops the last reference gives the result up.
        Ignore::Done => unsafe { Header::drop_ref(node) },
    }
}

impl<T> fmt::Debug for Op<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.stage {
            Stage::Fresh(_) => f.write_str("Op(fresh)"),
            // SAFETY: the future has a reference.
            Stage::Sent(node, _) => write!(f, "Op({:?})", unsafe { &node.as_ref().header.state }),
            Stage::Over => f.write_str("Op(over)"),
        }
    }
}
