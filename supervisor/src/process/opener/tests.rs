//! Names that are opened, and every way to name something else.

use std::fs;
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
        ("sub/leaves.png", leaves("is", "../../secret.png")),
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
        "/etc/passwd",
        "../../etc/passwd",
        "/",
        absolute.to_str().expect("ascii"),
    ] {
        assert_eq!(open(&input, name, 1 << 20), Err(Refusal::Outside), "{name}");
    }
}

/// The refusal of a link that leaves the folder, or lies on the way.
fn leaves(link: &str, target: &str) -> Refusal {
    let link = match link {
        "is" => "is a symbolic link".to_owned(),
        on_the_way => format!("lies behind the symbolic link {on_the_way}"),
    };
    Refusal::Link(format!("{link} to {target}, outside its folder"))
}

#[test]
fn a_link_out_of_the_folder_is_refused_by_what_it_is() {
    let (guard, input) = folder();
    let root = guard.path().join("root");
    symlink("../other", root.join("train")).expect("a link");
    symlink("nothing.png", root.join("dangling.png")).expect("a link");
    fs::create_dir(guard.path().join("other")).expect("a folder");
    fs::write(guard.path().join("other/a.png"), b"inner").expect("a file");
    let secret = guard.path().join("secret.png");
    let nothing = "is a symbolic link to nothing.png, where nothing is";
    let cases = [
        ("sub/leaves.png", leaves("is", "../../secret.png")),
        (
            "absolute.png",
            leaves("is", secret.to_str().expect("ascii")),
        ),
        ("train/a.png", leaves("train", "../other")),
        ("dangling.png", Refusal::Link(nothing.to_owned())),
    ];
    for (name, refusal) in cases {
        assert_eq!(open(&input, name, 1 << 20), Err(refusal), "{name}");
    }
    // A link into the descriptors of this process.
    let magic = open(&input, "magic.bin", 1 << 20);
    assert!(matches!(magic, Err(Refusal::Link(_))), "{magic:?}");
}

#[test]
fn links_lead_where_the_named_link_leads_and_beneath_a_root() {
    let outer = tempfile::tempdir().expect("a folder");
    let at = |name: &str| outer.path().join(name);
    for folder in ["hub/blobs", "hub/set/train", "hub/.git", "far"] {
        fs::create_dir_all(at(folder)).expect("a folder");
    }
    for file in [
        "hub/blobs/1",
        "hub/blobs/2",
        "hub/blobs/beside.png",
        "hub/.git/3",
        "far/4",
    ] {
        fs::write(at(file), b"inner").expect("a file");
    }
    for (target, link) in [
        ("../blobs/1", "hub/set/t.json"),
        ("../../blobs/2", "hub/set/train/a.png"),
        ("../../.git/3", "hub/set/train/hidden.png"),
        ("../../../far/4", "hub/set/train/far.png"),
    ] {
        symlink(target, at(link)).expect("a link");
    }
    let named = input::find("the views", &at("hub/set/t.json")).expect("there");
    assert_eq!(named.name, "t.json");
    let roots = Beyond {
        folder: Arc::new(File::open(at("hub")).expect("a folder").into()),
        served: true,
    };
    let served = Input {
        beyond: Some(roots),
        ..named.clone()
    };
    for (input, name, opened) in [
        (&named, "t.json", true),
        (&named, "train/a.png", true),
        (&named, "beside.png", true),
        (&named, "train/hidden.png", false),
        (&named, "train/far.png", false),
        (&served, "t.json", true),
        (&served, "train/a.png", true),
        (&served, "blobs/beside.png", false),
        (&served, "train/hidden.png", false),
        (&served, "train/far.png", false),
    ] {
        assert_eq!(open(input, name, 9).is_ok(), opened, "{name}");
    }
    let refused = open(&served, "train/far.png", 9)
        .expect_err("outside")
        .to_string();
    assert_eq!(refused, "is a symbolic link that leads out of its folder");
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
    assert_eq!(
        error("inner.bin/child.png", 9),
        "lies behind inner.bin, which is a file and no folder, as a symbolic link copied as text is"
    );
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
