//! Who takes jobs and keeps them and their files: a sidecar, or a fleet of hosts. The commands of jobs are written once, for
//! either.

use std::fs::File;

use proto::message::{Code, Root};

use super::client::Client;
use super::collect::{Collection, Found, open};
use super::error::RemoteError;
use super::jobs::{Job, Made};
use crate::error::JobError;
use crate::event::Listener;
use crate::options::JobOptions;
use crate::output::{Staged, Target};
use crate::process::opener::Opener;
use crate::store::JobId;
use crate::words::printable;

/// See the head of this file.
pub(crate) trait Depot {
    /// What people call it.
    const NAME: &'static str;

    /// Puts a file there, and returns whether it was there already. `tell` gets the bytes sent so far.
    ///
    /// # Errors
    /// It is refused, nothing answers, or the file has changed.
    async fn put(
        &self,
        collection: &Collection,
        file: &Found,
        tell: impl FnMut(u64),
    ) -> Result<bool, RemoteError>;

    /// Submits a job whose files are there. With the same key it is the same job.
    ///
    /// # Errors
    /// It is refused, or nothing answers.
    async fn submit(
        &self,
        spec: &JobOptions,
        key: &str,
        files: &[Found],
    ) -> Result<Job, RemoteError>;

    /// The job as it is now.
    ///
    /// # Errors
    /// There is no such job, or nothing answers.
    async fn job(&self, id: JobId) -> Result<Job, RemoteError>;

    /// Cancels a job.
    ///
    /// # Errors
    /// There is no such job, or nothing answers.
    async fn cancel(&self, id: JobId) -> Result<Job, RemoteError>;

    /// Gives the newest jobs to `each`: at most `limit`, and only those of `state` if it is given.
    ///
    /// # Errors
    /// It is refused, or nothing answers.
    async fn list(
        &self,
        state: Option<&str>,
        limit: usize,
        each: impl FnMut(Job),
    ) -> Result<(), RemoteError>;

    /// The ids of all jobs that begin so, or of the newest job.
    ///
    /// # Errors
    /// It is refused, or nothing answers.
    async fn ids(&self, wanted: Wanted<'_>) -> Result<Vec<JobId>, RemoteError>;

    /// Reports the events of a job, and returns the job once it is over, however it ended.
    ///
    /// # Errors
    /// There is no such job, or nothing answers for too long.
    async fn follow(&self, id: JobId, listener: &mut dyn Listener) -> Result<Job, RemoteError>;

    /// Fetches a file of a job; it still needs its name.
    ///
    /// # Errors
    /// Nothing answers, the file differs from what was promised, or the disk is full.
    async fn fetch(&self, job: &Job, made: &Made, target: &Target) -> Result<Staged, RemoteError>;

    /// Finds a job by its id, by a prefix that no other id has, or by `latest`.
    ///
    /// # Errors
    /// No job matches, or several do.
    async fn find(&self, text: &str) -> Result<JobId, RemoteError> {
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        let shown = printable(text, 80);
        let wanted = match text {
            "latest" => Wanted::Latest,
            text => Wanted::Begins(text),
        };
        match (self.ids(wanted).await?.as_slice(), wanted) {
            ([id], _) => Ok(*id),
            ([], _) => {
                let message = match wanted {
                    Wanted::Latest => format!("{} has no jobs", Self::NAME),
                    Wanted::Begins(_) => format!("no job's id begins with {shown:?}"),
                };
                let hint = "kiln list shows the jobs that there are";
                Err(JobError::own(Code::MissingInput, message, hint).into())
            }
            (many, _) => {
                let message = format!("the ids of {} jobs begin with {shown:?}", many.len());
                Err(JobError::own(Code::InvalidSpec, message, "give more of it").into())
            }
        }
    }
}

/// Which job is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// The newest.
    Latest,
    /// One whose id begins so.
    Begins(&'a str),
}

impl Depot for Client {
    const NAME: &'static str = "the sidecar";

    async fn put(
        &self,
        collection: &Collection,
        file: &Found,
        tell: impl FnMut(u64),
    ) -> Result<bool, RemoteError> {
        if self.has(&file.digest).await? {
            return Ok(true);
        }
        let content = again(collection, file).await?;
        let put = self.put(&file.digest, content, file.bytes, tell).await;
        put.map_err(|error| error.unwrap_or_else(|| changed(file).into()))?;
        Ok(false)
    }

    async fn submit(
        &self,
        spec: &JobOptions,
        key: &str,
        _files: &[Found],
    ) -> Result<Job, RemoteError> {
        Self::submit(self, spec.canonical(), key).await
    }

    async fn job(&self, id: JobId) -> Result<Job, RemoteError> {
        Self::job(self, id).await
    }

    async fn cancel(&self, id: JobId) -> Result<Job, RemoteError> {
        Self::cancel(self, id).await
    }

    async fn list(
        &self,
        state: Option<&str>,
        limit: usize,
        each: impl FnMut(Job),
    ) -> Result<(), RemoteError> {
        Self::list(self, state, limit, each).await
    }

    async fn ids(&self, wanted: Wanted<'_>) -> Result<Vec<JobId>, RemoteError> {
        let (begin, limit) = match wanted {
            Wanted::Latest => ("", 1),
            Wanted::Begins(text) => (text, usize::MAX),
        };
        let mut found = Vec::new();
        let each = |job: Job| {
            if job.known.id.to_string().starts_with(begin) {
                found.push(job.known.id);
            }
        };
        Self::list(self, None, limit, each).await?;
        Ok(found)
    }

    async fn follow(&self, id: JobId, listener: &mut dyn Listener) -> Result<Job, RemoteError> {
        Self::follow(self, id, listener).await
    }

    async fn fetch(&self, job: &Job, made: &Made, target: &Target) -> Result<Staged, RemoteError> {
        Self::fetch(self, job.known.id, made, target).await
    }
}

/// Opens a file of a job once more, to send it.
///
/// # Errors
/// It has changed.
pub(crate) async fn again(collection: &Collection, file: &Found) -> Result<File, Box<JobError>> {
    let mut opener = Opener::default();
    let inputs = &collection.inputs;
    let root: Root = file.root;
    let opened = open(inputs, &mut opener, root, &file.name, u64::MAX).await;
    opened.map_err(|_| changed(file))
}

/// A file is no longer as it was when its digest was taken.
pub(crate) fn changed(file: &Found) -> Box<JobError> {
    let message = format!("{} has changed since it was read", file.name);
    JobError::own(Code::IoError, message, "submit it again")
}
