//! Pictures read back index by index, and palettes as colour-blind eyes see them.

use std::collections::BTreeSet;
use std::io::Cursor;

use super::*;

/// Indices, palette and text of a PNG.
fn decode(file: &[u8]) -> (Vec<u8>, Vec<u8>, String) {
    let mut reader = ::png::Decoder::new(Cursor::new(file))
        .read_info()
        .expect("a header");
    let mut indices = vec![0; reader.output_buffer_size().expect("a size")];
    reader.next_frame(&mut indices).expect("a picture");
    let info = reader.info();
    assert_eq!(info.color_type, ::png::ColorType::Indexed);
    let palette = info.palette.as_ref().expect("a palette").to_vec();
    let text = &info.uncompressed_latin1_text[0];
    assert_eq!(text.keyword, "Description");
    (indices, palette, text.text.clone())
}

#[test]
fn the_indices_are_the_codes_in_rows_from_the_top() {
    // One chart over the whole texture: no gutter, and no symmetry.
    let codes: Vec<u8> = (0..64).map(|k| (1 + k * k % 255) as u8).collect();
    let maps = Maps {
        coverage: codes.clone(),
        residual: codes.iter().rev().copied().collect(),
    };
    let (indices, palette, text) = decode(&coverage(8, &maps).expect("a picture"));
    assert_eq!(indices, codes);
    assert_eq!(palette, coverage_palette().concat());
    assert!(text.contains("2^((index-66)/16)"), "{text}");
    let (indices, palette, text) = decode(&residual(8, &maps).expect("a picture"));
    assert_eq!(indices, maps.residual);
    assert_eq!(palette, residual_palette().concat());
    assert!(text.contains("((index-2)/506)^2"), "{text}");
}

#[test]
fn the_rim_of_a_chart_repeats_it_and_the_rest_stays_gutter() {
    let mut codes = vec![CODE_GUTTER; 81];
    codes[4 * 9 + 4] = 77;
    let once = spread(&codes, 9);
    let twice = spread(&once, 9);
    for index in 0..81_usize {
        let far = (index % 9).abs_diff(4) + (index / 9).abs_diff(4);
        let wanted = |reach| if far <= reach { 77 } else { CODE_GUTTER };
        assert_eq!((once[index], twice[index]), (wanted(1), wanted(2)));
    }
    // Nothing wraps from the end of one row to the start of the next.
    let mut codes = vec![CODE_GUTTER; 81];
    codes[3 * 9 + 8] = 5;
    assert_eq!(spread(&codes, 9)[4 * 9], CODE_GUTTER);
}

#[test]
fn every_code_has_a_colour_of_its_own() {
    for palette in [coverage_palette(), residual_palette()] {
        assert_eq!(palette.into_iter().collect::<BTreeSet<_>>().len(), 256);
    }
}

/// Matrices that map linear RGB to what an eye without red, green or blue cones sees, after the identity for normal
/// vision (Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency",
/// 2009).
const EYES: [[[f64; 3]; 3]; 4] = [
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    [
        [0.152_286, 1.052_583, -0.204_868],
        [0.114_503, 0.786_281, 0.099_216],
        [-0.003_882, -0.048_116, 1.051_998],
    ],
    [
        [0.367_322, 0.860_646, -0.227_968],
        [0.280_085, 0.672_501, 0.047_413],
        [-0.011_820, 0.042_940, 0.968_881],
    ],
    [
        [1.255_528, -0.076_749, -0.178_779],
        [-0.078_411, 0.930_809, 0.147_602],
        [0.004_733, 0.691_367, 0.303_900],
    ],
];

/// CIE L*a*b* (D65) of a colour as an eye sees it.
fn lab(colour: [u8; 3], eye: &[[f64; 3]; 3]) -> [f64; 3] {
    let light = colour.map(|byte| {
        let s = f64::from(byte) / 255.0;
        if s <= 0.040_45 {
            s / 12.92
        } else {
            ((s + 0.055) / 1.055).powf(2.4)
        }
    });
    let dot = |row: &[f64; 3], v: &[f64; 3]| -> f64 { row.iter().zip(v).map(|(a, b)| a * b).sum() };
    let seen = [0, 1, 2].map(|k| dot(&eye[k], &light).clamp(0.0, 1.0));
    let [x, y, z] = [
        dot(&[0.4124, 0.3576, 0.1805], &seen) / 0.9505,
        dot(&[0.2126, 0.7152, 0.0722], &seen),
        dot(&[0.0193, 0.1192, 0.9505], &seen) / 1.089,
    ]
    .map(|t| {
        if t > 0.008_856 {
            t.cbrt()
        } else {
            7.787 * t + 16.0 / 116.0
        }
    });
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

/// Smallest distance between a colour of one class and one of the other, for any eye.
fn apart(one: &[[u8; 3]], other: &[[u8; 3]]) -> f64 {
    let mut least = f64::INFINITY;
    for eye in &EYES {
        for a in one.iter().map(|&colour| lab(colour, eye)) {
            for b in other.iter().map(|&colour| lab(colour, eye)) {
                let square: f64 = (0..3).map(|k| (a[k] - b[k]).powi(2)).sum();
                least = least.min(square.sqrt());
            }
        }
    }
    least
}

#[test]
fn classes_keep_apart_for_every_eye_and_ramps_get_brighter() {
    let (coverage, residual) = (coverage_palette(), residual_palette());
    // A just noticeable difference is 2.3. The gutter is not on the surface, so nobody needs to tell it from the
    // darkest residuals.
    for (what, one, other, least) in [
        ("gutter, filled", &coverage[..1], &coverage[1..2], 40.0),
        ("gutter, weak", &coverage[..1], &coverage[2..66], 40.0),
        ("gutter, observed", &coverage[..1], &coverage[66..], 18.0),
        ("filled, weak", &coverage[1..2], &coverage[2..66], 40.0),
        ("filled, observed", &coverage[1..2], &coverage[66..], 18.0),
        ("weak, observed", &coverage[2..66], &coverage[66..], 40.0),
        ("gutter, unknown", &residual[..1], &residual[1..2], 40.0),
        ("gutter, residual", &residual[..1], &residual[2..], 8.0),
        ("unknown, residual", &residual[1..2], &residual[2..], 35.0),
    ] {
        let found = apart(one, other);
        assert!(found >= least, "{what}: {found:.1}");
    }
    for ramp in [&coverage[2..66], &coverage[66..], &residual[2..]] {
        for eye in &EYES[..1] {
            let bright: Vec<f64> = ramp.iter().map(|&colour| lab(colour, eye)[0]).collect();
            assert!(bright.windows(2).all(|pair| pair[0] < pair[1] + 0.2));
            assert!(bright[bright.len() - 1] - bright[0] > 30.0);
        }
    }
}
