//! Who does a sidecar's jobs in place of this host's processes: a fleet. Defined here, and implemented above, since the sidecar
//! knows nothing of queues and object stores.

use std::fmt;
use std::path::{Path, PathBuf};

use futures_util::future::LocalBoxFuture;
use tokio::sync::mpsc;

use crate::event::Listener;
use crate::job::{Order, Spec};
use crate::report::Report;
use crate::store::{Digest, JobId};

/// Jobs that are sent and awaited at once, unless told otherwise.
pub const AT_ONCE: usize = 64;

/// See the head of this file.
pub trait Elsewhere: fmt::Debug {
    /// Has a job done, and puts its files into its folder. An order ends it early.
    fn carry_out<'a>(
        &'a self,
        task: Task<'a>,
        orders: mpsc::Receiver<Order>,
    ) -> LocalBoxFuture<'a, Report>;

    /// Who they are, if they can be reached; otherwise why not.
    fn prove(&self) -> LocalBoxFuture<'_, Result<String, String>>;
}

/// A job to be done elsewhere.
pub struct Task<'a> {
    /// Its id.
    pub id: JobId,
    /// What to do, and the inputs that it names by path.
    pub spec: &'a Spec,
    /// The inputs that were uploaded.
    pub uploads: Vec<(Digest, PathBuf)>,
    /// Where its files go.
    pub folder: &'a Path,
    /// Who is told what happens.
    pub listener: &'a mut dyn Listener,
}
