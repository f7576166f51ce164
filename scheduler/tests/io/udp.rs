//! Datagrams.

use crate::support::{both, here};
use scheduler::io::UdpSocket;
use scheduler::time::timeout;
use std::io::ErrorKind;
use std::time::Duration;

#[test]
fn to_and_from() {
    both(|| async {
        let (one, other) = (UdpSocket::bind(here())?, UdpSocket::bind(here())?);
        let (received, sent) =
            futures_lite::future::zip(other.recv_from([0; 16]), one.send_to("ping", other.local_addr()?)).await;
        assert_eq!(sent.0?, 4);
        let (count, from) = received.0?;
        assert_eq!((&received.1[..count], from), (&b"ping"[..], one.local_addr()?));
        one.connect(other.local_addr()?)?;
        other.connect(from)?;
        assert_eq!(one.peer_addr()?, other.local_addr()?);
        let (received, sent) = futures_lite::future::zip(one.recv(Vec::with_capacity(3)), other.send("pong")).await;
        sent.0?;
        // What does not fit is lost.
        assert_eq!((received.0?, received.1), (3, b"pon".to_vec()));
        assert!(timeout(Duration::from_millis(5), one.recv([0; 1])).await.is_err());
        Ok(())
    });
}

#[test]
fn too_long_and_too_far() {
    both(|| async {
        let one = UdpSocket::bind(here())?;
        let (refused, buf) = one.send_to(vec![1; 70_000], here()).await;
        assert!(refused.is_err());
        assert_eq!(buf.len(), 70_000);
        let (refused, _) = one.send_to(vec![1; 70_000], one.local_addr()?).await;
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EMSGSIZE));
        let nobody = UdpSocket::bind(here())?.local_addr()?;
        one.connect(nobody)?;
        one.send("x").await.0?;
        assert_eq!(one.recv([0; 1]).await.0.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        Ok(())
    });
}
