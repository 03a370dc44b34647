//! A name that is not there → the one name there that differs from it in case or Unicode form alone.
//!
//! Data sets come from systems that do not tell `R_0.PNG` from `r_0.png` (Windows, macOS), or that store accents
//! decomposed (macOS). Each folder on the way is listed; two names that fit are no answer.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use unicode_normalization::UnicodeNormalization;

use crate::process::opener::beneath;

/// Entries of a folder that are looked at.
const MOST_ENTRIES: usize = 1 << 16;

/// The path beneath `folder` that exists and is written like `name` but for case and Unicode forms.
pub(super) fn alike(folder: &impl AsFd, name: &str) -> Option<String> {
    let mut found = String::new();
    for part in name
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
    {
        if part == ".." {
            return None;
        }
        let listed = beneath(folder, if found.is_empty() { "." } else { &found }).ok()?;
        let listed = fs::read_dir(format!("/proc/self/fd/{}", listed.as_raw_fd())).ok()?;
        let names = listed.take(MOST_ENTRIES).flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let wanted = folded(part);
        let mut fits: Vec<String> = names.filter(|name| folded(name) == wanted).collect();
        if let Some(exact) = fits.iter().position(|name| name == part) {
            fits = vec![fits.swap_remove(exact)];
        }
        let [fit] = fits.as_slice() else { return None };
        if !found.is_empty() {
            found.push('/');
        }
        found.push_str(fit);
    }
    (!found.is_empty()).then_some(found)
}

fn folded(name: &str) -> String {
    name.nfc().flat_map(char::to_lowercase).nfc().collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn case_and_unicode_forms_are_passed_over_and_a_choice_is_no_answer() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir(root.path().join("Train")).expect("a folder");
        for name in ["r_0.png", "vue\u{301}.png", "a.png", "A.png", "b.PNG"] {
            fs::write(root.path().join("Train").join(name), "").expect("a file");
        }
        let folder = File::open(root.path()).expect("the folder");
        let cases = [
            ("train/R_0.PNG", Some("Train/r_0.png")),
            ("./train//vu\u{e9}.png", Some("Train/vue\u{301}.png")),
            ("train/a.png", Some("Train/a.png")),
            ("train/a.PNG", None),
            ("train/c.png", None),
            ("train/../Train/r_0.png", None),
            ("", None),
        ];
        for (name, expected) in cases {
            assert_eq!(alike(&folder, name).as_deref(), expected, "{name}");
        }
    }
}
