//! Detail of surfaces that are known by formulas.

use proto::job::Quality;
use proto::table::{Mesh, Simplified, Surface, unpack_normal};
use rayon::ThreadPoolBuilder;

use super::*;
use crate::bake::fixture::sphere;
use crate::bake::intake::surface;
use crate::bake::model::atlas::barycentrics;
use crate::bake::plan::quality::Plan;
use crate::bake::solve::fit_context::Model;
use crate::worker::progress::{Silent, Stages};

/// Points and triangles.
type Soup = (Vec<[f32; 3]>, Vec<[u32; 3]>);

/// Height of the bumpy ball over the unit ball, in a direction, for bumps of this size.
fn height([x, y, z]: [f64; 3], size: f64) -> f64 {
    size * (9.0 * x).sin() * (8.0 * y + 1.0).sin() * (7.0 * z).cos()
}

fn scaled(v: [f64; 3], by: f64) -> [f64; 3] {
    v.map(|x| x * by)
}

fn direction(v: [f64; 3]) -> [f64; 3] {
    scaled(v, 1.0 / v.iter().map(|x| x * x).sum::<f64>().sqrt())
}

/// Size of the bumps whose normals are looked at.
const BUMPS: f64 = 0.03;

/// The normal of the bumpy ball in a direction: the gradient of `|p| - 1 - height(p / |p|)`.
fn normal_of_bumps(along: [f64; 3]) -> [f64; 3] {
    let place = scaled(along, 1.0 + height(along, BUMPS));
    let level = |p: [f64; 3]| {
        p.iter().map(|x| x * x).sum::<f64>().sqrt() - 1.0 - height(direction(p), BUMPS)
    };
    direction(std::array::from_fn(|axis| {
        let at = |step: f64| {
            let mut p = place;
            p[axis] += step;
            level(p)
        };
        at(1e-4) - at(-1e-4)
    }))
}

/// A ball whose triangles face outwards.
fn outwards(across: u32, down: u32) -> Mesh {
    let ball = sphere(across, down);
    Mesh {
        normals: ball.positions.clone(),
        triangles: ball.triangles.iter().map(|&[a, b, c]| [a, c, b]).collect(),
        ..ball
    }
}

/// A coarse ball with smooth normals.
fn ball() -> Mesh {
    outwards(24, 12)
}

fn bumps(size: f64) -> Soup {
    let fine = outwards(240, 120);
    let bumpy = |p: &[f32; 3]| {
        let along = direction(p.map(f64::from));
        scaled(along, 1.0 + height(along, size)).map(|x| x as f32)
    };
    (fine.positions.iter().map(bumpy).collect(), fine.triangles)
}

/// Bakes the detail of a surface into a mesh. For each charted texel: its place and smooth normal, and what was found.
fn baked(
    mesh: &Mesh,
    (positions, triangles): Soup,
    detail: Detail,
    size: u32,
) -> (Details, Vec<Shown>) {
    let simplified = Some(Simplified {
        positions: mesh.positions.clone(),
        triangles: mesh.triangles.clone(),
    });
    let original = surface::Original::new(Surface {
        positions,
        triangles,
        simplified,
    });
    let (plan, stages) = (Plan::new(Quality::Draft), Stages::new(&Silent));
    let model = Model::new(mesh, size, original.frame(), &stages);
    let context = model.context(original.if_other(), &plan, &stages);
    let details = bake(&context, detail);
    let mut shown = Vec::new();
    for (texel, &triangle) in model.atlas.triangles.iter().enumerate() {
        if triangle != NOTHING {
            let weights = barycentrics(&model.scene, triangle, texel);
            let of = |points: &[[f32; 3]]| {
                let corners = mesh.triangles[triangle as usize].map(|k| points[k as usize]);
                blend(&corners, weights).map(f64::from)
            };
            shown.push(Shown {
                place: of(&mesh.positions),
                smooth: direction(of(&mesh.normals)),
                texel,
            });
        }
    }
    (details, shown)
}

/// A charted texel.
struct Shown {
    place: [f64; 3],
    smooth: [f64; 3],
    texel: usize,
}

fn degrees(one: [f64; 3], other: [f64; 3]) -> f64 {
    let cosine: f64 = (0..3).map(|k| one[k] * other[k]).sum();
    cosine.clamp(-1.0, 1.0).acos().to_degrees()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), x| (sum + x, count + 1));
    sum / f64::from(count.max(1))
}

#[test]
fn a_coarse_ball_gets_the_normals_of_the_bumpy_one() {
    let (details, shown) = baked(&ball(), bumps(BUMPS), Detail::Normal, 256);
    let [normals] = &details.layers[..] else {
        panic!("one layer: {details:?}");
    };
    let found = |shown: &Shown| {
        let (normal, known) = unpack_normal(normals.texels[shown.texel]);
        assert!(known, "{:?}", shown.place);
        normal.map(f64::from)
    };
    let wanted = |shown: &Shown| normal_of_bumps(direction(shown.place));
    let before = mean(
        shown
            .iter()
            .map(|shown| degrees(shown.smooth, wanted(shown))),
    );
    let after = mean(
        shown
            .iter()
            .map(|shown| degrees(found(shown), wanted(shown))),
    );
    assert!(before > 6.0 && after < 0.5, "{before} {after}");
    let figures = details.figures.expect("figures");
    assert!(figures.found > 0.99, "{figures:?}");
    assert!(
        (f64::from(figures.angle_deg) - before).abs() < 0.5,
        "{figures:?} {before}"
    );
}

#[test]
fn hollows_are_darker_than_bumps_and_nothing_is_dark_on_a_ball() {
    let (details, shown) = baked(&ball(), bumps(0.09), Detail::Occlusion, 128);
    let [occlusion] = &details.layers[..] else {
        panic!("one layer: {details:?}");
    };
    let open = |shown: &Shown| f64::from(occlusion.texels[shown.texel][0]) / 255.0;
    let at = |low: f64, high: f64| {
        let within = |shown: &&Shown| (low..high).contains(&height(direction(shown.place), 1.0));
        mean(shown.iter().filter(within).map(open))
    };
    let (hollow, bump) = (at(-1.0, -0.6), at(0.6, 1.0));
    assert!(bump > hollow + 0.05, "{hollow} {bump}");
    // The gutter continues the charts.
    assert!(
        occlusion
            .texels
            .iter()
            .all(|texel| texel[0] > 100 && texel[3] == 255)
    );

    let smooth = outwards(240, 120);
    let (details, shown) = baked(
        &ball(),
        (smooth.positions, smooth.triangles),
        Detail::Occlusion,
        128,
    );
    let occlusion = &details.layers[0];
    assert!(
        shown
            .iter()
            .all(|shown| occlusion.texels[shown.texel][0] >= 253)
    );
}

/// A flat square of edge 1 at this height; its normal is ±z.
fn square(z: f32, up: bool) -> Mesh {
    let corner = |x: f32, y: f32| [x, y, z];
    let triangles = match up {
        true => vec![[0, 1, 2], [0, 2, 3]],
        false => vec![[0, 2, 1], [0, 3, 2]],
    };
    Mesh {
        positions: vec![
            corner(0.0, 0.0),
            corner(1.0, 0.0),
            corner(1.0, 1.0),
            corner(0.0, 1.0),
        ],
        normals: vec![[0.0, 0.0, if up { 1.0 } else { -1.0 }]; 4],
        uvs: vec![[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]],
        surface_vertices: vec![0, 1, 2, 3],
        triangles,
        charts: 1,
    }
}

/// Squares one over the other: height, the way they face, and how they lean: the rise of z along x.
fn squares(given: &[(f32, bool, f32)]) -> Soup {
    let (mut positions, mut triangles) = (Vec::new(), Vec::new());
    for &(z, up, lean) in given {
        let square = square(z, up);
        let first = positions.len() as u32;
        positions.extend(
            square
                .positions
                .iter()
                .map(|&[x, y, z]| [x, y, z + lean * (x - 0.5)]),
        );
        triangles.extend(
            square
                .triangles
                .iter()
                .map(|corners| corners.map(|k| first + k)),
        );
    }
    (positions, triangles)
}

#[test]
fn neither_back_sides_nor_other_parts_are_taken() {
    // The lean tells which was found: normals along (-lean, 0, 1).
    let lean_of = |soup: Soup| {
        let (details, shown) = baked(&square(0.0, true), soup, Detail::Normal, 64);
        let texels = &details.layers[0].texels;
        let lean = |shown: &Shown| {
            let (normal, known) = unpack_normal(texels[shown.texel]);
            known.then(|| -normal[0] / normal[2])
        };
        let leans: Vec<Option<f32>> = shown.iter().map(lean).collect();
        (
            leans[leans.len() / 2],
            details.figures.expect("figures").found,
        )
    };
    let near = |found: Option<f32>, wanted: f32| {
        assert!(
            found.is_some_and(|found| (found - wanted).abs() < 0.01),
            "{found:?} {wanted}"
        );
    };
    // Of two that face as the mesh does, the nearer; whatever the order.
    near(
        lean_of(squares(&[(0.01, true, 0.02), (-0.03, true, -0.04)])).0,
        0.02,
    );
    near(
        lean_of(squares(&[(-0.03, true, -0.04), (0.01, true, 0.02)])).0,
        0.02,
    );
    // One that faces away is passed over, though it is nearer.
    near(
        lean_of(squares(&[(0.005, false, 0.0), (-0.02, true, 0.03)])).0,
        0.03,
    );
    // Where nothing faces as the mesh does, or lies near, the mesh keeps its own normals.
    for soup in [
        squares(&[(0.005, false, 0.0)]),
        squares(&[(0.5, true, 0.0)]),
    ] {
        let (lean, found) = lean_of(soup);
        assert_eq!(lean, None);
        assert!(found < 0.01, "{found}");
    }
}

#[test]
fn any_number_of_threads_makes_the_same_layers() {
    let with = |threads: usize| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        let details = pool
            .expect("a pool")
            .install(|| baked(&ball(), bumps(BUMPS), Detail::Both, 128).0);
        let texels: Vec<_> = details
            .layers
            .into_iter()
            .map(|layer| layer.texels)
            .collect();
        let figures = details.figures.expect("figures");
        (texels, figures.found, figures.angle_deg)
    };
    let one = with(1);
    assert_eq!(one.0.len(), 2);
    assert!(one == with(2) && one == with(5));
}

/// Adds a surface to a mesh, its texture coordinates moved and perhaps mirrored.
fn beside(mesh: &mut Mesh, other: Mesh, uv: impl Fn([f32; 2]) -> [f32; 2]) {
    let first = mesh.positions.len() as u32;
    mesh.positions.extend(&other.positions);
    mesh.normals.extend(&other.normals);
    mesh.uvs.extend(other.uvs.iter().map(|&at| uv(at)));
    let points = other.surface_vertices.iter().map(|point| first + point);
    mesh.surface_vertices.extend(points);
    let triangles = other.triangles.iter();
    (mesh.triangles).extend(triangles.map(|corners| corners.map(|k| first + k)));
    mesh.charts += 1;
}

#[test]
fn mirrored_charts_and_both_sides_of_a_sheet_get_their_own_normals() {
    let half = |mirrored: bool| {
        move |[u, v]: [f32; 2]| [if mirrored { 1.0 - 0.45 * u } else { 0.45 * u }, v]
    };
    // Front and back of a sheet in one place, the back's chart mirrored: two sides of triangles on the same points.
    let mut mesh = square(0.0, true);
    mesh.uvs = mesh.uvs.iter().map(|&at| half(false)(at)).collect();
    beside(&mut mesh, square(0.0, false), half(true));
    // The original leans otherwise in front than behind.
    let soup = squares(&[(0.01, true, 0.02), (-0.01, false, -0.02)]);
    let (details, shown) = baked(&mesh, soup, Detail::Normal, 128);
    let texels = &details.layers[0].texels;
    let mut counts = [0; 2];
    for shown in &shown {
        let (normal, known) = unpack_normal(texels[shown.texel]);
        assert!(known, "{:?}", shown.place);
        let front = shown.smooth[2] > 0.0;
        let lean = -normal[0] / normal[2];
        let wanted = if front { 0.02 } else { -0.02 };
        assert_eq!(normal[2] > 0.0, front);
        assert!((lean - wanted).abs() < 0.01, "{front} {lean}");
        counts[usize::from(front)] += 1;
    }
    assert!(counts[0] > 1000 && counts[1] > 1000, "{counts:?}");
}

#[test]
fn over_holes_the_mesh_keeps_its_own_normals_and_edges_of_three_triangles_are_met() {
    // A leaning sheet whose half is missing, and a fin that stands on its middle edge.
    let (mut positions, mut triangles) = squares(&[(0.01, true, 0.02)]);
    let middle = positions.len() as u32;
    let between = |a: [f32; 3], b: [f32; 3]| [0, 1, 2].map(|k| f32::midpoint(a[k], b[k]));
    positions.push(between(positions[0], positions[1]));
    positions.push(between(positions[3], positions[2]));
    positions.push([0.5, 0.5, 0.4]);
    triangles.clear();
    triangles.extend([
        [0, middle, middle + 1],
        [0, middle + 1, 3],
        [middle, middle + 1, middle + 2],
    ]);
    let (details, shown) = baked(
        &square(0.0, true),
        (positions, triangles),
        Detail::Normal,
        64,
    );
    let texels = &details.layers[0].texels;
    let (mut over, mut beyond) = (0, 0);
    for shown in &shown {
        let (normal, known) = unpack_normal(texels[shown.texel]);
        if shown.place[0] < 0.4 {
            // Points of the edge share a normal with the fin.
            assert!(known && normal[2] > 0.6, "{:?} {normal:?}", shown.place);
            over += 1;
        } else if shown.place[0] > 0.62 {
            assert!(!known, "{:?}", shown.place);
            beyond += 1;
        }
    }
    assert!(over > 400 && beyond > 400, "{over} {beyond}");
}
