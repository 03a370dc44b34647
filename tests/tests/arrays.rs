//! Mesh and views in one safetensors file give the same result as separate files. Each error in it gives one line.

use std::fs;
use std::path::{Path, PathBuf};

use kiln_tests::verdict::{Verdict, judge};
use kiln_tests::{Bench, Run};
use safetensors::SafeTensors;
use serde_json::{Value, json};

const SABOTEUR: &str = env!("CARGO_BIN_EXE_saboteur");
const DRAFT: [&str; 6] = [
    "--quality",
    "draft",
    "--texture-size",
    "512",
    "--holdout",
    "3",
];
/// Width and height of the pictures.
const EDGE: usize = 256;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("data/spot")
        .join(name)
}

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

/// Positions, texture coordinates (v up) and indices of a GLB with one primitive whose accessors are buffer views.
fn mesh(name: &str) -> Vec<Tensor> {
    let glb = fs::read(data(name)).expect("the mesh");
    let length = u32::from_le_bytes(glb[12..16].try_into().expect("four bytes")) as usize;
    let json: Value = serde_json::from_slice(&glb[20..20 + length]).expect("JSON");
    let binary = &glb[20 + length + 8..];
    let primitive = &json["meshes"][0]["primitives"][0];
    let bytes = |accessor: &Value| -> Option<Vec<u8>> {
        let view = &json["accessors"][accessor.as_u64()? as usize]["bufferView"];
        let view = &json["bufferViews"][view.as_u64()? as usize];
        let start = view["byteOffset"].as_u64().unwrap_or(0) as usize;
        let length = view["byteLength"].as_u64()? as usize;
        Some(binary[start..start + length].to_vec())
    };
    let positions = bytes(&primitive["attributes"]["POSITION"]).expect("positions");
    let indices = bytes(&primitive["indices"]).expect("indices");
    let faces: Vec<u8> = indices
        .chunks_exact(2)
        .flat_map(|pair| i64::from(u16::from_le_bytes([pair[0], pair[1]])).to_le_bytes())
        .collect();
    let count = positions.len() / 12;
    let mut tensors = vec![
        Tensor("vertices", "F32", vec![count, 3], positions),
        Tensor("faces", "I64", vec![faces.len() / 24, 3], faces),
    ];
    if let Some(uvs) = bytes(&primitive["attributes"]["TEXCOORD_0"]) {
        let mut floats: Vec<f32> = uvs
            .chunks_exact(4)
            .map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]))
            .collect();
        floats
            .iter_mut()
            .skip(1)
            .step_by(2)
            .for_each(|v| *v = 1.0 - *v);
        let bytes = floats.iter().flat_map(|x| x.to_le_bytes()).collect();
        tensors.push(Tensor("uvs", "F32", vec![count, 2], bytes));
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
    let text = fs::read(data("transforms.json")).expect("the views");
    let json: Value = serde_json::from_slice(&text).expect("JSON");
    let frames = json["frames"].as_array().expect("frames");
    let mut views = Views {
        colours: Vec::new(),
        masks: Vec::new(),
        extrinsics: Vec::new(),
        intrinsics: Vec::new(),
        count: frames.len(),
    };
    let focal = json["fl_x"].as_f64().expect("a focal length") / EDGE as f64;
    for frame in frames {
        let path = data(frame["file_path"].as_str().expect("a name"));
        let file = std::io::BufReader::new(fs::File::open(path).expect("a picture"));
        let mut reader = png::Decoder::new(file).read_info().expect("a PNG");
        assert_eq!(reader.output_color_type().0, png::ColorType::Rgba);
        let mut pixels = vec![0; 4 * EDGE * EDGE];
        reader.next_frame(&mut pixels).expect("pixels");
        for pixel in pixels.chunks_exact(4) {
            views.colours.extend_from_slice(&pixel[..3]);
            views.masks.push(pixel[3]);
        }
        // Camera-to-world (C, c) with OpenGL axes: R = diag(1, -1, -1) Cᵀ, t = -R c.
        let at = |r: usize, c: usize| frame["transform_matrix"][r][c].as_f64().expect("a number");
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
        let bytes = |list: &[f64]| list.iter().flat_map(|x| x.to_le_bytes()).collect();
        let size = vec![self.count, EDGE, EDGE];
        let observations = [&size[..], &[3]].concat();
        vec![
            Tensor("observations", "U8", observations, self.colours.clone()),
            Tensor("masks", "U8", size, self.masks.clone()),
            Tensor(
                "extrinsics",
                "F64",
                vec![self.count, 4, 4],
                bytes(&self.extrinsics),
            ),
            Tensor(
                "intrinsics",
                "F64",
                vec![self.count, 3, 3],
                bytes(&self.intrinsics),
            ),
        ]
    }

    /// As renderers output them: float colours and masks, single-precision cameras.
    fn tensors_in_floats(&self) -> Vec<Tensor> {
        let steps = |list: &[u8]| -> Vec<u8> {
            let float = |&step: &u8| (f32::from(step) / 255.0).to_le_bytes();
            list.iter().flat_map(float).collect()
        };
        let singles = |list: &[f64]| {
            list.iter()
                .flat_map(|&x| (x as f32).to_le_bytes())
                .collect()
        };
        let size = vec![self.count, EDGE, EDGE];
        let observations = [&size[..], &[3]].concat();
        vec![
            Tensor("observations", "F32", observations, steps(&self.colours)),
            Tensor("masks", "F32", size, steps(&self.masks)),
            Tensor(
                "extrinsics",
                "F32",
                vec![self.count, 4, 4],
                singles(&self.extrinsics),
            ),
            Tensor(
                "intrinsics",
                "F32",
                vec![self.count, 3, 3],
                singles(&self.intrinsics),
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
    let bench = Bench::real(SABOTEUR);
    let command = bench.bake_for_real(mesh, views, &[&DRAFT[..], more].concat());
    let outcome = Run::start(command).finish();
    outcome.assert_code(0);
    let glb = fs::read(bench.path("out/out.glb")).expect("the result");
    (outcome.one("done")["report"].clone(), glb)
}

fn heldout(report: &Value) -> f64 {
    report["psnr"]["holdout_db"].as_f64().expect("measured")
}

fn normalized() -> Value {
    json!({"intrinsics": "normalized"})
}

#[test]
fn one_file_gives_what_many_files_give() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.safetensors");
    let (mesh_file, views_file) = (data("mesh_nouv.glb"), data("transforms.json"));
    let views = views();
    let (wanted, wanted_glb) = bake(&mesh_file, &views_file, &[]);

    let both = [mesh("mesh_nouv.glb"), views.tensors()].concat();
    fs::write(&path, file(&both, normalized())).expect("writes");
    let (found, glb) = bake(&path, &path, &[]);
    assert!(
        glb == wanted_glb,
        "{} and {} dB",
        heldout(&found),
        heldout(&wanted)
    );
    // Each half together with the other kind of file.
    assert!(bake(&path, &views_file, &[]).1 == wanted_glb);
    assert!(bake(&mesh_file, &path, &[]).1 == wanted_glb);

    let floats = [mesh("mesh_nouv.glb"), views.tensors_in_floats()].concat();
    fs::write(&path, file(&floats, normalized())).expect("writes");
    let (found, _) = bake(&path, &path, &[]);
    let off = (heldout(&found) - heldout(&wanted)).abs();
    assert!(
        off < 0.05,
        "{} and {} dB",
        heldout(&found),
        heldout(&wanted)
    );

    // Checks that the comparison can fail.
    fs::write(&path, file(&views.upside_down(), normalized())).expect("writes");
    let (found, glb) = bake(&mesh_file, &path, &[]);
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
    let views_file = data("transforms.json");
    let (wanted, _) = bake(&data("mesh_uv.glb"), &views_file, &["--keep-uvs"]);
    fs::write(&path, file(&mesh("mesh_uv.glb"), normalized())).expect("writes");
    let (found, _) = bake(&path, &views_file, &["--keep-uvs"]);
    assert_eq!(found["prepare"]["unwrap"], "kept");
    let off = (heldout(&found) - heldout(&wanted)).abs();
    assert!(
        off < 0.05,
        "{} and {} dB",
        heldout(&found),
        heldout(&wanted)
    );
}

#[test]
fn a_broken_file_is_one_line_that_names_the_tensor() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.safetensors");
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
    for (bytes, reason) in [
        (
            file(&without("faces"), normalized()),
            "has no tensor faces, only extrinsics,",
        ),
        (
            file(&without("observations"), normalized()),
            "has no tensor observations",
        ),
        (
            file(&change("masks", &|tensor| tensor.1 = "I8"), normalized()),
            "tensor masks: is I8",
        ),
        (
            file(
                &change("masks", &|tensor| tensor.2.swap(0, 1)),
                normalized(),
            ),
            "tensor masks: has the shape [256, 16, 256], not [16, 256, 256]",
        ),
        (
            file(&change("faces", &|tensor| tensor.3[7] = 255), normalized()),
            "tensor faces: triangle 0 names vertex -",
        ),
        (
            file(
                &change("vertices", &|tensor| {
                    tensor.3[..4].copy_from_slice(&f32::NAN.to_le_bytes());
                }),
                normalized(),
            ),
            "tensor vertices: [0, 0] is NaN",
        ),
        (
            file(&transposed, normalized()),
            "tensor extrinsics: matrix 0 ends in the row",
        ),
        (
            file(&good, json!({})),
            "tensor intrinsics: matrix 0 has the focal length",
        ),
        (
            whole[..whole.len() - 100].to_vec(),
            "tensor intrinsics: ends at byte",
        ),
        (whole[..100].to_vec(), "it ends within its header"),
        (Vec::new(), "it ends before its header"),
    ] {
        fs::write(&path, bytes).expect("writes");
        let bench = Bench::real(SABOTEUR);
        let command = bench.bake_for_people(&path, &path, &[&DRAFT[..], &["-q"]].concat());
        let (verdict, _) = judge(&bench, command).expect("a GLB, or one line and exit 65");
        let Verdict::Refused(line) = verdict else {
            panic!("was baked, and should not for {reason:?}");
        };
        assert!(
            line.contains("a.safetensors: ") && line.contains(reason),
            "{line:?} does not say {reason:?}"
        );
    }
}
