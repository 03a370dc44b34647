//! Lanes in one register of AVX2.

#![expect(
    unsafe_code,
    reason = "AVX2 is no part of every processor of the target"
)]

use std::arch::x86_64::{
    __m256, __m256i, _CMP_LE_OQ, _CMP_LT_OQ, _mm256_add_epi32, _mm256_add_ps, _mm256_and_ps,
    _mm256_andnot_ps, _mm256_blendv_ps, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_cmp_ps,
    _mm256_cvtepi32_ps, _mm256_div_ps, _mm256_max_ps, _mm256_min_ps, _mm256_movemask_ps,
    _mm256_mul_ps, _mm256_or_ps, _mm256_set1_ps, _mm256_slli_epi32, _mm256_sllv_epi32,
    _mm256_sqrt_ps, _mm256_srai_epi32, _mm256_sub_epi32, _mm256_sub_ps,
};
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Sub};

use crate::lanes::{Lanes, List};

/// Named in `machine::with_avx2` alone, which runs where there is AVX2: that is what every call in this file relies on.
#[derive(Clone, Copy)]
pub(crate) struct Wide(__m256);

/// A call of intrinsics.
macro_rules! avx2 {
    ($call:expr) => {
        // SAFETY: there is AVX2, as said at `Wide`; the intrinsics touch no memory.
        unsafe { $call }
    };
}

macro_rules! operator {
    ($operator:ident, $name:ident, $call:ident) => {
        impl $operator for Wide {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                Self(avx2!($call(self.0, other.0)))
            }
        }
    };
}

operator!(Add, add, _mm256_add_ps);
operator!(Sub, sub, _mm256_sub_ps);
operator!(Mul, mul, _mm256_mul_ps);
operator!(Div, div, _mm256_div_ps);
operator!(BitAnd, bitand, _mm256_and_ps);
operator!(BitOr, bitor, _mm256_or_ps);

impl Wide {
    #[inline(always)]
    fn integers(self) -> __m256i {
        avx2!(_mm256_castps_si256(self.0))
    }

    #[inline(always)]
    fn of_integers(integers: __m256i) -> Self {
        Self(avx2!(_mm256_castsi256_ps(integers)))
    }
}

impl Lanes for Wide {
    #[inline(always)]
    fn of(list: List) -> Self {
        // SAFETY: both are eight f32, the first in lane 0.
        Self(unsafe { std::mem::transmute::<List, __m256>(list) })
    }

    #[inline(always)]
    fn list(self) -> List {
        // SAFETY: both are eight f32, the first in lane 0.
        unsafe { std::mem::transmute::<__m256, List>(self.0) }
    }

    #[inline(always)]
    fn all(x: f32) -> Self {
        Self(avx2!(_mm256_set1_ps(x)))
    }

    #[inline(always)]
    fn root(self) -> Self {
        Self(avx2!(_mm256_sqrt_ps(self.0)))
    }

    #[inline(always)]
    fn least(self, other: Self) -> Self {
        Self(avx2!(_mm256_min_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn most(self, other: Self) -> Self {
        Self(avx2!(_mm256_max_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn below(self, other: Self) -> Self {
        Self(avx2!(_mm256_cmp_ps::<_CMP_LT_OQ>(self.0, other.0)))
    }

    #[inline(always)]
    fn within(self, other: Self) -> Self {
        Self(avx2!(_mm256_cmp_ps::<_CMP_LE_OQ>(self.0, other.0)))
    }

    #[inline(always)]
    fn unless(self, other: Self) -> Self {
        Self(avx2!(_mm256_andnot_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn where_or(self, mask: Self, other: Self) -> Self {
        Self(avx2!(_mm256_blendv_ps(other.0, self.0, mask.0)))
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self::of_integers(avx2!(_mm256_add_epi32(self.integers(), other.integers())))
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Self::of_integers(avx2!(_mm256_sub_epi32(self.integers(), other.integers())))
    }

    #[inline(always)]
    fn up<const N: i32>(self) -> Self {
        Self::of_integers(avx2!(_mm256_slli_epi32::<N>(self.integers())))
    }

    #[inline(always)]
    fn down<const N: i32>(self) -> Self {
        Self::of_integers(avx2!(_mm256_srai_epi32::<N>(self.integers())))
    }

    #[inline(always)]
    fn up_by(self, other: Self) -> Self {
        Self::of_integers(avx2!(_mm256_sllv_epi32(self.integers(), other.integers())))
    }

    #[inline(always)]
    fn float(self) -> Self {
        Self(avx2!(_mm256_cvtepi32_ps(self.integers())))
    }

    #[inline(always)]
    fn signs(self) -> u32 {
        avx2!(_mm256_movemask_ps(self.0)).cast_unsigned()
    }
}
