//! Opens a job's mesh and views: beneath roots that the operator allowed, or uploaded.
//!
//! The kernel resolves each path beneath its root (`openat2`) without any symbolic link. So a user who can write into a
//! root cannot make the sidecar open a file outside it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::{Mode, SFlag, fstat};
use proto::message::Code;
use proto::programs;

use super::problem::Problem;
use crate::error::JobError;
use crate::input::{Beyond, Input, Pictures, find, find_uploaded, is_model, likely, list_around};
use crate::options::{ARRAYS, JobOptions, Source};

/// The allowed folders, opened. A folder that was named by a link has both names.
#[derive(Clone, Debug, Default)]
pub struct Roots(Vec<(PathBuf, Arc<OwnedFd>)>);

impl Roots {
    /// Opens the folders.
    ///
    /// # Errors
    /// One line that says which of them is not a folder.
    pub fn open(folders: &[PathBuf]) -> Result<Self, Box<JobError>> {
        let opened = folders.iter().map(|folder| {
            let failed = |error: &std::io::Error| {
                let why = crate::input::reason(error);
                let message = format!("--root {}: {why}", folder.display());
                JobError::own(Code::MissingInput, message, "name a folder that is there")
            };
            let real = folder.canonicalize().map_err(|error| failed(&error))?;
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            let fd = open(&real, flags, Mode::empty()).map_err(|errno| failed(&errno.into()))?;
            let named = std::path::absolute(folder).map_err(|error| failed(&error))?;
            let fd = Arc::new(fd);
            Ok::<_, Box<JobError>>([(named, Arc::clone(&fd)), (real, fd)])
        });
        let opened: Vec<_> = opened.collect::<Result<_, _>>()?;
        Ok(Self(opened.into_iter().flatten().collect()))
    }

    /// Opens a file beneath a root, without following links.
    ///
    /// # Errors
    /// The reason, which reveals nothing about what lies outside the roots.
    pub fn find(&self, path: &Path) -> Result<Input, String> {
        let shown = path.display();
        let (root, rest) = self.root_of(path)?;
        let (Some(name), Some(parent)) = (rest.file_name(), rest.parent()) else {
            return Err(format!("{shown} is no file"));
        };
        let name = name
            .to_str()
            .ok_or_else(|| format!("{shown}: the name is not UTF-8"))?;
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        let failed = |errno| refused(path, errno);
        let folder = openat2(root.as_fd(), parent, how(OFlag::O_DIRECTORY)).map_err(failed)?;
        let file = openat2(folder.as_fd(), name, how(OFlag::empty())).map_err(failed)?;
        let kind = fstat(&file).map_err(failed)?.st_mode;
        if SFlag::from_bits_truncate(kind) & SFlag::S_IFMT != SFlag::S_IFREG {
            return Err(format!("{shown} is no regular file"));
        }
        Ok(Input {
            path: path.to_path_buf(),
            folder: Arc::new(folder),
            name: name.to_owned(),
            pictures: None,
            // A job may name any file beneath the root, so its links may lead to one.
            beyond: Some(Beyond {
                folder: Arc::clone(root),
                served: true,
            }),
        })
    }

    /// Opens views. Pictures of another program's cameras lie beneath their folder or in `images`. A COLMAP model's pictures
    /// are in `images`, or beside or above the model, beneath the same root.
    fn views(&self, path: &Path, images: Option<&Path>) -> Result<Input, String> {
        let mut input = self.find(path)?;
        if let Some((list, name)) = list_around(path, &input.name)
            && let Ok(list) = self.find(&list)
        {
            (input.folder, input.name) = (list.folder, name);
        }
        let model = is_model(&input.name);
        let other = programs::of_name(&input.name).is_some();
        input.pictures = match (images, model) {
            (None, false) => None,
            (Some(images), false) if other => Some(self.pictures(images)?),
            (Some(_), false) => {
                return Err(format!(
                    "{} is no model of COLMAP and no file of another program's cameras: images is for these",
                    path.display()
                ));
            }
            (Some(images), true) => Some(self.pictures(images)?),
            (None, true) => {
                let mut likely = path.parent().into_iter().flat_map(likely);
                let found = likely.find_map(|folder| self.pictures(&folder).ok());
                Some(found.ok_or_else(|| {
                    format!("{}: no folder images is beside the model or above it, beneath its root: name it as images", path.display())
                })?)
            }
        };
        Ok(input)
    }

    /// Opens a folder of pictures beneath a root, and `masks` beside it, which is beneath one, too.
    fn pictures(&self, path: &Path) -> Result<Pictures, String> {
        let masks = self.folder(&path.with_file_name("masks")).ok();
        Ok(Pictures {
            masks: masks.map(|masks| masks.folder),
            ..self.folder(path)?
        })
    }

    /// Opens a folder beneath a root, without following links.
    fn folder(&self, path: &Path) -> Result<Pictures, String> {
        let (root, rest) = self.root_of(path)?;
        let rest = if rest.as_os_str().is_empty() {
            Path::new(".")
        } else {
            rest
        };
        let folder = openat2(root.as_fd(), rest, how(OFlag::O_DIRECTORY))
            .map_err(|errno| refused(path, errno))?;
        Ok(Pictures {
            path: path.to_path_buf(),
            folder: Arc::new(folder),
            masks: None,
        })
    }

    fn root_of<'a>(&self, path: &'a Path) -> Result<(&Arc<OwnedFd>, &'a Path), String> {
        // The innermost root: a link beneath one root may be another root's name.
        (self.0.iter())
            .filter_map(|(root, fd)| Some((fd, path.strip_prefix(root).ok()?)))
            .min_by_key(|(_, rest)| rest.components().count())
            .ok_or_else(|| {
                format!(
                    "{} lies beneath no folder that --root allows",
                    path.display()
                )
            })
    }

    /// Checks that a spec's paths exist.
    ///
    /// # Errors
    /// The key that is wrong.
    pub fn check(&self, spec: &JobOptions) -> Result<(), Problem> {
        for (field, source) in spec.sources() {
            if let Some(Source::Path { path, images }) = source {
                let found = match field {
                    "views" => self.views(path, images.as_deref()),
                    _ => self.find(path),
                };
                found.map_err(|why| Problem::field(field, crate::words::printable(&why, 1000)))?;
            }
        }
        Ok(())
    }

    /// The mesh and views of a job whose uploads are in `uploads`, and the original of the mesh where it is named.
    ///
    /// # Errors
    /// One of them is gone.
    pub fn inputs(
        &self,
        spec: &JobOptions,
        uploads: &Path,
    ) -> Result<(Input, Input, Option<Input>), Box<JobError>> {
        let one = |what: &str, folder: &str, source: &Option<Source>| match source {
            Some(Source::Path { path, images }) => match folder {
                "views" => self.views(path, images.as_deref()),
                _ => self.find(path),
            }
            .map_err(|why| {
                let message = format!("{what}: {why}");
                JobError::own(
                    Code::MissingInput,
                    message,
                    "it was there when the job was accepted",
                )
            }),
            Some(Source::Files { main, .. }) => find_uploaded(what, &uploads.join(folder), main),
            None => Err(JobError::own(
                Code::InvalidSpec,
                format!("{what} is not named"),
                "",
            )),
        };
        let original = match &spec.original {
            None => None,
            original => Some(one("the original", "original", original)?),
        };
        if spec.arrays.is_some() {
            let arrays = find("the arrays", &uploads.join(ARRAYS))?;
            return Ok((arrays.clone(), arrays, original));
        }
        let mesh = one("the mesh", "mesh", &spec.mesh)?;
        let views = match &spec.views {
            // Splats alone.
            None => mesh.clone(),
            views => one("the views", "views", views)?,
        };
        Ok((mesh, views, original))
    }
}

fn refused(path: &Path, errno: Errno) -> String {
    let shown = path.display();
    match errno {
        Errno::ELOOP => format!("{shown} is, or passes through, a symbolic link"),
        Errno::EXDEV => format!("{shown} leaves its root"),
        other => format!("{shown}: {}", crate::input::reason(&other.into())),
    }
}

fn how(flags: OFlag) -> OpenHow {
    OpenHow::new()
        .flags(flags | OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(
            ResolveFlag::RESOLVE_BENEATH
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::RESOLVE_NO_MAGICLINKS,
        )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_beneath_a_root_are_found_and_no_link_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().canonicalize().expect("there");
        let (root, outside) = (base.join("root"), base.join("outside"));
        for path in [&root, &outside, &root.join("sub")] {
            fs::create_dir(path).expect("room");
        }
        for path in [
            root.join("a.glb"),
            root.join("sub/b.glb"),
            outside.join("c.glb"),
        ] {
            fs::write(path, "x").expect("room");
        }
        symlink(outside.join("c.glb"), root.join("link.glb")).expect("room");
        symlink("a.glb", root.join("near.glb")).expect("room");
        symlink(&outside, root.join("away")).expect("room");
        let roots = Roots::open(std::slice::from_ref(&root)).expect("a folder");
        for name in ["a.glb", "sub/b.glb"] {
            let input = roots.find(&root.join(name)).expect(name);
            assert!(name.ends_with(&input.name));
        }
        for (path, why) in [
            (root.join("link.glb"), "symbolic link"),
            (root.join("near.glb"), "symbolic link"),
            (root.join("away/c.glb"), "symbolic link"),
            (root.join("sub/../../outside/c.glb"), "leaves its root"),
            (outside.join("c.glb"), "no folder that --root allows"),
            (root.join("sub"), "no regular file"),
            (root.join("none.glb"), "no such file"),
            (root.clone(), "no file"),
        ] {
            let error = roots.find(&path).expect_err("not allowed");
            assert!(error.contains(why), "{error}");
        }
        // A root may be named by a link beneath another root.
        symlink(&root, base.join("named")).expect("room");
        let roots = Roots::open(&[base.clone(), base.join("named")]).expect("a folder");
        for path in [base.join("named/sub/b.glb"), root.join("sub/b.glb")] {
            roots.find(&path).expect("beneath a root");
        }
        for (path, why) in [
            ("named/link.glb", "symbolic link"),
            ("named/away/c.glb", "symbolic link"),
            ("named/../outside/c.glb", "leaves its root"),
            ("named", "no file"),
        ] {
            let error = roots.find(&base.join(path)).expect_err("not allowed");
            assert!(error.contains(why), "{error}");
        }
        Roots::default()
            .find(&root.join("a.glb"))
            .expect_err("no root, no path");
    }
}
