//! JSON as people and programs write it → JSON that a strict parser takes: comments go, and commas before a bracket;
//! `NaN` and `Infinity`, which Python's `json` writes, become a number that no `f64` holds, or `null`.
//!
//! A value that nobody reads is then skipped, whatever it is. One that is read is refused by its key.

/// Stand for what JSON has no number for. A reader of whole documents takes no number out of range anywhere.
pub(crate) const OUT_OF_RANGE: &[u8] = b"1e999";
pub(crate) const NULL: &[u8] = b"null";

/// The text without comments and stray commas, and with `nan` for what is no number. Strings stay as they are.
pub(crate) fn plain(text: &[u8], nan: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(&byte) = rest.first() {
        let length = match byte {
            b'"' => string(rest),
            b'/' if rest.starts_with(b"//") => {
                rest = &rest[until(rest, b"\n")..];
                continue;
            }
            b'/' if rest.starts_with(b"/*") => {
                rest = &rest[(until(rest, b"*/") + 2).min(rest.len())..];
                continue;
            }
            b']' | b'}' => {
                let last = out
                    .iter()
                    .rposition(|byte: &u8| !byte.is_ascii_whitespace());
                if let Some(last) = last.filter(|&last| out[last] == b',') {
                    out[last] = b' ';
                }
                1
            }
            b'-' if nan == NULL && rest.starts_with(b"-Infinity") => {
                rest = &rest[1..];
                continue;
            }
            b'N' if rest.starts_with(b"NaN") => {
                out.extend_from_slice(nan);
                rest = &rest[3..];
                continue;
            }
            b'I' if rest.starts_with(b"Infinity") => {
                out.extend_from_slice(nan);
                rest = &rest[8..];
                continue;
            }
            _ => 1,
        };
        out.extend_from_slice(&rest[..length]);
        rest = &rest[length..];
    }
    out
}

/// Bytes of the string at the start of `text`, with both quotes where it ends.
fn string(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

/// Bytes before `mark`, or all.
fn until(text: &[u8], mark: &[u8]) -> usize {
    let found = text.windows(mark.len()).position(|part| part == mark);
    found.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_strict_parser_refuses_goes_and_strings_stay() {
        let cases = [
            (
                "{\"a\": 1, // one\n \"b\": [2, 3,],}",
                "{\"a\": 1, \n \"b\": [2, 3 ] }",
            ),
            ("{\"a\": /* two\nlines */ 1}", "{\"a\":  1}"),
            (
                "[NaN, -Infinity, \"NaN, // \\\" ,]\"]",
                "[1e999, -1e999, \"NaN, // \\\" ,]\"]",
            ),
            ("[1, /* no end", "[1, "),
            ("\"no end\\", "\"no end\\"),
        ];
        for (text, expected) in cases {
            let plain = plain(text.as_bytes(), OUT_OF_RANGE);
            assert_eq!(String::from_utf8(plain).unwrap(), expected);
        }
        assert_eq!(plain(b"[NaN, -Infinity]", NULL), b"[null, null]");
    }
}
