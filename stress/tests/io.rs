//! Files and sockets while futures are dropped, connections are reset and schedulers end: every answer is the right
//! one, and nothing is left open.
#![cfg(not(loom))]

use scheduler::io::{File, Shutdown, TcpListener, TcpStream, UnixStream, blocking};
use scheduler::time::timeout;
use scheduler::{Handle, ShutdownMode};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use stress::round::submitter;
use stress::{Random, os, run, watchdog};

const LONG: Duration = Duration::from_secs(100);

async fn echo(stream: TcpStream) -> io::Result<()> {
    let mut buf = Vec::with_capacity(512);
    loop {
        let (count, back) = stream.recv(buf).await;
        if count? == 0 {
            return stream.shutdown(Shutdown::Write);
        }
        let (sent, back) = stream.send_all(back).await;
        sent?;
        buf = back;
    }
}

/// Serves whoever comes, until its listener is dropped with it.
async fn serve(handle: Handle, listener: TcpListener) {
    loop {
        if let Ok((stream, _)) = listener.accept().await
            && handle.spawn_future(async move { echo(stream).await.unwrap_or(()) }).is_err()
        {
            return;
        }
    }
}

fn here() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

/// Asks, and looks at the answers; now and then it gives up in the middle.
async fn ask(address: SocketAddr, mut random: Random, asked: Arc<AtomicU64>) -> io::Result<()> {
    let stream = TcpStream::connect(address).await?;
    for _ in 0..random.below(20) {
        let bytes = 1 + random.below(400) as usize;
        let question = vec![random.below(256) as u8; bytes];
        if random.below(16) == 0 {
            // Dropped with something on its way.
            let _ = timeout(Duration::from_micros(random.below(50)), stream.send_all(question)).await;
            return Ok(());
        }
        let (sent, question) = stream.send_all(question).await;
        sent?;
        let mut answer = Vec::new();
        while answer.len() < bytes {
            let limit = Duration::from_micros(random.below(200));
            // A receive that is given up has taken nothing.
            let Ok((count, part)) = timeout(limit, stream.recv(Vec::with_capacity(512))).await else { continue };
            if count? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            answer.extend(part);
        }
        assert!(answer == question, "somebody else's answer");
        asked.fetch_add(1, Relaxed);
    }
    Ok(())
}

/// Clients from workers and from other threads, who come, ask, give up and go.
#[test]
fn echoes() {
    run("io::echoes", |round| {
        let scheduler = round.scheduler();
        let listener = TcpListener::bind(here()).unwrap();
        let address = listener.local_addr().unwrap();
        let server = scheduler.spawn_future(serve(scheduler.handle(), listener)).unwrap();
        let (end, asked) = (Instant::now() + round.time(400), Arc::new(AtomicU64::new(0)));
        let threads: Vec<_> = (0..round.profile.submitters.clamp(1, 4))
            .map(|_| {
                let (handle, mut random, asked) = (scheduler.handle(), round.random(), asked.clone());
                submitter(move || {
                    while Instant::now() < end {
                        let clients: Vec<_> = (0..8)
                            .map(|_| {
                                let client = ask(address, Random::new(random.any()), asked.clone());
                                handle.spawn_future(async { timeout(LONG, client).await.expect("an answer") }).unwrap()
                            })
                            .collect();
                        let own = ask(address, Random::new(random.any()), asked.clone());
                        scheduler::block_on(timeout(LONG, own)).expect("an answer").expect("no error");
                        clients.into_iter().for_each(|client| client.join().unwrap().expect("no error"));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        server.abort();
        drop(server.join());
        assert!(asked.load(Relaxed) > 0, "nobody has got an answer");
    });
}

/// Buffers and descriptors of operations that are dropped at any moment.
#[test]
fn dropped() {
    run("io::dropped", |round| {
        let files = os::open_files();
        let scheduler = round.scheduler();
        let path = std::env::temp_dir().join(format!("stress-io-{}-{}", std::process::id(), round.profile.workers));
        std::fs::write(&path, vec![7; 1 << 18]).unwrap();
        let live = Arc::new(AtomicUsize::new(0));
        let end = Instant::now() + round.time(300);
        while Instant::now() < end {
            let tasks: Vec<_> = (0..16)
                .map(|_| {
                    let (path, live, mut random) = (path.clone(), live.clone(), round.random());
                    let work = async move {
                        let (left, right) = UnixStream::pair().expect("a pair");
                        for _ in 0..8 {
                            let limit = Duration::from_micros(random.below(150));
                            let _ = timeout(limit, File::open(&path)).await;
                            let file = File::options().read(true).write(true).open(&path).await.expect("a file");
                            let _ = timeout(limit, file.write_at(vec![7; 4096], 4096 * random.below(64))).await;
                            let _ = timeout(limit, file.sync_data()).await;
                            let (count, buf) = file.read_at(vec![0; 4096], 4096 * random.below(64)).await;
                            assert!(count.expect("read") == 4096 && buf.iter().all(|byte| *byte == 7));
                            let _ = timeout(limit, left.recv([0; 8])).await;
                            live.fetch_add(1, Relaxed);
                            let token = Live(live.clone());
                            let _ = timeout(limit, blocking(move || drop(token))).await;
                        }
                        drop(right);
                    };
                    scheduler.spawn_future(work).unwrap()
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
        }
        drop(scheduler);
        // It keeps what is left of schedulers, bells of their workers among it.
        watchdog::forget();
        assert!(os::settles(0, || live.load(Relaxed)), "{live:?} pieces of work are left");
        // The reactor keeps one.
        assert!(os::settles(files + 1, os::open_files), "{} files open, {files} before", os::open_files());
        std::fs::remove_file(&path).unwrap();
    });
}

struct Live(Arc<AtomicUsize>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Schedulers that end with operations under way: nobody waits for ever, nothing is left open.
#[test]
fn ends() {
    run("io::ends", |round| {
        let files = os::open_files();
        let mut random = round.random();
        let end = Instant::now() + round.time(300);
        while Instant::now() < end {
            let scheduler = round.build(round.builder_of(round.profile.workers));
            let listener = TcpListener::bind(here()).unwrap();
            let address = listener.local_addr().unwrap();
            drop(scheduler.spawn_future(serve(scheduler.handle(), listener)).unwrap());
            let asked = Arc::new(AtomicU64::new(0));
            let clients: Vec<_> = (0..16)
                .map(|_| {
                    let client = ask(address, Random::new(random.any()), asked.clone());
                    scheduler.spawn_future(client).unwrap()
                })
                .collect();
            std::thread::sleep(Duration::from_micros(random.below(3_000)));
            let mode = if random.below(2) == 0 { ShutdownMode::Drain } else { ShutdownMode::Abort };
            let report = scheduler.shutdown(mode, LONG);
            assert!(report.completed, "{report:?}");
            for client in clients {
                // Answered, ended by the server's end, or cancelled.
                let _ = client.join();
            }
            watchdog::forget();
        }
        assert!(os::settles(files + 1, os::open_files), "{} files open, {files} before", os::open_files());
    });
}
