//! Four numbers side by side, as a vector register holds them: the compiler makes one instruction of each of these.

use std::array::from_fn;
use std::ops::{Add, Mul, Neg, Sub};

use super::WIDE;

/// One number for each child of a node, or for each triangle of a leaf.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(16))]
pub(super) struct Four(pub(super) [f32; WIDE]);

/// Four vectors, by axis.
pub(super) type Vectors = [Four; 3];

impl Four {
    pub(super) const fn all(x: f32) -> Self {
        Self([x; WIDE])
    }

    /// As the processor's own instruction has it: the other where this is no number.
    #[inline(always)]
    pub(super) fn max(self, other: Self) -> Self {
        Self(from_fn(|k| match self.0[k] > other.0[k] {
            true => self.0[k],
            false => other.0[k],
        }))
    }

    /// As [`Self::max`].
    #[inline(always)]
    pub(super) fn min(self, other: Self) -> Self {
        Self(from_fn(|k| match self.0[k] < other.0[k] {
            true => self.0[k],
            false => other.0[k],
        }))
    }

    #[inline(always)]
    pub(super) fn abs(self) -> Self {
        Self(self.0.map(f32::abs))
    }

    /// These numbers with the signs of others times their own.
    #[inline(always)]
    pub(super) fn signed_by(self, other: Self) -> Self {
        let sign = |x: f32| x.to_bits() & (1 << 31);
        Self(from_fn(|k| {
            f32::from_bits(self.0[k].to_bits() ^ sign(other.0[k]))
        }))
    }

    /// Bit `k` says whether number `k` is no larger than the other.
    #[inline(always)]
    pub(super) fn at_most(self, other: Self) -> u32 {
        (0..WIDE).fold(0, |bits, k| bits | u32::from(self.0[k] <= other.0[k]) << k)
    }
}

impl Add for Four {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(from_fn(|k| self.0[k] + other.0[k]))
    }
}

impl Sub for Four {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(from_fn(|k| self.0[k] - other.0[k]))
    }
}

impl Mul for Four {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self(from_fn(|k| self.0[k] * other.0[k]))
    }
}

impl Neg for Four {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self(self.0.map(|x| -x))
    }
}

#[inline(always)]
pub(super) fn less(p: &Vectors, q: &Vectors) -> Vectors {
    from_fn(|axis| p[axis] - q[axis])
}

/// Four cross products.
#[inline(always)]
pub(super) fn crosses(p: &Vectors, q: &Vectors) -> Vectors {
    from_fn(|axis| {
        let (next, last) = ((axis + 1) % 3, (axis + 2) % 3);
        p[next] * q[last] - p[last] * q[next]
    })
}

/// Four dot products.
#[inline(always)]
pub(super) fn dots(p: &Vectors, q: &Vectors) -> Four {
    p[0] * q[0] + p[1] * q[1] + p[2] * q[2]
}

/// Sums of the coordinates of four vectors, without signs.
#[inline(always)]
pub(super) fn sizes(p: &Vectors) -> Four {
    p[0].abs() + p[1].abs() + p[2].abs()
}
