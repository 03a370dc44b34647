//! The client of [`crate::serve`]: calls a sidecar by HTTP/1.1, with one connection per request.
//!
//! Every request can be repeated without doing its work twice (a job by its `Idempotency-Key`). After a lost connection
//! it is therefore repeated until the caller's patience ends. Answers are bounded in size, checked before use and
//! escaped before they are shown.
//!
//! - [`depot`]: what a sidecar has in common with a fleet of hosts, so that commands are written once
//! - [`place`]: connects to a sidecar; [`http`]: one request and its answer; [`client`]: requests with retries
//! - [`collect`]: finds the files that a mesh and views need; [`upload`]: sends files that the sidecar lacks
//! - [`jobs`]: the JSON of jobs; [`sse`]: parses event streams; [`follow`]: shows a remote job as a local bake
//! - [`fetch`]: downloads a file that a job made; [`error`]: errors with a message and an exit code

pub mod client;

pub mod collect;

pub(crate) mod depot;

pub mod error;

pub mod fetch;

pub mod follow;

pub mod http;

pub mod jobs;

pub mod place;

pub mod sse;

pub mod upload;

pub use client::Client;
pub use error::RemoteError;
pub use place::Place;
