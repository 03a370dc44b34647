//! View → view without the pixels that the simplified mesh would put in the wrong place.
//!
//! Where the surface before and after simplification lie at different depths, a pixel shows something that the simplified
//! mesh does not have there. Dropping pixels that differ by more than 2 % of the radius was the best of six ways tried
//! (35.6 against 35.1 dB; carrying hits over to the simplified surface gained sharpness and lost PSNR).

use proto::table::{Surface, View};
use rayon::prelude::*;

use super::raster::{Projected, raster};
use super::scene::{Frame, Scene};
use crate::progress::unit;

/// Difference in depth that drops a pixel, in scene units (radii).
const LARGEST_DIFFERENCE: f64 = 0.02;
/// Rows of pixels in one piece of work.
const BAND: u32 = 32;

/// The surface that the views show, in scene units: before simplification, if there was any.
#[derive(Clone, Debug)]
pub struct Original {
    frame: Frame,
    positions: Vec<[f32; 3]>,
    triangles: Vec<[u32; 3]>,
    simplified: bool,
}

impl Original {
    /// Takes the surface into the ball around it.
    #[must_use]
    pub fn new(surface: Surface) -> Self {
        let frame = Frame::around(&surface.positions, &surface.triangles);
        Self {
            frame,
            positions: frame.normalise(&surface.positions),
            triangles: surface.triangles,
            simplified: surface.simplified,
        }
    }

    /// Where that ball is.
    #[must_use]
    pub fn frame(&self) -> Frame {
        self.frame
    }

    /// This, where the mesh is another surface.
    #[must_use]
    pub fn if_other(&self) -> Option<&Self> {
        self.simplified.then_some(self)
    }

    /// Its vertices and triangles.
    #[must_use]
    pub fn shape(&self) -> (&[[f32; 3]], &[[u32; 3]]) {
        (&self.positions, &self.triangles)
    }

    /// How many triangles it has.
    #[must_use]
    pub fn triangles(&self) -> usize {
        self.triangles.len()
    }

    /// Makes every pixel transparent where this surface and the scene's mesh lie at different depths, or only one of them lies.
    pub fn mask(&self, scene: &Scene, view: &mut View) {
        let camera = scene.camera(&view.camera);
        let (width, height) = (view.width, view.height);
        let before = Projected::new(&self.positions, &self.triangles, &camera, width, height);
        let after = Projected::of_scene(scene, &camera, width, height);
        let (bands_before, bands_after) = (before.bands(height, BAND), after.bands(height, BAND));
        view.pixels
            .par_chunks_mut((width * BAND) as usize)
            .enumerate()
            .for_each(|(band, pixels)| {
                let first = band as u32 * BAND;
                let end = (first + BAND).min(height);
                let one = raster(&before, &bands_before[band], width, first, end, 1);
                let other = raster(&after, &bands_after[band], width, first, end, 1);
                for ((pixel, a), b) in pixels
                    .iter_mut()
                    .zip(one.inverse_depths)
                    .zip(other.inverse_depths)
                {
                    // 0 where there is no surface: its depth is infinite, and so is the difference unless both are.
                    if (a == 0.0) != (b == 0.0)
                        || (a > 0.0 && (1.0 / a - 1.0 / b).abs() > LARGEST_DIFFERENCE)
                    {
                        pixel[3] = 0;
                    }
                }
                unit();
            });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bake::fixture::{blank_view, camera, mesh};

    /// A square in the plane z = 0 of 8×8 cells, those of the middle 4×4 this much nearer to the viewer.
    fn relief(height: f32) -> (Vec<[f32; 3]>, Vec<[u32; 3]>) {
        let (mut positions, mut triangles) = (Vec::new(), Vec::new());
        for cell in 0..64 {
            let (i, j) = (cell % 8, cell / 8);
            let raised = (2..6).contains(&i) && (2..6).contains(&j);
            let z = if raised { height } else { 0.0 };
            let k = positions.len() as u32;
            for (dx, dy) in [(0, 0), (1, 0), (1, 1), (0, 1)] {
                let at = |k: i32| k as f32 / 4.0 - 1.0;
                positions.push([at(i + dx), at(j + dy), z]);
            }
            triangles.extend([[k, k + 1, k + 2], [k, k + 2, k + 3]]);
        }
        (positions, triangles)
    }

    /// Which pixels of a 64×66 view keep their alpha.
    fn kept(original: (Vec<[f32; 3]>, Vec<[u32; 3]>)) -> Vec<bool> {
        let (positions, triangles) = relief(0.0);
        let uvs = vec![[0.5; 2]; positions.len()];
        let mesh = mesh(positions, uvs, triangles);
        let (positions, triangles) = original;
        let size = [64, 66];
        // From so far away that a pixel stands for one place whatever its height: 20 px a unit, 33 rows a band and more.
        let camera = camera([0.0, 0.0, 100.0], 2000.0, size, [0.0, 0.0]);
        let mut view = blank_view(0, camera, size, vec![[9, 9, 9, 255]; 64 * 66]);
        let original = Original::new(Surface {
            positions,
            triangles,
            simplified: true,
        });
        let scene = Scene::framed(&mesh, 16, original.frame());
        original.mask(&scene, &mut view);
        view.pixels.iter().map(|pixel| pixel[3] == 255).collect()
    }

    #[test]
    fn a_displaced_patch_is_masked_and_nothing_else() {
        // Radii: half of the diagonal of a square of edge 2.
        let radius = 2.0f32.sqrt();
        let patch = |pixel: usize| {
            let (x, y) = (pixel % 64, pixel / 64);
            (22..42).contains(&x) && (23..43).contains(&y)
        };
        for (height, masked) in [(0.021, true), (-0.021, true), (0.019, false), (0.0, false)] {
            let kept = kept(relief(height * radius));
            for (pixel, &kept) in kept.iter().enumerate() {
                let (x, y) = (pixel % 64, pixel / 64);
                // The patch's outline may go either way.
                let on_outline = [21, 22, 41, 42].contains(&x) || [22, 23, 42, 43].contains(&y);
                if !on_outline {
                    assert_eq!(kept, !(masked && patch(pixel)), "{height} at {x}, {y}");
                }
            }
        }
    }

    #[test]
    fn what_only_one_of_the_surfaces_has_is_masked() {
        let (positions, mut triangles) = relief(0.0);
        // The first row of cells is missing before simplification.
        triangles.drain(..16);
        let kept = kept((positions, triangles));
        let count = kept.iter().filter(|&&kept| !kept).count();
        // 40 by 5 pixels.
        assert!((150..260).contains(&count), "{count}");
    }
}
