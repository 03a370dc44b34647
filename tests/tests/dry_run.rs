//! `kiln bake --dry-run` against the real bake: device memory, cached and redrawn rows, errors; it writes no file.

use kiln_tests::picture::Picture;
use kiln_tests::vulkan::LLVMPIPE;
use kiln_tests::{Bench, Outcome, Run, number, sample, words};
use serde_json::Value;

/// Rows are counted in some of the views, and pools are made whole.
const OFF: f64 = 0.03;

fn bake(bench: &Bench, more: &[&str]) -> Outcome {
    let draft = match more.contains(&"--texture-size") {
        true => vec!["--quality", "draft"],
        false => vec!["--quality", "draft", "--texture-size", "256"],
    };
    let (mesh, views) = (sample("mesh_nouv.glb"), sample("transforms.json"));
    bench.baked(mesh, views, &[&draft[..], more].concat())
}

fn report(bench: &Bench, more: &[&str]) -> Value {
    bake(bench, more).report()
}

fn near(what: &str, planned: &Value, baked: &Value) {
    let (planned, baked) = (number(planned), number(baked));
    assert!(
        (planned - baked).abs() <= OFF * baked,
        "{what}: {planned} planned, {baked} baked"
    );
}

/// Plans, bakes and compares; returns the plan's report.
fn agree(bench: &Bench, more: &[&str]) -> Value {
    let planned = report(bench, &[more, &["--dry-run"]].concat());
    assert_eq!(bench.outputs(), [""; 0], "a dry run makes nothing");
    assert!(planned["bake"].is_null() && planned["encode"].is_null());
    let baked = report(bench, more);
    let (plan, bake) = (&planned["plan"], &baked["bake"]);
    assert_eq!(plan["adapter"], bake["adapter"], "{more:?}");
    near(
        "peak_vram_kib",
        &plan["peak_vram_kib"],
        &bake["peak_vram_kib"],
    );
    near("rows", &plan["rows"]["rows"], &bake["rows"]["rows"]);
    near("rows kept", &plan["rows"]["kept"], &bake["rows"]["kept"]);
    for count in ["views", "parts"] {
        assert_eq!(plan["rows"][count], bake["rows"][count], "{count}");
    }
    let redrawn = ["plan", "bake"].map(|which| {
        let rows = if which == "plan" { plan } else { bake };
        number(&rows["rows"]["views_redrawn"])
    });
    assert!((redrawn[0] - redrawn[1]).abs() <= 1.0, "{redrawn:?} views");
    let buffers = plan["buffers"].as_array().expect("a list");
    let bytes: f64 = buffers.iter().map(|group| number(&group["bytes"])).sum();
    assert!(
        (bytes / 1024.0 - number(&plan["peak_vram_kib"])).abs() <= 1.0,
        "{buffers:#?}"
    );
    std::fs::remove_file(bench.path("out/out.glb")).expect("the bake made it");
    planned
}

#[test]
fn a_plan_for_the_processor_counts_its_rows_and_makes_nothing() {
    let bench = Bench::real();
    let planned = agree(&bench, &["--device", "cpu"]);
    assert_eq!(planned["plan"]["peak_vram_kib"], 0);
    assert_eq!(planned["plan"]["rows"]["views_redrawn"], 0);
    let seconds = planned["plan"]["seconds"].as_array().expect("a list");
    let seconds = seconds.iter().map(|phase| number(&phase["seconds"]));
    assert!(seconds.sum::<f64>() > 0.0);
}

#[test]
fn a_plan_for_an_adapter_is_what_its_bake_then_takes() {
    let bench = Bench::real();
    let planned = agree(&bench, &["--device", LLVMPIPE]);
    assert_eq!(planned["plan"]["rows"]["views_redrawn"], 0);
}

#[test]
fn a_plan_within_a_budget_tells_of_the_parts_of_the_texture() {
    let bench = Bench::real();
    // What tiles come to varies by more than is planned with, so of seven small pools that are needed eight may be made: at 18M
    // they are, from 20M to 28M plan and bake agree to a hundredth, and above all fits.
    let planned = agree(&bench, &["--device", LLVMPIPE, "--vram-budget", "24M"]);
    let rows = &planned["plan"]["rows"];
    assert!(number(&rows["parts"]) > 1.0, "{rows}");
}

#[test]
fn what_does_not_fit_ends_as_its_bake_would() {
    let bench = Bench::real();
    let (size, budget) = (["--texture-size", "4096"], ["--vram-budget", "16M"]);
    let little = [&["--device", LLVMPIPE][..], &size, &budget].concat();
    let ends = [&little[..], &[&little[..], &["--dry-run"]].concat()].map(|more| {
        let outcome = bake(&bench, more);
        let error = outcome.one("error");
        let what = ["code", "message", "hint"].map(|key| error[key].to_string());
        (outcome.code, what)
    });
    assert_eq!(ends[0], ends[1]);
    assert!(ends[0].1[0].contains("out_of_device_memory"), "{ends:?}");
    assert_eq!(bench.outputs(), [""; 0]);
}

#[test]
fn people_see_a_table_and_need_no_output() {
    let bench = Bench::real();
    let mut command = bench.command(&words("bake --quality draft --dry-run"));
    command.args(["--device", LLVMPIPE]);
    command.arg(sample("mesh_nouv.glb"));
    command.arg("--views").arg(sample("transforms.json"));
    let outcome = Run::start(command).finish();
    outcome.assert_code(0);
    for words in [
        "llvmpipe",
        "texture 1024×1024",
        "planes of the texture",
        "largest at once",
        "all stay",
        "host memory",
        "fitting the texture",
    ] {
        let told = outcome.stdout.iter().any(|line| line.contains(words));
        assert!(told, "{words} in {:#?}", outcome.stdout);
    }
    assert_eq!(bench.outputs(), [""; 0]);
}

#[test]
fn the_preview_of_a_dry_run_is_the_outline_of_the_mesh_over_views() {
    let bench = Bench::real();
    let sheet = bench.path("out/sheet.png");
    let more = ["--dry-run", "--device", "cpu", "--preview"];
    let outcome = bake(
        &bench,
        &[&more[..], &[sheet.to_str().expect("text")]].concat(),
    );
    outcome.assert_code(0);
    assert_eq!(bench.outputs(), ["sheet.png"]);
    let sheet = Picture::read(&sheet);
    let pixels = || sheet.bytes.chunks_exact(sheet.width());
    let of = |colour: [u8; 3]| pixels().filter(|pixel| pixel[..3] == colour).count();
    // Grey lies behind what is transparent: most of nine views of 256 x 256 pixels.
    let (outline, behind) = (of([255, 190, 0]), of([128; 3]));
    let all = pixels().len();
    assert!(outline > 2_000 && outline < all / 20, "{outline} of {all}");
    assert!(behind > 9 * 256 * 256 / 2, "{behind} of {all}");
}
