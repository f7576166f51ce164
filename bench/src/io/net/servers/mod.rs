//! The servers of each arm: one that echoes, and one that answers `Hello, World!` through hyper.
use super::serve::Ports;
use futures_lite::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use std::convert::Infallible;
use std::net::SocketAddr;

#[cfg(feature = "monoio")]
mod monoio;
mod ours;
mod smol;
mod tokio;

/// Most bytes that a server reads at once.
pub(super) const BUFFER: usize = 16 << 10;

fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Starts both servers of an arm; they run until the process ends.
pub(super) fn start(arm: &str, workers: usize) -> Result<Ports, String> {
    let io = |error: std::io::Error| error.to_string();
    match arm {
        "scheduler" | "scheduler-epoll" => ours::start(workers),
        "tokio" => tokio::start(workers).map_err(io),
        "async-executor" => smol::start(workers).map_err(io),
        #[cfg(feature = "monoio")]
        "monoio" => monoio::start(workers).map_err(io),
        _ => Err(format!("{arm} has no server")),
    }
}

/// Sends back what comes, until the end.
async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut buf = vec![0; BUFFER];
    while let Ok(count) = stream.read(&mut buf).await {
        if count == 0 || stream.write_all(&buf[..count]).await.is_err() {
            return;
        }
    }
}

/// The service of the plaintext scenario.
async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let response = Response::new(Full::new(Bytes::from_static(b"Hello, World!")));
    Ok(response)
}
