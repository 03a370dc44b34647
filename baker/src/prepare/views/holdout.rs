//! Chooses held-out views from their number and a seed, spread evenly over the file's order.
//!
//! Multiples of the golden ratio modulo 1 are spread as evenly as a sequence of open length can be (Weyl). The seed
//! moves the start. A larger choice contains a smaller one with the same seed.

/// Sets `chosen` of `views` flags; `chosen` is below `views`.
pub(super) fn choose(views: usize, chosen: usize, seed: u64) -> Vec<bool> {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let mut flags = vec![false; views];
    let mut place = mix(seed) as f64 / 2_f64.powi(64);
    for _ in 0..chosen.min(views) {
        let mut index = ((place * views as f64) as usize).min(views - 1);
        while flags[index] {
            index = (index + 1) % views;
        }
        flags[index] = true;
        place = (place + GOLDEN).fract();
    }
    flags
}

/// `SplitMix64`'s finaliser: neighbouring seeds start far apart.
fn mix(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_asked_for_evenly_and_the_same_every_time() {
        for (views, chosen) in [(1, 0), (2, 1), (6, 5), (40, 8), (100, 10), (4096, 64)] {
            for seed in 0..50 {
                let flags = choose(views, chosen, seed);
                assert_eq!(flags.iter().filter(|&&flag| flag).count(), chosen);
                assert_eq!(flags, choose(views, chosen, seed));
                // No gap of more than three times the mean.
                let mut places: Vec<usize> = (0..views).filter(|&index| flags[index]).collect();
                places.extend(places.first().map(|first| first + views));
                let gap = places
                    .windows(2)
                    .map(|pair| pair[1] - pair[0])
                    .max()
                    .unwrap_or(0);
                assert!(
                    chosen == 0 || gap <= 3 * views / chosen + 1,
                    "{chosen} of {views}, seed {seed}: a gap of {gap}"
                );
            }
        }
        assert_ne!(choose(40, 4, 0), choose(40, 4, 1));
    }
}
