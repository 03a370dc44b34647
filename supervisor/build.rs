//! The page's sources in `page/` → its bundle, for `src/serve/page.rs` to embed; git → `KILN_BUILT`, the commit and target for
//! `kiln --version`.
//!
//! npm works in a copy beneath `OUT_DIR`, so nothing is written beside the sources; what it installed is kept there until
//! `package-lock.json` changes, so a change of the page alone needs no network. No script of a package is run: esbuild's
//! program comes as a package of its own.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What the page is made of.
const SOURCES: [&str; 7] = [
    "build.mjs",
    "icon.svg",
    "index.html",
    "package-lock.json",
    "package.json",
    "src",
    "style.css",
];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=KILN_BUILT={}", built());
    if std::env::var_os("CARGO_FEATURE_PAGE").is_none() {
        return ExitCode::SUCCESS;
    }
    for source in SOURCES {
        println!("cargo::rerun-if-changed=page/{source}");
    }
    match bundle() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!(
                "cargo::error=the sidecar's page cannot be built: {why}. Install Node 18 or newer with npm, or build kiln without its page: --no-default-features"
            );
            ExitCode::FAILURE
        }
    }
}

/// The commit, where it is known, and the target.
fn built() -> String {
    println!("cargo::rerun-if-env-changed=KILN_COMMIT");
    // Of sources without their history, whoever packs them can say it.
    let told = std::env::var("KILN_COMMIT").ok();
    let commit = told.filter(|commit| !commit.is_empty()).or_else(commit);
    let target = std::env::var("TARGET").unwrap_or_default();
    match commit {
        Some(commit) => format!("commit {commit}, {target}"),
        None => target,
    }
}

fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let said = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| said.trim().to_owned())
    };
    // The sources may lie in the repository of something else.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    // To watch a file that is missing would run this in every build.
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn bundle() -> Result<(), String> {
    let folder = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .ok_or_else(|| format!("cargo does not say {name}"))
    };
    let sources = folder("CARGO_MANIFEST_DIR")?.join("page");
    let place = folder("OUT_DIR")?.join("page");
    let failed = |error: io::Error| format!("{}: {error}", place.display());
    fs::create_dir_all(&place).map_err(failed)?;
    let stamp = place.join("installed");
    let wanted = [
        fs::read(sources.join("package.json")),
        fs::read(sources.join("package-lock.json")),
    ];
    let wanted: Vec<u8> = wanted.into_iter().flatten().flatten().collect();
    let fresh = fs::read(&stamp).is_ok_and(|found| found == wanted);
    for source in SOURCES {
        let to = place.join(source);
        if to.is_dir() {
            fs::remove_dir_all(&to).map_err(failed)?;
        }
        copy(&sources.join(source), &to).map_err(failed)?;
    }
    if !fresh {
        run(
            &place,
            "npm",
            ["ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        )?;
        fs::write(&stamp, wanted).map_err(failed)?;
    }
    run(&place, "node", ["build.mjs"])
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return fs::copy(from, to).map(|_bytes| ());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Runs a program; an error is one line with the last that it wrote.
fn run<const N: usize>(
    place: &Path,
    program: &str,
    arguments: [impl AsRef<OsStr>; N],
) -> Result<(), String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(place)
        .output()
        .map_err(|error| format!("{program} does not start ({error})"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stderr, output.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = (said.lines().map(str::trim))
        .filter(|line| !line.is_empty())
        .take(5)
        .collect();
    Err(format!(
        "{program} failed ({}): {}",
        output.status,
        lines.join(" | ")
    ))
}
