//! Checks GLBs that a bake made: reads their JSON, and runs the Khronos validator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Bench;

/// The JSON of a GLB whose header and first chunk are complete.
///
/// # Errors
/// What is wrong with it.
pub fn json(path: &Path) -> Result<Value, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let word = |at: usize| {
        let word = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(word) as usize)
    };
    let wrong = |what: &str| format!("{}: {what}", path.display());
    if !bytes.starts_with(b"glTF") || word(4) != Some(2) || word(8) != Some(bytes.len()) {
        return Err(wrong("not the header of a whole GLB"));
    }
    let json = word(12)
        .filter(|_| bytes.get(16..20) == Some(b"JSON"))
        .and_then(|length| bytes.get(20..20 + length))
        .ok_or_else(|| wrong("no JSON chunk"))?;
    serde_json::from_slice(json).map_err(|error| wrong(&error.to_string()))
}

/// As [`json`]; also checks for the texture and vertex attributes that a bake makes.
///
/// # Errors
/// What is wrong with it.
pub fn read(path: &Path) -> Result<Value, String> {
    let json = json(path)?;
    let wrong = |what: &str| format!("{}: {what}", path.display());
    let material = &json["materials"][0]["pbrMetallicRoughness"];
    let attributes = &json["meshes"][0]["primitives"][0]["attributes"];
    let present = [
        ("a texture", &material["baseColorTexture"]["index"]),
        ("an image", &json["images"][0]["bufferView"]),
        ("POSITION", &attributes["POSITION"]),
        ("NORMAL", &attributes["NORMAL"]),
        ("TEXCOORD_0", &attributes["TEXCOORD_0"]),
    ];
    match present.iter().find(|(_, value)| !value.is_u64()) {
        Some((name, _)) => Err(wrong(&format!("lacks {name}"))),
        None => Ok(json),
    }
}

/// Asserts that the validator finds nothing wrong with the results of these benches.
///
/// # Panics
/// If it does, or is not installed.
pub fn assert_valid(benches: &[Bench]) {
    let files: Vec<PathBuf> = benches
        .iter()
        .map(|bench| bench.path("out/out.glb"))
        .collect();
    let (valid, words) = validate(&files);
    assert!(valid, "{words}");
}

/// As [`validate`] for files with `KHR_texture_basisu`: ignores only that the validator does not know KTX2.
///
/// # Panics
/// If it is not installed.
#[must_use]
pub fn validate_basisu(paths: &[PathBuf]) -> (bool, String) {
    let (_, words) = validate(paths);
    let foreign = [
        "VALUE_NOT_IN_LIST at /images/",
        "IMAGE_UNRECOGNIZED_FORMAT at /images/",
    ];
    let found = |line: &&str| line.contains(".glb: error") || line.contains(".glb: warning");
    let other = |line: &str| !foreign.iter().any(|known| line.contains(known));
    let judged = words.matches(" errors, ").count() == paths.len();
    let valid = judged && !words.lines().filter(found).any(other);
    (valid, words)
}

/// Whether the Khronos validator finds neither an error nor a warning in any of the files, and its output.
///
/// # Panics
/// If it is not installed.
#[must_use]
pub fn validate(paths: &[PathBuf]) -> (bool, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("validator");
    assert!(
        folder.join("node_modules/gltf-validator").is_dir(),
        "the validator is not installed: `npm ci --ignore-scripts` in tests/validator, or ./run.sh test"
    );
    let output = Command::new("node")
        .arg(folder.join("validate.mjs"))
        .args(paths)
        .output()
        .expect("node runs");
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    (
        output.status.success(),
        words + &String::from_utf8_lossy(&output.stderr),
    )
}
