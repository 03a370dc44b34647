//! `--pages`: several textures show the same as one, in every format. As UDIM tiles beside an OBJ they can be read
//! back.

use std::fs;
use std::path::{Path, PathBuf};

use kiln_tests::{Bench, Outcome, glb, number, sample, words};
use serde_json::{Value, json};

/// A draft of a mesh.
fn bake(bench: &Bench, mesh: &Path, views: &Path, output: &str, more: &[&str]) -> Outcome {
    bench.baked(
        mesh,
        views,
        &[&["--quality", "draft", "-o", output], more].concat(),
    )
}

fn report(bench: &Bench, mesh: &Path, views: &Path, output: &str, more: &[&str]) -> Value {
    bake(bench, mesh, views, output, more).report()
}

fn count(value: &Value) -> usize {
    value.as_array().map_or(0, Vec::len)
}

fn with_sphere() -> (Bench, PathBuf, PathBuf) {
    let bench = Bench::sphere();
    let [mesh, views] = ["mesh.obj", "transforms.json"].map(|name| bench.path(name));
    (bench, mesh, views)
}

#[test]
fn four_pages_show_what_one_texture_shows() {
    let bench = Bench::real();
    let (mesh, views) = (sample("mesh_nouv.glb"), sample("transforms.json"));
    let one = ["--texture-size", "1024"];
    let four = ["--texture-size", "512", "--pages", "4"];
    report(&bench, &mesh, &views, "out/one.glb", &one);
    let made = report(&bench, &mesh, &views, "out/four.glb", &four);
    assert_eq!(made["options"]["pages"], 4);
    let json = glb::read(&bench.path("out/four.glb")).expect("a whole GLB");
    let primitives = json["meshes"][0]["primitives"].as_array().expect("some");
    assert_eq!((primitives.len(), count(&json["materials"])), (4, 4));
    for (page, primitive) in primitives.iter().enumerate() {
        assert_eq!(primitive["material"], page);
        let surface = &json["materials"][page]["pbrMetallicRoughness"];
        assert_eq!(surface["baseColorTexture"]["index"], page);
    }
    // Nothing is shared: as many attributes and indices as four meshes have.
    assert_eq!(count(&json["accessors"]), 4 * 4);

    let held_out = sample("transforms_test.json");
    let [one, four] =
        ["out/one.glb", "out/four.glb"].map(|output| bench.compared(output, &held_out));
    assert_eq!(four["textures"], json!(vec![[512, 512]; 4]));
    let [before, after] = [&one, &four].map(|model| number(&model["psnr_db"]));
    assert!(after > before - 0.5, "{before} and {after} dB");
    for level in 0..4 {
        let [before, after] =
            [&one, &four].map(|model| number(&model["atlas"]["seam_residual"][level]));
        // Pages cut charts into smaller ones, of which coarse mips hold few texels.
        assert!(
            after < 1.6 * before + 0.2,
            "mip {level}: {before} and {after}"
        );
        // The report's figures are those of the file, page by page.
        let told = number(&made["encode"]["atlas"]["seam_residual"][level]);
        assert!((told - after).abs() < 1e-3 * after + 1e-3, "{told} {after}");
    }
    glb::assert_files_valid(&[bench.path("out/four.glb")]);
}

#[test]
fn every_form_of_pages_holds_what_the_report_says() {
    let (bench, mesh, views) = with_sphere();
    let pages = ["--texture-size", "256", "--pages", "4", "--holdout", "1"];
    for (name, more) in [
        ("plain.glb", "--provenance-attribute"),
        ("small.glb", "--compress meshopt --provenance-attribute"),
        ("jpeg.glb", "--texture-format jpeg --compress meshopt"),
        ("webp.glb", "--texture-format webp"),
        ("etc1s.glb", "--texture-format ktx2-etc1s"),
        (
            "uastc.glb",
            "--texture-format ktx2-uastc --compress meshopt",
        ),
    ] {
        let output = format!("out/{name}");
        let made = report(
            &bench,
            &mesh,
            &views,
            &output,
            &[&pages[..], &words(more)].concat(),
        );
        let path = bench.path(&output);
        let found = bench.compared(&path, &views);
        let score = &made["encode"]["holdout"][0];
        let each = found["views"].as_array().expect("views");
        let view = each.iter().find(|view| view["view"] == score["view"]);
        let (mine, its) = (
            number(&view.expect("the view")["psnr_db"]),
            number(&score["psnr_db"]),
        );
        assert!(
            (mine - its).abs() < 0.02,
            "{name}: {mine} dB, {its} by the report"
        );
        for figure in ["charts", "used", "density_spread"] {
            let [mine, its] =
                [&found["atlas"], &made["encode"]["atlas"]].map(|a| number(&a[figure]));
            assert!(
                (mine - its).abs() <= 1e-3 * its,
                "{name}: {figure} {mine} {its}"
            );
        }
        let json = glb::json(&path).expect("a whole GLB");
        let primitives = json["meshes"][0]["primitives"].as_array().expect("some");
        assert_eq!((primitives.len(), count(&json["images"])), (4, 4), "{name}");
        for primitive in primitives {
            let told = primitive["attributes"]["_PROVENANCE"].is_u64();
            assert_eq!(told, more.contains("--provenance-attribute"), "{name}");
        }
    }
    let files = |names: &[&str]| -> Vec<PathBuf> {
        names
            .iter()
            .map(|name| bench.path("out").join(name))
            .collect()
    };
    glb::assert_files_valid(&files(&["plain.glb", "small.glb", "jpeg.glb", "webp.glb"]));
    let (valid, words) = glb::validate_basisu(&files(&["etc1s.glb", "uastc.glb"]));
    assert!(valid, "{words}");
}

#[test]
fn an_obj_has_udim_tiles_that_are_baked_again_as_they_are() {
    let (bench, mesh, views) = with_sphere();
    let pages = ["--texture-size", "256", "--pages", "4"];
    let made = report(&bench, &mesh, &views, "out/a.obj", &pages);
    let tiles = ["1001", "1002", "1011", "1012"];
    let named = tiles.map(|tile| format!("a_texture.{tile}.png"));
    let mut left: Vec<&str> = named.iter().map(String::as_str).collect();
    left.extend(["a.mtl", "a.obj"]);
    left.sort_unstable();
    bench.assert_clean(&left);
    let material = fs::read_to_string(bench.path("out/a.mtl")).expect("text");
    let text = fs::read_to_string(bench.path("out/a.obj")).expect("text");
    for (tile, file) in tiles.iter().zip(&named) {
        assert!(
            material.contains(&format!("newmtl baked.{tile}\n")),
            "{material}"
        );
        assert!(material.contains(&format!("map_Kd {file}\n")), "{material}");
        assert!(text.contains(&format!("usemtl baked.{tile}\n")), "{tile}");
    }
    let coordinates: Vec<[f64; 2]> = (text.lines())
        .filter_map(|line| line.strip_prefix("vt "))
        .map(|line| {
            let mut numbers = line.split(' ').map(|x| x.parse().expect("a number"));
            [(); 2].map(|()| numbers.next().expect("two"))
        })
        .collect();
    for axis in 0..2 {
        let beyond = coordinates.iter().filter(|uv| uv[axis] > 1.0).count();
        assert!(beyond > 0 && beyond < coordinates.len());
    }
    // Unchanged: each tile becomes a page again.
    let again = bench.path("out/a.obj");
    let kept = [&pages[..], &["--keep-uvs"]].concat();
    let second = report(&bench, &again, &views, "again.glb", &kept);
    for figure in ["charts", "used", "seam_length", "density_spread"] {
        let [first, second] = [&made, &second].map(|r| number(&r["encode"]["atlas"][figure]));
        assert!(
            (first - second).abs() <= 1e-3 * first,
            "{figure} {first} {second}"
        );
    }
    let json = glb::read(&bench.path("again.glb")).expect("a whole GLB");
    assert_eq!(json["materials"][3]["name"], "baked.1012");
    // Without pages, tiles are refused.
    let refused = bake(&bench, &again, &views, "out/b.glb", &["--keep-uvs"]);
    refused.assert_code(65);
}

#[test]
fn what_has_no_pages_is_refused_before_any_work() {
    let (bench, mesh, views) = with_sphere();
    for (output, more, wanted) in [
        ("out/a.ply", "--pages 4", "PLY"),
        ("out/a.glb", "--pages 2", "1, 4, 9 or 16"),
        (
            "out/a.glb",
            "--pages 4 --texture-size 8192",
            "4 pages of 8192",
        ),
        (
            "out/a.glb",
            "--pages 4 --vertex-colours",
            "--vertex-colours",
        ),
    ] {
        let outcome = bake(&bench, &mesh, &views, output, &words(more));
        outcome.assert_code(64);
        let said = format!("{:?} {}", outcome.stdout, outcome.stderr);
        assert!(said.contains(wanted), "{more}: {said}");
    }
    bench.assert_clean(&[]);
}
