//! Reads an opened file sequentially, a piece at a time. Skipped bytes are not read.

use super::wrong::{Read, Wrong};
use crate::worker::folder::Opened;
use crate::worker::progress::unit;

const PIECE: usize = 256 << 10;

pub(super) struct Stream<'a> {
    file: &'a Opened,
    buffer: Vec<u8>,
    /// Index of the next byte in the buffer.
    at: usize,
    /// Offset of the buffer's end in the file.
    end: u64,
}

impl<'a> Stream<'a> {
    pub(super) fn new(file: &'a Opened) -> Self {
        Self {
            file,
            buffer: Vec::new(),
            at: 0,
            end: 0,
        }
    }

    pub(super) fn left(&self) -> u64 {
        let here = self.end - (self.buffer.len() - self.at) as u64;
        self.file.size().saturating_sub(here)
    }

    /// The buffered bytes: at least one, unless the file ends.
    fn piece(&mut self) -> Read<&[u8]> {
        if self.at == self.buffer.len() {
            let size = self.file.size().saturating_sub(self.end);
            self.buffer.resize(size.min(PIECE as u64) as usize, 0);
            let read = self.file.read_at(&mut self.buffer, self.end)?;
            self.buffer.truncate(read);
            self.at = 0;
            self.end += read as u64;
            unit();
        }
        Ok(&self.buffer[self.at..])
    }

    /// The next `N` bytes. `within` is the error's text where the file ends before them.
    pub(super) fn bytes<const N: usize>(&mut self, within: &str) -> Read<[u8; N]> {
        let mut bytes = [0; N];
        let mut filled = 0;
        while filled < N {
            let piece = self.piece()?;
            if piece.is_empty() {
                return Err(Wrong::ends(within));
            }
            let count = piece.len().min(N - filled);
            bytes[filled..filled + count].copy_from_slice(&piece[..count]);
            filled += count;
            self.at += count;
        }
        Ok(bytes)
    }

    pub(super) fn skip(&mut self, count: u64, within: &str) -> Read<()> {
        if count > self.left() {
            return Err(Wrong::ends(within));
        }
        let at_hand = (self.buffer.len() - self.at) as u64;
        if count <= at_hand {
            self.at += count as usize;
        } else {
            self.end += count - at_hand;
            self.at = self.buffer.len();
        }
        Ok(())
    }

    /// The bytes before the next `stop`, and whether there was one. Moves past it. Returns at most `limit` bytes.
    pub(super) fn until(&mut self, stop: u8, limit: usize) -> Read<(Vec<u8>, bool)> {
        let mut found = Vec::new();
        loop {
            let piece = self.piece()?;
            let place = piece.iter().position(|&byte| byte == stop);
            let before = &piece[..place.unwrap_or(piece.len())];
            let room = limit - found.len();
            found.extend_from_slice(&before[..before.len().min(room)]);
            let (passed, ends) = (
                before.len() + usize::from(place.is_some()),
                piece.is_empty(),
            );
            self.at += passed;
            if place.is_some() || ends {
                return Ok((found, place.is_some()));
            }
        }
    }
}
