//! The ladder's rungs with the real worker: less memory, then vertex colours, and no further than allowed.

use kiln_tests::glb::Model;
use kiln_tests::sphere::ARGUMENTS;
use kiln_tests::{Bench, Outcome, Run};
use serde_json::json;

/// The first so many bakes have no memory left in the midst of their fit.
fn bake(short: u32, more: &[&str]) -> (Bench, Outcome) {
    let bench = Bench::real_with_failpoints();
    let more = [&ARGUMENTS[..], more].concat();
    let mut command = bench.bake_for_real("mesh.obj", "transforms.json", &more);
    if short > 0 {
        command.env("KILN_FAILPOINTS", format!("bake:fit:1={short}*oom"));
    }
    let outcome = Run::start(command).finish();
    (bench, outcome)
}

#[test]
fn a_bake_without_memory_is_repeated_with_less_and_gives_the_same_texture() {
    let (whole, _) = bake(0, &[]);
    let (bench, outcome) = bake(1, &[]);
    let report = outcome.report();
    assert_eq!(report["ladder"], json!(["smaller_plan"]));
    assert_eq!(report["product"], "texture");
    assert_eq!(outcome.one("retry")["code"], "out_of_host_memory");
    let same = bench.bytes("out/out.glb") == whole.bytes("out/out.glb");
    assert!(same, "other bytes than with all memory");
}

#[test]
fn vertex_colours_come_before_nothing_where_they_are_allowed() {
    let (bench, outcome) = bake(2, &["--fallback", "vertex-colours"]);
    let report = outcome.report();
    assert_eq!(report["ladder"], json!(["smaller_plan", "vertex_colours"]));
    assert_eq!(report["product"], "vertex_colours");
    let result = Model::open(&bench.path("out/out.glb"));
    assert!(result.json["images"].is_null(), "{:#}", result.json);
    let count = |name: &str| result.accessor(name).expect(name)["count"].clone();
    assert_eq!(count("COLOR_0"), count("POSITION"));
    bench.assert_clean(&["out.glb", "sheet.png"]);
}

#[test]
fn nobody_gets_vertex_colours_who_did_not_allow_them() {
    let (bench, outcome) = bake(2, &[]);
    outcome.assert_code(70);
    let error = outcome.one("error");
    assert_eq!(error["code"], "out_of_host_memory");
    assert_eq!(error["class"], "resource");
    assert_eq!(outcome.attempts("bake").len(), 2);
    bench.assert_clean(&[]);
}
