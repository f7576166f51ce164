//! Accepting connections, also when there are too many.

use super::blocking::blocking;
use super::fallback::reactor::Direction;
use super::socket::Socket;
use crate::config::{ACCEPT_WAIT_MAX_MS, ACCEPT_WAIT_MS};
use crate::future::block_on::keeps_time;
use crate::sync::{AtomicU32, Relaxed};
use crate::time::sleep;
use socket2::SockAddr;
use std::io;
use std::time::Duration;

/// Waits, whoever polls: where nobody keeps time, on a thread that may block. Without any such thread it does not wait.
async fn pause(time: Duration) {
    if keeps_time() {
        sleep(time).await;
    } else {
        let _ = blocking(move || std::thread::sleep(time)).await;
    }
}

/// A listening socket.
pub(super) struct Listener {
    pub(super) socket: Socket,
    /// Refusals in a row.
    refused: AtomicU32,
}

impl Listener {
    /// Takes a listening socket over.
    pub(super) fn new(socket: impl Into<std::os::fd::OwnedFd>) -> io::Result<Self> {
        let socket = Socket::new(socket);
        // There is no flag by which a single `accept` does not wait.
        socket.options().set_nonblocking(true)?;
        Ok(Listener { socket, refused: AtomicU32::new(0) })
    }

    /// The next connection. One that is gone again before it was accepted is passed over.
    ///
    /// When the system has no descriptor or memory for it, the connection stays in the listener's queue: every call
    /// that finds it would return at once, for ever. So such an error comes after a wait, which doubles with every
    /// error in a row.
    pub(super) async fn accept(&self) -> io::Result<(socket2::Socket, SockAddr)> {
        loop {
            let error = match self.socket.call(Direction::Read, |socket| socket.accept()).await {
                Ok(accepted) => {
                    // Relaxed: by how much to wait, no more.
                    self.refused.store(0, Relaxed);
                    return Ok(accepted);
                }
                Err(error) => error,
            };
            match error.raw_os_error() {
                // Errors of the connection, which `accept` passes on.
                Some(
                    libc::ECONNABORTED
                    | libc::EPROTO
                    | libc::ENETDOWN
                    | libc::ENOPROTOOPT
                    | libc::EHOSTDOWN
                    | libc::ENONET
                    | libc::EHOSTUNREACH
                    | libc::ENETUNREACH,
                ) => {}
                Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                    // Relaxed: as above.
                    let before = self.refused.fetch_add(1, Relaxed);
                    let wait = ACCEPT_WAIT_MS << before.min(16);
                    pause(Duration::from_millis(wait.min(ACCEPT_WAIT_MAX_MS))).await;
                    return Err(error);
                }
                _ => return Err(error),
            }
        }
    }
}
