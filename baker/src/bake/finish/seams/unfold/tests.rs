//! The gutter shows what the surface has beyond the seam, however the charts lie.

use crate::bake::finish::seams::SeamSide;
use crate::bake::finish::seams::unfold::*;
use crate::bake::fixture::Random;

const SIZE: usize = 64;

/// Colour of a place of the surface.
fn ramp([x, y]: [f64; 2]) -> [f32; 3] {
    [0.5 + 0.03 * x as f32, 0.5 + 0.02 * y as f32, 0.5]
}

/// Two charts of one plane that share the edge x = 0, y in 0..20. The left one is unchanged, from texel (30, 10) on;
/// the right one is half as large and rotated by a quarter turn, from texel (40, 50) on. Returns texels, charts and the
/// seam.
fn plane() -> (Vec<[f32; 4]>, Vec<u32>, [SeamSide; 2]) {
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
        SeamSide {
            ends: [[30.0, 10.0], [30.0, 30.0]],
            inward: [-1.0, 0.0],
            chart: 0,
        },
        SeamSide {
            ends: [[50.0, 40.0], [60.0, 40.0]],
            inward: [0.0, 1.0],
            chart: 5,
        },
    ];
    (texels, charts, sides)
}

fn filled(texels: &mut [[f32; 4]], charts: &[u32], sides: [SeamSide; 2]) {
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

#[test]
fn the_nearest_side_is_the_one_that_asking_all_texels_finds() {
    let mut random = Random(5);
    let mut place = || [0; 2].map(|_: u8| random.within(-10.0, SIZE as f64 + 10.0));
    let mut seams: Vec<[SeamSide; 2]> = Vec::new();
    for number in 0..40 {
        let mut side = |chart| {
            let mut ends = [place(), place()];
            match number % 4 {
                // Level, upright, short.
                0 => ends[1][1] = ends[0][1],
                1 => ends[1][0] = ends[0][0],
                2 => ends[1] = ends[0].map(|x| x + 0.3),
                _ => {}
            }
            let along = [ends[1][0] - ends[0][0], ends[1][1] - ends[0][1]];
            let length = along[0].hypot(along[1]);
            SeamSide {
                ends,
                inward: [-along[1] / length, along[0] / length],
                chart,
            }
        };
        seams.push([side(0), side(1)]);
    }
    // Stripes of both charts, and gutter.
    let chart = |texel: usize| [0, NO_CHART, 1, NO_CHART][texel % SIZE / 8 % 4];
    let charts: Vec<u32> = (0..SIZE * SIZE).map(chart).collect();
    let known = |texel: usize| charts[texel] != NO_CHART;
    let found = nearest(known, &charts, SIZE, &seams);
    let mut some = 0;
    for texel in (0..SIZE * SIZE).filter(|&texel| !known(texel)) {
        let (mut wanted, mut least) = (NONE, DEPTH as f32);
        for number in 0..2 * seams.len() as u32 {
            let [side, beyond] = sides(&seams, number);
            let (at, distance) = unfolded(side, beyond, centre(texel, SIZE));
            let within = at.iter().all(|x| (0.0..SIZE as f64).contains(x));
            let there = || charts[at[1] as usize * SIZE + at[0] as usize] == beyond.chart;
            if distance < least && within && there() {
                (wanted, least) = (number, distance);
            }
        }
        assert_eq!(found[texel], wanted, "{texel}");
        some += u32::from(wanted != NONE);
    }
    assert!(some > 300, "{some} have a side");
}
