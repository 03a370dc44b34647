//! One process of `kiln-baker`: parcels in, events out, in order; the last event says how the process ended.
//!
//! The process gets the socket as fd 0, its flight recorder as standard output, a pipe as standard error, an environment of
//! listed variables, and nothing else: every other descriptor of ours is closed on exec. It is spawned on the main thread
//! (see the crate's head) into a process group of its own, so that Ctrl-C at a terminal reaches the supervisor alone,
//! which then ends its children in order. Dropping the task kills the process; the supervisor waits for [`Event::Ended`].
//! Whoever the process has started ends with it ([`kin`]).

mod conversation;

mod environment;

pub(crate) mod kin;

mod launch;

use std::sync::Arc;
use std::time::Instant;

use proto::blob::Blob;
use proto::message::{FromChild, Role};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use crate::dispatcher::Parcel;
use crate::logs::{Owner, Tail};
use crate::opener::Opened;
use crate::verdict::Exit;

pub use launch::Launcher;

/// What a child does.
#[derive(Debug)]
pub enum Event {
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
    /// Puts a parcel into the queue. `false` tells that the queue is full, which takes a child that asks for more than
    /// there is. For a process that has ended, the parcel is dropped: its end is on its way.
    #[must_use]
    pub fn send(&self, parcel: Parcel) -> bool {
        !matches!(
            self.outgoing.try_send(parcel),
            Err(mpsc::error::TrySendError::Full(_))
        )
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

    /// Kills the process; [`Event::Ended`] follows, or [`Event::Unkillable`].
    pub fn kill(&self) {
        self.orders.kill.notify_one();
    }

    /// The process is reaped.
    #[must_use]
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

/// An error with its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
