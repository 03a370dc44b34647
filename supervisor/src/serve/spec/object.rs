//! A mesh or views in a spec → [`Source`], from a JSON object alone: serde takes a list of a struct's values for the struct, too.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Source, plain_name};
use crate::store::Digest;

const EXPECTED: &str = "an object with path, or with files and main";

/// For `deserialize_with`.
///
/// # Errors
/// It is neither an object of a source nor null.
pub(super) fn source<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Source>, D::Error> {
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
pub(super) struct Keys {
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
