//! UDP.

use super::buf::{Buf, BufMut};
use super::fallback::reactor::Direction;
use super::socket::{NOW, Socket, receive, send};
use super::stream::fill;
use super::tcp::internet;
use socket2::{Domain, Protocol, Type};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Datagrams. Any number of tasks may use one socket at once.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use scheduler::io::UdpSocket;
/// let here = "127.0.0.1:0".parse()?;
/// let (one, other) = (UdpSocket::bind(here)?, UdpSocket::bind(here)?);
/// scheduler::block_on(async {
///     one.send_to("ping", other.local_addr()?).await.0?;
///     let (from, buf) = other.recv_from(vec![0; 1500]).await;
///     assert_eq!((from?.1, buf), (one.local_addr()?, b"ping".to_vec()));
///     Ok::<_, std::io::Error>(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct UdpSocket {
    socket: Socket,
}

impl UdpSocket {
    /// A socket at `address`; port 0 is a free one.
    ///
    /// # Errors
    /// `AddrInUse`, `AddrNotAvailable`, `PermissionDenied` and what else the system says.
    pub fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
        let socket = socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        socket.bind(&address.into())?;
        Ok(UdpSocket { socket: Socket::new(socket) })
    }

    /// Sends to and receives from `address` only. Does not wait: nothing is sent.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(&self, address: SocketAddr) -> io::Result<()> {
        self.socket.options().connect(&address.into())
    }

    /// Sends a datagram to where the socket is connected.
    ///
    /// # Errors
    /// `ConnectionRefused` when an earlier one found nobody, `EMSGSIZE`, and what else the system says.
    pub async fn send<B: Buf>(&self, buf: B) -> (io::Result<usize>, B) {
        let sent = self.socket.call(Direction::Write, |socket| send(socket, buf.bytes())).await;
        (sent, buf)
    }

    /// Sends a datagram to `address`.
    ///
    /// # Errors
    /// As for [`UdpSocket::send`].
    pub async fn send_to<B: Buf>(&self, buf: B, address: SocketAddr) -> (io::Result<usize>, B) {
        let address = address.into();
        let sent =
            self.socket.call(Direction::Write, |socket| socket.send_to_with_flags(buf.bytes(), &address, NOW)).await;
        (sent, buf)
    }

    /// Receives a datagram from where the socket is connected; what does not fit into `buf` is lost.
    ///
    /// # Errors
    /// As for [`UdpSocket::send`].
    pub async fn recv<B: BufMut>(&self, mut buf: B) -> (io::Result<usize>, B) {
        let received = self.socket.call(Direction::Read, |socket| receive(socket, buf.room())).await;
        (fill(&mut buf, received), buf)
    }

    /// Receives a datagram, and says from where; what does not fit into `buf` is lost.
    ///
    /// # Errors
    /// What the system says.
    pub async fn recv_from<B: BufMut>(&self, mut buf: B) -> (io::Result<(usize, SocketAddr)>, B) {
        let received = self.socket.call(Direction::Read, |socket| socket.recv_from_with_flags(buf.room(), NOW)).await;
        let (bytes, address) = match received {
            Ok((bytes, address)) => (Ok(bytes), Some(address)),
            Err(error) => (Err(error), None),
        };
        let received = fill(&mut buf, bytes).and_then(|bytes| Ok((bytes, internet(&address.expect("received"))?)));
        (received, buf)
    }

    /// Where the socket is.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        internet(&self.socket.options().local_addr()?)
    }

    /// Where it is connected.
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        internet(&self.socket.options().peer_addr()?)
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UdpSocket").field(&self.socket).finish()
    }
}
