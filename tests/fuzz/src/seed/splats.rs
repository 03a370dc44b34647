//! Files of four splats, for the target [`splats`].
//!
//! [`splats`]: crate::targets::splats

use super::Seed;

pub(super) fn add(seeds: &mut Vec<Seed>) {
    let mut add = |name: &str, form: u8, file: &[u8]| {
        seeds.push(("splats", format!("made-{name}"), [&[form], file].concat()));
    };
    for (name, degree) in [("plain", 0_usize), ("shiny", 1)] {
        add(name, 0, &binary(degree));
    }
    add("text", 0, text().as_bytes());
    add("packed", 0, &packed());
    add("dense", 2, &dense());
}

/// Place of splat `k` along an axis.
fn along(k: usize, axis: usize) -> f32 {
    ((k * 7 + axis * 3) % 5) as f32 - 2.0
}

fn header(format: &str, rest: usize) -> String {
    let mut names = ["x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2"]
        .map(str::to_owned)
        .to_vec();
    names.extend((0..rest).map(|k| format!("f_rest_{k}")));
    let others = "opacity scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3";
    names.extend(others.split(' ').map(str::to_owned));
    let names: Vec<String> = names
        .iter()
        .map(|name| format!("property float {name}\n"))
        .collect();
    format!(
        "ply\nformat {format} 1.0\nelement vertex 4\n{}end_header\n",
        names.concat()
    )
}

fn row(k: usize, rest: usize) -> Vec<f32> {
    let mut row: Vec<f32> = (0..3).map(|axis| along(k, axis)).collect();
    row.extend((0..3 + rest).map(|n| along(k, n) / 4.0));
    row.extend([1.5, -1.0, -2.0, -3.0, 1.0, 0.5, 0.25, 0.0]);
    row
}

fn binary(degree: usize) -> Vec<u8> {
    let rest = 3 * ((degree + 1).pow(2) - 1);
    let mut file = header("binary_little_endian", rest).into_bytes();
    file.extend((0..4).flat_map(|k| row(k, rest)).flat_map(f32::to_le_bytes));
    file
}

fn text() -> String {
    let rows = (0..4).map(|k| {
        let numbers: Vec<String> = row(k, 0).iter().map(f32::to_string).collect();
        numbers.join(" ") + "\n"
    });
    header("ascii", 0) + &rows.collect::<String>()
}

/// One chunk of `PlayCanvas`' compressed layout.
fn packed() -> Vec<u8> {
    let mut header = "ply\nformat binary_little_endian 1.0\nelement chunk 1\n".to_owned();
    for bound in ["min", "max"] {
        for name in ["x", "y", "z", "scale_x", "scale_y", "scale_z"] {
            header += &format!("property float {bound}_{name}\n");
        }
    }
    header += "element vertex 4\n";
    for name in ["position", "rotation", "scale", "color"] {
        header += &format!("property uint packed_{name}\n");
    }
    let mut file = (header + "end_header\n").into_bytes();
    let chunk = [
        -1.0_f32, -1.0, -1.0, -4.0, -4.0, -4.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0,
    ];
    file.extend(chunk.into_iter().flat_map(f32::to_le_bytes));
    let words = (0..16_u32).map(|k| k.wrapping_mul(0x9e37_79b9) | 0xff);
    file.extend(words.flat_map(u32::to_le_bytes));
    file
}

fn dense() -> Vec<u8> {
    let splat = |k: usize| {
        let floats = (0..3).map(|axis| along(k, axis)).chain([0.3, 0.2, 0.1]);
        let mut bytes: Vec<u8> = floats.flat_map(f32::to_le_bytes).collect();
        bytes.extend([200, 100, 50, 220, 255, 128, 100, 90]);
        bytes
    };
    (0..4).flat_map(splat).collect()
}
