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

/// A GLB with the chunk that its buffer views lie in.
#[derive(Debug)]
pub struct Model {
    /// The first chunk.
    pub json: Value,
    /// The second.
    pub binary: Vec<u8>,
    /// Which primitive of the mesh, and material, is meant: a page.
    pub page: usize,
}

impl Model {
    /// Reads a GLB of any tool.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let json = json(path)?;
        let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let length = bytes.get(12..).and_then(|rest| rest.first_chunk());
        let length = length.map_or(0, |&length| u32::from_le_bytes(length) as usize);
        let binary = bytes.get(20 + length + 8..).unwrap_or_default().to_vec();
        Ok(Self {
            json,
            binary,
            page: 0,
        })
    }

    /// As [`Self::read`].
    pub fn open(path: &Path) -> Self {
        Self::read(path).unwrap_or_else(|error| panic!("{error}"))
    }

    fn entry(&self, list: &str, number: &Value) -> &Value {
        &self.json[list][index(number)]
    }

    fn view(&self, number: &Value) -> &[u8] {
        let view = self.entry("bufferViews", number);
        assert!(view["byteStride"].is_null(), "packed");
        &self.binary[view["byteOffset"].as_u64().unwrap_or(0) as usize..]
            [..index(&view["byteLength"])]
    }

    /// The accessor of an attribute, or of `indices`.
    pub fn accessor(&self, name: &str) -> Option<&Value> {
        let primitive = &self.json["meshes"][0]["primitives"][self.page];
        let number = [&primitive[name], &primitive["attributes"][name]];
        let number = number.into_iter().find(|number| number.is_u64())?;
        Some(self.entry("accessors", number))
    }

    fn numbers(&self, accessor: &Value) -> &[u8] {
        let offset = accessor["byteOffset"].as_u64().unwrap_or(0) as usize;
        &self.view(&accessor["bufferView"])[offset..]
    }

    /// The numbers of an attribute of 32-bit floats, by vertex.
    pub fn floats<const N: usize>(&self, name: &str) -> Vec<[f64; N]> {
        let accessor = self.accessor(name).expect(name);
        assert_eq!(accessor["componentType"], 5126, "{name}");
        let bytes = self.numbers(accessor).as_chunks().0;
        let count = index(&accessor["count"]) * N;
        let floats = bytes
            .iter()
            .take(count)
            .map(|&x| f32::from_le_bytes(x).into());
        let floats: Vec<f64> = floats.collect();
        floats.as_chunks().0.to_vec()
    }

    /// The corners of each triangle.
    pub fn triangles(&self) -> Vec<[usize; 3]> {
        let accessor = self.accessor("indices").expect("indices");
        let width = if accessor["componentType"] == 5123 {
            2
        } else {
            4
        };
        let words = self.numbers(accessor).chunks_exact(width);
        let number = |word: &[u8]| {
            word.iter()
                .rev()
                .fold(0, |sum, &byte| (sum << 8) | usize::from(byte))
        };
        let numbers: Vec<usize> = words.take(index(&accessor["count"])).map(number).collect();
        numbers.as_chunks().0.to_vec()
    }

    /// The file in a slot of the material, if there is one.
    pub fn file(&self, slot: &str) -> Option<&[u8]> {
        let texture = self.json["materials"][self.page].pointer(&format!("/{slot}/index"))?;
        let texture = self.entry("textures", texture);
        let named = ["KHR_texture_basisu", "EXT_texture_webp"]
            .map(|name| texture.pointer(&format!("/extensions/{name}/source")));
        let source = named
            .into_iter()
            .flatten()
            .next()
            .unwrap_or(&texture["source"]);
        Some(self.view(&self.entry("images", source)["bufferView"]))
    }
}

fn index(value: &Value) -> usize {
    crate::number(value) as usize
}

/// Asserts that the validator finds neither an error nor a warning.
pub fn assert_files_valid(files: &[PathBuf]) {
    let (valid, words) = validate(files);
    assert!(valid, "{words}");
}

/// Asserts that the validator finds nothing wrong with the results of these benches.
pub fn assert_valid(benches: &[Bench]) {
    let files: Vec<PathBuf> = benches
        .iter()
        .map(|bench| bench.path("out/out.glb"))
        .collect();
    assert_files_valid(&files);
}

/// As [`validate`] for files with `KHR_texture_basisu`: ignores only that the validator does not know KTX2.
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
