//! Kiln's supervisor, the library behind the binary `kiln`: runs jobs in worker processes and puts their results in place.
//!
//! ```text
//!  arguments ─ cli ─▶ command ─┬─ bake, list of jobs ─────────────────────┐
//!                              └─ serve: HTTP ─ api ─▶ store ─ schedule ──┤
//!                                                                         ▼
//!   input, output ─▶ job: life (what to do) ─ spawn ─▶ child ─ packets ─▶ watch, hear ─▶ verdict ─▶ ladder ─┐
//!                     ▲                                  ▲                                                  │
//!                     └─────────── again ────────────────┼──────────────────────────────────────────────────┘
//!                                      stock, feed: tables to and from children
//!                     commit ─▶ files in place, report, screen
//! ```
//!
//! | module | input → output |
//! |---|---|
//! | [`cli`] | arguments → a checked command |
//! | [`options`] | the options of a job, as flags and as JSON; their ranges and their schema |
//! | [`input`], [`output`] | paths → opened folders, and targets that can be written, before any work |
//! | [`job`] | one job, carried out: spawn, feed, watch, judge, commit |
//! | [`life`] | events → actions; a pure state machine |
//! | [`verdict`] | how a process ended → one code, class and line; pure |
//! | [`ladder`] | a failed bake → what its repetition changes; pure |
//! | [`child`] | one process: socket and pipe → events in order, the last of which tells how it ended |
//! | [`cgroup`] | limits of memory and processes, and whether the kernel's OOM killer ended a child |
//! | [`stock`], [`feed`] | tables of a job: what a child may write; what the next child still has to receive |
//! | [`opener`], [`hands`] | a file that prepare asks for → opened, if it belongs to the mesh or to a view, by other threads |
//! | [`watch`], [`procfs`] | packets and clock → alive or to be killed; a silent process → starved, stopped or stuck |
//! | [`crash`] | a death → a folder that `kiln replay` runs again |
//! | [`host`], [`reserve`] | what all jobs share; descriptors kept back for when none are left |
//! | [`fleet`], [`gate`] | which adapter a bake takes; recent failures → who may start, and where; pure |
//! | [`many`], [`serve`], [`remote`] | a list of jobs → several at once; jobs over a socket; its client |
//! | [`store`] | accepted jobs, uploads and results → on disk, across `kill -9` |
//! | [`pipelines`] | what a driver compiled for one bake → on disk, and down to the next |
//! | [`event`], [`screen`], [`report`] | what happens → bars, lines or JSON; `report.json` and the closing lines |
//! | [`signals`], [`doctor`] | signals → orders; the machine → what can bake here and what is missing |
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

pub mod cli;

pub mod options;

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
