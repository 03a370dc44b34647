//! A file size limit (`ulimit -f`) gives one clear line and 74, and the old file stays whole.

use std::fs;

use kiln_tests::host::after;
use kiln_tests::{Bench, Run};

const OLD: &str = "the old model";

#[test]
fn a_file_larger_than_this_user_may_write_is_one_line_with_74() {
    let bench = Bench::sphere();
    let mut codes = Vec::new();
    // In the shell's blocks of 512 or 1024 bytes: from next to nothing to enough.
    for blocks in ["200", "400", "800", "1600", "200000"] {
        fs::write(bench.path("out/out.glb"), OLD).expect("room");
        let cheap = ["--quality", "draft", "--texture-size", "512"];
        let bake = bench.bake_for_real("mesh.obj", ".", &cheap);
        let outcome = Run::start(after(&format!("ulimit -S -f {blocks}"), &bake)).finish();
        codes.push(outcome.code);
        let model = bench.bytes("out/out.glb").expect("there");
        if outcome.code == Some(0) {
            assert!(model.starts_with(b"glTF"));
            continue;
        }
        outcome.assert_code(74);
        assert_eq!(model, OLD.as_bytes());
        let error = outcome.one("error");
        let told = error["message"].as_str().expect("text").to_owned()
            + error["hint"].as_str().expect("text");
        assert!(told.contains("ulimit -f"), "{told}");
    }
    assert_eq!(codes.last(), Some(&Some(0)), "{codes:?}");
    assert!(codes.contains(&Some(74)), "{codes:?}");
}
