//! Checks pictures written here or by another program (`samples/`, by Pillow: 20×12 pixels, red over green on the left,
//! blue on the right) against the pixels that they hold.

use std::io::Cursor;

use ::png::{BitDepth, ColorType, Encoder};
use ::tiff::encoder::{Compression, DeflateLevel, TiffEncoder, TiffValue, colortype};
use ::tiff::tags::Tag;
use image::{DynamicImage, ImageFormat};
use proto::message::Code;

use super::{
    Colours, Meaning, Orientation, Picture, PictureError, decode, decode_as, orientation, probe,
};

fn read(bytes: &[u8]) -> Result<Picture, PictureError> {
    decode(bytes, probe(bytes)?)
}

fn refusal(bytes: &[u8]) -> String {
    read(bytes).expect_err("should be refused").to_string()
}

fn png_of(
    size: [u32; 2],
    colour: ColorType,
    depth: BitDepth,
    data: &[u8],
    set: impl FnOnce(&mut Encoder<'_, &mut Vec<u8>>),
) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, size[0], size[1]);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    set(&mut encoder);
    encoder
        .write_header()
        .expect("header")
        .write_image_data(data)
        .expect("data");
    file
}

fn plain(colour: ColorType, depth: BitDepth, data: &[u8]) -> Picture {
    read(&png_of([2, 1], colour, depth, data, |_| {})).expect("a picture")
}

#[test]
fn png_of_every_colour_type_becomes_rgba() {
    let eight = BitDepth::Eight;
    let rgba = plain(ColorType::Rgba, eight, &[1, 2, 3, 4, 5, 6, 7, 255]);
    assert_eq!(
        (rgba.pixels, rgba.has_alpha),
        (vec![[1, 2, 3, 4], [5, 6, 7, 255]], true)
    );
    let rgb = plain(ColorType::Rgb, eight, &[1, 2, 3, 5, 6, 7]);
    assert_eq!(
        (rgb.pixels, rgb.has_alpha),
        (vec![[1, 2, 3, 255], [5, 6, 7, 255]], false)
    );
    let grey = plain(ColorType::Grayscale, eight, &[9, 200]);
    assert_eq!(grey.pixels, [[9, 9, 9, 255], [200, 200, 200, 255]]);
    let grey_alpha = plain(ColorType::GrayscaleAlpha, eight, &[9, 0, 200, 128]);
    assert_eq!(grey_alpha.pixels, [[9, 9, 9, 0], [200, 200, 200, 128]]);
    // One bit per pixel: the first two of the byte.
    let bits = plain(ColorType::Grayscale, BitDepth::One, &[0b0100_0000]);
    assert_eq!(bits.pixels, [[0, 0, 0, 255], [255, 255, 255, 255]]);
}

#[test]
fn png_of_16_bits_is_rounded() {
    // 128 and 129 sixteen-bit steps: below and above half of an eight-bit one.
    let samples = [128_u16, 129, 65535, 0x1234 * 2, 65406, 65407]
        .map(u16::to_be_bytes)
        .concat();
    let picture = plain(ColorType::Rgb, BitDepth::Sixteen, &samples);
    assert_eq!(picture.pixels, [[0, 1, 255, 255], [36, 254, 255, 255]]);
    for byte in 0..=255_u32 {
        let samples = [(byte * 257) as u16; 2].map(u16::to_be_bytes).concat();
        assert_eq!(
            u32::from(plain(ColorType::Grayscale, BitDepth::Sixteen, &samples).pixels[0][0]),
            byte
        );
    }
}

#[test]
fn png_palette_and_transparent_colour_are_expanded() {
    let palette = png_of(
        [2, 1],
        ColorType::Indexed,
        BitDepth::Eight,
        &[1, 0],
        |encoder| {
            encoder.set_palette(vec![10, 20, 30, 40, 50, 60]);
            encoder.set_trns(vec![255, 7]);
        },
    );
    assert_eq!(
        read(&palette).expect("a picture").pixels,
        [[40, 50, 60, 7], [10, 20, 30, 255]]
    );
    let keyed = png_of(
        [2, 1],
        ColorType::Grayscale,
        BitDepth::Eight,
        &[9, 8],
        |e| e.set_trns(vec![0, 8]),
    );
    assert_eq!(
        read(&keyed).expect("a picture").pixels,
        [[9, 9, 9, 255], [8, 8, 8, 0]]
    );
}

#[test]
fn alpha_that_is_full_everywhere_is_none() {
    assert!(
        !plain(
            ColorType::Rgba,
            BitDepth::Eight,
            &[1, 2, 3, 255, 5, 6, 7, 255]
        )
        .has_alpha
    );
}

#[test]
fn animated_png_is_its_first_picture() {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, 1, 1);
    encoder.set_color(ColorType::Rgb);
    encoder.set_animated(2, 0).expect("settings");
    let mut writer = encoder.write_header().expect("header");
    writer.write_image_data(&[1, 2, 3]).expect("data");
    writer.write_image_data(&[7, 8, 9]).expect("data");
    writer.finish().expect("the end");
    assert_eq!(read(&file).expect("a picture").pixels, [[1, 2, 3, 255]]);
}

#[test]
fn damaged_png_is_refused() {
    let noise: Vec<u8> = (0..64 * 64 * 3_u32)
        .map(|k| (k.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let good = png_of([64, 64], ColorType::Rgb, BitDepth::Eight, &noise, |_| {});
    assert!(read(&good).is_ok());
    for length in [
        good.len() * 6 / 10,
        good.len() - 13,
        good.len() - 5,
        40,
        20,
        9,
    ] {
        assert_eq!(
            refusal(&good[..length]),
            PictureError::Truncated.to_string(),
            "{length} bytes"
        );
    }
    // Every byte from IDAT on is under a checksum.
    for at in [good.len() / 2, good.len() - 20, good.len() - 14] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(
            refusal(&bad).contains("damaged"),
            "byte {at}: {}",
            refusal(&bad)
        );
    }
}

fn png_header(width: u32, height: u32) -> Vec<u8> {
    let mut file = png_of([1, 1], ColorType::Grayscale, BitDepth::Eight, &[0], |_| {});
    file[16..20].copy_from_slice(&width.to_be_bytes());
    file[20..24].copy_from_slice(&height.to_be_bytes());
    file
}

#[test]
fn size_is_judged_from_the_header() {
    for (width, height, code) in [
        (60_000, 60_000, Code::LimitExceeded),
        (i32::MAX as u32, i32::MAX as u32, Code::LimitExceeded),
        (u32::MAX, 1, Code::LimitExceeded),
        (16_384, 4097, Code::LimitExceeded),
        (0, 5, Code::InvalidAsset),
        (5, 0, Code::InvalidAsset),
    ] {
        let error = probe(&png_header(width, height)).expect_err("refused");
        assert_eq!(error.code(), code, "{width}x{height}: {error}");
        assert!(
            error.to_string().contains(&format!("{width}x{height}")),
            "{error}"
        );
    }
    assert!(probe(&png_header(16_384, 4096)).is_ok());
}

#[test]
fn text_chunk_is_not_inflated() {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, 1, 1);
    encoder
        .add_ztxt_chunk("k".to_owned(), "a".repeat(100 << 20))
        .expect("text");
    encoder
        .write_header()
        .expect("header")
        .write_image_data(&[77])
        .expect("data");
    assert_eq!(read(&file).expect("a picture").pixels, [[77, 77, 77, 255]]);
}

const PROGRESSIVE: &[u8] = include_bytes!("samples/progressive.jpg");
const TURNED: &[u8] = include_bytes!("samples/turned.jpg");
const LOSSY: &[u8] = include_bytes!("samples/lossy.webp");
const ALPHA: &[u8] = include_bytes!("samples/alpha.webp");
const ANIMATED: &[u8] = include_bytes!("samples/animated.webp");

/// Away from the borders between colours, where a lossy codec keeps them.
fn check_sample(picture: &Picture, tolerance: u8) {
    assert_eq!((picture.width, picture.height), (20, 12));
    for (x, y, wanted) in [
        (3, 2, [200, 40, 40]),
        (3, 10, [40, 180, 60]),
        (17, 5, [40, 60, 220]),
    ] {
        let pixel = picture.pixels[y * 20 + x];
        let off = (0..3)
            .map(|c| pixel[c].abs_diff(wanted[c]))
            .max()
            .unwrap_or(0);
        assert!(
            off <= tolerance,
            "pixel {x}, {y} is {pixel:?} instead of {wanted:?}"
        );
    }
}

#[test]
fn jpeg_is_read_and_its_orientation_told() {
    let progressive = read(PROGRESSIVE).expect("a picture");
    check_sample(&progressive, 12);
    assert!(!progressive.has_alpha);
    let none = orientation(PROGRESSIVE, probe(PROGRESSIVE).expect("a picture"));
    assert_eq!(none, Orientation::NoTransforms);
    let stored = read(TURNED).expect("a picture");
    check_sample(&stored, 12);
    let header = probe(TURNED).expect("a picture");
    let turn = orientation(TURNED, header);
    assert_eq!(turn, Orientation::Rotate90);
    let shown = decode_as(TURNED, header, (Meaning::Colours, turn)).expect("a picture");
    assert_eq!((shown.width, shown.height), (12, 20));
    // The lower left corner comes to the upper left one.
    assert_eq!(shown.pixels[0], stored.pixels[11 * 20]);
    assert_eq!(shown.pixels[12 + 2], stored.pixels[9 * 20 + 1]);

    let mut grey = Vec::new();
    let encoder = image::codecs::jpeg::JpegEncoder::new_with_quality(&mut grey, 95);
    image::ImageEncoder::write_image(encoder, &[77; 64], 8, 8, image::ExtendedColorType::L8)
        .expect("encodes");
    assert!(
        read(&grey)
            .expect("a picture")
            .pixels
            .iter()
            .all(|p| p[0].abs_diff(77) < 3 && p[0] == p[2])
    );
}

#[test]
fn damaged_jpeg_is_refused() {
    for sample in [PROGRESSIVE, TURNED] {
        for length in [
            sample.len() * 6 / 10,
            sample.len() - 40,
            sample.len() - 2,
            sample.len() - 1,
            30,
            4,
        ] {
            assert_eq!(
                refusal(&sample[..length]),
                PictureError::Truncated.to_string(),
                "{length} bytes"
            );
        }
    }
    // Four components in the frame header.
    let mut cmyk = TURNED.to_vec();
    let frame = cmyk
        .windows(2)
        .position(|w| w == [0xFF, 0xC0])
        .expect("a frame header");
    cmyk[frame + 9] = 4;
    assert_eq!(refusal(&cmyk), "is a CMYK JPEG, which is not supported");
    cmyk[frame + 9] = 3;
    cmyk[frame + 5..frame + 9].fill(0xFF);
    assert!(refusal(&cmyk).contains("65535x65535"));
}

#[test]
fn webp_is_read_lossy_lossless_and_with_alpha() {
    let lossy = read(LOSSY).expect("a picture");
    check_sample(&lossy, 16);
    assert!(!lossy.has_alpha);
    let alpha = read(ALPHA).expect("a picture");
    assert!(alpha.has_alpha);
    assert!(
        alpha.pixels[..60].iter().all(|p| p[3] == 0)
            && alpha.pixels[60..].iter().all(|p| p[3] == 255)
    );

    let mut lossless = Vec::new();
    let pixels: Vec<u8> = (0..5 * 3 * 4).map(|k| k * 4).collect();
    let encoder = image::codecs::webp::WebPEncoder::new_lossless(&mut lossless);
    encoder
        .encode(&pixels, 5, 3, image::ExtendedColorType::Rgba8)
        .expect("encodes");
    assert_eq!(
        read(&lossless).expect("a picture").pixels.as_flattened(),
        pixels
    );
}

#[test]
fn damaged_and_animated_webp_is_refused() {
    for sample in [LOSSY, ALPHA] {
        for length in [sample.len() * 6 / 10, sample.len() - 1, 30, 14] {
            assert_eq!(
                refusal(&sample[..length]),
                PictureError::Truncated.to_string(),
                "{length} bytes"
            );
        }
    }
    assert_eq!(
        refusal(ANIMATED),
        "is an animated WebP, which is not supported"
    );
}

#[test]
fn what_is_no_picture_is_named() {
    assert_eq!(refusal(b""), "the file is empty");
    assert_eq!(refusal(b"GIF89a and so on"), "is a GIF, which is not read");
    assert_eq!(refusal(b"glTF\x02\0\0\0"), "is a mesh (GLB)");
    assert_eq!(
        refusal(b"\0\0\0\x1Cftypavif\0\0"),
        "is an AVIF, which is not read"
    );
    assert_eq!(refusal(b"hello"), "is no picture");
    assert_eq!(refusal(b"R"), "is no picture");
}

#[test]
fn no_bytes_make_a_decoder_panic() {
    // Every sample with each byte in turn replaced gives an answer, whichever.
    let png = png_of(
        [9, 7],
        ColorType::Rgba,
        BitDepth::Eight,
        &[99; 9 * 7 * 4],
        |_| {},
    );
    for sample in [&png, PROGRESSIVE, TURNED, LOSSY, ALPHA, ANIMATED] {
        for at in 0..sample.len() {
            for value in [0, 0x7F, 0xFF, sample[at] ^ 0x10] {
                let mut bytes = sample.to_vec();
                bytes[at] = value;
                if let Ok(picture) = read(&bytes) {
                    assert_eq!(
                        picture.pixels.len(),
                        picture.width as usize * picture.height as usize
                    );
                }
            }
        }
    }
}

fn colours(bytes: &[u8]) -> Result<Picture, PictureError> {
    let header = probe(bytes)?;
    decode_as(bytes, header, (Meaning::Colours, Orientation::NoTransforms))
}

/// One pixel, with an ICC profile.
fn tagged(pixel: [u8; 3], icc: Vec<u8>) -> Vec<u8> {
    let mut info = ::png::Info::with_size(1, 1);
    info.color_type = ColorType::Rgb;
    info.bit_depth = BitDepth::Eight;
    info.icc_profile = Some(icc.into());
    let mut file = Vec::new();
    let encoder = Encoder::with_info(&mut file, info).expect("sound");
    let mut writer = encoder.write_header().expect("header");
    writer.write_image_data(&pixel).expect("data");
    drop(writer);
    file
}

#[test]
fn profiles_lead_to_srgb_and_one_of_srgb_changes_nothing() {
    use moxcms::ColorProfile;
    let profile = |profile: ColorProfile| profile.encode().expect("sound");
    let pixel = [200, 100, 50];
    let cases = [
        (profile(ColorProfile::new_srgb()), Colours::Srgb, pixel),
        // By the primaries of Display P3 and of Adobe RGB, worked out by hand.
        (
            profile(ColorProfile::new_display_p3()),
            Colours::Converted,
            [215, 93, 31],
        ),
        (
            profile(ColorProfile::new_adobe_rgb()),
            Colours::Converted,
            [227, 100, 42],
        ),
        (profile(ColorProfile::new_lab()), Colours::Unknown, pixel),
        (b"no profile at all".to_vec(), Colours::Unknown, pixel),
        (vec![0; 5 << 20], Colours::Unknown, pixel),
    ];
    for (number, (icc, expected, [r, g, b])) in cases.into_iter().enumerate() {
        let file = tagged(pixel, icc);
        let found = colours(&file).expect("a picture");
        assert_eq!(found.colours, expected, "case {number}");
        let off = [r, g, b].into_iter().zip(found.pixels[0]);
        let off = off.map(|(one, other)| one.abs_diff(other)).max();
        let most = if expected == Colours::Converted { 4 } else { 0 };
        assert!(off <= Some(most), "case {number}: {:?}", found.pixels[0]);
        assert_eq!(
            read(&file).expect("a picture").pixels,
            [[200, 100, 50, 255]]
        );
    }
}

/// One grey pixel behind these chunks.
fn chunked(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, 1, 1);
    encoder.set_color(ColorType::Rgb);
    let mut writer = encoder.write_header().expect("header");
    for (name, body) in chunks {
        let name = ::png::chunk::ChunkType(**name);
        writer.write_chunk(name, body).expect("a chunk");
    }
    writer.write_image_data(&[55; 3]).expect("data");
    drop(writer);
    file
}

#[test]
fn tags_of_png_count_in_the_order_of_its_specification() {
    let [linear, usual, absurd] = [100_000_u32, 45_455, 1].map(u32::to_be_bytes);
    type Chunks<'a> = &'a [(&'a [u8; 4], &'a [u8])];
    // Linear 55/255 is 128 in sRGB.
    let cases: [(Chunks<'_>, Colours, u8); 9] = [
        (&[], Colours::Srgb, 55),
        (&[(b"gAMA", &linear)], Colours::Converted, 128),
        (&[(b"gAMA", &usual)], Colours::Srgb, 55),
        (&[(b"gAMA", &absurd)], Colours::Unknown, 55),
        (&[(b"gAMA", &linear), (b"sRGB", &[0])], Colours::Srgb, 55),
        (
            &[(b"gAMA", &linear), (b"cICP", &[1, 13, 0, 1])],
            Colours::Srgb,
            55,
        ),
        (&[(b"cICP", &[1, 8, 0, 1])], Colours::Converted, 128),
        (&[(b"cICP", &[2, 2, 0, 1])], Colours::Unknown, 55),
        (&[(b"cICP", &[1, 13, 0, 0])], Colours::Unknown, 55),
    ];
    for (number, (chunks, expected, value)) in cases.into_iter().enumerate() {
        let found = colours(&chunked(chunks)).expect("a picture");
        let grey = found.pixels[0];
        assert_eq!(found.colours, expected, "case {number}");
        assert!(
            grey[..3].iter().all(|c| c.abs_diff(value) <= 1),
            "case {number}: {grey:?}"
        );
    }
    for (code, name) in [(16, "PQ"), (18, "HLG")] {
        let file = chunked(&[(b"cICP", &[9, code, 0, 1])]);
        let error = colours(&file).expect_err(name);
        assert!(error.to_string().contains(name) && error.code() == Code::UnsupportedFeature);
    }
}

#[test]
fn masks_of_16_bits_that_hold_8_are_not_scaled() {
    let samples = [0_u16, 1].map(u16::to_be_bytes).concat();
    let file = png_of(
        [2, 1],
        ColorType::Grayscale,
        BitDepth::Sixteen,
        &samples,
        |_| {},
    );
    let as_mask = (Meaning::Mask, Orientation::NoTransforms);
    let mask = decode_as(&file, probe(&file).expect("a picture"), as_mask).expect("a picture");
    assert_eq!(mask.pixels, [[0, 0, 0, 255], [1, 1, 1, 255]]);
}

/// Grey, grey and alpha, RGB, RGBA: 3×2 pixels, all different.
fn ramp(channels: usize) -> Vec<u8> {
    (0..6 * channels).map(|k| (37 * k + 11) as u8).collect()
}

fn png_colour(channels: usize) -> ColorType {
    [
        ColorType::Grayscale,
        ColorType::GrayscaleAlpha,
        ColorType::Rgb,
        ColorType::Rgba,
    ][channels - 1]
}

/// Samples of 16 bits, in the order of PNG.
fn wide(samples: &[u8]) -> (Vec<u16>, Vec<u8>) {
    let samples: Vec<u16> = samples.iter().map(|&x| u16::from(x) * 251 + 97).collect();
    let bytes = samples.iter().flat_map(|x| x.to_be_bytes()).collect();
    (samples, bytes)
}

fn tiff_of<C: colortype::ColorType>(
    samples: &[C::Inner],
    compression: Compression,
    tags: &[(Tag, &[u16])],
    icc: Option<&[u8]>,
) -> Vec<u8>
where
    [C::Inner]: TiffValue,
{
    let mut bytes = Cursor::new(Vec::new());
    let encoder = TiffEncoder::new(&mut bytes).expect("a header");
    let mut encoder = encoder.with_compression(compression);
    let mut image = encoder.new_image::<C>(3, 2).expect("an image");
    for (tag, value) in tags {
        image.encoder().write_tag(*tag, *value).expect("a tag");
    }
    if let Some(icc) = icc {
        let tag = image.encoder().write_tag(Tag::IccProfile, icc);
        tag.expect("a tag");
    }
    image.write_data(samples).expect("samples");
    bytes.into_inner()
}

#[test]
fn tiff_is_what_a_png_of_its_samples_is() {
    use colortype::{Gray8, Gray16, RGB8, RGB16, RGBA8, RGBA16};
    let (packed, lzw) = (Compression::Packbits, Compression::Lzw);
    let deflate = Compression::Deflate(DeflateLevel::Fast);
    let deep = |channels| wide(&ramp(channels)).0;
    let plain = Compression::Uncompressed;
    for (file, channels, depth) in [
        (tiff_of::<Gray8>(&ramp(1), plain, &[], None), 1, 8),
        (tiff_of::<RGB8>(&ramp(3), lzw, &[], None), 3, 8),
        (
            tiff_of::<RGBA8>(&ramp(4), deflate, &[(Tag::ExtraSamples, &[2])], None),
            4,
            8,
        ),
        (tiff_of::<Gray16>(&deep(1), packed, &[], None), 1, 16),
        (tiff_of::<RGB16>(&deep(3), plain, &[], None), 3, 16),
        (
            tiff_of::<RGBA16>(&deep(4), lzw, &[(Tag::ExtraSamples, &[2])], None),
            4,
            16,
        ),
    ] {
        let (depth, data) = match depth {
            8 => (BitDepth::Eight, ramp(channels)),
            _ => (BitDepth::Sixteen, wide(&ramp(channels)).1),
        };
        let wanted = png_of([3, 2], png_colour(channels), depth, &data, |_| {});
        let picture = read(&file).expect("a picture");
        assert_eq!(picture, read(&wanted).expect("a picture"), "{channels}");
        // Cut anywhere, it is refused.
        for end in 0..file.len() {
            let cut = read(&file[..end]);
            assert!(
                cut.as_ref().is_err() || cut.ok() == Some(picture.clone()),
                "{end}"
            );
        }
    }
}

#[test]
fn tags_of_a_tiff_are_obeyed() {
    use colortype::{CMYK8, RGB8, RGB32Float, RGBA8};
    let plain = Compression::Uncompressed;
    // Half covered: the colours are stored times alpha.
    let samples = [60, 30, 0, 128, 10, 20, 30, 255].repeat(3);
    for (extra, wanted) in [(1_u16, [120, 60, 0, 128]), (2, [60, 30, 0, 128])] {
        let file = tiff_of::<RGBA8>(&samples, plain, &[(Tag::ExtraSamples, &[extra])], None);
        let picture = read(&file).expect("a picture");
        assert_eq!(picture.pixels[..2], [wanted, [10, 20, 30, 255]], "{extra}");
    }
    let turned = tiff_of::<RGB8>(&ramp(3), plain, &[(Tag::Orientation, &[6])], None);
    let header = probe(&turned).expect("a header");
    assert_eq!(orientation(&turned, header), Orientation::Rotate90);
    let icc = moxcms::ColorProfile::new_display_p3();
    let icc = icc.encode().expect("a profile");
    let file = tiff_of::<RGB8>(&ramp(3), plain, &[], Some(&icc));
    let as_view = (Meaning::Colours, Orientation::NoTransforms);
    let picture = decode_as(&file, probe(&file).expect("a header"), as_view);
    let picture = picture.expect("a picture");
    assert_eq!(picture.colours, Colours::Converted);
    let untagged = read(&file).expect("a picture");
    assert_ne!(picture.pixels, untagged.pixels);
    for (file, words) in [
        (tiff_of::<CMYK8>(&ramp(4), plain, &[], None), "CMYK"),
        (
            tiff_of::<RGB32Float>(&[0.5; 18], plain, &[], None),
            "samples",
        ),
    ] {
        let said = refusal(&file);
        assert!(said.contains("TIFF") && said.contains(words), "{said}");
    }
}

#[test]
fn bmp_and_pnm_are_what_a_png_of_their_samples_is() {
    let made = |channels: usize, format: ImageFormat| {
        let data = ramp(channels);
        let picture = match channels {
            1 => DynamicImage::from(image::GrayImage::from_raw(3, 2, data).expect("grey")),
            3 => DynamicImage::from(image::RgbImage::from_raw(3, 2, data).expect("RGB")),
            _ => DynamicImage::from(image::RgbaImage::from_raw(3, 2, data).expect("RGBA")),
        };
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, format).expect("written");
        bytes.into_inner()
    };
    let deep = [b"P6 3 2 65535\n", wide(&ramp(3)).1.as_slice()].concat();
    for (file, channels, depth) in [
        (made(3, ImageFormat::Bmp), 3, 8),
        (made(4, ImageFormat::Bmp), 4, 8),
        (made(1, ImageFormat::Pnm), 1, 8),
        (made(3, ImageFormat::Pnm), 3, 8),
        (deep, 3, 16),
    ] {
        let (depth, data) = match depth {
            8 => (BitDepth::Eight, ramp(channels)),
            _ => (BitDepth::Sixteen, wide(&ramp(channels)).1),
        };
        let wanted = png_of([3, 2], png_colour(channels), depth, &data, |_| {});
        let picture = read(&file).expect("a picture");
        assert_eq!(picture, read(&wanted).expect("a picture"));
        for end in 0..file.len() {
            assert!(read(&file[..end]).is_err(), "{end} of {}", file.len());
        }
    }
    let bits = read(b"P1\n# bits\n2 1\n0 1\n").expect("a picture");
    assert_eq!(bits.pixels, [[255; 4], [0, 0, 0, 255]]);
    assert!(refusal(b"P5 1 1 100\n0").contains("neither 255"));
}

/// An `OpenEXR` of one pixel row with these channels, in a data window that begins at a place of a display window.
fn exr_of(rgba: &[[f32; 4]], at: i32, width: usize, primaries: Option<[[f32; 2]; 4]>) -> Vec<u8> {
    use exr::prelude::*;
    let pixels = SpecificChannels::rgba(|place: Vec2<usize>| {
        let [r, g, b, a] = rgba[place.x()];
        (r, g, b, a)
    });
    let mut layer = Layer::new(
        (rgba.len(), 1),
        LayerAttributes::named("a"),
        Encoding::SMALL_LOSSLESS,
        pixels,
    );
    layer.attributes.layer_position = Vec2(at, 0);
    let mut picture = Image::from_layer(layer);
    picture.attributes.display_window = IntegerBounds::new((0, 0), (width, 1));
    picture.attributes.chromaticities =
        primaries.map(|[white, red, green, blue]| attribute::Chromaticities {
            red: Vec2(red[0], red[1]),
            green: Vec2(green[0], green[1]),
            blue: Vec2(blue[0], blue[1]),
            white: Vec2(white[0], white[1]),
        });
    let mut file = Cursor::new(Vec::new());
    picture
        .write()
        .non_parallel()
        .to_buffered(&mut file)
        .expect("written");
    file.into_inner()
}

fn as_view(file: &[u8]) -> Picture {
    let meaning = (Meaning::Colours, Orientation::NoTransforms);
    decode_as(file, probe(file).expect("a header"), meaning).expect("a picture")
}

#[test]
fn light_becomes_srgb() {
    // The curve of sRGB by its formula.
    let encoded = |x: f64| {
        let y = if x <= 0.003_130_8 {
            12.92 * x
        } else {
            1.055 * x.powf(1.0 / 2.4) - 0.055
        };
        (y.clamp(0.0, 1.0) * 255.0).round() as u8
    };
    let light = [
        [0.5, 0.18, 0.002, 1.0],
        [0.25, 0.1, 0.0, 0.5],
        [f32::NAN, -1.0, 0.9, 1.0],
    ];
    let file = exr_of(&light, 1, 5, None);
    let picture = as_view(&file);
    assert_eq!(
        (picture.width, picture.height, picture.colours),
        (5, 1, Colours::Converted)
    );
    // Outside the data window is nothing; alpha is divided out.
    let wanted = [
        [0; 4],
        [encoded(0.5), encoded(0.18), encoded(0.002), 255],
        [encoded(0.5), encoded(0.2), 0, 128],
        [0, 0, encoded(0.9), 255],
        [0; 4],
    ];
    for (found, wanted) in picture.pixels.iter().zip(wanted) {
        let near = (0..4).all(|k| found[k].abs_diff(wanted[k]) <= 1);
        assert!(
            near || (found[3] == 0 && wanted[3] == 0),
            "{found:?} {wanted:?}"
        );
    }
    let bright = as_view(&exr_of(&[[3.0, 0.5, 0.5, 1.0]], 0, 1, None));
    assert_eq!(
        (bright.pixels[0][0], bright.colours),
        (255, Colours::Clipped)
    );
    let numbers = read(&exr_of(&[[0.5, 0.25, 1.0, 1.0]], 0, 1, None)).expect("numbers");
    assert_eq!(
        (numbers.pixels[0], numbers.colours),
        ([128, 64, 255, 255], Colours::Srgb)
    );
    // Display P3's red is outside sRGB, its white is white.
    let p3 = Some([[0.3127, 0.329], [0.68, 0.32], [0.265, 0.69], [0.15, 0.06]]);
    let converted = as_view(&exr_of(&[[0.5, 0.2, 0.2, 1.0], [1.0; 4]], 0, 2, p3));
    assert!(
        converted.pixels[0][0] > encoded(0.5) + 3 && converted.pixels[0][1] < encoded(0.2),
        "{:?}",
        converted.pixels
    );
    assert!(
        converted.pixels[1].iter().all(|&byte| byte >= 254),
        "{:?}",
        converted.pixels
    );
    for end in 0..file.len() {
        let cut = probe(&file[..end]).and_then(|header| decode(&file[..end], header));
        assert!(cut.is_err(), "{end} of {}", file.len());
    }
    let mut hdr = Vec::new();
    let pixels = [
        image::Rgb([0.5_f32, 0.25, 0.125]),
        image::Rgb([2.0, 0.0, 1.0]),
    ];
    image::codecs::hdr::HdrEncoder::new(&mut hdr)
        .encode(&pixels, 2, 1)
        .expect("written");
    let picture = as_view(&hdr);
    let wanted = [
        [encoded(0.5), encoded(0.25), encoded(0.125), 255],
        [255, 0, 255, 255],
    ];
    assert!(
        picture
            .pixels
            .iter()
            .flatten()
            .zip(wanted.as_flattened())
            .all(|(a, b)| a.abs_diff(*b) <= 2),
        "{:?}",
        picture.pixels
    );
    assert_eq!(picture.colours, Colours::Clipped);
}

#[test]
fn adobe_rgb_by_exif_alone_is_converted() {
    // Directories of EXIF by hand: the first, EXIF's, and that of interoperability with its index.
    let exif = |index: &[u8; 4]| {
        let entry = |tag: u16, kind: u16, count: u32, value: [u8; 4]| {
            [
                &tag.to_le_bytes()[..],
                &kind.to_le_bytes(),
                &count.to_le_bytes(),
                &value,
            ]
            .concat()
        };
        let directory = |entries: &[Vec<u8>]| {
            [
                &(entries.len() as u16).to_le_bytes()[..],
                &entries.concat(),
                &[0; 4],
            ]
            .concat()
        };
        let first = directory(&[entry(0x8769, 4, 1, 26_u32.to_le_bytes())]);
        let own = directory(&[
            entry(0xA001, 3, 1, [0xFF, 0xFF, 0, 0]),
            entry(0xA005, 4, 1, 56_u32.to_le_bytes()),
        ]);
        let interoperability = directory(&[entry(1, 2, 4, *index)]);
        [
            &b"Exif\0\0II*\0\x08\0\0\0"[..],
            &first,
            &own,
            &interoperability,
        ]
        .concat()
    };
    let mut plain = Cursor::new(Vec::new());
    let picture = image::RgbImage::from_pixel(16, 16, image::Rgb([200, 60, 60]));
    picture
        .write_to(&mut plain, ImageFormat::Jpeg)
        .expect("written");
    let plain = plain.into_inner();
    let with = |exif: &[u8]| {
        let length = (exif.len() as u16 + 2).to_be_bytes();
        [&plain[..2], &[0xFF, 0xE1], &length, exif, &plain[2..]].concat()
    };
    let adobe = as_view(&with(&exif(b"R03\0")));
    assert_eq!(adobe.colours, Colours::Converted);
    // Adobe RGB's red lies outside sRGB's.
    assert!(adobe.pixels[0][0] > 210, "{:?}", adobe.pixels[0]);
    for other in [
        exif(b"R98\0"),
        exif(b"R03\0")[..40].to_vec(),
        b"Exif\0\0".to_vec(),
    ] {
        assert_eq!(as_view(&with(&other)).pixels, as_view(&plain).pixels);
    }
}
