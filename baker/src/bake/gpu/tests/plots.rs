//! Rows of a pool sorted into bins: each row with a box is in exactly one bin, its own.

use std::collections::BTreeSet;

use super::solve::{SIZE, job, random_texels};
use super::{ball, options};
use crate::bake::backend::Backend;
use crate::bake::gpu::layout::{PLOT, PLOT_MOST, box_of, plot_of};

#[test]
fn each_row_with_a_box_is_in_the_plot_that_it_begins_in() {
    let scene = ball(24, SIZE);
    let Some((mut gpu, _)) = job(&scene, &options()) else {
        return;
    };
    gpu.write_texels(&random_texels(3)).expect("written");
    gpu.residuals().expect("residuals");
    let fit = gpu.fit.as_ref().expect("alive");
    let across = SIZE.div_ceil(PLOT);
    let mut boxed = 0;
    for pool in fit.pools.read(&fit.device, &fit.budget) {
        let mut visited = vec![false; pool.rows.len()];
        for (in_subset, plots) in [(1, &pool.plots[0]), (0, &pool.plots[1])] {
            for patch in plots {
                assert!((1..=PLOT_MOST).contains(&patch.counts), "{patch:?}");
                let first = patch.first_row as usize;
                let rows = first..first + patch.counts as usize;
                for (row, visited) in pool.rows[rows.clone()].iter().zip(&mut visited[rows]) {
                    assert!(!std::mem::replace(visited, true), "in one plot");
                    assert!(box_of(row.shape).is_some());
                    let plot = plot_of(row.shape);
                    assert_eq!(row.shape & 1, in_subset);
                    let corner = PLOT * (plot / across * SIZE + plot % across);
                    assert_eq!(patch.first_texel, corner);
                }
            }
        }
        assert!(visited.iter().all(|visited| *visited), "in any plot");
        let places: BTreeSet<u32> = pool.rows.iter().map(|row| row.place).collect();
        assert_eq!(places.len(), pool.rows.len(), "a row once");
        boxed += pool.rows.len();
    }
    assert!(boxed > 1000, "{boxed}");
}
