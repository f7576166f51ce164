//! A file with a position.

use super::file::File;
use super::op::Op;
use super::request::{ReadAt, WriteAt};
use futures_io::{AsyncRead, AsyncSeek, AsyncWrite};
use std::future::Future;
use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Largest piece that is read or written at once: as much as the kernel reads ahead at first.
const PIECE: usize = 128 * 1024;

/// A file with a position: the `futures_io` traits. It has a buffer of its own, which the system reads to and writes
/// from while the caller's may go away.
///
/// A write is ready as soon as it is in that buffer and on its way; an error of it is told by the next write, flush or
/// close. Dropped, it leaves what is on its way to the system.
pub struct Cursor {
    file: File,
    position: u64,
    buf: Vec<u8>,
    /// Bytes of the buffer that have been read and taken.
    taken: usize,
    /// The last read has found the end of the file.
    ended: bool,
    work: Work,
}

enum Work {
    None,
    Read(Op<ReadAt<Vec<u8>>>),
    /// The write, and how many bytes it has to write.
    Write(Op<WriteAt<Vec<u8>>>, usize),
    Size(Pin<Box<dyn Future<Output = io::Result<u64>> + Send + Sync>>),
}

impl Cursor {
    pub(super) fn new(file: File, position: u64) -> Self {
        Cursor { file, position, buf: Vec::new(), taken: 0, ended: false, work: Work::None }
    }

    /// Where the next byte is read or written.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The file without its position. What is on its way goes on.
    pub fn into_inner(self) -> File {
        self.file
    }

    /// Waits for what is under way. The position stands behind what has been written.
    fn poll_settle(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.work {
                Work::None => return Poll::Ready(Ok(())),
                Work::Read(op) => {
                    let (read, buf) = ready!(Pin::new(op).poll(context));
                    (self.work, self.buf, self.taken) = (Work::None, buf, 0);
                    match read {
                        Ok(bytes) => self.ended = bytes == 0,
                        Err(error) => {
                            self.buf.clear();
                            return Poll::Ready(Err(error));
                        }
                    }
                }
                Work::Write(op, len) => {
                    let len = *len;
                    let (written, buf) = ready!(Pin::new(op).poll(context));
                    self.work = Work::None;
                    // Nothing in it is to be read.
                    (self.buf, self.taken) = (buf, len);
                    match written {
                        Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                        Ok(bytes) if bytes < len => {
                            // The position has moved by all of it already.
                            let rest = self.buf.split_off(self.buf.len() - (len - bytes));
                            let offset = self.position - (len - bytes) as u64;
                            self.start_write(rest, offset);
                        }
                        Ok(_) => {}
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
                Work::Size(size) => {
                    let _unwanted = ready!(size.as_mut().poll(context));
                    self.work = Work::None;
                }
            }
        }
    }

    fn start_write(&mut self, buf: Vec<u8>, offset: u64) {
        let len = buf.len();
        let offset = i64::try_from(offset).unwrap_or(i64::MAX);
        self.work = Work::Write(Op::new(WriteAt::new(self.file.fd(), buf, 0, offset)), len);
    }

    /// Bytes that have been read and not taken.
    fn unread(&self) -> &[u8] {
        &self.buf[self.taken.min(self.buf.len())..]
    }
}

fn too_far() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a position before the beginning, or beyond i64::MAX")
}

impl AsyncRead for Cursor {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        loop {
            ready!(this.poll_settle(context))?;
            let bytes = this.unread().len().min(to.len());
            if bytes > 0 || std::mem::take(&mut this.ended) || to.is_empty() {
                to[..bytes].copy_from_slice(&this.unread()[..bytes]);
                this.taken += bytes;
                this.position += bytes as u64;
                return Poll::Ready(Ok(bytes));
            }
            let mut buf = std::mem::take(&mut this.buf);
            buf.clear();
            buf.reserve_exact(to.len().min(PIECE));
            let offset = i64::try_from(this.position).map_err(|_| too_far())?;
            this.work = Work::Read(Op::new(ReadAt::new(this.file.fd(), buf, offset)));
        }
    }
}

impl AsyncWrite for Cursor {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(this.poll_settle(context))?;
        let bytes = from.len().min(PIECE);
        if bytes == 0 {
            return Poll::Ready(Ok(0));
        }
        let offset = this.position;
        this.position = offset.checked_add(bytes as u64).filter(|end| *end <= i64::MAX as u64).ok_or_else(too_far)?;
        let mut buf = std::mem::take(&mut this.buf);
        buf.clear();
        buf.extend_from_slice(&from[..bytes]);
        this.ended = false;
        this.start_write(buf, offset);
        // It is begun here; its end is somebody else's poll.
        match this.poll_settle(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(bytes)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_settle(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

impl AsyncSeek for Cursor {
    fn poll_seek(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: SeekFrom) -> Poll<io::Result<u64>> {
        let this = &mut *self;
        let (base, by) = match to {
            SeekFrom::Start(position) => (position, 0),
            SeekFrom::Current(by) => (this.position, by),
            SeekFrom::End(by) => {
                let size = if let Work::Size(size) = &mut this.work {
                    ready!(size.as_mut().poll(context))
                } else {
                    ready!(this.poll_settle(context))?;
                    let file = this.file.share();
                    let mut size: Pin<Box<dyn Future<Output = _> + Send + Sync>> =
                        Box::pin(async move { file.len().await });
                    match size.as_mut().poll(context) {
                        Poll::Ready(size) => size,
                        Poll::Pending => {
                            this.work = Work::Size(size);
                            return Poll::Pending;
                        }
                    }
                };
                this.work = Work::None;
                (size?, by)
            }
        };
        if !matches!(to, SeekFrom::End(_)) {
            ready!(this.poll_settle(context))?;
        }
        let position = base.checked_add_signed(by).filter(|position| *position <= i64::MAX as u64);
        this.position = position.ok_or_else(too_far)?;
        this.buf.clear();
        (this.taken, this.ended) = (0, false);
        Poll::Ready(Ok(this.position))
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("file", &self.file).field("position", &self.position).finish_non_exhaustive()
    }
}
