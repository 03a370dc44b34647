//! The `file_path` of a frame → the names under which its picture may lie, likeliest first.
//!
//! Data sets travel: from Windows with backslashes, from another machine with its absolute paths, from a web tool with
//! percent signs, through a converter that changed the endings. The supervisor opens what exists and lies beneath the
//! folder, so a guess reads nothing that the name itself could not. Case and Unicode forms are the supervisor's to
//! match, since it alone can list a folder.

use proto::message::Root;
use proto::programs::list_of;

/// Endings tried in this order, first behind the name, then in place of its own.
const ENDINGS: [&str; 4] = [".png", ".jpg", ".jpeg", ".webp"];
/// Folders at most of which the tail of a foreign absolute path is tried.
const TAILS: usize = 8;

/// Names relative to the folder, or absolute as written. `transforms` is the file that holds the name.
pub(super) fn candidates(transforms: &str, name: &str) -> Vec<String> {
    if name.is_empty() {
        return Vec::new();
    }
    // Bundler's names are those of its list.
    let list = list_of(transforms);
    let holder = list.as_deref().unwrap_or(transforms);
    let base = holder.rsplit_once('/').map_or("", |(base, _)| base);
    let mut written = vec![name.to_owned()];
    if name.contains('\\') {
        written.push(name.replace('\\', "/"));
    }
    if let Some(decoded) = percent_decoded(name) {
        written.push(decoded);
    }
    let tails: Vec<String> = written.iter().flat_map(|name| tails(name)).collect();
    let mut names = Vec::new();
    let mut add = |name: String| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    // Names are relative to the file that holds them.
    let placed = |name: &str| match base {
        "" => name.to_owned(),
        _ if name.starts_with('/') => name.to_owned(),
        _ => format!("{base}/{name}"),
    };
    let places: Vec<String> = written
        .iter()
        .chain(&tails)
        .map(|name| placed(name))
        .collect();
    // What is written comes first, so that a set from elsewhere costs few requests for each picture.
    places.iter().for_each(|place| add(place.clone()));
    for place in &places {
        ENDINGS
            .iter()
            .for_each(|ending| add(format!("{place}{ending}")));
    }
    for place in places.iter().filter(|place| has_ending(place)) {
        let stem = place
            .rsplit_once('.')
            .map_or(place.as_str(), |(stem, _)| stem);
        ENDINGS
            .iter()
            .for_each(|ending| add(format!("{stem}{ending}")));
    }
    names
}

/// A mask that lies beside a picture without being named.
pub(super) struct Companion {
    /// Its name beneath `root`, or the picture's folder where that is none.
    pub(super) name: String,
    pub(super) root: Option<Root>,
    /// White is left out, not black.
    pub(super) inverted: bool,
}

/// Where masks of the picture `name` lie by the conventions of instant-ngp (`dynamic_mask_NAME.png`, where white is left
/// out; `NAME.alpha.png`), of `OpenMVS` (`NAME.mask.png`) and of COLMAP (`masks/NAME.png.png` beside `images`, or
/// `masks/NAME.png`), which of a `model` is a folder of its own.
pub(super) fn masks(name: &str, model: bool) -> Vec<Companion> {
    let (folder, file) = name.rsplit_once('/').map_or(("", name), |(_, file)| {
        (&name[..name.len() - file.len()], file)
    });
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let names = [
        (format!("{folder}dynamic_mask_{stem}.png"), true),
        (format!("{folder}{stem}.alpha.png"), false),
        (format!("{folder}{stem}.mask.png"), false),
    ];
    let companion = |root, name, inverted| Companion {
        name,
        root,
        inverted,
    };
    let mut found: Vec<Companion> = names
        .into_iter()
        .map(|(name, inverted)| companion(None, name, inverted))
        .collect();
    let (root, folder) = match folder.split_once("images") {
        _ if model => (Some(Root::Masks), Some(folder.to_owned())),
        Some((above, beneath)) => (None, Some(format!("{above}masks{beneath}"))),
        None => (None, None),
    };
    if let Some(folder) = folder {
        found.push(companion(root, format!("{folder}{file}.png"), false));
        found.push(companion(root, format!("{folder}{stem}.png"), false));
    }
    found
}

/// What is left of an absolute path, of this system or of Windows, without its first folders: longest first.
fn tails(name: &str) -> Vec<String> {
    let drive = name
        .get(1..3)
        .is_some_and(|mark| mark == ":/" || mark == ":\\");
    let absolute = name.starts_with('/') || drive;
    if !absolute || name.contains('\\') {
        return Vec::new();
    }
    let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty()).collect();
    let most = TAILS.min(parts.len().saturating_sub(1));
    (1..=most)
        .rev()
        .map(|count| parts[parts.len() - count..].join("/"))
        .collect()
}

/// `%20` and the like as the bytes they stand for; none where there are none, or the bytes are no UTF-8.
fn percent_decoded(name: &str) -> Option<String> {
    let bytes = name.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let hex = || str::from_utf8(bytes.get(at + 1..at + 3)?).ok();
        let decoded = hex().filter(|_| bytes[at] == b'%');
        match decoded.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out)
        .ok()
        .filter(|decoded| decoded != name)
}

/// `view.gif` has an ending; `view` and `take.1/view` have none.
pub(super) fn has_ending(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.trim_start_matches('.').contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_machines_are_tried_behind_the_one_that_is_written() {
        let cases = [
            (
                "transforms.json",
                "a/r_0",
                ["a/r_0", "a/r_0.png"].as_slice(),
            ),
            ("sub/t.json", "a.png", &["sub/a.png", "sub/a.png.png"]),
            ("bundle/bundle.out", "a.png", &["a.png", "a.png.png"]),
            ("t.json", "train\\r.png", &["train\\r.png", "train/r.png"]),
            (
                "t.json",
                "C:\\me\\scan\\r.png",
                &[
                    "C:\\me\\scan\\r.png",
                    "me/scan/r.png",
                    "scan/r.png",
                    "r.png",
                ],
            ),
            (
                "t.json",
                "/home/me/scan/r.png",
                &["/home/me/scan/r.png", "me/scan/r.png", "r.png"],
            ),
            (
                "t.json",
                "my%20scan/a%C3%A9.png",
                &["my%20scan/a%C3%A9.png", "my scan/aé.png"],
            ),
            ("t.json", "r_0.jpg", &["r_0.jpg", "r_0.png", "r_0.jpeg"]),
        ];
        for (transforms, name, expected) in cases {
            let found = candidates(transforms, name);
            let mut rest = found.iter();
            for name in expected {
                assert!(
                    rest.any(|found| found == name),
                    "{name} in its order in {found:?}"
                );
            }
        }
        let masks = |name, model| {
            let names = masks(name, model).into_iter().map(|mask| mask.name);
            names.skip(3).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            masks("a/images/b/c.jpg", false),
            "a/masks/b/c.jpg.png a/masks/b/c.png"
        );
        assert_eq!(masks("b/c.jpg", true), "b/c.jpg.png b/c.png");
        assert_eq!(masks("train/c.jpg", false), "");
        assert!(candidates("t.json", "").is_empty());
        assert_eq!(percent_decoded("100%"), None);
        assert_eq!(percent_decoded("%zz%20"), Some("%zz ".to_owned()));
    }
}
