//! The scheduler of this workspace.
use super::{Ports, anywhere, hello};
use crate::arms::Ours;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use scheduler::hyper::Io;
use scheduler::io::{TcpListener, TcpStream};
use std::io::Result;

pub(super) fn start(workers: usize) -> std::result::Result<Ports, String> {
    let scheduler = Ours::new(workers)?.scheduler();
    let io = |error: std::io::Error| error.to_string();
    let [echo, http] = [TcpListener::bind(anywhere()).map_err(io)?, TcpListener::bind(anywhere()).map_err(io)?];
    let port = |listener: &TcpListener| listener.local_addr().map(|a| a.port()).map_err(io);
    let ports = Ports { echo: port(&echo)?, http: Ok(port(&http)?) };
    let echoing = accept(echo, |stream| drop(scheduler.spawn_future(echo_all(stream))));
    drop(scheduler.spawn_future(echoing).map_err(|e| e.to_string())?);
    let serving = accept(http, |stream| drop(scheduler.spawn_future(serve(stream))));
    drop(scheduler.spawn_future(serving).map_err(|e| e.to_string())?);
    Ok(ports)
}

async fn accept(listener: TcpListener, spawn: impl Fn(TcpStream)) {
    loop {
        // The error has waited before it came.
        if let Ok((stream, _)) = listener.accept().await
            && stream.set_nodelay(true).is_ok()
        {
            spawn(stream);
        }
    }
}

/// As [`super::echo`], with a buffer that is passed by value.
async fn echo_all(stream: TcpStream) {
    let mut buf = Vec::with_capacity(super::BUFFER);
    loop {
        buf.clear();
        let (read, filled) = stream.recv(buf).await;
        if !matches!(read, Ok(1..)) {
            return;
        }
        let written: Result<()>;
        (written, buf) = stream.send_all(filled).await;
        if written.is_err() {
            return;
        }
    }
}

async fn serve(stream: TcpStream) {
    // How it ends is the client's business.
    let _ = http1::Builder::new().serve_connection(Io::vectored(stream), service_fn(hello)).await;
}
