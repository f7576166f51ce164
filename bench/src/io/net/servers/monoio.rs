//! monoio: a ring per thread, and no work that moves between them. Every thread accepts for itself, on one port.
use super::{Ports, anywhere};
use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::net::{ListenerOpts, TcpListener, TcpStream};
use std::io::Result;
use std::net::SocketAddr;

pub(super) fn start(workers: usize) -> Result<Ports> {
    // A port that is free, and stays so until the threads share it.
    let first = std::net::TcpListener::bind(anywhere())?;
    let address = first.local_addr()?;
    drop(first);
    let (told, heard) = std::sync::mpsc::channel();
    for n in 0..workers {
        let told = told.clone();
        std::thread::Builder::new().name(format!("monoio-{n}")).spawn(move || {
            let built = monoio::RuntimeBuilder::<monoio::IoUringDriver>::new().build();
            match built {
                Ok(mut runtime) => runtime.block_on(serve(address, told)),
                Err(error) => drop(told.send(Err(error))),
            }
        })?;
    }
    for _ in 0..workers {
        heard.recv().map_err(std::io::Error::other)??;
    }
    Ok(Ports { echo: address.port(), http: Err("no hyper 1 on monoio here".into()) })
}

async fn serve(address: SocketAddr, told: std::sync::mpsc::Sender<Result<()>>) {
    let options = ListenerOpts::new().reuse_port(true).reuse_addr(true);
    let listener = match TcpListener::bind_with_config(address, &options) {
        Ok(listener) => listener,
        Err(error) => return drop(told.send(Err(error))),
    };
    drop(told.send(Ok(())));
    loop {
        if let Ok((stream, _)) = listener.accept().await
            && stream.set_nodelay(true).is_ok()
        {
            monoio::spawn(echo_all(stream));
        }
    }
}

async fn echo_all(mut stream: TcpStream) {
    let mut buf = Vec::with_capacity(super::BUFFER);
    loop {
        let (read, filled) = stream.read(buf).await;
        if !matches!(read, Ok(1..)) {
            return;
        }
        let written;
        (written, buf) = stream.write_all(filled).await;
        if written.is_err() {
            return;
        }
        buf.clear();
    }
}
