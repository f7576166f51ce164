//! What is wrong is said, and gives the buffer back.

use crate::support::{Scratch, both, here, in_time};
use scheduler::io::{self, File, TcpListener, TcpStream};
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::time::{Duration, Instant};

#[test]
fn paths_with_nul() {
    both(|| async {
        let bad = "a\0b";
        assert_eq!(File::open(bad).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(File::create(bad).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(io::metadata(bad).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(io::symlink_metadata(bad).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(io::read_dir(bad).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        Ok(())
    });
}

#[test]
fn options_that_contradict() {
    both(|| async {
        let scratch = Scratch::new();
        let path = scratch.path("a");
        for options in [
            File::options(),
            File::options().read(true).truncate(true),
            File::options().read(true).create(true),
            File::options().append(true).truncate(true),
        ] {
            assert_eq!(options.open(&path).await.unwrap_err().kind(), ErrorKind::InvalidInput, "{options:?}");
        }
        Ok(())
    });
}

#[test]
fn empty_buffers() {
    both(|| async {
        let scratch = Scratch::new();
        let path = scratch.path("a");
        std::fs::write(&path, "content")?;
        let file = File::options().read(true).write(true).open(&path).await?;
        assert_eq!(file.read_at(Vec::new(), 0).await.0?, 0);
        assert_eq!(file.read_at([], 3).await.0?, 0);
        assert_eq!(file.write_at("", 0).await.0?, 0);
        file.write_all_at(Vec::new(), 1 << 40).await.0?;
        assert_eq!(file.len().await?, 7);
        let listener = TcpListener::bind(here())?;
        let client = TcpStream::connect(listener.local_addr()?).await?;
        let (server, _) = listener.accept().await?;
        // They do not wait for anything either.
        assert_eq!(server.recv(Vec::new()).await.0?, 0);
        assert_eq!(client.send("").await.0?, 0);
        client.send_all("").await.0?;
        Ok(())
    });
}

#[test]
fn offsets_beyond_all_files() {
    both(|| async {
        let scratch = Scratch::new();
        let file = File::options().read(true).write(true).create(true).open(scratch.path("a")).await?;
        for offset in [u64::MAX, i64::MAX as u64 + 1] {
            let (refused, buf) = file.read_at(vec![1, 2, 3], offset).await;
            assert_eq!((refused.unwrap_err().kind(), buf), (ErrorKind::InvalidInput, vec![1, 2, 3]));
            let (refused, buf) = file.write_at("abc", offset).await;
            assert_eq!((refused.unwrap_err().kind(), buf), (ErrorKind::InvalidInput, "abc"));
            assert_eq!(file.set_len(offset).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        assert_eq!(file.read_at([0; 4], 1 << 60).await.0.unwrap_or(0), 0);
        let (refused, buf) = file.write_all_at("abc", i64::MAX as u64).await;
        assert!(refused.is_err());
        assert_eq!((buf, file.len().await?), ("abc", 0));
        Ok(())
    });
}

#[test]
fn a_full_disk() {
    both(|| async {
        let full = File::options().write(true).open("/dev/full").await?;
        let (refused, buf) = full.write_all_at(vec![1; 5], 0).await;
        assert_eq!((refused.unwrap_err().kind(), buf), (ErrorKind::StorageFull, vec![1; 5]));
        Ok(())
    });
}

#[test]
fn directories_are_no_files() {
    both(|| async {
        let directory = File::open("/proc").await?;
        assert_eq!(directory.read_at([0; 8], 0).await.0.unwrap_err().kind(), ErrorKind::IsADirectory);
        assert!(directory.metadata().await?.is_dir());
        Ok(())
    });
}

/// Somebody has closed the descriptor behind our back; or it is something else now.
#[test]
fn closed_descriptors() {
    both(|| async {
        let null = std::fs::File::open("/dev/null")?;
        // So high that nobody else gets it meanwhile.
        // SAFETY: no memory is passed.
        let high = unsafe { libc::fcntl(null.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 800) };
        // SAFETY: just made.
        let file = File::from(unsafe { std::fs::File::from_raw_fd(high) });
        // SAFETY: the test's own.
        unsafe { libc::close(high) };
        let (refused, buf) = file.read_at(vec![0; 8], 0).await;
        assert_eq!((refused.unwrap_err().raw_os_error(), buf.len()), (Some(libc::EBADF), 8));
        assert_eq!(file.metadata().await.unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert_eq!(file.sync_all().await.unwrap_err().raw_os_error(), Some(libc::EBADF));
        // SAFETY: something to close must be there.
        unsafe { libc::dup3(null.as_raw_fd(), high, libc::O_CLOEXEC) };
        let (stream, _other) = scheduler::io::UnixStream::pair()?;
        // SAFETY: both are open.
        unsafe { libc::dup3(null.as_raw_fd(), stream.as_fd().as_raw_fd(), libc::O_CLOEXEC) };
        assert_eq!(stream.recv([0; 8]).await.0.unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
        assert_eq!(stream.send("x").await.0.unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
        Ok(())
    });
}

/// The peer resets the connection in the middle of a long write, while another task reads.
#[test]
fn resets() {
    both(|| async {
        for _ in 0..20 {
            let listener = TcpListener::bind(here())?;
            let client = TcpStream::connect(listener.local_addr()?).await?;
            let (server, _) = listener.accept().await?;
            let reset = async {
                let (count, _) = server.recv([0; 1000]).await;
                count.expect("something came");
                // Closed with bytes unread: the peer is told by a reset.
                drop(server);
            };
            let write = async {
                let (mut sent, mut buf) = (Ok(()), vec![7; 1 << 20]);
                while sent.is_ok() {
                    (sent, buf) = client.send_all(buf).await;
                }
                assert_eq!(buf.len(), 1 << 20);
                sent.unwrap_err().kind()
            };
            let (kind, ()) = futures_lite::future::zip(write, reset).await;
            assert!(matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{kind:?}");
            let (after, _) = client.recv([0; 1]).await;
            assert!(matches!(after, Ok(0) | Err(_)), "{after:?}");
        }
        Ok(())
    });
}

/// No descriptors are left: `accept` says so, after waits that become longer, and goes on when there are some. In a
/// process of its own.
#[test]
#[ignore = "lowers a limit of the process: run by `denied::few_descriptors`"]
fn few_descriptors() {
    let scheduler = scheduler::Scheduler::builder().workers(1).build().unwrap();
    let serve = async {
        let listener = TcpListener::bind(here())?;
        let address = listener.local_addr()?;
        let mut clients = Vec::new();
        for _ in 0..100 {
            clients.push(std::net::TcpStream::connect(address)?);
        }
        // Whatever is begun when something waits the first time is there now.
        let (first, _) = listener.accept().await?;
        let _ = scheduler::time::timeout(Duration::from_millis(1), first.recv([0; 1])).await;
        let top = clients.last().expect("some").as_raw_fd() as u64 + 12;
        let limit = libc::rlimit { rlim_cur: top, rlim_max: top };
        // SAFETY: a limit of this process, which is the test's own.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
        let mut held = vec![first];
        let refused = loop {
            match listener.accept().await {
                Ok((stream, _)) => held.push(stream),
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused.raw_os_error(), Some(libc::EMFILE));
        assert!((2..100).contains(&held.len()), "{} accepted", held.len());
        let (began, cpu) = (Instant::now(), cpu_time());
        for _ in 0..4 {
            assert_eq!(listener.accept().await.unwrap_err().raw_os_error(), Some(libc::EMFILE));
        }
        // 20, 40, 80, 160 ms, asleep.
        assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
        assert!(cpu_time() - cpu < Duration::from_millis(150), "it spins: {:?}", cpu_time() - cpu);
        let before = held.len();
        drop(held);
        for _ in before..100 {
            drop(listener.accept().await?);
        }
        std::io::Result::Ok(())
    };
    scheduler.spawn_future(in_time(serve)).unwrap().join().unwrap().unwrap();
}

fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: filled by the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
