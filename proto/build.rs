//! Turns proto's own sources into a fingerprint, `KILN_PROTO_FINGERPRINT`: two binaries with the same one agree on every byte of the protocol.

use std::fs;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=src");
    let mut files = Vec::new();
    collect("src".into(), &mut files);
    files.sort();
    // FNV-1a, 64 bit: any change shows; nobody attacks a build id.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for file in files {
        for byte in fs::read(&file).expect("readable source") {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("cargo::rustc-env=KILN_PROTO_FINGERPRINT={hash:016x}");
}

fn collect(folder: PathBuf, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("proto/src is beside this script") {
        let path = entry.expect("readable directory").path();
        if path.is_dir() {
            collect(path, files);
        } else {
            files.push(path);
        }
    }
}
