//! Gathered lookups against every sample looked up by itself.

use crate::image::render::shade::*;

const SIZE: [usize; 2] = [37, 23];

fn texels() -> Vec<[u8; 4]> {
    let texel = |k: usize| [k * 20 % 251, k * 53 % 241, k * 97 % 239, 255].map(|x| x as u8);
    (0..SIZE[0] * SIZE[1]).map(texel).collect()
}

/// The bilinear mean of four texels, clamped to the edge.
fn looked_up(image: Image<'_>, [u, v]: [f32; 2]) -> [f32; 3] {
    let axis = |coordinate: f32, edge: usize| {
        let x = f64::from(coordinate) * edge as f64 - 0.5;
        let at = |whole: f64| whole.clamp(0.0, edge as f64 - 1.0) as usize;
        ([at(x.floor()), at(x.floor() + 1.0)], x - x.floor())
    };
    let (columns, across) = axis(u, image.width);
    let (rows, down) = axis(v, image.height);
    [0, 1, 2].map(|channel| {
        let mut sum = 0.0;
        for (column, wide) in columns.into_iter().zip([1.0 - across, across]) {
            for (row, high) in rows.into_iter().zip([1.0 - down, down]) {
                let byte = image.texels[row * image.width + column][channel];
                sum += wide * high * f64::from(byte) / 255.0;
            }
        }
        sum as f32
    })
}

#[test]
fn samples_that_are_gathered_are_the_sum_of_what_each_sees() {
    let texels = texels();
    let image = Image::new(SIZE[0], SIZE[1], &texels).unwrap();
    // Within one texel, across a window and several, over the whole image, and far outside.
    for reach in [0.01_f32, 0.2, 1.0, 5.0] {
        let uvs = [[0.4, 0.3], [reach, 0.3 * reach], [-0.7 * reach, reach]];
        let mut gathered = Gathered::new(Some(image), srgb::display_table());
        let (mut sum, mut wanted) = ([0.0; 3], [0.0_f32; 3]);
        let mut all = 0;
        for step in 0..16 {
            let place = |k: usize| ((step * 5 + k * 3) % 16) as f32 / 16.0 - 0.4;
            let second_third = [
                std::array::from_fn(place),
                std::array::from_fn(|k| place(k + 7)),
            ];
            let count = 1 + step % TOGETHER;
            gathered.add(&uvs, second_third, count, &mut sum);
            for k in 0..count {
                let [second, third] = second_third.map(|of: [f32; TOGETHER]| of[k]);
                let uv = [0, 1]
                    .map(|axis: usize| uvs[0][axis] + second * uvs[1][axis] + third * uvs[2][axis]);
                let seen = looked_up(image, uv);
                wanted = [0, 1, 2].map(|channel| wanted[channel] + seen[channel]);
                all += 1;
            }
        }
        gathered.finish(&mut sum);
        for channel in 0..3 {
            let off = (sum[channel] - wanted[channel]).abs() / all as f32;
            assert!(off < 1e-5, "reach {reach}: {sum:?} instead of {wanted:?}");
        }
        // Nothing is left for the next pixel.
        let before = sum;
        gathered.finish(&mut sum);
        assert_eq!(sum, before);
    }
}

#[test]
fn neighbours_are_around_the_coordinate_and_within_the_edge() {
    for edge in [1, 2, 5, 1024, 8192] {
        for k in -40..=40_i16 {
            let coordinate = 0.5 + f32::from(k) / 40.0;
            let ([first, second], share) = split(coordinate, edge);
            assert!(second < edge && (first + 1 == second || first == second));
            assert!((0.0..=1.0).contains(&share), "{share}");
            let between = first as f32 * (1.0 - share) + second as f32 * share;
            let wanted = (coordinate * edge as f32 - 0.5).clamp(0.0, edge as f32 - 1.0);
            assert!(
                (between - wanted).abs() <= 1e-6 * edge as f32,
                "{between} for {wanted}"
            );
        }
    }
    for far in [f32::NAN, f32::NEG_INFINITY, -1e30, 1e30, f32::INFINITY] {
        let ([first, second], share) = split(far, 7);
        let nearest = if far > 0.0 { 6 } else { 0 };
        let seen = if share < 0.5 { first } else { second };
        assert!(seen == nearest && (share == 0.0 || share == 1.0), "{far}");
    }
}
