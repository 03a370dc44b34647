//! Seams → rows: the mip texels that lookups on both sides read, for each mip level and each place along a seam. Once
//! the texels exist, also the colour that both sides should show.

use rayon::prelude::*;

use crate::bake::finish::seams::side::{Charted, SeamSide};
use crate::bake::model::atlas::most_length;
use crate::image::survey::LEVELS;
use crate::worker::progress::ticking;

/// Places for each texel of the level along the longer side: neighbouring ones share their texels.
const PLACES: f64 = 2.0;
/// Most places of one seam, however far outside of the texture it runs.
const MOST_PLACES: f64 = 4096.0;
/// If less than this of the two lookups lies in their own charts, nothing says what they should show.
const LEAST_OWN: f32 = 0.1;

/// A weighted mip texel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tap {
    pub(super) texel: u32,
    pub(super) weight: f32,
}

/// One place of a seam.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeamRow {
    /// Four taps on either side.
    pub(super) taps: [[Tap; 4]; 2],
    /// Chart of either side.
    pub(super) charts: [u32; 2],
    /// Length of seam that it stands for, in texels.
    pub(super) length: f32,
    /// What both sides should show, if anything says so.
    pub(super) target: Option<[f32; 3]>,
}

/// Number of mip levels of a texture, up to those that are measured.
pub(super) fn levels(size: usize) -> usize {
    (0..LEVELS).take_while(|level| size >> level > 0).count()
}

/// The rows of a level of a texture of `size` texels across, without targets.
pub(super) fn rows(size: usize, seams: &[[SeamSide; 2]], level: usize) -> Vec<SeamRow> {
    let step = f64::from(1 << level);
    let longest = |sides: &[SeamSide; 2]| sides[0].length().max(sides[1].length());
    let whole: f64 = seams.iter().map(longest).sum();
    let share = (most_length(size) / whole).min(1.0);
    ticking(seams.par_iter())
        .flat_map_iter(|sides| {
            let longest = longest(sides);
            let places = (longest * PLACES * share / step)
                .ceil()
                .clamp(1.0, MOST_PLACES);
            (0..places as u32).map(move |place| {
                let share = (f64::from(place) + 0.5) / places;
                row(sides, share, [size, level], (longest / places) as f32)
            })
        })
        .collect()
}

fn row(sides: &[SeamSide; 2], share: f64, [size, level]: [usize; 2], length: f32) -> SeamRow {
    let edge = size >> level;
    let scale = edge as f64 / size as f64;
    let of_side = |side: &SeamSide| taps(side.at(share).map(|x| x * scale), edge);
    SeamRow {
        taps: sides.each_ref().map(of_side),
        charts: sides.each_ref().map(|side| side.chart),
        length,
        target: None,
    }
}

impl Charted<'_> {
    /// Gives the rows of a level their targets. At mip 0 a lookup reads its own chart and what is next to it, and needs
    /// no target.
    pub(super) fn aim(&self, rows: &mut [SeamRow], level: usize) {
        if level > 0 {
            ticking(rows.par_iter_mut())
                .with_min_len(1 << 8)
                .for_each(|row| {
                    row.target = self.target(row, level);
                });
        }
    }

    /// What the row would see if both lookups saw their own charts alone.
    fn target(&self, row: &SeamRow, level: usize) -> Option<[f32; 3]> {
        let (mut sum, mut owned) = ([0.0_f32; 3], 0.0_f32);
        let share = 1.0 / (1u32 << (2 * level)) as f32;
        for (&chart, taps) in row.charts.iter().zip(&row.taps) {
            for tap in taps.iter().filter(|tap| tap.weight > 0.0) {
                for texel in self.beneath(tap.texel as usize, level) {
                    if self.charts[texel] == chart {
                        for channel in 0..3 {
                            sum[channel] += tap.weight * share * self.texels[texel][channel];
                        }
                        owned += tap.weight * share;
                    }
                }
            }
        }
        (owned > LEAST_OWN).then(|| sum.map(|value| value / owned))
    }

    /// The texels whose mean is a mip texel.
    fn beneath(&self, texel: usize, level: usize) -> impl Iterator<Item = usize> {
        let (edge, size, side) = (self.size >> level, self.size, 1 << level);
        let (column, row) = (texel % edge * side, texel / edge * side);
        (row..row + side).flat_map(move |y| (column..column + side).map(move |x| y * size + x))
    }
}

/// The lookup at a place of a level of `edge` texels, clamped to its border.
fn taps(at: [f64; 2], edge: usize) -> [Tap; 4] {
    let [x, y] = at.map(|x| x - 0.5);
    let (left, top) = (x.floor(), y.floor());
    let (fx, fy) = ((x - left) as f32, (y - top) as f32);
    let clamp = |x: f64| x.clamp(0.0, (edge - 1) as f64) as usize;
    let tap = |dx: f64, dy: f64, weight: f32| Tap {
        texel: (clamp(top + dy) * edge + clamp(left + dx)) as u32,
        weight,
    };
    [
        tap(0.0, 0.0, (1.0 - fx) * (1.0 - fy)),
        tap(1.0, 0.0, fx * (1.0 - fy)),
        tap(0.0, 1.0, (1.0 - fx) * fy),
        tap(1.0, 1.0, fx * fy),
    ]
}
