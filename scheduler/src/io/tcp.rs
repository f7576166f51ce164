//! TCP.

use super::accept::Listener;
use super::buf::{Buf, BufMut};
use super::fallback::reactor::Direction;
use super::socket::{Socket, send};
use super::stream::{byte_stream, read_socket};
use futures_io::{AsyncRead, AsyncWrite};
use socket2::{Domain, Protocol, SockAddr, Type};
use std::fmt;
use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Connections that wait to be accepted; the system may hold fewer.
const BACKLOG: i32 = 1024;

/// A connection. Sending and receiving take a shared reference: any number of tasks may use it at once, as far as
/// that makes sense. The traits of `futures_io`, for the stream and for references to it, wake one task per
/// direction, the last one that asked.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use scheduler::io::{TcpListener, TcpStream};
/// let scheduler = scheduler::Scheduler::builder().workers(2).build()?;
/// let echoed = scheduler.spawn_future(async {
///     let listener = TcpListener::bind("127.0.0.1:0".parse().expect("an address"))?;
///     let client = TcpStream::connect(listener.local_addr()?).await?;
///     let (server, _peer) = listener.accept().await?;
///     client.send_all("hello").await.0?;
///     let (count, buf) = server.recv(vec![0; 100]).await;
///     assert_eq!(count?, 5);
///     Ok::<_, std::io::Error>(buf)
/// })?;
/// assert_eq!(echoed.join()??, b"hello");
/// # Ok(())
/// # }
/// ```
pub struct TcpStream {
    socket: Arc<Socket>,
}

byte_stream!(TcpStream, TcpReadHalf, TcpWriteHalf, std::net::TcpStream);

impl TcpStream {
    /// Connects. For a name, see [`resolve`](super::resolve).
    ///
    /// # Errors
    /// `ConnectionRefused`, `TimedOut` and what else the system says.
    pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
        let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        let socket = connect(socket, &address.into()).await?;
        Ok(TcpStream { socket: Arc::new(socket) })
    }

    /// The address of this side.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        internet(&self.socket.options().local_addr()?)
    }

    /// The address of the other side.
    ///
    /// # Errors
    /// `NotConnected` when it is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        internet(&self.socket.options().peer_addr()?)
    }

    /// Small writes are sent at once (`TCP_NODELAY`).
    ///
    /// # Errors
    /// What the system says.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.socket.options().set_tcp_nodelay(nodelay)
    }

    /// See [`TcpStream::set_nodelay`].
    ///
    /// # Errors
    /// What the system says.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.socket.options().tcp_nodelay()
    }
}

/// Connects a fresh socket.
pub(super) async fn connect(socket: socket2::Socket, address: &SockAddr) -> io::Result<Socket> {
    socket.set_nonblocking(true)?;
    let socket = Socket::new(socket);
    let mut begun = false;
    let attempt = |socket: &socket2::SockRef<'_>| {
        if !begun {
            begun = true;
            return match socket.connect(address) {
                Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Err(io::ErrorKind::WouldBlock.into()),
                other => other,
            };
        }
        match socket.take_error()? {
            Some(error) => Err(error),
            // Neither failed nor connected: woken too early.
            None if socket.peer_addr().is_err() => Err(io::ErrorKind::WouldBlock.into()),
            None => Ok(()),
        }
    };
    socket.call(Direction::Write, attempt).await?;
    // From now on the flags of each call say that it must not wait, and a ring waits by itself.
    socket.options().set_nonblocking(false)?;
    Ok(socket)
}

/// An internet address.
pub(super) fn internet(address: &SockAddr) -> io::Result<SocketAddr> {
    address.as_socket().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not an internet address"))
}

/// Listens for connections.
pub struct TcpListener {
    listener: Listener,
}

impl TcpListener {
    /// Listens at `address`; port 0 is a free one. The port may have been used a moment ago (`SO_REUSEADDR`).
    ///
    /// # Errors
    /// `AddrInUse`, `AddrNotAvailable`, `PermissionDenied` and what else the system says.
    pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
        let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener { listener: Listener::new(socket)? })
    }

    /// The next connection, and where it comes from. Dropped before it is ready, it has taken none.
    ///
    /// # Errors
    /// When there is no descriptor or memory for the connection (`EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM`), after a wait
    /// of 10 ms that doubles with every such error in a row, up to 640 ms: the connection is still queued, and a loop
    /// around `accept` does not spin.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, address) = self.listener.accept().await?;
        Ok((TcpStream { socket: Arc::new(Socket::new(socket)) }, internet(&address)?))
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        internet(&self.listener.socket.options().local_addr()?)
    }
}

impl TryFrom<std::net::TcpListener> for TcpListener {
    type Error = io::Error;
    /// Takes a listener over, which becomes non-blocking for all who share it.
    fn try_from(listener: std::net::TcpListener) -> io::Result<Self> {
        Ok(TcpListener { listener: Listener::new(listener)? })
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.socket.as_fd()
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TcpListener").field(&self.listener.socket).finish()
    }
}
