//! 10,000 connections, and 256 descriptors.

use crate::support::{HOPELESS, here};
use scheduler::io::{TcpListener, TcpStream, blocking};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const ATTEMPTS: usize = 10_000;
/// Kept open at a time by the clients: more than the server has descriptors for.
const HELD: usize = 400;

/// The server, in a process of its own: says its port, serves whoever comes until its input ends, and then judges.
#[test]
#[ignore = "lowers a limit of the process: run by `many::ten_thousand_connections`"]
fn server() {
    let scheduler = scheduler::Scheduler::builder().workers(2).build().unwrap();
    let listener = TcpListener::bind(here()).unwrap();
    println!("port {}", listener.local_addr().unwrap().port());
    let limit = libc::rlimit { rlim_cur: 256, rlim_max: 256 };
    // SAFETY: a limit of this process, which is the test's own.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    // Whatever is begun when something waits the first time.
    scheduler.block_on(blocking(|| ())).unwrap();
    let before = descriptors();
    let (accepted, refused, open) = <(Arc<AtomicU64>, Arc<AtomicU64>, Arc<AtomicU64>)>::default();
    let (count, refusals, held) = (accepted.clone(), refused.clone(), open.clone());
    let handle = scheduler.handle();
    let serving = scheduler.spawn_future(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    count.fetch_add(1, Relaxed);
                    held.fetch_add(1, Relaxed);
                    let held = held.clone();
                    let serve = async move {
                        until_it_ends(stream).await;
                        held.fetch_sub(1, Relaxed);
                    };
                    drop(handle.spawn_future(serve).unwrap());
                }
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
                    refusals.fetch_add(1, Relaxed);
                }
            }
        }
    });
    let began = Instant::now();
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
    let (took, cpu) = (began.elapsed(), cpu_time());
    let (accepted, refused) = (accepted.load(Relaxed), refused.load(Relaxed));
    println!("{accepted} accepted, {refused} refusals, {took:?}, {cpu:?} of CPU time");
    assert!(accepted >= HELD as u64 && refused > 0, "{accepted} accepted, {refused} refusals");
    // Each comes after 10 ms at least.
    assert!(refused <= took.as_millis() as u64 / 10 + 1, "{refused} refusals in {took:?}");
    // Some 30 us each are enough; somebody who spins takes all the time there is.
    let limit = Duration::from_micros(500 * accepted) + Duration::from_millis(300) + took / 8;
    assert!(cpu < limit, "{cpu:?} in {took:?}, more than {limit:?}: it spins");
    let settled = Instant::now();
    while open.load(Relaxed) != 0 {
        assert!(settled.elapsed() < HOPELESS, "{open:?} connections are left");
        std::thread::sleep(Duration::from_millis(5));
    }
    serving.unwrap().abort();
    while descriptors() > before {
        assert!(settled.elapsed() < HOPELESS, "{} descriptors, {before} before", descriptors());
        std::thread::sleep(Duration::from_millis(5));
    }
}

async fn until_it_ends(stream: TcpStream) {
    let mut buf = [0; 64];
    loop {
        let (count, back) = stream.recv(buf).await;
        if !matches!(count, Ok(1..)) {
            return;
        }
        buf = back;
    }
}

/// Those of files and sockets.
fn descriptors() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").expect("the own descriptors").flatten();
    let targets = all.filter_map(|entry| entry.path().read_link().ok());
    targets.filter(|to| to.to_string_lossy().starts_with("socket:")).count()
}

fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: filled by the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn ten_thousand_connections() {
    for driver in ["auto", "epoll"] {
        let mut command = Command::new(std::env::current_exe().expect("the test program"));
        command.args(["--ignored", "--exact", "many::server", "--nocapture"]).env("SCHEDULER_IO", driver);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let port = lines.by_ref().find_map(|line| Some(line.ok()?.rsplit_once("port ")?.1.parse::<u16>().ok()));
        let port = port.flatten().expect("it says its port");
        let mut open = VecDeque::new();
        let mut made = 0;
        for _ in 0..ATTEMPTS {
            let client = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
            client.set_nonblocking(true).expect("a flag");
            // Under way, or dropped because the listener's queue is full.
            let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
            made +=
                usize::from(client.connect(&address.into()).map_or_else(|e| e.raw_os_error() == Some(115), |()| true));
            open.push_back(client);
            if open.len() > HELD {
                let mut oldest = open.pop_front().expect("some");
                let _ = oldest.write_all(b"bye");
            }
        }
        assert_eq!(made, ATTEMPTS);
        std::thread::sleep(Duration::from_millis(200));
        drop(open);
        drop(child.stdin.take());
        let rest: Vec<_> = lines.map_while(Result::ok).collect();
        let status = child.wait().expect("it ends");
        println!("{driver}: {}", rest.join(" | "));
        assert!(status.success(), "{driver}: {status}: {rest:?}");
    }
}
