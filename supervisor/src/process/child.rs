//! One process of `kiln-baker`: parcels in, events out, in order; the last event says how the process ended.
//!
//! The process gets the socket as fd 0, its flight recorder as standard output, a pipe as standard error, an environment of
//! listed variables, and nothing else: every other descriptor of ours is closed on exec. It is spawned on the main thread
//! (see the crate's head) into a process group of its own, so that Ctrl-C at a terminal reaches the supervisor alone,
//! which then ends its children in order. Dropping the task kills the process; the supervisor waits for [`ChildEvent::Ended`].
//! Whoever the process has started ends with it ([`kin`]).

mod conversation;

mod environment;

pub(crate) mod kin;

mod launch;

mod parcel;

use std::sync::Arc;
use std::time::Instant;

use proto::blob::Blob;
use proto::message::{FromChild, Role};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use crate::process::logs::{Owner, Tail};
use crate::process::opener::Opened;
use crate::process::verdict::Exit;

pub use launch::Launcher;
pub use parcel::{Handed, Parcel};

/// What a child does.
#[derive(Debug)]
pub enum ChildEvent {
    /// It said something.
    Packet(Box<FromChild>),
    /// It sent something that is no packet of ours.
    Violation(String),
    /// A file that it asked for is open, or is not.
    Opened(Opened),
    /// It closed its socket; its end should follow.
    Closed,
    /// It was killed a while ago and is still there.
    Unkillable,
    /// The process has ended and is reaped. Nothing follows.
    Ended(Exit),
}

/// Numbers processes of one job, so that a late event of a dead one is told from its successor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChildId(pub u32);

/// The supervisor's handle to a process.
#[derive(Debug)]
pub struct Child {
    /// Its number.
    pub id: ChildId,
    /// What it is for.
    pub role: Role,
    /// Its process id.
    pub pid: u32,
    /// Whose its lines are.
    pub owner: Owner,
    /// Its last lines.
    pub tail: Tail,
    /// What it was doing.
    pub recorder: Arc<Blob>,
    /// When it was spawned.
    pub spawned: Instant,
    /// To the task, which sends one parcel after the other. Closes with this handle.
    outgoing: mpsc::Sender<Parcel>,
    orders: Arc<Orders>,
    /// Aborted with this handle, which drops the process and so kills it.
    task: JoinHandle<()>,
}

/// What the task is to do to its process.
#[derive(Debug, Default)]
struct Orders {
    abort: Notify,
    kill: Notify,
}

impl Child {
    /// Puts a parcel into the queue. For a process that has ended, the parcel is dropped: its end is on its way.
    ///
    /// # Errors
    /// The queue is full, which takes a child that asks for more than there is: what is wrong with it.
    pub fn send(&self, parcel: Parcel) -> Result<(), String> {
        match self.outgoing.try_send(parcel) {
            Err(mpsc::error::TrySendError::Full(_)) => Err("its queue is full".to_owned()),
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
        }
    }

    /// Sends a parcel once it is there; none for a process whose handle is gone by then.
    pub fn send_when(&self, parcel: impl Future<Output = Parcel> + Send + 'static) {
        let outgoing = self.outgoing.downgrade();
        let task = async move {
            let parcel = parcel.await;
            let Some(outgoing) = outgoing.upgrade() else {
                return;
            };
            if outgoing.send(parcel).await.is_err() {
                tracing::debug!("a parcel for a process that is gone");
            }
        };
        drop(tokio::spawn(task));
    }

    /// Kills the process; [`ChildEvent::Ended`] follows, or [`ChildEvent::Unkillable`].
    pub fn kill(&self) {
        self.orders.kill.notify_one();
    }

    /// The process is reaped.
    pub fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// As [`Child::kill`], but lets the process write down where it is before.
    pub fn abort(&self) {
        self.orders.abort.notify_one();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.task.abort();
    }
}
