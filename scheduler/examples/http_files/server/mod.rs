//! The file server: accepts, hands every connection to a task of the scheduler, and ends without cutting anybody off.
mod answer;
mod body;
mod disk;
mod listing;
mod net;
mod range;
mod root;
mod stop;
mod target;
mod version;

pub(crate) use stop::Stop;

use body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use root::Root;
use scheduler::hyper::{Io, Timer};
use scheduler::{Handle, time};
use std::convert::Infallible;
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

/// What a server is made of.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) root: PathBuf,
    pub(crate) listen: SocketAddr,
    /// How long a client may take for the head of a request, and how long a connection may rest between two.
    pub(crate) header_timeout: Duration,
    /// How long responses may take after the wish to stop.
    pub(crate) grace: Duration,
}

/// What it has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) connections: u64,
    pub(crate) requests: u64,
    /// Responses that were not sent to their end: the client went away or was too slow, or the file shrank.
    pub(crate) broken: u64,
    /// Connections that were still open when the grace was over.
    pub(crate) cut_off: u64,
    /// How often accepting had to wait for descriptors.
    pub(crate) back_offs: u64,
}

/// What all connections share.
struct Site {
    root: Root,
    header_timeout: Duration,
    connections: AtomicU64,
    requests: AtomicU64,
    broken: AtomicU64,
    back_offs: AtomicU64,
}

/// A server that listens and does not accept yet.
pub(crate) struct Server {
    site: Arc<Site>,
    listener: net::Listener,
    grace: Duration,
}

impl Server {
    /// Opens the folder and listens.
    pub(crate) fn bind(settings: &Settings) -> Result<Server> {
        let said = |what: String| move |error: Error| Error::new(error.kind(), format!("{what}: {error}"));
        let root = Root::open(&settings.root).map_err(said(settings.root.display().to_string()))?;
        let listener = net::Listener::bind(settings.listen).map_err(said(settings.listen.to_string()))?;
        let site = Site {
            root,
            header_timeout: settings.header_timeout,
            connections: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            back_offs: AtomicU64::new(0),
        };
        Ok(Server { site: Arc::new(site), listener, grace: settings.grace })
    }

    /// Where it listens.
    pub(crate) fn local_addr(&self) -> Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`, then lets what is under way end, for at most the grace.
    pub(crate) async fn run(self, handle: Handle, stop: Stop) -> Summary {
        let Server { site, listener, grace } = self;
        accept(&site, &listener, &handle, &stop).await;
        // Whoever knocks from now on is refused by the kernel.
        drop(listener);
        let cut_off = match time::timeout(grace, stop.all_closed()).await {
            Ok(()) => 0,
            Err(time::Elapsed) => stop.open() as u64,
        };
        Summary {
            connections: site.connections.load(Relaxed),
            requests: site.requests.load(Relaxed),
            broken: site.broken.load(Relaxed),
            cut_off,
            back_offs: site.back_offs.load(Relaxed),
        }
    }
}

async fn accept(site: &Arc<Site>, listener: &net::Listener, handle: &Handle, stop: &Stop) {
    while let Some(accepted) = unless(stop, listener.accept()).await {
        match accepted {
            Ok(stream) => {
                site.connections.fetch_add(1, Relaxed);
                let connection = serve(site.clone(), stream, stop.clone(), stop.enter());
                // Refused only when the scheduler ends, and then the connection ends with it.
                drop(handle.spawn_future(connection));
            }
            // The client was gone before we had it: somebody else may be waiting.
            Err(error) if is_the_clients(&error) => {}
            Err(error) => {
                site.back_offs.fetch_add(1, Relaxed);
                let open = stop.open();
                eprintln!("http_files: accept: {error}; {open} connections are open, clients have to wait");
            }
        }
    }
}

fn is_the_clients(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted)
}

/// The output of `future`; `None` if the wish to stop comes first.
async fn unless<F: Future>(stop: &Stop, future: F) -> Option<F::Output> {
    let mut wished = pin!(stop.wished());
    let mut future = pin!(future);
    std::future::poll_fn(|context| {
        if wished.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// One connection, to its end.
async fn serve(site: Arc<Site>, stream: net::Stream, stop: Stop, open: stop::Open) {
    let service = service_fn(|request: Request<Incoming>| {
        site.requests.fetch_add(1, Relaxed);
        let response = answer::answer(&site.root, request.method(), request.uri().path(), request.headers());
        async { Ok::<Response<Body>, Infallible>(response) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(Timer).header_read_timeout(site.header_timeout);
    let mut connection = pin!(builder.serve_connection(Io::vectored(stream), service));
    let mut wished = pin!(stop.wished());
    let mut stopping = false;
    let ended = std::future::poll_fn(|context| {
        if !stopping && wished.as_mut().poll(context).is_ready() {
            stopping = true;
            // The response under way is sent, and no further request is read.
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(context)
    })
    .await;
    if let Err(error) = ended {
        // A client that sends nonsense has been told so, one that sends nothing is cut off: neither is our trouble.
        if !error.is_parse() && !error.is_timeout() && !error.is_incomplete_message() {
            site.broken.fetch_add(1, Relaxed);
        }
    }
    drop(open);
}
