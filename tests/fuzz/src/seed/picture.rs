//! A corner of a sample view in every format and depth that can be written, and in forms that libraries do not write:
//! interlaced, animated, with four channels.

use std::io::Cursor;

use image::{DynamicImage, ImageFormat};
use tiff::encoder::colortype::{ColorType, Gray8, RGB8, RGB16, RGBA8};
use tiff::encoder::{Compression, DeflateLevel, TiffEncoder, TiffValue};

use super::Seed;

const SAMPLE: &[u8] = include_bytes!("../../../data/spot/train/r_000.png");

/// Lossy WebP, one pixel: `image` writes lossless only.
const LOSSY: &[u8] = b"RIFF\x22\0\0\0WEBPVP8 \x16\0\0\0\x30\x01\0\x9d\x01\x2a\x01\0\x01\0\x0e\xc0\xfe\x25\xa4\0\x03\x70\0\0\0\0";

/// Written by other programs; the view reader's tests use the same files.
const PROGRESSIVE: &[u8] =
    include_bytes!("../../../../baker/src/prepare/picture/samples/progressive.jpg");
const TURNED: &[u8] = include_bytes!("../../../../baker/src/prepare/picture/samples/turned.jpg");
const ANIMATED: &[u8] =
    include_bytes!("../../../../baker/src/prepare/picture/samples/animated.webp");

pub(super) fn add(seeds: &mut Vec<Seed>) {
    let whole = image::load_from_memory(SAMPLE).expect("the sample is a PNG");
    let part = whole.crop_imm(120, 120, 12, 9);
    let rgba = DynamicImage::from(part.to_rgba8());
    let rgb = DynamicImage::from(part.to_rgb8());
    let grey = DynamicImage::from(part.to_luma8());
    for (name, picture, format) in [
        ("rgba.png", &rgba, ImageFormat::Png),
        ("rgb.png", &rgb, ImageFormat::Png),
        ("grey.png", &grey, ImageFormat::Png),
        ("deep.png", &part.to_rgba16().into(), ImageFormat::Png),
        (
            "greydeep.png",
            &part.to_luma_alpha16().into(),
            ImageFormat::Png,
        ),
        ("rgb.jpg", &rgb, ImageFormat::Jpeg),
        ("grey.jpg", &grey, ImageFormat::Jpeg),
        ("rgba.webp", &rgba, ImageFormat::WebP),
        ("rgb.webp", &rgb, ImageFormat::WebP),
        ("rgb.bmp", &rgb, ImageFormat::Bmp),
        ("rgba.bmp", &rgba, ImageFormat::Bmp),
        ("rgb.ppm", &rgb, ImageFormat::Pnm),
        ("grey.pgm", &grey, ImageFormat::Pnm),
        ("light.hdr", &part.to_rgb32f().into(), ImageFormat::Hdr),
    ] {
        let mut bytes = Cursor::new(Vec::new());
        picture
            .write_to(&mut bytes, format)
            .expect("it can be written");
        seeds.push(("picture", format!("made-{name}"), bytes.into_inner()));
    }
    for (name, bytes) in [
        ("lossy.webp", LOSSY.to_vec()),
        ("progressive.jpg", PROGRESSIVE.to_vec()),
        ("turned.jpg", TURNED.to_vec()),
        ("interlaced.png", interlaced()),
        (
            "interlaced-deep.png",
            adam7(SIZE, [16, 6], |x, y, k| {
                (5000 * k + 999 * x + 77 * y) as u16
            }),
        ),
        ("animated.png", animated()),
        ("light.exr", exr()),
        (
            "rgb.tif",
            tiff::<RGB8>(&rgb.to_rgb8(), Compression::Uncompressed),
        ),
        (
            "rgba-lzw.tif",
            tiff::<RGBA8>(&rgba.to_rgba8(), Compression::Lzw),
        ),
        (
            "grey-deflate.tif",
            tiff::<Gray8>(&grey.to_luma8(), Compression::Deflate(DeflateLevel::Fast)),
        ),
        (
            "deep-packbits.tif",
            tiff::<RGB16>(&part.to_rgb16(), Compression::Packbits),
        ),
    ] {
        seeds.push(("picture", format!("made-{name}"), bytes));
    }
    // Recognised and refused.
    for (name, bytes) in [("cmyk.jpg", cmyk()), ("animated.webp", ANIMATED.to_vec())] {
        seeds.push(("picture", format!("refused-{name}"), bytes));
    }
}

/// Half floats with alpha, in a data window that is not the whole picture.
fn exr() -> Vec<u8> {
    use exr::prelude::*;
    let pixels = SpecificChannels::rgba(|at: Vec2<usize>| {
        let [x, y] = [at.x(), at.y()].map(|at| f16::from_f32(at as f32 / 9.0));
        (x, y, f16::from_f32(0.3), f16::from_f32(1.0))
    });
    let mut layer = Layer::new(
        (12, 9),
        LayerAttributes::named("a"),
        Encoding::FAST_LOSSLESS,
        pixels,
    );
    layer.attributes.layer_position = Vec2(1, 0);
    let mut picture = Image::from_layer(layer);
    picture.attributes.display_window = IntegerBounds::new((0, 0), (14, 9));
    let mut file = Cursor::new(Vec::new());
    let written = picture.write().non_parallel().to_buffered(&mut file);
    written.expect("memory takes all");
    file.into_inner()
}

/// Twice as wide as high.
pub(super) fn panorama() -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let picture =
        image::RgbImage::from_fn(48, 24, |x, y| image::Rgb([5 * x as u8, 9 * y as u8, 99]));
    picture
        .write_to(&mut file, ImageFormat::Png)
        .expect("memory takes all");
    file.into_inner()
}

/// A TIFF of samples of one kind.
fn tiff<C: ColorType>(samples: &[C::Inner], compression: Compression) -> Vec<u8>
where
    [C::Inner]: TiffValue,
{
    let mut bytes = Cursor::new(Vec::new());
    let encoder = TiffEncoder::new(&mut bytes).expect("a header");
    let [width, height] = SIZE.map(|edge| edge as u32);
    encoder
        .with_compression(compression)
        .write_image::<C>(width, height, samples)
        .expect("it can be written");
    bytes.into_inner()
}

/// Width and height of the generated pictures.
const SIZE: [usize; 2] = [12, 9];

/// A view in miniature: RGBA, interlaced.
pub(super) fn interlaced() -> Vec<u8> {
    adam7(SIZE, [8, 6], |x, y, k| match k {
        3 => u16::from(x > 1) * 255,
        _ => (20 * x + 9 * y + 60 * k) as u16,
    })
}

/// The same size in shades of grey.
pub(super) fn grey() -> Vec<u8> {
    adam7(SIZE, [8, 0], |x, y, _| {
        (255 - 16 * x + 8 * y).min(255) as u16
    })
}

/// One pixel of RGB.
pub(super) fn pixel() -> Vec<u8> {
    adam7([1, 1], [8, 2], |_, _, k| 90 * k as u16)
}

/// An Adam7-interlaced PNG. `depth` is in bits; the colour type is 0 for grey, 2 for RGB or 6 for RGBA. The third
/// argument of `sample` is the channel.
fn adam7(
    size: [usize; 2],
    [depth, colour]: [u8; 2],
    sample: impl Fn(usize, usize, usize) -> u16,
) -> Vec<u8> {
    const PASSES: [[usize; 4]; 7] = [
        [0, 0, 8, 8],
        [4, 0, 8, 8],
        [0, 4, 4, 8],
        [2, 0, 4, 4],
        [0, 2, 2, 4],
        [1, 0, 2, 2],
        [0, 1, 1, 2],
    ];
    let channels = match colour {
        0 => 1,
        2 => 3,
        _ => 4,
    };
    let mut lines = Vec::new();
    for [left, top, across, down] in PASSES {
        // A pass without columns has no lines, and no filter bytes.
        if left >= size[0] {
            continue;
        }
        for y in (top..size[1]).step_by(down) {
            lines.push(0);
            for x in (left..size[0]).step_by(across) {
                for k in 0..channels {
                    let [high, low] = sample(x, y, k).to_be_bytes();
                    lines.extend((depth == 16).then_some(high));
                    lines.push(low);
                }
            }
        }
    }
    let header = head(size, [depth, colour, 1]);
    [
        &header[..],
        &chunk(*b"IDAT", &stored(&lines)),
        &chunk(*b"IEND", &[]),
    ]
    .concat()
}

/// An animated PNG of two frames; the first is the picture.
fn animated() -> Vec<u8> {
    let lines: Vec<u8> = (0..2).flat_map(|y| [0, 9 * y, 50, 100, 150]).collect();
    let data = stored(&lines);
    let frame = |number: u32| {
        let numbers = [number, 4, 2, 0, 0].map(u32::to_be_bytes).concat();
        chunk(*b"fcTL", &[&numbers[..], &[0, 1, 0, 10, 0, 0]].concat())
    };
    let more = [&2_u32.to_be_bytes()[..], &data].concat();
    let count = [2_u32, 0].map(u32::to_be_bytes).concat();
    [
        head([4, 2], [8, 0, 0]),
        chunk(*b"acTL", &count),
        frame(0),
        chunk(*b"IDAT", &data),
        frame(1),
        chunk(*b"fdAT", &more),
        chunk(*b"IEND", &[]),
    ]
    .concat()
}

/// Signature and header of a PNG: depth, colour and interlacing.
fn head(size: [usize; 2], [depth, colour, interlaced]: [u8; 3]) -> Vec<u8> {
    let edges = size.map(|edge| (edge as u32).to_be_bytes()).concat();
    let kind = [depth, colour, 0, 0, interlaced];
    let header = chunk(*b"IHDR", &[&edges[..], &kind].concat());
    [b"\x89PNG\r\n\x1A\n", &header[..]].concat()
}

fn chunk(kind: [u8; 4], body: &[u8]) -> Vec<u8> {
    let sum = crc32fast::hash(&[&kind[..], body].concat());
    let length = (body.len() as u32).to_be_bytes();
    [&length[..], &kind, body, &sum.to_be_bytes()].concat()
}

/// A zlib stream with one uncompressed block, so that a changed byte changes little of the picture.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let (mut a, mut b) = (1_u32, 0_u32);
    for &byte in bytes {
        a = (a + u32::from(byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    let length = bytes.len() as u16;
    [
        &[0x78, 0x01, 0x01][..],
        &length.to_le_bytes(),
        &(!length).to_le_bytes(),
        bytes,
        &(b << 16 | a).to_be_bytes(),
    ]
    .concat()
}

/// A JPEG with four channels of one block each, all at mid-level.
fn cmyk() -> Vec<u8> {
    let segment = |marker: u8, body: &[u8]| {
        let length = (body.len() as u16 + 2).to_be_bytes();
        [&[0xFF, marker][..], &length, body].concat()
    };
    // One code of one bit, for 0: no difference, and the end of a block.
    let table = |class: u8| [&[class, 1][..], &[0; 15], &[0]].concat();
    let channels: Vec<u8> = (1..=4).flat_map(|channel| [channel, 0x11, 0]).collect();
    let scan: Vec<u8> = (1..=4).flat_map(|channel| [channel, 0]).collect();
    [
        vec![0xFF, 0xD8],
        segment(0xDB, &[&[0][..], &[1; 64]].concat()),
        segment(0xC0, &[&[8, 0, 8, 0, 8, 4][..], &channels].concat()),
        segment(0xC4, &table(0x00)),
        segment(0xC4, &table(0x10)),
        segment(0xDA, &[&[4][..], &scan, &[0, 63, 0]].concat()),
        vec![0x00, 0xFF, 0xD9],
    ]
    .concat()
}
