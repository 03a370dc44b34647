//! Finds the file that lists the views, and the folder of their pictures where that is another one. Splats are one file, or a
//! `meta.json`.
//!
//! A COLMAP model is named by its folder, by one of its files, or by the folder of the project around it. Its pictures
//! lie where the user says. Otherwise they lie in the nearest `images` beside the model or up to three folders above it,
//! as COLMAP (`sparse/0`), its undistorter (`sparse`, `dense/0/sparse`) and nerfstudio (`colmap/sparse/0`) leave them, and
//! their masks in `masks` beside it. Binary files are preferred to text, as in COLMAP.
//!
//! Cameras of other programs ([`programs`]) are one file, which names its pictures; they lie beneath its folder, or where
//! the user says. A folder without any other list may hold one of these.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;
use proto::message::Code;
use proto::programs::{self, Program};
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
/// Files of a folder at most that are looked at.
const MOST_LISTED: usize = 10_000;
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
    let mut input = with_list(find("the views", &file)?, &file)?;
    let program = programs::of_name(&input.name);
    input.pictures = match (images, is_model(&input.name)) {
        (None, true) => Some(beside(&file, None)?),
        (None, false) => None,
        (Some(folder), model) if model || program.is_some() => Some(given(folder)?),
        (Some(_), _) => {
            let message = format!(
                "--images is for a model of COLMAP or the cameras of another program, which {} is not",
                file.display()
            );
            let hint = "leave it out: a transforms.json names its pictures itself";
            return Err(JobError::own(Code::InvalidSpec, message, hint));
        }
    };
    Ok(input)
}

/// A file of Bundler by the folder of its list of pictures, where that lies around its folder `bundle`.
fn with_list(input: Input, file: &Path) -> Result<Input, Box<JobError>> {
    let file = std::path::absolute(file).ok();
    let around = file.and_then(|file| list_around(&file, &input.name));
    match around.filter(|(list, _)| list.is_file()) {
        Some((list, name)) => Ok(Input {
            folder: find("the list of pictures", &list)?.folder,
            name,
            ..input
        }),
        None => Ok(input),
    }
}

/// Where the list of pictures of a file of Bundler lies that is in a folder `bundle`: around that. And the file's name from
/// there.
pub fn list_around(file: &Path, name: &str) -> Option<(PathBuf, String)> {
    let around = (file.parent()?)
        .ends_with("bundle")
        .then_some(file.parent()?.parent()?)?;
    let name = format!("bundle/{name}");
    let list = programs::list_of(&name)?;
    Some((around.join(list), name))
}

/// The folder of pictures that the user names, with `masks` beside it.
fn given(folder: &Path) -> Result<Pictures, Box<JobError>> {
    let pictures = opened(folder).map_err(|error| {
        let why = reason(&error.into());
        let message = format!("--images {}: {why}", folder.display());
        let hint = "name the folder of the pictures";
        JobError::own(Code::MissingInput, message, hint)
    })?;
    let absolute = std::path::absolute(folder).ok();
    let around = absolute.as_deref().and_then(Path::parent);
    let around = around.and_then(|around| opened(around).ok());
    let masks = around.and_then(|around| masks(&around.folder));
    Ok(Pictures { masks, ..pictures })
}

/// The folder `masks` in the folder around pictures.
fn masks(around: &OwnedFd) -> Option<Arc<OwnedFd>> {
    openat2(around.as_fd(), "masks", beneath())
        .ok()
        .map(Arc::new)
}

/// The file of Gaussian splats that is given as the mesh, or that the folder of an unpacked SOG holds. It needs no views.
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
pub fn is_model(name: &str) -> bool {
    matches!(name, "images.bin" | "images.txt")
}

/// The camera file that belongs to such a list; naming one names both.
pub fn companion(name: &str) -> Option<&'static str> {
    match name {
        "images.bin" => Some("cameras.bin"),
        "images.txt" => Some("cameras.txt"),
        _ => None,
    }
}

/// The file beside a list of views in which nerfstudio's exporters say how they moved its world. It need not exist.
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
            None if transforms.exists() => transforms,
            None => match of_program(path) {
                Some(found) => found,
                None if splats.is_file() => splats,
                None => transforms,
            },
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

/// The one file of another program's cameras in a folder; `cameras.json` comes last, since splats lie beside their mesh.
fn of_program(path: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_sole =
        |name: &String| programs::of_name(name).is_some_and(|found| found != Program::Splatting);
    let mut names = names.take(MOST_LISTED).filter(is_sole);
    let bundle = path.join("bundle/bundle.out");
    match (names.next(), names.next()) {
        (Some(name), None) => Some(path.join(name)),
        _ if bundle.is_file() => Some(bundle),
        _ => Some(path.join(programs::SPLATTING)).filter(|file| file.is_file()),
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
    let endings: Vec<String> = names
        .take(MOST_LISTED)
        .filter_map(|name| ending(&name))
        .collect();
    let has = |wanted: &[&str]| {
        endings
            .iter()
            .any(|ending| wanted.contains(&ending.as_str()))
    };
    let instead = if path.join("keyframes").is_dir() {
        ": it is a raw capture of Polycam"
    } else if has(&["cam"]) {
        ": it has .cam files, as MVE and texrecon have them"
    } else if has(&["sfm", "mlp", "out", "xml"]) {
        ": it has several files of other programs, of which one is to be named"
    } else if has(&["log"]) {
        ": it has a .log, as Open3D has trajectories, which name no pictures"
    } else if has(&["png", "jpg", "jpeg", "webp", "tif", "tiff", "heic", "exr"]) {
        ": it has pictures, and no cameras to them"
    } else {
        ""
    };
    let message = format!(
        "the views {}: neither a transforms.json, a COLMAP model nor cameras of another program are in this folder{instead}",
        path.display()
    );
    let hint = "views are cameras and pictures: convert them with ns-process-data, which makes a transforms.json, or \
        give the folder of a COLMAP model, or the file of Meshroom (.sfm), MeshLab (.mlp), Bundler (.out) or Metashape (.xml)";
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
                return Ok(Pictures {
                    path,
                    folder: Arc::new(folder),
                    masks: masks(&around.folder),
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
    fn a_folder_is_searched_as_each_program_leaves_it() {
        // Files of a folder, and the one of its views.
        for (files, found) in [
            (
                &[
                    "transforms_train.json",
                    "transforms_test.json",
                    "train/r_0.png",
                ][..],
                "transforms_train.json",
            ),
            (
                &["transforms.json", "colmap/sparse/0/images.bin"],
                "transforms.json",
            ),
            (&["cameras.sfm", "images/a.jpg"], "cameras.sfm"),
            (&["project.mlp", "cameras.json"], "project.mlp"),
            (&["cameras.xml", "mesh.obj"], "cameras.xml"),
            (&["bundle/bundle.out", "list.txt"], "bundle/bundle.out"),
            (&["bundle.out", "list.txt"], "bundle.out"),
            (&["cameras.json", "input.ply"], "cameras.json"),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            for file in files {
                let file = folder.path().join(file);
                fs::create_dir_all(file.parent().expect("a folder")).expect("room");
                fs::write(file, "{}").expect("room");
            }
            let input = find_views(folder.path(), None).expect(found);
            assert_eq!(input.name, found);
            let named = find_views(&folder.path().join(found), None).expect(found);
            assert_eq!(named.name, found);
        }
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("a.sfm"), "{}").expect("room");
        fs::write(folder.path().join("b.sfm"), "{}").expect("room");
        let several = find_views(folder.path(), None).expect_err("two");
        assert!(
            several.message.contains("one is to be named"),
            "{}",
            several.message
        );
        let far = tempfile::tempdir().expect("a folder");
        let input = find_views(&folder.path().join("a.sfm"), Some(far.path())).expect("named");
        assert_eq!(input.pictures.expect("pictures").path, far.path());
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
        fs::create_dir(far.path().join("images")).expect("room");
        fs::create_dir(far.path().join("masks")).expect("room");
        let masked = find_views(project.path(), Some(&far.path().join("images"))).expect("named");
        assert!(
            masked
                .pictures
                .and_then(|pictures| pictures.masks)
                .is_some()
        );
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
