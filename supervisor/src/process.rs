//! One worker process: how it is started and bounded, what it is given, whether it lives, and how it ended.

pub mod cgroup;
pub mod child;
pub mod dispatcher;
pub mod logs;
pub mod opener;
pub mod procfs;
pub mod reserve;
pub mod sandbox;
pub mod table_store;
pub mod verdict;
pub mod watch;
pub mod workers;
