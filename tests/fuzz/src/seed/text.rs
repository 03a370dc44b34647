//! Camera files in three dialects, COLMAP models, and streams of log lines.

use super::Seed;

const SAMPLE: &[u8] = include_bytes!("../../../data/spot/transforms.json");

const NERFSTUDIO: &str = r#"{"camera_model":"OPENCV","w":64,"h":64,"fl_x":50.0,"fl_y":50,"cx":32,"cy":31.5,"k1":0,"p2":0.0,
"applied_transform":[[1,0,0,0],[0,1,0,0],[0,0,1,0]],"frames":[
{"file_path":"./images/a.png","mask_path":"masks/a.png","transform_matrix":[[1,0,0,0],[0,1,0,0],[0,0,1,4],[0,0,0,1]]},
{"file_path":"images/b.png","w":128,"h":128,"fl_x":99.5,"transform_matrix":[1,0,0,0,0,1,0,0,0,0,1,2.5e0,0,0,0,1]}],
"train_filenames":["images/a.png"],"val_filenames":["images/b.png"],"test_filenames":[]}"#;

const BLENDER: &str = r#"{"camera_angle_x":0.6911112070083618,"aabb_scale":4,"is_fisheye":false,"frames":[{"file_path":"./train/r_0",
"rotation":0.012,"sharpness":9.5,"transform_matrix":[[2,0,0,0],[0,0,-2,-8],[0,2,0,0],[0,0,0,1]]}]}"#;

const FISHEYE: &str = r#"{"camera_model":"OPENCV_FISHEYE","w":64,"h":64,"fl_x":30.0,"cx":32,"cy":31.5,"k1":0.05,"k4":-0.001,"frames":[
{"file_path":"a.png","transform_matrix":[[1,0,0,0],[0,1,0,0],[0,0,1,4],[0,0,0,1]]},
{"file_path":"b.png","transform_matrix":[[1,0,0,0],[0,1,0,0],[0,0,1,5],[0,0,0,1]]},
{"file_path":"c.png","transform_matrix":[[1,0,0,0],[0,1,0,0],[0,0,1,6],[0,0,0,1]]}]}"#;

const LOG: &str = concat!(
    "\u{3}{\"level\":\"WARN\",\"fields\":{\"message\":\"odd\",\"view\":7,\"why\":\"x\"},\"target\":\"baker\"}\n",
    "thread 'main' panicked at baker/src/bake.rs:7:9:\n\n  raw\ttext \u{1b}[31mred\r\n",
    "{\"level\":\"ERROR\",\"fields\":{}}\n[1,2]\nno end"
);

pub(super) fn add(seeds: &mut Vec<Seed>) {
    for (name, bytes) in [
        ("sample", sample_of_two()),
        ("nerfstudio", NERFSTUDIO.into()),
        ("blender", BLENDER.into()),
        ("fisheye", FISHEYE.into()),
    ] {
        seeds.push(("transforms", format!("made-{name}"), bytes));
    }
    for (name, bytes) in models() {
        seeds.push(("colmap", format!("made-{name}"), bytes));
    }
    seeds.push(("log", "made-lines".to_owned(), LOG.into()));
    let many = (0..99).flat_map(|line| format!("line {line}\n").into_bytes());
    let long = [&[255][..], "ż".repeat(5_000).as_bytes(), b"\nend\n"].concat();
    seeds.push(("log", "made-long".to_owned(), long));
    let many = std::iter::once(9).chain(many).collect();
    seeds.push(("log", "made-many".to_owned(), many));
}

/// Two of the sixteen frames of the sample's own file.
fn sample_of_two() -> Vec<u8> {
    let mut file: serde_json::Value = serde_json::from_slice(SAMPLE).expect("the sample is JSON");
    let frames = file["frames"].as_array_mut().expect("it has frames");
    frames.truncate(2);
    serde_json::to_vec(&file).expect("it is JSON again")
}

/// A model in both forms, encoded for the target: a byte for the form, then the length of the cameras.
fn models() -> [(&'static str, Vec<u8>); 2] {
    const CAMERAS: &str = "# cameras\n1 OPENCV 64 48 50 51 32 24 0.1 -0.02 0.003 0\n2 SIMPLE_PINHOLE 64 48 50 32 24\n";
    const IMAGES: &str =
        "# images\n3 0.5 0.5 -0.5 0.5 1 2 3 1 a b.png\n1.5 2.5 -1\n1 1 0 0 0 0 0 4 2 b.png\n\n";
    let floats = |numbers: &[f64]| {
        numbers
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let camera = |id: u32, model: i32, parameters: &[f64]| {
        let size = [64_u64, 48].map(u64::to_le_bytes).concat();
        [
            &id.to_le_bytes()[..],
            &model.to_le_bytes(),
            &size,
            &floats(parameters),
        ]
        .concat()
    };
    let image = |id: u32, pose: [f64; 7], camera: u32, points: u64| {
        let points = [&points.to_le_bytes()[..], &vec![0; 24 * points as usize]].concat();
        [
            &id.to_le_bytes()[..],
            &floats(&pose),
            &camera.to_le_bytes(),
            b"a.png\0",
            &points,
        ]
        .concat()
    };
    let two = 2_u64.to_le_bytes();
    let cameras = [
        &two[..],
        &camera(
            1,
            6,
            &[
                50.0, 51.0, 32.0, 24.0, 0.1, -0.02, 0.003, 0.0, 0.0, 0.1, 0.0, 0.0,
            ],
        ),
        &camera(2, 3, &[50.0, 32.0, 24.0, 0.1, 0.0]),
    ];
    let images = [
        &two[..],
        &image(1, [0.5, 0.5, -0.5, 0.5, 1.0, 2.0, 3.0], 1, 2),
        &image(2, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 4.0], 2, 0),
    ];
    let joined = |form: u8, cameras: &[u8], images: &[u8]| {
        [
            &[form][..],
            &(cameras.len() as u16).to_le_bytes(),
            cameras,
            images,
        ]
        .concat()
    };
    [
        ("text", joined(0, CAMERAS.as_bytes(), IMAGES.as_bytes())),
        ("binary", joined(1, &cameras.concat(), &images.concat())),
    ]
}
