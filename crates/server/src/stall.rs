//! A stream that breaks when its peer takes nothing for too long.

use std::future::{Future, Pending, pending};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Timeout, timeout};

/// A stream whose writes may stay pending for a bounded time.
///
/// Each write that succeeds starts the time anew: a slow peer is served, one that stopped reading
/// is not. A write that succeeds at once, as nearly all do, sets no timer.
pub(crate) struct Unstalled<S> {
    stream: S,
    stall_max: Duration,
    /// Runs while a write is pending.
    timer: Option<Pin<Box<Timeout<Pending<()>>>>>,
}

impl<S> Unstalled<S> {
    /// This stream, with a bound on how long a write may be pending.
    pub(crate) fn new(stream: S, stall_max: Duration) -> Self {
        Unstalled { stream, stall_max, timer: None }
    }

    /// What became of a write: what the stream says, or the end of the time it had.
    fn bound<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let stall_max = self.stall_max;
        let timer = self.timer.get_or_insert_with(|| Box::pin(timeout(stall_max, pending())));
        timer.as_mut().poll(cx).map(|_| {
            Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read its answer"))
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unstalled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unstalled<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.bound(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.bound(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_is_served_and_a_deaf_one_is_not() {
        let stall_max = Duration::from_secs(1);
        let (near, mut peer) = duplex(8);
        let mut near = Unstalled::new(near, stall_max);
        let writing = tokio::spawn(async move { near.write_all(&[b'x'; 128]).await });
        for _ in 0..8 {
            tokio::time::advance(stall_max * 9 / 10).await;
            peer.read_exact(&mut [0; 8]).await.unwrap();
        }
        // It reads no more. The clock runs by itself while nothing else does.
        let error = writing.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
