//! Builds one log line in a buffer of fixed size and writes it with a single call; also reads what is behind a
//! descriptor.

use std::ffi::c_int;

use crate::calls;

/// A log line. Each field ends with a tab, the line with a line feed. A line that does not fit is written in pieces.
pub(crate) struct Line {
    log: c_int,
    bytes: [u8; 4096],
    used: usize,
}

impl Line {
    pub(crate) fn new(log: c_int) -> Self {
        Self {
            log,
            bytes: [0; 4096],
            used: 0,
        }
    }

    pub(crate) fn text(&mut self, text: &[u8]) {
        for byte in text {
            self.push(*byte);
        }
        self.push(b'\t');
    }

    pub(crate) fn number(&mut self, number: i64) {
        if number < 0 {
            self.push(b'-');
        }
        let number = number.unsigned_abs();
        let mut power = 1;
        while number / power >= 10 {
            power *= 10;
        }
        while power > 0 {
            self.push(b"0123456789"[(number / power % 10) as usize]);
            power /= 10;
        }
        self.push(b'\t');
    }

    pub(crate) fn hex(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.push(b"0123456789abcdef"[usize::from(byte >> 4)]);
            self.push(b"0123456789abcdef"[usize::from(byte & 15)]);
        }
    }

    pub(crate) fn end(&mut self) {
        self.push(b'\n');
        self.flush();
    }

    fn push(&mut self, byte: u8) {
        if self.used == self.bytes.len() {
            self.flush();
        }
        self.bytes[self.used] = byte;
        self.used += 1;
    }

    fn flush(&mut self) {
        calls::write_raw(self.log, &self.bytes[..self.used]);
        self.used = 0;
    }
}

/// The path that `/proc` gives for a descriptor; empty if there is none.
pub(crate) fn path_of(fd: c_int, target: &mut [u8; 512]) -> &[u8] {
    let mut name = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
    let (mut place, mut power) = (14, 1);
    while fd / power >= 10 {
        power *= 10;
    }
    while power > 0 {
        name[place] = b"0123456789"[usize::try_from(fd / power % 10).unwrap_or(0)];
        (place, power) = (place + 1, power / 10);
    }
    let count = calls::readlink_raw(&name, target);
    &target[..count]
}

/// The inode of a descriptor's file, or 0.
pub(crate) fn inode_of(fd: c_int) -> i64 {
    if fd < 0 { 0 } else { calls::inode_raw(fd) }
}
