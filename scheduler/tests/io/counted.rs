//! Descriptors and buffers, counted before and after.

use crate::support::{HOPELESS, Scratch, here, in_time, noise, scheduler};
use scheduler::io::{Buf, BufMut, File, TcpListener, TcpStream, UnixStream, blocking};
use scheduler::time::timeout;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A buffer that is counted.
struct Counted(Vec<u8>, Arc<AtomicUsize>);

impl Counted {
    fn new(bytes: usize, count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, SeqCst);
        Counted(vec![0; bytes], count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, SeqCst);
    }
}

// SAFETY: the vector's.
unsafe impl BufMut for Counted {
    fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        self.0.room()
    }
    unsafe fn filled(&mut self, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.filled(bytes) };
    }
}

// SAFETY: the vector's.
unsafe impl Buf for Counted {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

fn until(what: &str, reached: impl Fn() -> bool) {
    let began = Instant::now();
    while !reached() {
        assert!(began.elapsed() < HOPELESS, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Futures that are dropped at any moment leave nothing behind, and nothing is dropped twice.
#[test]
fn buffers_of_dropped_futures() {
    let scheduler = scheduler();
    let scratch = Scratch::new();
    std::fs::write(scratch.path("a"), noise(1 << 20)).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let file = Arc::new(scheduler.block_on(File::options().read(true).write(true).open(scratch.path("a"))).unwrap());
    let tasks: Vec<_> = (0..200_u64)
        .map(|n| {
            let (file, count) = (file.clone(), count.clone());
            let work = async move {
                let (left, _right) = UnixStream::pair().expect("a pair");
                for round in 0..10 {
                    let limit = Duration::from_micros((n * 13 + round * 29) % 200);
                    let _ = timeout(limit, left.recv(Counted::new(100, &count))).await;
                    let _ = timeout(limit, file.read_at(Counted::new(5000, &count), n * 4096)).await;
                    let _ = timeout(limit, file.write_at(Counted::new(50, &count), n * 4096)).await;
                    let _ = timeout(limit, file.sync_data()).await;
                    // Polled once, or not at all.
                    drop(file.write_at(Counted::new(50, &count), 0));
                    let _ = futures_lite::future::poll_once(file.write_at(Counted::new(50, &count), 0)).await;
                    let counted = Counted::new(1, &count);
                    let _ = futures_lite::future::poll_once(blocking(move || counted)).await;
                }
            };
            scheduler.spawn_future(in_time(work)).unwrap()
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join().unwrap());
    until("all buffers dropped", || count.load(SeqCst) == 0);
}

/// Those of files and sockets. Rings, their bells and the reactor have others: a worker opens its ring when it first
/// needs it, which may be at any time, and keeps it.
fn descriptors() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").expect("the own descriptors").flatten();
    // Gone already: not counted.
    let targets = all.filter_map(|entry| entry.path().read_link().ok());
    targets.filter(|to| !to.to_string_lossy().starts_with("anon_inode:")).count()
}

/// In a process of its own: others open descriptors, too.
#[test]
#[ignore = "counts descriptors of the process: run by `denied::descriptors`"]
fn descriptors_are_closed() {
    let scheduler = scheduler();
    let scratch = Scratch::new();
    std::fs::write(scratch.path("a"), "content").unwrap();
    let round = || {
        let path = scratch.path("a");
        let work = async move {
            let listener = TcpListener::bind(here())?;
            let address = listener.local_addr()?;
            for n in 0..50_u64 {
                let client = TcpStream::connect(address).await?;
                let (server, _) = listener.accept().await?;
                let limit = Duration::from_micros(n * 7 % 100);
                let _ = timeout(limit, server.recv([0; 8])).await;
                let _ = timeout(limit, listener.accept()).await;
                let _ = timeout(limit, TcpStream::connect(address)).await;
                let (read, write) = client.into_split();
                drop((read, server));
                drop(write);
                // Opened, perhaps, when nobody wants it any more.
                let _ = timeout(limit, File::open(&path)).await;
                let _ = futures_lite::future::poll_once(File::open(&path)).await;
                let _ = futures_lite::future::poll_once(std::pin::pin!(File::open(&path))).await;
            }
            std::io::Result::Ok(())
        };
        scheduler.spawn_future(in_time(work)).unwrap().join().unwrap().unwrap();
    };
    round();
    let settled = || {
        // What is on its way ends by itself.
        let mut last = descriptors();
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let now = descriptors();
            if now == last {
                return now;
            }
            last = now;
        }
    };
    let before = settled();
    (0..10).for_each(|_| round());
    until("as many descriptors as before", || descriptors() <= before);
    until("no socket in the reactor", || scheduler::internals::io::counts().0 == 0);
}
