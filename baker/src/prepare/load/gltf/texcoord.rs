//! Which texture coordinates of a material are kept, and how `KHR_texture_transform` moves them.
//!
//! The texture of the base colour decides, since the baked one takes its place. Tools that quantise coordinates
//! (gltfpack) undo that by such a transform.

use gltf::json;
use serde_json::Value;

/// An affine map of texture coordinates: the columns of a 2×2 matrix, and an offset.
pub(super) type Shift = [[f64; 2]; 3];

/// The set of a material's texture coordinates, and how they are moved.
pub(super) fn of_material(material: Option<&json::Material>) -> (u32, Option<Shift>) {
    let surface = material.map(|material| &material.pbr_metallic_roughness);
    let Some(texture) = surface.and_then(|surface| surface.base_color_texture.as_ref()) else {
        return (0, None);
    };
    let extensions = texture.extensions.as_ref();
    let Some(json) = extensions.and_then(|all| all.others.get("KHR_texture_transform")) else {
        return (texture.tex_coord, None);
    };
    let own = json.get("texCoord").and_then(Value::as_u64);
    let set = own.and_then(|set| u32::try_from(set).ok());
    (set.unwrap_or(texture.tex_coord), Some(shift(json)))
}

/// Scale, then rotation, then offset. Rotation is counter-clockwise as seen in the picture, whose v points down.
fn shift(json: &Value) -> Shift {
    let number = |value: Option<&Value>, or| value.and_then(Value::as_f64).unwrap_or(or);
    let pair = |name, or| [0, 1].map(|k| number(json.get(name).and_then(|all| all.get(k)), or));
    let ([x, y], offset) = (pair("scale", 1.0), pair("offset", 0.0));
    let (sin, cos) = number(json.get("rotation"), 0.0).sin_cos();
    [[x * cos, -x * sin], [y * sin, y * cos], offset]
}

/// A moved texture coordinate.
pub(super) fn moved([a, b, offset]: &Shift, [u, v]: [f64; 2]) -> [f64; 2] {
    [0, 1].map(|k| a[k] * u + b[k] * v + offset[k])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_extension_takes_the_lower_left_quadrant() {
        let json = serde_json::json!({"offset": [0, 1], "rotation": std::f64::consts::FRAC_PI_2, "scale": [0.5, 0.5]});
        let shift = shift(&json);
        for (uv, wanted) in [
            ([0.0, 0.0], [0.0, 1.0]),
            ([1.0, 0.0], [0.0, 0.5]),
            ([0.0, 1.0], [0.5, 1.0]),
        ] {
            let found = moved(&shift, uv);
            let off = (0..2).map(|k| (found[k] - wanted[k]).abs()).sum::<f64>();
            assert!(off < 1e-9, "{uv:?}: {found:?}");
        }
    }
}
