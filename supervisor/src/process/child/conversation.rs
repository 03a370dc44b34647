//! Parcels and orders → the process; its packets and its end → events, in order.

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::ExitStatusExt;
use std::pin::{Pin, pin};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{Shutdown, shutdown};
use nix::unistd::Pid;
use proto::channel::{Channel, ChannelError};
use proto::message::FromChild;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix;
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep};

use crate::process::child::kin::{self, Spawned};
use crate::process::child::parcel::Parcel;
use crate::process::child::{ChildEvent, ChildId, Orders};
use crate::process::logs::Pump;
use crate::process::verdict::Exit;
use crate::words::chain;

/// Packets in one second beyond which a child floods: workers send at most 25 counts a second of each phase, and two
/// packets for each table.
const PACKETS_PER_SECOND: u32 = 20_000;
/// Between SIGABRT, upon which a worker writes down its stacks, and SIGKILL.
const STACKS: Duration = Duration::from_millis(250);
/// After SIGKILL: reaping takes milliseconds, unless the kernel itself is stuck on a device, or the group is frozen.
const REAP: Duration = Duration::from_secs(2);

/// A process, its socket, and what it is to be sent.
pub(super) struct Conversation {
    pub(super) id: ChildId,
    pub(super) process: tokio::process::Child,
    pub(super) spawned: Spawned,
    pub(super) socket: AsyncFd<Channel>,
    /// From the handle; closes with it.
    pub(super) parcels: mpsc::Receiver<Parcel>,
    pub(super) orders: Arc<Orders>,
    /// To the job; closed only when the job is over.
    pub(super) events: mpsc::Sender<(ChildId, ChildEvent)>,
    pub(super) pump: Option<Pump>,
    /// The socket can still bring something.
    pub(super) open: bool,
}

impl Conversation {
    /// Sends, hears and obeys until the process has ended. `deaths` tells of every child's end since before it was spawned.
    pub(super) async fn run(mut self, deaths: unix::Signal) {
        let mut waiting: Option<Parcel> = None;
        let (mut second, mut packets) = (Instant::now(), 0_u32);
        // Both set once, by the orders.
        let (mut stacks, mut reap): (Option<Deadline>, Option<Deadline>) = (None, None);
        let mut given_up = false;
        let mut ended = pin!(Spawned::ended(self.spawned.pid(), deaths));
        // Every arm is safe to cancel: waiting and readiness take nothing, `recv` gives an element or leaves it.
        loop {
            tokio::select! {
                () = &mut ended => break,
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
                    self.tell(ChildEvent::Unkillable).await;
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
                            self.tell(ChildEvent::Violation(format!("a packet could not be sent: {}", chain(&error)))).await;
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
                                self.tell(ChildEvent::Violation("a flood of packets".to_owned())).await;
                            } else {
                                self.hear(received).await;
                            }
                        }
                    }
                }
            }
        }
        self.finish().await;
    }

    /// Reaps the process, which has ended, and hears what it still said.
    async fn finish(&mut self) {
        self.spawned.end_group();
        let status = self.process.wait().await;
        kin::end_orphans().await;
        // What was sent before the end still lies in the socket, and nothing is added to it.
        if let Err(errno) = shutdown(self.socket.as_raw_fd(), Shutdown::Read) {
            tracing::debug!(%errno, "the socket of a dead process stays open");
            self.open = false;
        }
        while self.open {
            match self.socket.get_ref().receive::<FromChild>() {
                Err(ChannelError::WouldBlock) => break,
                received => self.hear(received).await,
            }
        }
        if let Some(pump) = self.pump.take() {
            pump.finish().await;
        }
        let exit = status.map_or_else(|error| not_spawned(&error), exit_of);
        self.tell(ChildEvent::Ended(exit)).await;
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
            Ok(packet) => ChildEvent::Packet(Box::new(packet)),
            Err(ChannelError::Closed) => {
                self.open = false;
                ChildEvent::Closed
            }
            Err(error) => {
                self.open = false;
                ChildEvent::Violation(chain(&error))
            }
        };
        self.tell(event).await;
    }

    async fn tell(&self, event: ChildEvent) {
        if self.events.send((self.id, event)).await.is_err() {
            tracing::debug!("an event after the job's end");
        }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // The task was given up: the process is killed with its handle, and those that it has started now.
        if self.process.id().is_some() {
            self.spawned.end_group();
        }
    }
}

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

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or(0)),
    }
}

/// The end of a process that never ran, or of which the kernel tells nothing.
pub(super) fn not_spawned(error: &dyn std::error::Error) -> Exit {
    Exit::NotSpawned {
        error: chain(error),
        transient: true,
    }
}
