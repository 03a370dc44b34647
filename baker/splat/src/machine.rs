//! The same code compiled twice: for the least that every processor has, and for AVX2 where there is one.
//!
//! Neither contracts a product and a sum into one rounding, so that both give the same bytes.

use crate::lanes::{Lanes, Plain};

/// Work on eight numbers at once.
pub(crate) trait Kernel {
    /// What it results in.
    type Output;

    /// Implementations are `#[inline(always)]`, as is all that they call with lanes: only what is inlined gets the wider
    /// instructions.
    fn run<L: Lanes>(self) -> Self::Output;
}

/// The instructions that kernels run with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    avx2: bool,
}

impl Machine {
    /// What every processor of the target has.
    #[cfg(test)]
    pub(crate) const LEAST: Self = Self { avx2: false };

    /// What this processor has.
    pub(crate) fn this() -> Self {
        #[cfg(target_arch = "x86_64")]
        let avx2 = is_x86_feature_detected!("avx2");
        #[cfg(not(target_arch = "x86_64"))]
        let avx2 = false;
        Self { avx2 }
    }

    /// Runs a kernel.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[cfg(target_arch = "x86_64")]
        if self.avx2 {
            #[expect(unsafe_code, reason = "the compiler cannot know the processor")]
            // SAFETY: `avx2` is true only where `this` has found AVX2.
            return unsafe { with_avx2(kernel) };
        }
        kernel.run::<Plain>()
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<crate::wide::Wide>()
}
