//! A list of jobs → arguments of `kiln bake`, so that every job is checked as if it had been typed.
//!
//! ```json
//! [{"mesh": "a.glb", "views": "a/transforms.json", "output": "a_baked.glb"},
//!  {"name": "chair", "mesh": "b.ply", "views": "b", "output": "b_baked.glb", "texture-size": 2048, "keep-uvs": true}]
//! ```
//!
//! Keys are the long flags without their dashes, and `mesh`; a flag without a value is `true` or `false`. `name` names the job in
//! events; its number from 1 does otherwise. Paths are relative to the folder that `kiln` runs in.

use std::io::{self, Read};
use std::path::Path;

use serde_json::{Map, Value};

use crate::input::{Chosen, reason, whole};

/// A list is read up to this size: some 100,000 jobs.
const MAX_LIST_BYTES: u64 = 64 << 20;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its arguments, without the program and the command.
    pub arguments: Vec<String>,
}

/// Reads a list; `-` is standard input.
///
/// # Errors
/// One line that names the entry and the key.
pub fn read(path: &Path) -> Result<Vec<Entry>, String> {
    let piped = path.as_os_str() == "-";
    let shown = match piped {
        true => "standard input".into(),
        false => path.to_string_lossy(),
    };
    let mut text = Vec::new();
    let read = match piped {
        false => whole(path, MAX_LIST_BYTES, Chosen::ByUser).map(|(bytes, _)| text = bytes),
        true => match io::stdin().take(MAX_LIST_BYTES + 1).read_to_end(&mut text) {
            Err(error) => Err(reason(&error)),
            Ok(count) if count as u64 > MAX_LIST_BYTES => {
                Err(format!("has more than {MAX_LIST_BYTES} bytes"))
            }
            Ok(_) => Ok(()),
        },
    };
    read.map_err(|error| format!("{shown}: {error}"))?;
    parse(&text).map_err(|error| format!("{shown}: {error}"))
}

/// See [`read`].
///
/// # Errors
/// One line that names the entry and the key.
pub fn parse(text: &[u8]) -> Result<Vec<Entry>, String> {
    // As editors of some systems begin a text.
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let list: Vec<Map<String, Value>> = serde_json::from_slice(text)
        .map_err(|error| format!("not a JSON list of objects: {error}"))?;
    if list.is_empty() {
        return Err("the list holds no job".to_owned());
    }
    let entries = list.into_iter().enumerate();
    entries
        .map(|(index, object)| {
            let number = index + 1;
            entry(number, object).map_err(|error| format!("job {number}: {error}"))
        })
        .collect()
}

fn entry(number: usize, mut object: Map<String, Value>) -> Result<Entry, String> {
    let name = match object.remove("name") {
        None => number.to_string(),
        Some(Value::String(name)) => crate::words::printable(&name, 80),
        Some(other) => return Err(format!("\"name\" is {other}, not a text")),
    };
    let mut arguments = Vec::new();
    let mut mesh = None;
    for (key, value) in object {
        if key.is_empty() || key.starts_with('-') || key.contains('=') {
            return Err(format!("{key:?} is no flag: write it without its dashes"));
        }
        match (key.as_str(), value) {
            ("mesh", Value::String(path)) => mesh = Some(path),
            // Many jobs share one output and one way of showing things, and a list is data: no program and no switch of the
            // sandbox comes from it.
            (
                "jobs"
                | "parallel"
                | "spares"
                | "bakes"
                | "memory-limit"
                | "pipeline-cache"
                | "crash-folder"
                | "insecure-no-sandbox"
                | "baker"
                | "baker-of"
                | "json"
                | "quiet"
                | "verbose"
                | "help",
                _,
            ) => {
                return Err(format!("{key:?} belongs on the command line"));
            }
            (_, Value::Bool(true)) => arguments.push(format!("--{key}")),
            (_, Value::Bool(false)) => {}
            (_, Value::String(text)) => arguments.push(format!("--{key}={text}")),
            (_, Value::Number(number)) => arguments.push(format!("--{key}={number}")),
            (_, other) => return Err(format!("{key:?} is {other}, not a text, a number or true")),
        }
    }
    let mesh = mesh.ok_or("\"mesh\" is missing")?;
    arguments.extend(["--".to_owned(), mesh]);
    Ok(Entry { name, arguments })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_becomes_the_arguments_that_one_would_type() {
        let text = br#"[{"mesh": "-a.glb", "views": "v", "output": "o.glb"},
            {"name": "b\nb", "mesh": "b", "texture-size": 512, "keep-uvs": true, "quality": "draft"}]"#;
        let entries = parse(text).expect("a list");
        assert_eq!(entries[0].name, "1");
        assert_eq!(
            entries[0].arguments,
            ["--output=o.glb", "--views=v", "--", "-a.glb"]
        );
        let marked = [b"\xEF\xBB\xBF", &text[..]].concat();
        assert_eq!(parse(&marked).expect("a list"), entries);
        assert_eq!(entries[1].name, "b\u{fffd}b");
        assert_eq!(
            entries[1].arguments,
            [
                "--keep-uvs",
                "--quality=draft",
                "--texture-size=512",
                "--",
                "b"
            ]
        );
    }

    #[test]
    fn a_bad_entry_is_named() {
        for (text, wanted) in [
            ("{}", "not a JSON list"),
            ("[]", "no job"),
            ("[1]", "not a JSON list of objects"),
            (r#"[{"views": "v"}]"#, "job 1: \"mesh\" is missing"),
            (
                r#"[{"mesh": "a", "baker": "/bin/sh"}]"#,
                "job 1: \"baker\" belongs",
            ),
            (
                r#"[{"mesh": "a", "baker-of": "1=/bin/sh"}]"#,
                "job 1: \"baker-of\" belongs",
            ),
            (
                r#"[{"mesh": "a", "insecure-no-sandbox": true}]"#,
                "job 1: \"insecure-no-sandbox\" belongs",
            ),
            (
                r#"[{"mesh": "a", "crash-folder": "/"}]"#,
                "job 1: \"crash-folder\" belongs",
            ),
            (
                r#"[{"mesh": "a"}, {"mesh": "a", "json": true}]"#,
                "job 2: \"json\" belongs",
            ),
            (
                r#"[{"mesh": "a", "help": true}]"#,
                "job 1: \"help\" belongs",
            ),
            (
                r#"[{"mesh": "a", "--json": true}]"#,
                "job 1: \"--json\" is no flag",
            ),
            (r#"[{"mesh": "a", "": true}]"#, "job 1: \"\" is no flag"),
            (
                r#"[{"mesh": "a", "texture-size": [1]}]"#,
                "job 1: \"texture-size\" is [1]",
            ),
        ] {
            let error = parse(text.as_bytes()).expect_err(text);
            assert!(error.contains(wanted), "{error}");
        }
    }
}
