//! Finds the smallest change of the movable texels that makes both sides of the seams agree: conjugate gradients over
//! all levels at once.
//!
//! Every sum is a gather in a fixed order, so the result has the same bits on any number of threads. An iteration is
//! four passes, whatever the number of levels, over memory that is allocated and touched before the texels come. On
//! many cores the only wait left is the barrier after each pass.

mod system;

use rayon::prelude::*;

use crate::bake::finish::seams::hierarchy::Forest;
use crate::bake::finish::seams::rows::{SeamRow, levels, rows};
use crate::bake::finish::seams::side::{Charted, SeamSide};
use crate::bake::model::atlas::NO_CHART;
use crate::bake::model::colour::Space;
use crate::worker::progress::unit;
use crate::worker::step_times::{timed, timed_in_pool};
use system::SeamSystem;

/// Anchor of a texel of mean observed weight, for each texel of seam length over the number of chart texels: this
/// weighs the mean difference along all seams against the mean error of all texels. On the statue's set 500 and 1000
/// leave 1.1 and 1.3 steps of 255 at mip 0, and the latter has 0.01 dB more; on the splats' set 1.4 and 1.8.
const FIRM: f32 = 500.0;
/// Anchor of a chart's texels that no pixel observes: they are smooth, and should stay so.
const UNSEEN: f32 = 0.05;
/// Anchor of the gutter: 2e-5 gives 2.5 steps at mip 3 on the statue's set and 8e-5 3.0, but the smaller it is, the
/// more of the gutter turns black or white.
const GUTTER: f32 = 5e-5;
/// Texels that are summed in sequence.
const BLOCK: usize = 1 << 16;
/// Iterations of each round. Texels that reach black or full light stay there in the second round. On the helmet's set
/// 6 and 3 leave 1.21 steps at mip 2, and these 1.06.
const ROUNDS: [u32; 2] = [9, 4];

/// The part of the least squares problem that is known before the texels.
#[derive(Debug)]
pub(super) struct Agreement {
    rows: Vec<Vec<SeamRow>>,
    system: SeamSystem,
}

impl Agreement {
    /// None without seams. See [`super::Mending::new`].
    pub(super) fn new(
        seams: &[[SeamSide; 2]],
        charts: &[u32],
        observed: &[f32],
        size: usize,
        space: Space,
    ) -> Option<Self> {
        if seams.is_empty() {
            return None;
        }
        let of_level = |level| {
            let rows = rows(size, seams, level);
            unit();
            rows
        };
        let rows: Vec<Vec<SeamRow>> =
            timed("lookups", || (0..levels(size)).map(of_level).collect());
        let forest = timed("hierarchy", || Forest::new(charts, size, &rows));
        unit();
        let length: f32 = rows[0].iter().map(|row| row.length).sum();
        let anchors = anchors(&forest.texels, charts, observed, length);
        let system = timed("readers", || {
            SeamSystem::new(forest, &rows, anchors, (size, space))
        });
        unit();
        Some(Self { rows, system })
    }
}

/// See the head of [`super`]. Texels are in linear light on input and output.
pub(super) fn agree(texels: &mut [[f32; 4]], charts: &[u32], size: usize, agreement: Agreement) {
    let Agreement {
        mut rows,
        mut system,
    } = agreement;
    let charted = Charted {
        texels,
        charts,
        size,
    };
    timed_in_pool("targets", || {
        for (level, rows) in rows.iter_mut().enumerate() {
            charted.aim(rows, level);
            unit();
        }
    });
    timed_in_pool("linearise", || system.look(texels, size, &rows));
    for (round, iterations) in ROUNDS.into_iter().enumerate() {
        let goodness = timed_in_pool("linearise", || {
            system.linearise(&rows, round > 0);
            system.begin(round > 0)
        });
        unit();
        timed_in_pool("agree", || {
            system.conjugate_gradients(goodness, iterations);
            system.step(round > 0);
        });
    }
    system.write(texels, size);
}

/// Anchor of each texel: the square of its observed weight, as the diagonal of the fit goes with the squares of its
/// weights.
fn anchors(at: &[u32], charts: &[u32], observed: &[f32], length: f32) -> Vec<f32> {
    // In blocks of texels: the same bits on any number of threads.
    let blocks = observed.par_chunks(BLOCK).zip(charts.par_chunks(BLOCK));
    let of_block = |(observed, charts): (&[f32], &[u32])| {
        let mut sums = (0.0, 0u64, 0u64);
        for (&weight, &chart) in observed.iter().zip(charts) {
            if chart != NO_CHART {
                sums.2 += 1;
                if weight > 0.0 {
                    sums = (sums.0 + f64::from(weight), sums.1 + 1, sums.2);
                }
            }
        }
        sums
    };
    let blocks: Vec<(f64, u64, u64)> = blocks.map(of_block).collect();
    let (sum, count, charted) =
        (blocks.into_iter()).fold((0.0, 0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
    let mean = (sum / count.max(1) as f64).max(f64::MIN_POSITIVE) as f32;
    let firm = FIRM * length / charted.max(1) as f32;
    let anchor = |&texel: &u32| {
        let texel = texel as usize;
        let least = if charts[texel] == NO_CHART {
            GUTTER
        } else {
            UNSEEN
        };
        least + firm * (observed[texel] / mean).min(1.0).powi(2)
    };
    at.par_iter().map(anchor).collect()
}
