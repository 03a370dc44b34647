//! Kiln's supervisor, the library behind the binary `kiln`: runs jobs in worker processes and puts their results in place.
//!
//! ```text
//!                     kiln bake, --jobs, compare                kiln serve              kiln submit, wait, fetch …
//!                               │                                   │                              │
//!   cli: arguments ─► command ──┤                    HTTP ─► api ─► store ◄── another kiln's HTTP ─┘ remote
//!                               ▼                                   ▼
//!                             many                              schedule
//!                               └───────────────┬───────────────────┘
//!                                               ▼
//!                     ┌──────────── job: events ─► life ─► actions ────────────┐
//!                     │ packets, ends, stalls                start, kill, stage │
//!                     │                                                         ▼
//!            child ◄─ worker process (kiln-baker) ◄─ dispatcher ◄─ table_store    output: files in place
//!                     │ an end                                                  │
//!                     └─► verdict: fault ─► gate, ladder ─► the next start      └─► event, report ─► screen
//! ```
//!
//! The modules lie in layers. A module names only modules of its own layer and of those above it in this table, and no
//! circle of imports has more than three files. `tests/tests/layers.rs` holds it, with the files that belong to another layer
//! than their folder.
//!
//! | layer | module | input → output |
//! |---|---|---|
//! | tools | [`words`] | phases, sizes, untrusted text → what people read |
//! | | [`home`], [`error`] | the user's folders; what a caller is told |
//! | | [`process::reserve`], [`process::workers`] | descriptors kept back for when none are left; calls that may block → other threads |
//! | | [`process::procfs`], [`process::logs`] | a live process → its processor time; lines of workers → the log and the last lines of each |
//! | judgement, pure | [`process::verdict`] | how a process ended → one code, class and line |
//! | | [`process::watch`] | packets and clock → alive or to be killed; a silent process → starved, stopped or stuck |
//! | | [`host::ladder`], [`host::fleet`], [`host::gate`] | a failed bake → what its retry changes; which adapter it takes; who may start at all |
//! | | [`job::life`] | events → actions; the state machine of a job |
//! | data | [`input`], [`output`] | paths → opened folders, and targets that can be written, before any work |
//! | | [`options`] | the options of a job, as flags and as JSON; their ranges and their schema |
//! | | [`report`], [`event`] | what happens → `report.json` and closing lines; what a listener is told |
//! | | [`mod@print`], [`signals`] | lines → standard output and error; signals → orders |
//! | process | [`process::child`], [`process::cgroup`] | parcels → one worker process → events, the last of which tells how it ended; its bounds |
//! | | [`process::table_store`] | what a worker asks for → memory that it may write → sealed tables that others read |
//! | | [`process::sandbox`], [`process::opener`] | the proof that a process is in its sandbox; a file that prepare asks for → opened, or why not |
//! | | [`process::dispatcher`] | the tables that are there → what a process must still be sent |
//! | host | [`host::pipelines`], [`host`] | what a driver compiled → disk → the next bake; what all jobs of this program share |
//! | job | [`job`], [`job::crash`] | one bake, dry run or comparison, carried out; a death → a folder that `kiln replay` runs again |
//! | | [`job::many`] | a list of jobs → several at once |
//! | sidecar | [`store`] | accepted jobs, uploads and results → on disk, across `kill -9` |
//! | | [`serve`] | HTTP over a socket → jobs in the store → run in fair turn |
//! | client | [`remote`] | a job and its files → another kiln's sidecar → its result |
//! | | `fleet` | a fleet's queue and store → jobs of this host's sidecar; the commands of jobs, by the store |
//! | people | [`screen`], [`doctor`] | events → bars, lines or JSON; the machine → what can bake here |
//! | | [`cli`] | arguments → a checked command |
//!
//! Invariants:
//!
//! - No child can end or block this process.
//! - Nothing that a child says sizes, indexes or waits without a check.
//! - Descriptors go down and never up. Nothing that a child wrote is mapped.
//! - This crate links no GPU library, no decoder and no C++.
//! - All processes are spawned on the main thread, which lives as long as the program. The kernel kills a child when the
//!   *thread* that spawned it ends (`PR_SET_PDEATHSIG`), so the runtime is single-threaded and no other thread spawns.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod process;

pub mod cli;

pub mod options;

pub mod input;

pub mod output;

pub mod error;

pub mod event;

pub mod home;

pub mod host;

pub mod serve;

pub mod store;

pub mod remote;

#[cfg(feature = "fleet")]
pub mod fleet;

pub mod signals;

pub mod job;

pub mod print;

pub mod screen;

pub mod words;

pub mod report;

pub mod doctor;

mod panics;

mod failpoint;
mod run;

pub use run::run;
