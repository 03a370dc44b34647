//! `kiln doctor`, and jobs whose device is `auto`, where a GPU is there and no driver gives it.

use std::fs;

use kiln_tests::host::with_nodes;
use kiln_tests::{Bench, Run, words};
use serde_json::{Value, json};

/// What `kiln doctor` says with these drivers beside the system's.
fn doctor(bench: &Bench, manifests: &[(&str, &str)]) -> Value {
    let folder = bench.path("icd.d");
    fs::create_dir_all(&folder).expect("room");
    for (name, text) in manifests {
        fs::write(folder.join(name), text).expect("room");
    }
    let mut kiln = bench.command(&words("doctor --json"));
    let output = kiln.env("VK_ADD_DRIVER_FILES", &folder).output();
    let output = output.expect("kiln starts");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// How to mend the problem that has this text.
fn mend<'a>(answer: &'a Value, what: &str) -> &'a str {
    let problems = answer["problems"].as_array().expect("a list");
    let told = |problem: &&Value| {
        problem["what"]
            .as_str()
            .is_some_and(|text| text.contains(what))
    };
    let problem = problems.iter().find(told);
    let problem = problem.unwrap_or_else(|| panic!("{what} is not in {answer:#}"));
    problem["how_to_mend"].as_str().expect("text")
}

#[test]
fn a_driver_that_does_not_load_is_named_with_the_linkers_reason() {
    let bench = Bench::real();
    let driver = |library: &str| {
        let icd = json!({ "library_path": library, "api_version": "1.3.0" });
        json!({ "file_format_version": "1.0.0", "ICD": icd }).to_string()
    };
    // A library that needs another that is not there, as NVIDIA's without X11's.
    let (source, library) = (bench.path("icd.c"), bench.path("libicd_kiln.so"));
    let needed = bench.path("libX11.so.6");
    fs::write(&source, "int vk_icdGetInstanceProcAddr(void) { return 0; }").expect("room");
    let cc = |output: &std::path::Path, more: &[&std::ffi::OsStr]| {
        let mut cc = std::process::Command::new("cc");
        cc.args(["-shared", "-fPIC", "-Wl,--no-as-needed", "-o"]);
        let done = cc.arg(output).arg(&source).args(more).status();
        assert!(done.expect("a C compiler").success());
    };
    // By a name that no system has.
    cc(&needed, &["-Wl,-soname,libkiln-absent.so.6".as_ref()]);
    cc(&library, &[needed.as_os_str()]);
    let library = library.display().to_string();
    let answer = doctor(&bench, &[("a.json", &driver(&library))]);
    let what =
        format!("{library} does not load: libkiln-absent.so.6: cannot open shared object file");
    assert!(mend(&answer, &what).contains("libkiln-absent.so.6"));
    assert!(
        answer["vulkan_loader"]
            .as_str()
            .is_some_and(|version| version.contains('.'))
    );
    let broken = doctor(&bench, &[("b.json", "{\"ICD\"")]);
    assert!(mend(&broken, "b.json").contains("b.json"));
}

#[test]
fn a_gpu_whose_node_is_there_is_missed_in_a_job_and_in_doctor() {
    let bench = Bench::sphere();
    let bake = words("--device auto --quality draft --texture-size 256");
    let bake = |nodes: &[&str]| {
        let command = bench.bake_for_real("mesh.obj", "transforms.json", &bake);
        let report = Run::start(with_nodes(&bench, &command, nodes))
            .finish()
            .report();
        assert_eq!(report["device"]["kind"], "native");
        let warnings = report["warnings"].as_array().expect("a list").iter();
        let texts = warnings.map(|warning| warning["text"].as_str().expect("text").to_owned());
        texts
            .filter(|text| text.contains("kiln doctor"))
            .collect::<Vec<_>>()
    };
    assert_eq!(bake(&[]), Vec::<String>::new());
    let missed = bake(&["nvidia0"]);
    assert!(
        missed.len() == 1 && missed[0].contains("/dev/nvidia0"),
        "{missed:?}"
    );
    let doctor = bench.command(&words("doctor --json"));
    let output = with_nodes(&bench, &doctor, &["nvidia0"]).output();
    let answer = serde_json::from_slice(&output.expect("kiln starts").stdout).expect("JSON");
    let how = mend(&answer, "/dev/nvidia0 is there, but no driver gave a GPU");
    assert!(how.contains("NVIDIA_DRIVER_CAPABILITIES"), "{answer:#}");
}
