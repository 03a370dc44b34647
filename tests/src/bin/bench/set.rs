//! Finds the sets in a folder, and prepares a set in a folder of its own for `kiln bake`.
//!
//! Pictures are copied, since `kiln` reads none outside the folder of its `transforms.json`. The mesh stays where it
//! is.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use proto::job::Blend;
use serde::Deserialize;

use crate::merge::{MergeError, merge};

/// One set.
#[derive(Debug)]
pub(crate) struct Set {
    /// Name of its folder.
    pub(crate) name: String,
    folder: PathBuf,
    /// The word of `kiln bake --blend`.
    pub(crate) blend: &'static str,
}

/// Why a set cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetError {
    /// A file or folder cannot be read or written.
    #[error("{}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file is not JSON, or not of the expected shape.
    #[error("{}", path.display())]
    Json {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    /// The two files of cameras cannot be merged.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// A picture is not beneath the set.
    #[error("{0} lies outside its set")]
    Outside(String),
    /// There is no set.
    #[error("no set in {}: a set is a folder with {MESH}, {FIT} and {TEST}", .0.display())]
    None(PathBuf),
}

const MESH: &str = "mesh_nouv.glb";
const MESH_WITH_UVS: &str = "mesh_uv.glb";
const FIT: &str = "transforms.json";
const TEST: &str = "transforms_test.json";
const SETTINGS: &str = "kiln.json";
/// Extensions that may follow a `file_path` that does not exist as it is; `kiln` tries the same in the same order.
const EXTENSIONS: [&str; 5] = ["", ".png", ".jpg", ".jpeg", ".webp"];

/// The sets in a folder, sorted by name, or the folder itself if it is a set.
pub(crate) fn find(folder: &Path) -> Result<Vec<Set>, SetError> {
    if is_set(folder) {
        return Ok(vec![Set::open(folder)?]);
    }
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        if is_set(&path) {
            folders.push(path);
        }
    }
    if folders.is_empty() {
        return Err(SetError::None(folder.to_path_buf()));
    }
    folders.sort();
    folders.iter().map(|folder| Set::open(folder)).collect()
}

fn is_set(folder: &Path) -> bool {
    [MESH, FIT, TEST]
        .iter()
        .all(|name| folder.join(name).is_file())
}

/// A set's own settings.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    blend: Option<Blend>,
}

impl Set {
    fn open(folder: &Path) -> Result<Self, SetError> {
        let folder = folder.canonicalize().map_err(at(folder))?;
        let name = folder.file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let settings = folder.join(SETTINGS);
        let settings: Settings = if settings.is_file() {
            read(&settings)?
        } else {
            Settings::default()
        };
        let blend = match settings.blend {
            Some(Blend::Linear) => "linear",
            Some(Blend::Srgb) => "srgb",
            None if name.contains("splat") => "srgb",
            None => "linear",
        };
        Ok(Self {
            name,
            folder,
            blend,
        })
    }

    /// The mesh, with the author's texture coordinates or without any.
    pub(crate) fn mesh(&self, uvs: bool) -> PathBuf {
        self.folder.join(if uvs { MESH_WITH_UVS } else { MESH })
    }

    /// Writes the merged `transforms.json` and copies the pictures that it names; returns its path.
    pub(crate) fn stage(&self, into: &Path) -> Result<PathBuf, SetError> {
        let merged = merge(
            read(&self.folder.join(FIT))?,
            read(&self.folder.join(TEST))?,
        )?;
        let frames = merged["frames"].as_array().into_iter().flatten();
        for frame in frames {
            for key in ["file_path", "mask_path"] {
                if let Some(name) = frame[key].as_str() {
                    self.copy(name, into)?;
                }
            }
        }
        let path = into.join(FIT);
        fs::write(&path, merged.to_string()).map_err(at(&path))?;
        Ok(path)
    }

    /// Copies a picture. If it does not exist, `kiln` reports that better.
    fn copy(&self, name: &str, into: &Path) -> Result<(), SetError> {
        let inside = Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !inside {
            return Err(SetError::Outside(name.to_owned()));
        }
        for extension in EXTENSIONS {
            let name = format!("{name}{extension}");
            let (from, to) = (self.folder.join(&name), into.join(&name));
            if from.is_file() {
                let folder = to.parent().unwrap_or(into);
                fs::create_dir_all(folder).map_err(at(folder))?;
                fs::copy(&from, &to).map_err(at(&from))?;
                break;
            }
        }
        Ok(())
    }
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, SetError> {
    let bytes = fs::read(path).map_err(at(path))?;
    serde_json::from_slice(&bytes).map_err(|source| SetError::Json {
        path: path.to_path_buf(),
        source,
    })
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> SetError {
    let path = path.to_path_buf();
    |source| SetError::File { path, source }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn folder_of_sets() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["plain", "a_splat", "says_linear_splat", "says_srgb"] {
            let set = folder.path().join(name);
            fs::create_dir_all(set.join("views")).expect("a folder");
            fs::write(set.join(MESH), "a mesh").expect("a file");
            for (file, picture) in [(FIT, "./views/a"), (TEST, "views/b.png")] {
                let frames = serde_json::json!({"frames": [{"file_path": picture}]});
                fs::write(set.join(file), frames.to_string()).expect("a file");
            }
            fs::write(set.join("views/a.jpg"), "a").expect("a file");
            fs::write(set.join("views/b.png"), "b").expect("a file");
        }
        let settings = |name: &str, text| {
            fs::write(folder.path().join(name).join(SETTINGS), text).expect("a file");
        };
        settings("says_linear_splat", r#"{"blend": "linear"}"#);
        settings("says_srgb", r#"{"blend": "srgb"}"#);
        fs::create_dir(folder.path().join("no_set")).expect("a folder");
        folder
    }

    #[test]
    fn sets_are_found_by_name_with_their_blend() {
        let folder = folder_of_sets();
        let sets = find(folder.path()).expect("sets");
        let found: Vec<(&str, &str)> = sets
            .iter()
            .map(|set| (set.name.as_str(), set.blend))
            .collect();
        assert_eq!(
            found,
            [
                ("a_splat", "srgb"),
                ("plain", "linear"),
                ("says_linear_splat", "linear"),
                ("says_srgb", "srgb")
            ]
        );
        let one = find(&folder.path().join("plain")).expect("a set itself");
        assert_eq!(one.len(), 1);
        let none = find(&folder.path().join("no_set")).expect_err("no set");
        assert!(none.to_string().contains("transforms_test.json"), "{none}");
        let settings = folder.path().join("plain").join(SETTINGS);
        fs::write(settings, r#"{"blind": "srgb"}"#).expect("a file");
        assert!(matches!(find(folder.path()), Err(SetError::Json { .. })));
    }

    #[test]
    fn staged_set_has_all_pictures_and_one_file_of_cameras() {
        let folder = folder_of_sets();
        let sets = find(&folder.path().join("plain")).expect("a set");
        let into = tempfile::tempdir().expect("a folder");
        let path = sets[0].stage(into.path()).expect("staged");
        let merged: Value = read(&path).expect("JSON");
        assert_eq!(merged["frames"].as_array().map(Vec::len), Some(2));
        assert_eq!(
            fs::read(into.path().join("views/a.jpg")).expect("copied"),
            b"a"
        );
        assert_eq!(
            fs::read(into.path().join("views/b.png")).expect("copied"),
            b"b"
        );

        let escaping = r#"{"frames": [{"file_path": "views/../../x"}]}"#;
        fs::write(folder.path().join("plain").join(TEST), escaping).expect("a file");
        assert!(matches!(
            sets[0].stage(into.path()),
            Err(SetError::Outside(_))
        ));
    }
}
