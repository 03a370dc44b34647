//! How long each pass takes on this machine: not a test, `cargo test --release -- --ignored --nocapture gpu::tests::timing`.

use std::time::Instant;

use proto::table::View;

use super::{ball, device, options, view};
use crate::bake::atlas::Atlas;
use crate::bake::backend::{Backend, Strength, Ties};
use crate::bake::gpu::{Gpu, Options};
use crate::bake::native::Native;

#[test]
#[ignore = "a measurement"]
#[expect(clippy::print_stdout, reason = "it is what the measurement is for")]
fn passes() {
    let number = |name: &str, default: u32| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (size, edge, count) = (
        number("TEXTURE", 1024),
        number("EDGE", 512),
        number("VIEWS", 10),
    );
    let taps = number("TAPS", 3);
    let scene = ball(70, size);
    let budget = u64::from(number("BUDGET_MIB", 8192)) << 20;
    let options = Options {
        taps,
        vram_budget: budget,
        binding_limit: None,
        ..options()
    };
    let atlas = Atlas::new(&scene);
    let ties = Ties {
        links: atlas.links,
        seams: atlas.seams,
    };
    let views: Vec<View> = (0..count)
        .map(|k| view(k, edge, edge, 3.0, f64::from(k) * 0.7))
        .collect();
    let start = Instant::now();
    let Some(device) = device() else { return };
    let gpu = Gpu::new(device, scene.clone(), &ties, None, &options).expect("a job");
    println!(
        "{} on {:?}: ready after {:?}",
        scene.triangles.len(),
        gpu.adapter(),
        start.elapsed()
    );
    let native = Native::new(scene.clone(), ties, taps, options.blend);
    let mut backends: Vec<Box<dyn Backend>> = vec![Box::new(gpu)];
    if number("NATIVE", 1) != 0 {
        backends.push(Box::new(native));
    }
    for backend in &mut backends {
        println!("{}", backend.adapter().name);
        let mut last = Instant::now();
        let mut lap = |what: &str| {
            println!("  {what}: {:.1} ms", last.elapsed().as_secs_f64() * 1e3);
            last = Instant::now();
        };
        let rows: u64 = views
            .iter()
            .map(|view| backend.add_view(view).expect("rows"))
            .sum();
        lap(&format!("{count} views, {rows} rows"));
        backend.average().expect("average");
        lap("average");
        let texels = backend.read_texels().expect("texels");
        lap("read texels");
        backend.write_texels(&texels).expect("texels");
        lap("write texels");
        backend.residuals().expect("residuals");
        lap("residuals");
        backend
            .reweight(
                &vec![0.1; count as usize],
                Strength {
                    smoothness: 0.01,
                    seam: 0.02,
                },
            )
            .expect("weights");
        lap("reweight");
        backend.solve(10).expect("solved");
        lap("10 iterations");
        println!("  peak {} MiB", backend.peak_memory() >> 20);
    }
}
