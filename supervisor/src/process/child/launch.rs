//! A role → its process, spawned with what it may hold, and the task that talks with it.

use std::os::fd::AsFd;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use nix::errno::Errno;
use proto::blob::Blob;
use proto::channel::Channel;
use proto::limits::MAX_VIEWS;
use proto::message::Role;
use proto::recorder::RECORDER_BYTES;
use tokio::io::unix::AsyncFd;
use tokio::process::{ChildStderr, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::process::child::conversation::{Conversation, not_spawned};
use crate::process::child::environment::environment;
use crate::process::child::kin::Spawned;
use crate::process::child::{Child, ChildEvent, ChildId, Orders};
use crate::process::logs::{Owner, Pump, Source, Tail};
use crate::process::verdict::Exit;

/// Parcels that may wait for one child: every view, and a handful of others.
const OUTGOING: usize = MAX_VIEWS + 16;
/// Address space that is reserved and hardly used: stacks, arenas of the allocator.
const RESERVED: u64 = 4 << 30;

/// Where and how processes are started.
#[derive(Clone, Debug)]
pub struct Launcher<'a> {
    /// `kiln-baker`.
    pub program: &'a Path,
    /// What to log, unless `KILN_LOG` says it.
    pub log_filter: &'a str,
    /// Threads of each, unless `RAYON_NUM_THREADS` says it; none for as many as there are cores.
    pub threads: Option<usize>,
    /// Whether processes enter their sandbox.
    pub sandbox: bool,
    /// Bound of the address space in bytes, for roles that use no driver.
    pub address_space: Option<u64>,
    /// The job's name in logs.
    pub job: Arc<str>,
}

impl Launcher<'_> {
    /// Of the address space: a driver reserves far more than it uses, so bake is bounded by its control group alone.
    fn bound(&self, role: Role) -> Vec<String> {
        match (role, self.address_space) {
            (Role::Prepare | Role::Encode, Some(bytes)) => {
                let bound = bytes.saturating_add(RESERVED);
                vec!["--address-space".to_owned(), bound.to_string()]
            }
            _ => Vec::new(),
        }
    }

    /// Spawns a process for `role`; its events go to `events`, of which the job holds the receiver until all have ended.
    ///
    /// # Errors
    /// [`Exit::NotSpawned`].
    pub fn spawn(
        &self,
        id: ChildId,
        role: Role,
        events: mpsc::Sender<(ChildId, ChildEvent)>,
    ) -> Result<Child, Exit> {
        let (ours, theirs) = Channel::pair().map_err(|error| not_spawned(&error))?;
        ours.set_nonblocking()
            .map_err(|error| not_spawned(&error))?;
        let socket = watched(ours).map_err(|error| not_spawned(&error))?;
        let recorder =
            Blob::create("kiln-recorder", RECORDER_BYTES).map_err(|error| not_spawned(&error))?;
        let theirs_recorder = recorder
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| not_spawned(&error))?;
        let deaths = signal(SignalKind::child()).map_err(|error| not_spawned(&error))?;
        let mut command = self.command(role);
        command
            .stdin(Stdio::from(theirs.into_fd()))
            .stdout(Stdio::from(theirs_recorder));
        let mut process = command
            .spawn()
            .map_err(|error| spawn_error(self.program, &error))?;
        // With the command goes our copy of the child's end, so that its death closes the socket.
        drop(command);
        let pid = process.id().unwrap_or(0);
        let spawned = Spawned::new(pid);
        let tail = Tail::default();
        let owner = Owner::new(Arc::clone(&self.job));
        let source = Source {
            job: owner.clone(),
            role,
            pid,
        };
        let pump = process
            .stderr
            .take()
            .map(|pipe: ChildStderr| Pump::start(pipe, source, tail.clone()));
        let (outgoing, parcels) = mpsc::channel(OUTGOING);
        let orders = Arc::new(Orders::default());
        let conversation = Conversation {
            id,
            process,
            spawned,
            socket,
            parcels,
            orders: Arc::clone(&orders),
            events,
            pump,
            open: true,
        };
        let task = tokio::spawn(conversation.run(deaths));
        tracing::debug!(role = role.name(), pid, "spawned");
        Ok(Child {
            id,
            role,
            pid,
            owner,
            tail,
            recorder: Arc::new(recorder),
            spawned: Instant::now(),
            outgoing,
            orders,
            task,
        })
    }

    /// The worker's program with its arguments and environment; socket and recorder are yet to be given.
    fn command(&self, role: Role) -> Command {
        let ours = std::env::vars_os();
        let mut command = Command::new(self.program);
        command
            .arg(role.name())
            .args((!self.sandbox).then_some("--no-sandbox"))
            .args(self.bound(role))
            .env_clear()
            .envs(environment(role, self.log_filter, self.threads, ours))
            .stderr(Stdio::piped())
            .current_dir("/")
            .process_group(0)
            .kill_on_drop(true);
        command
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe, for types whose descriptor may change; a channel's never does"
)]
fn watched(channel: Channel) -> std::io::Result<AsyncFd<Channel>> {
    AsyncFd::new(channel)
}

fn spawn_error(program: &Path, error: &std::io::Error) -> Exit {
    let lasting = [
        Errno::ENOENT,
        Errno::EACCES,
        Errno::ENOEXEC,
        Errno::ENOTDIR,
        Errno::ELOOP,
        Errno::EPERM,
    ];
    let lasting = error
        .raw_os_error()
        .is_some_and(|number| lasting.contains(&Errno::from_raw(number)));
    Exit::NotSpawned {
        error: format!("{}: {error}", program.display()),
        transient: !lasting,
    }
}
