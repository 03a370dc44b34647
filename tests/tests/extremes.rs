//! Generated inputs that are well-formed but extreme: each is baked, or refused with 65 and one line, and ends.

use std::path::Path;

use kiln_tests::shapes::{Shape, book, icosphere, pieces, soup, star};
use kiln_tests::verdict::{Verdict, judge};
use kiln_tests::views::{self, Kind, View, around};
use kiln_tests::walk::{all_right, cores, in_parallel};
use kiln_tests::{Bench, glb};

const FAST: [&str; 5] = ["--quality", "draft", "--texture-size", "256", "-q"];

/// The expected outcome of an input.
#[derive(Clone, Copy, Debug)]
enum Expect {
    Baked,
    /// A refusal whose line contains these words.
    Refused(&'static str),
}
use Expect::{Baked, Refused};

struct Extreme {
    name: &'static str,
    shape: Shape,
    views: Vec<View>,
    more: &'static [&'static str],
    expect: Expect,
}

fn extreme(name: &'static str, shape: Shape, views: Vec<View>, expect: Expect) -> Extreme {
    Extreme {
        name,
        shape,
        views,
        more: &[],
        expect,
    }
}

/// Seen from all around, and refused with these words.
fn refused(name: &'static str, shape: Shape, words: &'static str) -> Extreme {
    extreme(name, shape, usual(), Refused(words))
}

/// Eight small views that see all of the unit ball.
fn usual() -> Vec<View> {
    around(8, 3.0, [64, 64])
}

fn of_kind(mut views: Vec<View>, kind: Kind) -> Vec<View> {
    for view in &mut views {
        view.kind = kind;
    }
    views
}

fn moved(mut views: Vec<View>, eye: impl Fn([f64; 3]) -> [f64; 3]) -> Vec<View> {
    for view in &mut views {
        view.eye = eye(view.eye);
        view.target = eye(view.target);
    }
    views
}

fn shapes() -> Vec<Extreme> {
    let ball = || icosphere(3);
    let spoilt = |value: f32| {
        let mut shape = ball();
        shape.positions[5][1] = value;
        shape
    };
    let triangle = Shape {
        positions: vec![[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
        triangles: vec![[0, 1, 2]],
    };
    let mut outlier = ball();
    outlier.positions.push([1e6, 0.0, 0.0]);
    outlier
        .triangles
        .push([0, 1, outlier.positions.len() as u32 - 1]);
    let far = |scale: f64| moved(usual(), move |eye| eye.map(|x| x * scale));
    vec![
        extreme("81,920 faces of a sphere", icosphere(6), usual(), Baked),
        extreme("20,000 triangles anywhere", soup(20_000), usual(), Baked),
        extreme("5,000 pieces", pieces(5_000, 0.02), usual(), Baked),
        refused(
            "NaN",
            spoilt(f32::NAN),
            "mesh.ply: vertex 5 has the coordinate NaN",
        ),
        refused(
            "infinity",
            spoilt(f32::INFINITY),
            "mesh.ply: vertex 5 has the coordinate inf",
        ),
        refused(
            "the largest number",
            spoilt(f32::MAX),
            "mesh.ply: vertex 5 has the coordinate 3402",
        ),
        refused(
            "no area",
            ball().map(|_| [0.5; 3]),
            "mesh.ply: all 1280 triangles have zero area",
        ),
        refused(
            "a line",
            ball().map(|[x, ..]| [x, x, x]),
            "mesh.ply: all 1280 triangles have zero area",
        ),
        extreme(
            "a plane",
            ball().map(|[x, y, _]| [x, y, 0.0]),
            usual(),
            Baked,
        ),
        extreme(
            "each triangle twice",
            ball().twice([0, 1, 2]),
            usual(),
            Baked,
        ),
        extreme(
            "each triangle from both sides",
            ball().twice([0, 2, 1]),
            usual(),
            Baked,
        ),
        extreme("one triangle", triangle, usual(), Baked),
        extreme(
            "tiny",
            ball().map(|p| p.map(|x| x * 1e-9)),
            far(1e-9),
            Baked,
        ),
        extreme("huge", ball().map(|p| p.map(|x| x * 1e9)), far(1e9), Baked),
        extreme("one vertex a million away", outlier, usual(), Baked),
        extreme("1,000 leaves on one edge", book(1_000), usual(), Baked),
        extreme("2,000 triangles in one point", star(2_000), usual(), Baked),
        refused(
            "a needle",
            ball().map(|[x, y, z]| [x, y * 1e-4, z * 1e-4]),
            "mesh.ply with transforms.json: no view shows the mesh: not one pixel",
        ),
    ]
}

fn cameras() -> Vec<Extreme> {
    let ball = || icosphere(3);
    let inside = |eye: [f64; 3]| {
        vec![View {
            eye,
            target: [0.3, 0.2, -1.0],
            size: [64, 64],
            kind: Kind::Rgb,
        }]
    };
    let away = moved(usual(), |eye| [eye[0] + 100.0, eye[1], eye[2]]);
    let touching = View {
        target: [0.0; 3],
        ..inside([0.0, 0.0, 1.0]).remove(0)
    };
    vec![
        extreme(
            "nothing in sight",
            ball(),
            away,
            Refused("transforms.json: no view shows mesh.ply"),
        ),
        extreme(
            "all transparent",
            ball(),
            of_kind(usual(), Kind::Clear),
            Refused("all pictures are fully transparent"),
        ),
        extreme("one view", ball(), around(1, 3.0, [64, 64]), Baked),
        extreme("from inside", ball(), inside([0.0; 3]), Baked),
        extreme("from on the surface", ball(), vec![touching], Baked),
        extreme("one pixel each", ball(), around(8, 3.0, [1, 1]), Baked),
        extreme("one row each", ball(), around(8, 3.0, [300, 1]), Baked),
        extreme(
            "a view 16,384 pixels wide",
            ball(),
            around(1, 3.0, [16_384, 2]),
            Baked,
        ),
        extreme("2,000 views", ball(), around(2_000, 3.0, [24, 24]), Baked),
        extreme(
            "4,097 views",
            ball(),
            around(4_097, 3.0, [1, 1]),
            Refused("transforms.json: has 4097 views"),
        ),
    ]
}

/// Simplification of meshes that can hardly be simplified, and kept UVs that do not exist.
fn options() -> Vec<Extreme> {
    let halved = |name, shape| Extreme {
        more: &["--simplify", "0.5"],
        ..extreme(name, shape, usual(), Baked)
    };
    vec![
        halved("half of a soup", soup(2_000)),
        halved("half of the pieces", pieces(500, 0.05)),
        halved("half of the leaves", book(200)),
        halved(
            "half of a ball seen from both sides",
            icosphere(3).twice([0, 2, 1]),
        ),
        Extreme {
            more: &["--target-faces", "4"],
            ..extreme("a ball of four triangles", icosphere(3), usual(), Baked)
        },
        Extreme {
            more: &["--keep-uvs"],
            ..extreme(
                "no coordinates to keep",
                icosphere(3),
                usual(),
                Refused("mesh.ply: the mesh has no texture coord"),
            )
        },
    ]
}

fn kinds() -> Vec<Extreme> {
    let seen = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Clear);
    let name = |kind| match kind {
        Kind::Rgb16 => "16-bit RGB",
        Kind::Rgba16 => "16-bit RGBA",
        Kind::Palette | Kind::PaletteAlpha => "palette",
        _ => "8 bits and less",
    };
    seen.map(|kind| extreme(name(kind), icosphere(2), of_kind(usual(), kind), Baked))
        .collect()
}

/// Runs an input. Returns its bench if it made a GLB, as it then must.
fn run(extreme: &Extreme) -> Result<Option<Bench>, String> {
    let bench = Bench::real();
    std::fs::write(bench.path("mesh.ply"), extreme.shape.ply()).expect("a mesh");
    views::write(&extreme.views, &bench.path("transforms.json"), |number| {
        format!("{number}.png")
    });
    let more = [&FAST[..], extreme.more].concat();
    let command = bench.bake_for_people(Path::new("mesh.ply"), Path::new("transforms.json"), &more);
    let (verdict, time) = judge(&bench, command)?;
    match (verdict, extreme.expect) {
        (Verdict::Baked, Baked) => Ok(Some(bench)),
        (Verdict::Refused(line), Refused(words)) if line.contains(words) => Ok(None),
        (verdict, expect) => Err(format!("{verdict:?} instead of {expect:?}, after {time:?}")),
    }
}

/// Runs them all, and validates every GLB.
fn hold(extremes: &[Extreme]) {
    let results = in_parallel(cores(), extremes, run);
    let baked = all_right(extremes, results, |extreme| extreme.name.to_owned());
    glb::assert_valid(&baked.into_iter().flatten().collect::<Vec<_>>());
}

#[test]
fn odd_meshes_are_baked_or_refused() {
    hold(&shapes());
}

#[test]
fn odd_views_are_baked_or_refused() {
    hold(&cameras());
}

#[test]
fn odd_options_for_odd_meshes_are_baked_or_refused() {
    hold(&options());
}

#[test]
fn pictures_of_every_depth_and_kind_are_baked() {
    hold(&kinds());
}
