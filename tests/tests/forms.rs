//! Jobs by form: uploads as large as real ones, the same jobs as by their files, in little memory.

use std::fs;
use std::path::Path;

use kiln_tests::fault::Plan;
use kiln_tests::sidecar::{Answer, Sidecar, sha256};
use kiln_tests::{Bench, data, read_json};
use serde_json::{Value, json};

/// Parts as `curl -F` sends them.
#[derive(Default)]
struct Form(Vec<u8>);

impl Form {
    /// Mesh, views and the pictures that the views name, of `folder`.
    fn of_set(folder: &Path, spec: &Value, mesh: &str) -> Self {
        let read = |name: &str| fs::read(folder.join(name)).expect(name);
        let views = read("transforms.json");
        let listed: Value = serde_json::from_slice(&views).expect("JSON");
        let form = Self::default()
            .part("spec", None, spec.to_string().as_bytes())
            .part("mesh", Some(mesh), &read(mesh))
            .part("views", Some("./transforms.json"), &views);
        let frames = listed["frames"].as_array().expect("frames").iter();
        let names = frames.map(|frame| frame["file_path"].as_str().expect("a name"));
        names.fold(form, |form, name| {
            form.part("file", Some(name), &read(name))
        })
    }

    fn part(mut self, name: &str, file: Option<&str>, bytes: &[u8]) -> Self {
        let file = file.map_or(String::new(), |file| format!("; filename=\"{file}\""));
        let head = format!("--XX\r\ncontent-disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        self.0.extend(head.as_bytes());
        self.0.extend(bytes);
        self.0.extend(b"\r\n");
        self
    }

    fn send(mut self, sidecar: &Sidecar, key: &str) -> Answer {
        self.0.extend(b"--XX--\r\n");
        let headers = [
            ("content-type", "multipart/form-data; boundary=XX"),
            ("idempotency-key", key),
        ];
        sidecar.send("POST", "/v1/jobs", &headers, &self.0)
    }
}

/// The most memory that a process has had, in KiB.
fn peak_kib(sidecar: &Sidecar) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", sidecar.pid())).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
    peak.expect("a peak").trim().parse().expect("a number")
}

/// The form of a set and its files by path make the same bytes.
fn assert_same_job(sidecar: &Sidecar, folder: &Path, mesh: &str) {
    let mut spec = json!({"quality": "draft", "texture_size": 256, "device": "cpu"});
    let form = Form::of_set(folder, &spec, mesh);
    let sent = sidecar.finished(&form.send(sidecar, &format!("{mesh} by form")).id());
    assert_eq!(sent["state"], "succeeded", "{sent:#}");
    spec["mesh"] = json!({"path": folder.join(mesh)});
    spec["views"] = json!({"path": folder.join("transforms.json")});
    let own = sidecar.submit(&format!("{mesh} by path"), &spec);
    let own = sidecar.finished(&own.id());
    assert_eq!(own["state"], "succeeded", "{own:#}");
    let digests = [&sent, &own].map(|job| &job["artifacts"][0]["sha256"]);
    assert!(digests[0].is_string(), "{sent:#}");
    assert_eq!(digests[0], digests[1], "the same bytes");
}

#[test]
fn a_form_larger_than_any_default_bound_is_the_same_job_as_its_files() {
    let bench = Bench::sphere();
    // Names as NeRF's own transforms.json have them.
    let mut transforms = read_json(&bench.path("transforms.json"));
    let frames = transforms["frames"].as_array_mut().expect("frames");
    fs::create_dir(bench.path("train")).expect("room");
    for (number, frame) in frames.iter_mut().enumerate() {
        let name = format!("{number}.png");
        frame["file_path"] = format!("./train/{name}").into();
        fs::rename(bench.path(&name), bench.path("train").join(&name)).expect("there");
    }
    fs::write(bench.path("transforms.json"), transforms.to_string()).expect("room");
    let mesh = bench.bytes("mesh.obj").expect("there");
    let mesh = [mesh, vec![b'#'; 9 << 20]].concat();
    fs::write(bench.path("mesh.obj"), &mesh).expect("room");
    let sidecar = Sidecar::start(&bench, &[]);
    assert_same_job(&sidecar, &bench.path(""), "mesh.obj");
}

/// `flighthelmet` with its UVs: the most bytes that a mesh, its views and their pictures have in the data.
#[test]
fn the_largest_set_by_form_is_the_same_job_as_its_files() {
    let set = fs::canonicalize(data("flighthelmet/transforms.json")).expect("there");
    let set = set.parent().expect("a folder");
    let bench = Bench::real();
    let root = set.to_str().expect("text");
    let sidecar = Sidecar::start(&bench, &["--root", root]);
    assert_same_job(&sidecar, set, "mesh_uv.glb");
}

#[test]
fn a_form_takes_no_memory_for_its_files() {
    let bench = Bench::new(&Plan::healthy());
    let sidecar = Sidecar::start(&bench, &[]);
    let send = |key: &str, bytes: usize| {
        let form = Form::default()
            .part("mesh", Some("mesh.glb"), b"a mesh")
            .part("views", Some("transforms.json"), b"{}")
            .part("file", Some("a.png"), &vec![7; bytes])
            .part("file", Some("b.png"), &vec![8; bytes]);
        let job = sidecar.finished(&form.send(&sidecar, key).id());
        assert_eq!(job["state"], "succeeded", "{job:#}");
        peak_kib(&sidecar)
    };
    let [small, large] = [send("small", 1 << 10), send("large", 48 << 20)];
    assert!(large - small < 16 << 10, "{small} KiB, then {large} KiB");
}

#[test]
fn a_form_beyond_a_bound_is_told_which_and_a_name_is_given_once() {
    let bench = Bench::new(&Plan::healthy());
    let sidecar = Sidecar::start(&bench, &["--queue-bytes", "16M"]);
    let form = || {
        Form::default()
            .part("mesh", Some("mesh.glb"), b"a mesh")
            .part("views", Some("transforms.json"), b"{}")
    };
    let large = vec![7; 17 << 20];
    let refused = form()
        .part("file", Some("a.png"), &large)
        .send(&sidecar, "large");
    assert_eq!(refused.problem(), (413, "payload_too_large".to_owned()));
    let told = refused.json();
    assert_eq!(told["retryable"], false);
    let detail = told["detail"].as_str().expect("text");
    assert!(
        detail.contains("16777216") && detail.contains("--queue-bytes"),
        "{detail}"
    );
    for (name, words) in [
        ("./mesh.glb", "\"mesh.glb\""),
        ("../a.png", "hidden"),
        ("a\\\\b.png", "backslash"),
    ] {
        let refused = form().part("file", Some(name), b"x").send(&sidecar, name);
        assert_eq!(
            refused.problem(),
            (400, "invalid_request".to_owned()),
            "{name}"
        );
        let told = refused.json();
        assert!(
            told["detail"].as_str().expect("text").contains(words),
            "{told}"
        );
    }
    let digest = sha256(b"{}");
    let text = format!(
        r#"{{"mesh": {{"files": {{"m.glb": "{digest}", "./m.glb": "{digest}"}}, "main": "m.glb"}}, "views": {{"path": "/t"}}}}"#
    );
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", "twice"),
    ];
    let refused = sidecar.send("POST", "/v1/jobs", &headers, text.as_bytes());
    assert_eq!(refused.problem(), (422, "invalid_spec".to_owned()));
    assert!(
        refused.json()["detail"]
            .as_str()
            .expect("text")
            .contains("\"m.glb\"")
    );
    assert_eq!(
        sidecar.finished(&form().send(&sidecar, "good").id())["state"],
        "succeeded"
    );
}
