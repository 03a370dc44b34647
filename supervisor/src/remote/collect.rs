//! Finds the files that belong to a job, given the mesh and views that the user named, under the names by which prepare
//! will ask for them.
//!
//! Only files that are really named count, and no others of their folders. These are the `uri` of each glTF buffer, and
//! `file_path` and `mask_path` of each frame with the endings that prepare would try, and masks beside them. Of a
//! COLMAP model they are the cameras, and the pictures of its images with their masks. Of an unpacked SOG they are its
//! planes, and of splats in a glTF its buffers. Pictures of a glTF and the MTL of an OBJ are never read. Each file is opened
//! through [`crate::process::opener`], under the same rules as for `kiln bake`: beneath the folder, of a known kind. A file that
//! cannot be opened is left out, and prepare reports it as in `kiln bake`. This module finds files; only prepare judges
//! them.

mod colmap;
mod names;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use proto::limits::{MAX_COLMAP_FILE_BYTES, MAX_IMAGE_FILE_BYTES, MAX_MESH_FILE_BYTES};
use proto::message::{Code, Refusal, Root};
use proto::programs;
use proto::splats;
use sha2::{Digest as _, Sha256};

use crate::error::JobError;
use crate::input::{Input, companion, exporter};
use crate::options::{JobOptions, Source, bad_name};
use crate::output::Given;
use crate::process::opener::Opener;
use crate::process::workers;
use crate::store::Digest;

/// A file to send.
#[derive(Clone, Debug)]
pub struct Found {
    /// The folder that it lies in: the mesh's or the views'.
    pub root: Root,
    /// The name by which it is opened.
    pub name: String,
    /// Size in bytes when it was read.
    pub bytes: u64,
    /// SHA-256 of these bytes.
    pub digest: Digest,
}

/// What the user named.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The mesh.
    pub mesh: Input,
    /// Its views.
    pub views: Input,
    /// What it was simplified from, where that is named.
    pub original: Option<Input>,
}

impl Inputs {
    /// Those that are there, with the folder of each and its name in messages.
    fn named(&self) -> impl Iterator<Item = (Root, &Input, &'static str)> {
        let original = self.original.as_ref();
        [
            (Root::Mesh, &self.mesh, "the mesh"),
            (Root::Views, &self.views, "the views"),
        ]
        .into_iter()
        .chain(original.map(|original| (Root::Original, original, "the original")))
    }
}

/// All files of a job, and the sources that name them.
#[derive(Clone, Debug)]
pub struct Collection {
    /// What the user named.
    pub inputs: Inputs,
    /// Each file once.
    pub files: Vec<Found>,
    /// The same files' identities on disk.
    pub given: Given,
    /// The mesh's source in the spec.
    pub mesh: Source,
    /// The views' source in the spec.
    pub views: Source,
    /// The original's.
    pub original: Option<Source>,
}

impl Collection {
    /// Names its sources in a spec.
    pub fn name_in(&self, spec: &mut JobOptions) {
        spec.mesh = Some(self.mesh.clone());
        spec.views = Some(self.views.clone());
        spec.original.clone_from(&self.original);
        if self.inputs.mesh.path == self.inputs.views.path {
            // Splats alone: the mesh's own files are those of the views.
            spec.mesh = spec.views.take();
        }
    }
}

/// Finds the files and reads each once.
///
/// # Errors
/// The mesh or the views cannot be opened, or a file has a name that cannot be sent.
pub async fn collect(inputs: &Inputs) -> Result<Collection, Box<JobError>> {
    walk(inputs, true).await
}

/// Finds the files; reads only those that name others.
///
/// # Errors
/// The mesh or the views cannot be opened.
pub async fn given(inputs: &Inputs) -> Result<Given, Box<JobError>> {
    let found = walk(inputs, false).await?;
    Ok(found.given)
}

async fn walk(inputs: &Inputs, sent: bool) -> Result<Collection, Box<JobError>> {
    let views = &inputs.views;
    let (mut files, mut given) = (Vec::new(), Given::default());
    let mut sources = Vec::new();
    if sent && programs::of_name(&views.name).is_some() {
        let message = format!(
            "{}: only prepare reads the cameras of other programs, so their pictures cannot be found here and sent",
            views.path.display()
        );
        let hint = "let the sidecar read them itself with --by-path, or bake with kiln bake";
        return Err(JobError::own(Code::UnsupportedFeature, message, hint));
    }
    for (root, input, what) in inputs.named() {
        let mut finder = Finder {
            inputs,
            root,
            opener: Opener::default(),
            sent,
            splats: splats::are_in(&input.name),
            given: &mut given,
            files: BTreeMap::new(),
            found: Vec::new(),
        };
        let main = finder.main(what, input).await?;
        let model = (root == Root::Views)
            .then(|| companion(&input.name))
            .flatten();
        if let Some(cameras) = model {
            finder.first_of(&[cameras.to_owned()]).await?;
            finder.root = Root::Pictures;
        } else if root == Root::Views {
            finder.first_of(&[exporter(&input.name)]).await?;
        }
        let (text, splats) = (input.name.ends_with(".txt"), splats::are_in(&input.name));
        let named = workers::run(move || match (root, model) {
            (Root::Mesh | Root::Original, _) => names::buffers(main)
                .into_iter()
                .map(|name| vec![name])
                .collect(),
            (_, Some(_)) => colmap::pictures(main, text),
            (_, None) if splats => names::of_splats(main),
            // No job has a second mesh, and pictures alone are no job.
            (Root::Views | Root::Second | Root::Pictures | Root::Masks, None) => {
                names::pictures(main)
            }
        });
        let named: Vec<Vec<String>> = named.await.unwrap_or_default();
        for candidates in &named {
            finder.first_of(candidates).await?;
        }
        // The first name is the written one.
        let written = named.iter().filter_map(|candidates| candidates.first());
        for name in written.filter(|_| root == Root::Views) {
            finder.first_of(&names::masks(name)).await?;
            if model.is_some() {
                finder.root = Root::Masks;
                finder.first_of(&names::model_masks(name)).await?;
                finder.root = Root::Pictures;
            }
        }
        files.append(&mut finder.found);
        sources.push(Source::Files {
            files: finder.files,
            main: input.name.clone(),
        });
    }
    let mut sources = sources.into_iter();
    let (Some(mesh), Some(views)) = (sources.next(), sources.next()) else {
        return Err(JobError::own(Code::Internal, "no sources", ""));
    };
    Ok(Collection {
        inputs: inputs.clone(),
        files,
        given,
        mesh,
        views,
        original: sources.next(),
    })
}

struct Finder<'a> {
    inputs: &'a Inputs,
    root: Root,
    opener: Opener,
    /// Whether the files are to be sent, and so read.
    sent: bool,
    /// Whether its main file has the name of splats.
    splats: bool,
    given: &'a mut Given,
    files: BTreeMap<String, Digest>,
    found: Vec<Found>,
}

/// Opens one more file of a job for reading.
///
/// # Errors
/// Why the file cannot be opened.
pub async fn open(
    inputs: &Inputs,
    opener: &mut Opener,
    root: Root,
    name: &str,
    limit: u64,
) -> Result<File, Refusal> {
    let input = match root {
        Root::Mesh => Some(&inputs.mesh),
        Root::Views | Root::Pictures | Root::Masks => Some(&inputs.views),
        Root::Original => inputs.original.as_ref(),
        Root::Second => None,
    };
    let question = opener.admit(input, root, name.to_owned(), limit);
    let Ok(question) = question else {
        // More names than any job needs: prepare may not open them either.
        return Err(Refusal::Unlisted);
    };
    let opened = question.answer().await;
    opener.answered();
    opened.outcome?;
    // This is the only holder: nobody else was given the file.
    let file = opened.file.and_then(|file| Arc::try_unwrap(file).ok());
    file.map(File::from).ok_or(Refusal::Missing)
}

impl Finder<'_> {
    /// Opens and records the file that the user named.
    async fn main(&mut self, what: &str, input: &Input) -> Result<File, Box<JobError>> {
        let shown = input.path.display();
        let refused = |refusal: Refusal| {
            JobError::own(refusal.code(), format!("{what} {shown}: {refusal}"), "")
        };
        let file = open(
            self.inputs,
            &mut self.opener,
            self.root,
            &input.name,
            u64::MAX,
        );
        let file = file.await.map_err(refused)?;
        self.enter(&input.name, file).await
    }

    /// Opens and records the first of the names that exists.
    async fn first_of(&mut self, names: &[String]) -> Result<(), Box<JobError>> {
        let limit = match self.root {
            Root::Mesh | Root::Original => MAX_MESH_FILE_BYTES,
            Root::Views if names.iter().any(|name| name.starts_with("cameras.")) => {
                MAX_COLMAP_FILE_BYTES
            }
            Root::Views if self.splats => MAX_MESH_FILE_BYTES,
            Root::Views | Root::Second | Root::Pictures | Root::Masks => MAX_IMAGE_FILE_BYTES,
        };
        for name in names {
            match open(self.inputs, &mut self.opener, self.root, name, limit).await {
                Ok(file) => {
                    self.enter(name, file).await?;
                    return Ok(());
                }
                // It does not exist, or is not yet a picture's name.
                Err(Refusal::Missing | Refusal::Unlisted) => {}
                // Prepare may not open it for the same reason, and says so.
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Reads the file for its digest, and returns it.
    async fn enter(&mut self, name: &str, file: File) -> Result<File, Box<JobError>> {
        let metadata = file.metadata();
        let metadata = metadata.map_err(|error| crate::input::unread(name, &error))?;
        self.given.add((&metadata).into());
        if !self.sent {
            return Ok(file);
        }
        let sent = plain(name);
        let unsendable = |why: &str| {
            let message = format!("{name}: a file whose name {why} cannot be sent");
            let hint = "rename it, or let the sidecar read it itself with --by-path";
            JobError::own(Code::UnsupportedFeature, message, hint)
        };
        // The views would still name its place on this machine.
        if name.starts_with('/') {
            return Err(unsendable("is absolute"));
        }
        let sent = sent.ok_or_else(|| unsendable("has .. in it"))?;
        let sent = match self.root {
            // The sidecar looks for them beside the model.
            Root::Pictures => format!("images/{sent}"),
            Root::Masks => format!("masks/{sent}"),
            _ => sent,
        };
        if let Some(why) = bad_name(&sent) {
            return Err(unsendable(why));
        }
        if self.files.contains_key(&sent) {
            return Ok(file);
        }
        let failed = |error: std::io::Error| crate::input::unread(name, &error);
        let read = workers::run(move || digest(file)).await;
        let (file, bytes, digest) = read
            .map_err(|gone| failed(std::io::Error::other(gone)))?
            .map_err(failed)?;
        self.files.insert(sent, digest);
        self.found.push(Found {
            root: self.root,
            name: name.to_owned(),
            bytes,
            digest,
        });
        Ok(file)
    }
}

/// `./a//b.png` as `a/b.png`; `None` if it contains `..`, since the folders that it passes through are not sent.
fn plain(name: &str) -> Option<String> {
    let parts: Vec<&str> = name
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    (!parts.contains(&"..")).then(|| parts.join("/"))
}

fn digest(mut file: File) -> std::io::Result<(File, u64, Digest)> {
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut chunk = vec![0; 256 << 10];
    loop {
        let count = match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(chunk.get(..count).unwrap_or_default());
        bytes += count as u64;
    }
    file.seek(SeekFrom::Start(0))?;
    Ok((file, bytes, Digest::from_bytes(hash.finalize().into())))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;
    use crate::input::find;

    fn named(source: &Source) -> Vec<&str> {
        match source {
            Source::Files { files, .. } => files.keys().map(String::as_str).collect(),
            Source::Path { .. } => Vec::new(),
        }
    }

    async fn collected(
        folder: &Path,
        mesh: &str,
        views: &str,
    ) -> Result<Collection, Box<JobError>> {
        let mesh = find("the mesh", &folder.join(mesh)).expect("there");
        let views = find("the views", &folder.join(views)).expect("there");
        let original = folder.join("high.gltf");
        let original = original
            .exists()
            .then(|| find("the original", &original).expect("there"));
        collect(&Inputs {
            mesh,
            views,
            original,
        })
        .await
    }

    fn write(folder: &Path, name: &str, text: impl AsRef<[u8]>) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("room");
        fs::write(path, text).expect("room");
    }

    #[tokio::test]
    async fn the_files_that_are_named_are_found_and_no_others() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = &outer.path().join("job");
        write(outer.path(), "secret.png", "x");
        let gltf = r#"{"buffers": [{"uri": "a%20b.bin"}, {"uri": "data:;base64,AA"}, {"byteLength": 1},
            {"uri": "https://example.org/c.bin"}, {"uri": "./d//e.bin"}, {"uri": "gone.bin"}],
            "images": [{"uri": "paint.png"}]}"#;
        write(folder, "mesh.gltf", gltf);
        for name in ["a b.bin", "d/e.bin", "paint.png", "other.bin"] {
            write(folder, name, name);
        }
        let transforms = r#"{"frames": [{"file_path": "./train/r_0"}, {"file_path": "v/1.jpg", "mask_path": "v/m.png"},
            {"file_path": "v/1.jpg"}, {"file_path": "../secret.png"}, {"file_path": "/etc/passwd"},
            {"file_path": "v/.hidden.png"}, {"file_path": "linked.png"}, {"file_path": "gone", "channels": {"normal": "v/n"}}], "w": 1}"#;
        write(folder, "transforms.json", transforms);
        for name in [
            "train/r_0.png",
            "train/r_0.jpg",
            "v/1.jpg",
            "v/m.png",
            "v/n.webp",
            "v/.hidden.png",
            "v/2.jpg",
        ] {
            write(folder, name, name);
        }
        symlink("../secret.png", folder.join("linked.png")).expect("room");
        let found = collected(folder, "mesh.gltf", "transforms.json")
            .await
            .expect("good");
        assert_eq!(named(&found.mesh), ["a b.bin", "d/e.bin", "mesh.gltf"]);
        assert_eq!(
            named(&found.views),
            [
                "train/r_0.png",
                "transforms.json",
                "v/1.jpg",
                "v/m.png",
                "v/n.webp"
            ]
        );
        assert_eq!(found.files.len(), 8);
        let picture = found.files.iter().find(|file| file.name == "v/1.jpg");
        let picture = picture.expect("found");
        assert_eq!((picture.bytes, picture.digest), (7, Digest::of("v/1.jpg")));
    }

    #[tokio::test]
    async fn an_unpacked_sog_brings_its_planes() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        write(folder, "mesh.ply", "ply");
        let meta = r#"{"version": 2, "means": {"mins": [0, 0, 0], "files": ["means_l.webp", "means_u.webp"]},
            "sh0": {"files": ["sh0.webp", "../outside.webp", "sh0.webp"]}, "quats": {"files": [7]}}"#;
        write(folder, "meta.json", meta);
        for plane in ["means_l.webp", "means_u.webp", "sh0.webp", "other.webp"] {
            write(folder, plane, plane);
        }
        let found = collected(folder, "mesh.ply", "meta.json").await;
        let found = found.expect("files");
        let names = ["means_l.webp", "means_u.webp", "meta.json", "sh0.webp"];
        assert_eq!(named(&found.views), names);
    }

    #[tokio::test]
    async fn splats_in_a_gltf_bring_their_buffers() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        write(folder, "mesh.ply", "ply");
        write(folder, "splats.gltf", r#"{"buffers": [{"uri": "a.bin"}]}"#);
        for name in ["a.bin", "b.bin"] {
            write(folder, name, name);
        }
        let found = collected(folder, "mesh.ply", "splats.gltf").await;
        let found = found.expect("files");
        assert_eq!(named(&found.views), ["a.bin", "splats.gltf"]);
        let alone = collected(folder, "splats.gltf", "splats.gltf").await;
        assert_eq!(named(&alone.expect("files").mesh), ["a.bin", "splats.gltf"]);
    }

    #[tokio::test]
    async fn a_glb_may_name_buffers_and_what_is_broken_is_sent_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let json = br#"{"buffers": [{"uri": "far.bin"}]}"#;
        let mut glb = b"glTF\x02\0\0\0\0\0\0\0".to_vec();
        glb.extend(u32::try_from(json.len()).expect("short").to_le_bytes());
        glb.extend(b"JSON");
        glb.extend(json);
        glb.extend(b"more");
        write(folder, "mesh.glb", &glb);
        write(folder, "far.bin", "x");
        write(folder, "transforms.json", "{\"frames\": [");
        let high = r#"{"buffers": [{"uri": "far.bin"}, {"uri": "high.bin"}]}"#;
        write(folder, "high.gltf", high);
        write(folder, "high.bin", "y");
        let found = collected(folder, "mesh.glb", "transforms.json")
            .await
            .expect("good");
        assert_eq!(named(&found.mesh), ["far.bin", "mesh.glb"]);
        let original = found.original.expect("named");
        assert_eq!(named(&original), ["far.bin", "high.bin", "high.gltf"]);
        assert_eq!(named(&found.views), ["transforms.json"]);
    }

    #[tokio::test]
    async fn what_cannot_be_named_to_the_sidecar_is_an_error_and_not_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        write(folder, "mesh.ply", "ply");
        write(folder, "v/0.png", "x");
        let absolute = folder.join("v/0.png");
        let absolute = absolute.to_str().expect("ascii");
        for path in ["v/../v/0.png", "v\\\\0.png", absolute] {
            write(folder, "v\\0.png", "x");
            let text = format!("{{\"frames\": [{{\"file_path\": \"{path}\"}}]}}");
            write(folder, "transforms.json", text);
            let error = collected(folder, "mesh.ply", "transforms.json")
                .await
                .expect_err(path);
            assert_eq!(error.exit_code, 65, "{}", error.message);
            assert!(error.hint.contains("--by-path"), "{}", error.hint);
        }
    }
}
