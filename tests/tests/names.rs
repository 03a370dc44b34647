//! Files with any name: accepted where possible, and shown as at most one printable line.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kiln_tests::shapes::icosphere;
use kiln_tests::views::{self, around};
use kiln_tests::{Bench, glb, read_json, words};
use serde_json::Value;

/// Blanks, a line feed, escape sequences of terminals, a turned direction, what a shell would obey, and the longest.
fn names() -> Vec<String> {
    let odd = [
        "with blanks and \u{fc}",
        "two\nlines\r",
        "\u{1b}[31mred\u{1b}]0;title\u{7}",
        "turned \u{202e}round",
        "'\"$(x);*?\\",
    ];
    let longest = "n".repeat(255);
    odd.into_iter()
        .map(str::to_owned)
        .chain([longest])
        .collect()
}

/// A picture with this name: only names with a picture's ending are opened.
fn picture(name: &str) -> String {
    format!("{}.png", name.get(..251).unwrap_or(name))
}

/// A result with this name: its ending says the form.
fn result(name: &[u8]) -> Vec<u8> {
    [name.get(..251).unwrap_or(name), b".glb"].concat()
}

/// A job whose mesh, views and result have this name, in folders of this name; so has a picture, if the name is UTF-8.
struct Job {
    bench: Bench,
    name: Vec<u8>,
    /// Of mesh and views.
    file: Vec<u8>,
}

impl Job {
    fn new(name: &[u8], mesh: &[u8]) -> Self {
        let job = Self {
            bench: Bench::real(),
            name: name.to_owned(),
            file: name.to_owned(),
        };
        for part in ["mesh", "views"] {
            let folder = job.place(part);
            fs::create_dir_all(folder.parent().expect("a folder")).expect("a folder");
        }
        fs::write(job.place("mesh"), mesh).expect("a mesh");
        let views = job.place("views");
        fs::create_dir(views.with_file_name("pictures")).expect("a folder");
        views::write(
            &around(6, 3.0, [32, 32]),
            &views,
            |number| match std::str::from_utf8(name) {
                Ok(name) if number == 3 => format!("pictures/{}", picture(name)),
                _ => format!("pictures/{number}.png"),
            },
        );
        job
    }

    fn name(&self) -> &OsStr {
        OsStr::from_bytes(&self.name)
    }

    /// The folder of its mesh or views.
    fn place(&self, part: &str) -> PathBuf {
        self.bench
            .path(part)
            .join(self.name())
            .join(OsStr::from_bytes(&self.file))
    }

    /// `kiln bake` of its files, to be given more arguments.
    fn command(&self) -> Command {
        let output = Path::new("out").join(OsStr::from_bytes(&result(&self.name)));
        let mut command = self
            .bench
            .command(&words("bake --device cpu --quality draft"));
        command
            .args(["--texture-size", "256"])
            .arg(self.place("mesh"));
        command.arg("--views").arg(self.place("views"));
        command.arg("-o").arg(output);
        command
    }

    fn bake(&self, more: &[&str]) -> Output {
        self.command().args(more).output().expect("kiln runs")
    }
}

/// Asserts that standard error has at most so many lines for people and no terminal control.
fn harmless(output: &Output, lines: usize) -> String {
    let text = String::from_utf8(output.stderr.clone()).expect("text");
    assert!(text.lines().count() <= lines, "{text:?}");
    assert!(
        text.chars()
            .all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'),
        "{text:?}"
    );
    text
}

fn json_lines(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).expect("text");
    let line = |line| serde_json::from_str(line).expect("JSON");
    text.lines().map(line).collect()
}

#[test]
fn files_of_odd_names_are_baked() {
    for name in names() {
        let job = Job::new(name.as_bytes(), &icosphere(2).ply());
        let more = ["--report", "report.json"];
        let output = job.bake(&more);
        let text = harmless(&output, 30);
        assert_eq!(output.status.code(), Some(0), "{name:?}: {text}");
        assert!(
            text.lines().all(|line| line.starts_with("kiln: ")),
            "{text}"
        );
        let made = String::from_utf8(result(name.as_bytes())).expect("text");
        assert_eq!(
            output.stdout,
            format!("out/{made}\n").as_bytes(),
            "the path and nothing else"
        );
        glb::read(&job.bench.path("out").join(&made)).expect("a GLB");
        let report = read_json(&job.bench.path("report.json"));
        assert_eq!(report["files"][0]["path"], format!("out/{made}"));
    }
}

#[test]
fn files_of_odd_names_are_refused_in_one_line() {
    for name in names() {
        let job = Job::new(name.as_bytes(), b"ply\n");
        let output = job.bake(&["-q"]);
        let text = harmless(&output, 2);
        assert_eq!(output.status.code(), Some(65), "{name:?}: {text}");
        assert!(
            text.starts_with("kiln: error: ") && text.contains("header line"),
            "{text}"
        );

        let output = job.bake(&["--json"]);
        assert_eq!(harmless(&output, 0), "");
        let lines = json_lines(&output);
        assert_eq!(lines.last().expect("a line")["code"], "invalid_asset");
        job.bench.assert_clean(&[]);

        // A missing picture of this name, a missing mesh, and a report in a folder that is made.
        let absent = Job::new(name.as_bytes(), &icosphere(2).ply());
        fs::remove_file(
            absent
                .place("views")
                .with_file_name("pictures")
                .join(picture(&name)),
        )
        .expect("it is there");
        let output = absent.bake(&["-q"]);
        assert_eq!(
            (harmless(&output, 2).is_empty(), output.status.code()),
            (false, Some(65))
        );
        fs::remove_file(absent.place("mesh")).expect("it is there");
        let output = absent.bake(&["-q"]);
        assert_eq!(
            (harmless(&output, 2).is_empty(), output.status.code()),
            (false, Some(66))
        );
        let report = format!("nowhere/{name}");
        let output = job.bake(&["-q", "--report", &report]);
        assert_eq!(
            (harmless(&output, 2).is_empty(), output.status.code()),
            (false, Some(65))
        );
        assert!(job.bench.path(&report).is_file(), "its folder is made");
    }
}

/// Names as in Blender's and nerfstudio's files; a dot within a name is no ending.
#[test]
fn pictures_may_be_named_without_their_ending() {
    let bench = Bench::real();
    fs::create_dir_all(bench.path("train.1")).expect("a folder");
    let (mesh, views) = (bench.path("mesh.ply"), bench.path("views.json"));
    fs::write(&mesh, icosphere(2).ply()).expect("a mesh");
    views::write(&around(6, 3.0, [32, 32]), &views, |number| {
        format!("train.1/r_{number}.5.png")
    });
    let bare = fs::read_to_string(&views).expect("there");
    let bare = bare
        .replace("train.1/", "./train.1/")
        .replace(".5.png", ".5");
    assert!(bare.contains("./train.1/r_5.5\""), "{bare}");
    fs::write(&views, bare).expect("room");
    let more = ["--quality", "draft", "--texture-size", "256"];
    let output = bench.bake_for_people(&mesh, &views, &more).output();
    let output = output.expect("kiln runs");
    assert_eq!(output.status.code(), Some(0), "{}", harmless(&output, 30));

    let text = fs::read_to_string(&views).expect("there");
    fs::write(&views, text.replace("r_3.5", "r_33")).expect("room");
    let more = [&more[..], &["-q"]].concat();
    let output = bench.bake_for_people(&mesh, &views, &more).output();
    let output = output.expect("kiln runs");
    let text = harmless(&output, 2);
    assert_eq!(output.status.code(), Some(65), "{text}");
    let words =
        "frame 3: ./train.1/r_33: no such file, nor with .png, .jpg, .jpeg or .webp behind it";
    assert!(text.contains(words), "{text}");
}

#[test]
fn a_name_that_is_no_text_is_refused_for_inputs_and_taken_for_the_rest() {
    let name = b"caf\xe9\x1b";
    let job = Job::new(name, &icosphere(2).ply());
    let output = job.bake(&["-q"]);
    let text = harmless(&output, 2);
    assert_eq!(output.status.code(), Some(65), "{text}");
    assert!(text.contains("the file name is not UTF-8"), "{text}");

    // Folders and the result may have such names: nobody needs them as text.
    let mut job = job;
    for part in ["mesh", "views"] {
        let path = job.place(part);
        fs::rename(&path, path.with_file_name("plain")).expect("renamed");
    }
    job.file = b"plain".to_vec();
    let output = job.bake(&["--report", "report.json"]);
    let text = harmless(&output, 30);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(output.stdout, [&b"out/"[..], &result(name), b"\n"].concat());
    let report = read_json(&job.bench.path("report.json"));
    assert_eq!(report["options"]["output"], "out/caf\u{fffd}\u{1b}.glb");
    let output = job.bake(&["--json"]);
    assert_eq!(
        (output.status.code(), harmless(&output, 0)),
        (Some(0), String::new())
    );
    assert_eq!(json_lines(&output).last().expect("a line")["event"], "done");
}
