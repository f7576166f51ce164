//! Connections.

use crate::support::{both, here, in_time, noise, scheduler};
use futures_lite::{AsyncReadExt, AsyncWriteExt};
use scheduler::io::{Shutdown, TcpListener, TcpStream};
use scheduler::time::{Elapsed, timeout};
use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;
use std::time::Duration;

async fn pair() -> std::io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(here())?;
    let client = TcpStream::connect(listener.local_addr()?).await?;
    let (server, from) = listener.accept().await?;
    assert_eq!(from, client.local_addr()?);
    assert_eq!(client.peer_addr()?, server.local_addr()?);
    Ok((client, server))
}

#[test]
fn there_and_back() {
    both(|| async {
        let (client, server) = pair().await?;
        client.set_nodelay(true)?;
        assert!(client.nodelay()?);
        for n in 1..50_usize {
            client.send_all(vec![n as u8; n]).await.0?;
            let (count, buf) = server.recv(Vec::with_capacity(100)).await;
            assert_eq!((count?, &buf), (n, &vec![n as u8; n]));
            server.send_all(buf).await.0?;
            let (count, buf) = client.recv([0; 100]).await;
            assert_eq!(buf[..count?], vec![n as u8; n]);
        }
        client.shutdown(Shutdown::Write)?;
        assert_eq!(server.recv([0; 1]).await.0?, 0);
        drop(server);
        assert_eq!(client.recv([0; 1]).await.0?, 0);
        Ok(())
    });
}

#[test]
fn more_than_the_socket_holds() {
    both(|| async {
        let (client, server) = pair().await?;
        let data = noise(8 << 20);
        let expected = data.clone();
        let (sent, received) = futures_lite::future::zip(
            async move {
                let sent = client.send_all(data).await.0;
                client.shutdown(Shutdown::Write)?;
                sent
            },
            async move {
                let (mut all, mut buf) = (Vec::new(), Vec::with_capacity(100_000));
                loop {
                    let (count, back) = server.recv(buf).await;
                    if count? == 0 {
                        return Ok::<_, std::io::Error>(all);
                    }
                    all.extend_from_slice(&back);
                    buf = back;
                }
            },
        )
        .await;
        sent?;
        assert!(received? == expected, "what arrived differs");
        Ok(())
    });
}

#[test]
fn the_traits() {
    both(|| async {
        let (mut client, server) = pair().await?;
        let (mut read, mut write) = server.into_split();
        let data = noise(500_000);
        let expected = data.clone();
        let echo = async move {
            let mut buf = vec![0; 3000];
            loop {
                match AsyncReadExt::read(&mut read, &mut buf).await? {
                    0 => break write.close().await,
                    count => write.write_all(&buf[..count]).await?,
                }
            }
        };
        let client = async move {
            let slices = [IoSlice::new(&data[..10]), IoSlice::new(&data[10..20])];
            let first = client.write_vectored(&slices).await?;
            assert!((1..=20).contains(&first));
            let mut back = Vec::new();
            // Both sides at once through shared references, or neither gets on.
            let stream = &client;
            let (sent, received) = futures_lite::future::zip(
                async move {
                    let mut writer = stream;
                    writer.write_all(&data[first..]).await?;
                    writer.close().await
                },
                async {
                    let mut reader = stream;
                    reader.read_to_end(&mut back).await
                },
            )
            .await;
            sent?;
            received?;
            assert!(back == expected, "what came back differs");
            std::io::Result::Ok(())
        };
        let (echoed, asked) = futures_lite::future::zip(echo, client).await;
        echoed?;
        asked
    });
}

#[test]
fn dropped_halves_end_their_side() {
    both(|| async {
        let (client, server) = pair().await?;
        let (read, write) = client.into_split();
        write.send_all("last").await.0?;
        drop(write);
        let (count, buf) = server.recv(Vec::with_capacity(10)).await;
        assert_eq!((count?, &*buf), (4, &b"last"[..]));
        assert_eq!(server.recv(buf).await.0?, 0);
        server.send_all("still heard").await.0?;
        assert_eq!(read.recv([0; 20]).await.0?, 11);
        Ok(())
    });
}

#[test]
fn nothing_is_lost_with_a_dropped_read() {
    both(|| async {
        let (client, server) = pair().await?;
        for n in 0..100_u8 {
            // Begun, and given up, perhaps as the byte comes.
            let late = timeout(Duration::from_micros(10 * u64::from(n % 7)), server.recv([0; 8]));
            let (early, sent) = futures_lite::future::zip(late, client.send_all([n])).await;
            sent.0?;
            match early {
                Ok((count, buf)) => assert_eq!((count?, buf[0]), (1, n)),
                Err(Elapsed) => {
                    let (count, buf) = server.recv([0; 8]).await;
                    assert_eq!((count?, buf[0]), (1, n));
                }
            }
        }
        Ok(())
    });
}

#[test]
fn nobody_there() {
    both(|| async {
        let address = TcpListener::bind(here())?.local_addr()?;
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let taken = TcpListener::bind(here())?;
        assert_eq!(TcpListener::bind(taken.local_addr()?).unwrap_err().kind(), ErrorKind::AddrInUse);
        let none = "192.0.2.1:1".parse().unwrap();
        assert_eq!(TcpListener::bind(none).unwrap_err().kind(), ErrorKind::AddrNotAvailable);
        Ok(())
    });
}

#[test]
fn of_the_standard_library() {
    both(|| async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let client = std::net::TcpStream::connect(listener.local_addr()?)?;
        client.set_nonblocking(true)?;
        let listener = TcpListener::try_from(listener)?;
        let (server, _) = listener.accept().await?;
        let client = TcpStream::try_from(client)?;
        let (read, sent) = futures_lite::future::zip(client.recv([0; 4]), server.send_all("ping")).await;
        sent.0?;
        assert_eq!((read.0?, &read.1), (4, b"ping"));
        Ok(())
    });
}

/// One listener, several tasks that accept, many connections that come and go.
#[test]
fn many_connections() {
    let scheduler = scheduler();
    let listener = Arc::new(TcpListener::bind(here()).unwrap());
    let address = listener.local_addr().unwrap();
    let servers: Vec<_> = (0..4)
        .map(|_| {
            let (listener, handle) = (listener.clone(), scheduler.handle());
            let serve = async move {
                for _ in 0..50 {
                    let (stream, _) = listener.accept().await.expect("accept");
                    let echo = async move {
                        let mut buf = Vec::with_capacity(64);
                        loop {
                            let (count, back) = stream.recv(buf).await;
                            if count.unwrap_or(0) == 0 {
                                break;
                            }
                            buf = stream.send_all(back).await.1;
                        }
                    };
                    drop(handle.spawn_future(in_time(echo)).unwrap());
                }
            };
            scheduler.spawn_future(in_time(serve)).unwrap()
        })
        .collect();
    let clients: Vec<_> = (0..200_u32)
        .map(|n| {
            let ask = async move {
                let stream = TcpStream::connect(address).await.expect("connect");
                for round in 0..20_u32 {
                    let question = (n * 1000 + round).to_le_bytes();
                    stream.send_all(question).await.0.expect("write");
                    let (count, answer) = stream.recv([0; 4]).await;
                    assert_eq!((count.expect("read"), answer), (4, question));
                }
            };
            scheduler.spawn_future(in_time(ask)).unwrap()
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    servers.into_iter().for_each(|server| server.join().unwrap());
}
