//! Which driver does it: what was asked for, as far as it can be had.

use crate::support::{Scratch, here, in_time, noise};
use futures_lite::AsyncReadExt;
use scheduler::io::{File, TcpListener, TcpStream};
use scheduler::{Io, Scheduler};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// Waits for sockets, and a file that is not read at once.
async fn some_of_all() -> std::io::Result<()> {
    let listener = TcpListener::bind(here())?;
    let client = TcpStream::connect(listener.local_addr()?).await?;
    let (server, _) = listener.accept().await?;
    let late = async {
        scheduler::time::sleep(std::time::Duration::from_millis(5)).await;
        client.send_all("late").await.0
    };
    let (received, sent) = futures_lite::future::zip(server.recv([0; 8]), late).await;
    sent?;
    assert_eq!(received.0?, 4);
    let scratch = Scratch::new();
    let file = File::create(scratch.path("a")).await?;
    file.write_all_at(noise(100_000), 0).await.0?;
    file.sync_all().await
}

#[test]
fn the_one_that_was_asked_for() {
    for io in [Io::Uring, Io::Epoll] {
        // Where there are no rings the first is refused, and says so.
        let Ok(scheduler) = Scheduler::builder().workers(2).io(io).build() else {
            assert_eq!(io, Io::Uring);
            continue;
        };
        scheduler.spawn_future(in_time(some_of_all())).unwrap().join().unwrap().unwrap();
        let operations: u64 = scheduler.metrics().workers.iter().map(|worker| worker.io_operations).sum();
        // Opened, written, synchronised; waited for.
        assert_eq!(operations >= 4, io == Io::Uring, "{operations} operations through rings");
    }
}

/// A scheduler that ends with operations in its rings: they are cancelled, and their tasks with them.
#[test]
fn the_end() {
    for io in [Io::Auto, Io::Epoll] {
        let scheduler = Scheduler::builder().workers(2).io(io).build().unwrap();
        let listener = TcpListener::bind(here()).unwrap();
        let address = listener.local_addr().unwrap();
        let waiting: Vec<_> = (0..20)
            .map(|_| {
                let stream = TcpStream::try_from(std::net::TcpStream::connect(address).unwrap()).unwrap();
                scheduler.spawn_future(async move { stream.recv([0; 8]).await.0 }).unwrap()
            })
            .collect();
        let accepting = scheduler.spawn_future(async move { while listener.accept().await.is_ok() {} });
        std::thread::sleep(std::time::Duration::from_millis(20));
        let report = scheduler.shutdown(scheduler::ShutdownMode::Drain, crate::support::HOPELESS);
        assert!(report.completed, "{report:?}");
        let left: u64 = scheduler.metrics().workers.iter().map(|worker| worker.io_leaked).sum();
        assert_eq!(left, 0);
        for task in waiting {
            // Cancelled as it waited, or told that the server is gone.
            let _ = task.join();
        }
        let _ = accepting.unwrap().join();
    }
}

/// Streams that are read by a worker of one scheduler, then of another, then by a thread that is none; each has its
/// own way to wait.
#[test]
fn from_hand_to_hand() {
    let schedulers = [Io::Auto, Io::Epoll].map(|io| Scheduler::builder().workers(1).io(io).build().unwrap());
    let listener = TcpListener::bind(here()).unwrap();
    let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut server = scheduler::block_on(in_time(listener.accept())).unwrap().0;
    for round in 0..30_u8 {
        let receive = async move {
            let (count, buf) = server.recv([0; 4]).await;
            (server, count.map(|count| buf[..count].to_vec()))
        };
        let send = |client: &std::net::TcpStream| {
            std::thread::sleep(std::time::Duration::from_micros(300));
            std::io::Write::write_all(&mut &*client, &[round])
        };
        let (back, received) = match schedulers.get(usize::from(round % 3)) {
            Some(scheduler) => {
                let task = scheduler.spawn_future(in_time(receive)).unwrap();
                send(&client).unwrap();
                task.join().unwrap()
            }
            None => {
                send(&client).unwrap();
                scheduler::block_on(in_time(receive))
            }
        };
        assert_eq!(received.unwrap(), [round]);
        server = back;
    }
}

/// Bytes that a ring has brought come before those that are still in the socket, also for somebody who has begun to
/// wait in the reactor before there was a ring.
#[test]
fn bytes_keep_their_order_between_reactor_and_ring() {
    let scheduler = Scheduler::builder().workers(1).build().unwrap();
    let listener = TcpListener::bind(here()).unwrap();
    let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = Arc::new(scheduler::block_on(in_time(listener.accept())).unwrap().0);
    let read = |buf: &mut [u8]| {
        let mut stream = &*server;
        futures_lite::future::block_on(futures_lite::future::poll_once(stream.read(buf)))
    };
    // On this thread, which has no ring.
    assert!(read(&mut [0; 4]).is_none(), "nothing has come");
    let there = server.clone();
    let first = scheduler.spawn_future(in_time(async move { there.recv([0; 4]).await })).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let bytes: Vec<u8> = (0..200).collect();
    client.write_all(&bytes[..100]).unwrap();
    let (count, start) = first.join().unwrap();
    let mut all = start[..count.unwrap()].to_vec();
    client.write_all(&bytes[100..]).unwrap();
    while all.len() < 200 {
        let mut buf = [0; 200];
        if let Some(count) = read(&mut buf) {
            all.extend_from_slice(&buf[..count.unwrap()]);
        }
    }
    assert_eq!(all, bytes);
}
