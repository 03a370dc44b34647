//! Targets, undone commits, and parts of dead and live processes.

use super::*;

fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).expect("folder").count()
}

#[test]
fn a_target_is_replaced_only_by_a_commit() {
    let folder = tempfile::tempdir().expect("temp dir");
    let path = folder.path().join("out.glb");
    fs::write(&path, b"old").expect("file");
    let target = Target::check(&path).expect("writable");
    assert_eq!(entries(folder.path()), 1, "the check leaves nothing");

    let staged = target.stage(&mut &b"new"[..]).expect("room");
    assert_eq!(
        (fs::read(&path).expect("there"), entries(folder.path())),
        (b"old".to_vec(), 1),
        "a staged file has no name"
    );
    drop(staged);
    assert_eq!(entries(folder.path()), 1, "a dropped file is removed");

    let staged = target.stage(&mut &b"new"[..]).expect("room");
    assert_eq!(staged.commit().expect("renamed"), 3);
    assert_eq!(
        (fs::read(&path).expect("there"), entries(folder.path())),
        (b"new".to_vec(), 1)
    );
}

#[test]
fn a_batch_is_named_wholly_or_not_at_all() {
    let folder = tempfile::tempdir().expect("temp dir");
    let place = |name: &str| folder.path().join(name);
    fs::write(place("old"), b"old").expect("file");
    let stage = |name: &str| {
        let target = Target::check(&place(name)).expect("writable");
        target.stage(&mut &b"new"[..]).expect("room")
    };
    let files = [stage("old"), stage("fresh"), stage("refused")];
    // A file cannot replace this.
    fs::create_dir(place("refused")).expect("folder");
    fs::write(place("refused/x"), b"x").expect("file");
    let error = commit(files, &Given::default()).expect_err("refused");
    assert_eq!(error.exit_code, 73, "{}", error.message);
    assert_eq!(fs::read(place("old")).expect("there"), b"old");
    assert!(!place("fresh").exists(), "it was not there before");
    assert_eq!(entries(folder.path()), 2, "old and the folder");
}

#[test]
fn a_file_that_was_given_is_replaced_by_no_name_of_its_own() {
    let folder = tempfile::tempdir().expect("temp dir");
    let place = |name: &str| folder.path().join(name);
    for name in ["view.png", "old.png"] {
        fs::write(place(name), b"old").expect("file");
    }
    std::os::unix::fs::symlink("view.png", place("link.png")).expect("a link");
    let mut given = Given::default();
    let file = FileId::from(&fs::metadata(place("view.png")).expect("there"));
    given.add(file);
    for name in ["view.png", "link.png"] {
        let target = Target::check(&place(name)).expect("writable");
        assert!(target.replaces(file), "{name}");
        let other = Target::check(&place("old.png")).expect("writable");
        let files = [&other, &target].map(|target| target.stage(&mut &b"new"[..]).expect("room"));
        let error = commit(files, &given).expect_err("an input");
        assert_eq!(error.exit_code, 64);
        assert!(
            error.message.ends_with(&format!("{name} is named twice")),
            "{}",
            error.message
        );
        for old in ["view.png", "old.png"] {
            assert_eq!(fs::read(place(old)).expect("there"), b"old", "{name}");
        }
    }
    assert_eq!(entries(folder.path()), 3);
}

#[test]
fn what_the_dead_left_is_removed_and_what_the_living_hold_is_not() {
    let folder = tempfile::tempdir().expect("temp dir");
    let place = |name: &str| folder.path().join(name);
    let (stale, held) = (
        place(".kiln-0123456789abcdef.part"),
        place(".kiln-0123456789abcde0.part"),
    );
    let others = [".kiln-notes.part", "kiln-0123456789abcdef.part", "out.part"];
    for path in [&stale, &held].into_iter().chain(&others.map(place)) {
        fs::write(path, b"x").expect("file");
    }
    let lock = File::open(&held).expect("there");
    lock.try_lock().expect("nobody has it");
    Target::check(&place("out.glb")).expect("writable");
    assert!(!stale.exists(), "its process is dead");
    assert!(held.exists(), "its process lives");
    assert!(others.iter().all(|name| place(name).exists()), "not ours");
    drop(lock);
    Target::check(&place("out.glb")).expect("writable");
    assert!(!held.exists(), "its process has died");
}

#[test]
fn a_part_without_a_name_is_swept_by_nobody_once_it_has_one() {
    let folder = tempfile::tempdir().expect("temp dir");
    let mut part = Part::create(folder.path()).expect("room");
    assert_eq!(entries(folder.path()), 0);
    let name = part.link().expect("a name");
    part::sweep(folder.path());
    assert!(name.exists(), "its lock came with it");
    drop(part);
    assert_eq!(entries(folder.path()), 0);
}

#[test]
fn a_reader_that_fails_leaves_nothing() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
    }
    let folder = tempfile::tempdir().expect("temp dir");
    let target = Target::check(&folder.path().join("out.glb")).expect("writable");
    let error = target.stage(&mut Broken).expect_err("broken");
    assert!(
        error.message.ends_with("the disk is full"),
        "{}",
        error.message
    );
    assert!(error.hint.contains("free some space"));
    let error = target.error(&io::Error::from_raw_os_error(nix::libc::EFBIG));
    assert_eq!(error.exit_code, 74);
    assert!(error.message.contains("ulimit -f") && !error.hint.contains("space"));
    assert_eq!(entries(folder.path()), 0);
}

#[test]
fn a_name_that_is_too_long_is_known_before_any_work() {
    let folder = tempfile::tempdir().expect("temp dir");
    let name = |bytes| folder.path().join("n".repeat(bytes));
    Target::check(&name(255)).expect("the longest");
    let error = Target::check(&name(256)).expect_err("too long");
    assert_eq!(error.exit_code, 73);
    assert!(
        error.message.ends_with("the name is too long") && error.hint.contains("shorter"),
        "{}",
        error.message
    );
}

#[test]
fn a_bad_place_is_known_before_any_work() {
    let folder = tempfile::tempdir().expect("temp dir");
    for path in [
        folder.path().join("nowhere/out.glb"),
        folder.path().to_path_buf(),
        PathBuf::from("/"),
    ] {
        assert_eq!(
            Target::check(&path).expect_err("bad").code,
            Code::OutputError,
            "{}",
            path.display()
        );
    }
    assert_eq!(
        Target::check(&PathBuf::from("/proc/out.glb"))
            .expect_err("bad")
            .exit_code,
        73
    );
}
