//! Decides from nerfstudio's lists of names which frames are held out. The head of [`super`] says what each list means.
//!
//! Names are compared as paths, component by component: `./train/a.png` equals `train/a.png`. Endings are part of the
//! name, so a list has to repeat `file_path` as written.

use std::collections::HashSet;

use proto::limits::MAX_VIEWS;

use super::error::TransformsError;
use super::frame::Frame;
use super::keys::Names;

#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) train: Option<Names>,
    pub(super) val: Option<Names>,
    pub(super) test: Option<Names>,
}

/// Number of names that an error or a warning spells out.
const SHOWN: usize = 5;

/// Flags the frames that the lists hold out. Returns a warning where there is one.
pub(super) fn hold_out(
    frames: &mut [Frame],
    lists: &Lists,
) -> Result<Option<String>, TransformsError> {
    let known: HashSet<String> = frames.iter().map(|frame| plain(&frame.file)).collect();
    let read = |key, names: &Option<Names>| {
        let names = names.as_ref();
        names.map(|names| resolve(key, names, &known)).transpose()
    };
    let train = read("train_filenames", &lists.train)?;
    let val = read("val_filenames", &lists.val)?;
    let test = read("test_filenames", &lists.test)?;

    let mut torn = Vec::new();
    for frame in frames.iter_mut() {
        let name = plain(&frame.file);
        let measured = [&val, &test]
            .into_iter()
            .flatten()
            .any(|list| list.contains(&name));
        let fitted = train.as_ref().is_none_or(|list| list.contains(&name));
        frame.held_out = measured || !fitted;
        if measured && fitted && train.is_some() {
            torn.push(frame.file.as_str());
        }
    }
    let warning = (!torn.is_empty()).then(|| {
        format!(
            "train_filenames repeats names of test_filenames or val_filenames, which are held out: {}",
            spell(&torn)
        )
    });
    if frames.iter().all(|frame| frame.held_out) {
        return Err(TransformsError::AllHeldOut);
    }
    Ok(warning)
}

fn resolve(
    key: &'static str,
    list: &Names,
    known: &HashSet<String>,
) -> Result<HashSet<String>, TransformsError> {
    if list.count > MAX_VIEWS {
        return Err(TransformsError::TooManyNames {
            key,
            count: list.count,
        });
    }
    let is_known = |name: &&String| known.contains(&plain(name));
    let unknown: Vec<&str> = list
        .names
        .iter()
        .filter(|name| !is_known(name))
        .map(String::as_str)
        .collect();
    if !unknown.is_empty() {
        return Err(TransformsError::UnknownNames {
            key,
            names: spell(&unknown),
        });
    }
    Ok(list.names.iter().map(|name| plain(name)).collect())
}

/// The path without empty and `.` components: `./a//b` becomes `a/b`.
fn plain(path: &str) -> String {
    let root = if path.starts_with('/') { "/" } else { "" };
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    format!("{root}{}", parts.join("/"))
}

/// The first few names in quotes, and how many more there are.
fn spell(names: &[&str]) -> String {
    let quoted: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("{name:?}"))
        .collect();
    match names.len().saturating_sub(SHOWN) {
        0 => quoted.join(", "),
        more => format!("{} and {more} more", quoted.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::prepare::transforms::{Transforms, TransformsError, parse};
    use proto::limits::MAX_VIEWS;
    use proto::message::Code;

    /// Frames `./v/0`, `v/1`, …, with `lists` added at the top level of the file.
    fn read(frames: usize, lists: Value) -> Result<Transforms, TransformsError> {
        let frames: Vec<Value> = (0..frames)
            .map(|number| {
                let dot = if number == 0 { "./" } else { "" };
                json!({
                    "file_path": format!("{dot}v/{number}"),
                    "transform_matrix": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
                })
            })
            .collect();
        let mut file = json!({"fl_x": 9, "frames": frames});
        if let (Some(file), Value::Object(lists)) = (file.as_object_mut(), lists) {
            file.extend(lists);
        }
        parse(file.to_string().as_bytes())
    }

    fn held(frames: usize, lists: Value) -> Vec<usize> {
        let read = read(frames, lists).expect("readable");
        (0..frames)
            .filter(|&number| read.frames[number].held_out)
            .collect()
    }

    #[test]
    fn test_and_val_are_held_out_and_train_holds_out_the_rest() {
        for (lists, wanted) in [
            (json!({}), vec![]),
            (json!({"test_filenames": null}), vec![]),
            (json!({"test_filenames": [], "val_filenames": []}), vec![]),
            (
                json!({"test_filenames": ["v/1", "./v//3", "v/1"]}),
                vec![1, 3],
            ),
            (
                json!({"test_filenames": ["v/0"], "val_filenames": ["v/0", "v/2"]}),
                vec![0, 2],
            ),
            (json!({"train_filenames": ["v/2", "v/0"]}), vec![1, 3]),
            (
                json!({"train_filenames": ["v/0", "v/1"], "test_filenames": ["v/2"]}),
                vec![2, 3],
            ),
        ] {
            assert_eq!(held(4, lists.clone()), wanted, "{lists}");
            let read = read(4, lists.clone()).expect("readable");
            assert!(read.warnings.is_empty(), "{lists}: {:?}", read.warnings);
        }
    }

    #[test]
    fn frame_on_both_kinds_of_list_is_held_out_with_a_warning() {
        let lists = json!({"train_filenames": ["v/0", "v/1"], "val_filenames": ["v/1"]});
        assert_eq!(held(2, lists.clone()), [1]);
        let warnings = read(2, lists).expect("readable").warnings;
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].ends_with("held out: \"v/1\""), "{warnings:?}");
    }

    #[test]
    fn names_without_a_frame_are_refused_by_name() {
        for (lists, text) in [
            (
                json!({"test_filenames": ["v/1", "v/9", "v/1.png"]}),
                "test_filenames names \"v/9\", \"v/1.png\", and no frame has that file_path",
            ),
            (
                json!({"val_filenames": ["/v/1"]}),
                "val_filenames names \"/v/1\"",
            ),
            (
                json!({"train_filenames": [""]}),
                "train_filenames names \"\"",
            ),
            (
                json!({"test_filenames": ["a", "b", "c", "d", "e", "f", "g"]}),
                "\"e\" and 2 more, and no frame",
            ),
        ] {
            let error = read(3, lists).expect_err("refused");
            assert_eq!(error.code(), Code::InvalidAsset);
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn lists_of_another_kind_too_long_or_that_leave_nothing_are_refused() {
        let error = read(2, json!({"test_filenames": ["v/1", 7]})).expect_err("refused");
        assert!(
            error
                .to_string()
                .contains("test_filenames: invalid type: integer `7`"),
            "{error}"
        );
        let error = read(2, json!({"val_filenames": "v/1"})).expect_err("refused");
        assert!(error.to_string().contains("val_filenames: "), "{error}");
        let long = vec!["v/1"; MAX_VIEWS + 3];
        let error = read(2, json!({"test_filenames": long})).expect_err("refused");
        assert_eq!(error.code(), Code::LimitExceeded);
        assert!(
            error.to_string().contains(&(MAX_VIEWS + 3).to_string()),
            "{error}"
        );
        for lists in [
            json!({"test_filenames": ["v/0"], "val_filenames": ["v/1"]}),
            json!({"train_filenames": []}),
        ] {
            let error = read(2, lists).expect_err("refused");
            assert!(matches!(error, TransformsError::AllHeldOut), "{error}");
        }
    }
}
