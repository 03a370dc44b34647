//! Splats on a body whose surface is known → the surface that is found, both ways.

use std::collections::HashMap;

use kiln_splat::{Cloud, Filter, Fineness, Splat, around, extract};

/// Radii of the body along its axes.
const RADII: [f64; 3] = [0.5, 0.35, 0.2];
const SPLATS: usize = 20_000;
const FINENESS: Fineness = Fineness {
    voxels: 80,
    views: 60,
};

/// Flat splats on an ellipsoid, and a few floaters far from it.
fn cloud() -> Cloud {
    let mut cloud = Cloud::new(0);
    let mut push = |at: [f64; 3], normal: [f64; 3], scale: f32| {
        // The quaternion that turns z to the normal.
        let length = normal.iter().map(|x| x * x).sum::<f64>().sqrt();
        let [x, y, z] = normal.map(|x| x / length);
        let splat = Splat {
            position: at.map(|x| x as f32),
            scales: [scale, scale, 0.0002],
            rotation: [1.0 + z, -y, x, 0.0].map(|q| (q + 1e-9) as f32),
            opacity: 0.9,
            constant: [0.0; 3],
        };
        assert!(cloud.push(&splat, &[]), "a sound splat");
    };
    for k in 0..SPLATS {
        let direction = around(k, SPLATS);
        let at = std::array::from_fn(|k| RADII[k] * direction[k]);
        push(at, std::array::from_fn(|k| direction[k] / RADII[k]), 0.008);
    }
    for k in 0..6 {
        push(around(k, 6).map(|x| 3.0 * x), [0.0, 0.0, 1.0], 0.05);
    }
    cloud
}

/// Distance of a point from the ellipsoid, to the first order.
fn distance(at: [f32; 3]) -> f64 {
    let scaled: [f64; 3] = std::array::from_fn(|k| f64::from(at[k]) / RADII[k]);
    let value = scaled.iter().map(|x| x * x).sum::<f64>();
    let slope: f64 = (0..3).map(|k| (2.0 * scaled[k] / RADII[k]).powi(2)).sum();
    ((value - 1.0) / slope.sqrt()).abs()
}

#[test]
fn the_surface_of_splats_is_theirs() {
    let found = extract(&cloud(), Filter::Classic(0.3), FINENESS, &|_, _| ()).expect("a surface");
    let surface = &found.surface;
    let voxel = 2.0 * RADII[0] / FINENESS.voxels as f64;
    let off = surface.positions.iter().map(|at| distance(*at) / voxel);
    let (sum, most) = off.fold((0.0, 0.0_f64), |(sum, most), off| {
        (sum + off, most.max(off))
    });
    let mean = sum / surface.positions.len() as f64;
    assert!(
        mean < 0.5 && most < 3.0,
        "{mean} voxels off, {most} at most"
    );
    // The other way: each place of the body has a corner near.
    let mut cells: HashMap<[i32; 3], Vec<[f32; 3]>> = HashMap::new();
    let cell = |at: [f64; 3]| at.map(|x| (x / (2.0 * voxel)).floor() as i32);
    for at in &surface.positions {
        cells.entry(cell(at.map(f64::from))).or_default().push(*at);
    }
    for k in 0..500 {
        let direction = around(k, 500);
        let at: [f64; 3] = std::array::from_fn(|k| RADII[k] * direction[k]);
        let home = cell(at);
        let around = (0..27).map(|n| {
            [
                home[0] + n % 3 - 1,
                home[1] + n / 3 % 3 - 1,
                home[2] + n / 9 - 1,
            ]
        });
        let near = around.filter_map(|cell| cells.get(&cell)).flatten();
        let away = |to: &[f32; 3]| {
            (0..3)
                .map(|k| (f64::from(to[k]) - at[k]).powi(2))
                .sum::<f64>()
                .sqrt()
        };
        let nearest = near.map(away).fold(f64::INFINITY, f64::min);
        assert!(nearest < 1.5 * voxel, "{at:?}: {} voxels", nearest / voxel);
    }
    // Closed: each edge is used once each way.
    let mut edges: HashMap<[u32; 2], [u32; 2]> = HashMap::new();
    for triangle in &surface.triangles {
        for k in 0..3 {
            let [a, b] = [triangle[k], triangle[(k + 1) % 3]];
            edges.entry([a.min(b), a.max(b)]).or_default()[usize::from(a < b)] += 1;
        }
    }
    assert!(edges.values().all(|ways| *ways == [1, 1]));
}

#[test]
fn what_is_clear_has_no_surface() {
    let mut clear = cloud();
    clear
        .opacities
        .iter_mut()
        .for_each(|opacity| *opacity = 0.01);
    assert!(extract(&clear, Filter::Classic(0.3), FINENESS, &|_, _| ()).is_none());
    assert!(extract(&Cloud::new(0), Filter::Classic(0.3), FINENESS, &|_, _| ()).is_none());
}

#[test]
fn splats_that_have_no_place_for_voxels_have_no_surface() {
    let splat = |at: [f32; 3], scale: f32, opacity: f32| Splat {
        position: at,
        scales: [scale; 3],
        rotation: [1.0, 0.0, 0.0, 0.0],
        opacity,
        constant: [0.0; 3],
    };
    for (what, splats) in [
        ("none", vec![]),
        ("clear", vec![splat([0.0; 3], 1.0, 0.05)]),
        (
            "too small for their place",
            vec![splat([1e6; 3], 1e-3, 0.9)],
        ),
        (
            "beyond all numbers",
            vec![
                splat([-3e38, 0.0, 0.0], 1.0, 0.9),
                splat([3e38, 0.0, 0.0], 1.0, 0.9),
            ],
        ),
    ] {
        let mut cloud = Cloud::new(0);
        for splat in &splats {
            assert!(cloud.push(splat, &[]), "a sound splat");
        }
        let found = extract(&cloud, Filter::Classic(0.3), FINENESS, &|_, _| ());
        assert_eq!(found, None, "{what}");
    }
}
