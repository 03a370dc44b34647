//! The supervisor's half of the protocol: checks what a child says and carries it out.

use std::io;
use std::time::Instant;

use proto::blob::BlobError;
use proto::limits::{MAX_TEXT_BYTES, MAX_WARNINGS};
use proto::message::{Code, FromChild, Role, Table, ToChild};
use proto::sandbox::{Sandbox, Stage};

use super::{Answer, Job};
use crate::child::{self, ChildId, chain};
use crate::error::JobError;
use crate::event::Event;
use crate::feed::{Handed, Parcel};
use crate::life;
use crate::opener::Opened;
use crate::output::{FileId, named_twice};
use crate::report::Report;
use crate::reserve::{self, Shortage};
use crate::sandbox;
use crate::stock::StockError;
use crate::verdict::{Exit, Kill};
use crate::words::{self, printable};

impl Job<'_> {
    pub(super) fn hear(&mut self, id: ChildId, event: child::Event) {
        let place = self
            .running
            .iter()
            .position(|running| running.child.id == id);
        match (event, place) {
            (child::Event::Packet(packet), Some(place)) => {
                if let Err(what) = self.packet(place, *packet) {
                    self.violation(place, what);
                }
            }
            (child::Event::Violation(what), Some(place)) => self.violation(place, what),
            (child::Event::Opened(opened), Some(place)) => self.opened(place, opened),
            (child::Event::Closed, Some(place)) => {
                if let Some(running) = self.running.get_mut(place) {
                    running.watch.linger();
                }
            }
            (
                child::Event::Packet(_)
                | child::Event::Violation(_)
                | child::Event::Opened(_)
                | child::Event::Closed,
                None,
            ) => {}
            (child::Event::Ended(exit), _) => self.ended(id, exit),
            (child::Event::Unkillable, _) => self.ended(id, Exit::Unkillable),
        }
        self.feed();
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
    pub(super) fn packet(&mut self, place: usize, packet: FromChild) -> Result<(), String> {
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
            } => {
                if running.watch.said_hello() {
                    return Err("a second hello".to_owned());
                }
                if let Some(what) = mismatch(version, &build_id) {
                    running.kill(Kill::Mismatch(what), self.listener);
                } else if theirs != role {
                    return Err(format!("it says that it is {}", theirs.name()));
                } else {
                    running.watch.hello();
                    self.host.gate().greeted();
                    self.confined(place, Stage::Entered, sandbox);
                }
                Ok(())
            }
            _ if !running.watch.said_hello() => Err("it spoke before its hello".to_owned()),
            FromChild::Ready {
                adapter,
                peers,
                sandbox,
                pipelines,
            } => {
                if !running.feed.ready() {
                    return Err("it is ready out of turn".to_owned());
                }
                running.watch.alive();
                let adapter = words::adapter(adapter);
                self.host.gate().opened(&adapter);
                (self.host.fleet()).opened(&self.spec.name, &adapter, peers);
                if adapter.kind != "native" {
                    // One spare on each adapter that would do as well.
                    let mut rung = running.feed.rung().clone();
                    let indices = self.host.fleet().indices(&rung);
                    for nth in indices {
                        rung.nth = nth;
                        self.host.spares().want(self.spec.spare(&rung));
                    }
                }
                running.adapter = Some(adapter);
                self.confined(place, Stage::Sealed, sandbox);
                // A process that is not in its sandbox gets nothing.
                match self
                    .running
                    .get_mut(place)
                    .filter(|running| running.kill.is_none())
                {
                    Some(running) => running.lend(pipelines.as_deref()),
                    None => Ok(()),
                }
            }
            FromChild::Allocate {
                table: Table::Pipelines,
                bytes,
            } => {
                running.watch.alive();
                running.pipelines_asked(bytes)
            }
            FromChild::Filled {
                table: Table::Pipelines,
            } => {
                running.watch.alive();
                running.pipelines_filled()
            }
            FromChild::Compiled => {
                running.watch.alive();
                running.compiled()
            }
            FromChild::Allocate { .. } | FromChild::Filled { .. } | FromChild::Verified { .. }
                if !running.feed.started() =>
            {
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
                        let error = no_memory(role, table, bytes, &error);
                        self.step(life::Event::Stop(error));
                        Ok(())
                    }
                    Err(error) => Err(chain(&error)),
                }
            }
            FromChild::Open { root, name, limit } => {
                if role != Role::Prepare || !running.feed.started() {
                    return Err("it asks for a file, which is not its part".to_owned());
                }
                running.watch.alive();
                let inputs = [&self.spec.mesh, &self.spec.views];
                let question = running.feed.opener.admit(inputs, root, name, limit)?;
                let (id, events) = (running.child.id, self.events.clone());
                tokio::spawn(async move {
                    let opened = question.answer().await;
                    if events
                        .send((id, child::Event::Opened(opened)))
                        .await
                        .is_err()
                    {
                        tracing::debug!("a file was opened after the job's end");
                    }
                });
                Ok(())
            }
            FromChild::Again => {
                if role != Role::Bake || !running.feed.again() {
                    return Err("it asks for the views out of turn".to_owned());
                }
                running.watch.alive();
                Ok(())
            }
            FromChild::Chosen { texture_size } => {
                running.watch.alive();
                let most = self.spec.atlas_size();
                let good = texture_size <= most && self.spec.form.pages.fit(texture_size);
                if role != Role::Prepare || !self.spec.options.texture_auto || !good {
                    return Err(format!("it chooses {texture_size} for the texture's edge"));
                }
                match self.stock.choose(texture_size) {
                    true => Ok(()),
                    false => Err("it chooses the texture's edge after the mesh".to_owned()),
                }
            }
            FromChild::Delivered { views } => {
                running.watch.alive();
                if role != Role::Prepare || !self.stock.deliver(views) {
                    return Err(format!("it says that {views} views are all"));
                }
                Ok(())
            }
            FromChild::Filled { table } => {
                running.watch.alive();
                let filled = self.stock.fill(role, table);
                filled.map_err(|error| chain(&error))?;
                match table.is_file() {
                    true => running.sealed(table),
                    false => Ok(()),
                }
            }
            FromChild::Verified { table, sha256 } => {
                running.watch.alive();
                let verified = self.stock.verify(role, table, sha256);
                verified.map_err(|error| chain(&error))
            }
            FromChild::Done(done) => {
                if !running.feed.ended() {
                    return Err("done before its input was complete".to_owned());
                }
                self.stock
                    .complete(
                        role,
                        &done,
                        self.spec.preview.is_some(),
                        running.feed.rung().product,
                    )
                    .map_err(|error| chain(&error))?;
                running.answered = Some(Answer::Done);
                running.watch.linger();
                let time = running.child.spawned.elapsed();
                self.listener.event(&Event::RoleDone { role, time });
                self.report.role_done(done, time);
                if role == Role::Bake {
                    self.report.made(running.feed.rung().product);
                }
                let least = self.spec.options.min_psnr.filter(|_| role == Role::Bake);
                self.step(match least.and_then(|least| poor(least, &self.report)) {
                    Some(error) => life::Event::Stop(error),
                    None => life::Event::Answered(role),
                });
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

    /// Checks a process's report of its sandbox against the kernel, before the process gets anything.
    fn confined(&mut self, place: usize, stage: Stage, mut account: Sandbox) {
        let Some(running) = self.running.get_mut(place) else {
            return;
        };
        account.missing = printable(&account.missing, MAX_TEXT_BYTES);
        let (role, pid) = (running.child.role, running.child.pid);
        if self.spec.sandbox
            && let Err(error) = sandbox::check(role, stage, pid, &account)
        {
            running.kill(error.kill(), self.listener);
        }
        self.report.confined(role, account);
    }

    /// Hands a child the file that it asked for, unless an output of the job will replace that file.
    fn opened(&mut self, place: usize, Opened { outcome, file }: Opened) {
        if let Some(id) = file.as_ref().and_then(FileId::of) {
            self.given.add(id);
            let spec = self.spec;
            if let Some(target) = spec.outputs().find(|target| target.replaces(id)) {
                self.step(life::Event::Stop(named_twice(target.path())));
                return;
            }
        }
        let Some(running) = self.running.get_mut(place) else {
            return;
        };
        running.feed.opener.answered();
        running.watch.alive();
        let parcel = Parcel {
            message: ToChild::Opened { outcome },
            fds: file.map(Handed::File).into_iter().collect(),
        };
        if !running.child.send(parcel) {
            self.violation(place, "its queue is full".to_owned());
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
    pub(super) fn feed(&mut self) {
        let (mut clogged, mut fed, mut working) = (Vec::new(), Vec::new(), Vec::new());
        for (place, running) in self.running.iter_mut().enumerate() {
            if !running.watch.said_hello() || running.kill.is_some() || running.answered.is_some() {
                continue;
            }
            let before = [running.feed.started(), running.feed.at_work()];
            let parcels = match running.child.role {
                Role::Prepare => running.feed.for_prepare(self.spec),
                Role::Bake => {
                    // While another job bakes on the adapter, this one opens it, and its input is prepared and looked
                    // at.
                    let place = || self.host.fleet().slot(&self.spec.name);
                    running.feed.for_bake(self.spec, &self.stock, place)
                }
                Role::Encode => running.feed.for_encode(self.spec, &self.stock),
            };
            if running.feed.started() && !before[0] {
                fed.push(running.child.role);
            }
            if running.feed.at_work() && !before[1] {
                working.push((running.child.role, running.number));
            }
            if !parcels.into_iter().all(|parcel| running.child.send(parcel)) {
                clogged.push(place);
            }
        }
        for (role, attempt) in working {
            self.listener.event(&Event::Working { role, attempt });
        }
        for role in fed {
            self.step(life::Event::Fed(role));
        }
        for place in clogged {
            self.violation(place, "its queue is full".to_owned());
        }
    }
}

/// What is wrong, if a worker comes from another build.
pub(super) fn mismatch(version: u32, build_id: &str) -> Option<String> {
    (version != proto::PROTOCOL_VERSION || build_id != proto::BUILD_ID).then(|| {
        format!(
            "kiln-baker is of build {} (protocol {version}), kiln of {} ({})",
            printable(build_id, 80),
            proto::BUILD_ID,
            proto::PROTOCOL_VERSION
        )
    })
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

/// Refuses what a bake made, where it explains the views with less than `least` dB.
fn poor(least: f64, report: &Report) -> Option<Box<JobError>> {
    let message = match report.psnr.train_db {
        // A plan explains nothing.
        _ if report.plan.is_some() => return None,
        Some(psnr) if f64::from(psnr) >= least => return None,
        Some(psnr) => format!(
            "the texture explains the views with {psnr:.2} dB, less than the {least} dB of --min-psnr"
        ),
        None => {
            format!("vertex colours have no PSNR, and --min-psnr asks for {least} dB")
        }
    };
    let hint = "--rejected and --preview show where it is wrong; or ask for less";
    Some(JobError::own(Code::InvalidAsset, message, hint))
}

#[cfg(test)]
mod tests {
    use proto::exit::DATAERR;

    use super::*;
    use crate::options::JobOptions;
    use crate::report::Options;

    #[test]
    fn a_result_below_the_least_psnr_is_refused_with_both_figures() {
        let mut report = Report::of(Options::of(&JobOptions::default()));
        let error = poor(30.0, &report).expect("vertex colours have no figure");
        assert!(error.message.contains("30 dB"), "{}", error.message);
        for (psnr, good) in [(30.0, true), (29.994, false), (f32::NAN, false)] {
            report.psnr.train_db = Some(psnr);
            let error = poor(30.0, &report);
            assert_eq!(error.is_none(), good, "{psnr}");
            if let Some(error) = error {
                let both = [format!("{psnr:.2} dB"), "30 dB".to_owned()];
                assert!(both.iter().all(|figure| error.message.contains(figure)));
                assert_eq!(error.exit_code, DATAERR);
            }
        }
    }
}
