//! Gaussian splats as views: splats on a body, baked onto a mesh of that body. Held-out views tell whether the colours lie
//! where they belong, since a wrong frame, axis or side gives 10 dB.

use std::fs;

use kiln_tests::shapes::{Shape, icosphere};
use kiln_tests::splats::{self, Splat, ply};
use kiln_tests::vulkan::LLVMPIPE;
use kiln_tests::{Bench, Outcome, Run, glb, number, words};
use serde_json::Value;

/// A body that no turn and no mirror maps onto itself.
fn body(times: u32) -> Shape {
    icosphere(times).map(|[x, y, z]| {
        let bump = 0.5 * (x + y - 0.4).max(0.0);
        [x + 0.3 * bump, 0.6 * y + bump, 0.35 * z + 0.5 * bump * bump]
    })
}

/// Standard deviation of splats that show details, and of those that leave no gaps.
const SMALL: f32 = 0.012;
const DENSE: f32 = 0.025;

/// Splats at the vertices of the body, coloured by their place.
fn splats(scale: f32, shine: Option<f32>) -> Vec<u8> {
    let degree = u32::from(shine.is_some());
    ply(&on_body(scale), degree, shine.unwrap_or(0.0))
}

fn on_body(scale: f32) -> Vec<Splat> {
    let splat = |at: [f32; 3]| Splat {
        at,
        scale,
        constant: at.map(|along| 1.5 * (4.0 * along).sin()),
    };
    body(5).positions.into_iter().map(splat).collect()
}

/// Bakes splats onto the body, or onto another mesh.
fn bake(bench: &Bench, mesh: &Shape, splats: &[u8], more: &[&str]) -> Outcome {
    fs::write(bench.path("body.ply"), mesh.ply()).expect("room");
    fs::write(bench.path("splats.ply"), splats).expect("room");
    let common = [
        "--quality",
        "draft",
        "--texture-size",
        "512",
        "--splat-views",
        "24",
        "--holdout",
        "4",
        "-o",
        "out/a.glb",
    ];
    bench.baked("body.ply", "splats.ply", &[&common, more].concat())
}

fn holdout(report: &Value) -> f64 {
    number(&report["psnr"]["holdout_db"])
}

#[test]
fn splats_are_baked_onto_their_mesh() {
    let bench = Bench::real();
    let outcome = bake(&bench, &body(4), &splats(SMALL, None), &[]);
    let report = outcome.report();
    assert!(holdout(&report) > 27.0, "{} dB", holdout(&report));
    let (prepare, splats) = (&report["prepare"], &report["prepare"]["splats"]);
    assert_eq!(
        (&prepare["views"], &prepare["holdout_views"]),
        (&20.into(), &4.into())
    );
    assert_eq!(splats["splats"], 10_242);
    assert_eq!(splats["filter"], "classic:0.3");
    assert_eq!(splats["reason"], "it names none");
    assert_eq!(report["options"]["blend"], "srgb");
    assert_eq!(report["options"]["refine"], "off");
    assert_eq!(outcome.all("warning"), Vec::<&Value>::new());
}

#[test]
fn an_adapter_draws_what_the_processor_draws() {
    let bench = Bench::real();
    fs::write(bench.path("body.ply"), body(3).ply()).expect("room");
    fs::write(bench.path("splats.ply"), splats(SMALL, Some(0.1))).expect("room");
    let few = "--quality draft --texture-size 256 --splat-views 8 --holdout 2 -o out/a.glb";
    let drawn = |more: &[&str]| {
        let options = [&words(few), more].concat();
        let report = bench.baked("body.ply", "splats.ply", &options).report();
        let stages = report["bake"]["host_times"].as_array().expect("stages");
        let views = stages
            .iter()
            .find(|stage| stage["stage"] == "views of splats");
        assert_eq!(views.expect("drawn in the bake")["count"], 6);
        let device = report["device"]["name"].as_str().expect("a name");
        (device.to_owned(), holdout(&report))
    };
    let (_, processor) = drawn(&["--device", "cpu"]);
    assert!(processor > 18.0, "{processor} dB");
    // A budget that does not hold the splats leaves them to the processor.
    for more in [
        &["--device", LLVMPIPE][..],
        &["--device", LLVMPIPE, "--vram-budget", "24M"],
    ] {
        let (device, adapter) = drawn(more);
        assert!(device.contains(LLVMPIPE), "{device}");
        assert!(
            (adapter - processor).abs() < 0.1,
            "{adapter} dB, {processor} dB"
        );
    }
}

#[test]
fn a_mesh_in_another_frame_is_found_among_its_splats() {
    let bench = Bench::real();
    // As TRELLIS' PLY lies to its GLB, and in centimetres.
    let turned = body(4).map(|[x, y, z]| [100.0 * x, -100.0 * y, -100.0 * z]);
    let outcome = bake(&bench, &turned, &splats(SMALL, None), &[]);
    let report = outcome.report();
    assert!(holdout(&report) > 27.0, "{} dB", holdout(&report));
    let told = outcome.all("warning");
    assert!(
        told.iter().any(|warning| warning
            .to_string()
            .contains("in another frame than the mesh")),
        "{told:?}"
    );
    // The oracle tells: as given, the colours are elsewhere.
    let turned = body(4).map(|[x, y, z]| [x, -y, -z]);
    let report = bake(&bench, &turned, &splats(SMALL, None), &["--frame", "given"]).report();
    assert!(holdout(&report) < 25.0, "{} dB", holdout(&report));
}

#[test]
fn splats_alone_become_a_mesh() {
    let bench = Bench::real();
    fs::write(bench.path("splats.ply"), splats(DENSE, None)).expect("room");
    let mut command = bench.command(&words("bake splats.ply -o out/a.glb --device cpu --json"));
    command.args(words(
        "--quality draft --texture-size 512 --splat-views 24 --holdout 4",
    ));
    let outcome = Run::start(command).finish();
    let report = outcome.report();
    assert!(holdout(&report) > 26.0, "{} dB", holdout(&report));
    let triangles = report["prepare"]["triangles"].as_u64().expect("a number");
    assert!((20_000..=30_000).contains(&triangles), "{triangles}");
    let found = glb::Model::open(&bench.path("out/a.glb")).floats::<3>("POSITION");
    let truth = body(5).positions;
    let near = |at: &[f64; 3]| {
        let squares = truth.iter().map(|to| {
            (0..3)
                .map(|k| (f64::from(to[k]) - at[k]).powi(2))
                .sum::<f64>()
        });
        squares.fold(f64::INFINITY, f64::min).sqrt()
    };
    let some: Vec<f64> = found.iter().step_by(10).map(near).collect();
    let mean = some.iter().sum::<f64>() / some.len() as f64;
    assert!(mean < 0.03, "{mean} off");
    // A mesh brings no views.
    for (name, code) in [("body.obj", 64), ("body.glb", 64), ("body.ply", 65)] {
        fs::write(bench.path(name), body(1).ply()).expect("room");
        let mut command = bench.command(&words("bake -o out/b.glb --json"));
        command.arg(name);
        let outcome = Run::start(command).finish();
        outcome.assert_code(code);
        let error = outcome.one("error");
        let told = format!("{} {}", error["message"], error["hint"]);
        assert!(told.contains("--views"), "{told}");
    }
}

#[test]
fn splats_in_a_glb_are_those_of_their_ply() {
    let bench = Bench::real();
    fs::write(bench.path("body.ply"), body(4).ply()).expect("room");
    let fine = "--quality draft --texture-size 512 --splat-views 24 --holdout 4 --frame given";
    let baked = |views: &str, output: &str| {
        let given = format!("{fine} -o out/{output}");
        let outcome = bench.baked("body.ply", views, &words(&given));
        holdout(&outcome.report())
    };
    fs::write(bench.path("splats.ply"), splats(SMALL, None)).expect("room");
    fs::write(bench.path("splats.glb"), splats::glb(&on_body(SMALL))).expect("room");
    let [of_ply, of_glb] = [baked("splats.ply", "a.glb"), baked("splats.glb", "b.glb")];
    assert!(
        of_ply > 27.0 && (of_ply - of_glb).abs() < 0.1,
        "{of_ply} dB, {of_glb} dB"
    );
    // Alone, they are the mesh, too.
    fs::write(bench.path("dense.glb"), splats::glb(&on_body(DENSE))).expect("room");
    let mut command = bench.command(&words("bake dense.glb -o out/c.glb --device cpu --json"));
    command.args(words(fine));
    let report = Run::start(command).finish().report();
    assert!(holdout(&report) > 26.0, "{} dB", holdout(&report));
    let triangles = report["prepare"]["triangles"].as_u64().expect("a number");
    assert!((20_000..=30_000).contains(&triangles), "{triangles}");
}

#[test]
fn harmonics_and_filters_are_chosen() {
    let bench = Bench::real();
    let shiny = splats(SMALL, Some(0.25));
    let [seen, constant] = ["view", "0"].map(|sh| {
        let report = bake(&bench, &body(4), &shiny, &["--sh", sh]).report();
        number(&report["psnr"]["train_db"])
    });
    assert!(
        constant > seen + 3.0,
        "{constant} dB without highlights, {seen} with them"
    );
    let report = bake(&bench, &body(4), &shiny, &["--splat-filter", "mip:0.1"]).report();
    let splats = &report["prepare"]["splats"];
    assert_eq!(
        (&splats["filter"], &splats["degree"]),
        (&"mip:0.1".into(), &1.into())
    );
    assert_eq!(splats["reason"], "it was asked for");
}

#[test]
fn what_holds_no_splats_is_refused_in_one_line() {
    let bench = Bench::real();
    let whole = splats(SMALL, None);
    let mut nowhere = whole.clone();
    let head = nowhere
        .windows(11)
        .position(|bytes| bytes == b"end_header\n")
        .expect("a header")
        + 11;
    nowhere[head..].fill(0xff);
    for (splats, said) in [
        (body(3).ply(), "has no Gaussian splats"),
        (whole[..whole.len() / 2].to_vec(), "splats.ply: "),
        (
            nowhere,
            "has no splat that can be drawn: 10242 have numbers without a meaning",
        ),
        (b"{}".to_vec(), "has no Gaussian splats"),
    ] {
        let refusal = bake(&bench, &body(3), &splats, &[]).refusal(65);
        assert!(
            refusal.contains(said) && !refusal.contains('\n'),
            "{refusal}"
        );
    }
}
