//! Wraps a stream and a request's body with limits on how long their peer may stall them.
//!
//! The peer stalls by not taking bytes of an answer or not sending bytes of a request. An answer that has nothing to
//! send for a while, such as a stream of events, is the sidecar's own silence and has no limit.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::framing::Heads;
use super::slots::Seat;

/// Time for the peer to take the next byte of an answer.
const UNTAKEN: Duration = Duration::from_secs(20);
/// Most time to wait for bytes of a body.
const UNSENT: Duration = Duration::from_secs(30);
/// A body that has used up its time regains one second per so many bytes.
const BYTES_A_SECOND: u64 = 4096;

/// A connection whose peer cannot block it by taking nothing.
#[derive(Debug)]
pub struct Steady<S> {
    stream: S,
    seat: Arc<Seat>,
    heads: Heads,
    patience: Duration,
    /// Runs while bytes wait to be taken.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Steady<S> {
    /// Wraps a stream that has this seat, and of whose bytes `heads` is told.
    pub fn new(stream: S, seat: Arc<Seat>, heads: Heads) -> Self {
        Self {
            stream,
            seat,
            heads,
            patience: UNTAKEN,
            stalled: None,
        }
    }

    fn written(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if outcome.is_ready() {
            self.stalled = None;
            self.seat.moved();
            return outcome;
        }
        let patience = self.patience;
        let stalled = (self.stalled).get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(stalled.as_mut().poll(context));
        let why = format!("its peer took nothing for {} s", patience.as_secs());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Steady<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = bytes.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, bytes);
        let come = &bytes.filled()[before..];
        if !come.is_empty() {
            self.seat.moved();
            self.heads.read(come);
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Steady<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.written(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // Neither waits for the peer: nothing is buffered between here and the kernel.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The body came too slowly.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "the body came too slowly: {UNSENT:?} of silence, or less than {BYTES_A_SECOND} bytes a second for longer"
)]
pub struct Slow;

/// The time that a body's sender may still stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Credit {
    left: Duration,
    most: Duration,
}

impl Credit {
    fn new(most: Duration) -> Self {
        Self { left: most, most }
    }

    /// Accounts for `bytes` that came after a wait.
    fn settle(&mut self, waited: Duration, bytes: u64) {
        let gained = Duration::from_secs_f64(bytes as f64 / BYTES_A_SECOND as f64);
        self.left = (self.left.saturating_sub(waited) + gained).min(self.most);
    }
}

/// A body that its sender cannot hold back for ever. Only the time in which somebody polls for it counts.
#[derive(Debug)]
pub struct Awaited<B> {
    body: B,
    credit: Credit,
    wait: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<B> Awaited<B> {
    /// Wraps a request's body.
    pub fn new(body: B) -> Self {
        Self {
            body,
            credit: Credit::new(UNSENT),
            wait: None,
        }
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for Awaited<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let waited = self.wait.take().map(|(since, _)| since.elapsed());
            if let Some(Ok(frame)) = &frame {
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                self.credit.settle(waited.unwrap_or_default(), bytes);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let left = self.credit.left;
        let begin = || (Instant::now(), Box::pin(sleep(left)));
        let (_, end) = self.wait.get_or_insert_with(begin);
        ready!(end.as_mut().poll(context));
        Poll::Ready(Some(Err(Slow.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body as AnyBody;
    use futures_util::{FutureExt, StreamExt, stream};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;
    use crate::serve::slots::{Sitter, Slots};

    const SOON: Duration = Duration::from_millis(50);

    fn steady<S>(stream: S, patience: Duration) -> Steady<S> {
        let seat = Arc::new(Slots::new().take(Sitter::Owner));
        Steady {
            patience,
            ..Steady::new(stream, seat, Heads::default())
        }
    }

    #[tokio::test]
    async fn a_peer_that_takes_nothing_is_cut_and_one_that_only_says_nothing_is_not() {
        let (near, far) = duplex(4);
        let mut near = steady(near, SOON);
        // It sends nothing for longer than a peer may take nothing, which is no fault.
        let mut byte = [0];
        let silent = tokio::time::timeout(4 * SOON, near.read_exact(&mut byte)).await;
        assert!(silent.is_err(), "it waits");
        let error = near.write_all(b"nobody takes this").await;
        let error = error.expect_err("nobody does");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(far);
    }

    #[tokio::test]
    async fn a_peer_that_takes_a_little_has_all_of_its_time_again() {
        let (near, mut far) = duplex(4);
        let mut near = steady(near, UNTAKEN);
        near.write_all(b"four").await.expect("room");
        for _ in 0..3 {
            assert!(near.write(b"more").now_or_never().is_none(), "it waits");
            assert!(near.stalled.is_some());
            far.read_u8().await.expect("a byte");
            near.write_all(b"m").await.expect("room");
            assert!(near.stalled.is_none());
        }
    }

    #[test]
    fn a_body_pays_for_silence_with_bytes() {
        let seconds = Duration::from_secs;
        let mut credit = Credit::new(seconds(30));
        credit.settle(seconds(10), 1);
        credit.settle(seconds(10), 1);
        assert_eq!(credit.left.as_secs(), 10);
        credit.settle(seconds(5), 3 * BYTES_A_SECOND);
        assert_eq!(credit.left.as_secs(), 8);
        credit.settle(seconds(0), 1 << 30);
        assert_eq!(credit.left, credit.most, "it is not hoarded");
        credit.settle(seconds(60), 0);
        assert_eq!(credit.left, Duration::ZERO);
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_an_error_and_one_that_comes_is_whole() {
        let never = stream::iter([Ok::<_, io::Error>("some")]).chain(stream::pending());
        let mut body = Awaited::new(AnyBody::from_stream(never));
        body.credit = Credit::new(SOON);
        let mut chunks = AnyBody::new(body).into_data_stream();
        assert_eq!(
            chunks.next().await.expect("a chunk").expect("bytes"),
            "some"
        );
        let error = chunks.next().await.expect("an error").expect_err("silence");
        let mut cause: &(dyn std::error::Error + 'static) = &error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        assert!(cause.is::<Slow>(), "{cause}");
        let whole = Awaited::new(AnyBody::from("whole"));
        assert_eq!(whole.size_hint().exact(), Some(5));
        let whole = axum::body::to_bytes(AnyBody::new(whole), 10).await;
        assert_eq!(whole.expect("it came"), "whole");
    }
}
