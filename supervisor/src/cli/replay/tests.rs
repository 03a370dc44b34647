//! What comes back from a crash folder, and what never does.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use proto::message::{Phase, Role};
use serde_json::{Value, json};

use super::super::{Command, parse};
use super::*;
use crate::host::ladder::Rung;
use crate::process::verdict::{Ending, Exit, fault};

/// A folder with inputs of every kind.
fn inputs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["model", "pics", "out", "maps", "rejected"] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    let files = [
        "mesh.glb",
        "high.glb",
        "transforms.json",
        "model/images.txt",
        "model/cameras.txt",
    ];
    for name in files {
        fs::write(folder.path().join(name), "{}").expect("a file");
    }
    folder
}

/// `kiln WORDS`, in which `@` is the folder.
fn typed(folder: &Path, words: &str) -> Result<Spec, String> {
    let here = folder.display().to_string();
    let words = format!("kiln {words}").replace('@', &here);
    match parse(words.split(' ').map(Into::into)) {
        Ok(Command::Bake { spec, .. }) => Ok(*spec),
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => Err(refusal.error.message),
    }
}

/// The job died of a signal: the folder that it leaves.
fn crash(spec: &Spec) -> PathBuf {
    let ending = Ending::new(Role::Bake, Phase::Fit, Exit::Signal(11));
    let kept = crash::keep(&crash::Death {
        spec,
        ending: &ending,
        fault: &fault(&ending),
        rung: &Rung::default(),
        pid: 7,
        tail: &[],
    });
    kept.expect("a crash folder")
}

const MESH: &str = "bake @/mesh.glb --views @/transforms.json --crash-folder @/crashes";
const COLMAP: &str = "bake @/mesh.glb --views @/model/images.txt --images @/pics -o @/out/a.glb \
    --texture-size auto --max-texture-size 512 --pages 4 --simplify 0.3 --remove-unseen --fill-holes=0.3 --hole-edges 100 \
    --weld=0.001 --orient --up z --frame given --texture-format jpeg --texture-quality 77 --compress meshopt --provenance-attribute \
    --alpha-mode mask --alpha-cutoff 0.3 --quality best --blend srgb --refine off --device H200 --holdout 3 \
    --seed 18446744073709551615 --vram-budget 64M --gpu-times --fallback vertex-colours --timeout 99.5 \
    --preview @/out/p.png --html @/out/p.html --maps @/maps --report @/out/r.json --rejected @/rejected --memory-limit 3G \
    --stall-timeout 7.25 --min-psnr 12.5 --splat-views 40 --splat-filter mip:0.1 --sh 0 --crash-folder @/crashes";

/// Jobs whose options are all off their defaults, in one or another.
fn jobs() -> [String; 6] {
    [
        COLMAP.to_owned(),
        format!(
            "{MESH} -o @/out/a.obj --target-faces 1000 --keep-uvs --uv-set 1 --texture-size 2048 --device gpu"
        ),
        format!("{MESH} -o @/out/a.ply --texture-format webp --device cpu"),
        format!(
            "{MESH} -o @/out/a.glb --simplify 0.5 --detail normal,occlusion --original @/high.glb"
        ),
        format!("{MESH} -o @/out/a.glb --vertex-colours"),
        format!("{MESH} --dry-run"),
    ]
}

/// Each value of a JSON document that holds no others, by its place.
fn leaves(place: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(keys) => {
            for (key, value) in keys {
                leaves(&format!("{place}/{key}"), value, into);
            }
        }
        leaf => {
            into.insert(place.to_owned(), leaf.clone());
        }
    }
}

#[test]
fn every_option_of_a_job_comes_back() {
    let folder = inputs();
    let all = |kept: &Kept| {
        let mut all = BTreeMap::new();
        leaves("", &json!(kept), &mut all);
        all
    };
    let plain = typed(folder.path(), &format!("{MESH} -o @/out/a.glb")).expect("a job");
    let mut never_set = all(&Kept::of(&plain));
    for words in jobs() {
        let spec = typed(folder.path(), &words).expect(&words);
        let told = Kept::of(&spec);
        let set = all(&told);
        never_set.retain(|place, value| set.get(place) == Some(value));
        let kept = crash(&spec);
        assert_eq!(crash::job(&kept).expect(&words), told);
        let words = format!("replay {} -o @/out --baker /other", kept.display());
        let again = typed(folder.path(), &words).expect(&words);
        // Alone, and without falling back.
        let mut wanted = told;
        wanted.options.fallback = Policy::SamePlan;
        assert_eq!(Kept::of(&again), wanted);
        // What its workers are told, which the list of options does not say by itself.
        assert_eq!(again.prepare_job(), spec.prepare_job());
        let rung = Rung::default();
        assert_eq!(again.warm_job(&rung), spec.warm_job(&rung));
        let mut form = spec.form.clone();
        form.stem.clone_from(&again.form.stem);
        assert_eq!(again.form, form);
        assert_eq!(again.beside.len(), spec.beside.len());
        let counts = [&again, &spec].map(|spec| spec.outputs().count());
        assert_eq!(counts[0], counts[1], "as many files");
        for target in again.outputs() {
            let name = target.path().file_name().expect("a name").to_string_lossy();
            assert_eq!(
                target.path().parent(),
                Some(folder.path().join("out").as_path())
            );
            assert!(name.starts_with("replayed"), "{name}");
        }
        assert_eq!(
            (again.baker.as_path(), again.sandbox),
            (Path::new("/other"), true)
        );
    }
    // The mesh is the same in all; the others are of a sidecar's jobs alone.
    let never_set: Vec<String> = never_set.into_keys().collect();
    let these = ["/options/arrays", "/options/mesh/path", "/options/name"];
    assert_eq!(never_set, these, "what no job here sets");
}

#[test]
fn a_folder_from_anybody_names_no_program_no_sandbox_and_no_place() {
    let folder = inputs();
    let spec = typed(folder.path(), &format!("{MESH} -o @/out/a.glb")).expect("a job");
    let kept = crash(&spec);
    let file = kept.join("crash.json");
    let good: Value = serde_json::from_slice(&fs::read(&file).expect("there")).expect("JSON");
    let replay = || typed(folder.path(), &format!("replay {}", kept.display()));
    let change = |change: &dyn Fn(&mut Value)| {
        let mut record = good.clone();
        change(&mut record);
        fs::write(&file, record.to_string()).expect("room");
        replay().expect_err("refused")
    };
    let fields = [
        ("baker", json!("/bin/sh")),
        ("program", json!("/bin/sh")),
        ("insecure_no_sandbox", json!(true)),
        ("sandbox", json!(false)),
        ("output", json!("/tmp/a.glb")),
        ("crash_folder", json!("/tmp")),
        ("crash_root", json!("/tmp")),
        ("pipelines", json!("/tmp")),
        ("log_filter", json!("trace")),
    ];
    for (key, value) in &fields {
        for place in ["/job", "/job/options"] {
            let error = change(&|record| {
                let job = record.pointer_mut(place).expect("there");
                job[*key] = value.clone();
            });
            assert!(error.contains(&format!("unknown field `{key}`")), "{error}");
        }
    }
    // Switches stay switches: no path takes their place.
    for (place, value) in [
        ("/job/options/preview", json!("/any/file")),
        ("/job/options/maps", json!("/any")),
        ("/job/report", json!("/any/file")),
        ("/job/rejected", json!("/any")),
        ("/job/options/mesh", json!("mesh.glb")),
        ("/job/options/mesh/path", json!("relative.glb")),
        ("/job/options/texture_size", json!(1_000_000)),
        ("/job/options/timeout_s", json!(-1)),
        ("/job/options/simplify", json!(7)),
        ("/job/memory_limit", json!(1)),
        ("/job/stall_s", json!(-1e300)),
        ("/job/container", json!("exe")),
        ("/job", json!(null)),
        ("/schema", json!(1)),
    ] {
        let error = change(&|record| *record.pointer_mut(place).expect("there") = value.clone());
        assert!(error.contains("crash.json: "), "{error}");
    }
    // What an earlier build kept, and what is beside the job, is nothing to be run.
    let arguments = json!(["mesh.glb", "--baker=/bin/sh", "--insecure-no-sandbox"]);
    let mut record = good.clone();
    record["arguments"] = arguments;
    fs::write(&file, record.to_string()).expect("room");
    let spec = replay().expect("the job alone");
    assert!(spec.sandbox && spec.baker.ends_with("kiln-baker"));
    assert!(
        spec.outputs()
            .all(|target| target.path().parent() == Some(&kept))
    );
}

#[test]
fn a_record_is_a_small_file_and_nothing_else() {
    let folder = inputs();
    let spec = typed(folder.path(), &format!("{MESH} -o @/out/a.glb")).expect("a job");
    let kept = crash(&spec);
    let file = kept.join("crash.json");
    let replay = || typed(folder.path(), &format!("replay {}", kept.display()));
    let elsewhere = folder.path().join("elsewhere.json");
    fs::rename(&file, &elsewhere).expect("moved");
    symlink(&elsewhere, &file).expect("a link");
    assert!(replay().expect_err("a link").contains("is a link"));
    fs::remove_file(&file).expect("there");
    mkfifo(&file, Mode::S_IRWXU).expect("a pipe");
    assert!(replay().expect_err("a pipe").contains("is not a file"));
    fs::remove_file(&file).expect("there");
    let large = fs::File::create(&file).expect("a file");
    large.set_len(1 << 40).expect("a hole");
    assert!(replay().expect_err("large").contains("more than"));
    fs::remove_file(&file).expect("there");
    symlink("/dev/zero", &file).expect("a link");
    assert!(replay().expect_err("a link").contains("is a link"));
    fs::remove_file(&file).expect("there");
    assert!(replay().expect_err("nothing").contains("no such file"));
}
