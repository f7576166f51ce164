//! What hyper 1 asks of a runtime: [`Executor`], [`Timer`], and [`Io`] around connections that speak `futures_io`.
//!
//! hyper spawns, sleeps, reads and writes through these and knows nothing else of where it runs.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use hyper::rt::{Executor as _, Timer as _};
//! use std::time::Duration;
//!
//! let scheduler = scheduler::Scheduler::new()?;
//! let executor = scheduler::hyper::Executor::new(scheduler.handle());
//! let (told, heard) = std::sync::mpsc::channel();
//! executor.execute(async move {
//!     scheduler::hyper::Timer.sleep(Duration::from_millis(1)).await;
//!     told.send("it ran").expect("somebody waits");
//! });
//! assert_eq!(heard.recv()?, "it ran");
//! # Ok(())
//! # }
//! ```
#![expect(unsafe_code, reason = "hyper's read buffer, and pinned parts of pinned wrappers")]

use crate::handle::Handle;
use crate::time::{Sleep, sleep, sleep_until};
use futures_io::{AsyncRead, AsyncWrite};
use hyper::rt::{Read, ReadBufCursor, Write};
use std::future::Future;
use std::io::{IoSlice, Result};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Most bytes that one read asks for. They are zeroed before: `futures_io` knows no memory that was never written.
const MOST: usize = 64 << 10;

/// Spawns hyper's futures on a scheduler, as [`Handle::spawn_future`] does.
///
/// A future that the scheduler refuses, because it is shutting down, is dropped: hyper leaves no way to say so, and
/// what waits for it sees a channel that was closed. A panic is counted and given to the panic handler.
#[derive(Clone, Debug)]
pub struct Executor(Handle);

impl Executor {
    /// On the scheduler of this handle.
    pub fn new(handle: Handle) -> Self {
        Executor(handle)
    }
}

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        drop(self.0.spawn_future(future));
    }
}

/// hyper's time, by [`crate::time`]. Its sleeps must be polled by a worker, or by [`block_on`](crate::block_on).
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer;

impl hyper::rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(sleep(duration))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(sleep_until(deadline))
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn hyper::rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(ours) => ours.reset(deadline),
            // Somebody else's: replaced, as hyper itself would.
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

impl hyper::rt::Sleep for Sleep {}

/// A connection that hyper can read from and write to: anything that has `futures_io`'s [`AsyncRead`] and
/// [`AsyncWrite`].
///
/// One read asks for at most 64 KiB, and zeroes that room first.
#[derive(Debug)]
pub struct Io<T> {
    inner: T,
    vectored: bool,
}

impl<T> Io<T> {
    /// Around `inner`. hyper copies head and body of a message together and writes them at once.
    pub fn new(inner: T) -> Self {
        Io { inner, vectored: false }
    }

    /// Around a connection that really writes several slices at once: hyper copies nothing then.
    pub fn vectored(inner: T) -> Self {
        Io { inner, vectored: true }
    }

    /// What is inside.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// What is inside, also for writing.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// Gives back what is inside.
    pub fn into_inner(self) -> T {
        self.inner
    }

    fn inner(self: Pin<&mut Self>) -> Pin<&mut T> {
        // SAFETY: pinned with the whole, and moved out of it only by value.
        unsafe { self.map_unchecked_mut(|io| &mut io.inner) }
    }
}

impl<T: AsyncRead> Read for Io<T> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, mut buf: ReadBufCursor<'_>) -> Poll<Result<()>> {
        // SAFETY: nothing that was initialised becomes uninitialised: all of it is written with zeros.
        let room = unsafe { buf.as_mut() };
        let room = zeroed(room);
        let count = match self.inner().poll_read(context, room) {
            Poll::Ready(Ok(count)) => count,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        };
        // A reader that claims more than it was given room for has broken its contract; hyper must not see that.
        assert!(count <= room.len(), "a reader of {} bytes says that it read {count}", room.len());
        // SAFETY: that many bytes at least are initialised.
        unsafe { buf.advance(count) };
        Poll::Ready(Ok(()))
    }
}

/// The first bytes of `room`, zeroed.
fn zeroed(room: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    let len = room.len().min(MOST);
    let room = &mut room[..len];
    room.fill(MaybeUninit::new(0));
    // SAFETY: just written.
    unsafe { room.assume_init_mut() }
}

impl<T: AsyncWrite> Write for Io<T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        self.inner().poll_write(context, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.inner().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.inner().poll_close(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.inner().poll_write_vectored(context, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.vectored
    }
}
