//! Rows of a pool sorted into bins: each row with a box is in exactly one bin, its own.

use std::collections::BTreeSet;

use super::solve::{SIZE, job, random_texels};
use super::{ball, fit, options};
use crate::bake::gpu::layout::{ROW_BIN, ROW_BIN_MOST, box_of, row_bin_of};
use crate::bake::gpu::memory::OnDevice;
use crate::bake::solve::backend::Backend;

#[test]
fn each_row_with_a_box_is_in_the_row_bin_that_it_begins_in() {
    let scene = ball(24, SIZE);
    let Some((mut gpu, _)) = job(&scene, &options()) else {
        return;
    };
    gpu.write_texels(&random_texels(3)).expect("written");
    gpu.residuals().expect("residuals");
    let fit = fit(&gpu);
    let across = SIZE.div_ceil(ROW_BIN);
    let mut boxed = 0;
    for pool in fit.store.read(OnDevice::new(&fit.device, &fit.budget)) {
        let mut visited = vec![false; pool.rows.len()];
        for (in_subset, row_bins) in [(1, &pool.row_bins[0]), (0, &pool.row_bins[1])] {
            for patch in row_bins {
                assert!((1..=ROW_BIN_MOST).contains(&patch.counts), "{patch:?}");
                let first = patch.first_row as usize;
                let rows = first..first + patch.counts as usize;
                for (row, visited) in pool.rows[rows.clone()].iter().zip(&mut visited[rows]) {
                    assert!(!std::mem::replace(visited, true), "in one row_bin");
                    assert!(box_of(row.shape).is_some());
                    let row_bin = row_bin_of(row.shape);
                    assert_eq!(row.shape & 1, in_subset);
                    let corner = ROW_BIN * (row_bin / across * SIZE + row_bin % across);
                    assert_eq!(patch.first_texel, corner);
                }
            }
        }
        assert!(visited.iter().all(|visited| *visited), "in any row_bin");
        let places: BTreeSet<u32> = pool.rows.iter().map(|row| row.place).collect();
        assert_eq!(places.len(), pool.rows.len(), "a row once");
        boxed += pool.rows.len();
    }
    assert!(boxed > 1000, "{boxed}");
}
