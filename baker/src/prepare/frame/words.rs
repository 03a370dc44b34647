//! What is said of a candidate.

use super::search::{Candidate, IDENTITY, Matrix, Reading, Similarity};

/// The difference between the given frame and a candidate, in a sentence.
pub(super) fn difference(candidate: &Candidate, opengl: bool, radius: f64) -> String {
    let mut parts = reading(candidate.reading, opengl);
    let place = &candidate.place;
    if place.turn != IDENTITY {
        parts.push(turned(&place.turn));
    }
    if place.scale != 1.0 {
        parts.push(scaled(place.scale));
    }
    if is_moved(place, radius) {
        let [x, y, z] = place.offset;
        parts.push(format!(
            "the mesh is moved: its origin lies at an offset of {x:.4}, {y:.4}, {z:.4} in theirs"
        ));
    }
    parts.join("; ")
}

fn is_moved(place: &Similarity, radius: f64) -> bool {
    let length = place.offset.iter().map(|x| x * x).sum::<f64>().sqrt();
    length > 1e-6 * radius * place.scale
}

fn reading(reading: Reading, opengl: bool) -> Vec<String> {
    let mut parts = Vec::new();
    let natural = reading.flipped == (reading.inverted && opengl);
    match (reading.inverted, opengl) {
        (true, true) => {
            parts.push("the matrices are world-to-camera, not camera-to-world".to_owned());
        }
        (true, false) => {
            parts.push("the matrices are camera-to-world, not world-to-camera".to_owned());
        }
        _ => {}
    }
    if !natural {
        let axes = match opengl {
            true => "the cameras have OpenCV axes (y down, z ahead), not OpenGL's",
            false => "the cameras have OpenGL axes (y up, z behind), not OpenCV's",
        };
        parts.push(axes.to_owned());
    }
    if reading.roll > 0 {
        let by = [0, 90, 180, -90][usize::from(reading.roll) % 4];
        parts.push(format!(
            "the cameras are turned by {by}° about the viewing axis (rolled, as a phone held upright)"
        ));
    }
    parts
}

/// Which axes of the mesh are which of the views.
fn turned(turn: &Matrix) -> String {
    let name = |row: &[f64; 3]| {
        let axis = (0..3).find(|&k| row[k].abs() > 0.5).unwrap_or(0);
        let sign = if row[axis] < 0.0 { "-" } else { "" };
        format!("{sign}{}", ["x", "y", "z"][axis])
    };
    let [x, y, z] = [0, 1, 2].map(|k| name(&turn[k]));
    let up = match (y.as_str(), turn[1][1]) {
        (_, 1.0) => "their y axis (up) stays".to_owned(),
        _ => format!("the mesh's {y} axis is their y axis (up)"),
    };
    format!("the mesh is turned by right angles: {up}; its {x}, {y}, {z} are their x, y, z axes")
}

fn scaled(scale: f64) -> String {
    let number = match scale {
        0.001..10_000.0 => {
            let text = format!("{scale:.5}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        _ => format!("{scale:.4e}"),
    };
    let unit = [
        (0.001, "millimetres for metres"),
        (0.01, "centimetres for metres"),
        (0.0254, "inches for metres"),
        (0.3048, "feet for metres"),
        (1000.0, "metres for millimetres"),
        (100.0, "metres for centimetres"),
    ];
    let unit = unit
        .iter()
        .find(|(value, _)| (value / scale - 1.0).abs() < 1e-3);
    let unit = unit.map_or(String::new(), |(_, name)| format!(" ({name})"));
    format!("the mesh has another scale: its unit is {number} times theirs{unit}")
}
