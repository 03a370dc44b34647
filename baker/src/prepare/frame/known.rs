//! Places of the mesh that files beside the views tell.

use serde_json::Value;

use super::search::Similarity;
use crate::prepare::transforms::{Applied, Pose, three_rows};

/// The file that nerfstudio's exporters write beside a model: how its world came from that of `transforms.json`.
pub(crate) const DATAPARSER: &str = "dataparser_transforms.json";

/// The similarity of a matrix's rows, and a scale of what they give; none where they turn into no rotation.
fn similarity(rows: &[[f64; 4]; 3], scale: f64) -> Option<Similarity> {
    let (pose, _) = Pose::from_world_to_camera(rows).ok()?;
    let own = rows[0][..3].iter().map(|x| x * x).sum::<f64>().sqrt();
    let whole = Similarity {
        scale: own * scale,
        turn: pose.rotation,
        offset: [0, 1, 2].map(|r| rows[r][3] * scale),
    };
    let usable = whole.scale.is_normal() && whole.scale > 0.0;
    (usable && whole.offset.iter().all(|x| x.is_finite())).then_some(whole)
}

/// The places told by `applied_transform` of the views and by the bytes of a file as [`DATAPARSER`], each with what is
/// said of it.
pub(crate) fn places(
    applied: Option<&Applied>,
    exported: Option<&[u8]>,
) -> Vec<(String, Similarity)> {
    let applied = applied.and_then(|applied| {
        let place = similarity(&applied.rows, applied.scale)?;
        Some((applied.key, place))
    });
    let exported = exported.and_then(|bytes| {
        let file: Value = serde_json::from_slice(bytes).ok()?;
        let scale = file.get("scale").and_then(Value::as_f64).unwrap_or(1.0);
        Some(similarity(&three_rows(file.get("transform")?)?, scale)?.inverse())
    });
    let mut places = Vec::new();
    if let Some(place) = exported {
        places.push((
            format!(
                "the mesh is an export of nerfstudio, whose frame and scale {DATAPARSER} gives"
            ),
            place,
        ));
    }
    if let Some((key, place)) = applied {
        places.push((
            format!("the mesh is in the world before {key}, which the cameras were moved out of"),
            place,
        ));
    }
    if let (Some((key, applied)), Some(exported)) = (applied, exported) {
        places.push((
            format!("the mesh is an export of nerfstudio, whose frame and scale {DATAPARSER} and {key} give"),
            applied.after(&exported),
        ));
    }
    places
}
