//! `--maps` on a part of the sample set: unseen surface, the number of pixels per texel, and an occluder in one view
//! appear where the cameras put them, in the texture's orientation. Tested from the command line and the sidecar.

use std::fs;
use std::path::Path;

use kiln_tests::ball::{Vector, cross, dot};
use kiln_tests::picture::Picture;
use kiln_tests::sidecar::Sidecar;
use kiln_tests::{Bench, Outcome, glb, number, read_json, sample, words};
use png::ColorType;
use proto::table::Provenance;
use proto::table::maps::{
    CODE_GUTTER, CODE_OBSERVED, CODE_SEEN, CODE_UNSEEN, coverage_of, residual_of,
};
use serde_json::{Value, json};

const SIZE: usize = 256;
/// The views that are kept: those with the largest x.
const KEPT: usize = 6;
/// Edge of the square that is painted into a view.
const SQUARE: usize = 30;

type Point = Vector;

fn minus(a: Point, b: Point) -> Point {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

/// A camera as transforms.json has it: columns of the rotation are right, up and backward.
struct Camera {
    axes: [Point; 3],
    at: Point,
    focal: f64,
    centre: f64,
}

impl Camera {
    fn new(file: &Value, frame: &Value) -> Self {
        let at = |row: usize, column: usize| number(&frame["transform_matrix"][row][column]);
        Self {
            axes: [0, 1, 2].map(|column| [0, 1, 2].map(|row| at(row, column))),
            at: [0, 1, 2].map(|row| at(row, 3)),
            focal: number(&file["fl_x"]),
            centre: number(&file["cx"]),
        }
    }

    /// Projects a point to column and row.
    fn project(&self, point: Point) -> [f64; 2] {
        let away = minus(point, self.at);
        let [right, up, back] = self.axes.map(|axis| dot(axis, away));
        [
            self.centre + self.focal * right / -back,
            self.centre - self.focal * up / -back,
        ]
    }
}

/// The mesh of a GLB.
struct Model {
    positions: Vec<Point>,
    uvs: Vec<[f64; 2]>,
    triangles: Vec<[usize; 3]>,
}

impl Model {
    fn read(path: &Path) -> Self {
        glb::read(path).expect("a whole GLB");
        let model = glb::Model::open(path);
        Self {
            positions: model.floats("POSITION"),
            uvs: model.floats("TEXCOORD_0"),
            triangles: model.triangles(),
        }
    }

    fn corners(&self, triangle: usize) -> [Point; 3] {
        self.triangles[triangle].map(|vertex| self.positions[vertex])
    }

    /// Whether a triangle lies between two points, away from both.
    fn blocked(&self, from: Point, to: Point) -> bool {
        let way = minus(to, from);
        (0..self.triangles.len()).any(|triangle| {
            let [a, b, c] = self.corners(triangle);
            let (ab, ac) = (minus(b, a), minus(c, a));
            let p = cross(way, ac);
            let determinant = dot(ab, p);
            if determinant.abs() < 1e-14 {
                return false;
            }
            let s = minus(from, a);
            let u = dot(s, p) / determinant;
            let q = cross(s, ab);
            let v = dot(way, q) / determinant;
            let t = dot(ac, q) / determinant;
            u >= 0.0 && v >= 0.0 && u + v <= 1.0 && (2e-3..0.999).contains(&t)
        })
    }
}

/// A texel of a chart and its relation to the views.
struct Texel {
    column: usize,
    row: usize,
    /// Per view: the cosine to the surface, whether the sight line is free, the pixel position, and how many of its
    /// pixels the texel covers.
    views: Vec<Sight>,
}

struct Sight {
    cosine: f64,
    free: bool,
    at: [f64; 2],
    pixels: f64,
}

impl Sight {
    fn clear(&self) -> bool {
        self.free && self.cosine > 0.35
    }
}

/// Samples every few texels of the charts.
fn texels(model: &Model, cameras: &[Camera]) -> Vec<Texel> {
    let mut found = Vec::new();
    for (triangle, corners) in model.triangles.iter().enumerate() {
        let [a, b, c] = corners.map(|vertex| model.uvs[vertex].map(|x| x * SIZE as f64 - 0.5));
        let [pa, pb, pc] = model.corners(triangle);
        let area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
        let bound = |axis: usize| {
            let values = [a[axis], b[axis], c[axis]];
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(0.0, f64::max);
            low.max(0.0).ceil() as usize..=(high as usize).min(SIZE - 1)
        };
        let normal = cross(minus(pb, pa), minus(pc, pa));
        let point = |x: f64, y: f64| {
            let u = ((x - a[0]) * (c[1] - a[1]) - (y - a[1]) * (c[0] - a[0])) / area;
            let v = ((b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0])) / area;
            let place: Point =
                std::array::from_fn(|k| pa[k] + u * (pb[k] - pa[k]) + v * (pc[k] - pa[k]));
            (u >= 0.0 && v >= 0.0 && u + v <= 1.0, place)
        };
        for row in bound(1) {
            for column in bound(0) {
                let (x, y) = (column as f64, row as f64);
                let (inside, place) = point(x, y);
                if !inside || (3 * column + 7 * row) % 5 != 0 {
                    continue;
                }
                let sight = |camera: &Camera| {
                    let to = minus(camera.at, place);
                    let cosine = dot(normal, to) / (dot(normal, normal) * dot(to, to)).sqrt();
                    let at = camera.project(place);
                    let step = |dx: f64, dy: f64| {
                        let near = camera.project(point(x + 0.01 * dx, y + 0.01 * dy).1);
                        [100.0 * (near[0] - at[0]), 100.0 * (near[1] - at[1])]
                    };
                    let (across, down) = (step(1.0, 0.0), step(0.0, 1.0));
                    Sight {
                        cosine,
                        free: cosine > 0.0 && !model.blocked(place, camera.at),
                        at,
                        pixels: (across[0] * down[1] - across[1] * down[0]).abs(),
                    }
                };
                let views = cameras.iter().map(sight).collect();
                found.push(Texel { column, row, views });
            }
        }
    }
    found
}

/// Texel indices of a picture of the texture's size.
fn indices(path: &Path) -> Vec<u8> {
    let picture = Picture::read(path);
    let found = (picture.size, picture.colour);
    assert_eq!(found, ([SIZE as u32; 2], ColorType::Indexed));
    picture.bytes
}

/// Copies the sample's kept views into a folder. Returns their cameras and the first column and row of the square
/// painted into the third view, if any.
fn set(folder: &Path, painted: bool) -> (Vec<Camera>, [usize; 2]) {
    let mut file = read_json(&sample("transforms.json"));
    let x = |frame: &Value| number(&frame["transform_matrix"][0][3]);
    let mut frames = file["frames"].as_array().expect("views").clone();
    frames.sort_by(|a, b| x(b).total_cmp(&x(a)));
    frames.truncate(KEPT);
    fs::create_dir_all(folder.join("train")).expect("room");
    let cameras = frames
        .iter()
        .map(|frame| Camera::new(&file, frame))
        .collect();
    let mut square = [0; 2];
    for (index, frame) in frames.iter().enumerate() {
        let name = frame["file_path"].as_str().expect("a name");
        fs::copy(sample(name), folder.join(name)).expect("room");
        if index == 2 {
            square = paint(&folder.join(name), painted);
        }
    }
    file["frames"] = frames.into();
    fs::write(folder.join("transforms.json"), file.to_string()).expect("room");
    (cameras, square)
}

/// Paints a square where the picture is opaque all around; returns its first column and row.
fn paint(path: &Path, really: bool) -> [usize; 2] {
    let mut picture = Picture::read(path);
    assert_eq!(picture.colour, ColorType::Rgba);
    let [width, height] = picture.size.map(|edge| edge as usize);
    let pixels = &mut picture.bytes;
    let offset = |column: usize, row: usize| 4 * (row * width + column);
    let square = |[left, top]: [usize; 2]| {
        (top..top + SQUARE).flat_map(move |row| (left..left + SQUARE).map(move |c| (c, row)))
    };
    let places = (0..height - SQUARE).flat_map(|row| (0..width - SQUARE).map(move |c| [c, row]));
    let opaque: Vec<[usize; 2]> = places
        .filter(|&place| square(place).all(|(c, row)| pixels[offset(c, row) + 3] == 255))
        .collect();
    // Well within the object.
    let corner = *opaque
        .get(opaque.len() * 3 / 5)
        .expect("the object is larger");
    if really {
        for (column, row) in square(corner) {
            pixels[offset(column, row)..][..3].copy_from_slice(&[255, 0, 255]);
        }
        picture.write(path);
    }
    corner
}

fn bake(bench: &Bench, views: &Path, more: &[&str]) -> Outcome {
    let all = words("--quality draft --texture-size 256");
    bench.baked(sample("mesh_nouv.glb"), views, &[&all, more].concat())
}

/// Bakes with maps; returns coverage and residual.
fn maps(bench: &Bench, views: &Path) -> [Vec<u8>; 2] {
    let files = bake(bench, views, &["--maps", "out"]).report()["files"].clone();
    let kinds: Vec<&str> = files
        .as_array()
        .expect("a list")
        .iter()
        .map(|file| file["kind"].as_str().expect("a kind"))
        .collect();
    assert_eq!(kinds, ["glb", "coverage", "residual", "provenance"]);
    bench.assert_clean(&["coverage.png", "out.glb", "provenance.png", "residual.png"]);
    ["coverage", "residual"].map(|name| indices(&bench.path(&format!("out/{name}.png"))))
}

fn share(of: impl Iterator<Item = bool>) -> (f64, usize) {
    let (mut yes, mut all) = (0, 0);
    for holds in of {
        yes += usize::from(holds);
        all += 1;
    }
    (yes as f64 / all.max(1) as f64, all)
}

/// Ways in which a picture may be mirrored or turned; the first is the right one.
const TURNS: [fn(usize, usize) -> usize; 4] = [
    |column, row| row * SIZE + column,
    |column, row| (SIZE - 1 - row) * SIZE + column,
    |column, row| row * SIZE + SIZE - 1 - column,
    |column, row| column * SIZE + row,
];

#[test]
fn maps_show_what_is_seen_and_what_disagrees_where_the_cameras_put_it() {
    let bench = Bench::real();
    let (clean, painted) = (bench.path("clean"), bench.path("painted"));
    let (cameras, _) = set(&clean, false);
    let (_, [left, top]) = set(&painted, true);
    let [coverage, before] = maps(&bench, &clean.join("transforms.json"));
    let model = Model::read(&bench.path("out/out.glb"));
    let [_, after] = maps(&bench, &painted.join("transforms.json"));
    let texels = texels(&model, &cameras);

    for (turn, place) in TURNS.iter().enumerate() {
        let code = |texel: &Texel| coverage[place(texel.column, texel.row)];
        let right = |(share, all): (f64, usize), least: f64, what: &str| {
            assert!(all > 100, "{what}: {all} texels");
            let holds = if turn == 0 {
                share > least
            } else {
                share < 0.8
            };
            assert!(holds, "turn {turn}, {what}: {share} of {all} texels");
        };
        let averted = |texel: &&Texel| texel.views.iter().all(|view| view.cosine < -0.25);
        let hidden = texels.iter().filter(averted);
        right(
            share(hidden.map(|texel| code(texel) == CODE_UNSEEN)),
            0.98,
            "unseen",
        );

        // Only texels that every facing view sees freely and not too obliquely, so that their pixels are whole.
        let simple = |texel: &&Texel| {
            let looking = texel.views.iter().filter(|view| view.cosine > -0.1);
            looking.clone().count() > 0 && looking.into_iter().all(Sight::clear)
        };
        let counted = texels.iter().filter(simple).map(|texel| {
            let pixels = texel.views.iter().filter(|view| view.clear());
            let wanted: f64 = pixels.map(|view| view.pixels).sum();
            coverage_of(code(texel))
                .is_some_and(|w| (0.75..1.33).contains(&(f64::from(w) / wanted)))
        });
        // Near a chart's border, and where the mesh bends within a texel, the Jacobian is less accurate.
        right(share(counted), 0.93, "number of pixels");
    }

    // The square as the view has it, and where a mirrored or inverted camera would put it.
    let mirrors: [fn([f64; 2]) -> [f64; 2]; 3] = [
        |[x, y]| [x, y],
        |[x, y]| [256.0 - x, y],
        |[x, y]| [x, 256.0 - y],
    ];
    let within = |[x, y]: [f64; 2], margin: f64| {
        let near = |at: f64, from: usize| {
            (from as f64 - margin..(from + SQUARE) as f64 + margin).contains(&at)
        };
        near(x, left) && near(y, top)
    };
    let residual = |codes: &[u8], at: usize| residual_of(codes[at]).map(f64::from);
    let mut kept = Vec::new();
    for (turn, place) in TURNS.iter().enumerate() {
        for (mirror, mirrored) in mirrors.iter().enumerate() {
            let rise = |texel: &Texel| {
                let at = place(texel.column, texel.row);
                residual(&after, at)
                    .zip(residual(&before, at))
                    .map(|(a, b)| a - b)
            };
            // Others see it, too: a single view would be believed.
            let known = |texel: &&Texel| texel.views.iter().filter(|view| view.clear()).count() > 2;
            let (mut inside, mut outside) = (Vec::new(), Vec::new());
            for texel in texels.iter().filter(known) {
                let view = &texel.views[2];
                let at = mirrored(view.at);
                if view.clear() && within(at, -3.0) {
                    inside.push(rise(texel).is_some_and(|rise| rise > 0.03));
                } else if !view.free || !within(at, 6.0) {
                    outside.push(rise(texel).is_some_and(|rise| rise.abs() < 0.01));
                }
            }
            let (shown, all) = share(inside.into_iter());
            let (quiet, others) = share(outside.into_iter());
            if (turn, mirror) == (0, 0) {
                assert!(all > 20 && others > 300, "{all} and {others} texels");
                assert!(shown > 0.95 && quiet > 0.95, "{shown} and {quiet}");
            }
            kept.push((turn, mirror, shown));
        }
    }
    for (turn, mirror, shown) in &kept[1..] {
        assert!(*shown < 0.6, "turn {turn}, mirror {mirror}: {shown}");
    }
}

#[test]
fn maps_agree_with_each_other_and_are_the_sidecars_too() {
    let bench = Bench::real();
    let views = bench.path("views");
    set(&views, true);
    let [coverage, residual] = maps(&bench, &views.join("transforms.json"));
    for (c, r) in coverage.iter().zip(&residual) {
        assert_eq!(*c == CODE_GUTTER, *r == CODE_GUTTER);
        assert_eq!(
            *c >= CODE_SEEN,
            *r >= CODE_SEEN,
            "all pixels of the set are opaque enough"
        );
    }
    let provenance = indices(&bench.path("out/provenance.png"));
    for (c, p) in coverage.iter().zip(&provenance) {
        let known = match *c {
            CODE_GUTTER => Provenance::Gutter,
            CODE_UNSEEN => Provenance::Filled,
            CODE_SEEN..CODE_OBSERVED => Provenance::Weak,
            CODE_OBSERVED.. => Provenance::Observed,
        };
        assert_eq!(*p, known as u8);
    }

    let [root, mesh] =
        ["", "mesh_nouv.glb"].map(|name| sample(name).canonicalize().expect("there"));
    let sidecar = Sidecar::confined(&bench, &["--root", root.to_str().expect("text")]);
    let mut spec = json!({
        "mesh": {"path": mesh},
        "views": {"path": views.join("transforms.json").canonicalize().expect("there")},
        "texture_size": SIZE, "quality": "draft", "device": "cpu", "maps": true,
    });
    let mut made = |key: &str, maps: bool| {
        spec["maps"] = maps.into();
        let job = sidecar.finished(&sidecar.submit(key, &spec).id());
        assert_eq!(job["state"], "succeeded", "{job:#}");
        job
    };
    let job = made("with", true);
    let names: Vec<&Value> = job["artifacts"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|artifact| &artifact["name"])
        .collect();
    assert_eq!(
        names,
        [
            "model.glb",
            "coverage.png",
            "residual.png",
            "provenance.png",
            "report.json"
        ]
    );
    for name in ["coverage.png", "residual.png", "provenance.png"] {
        let id = job["id"].as_str().expect("an id");
        let answer = sidecar.get(&format!("/v1/jobs/{id}/artifacts/{name}"));
        assert_eq!(answer.status, 200);
        assert_eq!(answer.headers["content-type"], "image/png");
        // From another process on the same adapter: the same bytes.
        let ours = fs::read(bench.path(&format!("out/{name}"))).expect("the map");
        assert!(answer.body == ours, "{name} differs");
    }
    let artifacts = &made("without", false)["artifacts"];
    assert_eq!(artifacts.as_array().map(Vec::len), Some(2), "{artifacts}");
}

#[test]
fn a_map_that_cannot_be_put_there_is_said_before_any_work() {
    let bench = Bench::real();
    fs::create_dir(bench.path("out/residual.png")).expect("room");
    let transforms = sample("transforms.json");
    for (folder, words) in [("out", "residual.png"), ("/proc/no", "/proc/no")] {
        let outcome = bake(&bench, &transforms, &["--maps", folder]);
        let message = outcome.refusal(73);
        assert!(message.contains(words), "{message}");
    }
    fs::remove_dir(bench.path("out/residual.png")).expect("empty");
    bench.assert_clean(&[]);
}
