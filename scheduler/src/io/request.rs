//! Operations on files. Each owns what the kernel needs.
#![expect(unsafe_code, reason = "hands buffers to the kernel")]

use super::buf::{Buf, BufMut};
use super::node::Operation;
use super::stream::fill;
use crate::sys::{file, result};
use io_uring::squeue::Entry;
use io_uring::{opcode, types};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

fn fd(fd: &OwnedFd) -> types::Fd {
    types::Fd(fd.as_raw_fd())
}

/// As much as the kernel transfers at once.
fn most(len: usize) -> u32 {
    len.min(0x7fff_f000) as u32
}

/// Where a buffer has its bytes or its room: asked once, on the polling thread, for the answer is foreign code.
#[derive(Clone, Copy)]
struct Place {
    start: *mut u8,
    len: usize,
}

impl Default for Place {
    fn default() -> Self {
        Place { start: std::ptr::null_mut(), len: 0 }
    }
}

// SAFETY: of a buffer that may be sent, and goes with it.
unsafe impl Send for Place {}

/// Opens a path.
pub(super) struct Open {
    pub(super) path: CString,
    pub(super) flags: i32,
    pub(super) mode: u32,
}

impl Operation for Open {
    type Output = io::Result<OwnedFd>;

    const CODE: Option<u8> = Some(opcode::OpenAt::CODE);
    fn entry(&mut self) -> Option<Entry> {
        let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), self.path.as_ptr());
        Some(open.flags(self.flags).mode(self.mode).build())
    }
    fn run(&mut self) -> i32 {
        file::open(&self.path, self.flags, self.mode)
    }
    fn output(self, fd: i32) -> Self::Output {
        result(fd)?;
        // SAFETY: fresh, and ours.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
    fn ignored(self, fd: i32) {
        if fd >= 0 {
            file::close(fd);
        }
    }
}

/// Reads at an offset.
pub(super) struct ReadAt<B> {
    fd: Arc<OwnedFd>,
    buf: B,
    offset: i64,
    place: Place,
}

impl<B: BufMut> ReadAt<B> {
    pub(super) fn new(fd: Arc<OwnedFd>, buf: B, offset: i64) -> Self {
        ReadAt { fd, buf, offset, place: Place::default() }
    }
}

impl<B: BufMut> Operation for ReadAt<B> {
    type Output = (io::Result<usize>, B);

    fn try_now(&mut self) -> Option<i32> {
        let room = self.buf.room();
        if room.is_empty() {
            return Some(0);
        }
        // SAFETY: the room of the buffer.
        let read = unsafe { file::read_cached(self.fd.as_fd(), room.as_mut_ptr().cast(), room.len(), self.offset) };
        // Not in memory, or the file system cannot tell: anything that is an error is so the second time, too. Linux
        // 5.9 and 5.10 say 0 before the end as well, see readv(2).
        (read > 0).then_some(read)
    }
    fn settle(&mut self) {
        let room = self.buf.room();
        self.place = Place { start: room.as_mut_ptr().cast(), len: room.len() };
    }
    const CODE: Option<u8> = Some(opcode::Read::CODE);
    fn entry(&mut self) -> Option<Entry> {
        let read = opcode::Read::new(fd(&self.fd), self.place.start, most(self.place.len));
        Some(read.offset(self.offset as u64).build())
    }
    fn run(&mut self) -> i32 {
        // SAFETY: the room of the buffer, which has not been moved.
        unsafe { file::read_at(self.fd.as_fd(), self.place.start, self.place.len, self.offset) }
    }
    fn output(mut self, bytes: i32) -> Self::Output {
        (fill(&mut self.buf, result(bytes)), self.buf)
    }
}

/// Writes at an offset.
pub(super) struct WriteAt<B> {
    fd: Arc<OwnedFd>,
    buf: B,
    /// Bytes of the buffer that have been written.
    done: usize,
    offset: i64,
    place: Place,
}

impl<B: Buf> WriteAt<B> {
    pub(super) fn new(fd: Arc<OwnedFd>, buf: B, done: usize, offset: i64) -> Self {
        WriteAt { fd, buf, done, offset, place: Place::default() }
    }
}

impl<B: Buf> Operation for WriteAt<B> {
    type Output = (io::Result<usize>, B);

    fn settle(&mut self) {
        let bytes = &self.buf.bytes()[self.done..];
        self.place = Place { start: bytes.as_ptr().cast_mut(), len: bytes.len() };
    }
    const CODE: Option<u8> = Some(opcode::Write::CODE);
    fn entry(&mut self) -> Option<Entry> {
        let write = opcode::Write::new(fd(&self.fd), self.place.start, most(self.place.len));
        Some(write.offset(self.offset as u64).build())
    }
    fn run(&mut self) -> i32 {
        // SAFETY: the bytes of the buffer, which has not been moved.
        unsafe { file::write_at(self.fd.as_fd(), self.place.start, self.place.len, self.offset) }
    }
    fn output(self, bytes: i32) -> Self::Output {
        (result(bytes), self.buf)
    }
}

/// `fsync` or `fdatasync`.
pub(super) struct Sync {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) data_only: bool,
}

impl Operation for Sync {
    type Output = io::Result<()>;

    const CODE: Option<u8> = Some(opcode::Fsync::CODE);
    fn entry(&mut self) -> Option<Entry> {
        let flags = if self.data_only { types::FsyncFlags::DATASYNC } else { types::FsyncFlags::empty() };
        Some(opcode::Fsync::new(fd(&self.fd)).flags(flags).build())
    }
    fn run(&mut self) -> i32 {
        file::sync(self.fd.as_fd(), self.data_only)
    }
    fn output(self, done: i32) -> Self::Output {
        result(done).map(drop)
    }
}

/// `ftruncate`.
pub(super) struct SetLen {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) len: i64,
}

impl Operation for SetLen {
    type Output = io::Result<()>;

    const CODE: Option<u8> = Some(opcode::Ftruncate::CODE);
    fn entry(&mut self) -> Option<Entry> {
        Some(opcode::Ftruncate::new(fd(&self.fd), self.len as u64).build())
    }
    fn run(&mut self) -> i32 {
        file::set_len(self.fd.as_fd(), self.len)
    }
    fn output(self, done: i32) -> Self::Output {
        result(done).map(drop)
    }
}

/// `statx`.
pub(super) struct Stat {
    /// Of this descriptor, or of the path.
    pub(super) fd: Option<Arc<OwnedFd>>,
    pub(super) path: CString,
    pub(super) flags: i32,
    pub(super) answer: Box<libc::statx>,
}

impl Stat {
    fn directory(&self) -> i32 {
        self.fd.as_ref().map_or(libc::AT_FDCWD, |fd| fd.as_raw_fd())
    }
    fn ask(&mut self, flags: i32) -> i32 {
        file::statx(self.directory(), &self.path, self.flags | flags, &mut self.answer)
    }
}

impl Operation for Stat {
    type Output = io::Result<Box<libc::statx>>;

    fn try_now(&mut self) -> Option<i32> {
        // Of an open file, as far as this host knows without asking another one. The walk along a path may wait.
        self.fd.is_some().then(|| self.ask(libc::AT_STATX_DONT_SYNC))
    }
    const CODE: Option<u8> = Some(opcode::Statx::CODE);
    fn entry(&mut self) -> Option<Entry> {
        let directory = types::Fd(self.directory());
        let answer = std::ptr::from_mut(&mut *self.answer).cast::<types::statx>();
        let statx = opcode::Statx::new(directory, self.path.as_ptr(), answer);
        Some(statx.flags(self.flags).mask(file::STATX_MASK).build())
    }
    fn run(&mut self) -> i32 {
        self.ask(0)
    }
    fn output(self, done: i32) -> Self::Output {
        result(done).map(|_| self.answer)
    }
}

/// Waits until a socket is ready, in a ring; there is no other way to do that here.
pub(super) struct Ready {
    pub(super) fd: Arc<OwnedFd>,
    /// Of `poll(2)`.
    pub(super) events: u32,
}

impl Operation for Ready {
    /// False: it is to be waited for otherwise.
    type Output = bool;

    const CODE: Option<u8> = Some(opcode::PollAdd::CODE);
    fn entry(&mut self) -> Option<Entry> {
        Some(opcode::PollAdd::new(fd(&self.fd), self.events).build())
    }
    fn again(_: i32) -> bool {
        // Whoever waits tries the call again in any case.
        false
    }
    fn run(&mut self) -> i32 {
        -libc::ENOSYS
    }
    fn output(self, events: i32) -> bool {
        events >= 0
    }
}

/// Receives, in a ring; there is no other way to do that here. The room is the buffer's capacity.
pub(super) struct Receive {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) buf: Vec<u8>,
}

impl Operation for Receive {
    type Output = (io::Result<usize>, Vec<u8>);

    const CODE: Option<u8> = Some(opcode::Recv::CODE);
    fn entry(&mut self) -> Option<Entry> {
        let room = self.buf.room();
        Some(opcode::Recv::new(fd(&self.fd), room.as_mut_ptr().cast(), most(room.len())).build())
    }
    fn again(_: i32) -> bool {
        false
    }
    fn run(&mut self) -> i32 {
        -libc::ENOSYS
    }
    fn output(mut self, bytes: i32) -> Self::Output {
        (fill(&mut self.buf, result(bytes)), self.buf)
    }
}
