//! What TCP and Unix streams have in common.
#![expect(unsafe_code, reason = "tells a buffer how much of it is filled")]

/// Reading, writing, halves and traits of a stream around `Arc<Socket>`.
macro_rules! byte_stream {
    ($stream:ident, $read_half:ident, $write_half:ident, $std:ty) => {
        impl $stream {
            /// Receives what is there, at least a byte, at most the room of `buf`; waits if nothing is there. The
            /// buffer comes back with the result. Zero: the peer has ended its side, or there is no room.
            ///
            /// Dropped before it is ready, it has taken nothing from the stream.
            pub async fn recv<B: BufMut>(&self, buf: B) -> (io::Result<usize>, B) {
                read_socket(&self.socket, buf).await
            }

            /// Sends some of `buf`, at least a byte; waits while there is no room in the socket. The buffer comes back
            /// with the result.
            ///
            /// # Errors
            /// `BrokenPipe` when the peer does not read any more, `ConnectionReset` when it is gone.
            pub async fn send<B: Buf>(&self, buf: B) -> (io::Result<usize>, B) {
                let sent = self.socket.call(Direction::Write, |socket| send(socket, buf.bytes())).await;
                (sent, buf)
            }

            /// Sends all of `buf`, however often that takes. Dropped before it is ready, it may have sent some.
            ///
            /// # Errors
            /// As for `send`.
            pub async fn send_all<B: Buf>(&self, buf: B) -> (io::Result<()>, B) {
                let mut done = 0;
                while done < buf.bytes().len() {
                    let sent = self.socket.call(Direction::Write, |socket| send(socket, &buf.bytes()[done..])).await;
                    match sent {
                        Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), buf),
                        Ok(bytes) => done += bytes,
                        Err(error) => return (Err(error), buf),
                    }
                }
                (Ok(()), buf)
            }

            /// Ends one side of the connection, or both; whoever waits there is woken.
            ///
            /// # Errors
            /// `NotConnected` when the peer is gone.
            pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
                self.socket.options().shutdown(how)
            }

            /// Two halves that can be used by two tasks. The end of the write half ends that side of the connection;
            /// the socket is closed with the later one.
            pub fn into_split(self) -> ($read_half, $write_half) {
                ($read_half($stream { socket: self.socket.clone() }), $write_half(self))
            }

            /// The error that the socket keeps for later, if there is one.
            ///
            /// # Errors
            /// When it cannot be asked for.
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.socket.options().take_error()
            }
        }

        impl AsyncRead for &$stream {
            fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
                self.socket.poll_receive(cx, buf)
            }
        }

        impl AsyncWrite for &$stream {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                self.socket.poll_send(cx, buf)
            }
            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.socket.poll_send_all_of(cx, bufs)
            }
            /// Nothing is held back.
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }
            /// Ends the write side.
            fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.shutdown(Shutdown::Write))
            }
        }

        byte_stream!(@read $stream, |this| *this);
        byte_stream!(@write $stream, |this| *this);

        /// The reading half of a stream; see [`into_split`](
        #[doc = concat!(stringify!($stream), "::into_split).")]
        #[derive(Debug)]
        pub struct $read_half($stream);

        impl $read_half {
            /// As the stream's.
            pub async fn recv<B: BufMut>(&self, buf: B) -> (io::Result<usize>, B) {
                self.0.recv(buf).await
            }
        }

        byte_stream!(@read $read_half, |this| this.0);

        /// The writing half of a stream; see [`into_split`](
        #[doc = concat!(stringify!($stream), "::into_split).")]
        #[derive(Debug)]
        pub struct $write_half($stream);

        impl $write_half {
            /// As the stream's.
            pub async fn send<B: Buf>(&self, buf: B) -> (io::Result<usize>, B) {
                self.0.send(buf).await
            }

            /// As the stream's.
            pub async fn send_all<B: Buf>(&self, buf: B) -> (io::Result<()>, B) {
                self.0.send_all(buf).await
            }
        }

        byte_stream!(@write $write_half, |this| this.0);

        impl Drop for $write_half {
            fn drop(&mut self) {
                // The peer may be gone already.
                let _ = self.0.shutdown(Shutdown::Write);
            }
        }

        impl TryFrom<$std> for $stream {
            type Error = io::Error;
            /// Takes a connected stream over.
            fn try_from(stream: $std) -> io::Result<Self> {
                // The flags of each call say that it must not wait, and a ring waits by itself.
                stream.set_nonblocking(false)?;
                Ok($stream { socket: Arc::new(Socket::new(stream)) })
            }
        }

        impl AsFd for $stream {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.socket.as_fd()
            }
        }

        impl fmt::Debug for $stream {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($stream)).field(&self.socket).finish()
            }
        }
    };

    (@read $type:ident, |$this:ident| $inner:expr) => {
        impl AsyncRead for $type {
            fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
                let $this = &*self;
                Pin::new(&mut &$inner).poll_read(cx, buf)
            }
        }
    };

    (@write $type:ident, |$this:ident| $inner:expr) => {
        impl AsyncWrite for $type {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                let $this = &*self;
                Pin::new(&mut &$inner).poll_write(cx, buf)
            }
            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                let $this = &*self;
                Pin::new(&mut &$inner).poll_write_vectored(cx, bufs)
            }
            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                let $this = &*self;
                Pin::new(&mut &$inner).poll_flush(cx)
            }
            fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                let $this = &*self;
                Pin::new(&mut &$inner).poll_close(cx)
            }
        }
    };
}

pub(super) use byte_stream;

use super::buf::BufMut;
use super::fallback::reactor::Direction;
use super::socket::{Socket, Wait};
use std::io;
use std::task::Context;

/// Reads into a buffer.
pub(super) async fn read_socket<B: BufMut>(socket: &Socket, mut buf: B) -> (io::Result<usize>, B) {
    if buf.room().is_empty() {
        return (Ok(0), buf);
    }
    let receive = |socket: &Socket, wait: &mut Wait, context: &mut Context<'_>| {
        socket.poll_receive_room(wait, context, buf.room())
    };
    let received = socket.wait(Direction::Read, receive).await;
    (fill(&mut buf, received), buf)
}

/// Notes what was received. After an error the buffer is what it was.
pub(super) fn fill(buf: &mut impl BufMut, received: io::Result<usize>) -> io::Result<usize> {
    let bytes = received?;
    debug_assert!(bytes <= buf.room().len());
    // SAFETY: the kernel has written them to the room.
    unsafe { buf.filled(bytes) };
    Ok(bytes)
}
