//! The thread that waits for sockets: one epoll instance, edge triggered, so that nothing is armed again.
//!
//! A socket is registered when somebody has to wait for it the first time. What it says is a tick of its direction's
//! [`Edge`]; who waits reads the ticks *before* the system call that says `EAGAIN`, so nothing in between is missed.

use super::forked;
use crate::config::EVENTS;
use crate::io::edge::Edge;
use crate::submit::purge;
use crate::sys::epoll::{Epoll, Event};
use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// What a socket is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::io) enum Direction {
    /// Something can be read, or accepted, or has ended.
    Read,
    /// Something can be written, or a connection is made, or has failed.
    Write,
}

struct Reactor {
    /// The process that the thread is in.
    process: u32,
    epoll: Epoll,
    sockets: Mutex<Sockets>,
}

#[derive(Default)]
struct Sockets {
    last: u64,
    by_number: HashMap<u64, Arc<Registered>>,
}

/// A socket that is waited for.
pub(in crate::io) struct Registered {
    number: u64,
    edges: [Edge; 2],
}

fn reactor() -> io::Result<&'static Reactor> {
    static REACTOR: OnceLock<Reactor> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let check = |reactor: &'static Reactor| {
        if reactor.process == std::process::id() { Ok(reactor) } else { Err(forked()) }
    };
    if let Some(reactor) = REACTOR.get() {
        return check(reactor);
    }
    let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(reactor) = REACTOR.get() {
        return check(reactor);
    }
    let made = Reactor { process: std::process::id(), epoll: Epoll::new()?, sockets: Mutex::default() };
    let (begin, begun) = std::sync::mpsc::channel::<()>();
    thread::Builder::new().name("io-reactor".into()).spawn(move || {
        if begun.recv().is_ok() {
            REACTOR.get().expect("set before it is begun").run();
        }
    })?;
    let reactor = REACTOR.get_or_init(|| made);
    let _ = begin.send(());
    Ok(reactor)
}

/// Sockets that are registered now.
pub(in crate::io) fn registered() -> usize {
    reactor().map_or(0, |reactor| reactor.lock().by_number.len())
}

impl Reactor {
    fn lock(&self) -> MutexGuard<'_, Sockets> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut events = vec![Event::default(); EVENTS];
        let (mut due, mut wakers) = (Vec::with_capacity(EVENTS), Vec::new());
        loop {
            // It has woken futures of schedulers that may have ended since.
            purge();
            let events = self.epoll.wait(&mut events);
            let sockets = self.lock();
            // Who has gone in the meantime is not there any more.
            due.extend(events.iter().filter_map(|event| {
                Some((sockets.by_number.get(&event.number())?.clone(), event.readable(), event.writable()))
            }));
            drop(sockets);
            for (socket, readable, writable) in due.drain(..) {
                if readable {
                    socket.edge(Direction::Read).raise(&mut wakers);
                }
                if writable {
                    socket.edge(Direction::Write).raise(&mut wakers);
                }
            }
        }
    }
}

impl Registered {
    /// Registers a socket.
    ///
    /// # Errors
    /// What the system says: no descriptor for the reactor itself, no thread, no memory (`ENOSPC`, `ENOMEM`).
    pub(in crate::io) fn new(fd: BorrowedFd<'_>) -> io::Result<Arc<Self>> {
        let reactor = reactor()?;
        let mut sockets = reactor.lock();
        sockets.last += 1;
        let number = sockets.last;
        let registered = Arc::new(Registered { number, edges: Default::default() });
        sockets.by_number.insert(number, registered.clone());
        drop(sockets);
        if let Err(refused) = reactor.epoll.add(fd, number) {
            reactor.lock().by_number.remove(&number);
            return Err(refused);
        }
        Ok(registered)
    }

    /// The socket is about to be closed.
    pub(in crate::io) fn remove(&self, fd: BorrowedFd<'_>) {
        if let Ok(reactor) = reactor() {
            reactor.epoll.remove(fd);
            reactor.lock().by_number.remove(&self.number);
        }
    }

    pub(in crate::io) fn edge(&self, direction: Direction) -> &Edge {
        &self.edges[direction as usize]
    }
}
