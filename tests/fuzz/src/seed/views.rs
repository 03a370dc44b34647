//! Sets of views that pass all of prepare. `transforms.json`, COLMAP models and cameras of other programs with their pictures are encoded for the
//! target [`views`], safetensors files with mesh and views for [`arrays`].
//!
//! [`views`]: crate::targets::views
//! [`arrays`]: crate::targets::arrays

use serde_json::{Map, Value, json};

use super::{Seed, picture};

/// A camera four units in front of the origin.
const POSES: &str = "[[1,0,0,0],[0,1,0,0],[0,0,1,4],[0,0,0,1]]";

/// Width and height of the pictures.
const SIZE: [usize; 2] = [12, 9];

pub(super) fn add(seeds: &mut Vec<Seed>) {
    let [picture, mask] = [picture::interlaced(), picture::grey()];
    let mut add = |name: &str, parts: (u8, &[u8], &[u8], &[u8], &[u8])| {
        seeds.push(("views", format!("made-{name}"), joined(parts)));
    };
    let lens = r#""k1":-0.2,"k2":0.05,"p1":0.01,"#;
    let of = |more: &str, frame: &str| {
        format!(
            r#"{{"fl_x":9.5,"w":12,"h":9,{more}"frames":[{{"file_path":"a.png",{frame}"transform_matrix":{POSES}}}]}}"#
        )
    };
    let channels = r#""normal_space":"camera","channels":{"normal":"b.png","emissive":"b.png","opacity":"b.png"},"#;
    let masked = r#""mask_path":"b.png","#;
    add("plain", (0, of("", "").as_bytes(), &[], &picture, &mask));
    add(
        "lens",
        (0, of(lens, masked).as_bytes(), &[], &picture, &mask),
    );
    add(
        "channels",
        (0, of(lens, channels).as_bytes(), &[], &picture, &mask),
    );
    let pixel = picture::pixel();
    let one = format!(
        r#"{{"camera_angle_x":1.5,"k1":0.1,"frames":[{{"file_path":"a","transform_matrix":{POSES}}}]}}"#
    );
    add("one-pixel", (0, one.as_bytes(), &[], &pixel, &[]));
    const CAMERAS: &str = "1 OPENCV 12 9 9.5 9.5 6 4.5 -0.1 0.02 0.003 0\n";
    const IMAGES: &str = "1 1 0 0 0 0 0 4 1 a.png\n1.5 2.5 -1\n2 0 1 0 0 0 0 4 1 b.png\n\n";
    add(
        "model",
        (1, IMAGES.as_bytes(), CAMERAS.as_bytes(), &picture, &mask),
    );
    let [cameras, images] = model();
    add("binary-model", (2, &images, &cameras, &picture, &mask));
    let sphere = format!(
        r#"{{"camera_model":"EQUIRECTANGULAR","frames":[{{"file_path":"b.png","transform_matrix":{POSES}}}]}}"#
    );
    let wide = picture::panorama();
    add("panorama", (0, sphere.as_bytes(), &[], &picture, &wide));
    for (form, name, text, list) in PROGRAMS {
        add(
            name,
            (form, text.as_bytes(), list.as_bytes(), &picture, &mask),
        );
    }
    for (name, bytes) in arrays() {
        seeds.push(("arrays", format!("made-{name}"), bytes));
    }
}

/// Forms of the target, names, and what each program writes, with Bundler's list.
const PROGRAMS: [(u8, &str, &str, &str); 5] = [
    (
        3,
        "meshroom",
        r#"{"version":["1","2","11"],"views":[{"viewId":"1","poseId":"1","intrinsicId":"2","path":"a.png","width":"12"}],"intrinsics":[{
        "intrinsicId":"2","width":"12","height":"9","sensorWidth":"36","type":"pinhole","distortionType":"brown","undistortionType":"none",
        "focalLength":"28.5","pixelRatio":"1","principalPoint":["0","0.5"],"distortionParams":["-0.1","0.01","0","0.001","0"]}],"poses":[{
        "poseId":"1","pose":{"transform":{"rotation":["1","0","0","0","-1","0","0","0","-1"],"center":["0","0","4"]}}}]}"#,
        "",
    ),
    (
        4,
        "meshlab",
        r#"<!DOCTYPE MeshLabDocument><MeshLabProject><RasterGroup><MLRaster label="a"><VCGCamera TranslationVector="0 0 -4 1"
        RotationMatrix="1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1" CameraType="0" BinaryData="0" FocalMm="30" LensDistortion="0 0" PixelSizeMm="3 3"
        ViewportPx="12 9" CenterPx="6 4"/><Plane semantic="1" fileName="a.png"/></MLRaster></RasterGroup></MeshLabProject>"#,
        "",
    ),
    (
        5,
        "bundler",
        "# Bundle file v0.3\n2 0\n9.5 -0.1 0.01\n1 0 0\n0 1 0\n0 0 1\n0 0 -4\n0 0 0\n0 0 0\n0 0 0\n0 0 0\n0 0 0\n",
        "a.png 0 9.5\nb.png\n",
    ),
    (
        6,
        "metashape",
        r#"<?xml version="1.0"?><document><chunk><sensors><sensor id="0" type="fisheye"><resolution width="12" height="9"/><calibration
        class="adjusted"><f>9.5</f><cx>0.5</cx><k1>0.01</k1><p1>0.001</p1></calibration></sensor></sensors><components><component id="3">
        <transform><rotation>1 0 0 0 1 0 0 0 1</rotation><translation>0 0 0</translation><scale>2</scale></transform></component></components>
        <cameras><camera sensor_id="0" component_id="3" label="a"><transform>1 0 0 0 0 -1 0 0 0 0 -1 2 0 0 0 1</transform></camera></cameras>
        </chunk></document>"#,
        "",
    ),
    (
        7,
        "splatting",
        r#"[{"id":0,"img_name":"a","width":12,"height":9,"position":[0,0,4],"rotation":[[1,0,0],[0,-1,0],[0,0,-1]],"fy":9.5,"fx":9.5}]"#,
        "",
    ),
];

fn joined(
    (form, description, cameras, picture, second): (u8, &[u8], &[u8], &[u8], &[u8]),
) -> Vec<u8> {
    let parts = [description, cameras, picture];
    let lengths = parts.map(|part| (part.len() as u16).to_le_bytes()).concat();
    [&[form][..], &lengths, &parts.concat(), second].concat()
}

/// A binary model's cameras and images.
fn model() -> [Vec<u8>; 2] {
    let floats =
        |numbers: &[f64]| -> Vec<u8> { numbers.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let one = 1_u64.to_le_bytes();
    let size = SIZE.map(|edge| (edge as u64).to_le_bytes()).concat();
    let lens = floats(&[
        9.5, 9.5, 6.0, 4.5, -0.1, 0.02, 0.003, 0.0, 0.0, 0.1, 0.0, 0.0,
    ]);
    let (id, model) = (7_u32.to_le_bytes(), 6_i32.to_le_bytes());
    let cameras = [&one[..], &id, &model, &size, &lens].concat();
    let pose = floats(&[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 4.0]);
    let points = [&one[..], &[0; 24]].concat();
    let images = [&one[..], &id, &pose, &id, b"a.png\0", &points].concat();
    [cameras, images]
}

/// A tensor: name, type, shape, bytes.
type Tensor = (&'static str, &'static str, Vec<usize>, Vec<u8>);

/// Files with every supported type of number.
fn arrays() -> Vec<(&'static str, Vec<u8>)> {
    let [width, height] = SIZE;
    let count = width * height;
    let floats =
        |numbers: &[f32]| -> Vec<u8> { numbers.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let doubles = |numbers: &[f32]| -> Vec<u8> {
        numbers
            .iter()
            .flat_map(|x| f64::from(*x).to_le_bytes())
            .collect()
    };
    let ramp = |count: usize| {
        (0..count)
            .map(|k| (k * 37 % 256) as u8)
            .collect::<Vec<u8>>()
    };
    let shares = |count: usize| -> Vec<u8> {
        let all: Vec<f32> = (0..count).map(|k| (k % 11) as f32 / 10.0).collect();
        floats(&all)
    };
    let ahead = [
        1.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, -1.0, 4.0, 0.0, 0.0, 0.0, 1.0,
    ];
    let pixels = [9.5, 0.0, 6.0, 0.0, 9.5, 4.5, 0.0, 0.0, 1.0];
    let shares_of = [0.8, 0.0, 0.5, 0.0, 1.1, 0.5, 0.0, 0.0, 1.0];
    let corners = [
        -1.0, -1.0, 0.0, 1.0, -1.0, 0.0, 1.0, 1.0, 0.0, -1.0, 1.0, 0.5,
    ];
    let mesh = |dtype: &'static str, faces: Vec<u8>| -> Vec<Tensor> {
        vec![
            ("vertices", "F32", vec![4, 3], floats(&corners)),
            ("faces", dtype, vec![2, 3], faces),
            (
                "uvs",
                "F32",
                vec![4, 2],
                floats(&[0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0]),
            ),
        ]
    };
    let faces = [0_i64, 1, 2, 0, 2, 3];
    let long = faces.iter().flat_map(|k| k.to_le_bytes()).collect();
    let short = faces
        .iter()
        .flat_map(|k| (*k as u32).to_le_bytes())
        .collect();
    let shape = |views: usize| vec![views, height, width, 3];
    let bytes: Vec<Tensor> = vec![
        ("observations", "U8", shape(2), ramp(6 * count)),
        (
            "masks",
            "BOOL",
            vec![2, height, width],
            ramp(2 * count).iter().map(|x| x % 2).collect(),
        ),
        (
            "extrinsics",
            "F32",
            vec![2, 4, 4],
            floats(&[ahead, ahead].concat()),
        ),
        (
            "intrinsics",
            "F32",
            vec![2, 3, 3],
            floats(&[pixels, pixels].concat()),
        ),
    ];
    let numbers: Vec<Tensor> = vec![
        ("observations", "F32", shape(1), shares(3 * count)),
        ("masks", "F32", vec![1, height, width], shares(count)),
        ("extrinsics", "F64", vec![1, 4, 4], doubles(&ahead)),
        ("intrinsics", "F64", vec![1, 3, 3], doubles(&shares_of)),
        ("channels.normal", "U8", shape(1), ramp(3 * count)),
        ("channels.emissive", "F32", shape(1), shares(3 * count)),
    ];
    let notes = json!({"intrinsics": "normalized", "normal_space": "camera"});
    let all = [mesh("I64", long), bytes.clone()].concat();
    vec![
        ("mesh", file(&mesh("U32", short), None)),
        ("bytes", file(&bytes, None)),
        ("numbers", file(&numbers, Some(notes))),
        ("all", file(&all, None)),
    ]
}

/// Header and data.
fn file(tensors: &[Tensor], notes: Option<Value>) -> Vec<u8> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    header.extend(notes.map(|notes| ("__metadata__".to_owned(), notes)));
    for (name, dtype, shape, bytes) in tensors {
        let start = data.len();
        data.extend(bytes);
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]});
        header.insert((*name).to_owned(), entry);
    }
    let header = Value::Object(header).to_string();
    [
        &(header.len() as u64).to_le_bytes()[..],
        header.as_bytes(),
        &data,
    ]
    .concat()
}
