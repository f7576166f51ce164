//! Operations on files. Each owns what the kernel needs.
#![expect(unsafe_code, reason = "hands buffers to the kernel")]

use super::buf::{Buf, BufMut};
use super::node::Operation;
use super::stream::fill;
use crate::sys::{file, result};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// Opens a path.
pub(super) struct Open {
    pub(super) path: CString,
    pub(super) flags: i32,
    pub(super) mode: u32,
}

impl Operation for Open {
    type Output = io::Result<OwnedFd>;

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
    pub(super) fd: Arc<OwnedFd>,
    pub(super) buf: B,
    pub(super) offset: i64,
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
        // Not in memory, or the file system cannot tell: anything that is an error is so the second time, too.
        (read >= 0).then_some(read)
    }
    fn run(&mut self) -> i32 {
        let room = self.buf.room();
        // SAFETY: the room of the buffer.
        unsafe { file::read_at(self.fd.as_fd(), room.as_mut_ptr().cast(), room.len(), self.offset) }
    }
    fn output(mut self, bytes: i32) -> Self::Output {
        (fill(&mut self.buf, result(bytes)), self.buf)
    }
}

/// Writes at an offset.
pub(super) struct WriteAt<B> {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) buf: B,
    /// Bytes of the buffer that have been written.
    pub(super) done: usize,
    pub(super) offset: i64,
}

impl<B: Buf> Operation for WriteAt<B> {
    type Output = (io::Result<usize>, B);

    fn run(&mut self) -> i32 {
        let bytes = &self.buf.bytes()[self.done..];
        // SAFETY: the bytes of the buffer.
        unsafe { file::write_at(self.fd.as_fd(), bytes.as_ptr(), bytes.len(), self.offset) }
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
    fn ask(&mut self, flags: i32) -> i32 {
        let directory = self.fd.as_ref().map_or(libc::AT_FDCWD, |fd| std::os::fd::AsRawFd::as_raw_fd(&**fd));
        file::statx(directory, &self.path, self.flags | flags, &mut self.answer)
    }
}

impl Operation for Stat {
    type Output = io::Result<Box<libc::statx>>;

    fn try_now(&mut self) -> Option<i32> {
        // Of an open file, as far as this host knows without asking another one. The walk along a path may wait.
        self.fd.is_some().then(|| self.ask(libc::AT_STATX_DONT_SYNC))
    }
    fn run(&mut self) -> i32 {
        self.ask(0)
    }
    fn output(self, done: i32) -> Self::Output {
        result(done).map(|_| self.answer)
    }
}
