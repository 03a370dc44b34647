//! A fit narrowed to the subset of the rows, against [`super::reference`] over those rows alone, and against the native
//! backend.

use proto::job::{Blend, Memory};

use super::reference::System;
use super::solve::{
    SIZE, STRENGTH, double, job, largest_difference, random_texels, scarce, ties, views,
};
use super::{add, ball, begun, device, fit, no_rows, options, push, small};
use crate::bake::gpu::Gpu;
use crate::bake::model::links::{LINK_DOWN, LINK_RIGHT};
use crate::bake::model::rows::{Entry, Rows};
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::{Backend, Belief, Ties};
use crate::bake::solve::native::Native;

/// The rows of the subset alone, and the links and seam constraints between texels that they see.
fn narrowed(rows: &[Rows], ties: &Ties) -> (Vec<Rows>, Ties) {
    let mut seen = vec![false; (SIZE * SIZE) as usize];
    let mut few = Vec::new();
    for rows in rows {
        let mut kept = Rows {
            view: rows.view,
            ..no_rows()
        };
        for row in (0..rows.len()).filter(|&row| Window::whole(SIZE).row_in_subset(rows.row(row))) {
            for entry in rows.row(row) {
                seen[entry.texel as usize] = true;
            }
            let entries = rows.row(row).iter().copied();
            push(&mut kept, entries, rows.colours[row], rows.pixels[row]);
        }
        few.push(kept);
    }
    let mut cut = ties.clone();
    for (texel, links) in cut.links.iter_mut().enumerate() {
        for (link, other) in [(LINK_RIGHT, texel + 1), (LINK_DOWN, texel + SIZE as usize)] {
            if !seen[texel] || !seen.get(other).is_some_and(|seen| *seen) {
                *links &= !link;
            }
        }
    }
    cut.seams = no_rows();
    for row in 0..ties.seams.len() {
        let own = ties.seams.row(row);
        if own.iter().all(|entry| seen[entry.texel as usize]) {
            push(&mut cut.seams, own.iter().copied(), [0; 4], 0);
        }
    }
    (few, cut)
}

#[test]
fn narrowed_to_the_subset_the_other_rows_do_not_exist() {
    let scene = ball(24, SIZE);
    if device().is_none() {
        return;
    }
    for (options, streamed) in [(options(), false), (scarce(&scene, &small()), true)] {
        let (_, rows) = job(&scene, &options).expect("an adapter");
        // Seams between any texels, and some between texels that the subset sees.
        let mut all = ties(&scene);
        let (few, _) = narrowed(&rows, &all);
        for nth in 0..40 {
            let entry = |(place, weight): (usize, f32)| Entry {
                texel: few[1].entries[(nth * 31 + place) % few[1].entries.len()].texel,
                weight,
            };
            let entries = [(0, 1.0), (97, -1.0)].map(entry);
            push(&mut all.seams, entries, [0; 4], 0);
        }
        let (few, cut) = narrowed(&rows, &all);
        assert!((40..100).contains(&cut.seams.len()), "{}", cut.seams.len());
        let count = |rows: &[Rows]| rows.iter().map(Rows::len).sum::<usize>() as f64;
        let share = count(&few) / count(&rows);
        assert!((0.05..0.25).contains(&share), "{share} of the rows");
        let tied = || {
            let mut gpu = begun(&scene, &all, &options).expect("an adapter");
            add(&mut gpu, &views());
            gpu
        };
        let mut gpu = tied();
        let texels = random_texels(21);
        let trust = [0.4, 0.6, f32::INFINITY].map(Belief::from);
        let solve = |gpu: &mut Gpu| {
            gpu.write_texels(&texels).expect("written");
            gpu.reweight(&trust, STRENGTH).expect("weighed");
            gpu.solve(4).expect("solved");
            gpu.read_texels().expect("texels")
        };
        let before = solve(&mut gpu);
        assert_eq!(fit(&gpu).store.streamed(), streamed);
        gpu.narrow(true).expect("narrowed");
        assert!(gpu.solve(1).is_err(), "no row has a weight");
        let mut gpu = tied();
        gpu.narrow(true).expect("narrowed");
        let ours = solve(&mut gpu);
        let counted: Vec<u64> = (gpu.residuals().expect("residuals").iter())
            .map(|view| view.rows)
            .collect();
        assert!(
            counted
                .iter()
                .copied()
                .eq(few.iter().map(|rows| rows.len() as u64))
        );
        let mut theirs = double(&texels);
        let start = theirs.clone();
        System::new(&few, &cut, Blend::Linear, &start, &trust, STRENGTH).solve(&mut theirs, 4);
        let largest = largest_difference(&ours, &theirs);
        assert!(largest <= 3e-4, "{largest}");
        let moved = ours
            .iter()
            .zip(&texels)
            .filter(|(a, b)| a[..3] != b[..3])
            .count();
        assert!((2000..40_000).contains(&moved), "{moved} texels");
        gpu.narrow(false).expect("widened");
        assert!(solve(&mut gpu) == before, "all rows are there again");
    }
}

#[test]
fn both_adapters_narrow_to_the_same_rows() {
    let scene = ball(24, SIZE);
    let Some((gpu, _)) = job(&scene, &options()) else {
        return;
    };
    let taps = options().taps;
    let mut native = Native::new(
        scene.clone(),
        ties(&scene),
        taps,
        Blend::Linear,
        Memory::Full,
    );
    add(&mut native, &views());
    let start = random_texels(4);
    let fitted = |mut backend: Box<dyn Backend>| {
        backend.narrow(true).expect("narrowed");
        backend.write_texels(&start).expect("written");
        let residuals = backend.residuals().expect("residuals");
        let trust = vec![Belief::from(0.4); residuals.len()];
        backend.reweight(&trust, STRENGTH).expect("weights");
        backend.solve(5).expect("solved");
        (residuals, backend.read_texels().expect("texels"))
    };
    let (ours, theirs) = (fitted(Box::new(gpu)), fitted(Box::new(native)));
    for (one, other) in ours.0.iter().zip(&theirs.0) {
        // A few pixels on edges have a row on one side only.
        assert!(
            one.rows.abs_diff(other.rows) <= 2,
            "{} {}",
            one.rows,
            other.rows
        );
        assert!(one.rows > 50);
    }
    let (mut off, mut moved) = (0, [0; 2]);
    for ((a, b), start) in ours.1.iter().zip(&theirs.1).zip(&start) {
        // Weights in a box have steps of 2⁻¹⁶ on one side only.
        off += u32::from((0..3).any(|c| (a[c] - b[c]).abs() > 2e-3));
        moved[0] += u32::from(a[..3] != start[..3]);
        moved[1] += u32::from(b[..3] != start[..3]);
    }
    assert!(
        moved[0] > 2000 && moved[0].abs_diff(moved[1]) < 40,
        "{moved:?}"
    );
    assert!(off < 60, "{off} texels differ");
}
