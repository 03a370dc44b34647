//! Lines and words of the text formats.

/// Lines with their numbers from 1. Lines of an old Mac end with a carriage return alone.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let end = match bytes.contains(&b'\n') {
        true => b'\n',
        false => b'\r',
    };
    let lines = bytes.split(move |&byte| byte == end);
    lines.enumerate().map(|(number, line)| (number + 1, line))
}

/// Whether the C library of Windows writes a number that is none so: `-nan(ind)`, `nan(snan)`, `1.#QNAN`, `-1.#IND`.
pub(super) fn is_nan(word: &[u8]) -> bool {
    let word = word.to_ascii_lowercase();
    let word = word.strip_prefix(b"-").unwrap_or(&word);
    word.starts_with(b"nan(") || word.starts_with(b"1.#")
}
