//! The forms of splats on the picture, many at once.

use std::ops::Range;

use crate::cloud::Cloud;
use crate::ellipse::{Ellipse, LEAST_ALPHA, LEVELS};
use crate::exp::{ROUND, log2};
use crate::lanes::{LANES, Lanes, List};
use crate::view::{Filter, View};

/// Least depth of a splat's centre.
pub const NEAR: f32 = 0.01;
/// Bound of x/z and y/z in the Jacobian, as a multiple of half the field of view.
pub const BOUND: f32 = 1.3;

/// Half of log₂ e: log₂ of a Gaussian is its square distance times this.
pub const HALF: f32 = 0.5 * std::f32::consts::LOG2_E;

/// A view's numbers that all splats share.
pub(crate) struct Camera {
    /// World to camera, row by row.
    rotation: [[f32; 3]; 3],
    translation: [f32; 3],
    focal: [f32; 2],
    centre: [f32; 2],
    /// Width and height in pixels.
    size: [f32; 2],
    /// Largest |x/z| and |y/z| in the Jacobian.
    most: [f32; 2],
    /// Variance that is added, px².
    blur: f32,
    /// Whether the opacity makes up for it.
    mip: bool,
    /// The camera's place in the world.
    pub(crate) eye: [f32; 3],
}

impl Camera {
    pub(crate) fn new(view: &View, filter: Filter) -> Self {
        let (r, t) = (view.rotation, view.translation);
        let size = view.size.map(|edge| edge as f32);
        let (blur, mip) = match filter {
            Filter::Classic(variance) => (variance, false),
            Filter::Mip(variance) => (variance, true),
        };
        Self {
            rotation: r,
            translation: t,
            focal: view.focal,
            centre: view.centre,
            size,
            most: [0, 1].map(|k| BOUND * size[k] / (2.0 * view.focal[k])),
            blur,
            mip,
            // -Rᵀ t.
            eye: std::array::from_fn(|k| -(r[0][k] * t[0] + r[1][k] * t[1] + r[2][k] * t[2])),
        }
    }
}

/// Splats in lists of one number each.
pub(crate) struct Splats {
    position: [List; 3],
    scales: [List; 3],
    /// Quaternions (w, x, y, z).
    rotation: [List; 4],
    opacity: List,
}

impl Default for Splats {
    fn default() -> Self {
        Self {
            position: [[0.0; LANES]; 3],
            scales: [[0.0; LANES]; 3],
            rotation: [[0.0; LANES]; 4],
            opacity: [0.0; LANES],
        }
    }
}

impl Splats {
    /// Takes a stretch of the cloud, of at most [`LANES`]. Lanes beyond it keep what they have.
    #[inline(always)]
    pub(crate) fn load(&mut self, cloud: &Cloud, range: Range<usize>) {
        split(&mut self.position, &cloud.positions[range.clone()]);
        split(&mut self.scales, &cloud.scales[range.clone()]);
        split(&mut self.rotation, &cloud.rotations[range.clone()]);
        self.opacity[..range.len()].copy_from_slice(&cloud.opacities[range]);
    }
}

#[inline(always)]
fn split<const N: usize>(lanes: &mut [List; N], vectors: &[[f32; N]]) {
    for (k, vector) in vectors.iter().enumerate().take(LANES) {
        for (lane, x) in lanes.iter_mut().zip(vector) {
            lane[k] = *x;
        }
    }
}

/// What is in an [`Ellipse`], but for the colour, in lists of one number each.
pub(crate) struct Shapes {
    centre: [List; 2],
    along: List,
    skew: List,
    across: List,
    level: List,
    square: List,
    depth: List,
    reach: [List; 2],
    slope: List,
    width: List,
    lean: List,
    /// Bits of those that may show.
    shows: u32,
}

impl Default for Shapes {
    fn default() -> Self {
        const NONE: List = [0.0; LANES];
        Self {
            centre: [NONE; 2],
            reach: [NONE; 2],
            shows: 0,
            along: NONE,
            skew: NONE,
            across: NONE,
            level: NONE,
            square: NONE,
            depth: NONE,
            slope: NONE,
            width: NONE,
            lean: NONE,
        }
    }
}

impl Shapes {
    /// One of them, black; none where it does not show.
    #[inline(always)]
    pub(crate) fn ellipse(&self, k: usize) -> Option<Ellipse> {
        (self.shows >> k & 1 == 1).then(|| Ellipse {
            centre: [self.centre[0][k], self.centre[1][k]],
            colour: [0.0; 3],
            reach: [self.reach[0][k], self.reach[1][k]],
            along: self.along[k],
            skew: self.skew[k],
            across: self.across[k],
            level: self.level[k],
            square: self.square[k],
            depth: self.depth[k],
            slope: self.slope[k],
            width: self.width[k],
            lean: self.lean[k],
        })
    }

    /// Projects all lanes.
    #[inline(always)]
    pub(crate) fn project<L: Lanes>(&mut self, splats: &Splats, camera: &Camera) {
        let [right, down, ahead] = &camera.rotation;
        let (right, down, ahead) = (all(right), all(down), all(ahead));
        let [x, y, z] = all(&camera.translation);
        let at = of(&splats.position);
        let z = dot(ahead, at) + z;
        let (x, y) = ((dot(right, at) + x) / z, (dot(down, at) + y) / z);
        let own = L::of(splats.opacity);
        let least = L::all(LEAST_ALPHA);
        let visible = L::all(NEAR).below(z) & least.within(own);
        let (fx, fy) = (L::all(camera.focal[0]), L::all(camera.focal[1]));
        let u = bounded(x, camera.most[0]);
        let v = bounded(y, camera.most[1]);
        // Rows of the Jacobian times the rotation of the view, times the axes of the splat: the projected axes.
        let [i, j, k] = axes(splats);
        let row = along(fx / z, right, u, ahead);
        let p = [dot(row, i), dot(row, j), dot(row, k)];
        let row = along(fy / z, down, v, ahead);
        let q = [dot(row, i), dot(row, j), dot(row, k)];
        let spread = Spread::new(p, q, L::all(camera.blur));
        let opacity = if camera.mip {
            own * spread.share()
        } else {
            own
        };
        let Spread { a, b, c, det, .. } = spread;
        let sound = L::all(0.0).below(det) & det.below(L::all(f32::INFINITY));
        let visible = visible & sound & least.within(opacity);
        let level = log2(opacity);
        let square = spread.square();
        let half = L::all(HALF);
        let radius = (level + L::all(LEVELS)).most(L::all(0.0)) / half;
        let whole = [(radius * a).root(), (radius * c).root()];
        let reach = [whole[0].least(square), whole[1].least(square)];
        let centre = [
            fx * x + L::all(camera.centre[0]),
            fy * y + L::all(camera.centre[1]),
        ];
        let inside = |k: usize| {
            L::all(0.0).below(centre[k] + reach[k])
                & (centre[k] - reach[k]).below(L::all(camera.size[k]))
        };
        self.shows = (visible & inside(0) & inside(1)).signs();
        let steep = (half * c / det).root();
        let slope = b / c;
        self.centre = [centre[0].list(), centre[1].list()];
        self.along = steep.list();
        self.skew = (L::all(0.0) - steep * slope).list();
        self.across = (half / c).root().list();
        self.level = level.list();
        let drawn = whole[0].within(square) & whole[1].within(square);
        self.square = L::all(f32::INFINITY).where_or(drawn, square).list();
        self.depth = z.list();
        self.reach = [reach[0].list(), reach[1].list()];
        self.slope = slope.list();
        self.width = (L::all(1.0) / steep).list();
        self.lean = (b / a * whole[0]).list();
    }
}

/// The covariance on the picture, px².
struct Spread<L> {
    /// xx, xy and yy.
    a: L,
    b: L,
    c: L,
    det: L,
    /// The determinant without the filter.
    bare: L,
}

impl<L: Lanes> Spread<L> {
    /// From the projected axes: p has their x and q their y.
    #[inline(always)]
    fn new(p: [L; 3], q: [L; 3], blur: L) -> Self {
        let (xx, b, yy) = (dot(p, p), dot(p, q), dot(q, q));
        // Of the axes, not of the products: that would cancel for flat splats.
        let cross = [
            p[1] * q[2] - p[2] * q[1],
            p[2] * q[0] - p[0] * q[2],
            p[0] * q[1] - p[1] * q[0],
        ];
        let bare = dot(cross, cross);
        Self {
            a: xx + blur,
            b,
            c: yy + blur,
            det: bare + blur * (xx + yy + blur),
            bare,
        }
    }

    /// What is left of the opacity such that the splat's sum stays.
    #[inline(always)]
    fn share(&self) -> L {
        let least = L::all(1e-6);
        let share = self.bare.most(least) / self.det.most(least);
        share.least(L::all(1.0)).root()
    }

    /// Half the edge of the square of three standard deviations that the sources cut at.
    #[inline(always)]
    fn square(&self) -> L {
        let middle = L::all(0.5) * (self.a + self.c);
        let largest = middle + (middle * middle - self.det).most(L::all(0.1)).root();
        ceil(L::all(3.0) * largest.root())
    }
}

#[inline(always)]
fn dot<L: Lanes>(a: [L; 3], b: [L; 3]) -> L {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

#[inline(always)]
fn all<L: Lanes>(&[x, y, z]: &[f32; 3]) -> [L; 3] {
    [L::all(x), L::all(y), L::all(z)]
}

#[inline(always)]
fn of<L: Lanes>(&[x, y, z]: &[List; 3]) -> [L; 3] {
    [L::of(x), L::of(y), L::of(z)]
}

/// Clamped to ± `most`.
#[inline(always)]
fn bounded<L: Lanes>(x: L, most: f32) -> L {
    x.most(L::all(-most)).least(L::all(most))
}

/// A row of the Jacobian times the rotation of the view.
#[inline(always)]
fn along<L: Lanes>(scale: L, row: [L; 3], slope: L, ahead: [L; 3]) -> [L; 3] {
    [
        scale * (row[0] - slope * ahead[0]),
        scale * (row[1] - slope * ahead[1]),
        scale * (row[2] - slope * ahead[2]),
    ]
}

/// `ceil` of positive numbers; SSE2 has no instruction for it.
#[inline(always)]
fn ceil<L: Lanes>(x: L) -> L {
    // From here on the sum with `ROUND` is none.
    let whole = L::all(4e6).within(x);
    let nearest = (x + L::all(ROUND)) - L::all(ROUND);
    let up = nearest + (L::all(1.0) & nearest.below(x));
    x.where_or(whole, up)
}

/// The axes of splats in the world, each as long as its standard deviation.
#[inline(always)]
fn axes<L: Lanes>(splats: &Splats) -> [[L; 3]; 3] {
    let [w, x, y, z] = &splats.rotation;
    let (w, x, y, z) = (L::of(*w), L::of(*x), L::of(*y), L::of(*z));
    let [i, j, k] = of(&splats.scales);
    let (one, two) = (L::all(1.0), L::all(2.0));
    [
        [
            (one - two * (y * y + z * z)) * i,
            two * (x * y + w * z) * i,
            two * (x * z - w * y) * i,
        ],
        [
            two * (x * y - w * z) * j,
            (one - two * (x * x + z * z)) * j,
            two * (y * z + w * x) * j,
        ],
        [
            two * (x * z + w * y) * k,
            two * (y * z - w * x) * k,
            (one - two * (x * x + y * y)) * k,
        ],
    ]
}
