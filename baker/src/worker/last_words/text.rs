//! Formatted text → bytes in place, without allocation, for signal handlers.

use std::fmt::{self, Write};

/// Text of at most `N` bytes; the rest is dropped.
pub(super) struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    pub(super) const fn new() -> Self {
        Self {
            bytes: [0; N],
            length: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    pub(super) fn add(&mut self, words: fmt::Arguments<'_>) {
        // An error means that the end was reached.
        if self.write_fmt(words).is_err() {
            self.length = N;
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, words: &str) -> fmt::Result {
        let room = N - self.length;
        let taken = words.len().min(room);
        self.bytes[self.length..][..taken].copy_from_slice(&words.as_bytes()[..taken]);
        self.length += taken;
        if taken == words.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_dropped() {
        let mut text = Text::<8>::new();
        text.add(format_args!("{}-", 123));
        assert_eq!(text.bytes(), b"123-");
        text.add(format_args!("{}", 45678));
        text.add(format_args!("more"));
        assert_eq!(text.bytes(), b"123-4567");
    }
}
