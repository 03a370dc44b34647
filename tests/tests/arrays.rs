//! Mesh and views in one safetensors file give the same result as separate files. Each error in it gives one line.

use std::fs;
use std::path::Path;

use kiln_tests::glb::Model;
use kiln_tests::picture::Picture;
use kiln_tests::verdict::{Verdict, judge};
use kiln_tests::{Bench, number, read_json, sample, words};
use safetensors::SafeTensors;
use serde_json::{Value, json};

/// Seconds on two cores.
const DRAFT: &str = "--quality draft --texture-size 512 --holdout 3";
/// Width and height of the pictures.
const EDGE: usize = 256;

/// A tensor: name, dtype, shape, bytes.
#[derive(Clone)]
struct Tensor(&'static str, &'static str, Vec<usize>, Vec<u8>);

/// Builds the file, and checks that the format's own library can read it.
fn file(tensors: &[Tensor], metadata: Value) -> Vec<u8> {
    let mut header = serde_json::Map::from_iter([("__metadata__".to_owned(), metadata)]);
    let mut data = Vec::new();
    for Tensor(name, dtype, shape, bytes) in tensors {
        let start = data.len();
        data.extend_from_slice(bytes);
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]});
        header.insert((*name).to_owned(), entry);
    }
    let header = Value::Object(header).to_string();
    let length = (header.len() as u64).to_le_bytes();
    let bytes = [&length[..], header.as_bytes(), &data].concat();
    SafeTensors::deserialize(&bytes).expect("a safetensors file");
    bytes
}

/// Positions, texture coordinates (v up) and indices of a GLB with one primitive.
fn mesh(name: &str) -> Vec<Tensor> {
    let model = Model::open(&sample(name));
    let singles = |list: &[f64]| {
        list.iter()
            .flat_map(|&x| (x as f32).to_le_bytes())
            .collect()
    };
    let (positions, triangles) = (model.floats::<3>("POSITION"), model.triangles());
    let faces = triangles
        .as_flattened()
        .iter()
        .flat_map(|&corner| (corner as i64).to_le_bytes());
    let count = positions.len();
    let mut tensors = vec![
        Tensor(
            "vertices",
            "F32",
            vec![count, 3],
            singles(positions.as_flattened()),
        ),
        Tensor("faces", "I64", vec![triangles.len(), 3], faces.collect()),
    ];
    if model.accessor("TEXCOORD_0").is_some() {
        let uvs = model.floats("TEXCOORD_0").into_iter();
        let uvs: Vec<[f64; 2]> = uvs.map(|[u, v]| [u, f64::from(1.0 - v as f32)]).collect();
        tensors.push(Tensor(
            "uvs",
            "F32",
            vec![count, 2],
            singles(uvs.as_flattened()),
        ));
    }
    tensors
}

/// Pictures with their alpha as masks, and cameras in `TRELLIS`'s convention.
struct Views {
    colours: Vec<u8>,
    masks: Vec<u8>,
    extrinsics: Vec<f64>,
    intrinsics: Vec<f64>,
    count: usize,
}

fn views() -> Views {
    let json = read_json(&sample("transforms.json"));
    let frames = json["frames"].as_array().expect("frames");
    let mut views = Views {
        colours: Vec::new(),
        masks: Vec::new(),
        extrinsics: Vec::new(),
        intrinsics: Vec::new(),
        count: frames.len(),
    };
    let focal = number(&json["fl_x"]) / EDGE as f64;
    for frame in frames {
        let picture = Picture::read(&sample(frame["file_path"].as_str().expect("a name")));
        assert_eq!(picture.colour, png::ColorType::Rgba);
        for pixel in picture.bytes.chunks_exact(4) {
            views.colours.extend_from_slice(&pixel[..3]);
            views.masks.push(pixel[3]);
        }
        // Camera-to-world (C, c) with OpenGL axes: R = diag(1, -1, -1) Cᵀ, t = -R c.
        let at = |r: usize, c: usize| number(&frame["transform_matrix"][r][c]);
        for (r, sign) in [1.0, -1.0, -1.0].into_iter().enumerate() {
            let row: [f64; 3] = std::array::from_fn(|c| sign * at(c, r));
            let translation = -(0..3).map(|c| row[c] * at(c, 3)).sum::<f64>();
            views.extrinsics.extend(row);
            views.extrinsics.push(translation);
        }
        views.extrinsics.extend([0.0, 0.0, 0.0, 1.0]);
        views
            .intrinsics
            .extend([focal, 0.0, 0.5, 0.0, focal, 0.5, 0.0, 0.0, 1.0]);
    }
    views
}

impl Views {
    fn tensors(&self) -> Vec<Tensor> {
        let doubles = |list: &[f64]| list.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.written(["U8", "F64"], <[u8]>::to_vec, doubles)
    }

    /// As renderers output them: float colours and masks, single-precision cameras.
    fn tensors_in_floats(&self) -> Vec<Tensor> {
        let float = |&step: &u8| (f32::from(step) / 255.0).to_le_bytes();
        let single = |&x: &f64| (x as f32).to_le_bytes();
        self.written(
            ["F32", "F32"],
            |list| list.iter().flat_map(float).collect(),
            |list| list.iter().flat_map(single).collect(),
        )
    }

    fn written(
        &self,
        [of_pixels, of_cameras]: [&'static str; 2],
        pixels: impl Fn(&[u8]) -> Vec<u8>,
        cameras: impl Fn(&[f64]) -> Vec<u8>,
    ) -> Vec<Tensor> {
        let size = vec![self.count, EDGE, EDGE];
        let observations = [&size[..], &[3]].concat();
        let square = |edge| vec![self.count, edge, edge];
        vec![
            Tensor(
                "observations",
                of_pixels,
                observations,
                pixels(&self.colours),
            ),
            Tensor("masks", of_pixels, size, pixels(&self.masks)),
            Tensor(
                "extrinsics",
                of_cameras,
                square(4),
                cameras(&self.extrinsics),
            ),
            Tensor(
                "intrinsics",
                of_cameras,
                square(3),
                cameras(&self.intrinsics),
            ),
        ]
    }

    /// With rows from the bottom.
    fn upside_down(&self) -> Vec<Tensor> {
        let turn = |bytes: &[u8], row: usize| -> Vec<u8> {
            let pictures = bytes.chunks_exact(row * EDGE);
            let rows = pictures.flat_map(|picture| picture.chunks_exact(row).rev());
            rows.flatten().copied().collect()
        };
        let mut tensors = self.tensors();
        tensors[0].3 = turn(&self.colours, 3 * EDGE);
        tensors[1].3 = turn(&self.masks, EDGE);
        tensors
    }
}

/// The report and the GLB.
fn bake(mesh: &Path, views: &Path, more: &[&str]) -> (Value, Vec<u8>) {
    let bench = Bench::real();
    let report = bench
        .baked(mesh, views, &[&words(DRAFT), more].concat())
        .report();
    (report, bench.bytes("out/out.glb").expect("the result"))
}

fn heldout(report: &Value) -> f64 {
    number(&report["psnr"]["holdout_db"])
}

fn normalized() -> Value {
    json!({"intrinsics": "normalized"})
}

#[test]
fn one_file_gives_what_many_files_give() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.safetensors");
    let (mesh_file, views_file) = (sample("mesh_nouv.glb"), sample("transforms.json"));
    let views = views();
    let (wanted, wanted_glb) = bake(&mesh_file, &views_file, &[]);

    let both = [mesh("mesh_nouv.glb"), views.tensors()].concat();
    fs::write(&path, file(&both, normalized())).expect("writes");
    let (found, glb) = bake(&path, &path, &[]);
    // Of arrays, nothing has a name.
    let binary = |glb: &[u8]| {
        let json = u32::from_le_bytes(glb[12..16].try_into().expect("four bytes"));
        glb[20 + json as usize..].to_vec()
    };
    assert!(
        binary(&glb) == binary(&wanted_glb),
        "{} and {} dB",
        heldout(&found),
        heldout(&wanted)
    );
    // Each half together with the other kind of file.
    assert!(binary(&bake(&path, &views_file, &[]).1) == binary(&wanted_glb));
    assert!(bake(&mesh_file, &path, &[]).1 == wanted_glb);

    let floats = [mesh("mesh_nouv.glb"), views.tensors_in_floats()].concat();
    fs::write(&path, file(&floats, normalized())).expect("writes");
    let (found, _) = bake(&path, &path, &[]);
    let off = (heldout(&found) - heldout(&wanted)).abs();
    assert!(off < 0.05, "{off} dB");

    // Checks that the comparison can fail.
    fs::write(&path, file(&views.upside_down(), normalized())).expect("writes");
    let (found, glb) = bake(&mesh_file, &path, &["--frame", "given"]);
    assert!(glb != wanted_glb);
    assert!(
        heldout(&found) < heldout(&wanted) - 10.0,
        "{} dB",
        heldout(&found)
    );
}

#[test]
fn texture_coordinates_of_the_file_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.safetensors");
    let views_file = sample("transforms.json");
    let (wanted, _) = bake(&sample("mesh_uv.glb"), &views_file, &["--keep-uvs"]);
    fs::write(&path, file(&mesh("mesh_uv.glb"), normalized())).expect("writes");
    let (found, _) = bake(&path, &views_file, &["--keep-uvs"]);
    assert_eq!(found["prepare"]["unwrap"], "kept");
    let off = (heldout(&found) - heldout(&wanted)).abs();
    assert!(off < 0.05, "{off} dB");
}

#[test]
fn a_broken_file_is_one_line_that_names_the_tensor() {
    let views = views();
    let good = [mesh("mesh_nouv.glb"), views.tensors()].concat();
    let without = |name: &str| -> Vec<Tensor> {
        good.iter()
            .filter(|tensor| tensor.0 != name)
            .cloned()
            .collect()
    };
    let change = |name: &str, change: &dyn Fn(&mut Tensor)| -> Vec<Tensor> {
        let mut tensors = good.clone();
        tensors
            .iter_mut()
            .filter(|tensor| tensor.0 == name)
            .for_each(change);
        tensors
    };
    let transposed = change("extrinsics", &|tensor| {
        for matrix in tensor.3.chunks_exact_mut(16 * 8) {
            let old = matrix.to_vec();
            for k in 0..16 {
                let from = 8 * (k % 4 * 4 + k / 4);
                matrix[8 * k..8 * k + 8].copy_from_slice(&old[from..from + 8]);
            }
        }
    });
    let whole = file(&good, normalized());
    let nan = |tensor: &mut Tensor| tensor.3[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    for (tensors, reason) in [
        (without("faces"), "has no tensor faces, only extrinsics,"),
        (without("observations"), "has no tensor observations"),
        (
            change("masks", &|tensor| tensor.1 = "I8"),
            "tensor masks: is I8",
        ),
        (
            change("masks", &|tensor| tensor.2.swap(0, 1)),
            "tensor masks: has the shape [256, 16, 256], not [16, 256, 256]",
        ),
        (
            change("faces", &|tensor| tensor.3[7] = 255),
            "tensor faces: triangle 0 names vertex -",
        ),
        (change("vertices", &nan), "tensor vertices: [0, 0] is NaN"),
        (transposed, "tensor extrinsics: matrix 0 ends in the row"),
    ] {
        refused(&file(&tensors, normalized()), reason);
    }
    refused(
        &file(&good, json!({})),
        "tensor intrinsics: matrix 0 has the focal length",
    );
    refused(
        &whole[..whole.len() - 100],
        "tensor intrinsics: ends at byte",
    );
    refused(&whole[..100], "it ends within its header");
    refused(&[], "it ends before its header");
}

/// A file of these bytes is refused in one line.
fn refused(bytes: &[u8], reason: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.safetensors");
    fs::write(&path, bytes).expect("writes");
    let bench = Bench::real();
    let command = bench.bake_for_people(&path, &path, &[&words(DRAFT)[..], &["-q"]].concat());
    let (verdict, _) = judge(&bench, command).expect("a GLB, or one line and exit 65");
    let Verdict::Refused(line) = verdict else {
        panic!("was baked, and should not for {reason:?}");
    };
    let told = line.contains("a.safetensors: ") && line.contains(reason);
    assert!(told, "{line:?} does not say {reason:?}");
}
