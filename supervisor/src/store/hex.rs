//! Converts bytes to hexadecimal digits and back. Writes lower case, reads either.

use std::fmt;

/// Writes all digits at once: one at a time would dominate the cost of a spec with many files.
pub(super) fn write<const N: usize>(out: &mut fmt::Formatter<'_>, bytes: &[u8; N]) -> fmt::Result {
    let digits = bytes
        .map(|byte| [byte >> 4, byte & 0xf].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
    out.write_str(str::from_utf8(digits.as_flattened()).map_err(|_| fmt::Error)?)
}

/// Returns `None` unless the text is exactly `N` bytes.
pub(super) fn read<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        let digit = |digit: &u8| char::from(*digit).to_digit(16);
        *byte = u8::try_from(digit(high)? << 4 | digit(low)?).ok()?;
    }
    Some(bytes)
}
