//! A worker without a supervisor: the test holds the other ends of its socket and its flight recorder.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use proto::blob::Blob;
use proto::channel::Channel;
use proto::message::{FromChild, Role};
use proto::recorder::{Note, RECORDER_BYTES, Slot, State, read_note, read_state};

/// A worker that waits for its job, or has died before.
#[derive(Debug)]
pub struct Hand {
    child: Child,
    channel: Channel,
    recorder: File,
}

/// How the worker ended.
#[derive(Debug)]
pub struct Death {
    /// The signal of its wait status.
    pub signal: Option<i32>,
    /// Standard error.
    pub stderr: String,
    recorder: File,
}

impl Hand {
    /// Starts `baker` for `role` with only these environment variables.
    pub fn start(baker: &Path, role: Role, variables: &[(&str, &str)]) -> Self {
        let (channel, theirs) = Channel::pair().expect("a socket");
        let recorder = Blob::create("recorder", RECORDER_BYTES).expect("memory");
        let twin = || recorder.as_fd().try_clone_to_owned().expect("a descriptor");
        let child = Command::new(baker)
            .arg(role.name())
            .env_clear()
            .envs(variables.iter().copied())
            .stdin(Stdio::from(theirs.into_fd()))
            .stdout(Stdio::from(twin()))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the worker starts");
        Self {
            child,
            channel,
            recorder: File::from(twin()),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Waits for the next packet.
    pub fn hear(&self) -> FromChild {
        self.channel.receive().expect("a packet")
    }

    /// Waits for its end.
    pub fn bury(mut self) -> Death {
        let mut stderr = Vec::new();
        let pipe = self.child.stderr.as_mut().expect("piped");
        pipe.read_to_end(&mut stderr).expect("a pipe");
        let status = self.child.wait().expect("reaped");
        Death {
            signal: status.signal(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            recorder: self.recorder,
        }
    }
}

impl Death {
    /// The note that it left in a slot.
    pub fn note(&self, slot: Slot) -> Option<Note> {
        read_note(&self.recorder, slot).expect("readable")
    }

    /// What it was doing when it ended.
    pub fn state(&self) -> Option<State> {
        read_state(&self.recorder).expect("readable")
    }
}
