//! hyper on the scheduler, over connections that lie in memory.
#![cfg(not(loom))]

use futures_io::{AsyncRead, AsyncWrite};
use futures_lite::io::{AsyncReadExt, AsyncWriteExt};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Executor as _, Timer as _};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use scheduler::hyper::{Executor, Io, Timer};
use scheduler::{Scheduler, ShutdownMode, block_on};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

/// One end of a connection: two pipes of `piper`.
struct Duplex(piper::Reader, piper::Writer);

fn duplex(capacity: usize) -> (Duplex, Duplex) {
    let (a, b) = (piper::pipe(capacity), piper::pipe(capacity));
    (Duplex(a.0, b.1), Duplex(b.0, a.1))
}

impl AsyncRead for Duplex {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        assert!(buf.iter().all(|byte| *byte == 0), "room that was never written");
        Pin::new(&mut self.get_mut().0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Duplex {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().1).poll_write(cx, buf)
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().1).poll_flush(cx)
    }
    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().1).poll_close(cx)
    }
}

fn two_workers() -> Scheduler {
    Scheduler::builder().workers(2).build().expect("a scheduler")
}

/// Answers with the request's body, reversed.
async fn reversed(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let mut body = request.into_body().collect().await?.to_bytes().to_vec();
    body.reverse();
    Ok(Response::new(Full::new(body.into())))
}

/// Serves one connection as a task of the scheduler; what comes of it can be joined.
fn serve(scheduler: &Scheduler, io: Io<Duplex>) -> scheduler::JoinHandle<Result<(), hyper::Error>> {
    let serving = async move {
        let mut builder = http1::Builder::new();
        builder.timer(Timer).header_read_timeout(Duration::from_millis(50));
        builder.serve_connection(io, service_fn(reversed)).await
    };
    scheduler.spawn_future(serving).expect("open")
}

/// hyper's client on the same scheduler: the connection is driven by a task, spawned through the executor.
async fn client(executor: &Executor, io: Io<Duplex>) -> hyper::client::conn::http1::SendRequest<Full<Bytes>> {
    let (sender, connection) = hyper::client::conn::http1::handshake(io).await.expect("a connection");
    executor.execute(async { drop(connection.await) });
    sender
}

/// Client and server on one scheduler, over pipes smaller than what goes through them, vectored and not.
#[test]
fn messages_larger_than_the_pipe_go_both_ways() {
    let scheduler = two_workers();
    for around in [Io::new as fn(Duplex) -> Io<Duplex>, Io::vectored] {
        for len in [0, 1, 100, 300_000] {
            let (near, far) = duplex(1_000);
            let server = serve(&scheduler, around(far));
            let executor = Executor::new(scheduler.handle());
            let sent: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let body = Full::new(Bytes::from(sent.clone()));
            let talk = async move {
                let mut client = client(&executor, around(near)).await;
                let request = Request::post("/").header("host", "x").body(body).expect("a request");
                let answer = client.send_request(request).await.expect("an answer");
                assert_eq!(answer.status(), 200);
                answer.into_body().collect().await.expect("a body").to_bytes()
            };
            let got = scheduler.spawn_future(talk).expect("open").join().expect("no panic");
            assert!(got.iter().rev().eq(sent.iter()), "{len} bytes");
            server.join().expect("no panic").expect("a connection that ended well");
        }
    }
}

/// Two requests on one connection, written by hand.
#[test]
fn a_connection_is_kept() {
    let scheduler = two_workers();
    let (mut near, far) = duplex(10_000);
    let server = serve(&scheduler, Io::new(far));
    block_on(async {
        for _ in 0..2 {
            near.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc").await.expect("room");
            let mut seen = vec![];
            while !seen.ends_with(b"\r\n\r\ncba") {
                let mut byte = [0];
                assert_eq!(near.read(&mut byte).await.expect("open"), 1, "{}", String::from_utf8_lossy(&seen));
                seen.push(byte[0]);
            }
            assert!(seen.starts_with(b"HTTP/1.1 200 OK\r\n"));
        }
    });
    drop(near);
    server.join().expect("no panic").expect("a connection that ended well");
}

/// hyper's header timeout runs on our timers: a client that never ends its head is cut off.
#[test]
fn a_head_that_does_not_come_ends_the_connection() {
    let scheduler = two_workers();
    let (mut near, far) = duplex(1_000);
    let began = Instant::now();
    let server = serve(&scheduler, Io::new(far));
    block_on(async { near.write_all(b"GET / HTT").await.expect("room") });
    let error = server.join().expect("no panic").expect_err("a timeout");
    assert!(error.is_timeout(), "{error:?}");
    assert!(began.elapsed() >= Duration::from_millis(50));
}

/// Polls once.
async fn look(sleep: &mut Pin<Box<dyn hyper::rt::Sleep>>) -> Poll<()> {
    poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx))).await
}

#[test]
fn a_sleep_can_be_reset_to_sooner_and_to_later() {
    let scheduler = two_workers();
    let sleeping = async {
        let began = Instant::now();
        let mut sleep = Timer.sleep(LONG);
        assert!(look(&mut sleep).await.is_pending());
        Timer.reset(&mut sleep, began + Duration::from_millis(5));
        sleep.as_mut().await;
        assert!(began.elapsed() >= Duration::from_millis(5) && began.elapsed() < LONG);
        // It is over, and can be used again.
        Timer.reset(&mut sleep, Instant::now() + LONG);
        assert!(look(&mut sleep).await.is_pending());
        Timer.reset(&mut sleep, began);
        assert!(look(&mut sleep).await.is_ready());
    };
    scheduler.spawn_future(sleeping).expect("open").join().expect("no panic");
}

/// A sleep of somebody else, which `reset` cannot know.
struct Never;

impl Future for Never {
    type Output = ();
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl hyper::rt::Sleep for Never {}

#[test]
fn a_foreign_sleep_is_replaced() {
    let mut sleep: Pin<Box<dyn hyper::rt::Sleep>> = Box::pin(Never);
    Timer.reset(&mut sleep, Instant::now() + Duration::from_millis(1));
    block_on(sleep);
}

struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn what_the_scheduler_refuses_is_dropped() {
    let scheduler = two_workers();
    let executor = Executor::new(scheduler.handle());
    let (told, heard) = channel();
    executor.execute(async move { told.send(()).expect("somebody waits") });
    heard.recv_timeout(LONG).expect("it ran");
    assert!(scheduler.shutdown(ShutdownMode::Drain, LONG).completed);
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Flag(dropped.clone());
    executor.execute(async move {
        let _flag = flag;
        unreachable!("it was refused");
    });
    assert!(dropped.load(SeqCst));
}

/// Says that it read more than there was room for.
struct Liar;

impl AsyncRead for Liar {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len() + 1))
    }
}

impl AsyncWrite for Liar {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
#[should_panic(expected = "says that it read")]
fn a_reader_that_lies_is_not_believed() {
    let service = service_fn(|_| async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::new()))) });
    drop(block_on(http1::Builder::new().serve_connection(Io::new(Liar), service)));
}

#[test]
fn the_wrapper_gives_back_what_it_wraps() {
    let mut io = Io::new(7_u8);
    *io.get_mut() += 1;
    assert_eq!((*io.get_ref(), io.into_inner()), (8, 8));
}
