//! `epoll`: which of many descriptors are ready.
#![expect(unsafe_code, reason = "raw system calls")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// An epoll instance.
pub struct Epoll(OwnedFd);

/// What has become ready.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Event(libc::epoll_event);

impl Default for Event {
    fn default() -> Self {
        Event(libc::epoll_event { events: 0, u64: 0 })
    }
}

impl Event {
    /// The number that the descriptor was added with.
    pub fn number(&self) -> u64 {
        self.0.u64
    }

    fn has(&self, flags: i32) -> bool {
        self.0.events & flags as u32 != 0
    }

    /// Reading does not wait: there is something, or the end, or an error.
    pub fn readable(&self) -> bool {
        self.has(libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR)
    }

    /// Writing does not wait.
    pub fn writable(&self) -> bool {
        self.has(libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR)
    }
}

impl Epoll {
    /// `epoll_create1`.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: fresh, and ours.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// `epoll_ctl(EPOLL_CTL_ADD)`, edge triggered, both directions.
    ///
    /// # Errors
    /// ENOSPC (too many watches of this user), ENOMEM, EPERM (a descriptor that is always ready), EEXIST.
    pub fn add(&self, fd: BorrowedFd<'_>, number: u64) -> io::Result<()> {
        let flags = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event { events: flags as u32, u64: number };
        // SAFETY: `event` outlives the call.
        let rc = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// `epoll_ctl(EPOLL_CTL_DEL)`. What it says does not matter: afterwards the descriptor is not there.
    pub fn remove(&self, fd: BorrowedFd<'_>) {
        // SAFETY: no memory is passed.
        unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_DEL, fd.as_raw_fd(), std::ptr::null_mut()) };
    }

    /// `epoll_wait` without a limit. EINTR is no event; anything else cannot be helped, but must not spin.
    pub fn wait<'a>(&self, events: &'a mut [Event]) -> &'a [Event] {
        let room = events.len().min(i32::MAX as usize) as i32;
        // SAFETY: room for as many, and `Event` is an `epoll_event`.
        let rc = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr().cast(), room, -1) };
        if rc < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            std::thread::sleep(Duration::from_millis(10));
        }
        &events[..rc.max(0) as usize]
    }
}
