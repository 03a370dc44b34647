//! `fuzz-seeds write FOLDER` writes every seed, generated and kept, to `FOLDER/TARGET/NAME`, for ./run.sh fuzz.
//! `fuzz-seeds pack TARGET FOLDER` packs the files of `FOLDER` into the kept inputs of `TARGET`.

use std::error::Error;
use std::fs;
use std::path::Path;

use kiln_fuzz::seed;
use kiln_fuzz::targets::ALL;

/// Larger inputs are not kept: a smaller one mostly reaches the same code.
const MOST_BYTES: usize = 2048;
/// Most bytes kept per target, smaller inputs first.
const PACK_BYTES: usize = 48 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", folder] => {
            for (target, name, bytes) in seed::all() {
                write(&Path::new(folder).join(target), &name, &bytes)?;
            }
            for (target, _) in ALL {
                for (name, bytes) in seed::kept(target)? {
                    write(&Path::new(folder).join(target), &name, &bytes)?;
                }
            }
            Ok(())
        }
        ["pack", target, folder] => {
            let mut files = seed::read_all(Path::new(folder))?;
            files.sort_by_key(|(_, bytes)| bytes.len());
            let mut room = PACK_BYTES;
            let small = files
                .iter()
                .map(|(_, bytes)| &bytes[..])
                .take_while(|bytes| {
                    let fits = bytes.len() <= MOST_BYTES.min(room);
                    room = room.saturating_sub(bytes.len());
                    fits
                });
            let path = seed::folder().join(format!("{target}.pack"));
            Ok(fs::write(path, seed::pack(small))?)
        }
        _ => Err("usage: fuzz-seeds write FOLDER | fuzz-seeds pack TARGET FOLDER".into()),
    }
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join(name), bytes)
}
