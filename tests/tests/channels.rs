//! Bakes channels beside base colour from views of a ball whose material is known. Compares the GLB's pictures with
//! that material texel by texel, and its normals with what a viewer reconstructs from them.

#![expect(
    clippy::print_stderr,
    reason = "figures are worth a look even where they suffice"
)]

use std::fs;
use std::path::PathBuf;

use kiln_tests::ball::{Channel, Space, Vector, Views, cross, dot, light, unit};
use kiln_tests::glb::{self, Model};
use kiln_tests::picture::Picture;
use kiln_tests::{Bench, Outcome, Run, adapter, number, read_json, signal_to, words};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

fn bake(bench: &Bench, output: &str, more: &[&str]) -> Outcome {
    Run::start(command(bench, output, more)).finish()
}

fn command(bench: &Bench, output: &str, more: &[&str]) -> std::process::Command {
    let mut all = vec!["--crash-folder", "none", "-o", output];
    if !more.contains(&"--texture-size") {
        all.extend(["--texture-size", "512"]);
    }
    bench.bake_for_real("mesh.obj", "transforms.json", &[&all, more].concat())
}

/// Bakes successfully and returns the report.
fn report(bench: &Bench, output: &str, more: &[&str]) -> Value {
    bake(bench, output, more).report()
}

fn with_ball(views: &Views) -> Bench {
    let bench = Bench::real();
    views.write(&bench.path("."));
    bench
}

/// A few small views, for tests that do not measure quality.
fn few() -> Views {
    Views {
        count: 7,
        edge: 64,
        ..Views::default()
    }
}

/// The PNG in a slot of the material, and its edge.
fn picture(model: &Model, slot: &str) -> (Picture, usize) {
    let file = model.file(slot).unwrap_or_else(|| panic!("no {slot}"));
    let picture = Picture::decode(file);
    let edge = picture.size[0] as usize;
    (picture, edge)
}

fn texel(picture: &Picture, at: usize) -> &[u8] {
    &picture.bytes[at * picture.width()..][..picture.width()]
}

/// For each texel whose centre lies in a triangle: its number, the triangle and the weights of its corners.
fn surface(model: &Model, edge: usize) -> Vec<(usize, [usize; 3], [f64; 3])> {
    let uvs = model.floats::<2>("TEXCOORD_0");
    let mut texels = Vec::new();
    for corners in model.triangles() {
        let [a, b, c] = corners.map(|corner| uvs[corner].map(|x| x * edge as f64));
        let area = |p: [f64; 2], q: [f64; 2], r: [f64; 2]| {
            (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])
        };
        let all = area(a, b, c);
        let span = |axis: usize| {
            let values = [a, b, c].map(|at| at[axis]);
            let low = values.into_iter().fold(f64::INFINITY, f64::min);
            let high = values.into_iter().fold(0.0, f64::max);
            low as usize..(high as usize + 1).min(edge)
        };
        for row in span(1) {
            for column in span(0) {
                let at = [column as f64 + 0.5, row as f64 + 0.5];
                let weights = [area(b, c, at), area(c, a, at), area(a, b, at)];
                let weights = weights.map(|part| part / all);
                if weights.iter().all(|&weight| weight > 0.0) {
                    texels.push((row * edge + column, corners, weights));
                }
            }
        }
    }
    assert!(texels.len() > edge * edge / 5, "an atlas");
    texels
}

fn blend<const N: usize>(of: &[[f64; N]], corners: [usize; 3], weights: [f64; 3]) -> [f64; N] {
    std::array::from_fn(|k| (0..3).map(|i| weights[i] * of[corners[i]][k]).sum())
}

fn decibel(squares: f64, count: usize) -> f64 {
    -10.0 * (squares / count as f64).log10()
}

/// PSNR over the charts' texels between channels of a picture and their expected values.
fn psnr(model: &Model, slot: &str, channel: Channel, components: &[usize]) -> f64 {
    let (picture, edge) = picture(model, slot);
    let positions = model.floats::<3>("POSITION");
    let (mut squares, mut count) = (0.0, 0);
    for (at, corners, weights) in surface(model, edge) {
        let truth = channel.at(unit(blend(&positions, corners, weights)));
        for &component in components {
            // Opacity is the base colour's alpha.
            let of_truth = truth[component.min(2)];
            let found = f64::from(texel(&picture, at)[component]) / 255.0;
            squares += (found - of_truth).powi(2);
            count += 1;
        }
    }
    decibel(squares, count)
}

/// PSNR of the normals that a viewer reconstructs from the map, against those of the channel.
fn relief(model: &Model) -> f64 {
    let [mapped, _] = normals(model, |place| Channel::Normal.at(unit(place)));
    mapped
}

/// PSNR of the normals that a viewer reconstructs from the map, and of the mesh's own, against the `truth` of each place;
/// directions are halved, as in the bytes of a world-space map. Also checks tangent frames against glTF's convention: +X
/// right and +Y up in the picture.
fn normals(model: &Model, truth: impl Fn(Vector) -> Vector) -> [f64; 2] {
    let (picture, edge) = picture(model, "normalTexture");
    let (positions, normals) = (model.floats::<3>("POSITION"), model.floats::<3>("NORMAL"));
    let (tangents, uvs) = (
        model.floats::<4>("TANGENT"),
        model.floats::<2>("TEXCOORD_0"),
    );
    let bitangents: Vec<Vector> = (normals.iter().zip(&tangents))
        .map(|(&normal, &[x, y, z, w])| cross(normal, [x, y, z]).map(|value| value * w))
        .collect();
    let (mut squares, mut count, mut turned) = ([0.0; 2], 0, 0);
    for (at, corners, weights) in surface(model, edge) {
        let [x, y, z, _] = blend(&tangents, corners, weights);
        let axes = [
            unit([x, y, z]),
            unit(blend(&bitangents, corners, weights)),
            unit(blend(&normals, corners, weights)),
        ];
        let map = [0, 1, 2].map(|k| f64::from(texel(&picture, at)[k]) / 127.5 - 1.0);
        assert!(map[2] > 0.0, "{map:?} points inwards");
        let shown = unit([0, 1, 2].map(|k| (0..3).map(|axis| map[axis] * axes[axis][k]).sum()));
        let truth = truth(blend(&positions, corners, weights));
        for (squares, normal) in squares.iter_mut().zip([shown, axes[2]]) {
            *squares += (0..3)
                .map(|k| ((normal[k] - truth[k]) / 2.0).powi(2))
                .sum::<f64>()
                / 3.0;
        }
        count += 1;
        // Along the picture's rows and up its columns, the surface must run as the frame says.
        let [a, b, c] = corners.map(|corner| (positions[corner], uvs[corner]));
        let side = |p: (Vector, [f64; 2])| {
            let from = [0, 1, 2].map(|k| p.0[k] - a.0[k]);
            (from, [p.1[0] - a.1[0], a.1[1] - p.1[1]])
        };
        let (one, other) = (side(b), side(c));
        let area = one.1[0] * other.1[1] - one.1[1] * other.1[0];
        let right = [0, 1, 2].map(|k| (one.0[k] * other.1[1] - other.0[k] * one.1[1]) / area);
        let up = [0, 1, 2].map(|k| (other.0[k] * one.1[0] - one.0[k] * other.1[0]) / area);
        turned += usize::from(dot(right, axes[0]) <= 0.0 || dot(up, axes[1]) <= 0.0);
    }
    assert_eq!(turned, 0, "of {count} frames");
    squares.map(|squares| decibel(squares, count))
}

/// Compares every channel with the truth.
fn assert_true(model: &Model, least: f64) {
    // Opacity has steps, which are hard to fit, so a lower PSNR suffices.
    assert_near(model, least, 18.0);
}

fn assert_near(model: &Model, least: f64, of_opacity: f64) {
    let base = "pbrMetallicRoughness/baseColorTexture";
    let metal = "pbrMetallicRoughness/metallicRoughnessTexture";
    let of = |slot, channel, components: &[usize]| psnr(model, slot, channel, components);
    let figures = [
        ("base", of(base, Channel::Base, &[0, 1, 2])),
        ("metallic", of(metal, Channel::MetallicRoughness, &[2])),
        ("roughness", of(metal, Channel::MetallicRoughness, &[1])),
        (
            "occlusion",
            of("occlusionTexture", Channel::Occlusion, &[0]),
        ),
        (
            "emissive",
            of("emissiveTexture", Channel::Emissive, &[0, 1, 2]),
        ),
        ("normal", relief(model)),
    ];
    eprintln!("{figures:.1?}");
    let worst = figures
        .iter()
        .map(|(_, db)| *db)
        .fold(f64::INFINITY, f64::min);
    assert!(worst >= least, "{figures:?}");
    let opacity = psnr(model, base, Channel::Opacity, &[3]);
    assert!(
        opacity >= of_opacity,
        "{opacity} dB of opacity; {figures:?}"
    );
}

#[test]
fn every_channel_is_what_the_views_show() {
    let bench = with_ball(&Views::default());
    let report = report(&bench, "out/a.glb", &["--preview", "out/sheet.png"]);
    let path = bench.path("out/a.glb");
    let model = Model::open(&path);
    glb::read(&path).expect("a whole GLB");
    assert_true(&model, 36.0);

    let material = &model.json["materials"][0];
    let surface = &material["pbrMetallicRoughness"];
    assert_eq!(surface["metallicFactor"], 1);
    assert_eq!(surface["roughnessFactor"], 1);
    let textures = [
        &surface["metallicRoughnessTexture"],
        &material["occlusionTexture"],
    ];
    assert_eq!(textures[0], textures[1], "one picture for both");
    assert_eq!(material["emissiveFactor"], json!([1, 1, 1]));
    assert_eq!(
        (&material["alphaMode"], &material["alphaCutoff"]),
        (&json!("MASK"), &json!(0.5))
    );
    assert_eq!(model.json["images"].as_array().map(Vec::len), Some(4));

    let channels = report["bake"]["channels"].as_array().expect("channels");
    let names: Vec<&str> = channels
        .iter()
        .filter_map(|fit| fit["name"].as_str())
        .collect();
    assert_eq!(names, Channel::LAYERS.map(Channel::name));
    for fit in channels {
        let figures = ["psnr_db", "seconds", "pixels"].map(|key| fit[key].as_f64());
        assert!(
            figures.iter().all(|figure| figure.is_some_and(|x| x > 0.0)),
            "{fit}"
        );
        assert_eq!(fit["views"], 24);
        let wanted = if fit["name"] == "opacity" { 20.0 } else { 38.0 };
        assert!(figures[0].is_some_and(|db| db > wanted), "{fit}");
    }
    glb::assert_files_valid(&[path]);
    let sheet = Picture::read(&bench.path("out/sheet.png"));
    assert!(sheet.size[1] > 1900, "two more rows of pictures");
    bench.assert_clean(&["a.glb", "sheet.png"]);
}

/// Encode receives the most that a job may have at once: mesh, base colour, every channel, and the fit's exposures.
#[test]
fn every_channel_and_the_exposures_of_the_fit_arrive() {
    let bench = with_ball(&Views {
        exposures: vec![0.9, 0.75],
        ..Views::default()
    });
    let report = report(&bench, "out/a.glb", &["--preview", "out/sheet.png"]);
    assert_eq!(report["bake"]["refinement"]["exposure"], "evened");
    let layers = report["bake"]["channels"].as_array().map(Vec::len);
    assert_eq!(layers, Some(Channel::LAYERS.len()));
    // The sheet's rows agree with the fit, and are not 17 dB off.
    let shown = report["encode"]["shown"].as_array().expect("rows");
    assert!(!shown.is_empty());
    for row in shown {
        assert!(row["psnr_db"].as_f64() > Some(36.0), "{shown:?}");
    }
    let model = Model::open(&bench.path("out/a.glb"));
    let metal = "pbrMetallicRoughness/metallicRoughnessTexture";
    let metallic = psnr(&model, metal, Channel::MetallicRoughness, &[2]);
    assert!(metallic > 36.0 && relief(&model) > 36.0, "{metallic}");
}

#[test]
fn the_base_colour_is_that_of_a_job_without_channels() {
    let bench = with_ball(&few());
    report(&bench, "out/with.glb", &["--alpha-mode", "opaque"]);
    let mut transforms = read_json(&bench.path("transforms.json"));
    for frame in transforms["frames"].as_array_mut().expect("frames") {
        frame.as_object_mut().expect("a frame").remove("channels");
    }
    fs::write(bench.path("transforms.json"), transforms.to_string()).expect("room");
    let report = report(&bench, "out/without.glb", &[]);
    assert_eq!(report["bake"]["channels"], json!([]));
    let models =
        ["with", "without"].map(|name| Model::open(&bench.path(&format!("out/{name}.glb"))));
    let files = models.each_ref().map(|model| {
        let file = model.file("pbrMetallicRoughness/baseColorTexture");
        file.expect("a base colour")
    });
    assert!(files[0] == files[1], "the same bytes");
    assert!(models[0].json["materials"][0]["alphaMode"].is_null());
    assert_eq!(
        models[1].json["materials"][0]
            .as_object()
            .map(serde_json::Map::len),
        Some(3),
        "name, sides and base colour"
    );
}

#[test]
fn a_graphics_adapter_gives_the_same_channels() {
    let views = Views {
        count: 12,
        edge: 80,
        ..Views::default()
    };
    let bench = with_ball(&views);
    let adapter = adapter();
    // A software adapter takes its time.
    let quick = ["--quality", "draft", "--refine", "off"];
    let draft = [&quick[..], &["--texture-size", "256", "--device", &adapter]].concat();
    let report = report(&bench, "out/a.glb", &draft);
    assert_eq!(
        report["device"]["backend"], "vulkan",
        "{}",
        report["device"]
    );
    assert_true(&Model::open(&bench.path("out/a.glb")), 27.0);
}

#[test]
fn normals_of_a_world_with_z_up_are_turned_with_it() {
    let bench = with_ball(&Views {
        count: 16,
        edge: 112,
        space: Space::World,
        z_up: true,
        channels: vec![Channel::Normal],
        ..Views::default()
    });
    let made = report(&bench, "out/a.glb", &["--up", "z"]);
    let right = relief(&Model::open(&bench.path("out/a.glb")));
    assert!(right > 34.0, "{right} dB");
    assert_eq!(made["warnings"], json!([]));
    // Checks the oracle: the same bytes, read in another space, are far off, and the user is warned.
    let text = fs::read_to_string(bench.path("transforms.json")).expect("there");
    let other = text.replace("\"normal_space\":\"world\"", "\"normal_space\":\"camera\"");
    assert_ne!(other, text);
    fs::write(bench.path("transforms.json"), other).expect("room");
    let made = report(&bench, "out/b.glb", &["--up", "z"]);
    let wrong = relief(&Model::open(&bench.path("out/b.glb")));
    assert!(wrong < 20.0, "{wrong} dB");
    let told = made["warnings"].as_array().expect("warnings").iter();
    let told = told.filter_map(|warning| warning["text"].as_str());
    assert!(
        told.into_iter().any(|text| text.contains("normal_space: ")),
        "{made}"
    );
}

#[test]
fn every_form_of_a_glb_carries_them_and_others_say_that_they_do_not() {
    let bench = with_ball(&few());
    let mut files: Vec<PathBuf> = Vec::new();
    for (name, base, data, mode, more) in [
        ("plain", "image/png", "image/png", json!("MASK"), ""),
        (
            "jpeg",
            "image/jpeg",
            "image/png",
            Value::Null,
            "--texture-format jpeg --alpha-mode opaque",
        ),
        (
            "clear",
            "image/png",
            "image/png",
            json!("BLEND"),
            "--texture-format jpeg --alpha-mode blend",
        ),
        (
            "basis",
            "image/ktx2",
            "image/ktx2",
            json!("MASK"),
            "--texture-format ktx2-etc1s",
        ),
        (
            "lossy",
            "image/webp",
            "image/webp",
            json!("MASK"),
            "--texture-format webp-lossy",
        ),
        (
            "small",
            "image/webp",
            "image/webp",
            json!("MASK"),
            "--texture-format webp --compress meshopt --alpha-cutoff 0.25",
        ),
    ] {
        let path = bench.path(&format!("out/{name}.glb"));
        let quick = [&["--quality", "draft"], &words(more)[..]].concat();
        let made = report(&bench, &format!("out/{name}.glb"), &quick);
        let json = glb::read(&path).expect("a whole GLB");
        let mime = |image: usize| &json["images"][image]["mimeType"];
        assert_eq!(
            (mime(0), mime(1), mime(2)),
            (&json!(base), &json!(data), &json!(data))
        );
        assert_eq!(
            mime(3),
            if name == "clear" { "image/jpeg" } else { base },
            "{name}"
        );
        assert_eq!(json["materials"][0]["alphaMode"], mode, "{name}");
        let told = made["warnings"].as_array().expect("warnings");
        assert_eq!(told.len(), usize::from(name == "clear"), "{told:?}");
        if name == "small" {
            assert_eq!(json["materials"][0]["alphaCutoff"], 0.25);
        }
        if name == "basis" {
            let (valid, words) = glb::validate_basisu(std::slice::from_ref(&path));
            assert!(valid, "{words}");
            // Model, primaries and transfer: colours are ETC1S and sRGB, numbers UASTC and linear; emissive comes last.
            let model = Model::open(&path);
            let format = |slot: &str| {
                let file = model.file(slot).expect("a picture");
                assert!(file.starts_with(b"\xABKTX 20"), "{slot}");
                let at = u32::from_le_bytes(*file[48..].first_chunk().expect("there")) as usize;
                [file[at + 12], file[at + 13], file[at + 14]]
            };
            let numbers = ["occlusionTexture", "normalTexture"].map(&format);
            assert_eq!(numbers, [[166, 0, 1]; 2]);
            assert_eq!(format("emissiveTexture"), [163, 1, 2]);
            assert_eq!(format("pbrMetallicRoughness/baseColorTexture"), [163, 1, 2]);
            continue;
        }
        if name == "lossy" {
            // Numbers are lossless; of colours only the opacity is.
            let model = Model::open(&path);
            let chunk = |slot: &str| {
                let file = model.file(slot).expect("a picture");
                String::from_utf8_lossy(&file[12..16]).into_owned()
            };
            assert_eq!(chunk("normalTexture"), "VP8L");
            assert_eq!(chunk("emissiveTexture"), "VP8 ");
            assert_eq!(chunk("pbrMetallicRoughness/baseColorTexture"), "VP8X");
        }
        files.push(path);
    }
    glb::assert_files_valid(&files);
    for output in ["out/a.obj", "out/a.ply"] {
        let made = report(&bench, output, &["--quality", "draft"]);
        assert_eq!(made["bake"]["channels"], json!([]));
        let told = made["warnings"][0]["text"]
            .as_str()
            .expect("a warning")
            .to_owned();
        assert!(told.contains("PLY and OBJ carry the base colour alone: metallic_roughness, normal, emissive, occlusion, opacity left out"), "{told}");
    }
}

#[test]
fn a_channel_may_lack_in_some_views_and_not_in_all() {
    let bench = with_ball(&Views {
        channels: vec![Channel::Occlusion, Channel::MetallicRoughness],
        ..few()
    });
    let path = bench.path("transforms.json");
    let mut transforms = read_json(&bench.path("transforms.json"));
    for view in [1, 4] {
        transforms["frames"][view]["channels"]["occlusion"] = Value::Null;
    }
    fs::write(&path, transforms.to_string()).expect("room");
    let draft = ["--quality", "draft"];
    let made = report(&bench, "out/a.glb", &draft);
    let views = |name: &str| {
        let channels = made["bake"]["channels"].as_array().expect("channels");
        let fit = channels.iter().find(|fit| fit["name"] == name);
        fit.expect("fitted")["views"].clone()
    };
    assert_eq!(
        (views("occlusion"), views("metallic_roughness")),
        (json!(5), json!(7))
    );
    let material = Model::open(&bench.path("out/a.glb")).json["materials"][0].clone();
    assert_eq!(
        material["occlusionTexture"],
        material["pbrMetallicRoughness"]["metallicRoughnessTexture"]
    );
    for view in 0..7 {
        let only = if view == 3 {
            json!("occlusion/3.png")
        } else {
            Value::Null
        };
        transforms["frames"][view]["channels"]["occlusion"] = only;
    }
    transforms["test_filenames"] = json!(["base/3.png"]);
    fs::write(&path, transforms.to_string()).expect("room");
    let message = bake(&bench, "out/b.glb", &draft).refusal(65);
    assert!(
        message.contains("only held-out views have the channels occlusion"),
        "{message}"
    );
}

#[test]
fn broken_channels_are_named_in_one_line() {
    let bench = with_ball(&Views {
        channels: vec![Channel::Normal],
        ..few()
    });
    let path = bench.path("transforms.json");
    let whole = read_json(&bench.path("transforms.json"));
    fs::create_dir(bench.path("other")).expect("a folder");
    let small = Views { edge: 32, ..few() };
    small.write(&bench.path("other"));
    fs::write(bench.path("normal/text.png"), "no picture").expect("room");
    for (change, words) in [
        (
            json!({"normal": "normal/9.png"}),
            "frame 2: normal/9.png: no such file",
        ),
        (
            json!({"normal": "../mesh.png"}),
            "frame 2: ../mesh.png: lies outside its folder",
        ),
        (
            json!({"normal": "mesh.obj"}),
            "is not a file of a mesh or a view",
        ),
        (
            json!({"normal": "normal/text.png"}),
            "normal/text.png (frame 2): ",
        ),
        (
            json!({"normal": "other/normal/2.png"}),
            "other/normal/2.png (frame 2): normal has 32x32 pixels, its view's picture 64x64",
        ),
        (
            json!({"bump": "normal/2.png"}),
            "frame 2: channels: \"bump\" is no channel; there are metallic_roughness, normal, emissive, occlusion, opacity",
        ),
    ] {
        let mut transforms = whole.clone();
        transforms["frames"][2]["channels"] = change.clone();
        fs::write(&path, transforms.to_string()).expect("room");
        let outcome = bake(&bench, "out/a.glb", &["--quality", "draft"]);
        let message = outcome.refusal(65);
        assert!(message.contains(words), "{change}: {message}");
        assert_eq!(outcome.one("error")["role"], "prepare");
    }
    bench.assert_clean(&[]);
}

#[test]
fn a_bake_that_dies_among_its_channels_is_repeated_with_all_of_them() {
    let bench = with_ball(&few());
    report(&bench, "out/a.glb", &[]);
    let mut run = Run::start(command(&bench, "out/b.glb", &[]));
    let started = run.wait_for(|event| event["event"] == "started" && event["role"] == "bake");
    // The base colour's seams are fitted before every other channel.
    run.wait_for(|event| event["event"] == "progress" && event["phase"] == "gutter");
    run.wait_for(|event| event["event"] == "progress" && event["phase"] == "gutter");
    let pid = started["pid"]
        .as_i64()
        .and_then(|pid| i32::try_from(pid).ok());
    signal_to(pid.expect("a process id"), Signal::SIGKILL);
    let outcome = run.finish();
    outcome.assert_code(0);
    assert_eq!(
        outcome.attempts("bake").len(),
        2,
        "{:?}",
        outcome.attempts("bake")
    );
    let [one, other] = ["a", "b"].map(|name| fs::read(bench.path(&format!("out/{name}.glb"))));
    assert!(one.expect("made") == other.expect("made"), "the same bytes");
}

#[test]
fn the_oracle_knows_a_flipped_axis_and_light_from_numbers() {
    let bench = with_ball(&few());
    report(&bench, "out/a.glb", &["--quality", "draft"]);
    let model = Model::open(&bench.path("out/a.glb"));
    let metal = "pbrMetallicRoughness/metallicRoughnessTexture";
    let right = psnr(&model, metal, Channel::MetallicRoughness, &[1]);
    // Green against the truth of blue, and the colours of another channel.
    let wrong = psnr(&model, metal, Channel::Occlusion, &[1]);
    assert!(right > wrong + 10.0, "{right} and {wrong} dB");
    let truth = relief(&model);
    let mut flipped = Model::open(&bench.path("out/a.glb"));
    let accessor = flipped.accessor("TANGENT").expect("tangents").clone();
    let view = flipped.json["bufferViews"][number(&accessor["bufferView"]) as usize].clone();
    let start = number(&view["byteOffset"]) as usize;
    // A frame whose bitangent is turned reads the map's green upside down, and is not glTF's either.
    let far = std::panic::catch_unwind(move || {
        for tangent in 0..number(&accessor["count"]) as usize {
            flipped.binary[start + 16 * tangent + 15] ^= 0x80;
        }
        relief(&flipped)
    });
    assert!(far.is_err() && truth > 24.0, "{truth} dB");
    assert!((light(0.5) - 0.2140).abs() < 1e-4);
}

#[test]
fn every_page_has_its_own_part_of_every_channel() {
    let bench = with_ball(&Views::default());
    let more = ["--texture-size", "256", "--pages", "4"];
    report(&bench, "out/a.glb", &more);
    for page in 0..4 {
        let mut model = Model::open(&bench.path("out/a.glb"));
        model.page = page;
        assert_eq!(model.json["images"].as_array().map(Vec::len), Some(16));
        // A page may have more than its share of the steps.
        assert_near(&model, 50.0, 15.0);
    }
    glb::assert_files_valid(&[bench.path("out/a.glb")]);
}

/// Waves on the unit ball: how far the surface lies outside of it in a direction.
fn wave([x, y, z]: Vector) -> f64 {
    0.02 * (9.0 * x).sin() * (8.0 * y + 1.0).sin() * (7.0 * z).cos()
}

/// The normal of the wavy ball in the direction of a place: the gradient of `|p| - wave(p / |p|)`.
fn normal_of_waves(place: Vector) -> Vector {
    let along = unit(place);
    let on = along.map(|x| x * (1.0 + wave(along)));
    let level = |at: Vector| dot(at, at).sqrt() - wave(unit(at));
    unit([0, 1, 2].map(|axis| {
        let step = |by: f64| {
            let mut at = on;
            at[axis] += by;
            level(at)
        };
        step(1e-5) - step(-1e-5)
    }))
}

#[test]
fn a_simplified_mesh_shows_the_normals_and_the_occlusion_of_what_it_was() {
    let views = Views {
        channels: Vec::new(),
        ..few()
    };
    let bench = with_ball(&views);
    let text = fs::read_to_string(bench.path("mesh.obj")).expect("a mesh");
    let lines = text.lines().map(|line| {
        let Some(point) = line.strip_prefix("v ") else {
            return line.to_owned();
        };
        let point: Vec<f64> = point
            .split(' ')
            .map(|x| x.parse().expect("a number"))
            .collect();
        let point = [point[0], point[1], point[2]];
        let [x, y, z] = point.map(|x| x * (1.0 + wave(point)));
        format!("v {x} {y} {z}")
    });
    let wavy: Vec<String> = lines.collect();
    fs::write(bench.path("mesh.obj"), wavy.join("\n")).expect("a mesh");

    let more = [
        "--simplify",
        "0.95",
        "--device",
        "cpu",
        "--detail",
        "normal,occlusion",
    ];
    let report = report(&bench, "out/a.glb", &more);
    let path = bench.path("out/a.glb");
    let model = Model::open(&path);
    let [mapped, own] = normals(&model, normal_of_waves);
    eprintln!("{mapped:.1} dB with the map, {own:.1} without");
    assert!(mapped > 30.0 && mapped > own + 8.0, "{mapped} {own}");
    let occlusion = picture(&model, "occlusionTexture").0;
    let red = occlusion.bytes.chunks(occlusion.width());
    assert!(
        red.into_iter().all(|texel| texel[0] > 240),
        "the ball has no hollows"
    );
    let detail = &report["bake"]["detail"];
    assert_eq!(detail["layers"], json!(["normal", "occlusion"]));
    assert_eq!(detail["triangles"], 6016);
    assert!(number(&detail["found"]) > 0.99, "{detail}");
    glb::assert_files_valid(&[path]);

    // The same views with normals of their own: those win.
    let shown = with_ball(&few());
    fs::copy(bench.path("mesh.obj"), shown.path("mesh.obj")).expect("a mesh");
    self::report(&shown, "out/a.glb", &more);
    let [of_views, _] = normals(&Model::open(&shown.path("out/a.glb")), |place| {
        Channel::Normal.at(unit(place))
    });
    assert!(of_views > 20.0, "{of_views}");

    // Simplified before, with the surface that it was beside it: the same as if Kiln had done it.
    fs::copy(bench.path("out/a.glb"), bench.path("low.glb")).expect("a mesh");
    let low = |original: &str| {
        let more = [
            "--keep-uvs",
            "--original",
            original,
            "--detail",
            "normal",
            "--device",
            "cpu",
            "--texture-size",
            "512",
            "--crash-folder",
            "none",
            "-o",
            "out/c.glb",
        ];
        Run::start(bench.bake_for_real("low.glb", "transforms.json", &more)).finish()
    };
    let detail = &low("mesh.obj").report()["bake"]["detail"];
    assert_eq!(detail["triangles"], 6016);
    let [mapped, own] = normals(&Model::open(&bench.path("out/c.glb")), normal_of_waves);
    assert!(mapped > 30.0 && mapped > own + 8.0, "{mapped} {own}");
    let far = wavy.iter().map(|line| {
        let Some(point) = line.strip_prefix("v ") else {
            return line.clone();
        };
        let (x, rest) = point.split_once(' ').expect("a point");
        let x: f64 = x.parse().expect("a number");
        format!("v {} {rest}", x + 3.0)
    });
    fs::write(bench.path("far.obj"), far.collect::<Vec<_>>().join("\n")).expect("a mesh");
    for (original, code, words) in [
        ("far.obj", 65, "beside those of low.glb: no original of it"),
        ("transforms.json", 65, "lists views"),
        ("gone.obj", 66, "the original gone.obj"),
    ] {
        let refused = low(original);
        refused.assert_code(code);
        let told = refused.stdout.join(
            "
",
        ) + &refused.stderr;
        assert!(told.contains(words), "{told}");
    }
    // What the meshes are shaded with lies beside the original's normals by as much.
    let compared = |mesh: &str, more: &[&str]| {
        let mut command = bench.command(&["compare", "--json", mesh, "--views", "transforms.json"]);
        command.args(["--normals-of", "mesh.obj"]).args(more);
        let outcome = Run::start(command).finish();
        outcome.assert_code(0);
        let normals = outcome.one("compared")["models"][0]["normals"].clone();
        ["mean_deg", "median_deg", "p95_deg"].map(|key| number(&normals[key]))
    };
    let flat = self::report(
        &bench,
        "out/flat.glb",
        &["--simplify", "0.95", "--device", "cpu"],
    );
    assert!(flat["bake"]["detail"].is_null());
    let [with, without] = ["out/a.glb", "out/flat.glb"].map(|mesh| compared(mesh, &[]));
    eprintln!("{with:?} degrees with the map, {without:?} without");
    assert!(
        with[0] < 2.5 && without[0] > 2.0 * with[0],
        "{with:?} {without:?}"
    );
    for of in [with, without] {
        assert!(of[1] <= of[2] && of[0] > 0.0, "{of:?}");
    }

    let flat = self::report(
        &bench,
        "out/b.glb",
        &["--detail", "normal", "--device", "cpu"],
    );
    let warnings = flat["warnings"].to_string();
    assert!(warnings.contains("the normal map is flat"), "{warnings}");
}
