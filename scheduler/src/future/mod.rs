#![doc = include_str!("README.md")]
#![expect(unsafe_code, reason = "declares what a home promises")]

pub mod block_on;
pub mod budget;
mod home;
mod joiner;
mod state;
mod task;
mod waker;

pub(crate) use home::{Ours, retire_all};
pub use joiner::Joiner;
pub use task::{Head, Right, cancel, retire, task, untask};

use crate::roll::Place;
use crate::task::raw::Header;
use std::alloc::Layout;
use std::any::Any;
use std::future::Future;
use std::ptr::NonNull;

/// How a right comes into its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Somebody has woken the future.
    Woken,
    /// It was woken while it was polled: others first.
    Last,
}

/// Where futures live: what their descriptors need of a scheduler. A model has one of its own.
pub trait Home: Sized + 'static {
    /// Queues the right, or, when nothing is queued any more, cancels the future.
    ///
    /// # Safety
    /// 1. `home` is valid until the right is published; afterwards the implementation looks after itself.
    unsafe fn schedule<F: Future>(home: *const (), right: Right<F, Self>, way: Way);

    /// Enters the future into the roll of the calling worker.
    ///
    /// # Safety
    /// 1. `home` is valid, and the caller is one of its workers.
    unsafe fn list(home: *const (), entry: NonNull<Header>) -> *const Place<Header>;

    /// Cancels the future of a right that is dropped; returns a panic that nobody will see.
    fn cancel(head: NonNull<Head>) -> Option<Box<dyn Any + Send>>;

    /// One reference to `home` more.
    ///
    /// # Safety
    /// 1. `home` is valid.
    unsafe fn keep(home: *const ());

    /// One reference to `home` less.
    ///
    /// # Safety
    /// 1. The caller has one, from `keep`.
    unsafe fn let_go(home: *const ());

    /// Memory for a descriptor.
    fn allocate(layout: Layout) -> NonNull<u8>;

    /// Gives memory back.
    ///
    /// # Safety
    /// 1. It came from `allocate` with this layout, and nobody uses it any more.
    unsafe fn release(memory: NonNull<u8>, layout: Layout);
}
