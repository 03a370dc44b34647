//! Where a job's inputs are, as a spec names them: from a JSON object alone, since serde takes a list of a struct's values for
//! the struct, too.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::JobOptions;
use crate::store::Digest;

/// The name under which a safetensors file lies among a job's inputs.
pub const ARRAYS: &str = "arrays.safetensors";
/// One file of a job, in bytes of its name.
const MAX_FILE_NAME: usize = 255;
const EXPECTED: &str = "an object with path, or with files and main";

/// Where a file and those that it names are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, try_from = "Keys")]
pub enum Source {
    /// Beneath a folder that the operator allowed.
    Path {
        /// Absolute.
        path: PathBuf,
        /// The folder of the pictures of a model of COLMAP or of another program's cameras, if not beside it; absolute.
        #[serde(skip_serializing_if = "Option::is_none")]
        images: Option<PathBuf>,
    },
    /// Uploaded.
    Files {
        /// SHA-256 in hex, by the name beneath one folder.
        files: BTreeMap<String, Digest>,
        /// The one that names the others.
        main: String,
    },
}

impl JobOptions {
    /// Its files by their keys, which are the folders of those that were uploaded.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&'static str, &Option<Source>)> {
        let (mesh, views) = (&self.mesh, &self.views);
        [
            ("mesh", mesh),
            ("views", views),
            ("original", &self.original),
        ]
        .into_iter()
    }

    /// Uploaded files of the job by name: those of the mesh in `mesh/`, of the views in `views/`, and so on.
    pub fn uploads(&self) -> BTreeMap<String, Digest> {
        let mut uploads = BTreeMap::new();
        for (folder, source) in self.sources() {
            if let Some(Source::Files { files, .. }) = source {
                let within = files.iter();
                uploads.extend(within.map(|(name, digest)| (format!("{folder}/{name}"), *digest)));
            }
        }
        if let Some(digest) = self.arrays {
            uploads.insert(ARRAYS.to_owned(), digest);
        }
        uploads
    }

    /// Bytes of the files that it names by path, as far as they are there.
    pub fn path_bytes(&self) -> u64 {
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        let sizes = self.sources().map(|(_, source)| match source {
            Some(Source::Path { path, .. }) => size(path),
            Some(Source::Files { .. }) | None => 0,
        });
        sizes.sum()
    }
}

/// The name of an uploaded file in its plain form: `./train/r_0.png` is `train/r_0.png`.
///
/// # Errors
/// What is wrong with it.
pub fn plain_name(name: &str) -> Result<String, &'static str> {
    let parts: Vec<&str> = name.split('/').filter(|part| *part != ".").collect();
    let plain = parts.join("/");
    match bad_name(&plain) {
        Some(why) => Err(why),
        None => Ok(plain),
    }
}

/// What is wrong with the plain name of an uploaded file, if something is.
pub fn bad_name(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.len() > MAX_FILE_NAME {
        return Some("is empty or longer than 255 bytes");
    }
    if name.chars().any(char::is_control) || name.contains('\\') {
        return Some("has control characters or backslashes");
    }
    // A hidden part would not be opened for prepare either.
    let bad = |part: &str| part.is_empty() || part.starts_with('.');
    name.split('/')
        .any(bad)
        .then_some("is not relative, or has an empty or hidden part")
}

/// For `deserialize_with`.
///
/// # Errors
/// It is neither an object of a source nor null.
pub(super) fn object<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Source>, D::Error> {
    from.deserialize_option(Object)
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Option<Source>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(EXPECTED)
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Source::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}

/// The keys of a [`Source`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    path: Option<PathBuf>,
    images: Option<PathBuf>,
    #[serde(default, deserialize_with = "files")]
    files: Option<BTreeMap<String, Digest>>,
    main: Option<String>,
}

impl TryFrom<Keys> for Source {
    type Error = String;

    fn try_from(keys: Keys) -> Result<Self, String> {
        match (keys.path, keys.images, keys.files, keys.main) {
            (Some(path), images, None, None) => Ok(Self::Path { path, images }),
            (None, None, Some(files), Some(main)) => Ok(Self::Files {
                files,
                // One that is wrong is told with the names that there are.
                main: plain_name(&main).unwrap_or(main),
            }),
            _ => Err(format!("expected {EXPECTED}")),
        }
    }
}

/// Each name in its plain form, and once.
fn files<'de, D: Deserializer<'de>>(from: D) -> Result<Option<BTreeMap<String, Digest>>, D::Error> {
    from.deserialize_map(Files).map(Some)
}

struct Files;

impl<'de> Visitor<'de> for Files {
    type Value = BTreeMap<String, Digest>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object of SHA-256 by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut files = BTreeMap::new();
        while let Some((name, digest)) = map.next_entry::<String, Digest>()? {
            // One that is wrong is told with the others' faults.
            let name = plain_name(&name).unwrap_or(name);
            if files.contains_key(&name) {
                return Err(A::Error::custom(format!(
                    "two files have the name {name:?}"
                )));
            }
            files.insert(name, digest);
        }
        Ok(files)
    }
}
