//! Writes tensors to a file, valid or not; also a mesh and two views to break.

/// A tensor to be written: name, dtype, shape, bytes.
#[derive(Clone, Debug)]
pub(super) struct Entry(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) Vec<usize>,
    pub(super) Vec<u8>,
);

pub(super) fn entry<const B: usize>(
    name: &'static str,
    dtype: &'static str,
    shape: &[usize],
    numbers: impl IntoIterator<Item = [u8; B]>,
) -> Entry {
    Entry(
        name,
        dtype,
        shape.to_vec(),
        numbers.into_iter().flatten().collect(),
    )
}

pub(super) fn f32s(name: &'static str, shape: &[usize], numbers: &[f32]) -> Entry {
    entry(name, "F32", shape, numbers.iter().map(|x| x.to_le_bytes()))
}

pub(super) fn f64s(name: &'static str, shape: &[usize], numbers: &[f64]) -> Entry {
    entry(name, "F64", shape, numbers.iter().map(|x| x.to_le_bytes()))
}

pub(super) fn i32s(name: &'static str, shape: &[usize], numbers: &[i32]) -> Entry {
    entry(name, "I32", shape, numbers.iter().map(|x| x.to_le_bytes()))
}

pub(super) fn u8s(name: &'static str, shape: &[usize], numbers: &[u8]) -> Entry {
    entry(name, "U8", shape, numbers.iter().map(|&x| [x]))
}

/// The header of the entries, side by side, and their data.
pub(super) fn header(entries: &[Entry], notes: &str) -> (String, Vec<u8>) {
    let mut words: Vec<String> = Vec::new();
    if !notes.is_empty() {
        words.push(format!("\"__metadata__\":{notes}"));
    }
    let mut data = Vec::new();
    for Entry(name, dtype, shape, bytes) in entries {
        let start = data.len();
        data.extend_from_slice(bytes);
        words.push(format!(
            "\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{start},{}]}}",
            data.len()
        ));
    }
    (format!("{{{}}}", words.join(",")), data)
}

pub(super) fn join(header: &str, data: &[u8]) -> Vec<u8> {
    let length = (header.len() as u64).to_le_bytes();
    [&length[..], header.as_bytes(), data].concat()
}

pub(super) fn file(entries: &[Entry], notes: &str) -> Vec<u8> {
    let (header, data) = header(entries, notes);
    join(&header, &data)
}

pub(super) const POINTS: [f32; 15] = [
    0.0,
    0.0,
    0.0,
    2.0,
    0.0,
    0.0,
    2.0,
    2.0,
    0.0,
    0.0,
    2.0,
    0.0,
    f32::NAN,
    0.0,
    0.0,
];

pub(super) fn square() -> Vec<Entry> {
    vec![
        f32s("vertices", &[5, 3], &POINTS),
        i32s("faces", &[2, 3], &[0, 1, 2, 0, 2, 3]),
    ]
}

/// `TRELLIS`: utils3d's `look_at` with z up for a camera on a sphere; row-major, world to camera with `OpenCV` axes.
pub(super) fn look_at(yaw: f64, pitch: f64, radius: f64) -> [[f64; 4]; 4] {
    let eye = [
        radius * yaw.sin() * pitch.cos(),
        radius * yaw.cos() * pitch.cos(),
        radius * pitch.sin(),
    ];
    let cross = |a: [f64; 3], b: [f64; 3]| -> [f64; 3] {
        std::array::from_fn(|k| a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3])
    };
    let dot = |a: [f64; 3], b: [f64; 3]| -> f64 { (0..3).map(|k| a[k] * b[k]).sum() };
    let unit = |a: [f64; 3]| a.map(|x| x / dot(a, a).sqrt());
    let z = unit(eye.map(|x| -x));
    let x = unit(cross(z, [0.0, 0.0, 1.0]));
    let y = cross(z, x);
    let row = |axis: [f64; 3]| [axis[0], axis[1], axis[2], -dot(axis, eye)];
    [row(x), row(y), row(z), [0.0, 0.0, 0.0, 1.0]]
}

pub(super) const NORMALIZED: &str = "{\"intrinsics\":\"normalized\"}";
/// Focal lengths and principal point without symmetry.
pub(super) const LENS: [f64; 4] = [1.4, 1.9, 0.45, 0.6];

pub(super) fn lens([fx, fy, cx, cy]: [f64; 4]) -> [f64; 9] {
    [fx, 0.0, cx, 0.0, fy, cy, 0.0, 0.0, 1.0]
}

/// Two views of 40 columns and 24 rows.
pub(super) fn two_views() -> Vec<Entry> {
    let pose: Vec<f64> = [look_at(0.3, 0.4, 2.0), look_at(2.0, -0.7, 2.0)]
        .concat()
        .concat();
    let size = [2, 24, 40, 3];
    let pixels: Vec<u8> = (0..2 * 24 * 40 * 3).map(|k| (k % 251) as u8).collect();
    vec![
        u8s("observations", &size, &pixels),
        f64s("extrinsics", &[2, 4, 4], &pose),
        f64s("intrinsics", &[2, 3, 3], &[lens(LENS); 2].concat()),
    ]
}
