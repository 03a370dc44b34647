//! Downloads a file that a job made: writes it beside its target and checks its SHA-256. The caller then gives it its
//! name.
//!
//! A transfer that breaks off is continued where it stopped (`Range`). A file that is shorter, longer or otherwise not
//! as promised gets no name.

use axum::http::{Method, StatusCode, header};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

use super::client::Client;
use super::error::RemoteError;
use super::http::{Answer, Ask};
use super::jobs::Made;
use crate::output::{Growing, Staged, Target};
use crate::store::{Digest, JobId};

/// After this many damaged transfers the file itself counts as damaged.
const ATTEMPTS: u32 = 2;
/// Longest silence within the transfer.
const SILENCE: Duration = Duration::from_secs(60);

struct Copy {
    file: Growing,
    hash: Sha256,
    at: u64,
}

impl Copy {
    fn begin(target: &Target) -> Result<Self, RemoteError> {
        Ok(Self {
            file: target.begin()?,
            hash: Sha256::new(),
            at: 0,
        })
    }
}

impl Client {
    /// Fetches a file of a job; it still needs its name.
    ///
    /// # Errors
    /// The sidecar refuses or is gone, the file differs from what was promised, or the disk is full.
    pub async fn fetch(
        &self,
        id: JobId,
        made: &Made,
        target: &Target,
    ) -> Result<Staged, RemoteError> {
        let mut pauses = self.pauses();
        let mut copy = Copy::begin(target)?;
        let mut damaged = 0;
        loop {
            let before = copy.at;
            let error = match self.take(id, made, target, &mut copy).await {
                Ok(())
                    if Digest::from_bytes(copy.hash.clone().finalize().into()) == made.sha256 =>
                {
                    return Ok(copy.file.finish()?);
                }
                Ok(()) => RemoteError::Damaged(format!(
                    "{} of job {id} arrived with another SHA-256 than promised",
                    made.name
                )),
                Err(error) => error,
            };
            if matches!(error, RemoteError::Damaged(_)) {
                damaged += 1;
                if damaged == ATTEMPTS {
                    return Err(error);
                }
                copy = Copy::begin(target)?;
            } else if copy.at > before {
                pauses.reset();
            }
            pauses.after(error).await?;
        }
    }

    /// Fetches the missing part.
    async fn take(
        &self,
        id: JobId,
        made: &Made,
        target: &Target,
        copy: &mut Copy,
    ) -> Result<(), RemoteError> {
        let mut ask = Ask::new(
            Method::GET,
            format!("/v1/jobs/{id}/artifacts/{}", encoded(&made.name)),
        );
        if copy.at > 0 {
            ask = ask
                .with(header::RANGE, format!("bytes={}-", copy.at))
                .with(header::IF_RANGE, format!("\"{}\"", made.sha256));
        }
        let mut answer = self.once(&ask, None).await?;
        if copy.at > 0 && !continues(&answer, copy.at) {
            *copy = Copy::begin(target)?;
        }
        while let Some(bytes) = answer.chunk(SILENCE).await? {
            copy.at += bytes.len() as u64;
            if copy.at > made.bytes {
                return Err(short_or_long(id, made, "more"));
            }
            copy.hash.update(&bytes);
            copy.file.push(&bytes)?;
        }
        match copy.at < made.bytes {
            true => Err(short_or_long(id, made, "less")),
            false => Ok(()),
        }
    }
}

fn short_or_long(id: JobId, made: &Made, than: &str) -> RemoteError {
    let (name, bytes) = (&made.name, made.bytes);
    RemoteError::Damaged(format!(
        "{name} of job {id} arrived with {than} than its {bytes} bytes"
    ))
}

/// Whether the answer is the part from `at` on, and not the whole file again.
fn continues(answer: &Answer, at: u64) -> bool {
    let wanted = format!("bytes {at}-");
    answer.status == StatusCode::PARTIAL_CONTENT
        && (answer.header(header::CONTENT_RANGE)).is_some_and(|range| range.starts_with(&wanted))
}

/// The name as a part of a URL's path.
fn encoded(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'.' | b'-' | b'_' => {
                text.push(char::from(byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}
