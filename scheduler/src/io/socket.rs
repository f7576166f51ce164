//! A socket, and waiting for it. Every call is tried first and waits only if it has to.

use super::buf::as_room;
use super::edge::Place;
use super::fallback::reactor::{self, Direction, Registered};
use super::inbound::{Inbound, Step};
use super::op::Op;
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
    /// What is received through rings, once somebody has.
    inbound: OnceLock<Inbound>,
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
    /// For what the socket receives in a ring.
    inbound: Option<Place>,
}

impl Socket {
    pub(super) fn new(fd: impl Into<OwnedFd>) -> Self {
        Socket {
            fd: Arc::new(fd.into()),
            inbound: OnceLock::new(),
            registered: OnceLock::new(),
            polls: Default::default(),
        }
    }

    /// The descriptor, for an operation to own.
    pub(super) fn fd(&self) -> Arc<OwnedFd> {
        self.fd.clone()
    }

    pub(super) fn options(&self) -> SockRef<'_> {
        SockRef::from(&*self.fd)
    }

    fn registered(&self) -> io::Result<&Arc<Registered>> {
        if let Some(registered) = self.registered.get() {
            // The parent's thread tells nobody in the child of a fork.
            return reactor::here().map(|()| registered);
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
            let ticks = self.registered.get().map_or(0, |registered| registered.edge(direction).ticks());
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
            if self.registered()?.edge(direction).wait(ticks, &mut wait.place, context.waker()) {
                return Poll::Pending;
            }
        }
    }

    /// Receives from a stream.
    pub(super) fn poll_receive_room(
        &self,
        wait: &mut Wait,
        context: &mut Context<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        if room.is_empty() {
            return Poll::Ready(Ok(0));
        }
        // Once something is received through rings, what that has brought comes first.
        if self.inbound.get().is_none() && (wait.place.is_some() || !way::has_ring()) {
            return self.poll_call(Direction::Read, wait, context, |socket| receive(socket, room));
        }
        ready!(budget::spend(context));
        let inbound = self.inbound.get_or_init(Inbound::default);
        loop {
            let ticks = inbound.edge.ticks();
            match inbound.step(self, room) {
                Step::Done(result) => return Poll::Ready(result),
                Step::Wait if inbound.edge.wait(ticks, &mut wait.inbound, context.waker()) => return Poll::Pending,
                Step::Wait => {}
                Step::Otherwise => {
                    return self.poll_call(Direction::Read, wait, context, |socket| receive(socket, room));
                }
            }
        }
    }

    fn forget(&self, direction: Direction, wait: &mut Wait) {
        wait.ready = None;
        if let (Some(inbound), Some(place)) = (self.inbound.get(), wait.inbound.take()) {
            inbound.edge.forget(place);
        }
        if let (Some(registered), Some(place)) = (self.registered.get(), wait.place.take()) {
            registered.edge(direction).forget(place);
        }
    }

    /// Polls what `poll` polls, with a wait of its own.
    pub(super) fn wait<T, F>(&self, direction: Direction, poll: F) -> Waiting<'_, F>
    where
        F: FnMut(&Socket, &mut Wait, &mut Context<'_>) -> Poll<T> + Unpin,
    {
        Waiting { socket: self, direction, wait: Wait::default(), poll }
    }

    /// Makes `call` until it need not wait any more.
    pub(super) async fn call<T>(
        &self,
        direction: Direction,
        mut call: impl FnMut(&SockRef<'_>) -> io::Result<T> + Unpin,
    ) -> io::Result<T> {
        self.wait(direction, |socket, wait, context| socket.poll_call(direction, wait, context, &mut call)).await
    }

    /// For the `poll_` functions, which have one wait per direction: the last task that asked is woken.
    fn poll_shared<T>(&self, direction: Direction, poll: impl FnOnce(&mut Wait) -> Poll<T>) -> Poll<T> {
        let slot = || self.polls[direction as usize].lock().unwrap_or_else(PoisonError::into_inner);
        // Taken out: the call and the waker may come back here.
        let mut wait = take(&mut *slot());
        let result = poll(&mut wait);
        let mut other = std::mem::replace(&mut *slot(), wait);
        self.forget(direction, &mut other);
        result
    }

    pub(super) fn poll_receive(&self, context: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_shared(Direction::Read, |wait| self.poll_receive_room(wait, context, as_room(to)))
    }

    pub(super) fn poll_send(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_shared(Direction::Write, |wait| {
            self.poll_call(Direction::Write, wait, context, |socket| send(socket, bytes))
        })
    }

    pub(super) fn poll_send_all_of(
        &self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let call = |socket: &SockRef<'_>| socket.send_vectored_with_flags(slices, NOW);
        self.poll_shared(Direction::Write, |wait| self.poll_call(Direction::Write, wait, context, call))
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

/// See [`Socket::wait`].
#[must_use = "futures do nothing unless they are awaited"]
pub(super) struct Waiting<'a, F> {
    socket: &'a Socket,
    direction: Direction,
    wait: Wait,
    poll: F,
}

impl<T, F: FnMut(&Socket, &mut Wait, &mut Context<'_>) -> Poll<T> + Unpin> Future for Waiting<'_, F> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        (this.poll)(this.socket, &mut this.wait, context)
    }
}

impl<F> Drop for Waiting<'_, F> {
    fn drop(&mut self) {
        self.socket.forget(self.direction, &mut self.wait);
    }
}
