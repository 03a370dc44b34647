//! A corner of one of the sample's views in every format and depth that can be written.

use std::io::Cursor;

use image::{DynamicImage, ImageFormat};

use super::Seed;

const SAMPLE: &[u8] = include_bytes!("../../../data/spot/train/r_000.png");

/// Lossy WebP, one pixel: `image` writes lossless only.
const LOSSY: &[u8] = b"RIFF\x22\0\0\0WEBPVP8 \x16\0\0\0\x30\x01\0\x9d\x01\x2a\x01\0\x01\0\x0e\xc0\xfe\x25\xa4\0\x03\x70\0\0\0\0";

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
    ] {
        let mut bytes = Cursor::new(Vec::new());
        picture
            .write_to(&mut bytes, format)
            .expect("it can be written");
        seeds.push(("picture", format!("made-{name}"), bytes.into_inner()));
    }
    seeds.push(("picture", "made-lossy.webp".to_owned(), LOSSY.to_vec()));
}
