//! A child's standard error in pieces of any size gives few, short, printable lines.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use proto::message::Role;
use supervisor::process::logs::{Owner, Source, Tail, pump};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::oneshot;

/// Most lines kept, and most bytes of a line with its mark.
const LINES: usize = 64;
const LINE_BYTES: usize = 8 * 1024 + "warning: ".len();

/// Input: the size of the pieces, then the stream.
pub fn log(bytes: &[u8]) -> bool {
    let Some((&size, stream)) = bytes.split_first() else {
        return false;
    };
    let whole = lines(stream, stream.len().max(1));
    assert!(whole.len() <= LINES, "{} lines are kept", whole.len());
    for line in &whole {
        assert!(line.len() <= LINE_BYTES, "a line of {} bytes", line.len());
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
    let pieces = lines(stream, usize::from(size) + 1);
    assert_eq!(whole, pieces, "pieces of {} bytes read alike", size + 1);
    !whole.is_empty()
}

fn lines(stream: &[u8], size: usize) -> Vec<String> {
    let tail = Tail::default();
    let source = Source {
        job: Owner::new(Arc::from("fuzz")),
        role: Role::Bake,
        pid: 1,
    };
    // The pump never waits, it only yields, so no runtime is needed.
    // The child lives as long as its pipe.
    let (_alive, over) = oneshot::channel();
    let pieces = Pieces { stream, size };
    let mut reading = pin!(pump(pieces, source, tail.clone(), over));
    let mut context = Context::from_waker(Waker::noop());
    while reading.as_mut().poll(&mut context).is_pending() {}
    tail.lines()
}

struct Pieces<'a> {
    stream: &'a [u8],
    size: usize,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let size = self.size.min(self.stream.len()).min(buffer.remaining());
        let (piece, rest) = self.stream.split_at(size);
        buffer.put_slice(piece);
        self.stream = rest;
        Poll::Ready(Ok(()))
    }
}
