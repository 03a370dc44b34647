//! One job's life in order: spawn → feed → watch → judge → reap → commit.
//!
//! Prepare and bake start together, so that bake opens its device while prepare decodes; encode starts when bake is done.
//! Every decision about a dead process is [`judge`]'s. All children are reaped before [`bake`] returns.

mod commit;

mod spec;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proto::limits::{MAX_TEXT_BYTES, MAX_WARNINGS};
use proto::message::{Code, Done, FromChild, Phase, Role, Table, ToChild};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::child::{self, Child, ChildId, Launcher, chain};
use crate::error::{Attempt, JobError};
use crate::event::{Event, Listener};
use crate::feed::{Feed, Handed, Parcel, encode_views};
use crate::report::Report;
use crate::stock::{Stock, StockError};
use crate::verdict::{Ending, Exit, Kill, RetryClass, Verdict, judge};
use crate::watch::{TICK, Watch, stall_limit};
use crate::words::{self, printable};

pub use spec::Spec;

/// Events that may wait for the job; a full queue makes the children wait.
const EVENTS: usize = 256;
/// After the kill of every child: reaping one takes milliseconds, unless the kernel itself is stuck on its device.
const REAP: Duration = Duration::from_secs(3);

/// A process and what is known of it.
#[derive(Debug)]
struct Running {
    child: Child,
    number: u32,
    watch: Watch,
    feed: Feed,
    answered: Option<Answer>,
    kill: Option<Kill>,
}

#[derive(Debug)]
enum Answer {
    Done,
    Failed(proto::message::Failure),
}

struct Job<'a> {
    spec: &'a Spec,
    listener: &'a mut dyn Listener,
    launcher: Launcher<'a>,
    /// To every child's task.
    events: mpsc::Sender<(ChildId, child::Event)>,
    stock: Stock,
    running: Vec<Running>,
    /// Fresh processes that wait for their time.
    delayed: Vec<(Instant, Role)>,
    starts: HashMap<Role, u32>,
    deaths: HashMap<Role, u32>,
    retries: u32,
    started: Instant,
    finished: bool,
    error: Option<Box<JobError>>,
    report: Report,
}

/// Runs the job to its end and tells how it went. The report holds the error, if there is one.
pub async fn bake(spec: &Spec, listener: &mut dyn Listener) -> Report {
    let (events, mut received) = mpsc::channel(EVENTS);
    let name: Arc<str> = format!("{:08x}", std::process::id()).into();
    let mut job = Job {
        spec,
        listener,
        launcher: Launcher {
            program: &spec.baker,
            log_filter: &spec.log_filter,
            job: name,
        },
        events,
        stock: Stock::new(spec.texture_size),
        running: Vec::new(),
        delayed: Vec::new(),
        starts: HashMap::new(),
        deaths: HashMap::new(),
        retries: 0,
        started: Instant::now(),
        finished: false,
        error: None,
        report: Report::new(spec),
    };
    match Signals::listen() {
        Ok(mut signals) => {
            job.work(&mut received, &mut signals).await;
            job.end(&mut received, &mut signals).await;
            if job.error.is_none() {
                let staged = commit::stage(spec, &job.stock, &mut job.report, job.started).await;
                // Staging runs on another thread and cannot be stopped half-way; nothing has its name yet.
                let cancelled = timeout(Duration::ZERO, signals.any()).await.ok();
                job.error = match (staged, cancelled) {
                    (_, Some(signal)) => Some(JobError::cancelled(signal)),
                    (Err(error), None) => Some(error),
                    (Ok(staged), None) => staged.commit().err(),
                };
            }
        }
        Err(error) => {
            job.error = Some(JobError::own(
                Code::Internal,
                format!("no signal handler: {error}"),
                "",
            ));
        }
    }
    let Job {
        error,
        mut report,
        started,
        listener,
        ..
    } = job;
    report.close(started.elapsed(), error);
    match report.error {
        None => listener.event(&Event::Done(&report)),
        Some(_) => {
            commit::failure_report(spec, &report);
            listener.event(&Event::Failed(&report));
        }
    }
    report
}

impl Job<'_> {
    /// Until the result is there, or cannot be.
    async fn work(
        &mut self,
        received: &mut mpsc::Receiver<(ChildId, child::Event)>,
        signals: &mut Signals,
    ) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.spawn(Role::Prepare);
        self.spawn(Role::Bake);
        while !self.finished && self.error.is_none() {
            // Every arm only waits, so each is safe to cancel. Signals and clock go first: no flood outruns them.
            tokio::select! {
                biased;
                signal = signals.any() => self.error = Some(JobError::cancelled(signal)),
                now = ticks.tick() => self.tick(now.into_std()),
                Some((id, event)) = received.recv() => self.hear(id, event),
            }
        }
    }

    /// Sees every child off: those that gave their answer may end by themselves, the others are killed.
    async fn end(
        &mut self,
        received: &mut mpsc::Receiver<(ChildId, child::Event)>,
        signals: &mut Signals,
    ) {
        let mut ticks = interval(TICK);
        let mut give_up: Option<Instant> = None;
        while !self.running.is_empty() {
            if self.error.is_some() && give_up.is_none() {
                give_up = Some(Instant::now() + REAP);
                for running in &mut self.running {
                    running.kill(Kill::JobOver);
                }
            }
            if give_up.is_some_and(|time| Instant::now() >= time) {
                for Running { child, .. } in self.running.drain(..) {
                    tracing::error!(
                        role = child.role.name(),
                        pid = child.pid,
                        "cannot be reaped: left to the kernel"
                    );
                }
                break;
            }
            tokio::select! {
                biased;
                signal = signals.any() => if self.error.is_none() { self.error = Some(JobError::cancelled(signal)) },
                now = ticks.tick() => self.tick(now.into_std()),
                Some((id, event)) = received.recv() => self.hear(id, event),
            }
        }
    }

    fn spawn(&mut self, role: Role) {
        let number = self.starts.entry(role).or_default();
        *number += 1;
        let number = *number;
        let id = ChildId(self.starts.values().sum());
        match self.launcher.spawn(id, role, self.events.clone()) {
            Ok(child) => {
                self.listener.event(&Event::Started {
                    role,
                    attempt: number,
                    pid: child.pid,
                });
                let limit = self.spec.stall.unwrap_or_else(|| stall_limit(role));
                let watch = Watch::new(limit, Instant::now());
                let feed = Feed::default();
                self.running.push(Running {
                    child,
                    number,
                    watch,
                    feed,
                    answered: None,
                    kill: None,
                });
            }
            Err(exit) => {
                let ending = Ending {
                    role,
                    phase: Phase::Start,
                    hello: false,
                    done: false,
                    failure: None,
                    kill: None,
                    exit,
                };
                self.buried(&ending, number, 0, Duration::ZERO, Vec::new());
            }
        }
    }

    fn tick(&mut self, now: Instant) {
        for running in &mut self.running {
            let owed = !running.feed.ended();
            if let Some(kill) = running.watch.tick(now, owed) {
                running.kill(kill);
            }
        }
        if self.error.is_some() || self.finished {
            return;
        }
        let due: Vec<Role> = self
            .delayed
            .extract_if(.., |(time, _)| *time <= now)
            .map(|(_, role)| role)
            .collect();
        for role in due {
            self.spawn(role);
        }
        if now.duration_since(self.started) >= self.spec.timeout {
            self.error = Some(self.deadline());
        }
    }

    fn deadline(&self) -> Box<JobError> {
        let limit = words::span(self.spec.timeout);
        let hint = "--timeout SECONDS allows more; --quality draft needs less";
        let Some(running) = self
            .running
            .iter()
            .find(|running| running.answered.is_none())
        else {
            return JobError::own(
                Code::DeadlineExceeded,
                format!("not finished within {limit}"),
                hint,
            );
        };
        let (role, phase) = (running.child.role, running.watch.phase());
        let message = format!(
            "not finished within {limit}: {} was still {}",
            role.name(),
            words::doing(phase)
        );
        let mut error = JobError::own(Code::DeadlineExceeded, message, hint);
        (error.role, error.phase) = (Some(role), Some(phase));
        error.log_tail = running.child.tail.lines();
        error
    }

    fn hear(&mut self, id: ChildId, event: child::Event) {
        let Some(place) = self
            .running
            .iter()
            .position(|running| running.child.id == id)
        else {
            return;
        };
        match event {
            child::Event::Packet(packet) => {
                if let Err(what) = self.packet(place, packet) {
                    self.violation(place, what);
                }
            }
            child::Event::Violation(what) => self.violation(place, what),
            child::Event::Closed => {
                if let Some(running) = self.running.get_mut(place) {
                    running.watch.linger();
                }
            }
            child::Event::Ended(exit) => {
                let running = self.running.swap_remove(place);
                self.ended(running, exit);
            }
        }
        self.feed();
    }

    fn violation(&mut self, place: usize, what: String) {
        if let Some(running) = self.running.get_mut(place) {
            tracing::warn!(
                role = running.child.role.name(),
                pid = running.child.pid,
                "protocol violation: {what}"
            );
            running.kill(Kill::Violation(what));
        }
    }

    /// Takes one packet; an error is what was wrong with it.
    fn packet(&mut self, place: usize, packet: FromChild) -> Result<(), String> {
        let Some(running) = self.running.get_mut(place) else {
            return Ok(());
        };
        let role = running.child.role;
        if running.kill.is_some() || self.error.is_some() {
            // Sent before the kill arrived: of no interest any more.
            return Ok(());
        }
        if running.answered.is_some() {
            tracing::warn!(role = role.name(), "a packet after the answer is ignored");
            return Ok(());
        }
        match packet {
            FromChild::Hello {
                version,
                build_id,
                role: theirs,
            } => {
                if running.watch.said_hello() {
                    return Err("a second hello".to_owned());
                }
                if version != proto::PROTOCOL_VERSION || build_id != proto::BUILD_ID {
                    let theirs = printable(&build_id, 80);
                    let what = format!(
                        "kiln-baker is of build {theirs} (protocol {version}), kiln of {} ({})",
                        proto::BUILD_ID,
                        proto::PROTOCOL_VERSION
                    );
                    running.kill(Kill::Mismatch(what));
                } else if theirs != role {
                    return Err(format!("it says that it is {}", theirs.name()));
                } else {
                    running.watch.hello();
                }
                Ok(())
            }
            _ if !running.watch.said_hello() => Err("it spoke before its hello".to_owned()),
            FromChild::Allocate { .. } | FromChild::Filled { .. } if !running.feed.started() => {
                Err("a table before its job was sent".to_owned())
            }
            FromChild::Progress { phase, done, total } => {
                let state = running.watch.progress(phase, done, total, Instant::now());
                self.listener.event(&Event::Progress { role, phase, state });
                Ok(())
            }
            FromChild::Warning { text } => {
                self.warning(role, &text);
                Ok(())
            }
            FromChild::Allocate { table, bytes } => {
                running.watch.alive();
                match self.stock.allocate(role, table, bytes) {
                    Ok(blob) => {
                        let parcel = Parcel {
                            message: ToChild::Grant { table },
                            fds: vec![Handed::Blob(blob)],
                        };
                        running
                            .child
                            .send(parcel)
                            .then_some(())
                            .ok_or("it asks faster than it reads".to_owned())
                    }
                    Err(StockError::Memory(error)) => {
                        self.error = Some(no_memory(role, table, bytes, &error));
                        Ok(())
                    }
                    Err(error) => Err(chain(&error)),
                }
            }
            FromChild::Filled { table } => {
                running.watch.alive();
                self.stock.fill(role, table).map_err(|error| chain(&error))
            }
            FromChild::Done(done) => {
                if !running.feed.ended() {
                    return Err("done before its input was complete".to_owned());
                }
                self.stock
                    .complete(role, &done, self.spec.preview.is_some())
                    .map_err(|error| chain(&error))?;
                running.answered = Some(Answer::Done);
                running.watch.linger();
                let time = running.child.spawned.elapsed();
                self.done(role, done, time);
                Ok(())
            }
            FromChild::Failed(mut failure) => {
                failure.message = printable(&failure.message, MAX_TEXT_BYTES);
                failure.hint = printable(&failure.hint, MAX_TEXT_BYTES);
                running.answered = Some(Answer::Failed(failure));
                running.watch.linger();
                Ok(())
            }
        }
    }

    fn warning(&mut self, role: Role, text: &str) {
        let text = printable(text, MAX_TEXT_BYTES);
        // A repeated attempt repeats its warnings.
        if self
            .report
            .warnings
            .iter()
            .any(|known| known.role == role && known.text == text)
        {
            return;
        }
        if self.report.warnings.len() >= MAX_WARNINGS {
            self.report.warnings_dropped += 1;
            return;
        }
        self.listener.event(&Event::Warning { role, text: &text });
        self.report.warning(role, text);
    }

    fn done(&mut self, role: Role, done: Done, time: Duration) {
        self.listener.event(&Event::RoleDone { role, time });
        self.report.role_done(done, time);
        match role {
            Role::Prepare => {}
            Role::Bake => {
                let keep = encode_views(self.stock.views(), self.spec.preview.is_some());
                self.stock.release_bake_inputs(&keep);
                self.spawn(Role::Encode);
            }
            Role::Encode => self.finished = true,
        }
    }

    fn ended(&mut self, running: Running, exit: Exit) {
        let Running {
            child,
            number,
            watch,
            answered,
            kill,
            ..
        } = running;
        let (done, failure) = match answered {
            Some(Answer::Done) => (true, None),
            Some(Answer::Failed(failure)) => (false, Some(failure)),
            None => (false, None),
        };
        if done && exit != Exit::Code(0) {
            tracing::warn!(
                role = child.role.name(),
                pid = child.pid,
                ?exit,
                "ended badly after its result was complete"
            );
        }
        let (role, phase, hello) = (child.role, watch.phase(), watch.said_hello());
        let ending = Ending {
            role,
            phase,
            hello,
            done,
            failure,
            kill,
            exit,
        };
        self.buried(
            &ending,
            number,
            child.pid,
            child.spawned.elapsed(),
            child.tail.lines(),
        );
    }

    fn buried(
        &mut self,
        ending: &Ending,
        number: u32,
        pid: u32,
        time: Duration,
        tail: Vec<String>,
    ) {
        let role = ending.role;
        let deaths = self.deaths.get(&role).copied().unwrap_or(0);
        let verdict = judge(ending, deaths, self.retries);
        let class = match &verdict {
            Verdict::Success => None,
            Verdict::Retry(fault) | Verdict::Fail(fault) => Some(fault.class),
        };
        let (phase, ms) = (ending.phase, time.as_secs_f64() * 1e3);
        self.report.attempts.push(Attempt {
            role,
            number,
            pid,
            ended: how(ending),
            phase,
            ms,
            class,
        });
        if self.error.is_some() || self.finished {
            return;
        }
        if class.is_some_and(|class| class != RetryClass::Victim) {
            self.deaths.insert(role, deaths + 1);
        }
        match verdict {
            Verdict::Success => {}
            Verdict::Retry(fault) => {
                self.retries += 1;
                let delay = fault.class.delay();
                if fault.class != RetryClass::Victim {
                    self.listener.event(&Event::Retry {
                        role,
                        fault: &fault,
                        delay,
                    });
                }
                self.withdraw(role);
                self.delayed.push((Instant::now() + delay, role));
            }
            Verdict::Fail(fault) => {
                let mut error = JobError::own(fault.code, fault.message, fault.hint);
                error.class = fault.class;
                (error.role, error.phase) = (Some(role), Some(phase));
                error.signal = ending.exit.signal_name();
                error.exit = if let Exit::Code(code) = ending.exit {
                    Some(code)
                } else {
                    None
                };
                error.log_tail = tail;
                self.error = Some(error);
            }
        }
    }

    /// Forgets a dead attempt's tables, and ends whoever was fed with them.
    fn withdraw(&mut self, role: Role) {
        self.stock.discard(role);
        if role != Role::Prepare {
            return;
        }
        for running in &mut self.running {
            if running.child.role == Role::Bake && running.feed.started() {
                running.kill(Kill::Superseded);
            }
        }
    }

    /// Sends every child what it can be sent by now.
    fn feed(&mut self) {
        let mut clogged = Vec::new();
        for (place, running) in self.running.iter_mut().enumerate() {
            if !running.watch.said_hello() || running.kill.is_some() || running.answered.is_some() {
                continue;
            }
            let parcels = match running.child.role {
                Role::Prepare => running.feed.for_prepare(self.spec),
                Role::Bake => running.feed.for_bake(self.spec, &self.stock),
                Role::Encode => running.feed.for_encode(self.spec, &self.stock),
            };
            if !parcels.into_iter().all(|parcel| running.child.send(parcel)) {
                clogged.push(place);
            }
        }
        for place in clogged {
            self.violation(place, "its queue is full".to_owned());
        }
    }
}

impl Running {
    /// Kills the process, for the first reason that comes up.
    fn kill(&mut self, why: Kill) {
        if self.kill.is_none() {
            self.kill = Some(why);
            self.child.kill();
        }
    }
}

fn how(ending: &Ending) -> String {
    match (&ending.kill, &ending.exit) {
        (Some(Kill::NoHello { .. }), _) => "no hello".to_owned(),
        (Some(Kill::Stall { seconds }), _) => format!("stalled for {seconds} s"),
        (Some(Kill::Violation(_)), _) => "protocol violation".to_owned(),
        (Some(Kill::Mismatch(_)), _) => "another build".to_owned(),
        (Some(Kill::Superseded | Kill::JobOver), _) => "killed, no longer needed".to_owned(),
        (_, Exit::NotSpawned { .. }) => "not started".to_owned(),
        (_, Exit::Code(code)) => format!("exit {code}"),
        (_, exit @ Exit::Signal(_)) => exit.signal_name().unwrap_or_default(),
    }
}

fn no_memory(role: Role, table: Table, bytes: u64, error: &dyn std::error::Error) -> Box<JobError> {
    let message = format!(
        "no shared memory for {table:?} of {}: {}",
        words::size(bytes),
        chain(error)
    );
    let hint = "fewer or smaller views, or a higher limit of open files (ulimit -n), may help";
    let mut error = JobError::own(Code::OutOfHostMemory, message, hint);
    error.role = Some(role);
    error
}

/// The signals that end a job.
struct Signals {
    interrupt: SignalStream,
    terminate: SignalStream,
    hangup: SignalStream,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn any(&mut self) -> nix::sys::signal::Signal {
        use nix::sys::signal::Signal;
        tokio::select! {
            _ = self.interrupt.recv() => Signal::SIGINT,
            _ = self.terminate.recv() => Signal::SIGTERM,
            _ = self.hangup.recv() => Signal::SIGHUP,
        }
    }
}
