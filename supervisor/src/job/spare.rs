//! Spare processes: bakes in their sandbox with an adapter open, which have been given no data and wait for a job.
//!
//! Opening a GPU takes 0.1 to 0.5 s and is the same for every job with the same [`Key`]. When a job's own process has
//! opened an adapter that has a driver, a spare is started on it. Then neither the next job nor a retry waits for the
//! adapter. A spare becomes a job's own process with its first table, and is never used twice.

use std::path::PathBuf;
use std::time::Instant;

use proto::job::WarmJob;
use proto::message::{AdapterInfo, FromChild, Role, Table};
use proto::sandbox::{Sandbox, Stage};
use tokio::sync::mpsc;

use super::lend::Loan;
use super::running::{EVENTS, Running, mismatch};
use crate::host::ladder::Rung;
use crate::host::pipelines::Vault;
use crate::process::cgroup::Group;
use crate::process::child::{ChildEvent, ChildId, Launcher};
use crate::process::dispatcher::Assignment;
use crate::words::{self, chain};

/// Describes the jobs that a spare suits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// What it opens.
    pub warm: WarmJob,
    /// `kiln-baker`.
    pub program: PathBuf,
    /// Whether it is in its sandbox.
    pub sandbox: bool,
    /// What it logs.
    pub log_filter: String,
    /// Its number of threads; `None` for as many as there are cores.
    pub threads: Option<usize>,
}

/// One spare; see the head of this file.
#[derive(Debug)]
pub struct Spare {
    key: Key,
    /// How many adapters would do as well as the one that it opened.
    pub(super) peers: u32,
    pub(super) running: Running,
    pub(super) events: mpsc::Receiver<(ChildId, ChildEvent)>,
}

/// All spares.
#[derive(Debug, Default)]
pub struct Spares {
    room: usize,
    wanted: Vec<Key>,
    shelf: Vec<Spare>,
    vault: Vault,
}

impl Spares {
    /// Room for this many spares of each kind. Spares on different adapters are of different kinds.
    pub fn new(room: usize) -> Self {
        Self {
            room,
            ..Self::default()
        }
    }

    /// Sets the pipeline cache of the spares.
    pub fn keep(&mut self, vault: Vault) {
        self.vault = vault;
    }

    /// Asks for a spare of this kind.
    pub fn want(&mut self, key: Key) {
        if !self.wanted.contains(&key) {
            self.wanted.push(key);
        }
    }

    /// Takes a spare that is ready for a job of this kind.
    pub fn take(&mut self, key: &Key) -> Option<Spare> {
        let ready = |spare: &mut Spare| {
            spare.key == *key && spare.advance().is_ok() && spare.running.adapter.is_some()
        };
        let place = self.shelf.iter_mut().position(ready)?;
        Some(self.shelf.remove(place))
    }

    /// An adapter is in trouble: drops the spares that have it open or have none open yet.
    pub fn discard(&mut self, adapter: Option<&AdapterInfo>) {
        self.shelf.retain(|spare| {
            spare.running.adapter.is_some() && spare.running.adapter.as_ref() != adapter
        });
    }

    /// Handles what the spares said, drops those that failed, and starts the wanted ones.
    pub fn tend(&mut self, now: Instant, enter: impl Fn(u32) -> Option<Group>) {
        let (wanted, vault) = (&mut self.wanted, &self.vault);
        self.shelf.retain_mut(|spare| {
            let Err(why) = spare.tend(now) else {
                return true;
            };
            tracing::info!(
                pid = spare.running.child.pid,
                "a spare process is dropped: {why}"
            );
            if let (Some(key), false) = (
                spare.running.loan.given(),
                spare.running.dispatcher.compiled(),
            ) {
                vault.blame(key);
            }
            // The next job that opens the adapter itself shows whether another try is worth it.
            wanted.retain(|key| *key != spare.key);
            false
        });
        if self.room == 0 {
            return;
        }
        for key in std::mem::take(&mut self.wanted) {
            // The oldest spare for the same adapter makes room. Spares for different adapters do not compete.
            let rivals = |spare: &Spare| spare.key.warm.nth == key.warm.nth;
            if self.shelf.iter().filter(|spare| spare.key == key).count() >= self.room {
                continue;
            }
            if self.shelf.iter().filter(|spare| rivals(spare)).count() >= self.room
                && let Some(oldest) = self.shelf.iter().position(rivals)
            {
                self.shelf.remove(oldest);
            }
            match Spare::start(key, &self.vault, &enter) {
                Ok(spare) => self.shelf.push(spare),
                Err(exit) => tracing::info!("no spare process: {exit:?}"),
            }
        }
    }

    /// Takes out all spares, for good.
    pub fn empty(&mut self) -> Vec<Spare> {
        self.room = 0;
        std::mem::take(&mut self.shelf)
    }
}

impl Spare {
    fn start(
        key: Key,
        vault: &Vault,
        enter: impl Fn(u32) -> Option<Group>,
    ) -> Result<Self, crate::process::verdict::Exit> {
        let (sender, events) = mpsc::channel(EVENTS);
        let launcher = Launcher {
            program: &key.program,
            log_filter: &key.log_filter,
            threads: key.threads,
            sandbox: key.sandbox,
            address_space: None,
            job: "spare".into(),
        };
        let child = launcher.spawn(ChildId(0), Role::Bake, sender)?;
        let rung = Rung {
            device: key.warm.device.clone(),
            avoid: key.warm.avoid.clone(),
            nth: key.warm.nth,
            ..Rung::default()
        };
        let assignment = Assignment::Bake(key.warm.clone(), None);
        let mut running = Running::new(child, rung, assignment, Loan::new(vault.clone()));
        running.group = enter(running.child.pid);
        Ok(Self {
            key,
            peers: 1,
            running,
            events,
        })
    }

    /// Handles what it said; an error says why it is useless.
    fn advance(&mut self) -> Result<(), String> {
        loop {
            match self.events.try_recv() {
                Ok((_, ChildEvent::Packet(packet))) => self.packet(*packet)?,
                Ok((_, other)) => return Err(format!("{other:?}")),
                Err(mpsc::error::TryRecvError::Empty) => return Ok(()),
                Err(mpsc::error::TryRecvError::Disconnected) => return Err("it is gone".to_owned()),
            }
        }
    }

    fn tend(&mut self, now: Instant) -> Result<(), String> {
        self.advance()?;
        match self.running.look(now) {
            Some(kill) => Err(format!("{kill:?}")),
            None => Ok(()),
        }
    }

    fn packet(&mut self, packet: FromChild) -> Result<(), String> {
        let running = &mut self.running;
        match packet {
            FromChild::Hello {
                version,
                build_id,
                role: Role::Bake,
                sandbox,
            } if !running.watch.said_hello() => {
                if let Some(what) = mismatch(version, &build_id) {
                    return Err(what);
                }
                running.watch.hello();
                self.confined(Stage::Entered, sandbox)?;
                match self.running.dispatcher.warm() {
                    Some(parcel) => self.running.child.send(parcel),
                    None => Ok(()),
                }
            }
            FromChild::Ready {
                adapter,
                peers,
                sandbox,
                pipelines,
            } if running.dispatcher.ready() => {
                if adapter.kind == "native" {
                    return Err("it opened no GPU".to_owned());
                }
                running.watch.alive();
                running.adapter = Some(words::adapter(adapter));
                self.peers = peers;
                self.confined(Stage::Sealed, sandbox)?;
                self.running.lend(pipelines.as_deref())
            }
            FromChild::Allocate {
                table: Table::Pipelines,
                bytes,
            } => running.pipelines_asked(bytes),
            FromChild::Filled {
                table: Table::Pipelines,
            } => running.pipelines_filled(),
            FromChild::Compiled => running.compiled(),
            FromChild::Progress { phase, done, total } => {
                running.watch.progress(phase, done, total, Instant::now());
                Ok(())
            }
            FromChild::Warning { .. } => Ok(()),
            FromChild::Failed(failure) => Err(words::printable(&failure.message, 300)),
            _ => Err("it spoke out of turn".to_owned()),
        }
    }

    fn confined(&mut self, stage: Stage, account: Sandbox) -> Result<(), String> {
        let (account, checked) = self.running.confined(stage, account, self.key.sandbox);
        self.running.accounts.push(account);
        checked.map_err(|error| chain(&error))
    }

    /// Kills it and waits until it is gone.
    pub async fn end(mut self) {
        self.running.child.kill();
        while self.events.recv().await.is_some() {}
    }
}
