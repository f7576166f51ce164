//! async-executor with async-io.
use super::{Ports, anywhere, echo, hello};
use async_executor::Executor;
use async_io::Async;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use std::io::Result;
use std::net::{TcpListener, TcpStream};

pub(super) fn start(workers: usize) -> Result<Ports> {
    let executor: &'static Executor<'static> = Box::leak(Box::new(Executor::new()));
    let [echoing, http] = [Async::<TcpListener>::bind(anywhere())?, Async::<TcpListener>::bind(anywhere())?];
    let port = |listener: &Async<TcpListener>| listener.get_ref().local_addr().map(|a| a.port());
    let ports = Ports { echo: port(&echoing)?, http: Ok(port(&http)?) };
    executor.spawn(accept(echoing, |stream| executor.spawn(echo(stream)).detach())).detach();
    executor.spawn(accept(http, |stream| executor.spawn(serve(stream)).detach())).detach();
    for n in 0..workers {
        let thread = std::thread::Builder::new().name(format!("smol-{n}"));
        thread.spawn(|| async_io::block_on(executor.run(std::future::pending::<()>())))?;
    }
    Ok(ports)
}

async fn accept(listener: Async<TcpListener>, spawn: impl Fn(Async<TcpStream>)) {
    loop {
        if let Ok((stream, _)) = listener.accept().await
            && stream.get_ref().set_nodelay(true).is_ok()
        {
            spawn(stream);
        }
    }
}

async fn serve(stream: Async<TcpStream>) {
    // The adapter of this workspace: any connection with the traits of `futures_io` will do.
    let io = scheduler::hyper::Io::vectored(stream);
    // How it ends is the client's business.
    let _ = http1::Builder::new().serve_connection(io, service_fn(hello)).await;
}
