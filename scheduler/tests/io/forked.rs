//! The child of a fork: what would need a thread or a ring of the parent's is refused, and nothing waits for ever.

use crate::support::{Scratch, here};
use scheduler::io::{File, TcpListener, TcpStream, blocking, read_dir};
use scheduler::{Handle, Io, Scheduler};
use std::future::Future;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Polls as long as anybody may have a hand in it.
fn ends<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(value);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

/// Runs `child` in the child of a fork, and returns what it returns.
fn fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child uses what the tests are about, and is ended if it hangs.
    let id = unsafe { libc::fork() };
    if id == 0 {
        // SAFETY: no memory is passed.
        unsafe { libc::alarm(60) };
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(99);
        // SAFETY: nothing of the parent's is ended here.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the kernel fills the status.
    assert_eq!(unsafe { libc::waitpid(id, &mut status, 0) }, id);
    assert!(libc::WIFEXITED(status), "the child was ended: {status}");
    libc::WEXITSTATUS(status)
}

/// The number of the first that does not end, or ends well.
fn all_refused(path: &std::path::Path, stream: &TcpStream, listener: &TcpListener) -> i32 {
    let file = File::from(std::fs::File::options().write(true).open(path).expect("a file"));
    let refused = [
        ends(file.write_at("x", 0)).map(|(result, _)| result.is_err()),
        ends(file.sync_all()).map(|result| result.is_err()),
        ends(File::open(path)).map(|result| result.is_err()),
        ends(stream.recv([0; 8])).map(|(result, _)| result.is_err()),
        ends(listener.accept()).map(|result| result.is_err()),
        ends(blocking(|| 1)).map(|result| result.is_err()),
        ends(read_dir(path.parent().expect("a directory"))).map(|result| result.is_err()),
    ];
    refused.iter().position(|refused| *refused != Some(true)).map_or(0, |at| at as i32 + 1)
}

/// On a worker, before and after its ring was opened, and on a thread that is none.
#[test]
fn what_would_wait_is_refused() {
    for io in [Io::Auto, Io::Epoll] {
        let scheduler = Scheduler::builder().workers(2).io(io).build().unwrap();
        let scratch = Scratch::new();
        let path = scratch.path("a");
        std::fs::write(&path, "content").unwrap();
        let listener = TcpListener::bind(here()).unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = TcpStream::try_from(stream).unwrap();
        // The other end of the only connection, so that nobody else comes.
        let _server = scheduler.block_on(listener.accept()).unwrap();
        // The threads that block and the reactor are there, and in the parent.
        assert!(!ends_at_once(stream.recv([0; 8])));
        scheduler.block_on(blocking(|| ())).unwrap();
        assert_eq!(fork(|| all_refused(&path, &stream, &listener)), 0, "{io:?}, no worker");
        let used = move || {
            let before = fork(|| all_refused(&path, &stream, &listener));
            Handle::current().block_on(async { File::open(&path).await?.sync_all().await }).unwrap();
            (before, fork(|| all_refused(&path, &stream, &listener)))
        };
        assert_eq!(scheduler.spawn(used).unwrap().join().unwrap(), (0, 0), "{io:?}, a worker");
    }
}

/// One poll.
fn ends_at_once<T>(future: impl Future<Output = T>) -> bool {
    std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}
