//! Lays out a sphere of 20,480 triangles, flattened and projected.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::time::{Duration, Instant};

use kiln_atlas::surface::icosphere;
use kiln_atlas::{AtlasError, Mesh, Pages, Silent, Work, patience, unwrap};

fn main() -> Result<(), AtlasError> {
    let (positions, triangles) = icosphere(5);
    let mesh = Mesh {
        positions: &positions,
        triangles: &triangles,
    };
    for (name, limit) in [
        ("flattened", patience(triangles.len())),
        ("projected", Duration::ZERO),
    ] {
        let begun = Instant::now();
        let atlas = unwrap(&mesh, (1024, Pages::ONE), limit, Work::FULL, &Silent)?;
        let (charts, share) = (atlas.charts, 100.0 * atlas.utilisation);
        println!(
            "{name}: {:.2?}, {charts} charts, {share:.1} %",
            begun.elapsed()
        );
    }
    Ok(())
}
