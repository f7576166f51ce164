//! Receiving through a ring: the kernel waits and receives in one operation, into a buffer of the socket.
//!
//! The operation is the socket's, not that of the future that waits for it: a future that is dropped has taken nothing,
//! and whoever comes next finds the operation, or what it has brought.

use super::edge::Edge;
use super::node::Right;
use super::op::Op;
use super::request::Receive;
use super::socket::{Socket, receive};
use super::way;
use crate::config::{RECEIVE, RECEIVE_LEAST};
use std::io::{self, ErrorKind};
use std::mem::{MaybeUninit, take};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// What a socket receives through rings.
pub(super) struct Inbound {
    inside: Mutex<Inside>,
    /// The end of an operation.
    pub(super) edge: Arc<Edge>,
    waker: Waker,
}

#[derive(Default)]
struct Inside {
    /// The one that is under way.
    receiving: Option<Op<Receive>>,
    /// What has come and was not taken, from `taken` on.
    data: Vec<u8>,
    taken: usize,
    /// Most likely there is nothing: the last one got less than it had room for.
    dry: bool,
}

/// What to do about a receive.
pub(super) enum Step {
    /// This came of it.
    Done(io::Result<usize>),
    /// Wait for the edge.
    Wait,
    /// Nothing is there, and nothing under way, and no ring to be had.
    Otherwise,
}

impl Default for Inbound {
    fn default() -> Self {
        let edge = Arc::<Edge>::default();
        Inbound { inside: Mutex::default(), waker: edge.clone().into(), edge }
    }
}

impl Inbound {
    /// One look: takes what is there, or sees to it that something is under way.
    pub(super) fn step(&self, socket: &Socket, room: &mut [MaybeUninit<u8>]) -> Step {
        let (step, right) = self.look(socket, room);
        // Foreign code perhaps, if there is nobody to do it: nothing is locked.
        right.into_iter().for_each(way::send);
        step
    }

    /// With what is to be sent, if something was begun. No foreign code is run.
    fn look(&self, socket: &Socket, room: &mut [MaybeUninit<u8>]) -> (Step, Option<Right>) {
        let inside = &mut *self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unfit = false;
        loop {
            if inside.taken < inside.data.len() {
                return (Step::Done(Ok(inside.give(room))), None);
            }
            if let Some(op) = &mut inside.receiving {
                let Poll::Ready((received, buf)) = Pin::new(op).poll_now(&mut Context::from_waker(&self.waker)) else {
                    return (Step::Wait, None);
                };
                inside.receiving = None;
                (inside.data, inside.taken) = (buf, 0);
                match received {
                    Ok(0) => return (Step::Done(Ok(0)), None),
                    Ok(bytes) => inside.dry = bytes < inside.data.capacity(),
                    Err(error) => {
                        inside.data.clear();
                        inside.dry = false;
                        if !says_nothing(&error) {
                            return (Step::Done(Err(error)), None);
                        }
                        unfit = true;
                    }
                }
                continue;
            }
            if !inside.dry {
                match receive(&socket.options(), room) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    result => {
                        inside.dry = result.as_ref().is_ok_and(|bytes| (1..room.len()).contains(bytes));
                        return (Step::Done(result), None);
                    }
                }
            }
            if unfit || !way::has_ring() {
                // Whoever waits elsewhere tries first.
                inside.dry = false;
                return (Step::Otherwise, None);
            }
            let mut buf = take(&mut inside.data);
            buf.clear();
            buf.reserve_exact(room.len().clamp(RECEIVE_LEAST, RECEIVE));
            let (receiving, right) = Op::begun(Receive { fd: socket.fd(), buf }, self.waker.clone());
            inside.receiving = Some(receiving);
            return (Step::Wait, Some(right));
        }
    }
}

impl Inside {
    fn give(&mut self, room: &mut [MaybeUninit<u8>]) -> usize {
        let bytes = (self.data.len() - self.taken).min(room.len());
        room[..bytes].write_copy_of_slice(&self.data[self.taken..][..bytes]);
        self.taken += bytes;
        bytes
    }
}

/// An end of an operation that has nothing to do with the socket.
fn says_nothing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOSYS | libc::ECANCELED | libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::EINVAL)
    )
}
