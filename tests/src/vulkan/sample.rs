//! Draws a sample of the cells by a seed.

/// `count` elements of `all` without repetition, by Marsaglia's xorshift: the same ones for the same seed.
pub fn sample<T>(mut all: Vec<T>, seed: u64, count: usize) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let count = count.min(all.len());
    for place in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let left = (all.len() - place) as u64;
        all.swap(place, place + (state % left) as usize);
    }
    all.truncate(count);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_its_seed_s_and_has_no_repetition() {
        let numbers = || (0..1000).collect::<Vec<u32>>();
        let first = sample(numbers(), 7, 100);
        assert_eq!(first, sample(numbers(), 7, 100));
        assert_ne!(first, sample(numbers(), 8, 100));
        let mut sorted = first;
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 100);
        assert_eq!(sample(numbers(), 7, 5000).len(), 1000);
    }
}
