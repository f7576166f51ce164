//! The thread that waits for sockets: one epoll instance, edge triggered, so that nothing is armed again.
//!
//! A socket is registered when somebody has to wait for it the first time. What it says is a tick of its direction's
//! [`Edge`]; who waits reads the ticks *before* the system call that says `EAGAIN`, so nothing in between is missed.
#![expect(unsafe_code, reason = "one for the whole process, without a lock")]

use super::forked;
use crate::config::EVENTS;
use crate::io::edge::Edge;
use crate::submit::purge;
use crate::sync::real::AtomicPtr;
use crate::sync::{Acquire, Release};
use crate::sys::epoll::{Epoll, Event};
use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// The one. Not behind a lock, which a fork in the moment of the first use would leave locked in the child.
static REACTOR: AtomicPtr<Reactor> = AtomicPtr::new(null_mut());

fn reactor() -> io::Result<&'static Reactor> {
    // Acquire: pairs with the Release below.
    let there = NonNull::new(REACTOR.load(Acquire)).map_or_else(begin, Ok)?;
    // SAFETY: never freed.
    let reactor: &'static Reactor = unsafe { there.as_ref() };
    if reactor.process == std::process::id() { Ok(reactor) } else { Err(forked()) }
}

/// Makes one with its thread, unless somebody else is faster.
#[cold]
fn begin() -> io::Result<NonNull<Reactor>> {
    let made = Box::new(Reactor { process: std::process::id(), epoll: Epoll::new()?, sockets: Mutex::default() });
    let (begin, begun) = std::sync::mpsc::channel::<&'static Reactor>();
    thread::Builder::new().name("io-reactor".into()).spawn(move || {
        // Otherwise another one has begun.
        if let Ok(reactor) = begun.recv() {
            reactor.run();
        }
    })?;
    let made = Box::into_raw(made);
    // Release: the reactor is whole; Acquire on failure: so is the other one.
    match REACTOR.compare_exchange(null_mut(), made, Release, Acquire) {
        Ok(_) => {
            // SAFETY: never freed from now on.
            let _ = begin.send(unsafe { &*made });
            Ok(NonNull::new(made).expect("made just now"))
        }
        Err(other) => {
            // SAFETY: nobody has seen it.
            drop(unsafe { Box::from_raw(made) });
            Ok(NonNull::new(other).expect("another one"))
        }
    }
}

/// The reactor's thread is in this process.
pub(in crate::io) fn here() -> io::Result<()> {
    reactor().map(|_| ())
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
