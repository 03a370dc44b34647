use std::os::unix::fs::symlink;
use std::path::Path;

use nix::sys::stat::Mode;
use nix::unistd::{Uid, chown, mkfifo};
use tempfile::TempDir;

use crate::host::pipelines::file::*;
use crate::host::pipelines::key;

/// A folder that does not exist yet, as on a fresh machine.
fn folder() -> (TempDir, Folder) {
    let beneath = tempfile::tempdir().expect("a folder");
    let folder = Folder::new(beneath.path().join("kiln/pipelines"));
    (beneath, folder)
}

fn blob(bytes: &[u8]) -> Blob {
    let blob = Blob::create("test", bytes.len() as u64).expect("memory");
    blob.file().write_all_at(bytes, 0).expect("room");
    blob
}

fn read(blob: &Blob) -> Vec<u8> {
    let mut bytes = Vec::new();
    blob.reader().read_to_end(&mut bytes).expect("memory");
    bytes
}

fn loaded(folder: &Folder, key: &Key) -> Result<Option<Vec<u8>>, String> {
    let loaded = folder.load(key).map_err(|doubt| doubt.to_string())?;
    Ok(loaded.as_ref().map(read))
}

fn mode(path: &Path) -> u32 {
    let metadata = fs::symlink_metadata(path).expect("there");
    metadata.permissions().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
}

/// Bytes that are not all alike.
fn pipelines(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|k| seed ^ (k / 3) as u8).collect()
}

#[test]
fn what_was_kept_is_given_out_sealed_and_is_the_owners_alone() {
    let (_beneath, folder) = folder();
    let (one, other) = (key("one"), key("other"));
    assert_eq!(loaded(&folder, &one), Ok(None), "there is no folder");
    let bytes = pipelines(7, 10_000);
    folder.store(&one, &blob(&bytes)).expect("room");
    assert_eq!(loaded(&folder, &one), Ok(Some(bytes)));
    assert_eq!(loaded(&folder, &other), Ok(None));
    assert_eq!(mode(&folder.path), 0o700);
    assert_eq!(mode(&folder.path.join(name(&one))), 0o600);
    let given = folder.load(&one).expect("good").expect("there");
    assert!(given.file().write_all_at(&[1], 0).is_err(), "it is sealed");

    let newer = pipelines(9, 12);
    folder.store(&one, &blob(&newer)).expect("room");
    assert_eq!(loaded(&folder, &one), Ok(Some(newer)));
    folder.remove(&one).expect("ours");
    assert_eq!(loaded(&folder, &one), Ok(None));
    folder.remove(&one).expect("it is gone as it should be");
}

#[test]
fn every_single_bit_and_every_length_counts() {
    let (_beneath, folder) = folder();
    let key = key("k");
    folder.store(&key, &blob(&pipelines(1, 300))).expect("room");
    let path = folder.path.join(name(&key));
    let good = fs::read(&path).expect("there");
    assert_eq!(good.len(), HEADER + 300);
    let refused = |bytes: &[u8], what: &str| {
        fs::write(&path, bytes).expect("room");
        let answer = loaded(&folder, &key);
        assert!(answer.is_err(), "{what} is taken: {answer:?}");
    };
    for bit in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        refused(&bytes, &format!("bit {bit} flipped"));
    }
    for length in 0..good.len() {
        refused(&good[..length], &format!("cut to {length}"));
    }
    refused(&[&good[..], &[0]].concat(), "one byte more");
    fs::write(&path, &good).expect("room");
    assert!(loaded(&folder, &key).is_ok_and(|bytes| bytes.is_some()));
    // It is replaced, whatever it was.
    fs::write(&path, b"rubbish").expect("room");
    folder.store(&key, &blob(&pipelines(2, 9))).expect("room");
    assert_eq!(loaded(&folder, &key), Ok(Some(pipelines(2, 9))));
}

#[test]
fn a_file_of_another_key_is_not_taken_under_this_name() {
    let (_beneath, folder) = folder();
    let (one, other) = (key("driver 1"), key("driver 2"));
    folder.store(&one, &blob(&pipelines(1, 99))).expect("room");
    fs::rename(folder.path.join(name(&one)), folder.path.join(name(&other))).expect("ours");
    let answer = loaded(&folder, &other).expect_err("another driver's");
    assert!(answer.contains("another adapter"), "{answer}");
}

#[test]
fn links_pipes_and_what_others_may_write_are_not_read_and_are_replaced() {
    let (beneath, folder) = folder();
    let key = key("k");
    let bytes = pipelines(3, 500);
    let path = folder.path.join(name(&key));
    let refused = |why: &str| {
        let answer = loaded(&folder, &key).expect_err(why);
        assert!(answer.contains(why), "{answer} for {why}");
        folder.store(&key, &blob(&bytes)).expect("room");
        assert_eq!(loaded(&folder, &key), Ok(Some(bytes.clone())), "{why}");
        assert!(fs::symlink_metadata(&path).expect("there").is_file());
    };
    folder.store(&key, &blob(&bytes)).expect("room");

    // A link to a file that would be accepted at its own place.
    let elsewhere = beneath.path().join("elsewhere");
    fs::rename(&path, &elsewhere).expect("ours");
    symlink(&elsewhere, &path).expect("a link");
    refused("a link");
    let there = fs::read(&elsewhere).expect("the link was replaced and not followed");
    assert_eq!(there.len(), HEADER + bytes.len());

    fs::remove_file(&path).expect("ours");
    mkfifo(&path, Mode::from_bits_truncate(0o600)).expect("a pipe");
    refused("no regular file");
    for bits in [0o604, 0o640, 0o602, 0o666] {
        chmod(&path, bits);
        refused("open to others");
    }
    if geteuid().is_root() {
        chown(&path, Some(Uid::from_raw(12_345)), None).expect("root may");
        refused("another user's");
    }
}

#[test]
fn a_folder_that_others_may_write_or_that_is_a_link_is_not_used() {
    let (beneath, folder) = folder();
    let key = key("k");
    let bytes = blob(&pipelines(1, 20));
    folder.store(&key, &bytes).expect("room");
    for bits in [0o770, 0o702, 0o777] {
        chmod(&folder.path, bits);
        assert!(loaded(&folder, &key).is_err_and(|why| why.contains("open to others")));
        assert!(folder.store(&key, &bytes).is_err());
        assert!(folder.remove(&key).is_err());
    }
    chmod(&folder.path, 0o755);
    assert!(loaded(&folder, &key).is_ok_and(|bytes| bytes.is_some()));
    let link = beneath.path().join("link");
    symlink(&folder.path, &link).expect("a link");
    let linked = Folder::new(link);
    assert!(loaded(&linked, &key).is_err());
    assert!(linked.store(&key, &bytes).is_err());
    let file = beneath.path().join("file");
    fs::write(&file, b"").expect("room");
    assert!(loaded(&Folder::new(file), &key).is_err());
}

#[test]
fn no_more_is_read_or_kept_than_the_bound() {
    let (_beneath, folder) = folder();
    let key = key("k");
    folder.store(&key, &blob(&[1])).expect("room");
    let path = folder.path.join(name(&key));
    let file = fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("ours");
    // A sparse terabyte: reading it whole would take all memory.
    file.set_len(1 << 40).expect("a sparse file");
    assert!(matches!(folder.load(&key), Err(Doubt::TooLarge(_))));
    let large = Blob::create("test", MAX_PIPELINES_BYTES + 1).expect("memory");
    assert!(matches!(
        folder.store(&key, &large),
        Err(Doubt::TooLarge(_))
    ));
    let most = Blob::create("test", MAX_PIPELINES_BYTES).expect("memory");
    folder.store(&key, &most).expect("room");
    let loaded = folder.load(&key).expect("good").expect("there");
    assert_eq!(loaded.len(), MAX_PIPELINES_BYTES);
}

#[test]
fn old_files_go_and_unfinished_ones_that_nobody_writes() {
    let (_beneath, folder) = folder();
    let now = SystemTime::now();
    let age = |name: &str, seconds: u64| {
        let file = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(folder.path.join(name))
            .expect("ours");
        let then = now - Duration::from_secs(seconds);
        file.set_modified(then).expect("a time");
    };
    for k in 0..KEPT + 5 {
        let key = key(&k.to_string());
        folder.store(&key, &blob(&[1])).expect("room");
        age(&name(&key), 10 * (100 - k as u64));
    }
    age(&format!(".old{UNFINISHED}"), 4000);
    age(&format!(".young{UNFINISHED}"), 40);
    age("somebody's notes", 1_000_000);
    let last = key("last");
    folder.store(&last, &blob(&[1])).expect("room");
    let mut left: Vec<String> = fs::read_dir(&folder.path)
        .expect("there")
        .map(|entry| {
            entry
                .expect("ours")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    left.sort();
    let newest = (6..KEPT + 5).map(|k| name(&key(&k.to_string())));
    let mut wanted: Vec<String> = newest.chain([name(&last)]).collect();
    wanted.extend([format!(".young{UNFINISHED}"), "somebody's notes".to_owned()]);
    wanted.sort();
    assert_eq!(left, wanted);
}

/// Readers beside writers always see one complete file of one writer.
#[test]
fn writers_at_once_leave_one_whole_file() {
    let (_beneath, folder) = folder();
    let key = key("k");
    let of = |writer: u8| pipelines(writer, 50_000 + usize::from(writer));
    folder.store(&key, &blob(&of(0))).expect("room");
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let folder = &folder;
                scope.spawn(move || {
                    for _ in 0..50 {
                        folder.store(&key, &blob(&of(writer))).expect("room");
                    }
                })
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            let bytes = loaded(&folder, &key).expect("whole").expect("there");
            assert!((0..4).any(|writer| bytes == of(writer)));
        }
    });
    let files = fs::read_dir(&folder.path).expect("there").count();
    assert_eq!(files, 1, "nothing unfinished is left");
}
