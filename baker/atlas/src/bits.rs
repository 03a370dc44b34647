//! Runs of bits in words.

/// Sets the bits `from..to`.
pub(crate) fn fill(words: &mut [u64], from: usize, to: usize) {
    if from >= to {
        return;
    }
    let (first, last) = (from / 64, (to - 1) / 64);
    for (word, bits) in words.iter_mut().enumerate().take(last + 1).skip(first) {
        let low = if word == first { !0 << (from % 64) } else { !0 };
        let high = if word == last {
            !0 >> (63 - (to - 1) % 64)
        } else {
            !0
        };
        *bits |= low & high;
    }
}

/// The first bit from `x` on that is set, or unset; past the last word if there is none.
pub(crate) fn next(words: &[u64], x: usize, set: bool) -> usize {
    let flip = if set { 0 } else { !0 };
    let mut word = x / 64;
    let mut mask = !0 << (x % 64);
    while let Some(bits) = words.get(word) {
        let hits = (bits ^ flip) & mask;
        if hits != 0 {
            return word * 64 + hits.trailing_zeros() as usize;
        }
        word += 1;
        mask = !0;
    }
    words.len() * 64
}
