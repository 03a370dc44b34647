//! Parses the relevant keys of the file and of each frame from JSON. Errors name frame and key. Unknown values are
//! skipped in the text and never built, so memory grows only with the number of frames.

use std::fmt;

use proto::limits::MAX_VIEWS;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::channels::Channels;
use super::error::Problem;

/// The keys of one level: the file or a frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Keys {
    pub(super) file_path: Option<String>,
    pub(super) mask_path: Option<String>,
    pub(super) channels: Option<Channels>,
    pub(super) normal_space: Option<String>,
    pub(super) transform_matrix: Option<Matrix>,
    pub(super) fl_x: Option<f64>,
    pub(super) fl_y: Option<f64>,
    pub(super) cx: Option<f64>,
    pub(super) cy: Option<f64>,
    pub(super) w: Option<f64>,
    pub(super) h: Option<f64>,
    pub(super) camera_angle_x: Option<f64>,
    pub(super) camera_angle_y: Option<f64>,
    /// `k1` to `k6`.
    pub(super) radial: [Option<f64>; 6],
    /// `p1` and `p2`.
    pub(super) tangential: [Option<f64>; 2],
    /// nerfstudio's `distortion_params`.
    pub(super) parameters: Option<Vec<f64>>,
    /// The first non-zero thin-prism coefficient.
    prism: Option<(&'static str, f64)>,
    pub(super) camera_model: Option<String>,
    /// A key that names another projection and is true.
    projection: Option<&'static str>,
    /// Blender's `camera_type`, where it is no perspective.
    camera_type: Option<String>,
    rolling_shutter: Option<Vec<f64>>,
    /// `applied_transform` or `applied_scale`, if present.
    pub(super) applied: Option<&'static str>,
    /// Their values, whatever they are.
    pub(super) applied_transform: Option<Value>,
    pub(super) applied_scale: Option<Value>,
}

/// Coefficient names of COLMAP, `OpenCV`, nerfstudio and instant-ngp.
const RADIAL: [&str; 6] = ["k1", "k2", "k3", "k4", "k5", "k6"];
const TANGENTIAL: [&str; 2] = ["p1", "p2"];
/// Of `OpenCV` alone, and of tilted sensors.
const PRISM: [&str; 4] = ["s1", "s2", "s3", "s4"];
/// Camera models that are pinholes with such a lens.
const PINHOLES: [&str; 8] = [
    "PINHOLE",
    "SIMPLE_PINHOLE",
    "OPENCV",
    "FULL_OPENCV",
    "RADIAL",
    "SIMPLE_RADIAL",
    "PERSPECTIVE",
    "",
];

/// Keys of instant-ngp.
const FISHEYE: &str = "is_fisheye";
const PANORAMA: &str = "latlong";

impl Keys {
    /// The lens is a fisheye of nerfstudio or instant-ngp: `OpenCV`'s, with k1 to k4.
    pub(super) fn is_fisheye(&self) -> bool {
        self.projection == Some(FISHEYE) || self.has_model("OPENCV_FISHEYE")
    }

    /// The lens is nerfstudio's name for Project Aria's fisheye, with `distortion_params`.
    pub(super) fn is_fisheye624(&self) -> bool {
        self.has_model("FISHEYE624")
    }

    /// The picture is a panorama of the whole sphere: nerfstudio's, or instant-ngp's.
    pub(super) fn is_panorama(&self) -> bool {
        self.projection == Some(PANORAMA) || self.has_model("EQUIRECTANGULAR")
    }

    /// Whether a frame with these keys has a lens of this `kind`: its own model, or else that of the whole file, tells.
    pub(super) fn is_of(&self, file: &Self, kind: fn(&Self) -> bool) -> bool {
        kind(self) || (self.camera_model.is_none() && kind(file))
    }

    fn has_model(&self, name: &str) -> bool {
        let model = self.camera_model.as_deref().unwrap_or_default();
        model.eq_ignore_ascii_case(name)
    }

    /// Refuses everything beyond a pinhole camera with such a lens, a fisheye or a panorama.
    pub(super) fn check_lens(&self) -> Result<(), Problem> {
        let known = self.is_fisheye() || self.is_fisheye624() || self.is_panorama();
        if let Some((key, value)) = self.prism {
            return Err(Problem::Prism { key, value });
        }
        if let Some(model) = &self.camera_model
            && !known
            && !PINHOLES.contains(&model.to_ascii_uppercase().as_str())
        {
            return Err(Problem::NotPinhole {
                key: "camera_model",
                value: model.clone(),
            });
        }
        if let Some(key) = self.projection.filter(|_| !known) {
            return Err(Problem::NotPinhole {
                key,
                value: "true".to_owned(),
            });
        }
        if let Some(value) = &self.camera_type
            && !["PERSP", "PERSPECTIVE", ""].contains(&value.to_ascii_uppercase().as_str())
        {
            return Err(Problem::NotPinhole {
                key: "camera_type",
                value: match value.as_str() {
                    "ORTHO" => "ORTHO (orthographic)".to_owned(),
                    other => other.to_owned(),
                },
            });
        }
        if let Some(shutter) = &self.rolling_shutter
            && shutter.iter().any(|&x| x != 0.0)
        {
            return Err(Problem::NotPinhole {
                key: "rolling_shutter",
                value: format!("{shutter:?}"),
            });
        }
        Ok(())
    }

    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "file_path" => self.file_path = value(key, map)?,
            "mask_path" => self.mask_path = value(key, map)?,
            "channels" => self.channels = value(key, map)?,
            "normal_space" => self.normal_space = value(key, map)?,
            "transform_matrix" => self.transform_matrix = value(key, map)?,
            "fl_x" => self.fl_x = value(key, map)?,
            "fl_y" => self.fl_y = value(key, map)?,
            "cx" => self.cx = value(key, map)?,
            "cy" => self.cy = value(key, map)?,
            "w" => self.w = value(key, map)?,
            "h" => self.h = value(key, map)?,
            "camera_angle_x" => self.camera_angle_x = value(key, map)?,
            "camera_angle_y" => self.camera_angle_y = value(key, map)?,
            "camera_model" => self.camera_model = value(key, map)?,
            "camera_type" => self.camera_type = value(key, map)?,
            FISHEYE => self.projection = flag(FISHEYE, map)?.or(self.projection),
            PANORAMA => self.projection = flag(PANORAMA, map)?.or(self.projection),
            "equirectangular" => {
                self.projection = flag("equirectangular", map)?.or(self.projection);
            }
            "ftheta_p0" => {
                map.next_value::<IgnoredAny>()?;
                self.projection = Some("ftheta_p0");
            }
            "distortion_params" => self.parameters = value(key, map)?,
            "rolling_shutter" => self.rolling_shutter = value(key, map)?,
            "applied_transform" => {
                self.applied_transform = Some(map.next_value()?);
                self.applied = Some("applied_transform");
            }
            "applied_scale" => {
                self.applied_scale = Some(map.next_value()?);
                self.applied = self.applied.or(Some("applied_scale"));
            }
            _ => return self.read_lens(key, map),
        }
        Ok(())
    }

    fn read_lens<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let place = |of: &[&str]| of.iter().position(|&known| known == key);
        if let Some(at) = place(&RADIAL) {
            self.radial[at] = value(key, map)?;
        } else if let Some(at) = place(&TANGENTIAL) {
            self.tangential[at] = value(key, map)?;
        } else if let Some(at) = place(&PRISM) {
            let coefficient = value::<_, f64>(key, map)?.filter(|&number| number != 0.0);
            self.prism = self.prism.or(coefficient.map(|number| (PRISM[at], number)));
        } else {
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// The value of `key`, none for `null`. An error names the key.
fn value<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
    key: &str,
    map: &mut A,
) -> Result<Option<T>, A::Error> {
    map.next_value()
        .map_err(|error| A::Error::custom(format_args!("{key}: {error}")))
}

fn flag<'de, A: MapAccess<'de>>(
    key: &'static str,
    map: &mut A,
) -> Result<Option<&'static str>, A::Error> {
    // instant-ngp writes booleans, others 0 and 1.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Flag {
        Bool(bool),
        Number(f64),
    }
    let set = match value(key, map)? {
        Some(Flag::Bool(set)) => set,
        Some(Flag::Number(number)) => number != 0.0,
        None => false,
    };
    Ok(set.then_some(key))
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FrameVisitor;
        impl<'de> Visitor<'de> for FrameVisitor {
            type Value = Keys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a frame {…}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = Keys::default();
                while let Some(key) = map.next_key::<String>()? {
                    keys.read(&key, &mut map)?;
                }
                Ok(keys)
            }
        }
        deserializer.deserialize_map(FrameVisitor)
    }
}

#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) keys: Keys,
    pub(super) frames: Option<FrameList>,
    pub(super) train_filenames: Option<Names>,
    pub(super) val_filenames: Option<Names>,
    pub(super) test_filenames: Option<Names>,
}

/// One of nerfstudio's lists of names.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// At most [`MAX_VIEWS`]; the rest are only counted.
    pub(super) names: Vec<String>,
    pub(super) count: usize,
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NamesVisitor;
        impl<'de> Visitor<'de> for NamesVisitor {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of file names […]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Names, A::Error> {
                let mut result = Names::default();
                loop {
                    if result.count < MAX_VIEWS {
                        let Some(name) = list.next_element()? else {
                            return Ok(result);
                        };
                        result.names.push(name);
                    } else if list.next_element::<IgnoredAny>()?.is_none() {
                        return Ok(result);
                    }
                    result.count += 1;
                }
            }
        }
        deserializer.deserialize_seq(NamesVisitor)
    }
}

#[derive(Debug, Default)]
pub(super) struct FrameList {
    /// At most [`MAX_VIEWS`]; the rest are only counted.
    pub(super) frames: Vec<Keys>,
    pub(super) count: usize,
}

impl<'de> Deserialize<'de> for File {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FileVisitor;
        impl<'de> Visitor<'de> for FileVisitor {
            type Value = File;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object {\"frames\": […]}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<File, A::Error> {
                let mut file = File::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "frames" => file.frames = Some(map.next_value_seed(FrameListSeed)?),
                        "train_filenames" => file.train_filenames = value(&key, &mut map)?,
                        "val_filenames" => file.val_filenames = value(&key, &mut map)?,
                        "test_filenames" => file.test_filenames = value(&key, &mut map)?,
                        // A key of frames; at this level it belongs to another program.
                        "channels" => drop(map.next_value::<IgnoredAny>()?),
                        _ => file.keys.read(&key, &mut map)?,
                    }
                }
                Ok(file)
            }
        }
        deserializer.deserialize_map(FileVisitor)
    }
}

struct FrameListSeed;

impl<'de> DeserializeSeed<'de> for FrameListSeed {
    type Value = FrameList;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<FrameList, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for FrameListSeed {
    type Value = FrameList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of frames […]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<FrameList, A::Error> {
        let mut result = FrameList::default();
        loop {
            if result.count < MAX_VIEWS {
                let number = result.count;
                let frame = list.next_element::<Keys>();
                let Some(keys) = frame
                    .map_err(|error| A::Error::custom(format_args!("frame {number}: {error}")))?
                else {
                    return Ok(result);
                };
                result.frames.push(keys);
            } else if list.next_element::<IgnoredAny>()?.is_none() {
                return Ok(result);
            }
            result.count += 1;
        }
    }
}

/// A matrix as written: rows of numbers, or one flat list.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(transparent)]
pub(super) struct Matrix(pub(super) Vec<Row>);

/// A row, or a number of a flat matrix.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Row {
    Numbers(Vec<f64>),
    Number(f64),
}

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RowVisitor;
        impl<'de> Visitor<'de> for RowVisitor {
            type Value = Row;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a row of numbers")
            }

            fn visit_f64<E>(self, number: f64) -> Result<Row, E> {
                Ok(Row::Number(number))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Row, E> {
                Ok(Row::Number(number as f64))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Row, E> {
                Ok(Row::Number(number as f64))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Row, A::Error> {
                let mut row = Vec::new();
                while let Some(number) = list.next_element()? {
                    row.push(number);
                }
                Ok(Row::Numbers(row))
            }
        }
        deserializer.deserialize_any(RowVisitor)
    }
}
