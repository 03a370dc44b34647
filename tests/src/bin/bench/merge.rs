//! Merges `transforms.json` and `transforms_test.json` into one file with all frames. The latter's frames are held out
//! by `test_filenames`.
//!
//! The top level of either file describes only its own frames, so it is moved into them: a lens of one file must not
//! reach a frame of the other. As in `kiln`, a frame that has any focal length or angle of its own takes none from the
//! top level.

use serde_json::{Map, Value, json};

/// Why the files cannot be merged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MergeError {
    /// A file is not an object with a list of objects.
    #[error("{0} has no list of frames")]
    NoFrames(&'static str),
    /// `test_filenames` is not a list.
    #[error("test_filenames is no list")]
    NotAList,
    /// A frame without a name cannot be held out.
    #[error("a frame of {0} has no file_path")]
    Nameless(&'static str),
}

/// A focal length belongs with that of the other axis, so these keys move together or not at all.
const FOCAL: [&str; 4] = ["fl_x", "fl_y", "camera_angle_x", "camera_angle_y"];
/// The other keys of a lens.
const FRAMING: [&str; 4] = ["cx", "cy", "w", "h"];
/// Keys of the file, not of its frames.
const FILE: [&str; 6] = [
    "frames",
    "train_filenames",
    "val_filenames",
    "test_filenames",
    "applied_transform",
    "applied_scale",
];

pub(crate) fn merge(fit: Value, test: Value) -> Result<Value, MergeError> {
    let (mut top, mut frames) = take_apart(fit, "transforms.json")?;
    let (_, test_frames) = take_apart(test, "transforms_test.json")?;
    let mut names = match top.remove("test_filenames") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(names)) => names,
        Some(_) => return Err(MergeError::NotAList),
    };
    for frame in &test_frames {
        let name = frame.get("file_path").cloned();
        names.push(name.ok_or(MergeError::Nameless("transforms_test.json"))?);
    }
    frames.extend(test_frames);
    top.insert("frames".to_owned(), json!(frames));
    top.insert("test_filenames".to_owned(), json!(names));
    Ok(Value::Object(top))
}

type Object = Map<String, Value>;

/// The top level without its lens, and the frames, each with all keys of the top level.
fn take_apart(file: Value, name: &'static str) -> Result<(Object, Vec<Object>), MergeError> {
    let Value::Object(mut top) = file else {
        return Err(MergeError::NoFrames(name));
    };
    let Some(Value::Array(list)) = top.remove("frames") else {
        return Err(MergeError::NoFrames(name));
    };
    let mut frames = Vec::new();
    for frame in list {
        let Value::Object(mut frame) = frame else {
            return Err(MergeError::NoFrames(name));
        };
        let has_focal = FOCAL.iter().any(|key| frame.contains_key(*key));
        for (key, value) in &top {
            let wanted = match key.as_str() {
                key if FILE.contains(&key) => false,
                key if FOCAL.contains(&key) => !has_focal,
                _ => !frame.contains_key(key),
            };
            if wanted {
                frame.insert(key.clone(), value.clone());
            }
        }
        frames.push(frame);
    }
    top.retain(|key, _| !FOCAL.contains(&key.as_str()) && !FRAMING.contains(&key.as_str()));
    Ok((top, frames))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_keeps_its_own_files_lens() {
        let fit = json!({
            "camera_angle_x": 0.7, "w": 64, "k1": 0, "applied_scale": 2, "test_filenames": ["c"],
            "frames": [{"file_path": "a"}, {"file_path": "c", "fl_x": 9, "w": 32}],
        });
        let test = json!({"fl_x": 5, "fl_y": 6, "cx": 1, "frames": [{"file_path": "b"}]});
        assert_eq!(
            merge(fit, test).expect("merges"),
            json!({
                "k1": 0, "applied_scale": 2, "test_filenames": ["c", "b"],
                "frames": [
                    {"file_path": "a", "camera_angle_x": 0.7, "w": 64, "k1": 0},
                    {"file_path": "c", "fl_x": 9, "w": 32, "k1": 0},
                    {"file_path": "b", "fl_x": 5, "fl_y": 6, "cx": 1},
                ],
            })
        );
    }

    #[test]
    fn files_without_frames_or_names_are_refused() {
        let good = json!({"frames": [{"file_path": "a"}]});
        for (fit, test, text) in [
            (json!([]), good.clone(), "transforms.json has no list"),
            (good.clone(), json!({}), "transforms_test.json has no list"),
            (good.clone(), json!({"frames": [1]}), "has no list"),
            (good.clone(), json!({"frames": [{}]}), "has no file_path"),
            (
                json!({"frames": [], "test_filenames": "a"}),
                good,
                "test_filenames is no list",
            ),
        ] {
            let error = merge(fit, test).expect_err("refused");
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
