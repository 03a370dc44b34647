//! Runs every `sh` block of every README unchanged, in a folder that holds what it names.
//!
//! A block that is not run has an invisible comment above it: `<!-- not run: REASON -->`.

use std::fmt::Write;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kiln_tests::splats::{Splat, ply};
use kiln_tests::{Bench, glb, program, words};
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::Value;

/// Why a block is not run.
const REASON: &str = "<!-- not run: ";

struct Block {
    page: PathBuf,
    line: usize,
    language: String,
    /// Why it is not run.
    reason: Option<String>,
    text: String,
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the repository")
}

/// The Markdown pages beneath `folder`, without build outputs.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        let built = name.starts_with('.') || ["target", "node_modules", "build"].contains(&&*name);
        if path.is_dir() && !path.is_symlink() && !built {
            found.extend(pages(&path));
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn blocks(page: &Path, text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let (mut open, mut reason) = (false, None);
    for (index, line) in text.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            if !open {
                found.push(Block {
                    page: page.to_path_buf(),
                    line: index + 1,
                    language: language.to_owned(),
                    reason: reason.take(),
                    text: String::new(),
                });
            }
            open = !open;
        } else if open {
            let block = found.last_mut().expect("an open block");
            block.text += line;
            block.text += "\n";
        } else if let Some(why) = line.strip_prefix(REASON) {
            reason = Some(why.trim_end_matches("-->").trim().to_owned());
        }
    }
    assert!(!open, "{}: a block has no end", page.display());
    found
}

/// Rotation of a camera, world to camera, as the quaternion w, x, y, z (Shepperd's method).
fn quaternion(r: [[f64; 3]; 3]) -> [f64; 4] {
    let trace = r[0][0] + r[1][1] + r[2][2];
    let squares = [trace, r[0][0], r[1][1], r[2][2]];
    let largest = (0..4)
        .max_by(|&a, &b| squares[a].total_cmp(&squares[b]))
        .expect("four");
    let product = |i: usize, j: usize| -> f64 {
        match (i.min(j), i.max(j)) {
            (0, 0) => 1.0 + trace,
            (0, 1) => r[2][1] - r[1][2],
            (0, 2) => r[0][2] - r[2][0],
            (0, 3) => r[1][0] - r[0][1],
            (a, b) if a == b => 1.0 - trace + 2.0 * r[a - 1][a - 1],
            (a, b) => r[a - 1][b - 1] + r[b - 1][a - 1],
        }
    };
    let scale = 0.5 / product(largest, largest).sqrt();
    std::array::from_fn(|index| product(largest, index) * scale)
}

/// `transforms.json` as the text files of a COLMAP model in `folder`.
fn write_colmap(transforms: &Value, folder: &Path) {
    let number = |key: &str| transforms[key].as_f64().expect("a number");
    let [w, h, fx, fy, cx, cy] = ["w", "h", "fl_x", "fl_y", "cx", "cy"].map(number);
    let camera = format!("1 PINHOLE {w} {h} {fx} {fy} {cx} {cy}\n");
    fs::write(folder.join("cameras.txt"), camera).expect("room");
    let mut images = String::new();
    for (index, frame) in (transforms["frames"].as_array().expect("frames").iter()).enumerate() {
        let cell = |r: usize, c: usize| frame["transform_matrix"][r][c].as_f64().expect("a number");
        // OpenGL's y up and z backwards are OpenCV's y down and z forwards.
        let sign = [1.0, -1.0, -1.0];
        let rotation = [0, 1, 2].map(|r| [0, 1, 2].map(|c| sign[r] * cell(c, r)));
        let place = rotation.map(|row| -(0..3).map(|c| row[c] * cell(c, 3)).sum::<f64>());
        let [qw, qx, qy, qz] = quaternion(rotation);
        let [x, y, z] = place;
        let file = frame["file_path"].as_str().expect("a path");
        let name = file.rsplit('/').next().expect("a name");
        writeln!(
            images,
            "{} {qw} {qx} {qy} {qz} {x} {y} {z} 1 {name}\n",
            index + 1
        )
        .expect("text");
    }
    fs::write(folder.join("images.txt"), images).expect("room");
}

/// A folder with everything that blocks name: `chair.glb`, `chair/`, `splats.ply`, `scan.ply` and `colmap/`.
fn prepared() -> Bench {
    let bench = Bench::real();
    let spot = repository().join("tests/data/spot");
    let at = |name: &str| bench.path(name);
    for folder in ["chair/train", "colmap/images", "colmap/sparse/0"] {
        fs::create_dir_all(at(folder)).expect("a folder");
    }
    fs::copy(spot.join("mesh_nouv.glb"), at("chair.glb")).expect("a mesh");
    fs::copy(spot.join("transforms.json"), at("chair/transforms.json")).expect("views");
    let vertices = glb::Model::open(&at("chair.glb")).floats::<3>("POSITION");
    let splats = vertices.into_iter().map(|place| Splat {
        at: place.map(|x| x as f32),
        scale: 0.02,
        constant: [0.5, 0.2, -0.4],
    });
    let splats: Vec<Splat> = splats.collect();
    fs::write(at("splats.ply"), ply(&splats, 0, 0.0)).expect("room");
    for entry in fs::read_dir(spot.join("train")).expect("pictures") {
        let picture = entry.expect("a picture");
        for folder in ["chair/train", "colmap/images"] {
            fs::copy(picture.path(), at(folder).join(picture.file_name())).expect("room");
        }
    }
    let transforms = fs::read(at("chair/transforms.json")).expect("views");
    let transforms = serde_json::from_slice(&transforms).expect("JSON");
    write_colmap(&transforms, &at("colmap/sparse/0"));
    let mut command = bench.kiln();
    command.args(words("bake chair.glb --views chair -o scan.ply --quiet"));
    command.args(words("--quality draft --texture-size 256 --device cpu"));
    assert!(command.status().expect("kiln runs").success());
    bench
}

/// Runs a block in a copy of `bench`'s folder, so that blocks do not affect each other.
fn run(bench: &Bench, block: &Block) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(bench.path(".")).arg(folder.path());
    assert!(copy.status().expect("cp runs").success());
    let log = folder.path().join("log.txt");
    let output = File::create(&log).expect("room");
    let programs = program("kiln");
    let path = std::env::var("PATH").expect("a PATH");
    let path = format!(
        "{}:{path}",
        programs.parent().expect("a build folder").display()
    );
    let mut command = Command::new("bash");
    command
        .args(["-euo", "pipefail", "-c", &block.text])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("HOME", folder.path())
        // As in a container, for root or in continuous integration.
        .env_remove("XDG_RUNTIME_DIR")
        .stdin(Stdio::null())
        .stdout(output.try_clone().expect("a descriptor"))
        .stderr(output)
        .process_group(0);
    let mut child = command.spawn().expect("bash runs");
    let group = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    let status = child.wait().expect("bash ends");
    // A block that fails midway leaves its sidecar; otherwise the group is empty.
    match killpg(group, Signal::SIGKILL) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => panic!("the block's processes cannot be ended: {error}"),
    }
    if status.success() {
        return Ok(());
    }
    let said = fs::read_to_string(&log).unwrap_or_default();
    let page = block.page.strip_prefix(repository()).expect("a page");
    Err(format!(
        "{}:{}: {status}\n{}{said}",
        page.display(),
        block.line,
        block.text
    ))
}

#[test]
fn every_command_block_of_the_pages_runs() {
    let all: Vec<Block> = (pages(repository()).iter())
        .flat_map(|page| blocks(page, &fs::read_to_string(page).expect("a page")))
        .filter(|block| block.language == "sh")
        .collect();
    let (left, ran): (Vec<&Block>, Vec<&Block>) =
        all.iter().partition(|block| block.reason.is_some());
    let bench = prepared();
    let failed: Vec<String> = (ran.iter())
        .filter_map(|block| run(&bench, block).err())
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    // Otherwise a page whose blocks are no longer found would pass.
    assert!(
        ran.len() >= 6 && left.len() <= 9,
        "{} ran, {} did not",
        ran.len(),
        left.len()
    );
}

#[test]
fn a_block_is_found_with_its_reason_and_a_failing_one_is_told() {
    let text =
        "a\n```sh\ntrue\n```\n<!-- not run: no network -->\n```sh\ncurl x\n```\n```json\n{}\n```\n";
    let found = blocks(Path::new("x.md"), text);
    let told: Vec<_> = (found.iter())
        .map(|block| {
            (
                block.line,
                &*block.language,
                block.reason.as_deref(),
                &*block.text,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (2, "sh", None, "true\n"),
            (6, "sh", Some("no network"), "curl x\n"),
            (9, "json", None, "{}\n"),
        ]
    );
    let bench = Bench::real();
    let bad = Block {
        page: repository().join("README.md"),
        line: 1,
        language: "sh".into(),
        reason: None,
        text: "echo before; false | true; echo after".into(),
    };
    let told = run(&bench, &bad).expect_err("a pipe that fails");
    assert!(
        told.starts_with("README.md:1: ") && told.ends_with("before\n"),
        "{told}"
    );
}
