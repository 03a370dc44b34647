//! Options of a bake: vertices' provenance, pictures of rejected pixels, texture size from the views' resolution,
//! vertex colours, one of several UV sets.

use std::fs;

use kiln_tests::glb::{self, Model};
use kiln_tests::{Bench, Outcome, names_in, number, read_json, words};
use serde_json::{Value, json};

/// Bakes the sphere to `out/a.glb`; one of its seven views is held out.
fn bake(bench: &Bench, more: &[&str]) -> Outcome {
    let all = words("--quality draft --holdout 1 -o out/a.glb");
    bench.baked("mesh.obj", "transforms.json", &[&all, more].concat())
}

fn report(bench: &Bench, more: &[&str]) -> Value {
    bake(bench, more).report()
}

fn refused(bench: &Bench, code: i32, more: &[&str]) -> String {
    bake(bench, more).refusal(code)
}

#[test]
fn provenance_of_vertices_is_a_valid_attribute_of_every_glb() {
    let bench = Bench::sphere();
    let mut files = Vec::new();
    for (name, compress) in [("plain.glb", "none"), ("small.glb", "meshopt")] {
        let flags = [
            "--texture-size",
            "256",
            "--provenance-attribute",
            "--compress",
            compress,
        ];
        report(&bench, &flags);
        let path = bench.path("out").join(name);
        fs::rename(bench.path("out/a.glb"), &path).expect("the result");
        let json = glb::read(&path).expect("a whole GLB");
        let model = Model::open(&path);
        let accessor = model.accessor("_PROVENANCE").expect("the attribute");
        let kind = ["type", "componentType", "normalized"].map(|key| accessor[key].clone());
        assert_eq!(kind, [json!("SCALAR"), json!(5121), json!(true)]);
        assert_eq!(accessor["count"], json["accessors"][0]["count"]);
        files.push(path);
    }
    glb::assert_files_valid(&files);
    report(&bench, &["--texture-size", "256"]);
    let json = glb::read(&bench.path("out/a.glb")).expect("a whole GLB");
    let attributes = &json["meshes"][0]["primitives"][0]["attributes"];
    assert!(attributes["_PROVENANCE"].is_null(), "nobody asked");
}

#[test]
fn what_was_rejected_is_drawn_for_each_view_of_the_fit() {
    let bench = Bench::sphere();
    let flags = ["--texture-size", "256", "--rejected", "out"];
    let report = report(&bench, &flags);
    let views = report["bake"]["views"].as_array().expect("views");
    assert_eq!(views.len(), 6);
    let mut wanted = vec!["a.glb".to_owned()];
    for view in views {
        wanted.push(format!(
            "rejected_{:04}.png",
            view["view"].as_u64().expect("a number")
        ));
        for share in ["outliers", "outline", "alpha", "surface"] {
            let share = view["rejected"][share].as_f64().expect("a share");
            assert!((0.0..=1.0).contains(&share), "{view}");
        }
    }
    assert_eq!(names_in(&bench.path("out")), wanted);
    let file = &report["files"][1];
    assert_eq!([&file["kind"], &file["path"]], ["rejected", "out"]);
    let line = refused(&bench, 73, &["--rejected", "mesh.obj/no"]);
    assert!(line.contains("mesh.obj/no/rejected_0000.png"), "{line}");
    let silent = bake(&bench, &["--texture-size", "256"]).one("done")["report"].clone();
    assert!(
        silent["bake"]["views"][0]["rejected"].is_null(),
        "nobody asked"
    );
}

#[test]
fn the_edge_is_chosen_by_what_the_views_resolve() {
    let bench = Bench::sphere();
    // Pictures of 48 pixels: the least there is would hold them.
    let small = report(&bench, &["--texture-size", "auto"]);
    let choice = &small["prepare"]["texture"];
    assert_eq!(choice["size"], 256, "{choice}");
    assert!(
        (20.0..256.0).contains(&number(&choice["wanted"])),
        "{choice}"
    );
    assert_eq!(choice["views"], 7);
    // Seen three times as large, and of the sphere mostly its nearer middle.
    let mut json = read_json(&bench.path("transforms.json"));
    json["fl_x"] = (number(&json["fl_x"]) * 3.0).into();
    json["fl_y"] = json["fl_x"].clone();
    fs::write(bench.path("transforms.json"), json.to_string()).expect("room");
    let near = report(&bench, &["--texture-size", "auto"]);
    let choices = [choice, &near["prepare"]["texture"]];
    let [far, near] = choices.map(|choice| {
        // What nobody sees has a ninth of the texels of what somebody does.
        let seen = number(&choice["seen"]);
        number(&choice["wanted"]) / (seen + (1.0 - seen) / 9.0).sqrt()
    });
    assert!(
        (2.5..4.5).contains(&(near / far)),
        "three times the focal length, {near} in place of {far}"
    );
    let [far, near] = choices.map(|choice| number(&choice["seen"]));
    assert!(near < far && far <= 1.0, "{near} of the sphere, and {far}");
    assert!(report(&bench, &["--texture-size", "256"])["prepare"]["texture"].is_null());
    let line = refused(&bench, 64, &["--max-texture-size", "512"]);
    assert!(line.contains("--texture-size auto"), "{line}");
}

#[test]
fn colours_of_vertices_are_made_for_the_asking() {
    let bench = Bench::sphere();
    let report = report(&bench, &["--vertex-colours"]);
    assert_eq!(report["product"], "vertex_colours");
    let path = bench.path("out/a.glb");
    let json = glb::json(&path).expect("a GLB");
    let attributes = &json["meshes"][0]["primitives"][0]["attributes"];
    assert!(
        attributes["COLOR_0"].is_number() && json["images"].is_null(),
        "{attributes}"
    );
    assert!(
        report["ladder"].as_array().is_none_or(Vec::is_empty),
        "nothing went wrong"
    );
    glb::assert_files_valid(&[path]);
}

#[test]
fn a_set_of_texture_coordinates_is_taken_by_its_number() {
    let bench = Bench::sphere();
    let line = refused(&bench, 65, &["--keep-uvs", "--uv-set", "2"]);
    assert!(line.contains("the set that --uv-set names"), "{line}");
    bake(&bench, &["--uv-set", "1"]).assert_code(64);
}
