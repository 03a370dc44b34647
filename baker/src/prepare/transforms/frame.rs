//! One view as `transforms.json` or another list describes it.

use super::channels::FrameLayers;
use super::lens::Lens;
use super::pose::Pose;

/// One view as the file describes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    /// `file_path` as written; its ending may be missing.
    pub(crate) file: String,
    /// `mask_path` (nerfstudio): a picture that is white where the view counts.
    pub(crate) mask: Option<String>,
    /// `channels`: pictures of the view's other layers.
    pub(crate) layers: FrameLayers,
    /// World to camera.
    pub(crate) pose: Pose,
    /// Its intrinsics.
    pub(crate) lens: Lens,
    /// The file's named splits hold it out of the fit.
    pub(crate) held_out: bool,
}
