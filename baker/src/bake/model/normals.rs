//! Points and triangles → normals of the points.
//!
//! A triangle counts by its angle at the point (Thürmer and Wüthrich, 1998), so normals do not depend on the
//! triangulation.

use kiln_raster::vector::{cross, sub, unit};

use crate::worker::progress::ticked;

/// Unit normals of the points: the mean of the triangles around, weighted by angle.
pub(crate) fn point_normals(positions: &[[f32; 3]], triangles: &[[u32; 3]]) -> Vec<[f32; 3]> {
    let mut sums = vec![[0.0f64; 3]; positions.len()];
    let mut fallback = vec![[0.0f32; 3]; positions.len()];
    for corners in ticked(triangles.iter()) {
        let places = corners.map(|point| positions[point as usize].map(f64::from));
        let Some(normal) = unit(cross(sub(places[1], places[0]), sub(places[2], places[0]))) else {
            continue;
        };
        for k in 0..3 {
            let (to_next, to_last) = (
                sub(places[(k + 1) % 3], places[k]),
                sub(places[(k + 2) % 3], places[k]),
            );
            let (Some(to_next), Some(to_last)) = (unit(to_next), unit(to_last)) else {
                continue;
            };
            let cosine: f64 = (0..3).map(|axis| to_next[axis] * to_last[axis]).sum();
            let angle = cosine.clamp(-1.0, 1.0).acos();
            let point = corners[k] as usize;
            for axis in 0..3 {
                sums[point][axis] += normal[axis] * angle;
            }
            fallback[point] = normal.map(|x| x as f32);
        }
    }
    // Sides that cancel leave rounding noise without direction. The last triangle's normal is used then.
    sums.into_iter()
        .zip(fallback)
        .map(|(sum, fallback)| {
            let long = sum.iter().map(|x| x * x).sum::<f64>() > 1e-12;
            match unit(sum).filter(|_| long) {
                Some(normal) => normal.map(|x| x as f32),
                None if fallback == [0.0; 3] => [0.0, 1.0, 0.0],
                None => fallback,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use kiln_atlas::surface::surface_area;

    use super::*;

    #[test]
    fn normals_do_not_depend_on_how_a_side_is_cut() {
        // The corner of a cube whose top has two triangles there, and whose other sides have one each.
        let positions = [
            [0.0; 3],
            [1.0, 0.0, 0.0],
            [0.0, 1.0, 0.0],
            [0.0, 0.0, 1.0],
            [1.0, 1.0, 0.0],
        ];
        let triangles = [[0, 4, 1], [0, 2, 4], [0, 1, 3], [0, 3, 2]];
        let normal = point_normals(&positions, &triangles)[0];
        for axis in normal {
            assert!((axis + 3f32.sqrt().recip()).abs() < 1e-6, "{normal:?}");
        }
        assert!((surface_area(&positions, &triangles) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn sides_that_cancel_still_have_a_normal() {
        let positions = [[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [9.0; 3]];
        let normals = point_normals(&positions, &[[0, 1, 2], [0, 2, 1]]);
        assert_eq!(normals[0], [0.0, 0.0, -1.0]);
        assert_eq!(normals[3], [0.0, 1.0, 0.0]);
    }
}
