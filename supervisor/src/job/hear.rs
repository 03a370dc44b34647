//! The supervisor's half of the protocol: checks what a child says and carries it out.

use std::io;
use std::path::Path;
use std::time::Instant;

use proto::blob::BlobError;
use proto::job::Device;
use proto::limits::{MAX_TEXT_BYTES, MAX_WARNINGS};
use proto::message::{AdapterInfo, Code, Done, FromChild, Role, Root, Table, ToChild};
use proto::sandbox::{Sandbox, Stage};

use super::running::{Answer, mismatch};
use super::spawn::spare_key;
use super::{Job, Kind};
use crate::error::JobError;
use crate::event::Event;
use crate::host::nodes;
use crate::job::life;
use crate::output::{FileId, named_twice};
use crate::process::child::{ChildEvent, ChildId, Handed, Parcel};
use crate::process::opener::Opened;
use crate::process::reserve::{self, Shortage};
use crate::process::table_store::TableStoreError;
use crate::process::verdict::{Exit, Kill};
use crate::report::Report;
use crate::words::{self, chain, printable};

impl Job<'_> {
    pub(super) fn hear(&mut self, id: ChildId, event: ChildEvent) {
        let place = self
            .running
            .iter()
            .position(|running| running.child.id == id);
        match (event, place) {
            (ChildEvent::Packet(packet), Some(place)) => {
                if let Err(what) = self.packet(place, *packet) {
                    self.violation(place, what);
                }
            }
            (ChildEvent::Violation(what), Some(place)) => self.violation(place, what),
            (ChildEvent::Opened(opened), Some(place)) => self.opened(place, opened),
            (ChildEvent::Closed, Some(place)) => {
                if let Some(running) = self.running.get_mut(place) {
                    running.watch.linger();
                }
            }
            (
                ChildEvent::Packet(_)
                | ChildEvent::Violation(_)
                | ChildEvent::Opened(_)
                | ChildEvent::Closed,
                None,
            ) => {}
            (ChildEvent::Ended(exit), _) => self.ended(id, exit),
            (ChildEvent::Unkillable, _) => self.ended(id, Exit::Unkillable),
        }
        self.dispatch();
    }

    pub(super) fn violation(&mut self, place: usize, what: String) {
        if let Some(running) = self.running.get_mut(place) {
            tracing::warn!(
                role = running.child.role.name(),
                pid = running.child.pid,
                "protocol violation: {what}"
            );
            running.kill(Kill::Violation(what), self.listener);
        }
    }

    /// Takes one packet; an error says what is wrong with it.
    fn packet(&mut self, place: usize, packet: FromChild) -> Result<(), String> {
        let Some(running) = self.running.get_mut(place) else {
            return Ok(());
        };
        let role = running.child.role;
        if running.kill.is_some() {
            // It was sent before the kill arrived and no longer matters.
            return Ok(());
        }
        if running.answered.is_some() {
            tracing::warn!(role = role.name(), "a packet after the answer is ignored");
            return Ok(());
        }
        crate::failpoint::packet(&packet);
        match packet {
            FromChild::Hello {
                version,
                build_id,
                role: theirs,
                sandbox,
            } => self.hello(place, (version, &build_id), theirs, sandbox),
            _ if !running.watch.said_hello() => Err("it spoke before its hello".to_owned()),
            FromChild::Progress { phase, done, total } => {
                if let Some(state) = running.watch.progress(phase, done, total, Instant::now()) {
                    self.listener.event(&Event::Progress { role, phase, state });
                }
                Ok(())
            }
            FromChild::Warning { text } => {
                self.warning(role, &text);
                Ok(())
            }
            FromChild::Done(done) => self.done(place, done),
            FromChild::Failed(mut failure) => {
                failure.message = printable(&failure.message, MAX_TEXT_BYTES);
                failure.hint = printable(&failure.hint, MAX_TEXT_BYTES);
                running.answered = Some(Answer::Failed(failure));
                running.watch.linger();
                Ok(())
            }
            FromChild::Ready { .. }
            | FromChild::Allocate { .. }
            | FromChild::Filled { .. }
            | FromChild::Verified { .. }
            | FromChild::Compiled
            | FromChild::Open { .. }
            | FromChild::Again
            | FromChild::Chosen { .. }
            | FromChild::Delivered { .. } => {
                running.watch.alive();
                self.act_on(place, packet)
            }
        }
    }

    /// Takes a packet by which a process hands something over or asks for something.
    fn act_on(&mut self, place: usize, packet: FromChild) -> Result<(), String> {
        let running = &mut self.running[place];
        let role = running.child.role;
        let due = |due: bool, otherwise: &str| due.then_some(()).ok_or(otherwise.to_owned());
        match packet {
            FromChild::Ready {
                adapter,
                peers,
                sandbox,
                pipelines,
            } => self.ready(place, (adapter, peers), sandbox, pipelines.as_deref()),
            FromChild::Allocate {
                table: Table::Pipelines,
                bytes,
            } => running.pipelines_asked(bytes),
            FromChild::Filled {
                table: Table::Pipelines,
            } => running.pipelines_filled(),
            FromChild::Compiled => running.compiled(),
            FromChild::Allocate { .. } | FromChild::Filled { .. } | FromChild::Verified { .. }
                if !running.dispatcher.started() =>
            {
                Err("a table before its job was sent".to_owned())
            }
            FromChild::Allocate { table, bytes } => self.allocate(place, table, bytes),
            FromChild::Open { root, name, limit } => self.open(place, root, name, limit),
            FromChild::Again => {
                let may = role == Role::Bake && running.dispatcher.again();
                due(may, "it asks for the views out of turn")
            }
            FromChild::Chosen { texture_size } => {
                let may = role == Role::Prepare && self.kind.may_choose(texture_size);
                due(
                    may,
                    &format!("it chooses {texture_size} for the texture's edge"),
                )?;
                let early = self.tables.choose(texture_size);
                due(early, "it chooses the texture's edge after the mesh")
            }
            FromChild::Delivered { views } => {
                let all = role == Role::Prepare && self.tables.deliver(views);
                due(all, &format!("it says that {views} views are all"))
            }
            FromChild::Filled { table } => {
                let filled = self.tables.fill(role, table);
                filled.map_err(|error| chain(&error))?;
                match table.is_file() {
                    true => running.sealed(table),
                    false => Ok(()),
                }
            }
            FromChild::Verified { table, sha256 } => {
                let verified = self.tables.verify(role, table, sha256);
                verified.map_err(|error| chain(&error))
            }
            FromChild::Hello { .. }
            | FromChild::Progress { .. }
            | FromChild::Warning { .. }
            | FromChild::Done(_)
            | FromChild::Failed(_) => Err("it spoke out of turn".to_owned()),
        }
    }

    /// Checks a process's identity and sandbox.
    fn hello(
        &mut self,
        place: usize,
        (version, build_id): (u32, &str),
        theirs: Role,
        sandbox: Sandbox,
    ) -> Result<(), String> {
        let running = &mut self.running[place];
        if running.watch.said_hello() {
            return Err("a second hello".to_owned());
        }
        if let Some(what) = mismatch(version, build_id) {
            running.kill(Kill::Mismatch(what), self.listener);
            return Ok(());
        }
        if theirs != running.child.role {
            return Err(format!("it says that it is {}", theirs.name()));
        }
        running.watch.hello();
        self.host.gate().greeted();
        self.confined(place, Stage::Entered, sandbox);
        Ok(())
    }

    /// A bake has opened its adapter, which `peers` others equal.
    fn ready(
        &mut self,
        place: usize,
        (adapter, peers): (AdapterInfo, u32),
        sandbox: Sandbox,
        pipelines: Option<&str>,
    ) -> Result<(), String> {
        let running = &mut self.running[place];
        if !running.dispatcher.ready() {
            return Err("it is ready out of turn".to_owned());
        }
        let adapter = words::adapter(adapter);
        self.host.gate().opened(&adapter);
        self.host.fleet().opened(&self.name, &adapter, peers);
        if adapter.kind != "native"
            && let Kind::Bake(spec) = self.kind
        {
            // One spare on each adapter that would do as well.
            let mut rung = running.rung.clone();
            let indices = self.host.fleet().indices(&rung);
            for nth in indices {
                rung.nth = nth;
                self.host.spares().want(spare_key(spec, &rung));
            }
        }
        running.adapter = Some(adapter);
        self.doubt_the_processor(place);
        self.confined(place, Stage::Sealed, sandbox);
        // A process that is not in its sandbox gets nothing.
        let running = &mut self.running[place];
        match running.kill {
            None => running.lend(pipelines),
            Some(_) => Ok(()),
        }
    }

    /// Warns of a GPU that is there, where the choice was free, none failed before, and the processor bakes.
    pub(super) fn doubt_the_processor(&mut self, place: usize) {
        let running = &self.running[place];
        let native = (running.adapter.as_ref()).is_some_and(|adapter| adapter.kind == "native");
        let free = running.rung.device == Device::Auto && running.rung.avoid.is_empty();
        if native
            && free
            && let Some(text) = nodes::unused(Path::new("/dev"))
        {
            self.warning(Role::Bake, &text);
        }
    }

    /// Gives a process the memory that it asks for.
    fn allocate(&mut self, place: usize, table: Table, bytes: u64) -> Result<(), String> {
        let child = &self.running[place].child;
        match self.tables.allocate(child.role, table, bytes) {
            Ok(blob) => child.send(Parcel::with(ToChild::Grant { table }, [&blob])),
            Err(TableStoreError::Memory(error)) => {
                let error = no_memory(child.role, table, bytes, &error);
                self.step(life::JobEvent::Stop(error));
                Ok(())
            }
            Err(error) => Err(chain(&error)),
        }
    }

    /// Opens a file that prepare asks for, on another thread.
    fn open(&mut self, place: usize, root: Root, name: String, limit: u64) -> Result<(), String> {
        let running = &mut self.running[place];
        if running.child.role != Role::Prepare || !running.dispatcher.started() {
            return Err("it asks for a file, which is not its part".to_owned());
        }
        let input = self.kind.input(root);
        let question = (running.dispatcher.opener).admit(input, root, name, limit)?;
        let (id, events) = (running.child.id, self.events.clone());
        tokio::spawn(async move {
            let opened = ChildEvent::Opened(question.answer().await);
            if events.send((id, opened)).await.is_err() {
                tracing::debug!("a file was opened after the job's end");
            }
        });
        Ok(())
    }

    /// A process says that its result is complete.
    fn done(&mut self, place: usize, done: Done) -> Result<(), String> {
        let running = &mut self.running[place];
        let (role, product) = (running.child.role, running.rung.product);
        if !running.dispatcher.ended() {
            return Err("done before its input was complete".to_owned());
        }
        let complete = (self.tables).complete(role, &done, self.kind.preview(), product);
        complete.map_err(|error| chain(&error))?;
        running.answered = Some(Answer::Done);
        running.watch.linger();
        let time = running.child.spawned.elapsed();
        self.listener.event(&Event::RoleDone { role, time });
        self.report.role_done(done, time);
        if role == Role::Bake {
            self.report.made(product);
            if let Some(doubt) = self.report.doubt() {
                self.warning(role, &doubt);
            }
        }
        let least = match self.kind {
            Kind::Bake(spec) => spec.options.min_psnr,
            Kind::Compare(_) => None,
        };
        let held_out = (self.report.prepare.as_ref()).map(|prepare| prepare.holdout_views > 0);
        self.step(
            match least.and_then(|least| poor(least, role, held_out, &self.report)) {
                Some(error) => life::JobEvent::Stop(error),
                None => life::JobEvent::Answered(role),
            },
        );
        Ok(())
    }

    /// Checks a process's report of its sandbox against the kernel, before the process gets anything.
    fn confined(&mut self, place: usize, stage: Stage, account: Sandbox) {
        let running = &mut self.running[place];
        let (account, checked) = running.confined(stage, account, self.kind.sandbox());
        if let Err(error) = checked {
            running.kill(error.kill(), self.listener);
        }
        self.report.confined(running.child.role, account);
    }

    /// Hands a child the file that it asked for, unless an output of the job will replace that file.
    fn opened(&mut self, place: usize, Opened { outcome, file }: Opened) {
        if let Some(id) = file.as_ref().and_then(FileId::of) {
            self.given.add(id);
            let mut outputs = self.kind.outputs().into_iter();
            if let Some(target) = outputs.find(|target| target.replaces(id)) {
                self.step(life::JobEvent::Stop(named_twice(target.path())));
                return;
            }
        }
        let running = &mut self.running[place];
        running.dispatcher.opener.answered();
        running.watch.alive();
        let parcel = Parcel {
            message: ToChild::Opened { outcome },
            fds: file.map(Handed::File).into_iter().collect(),
        };
        if let Err(what) = running.child.send(parcel) {
            self.violation(place, what);
        }
    }

    pub(super) fn warning(&mut self, role: Role, text: &str) {
        let text = printable(text, MAX_TEXT_BYTES);
        // A retried attempt repeats its warnings.
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

    /// Sends every child what it can be sent now.
    pub(super) fn dispatch(&mut self) {
        let (mut clogged, mut fed, mut working) = (Vec::new(), Vec::new(), Vec::new());
        for (place, running) in self.running.iter_mut().enumerate() {
            if !running.watch.said_hello() || running.kill.is_some() || running.answered.is_some() {
                continue;
            }
            let before = [running.dispatcher.started(), running.dispatcher.at_work()];
            // While another job bakes on the adapter, this one opens it, and its input is prepared and looked at.
            let place_free = || self.host.fleet().slot(&self.name);
            let parcels = running.dispatcher.next(&self.tables, place_free);
            if running.dispatcher.started() && !before[0] {
                fed.push(running.child.role);
            }
            if running.dispatcher.at_work() && !before[1] {
                working.push((running.child.role, running.number));
            }
            if let Err(what) = parcels
                .into_iter()
                .try_for_each(|parcel| running.child.send(parcel))
            {
                clogged.push((place, what));
            }
        }
        for (role, attempt) in working {
            self.listener.event(&Event::Working { role, attempt });
        }
        for role in fed {
            self.step(life::JobEvent::Fed(role));
        }
        for (place, what) in clogged {
            self.violation(place, what);
        }
    }
}

/// Whether the error is due to the limit of a file's size.
fn too_large(error: &(dyn std::error::Error + 'static)) -> bool {
    let system = error.downcast_ref::<io::Error>();
    system.is_some_and(|error| error.kind() == io::ErrorKind::FileTooLarge)
        || error.source().is_some_and(too_large)
}

fn no_memory(role: Role, table: Table, bytes: u64, error: &BlobError) -> Box<JobError> {
    let message = format!(
        "no shared memory for {table:?} of {}: {}",
        words::size(bytes),
        chain(error)
    );
    let mut error = match too_large(error) {
        true => JobError::own(
            Code::IoError,
            message,
            "raise the limit of a file's size (ulimit -f), which holds for shared memory, too",
        ),
        false if error.of_descriptors() => {
            JobError::own(Code::OutOfHostMemory, message, reserve::need())
        }
        false => JobError::own(
            Code::OutOfHostMemory,
            message,
            "fewer or smaller views need less memory",
        ),
    };
    error.role = Some(role);
    error
}

/// Refuses a result that explains the views with less than `least` dB, as soon as a role that is done has measured it: the bake
/// those of the fit, encode those that are held out, which count where there are any.
/// `held_out`: whether there are such, once prepare has said so.
fn poor(least: f64, done: Role, held_out: Option<bool>, report: &Report) -> Option<Box<JobError>> {
    let (views, psnr) = match (done, held_out) {
        // A plan explains nothing.
        _ if report.plan.is_some() => return None,
        (Role::Bake | Role::Encode, Some(false)) => ("the views", report.psnr.train_db),
        (Role::Encode, Some(true)) => ("the held-out views", report.psnr.holdout_db),
        (Role::Prepare | Role::Bake | Role::Encode, _) => return None,
    };
    let message = match psnr {
        Some(psnr) if f64::from(psnr) >= least => return None,
        Some(psnr) => format!(
            "the result explains {views} with {psnr:.2} dB, less than the {least} dB of --min-psnr"
        ),
        None => format!(
            "{views} give no PSNR (vertex colours have one of held-out views alone), and --min-psnr asks for {least} dB"
        ),
    };
    let hint = "without --min-psnr, --preview shows where it is wrong; or ask for less";
    Some(JobError::own(Code::InvalidAsset, message, hint))
}

#[cfg(test)]
mod tests {
    use proto::exit::DATAERR;

    use super::*;
    use crate::options::JobOptions;
    use crate::report::Options;

    #[test]
    fn a_texture_that_hardly_explains_its_views_is_doubted() {
        let mut report = Report::of(Options::of(&JobOptions::default()));
        for (psnr, doubted) in [(None, false), (Some(11.23), true), (Some(16.5), false)] {
            report.psnr.train_db = psnr;
            let doubt = report.doubt();
            assert_eq!(doubt.is_some(), doubted, "{psnr:?}");
            assert!(doubt.is_none_or(|doubt| doubt.contains("11.2 dB")));
        }
    }

    #[test]
    fn a_result_below_the_least_psnr_is_refused_with_both_figures() {
        let mut report = Report::of(Options::of(&JobOptions::default()));
        let poor =
            |least, done, held_out, report: &Report| poor(least, done, Some(held_out), report);
        let error = poor(30.0, Role::Bake, false, &report).expect("vertex colours have no figure");
        assert!(error.message.contains("30 dB"), "{}", error.message);
        for (psnr, good) in [(30.0, true), (29.994, false), (f32::NAN, false)] {
            report.psnr.train_db = Some(psnr);
            let error = poor(30.0, Role::Bake, false, &report);
            assert_eq!(error.is_none(), good, "{psnr}");
            if let Some(error) = error {
                let both = [format!("{psnr:.2} dB"), "30 dB".to_owned()];
                assert!(both.iter().all(|figure| error.message.contains(figure)));
                assert_eq!(error.exit_code, DATAERR);
            }
        }
        // Held-out views count in place of those of the fit, once encode has measured them.
        (report.psnr.train_db, report.psnr.holdout_db) = (Some(20.0), Some(31.0));
        assert!(poor(30.0, Role::Bake, true, &report).is_none());
        assert!(poor(30.0, Role::Encode, true, &report).is_none());
        let error = poor(32.0, Role::Encode, true, &report).expect("below");
        assert!(error.message.contains("held-out views with 31.00 dB"));
    }
}
