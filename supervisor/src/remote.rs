//! The other end of [`crate::serve`]: calls → HTTP/1.1 to a sidecar, one connection a request.
//!
//! Every request can be repeated without doing its work twice (a job by its `Idempotency-Key`), so it is repeated after a lost
//! connection, until a sidecar that was there has been away for as long as the caller's patience. What it answers is bounded in
//! size and checked before it is used, and escaped before it is shown.
//!
//! - [`place`]: where it is → a connection; [`http`]: one request → its answer; [`client`]: requests that are repeated,
//! - [`collect`]: mesh and views → the files that belong to them; [`upload`]: files → blobs that the sidecar has,
//! - [`jobs`]: the JSON of jobs; [`sse`]: bytes → events; [`follow`]: events → what [`crate::screen`] shows of a bake,
//! - [`fetch`]: a file that a job made → in place; [`error`]: what went wrong → one line and an exit code.

pub mod client;

pub mod collect;

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
