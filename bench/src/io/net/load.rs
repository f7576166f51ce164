//! The clients of the echo scenarios: one thread, the same for every arm. Each connection has one message under way;
//! the next is sent when all of it has come back.
use crate::run::PATIENCE;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{ErrorKind, Read, Result, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long every message took, in nanoseconds, and all of them together.
pub(super) struct Load {
    pub(super) wall: Duration,
    pub(super) latencies: Vec<u64>,
}

struct Connection {
    stream: TcpStream,
    sent: usize,
    received: usize,
    started: Instant,
    /// Messages that are left.
    left: u64,
}

/// What a look at a connection came to.
enum Step {
    Waiting,
    Echoed,
}

/// Connections that are open before the clock starts.
pub(super) struct Clients {
    poll: Poll,
    connections: Vec<Connection>,
    message: Vec<u8>,
    scratch: Vec<u8>,
}

fn wrong(what: &str) -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, what.to_owned())
}

impl Clients {
    pub(super) fn connect(address: SocketAddr, connections: u64, bytes: usize) -> Result<Clients> {
        let poll = Poll::new()?;
        let mut all = vec![];
        for n in 0..connections as usize {
            let stream = std::net::TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(n), Interest::READABLE | Interest::WRITABLE)?;
            all.push(Connection { stream, sent: 0, received: 0, started: Instant::now(), left: 0 });
        }
        // No two bytes beside each other are alike, so that a shift is seen.
        let message = (0..bytes).map(|i| (i * 7 % 251) as u8).collect();
        Ok(Clients { poll, connections: all, message, scratch: vec![0; bytes.max(64 << 10)] })
    }

    /// Sends `messages` in all, the same number on every connection.
    pub(super) fn run(&mut self, messages: u64) -> Result<Load> {
        let each = messages / self.connections.len() as u64;
        let mut latencies = Vec::with_capacity(messages as usize);
        let mut open = self.connections.len();
        let mut events = Events::with_capacity(self.connections.len().max(64));
        let start = Instant::now();
        for connection in &mut self.connections {
            connection.left = each;
            connection.begin(&self.message)?;
        }
        while open > 0 {
            self.poll.poll(&mut events, Some(Duration::from_secs(1)))?;
            if start.elapsed() > PATIENCE {
                return Err(wrong("not all messages came back within a minute"));
            }
            for event in &events {
                let connection = &mut self.connections[event.token().0];
                while connection.left > 0 && matches!(connection.step(&self.message, &mut self.scratch)?, Step::Echoed)
                {
                    latencies.push(connection.started.elapsed().as_nanos() as u64);
                    connection.left -= 1;
                    if connection.left == 0 {
                        open -= 1;
                    } else {
                        connection.begin(&self.message)?;
                    }
                }
            }
        }
        Ok(Load { wall: start.elapsed(), latencies })
    }
}

impl Connection {
    fn begin(&mut self, message: &[u8]) -> Result<()> {
        (self.sent, self.received, self.started) = (0, 0, Instant::now());
        self.write(message)
    }

    fn write(&mut self, message: &[u8]) -> Result<()> {
        while self.sent < message.len() {
            match self.stream.write(&message[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Goes on until it has to wait, or the message is back.
    fn step(&mut self, message: &[u8], scratch: &mut [u8]) -> Result<Step> {
        self.write(message)?;
        loop {
            let room = &mut scratch[..message.len() - self.received];
            match self.stream.read(room) {
                Ok(0) => return Err(wrong("the server closed a connection")),
                Ok(count) => {
                    if room[..count] != message[self.received..self.received + count] {
                        return Err(wrong("something else came back"));
                    }
                    self.received += count;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Step::Waiting),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.received == message.len() {
                return Ok(Step::Echoed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A server that echoes, or adds one to every byte.
    fn server(add: u8) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || {
                    let mut buf = [0; 1_000];
                    while let Ok(count) = stream.read(&mut buf) {
                        buf.iter_mut().for_each(|b| *b = b.wrapping_add(add));
                        if count == 0 || stream.write_all(&buf[..count]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    #[test]
    fn every_message_is_sent_and_timed_once() {
        let address = server(0);
        for (connections, bytes) in [(1, 64), (7, 16_384)] {
            let mut clients = Clients::connect(address, connections, bytes).unwrap();
            for _ in 0..2 {
                let load = clients.run(70).unwrap();
                assert_eq!(load.latencies.len(), 70);
                assert!(load.latencies.iter().all(|ns| *ns > 0 && u128::from(*ns) <= load.wall.as_nanos()));
            }
        }
    }

    #[test]
    fn a_server_that_does_not_echo_is_found_out() {
        let mut clients = Clients::connect(server(1), 2, 64).unwrap();
        assert!(clients.run(10).err().unwrap().to_string().contains("something else"));
    }
}
