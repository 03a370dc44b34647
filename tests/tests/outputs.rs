//! What a result says of itself and of its making: names and credits of the input, colours of vertices, the report as a
//! page.

use std::fs;
use std::path::Path;

use kiln_tests::{Bench, Outcome, glb, read_json, words};
use serde_json::{Value, json};

/// A name that runs where it is taken for more than text.
const HOSTILE: &str = "<img src=x onerror=alert(1)>";

fn bake(bench: &Bench, mesh: &str, output: &str, more: &str) -> Outcome {
    let all = format!("--quality draft --texture-size 256 -o {output} {more}");
    bench.baked(mesh, "transforms.json", &words(&all))
}

/// A copy of a GLB with another document.
fn rewritten(from: &Path, to: &Path, change: impl FnOnce(&mut Value)) {
    let glb::Model {
        mut json, binary, ..
    } = glb::Model::read(from).expect("a GLB");
    change(&mut json);
    let mut text = json.to_string().into_bytes();
    text.resize(text.len().next_multiple_of(4), b' ');
    let word = |number: usize| u32::try_from(number).expect("small").to_le_bytes();
    let chunk = |kind: &[u8; 4], bytes: &[u8]| [&word(bytes.len())[..], kind, bytes].concat();
    let chunks = [chunk(b"JSON", &text), chunk(b"BIN\0", &binary)].concat();
    let head = [&b"glTF"[..], &word(2), &word(12 + chunks.len())].concat();
    fs::write(to, [head, chunks].concat()).expect("room");
}

#[test]
fn names_and_credits_of_the_input_stay_in_every_form() {
    let bench = Bench::sphere();
    let text = fs::read_to_string(bench.path("mesh.obj")).expect("the mesh");
    let named = text.replacen("f ", "o Big Ball\nusemtl Red \"Oak\"\nf ", 1);
    fs::write(bench.path("named.obj"), named).expect("room");
    let names = |path: &Path| {
        let json = glb::read(path).expect("a whole GLB");
        let lists = ["nodes", "meshes", "materials", "images", "textures"];
        lists.map(|list| {
            json[list][0]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
    };
    let out = |name: &str| bench.path("out").join(name);
    bake(&bench, "mesh.obj", "out/plain.glb", "").report();
    let [base, picture] = ["baked", "baked_baseColor"];
    assert_eq!(
        names(&out("plain.glb")),
        [base, base, base, picture, picture]
    );
    let report = bake(&bench, "named.obj", "out/a.glb", "").report();
    assert_eq!(report["prepare"]["labels"]["material"], "Red \"Oak\"");
    let picture = "Red \"Oak\"_baseColor";
    assert_eq!(
        names(&out("a.glb")),
        ["Big Ball", "Big Ball", "Red \"Oak\"", picture, picture]
    );

    rewritten(&out("a.glb"), &bench.path("credited.glb"), |json| {
        json["asset"]["copyright"] = json!("© 2026 somebody\u{0}\n, all rights");
        json["asset"]["extras"] =
            json!({ "license": "CC-BY-4.0", "author": ["nobody"], "more": 1 });
        json["meshes"][0]["name"] = json!("Shell");
    });
    let credit = "© 2026 somebody , all rights";
    bake(&bench, "credited.glb", "out/b.glb", "--compress meshopt").report();
    let json = glb::read(&out("b.glb")).expect("a whole GLB");
    assert_eq!(json["asset"]["copyright"], credit);
    assert_eq!(json["asset"]["extras"], json!({ "license": "CC-BY-4.0" }));
    let generator = json["asset"]["generator"].as_str();
    assert!(
        generator.is_some_and(|name| name.starts_with("kiln ")),
        "{generator:?}"
    );
    assert_eq!(
        names(&out("b.glb"))[..3],
        ["Big Ball", "Shell", "Red \"Oak\""]
    );
    glb::assert_files_valid(&["plain.glb", "a.glb", "b.glb"].map(out));

    for (output, lines) in [
        (
            "c.obj",
            &["o Big_Ball", "usemtl Red_\"Oak\"", "# license: CC-BY-4.0"][..],
        ),
        ("c.ply", &["comment license: CC-BY-4.0"]),
    ] {
        bake(&bench, "credited.glb", &format!("out/{output}"), "").report();
        let text = fs::read(out(output)).expect("the mesh");
        let text = String::from_utf8_lossy(&text);
        let credited = format!("copyright: {credit}");
        assert!(text.contains(&credited), "{output}");
        for line in lines {
            assert!(text.lines().any(|found| found == *line), "{output}: {line}");
        }
    }
    let material = fs::read_to_string(out("c.mtl")).expect("the material");
    assert!(material.starts_with("newmtl Red_\"Oak\"\n"), "{material}");
}

#[test]
fn colours_of_vertices_lie_on_the_mesh_as_it_was() {
    let bench = Bench::sphere();
    // 16 rings of 16 points, and two poles.
    let points = 16 * 16 + 2;
    for (output, more) in [
        ("a.glb", ""),
        ("b.glb", "--compress meshopt"),
        ("c.ply", ""),
    ] {
        let more = format!("--vertex-colors {more}");
        let report = bake(&bench, "mesh.obj", &format!("out/{output}"), &more).report();
        assert_eq!(report["product"], "vertex_colours");
        let path = bench.path("out").join(output);
        if output == "c.ply" {
            let file = fs::read(&path).expect("the mesh");
            let header = String::from_utf8_lossy(&file[..400]).into_owned();
            for line in [&format!("element vertex {points}"), "property uchar red"] {
                assert!(header.lines().any(|found| found == line), "{header}");
            }
            continue;
        }
        let json = glb::json(&path).expect("a GLB");
        let attributes = &json["meshes"][0]["primitives"][0]["attributes"];
        assert!(json["images"].is_null() && attributes["TEXCOORD_0"].is_null());
        for name in ["POSITION", "COLOR_0"] {
            let accessor = attributes[name].as_u64().expect("the attribute") as usize;
            assert_eq!(
                json["accessors"][accessor]["count"], points,
                "{name} of {output}"
            );
        }
    }
    glb::assert_files_valid(&["a.glb", "b.glb"].map(|name| bench.path("out").join(name)));
}

#[test]
fn the_page_is_one_file_that_runs_nothing_of_the_input() {
    let bench = Bench::sphere();
    let name = format!("{HOSTILE}.png");
    fs::rename(bench.path("0.png"), bench.path(&name)).expect("a view");
    let mut views = read_json(&bench.path("transforms.json"));
    views["frames"][0]["file_path"] = json!(name);
    fs::write(bench.path("transforms.json"), views.to_string()).expect("room");
    let mesh = format!("{HOSTILE}.obj");
    fs::rename(bench.path("mesh.obj"), bench.path(&mesh)).expect("the mesh");
    let out = "--html out/page.html --preview out/sheet.png --report out/report.json --holdout 2";
    let all = format!("--quality draft --texture-size 256 -o out/a.glb {out}");
    let report = bench.baked(&mesh, "transforms.json", &words(&all)).report();
    let page = fs::read_to_string(bench.path("out/page.html")).expect("the page");
    let entry = (report["files"].as_array().expect("files").iter())
        .find(|file| file["kind"] == "html")
        .expect("its entry");
    assert_eq!(entry["bytes"], page.len());
    assert_eq!(report["prepare"]["view_names"][0], name);

    assert!(
        !page.contains("<img src=x") && page.contains("&lt;img src=x onerror=alert(1)&gt;.png")
    );
    assert_eq!(page.matches("<script>").count(), 1);
    let policy = page.find("Content-Security-Policy").expect("a policy");
    assert!(policy < page.find("<script>").expect("the script"));
    for elsewhere in [
        "http:", "https:", "src=\"//", "url(", "@import", "<link", "<iframe",
    ] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
    // Seven views, each with three pictures; two textures, four swatches.
    assert_eq!(page.matches("<b>View ").count(), 7);
    assert_eq!(
        page.matches("data:image/jpeg;base64,").count(),
        7 * 3 + 2 + 4
    );
    assert_eq!(page.matches("held out of the fit").count(), 2);
    assert_eq!(page.matches("type=\"range\"").count(), 7);
    bench.assert_clean(&["a.glb", "page.html", "report.json", "sheet.png"]);

    // With vertices' colours there is no texture to show; a dry run has nothing at all.
    let out = "--quality draft --vertex-colours -o out/b.glb --html out/page.html";
    bench.baked(&mesh, "transforms.json", &words(out)).report();
    let page = fs::read_to_string(bench.path("out/page.html")).expect("the page");
    assert!(page.contains("<b>View 0</b>") && !page.contains("<h2>Texture"));
    let out = "--dry-run --html out/page.html";
    bench
        .baked(&mesh, "transforms.json", &words(out))
        .assert_code(64);
}

#[test]
fn the_sheet_is_the_same_beside_a_page() {
    let bench = Bench::sphere();
    let sheet = |more: &str| {
        let more = format!("--holdout 2 --preview out/sheet.png {more}");
        bake(&bench, "mesh.obj", "out/a.glb", &more).report();
        bench.bytes("out/sheet.png").expect("the sheet")
    };
    assert!(sheet("") == sheet("--html out/page.html"));
}
