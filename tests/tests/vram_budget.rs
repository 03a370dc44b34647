//! `--vram-budget` on a Vulkan adapter: a texture that does not fit is fitted in subdomains, within the budget and
//! nearly as well. A budget too small for any subdomain is refused with an explanation.

use kiln_tests::{Bench, Outcome, adapter, sample, words};
use serde_json::Value;

fn bake(bench: &Bench, more: &[&str]) -> Outcome {
    let all = words("--quality draft --holdout 2 --gpu-times --device");
    let adapter = adapter();
    let more = [&all, &[adapter.as_str()][..], more].concat();
    bench.baked(sample("mesh_nouv.glb"), sample("transforms.json"), &more)
}

/// Peak memory in MiB, held-out PSNR in dB, and number of subdomains.
fn figures(report: &Value) -> (f64, f64, u64) {
    let vram = report["bake"]["peak_vram_kib"].as_f64().expect("memory") / 1024.0;
    let psnr = report["psnr"]["holdout_db"].as_f64().expect("held out");
    let rows = &report["bake"]["rows"];
    assert_eq!(rows["rows"], rows["kept"], "none is drawn for every pass");
    (vram, psnr, rows["parts"].as_u64().expect("a count"))
}

#[test]
fn a_texture_that_does_not_fit_the_budget_is_fitted_in_parts_nearly_as_well() {
    let bench = Bench::real();
    let run = |more: &[&str]| {
        let outcome = bake(&bench, &[&["--texture-size", "512"], more].concat());
        figures(&outcome.report())
    };
    let (plenty, psnr, at_once) = run(&[]);
    // The texture's planes take 30 MiB, which leaves nothing for rows.
    let (little, in_parts, parts) = run(&["--vram-budget", "28M"]);
    assert!(plenty > 28.0 && little <= 28.0, "{plenty} and {little} MiB");
    assert!(at_once == 0 && parts > 1, "{at_once}, {parts} parts");
    assert!((psnr - in_parts).abs() < 0.3, "{psnr} and {in_parts} dB");
}

#[test]
fn a_budget_that_no_part_fits_is_refused_with_a_hint() {
    let bench = Bench::real();
    let flags = words("--texture-size 4096 --vram-budget 16M --fallback same-plan");
    let outcome = bake(&bench, &flags);
    let error = outcome.one("error");
    assert_eq!(error["code"], "out_of_device_memory", "{error}");
    let hint = error["hint"].as_str().unwrap_or_default();
    assert!(hint.contains("--vram-budget"), "{error}");
}
