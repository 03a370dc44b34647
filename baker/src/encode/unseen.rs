//! Texture and mesh → the side that most of the surface faces which no view shows.

use proto::message::Side;
use proto::table::{Mesh, Provenance, Texture};

/// Share of the unseen area's normals that must add up to one direction.
const ONE_WAY: f64 = 0.6;

/// The side; a triangle counts as unseen by the texel at its middle.
pub(super) fn side(mesh: &Mesh, texture: &Texture) -> Option<Side> {
    let size = texture.size as usize;
    let (mut sum, mut area) = ([0.0; 3], 0.0);
    for triangle in &mesh.triangles {
        let corners = triangle.map(|vertex| vertex as usize);
        let texel = [0, 1].map(|axis| {
            let middle = corners
                .iter()
                .map(|&vertex| mesh.uvs[vertex][axis])
                .sum::<f32>()
                / 3.0;
            ((middle * size as f32) as usize).min(size - 1)
        });
        if texture.provenance[texel[1] * size + texel[0]] != Provenance::Filled as u8 {
            continue;
        }
        let normal = normal(corners.map(|vertex| mesh.positions[vertex].map(f64::from)));
        area += normal.iter().map(|x| x * x).sum::<f64>().sqrt();
        sum = std::array::from_fn(|k| sum[k] + normal[k]);
    }
    let sides = [
        (-sum[1], Side::Bottom),
        (sum[1], Side::Top),
        (-sum[0], Side::NegativeX),
        (sum[0], Side::PositiveX),
        (-sum[2], Side::NegativeZ),
        (sum[2], Side::PositiveZ),
    ];
    let mut clear = sides
        .into_iter()
        .filter(|(part, _)| area > 0.0 && *part >= ONE_WAY * area);
    clear.next().map(|(_, side)| side)
}

/// Twice the triangle's area, as its normal.
fn normal([a, b, c]: [[f64; 3]; 3]) -> [f64; 3] {
    let [u, v]: [[f64; 3]; 2] = [b, c].map(|end| std::array::from_fn(|k| end[k] - a[k]));
    std::array::from_fn(|k| {
        let (i, j) = ((k + 1) % 3, (k + 2) % 3);
        u[i] * v[j] - u[j] * v[i]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Squares of two triangles, each with its normal along an axis and a texel of its own: seen or not.
    fn found(squares: &[(usize, bool, bool)]) -> Option<Side> {
        let mut mesh = Mesh::default();
        let mut texture = Texture {
            size: 256,
            texels: vec![[0; 4]; 256 * 256],
            provenance: vec![Provenance::Observed as u8; 256 * 256],
            maps: None,
        };
        for (texel, &(axis, positive, seen)) in squares.iter().enumerate() {
            let first = mesh.positions.len() as u32;
            for corner in 0..4 {
                let mut at = [0.0; 3];
                at[(axis + 1) % 3] = f32::from(corner % 2 == 1);
                at[(axis + 2) % 3] = f32::from(corner / 2 == 1);
                mesh.positions.push(at);
                mesh.uvs.push([(texel as f32 + 0.5) / 256.0, 0.5 / 256.0]);
            }
            let order = if positive { [0, 1, 3, 2] } else { [0, 2, 3, 1] };
            let [a, b, c, d] = order.map(|corner| first + corner);
            mesh.triangles.extend([[a, b, c], [a, c, d]]);
            if !seen {
                texture.provenance[texel] = Provenance::Filled as u8;
            }
        }
        side(&mesh, &texture)
    }

    #[test]
    fn a_side_is_named_where_most_of_what_is_unseen_faces_it() {
        assert_eq!(
            found(&[(1, false, false), (1, true, true)]),
            Some(Side::Bottom)
        );
        assert_eq!(found(&[(1, true, false)]), Some(Side::Top));
        assert_eq!(
            found(&[(0, true, false), (1, true, true)]),
            Some(Side::PositiveX)
        );
        assert_eq!(found(&[(2, false, false)]), Some(Side::NegativeZ));
        // Both sides of a sheet, two sides alike, and nothing.
        assert_eq!(found(&[(1, true, false), (1, false, false)]), None);
        assert_eq!(found(&[(0, true, false), (2, true, false)]), None);
        assert_eq!(found(&[(0, true, true)]), None);
    }
}
