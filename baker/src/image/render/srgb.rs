//! The sRGB transfer curve (IEC 61966-2-1), between display values and linear light, both 0-1.

use std::sync::LazyLock;

/// Display value → linear light.
pub fn decode(x: f32) -> f32 {
    if x <= 0.04045 {
        x / 12.92
    } else {
        ((x + 0.055) / 1.055).powf(2.4)
    }
}

/// Linear light → display value; negative values count as 0.
pub fn encode(x: f32) -> f32 {
    let x = x.max(0.0);
    if x <= 0.003_130_8 {
        x * 12.92
    } else {
        1.055 * x.powf(1.0 / 2.4) - 0.055
    }
}

/// Linear light of each byte.
pub fn linear_table() -> &'static [f32; 256] {
    static TABLE: LazyLock<[f32; 256]> =
        LazyLock::new(|| std::array::from_fn(|k| decode(k as f32 / 255.0)));
    &TABLE
}

/// Display value of each byte: k/255.
pub fn display_table() -> &'static [f32; 256] {
    static TABLE: LazyLock<[f32; 256]> =
        LazyLock::new(|| std::array::from_fn(|k| k as f32 / 255.0));
    &TABLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curve_passes_its_known_points_and_inverts() {
        assert!((decode(0.5) - 0.214_041).abs() < 1e-6);
        assert!((encode(0.5) - 0.735_357).abs() < 1e-6);
        for byte in 0..=255_u8 {
            let back = encode(linear_table()[usize::from(byte)]) * 255.0;
            assert!(
                (back - f32::from(byte)).abs() < 1e-3,
                "{byte} came back as {back}"
            );
        }
    }
}
