//! Inputs of the supervisor besides packets: names of files, flight recorders, lists of jobs.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use proto::blob::Blob;
use proto::message::Phase;
use proto::recorder::{RECORDER_BYTES, Recorder, Slot};

use super::Seed;

/// Bytes per record in a seed: the least that the first of a recorder's five records needs.
const RECORD_BYTES: usize = 192;

const LIST: &str = r#"[{"mesh": "-a.glb", "views": "v", "output": "o.glb"},
{"name": "b\u0007", "mesh": "b", "texture-size": 512, "simplify": 0.5, "keep-uvs": true, "json-lines": false}]"#;

pub(super) fn add(seeds: &mut Vec<Seed>) {
    // A name as letters, and the same in parts: "./inner.bin", "sub/../inner.bin", "sub/b.png".
    for (number, name) in [
        &b"mesh"[..],
        b"sub/../sub/./g.bin",
        b"\x82\x83\x86",
        b"\x84\x83\x81\x83\x86",
        b"\x84\x83\x87",
    ]
    .into_iter()
    .enumerate()
    {
        let bytes = [b"\xff\xff", name].concat();
        seeds.push(("opener", format!("made-{number}"), bytes));
    }
    seeds.push(("recorder", "made-crash".to_owned(), recorder(3)));
    seeds.push(("recorder", "made-panic".to_owned(), recorder(2)));
    seeds.push(("jobs", "made-list".to_owned(), LIST.into()));
}

/// A recorder written by a real writer, and how its process ended.
fn recorder(exit: u8) -> Vec<u8> {
    let blob = Blob::create("recorder", RECORDER_BYTES).expect("memory");
    let twin = || blob.as_fd().try_clone_to_owned().expect("a fd");
    let writer = Recorder::new(twin());
    for work in 1..=2 {
        writer.note(|state| {
            state.work = work;
            state.predicted_ms = 700;
            state.set_phase(Phase::Fit);
            state.set_label("step \u{1b}[31m 7");
        });
    }
    writer.leave(Slot::Signal, 11, 0xdead, b"thread main\n  0 baker::fit\n");
    if exit == 2 {
        writer.leave(Slot::Panic, 0, 0, b"index \x1b out of bounds\nat a.rs:1");
        writer.leave(Slot::Memory, 0, 1 << 40, b"");
    }
    let mut bytes = vec![exit];
    for start in [0, 512, 1024, 32 * 1024, 36 * 1024] {
        let mut record = [0; RECORD_BYTES];
        let file = File::from(twin());
        file.read_exact_at(&mut record, start).expect("readable");
        bytes.extend(record);
    }
    bytes
}
