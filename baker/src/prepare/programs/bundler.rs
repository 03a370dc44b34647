//! `bundle.out` of Bundler, with `list.txt`, which names the pictures in the order of the cameras.
//!
//! ```text
//!    # Bundle file v0.3
//!    CAMERAS POINTS
//!    f k1 k2 / R, three rows / t                         for each camera
//!
//!    P = R X + t,  p = -P / P.z,  pixel = f (1 + k1 |p|² + k2 |p|⁴) p        from the picture's middle, y up, looking along -z
//! ```
//!
//! From Bundler's README. A camera whose f is 0 was not placed, and is left out. Points are not read. The file does not say how
//! large the pictures are: f is in pixels of those that lie there.

use proto::limits::MAX_VIEWS;

use super::posed::{frame, placed_opengl, product, transposed};
use super::wrong::{Read, Wrong};
use crate::prepare::transforms::{Distortion, Frame, Known, Lens, Pose};

/// Most cameras, with those that were not placed.
const MOST: usize = 16 * MAX_VIEWS;

pub(super) fn read(bytes: &[u8], list: &[u8]) -> Read<Vec<Frame>> {
    let text = String::from_utf8_lossy(bytes);
    // The first line is a comment.
    let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
    let mut words = rest.split_ascii_whitespace();
    let mut next = |what: &str| -> Read<f64> {
        let word = words
            .next()
            .ok_or_else(|| Wrong::new(format!("ends before {what}")))?;
        let number: Option<f64> = word.parse().ok().filter(|x: &f64| x.is_finite());
        number.ok_or_else(|| {
            let shown: String = word.chars().take(40).collect();
            Wrong::new(format!("{shown:?} is no number, where {what} should be"))
        })
    };
    let count = next("the number of cameras")?;
    if !(0.0..=MOST as f64).contains(&count) {
        return Err(Wrong::new(format!(
            "promises {count} cameras, where 0 to {MOST} are taken"
        )));
    }
    next("the number of points")?;
    let list = String::from_utf8_lossy(list);
    let mut names = list.lines().map(name).filter(|name| !name.is_empty());
    let mut frames = Vec::new();
    for camera in 0..count as usize {
        let mut numbers = [0.0; 15];
        for number in &mut numbers {
            *number = next(&format!("the end of camera {camera}"))?;
        }
        let name = names.next();
        let name = name
            .ok_or_else(|| Wrong::new(format!("has {count} cameras, list.txt {camera} names")))?;
        let [f, k1, k2, r @ ..] = numbers;
        if f == 0.0 {
            continue;
        }
        frames.push(frame(&name, pose(&r), lens(f, [k1, k2]))?);
    }
    Ok(frames)
}

/// The name in a line of `list.txt`, which may end in a zero and a focal length.
fn name(line: &str) -> String {
    let line = line.trim();
    let mut words = line.rsplitn(3, char::is_whitespace);
    match (words.next(), words.next(), words.next()) {
        (Some(focal), Some("0"), Some(name)) if focal.parse::<f64>().is_ok() => {
            name.trim().to_owned()
        }
        _ => line.to_owned(),
    }
}

fn pose(r: &[f64; 12]) -> Read<Pose> {
    let rows = [0, 3, 6].map(|k| [r[k], r[k + 1], r[k + 2]]);
    let place = product(&transposed(rows), [r[9], r[10], r[11]]);
    placed_opengl(rows, place.map(|x| -x))
}

fn lens(f: f64, [k1, k2]: [f64; 2]) -> Read<Lens> {
    let known = Known {
        size: None,
        focal: [f; 2],
        centre: None,
        distortion: Distortion::brown([k1, k2, 0.0, 0.0], [0.0; 2])?,
    };
    Ok(Lens::known(&known)?)
}
