//! Makes seeds for every target from the repository's sample: each is a valid input in miniature.
//!
//! They are generated, not stored, so that they follow changes of formats. The sample is in the public domain; no other
//! data is used. `seeds/` holds what the fuzzer derived from them: per target one file of inputs that reach the most
//! code ([`pack`]), and each input that caused a crash.

use std::path::{Path, PathBuf};
use std::{fs, io};

mod mesh;
mod outside;
mod packet;
mod picture;
mod protocol;
mod splats;
mod table;
mod text;
mod views;

pub(crate) use packet::summaries;

/// Target, name, bytes. A name that begins with `refused` is of what is known and not read.
pub type Seed = (&'static str, String, Vec<u8>);

/// All seeds that are made.
pub fn all() -> Vec<Seed> {
    let mut seeds = Vec::new();
    packet::add(&mut seeds);
    table::add(&mut seeds);
    mesh::add(&mut seeds);
    text::add(&mut seeds);
    picture::add(&mut seeds);
    protocol::add(&mut seeds);
    outside::add(&mut seeds);
    views::add(&mut seeds);
    splats::add(&mut seeds);
    seeds
}

/// The folder of kept inputs.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds")
}

/// A target's kept inputs with their names.
///
/// # Errors
/// A file cannot be read.
pub fn kept(target: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
    let packed = read_if_there(&folder().join(format!("{target}.pack")), |path| {
        fs::read(path)
    })?;
    let inputs = unpack(&packed).into_iter().enumerate();
    let mut kept: Vec<_> = inputs
        .map(|(number, input)| (format!("kept-{number}"), input.to_vec()))
        .collect();
    kept.extend(read_if_there(&folder().join(target), read_all)?);
    Ok(kept)
}

/// Every file of a folder, by name.
///
/// # Errors
/// A file cannot be read.
pub fn read_all(folder: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        files.push((name, fs::read(entry.path())?));
    }
    files.sort();
    Ok(files)
}

fn read_if_there<T: Default>(
    path: &Path,
    read: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    if path.exists() {
        read(path)
    } else {
        Ok(T::default())
    }
}

/// Packs inputs into one file: for each, its length in four bytes, little-endian, then its bytes.
pub fn pack<'a>(inputs: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let with_length = |input: &[u8]| [&(input.len() as u32).to_le_bytes()[..], input].concat();
    inputs.flat_map(with_length).collect()
}

fn unpack(mut packed: &[u8]) -> Vec<&[u8]> {
    let mut inputs = Vec::new();
    while let Some((length, rest)) = packed.split_first_chunk() {
        let (input, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        inputs.push(input);
        packed = rest;
    }
    inputs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let inputs: [&[u8]; 3] = [b"one", b"", b"three"];
        assert_eq!(unpack(&pack(inputs.into_iter())), inputs);
    }
}
