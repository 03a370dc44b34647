//! The XML of Agisoft Metashape's *Export Cameras*: sensors with their calibration, and cameras with their place in a chunk.
//!
//! ```text
//!    transform of a camera     camera to chunk, 4x4 by rows, OpenCV axes
//!    transform of a chunk or component     X_world = scale · rotation · X_chunk + translation
//!    frame      x' = x (1 + K1 r² + K2 r⁴ + K3 r⁶ + K4 r⁸) + P1 (r² + 2 x²) + 2 P2 x y,  y' likewise
//!    fisheye    the same of (x, y) · atan r / r
//!    pixel      u = w/2 + cx + x' (f + B1) + y' B2,  v = h/2 + cy + y' f
//! ```
//!
//! From the user manual of Metashape (appendix *Camera models*), whose P1 and P2 are `OpenCV`'s p2 and p1, and from nerfstudio's
//! reader (`process_data/metashape_utils.py`). `spherical` is a panorama. A chunk with a place on Earth is refused: its mesh is
//! exported in other axes than its cameras. A label is the picture's name, mostly without its ending.

use std::collections::HashMap;

use roxmltree::Node;

use super::posed::{frame, placed, product};
use super::wrong::{Read, UNDISTORT, Wrong};
use super::xml::{self, child, number, numbers};
use crate::prepare::foreign;
use crate::prepare::transforms::{
    Curved, Distortion, Fisheye, Frame, Known, Lens, MAX_PIXELS, Pose,
};

/// Largest skew that is left alone, in pixels: a twentieth of one at the border of a picture with an angle of 90°.
const SKEW: f64 = 0.05;

/// A chunk's own frame in the world.
struct Place {
    rotation: [[f64; 3]; 3],
    translation: [f64; 3],
    scale: f64,
}

pub(super) fn read(bytes: &[u8]) -> Read<Vec<Frame>> {
    let tree = xml::parse(bytes)?;
    let chunk = tree.descendants().find(|node| node.has_tag_name("chunk"));
    let chunk = chunk.ok_or_else(|| match foreign::recognise(bytes) {
        Some(found) => Wrong {
            hint: found.hint,
            ..Wrong::new(found.to_string())
        },
        None => Wrong::new("is XML without a chunk of Metashape"),
    })?;
    let (mut lenses, mut places) = (HashMap::new(), HashMap::new());
    for node in chunk.descendants().filter(Node::is_element) {
        let id = node.attribute("id").unwrap_or_default();
        match node.tag_name().name() {
            "sensor" => drop(lenses.insert(id, lens(node))),
            "component" => drop(places.insert(id, place(node)?)),
            _ => {}
        }
    }
    let whole = place(chunk)?;
    if whole.is_some() || places.values().any(Option::is_some) {
        refuse_earth(chunk)?;
    }
    let cameras = child(chunk, "cameras").ok_or_else(|| Wrong::new("has no cameras"))?;
    let mut frames = Vec::new();
    for camera in cameras
        .descendants()
        .filter(|node| node.has_tag_name("camera"))
    {
        // Others were not placed, or switched off.
        let off = matches!(camera.attribute("enabled"), Some("0" | "false"));
        let Some(transform) = child(camera, "transform").filter(|_| !off) else {
            continue;
        };
        let component = camera
            .attribute("component_id")
            .and_then(|id| places.get(id));
        let place = component.and_then(Option::as_ref).or(whole.as_ref());
        let lens = camera.attribute("sensor_id").and_then(|id| lenses.get(id));
        let lens = lens
            .cloned()
            .unwrap_or_else(|| Err(Wrong::new("its sensor_id is that of no sensor")));
        let label = camera.attribute("label").unwrap_or_default();
        frames.push(frame(label, pose(transform, place), lens)?);
    }
    Ok(frames)
}

fn pose(transform: Node<'_, '_>, place: Option<&Place>) -> Read<Pose> {
    let m: [f64; 16] = numbers(transform.text().unwrap_or_default(), "transform")?;
    let to_camera = [0, 1, 2].map(|c| [m[c], m[4 + c], m[8 + c]]);
    let centre = [m[3], m[7], m[11]];
    let Some(place) = place else {
        return placed(to_camera, centre);
    };
    let turned = product(&place.rotation, centre);
    let centre = [0, 1, 2].map(|k| place.scale * turned[k] + place.translation[k]);
    placed(to_camera.map(|axis| product(&place.rotation, axis)), centre)
}

fn place(of: Node<'_, '_>) -> Read<Option<Place>> {
    let Some(transform) = child(of, "transform") else {
        return Ok(None);
    };
    let text = |name| child(transform, name).and_then(|node| node.text());
    let mut rotation = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    if let Some(text) = text("rotation") {
        let r: [f64; 9] = numbers(text, "rotation")?;
        rotation = [0, 3, 6].map(|k| [r[k], r[k + 1], r[k + 2]]);
    }
    // One that is none is refused here, not of each camera.
    let pose = placed(rotation, [0.0; 3]).map_err(|wrong| wrong.at("the chunk's transform"))?;
    let scale = number(transform, "scale")?.unwrap_or(1.0);
    if scale <= 0.0 {
        return Err(Wrong::new(format!("the chunk's scale is {scale}")));
    }
    Ok(Some(Place {
        rotation: pose.rotation,
        translation: text("translation")
            .map_or(Ok([0.0; 3]), |text| numbers(text, "translation"))?,
        scale,
    }))
}

fn refuse_earth(chunk: Node<'_, '_>) -> Read<()> {
    let reference = child(chunk, "reference").and_then(|node| node.text());
    let reference = reference.unwrap_or_default().trim();
    if reference.is_empty() || reference.starts_with("LOCAL_CS") {
        return Ok(());
    }
    let system: String = reference
        .chars()
        .take_while(|c| *c != '[')
        .take(20)
        .collect();
    Err(Wrong::unsupported(
        format!(
            "its world is a place on Earth ({system}), and the cameras are not in the axes of the exported mesh"
        ),
        "set the chunk's coordinate system to Local Coordinates, and export mesh and cameras again",
    ))
}

fn lens(sensor: Node<'_, '_>) -> Read<Lens> {
    let adjusted = |node: &Node<'_, '_>| node.attribute("class") == Some("adjusted");
    let all = || {
        sensor
            .children()
            .filter(|node| node.has_tag_name("calibration"))
    };
    let calibration = all().find(adjusted).or_else(|| all().next());
    let resolution = calibration
        .and_then(|node| child(node, "resolution"))
        .or(child(sensor, "resolution"));
    let resolution = resolution.ok_or_else(|| Wrong::new("its sensor has no resolution"))?;
    let [w] = xml::attribute(resolution, "width")?;
    let [h] = xml::attribute(resolution, "height")?;
    let kind = sensor.attribute("type").unwrap_or("frame");
    if kind == "spherical" {
        return match [w, h].iter().all(|edge| (1.0..=MAX_PIXELS).contains(edge)) {
            true => Ok(Lens::panorama([w, h])),
            false => Err(Wrong::new(format!("its sensor has {w}x{h} pixels"))),
        };
    }
    let calibration = calibration.ok_or_else(|| Wrong::new("its sensor is not calibrated"))?;
    let of = |name: &str| Ok::<f64, Wrong>(number(calibration, name)?.unwrap_or(0.0));
    let (f, b1, b2) = (of("f")?, of("b1")?, of("b2")?);
    if b2.abs() > SKEW {
        return Err(Wrong::unsupported(
            format!("b2 is {b2}: a skew is not undone"),
            UNDISTORT,
        ));
    }
    let radial = [of("k1")?, of("k2")?, of("k3")?, of("k4")?];
    let tangential = [of("p2")?, of("p1")?];
    // Both are bounded alike.
    let brown = Distortion::brown(radial, tangential)?;
    let distortion = match kind {
        "frame" => brown,
        "fisheye" => Some(Distortion::Curved(Curved::Fisheye(Fisheye {
            radial: [radial[0], radial[1], radial[2], radial[3], 0.0, 0.0],
            tangential,
            ..Fisheye::default()
        }))),
        other => {
            let text = format!("its sensor is {other}, neither frame, fisheye nor spherical");
            return Err(Wrong::unsupported(text, UNDISTORT));
        }
    };
    let known = Known {
        size: Some([w, h]),
        focal: [f + b1, f],
        centre: Some([w / 2.0 + of("cx")?, h / 2.0 + of("cy")?]),
        distortion,
    };
    Ok(Lens::known(&known)?)
}
