//! Receives the signals that end a job, as one stream in order of arrival.

use nix::sys::signal::Signal;
use proto::message::Code;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

use crate::error::JobError;

/// The stream of signals.
#[derive(Debug)]
pub struct Signals {
    interrupt: SignalStream,
    terminate: SignalStream,
    hangup: SignalStream,
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with `EFBIG` instead of ending the process. Programs
/// that this process starts get the default again, since a handler does not survive `exec`.
///
/// # Errors
/// The system has no room for a handler.
pub fn outlive_large_files() -> std::io::Result<()> {
    signal(SignalKind::from_raw(Signal::SIGXFSZ as i32)).map(drop)
}

impl Signals {
    /// Starts listening. From here on, these signals do not end this process.
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
