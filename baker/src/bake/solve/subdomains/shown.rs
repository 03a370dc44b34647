//! Masks of all views → how many pixels show each square of the texture, and the mean size of a row.

use proto::table::View;
use rayon::prelude::*;

use crate::bake::gpu::dry_run::in_pools;
use crate::bake::intake::decimate::cells::{Cells, EDGE};
use crate::bake::intake::decimate::{ENTRIES, Head, Mask};
use crate::bake::model::atlas::Atlas;
use crate::bake::model::footprint::{BAND, footprints};
use crate::bake::model::scene::Scene;
use crate::bake::plan::window::{across, square};
use crate::bake::solve::backend::{BLOCK, PerRow};

/// Most views of which rows are built to count their entries: one in so many bands of each, and one in so many blocks
/// of those.
const DRAWN: usize = 4;
const DRAWN_BLOCKS: u32 = 4;
/// Mean samples of a cell, over all cells. Subdomains have thousands of cells.
const SAMPLES: f64 = 12.0;
/// Most samples of all views.
const MOST_SAMPLES: f64 = 4e7;

/// Number of pixels that show each square of a texture, line by line.
pub(super) fn shown_by_square(scene: &Scene, atlas: &Atlas, masks: &[impl Mask]) -> Vec<f64> {
    let pixels = masks.par_iter().map(Mask::counting).sum::<usize>() as f64;
    let cells = Cells::new(scene, atlas);
    let stride = stride(masks, pixels, atlas);
    let of_cells = cells.by_square(&cells.pixels(masks, stride));
    let (edge, across, cells_across) = (
        square(scene.size),
        across(scene.size),
        scene.size.div_ceil(EDGE),
    );
    let share = f64::from(edge * edge) / f64::from(EDGE * EDGE);
    let of = |square: u32| {
        let [column, line] = [square % across, square / across].map(|at| at * edge / EDGE);
        share * of_cells[(line * cells_across + column) as usize]
    };
    (0..across * across).map(of).collect()
}

/// Stride of the samples for so many opaque pixels: a block has at least one.
fn stride(masks: &[impl Mask], pixels: f64, atlas: &Atlas) -> u32 {
    let covered = atlas.covered.max(1) as f64;
    let area = |mask: &_| Mask::head(mask).size.map(f64::from).iter().product::<f64>();
    let stride = (pixels / covered * f64::from(EDGE * EDGE) / SAMPLES).sqrt();
    let coarsest = (masks.iter().map(area).sum::<f64>() / MOST_SAMPLES).sqrt();
    (stride.max(2.0).max(coarsest) as u32).min(BLOCK)
}

/// Mean size of a row, from some blocks of some views; each view contributes other bands.
pub(super) fn rows_drawn<M: Mask>(scene: &Scene, taps: u32, masks: &[M]) -> PerRow {
    let some: Vec<&M> = (masks.iter())
        .step_by(masks.len().div_ceil(DRAWN).max(1))
        .collect();
    let drawn = |(nth, mask): (usize, &&M)| {
        let Head {
            index,
            size: [width, height],
            camera,
        } = mask.head();
        let mut pixels = vec![[0; 4]; (width * height) as usize];
        let bands = pixels.chunks_mut((width * BAND) as usize).enumerate();
        for (band, own) in bands.skip(nth % some.len()).step_by(some.len()) {
            for (at, pixel) in (0..).zip(own) {
                let [column, line] = [at % width, at / width].map(|at| at / BLOCK);
                let all = band * (width * BAND) as usize + at as usize;
                if (column + line).is_multiple_of(DRAWN_BLOCKS) && mask.counts(all) {
                    pixel[3] = u8::MAX;
                }
            }
        }
        let some = View {
            index,
            width,
            height,
            crop: [0; 2],
            has_alpha: true,
            holdout: false,
            camera,
            pixels,
        };
        let counted = footprints(scene, &some, taps).into_iter().map(|chunk| {
            let words = in_pools(&chunk, width, &scene.window, taps).words;
            [chunk.len() as u64, chunk.entries.len() as u64, words]
        });
        counted.fold([0; 3], add)
    };
    let drawn = some.par_iter().enumerate().map(drawn);
    let [rows, entries, words] = drawn.reduce(|| [0; 3], add);
    match rows {
        0 => ENTRIES.into(),
        _ => PerRow {
            entries: entries as f64 / rows as f64,
            words: words as f64 / rows as f64,
        },
    }
}

fn add(a: [u64; 3], b: [u64; 3]) -> [u64; 3] {
    [0, 1, 2].map(|at| a[at] + b[at])
}
