//! Kiln's supervisor, the library behind the binary `kiln`. In the order in which a command passes through:
//!
//! - [`cli`]: arguments → a checked command,
//! - [`input`], [`output`]: paths → opened folders and targets that can be written, before any work,
//! - [`job`]: one job, carried out: spawn → feed → watch → judge → put the result in place,
//!   - [`job::compare`]: `kiln compare`, carried out: one prepare process with another job → figures and a sheet,
//!   - [`life`]: what happened → what to do (a pure state machine),
//!   - [`ladder`]: a failed bake → what its repetition does differently (pure),
//!   - [`child`]: one process: socket and pipe → events, in order, the last of which says how it ended,
//!   - [`cgroup`]: a child's limits of memory and processes, and whether the kernel's OOM killer ended it,
//!   - [`stock`]: the tables of a job: what a child may write, and what has been written,
//!   - [`opener`]: a file that prepare asks for → opened, if it is one of the mesh's or of a view's, by other [`hands`],
//!   - [`feed`]: stock → what the next child still has to be sent,
//!   - [`watch`]: packets and clock → "it lives" or why it must be killed,
//!   - [`procfs`]: a silent process → starved, stopped or stuck,
//!   - [`verdict`]: how a process ended → what is wrong, in one code, class and line (a pure function),
//!   - [`crash`]: a death → a folder that `kiln replay` runs again,
//! - [`host`]: what all jobs share; [`fleet`]: which of several adapters a bake takes (pure); [`gate`]: what failed lately → who may start, and where (pure); [`reserve`]: descriptors
//!   for when there are none left,
//! - [`many`]: a list of jobs → several at once; [`serve`]: jobs over a socket; [`remote`]: its
//!   client; [`signals`] → orders,
//! - [`event`] → [`screen`]: what happens → bars, lines or JSON,
//! - [`pipelines`]: what a driver compiled for one bake → on disk, and down to the next,
//! - [`store`]: accepted jobs, uploads and results → on disk, across kill -9,
//! - [`report`]: what happened → `report.json` and the closing lines,
//! - [`doctor`]: machine → what can bake here and what is missing.
//!
//! Invariants: no child can end or block this process; a child's word sizes, indexes and waits for nothing unchecked;
//! descriptors go down and never up; nothing that a child wrote is mapped. This crate links no GPU, no decoder, no C++.
//! All processes are spawned on the main thread, which lives as long as the program: the kernel kills a child when the
//! *thread* that spawned it ends (`PR_SET_PDEATHSIG`), so the runtime is single-threaded, and other threads never spawn.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod cli;

pub mod input;

pub mod output;

pub mod error;

pub mod event;

pub mod host;

pub mod fleet;

pub mod gate;

pub mod many;

pub mod serve;

pub mod store;

pub mod pipelines;

pub mod remote;

pub mod signals;

pub mod job;

pub mod life;

pub mod ladder;

pub mod child;

pub mod cgroup;

pub mod logs;

pub mod stock;

pub mod feed;

pub mod hands;

pub mod opener;

pub mod reserve;

pub mod sandbox;

pub mod watch;

pub mod procfs;

pub mod verdict;

pub mod crash;

pub mod screen;

pub mod words;

pub mod report;

pub mod doctor;

mod panics;

mod failpoint;
mod run;

pub use run::run;
