//! Files and sockets for futures.
//!
//! What need not wait is done at once, on the calling thread. What has to wait goes, on a worker, into its ring
//! (`io_uring`), in which the worker also sleeps; and elsewhere, or where there are no rings, to threads for that
//! purpose: one that waits for all sockets, and up to four per CPU that block for files. These are begun when they are
//! first needed, one set for the whole process, and belong to no scheduler. So everything here works on workers, in
//! [`block_on`](crate::block_on) on any thread, and wherever else a future is polled. Which it is:
//! [`Builder::io`](crate::Builder::io), and [`WorkerMetrics`](crate::WorkerMetrics).
//!
//! Buffers are passed by value ([`Buf`], [`BufMut`]) and come back with the result, also with an error: the system may
//! use them while nobody awaits the operation any more. For everything that wants `&mut [u8]` streams, and files with a
//! position ([`Cursor`]), have the traits of `futures_io`.
//!
//! The protocol is in `io/README.md`; for users, `docs/io.md`.
mod accept;
mod blocking;
mod buf;
mod cursor;
mod dir;
mod fallback;
mod file;
mod inbound;
mod metadata;
mod request;
mod socket;
mod stream;
mod tcp;
mod udp;
mod unix;
mod way;

#[doc(hidden)]
pub mod edge;
#[doc(hidden)]
pub mod node;
#[doc(hidden)]
pub mod op;
#[doc(hidden)]
pub mod state;

pub(crate) use way::complete;

pub use blocking::{Refused, blocking};
pub use buf::{Buf, BufMut};
pub use cursor::Cursor;
pub use dir::{DirEntry, ReadDir, read_dir, resolve};
pub use file::{File, OpenOptions, metadata, symlink_metadata};
pub use metadata::Metadata;
pub use std::net::Shutdown;
pub use tcp::{TcpListener, TcpReadHalf, TcpStream, TcpWriteHalf};
pub use udp::UdpSocket;
pub use unix::{UnixListener, UnixReadHalf, UnixStream, UnixWriteHalf};

/// What is going on in the threads of this module, for tests: sockets that are waited for, threads that block, and
/// operations they have taken.
#[doc(hidden)]
pub fn counts() -> (usize, usize, u64) {
    let (threads, taken) = fallback::pool::counts();
    (fallback::reactor::registered(), threads, taken)
}
