//! A socket, and waiting for it. Every call is tried first and waits only if it has to.

use super::buf::as_room;
use super::fallback::reactor::{Direction, Place, Registered};
use super::node::Op;
use super::request::Ready;
use super::way;
use crate::future::budget;
use socket2::SockRef;
use std::fmt;
use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::mem::{MaybeUninit, take};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};

/// Does not wait, and a broken pipe is an error, not a signal.
pub(super) const NOW: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// A socket whose calls do not wait: see [`NOW`], or non-blocking by itself where there are no such flags.
pub(super) struct Socket {
    fd: Arc<OwnedFd>,
    /// In the reactor, once somebody had to wait there.
    registered: OnceLock<Arc<Registered>>,
    /// Who waits through the `poll_` functions, one per direction.
    polls: [Mutex<Wait>; 2],
}

/// Somebody's wait for one direction.
#[derive(Default)]
pub(super) struct Wait {
    place: Option<Place>,
    /// In a ring.
    ready: Option<Op<Ready>>,
}

impl Socket {
    pub(super) fn new(fd: impl Into<OwnedFd>) -> Self {
        Socket { fd: Arc::new(fd.into()), registered: OnceLock::new(), polls: Default::default() }
    }

    pub(super) fn options(&self) -> SockRef<'_> {
        SockRef::from(&*self.fd)
    }

    fn registered(&self) -> io::Result<&Arc<Registered>> {
        if let Some(registered) = self.registered.get() {
            return Ok(registered);
        }
        // Two at once: the second is told that it exists.
        match Registered::new(self.fd.as_fd()) {
            Ok(registered) => {
                let _first = self.registered.set(registered);
                Ok(self.registered.wait())
            }
            Err(refused) if refused.raw_os_error() == Some(libc::EEXIST) => Ok(self.registered.wait()),
            Err(refused) => Err(refused),
        }
    }

    /// Makes `call` until it need not wait any more.
    pub(super) fn poll_call<T>(
        &self,
        direction: Direction,
        wait: &mut Wait,
        context: &mut Context<'_>,
        mut call: impl FnMut(&SockRef<'_>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        ready!(budget::spend(context));
        let mut ring = true;
        loop {
            if let Some(ready) = &mut wait.ready {
                ring = ready!(Pin::new(ready).poll(context));
                wait.ready = None;
            }
            let ticks = self.registered.get().map_or(0, |registered| registered.ticks(direction));
            match call(&self.options()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => return Poll::Ready(result),
            }
            if ring && way::has_ring() {
                let events = if direction == Direction::Read { libc::POLLIN | libc::POLLRDHUP } else { libc::POLLOUT };
                wait.ready = Some(Op::new(Ready { fd: self.fd.clone(), events: events as u32 }));
                continue;
            }
            if self.registered()?.wait(direction, ticks, &mut wait.place, context.waker()) {
                return Poll::Pending;
            }
        }
    }

    fn forget(&self, direction: Direction, wait: &mut Wait) {
        wait.ready = None;
        if let (Some(registered), Some(place)) = (self.registered.get(), wait.place.take()) {
            registered.forget(direction, place);
        }
    }

    /// Makes `call` until it need not wait any more.
    pub(super) fn call<T, F>(&self, direction: Direction, call: F) -> Call<'_, F>
    where
        F: FnMut(&SockRef<'_>) -> io::Result<T> + Unpin,
    {
        Call { socket: self, direction, wait: Wait::default(), call }
    }

    /// The same for the `poll_` functions, which have one wait per direction: the last task that asked is woken.
    fn poll_shared<T>(
        &self,
        direction: Direction,
        context: &mut Context<'_>,
        call: impl FnMut(&SockRef<'_>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let slot = || self.polls[direction as usize].lock().unwrap_or_else(PoisonError::into_inner);
        // Taken out: the call and the waker may come back here.
        let mut wait = take(&mut *slot());
        let result = self.poll_call(direction, &mut wait, context, call);
        let mut other = std::mem::replace(&mut *slot(), wait);
        self.forget(direction, &mut other);
        result
    }

    pub(super) fn poll_receive(&self, context: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_shared(Direction::Read, context, |socket| receive(socket, as_room(to)))
    }

    pub(super) fn poll_send(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_shared(Direction::Write, context, |socket| send(socket, bytes))
    }

    pub(super) fn poll_send_all_of(
        &self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_shared(Direction::Write, context, |socket| socket.send_vectored_with_flags(slices, NOW))
    }
}

/// Receives into room.
pub(super) fn receive(socket: &SockRef<'_>, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    socket.recv_with_flags(room, NOW)
}

/// Sends.
pub(super) fn send(socket: &SockRef<'_>, bytes: &[u8]) -> io::Result<usize> {
    socket.send_with_flags(bytes, NOW)
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(registered) = self.registered.get() {
            registered.remove(self.fd.as_fd());
        }
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let socket = self.options();
        let mut f = f.debug_struct("Socket");
        f.field("fd", &self.fd);
        if let Ok(local) = socket.local_addr() {
            f.field("local", &local);
        }
        f.finish()
    }
}

/// See [`Socket::call`].
#[must_use = "futures do nothing unless they are awaited"]
pub(super) struct Call<'a, F> {
    socket: &'a Socket,
    direction: Direction,
    wait: Wait,
    call: F,
}

impl<T, F: FnMut(&SockRef<'_>) -> io::Result<T> + Unpin> Future for Call<'_, F> {
    type Output = io::Result<T>;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.socket.poll_call(this.direction, &mut this.wait, context, &mut this.call)
    }
}

impl<F> Drop for Call<'_, F> {
    fn drop(&mut self) {
        self.socket.forget(self.direction, &mut self.wait);
    }
}
