//! Runs the benchmark on the repository's sample: checks that it measures, not what.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_bench");

fn bench(folder: &Path, more: &[&str]) -> (Output, Value) {
    let json = folder.join("bench.json");
    let output = Command::new(BENCH)
        .args(["--quality", "draft", "--json"])
        .arg(&json)
        .args(more)
        .args(["--", "--texture-size", "256", "--device", "cpu"])
        .output()
        .expect("bench runs");
    let text = fs::read_to_string(json).expect("bench.json");
    (output, serde_json::from_str(&text).expect("JSON"))
}

#[test]
fn the_sample_gets_a_row_measured_on_views_that_were_not_fitted() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("kept");
    let (output, json) = bench(folder.path(), &["--keep", &kept.to_string_lossy()]);
    assert!(output.status.success(), "{output:?}");
    let row = &json["rows"][0];
    assert_eq!(row["report"]["prepare"]["views"], 16);
    assert_eq!(row["report"]["prepare"]["holdout_views"], 6);
    let worst = row["report"]["encode"]["holdout"]
        .as_array()
        .expect("scores")
        .iter()
        .filter_map(|score| score["psnr_db"].as_f64())
        .fold(f64::INFINITY, f64::min);
    // Swapped cameras would leave about a dozen dB.
    assert!((25.0..60.0).contains(&worst), "{worst} dB");
    // The texture with its provenance alone, beside the resident memory of any one role.
    let largest = ["prepare", "bake", "encode"]
        .iter()
        .filter_map(|role| row["report"]["peak"][format!("{role}_rss_kib")].as_u64())
        .max()
        .expect("roles");
    let all = row["peak_all_kib"].as_u64().expect("sampled");
    assert!(
        (largest / 2..10 * largest).contains(&all),
        "{all} KiB in all, {largest} KiB in one role"
    );
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        table.contains("| spot |") && table.contains("held-out"),
        "{table}"
    );
    assert!(kept.join("spot-draft.glb").is_file());
}

#[test]
fn a_set_that_fails_is_a_row_with_its_reason_and_the_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/spot");
    let set = folder.path().join("cut");
    fs::create_dir(&set).expect("a folder");
    for name in ["transforms.json", "transforms_test.json"] {
        fs::copy(sample.join(name), set.join(name)).expect("a copy");
    }
    fs::write(set.join("mesh_nouv.glb"), "no mesh").expect("a file");
    let (output, json) = bench(folder.path(), &[&folder.path().to_string_lossy()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("failed: mesh_nouv.glb"), "{table}");
    let error = json["rows"][0]["error"].as_str().expect("an error");
    assert!(error.starts_with("mesh_nouv.glb"), "{error}");
}

#[test]
fn sizes_are_varied_with_input_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["--gpu", "--smallest", "--axes", "texture,faces,splats"];
    // From here on, `--` precedes the flags of a bake on the processor.
    let (output, json) = bench(folder.path(), &flags);
    assert!(output.status.success(), "{output:?}");
    let points = json["points"].as_array().expect("points");
    let axes: Vec<&str> = points
        .iter()
        .filter_map(|point| point["point"]["axis"].as_str())
        .collect();
    assert_eq!(axes, ["texture", "faces", "splats"]);
    for point in points {
        let measured = &point["measured"];
        // Views from the wrong side, or a displaced mesh, would leave about a dozen dB.
        let psnr = measured["psnr_db"].as_f64().expect("held-out views");
        assert!((22.0..60.0).contains(&psnr), "{psnr} dB");
        let whole = measured["whole_s"].as_f64().expect("seconds");
        let bake = measured["bake_s"].as_f64().expect("seconds");
        assert!(0.0 < bake && bake < whole, "{bake} of {whole} s");
        let steps = measured["host_steps"].as_array().expect("steps");
        assert!(
            steps.iter().any(|step| step["stage"] == "rows"),
            "{steps:?}"
        );
    }
}
