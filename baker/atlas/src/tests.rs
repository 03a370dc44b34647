//! Whole atlases, checked texel by texel: no overlap, gaps kept, every triangle where it was.

use super::planar::neighbours;
use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// The unit sphere of 20 · 4^level triangles.
pub(crate) fn icosphere(level: u32) -> Mesh<'static> {
    let (positions, triangles) = surface::icosphere(level);
    surface(positions, triangles)
}

fn surface(positions: Vec<[f32; 3]>, triangles: Vec<[u32; 3]>) -> Mesh<'static> {
    Mesh {
        positions: positions.leak(),
        triangles: triangles.leak(),
    }
}

/// Pseudo-random numbers from -1 to 1, the same everywhere.
fn noise(state: &mut u64) -> f32 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

fn soup(count: u32, size: f32) -> Mesh<'static> {
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
fn charts_of(mesh: &Atlas) -> Vec<u32> {
    let mut chart: Vec<u32> = (0..mesh.points.len() as u32).collect();
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

/// No texel twice, no two charts within `gap` texels, none within a texel of the border.
fn check(surface: &Mesh<'_>, mesh: &Atlas, size: u32, gap: usize) {
    assert_eq!(mesh.triangles.len(), surface.triangles.len());
    for (corners, points) in mesh.triangles.iter().zip(surface.triangles) {
        assert_eq!(&corners.map(|corner| mesh.points[corner as usize]), points);
    }
    let covered = coverage::measure(&mesh.uvs, &mesh.triangles, size);
    assert_eq!(covered.doubly, 0);
    let share = covered.covered as f32 / (size as f32).powi(2);
    assert!(
        (share - mesh.utilisation).abs() < 0.02,
        "{share} {}",
        mesh.utilisation
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

/// An atlas of full work, with the time that its size gets.
fn standard<'a>(mesh: &Mesh<'_>, wanted: impl Into<Wanted<'a>>, limit: Duration) -> Atlas {
    let limit = limit.min(patience(mesh.triangles.len()));
    unwrap(mesh, wanted, limit, Work::FULL, &Silent).unwrap()
}

#[test]
fn a_large_sphere_is_cut_and_packed() {
    let sphere = icosphere(6);
    assert_eq!(sphere.triangles.len(), 81_920);
    // Without the time limit of its size, since other tests run at the same time.
    let unwrapped = unwrap(
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
    assert_eq!(unwrapped.method, Method::Flattened);
    assert!(unwrapped.utilisation > 0.5, "{}", unwrapped.utilisation);
    check(&sphere, &unwrapped, 1024, 3);
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
    let of = |work| unwrap(&sphere, (512, Pages::ONE), PATIENCE, work, &Silent).unwrap();
    let (draft, full) = (of(Work::DRAFT), of(Work::FULL));
    assert_eq!(draft.method, Method::Flattened);
    check(&sphere, &draft, 512, 2);
    let [draft, full] = [draft, full].map(|atlas| atlas.utilisation);
    assert!(draft < full && draft > 0.8 * full, "{draft} and {full}");
}

#[test]
fn the_same_surface_gives_the_same_atlas_on_any_number_of_threads() {
    let sphere = icosphere(3);
    // A bumpy one of several parts and many small charts, which merge and whose borders move.
    let (mut positions, triangles) = surface::icosphere(6);
    for at in &mut positions {
        let bump = (9.0 * at[0]).sin() * (11.0 * at[1]).sin() * (10.0 * at[2]).sin();
        *at = at.map(|x| x * (1.0 + 0.15 * bump));
    }
    let bumpy = surface(positions, triangles);
    let seen = views(&bumpy, |face| f64::from(face as u32 % 97));
    for (mesh, known) in [(&sphere, None), (&bumpy, Some(&seen))] {
        let wanted = Wanted {
            texture_size: 512,
            pages: Pages::ONE,
            views: known,
        };
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| unwrap(mesh, wanted, PATIENCE, Work::FULL, &Silent).unwrap())
        };
        let one = with(1);
        assert_eq!(one.method, Method::Flattened);
        for threads in [2, 5] {
            assert_eq!(with(threads), one, "{threads} threads");
        }
    }
}

#[test]
fn loose_triangles_get_the_fallback_with_all_the_time_in_the_world() {
    let soup = soup(3000, 0.05);
    let unwrapped = standard(&soup, (1024, Pages::ONE), Duration::MAX);
    assert_eq!(unwrapped.method, Method::Projected);
    check(&soup, &unwrapped, 1024, 1);
    assert!(unwrapped.utilisation > 0.3, "{}", unwrapped.utilisation);
}

/// What views resolve of a surface: for each triangle the pixels per unit of area that `shown` returns, in one view.
pub(crate) fn views(mesh: &Mesh<'_>, shown: impl Fn(usize) -> f64) -> Views {
    let exposure: Vec<f64> = (0..mesh.triangles.len()).map(shown).collect();
    let area = |face: usize| surface_area(mesh.positions, &mesh.triangles[face..=face]);
    let pixels = exposure
        .iter()
        .enumerate()
        .map(|(face, shown)| shown * area(face));
    let mut views = Views::default();
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
            views: known.best.iter().any(|&seen| seen > 0.0).then_some(&known),
        };
        let unwrapped = standard(&sphere, wanted, Duration::ZERO);
        check(&sphere, &unwrapped, 512, 2);
        unwrapped
    };
    // Texels of the seen triangles, and of the others.
    let texels = |unwrapped: &Atlas| {
        let mut sums = [0.0; 2];
        for (corners, &seen) in unwrapped.triangles.iter().zip(&resolved) {
            let [a, b, c] = corners.map(|k| unwrapped.uvs[k as usize].map(f64::from));
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
        let mesh = unwrap(
            &sphere,
            wanted,
            PATIENCE,
            Work {
                improved: 1,
                ..Work::FULL
            },
            &Silent,
        )
        .unwrap();
        let mut sums = [0.0; 2];
        for (face, across) in neighbours(sphere.triangles).iter().enumerate() {
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
                let [p, q] = [a, b].map(|k| sphere.positions[mesh.points[k as usize] as usize]);
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
    assert_eq!(unwrapped.method, Method::Projected);
    assert!(
        unwrapped.charts < 400 && unwrapped.utilisation > 0.4,
        "{} {}",
        unwrapped.charts,
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
        coverage::measure(&unwrapped.uvs, &unwrapped.triangles, 256).doubly,
        0
    );
}

/// The page of an atlas at this place.
fn page_at(uv: [f32; 2], pages: Pages) -> u32 {
    let [column, row] = uv.map(|x| ((x * pages.side() as f32) as u32).min(pages.side() - 1));
    row * pages.side() + column
}

/// Checks that no triangle crosses the border of a page or comes within a texel of it. Returns the number of pages in
/// use.
fn check_pages(mesh: &Atlas, size: u32, pages: Pages) -> usize {
    let page = pages.page(size) as f32;
    let border = 1.0 / page - 1e-5;
    let mut used = vec![false; pages.count() as usize];
    for corners in &mesh.triangles {
        let [first, ..] = corners.map(|corner| page_at(mesh.uvs[corner as usize], pages));
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
        let pages = Pages::new(u32::isqrt(count));
        let unwrapped = standard(&sphere, (size, pages), PATIENCE);
        assert_eq!(unwrapped.method, Method::Flattened);
        check(&sphere, &unwrapped, size, gap);
        let used = check_pages(&unwrapped, size, pages);
        assert!(
            used == count as usize && unwrapped.utilisation > 0.5,
            "{count}: {used}, {}",
            unwrapped.utilisation
        );
    }
}

#[test]
fn slivers_in_rows_keep_apart() {
    let soup = soup(5000, 0.05);
    let mut positions = soup.positions.to_vec();
    for corners in soup.triangles {
        let [a, b, c] = corners.map(|corner| corner as usize);
        let [from, to] = [positions[a], positions[b]];
        for axis in 0..3 {
            // Moves the corner to within a fiftieth of the middle of a side.
            let middle = f32::midpoint(from[axis], to[axis]);
            let share = 0.02 * (c % 7) as f32 / 6.0 + 0.002;
            let corner = &mut positions[c][axis];
            *corner = middle + share * (*corner - middle);
        }
    }
    let slivers = Mesh {
        positions: &positions,
        ..soup
    };
    let unwrapped = standard(&slivers, (1024, Pages::ONE), Duration::ZERO);
    assert!(unwrapped.charts as usize > PACKED_CHARTS);
    check(&slivers, &unwrapped, 1024, 1);
}

#[test]
fn shelves_fill_one_page_after_another() {
    let soup = soup(6000, 0.05);
    let pages = Pages::new(2);
    let unwrapped = standard(&soup, (2048, pages), Duration::ZERO);
    assert_eq!(unwrapped.method, Method::Projected);
    assert!(
        unwrapped.charts as usize > PACKED_CHARTS,
        "{}",
        unwrapped.charts
    );
    check(&soup, &unwrapped, 2048, 1);
    assert_eq!(check_pages(&unwrapped, 2048, pages), 4);
    assert!(unwrapped.utilisation > 0.3, "{}", unwrapped.utilisation);
}

#[test]
fn a_chart_as_large_as_a_page_limits_the_scale_and_nothing_else() {
    let one = surface(
        vec![[0.0; 3], [2.0, 0.0, 0.0], [0.0, 2.0, 0.0]],
        vec![[0, 1, 2]],
    );
    for count in [4, 16] {
        let pages = Pages::new(u32::isqrt(count));
        let unwrapped = standard(&one, (1024, pages), PATIENCE);
        check(&one, &unwrapped, 1024, 2);
        assert_eq!(check_pages(&unwrapped, 1024, pages), 1);
        // Half a page.
        let share = unwrapped.utilisation * count as f32;
        assert!((0.4..0.5).contains(&share), "{count}: {share}");
    }
}
