//! `channels` of a frame: pictures of the view's other layers, with the size and camera of its picture.
//!
//! ```json
//! {"normal_space": "camera", "frames": [{"file_path": "rgb/0.png", "transform_matrix": …, "channels": {
//!    "metallic_roughness": "mr/0.png", "normal": "n/0.png", "emissive": "e/0.png", "occlusion": "ao/0.png", "opacity": "o/0.png"}}]}
//! ```
//!
//! | channel | bytes |
//! |---|---|
//! | `metallic_roughness` | green roughness, blue metallic, as in glTF; linear numbers, as in all but `emissive` |
//! | `normal` | unit vectors as n/2 + ½, in the space that `normal_space` of the frame or the file names |
//! | `emissive` | sRGB |
//! | `occlusion` | red: 1 where all ambient light arrives |
//! | `opacity` | red: 0 is clear. The alpha of `file_path` remains the mask of the object |
//!
//! `"normal_space": "world"`, the default, means the axes of the mesh file and of `transform_matrix`. `"camera"` means
//! the `OpenGL` axes of that frame's camera: x right, y up, z towards the viewer, so a surface that faces the camera is
//! (128, 128, 255). A picture's own alpha masks its channel alone. Frames may lack a channel.

use std::fmt;

use proto::table::{Layer, LayerSet};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::error::Problem;

/// The axes of a view's normals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NormalSpace {
    /// The mesh's axes.
    #[default]
    World,
    /// x right, y up, z towards the viewer.
    Camera,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FrameLayers {
    /// In the order of [`Layer::ALL`].
    pub(crate) pictures: Vec<(Layer, String)>,
    pub(crate) normal_space: NormalSpace,
}

impl FrameLayers {
    /// The layers that have a picture.
    pub(crate) fn set(&self) -> LayerSet {
        self.pictures.iter().map(|(layer, _)| *layer).collect()
    }

    pub(super) fn from_keys(
        channels: Option<Channels>,
        space: Option<String>,
        top: &Option<String>,
    ) -> Result<Self, Problem> {
        let Channels(pictures) = channels.unwrap_or_default();
        let normal_space = match space.as_ref().or(top.as_ref()).map(String::as_str) {
            // Without normals the key belongs to another program.
            _ if !pictures.iter().any(|(layer, _)| *layer == Layer::Normal) => NormalSpace::World,
            None | Some("world") => NormalSpace::World,
            Some("camera") => NormalSpace::Camera,
            Some(other) => return Err(Problem::NormalSpace(other.to_owned())),
        };
        Ok(Self {
            pictures,
            normal_space,
        })
    }
}

/// The object as written in the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Channels(Vec<(Layer, String)>);

impl<'de> Deserialize<'de> for Channels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ChannelsVisitor;
        impl<'de> Visitor<'de> for ChannelsVisitor {
            type Value = Channels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of channels and their pictures {\"normal\": …}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Channels, A::Error> {
                let mut pictures: Vec<(Layer, String)> = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    let layer = Layer::from_name(&name).ok_or_else(|| {
                        let known = Layer::ALL.map(Layer::name).join(", ");
                        A::Error::custom(format_args!("{name:?} is no channel; there are {known}"))
                    })?;
                    let picture: Option<String> = map
                        .next_value()
                        .map_err(|error| A::Error::custom(format_args!("{name}: {error}")))?;
                    pictures.retain(|(known, _)| *known != layer);
                    pictures.extend(picture.map(|picture| (layer, picture)));
                }
                pictures.sort_by_key(|(layer, _)| *layer);
                Ok(Channels(pictures))
            }
        }
        deserializer.deserialize_map(ChannelsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Frame, parse};
    use super::*;

    fn frames(top: serde_json::Value, frame: serde_json::Value) -> Result<Vec<Frame>, String> {
        let mut file = json!({"fl_x": 100, "frames": [{
            "file_path": "a.png",
            "transform_matrix": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
        }]});
        let merge = |into: &mut serde_json::Value, from: serde_json::Value| {
            let (Some(into), serde_json::Value::Object(from)) = (into.as_object_mut(), from) else {
                panic!("objects")
            };
            into.extend(from);
        };
        merge(&mut file, top);
        merge(&mut file["frames"][0], frame);
        let read = parse(file.to_string().as_bytes());
        read.map(|read| read.frames)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn channels_are_read_in_one_order_and_their_space_is_the_nearest() {
        let channels = json!({"opacity": "o", "normal": "n", "emissive": null});
        let of = |top, frame| frames(top, frame).expect("good").remove(0).layers;
        let read = of(
            json!({"normal_space": "camera", "channels": 3}),
            json!({ "channels": channels }),
        );
        assert_eq!(
            read.pictures,
            [
                (Layer::Normal, "n".to_owned()),
                (Layer::Opacity, "o".to_owned())
            ]
        );
        assert_eq!(read.normal_space, NormalSpace::Camera);
        let nearest = of(
            json!({"normal_space": "camera"}),
            json!({"channels": channels, "normal_space": "world"}),
        );
        assert_eq!(nearest.normal_space, NormalSpace::World);
        // Without normals the key is ignored.
        assert_eq!(
            of(json!({"normal_space": "odd"}), json!({})),
            FrameLayers::default()
        );
    }

    #[test]
    fn what_is_no_channel_is_named_with_those_that_are() {
        let refused = |frame| frames(json!({}), frame).expect_err("refused");
        let unknown = refused(json!({"channels": {"normals": "n"}}));
        assert!(
            unknown.contains("frame 0: channels: \"normals\" is no channel; there are metallic_roughness, normal, "),
            "{unknown}"
        );
        let number = refused(json!({"channels": {"normal": 3}}));
        assert!(number.contains("frame 0: channels: normal: "), "{number}");
        let space = refused(json!({"channels": {"normal": "n"}, "normal_space": "tangent"}));
        assert_eq!(
            space,
            "frame 0: normal_space is \"tangent\", neither \"world\" nor \"camera\""
        );
    }
}
