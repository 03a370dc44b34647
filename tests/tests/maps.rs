//! `--maps` on a part of the sample set: unseen surface, the number of pixels per texel, and an occluder in one view
//! appear where the cameras put them, in the texture's orientation. Tested from the command line and the sidecar.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::Path;

use kiln_tests::sidecar::Sidecar;
use kiln_tests::{Bench, Outcome, Run, glb};
use png::{BitDepth, ColorType};
use proto::table::Provenance;
use proto::table::maps::{
    CODE_GUTTER, CODE_OBSERVED, CODE_SEEN, CODE_UNSEEN, coverage_of, residual_of,
};
use serde_json::{Value, json};

const SABOTEUR: &str = env!("CARGO_BIN_EXE_saboteur");
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/spot");
const SIZE: usize = 256;
/// The views that are kept: those with the largest x.
const KEPT: usize = 6;
/// Edge of the square that is painted into a view.
const SQUARE: usize = 30;

type Point = [f64; 3];

fn minus(a: Point, b: Point) -> Point {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn dot(a: Point, b: Point) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: Point, b: Point) -> Point {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

/// A camera as in transforms.json: the rotation's columns are right, up and backward.
struct Camera {
    axes: [Point; 3],
    at: Point,
    focal: f64,
    centre: f64,
}

impl Camera {
    fn new(file: &Value, frame: &Value) -> Self {
        let number = |row: usize, column: usize| {
            let number = &frame["transform_matrix"][row][column];
            number.as_f64().expect("a number")
        };
        Self {
            axes: [0, 1, 2].map(|column| [0, 1, 2].map(|row| number(row, column))),
            at: [0, 1, 2].map(|row| number(row, 3)),
            focal: file["fl_x"].as_f64().expect("a number"),
            centre: file["cx"].as_f64().expect("a number"),
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
        let json = glb::read(path).expect("a whole GLB");
        let bytes = fs::read(path).expect("the GLB");
        let length = u32::from_le_bytes(bytes[12..16].try_into().expect("four")) as usize;
        let binary = &bytes[20 + length + 8..];
        let primitive = &json["meshes"][0]["primitives"][0];
        let accessor = |index: &Value| {
            let accessor = &json["accessors"][index.as_u64().expect("an index") as usize];
            let view = &json["bufferViews"][accessor["bufferView"].as_u64().expect("one") as usize];
            let from = view["byteOffset"].as_u64().unwrap_or(0)
                + accessor["byteOffset"].as_u64().unwrap_or(0);
            let width = match accessor["componentType"].as_u64() {
                Some(5123) => 2,
                Some(5125 | 5126) => 4,
                other => panic!("component type {other:?}"),
            };
            assert!(view["byteStride"].is_null(), "packed");
            (
                &binary[from as usize..],
                width,
                accessor["count"].as_u64().expect("one") as usize,
            )
        };
        let floats = |name: &str, each: usize| -> Vec<f64> {
            let (bytes, width, count) = accessor(&primitive["attributes"][name]);
            assert_eq!(width, 4);
            let words = bytes.chunks_exact(4).take(count * each);
            words
                .map(|word| f64::from(f32::from_le_bytes(word.try_into().expect("four"))))
                .collect()
        };
        let (bytes, width, count) = accessor(&primitive["indices"]);
        let indices: Vec<usize> = bytes
            .chunks_exact(width)
            .take(count)
            .map(|word| {
                word.iter()
                    .rev()
                    .fold(0, |sum, &byte| (sum << 8) | usize::from(byte))
            })
            .collect();
        Self {
            positions: floats("POSITION", 3)
                .chunks(3)
                .map(|p| [p[0], p[1], p[2]])
                .collect(),
            uvs: floats("TEXCOORD_0", 2)
                .chunks(2)
                .map(|p| [p[0], p[1]])
                .collect(),
            triangles: indices.chunks(3).map(|t| [t[0], t[1], t[2]]).collect(),
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
    let file = BufReader::new(File::open(path).expect("a map"));
    let mut reader = png::Decoder::new(file).read_info().expect("a PNG");
    let info = reader.info();
    assert_eq!((info.width, info.height), (SIZE as u32, SIZE as u32));
    assert_eq!(
        (info.color_type, info.bit_depth),
        (ColorType::Indexed, BitDepth::Eight)
    );
    let mut bytes = vec![0; reader.output_buffer_size().expect("a size")];
    reader.next_frame(&mut bytes).expect("a picture");
    bytes
}

/// Copies the sample's kept views into a folder. Returns their cameras and the first column and row of the square
/// painted into the third view, if any.
fn set(folder: &Path, painted: bool) -> (Vec<Camera>, [usize; 2]) {
    let sample = Path::new(SAMPLE);
    let text = fs::read(sample.join("transforms.json")).expect("the sample");
    let mut file: Value = serde_json::from_slice(&text).expect("JSON");
    let x = |frame: &Value| frame["transform_matrix"][0][3].as_f64().expect("a number");
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
        fs::copy(sample.join(name), folder.join(name)).expect("room");
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
    let mut decoder = png::Decoder::new(BufReader::new(File::open(path).expect("a view")));
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
    let info = reader.next_frame(&mut pixels).expect("a picture");
    assert_eq!(info.color_type, ColorType::Rgba);
    let (width, height) = (info.width as usize, info.height as usize);
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
        let file = BufWriter::new(File::create(path).expect("room"));
        let mut encoder = png::Encoder::new(file, info.width, info.height);
        encoder.set_color(ColorType::Rgba);
        encoder.set_depth(BitDepth::Eight);
        let mut writer = encoder.write_header().expect("room");
        writer.write_image_data(&pixels).expect("room");
        writer.finish().expect("room");
    }
    corner
}

fn bake(bench: &Bench, views: &Path, more: &[&str]) -> Outcome {
    let mesh = Path::new(SAMPLE).join("mesh_nouv.glb");
    let all = ["--quality", "draft", "--texture-size", "256"];
    let command = bench.bake_for_real(&mesh, views, &[&all, more].concat());
    Run::start(command).finish()
}

/// Bakes with maps; returns coverage and residual.
fn maps(bench: &Bench, views: &Path) -> [Vec<u8>; 2] {
    let outcome = bake(bench, views, &["--maps", "out"]);
    outcome.assert_code(0);
    let files = outcome.one("done")["report"]["files"].clone();
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
    let bench = Bench::real(SABOTEUR);
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
    let bench = Bench::real(SABOTEUR);
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

    let socket = bench.path("kiln.sock");
    let mut kiln = bench.kiln();
    kiln.args(["serve", "--socket"]).arg(&socket);
    kiln.arg("--store").arg(bench.path("store"));
    kiln.arg("--root").arg(SAMPLE).arg("--root").arg(&views);
    kiln.arg("--baker").arg(bench.baker());
    let sidecar = Sidecar::spawn(kiln, socket);
    let mesh = Path::new(SAMPLE).join("mesh_nouv.glb");
    let mut spec = json!({
        "mesh": {"path": mesh.canonicalize().expect("there")},
        "views": {"path": views.join("transforms.json").canonicalize().expect("there")},
        "texture_size": SIZE, "quality": "draft", "device": "cpu", "maps": true,
    });
    let mut made = |key: &str, maps: bool| {
        spec["maps"] = maps.into();
        let id = sidecar.submit(key, &spec).json()["id"].clone();
        let job = sidecar.finished(id.as_str().expect("an id"));
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
    let bench = Bench::real(SABOTEUR);
    fs::create_dir(bench.path("out/residual.png")).expect("room");
    let transforms = Path::new(SAMPLE).join("transforms.json");
    for (folder, words) in [("out", "residual.png"), ("nowhere", "nowhere")] {
        let outcome = bake(&bench, &transforms, &["--maps", folder]);
        outcome.assert_code(73);
        let message = outcome.one("error")["message"].to_string();
        assert!(message.contains(words), "{message}");
    }
    fs::remove_dir(bench.path("out/residual.png")).expect("empty");
    bench.assert_clean(&[]);
}
