//! The signals that end a job, as one stream, in the order of arrival.

use nix::sys::signal::Signal;
use proto::message::Code;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

use crate::error::JobError;

/// See the head of this file.
#[derive(Debug)]
pub struct Signals {
    interrupt: SignalStream,
    terminate: SignalStream,
    hangup: SignalStream,
}

/// From here on, a write beyond the largest file that this process may make (`ulimit -f`) fails with `EFBIG` instead of
/// ending the process. Programs that it starts have the signal's default again, since a handler does not outlive
/// `exec`.
///
/// # Errors
/// The system has no room for a handler.
pub fn outlive_large_files() -> std::io::Result<()> {
    signal(SignalKind::from_raw(Signal::SIGXFSZ as i32)).map(drop)
}

impl Signals {
    /// Listens to the signals; from here on they do not end this process.
    ///
    /// # Errors
    /// The system has no room for a handler.
    pub fn listen() -> Result<Self, Box<JobError>> {
        Self::handlers().map_err(|error| {
            JobError::own(Code::Internal, format!("no signal handler: {error}"), "")
        })
    }

    fn handlers() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    pub async fn any(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::SIGINT,
            _ = self.terminate.recv() => Signal::SIGTERM,
            _ = self.hangup.recv() => Signal::SIGHUP,
        }
    }
}
