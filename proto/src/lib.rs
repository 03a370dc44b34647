//! Everything that crosses a process border in Kiln, and nothing else: packets, sealed memory, flat tables, exit codes.
//!
//! ```text
//!  supervisor                                   child (prepare | bake | encode), socket = its fd 0
//!      │ ◄──────────── Hello ───────────────────── │  version, build id, role
//!      │ ───────────── Warm ─────────────────────► │  bake only: open the adapter, before there is any data
//!      │ ◄──────────── Ready ───────────────────── │  bake only: the adapter that it opened
//!      │ ───────────── Pipelines + fd? ──────────► │  bake only, if its driver can save pipelines: those of earlier processes
//!      │ ◄──────────── Compiled ────────────────── │  bake only: `Start` waits for it, so cached pipelines have seen no data
//!      │ ───────────── Start + fds ──────────────► │  the job; fds are read-only inputs
//!      │ ───────────── View + fd, …, EndOfViews ─► │  bake and encode only
//!      │ ◄──────────── Again ───────────────────── │  bake only, once for each set of layers: send the views once more
//!      │ ◄──────────── Open {root, name, limit} ── │  prepare only, which can open nothing itself
//!      │ ───────────── Opened + fd ──────────────► │  the file, for reading, or why not
//!      │ ◄──────────── Progress* Warning* ──────── │  progress counts work done, never time
//!      │ ◄──────────── Allocate {table, bytes} ─── │
//!      │ ───────────── Grant {table} + fd ───────► │  a memfd that the supervisor created, sized and sealed in size
//!      │ ◄──────────── Filled {table} ──────────── │  the supervisor seals it against writing; from here on it is data
//!      │ ◄──────────── Done | Failed ───────────── │  exactly one of them, then the child exits
//! ```
//!
//! Besides the socket (fd 0) a child holds its flight recorder (fd 1, [`recorder`]) and a pipe for log lines (fd 2).
//!
//! Invariants:
//!
//! - Descriptors travel downwards only.
//! - The supervisor never maps what a child wrote.
//! - Every packet fits [`limits::MAX_PACKET_BYTES`].
//! - The process that reads a table checks all of it ([`table`]).

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

#[macro_use]
mod worded;

mod list;

pub mod limits;

pub mod html;
pub mod job;
pub mod labels;
pub mod message;
pub mod pages;
pub mod plan;
pub mod programs;
mod role;
pub mod sandbox;
pub mod splats;
mod summary;
pub mod wire;

pub mod blob;
pub mod channel;
pub mod recorder;

pub mod table;

pub mod exit;
pub mod place;

#[cfg(feature = "failpoints")]
pub mod failpoint;

/// Changes with every change of the protocol's meaning that its bytes do not show.
pub const PROTOCOL_VERSION: u32 = 19;

/// Version of the product and fingerprint of this crate's sources; both ends must have the same.
pub const BUILD_ID: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "+",
    env!("KILN_PROTO_FINGERPRINT")
);
