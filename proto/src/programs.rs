//! Which files hold cameras of other programs, by their names. The supervisor gives prepare a folder of pictures for them, and
//! prepare reads them.

/// A program whose cameras are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `.sfm` of Meshroom.
    Meshroom,
    /// `.mlp` of `MeshLab`.
    Meshlab,
    /// `.out` of Bundler, with a list of pictures beside it.
    Bundler,
    /// `.xml` of Agisoft Metashape.
    Metashape,
    /// `cameras.json` of trainers of Gaussian splats.
    Splatting,
}

/// Endings, in lower case, and the programs that write them.
pub const ENDINGS: [(&str, Program); 4] = [
    ("sfm", Program::Meshroom),
    ("mlp", Program::Meshlab),
    ("out", Program::Bundler),
    ("xml", Program::Metashape),
];
/// The name of a trainer's cameras.
pub const SPLATTING: &str = "cameras.json";
/// The name of Bundler's list of pictures.
const LIST: &str = "list.txt";

/// The program whose cameras a file of this name may hold.
pub fn of_name(name: &str) -> Option<Program> {
    let file = name.rsplit('/').next().unwrap_or(name);
    if file == SPLATTING {
        return Some(Program::Splatting);
    }
    let ending = file.rsplit_once('.')?.1;
    let found = ENDINGS
        .iter()
        .find(|(own, _)| ending.eq_ignore_ascii_case(own));
    found.map(|(_, program)| *program)
}

/// The list of pictures that belongs to a file of Bundler: beside it, or beside its folder `bundle`, as Bundler leaves them.
pub fn list_of(name: &str) -> Option<String> {
    let is_bundle = of_name(name) == Some(Program::Bundler);
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    let above = match folder.strip_suffix("bundle") {
        Some(above) if above.is_empty() || above.ends_with('/') => above.to_owned(),
        _ if folder.is_empty() => String::new(),
        _ => format!("{folder}/"),
    };
    is_bundle.then(|| format!("{above}{LIST}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_programs_and_their_lists() {
        for (name, program, list) in [
            ("a/cameras.sfm", Some(Program::Meshroom), None),
            ("Project.MLP", Some(Program::Meshlab), None),
            (
                "bundle/bundle.out",
                Some(Program::Bundler),
                Some("list.txt"),
            ),
            (
                "x/bundle/bundle.out",
                Some(Program::Bundler),
                Some("x/list.txt"),
            ),
            (
                "x/bundle.rd.out",
                Some(Program::Bundler),
                Some("x/list.txt"),
            ),
            ("bundle.out", Some(Program::Bundler), Some("list.txt")),
            ("cameras.json", Some(Program::Splatting), None),
            ("transforms.json", None, None),
            ("out", None, None),
        ] {
            assert_eq!(of_name(name), program, "{name}");
            assert_eq!(list_of(name).as_deref(), list, "{name}");
        }
    }
}
