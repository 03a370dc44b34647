//! The renderer against a plain one in f64, pixel by pixel over all splats, which knows no tiles, no boxes and no lanes.

use kiln_splat::{Cloud, Filter, Picture, Splat, View, coefficients, draw};

/// Numbers from 0 to 1, the same each time (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1_u64 << 24) as f32
    }

    fn around(&mut self, size: f32) -> f32 {
        (2.0 * self.next() - 1.0) * size
    }
}

type Matrix = [[f64; 3]; 3];

fn times(a: &Matrix, b: &Matrix) -> Matrix {
    std::array::from_fn(|r| std::array::from_fn(|c| (0..3).map(|k| a[r][k] * b[k][c]).sum()))
}

fn transposed(a: &Matrix) -> Matrix {
    std::array::from_fn(|r| std::array::from_fn(|c| a[c][r]))
}

fn rotation(q: [f32; 4]) -> Matrix {
    let [w, x, y, z] = q.map(f64::from);
    [
        [
            1.0 - 2.0 * (y * y + z * z),
            2.0 * (x * y - w * z),
            2.0 * (x * z + w * y),
        ],
        [
            2.0 * (x * y + w * z),
            1.0 - 2.0 * (x * x + z * z),
            2.0 * (y * z - w * x),
        ],
        [
            2.0 * (x * z - w * y),
            2.0 * (y * z + w * x),
            1.0 - 2.0 * (x * x + y * y),
        ],
    ]
}

/// Harmonics by their polynomials, written out.
fn colour(constant: [f32; 3], harmonics: &[[f32; 3]], degree: usize, d: [f64; 3]) -> [f64; 3] {
    let [x, y, z] = d;
    let (c1, pi) = (
        (3.0 / (4.0 * std::f64::consts::PI)).sqrt(),
        std::f64::consts::PI,
    );
    let second = (15.0 / (4.0 * pi)).sqrt();
    let third = [
        (35.0 / (32.0 * pi)).sqrt(),
        (105.0 / (4.0 * pi)).sqrt(),
        (21.0 / (32.0 * pi)).sqrt(),
        (7.0 / (16.0 * pi)).sqrt(),
    ];
    let basis = [
        -c1 * y,
        c1 * z,
        -c1 * x,
        second * x * y,
        -second * y * z,
        (5.0 / (16.0 * pi)).sqrt() * (2.0 * z * z - x * x - y * y),
        -second * x * z,
        0.5 * second * (x * x - y * y),
        -third[0] * y * (3.0 * x * x - y * y),
        third[1] * x * y * z,
        -third[2] * y * (4.0 * z * z - x * x - y * y),
        third[3] * z * (2.0 * z * z - 3.0 * x * x - 3.0 * y * y),
        -third[2] * x * (4.0 * z * z - x * x - y * y),
        0.5 * third[1] * z * (x * x - y * y),
        -third[0] * x * (x * x - 3.0 * y * y),
    ];
    let count = coefficients(degree).min(harmonics.len());
    std::array::from_fn(|k| {
        let sum = (0..count)
            .map(|i| basis[i] * f64::from(harmonics[i][k]))
            .sum::<f64>();
        (0.5 + (1.0 / (4.0 * pi)).sqrt() * f64::from(constant[k]) + sum).max(0.0)
    })
}

struct Seen {
    centre: [f64; 2],
    conic: [f64; 3],
    square: f64,
    opacity: f64,
    colour: [f64; 3],
    depth: f64,
}

fn seen(cloud: &Cloud, index: usize, view: &View, filter: Filter, degree: usize) -> Option<Seen> {
    let r: Matrix = view.rotation.map(|row| row.map(f64::from));
    let t = view.translation.map(f64::from);
    let at = cloud.positions[index].map(f64::from);
    let p: [f64; 3] = std::array::from_fn(|k| (0..3).map(|c| r[k][c] * at[c]).sum::<f64>() + t[k]);
    if p[2] <= 0.01 {
        return None;
    }
    let [fx, fy] = view.focal.map(f64::from);
    let [w, h] = view.size.map(f64::from);
    let (most_u, most_v) = (1.3 * w / (2.0 * fx), 1.3 * h / (2.0 * fy));
    let u = (p[0] / p[2]).clamp(-most_u, most_u);
    let v = (p[1] / p[2]).clamp(-most_v, most_v);
    let turn = rotation(cloud.rotations[index]);
    let scales = cloud.scales[index].map(f64::from);
    let scaled: Matrix = turn.map(|row| std::array::from_fn(|k| row[k] * scales[k]));
    let covariance = times(&scaled, &transposed(&scaled));
    let jacobian: Matrix = [
        [fx / p[2], 0.0, -fx * u / p[2]],
        [0.0, fy / p[2], -fy * v / p[2]],
        [0.0; 3],
    ];
    let to = times(&jacobian, &r);
    let s = times(&times(&to, &covariance), &transposed(&to));
    let (blur, mip) = match filter {
        Filter::Classic(blur) => (f64::from(blur), false),
        Filter::Mip(blur) => (f64::from(blur), true),
    };
    let bare = (s[0][0] * s[1][1] - s[0][1] * s[0][1]).max(if mip { 1e-6 } else { 0.0 });
    let (a, b, c) = (s[0][0] + blur, s[0][1], s[1][1] + blur);
    let det = a * c - b * b;
    let share = (bare / det.max(1e-6)).clamp(0.0, 1.0).sqrt();
    let own = f64::from(cloud.opacities[index]);
    let middle = 0.5 * (a + c);
    let back = transposed(&r);
    let eye: [f64; 3] = std::array::from_fn(|k| -(0..3).map(|c| back[k][c] * t[c]).sum::<f64>());
    let along: [f64; 3] = std::array::from_fn(|k| at[k] - eye[k]);
    let length = along.iter().map(|x| x * x).sum::<f64>().sqrt();
    let count = coefficients(cloud.degree);
    Some(Seen {
        centre: [
            fx * p[0] / p[2] + f64::from(view.centre[0]),
            fy * p[1] / p[2] + f64::from(view.centre[1]),
        ],
        conic: [c / det, -b / det, a / det],
        square: (3.0 * (middle + (middle * middle - det).max(0.1).sqrt()).sqrt()).ceil(),
        opacity: if mip { own * share } else { own },
        colour: colour(
            cloud.constants[index],
            &cloud.harmonics[index * count..][..count],
            degree,
            along.map(|x| x / length),
        ),
        depth: p[2],
    })
}

/// Red, green, blue, alpha, mean depth and median depth of each pixel.
fn reference(cloud: &Cloud, view: &View, filter: Filter, degree: usize) -> Vec<[f64; 6]> {
    let all = (0..cloud.len()).filter_map(|index| seen(cloud, index, view, filter, degree));
    let mut all: Vec<Seen> = all.collect();
    all.sort_by(|a, b| (a.depth as f32).total_cmp(&(b.depth as f32)));
    let [width, height] = view.size;
    let pixels = (0..width * height).map(|at| {
        let place = [f64::from(at % width) + 0.5, f64::from(at / width) + 0.5];
        let (mut through, mut sum, mut median) = (1.0, [0.0; 4], 0.0);
        for splat in &all {
            let [dx, dy] = [0, 1].map(|k| place[k] - splat.centre[k]);
            if dx.abs() > splat.square || dy.abs() > splat.square {
                continue;
            }
            let [xx, xy, yy] = splat.conic;
            let power = -0.5 * (xx * dx * dx + yy * dy * dy) - xy * dx * dy;
            let alpha = (splat.opacity * power.exp()).min(0.99);
            if power > 0.0 || alpha < 1.0 / 255.0 {
                continue;
            }
            let after: f64 = through * (1.0 - alpha);
            if after < 1e-4 {
                break;
            }
            for (k, colour) in splat.colour.into_iter().enumerate() {
                sum[k] += alpha * through * colour;
            }
            sum[3] += alpha * through * splat.depth;
            if through > 0.5 && after <= 0.5 {
                median = splat.depth;
            }
            through = after;
        }
        let shown = 1.0 - through;
        [
            sum[0],
            sum[1],
            sum[2],
            shown,
            sum[3] / shown.max(1e-9),
            median,
        ]
    });
    pixels.collect()
}

/// Decibels of colour and alpha, and the share of pixels whose depths differ by more than 10⁻⁴ of the depth.
fn compared(picture: &Picture, wanted: &[[f64; 6]]) -> (f64, f64) {
    let (mut squares, mut off) = (0.0, 0);
    for (at, wanted) in wanted.iter().enumerate() {
        let [r, g, b] = picture.colour[at].map(f64::from);
        let alpha = f64::from(picture.alpha[at]);
        for (found, wanted) in [r, g, b, alpha].into_iter().zip(wanted) {
            squares += (found - wanted).powi(2) / 4.0;
        }
        let depths = [picture.mean[at], picture.median[at]].map(f64::from);
        let far = |k: usize| (depths[k] - wanted[4 + k]).abs() > 1e-4 * wanted[4 + k].max(1.0);
        // Where almost nothing shows, the mean is a quotient of rounding.
        off += usize::from((alpha > 0.01 && far(0)) || far(1));
    }
    let mean = squares / wanted.len() as f64;
    (
        -10.0 * mean.max(1e-20).log10(),
        off as f64 / wanted.len() as f64,
    )
}

fn view(size: [u32; 2]) -> View {
    let (sin, cos) = 0.3_f32.sin_cos();
    View {
        rotation: [[cos, 0.0, -sin], [0.0, 1.0, 0.0], [sin, 0.0, cos]],
        translation: [0.1, -0.05, 2.5],
        focal: [70.0, 78.0],
        centre: [0.53 * size[0] as f32, 0.46 * size[1] as f32],
        size,
    }
}

/// A ball of splats of every form, some behind the camera and some beside the picture.
fn ball(count: usize, degree: usize, seed: u64) -> Cloud {
    let mut numbers = Numbers(seed);
    let mut cloud = Cloud::new(degree);
    for _ in 0..count {
        let splat = Splat {
            position: [0; 3].map(|_| numbers.around(1.5)),
            scales: [0; 3].map(|_| 0.003 * 60.0_f32.powf(numbers.next())),
            rotation: [0; 4].map(|_| numbers.around(1.0)),
            opacity: numbers.next(),
            constant: [0; 3].map(|_| numbers.around(2.0)),
        };
        let harmonics: Vec<[f32; 3]> = (0..coefficients(degree))
            .map(|_| [0; 3].map(|_| numbers.around(0.4)))
            .collect();
        assert!(cloud.push(&splat, &harmonics), "{splat:?}");
    }
    cloud
}

#[test]
fn it_draws_what_a_plain_renderer_draws() {
    for (filter, degree, drawn, seed) in [
        (Filter::Classic(0.3), 0, 0, 1),
        (Filter::Mip(0.1), 0, 0, 2),
        (Filter::Classic(0.3), 3, 3, 3),
        (Filter::Mip(0.3), 2, 2, 4),
        (Filter::Mip(0.1), 3, 1, 5),
        (Filter::Classic(0.0), 1, 3, 6),
    ] {
        let cloud = ball(3000, degree, seed);
        let view = view([93, 71]);
        let picture = draw(&cloud, &view, filter, drawn);
        let (decibel, off) = compared(&picture, &reference(&cloud, &view, filter, drawn));
        assert!(
            decibel >= 70.0 && off <= 0.005,
            "{filter:?} {degree}: {decibel:.1} dB, {off}"
        );
    }
}

/// Ties in depth keep the order of the cloud, and the other order is another picture.
#[test]
fn ties_are_drawn_in_the_order_of_the_cloud() {
    let disc = |constant: f32| Splat {
        position: [0.0, 0.0, 2.0],
        scales: [0.3, 0.3, 0.0],
        rotation: [1.0, 0.0, 0.0, 0.0],
        opacity: 0.8,
        constant: [constant, 0.0, 0.0],
    };
    let view = View {
        rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        translation: [0.0; 3],
        ..view([40, 40])
    };
    let reds = [[1.0, -1.0], [-1.0, 1.0]].map(|constants| {
        let mut cloud = Cloud::new(0);
        for constant in constants {
            assert!(cloud.push(&disc(constant), &[]));
        }
        let filter = Filter::Classic(0.3);
        let picture = draw(&cloud, &view, filter, 0);
        let (decibel, _) = compared(&picture, &reference(&cloud, &view, filter, 0));
        assert!(decibel >= 70.0, "{decibel}");
        picture.colour[20 * 40 + 20][0]
    });
    assert!(reds[0] > reds[1] + 0.2, "{reds:?}");
}

/// Far beyond what is usual: giants, needles, many layers, the camera among them.
#[test]
fn odd_splats_are_drawn_as_they_are() {
    let mut numbers = Numbers(77);
    let mut cloud = Cloud::new(0);
    for k in 0..1500 {
        let scale = [1e-6, 0.02, 5.0][k % 3];
        let splat = Splat {
            position: [0; 3].map(|_| numbers.around(3.0)),
            scales: [scale, 0.01, if k % 2 == 0 { 0.0 } else { scale }],
            rotation: [0; 4].map(|_| numbers.around(1.0)),
            opacity: [0.001, 0.1, 1.0][k % 3],
            constant: [0; 3].map(|_| numbers.around(2.0)),
        };
        assert!(cloud.push(&splat, &[]));
    }
    for filter in [Filter::Classic(0.3), Filter::Mip(0.1)] {
        let view = view([64, 48]);
        let picture = draw(&cloud, &view, filter, 0);
        assert!(
            picture
                .alpha
                .iter()
                .all(|alpha| (0.0..=1.0).contains(alpha))
        );
        let (decibel, _) = compared(&picture, &reference(&cloud, &view, filter, 0));
        assert!(decibel >= 60.0, "{filter:?}: {decibel:.1} dB");
    }
}

#[test]
fn the_oracle_tells_another_filter_degree_and_place() {
    let cloud = ball(3000, 3, 9);
    let at = view([93, 71]);
    let wanted = reference(&cloud, &at, Filter::Mip(0.1), 3);
    let moved = View {
        centre: [at.centre[0] + 0.5, at.centre[1]],
        ..at
    };
    for picture in [
        draw(&cloud, &at, Filter::Classic(0.1), 3),
        draw(&cloud, &at, Filter::Mip(0.3), 3),
        draw(&cloud, &at, Filter::Mip(0.1), 2),
        draw(&cloud, &moved, Filter::Mip(0.1), 3),
    ] {
        let (decibel, _) = compared(&picture, &wanted);
        assert!(decibel < 50.0, "{decibel:.1} dB");
    }
}

/// Any number of threads, and a picture of no pixels.
#[test]
fn threads_change_nothing() {
    let cloud = ball(2000, 1, 11);
    let at = view([93, 71]);
    let pictures = [1, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("threads")
            .install(|| draw(&cloud, &at, Filter::Mip(0.1), 1))
    });
    assert_eq!(pictures[0], pictures[1]);
    let none = View { size: [0, 5], ..at };
    assert_eq!(draw(&cloud, &none, Filter::Mip(0.1), 1), Picture::default());
}
