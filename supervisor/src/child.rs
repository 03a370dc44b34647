//! One process of `kiln-baker`: parcels in, events out, in order; the last event says how the process ended.
//!
//! The process gets the socket as fd 0, its flight recorder as standard output, a pipe as standard error, an environment of
//! listed variables, and nothing else: every other descriptor of ours is closed on exec. It is spawned on the main thread
//! (see the crate's head) into a process group of its own, so that Ctrl-C at a terminal reaches the supervisor alone,
//! which then ends its children in order. Dropping the task kills the process; the supervisor waits for [`Event::Ended`].

mod environment;

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use proto::blob::Blob;
use proto::channel::{Channel, ChannelError};
use proto::limits::MAX_VIEWS;
use proto::message::{FromChild, Role};
use proto::recorder::RECORDER_BYTES;
use tokio::io::unix::AsyncFd;
use tokio::process::{ChildStderr, Command};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Sleep, sleep, timeout};

use self::environment::environment;
use crate::feed::Parcel;
use crate::logs::{self, Owner, Source, Tail};
use crate::opener::Opened;
use crate::verdict::Exit;

/// Parcels that may wait for one child: every view, and a handful of others.
const OUTGOING: usize = MAX_VIEWS + 16;
/// Packets in one second beyond which a child floods: workers send at most 25 counts a second of each phase, and two
/// packets for each table.
const PACKETS_PER_SECOND: u32 = 20_000;
/// For the last lines of a dead process to come through its pipe.
const LAST_LINES: Duration = Duration::from_millis(500);
/// Between SIGABRT, upon which a worker writes down its stacks, and SIGKILL.
const STACKS: Duration = Duration::from_millis(250);
/// After SIGKILL: reaping takes milliseconds, unless the kernel itself is stuck on a device, or the group is frozen.
const REAP: Duration = Duration::from_secs(2);

/// What a child does.
#[derive(Debug)]
pub enum Event {
    /// It said something.
    Packet(FromChild),
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

/// Where and how processes are started.
#[derive(Clone, Debug)]
pub struct Launcher<'a> {
    /// `kiln-baker`.
    pub program: &'a Path,
    /// What to log, unless `KILN_LOG` says it.
    pub log_filter: &'a str,
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
        events: mpsc::Sender<(ChildId, Event)>,
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
        let mut command = Command::new(self.program);
        command
            .arg(role.name())
            .args((!self.sandbox).then_some("--no-sandbox"))
            .args(self.bound(role))
            .env_clear()
            .envs(environment(role, self.log_filter, std::env::vars_os()))
            .stdin(Stdio::from(theirs.into_fd()))
            .stdout(Stdio::from(theirs_recorder))
            .stderr(Stdio::piped())
            .current_dir("/")
            .process_group(0)
            .kill_on_drop(true);
        let mut process = command
            .spawn()
            .map_err(|error| spawn_error(self.program, &error))?;
        // With the command goes our copy of the child's end, so that its death closes the socket.
        drop(command);
        let pid = process.id().unwrap_or(0);
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
            .map(|pipe: ChildStderr| tokio::spawn(logs::pump(pipe, source, tail.clone())));
        let (outgoing, parcels) = mpsc::channel(OUTGOING);
        let orders = Arc::new(Orders::default());
        let conversation = Conversation {
            id,
            process,
            socket,
            parcels,
            orders: Arc::clone(&orders),
            events,
            pump,
            open: true,
        };
        let task = tokio::spawn(conversation.run());
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

struct Conversation {
    id: ChildId,
    process: tokio::process::Child,
    socket: AsyncFd<Channel>,
    /// From the handle; closes with it.
    parcels: mpsc::Receiver<Parcel>,
    orders: Arc<Orders>,
    /// To the job; closed only when the job is over.
    events: mpsc::Sender<(ChildId, Event)>,
    pump: Option<JoinHandle<()>>,
    /// The socket can still bring something.
    open: bool,
}

impl Conversation {
    async fn run(mut self) {
        let mut waiting: Option<Parcel> = None;
        let (mut second, mut packets) = (Instant::now(), 0_u32);
        // Both set once, by the orders.
        let (mut stacks, mut reap): (Option<Deadline>, Option<Deadline>) = (None, None);
        let mut given_up = false;
        // Every arm is safe to cancel: waiting and readiness take nothing, `recv` gives an element or leaves it.
        let status = loop {
            tokio::select! {
                status = self.process.wait() => break status,
                () = self.orders.abort.notified(), if stacks.is_none() => {
                    self.signal(Signal::SIGABRT);
                    stacks = Some(deadline(STACKS));
                }
                () = passed(&mut stacks), if stacks.is_some() && reap.is_none() => {
                    self.signal(Signal::SIGKILL);
                    reap = Some(deadline(REAP));
                }
                () = self.orders.kill.notified(), if reap.is_none() => {
                    self.signal(Signal::SIGKILL);
                    reap = Some(deadline(REAP));
                }
                () = passed(&mut reap), if reap.is_some() && !given_up => {
                    (self.open, given_up) = (false, true);
                    self.tell(Event::Unkillable).await;
                }
                parcel = self.parcels.recv(), if waiting.is_none() && self.open => match parcel {
                    Some(parcel) => waiting = Some(parcel),
                    // The handle is gone, and with it this task in a moment.
                    None => self.open = false,
                },
                ready = self.socket.writable(), if waiting.is_some() && self.open => {
                    let Ok(mut guard) = ready else { self.open = false; continue };
                    let Some(parcel) = waiting.take() else { continue };
                    match post(self.socket.get_ref(), &parcel) {
                        Ok(()) => {}
                        Err(ChannelError::WouldBlock) => {
                            waiting = Some(parcel);
                            guard.clear_ready();
                        }
                        // The child closed its end: what it still said can be read, and its end will tell.
                        Err(ChannelError::Closed) => {}
                        // A lost packet would leave both sides waiting for each other.
                        Err(error) => {
                            self.open = false;
                            self.tell(Event::Violation(format!("a packet could not be sent: {}", chain(&error)))).await;
                        }
                    }
                }
                ready = self.socket.readable(), if self.open => {
                    let Ok(mut guard) = ready else { self.open = false; continue };
                    match self.socket.get_ref().receive::<FromChild>() {
                        Err(ChannelError::WouldBlock) => guard.clear_ready(),
                        received => {
                            drop(guard);
                            packets += 1;
                            if second.elapsed() >= Duration::from_secs(1) {
                                (second, packets) = (Instant::now(), 0);
                            }
                            if packets > PACKETS_PER_SECOND {
                                self.open = false;
                                self.tell(Event::Violation("a flood of packets".to_owned())).await;
                            } else {
                                self.hear(received).await;
                            }
                        }
                    }
                }
            }
        };
        // What was sent before the end still lies in the socket.
        while self.open {
            match self.socket.get_ref().receive::<FromChild>() {
                Err(ChannelError::WouldBlock) => break,
                received => self.hear(received).await,
            }
        }
        if let Some(pump) = self.pump.take() {
            let abort = pump.abort_handle();
            if timeout(LAST_LINES, pump).await.is_err() {
                // Somebody else holds the pipe: a process that the child started.
                abort.abort();
            }
        }
        let exit = status.map_or_else(|error| not_spawned(&error), exit_of);
        self.tell(Event::Ended(exit)).await;
    }

    /// To the process while it is ours and unreaped, so that its number can be nobody else's.
    fn signal(&self, signal: Signal) {
        let Some(pid) = self.process.id().and_then(|pid| i32::try_from(pid).ok()) else {
            return;
        };
        if let Err(errno) = kill(Pid::from_raw(pid), signal) {
            tracing::debug!(%errno, pid, "{signal} was not sent");
        }
    }

    async fn hear(&mut self, received: Result<FromChild, ChannelError>) {
        let event = match received {
            Ok(packet) => Event::Packet(packet),
            Err(ChannelError::Closed) => {
                self.open = false;
                Event::Closed
            }
            Err(error) => {
                self.open = false;
                Event::Violation(chain(&error))
            }
        };
        self.tell(event).await;
    }

    async fn tell(&self, event: Event) {
        if self.events.send((self.id, event)).await.is_err() {
            tracing::debug!("an event after the job's end");
        }
    }
}

/// Address space that is reserved and hardly used: stacks, arenas of the allocator.
const RESERVED: u64 = 4 << 30;

type Deadline = Pin<Box<Sleep>>;

fn deadline(time: Duration) -> Deadline {
    Box::pin(sleep(time))
}

async fn passed(deadline: &mut Option<Deadline>) {
    match deadline {
        Some(deadline) => deadline.as_mut().await,
        None => std::future::pending().await,
    }
}

fn post(channel: &Channel, parcel: &Parcel) -> Result<(), ChannelError> {
    let fds: Vec<_> = parcel.fds.iter().map(AsFd::as_fd).collect();
    channel.send(&parcel.message, &fds)
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

#[expect(
    deprecated,
    reason = "its successor is unsafe, for types whose descriptor may change; a channel's never does"
)]
fn watched(channel: Channel) -> std::io::Result<AsyncFd<Channel>> {
    AsyncFd::new(channel)
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or(0)),
    }
}

fn not_spawned(error: &dyn std::error::Error) -> Exit {
    Exit::NotSpawned {
        error: chain(error),
        transient: true,
    }
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
