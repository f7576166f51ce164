//! Unix sockets.

use super::accept::Listener;
use super::buf::{Buf, BufMut};
use super::fallback::reactor::Direction;
use super::socket::{Socket, send};
use super::stream::{byte_stream, read_socket};
use futures_io::{AsyncRead, AsyncWrite};
use socket2::{Domain, SockAddr, Type};
use std::fmt;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A connection between two processes of one host, otherwise like [`TcpStream`](super::TcpStream).
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use scheduler::io::UnixStream;
/// let (left, right) = UnixStream::pair()?;
/// scheduler::block_on(async {
///     left.send_all("hello").await.0?;
///     let (count, buf) = right.recv([0; 16]).await;
///     assert_eq!(&buf[..count?], b"hello");
///     Ok::<_, std::io::Error>(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct UnixStream {
    socket: Arc<Socket>,
}

byte_stream!(UnixStream, UnixReadHalf, UnixWriteHalf, std::os::unix::net::UnixStream);

impl UnixStream {
    /// Connects to the listener at `path`.
    ///
    /// # Errors
    /// `InvalidInput` for a path that is too long or has a NUL, `NotFound`, `ConnectionRefused`, and what else the
    /// system says; `WouldBlock` (EAGAIN) when the listener's queue is full.
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<UnixStream> {
        let address = address(path.as_ref())?;
        let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // It is done at once, or the listener's queue is full, and nothing would tell when there is room.
        socket.set_nonblocking(true)?;
        socket.connect(&address)?;
        socket.set_nonblocking(false)?;
        Ok(UnixStream { socket: Arc::new(Socket::new(socket)) })
    }

    /// Two that are connected with each other.
    ///
    /// # Errors
    /// What the system says.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (left, right) = socket2::Socket::pair(Domain::UNIX, Type::STREAM, None)?;
        let stream = |socket| UnixStream { socket: Arc::new(Socket::new(socket)) };
        Ok((stream(left), stream(right)))
    }

    /// The address of this side.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        local(&self.socket.options().local_addr()?)
    }

    /// The address of the other side.
    ///
    /// # Errors
    /// `NotConnected` when it is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        local(&self.socket.options().peer_addr()?)
    }
}

fn local(address: &SockAddr) -> io::Result<SocketAddr> {
    if address.is_unnamed() {
        return SocketAddr::from_pathname("");
    }
    address.as_unix().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a Unix address"))
}

fn address(path: &Path) -> io::Result<SockAddr> {
    // Kernel and library would take what stands before the NUL, or a name that is no path.
    if std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a path with a NUL"));
    }
    SockAddr::unix(path)
}

/// Listens for connections at a path.
pub struct UnixListener {
    listener: Listener,
}

impl UnixListener {
    /// Listens at `path`, where nothing may be. The file stays when the listener is gone.
    ///
    /// # Errors
    /// `InvalidInput` for a path that is too long or has a NUL, `AddrInUse`, and what else the system says.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixListener> {
        let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&address(path.as_ref())?)?;
        socket.listen(1024)?;
        Ok(UnixListener { listener: Listener::new(socket)? })
    }

    /// The next connection, and where it comes from. Dropped before it is ready, it has taken none.
    ///
    /// # Errors
    /// As for [`TcpListener::accept`](super::TcpListener::accept).
    pub async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (socket, address) = self.listener.accept().await?;
        Ok((UnixStream { socket: Arc::new(Socket::new(socket)) }, local(&address)?))
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        local(&self.listener.socket.options().local_addr()?)
    }
}

impl AsFd for UnixListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.socket.as_fd()
    }
}

impl fmt::Debug for UnixListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UnixListener").field(&self.listener.socket).finish()
    }
}
