//! Eight numbers that are worked on at once.

use std::ops::{Add, BitAnd, BitOr, Div, Mul, Sub};

/// How many there are.
pub(crate) const LANES: usize = 8;

/// One number each.
pub(crate) type List = [f32; LANES];

/// Eight f32, or as many masks (all bits or none), or as many integers. Operators work on f32 but for `&` and `|`, which work on
/// bits. Every implementation gives the same bits.
pub(crate) trait Lanes:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
{
    fn of(list: List) -> Self;
    fn list(self) -> List;
    fn root(self) -> Self;
    /// The lesser; `other` where one is NaN.
    fn least(self, other: Self) -> Self;
    /// The greater; `other` where one is NaN.
    fn most(self, other: Self) -> Self;
    /// Mask of where it is less.
    fn below(self, other: Self) -> Self;
    /// Mask of where it is less or the same.
    fn within(self, other: Self) -> Self;
    /// `other` where the mask `self` is not set.
    fn unless(self, other: Self) -> Self;
    /// Sum of integers; it wraps.
    fn plus(self, other: Self) -> Self;
    /// Difference of integers; it wraps.
    fn minus(self, other: Self) -> Self;
    /// Integers times 2ᴺ; bits above the highest are lost.
    fn up<const N: i32>(self) -> Self;
    /// Integers over 2ᴺ, rounded down.
    fn down<const N: i32>(self) -> Self;
    /// Integers shifted up by other integers from 0 to 31.
    fn up_by(self, other: Self) -> Self;
    /// f32 of integers.
    fn float(self) -> Self;
    /// The highest bits; that of lane k is bit k.
    fn signs(self) -> u32;

    #[inline(always)]
    fn all(x: f32) -> Self {
        Self::of([x; LANES])
    }

    #[inline(always)]
    fn bits(x: u32) -> Self {
        Self::all(f32::from_bits(x))
    }

    /// `self` where the mask is set, else `other`.
    #[inline(always)]
    fn where_or(self, mask: Self, other: Self) -> Self {
        (self & mask) | mask.unless(other)
    }

    #[inline(always)]
    fn abs(self) -> Self {
        self & Self::bits(0x7fff_ffff)
    }

    /// The bits that are set in any lane.
    #[inline(always)]
    fn any(self) -> u32 {
        self.list().iter().fold(0, |all, x| all | x.to_bits())
    }
}

/// Lanes of what every processor has.
#[derive(Clone, Copy)]
pub(crate) struct Plain([u32; LANES]);

impl Plain {
    #[inline(always)]
    fn zip(self, other: Self, with: impl Fn(u32, u32) -> u32) -> Self {
        let mut bits = [0; LANES];
        for k in 0..LANES {
            bits[k] = with(self.0[k], other.0[k]);
        }
        Self(bits)
    }

    #[inline(always)]
    fn zip_floats(self, other: Self, with: impl Fn(f32, f32) -> f32) -> Self {
        self.zip(other, |a, b| {
            with(f32::from_bits(a), f32::from_bits(b)).to_bits()
        })
    }

    #[inline(always)]
    fn compare(self, other: Self, with: impl Fn(f32, f32) -> bool) -> Self {
        self.zip(other, |a, b| {
            u32::from(with(f32::from_bits(a), f32::from_bits(b))).wrapping_neg()
        })
    }
}

macro_rules! operator {
    ($operator:ident, $name:ident, $zip:ident, $with:expr) => {
        impl $operator for Plain {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                self.$zip(other, $with)
            }
        }
    };
}

operator!(Add, add, zip_floats, |a, b| a + b);
operator!(Sub, sub, zip_floats, |a, b| a - b);
operator!(Mul, mul, zip_floats, |a, b| a * b);
operator!(Div, div, zip_floats, |a, b| a / b);
operator!(BitAnd, bitand, zip, |a, b| a & b);
operator!(BitOr, bitor, zip, |a, b| a | b);

impl Lanes for Plain {
    #[inline(always)]
    fn of(list: List) -> Self {
        Self(list.map(f32::to_bits))
    }

    #[inline(always)]
    fn list(self) -> List {
        self.0.map(f32::from_bits)
    }

    #[inline(always)]
    fn root(self) -> Self {
        self.zip_floats(self, |a, _| a.sqrt())
    }

    #[inline(always)]
    fn least(self, other: Self) -> Self {
        self.zip_floats(other, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn most(self, other: Self) -> Self {
        self.zip_floats(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn below(self, other: Self) -> Self {
        self.compare(other, |a, b| a < b)
    }

    #[inline(always)]
    fn within(self, other: Self) -> Self {
        self.compare(other, |a, b| a <= b)
    }

    #[inline(always)]
    fn unless(self, other: Self) -> Self {
        self.zip(other, |a, b| !a & b)
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.zip(other, u32::wrapping_add)
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.zip(other, u32::wrapping_sub)
    }

    #[inline(always)]
    fn up<const N: i32>(self) -> Self {
        self.zip(self, |a, _| a << N)
    }

    #[inline(always)]
    fn down<const N: i32>(self) -> Self {
        self.zip(self, |a, _| (a.cast_signed() >> N).cast_unsigned())
    }

    #[inline(always)]
    fn up_by(self, other: Self) -> Self {
        self.zip(other, u32::wrapping_shl)
    }

    #[inline(always)]
    fn float(self) -> Self {
        self.zip(self, |a, _| (a.cast_signed() as f32).to_bits())
    }

    #[inline(always)]
    fn signs(self) -> u32 {
        (0..LANES).fold(0, |all, k| all | (self.0[k] >> 31) << k)
    }
}
