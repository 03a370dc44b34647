//! Whole atlases, checked texel by texel: no overlap, gaps kept, valid as a table.

use std::collections::HashMap;

use super::planar::neighbours;
use super::*;
use crate::prepare::clean::{self, CleanMesh};
use crate::prepare::load::{NoUvs, RawMesh};
use crate::prepare::normals::{cross, sub};
use crate::progress::Silent;

const PATIENCE: Duration = Duration::from_secs(60);

/// The unit sphere of 20 · 4^level triangles.
pub(crate) fn icosphere(level: u32) -> CleanMesh {
    let t = f32::midpoint(1.0, 5f32.sqrt());
    let mut positions: Vec<[f32; 3]> = Vec::new();
    for (a, b) in [(-1.0, t), (1.0, t), (-1.0, -t), (1.0, -t)] {
        positions.extend([[a, b, 0.0], [0.0, a, b], [b, 0.0, a]]);
    }
    let length = |p: [f32; 3]| p.iter().map(|x| x * x).sum::<f32>().sqrt();
    // All triples whose sides have the icosahedron's length, wound outwards.
    let near = |a: usize, b: usize| {
        (length(std::array::from_fn(|k| positions[a][k] - positions[b][k])) - 2.0).abs() < 1e-3
    };
    let mut triangles: Vec<[u32; 3]> = Vec::new();
    for a in 0..12 {
        for b in a + 1..12 {
            for c in b + 1..12 {
                if near(a, b) && near(b, c) && near(c, a) {
                    let [p, q, r] = [a, b, c].map(|i| positions[i].map(f64::from));
                    let n = cross(sub(q, p), sub(r, p));
                    let outward = n[0] * p[0] + n[1] * p[1] + n[2] * p[2] > 0.0;
                    let [a, b, c] = [a, b, c].map(|i| i as u32);
                    triangles.push(if outward { [a, b, c] } else { [a, c, b] });
                }
            }
        }
    }
    for _ in 0..level {
        let mut middles: HashMap<(u32, u32), u32> = HashMap::new();
        let mut finer = Vec::new();
        for [a, b, c] in triangles {
            let mut middle = |a: u32, b: u32| {
                *middles.entry((a.min(b), a.max(b))).or_insert_with(|| {
                    let (p, q) = (positions[a as usize], positions[b as usize]);
                    positions.push(std::array::from_fn(|k| f32::midpoint(p[k], q[k])));
                    positions.len() as u32 - 1
                })
            };
            let (ab, bc, ca) = (middle(a, b), middle(b, c), middle(c, a));
            finer.extend([[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]]);
        }
        triangles = finer;
    }
    let positions = positions
        .into_iter()
        .map(|p| p.map(|x| x / length(p)))
        .collect();
    surface(positions, triangles)
}

fn surface(positions: Vec<[f32; 3]>, triangles: Vec<[u32; 3]>) -> CleanMesh {
    clean::clean(&RawMesh {
        positions,
        uvs: Err(NoUvs::NotAsked),
        triangles,
    })
    .unwrap()
}

/// Pseudo-random numbers from -1 to 1, the same everywhere.
fn noise(state: &mut u64) -> f32 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

fn soup(count: u32, size: f32) -> CleanMesh {
    let mut state = 7;
    let mut positions = Vec::new();
    for _ in 0..count {
        let centre: [f32; 3] = std::array::from_fn(|_| noise(&mut state));
        positions.extend((0..3).map(|_| centre.map(|x| x + size * noise(&mut state))));
    }
    surface(
        positions,
        (0..count).map(|i| [3 * i, 3 * i + 1, 3 * i + 2]).collect(),
    )
}

/// The chart of each vertex, by connectivity.
fn charts_of(mesh: &Mesh) -> Vec<u32> {
    let mut chart: Vec<u32> = (0..mesh.positions.len() as u32).collect();
    loop {
        let before = chart.clone();
        for corners in &mesh.triangles {
            let least = corners
                .map(|corner| chart[corner as usize])
                .into_iter()
                .min()
                .unwrap();
            for corner in corners {
                chart[*corner as usize] = least;
            }
        }
        if chart == before {
            return chart;
        }
    }
}

/// No texel twice, no two charts within `gap` texels, none within a texel of the border, and a valid table.
fn check(surface: &CleanMesh, unwrapped: &Unwrapped, size: u32, gap: usize) {
    let mesh = &unwrapped.mesh;
    let mut bytes = Vec::new();
    mesh.write(&mut bytes).unwrap();
    assert_eq!(&Mesh::read(&mut bytes.as_slice()).unwrap(), mesh);
    assert_eq!(mesh.triangles.len(), surface.triangles.len());
    for (corners, points) in mesh.triangles.iter().zip(&surface.triangles) {
        assert_eq!(
            &corners.map(|corner| mesh.surface_vertices[corner as usize]),
            points
        );
    }
    for (vertex, &point) in mesh.surface_vertices.iter().enumerate() {
        assert_eq!(mesh.positions[vertex], surface.positions[point as usize]);
    }
    let covered = coverage::measure(&mesh.uvs, &mesh.triangles, size);
    assert_eq!(covered.doubly, 0);
    let share = covered.covered as f32 / (size as f32).powi(2);
    assert!(
        (share - unwrapped.utilisation).abs() < 0.02,
        "{share} {}",
        unwrapped.utilisation
    );
    let border = 1.0 / size as f32 - 1e-6;
    assert!(
        mesh.uvs
            .as_flattened()
            .iter()
            .all(|x| (border..=1.0 - border).contains(x))
    );

    // Texels of each chart by their centres: those of two charts are a gap and a texel apart, less the halves.
    let chart = charts_of(mesh);
    let width = size as usize;
    let mut owner = vec![u32::MAX; width * width];
    for corners in &mesh.triangles {
        let one = coverage::texels(&mesh.uvs, corners, size);
        for (x, y) in one {
            owner[y * width + x] = chart[corners[0] as usize];
        }
    }
    for y in 0..width {
        for x in 0..width {
            let own = owner[y * width + x];
            for (dx, dy) in (0..=gap).flat_map(|dx| (0..=gap).map(move |dy| (dx, dy))) {
                let (nx, ny) = (x + dx, y + dy);
                if own != u32::MAX && nx < width && ny < width {
                    let other = owner[ny * width + nx];
                    assert!(other == u32::MAX || other == own, "{x} {y} and {nx} {ny}");
                }
            }
        }
    }
}

/// An atlas of the default quality.
fn standard<'a>(mesh: &CleanMesh, wanted: impl Into<Wanted<'a>>, limit: Duration) -> Unwrapped {
    unwrap(mesh, wanted, (Quality::Standard, limit), &Silent).unwrap()
}

#[test]
fn a_large_sphere_is_cut_and_packed() {
    let sphere = icosphere(6);
    assert_eq!(sphere.triangles.len(), 81_920);
    // Without the time limit of its size, since other tests run at the same time.
    let unwrapped = unwrap_with(
        &sphere,
        (1024, Pages::ONE),
        PATIENCE,
        Work {
            improved: 0,
            ..Work::FULL
        },
        &Silent,
    )
    .unwrap();
    assert_eq!(unwrapped.method, UnwrapMethod::Uvunwrap);
    assert!(unwrapped.utilisation > 0.5, "{}", unwrapped.utilisation);
    check(&sphere, &unwrapped, 1024, 3);
    for (normal, position) in unwrapped.mesh.normals.iter().zip(&unwrapped.mesh.positions) {
        let cosine: f32 = normal.iter().zip(position).map(|(a, b)| a * b).sum();
        assert!(cosine > 0.999);
    }
}

#[test]
fn padding_grows_with_the_texture_and_shrinks_with_nothing() {
    let sphere = icosphere(3);
    for (size, gap) in [(256, 2), (512, 2), (1024, 3), (2048, 6)] {
        let unwrapped = standard(&sphere, (size, Pages::ONE), PATIENCE);
        check(&sphere, &unwrapped, size, gap);
    }
}

#[test]
fn a_draft_is_an_atlas_of_less_work() {
    let sphere = icosphere(3);
    let of = |quality| unwrap(&sphere, (512, Pages::ONE), (quality, PATIENCE), &Silent).unwrap();
    let (draft, full) = (of(Quality::Draft), of(Quality::Standard));
    assert_eq!(draft.method, UnwrapMethod::Uvunwrap);
    check(&sphere, &draft, 512, 2);
    let [draft, full] = [draft, full].map(|atlas| atlas.utilisation);
    assert!(draft < full && draft > 0.8 * full, "{draft} and {full}");
}

#[test]
fn the_same_surface_gives_the_same_atlas_on_any_number_of_threads() {
    let sphere = icosphere(3);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            unwrap_with(&sphere, (512, Pages::ONE), PATIENCE, Work::FULL, &Silent)
                .unwrap()
                .mesh
        })
    };
    assert_eq!(with(1), with(3));
}

#[test]
fn loose_triangles_get_the_fallback_with_all_the_time_in_the_world() {
    let soup = soup(3000, 0.05);
    let unwrapped = standard(&soup, (1024, Pages::ONE), Duration::MAX);
    assert_eq!(unwrapped.method, UnwrapMethod::Fallback);
    check(&soup, &unwrapped, 1024, 1);
    assert!(unwrapped.utilisation > 0.3, "{}", unwrapped.utilisation);
}

/// What views resolve of a surface: for each triangle the pixels per unit of area that `shown` returns, in one view.
pub(crate) fn views(mesh: &CleanMesh, shown: impl Fn(usize) -> f64) -> Resolved {
    let exposure: Vec<f64> = (0..mesh.triangles.len()).map(shown).collect();
    let area = |face: usize| surface_area(&mesh.positions, &mesh.triangles[face..=face]);
    let pixels = exposure
        .iter()
        .enumerate()
        .map(|(face, shown)| shown * area(face));
    let mut views = Resolved::default();
    (views.best, views.pixels) = (exposure.clone(), pixels.collect());
    views.exposure = exposure;
    views
}

#[test]
fn what_nobody_sees_leaves_its_texels_to_what_is_seen() {
    let sphere = icosphere(4);
    // Seen from above: charts that lie wholly below are unseen.
    let above = |corners: &[u32; 3]| {
        corners
            .iter()
            .any(|&k| sphere.positions[k as usize][1] > 0.0)
    };
    let resolved: Vec<f64> = (sphere.triangles.iter())
        .map(|corners| f64::from(u8::from(above(corners))))
        .collect();
    let unwrapped = |resolved: &[f64]| {
        let known = views(&sphere, |face| resolved[face]);
        let wanted = Wanted {
            texture_size: 512,
            pages: Pages::ONE,
            views: known.is_known().then_some(&known),
        };
        let unwrapped = standard(&sphere, wanted, Duration::ZERO);
        check(&sphere, &unwrapped, 512, 2);
        unwrapped
    };
    // Texels of the seen triangles, and of the others.
    let texels = |unwrapped: &Unwrapped| {
        let mut sums = [0.0; 2];
        for (corners, &seen) in unwrapped.mesh.triangles.iter().zip(&resolved) {
            let [a, b, c] = corners.map(|k| unwrapped.mesh.uvs[k as usize].map(f64::from));
            let double = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
            sums[usize::from(seen > 0.0)] += double.abs();
        }
        sums
    };
    let (blind, looked_at) = (
        texels(&unwrapped(&vec![0.0; resolved.len()])),
        texels(&unwrapped(&resolved)),
    );
    assert!(looked_at[1] > 1.15 * blind[1], "{looked_at:?} {blind:?}");
    assert!(looked_at[0] < 0.8 * blind[0], "{looked_at:?} {blind:?}");
}

#[test]
fn seams_lie_where_views_see_least() {
    let sphere = icosphere(4);
    // Every second belt of latitude is unseen.
    let seen = |face: usize| {
        let height = sphere.triangles[face].map(|k| sphere.positions[k as usize][1]);
        f64::from(u8::from(
            (height.iter().sum::<f32>() * 2.0).rem_euclid(2.0) < 1.0,
        ))
    };
    let exposure: Vec<f64> = (0..sphere.triangles.len()).map(seen).collect();
    // Length of seams, and of seen seams.
    let seams = |exposure: &[f64]| {
        let mut known = views(&sphere, |face| exposure[face]);
        // Only the place of seams is tested here, not the size of charts.
        known.best.fill(0.0);
        known.pixels.fill(0.0);
        let wanted = Wanted {
            texture_size: 512,
            pages: Pages::ONE,
            views: Some(&known),
        };
        let mesh = unwrap_with(
            &sphere,
            wanted,
            PATIENCE,
            Work {
                improved: 1,
                ..Work::FULL
            },
            &Silent,
        )
        .unwrap()
        .mesh;
        let mut sums = [0.0; 2];
        for (face, across) in neighbours(&sphere.triangles).iter().enumerate() {
            for (side, &other) in across.iter().enumerate() {
                let [a, b] = [
                    mesh.triangles[face][side],
                    mesh.triangles[face][(side + 1) % 3],
                ];
                if mesh.triangles[other as usize].contains(&a)
                    && mesh.triangles[other as usize].contains(&b)
                {
                    continue;
                }
                let [p, q] = [a, b].map(|k| mesh.positions[k as usize]);
                let length = f64::from((p[0] - q[0]).hypot(p[1] - q[1]).hypot(p[2] - q[2]));
                sums[0] += length;
                sums[1] += length * seen(face);
            }
        }
        sums
    };
    let (blind, looked_at) = (seams(&vec![0.0; exposure.len()]), seams(&exposure));
    let share = |[all, seen]: [f64; 2]| seen / all;
    assert!(
        share(looked_at) < 0.8 * share(blind),
        "{looked_at:?} {blind:?}"
    );
    assert!(looked_at[0] < 1.3 * blind[0], "{looked_at:?} {blind:?}");
}

#[test]
fn one_triangle_fills_its_half() {
    let one = surface(
        vec![[0.0; 3], [2.0, 0.0, 0.0], [0.0, 2.0, 0.0]],
        vec![[0, 1, 2]],
    );
    let unwrapped = standard(&one, (256, Pages::ONE), PATIENCE);
    check(&one, &unwrapped, 256, 2);
    assert!(unwrapped.utilisation > 0.47, "{}", unwrapped.utilisation);
}

#[test]
fn no_time_means_the_fallback_and_it_is_valid() {
    let sphere = icosphere(5);
    let unwrapped = standard(&sphere, (1024, Pages::ONE), Duration::ZERO);
    assert_eq!(unwrapped.method, UnwrapMethod::Fallback);
    assert!(
        unwrapped.mesh.charts < 400 && unwrapped.utilisation > 0.4,
        "{} {}",
        unwrapped.mesh.charts,
        unwrapped.utilisation
    );
    check(&sphere, &unwrapped, 1024, 2);
}

#[test]
fn a_spiral_staircase_does_not_lie_on_itself() {
    // Two turns of a flat ribbon around an axis: every triangle faces up, and the second turn lies over the first.
    let mut positions = Vec::new();
    for step in 0..=80 {
        let (angle, height) = (
            step as f32 * std::f32::consts::PI / 20.0,
            step as f32 * 0.01,
        );
        let (sin, cos) = angle.sin_cos();
        positions.extend([[cos, sin, height], [2.0 * cos, 2.0 * sin, height]]);
    }
    let cell = |i: u32| [[2 * i, 2 * i + 1, 2 * i + 3], [2 * i, 2 * i + 3, 2 * i + 2]];
    let ribbon = surface(positions, (0..80).flat_map(cell).collect());
    let unwrapped = standard(&ribbon, (512, Pages::ONE), Duration::ZERO);
    check(&ribbon, &unwrapped, 512, 2);
}

#[test]
fn more_triangles_than_texels_still_get_an_atlas() {
    let soup = soup(40_000, 0.02);
    let unwrapped = standard(&soup, (256, Pages::ONE), PATIENCE);
    assert!(unwrapped.utilisation > 0.1);
    assert_eq!(
        coverage::measure(&unwrapped.mesh.uvs, &unwrapped.mesh.triangles, 256).doubly,
        0
    );
}

/// Checks that no triangle crosses the border of a page or comes within a texel of it. Returns the number of pages in
/// use.
fn check_pages(mesh: &Mesh, size: u32, pages: Pages) -> usize {
    let page = pages.page(size) as f32;
    let border = 1.0 / page - 1e-5;
    let mut used = vec![false; pages.count() as usize];
    for corners in &mesh.triangles {
        let [first, ..] = corners.map(|corner| pages.at(mesh.uvs[corner as usize]));
        used[first as usize] = true;
        let at = pages.place(first).map(|x| x as f32);
        for uv in corners.map(|corner| mesh.uvs[corner as usize]) {
            let within = [0, 1].map(|axis| uv[axis] * pages.side() as f32 - at[axis]);
            assert!(
                within.iter().all(|x| (border..=1.0 - border).contains(x)),
                "{within:?} of page {first}"
            );
        }
    }
    used.into_iter().filter(|&used| used).count()
}

#[test]
fn no_chart_crosses_the_border_of_a_page() {
    let sphere = icosphere(4);
    // Whole cells and texels, thirds of a grid, and cells of several texels.
    for (size, count, gap) in [(512, 4, 2), (1020, 9, 2), (1024, 16, 2), (4096, 16, 8)] {
        let pages = Pages::try_from(count).unwrap();
        let unwrapped = standard(&sphere, (size, pages), PATIENCE);
        assert_eq!(unwrapped.method, UnwrapMethod::Uvunwrap);
        check(&sphere, &unwrapped, size, gap);
        let used = check_pages(&unwrapped.mesh, size, pages);
        assert!(
            used == count as usize && unwrapped.utilisation > 0.5,
            "{count}: {used}, {}",
            unwrapped.utilisation
        );
    }
}

#[test]
fn slivers_in_rows_keep_apart() {
    let mut slivers = soup(5000, 0.05);
    for corners in &slivers.triangles {
        let [a, b, c] = corners.map(|corner| corner as usize);
        let [from, to] = [slivers.positions[a], slivers.positions[b]];
        for axis in 0..3 {
            // Moves the corner to within a fiftieth of the middle of a side.
            let middle = f32::midpoint(from[axis], to[axis]);
            let share = 0.02 * (c % 7) as f32 / 6.0 + 0.002;
            let corner = &mut slivers.positions[c][axis];
            *corner = middle + share * (*corner - middle);
        }
    }
    let unwrapped = standard(&slivers, (1024, Pages::ONE), Duration::ZERO);
    assert!(unwrapped.mesh.charts as usize > PACKED_CHARTS);
    check(&slivers, &unwrapped, 1024, 1);
}

#[test]
fn shelves_fill_one_page_after_another() {
    let soup = soup(6000, 0.05);
    let pages = Pages::try_from(4).unwrap();
    let unwrapped = standard(&soup, (2048, pages), Duration::ZERO);
    assert_eq!(unwrapped.method, UnwrapMethod::Fallback);
    assert!(
        unwrapped.mesh.charts as usize > PACKED_CHARTS,
        "{}",
        unwrapped.mesh.charts
    );
    check(&soup, &unwrapped, 2048, 1);
    assert_eq!(check_pages(&unwrapped.mesh, 2048, pages), 4);
    assert!(unwrapped.utilisation > 0.3, "{}", unwrapped.utilisation);
}

#[test]
fn a_chart_as_large_as_a_page_limits_the_scale_and_nothing_else() {
    let one = surface(
        vec![[0.0; 3], [2.0, 0.0, 0.0], [0.0, 2.0, 0.0]],
        vec![[0, 1, 2]],
    );
    for count in [4, 16] {
        let pages = Pages::try_from(count).unwrap();
        let unwrapped = standard(&one, (1024, pages), PATIENCE);
        check(&one, &unwrapped, 1024, 2);
        assert_eq!(check_pages(&unwrapped.mesh, 1024, pages), 1);
        // Half a page.
        let share = unwrapped.utilisation * count as f32;
        assert!((0.4..0.5).contains(&share), "{count}: {share}");
    }
}
