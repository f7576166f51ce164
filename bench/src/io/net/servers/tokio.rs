//! Tokio, multi-threaded.
use super::{Ports, anywhere, hello};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::io::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(super) fn start(workers: usize) -> Result<Ports> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    let runtime = Box::leak(Box::new(built));
    let [echo, http] =
        [runtime.block_on(TcpListener::bind(anywhere()))?, runtime.block_on(TcpListener::bind(anywhere()))?];
    let ports = Ports { echo: echo.local_addr()?.port(), http: Ok(http.local_addr()?.port()) };
    runtime.spawn(async move {
        loop {
            if let Some(stream) = accepted(&echo).await {
                tokio::spawn(echo_all(stream));
            }
        }
    });
    runtime.spawn(async move {
        loop {
            if let Some(stream) = accepted(&http).await {
                let serve = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(hello));
                tokio::spawn(async { drop(serve.await) });
            }
        }
    });
    Ok(ports)
}

async fn accepted(listener: &TcpListener) -> Option<TcpStream> {
    let (stream, _) = listener.accept().await.ok()?;
    stream.set_nodelay(true).ok()?;
    Some(stream)
}

async fn echo_all(mut stream: TcpStream) {
    let mut buf = vec![0; super::BUFFER];
    while let Ok(count) = stream.read(&mut buf).await {
        if count == 0 || stream.write_all(&buf[..count]).await.is_err() {
            return;
        }
    }
}
