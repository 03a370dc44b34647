//! Splats drawn on the device, against their twin on the processor.

use kiln_splat::{Cloud, Filter, Splat, View, coefficients, draw};

use super::device;
use crate::bake::gpu::splats::{Room, Shot, SplatRenderer, SplatStyle};
use crate::image::render::srgb;

const BYTES: u64 = 256 << 20;
/// Least likeness to the twin, in dB of bytes: a byte in sixteen is off by one.
const ALIKE: f64 = 60.0;
const FILTERS: [Filter; 2] = [Filter::Classic(0.3), Filter::Mip(0.1)];

const STYLE: SplatStyle = SplatStyle {
    filter: FILTERS[0],
    degree: 0,
    linear: false,
};

/// A number from -1 to 1.
fn turn(k: u32, by: u32) -> f32 {
    (k.wrapping_mul(by).wrapping_mul(0x9e37_79b1) >> 8) as f32 / (1 << 23) as f32 - 1.0
}

fn harmonics(k: u32, degree: usize) -> Vec<[f32; 3]> {
    let of = |n: u32| [43, 47, 59].map(|by| 0.3 * turn(k, by + 2 * n));
    (0..coefficients(degree) as u32).map(of).collect()
}

/// Splats of many forms, in and beside the picture, behind the camera and at it.
fn soup(count: u32, degree: usize) -> Cloud {
    let mut cloud = Cloud::new(degree);
    for k in 0..count {
        let splat = Splat {
            position: [turn(k, 17), turn(k, 29), 2.0 * turn(k, 71)],
            scales: [13, 37, 53].map(|by| 0.01 * 20.0_f32.powf(turn(k, by))),
            rotation: [1.0, turn(k, 7), turn(k, 11), turn(k, 23)],
            opacity: 0.5 + 0.5 * turn(k, 41),
            constant: [turn(k, 3), turn(k, 5), turn(k, 19)],
        };
        assert!(cloud.push(&splat, &harmonics(k, degree)));
    }
    cloud
}

/// Flat splats on a ball, as an object has them.
fn shell(count: u32, degree: usize) -> Cloud {
    let mut cloud = Cloud::new(degree);
    for k in 0..count {
        let z = turn(k, 17);
        let (sine, cosine) = (3.2 * turn(k, 29)).sin_cos();
        let across = 0.8 * (1.0 - z * z).sqrt();
        let splat = Splat {
            position: [across * cosine, across * sine, 0.8 * z],
            scales: [0.03, 0.02, 0.0],
            rotation: [1.0, turn(k, 7), turn(k, 11), turn(k, 23)],
            opacity: 0.7 + 0.29 * turn(k, 41),
            constant: [turn(k, 3), turn(k, 5), turn(k, 19)],
        };
        assert!(cloud.push(&splat, &harmonics(k, degree)));
    }
    cloud
}

fn view(size: [u32; 2]) -> View {
    let (sine, cosine) = 0.3_f32.sin_cos();
    View {
        rotation: [[cosine, 0.0, sine], [0.0, 1.0, 0.0], [-sine, 0.0, cosine]],
        translation: [0.05, 0.1, 2.2],
        focal: [150.0, 160.0],
        centre: [80.0, 60.0],
        size,
    }
}

/// A view from the origin along z.
fn ahead(size: [u32; 2]) -> View {
    View {
        rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        translation: [0.0; 3],
        focal: [64.0; 2],
        centre: size.map(|edge| edge as f32 / 2.0),
        size,
    }
}

fn whole(view: View) -> Shot {
    let [width, height] = view.size;
    Shot {
        view,
        window: [0, 0, width, height],
    }
}

fn renderer_within(
    cloud: &Cloud,
    style: SplatStyle,
    change: impl FnOnce(&mut Room),
) -> Option<SplatRenderer> {
    let device = device()?;
    let mut room = Room::of(&device, BYTES);
    change(&mut room);
    let made = SplatRenderer::within(device, cloud, style, room).expect("stages");
    Some(made.expect("room"))
}

fn renderer(cloud: &Cloud, style: SplatStyle) -> Option<SplatRenderer> {
    renderer_within(cloud, style, |_| {})
}

fn byte(share: f32) -> u8 {
    (share * 255.0).round().clamp(0.0, 255.0) as u8
}

/// What the processor draws.
fn wanted(cloud: &Cloud, style: SplatStyle, shot: &Shot) -> Vec<[u8; 4]> {
    let drawn = draw(cloud, &shot.view, style.filter, style.degree);
    let [left, top, width, height] = shot.window.map(|at| at as usize);
    let across = shot.view.size[0] as usize;
    let encoded = if style.linear {
        srgb::encode
    } else {
        |x: f32| x
    };
    let of = |at: usize| {
        let alpha = drawn.alpha[at];
        let [r, g, b] = drawn.colour[at].map(|x| byte(encoded(x / alpha.max(1e-6))));
        [r, g, b, byte(alpha)]
    };
    let rows = (top..top + height).map(|row| row * across + left);
    rows.flat_map(|first| (first..first + width).map(of))
        .collect()
}

/// dB of bytes, colours multiplied by alpha: what is clear has none.
fn likeness(found: &[[u8; 4]], wanted: &[[u8; 4]]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    let light = |[r, g, b, a]: [u8; 4]| {
        let a = f64::from(a);
        let [r, g, b] = [r, g, b].map(|x| f64::from(x) * a / 255.0);
        [r, g, b, a]
    };
    let squares = found.iter().zip(wanted).flat_map(|(&found, &wanted)| {
        let (found, wanted) = (light(found), light(wanted));
        (0..4).map(move |k| (found[k] - wanted[k]).powi(2))
    });
    let mean = squares.sum::<f64>() / (4 * found.len()) as f64;
    10.0 * (255.0 * 255.0 / mean.max(1e-9)).log10()
}

fn assert_alike(renderer: &mut SplatRenderer, cloud: &Cloud, style: SplatStyle, shots: &[Shot]) {
    let found = renderer.draw(shots).expect("drawn");
    for (shot, found) in shots.iter().zip(found) {
        let wanted = wanted(cloud, style, shot);
        let shown = wanted.iter().filter(|pixel| pixel[3] > 100).count();
        assert!(shown > wanted.len() / 4, "{shown} of {}", wanted.len());
        let alike = likeness(&found, &wanted);
        assert!(alike >= ALIKE, "{alike} {style:?} {:?}", shot.window);
    }
}

#[test]
fn the_device_draws_what_the_processor_draws() {
    let mut crop = whole(view([151, 133]));
    crop.window = [37, 21, 70, 85];
    let shots = [whole(view([151, 133])), crop];
    for degree in 0..=3 {
        for cloud in [soup(6000, degree), shell(6000, degree)] {
            for filter in FILTERS {
                // Both encodings, and degrees below the cloud's.
                let linear = degree % 2 == 1;
                let style = SplatStyle {
                    filter,
                    degree: if linear { degree } else { 9 },
                    linear,
                };
                let Some(mut renderer) = renderer(&cloud, style) else {
                    return;
                };
                assert_alike(&mut renderer, &cloud, style, &shots);
            }
        }
    }
}

#[test]
fn harmonics_above_the_degree_do_not_count() {
    let cloud = shell(3000, 3);
    let style = SplatStyle { degree: 1, ..STYLE };
    let Some(mut renderer) = renderer(&cloud, style) else {
        return;
    };
    assert_alike(&mut renderer, &cloud, style, &[whole(view([96, 96]))]);
}

/// A splat in front of the camera, of one colour.
fn disc(depth: f32, scale: f32, opacity: f32, colour: [f32; 3]) -> Splat {
    Splat {
        position: [0.0, 0.0, depth],
        scales: [scale; 3],
        rotation: [1.0, 0.0, 0.0, 0.0],
        opacity,
        constant: colour.map(|x| (x - 0.5) / kiln_splat::numbers::C0),
    }
}

fn cloud_of(splats: impl IntoIterator<Item = Splat>) -> Cloud {
    let mut cloud = Cloud::new(0);
    for splat in splats {
        assert!(cloud.push(&splat, &[]));
    }
    cloud
}

#[test]
fn splats_of_one_depth_keep_the_order_of_the_file() {
    const RED: [f32; 3] = [1.0, 0.0, 0.0];
    const GREEN: [f32; 3] = [0.0, 1.0, 0.0];
    // 2500 pairs of one depth, each with the red one first: more than a block of the sort. All but one are clear.
    let pairs = |first: [f32; 3], second: [f32; 3]| {
        cloud_of((0..2500).flat_map(|k| {
            let opacity = if k == 1700 { 0.6 } else { 0.0 };
            [
                disc(1.0, 10.0, opacity, first),
                disc(1.0, 10.0, opacity, second),
            ]
        }))
    };
    let shot = whole(ahead([32, 32]));
    for (cloud, order) in [(pairs(RED, GREEN), [0, 1]), (pairs(GREEN, RED), [1, 0])] {
        let Some(mut renderer) = renderer(&cloud, STYLE) else {
            return;
        };
        let drawn = renderer.draw(&[shot]).expect("drawn").remove(0);
        // 0.6 of the first and 0.4 · 0.6 of the second, over an alpha of 0.84.
        let mut colour = [0, 0, 0, 214];
        colour[order[0]] = 182;
        colour[order[1]] = 73;
        assert_eq!(drawn[16 * 32 + 16], colour);
    }
    // Every visible splat has the same depth, and there are more than a block of them.
    let many = cloud_of((0..5000_u32).map(|k| {
        let colour = [k % 2, k / 2 % 2, k / 4 % 2].map(|bit| bit as f32);
        disc(1.0, 0.1 + 0.0001 * k as f32, 0.01, colour)
    }));
    let Some(mut renderer) = renderer(&many, STYLE) else {
        return;
    };
    assert_alike(&mut renderer, &many, STYLE, &[whole(ahead([40, 40]))]);
}

#[test]
fn a_tile_may_have_more_splats_than_a_dispatch_blends() {
    // 90,000 in one tile, each over about a pixel and so clear that light reaches the last; from behind.
    let splats = (0..90_000_u32).map(|k| {
        let colour = [turn(k, 3), turn(k, 5), turn(k, 7)].map(|x| 0.5 + 0.5 * x);
        let behind = disc(2.0 - k as f32 * 1e-5, 1e-4, 0.007, colour);
        let [x, y] = [turn(k, 11) * 8.0 - 4.0, turn(k, 13) * 8.0 - 2.0];
        let [x, y] = [x, y].map(|pixels| pixels * behind.position[2] / 64.0);
        Splat {
            position: [x, y, behind.position[2]],
            ..behind
        }
    });
    let cloud = cloud_of(splats);
    let shot = whole(ahead([24, 20]));
    let Some(mut renderer) = renderer(&cloud, STYLE) else {
        return;
    };
    assert_alike(&mut renderer, &cloud, STYLE, &[shot]);
}

#[test]
fn splats_at_the_camera_and_over_the_whole_picture_are_drawn() {
    let mut all = vec![
        disc(-1.0, 0.5, 0.9, [1.0, 0.0, 0.0]),
        disc(0.0, 0.5, 0.9, [1.0, 0.0, 0.0]),
        disc(0.0099, 0.5, 0.9, [1.0, 0.0, 0.0]),
        disc(0.0101, 0.003, 0.5, [0.0, 0.0, 1.0]),
        disc(0.02, 1e-4, 0.7, [0.0, 1.0, 1.0]),
        disc(5.0, 1000.0, 0.5, [0.0, 1.0, 0.0]),
        disc(6.0, 1e9, 0.5, [0.3, 0.2, 0.1]),
        // Its covariance has no f32.
        disc(0.02, 1e19, 0.5, [1.0, 0.0, 0.0]),
        disc(7.0, 0.0, 0.9, [1.0, 1.0, 1.0]),
    ];
    for k in 0..300 {
        let at = [
            4.0 * turn(k, 17),
            4.0 * turn(k, 29),
            2.0 + 1.99 * turn(k, 31),
        ];
        all.push(Splat {
            position: at,
            scales: [2.0, 0.001, 0.4],
            rotation: [1.0, turn(k, 7), turn(k, 11), turn(k, 23)],
            ..disc(0.0, 0.0, 0.3, [turn(k, 3).abs(), 0.4, 0.9])
        });
    }
    let cloud = cloud_of(all);
    let Some(mut renderer) = renderer(&cloud, STYLE) else {
        return;
    };
    let shots = [whole(ahead([131, 77])), whole(ahead([16, 200]))];
    assert_alike(&mut renderer, &cloud, STYLE, &shots);
}

#[test]
fn nothing_is_drawn_of_nothing() {
    let behind = cloud_of([disc(-1.0, 0.5, 0.9, [1.0; 3])]);
    let faint = cloud_of([disc(1.0, 0.5, 0.003, [1.0; 3])]);
    let one = cloud_of([disc(1.0, 0.5, 0.9, [1.0; 3])]);
    let shot = whole(ahead([33, 20]));
    let mut empty = shot;
    empty.window = [5, 5, 0, 7];
    let mut beside = shot;
    beside.view.translation[0] = 100.0;
    for cloud in [&Cloud::new(0), &behind, &faint] {
        let Some(mut renderer) = renderer(cloud, STYLE) else {
            return;
        };
        let drawn = renderer.draw(&[shot, empty]).expect("drawn");
        assert_eq!(drawn, [vec![[0; 4]; 33 * 20], vec![]]);
    }
    let Some(mut renderer) = renderer(&one, STYLE) else {
        return;
    };
    assert!(renderer.draw(&[]).expect("drawn").is_empty());
    let drawn = renderer
        .draw(&[empty, shot, beside, empty, shot])
        .expect("drawn");
    assert_eq!(drawn[1][10 * 33 + 16][3], 229);
    assert_eq!(drawn[1], wanted(&one, STYLE, &shot));
    assert_eq!(drawn[2], vec![[0; 4]; 33 * 20]);
    assert_eq!(drawn[4], drawn[1]);
}

#[test]
fn bytes_are_the_same_however_a_view_is_cut() {
    let cloud = soup(9000, 1);
    let style = SplatStyle { degree: 1, ..STYLE };
    let mut far = view([140, 200]);
    far.translation[2] = 4.0;
    let mut crop = whole(view([151, 133]));
    crop.window = [3, 5, 130, 60];
    let all = whole(view([151, 133]));
    let shots = [all, whole(far), crop, all, crop, whole(far)];
    let Some(mut renderer) = renderer(&cloud, style) else {
        return;
    };
    let together = renderer.draw(&shots).expect("drawn");
    for (shot, drawn) in shots.iter().zip(&together) {
        assert!(
            renderer.draw(&[*shot]).expect("drawn")[0] == *drawn,
            "one view"
        );
    }
    // Room for one row of tiles or two; and as many entries as three batches have, or fewer than one.
    let cuts: [fn(&mut Room); 4] = [
        |room| room.pairs = 20_000,
        |room| room.entries = 700,
        |room| room.entries = 100,
        |room| (room.pairs, room.entries) = (20_000, 512),
    ];
    for (nth, cut) in cuts.into_iter().enumerate() {
        let mut renderer = renderer_within(&cloud, style, cut).expect("an adapter");
        assert!(renderer.draw(&shots).expect("drawn") == together, "{nth}");
    }
}

#[test]
fn two_threads_draw_on_one_device() {
    let (cloud, shots) = (soup(4000, 0), [whole(view([151, 133])); 6]);
    let Some(device) = device() else {
        return;
    };
    let sibling = device.sibling().expect("a sibling");
    let made = [device, sibling].map(|device| SplatRenderer::new(&device, &cloud, STYLE, BYTES));
    let [mut one, mut other] = made.map(|made| made.expect("stages").expect("room"));
    // What each asks for and gets done is counted apart.
    let [one, other] = std::thread::scope(|scope| {
        let other = scope.spawn(|| other.draw(&shots).expect("drawn"));
        let one = one.draw(&shots).expect("drawn");
        [one, other.join().expect("no panic")]
    });
    assert!(one == other && one.iter().all(|picture| *picture == one[0]));
    assert!(likeness(&one[0], &wanted(&cloud, STYLE, &shots[0])) >= ALIKE);
}

#[test]
fn more_pairs_get_room_where_a_row_of_tiles_needs_it() {
    // 50,000 splats over 200 tiles across: more pairs in a row than there is room for at first.
    let splats = (0..50_000).map(|k| disc(1.0 + k as f32 * 1e-5, 300.0, 0.004, [0.2, 0.5, 0.7]));
    let cloud = cloud_of(splats);
    let mut shot = whole(ahead([3200, 8]));
    let Some(mut renderer) = renderer(&cloud, STYLE) else {
        return;
    };
    let before = renderer.bytes();
    assert_alike(&mut renderer, &cloud, STYLE, &[shot]);
    assert!(renderer.bytes() > before + (32 << 20), "{before}");
    shot.window = [0, 0, 16, 8];
    assert_alike(&mut renderer, &cloud, STYLE, &[shot]);
}

#[test]
fn what_has_no_room_is_said() {
    let cloud = soup(20_000, 0);
    let Some(device) = device() else {
        return;
    };
    let small = SplatRenderer::new(&device, &cloud, STYLE, 1 << 20);
    assert!(small.expect("no error").is_none());
    let few = Room {
        pairs: 100,
        ..Room::of(&device, BYTES)
    };
    let renderer = SplatRenderer::within(device, &cloud, STYLE, few).expect("stages");
    let mut renderer = renderer.expect("room");
    let before = renderer.bytes();
    assert!(before > 20_000 * 100 && before < BYTES, "{before}");
    let error = renderer
        .draw(&[whole(view([151, 133]))])
        .expect_err("no room");
    let text = error.to_string();
    assert!(text.contains("room for 100 pairs"), "{text}");
    // It goes on with what has room.
    let nothing = renderer.draw(&[whole(ahead([0, 0]))]).expect("drawn");
    assert!(nothing[0].is_empty());
}
