//! What is sent: bytes that are there, or a part of a file, read while it is sent.
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use scheduler::io::File;
use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Bytes per read; also what one connection holds in memory.
const CHUNK: u64 = 64 << 10;

type Reading = Pin<Box<dyn Future<Output = Result<Vec<u8>>> + Send>>;

/// A body of a length that is known.
pub(crate) enum Body {
    Bytes(Bytes),
    File(Part),
}

/// What is left of a part of a file.
///
/// Its length was promised in the head. A file that has become longer is cut off there; one that has become shorter is
/// an error, on which the connection ends: the client sees that bytes are missing. One that is written meanwhile is
/// sent as it is found.
pub(crate) struct Part {
    file: Arc<File>,
    at: u64,
    left: u64,
    reading: Option<Reading>,
}

impl Body {
    pub(crate) fn empty() -> Body {
        Body::Bytes(Bytes::new())
    }

    /// `len` bytes from `first` on.
    pub(crate) fn part(file: std::fs::File, first: u64, len: u64) -> Body {
        Body::File(Part { file: Arc::new(file.into()), at: first, left: len, reading: None })
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::File(part) => part.left,
        }
    }
}

async fn read(file: Arc<File>, at: u64, len: usize) -> Result<Vec<u8>> {
    super::disk::read_at(&file, len, at).await
}

impl Part {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let (file, at, len) = (&self.file, self.at, self.left.min(CHUNK) as usize);
        let reading = self.reading.get_or_insert_with(|| Box::pin(read(file.clone(), at, len)));
        let read = match reading.as_mut().poll(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(read) => read,
        };
        self.reading = None;
        let read = read.and_then(|bytes| match bytes.len() {
            0 => {
                Err(Error::new(ErrorKind::UnexpectedEof, format!("the file has shrunk: {} bytes are gone", self.left)))
            }
            _ => Ok(Bytes::from(bytes)),
        });
        match &read {
            Ok(bytes) => {
                self.at += bytes.len() as u64;
                self.left -= bytes.len() as u64;
            }
            // Nothing comes after it.
            Err(_) => self.left = 0,
        }
        Poll::Ready(Some(read))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Body::Bytes(bytes) if bytes.is_empty() => Poll::Ready(None),
            Body::Bytes(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Body::File(part) => part.poll(context).map(|read| read.map(|read| read.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.len() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len())
    }
}
