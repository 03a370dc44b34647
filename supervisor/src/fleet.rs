//! Jobs of many hosts, by the queue and the store of [`kiln_fleet`]: what the commands ask of them, and the worker between
//! them and a host's sidecar.
//!
//! - [`client`]: `kiln submit`, `wait`, … by the store, with progress from the queue
//! - [`worker`]: `kiln worker`: takes jobs while its sidecar has room; [`errand`]: one of them
//! - [`front`]: `kiln serve --fleet`
//! - [`overview`]: `kiln fleet`
//! - [`shown`]: orders, attempts and results → the JSON of a job, as a sidecar shows it

pub mod client;

mod errand;

mod front;

pub mod overview;

mod shown;

pub mod worker;

use std::path::PathBuf;
use std::rc::Rc;

use kiln_fleet::queue::Access;
use kiln_fleet::{Bucket, FleetError};
use proto::message::Code;

use crate::error::JobError;
use crate::remote::RemoteError;
use crate::serve::elsewhere::Elsewhere;

pub use client::Fleet;
pub use kiln_fleet::checked_name as name;

/// The fleet as what does a sidecar's jobs.
///
/// # Errors
/// The store's address cannot be used.
pub fn front(place: &Place) -> Result<Rc<dyn Elsewhere>, RemoteError> {
    Ok(Rc::new(Fleet::open(place)?))
}

/// Where a fleet is, and who asks.
#[derive(Clone, Debug)]
pub struct Place {
    /// The queue's address.
    pub queue: String,
    /// The store's address.
    pub store: String,
    /// The file that lets this user into the queue.
    pub credentials: Option<PathBuf>,
    /// Whose jobs these are.
    pub tenant: String,
}

impl Place {
    /// How to connect to the queue. Replies come beneath `inbox`, which only who asks may read.
    fn access(&self, inbox: String, name: &str) -> Access {
        Access {
            address: self.queue.clone(),
            credentials: self.credentials.clone(),
            inbox,
            name: name.to_owned(),
        }
    }

    fn bucket(&self) -> Result<Bucket, RemoteError> {
        Ok(Bucket::open(&self.store)?)
    }
}

/// An error as a job ends with it.
fn job_error(error: RemoteError) -> Box<JobError> {
    match error {
        RemoteError::Local(error) => error,
        other => {
            let told = other.report();
            let mut error = JobError::own(Code::Internal, told.message, told.hint);
            (error.class, error.exit_code) = (told.class, told.exit_code);
            error
        }
    }
}

impl From<FleetError> for RemoteError {
    fn from(error: FleetError) -> Self {
        match error {
            FleetError::Usage(why) => JobError::own(Code::InvalidSpec, why, "").into(),
            FleetError::Unreachable(why) => Self::Away(why),
            FleetError::Denied(why) => Self::Untrusted {
                why,
                hint: "--credentials and the variables of the store say who asks",
            },
            FleetError::Damaged(why) => Self::Damaged(why),
        }
    }
}
