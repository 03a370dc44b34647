//! Draws a sphere of 2 · 512 · 256 triangles into 1024² pixels, and finds the cells that its triangles touch.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::time::Instant;

use kiln_raster::{Hits, Scene, touched};

const COLUMNS: u32 = 512;
const ROWS: u32 = 256;
const EDGE: usize = 1024;

fn main() {
    let point = |k: u32| {
        let (column, row) = (k % (COLUMNS + 1), k / (COLUMNS + 1));
        let (turn, height) = (
            f64::from(column) / f64::from(COLUMNS) * std::f64::consts::TAU,
            f64::from(row) / f64::from(ROWS) * std::f64::consts::PI,
        );
        let (x, y) = (height.sin() * turn.cos(), height.cos());
        let z = 3.0 + height.sin() * turn.sin();
        [1000.0 * x + 512.0 * z, 1000.0 * y + 512.0 * z, z]
    };
    let corners: Vec<[f64; 3]> = (0..(COLUMNS + 1) * (ROWS + 1)).map(point).collect();
    let cell = |k: u32| {
        let at = k / COLUMNS * (COLUMNS + 1) + k % COLUMNS;
        let below = at + COLUMNS + 1;
        [[at, at + 1, below + 1], [at, below + 1, below]]
    };
    let triangles: Vec<[u32; 3]> = (0..COLUMNS * ROWS).flat_map(cell).collect();

    let begun = Instant::now();
    let scene = Scene::new(corners.clone(), &triangles, [EDGE; 2], 1);
    let mut hits = Hits::default();
    scene.draw(&scene.touching(0, EDGE), 0, EDGE, &mut hits);
    let seconds = begun.elapsed().as_secs_f64();
    let (samples, count) = (hits.triangles.len() as f64, triangles.len() as f64);
    println!(
        "draw: {:.1} Msamples/s, {:.1} Mtriangles/s",
        samples / seconds / 1e6,
        count / seconds / 1e6
    );

    let begun = Instant::now();
    let flat = |k: u32| [0, 1].map(|axis| corners[k as usize][axis] / corners[k as usize][2]);
    let rows = triangles
        .iter()
        .map(|t| touched(t.map(flat), [EDGE; 2], 1e-3).count());
    let rows: usize = rows.sum();
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "touched: {:.1} Mtriangles/s, {rows} rows",
        count / seconds / 1e6
    );
}
