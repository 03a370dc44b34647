//! Names that are opened, and every way to name something else.

use std::io::Read;
use std::os::unix::fs::symlink;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::input;
use crate::process::opener::*;

/// A folder with `mesh` and `inner.bin`, `secret.png` beside it, and every way to name something else.
fn folder() -> (tempfile::TempDir, Input) {
    let outer = tempfile::tempdir().expect("a folder");
    let root = outer.path().join("root");
    for folder in ["sub", ".ssh", "a.png"] {
        fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    fs::write(outer.path().join("secret.png"), b"secret").expect("a file");
    for name in [
        "mesh",
        "inner.bin",
        "notes.txt",
        ".ssh/id.bin",
        ".hidden.png",
        "noending",
    ] {
        fs::write(root.join(name), b"inner").expect("a file");
    }
    symlink("../inner.bin", root.join("sub/stays.bin")).expect("a link");
    symlink("../../secret.png", root.join("sub/leaves.png")).expect("a link");
    symlink(outer.path().join("secret.png"), root.join("absolute.png")).expect("a link");
    symlink("/proc/self/fd/0", root.join("magic.bin")).expect("a link");
    mkfifo(&root.join("pipe.png"), Mode::S_IRWXU).expect("a pipe");
    let input = input::find("the mesh", &root.join("mesh")).expect("there");
    (outer, input)
}

fn open(input: &Input, name: &str, limit: u64) -> Result<Vec<u8>, Refusal> {
    let mut opener = Opener::default();
    let question = opener
        .admit(Some(input), Root::Mesh, name.to_owned(), limit)
        .expect("the first");
    let (file, size) = question.open()?;
    let mut bytes = Vec::new();
    File::from(file).read_to_end(&mut bytes).expect("readable");
    assert_eq!(bytes.len() as u64, size);
    Ok(bytes)
}

#[test]
fn files_of_a_mesh_are_opened() {
    let (_guard, input) = folder();
    let names = [
        "mesh",
        "inner.bin",
        "./inner.bin",
        "sub/../inner.bin",
        "sub/stays.bin",
    ];
    for name in names {
        assert_eq!(open(&input, name, 5).expect(name), b"inner", "{name}");
    }
}

#[test]
fn an_absolute_name_is_one_beneath_the_folder_or_none() {
    let (guard, input) = folder();
    let root = guard.path().join("root");
    let other = guard.path().join("other");
    symlink(&root, &other).expect("a link");
    let name = |path: std::path::PathBuf| path.to_str().expect("ascii").to_owned();
    for file in ["inner.bin", "sub/../inner.bin", "sub/stays.bin"] {
        for folder in [&root, &other] {
            let name = name(folder.join(file));
            assert_eq!(open(&input, &name, 5).expect(&name), b"inner", "{name}");
        }
    }
    for (file, refusal) in [
        ("none.png", Refusal::Missing),
        ("none/none.png", Refusal::Outside),
        ("notes.txt", Refusal::Unlisted),
        (".ssh/id.bin", Refusal::Unlisted),
        ("sub/leaves.png", Refusal::Outside),
        ("absolute.png", Refusal::Outside),
    ] {
        assert_eq!(
            open(&input, &name(root.join(file)), 5),
            Err(refusal),
            "{file}"
        );
    }
}

#[test]
fn nothing_outside_is_opened() {
    let (guard, input) = folder();
    let absolute = guard.path().join("secret.png");
    for name in [
        "../secret.png",
        "sub/../../secret.png",
        "sub/leaves.png",
        "absolute.png",
        "/etc/passwd",
        "../../etc/passwd",
        "/",
        absolute.to_str().expect("ascii"),
    ] {
        assert_eq!(open(&input, name, 1 << 20), Err(Refusal::Outside), "{name}");
    }
    // A link into another process's descriptors: refused as absolute before it is refused as a magic link.
    assert_eq!(open(&input, "magic.bin", 1 << 20), Err(Refusal::Outside));
}

#[test]
fn nothing_but_buffers_and_pictures_is_opened() {
    let (_guard, input) = folder();
    for name in [
        "notes.txt",
        "noending",
        ".ssh/id.bin",
        "sub/../.ssh/id.bin",
        ".hidden.png",
        "sub",
        ".",
        "./mesh",
        "inner.bin/.",
        "inner.bin.",
        "absent",
    ] {
        assert_eq!(open(&input, name, 9), Err(Refusal::Unlisted), "{name}");
    }
}

#[test]
fn only_regular_files_of_bounded_size_are_opened() {
    let (_guard, input) = folder();
    let error = |name: &str, limit| open(&input, name, limit).expect_err(name).to_string();
    assert_eq!(error("", 9), "the file name is empty");
    assert_eq!(error("a\0b", 9), "the file name contains a NUL character");
    assert_eq!(error("absent.png", 9), "no such file");
    assert_eq!(error("inner.bin/child.png", 9), "no such file");
    assert_eq!(error("a.png", 9), "is a directory, not a regular file");
    assert_eq!(error("pipe.png", 9), "is a pipe, not a regular file");
    assert_eq!(
        error("inner.bin", 4),
        "has 5 bytes, more than the 4 that are taken"
    );
    assert_eq!(
        error(&"x".repeat(5000), 9),
        "cannot be read (File name too long (os error 36))"
    );
}

#[test]
fn a_process_asks_one_thing_at_a_time_and_not_for_ever() {
    let (_guard, input) = folder();
    let mut opener = Opener::default();
    let mut ask = || {
        opener
            .admit(Some(&input), Root::Views, String::new(), 0)
            .map(drop)
    };
    assert!(ask().is_ok());
    assert!(ask().expect_err("two at once").contains("before it has"));
    let mut opener = Opener {
        asked: MAX_OPENS,
        waiting: false,
    };
    let refused = opener.admit(Some(&input), Root::Views, String::new(), 0);
    assert!(refused.expect_err("too many").contains("more than"));
}
