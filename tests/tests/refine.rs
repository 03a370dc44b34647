//! Inaccurate cameras, unequal exposures and lens distortion in the real programs, and views without any of these. The
//! small set's own test views, whose cameras are exact, are held out by name and measure the result.

use std::f64::consts::PI;
use std::fs;
use std::path::{Path, PathBuf};

use kiln_tests::ball::{display, light};
use kiln_tests::picture::Picture;
use kiln_tests::{Bench, number, read_json, sample};
use serde_json::{Value, json};

type Pixels = [[u8; 4]];

/// The set in the bench's folder `name`, with each training frame and its picture modified.
fn set(
    bench: &Bench,
    name: &str,
    mut change: impl FnMut(usize, &mut Value, &mut Pixels),
) -> PathBuf {
    let folder = bench.path(name);
    for part in ["train", "test"] {
        fs::create_dir_all(folder.join(part)).expect("a folder");
    }
    let [mut train, test] =
        ["transforms.json", "transforms_test.json"].map(|name| read_json(&sample(name)));
    let mut frames = train["frames"].as_array().expect("frames").clone();
    for (number, frame) in frames.iter_mut().enumerate() {
        let file = frame["file_path"].as_str().expect("a name").to_owned();
        let mut picture = Picture::read(&sample(&file));
        assert_eq!(picture.colour, png::ColorType::Rgba);
        change(number, frame, picture.bytes.as_chunks_mut().0);
        picture.write(&folder.join(&file));
    }
    let mut names = Vec::new();
    for frame in test["frames"].as_array().expect("frames") {
        let mut frame = frame.clone();
        for key in ["fl_x", "fl_y", "cx", "cy", "w", "h"] {
            frame[key] = test[key].clone();
        }
        // Pinholes, whatever the file says of the others.
        for key in ["k1", "p1"] {
            frame[key] = json!(0);
        }
        let file = frame["file_path"].as_str().expect("a name").to_owned();
        fs::copy(sample(&file), folder.join(&file)).expect("a copy");
        names.push(file);
        frames.push(frame);
    }
    train["frames"] = frames.into();
    train["test_filenames"] = names.into();
    let path = folder.join("transforms.json");
    fs::write(&path, train.to_string()).expect("a file");
    path
}

/// Held-out PSNR, the report, and the GLB.
fn bake(bench: &Bench, views: &Path, more: &[&str]) -> (f64, Value, Vec<u8>) {
    let quality = match more.contains(&"--quality") {
        true => &[][..],
        false => &["--quality", "draft"],
    };
    let options = [quality, &["--texture-size", "512"]].concat();
    let more = [&options[..], more].concat();
    let report = bench.baked(sample("mesh_nouv.glb"), views, &more).report();
    let heldout = number(&report["psnr"]["holdout_db"]);
    let glb = bench.bytes("out/out.glb").expect("the result");
    (heldout, report, glb)
}

/// Rotates and shifts a camera by amounts that depend on its number: some 0.2° and 0.2 % of 3.5 units.
fn nudge(number: usize, frame: &mut Value) {
    let at = |k: usize| (1.7 * number as f64 + 2.1 * k as f64).sin();
    let turn = [0, 1, 2].map(|k| 0.2 / 180.0 * PI * 1.4 * at(k));
    let mut matrix: Vec<Vec<f64>> =
        serde_json::from_value(frame["transform_matrix"].clone()).expect("a matrix");
    for row in matrix.iter_mut().take(3) {
        // Small angles: to first order a rotation, within the file's rounding.
        let [x, y, z] = [row[0], row[1], row[2]];
        row[0] = x + y * turn[2] - z * turn[1];
        row[1] = y + z * turn[0] - x * turn[2];
        row[2] = z + x * turn[1] - y * turn[0];
    }
    for (k, row) in matrix.iter_mut().take(3).enumerate() {
        row[3] += 0.002 * 3.5 * 1.4 * at(3 + k);
    }
    frame["transform_matrix"] = json!(matrix);
}

/// Scales a picture's light.
fn expose(pixels: &mut Pixels, gain: f64) {
    for pixel in pixels {
        for channel in &mut pixel[..3] {
            let exposed = gain * light(f64::from(*channel) / 255.0);
            *channel = (display(exposed.min(1.0)) * 255.0).round() as u8;
        }
    }
}

#[test]
fn noisy_cameras_and_exposures_are_mended() {
    let bench = Bench::real();
    let clean = set(&bench, "clean", |_, _, _| ());
    let noisy = set(&bench, "noisy", |number, frame, pixels| {
        nudge(number, frame);
        // Between 0.87 and 1.15, with a mean logarithm near 0.
        expose(pixels, (0.14 * (2.6 * number as f64 + 0.4).sin()).exp());
    });
    let (best, ..) = bake(&bench, &clean, &["--refine", "off"]);
    let (given, report, _) = bake(&bench, &noisy, &["--refine", "off"]);
    assert_eq!(report["bake"]["refinement"], Value::Null);
    assert_eq!(report["bake"]["views"][0]["camera"], "given");
    let (mended, report, first) = bake(&bench, &noisy, &[]);
    let refinement = &report["bake"]["refinement"];
    assert!(
        given < best - 8.0,
        "the noise costs something: {best} dB, {given} dB"
    );
    // 43.7 of 49.0 dB: long exposures saturate bright pixels, and the common factor of all exposures is undetermined.
    assert!(
        mended > given + 8.0 && mended > best - 6.5,
        "{best} dB without noise, {given} dB with it, {mended} dB mended: {refinement:#}"
    );
    assert_eq!(report["options"]["refine"], "auto");
    assert_eq!(refinement["exposure"], "evened");
    let moved = refinement["cameras_moved"].as_u64().expect("a count");
    assert!(moved >= 14, "{moved} of 16 moved");
    let views = report["bake"]["views"].as_array().expect("a list");
    let first_moved = views
        .iter()
        .find(|view| view["camera"] == "moved")
        .expect("one at least");
    assert!(first_moved["moved_px"].as_f64().is_some_and(|px| px > 0.1));
    assert!(first_moved["gain"].as_f64().is_some_and(|gain| gain != 1.0));
    let (_, _, again) = bake(&bench, &noisy, &[]);
    assert!(first == again, "the same bytes each time");
}

/// For each fitted view on the contact sheet, its PSNR by the sheet and by the fit. Also returns the report.
fn shown(bench: &Bench, views: &Path, more: &[&str]) -> (Vec<[f64; 2]>, Value) {
    let sheet = bench.path("out/sheet.png");
    let options = ["--preview", sheet.to_str().expect("text")];
    let (_, report, _) = bake(bench, views, &[&options[..], more].concat());
    assert!(fs::read(sheet).is_ok_and(|file| file.starts_with(b"\x89PNG")));
    let fits = report["bake"]["views"].as_array().expect("a list");
    let rows = report["encode"]["shown"].as_array().expect("a list");
    let both = rows.iter().map(|row| {
        let fit = fits.iter().find(|fit| fit["view"] == row["view"]);
        let fit = fit.expect("a view of the fit");
        // The sheet leaves the pixels at the outline out.
        let pixels = [row, fit].map(|of| number(&of["pixels"]));
        assert!(pixels[0] > 0.8 * pixels[1], "{row} {fit}");
        [row, fit].map(|of| number(&of["psnr_db"]))
    });
    let both: Vec<[f64; 2]> = both.collect();
    assert_eq!(both.len(), 3, "three rows of the fit");
    (both, report)
}

#[test]
fn the_sheet_shows_views_by_the_cameras_and_exposures_that_the_fit_ended_with() {
    let bench = Bench::real();
    let noisy = set(&bench, "noisy", |number, frame, pixels| {
        nudge(number, frame);
        // No saturation, which the fit treats otherwise than the sheet.
        expose(
            pixels,
            0.8 * (0.14 * (2.6 * number as f64 + 0.4).sin()).exp(),
        );
    });
    // Draft is worse at the outline, which the sheet leaves out: 48 dB of the fit are 54 there.
    let standard = ["--quality", "standard"];
    let agree = |rows: &[[f64; 2]]| {
        let near = |[sheet, fit]: &[f64; 2]| (sheet - fit).abs() < 2.5;
        assert!(rows.iter().all(near), "{rows:?}");
    };
    let (mended, report) = shown(&bench, &noisy, &standard);
    assert_eq!(report["bake"]["refinement"]["exposure"], "evened");
    // 55.7-57.8 dB by the sheet, 55.4-56.8 by the fit; 17-20 with the cameras as given.
    agree(&mended);
    assert!(mended.iter().all(|[sheet, _]| *sheet > 50.0), "{mended:?}");
    // Without refinement it is drawn as given.
    let (given, _) = shown(
        &bench,
        &noisy,
        &[&standard[..], &["--refine", "off"]].concat(),
    );
    agree(&given);
    assert!(given.iter().all(|[sheet, _]| *sheet < 30.0), "{given:?}");
    let clean = set(&bench, "clean", |_, _, _| ());
    let (clean, report) = shown(&bench, &clean, &standard);
    assert_eq!(report["bake"]["refinement"]["cameras_moved"], 0);
    assert!(clean.iter().all(|[sheet, _]| *sheet > 50.0), "{clean:?}");
    // Vertex colours are too coarse to gain more than 2.4-2.9 dB.
    let coloured = "--vertex-colours";
    let (mended, _) = shown(&bench, &noisy, &[coloured]);
    let (given, _) = shown(&bench, &noisy, &[coloured, "--refine", "off"]);
    let gained = |(a, b): (&[f64; 2], &[f64; 2])| a[0] > b[0] + 1.5;
    assert!(
        mended.iter().zip(&given).all(gained),
        "{mended:?} {given:?}"
    );
}

#[test]
fn clean_views_give_the_same_bytes_as_if_nobody_had_looked() {
    let bench = Bench::real();
    let clean = set(&bench, "clean", |_, _, _| ());
    let (_, _, off) = bake(&bench, &clean, &["--refine", "off"]);
    let (_, report, auto) = bake(&bench, &clean, &["--refine", "auto"]);
    assert!(off == auto, "{:#}", report["bake"]["refinement"]);
    assert_eq!(report["bake"]["refinement"]["cameras_moved"], 0);
    assert_eq!(report["bake"]["views"][0]["camera"], "agrees");
    let (on, report, _) = bake(&bench, &clean, &["--refine", "on"]);
    let (best, ..) = bake(&bench, &clean, &["--refine", "off"]);
    assert!(
        on > best - 0.3,
        "{best} dB, {on} dB: {:#}",
        report["bake"]["refinement"]
    );
}

#[test]
fn views_without_alpha_keep_their_cameras_and_say_why() {
    let bench = Bench::real();
    let opaque = set(&bench, "opaque", |number, frame, pixels| {
        nudge(number, frame);
        pixels.iter_mut().for_each(|pixel| pixel[3] = 255);
    });
    let (_, report, _) = bake(&bench, &opaque, &["--refine", "on"]);
    let views = report["bake"]["views"].as_array().expect("a list");
    assert!(views.iter().all(|view| view["camera"] == "no_alpha"));
    assert_eq!(report["bake"]["refinement"]["cameras_moved"], 0);
    assert_eq!(
        report["bake"]["refinement"]["silhouette_before_px"],
        Value::Null
    );
}

#[test]
fn a_lens_that_bends_is_undone() {
    const K1: f64 = -0.35;
    const P1: f64 = 0.004;
    let bench = Bench::real();
    let train = read_json(&sample("transforms.json"));
    let (focal, centre) = (number(&train["fl_x"]), number(&train["cx"]));
    let distort = |[x, y]: [f64; 2]| {
        let squared = x * x + y * y;
        let radial = 1.0 + K1 * squared;
        [
            x * radial + 2.0 * P1 * x * y,
            y * radial + P1 * (squared + 2.0 * y * y),
        ]
    };
    let bent = set(&bench, "bent", |_, frame, pixels| {
        let width = 256;
        let straight = pixels.to_vec();
        for (at, pixel) in pixels.iter_mut().enumerate() {
            let lands = [at % width, at / width].map(|k| (k as f64 + 0.5 - centre) / focal);
            // The ray of this pixel, by fixed-point iteration.
            let mut ray = lands;
            for _ in 0..60 {
                let found = distort(ray);
                ray = [0, 1].map(|k| ray[k] + lands[k] - found[k]);
            }
            *pixel = bilinear(&straight, width, ray.map(|x| x * focal + centre));
        }
        (frame["k1"], frame["p1"]) = (json!(K1), json!(P1));
    });
    let ignored = set(&bench, "ignored", |number, frame, pixels| {
        let bent = Picture::read(&bench.path(&format!("bent/train/r_{number:03}.png")));
        pixels.copy_from_slice(bent.bytes.as_chunks().0);
        frame["k1"] = json!(0);
    });
    let (undone, ..) = bake(&bench, &bent, &["--refine", "off"]);
    let (wrong, ..) = bake(&bench, &ignored, &["--refine", "off"]);
    assert!(
        undone > wrong + 8.0 && undone > 36.0,
        "{undone} dB undone, {wrong} dB ignored"
    );
}

/// Samples the picture bilinearly, premultiplied.
fn bilinear(pixels: &Pixels, width: usize, at: [f64; 2]) -> [u8; 4] {
    let height = pixels.len() / width;
    let [x, y] = at.map(|x| x - 0.5);
    let (x0, y0) = (x.floor(), y.floor());
    let mut sum = [0.0; 4];
    for (dx, dy) in [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)] {
        let (column, row) = (x0 + dx, y0 + dy);
        let inside = column >= 0.0 && row >= 0.0 && column < width as f64 && row < height as f64;
        if !inside {
            continue;
        }
        let weight = (1.0 - (x - column).abs()) * (1.0 - (y - row).abs());
        let pixel = pixels[row as usize * width + column as usize].map(f64::from);
        let alpha = weight * pixel[3] / 255.0;
        for channel in 0..3 {
            sum[channel] += alpha * pixel[channel];
        }
        sum[3] += alpha;
    }
    if sum[3] < 1e-6 {
        return [0; 4];
    }
    let [r, g, b] = [0, 1, 2].map(|k| (sum[k] / sum[3]).round() as u8);
    [r, g, b, (sum[3] * 255.0).round() as u8]
}
