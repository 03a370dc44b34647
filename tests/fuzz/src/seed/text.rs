//! Camera files of the three dialects, and streams of log lines.

use super::Seed;

const SAMPLE: &[u8] = include_bytes!("../../../data/spot/transforms.json");

const NERFSTUDIO: &str = r#"{"camera_model":"OPENCV","w":64,"h":64,"fl_x":50.0,"fl_y":50,"cx":32,"cy":31.5,"k1":0,"p2":0.0,
"applied_transform":[[1,0,0,0],[0,1,0,0],[0,0,1,0]],"frames":[
{"file_path":"./images/a.png","mask_path":"masks/a.png","transform_matrix":[[1,0,0,0],[0,1,0,0],[0,0,1,4],[0,0,0,1]]},
{"file_path":"images/b.png","w":128,"h":128,"fl_x":99.5,"transform_matrix":[1,0,0,0,0,1,0,0,0,0,1,2.5e0,0,0,0,1]}],
"train_filenames":["images/a.png"],"val_filenames":["images/b.png"],"test_filenames":[]}"#;

const BLENDER: &str = r#"{"camera_angle_x":0.6911112070083618,"aabb_scale":4,"is_fisheye":false,"frames":[{"file_path":"./train/r_0",
"rotation":0.012,"sharpness":9.5,"transform_matrix":[[2,0,0,0],[0,0,-2,-8],[0,2,0,0],[0,0,0,1]]}]}"#;

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
    ] {
        seeds.push(("transforms", format!("made-{name}"), bytes));
    }
    seeds.push(("log", "made-lines".to_owned(), LOG.into()));
    let many = (0..99).flat_map(|line| format!("line {line}\n").into_bytes());
    let long = [&[255][..], "ż".repeat(5_000).as_bytes(), b"\nend\n"].concat();
    seeds.push(("log", "made-long".to_owned(), long));
    let many = std::iter::once(9).chain(many).collect();
    seeds.push(("log", "made-many".to_owned(), many));
}

/// The sample's own file, two of its sixteen frames.
fn sample_of_two() -> Vec<u8> {
    let mut file: serde_json::Value = serde_json::from_slice(SAMPLE).expect("the sample is JSON");
    let frames = file["frames"].as_array_mut().expect("it has frames");
    frames.truncate(2);
    serde_json::to_vec(&file).expect("it is JSON again")
}
