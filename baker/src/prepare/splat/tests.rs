//! Files written here, splat by splat, against the splats that they hold.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::OwnedFd;

use flate2::Compression;
use flate2::write::GzEncoder;
use kiln_splat::{Cloud, coefficients};
use proto::message::{Refusal, Root};

use super::content::{C0, Origin};
use super::*;
use crate::worker::folder::{Files, FolderError};

mod gltf;
mod sog;

/// Files in memory, by their names.
#[derive(Debug, Default)]
struct Memory(Vec<(String, Vec<u8>)>);

impl Files for Memory {
    fn open(&self, _root: Root, name: &str, _limit: u64) -> Result<(OwnedFd, u64), FolderError> {
        let found = self.0.iter().find(|(one, _)| one == name);
        let (_, bytes) = found.ok_or(Refusal::Missing)?;
        let mut file: File = tempfile::tempfile()?;
        file.write_all(bytes)?;
        file.rewind()?;
        Ok((file.into(), bytes.len() as u64))
    }
}

/// Of a file that has these beside it.
fn read_beside(bytes: &[u8], name: &str, beside: &Memory) -> Option<Result<Splats, SplatError>> {
    super::read(bytes, name, &Folder::new(beside, Root::Views))
}

/// Of a file that has none beside it.
fn read(bytes: &[u8], name: &str) -> Option<Result<Splats, SplatError>> {
    read_beside(bytes, name, &Memory::default())
}

/// A splat as a file of the reference code has it: logarithms, logits, any length of the quaternion.
struct Raw {
    position: [f32; 3],
    constant: [f32; 3],
    logit: f32,
    logs: [f32; 3],
    rotation: [f32; 4],
    /// Red, then green, then blue.
    harmonics: Vec<f32>,
}

fn raw(seed: usize, degree: usize) -> Raw {
    let number = |k: usize| ((seed * 131 + k * 37) % 200) as f32 / 100.0 - 1.0;
    Raw {
        position: [0, 1, 2].map(number),
        constant: [3, 4, 5].map(number),
        logit: 2.0 * number(6),
        logs: [7, 8, 9].map(|k| number(k) - 4.0),
        rotation: [10, 11, 12, 13].map(|k| 3.0 * number(k) + 0.1),
        harmonics: (0..3 * coefficients(degree))
            .map(|k| 0.5 * number(20 + k))
            .collect(),
    }
}

fn names(degree: usize, scales: usize) -> Vec<String> {
    let fixed = "x y z nx ny nz f_dc_0 f_dc_1 f_dc_2"
        .split(' ')
        .map(str::to_owned);
    fixed
        .chain((0..3 * coefficients(degree)).map(|k| format!("f_rest_{k}")))
        .chain(["opacity".to_owned()])
        .chain((0..scales).map(|k| format!("scale_{k}")))
        .chain((0..4).map(|k| format!("rot_{k}")))
        .collect()
}

fn row(raw: &Raw, scales: usize) -> Vec<f32> {
    [
        &raw.position[..],
        &[0.0; 3],
        &raw.constant,
        &raw.harmonics,
        &[raw.logit],
        &raw.logs[..scales],
        &raw.rotation,
    ]
    .concat()
}

/// A PLY of rows in this format.
fn ply(format: &str, names: &[String], rows: &[Vec<f32>]) -> Vec<u8> {
    let mut file = format!("ply\nformat {format} 1.0\nelement vertex {}\n", rows.len());
    for name in names {
        file += &format!("property float {name}\n");
    }
    let mut file = (file + "end_header\n").into_bytes();
    for row in rows {
        for value in row {
            match format {
                "ascii" => file.extend(format!("{value:e} ").into_bytes()),
                "binary_big_endian" => file.extend(value.to_be_bytes()),
                _ => file.extend(value.to_le_bytes()),
            }
        }
        if format == "ascii" {
            file.push(b'\n');
        }
    }
    file
}

fn near(a: f32, b: f32, off: f32) -> bool {
    (a - b).abs() <= off * (1.0 + b.abs())
}

/// The splat at `index` is that of the file, within `off` and `of_rotation`.
fn assert_is(cloud: &Cloud, index: usize, raw: &Raw, [off, of_rotation]: [f32; 2]) {
    let length = raw.rotation.iter().map(|x| x * x).sum::<f32>().sqrt();
    let mut rotation = raw.rotation.map(|x| x / length);
    let dot: f32 = rotation
        .iter()
        .zip(cloud.rotations[index])
        .map(|(a, b)| a * b)
        .sum();
    rotation = rotation.map(|x| x * dot.signum());
    let pairs = (cloud.positions[index].iter().zip(&raw.position))
        .chain(cloud.constants[index].iter().zip(&raw.constant));
    for (found, wanted) in pairs {
        assert!(near(*found, *wanted, off), "{index}: {found} for {wanted}");
    }
    for (found, wanted) in cloud.rotations[index].iter().zip(&rotation) {
        assert!(
            near(*found, *wanted, of_rotation),
            "{index}: rotation {found} for {wanted}"
        );
    }
    for (found, log) in cloud.scales[index].iter().zip(raw.logs) {
        assert!(
            (found.ln() - log).abs() <= 20.0 * off,
            "{index}: scale {found} for {log}"
        );
    }
    let opacity = 1.0 / (1.0 + (-raw.logit).exp());
    assert!(
        near(cloud.opacities[index], opacity, off),
        "{index}: {}",
        cloud.opacities[index]
    );
    let each = coefficients(cloud.degree);
    for k in 0..each {
        for channel in 0..3 {
            let found = cloud.harmonics[index * each + k][channel];
            let stored = raw.harmonics.len() / 3;
            let wanted = raw.harmonics[channel * stored + k];
            assert!(
                near(found, wanted, 2.0 * off),
                "{index}: harmonic {k}: {found} for {wanted}"
            );
        }
    }
}

fn read_as(bytes: &[u8], name: &str) -> Splats {
    read(bytes, name).expect("splats").expect("sound")
}

#[test]
fn a_ply_of_any_degree_order_and_encoding_is_read() {
    for (format, degree) in [
        ("binary_little_endian", 3),
        ("binary_big_endian", 2),
        ("ascii", 1),
        ("binary_little_endian", 0),
    ] {
        let mut all: Vec<Raw> = (0..5).map(|seed| raw(seed, degree)).collect();
        let mut names = names(degree, 3);
        let rows = |all: &[Raw]| -> Vec<Vec<f32>> { all.iter().map(|raw| row(raw, 3)).collect() };
        // What reaches beyond TRELLIS' cube has only its layout.
        let splats = read_as(&ply(format, &names, &rows(&all)), "a.ply");
        assert_eq!(splats.origin, Origin::Inria);
        for raw in &mut all {
            raw.position = raw.position.map(|x| x / 2.0);
        }
        let mut rows = rows(&all);
        let splats = read_as(&ply(format, &names, &rows), "a.ply");
        let origin = if degree == 0 {
            Origin::Trellis
        } else {
            Origin::Inria
        };
        assert_eq!((splats.origin, splats.cloud.degree), (origin, degree));
        names.reverse();
        rows.iter_mut().for_each(|row| row.reverse());
        let turned = read_as(&ply(format, &names, &rows), "a.ply");
        assert_eq!(
            (turned.cloud, turned.origin),
            (splats.cloud.clone(), Origin::Inria)
        );
        for (index, raw) in all.iter().enumerate() {
            assert_is(&splats.cloud, index, raw, [1e-5; 2]);
        }
    }
}

#[test]
fn discs_are_flat_and_what_has_no_meaning_is_counted() {
    let mut rows: Vec<Vec<f32>> = (0..4).map(|seed| row(&raw(seed, 0), 2)).collect();
    // A position, a logit and a quaternion.
    rows[1][0] = f32::NAN;
    rows[2][9] = f32::INFINITY;
    rows[3][12..].fill(0.0);
    let splats = read_as(&ply("binary_little_endian", &names(0, 2), &rows), "a.ply");
    assert_eq!(splats.origin, Origin::Discs);
    assert_eq!((splats.cloud.len(), splats.dropped.meaningless), (1, 3));
    assert_eq!(splats.cloud.scales[0][2], 0.0);
    let none = read(&ply("ascii", &names(0, 2), &rows[1..2]), "a.ply");
    assert_eq!(none, Some(Err(SplatError::Empty(1))));
}

#[test]
fn other_files_are_none_of_splats_and_broken_ones_are_refused() {
    let mesh = b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\n0 0 0\n";
    assert_eq!(read(mesh, "a.ply"), None);
    assert_eq!(read(&[0; 64], "a.bin"), None);
    let without = |name: &str| {
        let kept: Vec<String> = names(0, 3).into_iter().filter(|one| one != name).collect();
        let row = vec![0.0; kept.len()];
        read(&ply("ascii", &kept, &[row]), "a.ply")
    };
    for name in ["x", "opacity", "scale_1", "rot_3", "f_dc_2"] {
        let Some(Err(SplatError::Missing(missing))) = without(name) else {
            panic!("{name} is not missed");
        };
        assert_eq!(missing, name);
    }
    let mut odd = names(1, 3);
    odd.retain(|name| name != "f_rest_8");
    let refused = read(&ply("ascii", &odd, &[vec![0.0; odd.len()]]), "a.ply");
    assert_eq!(refused, Some(Err(SplatError::Harmonics(2))));
    let whole = ply("binary_little_endian", &names(0, 3), &[row(&raw(1, 0), 3)]);
    assert!(matches!(
        read(&whole[..whole.len() - 1], "a.ply"),
        Some(Err(SplatError::Ply(_)))
    ));
    let huge =
        b"ply\nformat ascii 1.0\nelement vertex 99999999\nproperty float f_dc_0\nend_header\n";
    assert_eq!(
        read(huge, "a.ply"),
        Some(Err(SplatError::TooMany(99_999_999)))
    );
}

/// A share in bits.
fn bits(share: f32, bits: u32) -> u32 {
    let most = ((1 << bits) - 1) as f32;
    (share.clamp(0.0, 1.0) * most + 0.5) as u32
}

fn unit(q: [f32; 4]) -> [f32; 4] {
    let length = q.iter().map(|x| x * x).sum::<f32>().sqrt();
    q.map(|x| x / length)
}

/// The place of the largest component, and the quaternion with that one positive.
fn led(q: [f32; 4]) -> (usize, [f32; 4]) {
    let largest = (0..4).fold(
        0,
        |best, k| if q[k].abs() > q[best].abs() { k } else { best },
    );
    (largest, q.map(|x| x * q[largest].signum()))
}

#[test]
fn a_compressed_ply_is_unpacked() {
    let (count, degree) = (300, 2);
    let all: Vec<Raw> = (0..count).map(|seed| raw(seed, degree)).collect();
    let chunks = count.div_ceil(256);
    let mut file = format!("ply\nformat binary_little_endian 1.0\nelement chunk {chunks}\n");
    for name in "min_x min_y min_z max_x max_y max_z min_scale_x min_scale_y min_scale_z max_scale_x max_scale_y \
        max_scale_z min_r min_g min_b max_r max_g max_b"
        .split_ascii_whitespace()
    {
        file += &format!("property float {name}\n");
    }
    file += &format!("element vertex {count}\n");
    for name in [
        "packed_position",
        "packed_rotation",
        "packed_scale",
        "packed_color",
    ] {
        file += &format!("property uint {name}\n");
    }
    file += &format!("element sh {count}\n");
    for k in 0..3 * coefficients(degree) {
        file += &format!("property uchar f_rest_{k}\n");
    }
    let mut file = (file + "end_header\n").into_bytes();
    // The second chunk has other ranges.
    let ranges = |chunk: usize| {
        let wide = 1.0 + chunk as f32;
        let (logs, colour) = ([-5.0 - wide, -3.0 + wide], [-0.2 * wide, 1.2 * wide]);
        [([-wide, wide]), logs, colour]
    };
    for chunk in 0..chunks {
        for [least, most] in ranges(chunk) {
            [least, least, least, most, most, most]
                .iter()
                .for_each(|x| file.extend(x.to_le_bytes()));
        }
    }
    for (index, raw) in all.iter().enumerate() {
        let [at, logs, colours] = ranges(index / 256);
        let share = |x: f32, [least, most]: [f32; 2]| (x - least) / (most - least);
        let three = |x: [f32; 3], range| {
            let [a, b, c] = x.map(|x| share(x, range));
            bits(a, 11) << 21 | bits(b, 10) << 11 | bits(c, 11)
        };
        let (largest, q) = led(unit(raw.rotation));
        let mut rotation = largest as u32;
        for k in (0..4).filter(|&k| k != largest) {
            rotation = rotation << 10 | bits(q[k] * std::f32::consts::FRAC_1_SQRT_2 + 0.5, 10);
        }
        let [r, g, b] = raw
            .constant
            .map(|x| bits(share(0.5 + C0 as f32 * x, colours), 8));
        let opacity = bits(1.0 / (1.0 + (-raw.logit).exp()), 8);
        for word in [
            three(raw.position, at),
            rotation,
            three(raw.logs, logs),
            r << 24 | g << 16 | b << 8 | opacity,
        ] {
            file.extend(word.to_le_bytes());
        }
    }
    for raw in &all {
        file.extend(raw.harmonics.iter().map(|x| bits((x + 4.0) / 8.0, 8) as u8));
    }
    let splats = read_as(&file, "a.compressed.ply");
    assert_eq!((splats.origin, splats.cloud.len()), (Origin::Packed, count));
    for (index, raw) in all.iter().enumerate() {
        assert_is(&splats.cloud, index, raw, [0.02; 2]);
    }
    assert!(
        read(&file[..file.len() - 1], "a.ply")
            .expect("a PLY")
            .is_err()
    );
}

/// The lists of an SPZ.
fn lists(version: u32, all: &[Raw], degree: usize) -> Vec<Vec<u8>> {
    let mut lists = vec![Vec::new(); 6];
    for raw in all {
        for x in raw.position {
            let fixed = ((x * 4096.0).round() as i32).to_le_bytes();
            lists[0].extend(&fixed[..3]);
        }
        let byte = |x: f32| x.round().clamp(0.0, 255.0) as u8;
        lists[1].push(byte(255.0 / (1.0 + (-raw.logit).exp())));
        lists[2].extend(raw.constant.map(|x| byte(x * 0.15 * 255.0 + 127.5)));
        lists[3].extend(raw.logs.map(|x| byte((x + 10.0) * 16.0)));
        let [w, x, y, z] = unit(raw.rotation);
        if version >= 3 {
            let (largest, q) = led([x, y, z, w]);
            let mut word = largest as u32;
            for k in (0..4).filter(|&k| k != largest) {
                let size = (511.0 * q[k].abs() * std::f32::consts::SQRT_2 + 0.5) as u32;
                word = word << 10 | u32::from(q[k] < 0.0) << 9 | size;
            }
            lists[4].extend(word.to_le_bytes());
        } else {
            lists[4].extend([x, y, z].map(|x| byte(x * w.signum() * 127.5 + 127.5)));
        }
        let each = coefficients(degree);
        for k in 0..each {
            lists[5].extend([0, 1, 2].map(|c| byte(raw.harmonics[c * each + k] * 128.0 + 128.0)));
        }
    }
    lists
}

/// Versions 1 to 3.
fn spz(version: u32, all: &[Raw], degree: usize, flags: u8) -> Vec<u8> {
    let mut file = GzEncoder::new(Vec::new(), Compression::fast());
    let words = [0x5053_474e, version, all.len() as u32].map(u32::to_le_bytes);
    file.write_all(&words.concat()).expect("memory");
    file.write_all(&[degree as u8, 12, flags, 0])
        .expect("memory");
    file.write_all(&lists(version, all, degree).concat())
        .expect("memory");
    file.finish().expect("memory")
}

/// Version 4, before it is written: a header of a version, a count, a degree and flags; records; lists.
#[derive(Clone)]
struct Spz {
    version: u32,
    count: u32,
    degree: u8,
    flags: u8,
    records: Vec<u8>,
    lists: Vec<Vec<u8>>,
}

impl Spz {
    fn new(all: &[Raw], degree: usize) -> Self {
        Self {
            version: 4,
            count: all.len() as u32,
            degree: degree as u8,
            flags: 0,
            records: Vec::new(),
            lists: lists(4, all, degree),
        }
    }

    fn write(&self) -> Vec<u8> {
        let lists = self.lists.iter().filter(|list| !list.is_empty());
        let streams: Vec<(Vec<u8>, usize)> = lists
            .map(|list| (zstd::bulk::compress(list, 3).expect("memory"), list.len()))
            .collect();
        let mut file = b"NGSP".to_vec();
        file.extend([self.version, self.count].map(u32::to_le_bytes).concat());
        file.extend([self.degree, 12, self.flags, streams.len() as u8]);
        file.extend((32 + self.records.len() as u32).to_le_bytes());
        file.extend([0; 12]);
        file.extend(&self.records);
        for (stream, size) in &streams {
            file.extend(
                [stream.len() as u64, *size as u64]
                    .map(u64::to_le_bytes)
                    .concat(),
            );
        }
        file.extend(streams.into_iter().flat_map(|(stream, _)| stream));
        file
    }
}

/// A record of another program.
fn record(kind: u32, content: &[u8]) -> Vec<u8> {
    let words = [kind, content.len() as u32].map(u32::to_le_bytes);
    [words.as_flattened(), content].concat()
}

#[test]
fn an_spz_is_unpacked() {
    for (version, degree, flags) in [(2, 0, 0), (3, 3, 1), (3, 1, 0)] {
        let all: Vec<Raw> = (0..40).map(|seed| raw(seed, degree)).collect();
        let file = spz(version, &all, degree, flags);
        let splats = read_as(&file, "a.spz");
        let antialiased = flags == 1;
        // The last component follows from three bytes: where it is small, it is rough.
        let of_rotation = if version == 3 { 0.02 } else { 0.15 };
        assert_eq!(splats.origin, Origin::Spz { antialiased });
        for (index, raw) in all.iter().enumerate() {
            assert_is(&splats.cloud, index, raw, [0.02, of_rotation]);
        }
        for end in 0..file.len() {
            assert!(
                read(&file[..end], "a.spz").is_none_or(|read| read.is_err()),
                "{end}"
            );
        }
    }
    let later = spz(5, &[], 0, 0);
    assert_eq!(read(&later, "a.spz"), Some(Err(SplatError::Version(5))));
}

#[test]
fn an_spz_of_zstandard_streams_has_the_splats_of_its_ply_and_of_gzip() {
    for (degree, flags) in [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)] {
        let all: Vec<Raw> = (0..40).map(|seed| raw(seed, degree)).collect();
        let mut file = Spz::new(&all, degree);
        file.flags = flags;
        let splats = read_as(&file.write(), "a.spz");
        assert_eq!(splats, read_as(&spz(3, &all, degree, flags), "a.spz"));
        for (index, raw) in all.iter().enumerate() {
            assert_is(&splats.cloud, index, raw, [0.02; 2]);
        }
        let rows: Vec<Vec<f32>> = all.iter().map(|raw| row(raw, 3)).collect();
        let ply = read_as(&ply("ascii", &names(degree, 3), &rows), "a.ply");
        assert_alike(&splats.cloud, &ply.cloud, 0.08);
        // Records of other programs are skipped; those of known axes say nothing new.
        file.flags |= 2;
        file.records = [record(7, b"any"), record(0xADBE_0003, &[4, 0, 0, 0])].concat();
        assert_eq!(read_as(&file.write(), "a.ply.spz"), splats);
    }
}

#[test]
fn a_broken_spz_of_zstandard_streams_is_refused_in_one_line() {
    type Change = fn(&mut Spz);
    let all: Vec<Raw> = (0..40).map(|seed| raw(seed, 1)).collect();
    let whole = Spz::new(&all, 1);
    let line = |bytes: &[u8]| {
        let refused = read(bytes, "a.spz").expect("an SPZ");
        let line = refused.expect_err("a refusal").to_string();
        assert!(!line.contains('\n'), "{line}");
        line
    };
    let bytes = whole.write();
    for end in 4..bytes.len() {
        line(&bytes[..end]);
    }
    let changes: [(Change, &str); 10] = [
        (|file| file.version = 5, "is version 5 of SPZ"),
        (
            |file| file.version = 3,
            "is damaged: its header has a version",
        ),
        (|file| file.count = u32::MAX, "has 4294967295 splats, more"),
        (
            |file| file.count = 8_000_000,
            "is damaged: its header promises more",
        ),
        (|file| file.count += 1, "is damaged: one of its Zstandard"),
        (
            |file| file.degree = 5,
            "is damaged: its header has a degree",
        ),
        (
            |file| file.degree = 0,
            "is damaged: its header has another number of lists",
        ),
        (
            |file| file.lists[3].push(0),
            "is damaged: one of its Zstandard",
        ),
        (
            |file| (file.flags, file.records) = (2, vec![1, 0, 0, 0, 9, 0, 0, 0, 1]),
            "is damaged: a record",
        ),
        (
            |file| (file.flags, file.records) = (2, record(0xADBE_0003, &[6, 0, 0, 0])),
            "has other axes than right, up and back",
        ),
    ];
    for (change, wanted) in changes {
        let mut file = whole.clone();
        change(&mut file);
        let line = line(&file.write());
        assert!(line.starts_with(wanted), "{line} for {wanted}");
    }
    // A number in the header or the table, and a stream that holds a gibibyte where its list has forty bytes.
    let mut bomb = Spz::new(&all, 1);
    bomb.lists[1] = vec![0; 1 << 30];
    let mut bomb = bomb.write();
    bomb[32 + 24..][..8].copy_from_slice(&40_u64.to_le_bytes());
    let broken = [
        (bomb, "is damaged: one of its Zstandard"),
        (
            with(&bytes, 32, u64::MAX),
            "is cut off: 18446744073709551615 bytes",
        ),
        (
            with(&bytes, 40, u64::MAX),
            "is damaged: one of its Zstandard",
        ),
        (with(&bytes, 16, u64::MAX), "is cut off: 4294967391 bytes"),
        (with(&bytes, 16, 0), "is damaged: its header has another"),
        (with(&bytes, 32 + 96, 7), "is damaged: one of its Zstandard"),
    ];
    for (file, wanted) in broken {
        let line = line(&file);
        assert!(line.starts_with(wanted), "{line} for {wanted}");
    }
}

/// With eight bytes replaced there.
fn with(bytes: &[u8], at: usize, number: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..][..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The same splats, each number within `off`.
fn assert_alike(found: &Cloud, wanted: &Cloud, off: f32) {
    assert_eq!((found.degree, found.len()), (wanted.degree, wanted.len()));
    let flat = |cloud: &Cloud| -> Vec<f32> {
        let lists = [
            cloud.positions.as_flattened(),
            cloud.scales.as_flattened(),
            &cloud.opacities,
            cloud.constants.as_flattened(),
            cloud.harmonics.as_flattened(),
        ];
        lists.concat()
    };
    for (k, (found, wanted)) in flat(found).into_iter().zip(flat(wanted)).enumerate() {
        assert!(near(found, wanted, off), "number {k}: {found} for {wanted}");
    }
    // A quaternion and its opposite are one rotation.
    for (found, wanted) in found.rotations.iter().zip(&wanted.rotations) {
        let dot: f32 = found.iter().zip(wanted).map(|(a, b)| a * b).sum();
        let mut pairs = found.iter().zip(wanted);
        let same = pairs.all(|(a, b)| near(a * dot.signum(), *b, off));
        assert!(same, "{found:?} for {wanted:?}");
    }
}

#[test]
fn a_dense_splat_is_read_by_its_name() {
    let mut file = Vec::new();
    for x in [1.0_f32, -2.0, 3.0, 0.1, 0.2, 0.3] {
        file.extend(x.to_le_bytes());
    }
    file.extend([255, 128, 0, 51, 128, 255, 128, 128]);
    let splats = read_as(&file, "a.SPLAT");
    let cloud = &splats.cloud;
    assert_eq!(cloud.positions, [[1.0, -2.0, 3.0]]);
    assert_eq!(cloud.scales, [[0.1, 0.2, 0.3]]);
    assert_eq!(cloud.rotations, [[0.0, 1.0, 0.0, 0.0]]);
    assert!((cloud.opacities[0] - 0.2).abs() < 1e-6);
    assert!((f64::from(cloud.constants[0][0]) * C0 + 0.5 - 1.0).abs() < 1e-6);
    file.pop();
    assert!(read(&file, "a.splat").expect("by its name").is_err());
}
