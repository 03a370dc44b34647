//! What a spec says, what is refused of it, and that flags, JSON and schema say the same.

use proto::job::Simplify;

use clap::ValueEnum;
use serde_json::{Value, json};

use super::check::Wrong;
use super::*;

const PATHS: &str = r#""mesh": {"path": "/a.glb"}, "views": {"path": "/t.json"}"#;

fn read(more: &str) -> Result<JobOptions, Wrong> {
    JobOptions::read(format!("{{{PATHS}{more}}}").as_bytes(), true)
}

#[test]
fn defaults_are_those_of_the_command_line() {
    let spec = read("").expect("enough");
    assert_eq!(spec.texture_size, 1024);
    assert_eq!(
        (spec.device(), spec.simplify()),
        (Device::Auto, Simplify::Keep)
    );
    assert_eq!(spec.repair(), Repair::default());
    assert_eq!(spec.timeout(), Duration::from_secs(3600));
    assert!(spec.uploads().is_empty());
    let again = JobOptions::read(spec.canonical().as_bytes(), true).expect("canonical");
    assert_eq!((again.digest(), &again), (spec.digest(), &spec));
}

#[test]
fn a_number_is_the_double_nearest_to_its_digits() {
    let spec = read(r#", "simplify": 0.9999999999999999"#).expect("less than 1");
    assert_eq!(spec.simplify, Some(1.0 - f64::EPSILON / 2.0));
    assert!(matches!(spec.simplify(), Simplify::RemoveShare(share) if share < 1.0));
}

#[test]
fn what_is_wrong_is_named_by_its_key() {
    for (more, field) in [
        (r#", "texture_size": 1023"#, "texture_size"),
        (r#", "texture_size": "big""#, "texture_size"),
        (r#", "pages": 2"#, "pages"),
        (r#", "pages": 4, "texture_size": 4100"#, "pages"),
        (r#", "simplify": 1.0"#, "simplify"),
        (r#", "simplify": 0.5, "target_faces": 5"#, "simplify"),
        (r#", "target_faces": 0"#, "target_faces"),
        (r#", "fill_holes": 0"#, "fill_holes"),
        (r#", "fill_holes": true"#, "fill_holes"),
        (r#", "fill_holes": 0.04, "keep_uvs": true"#, "fill_holes"),
        (r#", "hole_edges": 2"#, "hole_edges"),
        (r#", "hole_edges": 513"#, "hole_edges"),
        (r#", "weld": 0.02"#, "weld"),
        (r#", "up": "x""#, "up"),
        (r#", "frame": "none""#, "frame"),
        (r#", "alpha_mode": "clip""#, "alpha_mode"),
        (r#", "alpha_cutoff": 1.5"#, "alpha_cutoff"),
        (r#", "texture_format": "gif""#, "texture_format"),
        (r#", "texture_quality": 90"#, "texture_quality"),
        (
            r#", "texture_format": "jpeg", "texture_quality": 101"#,
            "texture_quality",
        ),
        (
            r#", "texture_format": "ktx2-etc1s", "texture_quality": 0"#,
            "texture_quality",
        ),
        (r#", "compress": "zip""#, "compress"),
        (r#", "vertex_colours": true, "pages": 4"#, "vertex_colours"),
        (
            r#", "vertex_colours": true, "maps": true"#,
            "vertex_colours",
        ),
        (
            r#", "vertex_colours": true, "provenance_attribute": true"#,
            "vertex_colours",
        ),
        (r#", "original": {"path": "/h.glb"}"#, "original"),
        (
            r#", "detail": "normal", "original": {"path": "h.glb"}"#,
            "original",
        ),
        (
            r#", "detail": "normal", "original": {"path": "/h.glb", "images": "/i"}"#,
            "original",
        ),
        (r#", "vram_budget": 0"#, "vram_budget"),
        (r#", "gpu_times": 1"#, "gpu_times"),
        (r#", "quality": "superb""#, "quality"),
        (r#", "qualty": "draft""#, "qualty"),
        (r#", "device": """#, "device"),
        (r#", "holdout": 4096"#, "holdout"),
        (r#", "timeout_s": 0"#, "timeout_s"),
        (r#", "name": "a\nb""#, "name"),
        (r#", "arrays": "abc""#, "arrays"),
    ] {
        let problem = read(more).expect_err(more);
        assert_eq!(problem.key, field, "{more}: {}", problem.why);
    }
    for text in ["", "[]", "{} x", "{}", "null", "5"] {
        JobOptions::read(text.as_bytes(), true).expect_err(text);
    }
}

#[test]
fn a_list_of_values_is_no_object() {
    let list = br#"["n", {"path": "/a.glb"}, {"path": "/t.json"}]"#;
    let problem = JobOptions::read(list, true).expect_err("a list");
    assert_eq!(problem.why, "a spec is a JSON object");
    let files = r#"[{"t.json": "0000000000000000000000000000000000000000000000000000000000000000"}, "t.json"]"#;
    for views in [r#"["/t.json"]"#, files] {
        let text = format!(r#"{{"mesh": {{"path": "/a.glb"}}, "views": {views}}}"#);
        let problem = JobOptions::read(text.as_bytes(), true).expect_err(views);
        assert_eq!(problem.key, "views");
        assert!(
            problem.why.contains("an object with path"),
            "{}",
            problem.why
        );
    }
    let none = br#" {"mesh": null, "views": null, "texture_size": 512}"#;
    JobOptions::read(none, false).expect("null is as good as nothing");
}

#[test]
fn splats_alone_need_no_views() {
    for (mesh, fits) in [
        ("/a.ply", true),
        ("/s/meta.json", true),
        ("/a.SPZ", true),
        ("/a.glb", true),
        ("/a.obj", false),
        ("/transforms.json", false),
    ] {
        for views in ["", r#", "views": null"#] {
            let text = format!(r#"{{"mesh": {{"path": "{mesh}"}}{views}}}"#);
            let read = JobOptions::read(text.as_bytes(), true);
            assert_eq!(read.is_ok(), fits, "{text}");
        }
        let in_the_body = format!(r#"{{"mesh": {{"path": "{mesh}"}}}}"#);
        JobOptions::read(in_the_body.as_bytes(), false).expect_err(mesh);
    }
}

#[test]
fn a_file_that_is_named_twice_is_refused_by_its_name() {
    let digest = "a".repeat(64);
    for (first, second) in [("t.json", "t.json"), ("t.json", "./t.json")] {
        let text = format!(
            r#"{{"mesh": {{"path": "/a.glb"}}, "views": {{"files": {{"{first}": "{digest}", "{second}": "{digest}"}}, "main": "t.json"}}}}"#
        );
        let problem = JobOptions::read(text.as_bytes(), true).expect_err("twice");
        assert!(problem.key.starts_with("views"));
        assert!(
            problem.why.contains("two files have the name \"t.json\""),
            "{}",
            problem.why
        );
    }
}

#[test]
fn uploads_lie_apart_and_their_names_stay_beneath() {
    let digest = "a".repeat(64);
    let files = |name: &str, main: &str| {
        let text = format!(
            r#"{{"mesh": {{"path": "/a.glb"}}, "views": {{"files": {{"{name}": "{digest}"}}, "main": "{main}"}}}}"#
        );
        JobOptions::read(text.as_bytes(), true)
    };
    let spec = files("a/t.json", "a/t.json").expect("good");
    assert_eq!(
        spec.uploads().into_keys().collect::<Vec<_>>(),
        ["views/a/t.json"]
    );
    for name in [
        "../t.json",
        "/t.json",
        "a//t.json",
        ".t.json",
        "./../t.json",
        "a/../t.json",
        "./",
        "a\\\\b",
        "a\\u0000b",
        "",
    ] {
        files(name, name).expect_err(name);
    }
    files("t.json", "other.json").expect_err("main must be there");
    for name in ["./a/t.json", "a/./t.json", "././a/t.json"] {
        let spec = files(name, "./a/t.json").expect(name);
        let names: Vec<String> = spec.uploads().into_keys().collect();
        assert_eq!(names, ["views/a/t.json"]);
    }
    assert!(JobOptions::read(br#"{"texture_size": 512}"#, false).is_ok());
}

#[test]
fn a_form_says_what_was_asked_for() {
    let plain = JobOptions::default();
    assert_eq!(plain.product(), Product::Texture);
    assert_eq!(plain.form().texture, TextureFormat::Png);
    for (texture_format, texture_quality, quality) in [
        (TextureFormat::Ktx2Etc1s, None, 75),
        (TextureFormat::Jpeg, None, 90),
        (TextureFormat::Jpeg, Some(40), 40),
        (TextureFormat::WebpLossy, Some(40), 40),
    ] {
        let options = JobOptions {
            texture_format,
            texture_quality,
            compress: Compress::Meshopt,
            provenance_attribute: true,
            ..plain.clone()
        };
        let form = options.form();
        assert_eq!((form.texture, form.quality), (texture_format, quality));
        assert_eq!((form.compress, form.provenance), (Compress::Meshopt, true));
        options.check(false).expect("it has a quality");
    }
    let bare = JobOptions {
        vertex_colours: true,
        ..plain
    };
    assert_eq!(bare.product(), Product::VertexColours);
}

#[test]
fn flags_and_json_name_a_choice_alike() {
    fn same<T: ValueEnum + Serialize>() {
        for choice in T::value_variants() {
            let flag = choice.to_possible_value().expect("a value");
            let json = crate::words::word(choice);
            assert_eq!(flag.get_name(), json.replace('_', "-"));
        }
    }
    same::<Up>();
    same::<TextureFormat>();
    same::<Compress>();
    same::<AlphaMode>();
    same::<Quality>();
    same::<Blend>();
    same::<Refine>();
    same::<Policy>();
}

#[test]
fn the_bounds_of_the_schema_are_those_that_are_checked() {
    let [(_, spec), _] = schemas();
    let properties = spec["properties"].as_object().expect("properties");
    let mut bounds = 0;
    for (key, property) in properties {
        assert!(property["description"].is_string(), "{key} has no words");
        let good = |value: &Value| {
            let format = if key == "texture_quality" {
                "jpeg"
            } else {
                "png"
            };
            let mut text = json!({ "keep_uvs": key == "uv_set", "texture_format": format });
            text[key] = value.clone();
            JobOptions::read(text.to_string().as_bytes(), false).is_ok()
        };
        // Which of several is told by an enumeration.
        for (bound, within, step) in [
            ("minimum", true, -1.0),
            ("maximum", true, 1.0),
            ("exclusiveMinimum", false, 0.0),
            ("exclusiveMaximum", false, 0.0),
        ] {
            let Some(value) = property
                .get(bound)
                .filter(|_| property.get("enum").is_none())
            else {
                continue;
            };
            assert_eq!(good(value), within, "{key}: {bound}");
            let beyond = value.as_f64().expect("a number") + step;
            assert!(!good(&json!(beyond)), "{key}: beyond {bound}");
            bounds += 1;
        }
    }
    assert!(bounds > 20, "{bounds}");
}
