//! The flags that name a fleet, and those of `kiln worker` and `kiln fleet`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use proto::message::Code;

use crate::cli::paths::named;
use crate::error::JobError;
use crate::fleet::{Place, name};
use crate::options::seconds;

/// Where a fleet's queue and store are.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct FleetArgs {
    /// A fleet's queue in place of a sidecar: NATS.
    ///
    /// `nats://host:4222` or `tls://host:4222`; several with commas between them. By default `$KILN_QUEUE`.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "URL",
        help_heading = "Fleet"
    )]
    pub(in crate::cli) queue: Option<String>,
    /// The fleet's store: S3, GCS, Azure, or a folder.
    ///
    /// `s3://bucket/prefix`, `gs://…`, `az://…`, or a folder that all hosts share. Keys and endpoints as the store's own
    /// tools take them: `$AWS_ACCESS_KEY_ID`, `$AWS_ENDPOINT_URL`, … By default `$KILN_STORE`.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "URL|FOLDER",
        help_heading = "Fleet"
    )]
    pub(in crate::cli) store: Option<String>,
    /// Credentials for the queue.
    ///
    /// A `.creds` file, or one with the seed of an nkey. By default `$KILN_CREDENTIALS`.
    #[arg(value_parser = named(), hide_short_help = true, long, value_name = "FILE", help_heading = "Fleet")]
    credentials: Option<PathBuf>,
    /// Whose jobs these are.
    ///
    /// A tenant sees only its own jobs. By default `$KILN_TENANT`, or else `default`.
    #[arg(hide_short_help = true, long, value_name = "NAME", value_parser = name, help_heading = "Fleet")]
    tenant: Option<String>,
}

impl FleetArgs {
    /// Where the fleet is, if one is named; not by variables where a flag names a sidecar.
    pub(in crate::cli) fn place(self, sidecar: bool) -> Result<Option<Place>, Box<JobError>> {
        let variable = |name: &str| {
            let value = std::env::var(name).ok().filter(|value| !value.is_empty());
            value.filter(|_| !sidecar)
        };
        let wrong = |what: String| Err(JobError::own(Code::InvalidSpec, what, ""));
        if sidecar && (self.queue.is_some() || self.store.is_some()) {
            return wrong("--queue and --store name a fleet, --socket and --url a sidecar".into());
        }
        let queue = self.queue.or_else(|| variable("KILN_QUEUE"));
        let store = self.store.or_else(|| variable("KILN_STORE"));
        let (queue, store) = match (queue, store) {
            (None, None) => return Ok(None),
            (Some(queue), Some(store)) => (queue, store),
            (Some(_), None) => {
                return wrong("a queue needs a store: --store or $KILN_STORE".into());
            }
            (None, Some(_)) => {
                return wrong("a store needs a queue: --queue or $KILN_QUEUE".into());
            }
        };
        let tenant = match self.tenant.or_else(|| variable("KILN_TENANT")) {
            Some(tenant) => match name(&tenant) {
                Ok(tenant) => tenant,
                Err(why) => return wrong(format!("the tenant {why}")),
            },
            None => "default".to_owned(),
        };
        let credentials = self.credentials;
        Ok(Some(Place {
            queue,
            store,
            credentials: credentials.or_else(|| variable("KILN_CREDENTIALS").map(PathBuf::from)),
            tenant,
        }))
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct OverviewArgs {
    #[command(flatten)]
    pub(in crate::cli) fleet: FleetArgs,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// `OpenMetrics` on standard output, with each worker's, for a collector of text files.
    #[arg(long, conflicts_with = "json")]
    pub(in crate::cli) metrics: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WorkerArgs {
    #[command(flatten)]
    pub(in crate::cli) fleet: FleetArgs,
    /// This host's sidecar.
    ///
    /// By default `$KILN_SOCKET`, or else where `kiln serve` listens by default.
    #[arg(value_parser = named(), long, value_name = "PATH", help_heading = "Sidecar")]
    pub(in crate::cli) sidecar: Option<PathBuf>,
    /// Trust a sidecar of this user.
    ///
    /// At the socket, beside one of one's own and of root. Repeatable.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "UID",
        help_heading = "Sidecar"
    )]
    pub(in crate::cli) allow_uid: Vec<u32>,
    /// How long the sidecar may be away while a job runs.
    #[arg(hide_short_help = true, long, value_name = "SECONDS", default_value = "60", value_parser = seconds, help_heading = "Sidecar")]
    pub(in crate::cli) patience: Duration,
    /// This host's name: the same after a restart, and no other host's.
    ///
    /// By default the machine's.
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(in crate::cli) name: Option<String>,
    /// Jobs to take at once.
    ///
    /// By default as many as the sidecar runs at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(in crate::cli) slots: Option<u16>,
    /// How long running jobs may go on after SIGTERM.
    ///
    /// Then they are handed to other hosts.
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    pub(in crate::cli) grace: Duration,
    /// A folder for files on their way.
    #[arg(value_parser = named(), hide_short_help = true, long, value_name = "FOLDER")]
    pub(in crate::cli) spool: Option<PathBuf>,
    /// Copies of the queue's streams, if this worker makes them.
    ///
    /// 3 on a cluster of three servers or more.
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(in crate::cli) replicas: u8,
}
