use crate::bake::fixture::{Random, around, camera, paint, sphere, view, waves};
use crate::bake::intake::refine::camera::tests::shape;
use crate::bake::intake::refine::exposure::divide;
use crate::bake::intake::refine::gain::*;
use crate::bake::model::scene::Scene;

/// Samples of each view at these gains, with noise; every view sees some of the cells. A share `wrong` of the samples
/// is far off.
fn said(gains: &[f64], cells: u32, noise: f64, wrong: f64) -> Vec<Vec<Sample>> {
    let mut random = Random(8);
    let truth: Vec<f64> = (0..cells).map(|_| random.within(-3.0, 0.0)).collect();
    gains
        .iter()
        .map(|gain| {
            let mut of_view = Vec::new();
            for (cell, light) in (0..).zip(&truth) {
                if random.within(0.0, 1.0) < 0.3 {
                    let odd = if random.within(0.0, 1.0) < wrong {
                        1.0
                    } else {
                        0.0
                    };
                    let said = gain.ln() + light + noise * random.within(-1.0, 1.0) + odd;
                    of_view.push((cell, [said as f32, 0.0, 0.0]));
                }
            }
            of_view
        })
        .collect()
}

fn said_of(scene: &Scene, views: &[View], grid: LightGrid) -> Vec<Vec<Sample>> {
    let said = |view: &View| {
        let sums = &mut LightSums::default();
        samples(shape(scene), view, &view.camera, grid, sums)
    };
    views.iter().map(said).collect()
}

/// The gains within the groups that the samples show.
fn solved(views: &[Vec<Sample>], part: Part) -> Option<Exposures> {
    solve(views, &groups(views), part)
}

fn centred(gains: &[f64]) -> Vec<f64> {
    let mean = gains.iter().map(|gain| gain.ln()).sum::<f64>() / gains.len() as f64;
    gains.iter().map(|gain| gain.ln() - mean).collect()
}

#[test]
fn gains_are_found_whatever_the_surface_and_its_highlights() {
    let mut random = Random(2);
    let gains: Vec<f64> = (0..12).map(|_| random.within(0.85, 1.15)).collect();
    let wanted = centred(&gains);
    for (noise, wrong, within) in [(0.0, 0.0, 1e-6), (0.05, 0.0, 3e-3), (0.02, 0.1, 3e-3)] {
        let found =
            solved(&said(&gains, 4000, noise, wrong), Part::Exposure).expect("they overlap");
        for (found, wanted) in found.logs.iter().zip(&wanted) {
            let off = found.expect("known") - wanted;
            assert!(off.abs() < within, "{noise} {wrong}: {off}");
        }
        let [before, after] = found.deviation;
        assert!(after < 0.7 * before, "{before} {after}");
    }
}

#[test]
fn the_solution_is_that_of_all_unknowns_at_once() {
    // Alternating between gains and surface ends at the same place, slowly.
    let views = said(&[0.9, 1.1, 1.3, 0.7], 60, 0.2, 0.0);
    let mut cells = SharedCells::none();
    cells.add(&views, &[0, 1, 2, 3], Part::Exposure, MOST_PRODUCTS);
    let weight = |word: &Word| 0.5 + 0.1 * f64::from(word.view);
    let mut weights: Vec<f64> = cells.words.iter().map(weight).collect();
    let mut gains = vec![0.0; 4];
    for _ in 0..3000 {
        let mut sums = vec![[0.0; 2]; 4];
        // What each observation leaves beyond the cell's mean and its own gain.
        let rests = cells.residuals(weights.clone(), &gains);
        for ((word, weight), rest) in cells.words.iter().zip(&weights).zip(rests) {
            let sum = &mut sums[word.view as usize];
            sum[0] += weight * rest;
            sum[1] += weight;
        }
        for (gain, sum) in gains.iter_mut().zip(sums) {
            *gain += sum[0] / sum[1];
        }
    }
    let found = balanced(&cells, &mut weights, 4);
    let off = found[0] - gains[0];
    for (found, gain) in found.iter().zip(gains) {
        assert!((found - gain - off).abs() < 1e-9, "{found} {gain}");
    }
}

#[test]
fn views_that_share_nothing_are_not_compared() {
    let mut views = said(&[1.0, 1.2, 0.9], 2000, 0.01, 0.0);
    views.push((3000..3500).map(|cell| (cell, [-1.0, 0.0, 0.0])).collect());
    let found = solved(&views, Part::Exposure).expect("three overlap");
    assert_eq!(found.logs[3], None);
    let wanted = centred(&[1.0, 1.2, 0.9]);
    for (found, wanted) in found.logs.iter().zip(wanted) {
        assert!((found.expect("known") - wanted).abs() < 2e-3);
    }
    assert_eq!(solved(&views[..1], Part::Exposure), None);
    assert_eq!(solved(&[], Part::Exposure), None);
}

#[test]
fn groups_that_share_next_to_nothing_are_exposed_each_for_itself() {
    // Cells of one group that fall into hash slots of the other say that it is three times as bright.
    let gains = [0.9, 1.1, 1.0, 1.05];
    let mut views = said(&gains, 2000, 0.01, 0.0);
    let other = said(&gains, 2000, 0.01, 0.0);
    views.extend(other.into_iter().map(|samples| {
        let moved = |(cell, [light, ..]): Sample| (cell + 1980, [light + 1.1, 0.0, 0.0]);
        samples.into_iter().map(moved).collect()
    }));
    assert_eq!(groups(&views), [[0, 1, 2, 3], [4, 5, 6, 7]]);
    let found = solved(&views, Part::Exposure).expect("four overlap, twice");
    let wanted = centred(&gains);
    for (found, wanted) in found.logs.iter().zip(wanted.iter().chain(&wanted)) {
        assert!(
            (found.expect("known") - wanted).abs() < 2e-3,
            "{found:?} {wanted}"
        );
    }
}

#[test]
fn pictures_of_one_object_give_their_gains() {
    let mesh = sphere(64, 48);
    let scene = Scene::new(&mesh, 256);
    let texture = paint(&mesh, 256, waves);
    let gains = [0.87, 1.12, 1.0, 1.05, 0.93, 1.1, 0.97, 0.9];
    let mut views: Vec<View> = (0..8)
        .map(|k| {
            let size = [120, 110];
            let camera = camera(around(k, 8, 3.0), 130.0, size, [2.0, -1.0]);
            view(k, &mesh, &texture, camera, size)
        })
        .collect();
    let samples = |views: &[View]| said_of(&scene, views, LightGrid::of(views, shape(&scene)));
    let clean = samples(&views);
    for part in [Part::Exposure, Part::Red, Part::Blue] {
        let clean = solved(&clean, part).expect("they overlap");
        for log in &clean.logs {
            let log = log.expect("known");
            assert!(log.abs() < 0.004, "{log} where there is no gain");
        }
    }
    // A white balance leaves the mean of all channels as it is.
    let red = |k: usize| 0.02 * (k % 4) as f64;
    for (k, (view, gain)) in views.iter_mut().zip(gains).enumerate() {
        divide(
            view,
            [-red(k), red(k), 0.0].map(|tint: f64| tint.exp() / gain),
        );
    }
    let samples = samples(&views);
    let reds = [0, 1, 2, 3, 4, 5, 6, 7].map(|k| red(k).exp());
    for (part, gains) in [
        (Part::Exposure, gains),
        (Part::Red, reds),
        (Part::Blue, [1.0; 8]),
    ] {
        let found = solved(&samples, part).expect("they overlap");
        for (found, wanted) in found.logs.iter().zip(centred(&gains)) {
            let off = found.expect("known") - wanted;
            assert!(off.abs() < 0.004, "{part:?}: {off}");
        }
    }
}

#[test]
fn opposite_sides_of_a_plate_and_of_a_sheet_are_not_compared() {
    // A plate thinner than any cell.
    let side = |z: f32| {
        let corner = |x: f32, y: f32| [x * z.signum(), y, z];
        [[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]].map(|[x, y]| corner(x, y))
    };
    let mut plate = crate::bake::fixture::cube();
    plate.positions = [side(0.001), side(-0.001)].concat();
    plate.positions.iter_mut().for_each(|at| at[2] += 0.01);
    let half = |u: [f32; 2]| [[u[0], 0.0], [u[1], 0.0], [u[1], 1.0], [u[0], 1.0]];
    plate.uvs = [half([0.0, 0.5]), half([0.5, 1.0])].concat();
    plate.triangles = vec![[0, 1, 2], [0, 2, 3], [4, 5, 6], [4, 6, 7]];
    let texture = paint(&plate, 256, |at| {
        let bright = if at[2] > 0.01 { 0.9 } else { 0.4 };
        waves(at.map(|x| 3.0 * x)).map(|value| bright * value)
    });
    let views: Vec<View> = [
        [0.0, 0.0, 3.0],
        [0.3, 0.2, 3.0],
        [0.0, 0.0, -3.0],
        [0.3, 0.2, -3.0],
    ]
    .into_iter()
    .zip(0..)
    .map(|(eye, index)| {
        view(
            index,
            &plate,
            &texture,
            camera(eye, 200.0, [200; 2], [0.0; 2]),
            [200; 2],
        )
    })
    .collect();
    let apart = |triangles: &[[u32; 3]]| {
        let scene = Scene {
            triangles: triangles.to_vec(),
            ..Scene::new(&plate, 256)
        };
        let grid = LightGrid {
            edge: 0.05,
            stride: 1,
        };
        let logs = solved(&said_of(&scene, &views, grid), Part::Exposure)
            .expect("views of one side overlap");
        let logs: Vec<f64> = (logs.logs.iter())
            .map(|log| log.expect("of either side"))
            .collect();
        (logs[0] - logs[2]).abs()
    };
    let both = apart(&plate.triangles);
    assert!(both < 0.01, "{both}");
    let sheet = apart(&plate.triangles[..2]);
    assert!(sheet < 0.01, "{sheet}");
}

#[test]
fn a_cell_is_one_place_that_looks_one_way() {
    let up = [0.0, 0.1, 2.0];
    let of = |at: [f64; 3], normal| cell(at, normal, 0.1);
    let here = of([0.52, 0.31, -0.24], up);
    assert_eq!(here, of([0.58, 0.39, -0.21], [0.5, -0.4, 0.9]));
    for at in [
        [0.62, 0.31, -0.24],
        [0.52, 0.41, -0.24],
        [0.52, 0.31, -0.14],
    ] {
        assert_ne!(here, of(at, up), "{at:?}");
    }
    for other in [[0.0, 0.1, -2.0], [3.0, 0.1, 2.0], [0.0, -3.0, 2.0]] {
        assert_ne!(here, of([0.52, 0.31, -0.24], other), "{other:?}");
    }
}
