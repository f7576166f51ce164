//! Unix sockets.

use crate::support::{Scratch, both};
use futures_lite::{AsyncReadExt, AsyncWriteExt};
use scheduler::io::{UnixListener, UnixStream};
use std::io::ErrorKind;

#[test]
fn there_and_back() {
    both(|| async {
        let scratch = Scratch::new();
        let path = scratch.path("socket");
        let listener = UnixListener::bind(&path)?;
        assert_eq!(listener.local_addr()?.as_pathname(), Some(&*path));
        let mut client = UnixStream::connect(&path).await?;
        let (server, from) = listener.accept().await?;
        assert!(from.is_unnamed());
        assert_eq!(client.peer_addr()?.as_pathname(), Some(&*path));
        let (read, sent) = futures_lite::future::zip(server.recv([0; 8]), client.write_all(b"hello")).await;
        sent?;
        assert_eq!((read.0?, &read.1[..5]), (5, &b"hello"[..]));
        drop(server);
        assert_eq!(client.read(&mut [0; 1]).await?, 0);
        Ok(())
    });
}

#[test]
fn pairs_and_halves() {
    both(|| async {
        let (left, right) = UnixStream::pair()?;
        let (_read, write) = left.into_split();
        let (count, _) =
            futures_lite::future::zip(right.recv(Vec::with_capacity(100)), write.send_all(vec![1; 100])).await;
        assert_eq!(count.0?, 100);
        drop(write);
        assert_eq!(right.recv([0; 1]).await.0?, 0);
        Ok(())
    });
}

#[test]
fn bad_paths() {
    both(|| async {
        let scratch = Scratch::new();
        let long = scratch.path(&"x".repeat(200));
        assert_eq!(UnixListener::bind(&long).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(UnixStream::connect(&long).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        let nul = scratch.path("a\0b");
        assert_eq!(UnixListener::bind(&nul).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(UnixStream::connect(&nul).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        let none = scratch.path("none");
        assert_eq!(UnixStream::connect(&none).await.unwrap_err().kind(), ErrorKind::NotFound);
        let listener = UnixListener::bind(&none)?;
        assert_eq!(UnixListener::bind(&none).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(listener);
        assert_eq!(UnixStream::connect(&none).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        Ok(())
    });
}
