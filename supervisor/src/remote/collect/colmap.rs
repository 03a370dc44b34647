//! Reads the names of the pictures from `images.bin` or `images.txt` of a COLMAP model. The baker's `prepare/colmap.rs`
//! explains the format. From the first error on it names nothing: prepare reports the error.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use proto::limits::{MAX_COLMAP_FILE_BYTES, MAX_NAME_BYTES, MAX_VIEWS};

/// Bytes before the name of an image in a binary file: id, pose, camera.
const BEFORE: usize = 4 + 7 * 8 + 4;
/// Bytes of a point after the name.
const POINT: i64 = 24;
/// Words of a line before the name.
const WORDS: usize = 9;

/// The names of each picture.
pub(super) fn pictures(file: File, text: bool) -> Vec<Vec<String>> {
    let mut file = BufReader::with_capacity(256 << 10, file);
    let mut names = Vec::new();
    match text {
        true => while names.len() < MAX_VIEWS && line(&mut file, &mut names).is_some() {},
        false => {
            let mut count = [0; 8];
            let count = file
                .read_exact(&mut count)
                .map(|()| u64::from_le_bytes(count));
            for _ in 0..count.unwrap_or(0).min(MAX_VIEWS as u64) {
                let Some(name) = record(&mut file) else { break };
                names.push(name);
            }
        }
    }
    names.into_iter().map(|name| vec![name]).collect()
}

fn record(file: &mut BufReader<File>) -> Option<String> {
    file.read_exact(&mut [0; BEFORE]).ok()?;
    let mut name = Vec::new();
    let limit = MAX_NAME_BYTES as u64 + 1;
    file.by_ref().take(limit).read_until(0, &mut name).ok()?;
    if name.pop() != Some(0) {
        return None;
    }
    let mut points = [0; 8];
    file.read_exact(&mut points).ok()?;
    let points = i64::try_from(u64::from_le_bytes(points)).ok()?;
    file.seek_relative(points.checked_mul(POINT)?).ok()?;
    String::from_utf8(name).ok()
}

/// Reads an image's line and the line of points after it; `None` at the end.
fn line(file: &mut BufReader<File>, names: &mut Vec<String>) -> Option<()> {
    let mut bytes = Vec::new();
    if file
        .by_ref()
        .take(MAX_COLMAP_FILE_BYTES)
        .read_until(b'\n', &mut bytes)
        .ok()?
        == 0
    {
        return None;
    }
    let text = String::from_utf8(bytes).ok()?;
    let mut rest = text.trim_ascii();
    if rest.is_empty() || rest.starts_with('#') {
        return Some(());
    }
    for _ in 0..WORDS {
        let (_, behind) = rest.split_once(|c: char| c.is_ascii_whitespace())?;
        rest = behind.trim_ascii_start();
    }
    names.push(rest.to_owned());
    file.skip_until(b'\n').ok()?;
    Some(())
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::*;

    fn named(bytes: &[u8], text: bool) -> Vec<String> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("room");
        file.rewind().expect("a file");
        pictures(file, text).into_iter().flatten().collect()
    }

    #[test]
    fn names_are_found_up_to_what_is_broken() {
        let text = b"# a comment\n1 1 0 0 0 0 0 0 1 a b.png\n0.5 0.5 -1\n\n2 1 0 0 0 0 0 0 1 c.png\n\nbroken\nx";
        assert_eq!(named(text, true), ["a b.png", "c.png"]);
        let image = |name: &str, points: u64| {
            let data = vec![7; 24 * points.min(9) as usize];
            [
                &[0; BEFORE][..],
                name.as_bytes(),
                &[0],
                &points.to_le_bytes(),
                &data,
            ]
            .concat()
        };
        let count = 1_u64 << 60;
        let file = [
            &count.to_le_bytes()[..],
            &image("a.png", 2),
            &image("b/c.png", 0),
            &image("d", 1 << 60),
        ]
        .concat();
        assert_eq!(named(&file, false), ["a.png", "b/c.png"]);
        assert!(named(&[], false).is_empty() && named(&[], true).is_empty());
    }
}
