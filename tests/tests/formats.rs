//! Output formats: PNG, JPEG, WebP and KTX2 textures, compressed GLBs, PLY and OBJ with their side files.

use std::fs;
use std::path::PathBuf;

use kiln_tests::{Bench, Outcome, Run, glb, number, words};
use serde_json::Value;

/// A bake of the sphere to this file.
fn bake(bench: &Bench, output: &str, more: &[&str]) -> Outcome {
    bench.draft(&[&["--holdout", "1", "-o", output], more].concat())
}

fn report(bench: &Bench, output: &str, more: &[&str]) -> Value {
    bake(bench, output, more).report()
}

#[test]
fn every_form_of_a_glb_is_valid_and_shows_the_same() {
    let bench = Bench::sphere();
    let mut files: Vec<PathBuf> = Vec::new();
    let mut sizes = Vec::new();
    for (name, mime, more) in [
        ("plain.glb", "image/png", ""),
        ("jpeg.glb", "image/jpeg", "--texture-format jpeg"),
        ("webp.glb", "image/webp", "--texture-format webp"),
        (
            "lossy.glb",
            "image/webp",
            "--texture-format webp-lossy --texture-quality 80",
        ),
        ("etc1s.glb", "image/ktx2", "--texture-format ktx2-etc1s"),
        (
            "uastc.glb",
            "image/ktx2",
            "--texture-format ktx2-uastc --compress meshopt",
        ),
        ("small.glb", "image/png", "--compress meshopt"),
        (
            "both.glb",
            "image/jpeg",
            "--compress meshopt --texture-format jpeg --texture-quality 70",
        ),
    ] {
        let path = bench.path("out").join(name);
        let report = report(&bench, &format!("out/{name}"), &words(more));
        let json = glb::read(&path);
        if mime != "image/webp" {
            // Without a fallback for readers without WebP, only the extension names the texture's source.
            let json = json.expect("a whole GLB");
            assert_eq!(json["images"][0]["mimeType"], mime, "{name}");
        }
        // What the report says was measured with what the file holds: another process finds the same in it.
        let found = bench.compared(&path, "transforms.json");
        let score = &report["encode"]["holdout"][0];
        let views = found["views"].as_array().expect("views");
        let view = views
            .iter()
            .find(|view| view["view"] == score["view"])
            .expect("the view");
        let (mine, its) = (number(&view["psnr_db"]), number(&score["psnr_db"]));
        assert!(
            (mine - its).abs() < 0.02,
            "{name}: {mine} dB, {its} by the report"
        );
        for level in 0..4 {
            let [mine, its] = [&found["atlas"], &report["encode"]["atlas"]]
                .map(|atlas| number(&atlas["seam_residual"][level]));
            assert!(
                (mine - its).abs() <= 0.01 + 0.001 * its,
                "{name}: {mine}, {its}"
            );
        }
        sizes.push((name, fs::metadata(&path).expect("the file").len(), its));
        files.push(path);
    }
    let of = |name: &str| {
        *sizes
            .iter()
            .find(|(found, ..)| *found == name)
            .expect("made")
    };
    let (_, plain, best) = of("plain.glb");
    assert!(
        of("jpeg.glb").1 < plain
            && of("small.glb").1 < plain
            && of("both.glb").1 < of("jpeg.glb").1
    );
    let lossy = of("lossy.glb");
    assert!(
        lossy.1 < of("webp.glb").1 && (lossy.2 - best).abs() > 0.0001,
        "{sizes:?}"
    );
    // Lossless is lossless, quantised is visually equal, and a JPEG is measured by its decoded texels, not the input.
    assert!(
        (of("webp.glb").2 - best).abs() < 0.001 && (of("small.glb").2 - best).abs() < 0.3,
        "{sizes:?}"
    );
    assert!((of("jpeg.glb").2 - best).abs() > 0.001, "{sizes:?}");
    // ETC1S is smaller and worse, UASTC nearly lossless, in bytes and in PSNR.
    let (etc1s, uastc) = (of("etc1s.glb"), of("uastc.glb"));
    assert!(etc1s.1 < uastc.1 && etc1s.1 < plain, "{sizes:?}");
    assert!(
        etc1s.2 + 0.05 < uastc.2 && (uastc.2 - best).abs() < 0.05,
        "{sizes:?}"
    );
    let (basisu, others): (Vec<PathBuf>, Vec<PathBuf>) = files
        .into_iter()
        .partition(|file| file.ends_with("etc1s.glb") || file.ends_with("uastc.glb"));
    glb::assert_files_valid(&others);
    let (valid, words) = glb::validate_basisu(&basisu);
    assert!(valid, "{words}");
    // Checks the oracle: the plain check rejects those two files.
    assert!(!glb::validate(&basisu).0);
}

#[test]
fn ktx2_is_required_carries_its_mips_and_is_the_same_bytes_again() {
    let bench = Bench::sphere();
    for (name, format, model, scheme) in [
        ("etc1s", "ktx2-etc1s", 163, 1),
        ("uastc", "ktx2-uastc", 166, 2),
    ] {
        let outputs = [1, 2].map(|k| format!("out/{name}{k}.glb"));
        let more = ["--texture-format", format];
        let made = outputs
            .each_ref()
            .map(|output| report(&bench, output, &more));
        let files = outputs.map(|output| fs::read(bench.path(&output)).expect("made"));
        assert!(files[0] == files[1], "{name}");
        // The sandbox is complete: the encoder's threads and its C++ work within it.
        let sandbox = made[0]["sandbox"].as_array().expect("roles");
        let encode = sandbox.iter().find(|role| role["role"] == "encode");
        assert_eq!(encode.expect("encode ran")["level"], "full");
        assert_eq!(made[0]["options"]["texture_format"], format);

        let json = glb::read(&bench.path(&format!("out/{name}1.glb"))).expect("a whole GLB");
        for key in ["extensionsUsed", "extensionsRequired"] {
            assert_eq!(json[key], serde_json::json!(["KHR_texture_basisu"]));
        }
        let texture = &json["textures"][0];
        assert!(texture["source"].is_null());
        assert_eq!(texture["extensions"]["KHR_texture_basisu"]["source"], 0);
        let begin = b"\xABKTX 20\xBB\r\n\x1A\n";
        let at = files[0].windows(12).position(|part| part == begin);
        let file = &files[0][at.expect("a KTX2 file")..];
        let word = |at: usize| u32::from_le_bytes(*file[at..].first_chunk().expect("there"));
        // Width, height, levels down to one texel, supercompression; then model, BT.709 and sRGB.
        assert_eq!([20, 24, 40, 44].map(word), [256, 256, 9, scheme], "{name}");
        let format = word(48) as usize;
        assert_eq!(file[format + 12..format + 15], [model, 1, 2], "{name}");
    }
}

#[test]
fn ktx2_beside_a_mesh_is_refused_and_damage_in_a_glb_is_named() {
    let bench = Bench::sphere();
    let refused = bake(&bench, "out/a.obj", &["--texture-format", "ktx2-etc1s"]);
    refused.assert_code(64);
    bench.assert_clean(&[]);
    report(&bench, "out/a.glb", &["--texture-format", "ktx2-uastc"]);
    let path = bench.path("out/a.glb");
    let mut bytes = fs::read(&path).expect("made");
    let begin = b"\xABKTX 20\xBB\r\n\x1A\n";
    let at = bytes.windows(12).position(|part| part == begin);
    // The supercompression differs.
    bytes[at.expect("a KTX2 file") + 44] = 3;
    fs::write(&path, bytes).expect("room");
    let command = bench.command(&words("compare out/a.glb --views transforms.json"));
    let outcome = Run::start(command).finish();
    let words = outcome.stderr.clone();
    assert!(
        words.contains("image 0: is a KTX2 texture of neither ETC1S nor UASTC"),
        "{words}"
    );
}

#[test]
fn ply_and_obj_have_their_texture_beside_them_and_can_be_baked_again() {
    let bench = Bench::sphere();
    for (output, beside, kinds) in [
        ("a.ply", &["a_texture.png"][..], &["ply", "texture"][..]),
        (
            "b.obj",
            &["b.mtl", "b_texture.jpg"],
            &["obj", "texture", "material"],
        ),
    ] {
        let jpeg: &[&str] = if output == "b.obj" {
            &["--texture-format", "jpeg"]
        } else {
            &[]
        };
        let made = report(&bench, &format!("out/{output}"), jpeg);
        let files = made["files"].as_array().expect("files");
        let named: Vec<&str> = files
            .iter()
            .filter_map(|file| file["kind"].as_str())
            .collect();
        assert_eq!(named, kinds);
        for file in beside.iter().chain(&[output]) {
            assert!(bench.path("out").join(file).is_file(), "{file}");
        }
        let text = fs::read(bench.path("out").join(output)).expect("the mesh");
        let names = beside[0].as_bytes();
        assert!(
            text.windows(names.len()).any(|window| window == names),
            "{output} names {}",
            beside[0]
        );
        // With its own texture coordinates it gives the same atlas: nothing was lost on the way.
        let flags = words("--keep-uvs --quality draft --texture-size 256 -o again.glb");
        let again = bench.baked(bench.path("out").join(output), "transforms.json", &flags);
        let again = again.report();
        let atlas = |report: &Value, figure: &str| number(&report["encode"]["atlas"][figure]);
        for figure in ["charts", "used", "seam_length", "density_spread"] {
            let (first, second) = (atlas(&made, figure), atlas(&again, figure));
            assert!(
                (first - second).abs() <= 1e-3 * first,
                "{output}: {figure} {first} {second}"
            );
        }
    }
    bench.assert_clean(&["a.ply", "a_texture.png", "b.mtl", "b.obj", "b_texture.jpg"]);
}

#[test]
fn a_file_beside_that_cannot_be_made_makes_none() {
    let bench = Bench::sphere();
    fs::create_dir(bench.path("out/a.mtl")).expect("a folder in its place");
    let outcome = bake(&bench, "out/a.obj", &[]);
    outcome.assert_code(73);
    bench.assert_clean(&["a.mtl"]);
}
