//! Reads `cameras.txt` and `images.txt`. Skips empty lines and lines that begin with `#`, as COLMAP does. The line of
//! points after an image is skipped, but checked: if it were missing, every second image would be skipped.

use std::collections::HashMap;
use std::str::FromStr;

use proto::limits::{MAX_NAME_BYTES, MAX_VIEWS};

use super::lens::{Camera, Model};
use super::stream::Stream;
use super::wrong::{Image, MAX_CAMERAS, Read, Wrong, too_many};

/// Bytes kept of a line: its numbers and a name.
const LINE_BYTES: usize = 1024 + MAX_NAME_BYTES;

struct Lines<'a, 'b> {
    file: &'a mut Stream<'b>,
    number: usize,
}

/// A line with content, and its number from 1.
struct Line {
    number: usize,
    text: String,
}

impl Lines<'_, '_> {
    fn next(&mut self) -> Read<Option<Line>> {
        loop {
            let (bytes, ended) = self.file.until(b'\n', LINE_BYTES)?;
            if bytes.is_empty() && !ended {
                return Ok(None);
            }
            self.number += 1;
            let number = self.number;
            let bytes = bytes.trim_ascii();
            if bytes.is_empty() || bytes.starts_with(b"#") {
                continue;
            }
            let text = String::from_utf8(bytes.to_vec())
                .map_err(|_other| Wrong::new(format!("line {number} is not UTF-8")))?;
            return Ok(Some(Line { number, text }));
        }
    }

    /// Skips the line of an image's points, three numbers each. Checks those within the first [`LINE_BYTES`].
    fn skip_points(&mut self) -> Read<()> {
        self.number += 1;
        let (bytes, _) = self.file.until(b'\n', LINE_BYTES)?;
        if bytes.starts_with(b"#") {
            return Ok(());
        }
        let (text, whole) = (String::from_utf8_lossy(&bytes), bytes.len() < LINE_BYTES);
        let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
        if !whole {
            // The last word may be cut off.
            words.pop();
        }
        let is_number = |word: &str| word.parse::<f64>().is_ok();
        let other = words.iter().find(|word| !is_number(word));
        if other.is_some() || (whole && !words.len().is_multiple_of(3)) {
            return Err(Wrong::new(format!(
                "line {} is not the points of the image before it: each image has a second line, which may be empty",
                self.number
            )));
        }
        Ok(())
    }
}

impl Line {
    fn word<'a, T: FromStr>(&self, words: &mut &'a str, what: &str) -> Read<T> {
        let rest: &'a str = words.trim_ascii_start();
        let end = rest.find(|c: char| c.is_ascii_whitespace());
        let (word, rest) = rest.split_at(end.unwrap_or(rest.len()));
        *words = rest;
        word.parse().map_err(|_other| {
            let shown: String = word.chars().take(40).collect();
            Wrong::new(match shown.is_empty() {
                true => format!("line {} ends before its {what}", self.number),
                false => format!("line {}: {shown:?} is no {what}", self.number),
            })
        })
    }
}

pub(super) fn cameras(file: &mut Stream<'_>) -> Read<HashMap<u64, Camera>> {
    let mut lines = Lines { file, number: 0 };
    let mut cameras = HashMap::new();
    while let Some(line) = lines.next()? {
        let words = &mut line.text.as_str();
        let id: u64 = line.word(words, "CAMERA_ID")?;
        let model = Model::named(&line.word::<String>(words, "MODEL")?);
        let size = [line.word(words, "WIDTH")?, line.word(words, "HEIGHT")?];
        let mut parameters = Vec::new();
        while !words.trim_ascii().is_empty() {
            parameters.push(line.word(words, "parameter")?);
        }
        if let Some(wanted) = model
            .parameters()
            .filter(|&count| count != parameters.len())
        {
            return Err(Wrong::new(format!(
                "line {}: {} has {wanted} parameters, not {}",
                line.number,
                model.name(),
                parameters.len()
            )));
        }
        let camera = Camera {
            model,
            size,
            parameters,
        };
        cameras.insert(id, camera);
        if cameras.len() > MAX_CAMERAS {
            return Err(too_many(cameras.len() as u64, MAX_CAMERAS, "cameras"));
        }
    }
    Ok(cameras)
}

pub(super) fn images(file: &mut Stream<'_>) -> Read<Vec<Image>> {
    let mut lines = Lines { file, number: 0 };
    let mut images = Vec::new();
    while let Some(line) = lines.next()? {
        let words = &mut line.text.as_str();
        let id = line.word(words, "IMAGE_ID")?;
        let mut pose = [0.0; 7];
        for (part, what) in pose
            .iter_mut()
            .zip(["QW", "QX", "QY", "QZ", "TX", "TY", "TZ"])
        {
            *part = line.word(words, what)?;
        }
        let [w, x, y, z, translation @ ..] = pose;
        let camera = line.word(words, "CAMERA_ID")?;
        // A name may contain spaces.
        let name = words.trim_ascii();
        if name.is_empty() {
            return Err(Wrong::new(format!(
                "line {} ends before its NAME",
                line.number
            )));
        }
        images.push(Image {
            id,
            quaternion: [w, x, y, z],
            translation,
            camera,
            name: name.to_owned(),
        });
        if images.len() > MAX_VIEWS {
            return Err(too_many(images.len() as u64, MAX_VIEWS, "images"));
        }
        lines.skip_points()?;
    }
    Ok(images)
}
