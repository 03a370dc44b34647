//! Reads the names of the files that a mesh file or a transforms.json refers to. A broken file names none: prepare
//! reports it.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use proto::limits::{MAX_MESH_FILE_BYTES, MAX_TRANSFORMS_BYTES, MAX_VIEWS};
use serde::Deserialize;
use serde_json::Value;

/// Endings that are tried in this order after a `file_path`; see the baker's `prepare/views/load.rs`.
const PICTURES: [&str; 5] = ["", ".png", ".jpg", ".jpeg", ".webp"];

#[derive(Deserialize)]
struct Gltf {
    #[serde(default)]
    buffers: Vec<Buffer>,
}

#[derive(Deserialize)]
struct Buffer {
    uri: Option<String>,
}

/// The buffers of splats in a glTF, or the planes of an unpacked SOG, each under its one name.
pub(super) fn of_splats(file: File) -> Vec<Vec<String>> {
    let Ok(same) = file.try_clone() else {
        return Vec::new();
    };
    match buffers(same) {
        names if names.is_empty() => planes(file),
        names => names.into_iter().map(|name| vec![name]).collect(),
    }
}

/// Names of the buffers of a glTF or GLB; none for another or a broken file.
pub(super) fn buffers(mut file: File) -> Vec<String> {
    let mut head = [0; 20];
    let gltf: Option<Gltf> = match file.read_exact(&mut head) {
        Ok(()) if head.starts_with(b"glTF") => {
            let length = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
            serde_json::from_reader(BufReader::new(file.take(u64::from(length)))).ok()
        }
        _ => json(file, MAX_MESH_FILE_BYTES),
    };
    let uris = gltf.into_iter().flat_map(|gltf| gltf.buffers);
    uris.filter_map(|buffer| buffer.uri)
        .filter(|uri| !uri.starts_with("data:") && !uri.contains("://"))
        .filter_map(|uri| percent(&uri))
        .collect()
}

#[derive(Deserialize)]
struct Transforms {
    mask_path: Option<String>,
    #[serde(default)]
    frames: Vec<Frame>,
}

#[derive(Deserialize)]
struct Frame {
    file_path: Option<String>,
    mask_path: Option<String>,
    /// An object of pictures; prepare refuses anything else.
    #[serde(default)]
    channels: Value,
}

/// The names that each picture may have; none for another or a broken file.
pub(super) fn pictures(file: File) -> Vec<Vec<String>> {
    let transforms: Option<Transforms> = json(file, MAX_TRANSFORMS_BYTES);
    let Some(transforms) = transforms.filter(|transforms| transforms.frames.len() <= MAX_VIEWS)
    else {
        return Vec::new();
    };
    let frames = transforms.frames.into_iter();
    let names = frames.flat_map(|frame| {
        let channels: Vec<Option<String>> = match frame.channels {
            Value::Object(channels) => channels
                .into_iter()
                .map(|(_, name)| name.as_str().map(str::to_owned))
                .collect(),
            _ => Vec::new(),
        };
        [frame.file_path, frame.mask_path]
            .into_iter()
            .chain(channels)
    });
    names
        .chain([transforms.mask_path])
        .flatten()
        .filter(|name| !name.is_empty())
        .map(|name| PICTURES.map(|ending| format!("{name}{ending}")).into())
        .collect()
}

/// The pictures of an unpacked SOG, each under its one name; none for other splats.
fn planes(file: File) -> Vec<Vec<String>> {
    let meta: Option<Value> = json(file, MAX_TRANSFORMS_BYTES);
    let parts = meta
        .as_ref()
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let files = parts.filter_map(|(_, part)| part.get("files")?.as_array());
    let mut names: Vec<&str> = files.flatten().filter_map(Value::as_str).collect();
    // A plane lies beside its list.
    names.retain(|name| !name.contains('/'));
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .map(|name| vec![name.to_owned()])
        .collect()
}

/// Names of the masks that prepare finds beside the picture `name` on its own; see its `views/names.rs`.
pub(super) fn masks(name: &str) -> Vec<String> {
    let split = name.rfind('/').map_or(0, |slash| slash + 1);
    let (folder, file) = name.split_at(split);
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let mut names = vec![
        format!("{folder}dynamic_mask_{stem}.png"),
        format!("{folder}{stem}.alpha.png"),
        format!("{folder}{stem}.mask.png"),
    ];
    if let Some(at) = folder.find("images") {
        let folder = format!("{}masks{}", &folder[..at], &folder[at + "images".len()..]);
        names.extend(
            model_masks(file)
                .iter()
                .map(|file| format!("{folder}{file}")),
        );
    }
    names
}

/// Names in the folder of masks beside the pictures of a COLMAP model.
pub(super) fn model_masks(name: &str) -> Vec<String> {
    let file = name.rfind('/').map_or(0, |slash| slash + 1);
    let stem = name[file..]
        .rfind('.')
        .map_or(name, |dot| &name[..file + dot]);
    vec![format!("{name}.png"), format!("{stem}.png")]
}

fn json<T: for<'de> Deserialize<'de>>(mut file: File, limit: u64) -> Option<T> {
    let mut first = [0; 3];
    file.seek(SeekFrom::Start(0)).ok()?;
    let marked = file.read_exact(&mut first).is_ok() && first == *b"\xEF\xBB\xBF";
    if !marked {
        file.seek(SeekFrom::Start(0)).ok()?;
    }
    serde_json::from_reader(BufReader::new(file.take(limit))).ok()
}

/// Decodes the percent encoding of a URI's path.
fn percent(uri: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(uri.len());
    let mut rest = uri.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        let value = |digit: u8| char::from(digit).to_digit(16);
        let byte = value(digits[0])? * 16 + value(digits[1])?;
        bytes.push(u8::try_from(byte).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}
