//! `--vram-budget` on a Vulkan adapter: rows that do not fit are drawn again for every pass, within the budget and with the same
//! quality; a budget that not even the texture fits is refused in words.

use kiln_tests::{Bench, Outcome, Run};
use serde_json::Value;

const SABOTEUR: &str = env!("CARGO_BIN_EXE_saboteur");
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/spot");

fn bake(bench: &Bench, more: &[&str]) -> Outcome {
    let adapter = std::env::var("KILN_TEST_ADAPTER").unwrap_or_else(|_unset| "llvmpipe".to_owned());
    let mut command = bench.kiln();
    command
        .arg("bake")
        .arg(format!("{SAMPLE}/mesh_nouv.glb"))
        .args(["--views", &format!("{SAMPLE}/transforms.json")])
        .args(["-o", "out.glb", "--json", "--quality", "draft"])
        .args(["--holdout", "2", "--gpu-times", "--device", &adapter])
        .arg("--baker")
        .arg(bench.baker())
        .args(more);
    Run::start(command).finish()
}

/// Largest memory in MiB, held-out PSNR in dB, and how often a tile was drawn.
fn figures(report: &Value) -> (f64, f64, u64) {
    let vram = report["bake"]["peak_vram_kib"].as_f64().expect("memory") / 1024.0;
    let psnr = report["psnr"]["holdout_db"].as_f64().expect("held out");
    let stages = report["bake"]["gpu_times"].as_array().expect("stages");
    // Every tile has one, by whichever raster.
    let drawn = stages.iter().find(|stage| stage["stage"] == "footprint");
    let count = drawn.expect("tiles are drawn")["count"].as_u64();
    (vram, psnr, count.expect("a count"))
}

#[test]
fn rows_beyond_the_budget_are_drawn_again_and_the_result_is_as_good() {
    let bench = Bench::real(SABOTEUR);
    let run = |more: &[&str]| {
        let outcome = bake(&bench, &[&["--texture-size", "256"], more].concat());
        outcome.assert_code(0);
        figures(&outcome.one("done")["report"])
    };
    let (plenty, psnr, once) = run(&[]);
    let (little, streamed_psnr, again) = run(&["--vram-budget", "16M"]);
    assert!(plenty > 16.0 && little <= 16.0, "{plenty} and {little} MiB");
    assert!(
        again > 4 * once,
        "{once} tiles, then {again}: nothing was drawn again"
    );
    // Smaller tiles have other offsets to their cameras, so the bytes differ.
    assert!(
        (psnr - streamed_psnr).abs() < 0.2,
        "{psnr} and {streamed_psnr} dB"
    );
}

#[test]
fn a_budget_that_the_texture_does_not_fit_is_refused_with_a_hint() {
    let bench = Bench::real(SABOTEUR);
    let flags = [
        "--texture-size",
        "1024",
        "--vram-budget",
        "16M",
        "--fallback",
        "same-plan",
    ];
    let outcome = bake(&bench, &flags);
    let error = outcome.one("error");
    assert_eq!(error["code"], "out_of_device_memory", "{error}");
    let hint = error["hint"].as_str().unwrap_or_default();
    assert!(hint.contains("--vram-budget"), "{error}");
}
