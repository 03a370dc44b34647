//! `multipart/form-data` → the spec of a job, whose files are kept as they come: in any order, in one folder with the mesh, and in
//! one with the views.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::BoxError;
use axum::body::{Body, Bytes};
use axum::extract::multipart::{Field, Multipart, MultipartError};
use axum::extract::{FromRequest, Request};
use futures_util::{Stream, StreamExt};
use proto::splats;

use super::blobs;
use crate::options::{JobOptions, Source, plain_name};
use crate::serve::problem::{Code, Problem};
use crate::serve::service::Service;
use crate::store::{Digest, SPEC_BYTES};

/// A mesh with its buffers; a picture and a mask of each of 4,096 views.
const PARTS: usize = 16_384;
/// Of what comes before the bytes of a part, which is kept in memory.
const AHEAD: u64 = 4 << 20;

/// A form beyond its bounds.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
enum Beyond {
    #[error("before a part come more than {AHEAD} bytes that are no part's")]
    Ahead,
    #[error(
        "the form has more than {0} bytes, which a job's inputs may have (--queue-bytes of kiln serve)"
    )]
    Whole(u64),
}

/// Bytes that have come and that no part has given out yet.
#[derive(Clone, Debug, Default)]
struct Ahead(Arc<AtomicU64>);

impl Ahead {
    /// The same bytes, of which no more may lie in memory, and come in all, than the bounds say.
    fn bound<E: Into<BoxError>>(
        self,
        chunks: impl Stream<Item = Result<Bytes, E>>,
        whole: u64,
    ) -> impl Stream<Item = Result<Bytes, BoxError>> {
        let mut all = 0_u64;
        chunks.map(move |chunk| {
            let chunk = chunk.map_err(Into::into)?;
            let bytes = chunk.len() as u64;
            all = all.saturating_add(bytes);
            if all > whole {
                return Err(Beyond::Whole(whole).into());
            }
            if self.0.fetch_add(bytes, Ordering::Relaxed) > AHEAD {
                return Err(Beyond::Ahead.into());
            }
            Ok(chunk)
        })
    }

    fn given(&self, bytes: usize) {
        // One request's task alone counts here.
        let ahead = self.0.load(Ordering::Relaxed);
        self.0
            .store(ahead.saturating_sub(bytes as u64), Ordering::Relaxed);
    }
}

fn bad(what: impl Into<String>) -> Problem {
    Problem::new(Code::InvalidRequest, what)
}

fn unread(error: &MultipartError) -> Problem {
    let mut cause: &(dyn std::error::Error + 'static) = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    match cause.downcast_ref::<Beyond>() {
        Some(Beyond::Ahead) => bad(cause.to_string()),
        Some(Beyond::Whole(_)) => Problem::new(Code::PayloadTooLarge, cause.to_string()),
        None => Problem::broken_off(error),
    }
}

/// Reads a form to its end.
///
/// # Errors
/// It is none, breaks off, or is beyond a bound; a part is none that a job has.
pub(super) async fn read(service: &Service, request: Request) -> Result<JobOptions, Problem> {
    let (ahead, whole) = (Ahead::default(), service.options.queue_bytes);
    let bound = ahead.clone();
    let request =
        request.map(|body| Body::from_stream(bound.bound(body.into_data_stream(), whole)));
    let form = Multipart::from_request(request, &()).await;
    let mut form = form.map_err(|error| bad(error.body_text()))?;
    let mut spec = None;
    let mut inputs = Sources::default();
    for _ in 0..PARTS {
        let Some(part) = form.next_field().await.map_err(|error| unread(&error))? else {
            let mut spec: JobOptions = spec.unwrap_or_default();
            inputs.name_in(&mut spec)?;
            return Ok(spec);
        };
        ahead.0.store(0, Ordering::Relaxed);
        if part.name() == Some("spec") {
            let read = JobOptions::read(&text(part, &ahead).await?, false)?;
            if spec.replace(read).is_some() {
                return Err(bad("two parts are the spec"));
            }
            continue;
        }
        let name = inputs.enter(part.name(), part.file_name())?;
        let chunks = part.map(|chunk| {
            let chunk = chunk.map_err(Part)?;
            ahead.given(chunk.len());
            Ok::<_, Part>(chunk)
        });
        let digest = blobs::keep(service, None, chunks, None).await?;
        inputs.files.insert(name, digest);
    }
    Err(bad(format!("a form of more than {PARTS} parts")))
}

/// A part that cannot be read to its end.
#[derive(Debug)]
struct Part(MultipartError);

impl From<Part> for Problem {
    fn from(Part(error): Part) -> Self {
        unread(&error)
    }
}

async fn text(mut part: Field<'_>, ahead: &Ahead) -> Result<Vec<u8>, Problem> {
    let mut text = Vec::new();
    while let Some(chunk) = part.chunk().await.map_err(|error| unread(&error))? {
        ahead.given(chunk.len());
        text.extend_from_slice(&chunk);
        if text.len() > SPEC_BYTES {
            return Err(super::submit::too_long());
        }
    }
    Ok(text)
}

/// What the parts so far are.
#[derive(Debug, Default)]
struct Sources {
    mesh: Option<String>,
    views: Option<String>,
    original: Option<String>,
    files: BTreeMap<String, Digest>,
}

impl Sources {
    /// The name of a file that is to come.
    fn enter(&mut self, role: Option<&str>, name: Option<&str>) -> Result<String, Problem> {
        let shown = |text: &str| crate::words::printable(text, 255);
        let role = role.unwrap_or_default();
        let main = match role {
            "mesh" => Some(&mut self.mesh),
            "views" => Some(&mut self.views),
            "original" => Some(&mut self.original),
            "file" => None,
            _ => {
                let role = shown(role);
                let what =
                    format!("the part {role:?} is none of spec, mesh, views, original, file");
                return Err(bad(what));
            }
        };
        let given = name.unwrap_or_default();
        let name = plain_name(given).map_err(|why| {
            let given = shown(given);
            bad(format!(
                "the part {role:?} has the filename {given:?}, which {why}"
            ))
        })?;
        if let Some(main) = main
            && main.replace(name.clone()).is_some()
        {
            return Err(bad(format!("two parts are the {role}")));
        }
        if self.files.contains_key(&name) {
            return Err(bad(format!("two parts have the filename {name:?}")));
        }
        Ok(name)
    }

    /// Mesh, views and original, which may name any of the files.
    fn name_in(self, spec: &mut JobOptions) -> Result<(), Problem> {
        let Self {
            mesh,
            views,
            original,
            files,
        } = self;
        let source = |main: Option<String>, what: &str| match main {
            Some(main) => Ok(Some(Source::Files {
                files: files.clone(),
                main,
            })),
            None => Err(bad(format!("the part {what:?} is missing"))),
        };
        // Splats alone are mesh and views.
        let alone = views.is_none() && mesh.as_deref().is_some_and(splats::are_in);
        spec.mesh = source(mesh, "mesh")?;
        spec.views = if alone { None } else { source(views, "views")? };
        if original.is_some() {
            spec.original = source(original, "original")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[test]
    fn a_files_name_is_plain_and_its_own() {
        let mut inputs = Sources::default();
        let digest = Digest::of("");
        for (role, name, wanted) in [
            ("mesh", "mesh.glb", "mesh.glb"),
            ("views", "./transforms.json", "transforms.json"),
            ("original", "high.glb", "high.glb"),
            ("file", "./train/r_0.png", "train/r_0.png"),
            ("file", "train/./r_1.png", "train/r_1.png"),
        ] {
            let entered = inputs.enter(Some(role), Some(name)).expect(name);
            assert_eq!(entered, wanted);
            inputs.files.insert(entered, digest);
        }
        for (role, name, words) in [
            (
                "file",
                "train/r_0.png",
                "two parts have the filename \"train/r_0.png\"",
            ),
            (
                "file",
                "./mesh.glb",
                "two parts have the filename \"mesh.glb\"",
            ),
            ("mesh", "other.glb", "two parts are the mesh"),
            ("file", "../r.png", "hidden part"),
            ("file", "a/../../r.png", "hidden part"),
            ("file", "./../r.png", "hidden part"),
            ("file", "/r.png", "not relative"),
            ("file", "./", "empty"),
            ("file", ".\\r.png", "backslashes"),
            ("file", "", "empty"),
            (
                "picture",
                "r.png",
                "none of spec, mesh, views, original, file",
            ),
        ] {
            let problem = inputs.enter(Some(role), Some(name)).expect_err(name);
            assert!(problem.detail.contains(words), "{}", problem.detail);
            assert_eq!(problem.code, Code::InvalidRequest);
        }
    }

    #[tokio::test]
    async fn what_no_part_gives_out_is_bounded_and_so_is_the_whole() {
        let chunk = Bytes::from(vec![0; 1 << 20]);
        let chunks = |count| stream::repeat_with(|| Ok::<_, BoxError>(chunk.clone())).take(count);
        let last = |error: &BoxError| error.downcast_ref::<Beyond>().copied();
        let ahead = Ahead::default();
        let kept: Vec<_> = ahead.bound(chunks(10), u64::MAX).collect().await;
        let error = kept.iter().find_map(|chunk| chunk.as_ref().err());
        assert_eq!(error.and_then(last), Some(Beyond::Ahead));
        let ahead = Ahead::default();
        let given = ahead.clone().bound(chunks(10), 9 << 20).map(|chunk| {
            ahead.given(1 << 20);
            chunk
        });
        let given: Vec<_> = given.collect().await;
        assert!(given.iter().take(9).all(Result::is_ok));
        let error = given[9].as_ref().err();
        assert_eq!(error.and_then(last), Some(Beyond::Whole(9 << 20)));
    }
}
