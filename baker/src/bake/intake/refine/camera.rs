//! Refines the camera of one view by silhouettes: Gauss-Newton steps at falling blurs, or the reason why it stays. This
//! needs no texture and no other view.
//!
//! A photometric step after these halves the remaining rotation and gains nothing (49.40 against 49.43 dB), so there is
//! none.

use proto::job::Refine;
use proto::message::CameraFate;
use proto::table::{Camera, View};

use crate::bake::intake::refine::coverage;
use crate::bake::intake::refine::outline::{Cover, Outline};
use crate::bake::intake::refine::pose::{Step, into_world, jacobian, moved};
use crate::bake::intake::refine::silhouette::SilhouetteBand;
use crate::bake::intake::refine::solve::{Square, determined, solve};
use crate::bake::intake::surface::ShownMesh;
use crate::bake::model::scene::{in_camera, project};

/// Result for a camera.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) fate: CameraFate,
    /// World camera, in pixels of the view.
    pub(super) camera: Camera,
    /// Root mean square shift of the mesh in the view, in pixels.
    pub(super) moved: f64,
    /// Number of directions that were held fixed.
    pub(super) held: u32,
    /// Distance of the silhouettes in pixels, before and after.
    pub(super) distance: Option<[f64; 2]>,
    /// By how many pixels the picture's silhouette lay outside of the mesh's, in the mean; 0 where they agreed.
    pub(super) width: f64,
}

impl Verdict {
    /// For a view whose camera is not examined.
    pub(super) fn given(view: &View) -> Self {
        Self {
            fate: CameraFate::Given,
            camera: view.camera,
            moved: 0.0,
            held: 0,
            distance: None,
            width: 0.0,
        }
    }

    pub(super) fn is_moved(&self) -> bool {
        self.fate == CameraFate::Moved
    }
}

/// Blurs of the steps, in pixels. The first is used only where the silhouettes are farther apart than [`FAR`].
const BLURS: [f64; 4] = [6.0, 3.0, 2.0, 1.5];
const FAR: f64 = 2.5;
/// Blur at which it is decided which directions a silhouette determines.
const LEAST_BLUR: f64 = 1.0;
/// Most steps at the last blur; one at each before it.
const STEPS: u32 = 3;
/// Blur at which silhouettes are compared before and after.
const JUDGED: f64 = 2.0;
/// A step this small, in pixels, is the last.
const SETTLED: f64 = 0.01;
/// If the first step leaves more than this share of the distance, further ones will not do much better: 0.04 with noisy
/// poses, 0.9 and more where the mesh has another outline.
const HOPELESS: f64 = 0.8;
/// Silhouettes no farther apart than this, in pixels, agree: clean views have 0.01-0.05, and a mesh of a tenth of the
/// triangles 0.15.
const AGREED: f64 = 0.1;
/// A camera is moved only if at most this share of the distance is left: 0.02 with noisy poses, 0.4 to 0.9 where the
/// mesh has another outline.
const LEFT: f64 = 0.3;
/// Largest distance that may be left, in pixels.
const MOST_LEFT: f64 = 0.4;
/// Largest move, as a share of the object's radius in the picture.
const FARTHEST: f64 = 0.1;
/// Shorter silhouettes, in pixels, determine nothing.
const SHORTEST: f64 = 60.0;
/// A direction counts if the silhouette moves by at least this share of what the mesh moves by.
const LEAST_SHOWN: f64 = 0.05;
/// Number of points that represent the mesh.
const POINTS: usize = 2048;

pub(super) fn refine(shape: ShownMesh<'_>, view: &View, mode: Refine) -> Verdict {
    if mode == Refine::Off {
        return Verdict::given(view);
    }
    let given = Verdict {
        fate: CameraFate::NoAlpha,
        ..Verdict::given(view)
    };
    if !view.has_alpha {
        return given;
    }
    if mode == Refine::Auto
        && let Some(distance) = glance(shape, view)
    {
        return Verdict {
            fate: CameraFate::Agrees,
            distance: Some([distance; 2]),
            ..given
        };
    }
    let outline = Outline::new(view);
    let start = outline.camera(&shape.frame.camera(&view.camera));
    let points = points(shape, &start);
    let comparison = Comparison::new(&outline, shape, start);
    let before = comparison.band(JUDGED);
    let metric = metric(&start, &points);
    let Some(metric) = metric.filter(|_| before.length() >= SHORTEST) else {
        return Verdict {
            fate: CameraFate::NoSilhouette,
            ..given
        };
    };
    let distance = before.distance();
    let pixels = |after: f64| Some([distance * outline.scale, after * outline.scale]);
    if mode == Refine::Auto && distance < AGREED {
        return Verdict {
            fate: CameraFate::Agrees,
            distance: pixels(distance),
            ..given
        };
    }
    let open = comparison.open(&metric);
    let given = Verdict {
        held: 6 - open.len() as u32,
        width: before.width() * outline.scale,
        ..given
    };
    match comparison.search(&points, &open, distance, mode) {
        Err(fate) => Verdict {
            fate,
            distance: pixels(distance),
            ..given
        },
        Ok((found, after)) => {
            let mut seen = shape.frame.camera(&view.camera);
            (seen.rotation, seen.translation) = (found.rotation, found.translation);
            Verdict {
                fate: CameraFate::Moved,
                camera: into_world(&shape.frame, &seen, &view.camera),
                moved: shift(&start, &found, &points) * outline.scale,
                distance: pixels(after),
                ..given
            }
        }
    }
}

/// Distance of the silhouettes in pixels of the view, if they agree even at half its size. That is a quarter of the
/// work, and suffices for most views.
fn glance(shape: ShownMesh<'_>, view: &View) -> Option<f64> {
    let outline = Outline::coarse(view);
    let camera = outline.camera(&shape.frame.camera(&view.camera));
    let size = [outline.alpha.width, outline.alpha.height()];
    let share = coverage::share(shape.positions, shape.triangles, &camera, size);
    let [alpha, share] = [&outline.alpha, &share].map(|plane| plane.blurred(JUDGED));
    let band = SilhouetteBand::new(&outline, &alpha, &share, JUDGED);
    let distance = band.distance() * outline.scale;
    (band.length() >= SHORTEST && distance < AGREED).then_some(distance)
}

/// The mesh as one camera sees it, beside the view's outline.
struct Comparison<'a> {
    outline: &'a Outline,
    shape: ShownMesh<'a>,
    camera: Camera,
    cover: Cover,
}

impl<'a> Comparison<'a> {
    fn new(outline: &'a Outline, shape: ShownMesh<'a>, camera: Camera) -> Self {
        let (width, height) = (outline.alpha.width, outline.alpha.height());
        Self {
            outline,
            shape,
            camera,
            cover: Cover::new(shape.positions, shape.triangles, &camera, width, height),
        }
    }

    fn band(&self, sigma: f64) -> SilhouetteBand {
        let alpha = self.outline.alpha.blurred(sigma);
        SilhouetteBand::new(
            self.outline,
            &alpha,
            &self.cover.share.blurred(sigma),
            sigma,
        )
    }

    /// The directions in which the camera may move: those that the mesh's own silhouette determines, whatever the
    /// picture's is. They are found once, at the least blur, where depth is that of the rim; found at each of many
    /// steps, they would let a little of the others in.
    fn open(&self, metric: &Square) -> Vec<Step> {
        let share = self.cover.share.blurred(LEAST_BLUR);
        let band = SilhouetteBand::new(self.outline, &share, &share, LEAST_BLUR);
        let (rim, nearness) = (&self.cover.rim, &self.cover.nearness);
        let [rim, nearness] = [rim, nearness].map(|plane| plane.blurred(LEAST_BLUR));
        let equations = band.equations(&rim, &nearness, &self.camera);
        determined(&equations.a, metric, LEAST_SHOWN * LEAST_SHOWN)
    }

    /// Steps in these directions until the silhouettes, so far apart by `distance`, agree. Returns the camera and the
    /// distance left, or why there is none.
    fn search(
        self,
        points: &[[f32; 3]],
        open: &[Step],
        distance: f64,
        mode: Refine,
    ) -> Result<(Camera, f64), CameraFate> {
        let start = self.camera;
        let farthest = FARTHEST * start.focal[0].max(start.focal[1]) / start.translation[2].abs();
        let blurs = BLURS.iter().skip(usize::from(distance < FAR));
        let last = BLURS.last().into_iter().cycle().take(STEPS as usize - 1);
        let mut at = self;
        for (number, &sigma) in blurs.chain(last).enumerate() {
            let camera = moved(&at.camera, &at.step(sigma, open));
            let length = shift(&at.camera, &camera, points);
            let far = shift(&start, &camera, points);
            if far.is_nan() || far > farthest {
                return Err(CameraFate::TooFar);
            }
            at = Self::new(at.outline, at.shape, camera);
            if length < SETTLED {
                break;
            }
            let hopeless = || at.band(JUDGED).distance() > HOPELESS * distance;
            if mode == Refine::Auto && number == 0 && hopeless() {
                return Err(CameraFate::OtherOutline);
            }
        }
        let after = at.band(JUDGED).distance();
        let better = match mode {
            Refine::Off => false,
            Refine::Auto => after <= LEFT * distance && after <= MOST_LEFT,
            Refine::On => after < distance,
        };
        match better {
            true => Ok((at.camera, after)),
            false => Err(CameraFate::OtherOutline),
        }
    }

    /// The next step in these directions.
    fn step(&self, sigma: f64, open: &[Step]) -> Step {
        let alpha = self.outline.alpha.blurred(sigma);
        let share = self.cover.share.blurred(sigma);
        let (rim, nearness) = (&self.cover.rim, &self.cover.nearness);
        let band = SilhouetteBand::new(self.outline, &alpha, &share, sigma);
        let equations = band.equations(&rim.blurred(sigma), &nearness.blurred(sigma), &self.camera);
        solve(&equations.a, &equations.b, open)
    }
}

/// Corners of triangles in front of the camera, spread over the mesh's order.
fn points(shape: ShownMesh<'_>, camera: &Camera) -> Vec<[f32; 3]> {
    let stride = shape.triangles.len().div_ceil(POINTS).max(1);
    shape
        .triangles
        .iter()
        .step_by(stride)
        .map(|triangle| shape.positions[triangle[0] as usize])
        .filter(|&point| project(camera, point)[2] > 1e-3)
        .collect()
}

/// Mean square by which the points move with each parameter, in pixels². Rotations and translations are kept apart.
/// Otherwise a translation that the silhouette shows would be coupled to a rotation that it does not show, the one that
/// moves the nearer half of the surface back.
fn metric(camera: &Camera, points: &[[f32; 3]]) -> Option<Square> {
    let mut sum = [[0.0; 6]; 6];
    for &point in points {
        for row in jacobian(camera, in_camera(camera, point)) {
            for k in 0..6 {
                for l in (k / 3 * 3..).take(3) {
                    sum[k][l] += row[k] * row[l] / points.len() as f64;
                }
            }
        }
    }
    (points.len() >= 3).then_some(sum)
}

/// Root mean square distance in pixels between the points as two cameras see them.
fn shift(one: &Camera, other: &Camera, points: &[[f32; 3]]) -> f64 {
    let pixel = |camera, point| {
        let [x, y, z] = project(camera, point);
        [x / z, y / z]
    };
    let squares: f64 = points
        .iter()
        .map(|&point| {
            let (a, b) = (pixel(one, point), pixel(other, point));
            (a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2)
        })
        .sum();
    (squares / points.len().max(1) as f64).sqrt()
}

#[cfg(test)]
pub(super) mod tests;
