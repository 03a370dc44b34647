//! The ladder's rungs with the real worker: less memory, then vertex colours, and no further than allowed.

use std::fs;
use std::path::Path;

use kiln_tests::sphere::ARGUMENTS;
use kiln_tests::{Bench, Outcome, Run, glb};
use serde_json::json;

const SABOTEUR: &str = env!("CARGO_BIN_EXE_saboteur");

/// The first `short` bakes run out of memory during their fit.
fn bake(short: u32, more: &[&str]) -> (Bench, Outcome) {
    let bench = Bench::real_with_failpoints(SABOTEUR);
    let (mesh, views) = (Path::new("mesh.obj"), Path::new("transforms.json"));
    let mut command = bench.bake_for_real(mesh, views, &[&ARGUMENTS[..], more].concat());
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
    assert_eq!(outcome.code, Some(0), "{:#?}", outcome.stdout);
    let report = &outcome.one("done")["report"];
    assert_eq!(report["ladder"], json!(["smaller_plan"]));
    assert_eq!(report["product"], "texture");
    assert_eq!(outcome.one("retry")["code"], "out_of_host_memory");
    let bytes = |bench: &Bench| fs::read(bench.path("out/out.glb")).expect("a result");
    assert!(
        bytes(&bench) == bytes(&whole),
        "other bytes than with all memory"
    );
}

#[test]
fn vertex_colours_come_before_nothing_where_they_are_allowed() {
    let (bench, outcome) = bake(2, &["--fallback", "vertex-colours"]);
    assert_eq!(outcome.code, Some(0), "{:#?}", outcome.stdout);
    let report = &outcome.one("done")["report"];
    assert_eq!(report["ladder"], json!(["smaller_plan", "vertex_colours"]));
    assert_eq!(report["product"], "vertex_colours");
    let result = glb::json(&bench.path("out/out.glb")).expect("a GLB");
    assert!(result["images"].is_null(), "{result:#}");
    let attributes = &result["meshes"][0]["primitives"][0]["attributes"];
    let colours = &result["accessors"][attributes["COLOR_0"].as_u64().expect("colours") as usize];
    let positions =
        &result["accessors"][attributes["POSITION"].as_u64().expect("positions") as usize];
    assert_eq!(colours["count"], positions["count"]);
    bench.assert_clean(&["out.glb", "sheet.png"]);
}

#[test]
fn nobody_gets_vertex_colours_who_did_not_allow_them() {
    let (bench, outcome) = bake(2, &[]);
    assert_eq!(outcome.code, Some(70), "{:#?}", outcome.stdout);
    let error = outcome.one("error");
    assert_eq!(error["code"], "out_of_host_memory");
    assert_eq!(error["class"], "resource");
    assert_eq!(outcome.attempts("bake").len(), 2);
    bench.assert_clean(&[]);
}
