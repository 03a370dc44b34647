//! Sides of seams, and texels with their charts.

/// Shorter than this in texels, a side has no direction to unfold along.
pub(super) const SHORTEST: f64 = 1e-4;

/// One side of a seam, in texels.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeamSide {
    pub(super) ends: [[f64; 2]; 2],
    /// Unit vector across the edge, into the triangle.
    pub(super) inward: [f64; 2],
    pub(super) chart: u32,
}

impl SeamSide {
    pub(super) fn length(&self) -> f64 {
        let [a, b] = self.ends;
        (b[0] - a[0]).hypot(b[1] - a[1])
    }

    /// The place `share` of the way along the side.
    pub(super) fn at(&self, share: f64) -> [f64; 2] {
        let [a, b] = self.ends;
        [0, 1].map(|axis| a[axis] + share * (b[axis] - a[axis]))
    }
}

/// The texture in linear light, and the chart of each texel.
#[derive(Clone, Copy)]
pub(super) struct Charted<'a> {
    pub(super) texels: &'a [[f32; 4]],
    pub(super) charts: &'a [u32],
    pub(super) size: usize,
}
