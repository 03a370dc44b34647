//! Computes intrinsics for a picture of a given size from focal length or field of view, principal point and stated
//! size.
//!
//! On each axis the frame overrides the file, and a focal length overrides an angle. With `w` and `h`, lengths are in
//! pixels of that size and scale with the picture, which must have the same shape. Without them, lengths are in pixels
//! of the picture. Image coordinates run over pixel areas (`w` is the right border), so scaling is a plain factor.

use proto::limits::MAX_VIEW_EDGE;

use super::distortion::Distortion;
use super::error::Problem;
use super::keys::Keys;

/// Upper bound of `w`, `h`, focal lengths and principal points in pixels: a thousand times the largest view.
pub(crate) const MAX_PIXELS: f64 = MAX_VIEW_EDGE as f64 * 1000.0;

/// The lens of a frame as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lens {
    focal: [Option<Focal>; 2],
    centre: [Option<f64>; 2],
    /// `cx`, `cy` are counted from the right, from the bottom.
    mirrored: [bool; 2],
    stated: [Option<f64>; 2],
    /// `camera_angle_x`, where `fl_x` is given too.
    angle_x: Option<f64>,
    /// The picture is one of the whole sphere; its faces are views.
    pub(crate) panorama: bool,
    /// None for a pinhole.
    pub(crate) distortion: Option<Distortion>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Focal {
    /// In pixels of the stated size.
    Length(f64),
    /// Field of view of the whole axis in radians.
    Angle(f64),
}

/// Largest relative disagreement of two statements of the same value: rounding to two decimals causes as much.
const AGREEMENT: f64 = 0.01;

/// A fully known lens, as COLMAP and others have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// Width and height of the pictures that the lengths are in pixels of; none where these are the pictures themselves.
    pub(crate) size: Option<[f64; 2]>,
    pub(crate) focal: [f64; 2],
    /// None is the picture's middle.
    pub(crate) centre: Option<[f64; 2]>,
    pub(crate) distortion: Option<Distortion>,
}

impl Lens {
    /// Converts to frame keys, under the same bounds. The numbers have to be finite.
    pub(crate) fn known(known: &Known) -> Result<Self, Problem> {
        let mut keys = Keys::default();
        [keys.w, keys.h] = known.size.map_or([None; 2], |size| size.map(Some));
        [keys.fl_x, keys.fl_y] = known.focal.map(Some);
        [keys.cx, keys.cy] = known.centre.map_or([None; 2], |centre| centre.map(Some));
        let (lens, _) = Self::from_keys(&keys, &Keys::default())?;
        Ok(Self {
            distortion: known.distortion,
            ..lens
        })
    }

    /// A panorama of the whole sphere, of this width and height.
    pub(crate) fn panorama(size: [f64; 2]) -> Self {
        Self {
            focal: [Some(Focal::Angle(1.0)); 2],
            centre: [None; 2],
            mirrored: [false; 2],
            stated: size.map(Some),
            angle_x: None,
            panorama: true,
            distortion: None,
        }
    }

    /// Reads the keys. The flag says that `fl_x` and `camera_angle_x` disagree.
    pub(super) fn from_keys(keys: &Keys, top: &Keys) -> Result<(Self, bool), Problem> {
        let mut focal = [None; 2];
        for level in [keys, top] {
            let here = [
                focal_of(level.fl_x, level.camera_angle_x, ["fl_x", "camera_angle_x"])?,
                focal_of(level.fl_y, level.camera_angle_y, ["fl_y", "camera_angle_y"])?,
            ];
            // A frame's fl_x goes with its own fl_y, not with the file's: both are of one lens.
            if here != [None, None] && focal == [None, None] {
                focal = here;
            }
        }
        let panorama = keys.is_of(top, Keys::is_panorama);
        if panorama {
            whole_sphere(keys, top)?;
            // Its faces have their own.
            focal = [Some(Focal::Angle(1.0)); 2];
        }
        if focal == [None, None] {
            return Err(Problem::NoFocalLength);
        }
        let distortion = Distortion::from_keys(keys, top)?;
        if let Some(Distortion::Curved(_)) = distortion {
            for (key, focal) in ["camera_angle_x", "camera_angle_y"].into_iter().zip(focal) {
                if let Some(Focal::Angle(value)) = focal {
                    let wanted = "enough for a fisheye: give fl_x";
                    return Err(Problem::Range { key, value, wanted });
                }
            }
        }
        let centre = [keys.cx.or(top.cx), keys.cy.or(top.cy)];
        for (key, value) in ["cx", "cy"].into_iter().zip(centre) {
            if let Some(value) = value.filter(|x| x.abs() > MAX_PIXELS) {
                return Err(Problem::Range {
                    key,
                    value,
                    wanted: "a place near the picture",
                });
            }
        }
        let stated = [keys.w.or(top.w), keys.h.or(top.h)];
        for (key, value) in ["w", "h"].into_iter().zip(stated) {
            if let Some(value) = value.filter(|x| !(1.0..=MAX_PIXELS).contains(x)) {
                return Err(Problem::Range {
                    key,
                    value,
                    wanted: "a number of pixels",
                });
            }
        }
        let angle_x = if keys.fl_x.is_some() {
            keys.camera_angle_x
        } else {
            keys.camera_angle_x.or(top.camera_angle_x)
        };
        let lens = Self {
            focal,
            centre,
            mirrored: [false; 2],
            stated,
            angle_x,
            panorama,
            distortion,
        };
        let disagreeing = stated[0].is_some_and(|w| lens.contradicts(w, w));
        Ok((lens, disagreeing))
    }

    /// Whether `fl_x` scaled from `stated` to `width` contradicts `camera_angle_x`.
    fn contradicts(&self, stated: f64, width: f64) -> bool {
        let (Some(Focal::Length(length)), Some(angle)) = (self.focal[0], self.angle_x) else {
            return false;
        };
        let wanted = focal_length(angle, width);
        (length * width / stated / wanted - 1.0).abs() > AGREEMENT
    }

    /// The picture's width and height, where both are stated.
    pub(crate) fn stated_size(&self) -> Option<[u32; 2]> {
        let [Some(width), Some(height)] = self.stated else {
            return None;
        };
        Some([width, height].map(|edge| edge.round() as u32))
    }

    /// Width and height up to a factor: as stated, or twice the principal point; none where neither is known.
    pub(crate) fn shape(&self) -> Option<[f64; 2]> {
        let both = |pair: [Option<f64>; 2]| Some([pair[0]?, pair[1]?]);
        both(self.stated)
            .or(both(self.centre))
            .filter(|shape| shape.iter().all(|&edge| edge > 0.0))
    }

    /// Focal lengths and principal point in pixels of a picture of `width`×`height`.
    pub(crate) fn intrinsics(
        &self,
        [width, height]: [u32; 2],
    ) -> Result<([f64; 2], [f64; 2]), Problem> {
        let picture = [f64::from(width), f64::from(height)];
        let mut scale = [1.0; 2];
        match self.stated {
            [Some(w), Some(h)] => {
                // A downscaled picture has rounded edges: one of them may be off by a pixel.
                let fits = (picture[0] - w * picture[1] / h).abs() <= 1.0
                    || (picture[1] - h * picture[0] / w).abs() <= 1.0;
                if !fits {
                    return Err(Problem::Aspect {
                        picture: [width, height],
                        stated: [w, h],
                    });
                }
                if picture[0] != w && self.contradicts(w, w) {
                    return Err(Problem::Contradiction {
                        stated: w,
                        picture: width,
                    });
                }
                scale = [picture[0] / w, picture[1] / h];
            }
            [Some(w), None] => scale = [picture[0] / w; 2],
            [None, Some(h)] => scale = [picture[1] / h; 2],
            [None, None] => {
                let centre = [0, 1].map(|axis| self.centre[axis].unwrap_or(0.0));
                if centre[0] >= picture[0] || centre[1] >= picture[1] {
                    return Err(Problem::OtherSize {
                        centre,
                        picture: [width, height],
                    });
                }
            }
        }
        let length = |axis: usize| match self.focal[axis] {
            Some(Focal::Length(length)) => Some(length * scale[axis]),
            Some(Focal::Angle(angle)) => Some(focal_length(angle, picture[axis])),
            None => None,
        };
        // One axis alone means square pixels.
        let focal = match (length(0), length(1)) {
            (Some(x), Some(y)) => [x, y],
            (Some(f), None) => [f, f * scale[1] / scale[0]],
            (None, Some(f)) => [f * scale[0] / scale[1], f],
            (None, None) => return Err(Problem::NoFocalLength),
        };
        let centre = [0, 1].map(|axis| {
            let centre = self.centre[axis].map_or(picture[axis] / 2.0, |c| c * scale[axis]);
            match self.mirrored[axis] {
                true => picture[axis] - centre,
                false => centre,
            }
        });
        Ok((focal, centre))
    }

    /// Counts the principal point from the other side along the axes that are `mirrored`.
    pub(crate) fn mirror_centre(&mut self, mirrored: [bool; 2]) {
        for (own, mirrored) in self.mirrored.iter_mut().zip(mirrored) {
            *own ^= mirrored;
        }
    }
}

/// Refuses a panorama that states a focal length or a centre of a part of the sphere. nerfstudio's have half their width,
/// which is their height, and their middle.
fn whole_sphere(keys: &Keys, top: &Keys) -> Result<(), Problem> {
    let (Some(w), Some(h)) = (keys.w.or(top.w), keys.h.or(top.h)) else {
        return Ok(());
    };
    for (key, value, whole) in [
        ("fl_x", keys.fl_x.or(top.fl_x), w / 2.0),
        ("fl_y", keys.fl_y.or(top.fl_y), h),
        ("cx", keys.cx.or(top.cx), w / 2.0),
        ("cy", keys.cy.or(top.cy), h / 2.0),
    ] {
        if let Some(value) = value.filter(|value| (value / whole - 1.0).abs() > AGREEMENT) {
            let wanted = "that of a panorama of the whole sphere (fl_x: w / 2, fl_y: h, cx: w / 2, cy: h / 2)";
            return Err(Problem::Range { key, value, wanted });
        }
    }
    Ok(())
}

fn focal_of(
    length: Option<f64>,
    angle: Option<f64>,
    keys: [&'static str; 2],
) -> Result<Option<Focal>, Problem> {
    // An overruled angle is checked as well: a file with such a number is broken.
    if let Some(value) = angle.filter(|x| !(1e-4..=std::f64::consts::PI - 1e-4).contains(x)) {
        return Err(Problem::Range {
            key: keys[1],
            value,
            wanted: "a field of view between 0 and π",
        });
    }
    if let Some(value) = length.filter(|x| !(1e-3..=MAX_PIXELS).contains(x)) {
        return Err(Problem::Range {
            key: keys[0],
            value,
            wanted: "a positive number of pixels",
        });
    }
    Ok(length.map(Focal::Length).or(angle.map(Focal::Angle)))
}

fn focal_length(angle: f64, edge: f64) -> f64 {
    edge / 2.0 / (angle / 2.0).tan()
}
