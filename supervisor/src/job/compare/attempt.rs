//! One process that compares, from its start to its end.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use proto::blob::Blob;
use proto::job::{CompareJob, Container};
use proto::limits::{MAX_BLOB_BYTES, MAX_TEXT_BYTES, MAX_WARNINGS};
use proto::message::{Code, CompareSummary, Done, Failure, FromChild, Role, Root, Table, ToChild};
use proto::recorder;
use proto::sandbox::Stage;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::Comparison;
use crate::cgroup::OomScope;
use crate::child::{self, Child, ChildId, Launcher, chain};
use crate::dispatcher::{Dispatcher, Handed, Parcel};
use crate::error::JobError;
use crate::event::{Event, Listener};
use crate::host::Host;
use crate::input::Input;
use crate::job::bury::{how, last_words};
use crate::job::commit::File;
use crate::job::hear::mismatch;
use crate::job::lend::Loan;
use crate::job::spawn::unborn;
use crate::job::{EVENTS, Running};
use crate::ladder::Rung;
use crate::output::{FileId, Given, named_twice};
use crate::procfs::Share;
use crate::reserve::lend;
use crate::sandbox;
use crate::signals::Signals;
use crate::table_store::shape;
use crate::verdict::{Ending, Exit, Kill, MemoryKill};
use crate::watch::{STALL_FLOOR, TICK, Watch, stall_cap};
use crate::words::{self, printable};

/// Least size of the sheet in bytes: a PNG signature with an IHDR chunk.
const LEAST_PICTURE: u64 = 33;

/// How an attempt ends without figures.
pub(super) enum End {
    /// The comparison was cancelled, or its time is over.
    Over(Box<JobError>),
    /// The process failed.
    Died(Box<Ending>),
}

/// How far the sheet is.
pub(super) enum Sheet {
    /// The process may write it.
    Open(Arc<Blob>),
    /// Nobody may.
    Sealed(Arc<Blob>),
    /// The process has read it back.
    Verified(File),
}

/// One process.
pub(super) struct Attempt<'a> {
    spec: &'a Comparison,
    host: &'a Host,
    listener: &'a mut dyn Listener,
    number: u32,
    pub(super) warnings: Vec<String>,
    pub(super) sheet: Option<Sheet>,
    /// What the process was handed.
    pub(super) given: Given,
    summary: Option<CompareSummary>,
    failure: Option<Failure>,
    over: Option<Box<JobError>>,
    /// The last lines that it wrote.
    pub(super) tail: Vec<String>,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        spec: &'a Comparison,
        host: &'a Host,
        listener: &'a mut dyn Listener,
        number: u32,
    ) -> Self {
        Self {
            spec,
            host,
            listener,
            number,
            warnings: Vec::new(),
            sheet: None,
            given: Given::default(),
            summary: None,
            failure: None,
            over: None,
            tail: Vec::new(),
        }
    }

    pub(super) async fn run(
        &mut self,
        signals: &mut Signals,
        over: Instant,
    ) -> Result<CompareSummary, End> {
        let (events, mut received) = mpsc::channel(EVENTS);
        let launcher = Launcher {
            program: &self.spec.baker,
            log_filter: &self.spec.log_filter,
            threads: None,
            sandbox: self.spec.sandbox,
            address_space: self.host.memory_limit(),
            job: "compare".into(),
        };
        let child = launcher
            .spawn(ChildId(self.number), Role::Prepare, events.clone())
            .map_err(|exit| End::Died(Box::new(unborn(Role::Prepare, None, exit))))?;
        let mut running = self.running(child);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let exit = loop {
            // Every arm only waits, so each is safe to cancel. Signals and the clock come first, so no flood of packets
            // delays them.
            tokio::select! {
                biased;
                signal = signals.any() => self.end(&mut running, JobError::cancelled(signal)),
                now = ticks.tick() => {
                    let now = now.into_std();
                    if let Some(kill) = running.look(now) {
                        running.kill(kill, self.listener);
                    }
                    if now >= over {
                        let error = self.late(&running);
                        self.end(&mut running, error);
                    }
                }
                Some((_, event)) = received.recv() => match event {
                    child::Event::Packet(packet) => {
                        if let Err(what) = self.packet(&mut running, *packet, &events) {
                            running.kill(Kill::Violation(what), self.listener);
                        }
                    }
                    child::Event::Violation(what) => running.kill(Kill::Violation(what), self.listener),
                    child::Event::Opened(opened) => {
                        if let Some(error) = opened.file.as_ref().and_then(|file| self.takes(file)) {
                            self.end(&mut running, error);
                            continue;
                        }
                        running.dispatcher.opener.answered();
                        running.watch.alive();
                        let parcel = Parcel {
                            message: ToChild::Opened { outcome: opened.outcome },
                            fds: opened.file.map(Handed::File).into_iter().collect(),
                        };
                        if !running.child.send(parcel) {
                            running.kill(Kill::Violation("its queue is full".to_owned()), self.listener);
                        }
                    }
                    child::Event::Closed => running.watch.linger(),
                    child::Event::Ended(exit) => break exit,
                    child::Event::Unkillable => break Exit::Unkillable,
                },
            }
        };
        self.bury(running, exit)
    }

    fn running(&mut self, child: Child) -> Running {
        self.listener.event(&Event::Started {
            role: Role::Prepare,
            attempt: self.number,
            pid: child.pid,
            warm: false,
        });
        let floor = self.spec.stall.unwrap_or(STALL_FLOOR);
        let cap = self.spec.stall.unwrap_or_else(|| stall_cap(Role::Prepare));
        Running {
            group: self.host.enter(child.pid),
            child,
            number: self.number,
            watch: Watch::new(floor, cap, Instant::now()),
            dispatcher: Dispatcher::new(Rung::default()),
            loan: Loan::default(),
            adapter: None,
            accounts: Vec::new(),
            answered: None,
            kill: None,
            share: Share::default(),
        }
    }

    /// Takes one packet; an error says what is wrong with it.
    fn packet(
        &mut self,
        running: &mut Running,
        packet: FromChild,
        events: &mpsc::Sender<(ChildId, child::Event)>,
    ) -> Result<(), String> {
        if running.kill.is_some() || self.summary.is_some() || self.failure.is_some() {
            // It was sent before the kill arrived, or after the answer, and no longer matters.
            return Ok(());
        }
        crate::failpoint::packet(&packet);
        match packet {
            FromChild::Hello {
                version,
                build_id,
                role,
                sandbox,
            } => self.hello(running, (version, &build_id), role, sandbox),
            _ if !running.watch.said_hello() => Err("it spoke before its hello".to_owned()),
            FromChild::Progress { phase, done, total } => {
                let state = running.watch.progress(phase, done, total, Instant::now());
                let role = Role::Prepare;
                self.listener.event(&Event::Progress { role, phase, state });
                Ok(())
            }
            FromChild::Warning { text } => {
                let text = printable(&text, MAX_TEXT_BYTES);
                if self.warnings.len() < MAX_WARNINGS && !self.warnings.contains(&text) {
                    let (role, text) = (Role::Prepare, &text);
                    self.listener.event(&Event::Warning { role, text });
                    self.warnings.push(text.clone());
                }
                Ok(())
            }
            FromChild::Open { root, name, limit } => {
                running.watch.alive();
                let (first, second) = (&self.spec.first, self.spec.second.as_ref());
                let input = |root| match root {
                    Root::Mesh => Some(first),
                    Root::Second => second,
                    Root::Views | Root::Pictures => Some(&self.spec.views),
                };
                let question = running
                    .dispatcher
                    .opener
                    .admit_one(input, root, name, limit)?;
                let (id, events) = (running.child.id, events.clone());
                tokio::spawn(async move {
                    let opened = child::Event::Opened(question.answer().await);
                    if events.send((id, opened)).await.is_err() {
                        tracing::debug!("a file was opened after the comparison's end");
                    }
                });
                Ok(())
            }
            FromChild::Allocate { table, bytes } => {
                running.watch.alive();
                let blob = self.allocate(table, bytes)?;
                let parcel = Parcel {
                    message: ToChild::Grant { table },
                    fds: vec![Handed::Blob(blob)],
                };
                let sent = running.child.send(parcel);
                sent.then_some(()).ok_or("its queue is full".to_owned())
            }
            FromChild::Filled { table } => {
                running.watch.alive();
                match self.sheet.take() {
                    Some(Sheet::Open(blob)) if table == Table::Preview => {
                        blob.seal_written().map_err(|error| chain(&error))?;
                        self.sheet = Some(Sheet::Sealed(blob));
                        running.sealed(table)
                    }
                    _ => Err(format!("it has filled {table:?}, which it was not given")),
                }
            }
            FromChild::Verified { table, sha256 } => {
                running.watch.alive();
                match self.sheet.take() {
                    Some(Sheet::Sealed(blob)) if table == Table::Preview => {
                        let none = |what| format!("the picture is {what}");
                        shape::check(table, Container::Glb, &blob).map_err(none)?;
                        self.sheet = Some(Sheet::Verified((blob, sha256)));
                        Ok(())
                    }
                    _ => Err(format!("it has read {table:?}, which is not sealed")),
                }
            }
            FromChild::Done(Done::Compare(summary)) => {
                let models = 1 + usize::from(self.spec.second.is_some());
                let picture = match &self.sheet {
                    Some(Sheet::Verified(_)) => self.spec.picture.is_some(),
                    Some(Sheet::Open(_) | Sheet::Sealed(_)) => false,
                    None => self.spec.picture.is_none(),
                };
                if summary.models.len() != models || !picture {
                    return Err("it is done with something else than its job".to_owned());
                }
                self.summary = Some(summary);
                running.watch.linger();
                let time = running.child.spawned.elapsed();
                let role = Role::Prepare;
                self.listener.event(&Event::RoleDone { role, time });
                Ok(())
            }
            FromChild::Failed(mut failure) => {
                failure.message = printable(&failure.message, MAX_TEXT_BYTES);
                failure.hint = printable(&failure.hint, MAX_TEXT_BYTES);
                self.failure = Some(failure);
                running.watch.linger();
                Ok(())
            }
            FromChild::Done(_)
            | FromChild::Ready { .. }
            | FromChild::Again
            | FromChild::Compiled
            | FromChild::Chosen { .. }
            | FromChild::Delivered { .. } => Err("it does another role's work".to_owned()),
        }
    }

    /// Checks the process's identity and sandbox, and gives it its job.
    fn hello(
        &mut self,
        running: &mut Running,
        (version, build_id): (u32, &str),
        role: Role,
        mut account: proto::sandbox::Sandbox,
    ) -> Result<(), String> {
        if running.watch.said_hello() {
            return Err("a second hello".to_owned());
        }
        if let Some(what) = mismatch(version, build_id) {
            running.kill(Kill::Mismatch(what), self.listener);
            return Ok(());
        }
        if role != Role::Prepare {
            return Err(format!("it says that it is {}", role.name()));
        }
        running.watch.hello();
        account.missing = printable(&account.missing, MAX_TEXT_BYTES);
        if self.spec.sandbox
            && let Err(error) = sandbox::check(role, Stage::Entered, running.child.pid, &account)
        {
            running.kill(error.kill(), self.listener);
            return Ok(());
        }
        let name = |input: &Input| input.name.clone();
        let job = CompareJob {
            first: name(&self.spec.first),
            second: self.spec.second.as_ref().map(name),
            views_file: name(&self.spec.views),
            blend: self.spec.blend,
            up: self.spec.up,
            picture: self.spec.picture.is_some(),
        };
        let attempt = self.number;
        self.listener.event(&Event::Working { role, attempt });
        let parcel = running.dispatcher.for_compare(job);
        match parcel.is_none_or(|parcel| running.child.send(parcel)) {
            true => Ok(()),
            false => Err("its queue is full".to_owned()),
        }
    }

    /// Gives memory for the sheet, once.
    fn allocate(&mut self, table: Table, bytes: u64) -> Result<Arc<Blob>, String> {
        let bounds = LEAST_PICTURE..=MAX_BLOB_BYTES;
        if table != Table::Preview || self.spec.picture.is_none() || self.sheet.is_some() {
            return Err(format!("it asks for {table:?}, which is not its part"));
        }
        if !bounds.contains(&bytes) {
            return Err(format!("a picture of {bytes} bytes"));
        }
        let blob = lend(|| Blob::create("kiln-Preview", bytes)).map_err(|error| chain(&error))?;
        let blob = Arc::new(blob);
        self.sheet = Some(Sheet::Open(Arc::clone(&blob)));
        Ok(blob)
    }

    /// Records a file that is handed down; an error if the sheet would replace it.
    fn takes(&mut self, file: &Arc<OwnedFd>) -> Option<Box<JobError>> {
        let file = FileId::of(file)?;
        self.given.add(file);
        let sheet = self.spec.picture.as_ref();
        let twice = sheet.filter(|sheet| sheet.replaces(file));
        twice.map(|sheet| named_twice(sheet.path()))
    }

    fn end(&mut self, running: &mut Running, error: Box<JobError>) {
        if self.over.is_none() {
            self.over = Some(error);
        }
        running.kill(Kill::JobOver, self.listener);
    }

    fn late(&self, running: &Running) -> Box<JobError> {
        let phase = running.watch.phase();
        let message = format!(
            "not finished within {}: it was still {}",
            words::span(self.spec.timeout),
            words::doing(phase)
        );
        let mut error = JobError::own(
            Code::DeadlineExceeded,
            message,
            "--timeout SECONDS allows more",
        );
        (error.role, error.phase) = (Some(Role::Prepare), Some(phase));
        error.log_tail = running.child.tail.lines();
        error
    }

    fn bury(&mut self, running: Running, exit: Exit) -> Result<CompareSummary, End> {
        let Running {
            child,
            mut watch,
            kill,
            group,
            ..
        } = running;
        if let Ok(Some(state)) = recorder::read_state(child.recorder.file()) {
            watch.recorded(&state);
        }
        let oom = group.and_then(|group| group.oom_killed());
        let ending = Ending {
            role: Role::Prepare,
            phase: watch.phase(),
            hello: watch.said_hello(),
            adapter: None,
            failure: self.failure.take(),
            kill,
            memory_kill: oom.map(|oom| MemoryKill {
                peak: oom.peak_bytes,
                limit: oom.limit,
                host: oom.scope == OomScope::Host,
            }),
            last: last_words(&child.recorder),
            exit,
        };
        self.tail = child.tail.lines();
        let how = how(&ending);
        self.listener.event(&Event::Ended {
            role: Role::Prepare,
            attempt: self.number,
            pid: child.pid,
            how: &how,
        });
        if ending.exit == Exit::Unkillable {
            self.host.park(child);
        }
        // Complete figures count, however the process ended after them. But an order that came before them wins.
        match (self.over.take(), self.summary.take()) {
            (Some(error), _) => Err(End::Over(error)),
            (None, Some(summary)) => Ok(summary),
            (None, None) => Err(End::Died(Box::new(ending))),
        }
    }
}
