//! Draws balls of splats at 1024² and prints milliseconds a view: the mean and the least of all views. Then finds the
//! surface of one.

#![expect(clippy::print_stdout, reason = "a benchmark's result")]

use std::time::Instant;

use kiln_splat::{Cloud, Filter, Fineness, Splat, View, draw, extract};

const SPLATS: u32 = 400_000;
const VIEWS: u32 = 20;

/// A ball of radius ½; `form` gives scales and opacity of each splat.
fn ball(form: impl Fn(u32) -> ([f32; 3], f32)) -> Cloud {
    let mut cloud = Cloud::new(0);
    let golden = std::f64::consts::PI * (3.0 - 5.0_f64.sqrt());
    for k in 0..SPLATS {
        let z = 1.0 - (2.0 * f64::from(k) + 1.0) / f64::from(SPLATS);
        let across = (1.0 - z * z).sqrt();
        let angle = golden * f64::from(k);
        let (scales, opacity) = form(k);
        let splat = Splat {
            position: [across * angle.cos(), across * angle.sin(), z].map(|x| (0.5 * x) as f32),
            scales,
            rotation: [1.0, 0.3 * (k % 7) as f32, 0.1 * (k % 5) as f32, 0.0],
            opacity,
            constant: [z as f32, 0.0, -z as f32],
        };
        assert!(cloud.push(&splat, &[]), "a sound splat");
    }
    cloud
}

fn view(k: u32) -> View {
    let (sin, cos) = (f64::from(k) / f64::from(VIEWS) * std::f64::consts::TAU).sin_cos();
    let (sin, cos) = (sin as f32, cos as f32);
    View {
        rotation: [[cos, 0.0, -sin], [0.0, 1.0, 0.0], [sin, 0.0, cos]],
        translation: [0.0, 0.0, 2.0],
        focal: [1400.0; 2],
        centre: [512.0; 2],
        size: [1024, 1024],
    }
}

fn measure(name: &str, cloud: &Cloud) {
    let (mut shown, mut sum, mut least) = (0.0, 0.0, f64::INFINITY);
    for k in 0..VIEWS {
        let started = Instant::now();
        let picture = draw(cloud, &view(k), Filter::Mip(0.1), 0);
        let took = started.elapsed().as_secs_f64() * 1e3;
        sum += took;
        least = least.min(took);
        shown += picture.alpha.iter().sum::<f32>();
    }
    let each = sum / f64::from(VIEWS);
    println!(
        "{SPLATS} {name} splats, 1024 x 1024: {each:.1} ms a view, {least:.1} the least, {shown:.0} pixels shown"
    );
}

fn main() {
    measure("dense", &ball(|_| ([0.004, 0.003, 0.0005], 0.8)));
    // As captures are: about as large as their spacing, from faint to opaque.
    let opacity = |k: u32| 0.05 + 0.95 * (k % 1009) as f32 / 1008.0;
    let common = ball(|k| ([0.0018, 0.0012, 0.0003], opacity(k)));
    measure("common", &common);
    surface(&common);
}

fn surface(cloud: &Cloud) {
    let started = Instant::now();
    let fineness = Fineness {
        voxels: 400,
        views: 100,
    };
    let found = extract(cloud, Filter::Mip(0.1), fineness, &|_, _| ()).expect("a surface");
    let took = started.elapsed().as_secs_f64();
    println!(
        "the surface of the last, 400 voxels, 100 views: {took:.2} s, {} triangles",
        found.surface.triangles.len()
    );
}
