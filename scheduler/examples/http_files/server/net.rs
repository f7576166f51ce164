//! Where connections come from.
use scheduler::io::{TcpListener, TcpStream};
use std::io::Result;
use std::net::SocketAddr;

pub(crate) type Stream = TcpStream;

pub(crate) struct Listener(TcpListener);

impl Listener {
    pub(crate) fn bind(address: SocketAddr) -> Result<Listener> {
        TcpListener::bind(address).map(Listener)
    }

    pub(crate) fn local_addr(&self) -> Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The next connection. An error for want of descriptors or memory has waited before it comes, longer each time.
    pub(crate) async fn accept(&self) -> Result<Stream> {
        let (stream, _) = self.0.accept().await?;
        // A response is written at once, and should go at once.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}
