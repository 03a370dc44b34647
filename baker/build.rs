//! Turns baker's own sources, shaders among them, and the versions that it is built with into a fingerprint,
//! `KILN_BAKER_FINGERPRINT`: pipelines that a driver compiled for one build are not kept for another.

use std::fs;
use std::path::PathBuf;

fn main() {
    let mut files = vec![PathBuf::from("../Cargo.lock")];
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=../Cargo.lock");
    collect("src".into(), &mut files);
    files.sort();
    // FNV-1a, 64 bit: any change shows; nobody attacks a build id.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for file in files {
        for byte in fs::read(&file).expect("readable source") {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("cargo::rustc-env=KILN_BAKER_FINGERPRINT={hash:016x}");
}

fn collect(folder: PathBuf, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("baker/src is beside this script") {
        let path = entry.expect("readable directory").path();
        if path.is_dir() {
            collect(path, files);
        } else {
            files.push(path);
        }
    }
}
