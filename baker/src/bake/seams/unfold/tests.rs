//! The gutter shows what the surface has beyond the seam, however the charts lie.

use super::super::Side;
use super::*;

const SIZE: usize = 64;

/// Colour of a place of the surface.
fn ramp([x, y]: [f64; 2]) -> [f32; 3] {
    [0.5 + 0.03 * x as f32, 0.5 + 0.02 * y as f32, 0.5]
}

/// Two charts of one plane that share the edge x = 0, y in 0..20. The left one is unchanged, from texel (30, 10) on;
/// the right one is half as large and rotated by a quarter turn, from texel (40, 50) on. Returns texels, charts and the
/// seam.
fn plane() -> (Vec<[f32; 4]>, Vec<u32>, [Side; 2]) {
    // Where a texel lies on the surface.
    let left = |[u, v]: [f64; 2]| [u - 30.0, v - 10.0];
    let right = |[u, v]: [f64; 2]| [2.0 * (v - 40.0), 2.0 * (u - 50.0)];
    let (mut texels, mut charts) = (vec![[0.0; 4]; SIZE * SIZE], vec![NO_CHART; SIZE * SIZE]);
    for texel in 0..SIZE * SIZE {
        let at = centre(texel, SIZE);
        let ([x, y], [p, q]) = (left(at), right(at));
        let found = if (-12.0..0.0).contains(&x) && (0.0..20.0).contains(&y) {
            Some((ramp([x, y]), 0))
        } else if (0.0..24.0).contains(&p) && (0.0..20.0).contains(&q) {
            Some((ramp([p, q]), 5))
        } else {
            None
        };
        if let Some(([r, g, b], chart)) = found {
            texels[texel] = [r, g, b, 1.0];
            charts[texel] = chart;
        }
    }
    let sides = [
        Side {
            ends: [[30.0, 10.0], [30.0, 30.0]],
            inward: [-1.0, 0.0],
            chart: 0,
        },
        Side {
            ends: [[50.0, 40.0], [60.0, 40.0]],
            inward: [0.0, 1.0],
            chart: 5,
        },
    ];
    (texels, charts, sides)
}

fn filled(texels: &mut [[f32; 4]], charts: &[u32], sides: [Side; 2]) {
    let nearest = nearest(|texel| texels[texel][3] > 0.0, charts, SIZE, &[sides]);
    fill(texels, charts, SIZE, &[sides], &nearest);
}

#[test]
fn the_gutter_continues_the_surface_turned_and_scaled() {
    let (mut texels, charts, sides) = plane();
    let before = texels.clone();
    filled(&mut texels, &charts, sides);
    let (mut right_of_left, mut above_right) = (0, 0);
    for texel in 0..SIZE * SIZE {
        if before[texel][3] > 0.0 {
            assert_eq!(texels[texel], before[texel], "what was known stays");
            continue;
        }
        if texels[texel][3] == 0.0 {
            continue;
        }
        let [u, v] = centre(texel, SIZE);
        let (wanted, count) = if u < 45.0 {
            (ramp([u - 30.0, v - 10.0]), &mut right_of_left)
        } else {
            (ramp([2.0 * (v - 40.0), 2.0 * (u - 50.0)]), &mut above_right)
        };
        *count += 1;
        for channel in 0..3 {
            // A lookup next to the border has fewer than four texels: off by at most half of one, of two units each.
            assert!(
                (texels[texel][channel] - wanted[channel]).abs() < 0.035,
                "{texel}: {:?} {wanted:?}",
                texels[texel]
            );
        }
    }
    // 8 deep along 20 texels. The other side: along 10 texels, where the first chart is 12 deep, 6 of its texels.
    assert_eq!((right_of_left, above_right), (160, 60));
}

#[test]
fn the_wrong_way_round_is_another_colour() {
    let (mut texels, charts, mut sides) = plane();
    sides[1].ends.swap(0, 1);
    filled(&mut texels, &charts, sides);
    let texel = 12 * SIZE + 32;
    let [_, wanted, _] = ramp([2.5, 2.5]);
    assert!((texels[texel][1] - wanted).abs() > 0.2);
}

#[test]
fn sides_without_length_or_number_unfold_nothing() {
    let (start, charts, sides) = plane();
    for end in [[30.0, 10.0], [f64::NAN, 3.0], [f64::INFINITY, 0.0]] {
        let mut broken = sides;
        broken[0].ends = [[30.0, 10.0], end];
        broken[1].ends[0] = [f64::NAN; 2];
        let mut texels = start.clone();
        filled(&mut texels, &charts, broken);
        assert!(texels.iter().flatten().all(|x| x.is_finite()));
        let filled = |texels: &[[f32; 4]]| texels.iter().filter(|texel| texel[3] > 0.0).count();
        assert_eq!(filled(&texels), filled(&start));
    }
}
