//! What a worker process of any role needs: its session with the supervisor, its sandbox, its progress, and what it
//! leaves when it dies.

#[cfg(feature = "failpoints")]
pub(crate) mod failpoints;
pub(crate) mod failure;
pub mod folder;
pub(crate) mod last_words;
pub(crate) mod memory;
pub(crate) mod pace;
pub mod progress;
pub mod sandbox;
pub mod session;
pub(crate) mod step_times;
