//! Extreme but permitted numbers: each gives a table that the next process accepts, or a refusal with a message.

use proto::table::LayerSet;

use super::*;

/// Widths and heights, the last of which no view may have.
const EDGES: [u32; 5] = [1, 2, 3, 300, 65_535];
/// Focal lengths, as JSON has them.
const FOCALS: [&str; 9] = [
    "0.001", "1e-300", "0", "-40", "40", "16384000", "16384001", "1e300", "NaN",
];
/// Principal points.
const CENTRES: [&str; 6] = ["0", "-16384000", "16384000", "1e300", "1e-300", "1.5"];
/// Lenses: none, some without a valid ray, and some that draw in far corners.
const LENSES: [&str; 6] = [
    "",
    "\"k1\": -1e4,",
    "\"k1\": 1e4, \"p1\": -1e4, \"p2\": 1e4,",
    "\"k1\": -0.3, \"k2\": 0.08, \"p1\": 0.01,",
    "\"k5\": -1e4, \"k6\": 1e4,",
    "\"k1\": 1e-300,",
];

/// Whether the file gives a view that the next process accepts. Otherwise it is refused with a message.
fn taken(folder: &Path, file: &str, context: &str) -> bool {
    let files = Local(folder.to_path_buf());
    let views = match first(&Folder::new(&files, Root::Views), file, &SQUARE, 4) {
        Ok(views) => views,
        Err(failure) => {
            assert!(!failure.message.is_empty(), "{context}");
            return false;
        }
    };
    for view in &views {
        let mut table = Vec::new();
        view.write(&mut table).expect("memory takes all");
        let back = LayeredView::read(&mut table.as_slice(), LayerSet::default());
        let back = back.unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(back.0.view, view.view, "{context}");
    }
    !views.is_empty()
}

fn folder_of_sizes() -> (tempfile::TempDir, Vec<[u32; 2]>) {
    let folder = tempfile::tempdir().expect("a folder");
    let all = EDGES.into_iter().flat_map(|w| EDGES.map(|h| [w, h]));
    let few = |size: &[u32; 2]| size[0] * size[1] < 1 << 17;
    let sizes: Vec<[u32; 2]> = all.filter(few).chain([[16_384, 1], [1, 16_384]]).collect();
    for size in &sizes {
        let path = folder.path().join(format!("{}x{}.png", size[0], size[1]));
        picture(&path, *size, |x, y| [x as u8, y as u8, 7, 255]);
    }
    (folder, sizes)
}

#[test]
fn pictures_and_lenses_of_any_numbers_are_taken_or_refused() {
    let (folder, sizes) = folder_of_sizes();
    for [width, height] in sizes {
        let mut all_taken = 0;
        // Of a picture whose size is not stated.
        let outside = |centre: &str| {
            let column: f64 = centre.parse().expect("a number");
            column >= f64::from(width)
        };
        let centres = CENTRES.iter().filter(|centre| !outside(centre)).count() as u32;
        for focal in FOCALS {
            for centre in CENTRES {
                for lens in LENSES {
                    let text = format!(
                        "{{\"fl_x\": {focal}, \"cx\": {centre}, {lens} \"frames\": [{{\"file_path\": \"{width}x{height}\", \
                         \"transform_matrix\": [[1,0,0,0],[0,1,0,0],[0,0,1,4],[0,0,0,1]]}}]}}"
                    );
                    std::fs::write(folder.path().join("transforms.json"), &text).expect("writes");
                    let taken = taken(folder.path(), "transforms.json", &text);
                    let bad = [1, 2, 3, 6, 7, 8]
                        .contains(&FOCALS.iter().position(|f| *f == focal).unwrap())
                        || centre == "1e300"
                        || outside(centre)
                        || width.max(height) > 16_384;
                    assert_eq!(taken, !bad, "{text}");
                    all_taken += u32::from(taken);
                }
            }
        }
        let wanted = if width.max(height) > 16_384 {
            0
        } else {
            3 * centres * 6
        };
        assert_eq!(all_taken, wanted, "{width}x{height}");
    }
}

#[test]
fn models_of_any_numbers_are_taken_or_refused() {
    let (folder, _) = folder_of_sizes();
    let numbers = [
        "NaN", "inf", "-inf", "0", "-0", "1e-320", "1e300", "-1", "3",
    ];
    let mut good = 0;
    for model in ["SIMPLE_PINHOLE", "SIMPLE_RADIAL", "OPENCV", "FULL_OPENCV"] {
        let usual: &[&str] = match model {
            "SIMPLE_PINHOLE" => &["3", "1.5", "1"],
            "SIMPLE_RADIAL" => &["3", "1.5", "1", "0.1"],
            "OPENCV" => &["3", "3", "1.5", "1", "0.1", "0", "0.01", "0"],
            _ => &[
                "3", "3", "1.5", "1", "0.1", "0", "0.01", "0", "0", "0", "0", "0.1",
            ],
        };
        // Width and height, the parameters, and the pose: one of them is extreme.
        let pose = ["1", "0", "0", "0", "0", "0", "4"];
        let count = 2 + usual.len() + pose.len();
        for odd in 0..count {
            for number in numbers {
                let mut words: Vec<&str> = [&["3", "2"], usual, &pose[..]].concat();
                words[odd] = number;
                let (camera, pose) = words.split_at(2 + usual.len());
                let cameras = format!("1 {model} {}\n", camera.join(" "));
                let images = format!("1 {} 1 3x2.png\n\n", pose.join(" "));
                std::fs::write(folder.path().join("cameras.txt"), &cameras).expect("writes");
                std::fs::write(folder.path().join("images.txt"), &images).expect("writes");
                let taken = taken(folder.path(), "images.txt", &format!("{cameras}{images}"));
                assert!(
                    !taken || !matches!(number, "NaN" | "inf" | "-inf"),
                    "{cameras}{images}"
                );
                good += u32::from(taken);
            }
        }
    }
    assert!(good > 100, "{good} models were taken");
}
