//! Checks clients' names of input files: each must stay beneath the folder that it is put in.

use std::collections::BTreeMap;

use super::error::StoreError;

/// Most bytes of a name with all its components.
const LONGEST: usize = 255;

/// Refuses the first name that is not relative, plain and visible, or that uses another name's file as a folder.
pub(super) fn check<T>(names: &BTreeMap<String, T>) -> Result<(), StoreError> {
    for name in names.keys() {
        let bad = |why| {
            Err(StoreError::BadName {
                name: name.clone(),
                why,
            })
        };
        if let Err(why) = check_one(name) {
            return bad(why);
        }
        let folders = name.match_indices('/').map(|(end, _)| name.get(..end));
        if folders.flatten().any(|folder| names.contains_key(folder)) {
            return bad("a part of it is the name of a file");
        }
    }
    Ok(())
}

/// What is wrong with a name.
pub(super) fn check_one(name: &str) -> Result<(), &'static str> {
    if name.len() > LONGEST {
        return Err("it has more than 255 bytes");
    }
    if name.chars().any(char::is_control) {
        return Err("it has control characters");
    }
    for part in name.split('/') {
        match part {
            "" => return Err("a part of it is empty"),
            "." | ".." => return Err("`.` and `..` are not allowed in it"),
            hidden if hidden.starts_with('.') => return Err("a part of it is hidden"),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_pass_and_nothing_else() {
        let check = |names: &[&str]| {
            check(&names.iter().map(|name| ((*name).to_owned(), ())).collect()).is_ok()
        };
        assert!(check(&[
            "mesh.glb",
            "images/0.png",
            "images/ä b\\c..png",
            &"x".repeat(255)
        ]));
        let long = "x".repeat(256);
        for bad in [
            "", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", ".a", "a/.b", "a\nb", "a\0",
            "\u{85}", &long,
        ] {
            assert!(!check(&[bad]), "{bad:?}");
        }
        assert!(!check(&["a", "a/b"]) && !check(&["a/b", "a/b/c/d"]));
        assert!(check(&["a", "ab/c"]), "a prefix is no folder");
    }
}
