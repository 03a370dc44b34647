//! A supervisor that has no descriptor left: what was accepted is ended well from the reserve, and who hoards is refused.
//!
//! One test, since the limit is the process's.

use std::fs::{self, File};

use nix::libc::EMFILE;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use proto::message::{Phase, Role, Root, Table};
use supervisor::cli::{self, Command};
use supervisor::host::ladder::Rung;
use supervisor::job::crash;
use supervisor::output;
use supervisor::process::opener::Opener;
use supervisor::process::reserve;
use supervisor::process::table_store::{TableStore, TableStoreError};
use supervisor::process::verdict::{Ending, Exit, fault};

/// As row 53 of the failures has it.
const LIMIT: u64 = 128;
/// What the reserve holds at such a limit.
const HELD: usize = 16;

fn own() -> usize {
    fs::read_dir("/proc/self/fd")
        .expect("a descriptor")
        .count()
        .saturating_sub(1)
}

fn spent() -> bool {
    matches!(File::open("/dev/null"), Err(error) if error.raw_os_error() == Some(EMFILE))
}

fn hog() -> Vec<File> {
    let hog: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(spent());
    hog
}

#[test]
fn what_was_accepted_is_ended_well_without_a_descriptor_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    for name in ["mesh.glb", "transforms.json", "out.glb"] {
        fs::write(path(name), "old").expect("a file");
    }
    let (out, report, crashes) = (path("out.glb"), path("report.json"), path("crashes"));
    let (mesh, views) = (path("mesh.glb"), path("transforms.json"));
    let words = ["kiln", "bake", &mesh, "--views", &views, "-o", &out];
    let more = ["--report", &report, "--crash-folder", &crashes];
    let typed = words.into_iter().chain(more).map(Into::into);
    let Ok(Command::Bake { spec, .. }) = cli::parse(typed) else {
        panic!("a job");
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, LIMIT, hard).expect("lower");
    let before = own();
    reserve::start();
    assert_eq!(own(), before + HELD);
    let held = hog();

    // A result and its report, over old files and none.
    let files = [&spec.glb, &spec.report].map(|target| {
        let target = target.as_ref().expect("asked for");
        target.stage(&mut &b"new"[..]).expect("written")
    });
    output::commit(files, &output::Given::default()).expect("named");
    for name in [&out, &report] {
        // Reading takes a descriptor, too.
        let text = reserve::lend(|| fs::read_to_string(name)).expect("there");
        assert_eq!(text, "new", "{name}");
    }

    // A crash.
    let ending = Ending::new(Role::Bake, Phase::Fit, Exit::Signal(11));
    let kept = crash::keep(&crash::Death {
        spec: &spec,
        ending: &ending,
        fault: &fault(&ending),
        rung: &Rung::default(),
        pid: 7,
        tail: &[],
    });
    assert!(kept.expect("a folder").join("crash.json").is_file());

    // A file that prepare asks for.
    let question = Opener::default().admit(Some(&spec.mesh), Root::Mesh, "mesh.glb".to_owned(), 9);
    let opened = runtime.block_on(question.expect("the first").answer());
    assert_eq!(opened.outcome, Ok(3));
    drop(opened);

    // A small job's tables, until it hoards: then it is refused, and says what for.
    reserve::refill();
    assert!(spent(), "what was given back is in the reserve again");
    let mut tables = TableStore::new(256);
    let granted: Vec<_> = (0..LIMIT as u32)
        .map_while(|index| {
            tables
                .allocate(Role::Prepare, Table::View(index), 4096)
                .map_err(|error| {
                    let TableStoreError::Memory(error) = error else {
                        panic!("{error}");
                    };
                    assert!(reserve::Shortage::of_descriptors(&error), "{error}");
                })
                .ok()
        })
        .collect();
    assert_eq!(granted.len(), HELD);
    drop((granted, tables));

    // Everything came back, and the reserve with it.
    drop(held);
    reserve::refill();
    assert_eq!(own(), before + HELD);
}
