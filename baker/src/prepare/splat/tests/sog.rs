//! SOGs written here, as files of a folder and as archives.

use flate2::Crc;
use flate2::write::DeflateEncoder;
use image::ExtendedColorType;
use image::codecs::webp::WebPEncoder;
use serde_json::{Value, json};

use super::*;

fn webp([width, height]: [u32; 2], texels: &[[u8; 4]]) -> Vec<u8> {
    let mut file = Vec::new();
    WebPEncoder::new_lossless(&mut file)
        .encode(
            texels.as_flattened(),
            width,
            height,
            ExtendedColorType::Rgba8,
        )
        .expect("a picture");
    file
}

/// A SOG as files.
#[derive(Clone)]
struct Sog {
    meta: Value,
    pictures: Vec<(&'static str, Vec<u8>)>,
}

/// Size of the pictures, which is more than 300 splats need.
const WIDE: [u32; 2] = [20, 16];
const LOGS: [f64; 2] = [-6.0, -2.0];
const COLOURS: [f64; 2] = [-1.2, 1.2];
const HARMONICS: [f64; 2] = [-0.6, 0.6];

/// A codebook without an order, or the even steps of version 1.
fn levels([least, most]: [f64; 2], version: u32) -> Vec<f64> {
    let step = |k: usize| if version == 1 { k } else { k * 77 % 256 };
    (0..256)
        .map(|k| least + (most - least) * step(k) as f64 / 255.0)
        .collect()
}

fn nearest(levels: &[f64], x: f32) -> u8 {
    let off = |k: &u8| (levels[usize::from(*k)] - f64::from(x)).abs();
    (0..=255)
        .min_by(|a, b| off(a).total_cmp(&off(b)))
        .expect("levels")
}

/// Splat k has the last centroid but k.
fn sog(all: &[Raw], degree: usize, version: u32) -> Sog {
    let each = coefficients(degree);
    let [logs, colours, harmonic] = [LOGS, COLOURS, HARMONICS].map(|range| levels(range, version));
    let mut planes = vec![vec![[7, 7, 7, 255]; 320]; 6];
    let rows = all.len().div_ceil(64);
    let mut centroids = vec![[0, 0, 0, 255]; rows * 64 * each];
    for (k, raw) in all.iter().enumerate() {
        for channel in 0..3 {
            let x = raw.position[channel];
            let log = x.signum() * x.abs().ln_1p();
            let [low, high] = ((bits((log + 0.8) / 1.6, 16)) as u16).to_le_bytes();
            planes[0][k][channel] = low;
            planes[1][k][channel] = high;
            planes[3][k][channel] = nearest(&logs, raw.logs[channel]);
            planes[4][k][channel] = nearest(&colours, raw.constant[channel]);
        }
        let (largest, q) = led(unit(raw.rotation));
        let others = (0..4).filter(|&at| at != largest);
        for (channel, at) in others.enumerate() {
            let share = q[at] * std::f32::consts::FRAC_1_SQRT_2 + 0.5;
            planes[2][k][channel] = bits(share, 8) as u8;
        }
        planes[2][k][3] = 252 + largest as u8;
        planes[4][k][3] = match version {
            1 => bits((raw.logit + 3.0) / 6.0, 8) as u8,
            _ => bits(1.0 / (1.0 + (-raw.logit).exp()), 8) as u8,
        };
        let label = all.len() - 1 - k;
        let [low, high] = (label as u16).to_le_bytes();
        planes[5][k] = [low, high, 99, 255];
        for c in 0..each {
            let place = label / 64 * 64 * each + label % 64 * each + c;
            for channel in 0..3 {
                let x = raw.harmonics[channel * each + c];
                centroids[place][channel] = nearest(&harmonic, x);
            }
        }
    }
    let names = [
        "low.webp",
        "high.webp",
        "q.webp",
        "s.webp",
        "c.webp",
        "labels.webp",
    ];
    let mut pictures: Vec<_> = (names.into_iter().zip(&planes))
        .map(|(name, texels)| (name, webp(WIDE, texels)))
        .collect();
    if degree == 0 {
        pictures.pop();
    } else {
        let size = [64 * each as u32, rows as u32];
        pictures.push(("centroids.webp", webp(size, &centroids)));
    }
    Sog {
        meta: meta(all.len(), degree, version),
        pictures,
    }
}

fn meta(count: usize, degree: usize, version: u32) -> Value {
    let mut meta = json!({
        "means": { "mins": [-0.8, -0.8, -0.8], "maxs": [0.8, 0.8, 0.8], "files": ["low.webp", "high.webp"] },
        "scales": { "files": ["s.webp"] },
        "quats": { "files": ["q.webp"] },
        "sh0": { "files": ["c.webp"] },
    });
    if degree > 0 {
        meta["shN"] = json!({ "files": ["centroids.webp", "labels.webp"] });
    }
    if version == 1 {
        meta["means"]["shape"] = json!([count, 3]);
        meta["quats"]["encoding"] = json!("quaternion_packed");
        meta["scales"]["mins"] = json!(vec![LOGS[0]; 3]);
        meta["scales"]["maxs"] = json!(vec![LOGS[1]; 3]);
        meta["sh0"]["mins"] = json!([COLOURS[0], COLOURS[0], COLOURS[0], -3.0]);
        meta["sh0"]["maxs"] = json!([COLOURS[1], COLOURS[1], COLOURS[1], 3.0]);
        if degree > 0 {
            meta["shN"]["mins"] = json!(HARMONICS[0]);
            meta["shN"]["maxs"] = json!(HARMONICS[1]);
        }
    } else {
        meta["version"] = json!(version);
        meta["count"] = json!(count);
        meta["scales"]["codebook"] = json!(levels(LOGS, version));
        meta["sh0"]["codebook"] = json!(levels(COLOURS, version));
        if degree > 0 {
            meta["shN"]["codebook"] = json!(levels(HARMONICS, version));
            meta["shN"]["count"] = json!(count);
            meta["shN"]["bands"] = json!(degree);
        }
    }
    meta
}

impl Sog {
    fn picture(&mut self, name: &str) -> &mut Vec<u8> {
        let found = self.pictures.iter_mut().find(|(one, _)| *one == name);
        &mut found.expect("its name").1
    }

    fn read(&self) -> Result<Splats, SplatError> {
        let beside = self.pictures.iter();
        let beside = beside.map(|(name, bytes)| (format!("a/{name}"), bytes.clone()));
        let meta = self.meta.to_string();
        let beside = Memory(beside.collect());
        read_beside(meta.as_bytes(), "a/meta.json", &beside).expect("a SOG")
    }

    /// In a folder of an archive, behind other files.
    fn zip(&self, folder: &str, method: u16) -> Vec<u8> {
        let meta = self.meta.to_string().into_bytes();
        let mut files = vec![("__MACOSX/._meta.json".to_owned(), b"Mac".to_vec())];
        for (name, bytes) in &self.pictures {
            files.push((format!("{folder}{name}"), bytes.clone()));
        }
        files.push((format!("{folder}meta.json"), meta));
        zip(&files, method)
    }
}

/// As streams are written: the heads know neither sizes nor checksums.
fn zip(files: &[(String, Vec<u8>)], method: u16) -> Vec<u8> {
    let (mut archive, mut table) = (Vec::new(), Vec::new());
    for (name, bytes) in files {
        let at = archive.len() as u32;
        let mut sum = Crc::new();
        sum.update(bytes);
        let packed = match method {
            0 => bytes.clone(),
            _ => {
                let mut file = DeflateEncoder::new(Vec::new(), Compression::fast());
                file.write_all(bytes).expect("memory");
                file.finish().expect("memory")
            }
        };
        let sizes = [sum.sum(), packed.len() as u32, bytes.len() as u32].map(u32::to_le_bytes);
        let about = [20, 0x808, method, 0, 0].map(u16::to_le_bytes);
        let name = name.as_bytes();
        let length = (name.len() as u16).to_le_bytes();
        let parts: [&[u8]; 7] = [
            b"PK\x03\x04",
            about.as_flattened(),
            &[0; 12],
            &length,
            &[0; 2],
            name,
            &packed,
        ];
        archive.extend(parts.concat());
        let parts: [&[u8]; 8] = [
            b"PK\x01\x02\x14\0",
            about.as_flattened(),
            sizes.as_flattened(),
            &length,
            &[0; 12],
            &at.to_le_bytes(),
            name,
            b"",
        ];
        table.extend(parts.concat());
    }
    let (size, at) = (table.len() as u32, archive.len() as u32);
    archive.extend(table);
    let count = (files.len() as u16).to_le_bytes();
    archive.extend([&b"PK\x05\x06\0\0\0\0"[..], &count, &count].concat());
    archive.extend([size.to_le_bytes(), at.to_le_bytes()].concat());
    archive.extend(b"\x02\0hi");
    archive
}

#[test]
fn a_sog_is_read_alike_from_a_folder_and_from_an_archive() {
    for (version, degree, antialias) in [
        (2, 0, None),
        (2, 1, Some(true)),
        (2, 2, Some(false)),
        (2, 3, None),
        (1, 0, None),
        (1, 2, None),
    ] {
        let all: Vec<Raw> = (0..300).map(|seed| raw(seed, degree)).collect();
        let mut file = sog(&all, degree, version);
        if let Some(antialias) = antialias {
            file.meta["antialias"] = json!(antialias);
        }
        let splats = file.read().expect("sound");
        let antialiased = antialias == Some(true);
        assert_eq!(splats.origin, Origin::Sog { antialiased });
        assert_eq!((splats.cloud.len(), splats.cloud.degree), (300, degree));
        for (index, raw) in all.iter().enumerate() {
            assert_is(&splats.cloud, index, raw, [0.01, 0.02]);
            for (found, wanted) in splats.cloud.positions[index].iter().zip(raw.position) {
                assert!(near(*found, wanted, 5e-5), "{index}: {found} for {wanted}");
            }
        }
        for (folder, method, name) in [("", 0, "a.sog"), ("a/", 8, "b.zip"), ("a/b/", 0, "A.SOG")] {
            assert_eq!(read_as(&file.zip(folder, method), name), splats, "{name}");
        }
    }
}

#[test]
fn a_png_is_a_picture_of_a_sog_too_and_a_codebook_may_begin_with_null() {
    let all: Vec<Raw> = (0..300).map(|seed| raw(seed, 0)).collect();
    let mut file = sog(&all, 0, 2);
    let splats = file.read().expect("sound");
    let decoded = image::load_from_memory(file.picture("q.webp")).expect("a picture");
    let mut png = Vec::new();
    decoded
        .write_to(&mut std::io::Cursor::new(&mut png), image::ImageFormat::Png)
        .expect("memory");
    *file.picture("q.webp") = png;
    assert_eq!(file.read(), Ok(splats));
    let even = levels(LOGS, 1);
    file.meta["scales"]["codebook"] = json!(even);
    file.meta["scales"]["codebook"][0] = Value::Null;
    *file.picture("s.webp") = webp(WIDE, &[[0, 1, 2, 255]; 320]);
    let scales = file.read().expect("sound").cloud.scales[0];
    // The step is taken from the whole range, as the format's authors do.
    let wanted = [even[1] + (even[1] - even[255]) / 255.0, even[1], even[2]];
    for (found, wanted) in scales.into_iter().zip(wanted) {
        assert!(
            near(found, wanted.exp() as f32, 1e-5),
            "{found} for {wanted}"
        );
    }
}

/// The line that refuses it in a folder, and in an archive too.
fn refusal(file: &Sog) -> String {
    let refused = file.read().expect_err("a refusal");
    let line = refused.to_string();
    assert!(!line.contains('\n'), "{line}");
    let in_archive = read(&file.zip("", 8), "a.sog").expect("a SOG");
    assert_eq!(in_archive, Err(refused));
    line
}

/// Each value at its place in the table is refused by a line that begins so.
fn assert_refused(changes: impl IntoIterator<Item = (&'static str, Value, &'static str)>) {
    let all: Vec<Raw> = (0..300).map(|seed| raw(seed, 1)).collect();
    let whole = sog(&all, 1, 2);
    for (place, value, line) in changes {
        let mut file = whole.clone();
        *file.meta.pointer_mut(place).expect("a key") = value;
        let found = refusal(&file);
        assert!(found.starts_with(line), "{place}: {found}");
    }
}

#[test]
fn what_is_wrong_with_the_table_of_a_sog_is_named() {
    let elsewhere = "its meta.json names a picture that cannot be beside it";
    assert_refused([
        (
            "/version",
            json!(3),
            "is version 3 of SOG: 1 and 2 are read",
        ),
        (
            "/count",
            json!(1 << 24),
            "has 16777216 splats, more than the 8388608 that are taken",
        ),
        (
            "/count",
            json!(321),
            "its low.webp is 20x16 pixels large, too few for 321 splats",
        ),
        (
            "/count",
            Value::Null,
            "its meta.json does not say how many splats",
        ),
        (
            "/count",
            json!(0),
            "has no splat that can be drawn: 0 have numbers without a meaning",
        ),
        (
            "/sh0/codebook",
            json!([1]),
            "its meta.json has a codebook of sh0 of 1 numbers, not 256",
        ),
        (
            "/scales/codebook",
            json!([]),
            "its meta.json has a codebook of scales of 0 numbers, not 256",
        ),
        ("/quats/files/0", json!("../q.webp"), elsewhere),
        ("/quats/files/0", json!("a\nb"), elsewhere),
        ("/quats/files/0", json!(".."), elsewhere),
        ("/quats/files/0", json!("a".repeat(256)), elsewhere),
        (
            "/quats/files",
            json!([]),
            "its meta.json cannot be read: invalid length 0, expected an array of length 1",
        ),
        ("/quats", json!("a".repeat(1 << 20)), "its meta.json is 106"),
    ]);
}

#[test]
fn what_is_wrong_with_the_harmonics_of_a_sog_is_named() {
    let shapeless =
        "its centroids.webp has no meaning: shN has 0 to 3 bands and a count of 1 to 65536";
    assert_refused([
        (
            "/shN/codebook/9",
            Value::Null,
            "its meta.json has a codebook of shN with a null",
        ),
        (
            "/shN/count",
            json!(299),
            "gives a splat the harmonics of centroid 299, where the last is 298",
        ),
        (
            "/shN/count",
            json!(321),
            "its centroids.webp is 192x5 pixels large: 321 centroids of degree 1 are 192x6",
        ),
        (
            "/shN/bands",
            json!(2),
            "its centroids.webp is 192x5 pixels large: 300 centroids of degree 2 are 512x5",
        ),
        ("/shN/bands", json!(4), shapeless),
        ("/shN/count", json!(65_537), shapeless),
        ("/shN/count", json!(0), shapeless),
    ]);
}

#[test]
fn what_version_1_of_a_sog_lacks_is_named() {
    let all: Vec<Raw> = (0..300).map(|seed| raw(seed, 1)).collect();
    let mut first = sog(&all, 1, 1);
    first.meta["quats"]["encoding"] = json!("other");
    assert_eq!(
        refusal(&first),
        "its meta.json has an encoding of quats that is not read"
    );
    first = sog(&all, 1, 1);
    first.meta["sh0"]["maxs"] = json!([1, 1, 1]);
    assert_eq!(
        refusal(&first),
        "its meta.json has no range of each channel of sh0"
    );
}

#[test]
fn a_picture_that_a_sog_lacks_or_that_cannot_be_meant_is_named() {
    let all: Vec<Raw> = (0..300).map(|seed| raw(seed, 1)).collect();
    let whole = sog(&all, 1, 2);
    let mut cut = whole.clone();
    let cut = cut.picture("q.webp");
    cut.pop();
    for (name, picture, line) in [
        (
            "s.webp",
            webp([16, 20], &[[0; 4]; 320]),
            "is 16x20 pixels large, others are 20x16",
        ),
        ("high.webp", b"GIF89a..".to_vec(), "is "),
        ("q.webp", Vec::new(), "is empty"),
        (
            "q.webp",
            cut.clone(),
            "is cut off: the file ends before the picture does",
        ),
        (
            "c.webp",
            vast(16_384, 16_384),
            "is 16384x16384 pixels large, more than ",
        ),
        (
            "c.webp",
            vast(16_384, 2_049),
            "is 16384x2049 pixels large, more than 33554432 in all",
        ),
        (
            "low.webp",
            vast(20, 15),
            "is 20x15 pixels large, too few for 301 splats",
        ),
        ("c.webp", vast(20, 16), "is "),
        ("c.webp", lossy(), "is neither a lossless WebP nor a PNG"),
    ] {
        let mut file = whole.clone();
        file.meta["count"] = json!(301);
        *file.picture(name) = picture;
        let found = refusal(&file);
        assert!(found.starts_with(&format!("its {name} {line}")), "{found}");
    }
    for missing in 0..whole.pictures.len() {
        let mut file = whole.clone();
        let (name, _) = file.pictures.remove(missing);
        assert_eq!(refusal(&file), format!("its {name} is missing"));
    }
    // An alpha that names no component.
    let mut file = whole.clone();
    *file.picture("q.webp") = webp(WIDE, &[[0, 0, 0, 251]; 320]);
    assert_eq!(file.read(), Err(SplatError::Empty(300)));
}

/// The head of a lossless WebP, and nothing behind it.
fn vast(width: u32, height: u32) -> Vec<u8> {
    let size = (width - 1) | (height - 1) << 14 | 1 << 28;
    let parts: [&[u8]; 4] = [
        b"RIFF\x12\0\0\0WEBPVP8L\x06\0\0\0",
        &[0x2f],
        &size.to_le_bytes(),
        &[0],
    ];
    parts.concat()
}

fn lossy() -> Vec<u8> {
    let [width, height] = WIDE;
    let texels = [[9, 99, 199, 255]; 320];
    webp::Encoder::from_rgba(texels.as_flattened(), width, height)
        .encode(80.0)
        .to_vec()
}

#[test]
fn a_sog_that_is_cut_off_or_spoilt_is_refused() {
    let all: Vec<Raw> = (0..70).map(|seed| raw(seed, 1)).collect();
    let whole = sog(&all, 1, 2);
    for method in [0, 8] {
        let file = whole.zip("", method);
        for end in (0..file.len()).step_by(61).chain([file.len() - 1 - 2]) {
            let refused = read(&file[..end], "a.sog").expect("by its name");
            let line = refused.expect_err("cut off").to_string();
            assert!(
                line.starts_with("is damaged: its zip archive"),
                "{end}: {line}"
            );
            assert_eq!(read(&file[..end], "a.zip"), None);
        }
        // Somewhere within a picture.
        let mut spoilt = file.clone();
        spoilt[200] ^= 4;
        let refused = read(&spoilt, "a.sog").expect("a SOG").expect_err("spoilt");
        assert!(
            refused.to_string().starts_with("its low.webp is damaged: "),
            "{refused}"
        );
    }
    let meta = whole.meta.to_string();
    for end in (0..meta.len()).step_by(97) {
        let refused = read(&meta.as_bytes()[..end], "meta.json").expect("by its name");
        let line = refused.expect_err("cut off").to_string();
        assert!(line.starts_with("its meta.json cannot be read: "), "{line}");
    }
}

#[test]
fn a_bomb_in_an_archive_is_not_unpacked() {
    // More than its kind needs, and more than the table says.
    let name = "meta.json".to_owned();
    let zeros = vec![0; 64 << 20];
    let mut bomb = zip(&[(name.clone(), zeros)], 8);
    let refused = |file: &[u8]| {
        let refused = read(file, "a.sog").expect("by its name");
        refused.expect_err("a bomb").to_string()
    };
    assert_eq!(
        refused(&bomb),
        "its meta.json is 67108864 bytes large, more than 1048576"
    );
    let at = bomb
        .windows(4)
        .position(|four| four == b"PK\x01\x02")
        .expect("a table")
        + 24;
    bomb[at..at + 4].copy_from_slice(&1000_u32.to_le_bytes());
    assert_eq!(
        refused(&bomb),
        "its meta.json has not the size that its archive says"
    );
    bomb[at..at + 4].fill(255);
    assert_eq!(
        refused(&bomb),
        "its meta.json is in a ZIP64, which is not read"
    );
    // The method, and whether it is encrypted.
    let mut other = zip(&[(name, b"{}".to_vec())], 8);
    let at = other
        .windows(4)
        .position(|four| four == b"PK\x01\x02")
        .expect("a table");
    other[at + 10] = 14;
    assert_eq!(
        refused(&other),
        "its meta.json is packed by method 14, which is not read"
    );
    other[at + 8] |= 1;
    assert_eq!(refused(&other), "its meta.json is encrypted");
}

#[test]
fn other_archives_and_other_tables_are_none_of_splats() {
    let files = |meta: &str| [("meta.json".to_owned(), meta.as_bytes().to_vec())];
    assert_eq!(read(&zip(&files("{\"a\": 1}"), 0), "a.zip"), None);
    let other = [("a.txt".to_owned(), b"a".to_vec())];
    assert_eq!(read(&zip(&other, 8), "a.zip"), None);
    assert_eq!(read(b"{\"frames\": []}", "meta.json"), None);
    assert_eq!(read(b"{\"means\": []}", "transforms.json"), None);
    let refused = read(&zip(&other, 8), "a.sog").expect("by its name");
    assert_eq!(
        refused.expect_err("no splats").to_string(),
        "its meta.json is missing"
    );
}
