//! Bakes with preview and report over old files, with calls that fail.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use crate::Bench;
use crate::fault::Plan;
use crate::made;
use crate::replay::Files;
use crate::shim::preload;

/// The files before a run.
pub const OLD: [(&str, &str); 3] = [
    ("out.glb", "the old model"),
    ("preview.png", "the old preview"),
    ("report.json", "\"the old report\""),
];
/// The model that the saboteur makes.
pub static GLB: LazyLock<String> = LazyLock::new(|| {
    let model = made::model(&[], &[0, 1, 2]);
    String::from_utf8_lossy(&model).into_owned()
});

/// A place for a run, with files from before it.
#[derive(Debug)]
pub struct Stage {
    /// Its folder.
    pub bench: Bench,
}

impl Stage {
    /// Creates it with the old files.
    #[expect(
        clippy::new_without_default,
        reason = "a folder on the disk is no default"
    )]
    pub fn new() -> Self {
        let bench = Bench::new(&Plan::healthy());
        for (name, text) in OLD {
            fs::write(bench.path("out").join(name), text).expect("an old file");
        }
        Self { bench }
    }

    /// Where the calls are logged.
    pub fn log(&self) -> PathBuf {
        self.bench.path("calls.log")
    }

    /// A bake with preview and report; all paths are absolute, as in the log.
    pub fn bare(&self) -> Command {
        let mut command = self.bench.kiln();
        command.args(["bake", "mesh.glb", "--views", "transforms.json", "--json"]);
        command.args([
            "--texture-size",
            "256",
            "--timeout",
            "5",
            "--insecure-no-sandbox",
        ]);
        for (flag, name) in [
            ("--baker", "kiln-baker"),
            ("-o", "out/out.glb"),
            ("--preview", "out/preview.png"),
            ("--report", "out/report.json"),
            ("--crash-folder", "crashes"),
        ] {
            command.arg(flag).arg(self.bench.path(name));
        }
        command
    }

    /// As [`Self::bare`], with the library preloaded that logs calls and makes them fail.
    pub fn shimmed(&self) -> Command {
        let mut command = self.bare();
        preload(&mut command, &self.log());
        command
    }

    /// The text of a file of the output folder.
    pub fn file(&self, name: &str) -> Option<String> {
        let bytes = fs::read(self.bench.path("out").join(name)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// All files of the output folder.
    pub fn files(&self) -> Files {
        let out = self.bench.path("out");
        let names = self.bench.outputs();
        names
            .iter()
            .map(|name| (out.join(name), fs::read(out.join(name)).expect("a file")))
            .collect()
    }
}
