//! The flags of `kiln serve`, checked.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::site::Sites;

/// What the command line says.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the flags of kiln serve, which explains them")]
pub struct Options {
    pub socket: PathBuf,
    pub tcp: Option<SocketAddr>,
    pub token: Option<String>,
    pub sites: Sites,
    pub allow_uid: Vec<u32>,
    pub store: PathBuf,
    pub roots: Vec<PathBuf>,
    pub parallel: Option<usize>,
    pub bakes: usize,
    pub spares: usize,
    pub nice: u8,
    pub memory_limit: Option<u64>,
    pub vram_budget: Option<u64>,
    pub queue_jobs: u64,
    pub client_jobs: Option<u64>,
    pub queue_bytes: u64,
    pub keep: Duration,
    pub keep_bytes: Option<u64>,
    pub pipelines: Option<PathBuf>,
    pub sandbox: bool,
    pub baker: PathBuf,
    pub stall: Option<Duration>,
}
