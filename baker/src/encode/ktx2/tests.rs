//! The reader of untrusted files, which shares no code with the writer, reads the files. Fields are checked against the
//! texts of KTX 2.0 and `KHR_texture_basisu`.

use super::*;
use crate::prepare::picture::ktx2::Texture;
use crate::prepare::picture::{PictureError, decode, probe, probe_texture};

const CODINGS: [Coding; 2] = [Coding::Etc1s(90), Coding::Uastc];
const KINDS: [Kind; 4] = [Kind::Colour, Kind::Translucent, Kind::Data, Kind::Direction];

/// Unlike any mirror image or transposition of itself in every channel: slow waves, a bright disc in one corner, a dark
/// bar in another.
fn picture(size: u32) -> Vec<[u8; 4]> {
    let texel = |k: u32| {
        let (x, y) = ((k % size) as f32, (k / size) as f32);
        let (u, v) = (x / size as f32, y / size as f32);
        let wave = |of: f32| ((of * 9.0).sin() * 40.0) as i32;
        let mut colour = [
            200 - (u * 150.0) as i32 + wave(v),
            40 + (v * 170.0) as i32,
            90 + wave(u + v) + (u * v * 90.0) as i32,
        ];
        if (u - 0.8).hypot(v - 0.2) < 0.12 {
            colour = [250, 240, 120];
        } else if (u < 0.1) && v > 0.6 {
            colour = [10, 20, 60];
        }
        let [r, g, b] = colour.map(|c| c.clamp(0, 255) as u8);
        let alpha = if u + v < 0.5 { (u * 400.0) as u8 } else { 255 };
        [r, g, b, alpha]
    };
    (0..size * size).map(texel).collect()
}

/// PSNR in dB over the first `width` channels.
fn psnr(width: usize, one: &[[u8; 4]], other: &[[u8; 4]]) -> f64 {
    assert_eq!(one.len(), other.len());
    let pairs = one.iter().zip(other);
    let square = |a: u8, b: u8| f64::from(a.abs_diff(b)).powi(2);
    let sum: f64 = pairs
        .flat_map(|(a, b)| (0..width).map(|k| square(a[k], b[k])))
        .sum();
    -10.0 * (sum / (width * one.len()) as f64 / 65025.0).log10()
}

fn word(file: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*file[at..].first_chunk().expect("there"))
}

fn long(file: &[u8], at: usize) -> usize {
    u64::from_le_bytes(*file[at..].first_chunk().expect("there")) as usize
}

#[test]
fn every_level_comes_back_upright_and_in_its_channels() {
    let size = 128;
    let texels = picture(size);
    for coding in CODINGS {
        // Numbers are never ETC1S: each of its blocks has one line of colours, along which channels rise and fall
        // together.
        let kinds = if coding == Coding::Uastc { 4 } else { 2 };
        for &kind in &KINDS[..kinds] {
            let width = if kind == Kind::Translucent { 4 } else { 3 };
            let Made { file, levels } = encode(kind, coding, size, &texels).unwrap();
            let texture = Texture::read(&file).unwrap();
            assert_eq!((texture.width, texture.height), (size, size));
            assert_eq!((texture.level_count(), levels.len()), (8, 8));
            for (number, level) in levels.iter().enumerate().take(5) {
                let held = texture.decode(number).unwrap();
                let close = psnr(width, &level.texels, &held);
                // Small mips are all edges, down to four blocks, and ETC1S codebooks are made for the largest level. An
                // upside-down level is at 10 dB.
                let least = match (coding, number) {
                    (Coding::Uastc, 0) => 40.0,
                    (Coding::Etc1s(_), 0) => 28.0,
                    (_, _) => 20.0,
                };
                assert!(close > least, "{coding:?} {kind:?} {number}: {close} dB");
                if width == 3 {
                    assert!(held.iter().all(|texel| texel[3] == 255));
                }
            }
            // The oracle can fail: other orientations and channel orders are far off.
            let held = texture.decode(0).unwrap();
            let edge = size as usize;
            let turned = |place: fn(usize, usize, usize) -> usize| -> Vec<[u8; 4]> {
                let at = |k: usize| held[place(k % edge, k / edge, edge)];
                (0..held.len()).map(at).collect()
            };
            let swapped = |order: [usize; 4]| -> Vec<[u8; 4]> {
                held.iter()
                    .map(|texel| order.map(|channel| texel[channel]))
                    .collect()
            };
            for wrong in [
                turned(|x, y, edge| (edge - 1 - y) * edge + x),
                turned(|x, y, edge| y * edge + edge - 1 - x),
                turned(|x, y, edge| x * edge + y),
                swapped([2, 1, 0, 3]),
                swapped([1, 0, 2, 3]),
            ] {
                let far = psnr(width, &levels[0].texels, &wrong);
                assert!(far < 19.0, "{coding:?} {kind:?}: {far} dB");
            }
        }
    }
}

#[test]
fn header_and_data_format_are_those_of_the_extension() {
    let texels = picture(64);
    for coding in CODINGS {
        for kind in KINDS {
            let file = encode(kind, coding, 64, &texels).unwrap().file;
            let uastc = coding == Coding::Uastc;
            assert_eq!(file[..12], *b"\xABKTX 20\xBB\r\n\x1A\n");
            let words: Vec<u32> = (0..9).map(|k| word(&file, 12 + 4 * k)).collect();
            let scheme = if uastc { 2 } else { 1 };
            assert_eq!(words, [0, 1, 64, 64, 0, 0, 1, 7, scheme]);
            // The basic block: version 2, its size; model, primaries, transfer, flags; 4×4; no bytes per plane.
            let (at, length) = (word(&file, 48) as usize, word(&file, 52) as usize);
            assert_eq!(at, 80 + 7 * 24);
            let format = &file[at..at + length];
            let alpha = kind == Kind::Translucent;
            let samples = if alpha && !uastc { 2 } else { 1 };
            assert_eq!(length, 28 + 16 * samples);
            assert_eq!(word(format, 0) as usize, length);
            assert_eq!(format[4..8], [0; 4]);
            assert_eq!(format[8..12], [2, 0, length as u8 - 4, 0]);
            let colour = matches!(kind, Kind::Colour | Kind::Translucent);
            let space = if colour { [1, 2] } else { [0, 1] };
            let model = if uastc { 166 } else { 163 };
            assert_eq!(format[12..16], [model, space[0], space[1], 0], "{kind:?}");
            assert_eq!(format[16..28], [3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            let channel = if uastc && alpha { 3 } else { 0 };
            let bits = if uastc { 127 } else { 63 };
            let range = [0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255];
            let first = [&[0, 0, bits, channel][..], &range].concat();
            assert_eq!(format[28..44], first);
            if samples == 2 {
                assert_eq!(format[44..60], [&[64, 0, 63, 15][..], &range].concat());
            }
            // The independent reader agrees.
            let texture = Texture::read(&file).unwrap();
            assert_eq!((texture.model, texture.colour), (model, space));
            let (keys, bytes) = (word(&file, 56) as usize, word(&file, 60) as usize);
            assert_eq!(keys, at + length);
            let keys = &file[keys..keys + bytes];
            assert!(keys[4..].starts_with(b"KTXorientation\0rd\0"));
            assert!(keys.windows(15).any(|part| part == b"KTXwriter\0kiln "));
            // Levels stand from the smallest up, without gaps, to the end of the file; global data, if any, before
            // them, aligned to 8 bytes.
            let (global, more) = (long(&file, 64), long(&file, 72));
            assert_eq!((global % 8, more > 0), (0, !uastc));
            let mut end = file.len();
            for level in 0..7 {
                let at = 80 + 24 * level;
                let (start, length, plain) =
                    (long(&file, at), long(&file, at + 8), long(&file, at + 16));
                assert_eq!(start + length, end);
                end = start;
                let blocks = (64_usize >> level).div_ceil(4).pow(2);
                assert_eq!(plain, if uastc { 16 * blocks } else { 0 });
            }
            let before = if uastc {
                at + format.len() + bytes
            } else {
                global + more
            };
            assert_eq!(end, before);
        }
    }
}

#[test]
fn mips_are_means_of_light_of_numbers_and_of_directions() {
    let board = |one: [u8; 4], other: [u8; 4]| -> Vec<[u8; 4]> {
        let at = |k: usize| {
            if (k % 8 + k / 8).is_multiple_of(2) {
                one
            } else {
                other
            }
        };
        (0..64).map(at).collect()
    };
    let black_white = board([0, 0, 0, 0], [255, 255, 255, 100]);
    for (kind, wanted) in [
        (Kind::Colour, [188, 188, 188, 255]),
        (Kind::Translucent, [188, 188, 188, 50]),
        (Kind::Data, [128, 128, 128, 255]),
    ] {
        let levels = chain(kind, 8, &black_white);
        let edges: Vec<usize> = levels.iter().map(|level| level.edge).collect();
        assert_eq!(edges, [8, 4, 2, 1]);
        for level in &levels[1..] {
            assert_eq!(level.texels.len(), level.edge.pow(2));
            assert!(
                level.texels.iter().all(|&texel| texel == wanted),
                "{kind:?}"
            );
        }
    }
    // Values in between, too: (1 + 0.2159)/2 of light is 204.6, while the mean of the bytes would be 191.5.
    let grey_white = board([128, 128, 128, 255], [255, 255, 255, 255]);
    assert_eq!(
        chain(Kind::Colour, 8, &grey_white)[1].texels[0],
        [205, 205, 205, 255]
    );
    assert_eq!(
        chain(Kind::Data, 8, &grey_white)[1].texels[0],
        [192, 192, 192, 255]
    );
    // x and z mixed: (1, 0, 1)/√2, which is 0.7071 · 127.5 + 127.5 = 217.7.
    let levels = chain(
        Kind::Direction,
        8,
        &board([255, 128, 128, 9], [128, 128, 255, 9]),
    );
    for level in &levels[1..] {
        assert_eq!(level.texels[0], [218, 128, 218, 255]);
    }
    // Opposite directions have no mean.
    let levels = chain(
        Kind::Direction,
        8,
        &board([255, 128, 127, 9], [0, 127, 128, 9]),
    );
    assert_eq!(levels[1].texels[0], [128, 128, 255, 255]);
    // An odd row and column are ignored: 12, 6, 3, 1.
    let ramp: Vec<[u8; 4]> = (0..144).map(|k| [(k % 12) as u8 * 20, 0, 0, 255]).collect();
    let levels = chain(Kind::Data, 12, &ramp);
    let reds: Vec<u8> = levels[2].texels[..3].iter().map(|texel| texel[0]).collect();
    assert_eq!(
        (levels.len(), reds, levels[3].texels[0][0]),
        (4, vec![30, 110, 190], 70)
    );
}

#[test]
fn the_same_texels_are_the_same_bytes_on_any_number_of_threads() {
    let texels = picture(260);
    for coding in CODINGS {
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let made = || encode(Kind::Translucent, coding, 260, &texels);
            pool.expect("threads").install(made).unwrap().file
        };
        let one = on(1);
        assert!(one == on(1) && one == on(2) && one == on(5), "{coding:?}");
        let mut other = texels.clone();
        other[260 * 130 + 7][1] ^= 0x70;
        let file = encode(Kind::Translucent, coding, 260, &other).unwrap().file;
        assert!(file != one, "{coding:?}");
    }
}

#[test]
fn quality_of_etc1s_is_quality_and_edges_are_multiples_of_a_block() {
    let texels = picture(256);
    let made = [1, 50, 100].map(|quality| {
        let Made { file, levels } =
            encode(Kind::Colour, Coding::Etc1s(quality), 256, &texels).unwrap();
        let held = Texture::read(&file).unwrap().decode(0).unwrap();
        (file.len(), psnr(3, &levels[0].texels, &held))
    });
    assert!(made[0].0 < made[1].0 && made[1].0 < made[2].0, "{made:?}");
    assert!(made[0].1 < made[1].1 && made[1].1 < made[2].1, "{made:?}");
    for (size, texels) in [(0, 0), (258, 258 * 258), (256, 255)] {
        let error = encode(Kind::Colour, Coding::Uastc, size, &vec![[0; 4]; texels]);
        assert!(matches!(error, Err(Ktx2Error::Edge(_))), "{size}");
    }
    // Single texels of any colour are kept, since mips go down to one.
    let flat = encode(Kind::Colour, Coding::Uastc, 4, &[[77, 5, 200, 255]; 16]).unwrap();
    let held = Texture::read(&flat.file).unwrap().decode(2).unwrap();
    assert!(psnr(3, &held, &[[77, 5, 200, 255]]) > 40.0, "{held:?}");
}

#[test]
fn damage_is_refused_and_views_are_none() {
    let texels = picture(64);
    for coding in CODINGS {
        let file = encode(Kind::Colour, coding, 64, &texels).unwrap().file;
        let header = probe_texture(&file).unwrap();
        assert_eq!((header.width, header.height), (64, 64));
        assert!(decode(&file, header).is_ok());
        let error = probe(&file).unwrap_err();
        assert!(matches!(error, PictureError::Format(_)), "{error}");
        for length in (0..file.len()).step_by(37) {
            let cut = probe_texture(&file[..length]);
            assert!(cut.is_err(), "{length} of {}", file.len());
        }
        let with = |at: usize, bytes: &[u8]| {
            let mut other = file.clone();
            other[at..at + bytes.len()].copy_from_slice(bytes);
            let read = Texture::read(&other).map(|texture| texture.decode(0).is_ok());
            read.map_err(|error| error.to_string())
        };
        let at = word(&file, 48) as usize;
        let keys = word(&file, 56) as usize;
        for (place, bytes, words) in [
            (12, &[37, 0, 0, 0][..], "not Basis Universal"),
            (20, &[0, 0, 0, 0], "0x64"),
            (20, &[0, 0, 1, 0], "more than"),
            (28, &[1, 0, 0, 0], "several layers"),
            (32, &[6, 0, 0, 0], "several layers"),
            (36, &[6, 0, 0, 0], "several layers"),
            (40, &[8, 0, 0, 0], "more levels"),
            (40, &[255, 255, 255, 255], "more levels"),
            (44, &[3, 0, 0, 0], "neither ETC1S nor UASTC"),
            (48, &[255, 255, 255, 255], "cut off"),
            (56, &[255, 255, 255, 127], "cut off"),
            (80, &[255; 8], "cut off"),
            (at + 12, &[167], "neither ETC1S nor UASTC"),
            (at + 13, &[9], "colour space"),
            (at + 14, &[7], "colour space"),
            (at + 16, &[5, 5], "other blocks"),
            (keys + 4 + 15, b"ru", "upside down"),
        ] {
            let error = with(place, bytes).unwrap_err();
            assert!(error.contains(words), "{place}: {error}");
        }
        if coding == Coding::Uastc {
            // Sixteen times the bytes that the texels need, and one less.
            for bytes in [64 * 64 * 16, 64 * 64 - 1_u64] {
                let error = with(96, &bytes.to_le_bytes()).unwrap_err();
                assert!(error.contains("as large as its texels"), "{error}");
            }
        }
    }
}

/// A file with one level that Zstandard has not packed.
fn plain(size: u32, blocks: &[u8]) -> Vec<u8> {
    let file = encode(Kind::Translucent, Coding::Uastc, size, &picture(size))
        .unwrap()
        .file;
    let (at, length) = (word(&file, 48) as usize, word(&file, 52) as usize);
    let mut plain = file[..104].to_vec();
    plain.extend(&file[at..at + length]);
    plain.resize(160, 0);
    plain.extend(blocks);
    for (at, value) in [(40, 1), (44, 0), (48, 104), (56, 0), (60, 0)] {
        plain[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
    }
    for (at, value) in [
        (64, 0),
        (72, 0),
        (80, 160),
        (88, blocks.len()),
        (96, blocks.len()),
    ] {
        plain[at..at + 8].copy_from_slice(&(value as u64).to_le_bytes());
    }
    plain
}

#[test]
fn no_damage_ends_the_process() {
    let mut random = 1_u64;
    let mut next = move || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) as usize
    };
    // Blocks of random bits: invalid modes and patterns outside their tables.
    for _ in 0..200 {
        let blocks: Vec<u8> = (0..16 * 256).map(|_| next() as u8).collect();
        let file = plain(64, &blocks);
        let _either = Texture::read(&file).expect("a whole header").decode(0);
    }
    let texels = picture(32);
    for coding in CODINGS {
        let file = encode(Kind::Translucent, coding, 32, &texels).unwrap().file;
        for _ in 0..20_000 {
            let mut other = file.clone();
            for _ in 0..4 {
                let at = next() % other.len();
                other[at] ^= 1 << (next() & 7);
            }
            if let Ok(texture) = Texture::read(&other) {
                for level in 0..texture.level_count() {
                    let _either = texture.decode(level);
                }
            }
        }
    }
}
