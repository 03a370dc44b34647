//! The flags that name a fleet, and those of `kiln worker` → where it is, and a worker's options.

pub(super) mod args;
use proto::message::Code;

use self::args::{FleetArgs, OverviewArgs, WorkerArgs};
use super::args::BakeArgs;
use super::remote::own_socket;
use crate::error::JobError;
use crate::fleet::overview::Form;
use crate::fleet::worker::Options;
use crate::fleet::{Place, name};
use crate::remote;

/// The fleet that the variables name.
pub(super) fn of_variables() -> Result<Place, Box<JobError>> {
    let place = FleetArgs::default().place(false)?;
    place.ok_or_else(|| {
        let message = "--fleet needs the variables KILN_QUEUE and KILN_STORE";
        JobError::own(
            Code::InvalidSpec,
            message,
            "--store here is the folder of this sidecar's own jobs",
        )
    })
}

/// The fleet that does the jobs of a list, if one is named.
pub(super) fn of_bake(args: &BakeArgs) -> Result<Option<Place>, Box<JobError>> {
    let named = args.fleet.queue.is_some() || args.fleet.store.is_some();
    match args.jobs.is_some() {
        true => args.fleet.clone().place(false),
        false if named => {
            let message = "--queue and --store have lists of jobs done, with --jobs";
            let hint = "kiln submit hands in one job";
            Err(JobError::own(Code::InvalidSpec, message, hint))
        }
        false => Ok(None),
    }
}

/// Checks the flags of `kiln fleet`.
pub(super) fn overview(args: OverviewArgs) -> Result<(Place, Form), Box<JobError>> {
    let form = match (args.json, args.metrics) {
        (true, _) => Form::Json,
        (_, true) => Form::Metrics,
        _ => Form::People,
    };
    Ok((args.fleet.place(false)?.ok_or_else(needed)?, form))
}

fn needed() -> Box<JobError> {
    let message = "--queue and --store are needed, or $KILN_QUEUE and $KILN_STORE";
    JobError::own(Code::InvalidSpec, message, "")
}

/// Checks the flags of `kiln worker`.
pub(super) fn worker(args: WorkerArgs) -> Result<Options, Box<JobError>> {
    let place = args.fleet.place(false)?.ok_or_else(needed)?;
    let host = match args.name {
        Some(name) => name,
        None => own_name()?,
    };
    Ok(Options {
        place,
        sidecar: remote::Place::Unix {
            path: args.sidecar.unwrap_or_else(own_socket),
            uids: args.allow_uid,
        },
        patience: args.patience,
        spool: args.spool.unwrap_or_else(std::env::temp_dir),
        slots: args.slots.map(usize::from),
        grace: args.grace,
        replicas: usize::from(args.replicas),
        host,
    })
}

/// The machine's name, with `-` for what may not stand in a subject.
fn own_name() -> Result<String, Box<JobError>> {
    let plain = |name: String| {
        let kept = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        name.trim().chars().map(kept).collect::<String>()
    };
    let told = std::fs::read_to_string("/proc/sys/kernel/hostname").map(plain);
    match told.ok().map(|told| name(&told)) {
        Some(Ok(name)) => Ok(name),
        _ => {
            let message = "this machine has no name of 1 to 64 letters and digits";
            Err(JobError::own(
                Code::InvalidSpec,
                message,
                "give it one with --name",
            ))
        }
    }
}
