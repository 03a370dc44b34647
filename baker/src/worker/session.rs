//! The worker's side of the protocol: the socket on fd 0 carries the job, progress and requests; results go into
//! granted memory; the flight recorder is on fd 1.
//!
//! A worker never outlives its supervisor. It is killed with the thread that spawned it (`PR_SET_PDEATHSIG`), and every
//! receive ends with the socket.

use std::collections::VecDeque;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use proto::blob::{BlobError, BlobFile, BlobWriter, sha256};
use proto::channel::{Channel, ChannelError};
use proto::job::WarmJob;
use proto::limits::{MAX_PIPELINES_BYTES, MAX_TEXT_BYTES};
use proto::message::{
    AdapterInfo, Code, Done, Failure, FromChild, Phase, Role, Root, Start, Table, ToChild,
};
use proto::recorder::Recorder;
use proto::sandbox::Sandbox;
use proto::table::{LayerSet, LayeredView, TableError, View};

use crate::worker::failure::internal;
use crate::worker::folder::{Files, FolderError};
use crate::worker::pace;
use crate::worker::progress::{self, Progress};

/// Least interval between progress messages of one phase. The supervisor draws ten times a second.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(40);

/// Why the session cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Usually the worker was started by hand.
    #[error("standard input is not Kiln's socket: kiln-baker is started by kiln")]
    NoSocket(#[source] io::Error),
    /// The supervisor is gone.
    #[error("the supervisor is gone")]
    Orphaned,
    /// A packet was not sent or received.
    #[error("channel to the supervisor")]
    Channel(#[from] ChannelError),
    /// The supervisor sent something that the protocol does not allow here.
    #[error("the supervisor said {0} out of turn")]
    OutOfTurn(&'static str),
    /// A finished file holds other bytes than those that were checked.
    #[error("the finished file reads back with other bytes")]
    Changed,
    /// A granted or received blob is invalid.
    #[error("shared memory")]
    Blob(#[from] BlobError),
    /// A table failed its checks.
    #[error("table from another process")]
    Table(#[from] TableError),
    /// Writing to granted memory failed.
    #[error("granted memory cannot be written")]
    Write(#[source] io::Error),
    /// Reading received memory failed.
    #[error("handed memory cannot be read")]
    Read(#[source] io::Error),
}

/// The session of one worker with its supervisor.
#[derive(Debug)]
pub struct Session {
    channel: Channel,
    /// Held from a question to its answer, so that threads do not receive each other's.
    turn: Mutex<()>,
    /// Messages that arrived while an answer was awaited: the supervisor sends tables as they come.
    early: Mutex<VecDeque<(ToChild, Vec<OwnedFd>)>>,
    last_progress: Mutex<(Option<Told>, Instant)>,
}

impl Session {
    /// Ties this process to its supervisor. Has to run before the sandbox is entered, which forbids all of this.
    ///
    /// # Errors
    /// [`SessionError::NoSocket`] when fd 0 is not available.
    pub fn connect() -> Result<Self, SessionError> {
        let socket = io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map_err(SessionError::NoSocket)?;
        progress::record(take_recorder().map_err(SessionError::NoSocket)?);
        let session = Self::over(Channel::from_fd(socket));
        prctl::set_pdeathsig(Signal::SIGKILL)
            .map_err(|errno| SessionError::NoSocket(errno.into()))?;
        if getppid().as_raw() == 1 {
            // The supervisor may have died before the call above.
            return Err(SessionError::Orphaned);
        }
        Ok(session)
    }

    /// Says hello.
    ///
    /// # Errors
    /// [`SessionError::NoSocket`] when fd 0 is no socket.
    pub fn hello(&self, role: Role, sandbox: Sandbox) -> Result<(), SessionError> {
        let hello = FromChild::Hello {
            version: proto::PROTOCOL_VERSION,
            build_id: proto::BUILD_ID.to_owned(),
            role,
            sandbox,
        };
        match self.channel.send(&hello, &[]) {
            Err(ChannelError::Os(error)) => Err(SessionError::NoSocket(error)),
            other => Ok(other?),
        }
    }

    /// A session over any channel, for tests.
    pub fn over(channel: Channel) -> Self {
        Self {
            channel,
            turn: Mutex::default(),
            early: Mutex::default(),
            last_progress: Mutex::new((None, Instant::now())),
        }
    }

    fn receive(&self) -> Result<(ToChild, Vec<OwnedFd>), SessionError> {
        let received = self.channel.receive_with_fds();
        #[cfg(feature = "failpoints")]
        crate::worker::failpoints::silence::answered();
        Ok(received?)
    }

    /// Waits for the job of the warm-up, before there is data.
    ///
    /// # Errors
    /// The supervisor is gone or sends something else.
    pub fn receive_warm(&self) -> Result<WarmJob, SessionError> {
        match self.receive()? {
            (ToChild::Warm(job), _) => Ok(job),
            (other, _) => Err(out_of_turn(&other)),
        }
    }

    /// Reports that the worker is ready for data.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn ready(
        &self,
        adapter: AdapterInfo,
        peers: u32,
        sandbox: Sandbox,
        pipelines: Option<&str>,
    ) -> Result<(), SessionError> {
        let ready = FromChild::Ready {
            adapter,
            peers,
            sandbox,
            pipelines: pipelines.map(str::to_owned),
        };
        Ok(self.channel.send(&ready, &[])?)
    }

    /// Waits for whether to keep compiled pipelines, and for those of an earlier process, if any.
    ///
    /// # Errors
    /// The supervisor is gone or sends something else, or its memory cannot be read.
    pub fn receive_pipelines(&self) -> Result<(bool, Option<Vec<u8>>), SessionError> {
        match self.receive()? {
            (ToChild::Pipelines { keep }, fds) => {
                let read = |fd| -> Result<Vec<u8>, SessionError> {
                    let blob = BlobFile::open(fd)?;
                    if blob.len() > MAX_PIPELINES_BYTES {
                        return Err(BlobError::Size(blob.len()).into());
                    }
                    let mut bytes = Vec::with_capacity(blob.len() as usize);
                    let read = blob.reader().read_to_end(&mut bytes);
                    read.map_err(SessionError::Read)?;
                    Ok(bytes)
                };
                Ok((keep, fds.into_iter().next().map(read).transpose()?))
            }
            (other, _) => Err(out_of_turn(&other)),
        }
    }

    /// Reports that all pipelines are compiled.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn compiled(&self) -> Result<(), SessionError> {
        Ok(self.channel.send(&FromChild::Compiled, &[])?)
    }

    /// Waits for the job and its descriptors.
    ///
    /// # Errors
    /// The supervisor is gone or sends something else.
    pub fn receive_start(&self) -> Result<(Start, Vec<OwnedFd>), SessionError> {
        match self.receive()? {
            (ToChild::Start(start), fds) => Ok((start, fds)),
            (other, _) => Err(out_of_turn(&other)),
        }
    }

    /// Waits for the next view; none after the last.
    ///
    /// # Errors
    /// The supervisor is gone or sends something else, or the view's table fails its checks.
    pub fn receive_view(&self) -> Result<Option<View>, SessionError> {
        match self.receive_handed()? {
            Handed::View(blob) => Ok(Some(read_view(&blob, LayerSet::default())?.0.view)),
            Handed::End => Ok(None),
            Handed::Mesh { .. } => Err(SessionError::OutOfTurn("Mesh")),
            Handed::Delivered => Err(SessionError::OutOfTurn("Delivered")),
        }
    }

    /// Waits for the next view, the mesh of a bake, or the end.
    ///
    /// # Errors
    /// The supervisor is gone or sends something else.
    pub(crate) fn receive_handed(&self) -> Result<Handed, SessionError> {
        match self.take_early() {
            Some(message) => handed(message),
            None => handed(self.receive()?),
        }
    }

    /// Like [`Self::receive_handed`], without waiting.
    pub(crate) fn try_receive_handed(&self) -> Result<Option<Handed>, SessionError> {
        if let Some(message) = self.take_early() {
            return handed(message).map(Some);
        }
        match self.channel.try_receive_with_fds() {
            Err(ChannelError::WouldBlock) => Ok(None),
            received => {
                #[cfg(feature = "failpoints")]
                crate::worker::failpoints::silence::answered();
                handed(received?).map(Some)
            }
        }
    }

    fn take_early(&self) -> Option<(ToChild, Vec<OwnedFd>)> {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.pop_front()
    }

    /// Asks for all views again.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn again(&self) -> Result<(), SessionError> {
        Ok(self.channel.send(&FromChild::Again, &[])?)
    }

    /// Asks for `bytes` bytes of memory, lets `write` fill them, and hands them over.
    ///
    /// # Errors
    /// The supervisor is gone or sends something else, or the memory cannot be written.
    pub fn put(
        &self,
        table: Table,
        bytes: u64,
        write: impl FnOnce(&mut BufWriter<BlobWriter<'_>>) -> Result<(), TableError>,
    ) -> Result<(), SessionError> {
        drop(self.write(table, bytes, write)?);
        self.channel.send(&FromChild::Filled { table }, &[])?;
        Ok(())
    }

    /// Hands a finished file over: writes it, and has it sealed. `check` judges what then reads back, and gives what it found. The
    /// supervisor is told the digest of these bytes, and puts no others in place.
    ///
    /// # Errors
    /// The supervisor is gone or says something else, the memory cannot be written or read, or `check` refuses the file.
    pub fn put_file<T>(
        &self,
        table: Table,
        file: Vec<u8>,
        check: impl FnOnce(&[u8]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let sealed = self.seal(table, file).map_err(|error| internal(&error))?;
        let found = check(&sealed)?;
        let sha256 = sha256(&sealed);
        let verified = FromChild::Verified { table, sha256 };
        let sent = self.channel.send(&verified, &[]);
        sent.map_err(|error| internal(&error))?;
        Ok(found)
    }

    /// Gives the bytes as they are sealed.
    fn seal(&self, table: Table, file: Vec<u8>) -> Result<Vec<u8>, SessionError> {
        let bytes = file.len() as u64;
        let blob = self.write(table, bytes, |out| Ok(out.write_all(&file)?))?;
        drop(file);
        match self.ask(&FromChild::Filled { table })? {
            (ToChild::Sealed { table: sealed }, _) if sealed == table => {}
            (other, _) => return Err(out_of_turn(&other)),
        }
        progress::expect(
            "reading a file back",
            progress::each(bytes as usize, pace::TABLE_BYTE),
        );
        let mut file = Vec::with_capacity(bytes as usize);
        let read = blob.reader().read_to_end(&mut file);
        read.map_err(SessionError::Read)?;
        progress::unit();
        Ok(file)
    }

    /// Asks for memory and fills it.
    fn write(
        &self,
        table: Table,
        bytes: u64,
        write: impl FnOnce(&mut BufWriter<BlobWriter<'_>>) -> Result<(), TableError>,
    ) -> Result<BlobFile, SessionError> {
        let fd = match self.ask(&FromChild::Allocate { table, bytes })? {
            (ToChild::Grant { table: granted }, fds) if granted == table => fds
                .into_iter()
                .next()
                .ok_or(SessionError::OutOfTurn("Grant without memory"))?,
            (other, _) => return Err(out_of_turn(&other)),
        };
        let blob = BlobFile::open(fd)?;
        progress::expect(
            "handing a table over",
            progress::each(bytes as usize, pace::TABLE_BYTE),
        );
        let mut out = BufWriter::with_capacity(1 << 20, blob.writer());
        write(&mut out)?;
        out.flush().map_err(SessionError::Write)?;
        drop(out);
        #[cfg(feature = "failpoints")]
        {
            crate::worker::failpoints::at("put");
            if matches!(table, Table::Texture | Table::Glb) {
                crate::worker::failpoints::spoil(&blob);
            }
        }
        progress::unit();
        Ok(blob)
    }

    /// Reports the edge of the texture, where prepare chooses it.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn choose(&self, texture_size: u32) -> Result<(), SessionError> {
        Ok(self
            .channel
            .send(&FromChild::Chosen { texture_size }, &[])?)
    }

    /// Reports that all views were put, and their number.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn delivered(&self, views: u32) -> Result<(), SessionError> {
        Ok(self.channel.send(&FromChild::Delivered { views }, &[])?)
    }

    /// Sends a question and waits for its answer. Sets aside the mesh and views that come in between.
    fn ask(&self, question: &FromChild) -> Result<(ToChild, Vec<OwnedFd>), SessionError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.channel.send(question, &[])?;
        loop {
            match self.receive()? {
                handed @ (
                    ToChild::View { .. }
                    | ToChild::EndOfViews { .. }
                    | ToChild::Delivered { .. }
                    | ToChild::Mesh { .. },
                    _,
                ) => {
                    let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
                    early.push_back(handed);
                }
                answer => return Ok(answer),
            }
        }
    }

    /// Ends the session with the role's summary.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn done(&self, done: Done) -> Result<(), SessionError> {
        #[cfg(feature = "failpoints")]
        {
            crate::worker::failpoints::silence::report();
            crate::worker::failpoints::at("done");
        }
        Ok(self.channel.send(&FromChild::Done(done), &[])?)
    }

    /// Ends the session with a failure.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn failed(&self, failure: &Failure) -> Result<(), SessionError> {
        let failure = Failure {
            code: failure.code,
            message: one_line(&failure.message),
            hint: one_line(&failure.hint),
        };
        Ok(self.channel.send(&FromChild::Failed(failure), &[])?)
    }
}

/// What the supervisor hands over after the start.
#[derive(Debug)]
pub(crate) enum Handed {
    View(BlobFile),
    /// No view follows; the mesh may.
    Delivered,
    Mesh {
        blob: BlobFile,
        /// Edge of its atlas in texels.
        texture_size: u32,
    },
    /// Nothing follows.
    End,
}

fn handed(message: (ToChild, Vec<OwnedFd>)) -> Result<Handed, SessionError> {
    let blob = |fds: Vec<OwnedFd>, without| {
        let fd = fds.into_iter().next();
        let blob = BlobFile::open(fd.ok_or(SessionError::OutOfTurn(without))?);
        blob.map_err(SessionError::from)
    };
    match message {
        (ToChild::View { .. }, fds) => Ok(Handed::View(blob(fds, "View without memory")?)),
        (ToChild::Mesh { texture_size }, fds) => {
            let blob = blob(fds, "Mesh without memory")?;
            Ok(Handed::Mesh { blob, texture_size })
        }
        (ToChild::Delivered { .. }, _) => Ok(Handed::Delivered),
        (ToChild::EndOfViews { .. }, _) => Ok(Handed::End),
        (other, _) => Err(out_of_turn(&other)),
    }
}

/// Reads a view with the wanted ones of its layers. Also returns which layers it has.
///
/// # Errors
/// It fails its checks.
pub(crate) fn read_view(
    blob: &BlobFile,
    wanted: LayerSet,
) -> Result<(LayeredView, LayerSet), SessionError> {
    progress::expect(
        "reading a view",
        progress::each(blob.len() as usize, pace::TABLE_BYTE),
    );
    let view = LayeredView::read(&mut blob.reader(), wanted)?;
    progress::unit();
    Ok(view)
}

impl Files for Session {
    fn open(&self, root: Root, name: &str, limit: u64) -> Result<(OwnedFd, u64), FolderError> {
        let name = name.to_owned();
        let answer = self.ask(&FromChild::Open { root, name, limit });
        match answer.map_err(no_answer)? {
            (ToChild::Opened { outcome: Ok(bytes) }, fds) => {
                let fd = fds.into_iter().next();
                let absent = || no_answer(SessionError::OutOfTurn("Opened without a file"));
                Ok((fd.ok_or_else(absent)?, bytes))
            }
            (ToChild::Opened { outcome: Err(no) }, _) => Err(no.into()),
            (other, _) => Err(no_answer(out_of_turn(&other))),
        }
    }
}

fn no_answer(error: SessionError) -> FolderError {
    FolderError::Session(error.into())
}

/// A check for [`Session::put_file`] of a file that was read before it is handed over: the same bytes.
pub fn unchanged(file: &[u8]) -> impl FnOnce(&[u8]) -> Result<(), Failure> + use<> {
    let written = sha256(file);
    move |back| match sha256(back) == written {
        true => Ok(()),
        false => Err(internal(&SessionError::Changed)),
    }
}

/// A phase, and how much of it was done of how much.
type Told = (Phase, u64, u64);

/// Takes the first `N` descriptors of a job.
pub(crate) fn take_fds<const N: usize>(fds: Vec<OwnedFd>) -> Result<[OwnedFd; N], Failure> {
    fds.into_iter()
        .take(N)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|fds: Vec<OwnedFd>| Failure {
            code: Code::ProtocolViolation,
            message: format!("the job came with {} of {N} descriptors", fds.len()),
            hint: String::new(),
        })
}

impl Progress for Session {
    fn progress(&self, phase: Phase, done: u64, total: u64) {
        progress::note(|state| {
            state.work += 1;
            state.set_phase(phase);
            (state.done, state.total) = (done, total);
            state.predicted_ms = 0;
            state.set_label("");
            progress::said(state);
        });
        self.tell(phase, done, total);
        #[cfg(feature = "failpoints")]
        crate::worker::failpoints::at(phase.name());
    }

    fn expect(&self, label: &str, predicted: Duration) {
        progress::expect(label, predicted);
    }

    fn warning(&self, text: &str) {
        tracing::warn!("{text}");
        if let Err(error) = self.channel.send(
            &FromChild::Warning {
                text: one_line(text),
            },
            &[],
        ) {
            tracing::debug!(%error, "warning was not sent");
        }
    }
}

impl Session {
    /// Sends a progress count, unless the same or one of the same phase has just been sent.
    fn tell(&self, phase: Phase, done: u64, total: u64) {
        {
            let Ok(mut last) = self.last_progress.lock() else {
                return;
            };
            let (told, now) = (Some((phase, done, total)), Instant::now());
            let due = last.0.is_none_or(|(last, ..)| last != phase)
                || now.duration_since(last.1) >= PROGRESS_INTERVAL
                || (total != 0 && done == total);
            if !due || last.0 == told {
                return;
            }
            *last = (told, now);
        }
        if let Err(error) = self
            .channel
            .send(&FromChild::Progress { phase, done, total }, &[])
        {
            // A dead supervisor shows at the next receive, or kills this process.
            tracing::debug!(%error, "progress was not sent");
        }
    }
}

/// Moves the recorder from standard output to another descriptor. What is printed from here on goes to the log.
fn take_recorder() -> io::Result<Recorder> {
    let memory = io::stdout().as_fd().try_clone_to_owned()?;
    nix::unistd::dup2_stdout(io::stderr())?;
    Ok(Recorder::new(memory))
}

fn out_of_turn(message: &ToChild) -> SessionError {
    SessionError::OutOfTurn(match message {
        ToChild::Start(_) => "Start",
        ToChild::Warm(_) => "Warm",
        ToChild::View { .. } => "View",
        ToChild::EndOfViews { .. } => "EndOfViews",
        ToChild::Delivered { .. } => "Delivered",
        ToChild::Mesh { .. } => "Mesh",
        ToChild::Grant { .. } => "Grant",
        ToChild::Opened { .. } => "Opened",
        ToChild::Pipelines { .. } => "Pipelines",
        ToChild::Sealed { .. } => "Sealed",
    })
}

/// One printable line that fits a packet: control characters become spaces, and the end is cut at a character.
fn one_line(text: &str) -> String {
    let mut line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let mut end = line.len().min(MAX_TEXT_BYTES);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line.truncate(end);
    line
}
