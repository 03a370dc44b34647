//! Charts and what the views resolve of each triangle → charts whose texels lie where somebody looks.
//!
//! Of a chart that no view sees nothing is known but what its neighbours on the surface have: it is filled with colours
//! that hardly change from texel to texel, and a quarter of the texels hold them. The others share what that leaves.

use super::Piece;
use crate::prepare::clean::CleanMesh;
use crate::prepare::normals::surface_area;

/// Edge of such a chart, beside what it would be.
pub(super) const EDGE: f64 = 0.5;
/// A chart that shows less than this share of itself to any view counts as unseen.
pub(super) const SEEN: f64 = 0.02;
/// Charts with less than this share of the surface keep their size: occlusion is found on small pictures, which may miss them.
pub(super) const SMALLEST: f64 = 5e-4;

/// Makes charts smaller that no view sees. `resolved` has a number above 0 for each triangle of the surface that one does, as
/// `texels::resolved` finds it; where there are none, or none is above 0, nothing is known and nothing changes.
pub(super) fn shrink(mesh: &CleanMesh, pieces: &mut [Piece], resolved: &[f64]) {
    if resolved.iter().all(|&pixels| pixels <= 0.0) {
        return;
    }
    let smallest = SMALLEST * surface_area(&mesh.positions, &mesh.triangles);
    for piece in pieces {
        let (mut whole, mut seen) = (0.0, 0.0);
        for (triangle, &face) in (0..).zip(&piece.faces) {
            let area = piece.chart.area_of(triangle);
            whole += area;
            if resolved
                .get(face as usize)
                .is_some_and(|&pixels| pixels > 0.0)
            {
                seen += area;
            }
        }
        if whole >= smallest && seen < SEEN * whole {
            for uv in &mut piece.chart.uvs {
                *uv = uv.map(|x| x * EDGE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::planar::cut;
    use super::super::tests::icosphere;
    use super::*;

    #[test]
    fn charts_that_nobody_sees_have_a_quarter_of_their_texels() {
        let sphere = icosphere(4);
        let before = cut(&sphere);
        let after = |resolved: &[f64]| {
            let mut pieces = before.clone();
            shrink(&sphere, &mut pieces, resolved);
            pieces
        };
        let count = sphere.triangles.len();
        assert_eq!(after(&[]), before, "nothing is known");
        assert_eq!(after(&vec![0.0; count]), before, "no camera looks at it");
        assert_eq!(after(&vec![3.0; count]), before);
        // All but one chart are seen; of that, one triangle in so many.
        for (nth, changes) in [(before[0].faces.len() + 1, true), (5, false)] {
            let mut resolved = vec![1.0; count];
            for (at, &face) in before[0].faces.iter().enumerate() {
                resolved[face as usize] = if (at + 1) % nth == 0 { 1.0 } else { 0.0 };
            }
            let found = after(&resolved);
            let ratio = found[0].chart.area() / before[0].chart.area();
            assert!(
                (ratio - if changes { 0.25 } else { 1.0 }).abs() < 1e-9,
                "{ratio}"
            );
            assert_eq!(found[1..], before[1..]);
        }
    }
}
