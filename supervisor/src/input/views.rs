//! Finds the file that lists the views, and the folder of their pictures where that is another one. Splats are one file, or a
//! `meta.json`.
//!
//! A COLMAP model is named by its folder, by one of its files, or by the folder of the project around it. Its pictures
//! lie where the user says. Otherwise they lie in the nearest `images` beside the model or up to three folders above it,
//! as COLMAP (`sparse/0`), its undistorter (`sparse`, `dense/0/sparse`) and nerfstudio (`colmap/sparse/0`) leave them, and
//! their masks in `masks` beside it. Binary files are preferred to text, as in COLMAP.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;
use proto::message::Code;
use proto::splats;

use super::{Input, find, reason};
use crate::error::JobError;

/// A folder of pictures.
#[derive(Clone, Debug)]
pub struct Pictures {
    /// Its path.
    pub path: PathBuf,
    /// Opened without the right to list it.
    pub folder: Arc<OwnedFd>,
    /// The folder `masks` beside it, if there is one.
    pub masks: Option<Arc<OwnedFd>>,
}

/// Files of a model, without endings.
const MODEL: [&str; 5] = ["images", "cameras", "points3D", "frames", "rigs"];
/// How many folders above a model may hold its `images`.
const ABOVE: usize = 3;
/// Where a project's model may lie.
const WITHIN: [&str; 8] = [
    "",
    "0",
    "sparse/0",
    "sparse",
    "colmap/sparse/0",
    "colmap/sparse",
    "dense/0/sparse",
    "dense/sparse",
];
/// The extension of glTF that tells splats, and bytes at the start of a file in which it stands.
const SPLATS: &[u8] = b"\"KHR_gaussian_splatting\"";
const HEAD: u64 = 4 << 20;
/// Lists of views that a folder may have, likeliest first; the second is of `NeRF`'s synthetic sets.
const LISTS: [&str; 2] = ["transforms.json", "transforms_train.json"];

/// Finds the views at `path`. `images` is the folder of their pictures, if given.
///
/// # Errors
/// One line that says what is missing.
pub fn find_views(path: &Path, images: Option<&Path>) -> Result<Input, Box<JobError>> {
    let file = listing(path, images.is_some());
    if path.is_dir() && !file.exists() {
        return Err(without_cameras(path));
    }
    let mut input = find("the views", &file)?;
    if !is_model(&input.name) {
        return match images {
            None => Ok(input),
            Some(_) => Err(JobError::own(
                Code::InvalidSpec,
                format!(
                    "--images is for a model of COLMAP, which {} is not",
                    file.display()
                ),
                "leave it out: a transforms.json names its pictures itself",
            )),
        };
    }
    input.pictures = Some(match images {
        Some(folder) => opened(folder).map_err(|error| {
            let why = reason(&error.into());
            let message = format!("--images {}: {why}", folder.display());
            JobError::own(
                Code::MissingInput,
                message,
                "name the folder of the pictures",
            )
        })?,
        None => beside(&file, None)?,
    });
    Ok(input)
}

/// The file of Gaussian splats that is given as the mesh, or that the folder of an unpacked SOG holds. It needs no views.
#[must_use]
pub fn splats_of(mesh: &Path) -> Option<PathBuf> {
    let list = mesh.join(splats::LIST);
    if mesh.is_dir() {
        return list.is_file().then_some(list);
    }
    let ending = mesh.extension().unwrap_or_default();
    let is_gltf = ["glb", "gltf"]
        .iter()
        .any(|gltf| ending.eq_ignore_ascii_case(gltf));
    let is_splats = splats::are_in(&mesh.to_string_lossy()) && (!is_gltf || names_splats(mesh));
    is_splats.then(|| mesh.to_path_buf())
}

/// Whether a glTF names the extension of splats. Most are meshes, and need views. Prepare says what it holds.
fn names_splats(gltf: &Path) -> bool {
    let mut head = Vec::new();
    // The JSON comes first.
    let read = gltf.is_file()
        && std::fs::File::open(gltf)
            .and_then(|file| file.take(HEAD).read_to_end(&mut head))
            .is_ok();
    read && head.windows(SPLATS.len()).any(|part| part == SPLATS)
}

/// Finds uploaded views beneath `top`; no pictures are looked for above it.
///
/// # Errors
/// As [`find_views`].
pub fn find_uploaded(what: &str, top: &Path, main: &str) -> Result<Input, Box<JobError>> {
    let file = top.join(main);
    let mut input = find(what, &file)?;
    if is_model(&input.name) {
        input.pictures = Some(beside(&file, Some(top))?);
    }
    Ok(input)
}

/// Whether a file of this name lists the images of a COLMAP model.
#[must_use]
pub fn is_model(name: &str) -> bool {
    matches!(name, "images.bin" | "images.txt")
}

/// The camera file that belongs to such a list; naming one names both.
#[must_use]
pub fn companion(name: &str) -> Option<&'static str> {
    match name {
        "images.bin" => Some("cameras.bin"),
        "images.txt" => Some("cameras.txt"),
        _ => None,
    }
}

/// The file beside a list of views in which nerfstudio's exporters say how they moved its world. It need not exist.
#[must_use]
pub fn exporter(name: &str) -> String {
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    let slash = if folder.is_empty() { "" } else { "/" };
    format!("{folder}{slash}dataparser_transforms.json")
}

/// Folders in which the pictures of the model in `folder` may lie, likeliest first.
pub fn likely(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let above = folder.ancestors().take(1 + ABOVE);
    above.map(|folder| folder.join("images"))
}

/// The file that lists the views.
fn listing(path: &Path, model: bool) -> PathBuf {
    if path.is_dir() {
        let lists = LISTS.map(|name| path.join(name));
        let transforms = lists
            .iter()
            .find(|list| list.exists())
            .unwrap_or(&lists[0])
            .clone();
        let listed = transforms.exists() && !model;
        let found = WITHIN.iter().find_map(|within| {
            let folder = path.join(within);
            let names = ["images.bin", "images.txt"];
            names
                .map(|name| folder.join(name))
                .into_iter()
                .find(|file| file.is_file())
        });
        let found = found.filter(|_| !listed);
        // The list of a SOG's pictures is a common name, and comes last.
        let splats = path.join(splats::LIST);
        return match found {
            Some(found) => found,
            None if !transforms.exists() && splats.is_file() => splats,
            None => transforms,
        };
    }
    let part =
        |part: Option<&std::ffi::OsStr>| part.and_then(|part| part.to_str()).map(str::to_owned);
    match (part(path.file_stem()), part(path.extension())) {
        (Some(stem), Some(ending))
            if MODEL.contains(&stem.as_str()) && matches!(ending.as_str(), "bin" | "txt") =>
        {
            path.with_file_name(format!("images.{ending}"))
        }
        _ => path.to_path_buf(),
    }
}

/// The error of a folder in which no list of views was found: what it has instead, and what makes one.
fn without_cameras(path: &Path) -> Box<JobError> {
    let ending = |name: &str| {
        name.rsplit_once('.')
            .map(|(_, end)| end.to_ascii_lowercase())
    };
    let names = std::fs::read_dir(path).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let endings: Vec<String> = names.take(1000).filter_map(|name| ending(&name)).collect();
    let has = |wanted: &[&str]| {
        endings
            .iter()
            .any(|ending| wanted.contains(&ending.as_str()))
    };
    let instead = if path.join("keyframes").is_dir() {
        ": it is a raw capture of Polycam"
    } else if has(&["cam"]) {
        ": it has .cam files, as MVE and texrecon have them"
    } else if has(&["png", "jpg", "jpeg", "webp", "tif", "tiff", "heic", "exr"]) {
        ": it has pictures, and no cameras to them"
    } else {
        ""
    };
    let message = format!(
        "the views {}: no transforms.json and no COLMAP model is in this folder{instead}",
        path.display()
    );
    let hint = "views are cameras and pictures: convert them with ns-process-data, which makes a transforms.json, or \
        give the folder of a COLMAP model";
    JobError::own(Code::MissingInput, message, hint)
}

/// The pictures beside a model, not above `top`. A link that leads out of the folder around them is not followed.
fn beside(model: &Path, top: Option<&Path>) -> Result<Pictures, Box<JobError>> {
    let missing = || {
        let message = format!(
            "the views {}: no folder images is beside the model or above it",
            model.display()
        );
        let hint = "name the folder of the pictures with --images";
        JobError::own(Code::MissingInput, message, hint)
    };
    // The relative path `sparse/0` has no folders above it.
    let absolute = std::path::absolute(model).map_err(|_gone| missing())?;
    let top = top.and_then(|top| std::path::absolute(top).ok());
    for path in likely(absolute.parent().ok_or_else(missing)?) {
        let Some(around) = path.parent() else {
            continue;
        };
        if top.as_ref().is_some_and(|top| !around.starts_with(top)) {
            break;
        }
        let Ok(around) = opened(around) else { continue };
        match openat2(around.folder.as_fd(), "images", beneath()) {
            Ok(folder) => {
                let masks = openat2(around.folder.as_fd(), "masks", beneath());
                return Ok(Pictures {
                    path,
                    folder: Arc::new(folder),
                    masks: masks.ok().map(Arc::new),
                });
            }
            Err(Errno::EXDEV) => {
                let message = format!("{} is a link out of its folder", path.display());
                let hint = "name the folder of the pictures with --images";
                return Err(JobError::own(Code::MissingInput, message, hint));
            }
            Err(_) => {}
        }
    }
    Err(missing())
}

fn beneath() -> OpenHow {
    OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS)
}

fn opened(folder: &Path) -> Result<Pictures, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(Pictures {
        path: folder.to_path_buf(),
        folder: Arc::new(open(folder, flags, Mode::empty())?),
        masks: None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn project() -> tempfile::TempDir {
        let project = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(project.path().join("sparse/0")).expect("room");
        for name in ["images.bin", "cameras.bin"] {
            fs::write(project.path().join("sparse/0").join(name), "").expect("room");
        }
        project
    }

    #[test]
    fn a_model_is_found_by_its_project_its_folder_and_its_files() {
        let project = project();
        fs::create_dir(project.path().join("images")).expect("room");
        for named in [
            "",
            "sparse",
            "sparse/0",
            "sparse/0/images.bin",
            "sparse/0/cameras.bin",
            "sparse/0/points3D.bin",
        ] {
            let input = find_views(&project.path().join(named), None).expect(named);
            assert_eq!(input.name, "images.bin", "{named}");
            let pictures = input.pictures.expect("pictures").path;
            assert_eq!(pictures, project.path().join("images"), "{named}");
        }
        let masks = |input: Input| input.pictures.and_then(|pictures| pictures.masks);
        let input = find_views(project.path(), None).expect("there");
        assert!(masks(input).is_none());
        fs::create_dir(project.path().join("masks")).expect("room");
        let input = find_views(project.path(), None).expect("there");
        assert!(masks(input).is_some());
        fs::write(project.path().join("transforms.json"), "{}").expect("room");
        let input = find_views(project.path(), None).expect("there");
        assert_eq!(input.name, "transforms.json");
        let named = project.path().join("images");
        let input = find_views(project.path(), Some(&named)).expect("there");
        assert_eq!(input.name, "images.bin", "--images is for a model");
    }

    #[test]
    fn splats_are_found_by_their_folder_where_it_has_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("meta.json"), "{}").expect("room");
        let input = find_views(folder.path(), None).expect("splats");
        assert_eq!(input.name, "meta.json");
        fs::write(folder.path().join("transforms.json"), "{}").expect("room");
        let input = find_views(folder.path(), None).expect("views");
        assert_eq!(input.name, "transforms.json");
    }

    #[test]
    fn a_gltf_alone_is_splats_where_it_names_their_extension() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text, alone) in [
            (
                "a.glb",
                r#"{"extensionsUsed":["KHR_gaussian_splatting"]}"#,
                true,
            ),
            (
                "a.GLTF",
                r#"{"extensionsUsed":["KHR_gaussian_splatting"]}"#,
                true,
            ),
            (
                "b.gltf",
                r#"{"extensionsUsed":["KHR_materials_unlit"]}"#,
                false,
            ),
            (
                "a.obj",
                r#"{"extensionsUsed":["KHR_gaussian_splatting"]}"#,
                false,
            ),
            ("a.ply", "", true),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("room");
            assert_eq!(splats_of(&path), alone.then_some(path), "{name}");
        }
        assert_eq!(splats_of(&folder.path().join("none.glb")), None);
    }

    #[test]
    fn pictures_that_are_nowhere_or_elsewhere_are_told() {
        let project = project();
        let error = find_views(project.path(), None).expect_err("no pictures");
        assert!(error.message.contains("no folder images") && error.hint.contains("--images"));
        let far = tempfile::tempdir().expect("a folder");
        symlink(far.path(), project.path().join("images")).expect("a link");
        let error = find_views(project.path(), None).expect_err("out of the folder");
        assert!(
            error.message.contains("a link out of its folder"),
            "{}",
            error.message
        );
        let input = find_views(project.path(), Some(far.path())).expect("named");
        assert_eq!(input.pictures.expect("pictures").path, far.path());
        let nowhere =
            find_views(project.path(), Some(Path::new("/nowhere"))).expect_err("no folder");
        assert!(nowhere.message.contains("--images /nowhere: no such file"));
        fs::write(project.path().join("t.json"), "{}").expect("room");
        let other = find_views(&project.path().join("t.json"), Some(far.path()));
        assert!(other.expect_err("no model").message.contains("COLMAP"));
    }

    #[test]
    fn nothing_is_looked_for_above_what_was_uploaded() {
        let outer = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(outer.path().join("views")).expect("room");
        fs::create_dir(outer.path().join("images")).expect("room");
        fs::write(outer.path().join("views/images.bin"), "").expect("room");
        let top = outer.path().join("views");
        find_uploaded("the views", &top, "images.bin").expect_err("above the uploads");
        fs::create_dir(top.join("images")).expect("room");
        find_uploaded("the views", &top, "images.bin").expect("beside the model");
    }
}
