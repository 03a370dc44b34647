//! Bakes onto the mesh's own texture coordinates, or says why they cannot be used.
//!
//! They must be within [0, 1], since a baked texture does not repeat, and must have area. Overlapping charts are baked
//! with a warning, since one texel then shows two places. With pages, each triangle must lie in one UDIM tile, which
//! becomes a page of the atlas.

use std::collections::HashMap;

use kiln_atlas::coverage::{self, Coverage};
use proto::message::{Code, Failure, UnwrapMethod};
use proto::pages::Pages;
use proto::table::Mesh;

use super::Unwrapped;
use crate::bake::model::normals::point_normals;
use crate::prepare::clean::CleanMesh;
use crate::prepare::load::NoUvs;
use crate::worker::progress::Progress;

/// An excess beyond [0, 1] up to this is rounding, and is clamped.
const ROUNDING: f32 = 1e-4;
/// Share of texels covered twice, or of triangles without area in the atlas, that raises a warning.
const TOLD_SHARE: f64 = 0.002;

/// Why the mesh's coordinates cannot be kept.
#[derive(Debug, thiserror::Error, PartialEq)]
#[expect(missing_docs, reason = "its messages say what the fields are")]
pub enum KeptError {
    /// There are none.
    #[error("{0}")]
    Missing(NoUvs),
    /// NaN or infinite.
    #[error("triangle {0} has a texture coordinate that is not a number")]
    Number(usize),
    /// Tiled or misplaced.
    #[error(
        "{percent:.1} % of the triangles have texture coordinates outside 0 to 1 (from {low} to {high})"
    )]
    Outside { percent: f64, low: f32, high: f32 },
    /// Outside the tiles of the pages, or across their borders.
    #[error(
        "{percent:.1} % of the triangles have texture coordinates in no UDIM tile of {} pages (columns 1 to {side}, rows 1 to {side}), or in several",
        side * side
    )]
    Tiles { percent: f64, side: u32 },
    /// All degenerate.
    #[error("the texture coordinates have no area")]
    NoArea,
}

impl KeptError {
    /// The failure to report for the mesh file `name`.
    pub fn failure(&self, name: &str) -> Failure {
        let code = match self {
            Self::Missing(NoUvs::Sets(..)) => Code::UnsupportedFeature,
            Self::Missing(_)
            | Self::Number(_)
            | Self::Outside { .. }
            | Self::Tiles { .. }
            | Self::NoArea => Code::InvalidAsset,
        };
        let hint = match self {
            Self::Missing(NoUvs::Sets(..)) => {
                "name one with --uv-set, if all of the mesh has it; or leave out --keep-uvs to have new ones made"
            }
            Self::Tiles { side, .. } if *side < 4 => {
                "choose more --pages, or leave out --keep-uvs to have new texture coordinates made"
            }
            _ => "leave out --keep-uvs to have new texture coordinates made",
        };
        let hint = hint.to_owned();
        Failure {
            code,
            message: format!("{name}: {self}"),
            hint,
        }
    }
}

/// Keeps the corners' coordinates of `surface`.
///
/// # Errors
/// They cannot be used for a bake.
pub fn keep(
    surface: &CleanMesh,
    (texture_size, pages): (u32, Pages),
    progress: &dyn Progress,
) -> Result<Unwrapped, KeptError> {
    let corner_uvs = surface
        .corner_uvs
        .as_ref()
        .ok_or(KeptError::Missing(NoUvs::Absent))?;
    check(corner_uvs, pages)?;
    let normals = point_normals(&surface.positions, &surface.triangles);
    // Pages share no vertices, not even where they touch.
    let mut numbers: HashMap<(u32, u32, [u32; 2]), u32> =
        HashMap::with_capacity(surface.positions.len());
    let mut mesh = Mesh::default();
    for (points, uvs) in surface.triangles.iter().zip(corner_uvs) {
        let [column, row] = tile(uvs, pages);
        let page = row * pages.side() + column;
        let corners = std::array::from_fn(|k| {
            let (point, uv) = (points[k], on_page(uvs[k], [column, row], pages));
            *numbers
                .entry((point, page, uv.map(f32::to_bits)))
                .or_insert_with(|| {
                    mesh.positions.push(surface.positions[point as usize]);
                    mesh.normals.push(normals[point as usize]);
                    mesh.uvs.push(uv);
                    mesh.surface_vertices.push(point);
                    mesh.positions.len() as u32 - 1
                })
        });
        mesh.triangles.push(corners);
    }
    mesh.charts = count_charts(&mesh);
    let covered = coverage::measure(&mesh.uvs, &mesh.triangles, texture_size);
    if covered.covered == 0 {
        return Err(KeptError::NoArea);
    }
    tell(&mesh, covered, progress);
    let utilisation = covered.covered as f32 / (texture_size as f32).powi(2);
    Ok(Unwrapped {
        mesh,
        method: UnwrapMethod::Kept,
        utilisation,
    })
}

/// Column and row of the UDIM tile that contains a triangle's centre, clamped to existing tiles. Rows count upwards,
/// unlike v.
fn tile(uvs: &[[f32; 2]; 3], pages: Pages) -> [u32; 2] {
    let middle = [0, 1].map(|axis| uvs.iter().map(|uv| uv[axis]).sum::<f32>() / 3.0);
    let last = pages.side() - 1;
    [middle[0], 1.0 - middle[1]].map(|x| (x.floor() as u32).min(last))
}

/// The coordinate within its tile, v down.
fn within([u, v]: [f32; 2], [column, row]: [u32; 2]) -> [f32; 2] {
    [u - column as f32, v + row as f32]
}

/// The coordinate in the atlas.
fn on_page(uv: [f32; 2], tile: [u32; 2], pages: Pages) -> [f32; 2] {
    let uv = within(uv, tile).map(|x| x.clamp(0.0, 1.0));
    [0, 1].map(|axis| (tile[axis] as f32 + uv[axis]) / pages.side() as f32)
}

fn check(corner_uvs: &[[[f32; 2]; 3]], pages: Pages) -> Result<(), KeptError> {
    let (mut low, mut high, mut outside) = (0.0f32, 1.0f32, 0usize);
    for (triangle, uvs) in corner_uvs.iter().enumerate() {
        let values = uvs.as_flattened();
        if !values.iter().all(|x| x.is_finite()) {
            return Err(KeptError::Number(triangle));
        }
        let tile = tile(uvs, pages);
        let beyond = |uv: &[f32; 2]| {
            let uv = within(*uv, tile);
            uv.iter().any(|x| !(-ROUNDING..=1.0 + ROUNDING).contains(x))
        };
        outside += usize::from(uvs.iter().any(beyond));
        low = values.iter().copied().fold(low, f32::min);
        high = values.iter().copied().fold(high, f32::max);
    }
    if outside > 0 {
        let percent = 100.0 * outside as f64 / corner_uvs.len() as f64;
        return Err(match pages {
            Pages::ONE => KeptError::Outside { percent, low, high },
            pages => KeptError::Tiles {
                percent,
                side: pages.side(),
            },
        });
    }
    Ok(())
}

fn tell(mesh: &Mesh, covered: Coverage, progress: &dyn Progress) {
    let share = covered.doubly as f64 / covered.covered as f64;
    if share > TOLD_SHARE {
        progress.warning(&format!(
            "the mesh's texture coordinates overlap: {:.1} % of the texels in use show more than one place",
            100.0 * share
        ));
    }
    let flat = |triangle: &&[u32; 3]| {
        let [a, b, c] = triangle.map(|corner| mesh.uvs[corner as usize].map(f64::from));
        (b[0] - a[0]) * (c[1] - a[1]) == (b[1] - a[1]) * (c[0] - a[0])
    };
    let share = mesh.triangles.iter().filter(flat).count() as f64 / mesh.triangles.len() as f64;
    if share > TOLD_SHARE {
        progress.warning(&format!(
            "{:.1} % of the triangles have no area in the mesh's texture coordinates: each shows a single texel",
            100.0 * share
        ));
    }
}

/// Charts are components connected by vertices with the same position and coordinate.
fn count_charts(mesh: &Mesh) -> u32 {
    let mut parents: Vec<u32> = (0..mesh.positions.len() as u32).collect();
    let root = |mut vertex: u32, parents: &mut Vec<u32>| {
        while parents[vertex as usize] != vertex {
            // Path halving.
            parents[vertex as usize] = parents[parents[vertex as usize] as usize];
            vertex = parents[vertex as usize];
        }
        vertex
    };
    for &[a, b, c] in &mesh.triangles {
        for other in [b, c] {
            let (first, second) = (root(a, &mut parents), root(other, &mut parents));
            parents[first.max(second) as usize] = first.min(second);
        }
    }
    (0..)
        .zip(&parents)
        .filter(|(vertex, parent)| vertex == *parent)
        .count() as u32
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proto::message::Phase;

    use super::*;
    use crate::worker::progress::Silent;

    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl Progress for Heard {
        fn progress(&self, _: Phase, _: u64, _: u64) {}

        fn expect(&self, _: &str, _: std::time::Duration) {}

        fn warning(&self, text: &str) {
            self.0.lock().unwrap().push(text.to_owned());
        }
    }

    /// A square of two triangles with these corner coordinates.
    fn square(uvs: [[[f32; 2]; 3]; 2]) -> CleanMesh {
        CleanMesh {
            positions: vec![
                [0.0, 0.0, 0.0],
                [1.0, 0.0, 0.0],
                [1.0, 1.0, 0.0],
                [0.0, 1.0, 0.0],
            ],
            triangles: vec![[0, 1, 2], [0, 2, 3]],
            corner_uvs: Some(uvs.to_vec()),
            radius: 0.7,
            ..CleanMesh::default()
        }
    }

    const LOW: [[f32; 2]; 3] = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]];
    const HIGH: [[f32; 2]; 3] = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]];

    #[test]
    fn seams_split_vertices_and_nothing_else() {
        let kept = keep(&square([LOW, HIGH]), (256, Pages::ONE), &Silent).unwrap();
        assert_eq!(
            (
                kept.mesh.positions.len(),
                kept.mesh.charts,
                kept.utilisation
            ),
            (4, 1, 1.0)
        );
        let apart = HIGH.map(|[u, v]| [u * 0.5, v]);
        let kept = keep(
            &square([LOW.map(|[u, v]| [0.5 + u * 0.5, v]), apart]),
            (256, Pages::ONE),
            &Silent,
        )
        .unwrap();
        assert_eq!((kept.mesh.positions.len(), kept.mesh.charts), (6, 2));
        assert_eq!(kept.mesh.surface_vertices, [0, 1, 2, 0, 2, 3]);
    }

    #[test]
    fn overlap_is_told() {
        let heard = Heard::default();
        keep(&square([LOW, LOW]), (256, Pages::ONE), &heard).unwrap();
        let heard = heard.0.into_inner().unwrap();
        assert_eq!(
            heard,
            [
                "the mesh's texture coordinates overlap: 100.0 % of the texels in use show more than one place"
            ]
        );
    }

    #[test]
    fn udim_tiles_become_pages_that_share_no_vertex() {
        let four = Pages::try_from(4).unwrap();
        // Tile 1001, and 1012 to its upper right. v is glTF's, which decreases upwards from 1.
        let high = HIGH.map(|[u, v]| [u + 1.0, v - 1.0]);
        let kept = keep(&square([LOW, high]), (512, four), &Silent).unwrap();
        let pages = kept.mesh.triangles.iter().map(|corners| {
            let middle = |axis| {
                corners
                    .map(|c| kept.mesh.uvs[c as usize][axis])
                    .iter()
                    .sum::<f32>()
            };
            four.udim(four.at([middle(0) / 3.0, middle(1) / 3.0]))
        });
        assert_eq!(pages.collect::<Vec<_>>(), [1001, 1012]);
        assert_eq!(kept.mesh.uvs[..3], [[0.0, 0.0], [0.5, 0.0], [0.5, 0.5]]);
        assert_eq!(kept.mesh.uvs[3..], [[0.5, 0.5], [1.0, 1.0], [0.5, 1.0]]);
        // Neighbouring tiles meet at u = 1, but do not share a vertex.
        let beside = [[1.0, 0.0], [1.0, 1.0], [2.0, 1.0]];
        let kept = keep(
            &square([[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]], beside]),
            (512, four),
            &Silent,
        );
        assert_eq!(kept.unwrap().mesh.positions.len(), 6);
        let refused =
            |uvs: [[f32; 2]; 3]| keep(&square([LOW, uvs]), (512, four), &Silent).unwrap_err();
        for uvs in [
            [[0.0, 0.0], [1.5, 0.0], [1.5, 1.0]],
            HIGH.map(|[u, v]| [u + 2.0, v]),
            HIGH.map(|[u, v]| [u, v + 1.0]),
        ] {
            assert_eq!(
                refused(uvs),
                KeptError::Tiles {
                    percent: 50.0,
                    side: 2
                }
            );
        }
    }

    #[test]
    fn what_cannot_be_baked_with_is_refused() {
        let error =
            |uvs: [[f32; 2]; 3]| keep(&square([LOW, uvs]), (256, Pages::ONE), &Silent).unwrap_err();
        assert_eq!(error([[f32::NAN, 0.0]; 3]), KeptError::Number(1));
        assert!(matches!(
            error([[0.0, 0.0], [0.0, 1.5], [0.5, 0.5]]),
            KeptError::Outside { percent: 50.0, .. }
        ));
        let just = [[0.0, 0.0], [1.00005, 1.0], [-0.00005, 1.0]];
        let kept = keep(&square([LOW, just]), (256, Pages::ONE), &Silent).unwrap();
        assert!(
            kept.mesh
                .uvs
                .as_flattened()
                .iter()
                .all(|x| (0.0..=1.0).contains(x))
        );
        assert_eq!(
            keep(&square([[[0.5; 2]; 3]; 2]), (256, Pages::ONE), &Silent).unwrap_err(),
            KeptError::NoArea
        );
        let without = CleanMesh {
            corner_uvs: None,
            ..square([LOW, HIGH])
        };
        assert_eq!(
            keep(&without, (256, Pages::ONE), &Silent).unwrap_err(),
            KeptError::Missing(NoUvs::Absent)
        );
    }
}
