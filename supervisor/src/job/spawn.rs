//! Carries out a start that [`crate::job::life`] decided: asks the gate, then takes a warm spare or starts a fresh process.

use std::sync::Arc;
use std::time::Instant;

use proto::message::{Phase, Role};

use super::lend::Loan;
use super::running::{Running, watch};
use super::spare::{Key, Spare};
use super::{Held, Job, Kind, Spec, bury};
use crate::event::Event;
use crate::host::gate::Admission;
use crate::host::ladder::Rung;
use crate::job::life;
use crate::process::child::ChildId;
use crate::process::dispatcher::Assignment;
use crate::process::verdict::{Ending, Exit, Kill};

impl Job<'_> {
    /// Starts a process for `role` as soon as the gate allows it.
    pub(super) fn spawn(&mut self, role: Role, rung: Rung) {
        let asked = self.try_spawn(role, rung);
        if let Some(held) = asked {
            self.listener.event(&Event::Held {
                role,
                why: &held.why,
            });
            self.held.push(held);
        }
    }

    /// Asks the gate again about the starts that it holds back.
    pub(super) fn knock(&mut self) {
        for role in [Role::Prepare, Role::Bake, Role::Encode] {
            // One at a time: a refusal of the first ends the others, too.
            if let Some(place) = self.held.iter().position(|held| held.role == role) {
                let Held { rung, .. } = self.held.swap_remove(place);
                let still = self.try_spawn(role, rung);
                self.held.extend(still);
            }
        }
    }

    /// Drops a held start, as if the process had been there and was killed. `false` if there is none.
    pub(super) fn forgo(&mut self, role: Role) -> bool {
        let Some(place) = self.held.iter().position(|held| held.role == role) else {
            return false;
        };
        self.held.swap_remove(place);
        let fault = crate::process::verdict::fault(&unborn(
            role,
            Some(Kill::JobOver),
            Exit::NotSpawned {
                error: String::new(),
                transient: true,
            },
        ));
        self.step(life::JobEvent::Ended {
            role,
            fault: Box::new(fault),
            exit: Exit::Code(0),
            adapter: None,
            suspected: false,
        });
        true
    }

    fn try_spawn(&mut self, role: Role, rung: Rung) -> Option<Held> {
        let entry = (self.host.gate()).enter(&self.name, role, &rung, Instant::now());
        match entry {
            Admission::Go(chosen, over) => {
                for line in over {
                    self.warning(role, &line);
                }
                self.launch(role, chosen);
            }
            Admission::Wait(why) => return Some(Held { role, rung, why }),
            Admission::Refuse(mut error) => {
                error.role = Some(role);
                // The life of the job waits for the end of what it started.
                self.held.push(Held {
                    role,
                    rung,
                    why: error.message.clone(),
                });
                self.step(life::JobEvent::Stop(error));
            }
        }
        None
    }

    /// What a process of `role` is for. Prepare has answered before encode starts.
    fn assignment(&self, role: Role, rung: &Rung) -> Assignment {
        let prepared = self.report.prepare.as_ref();
        self.kind.assignment(role, rung, &self.tables, prepared)
    }

    fn launch(&mut self, role: Role, mut rung: Rung) {
        self.children += 1;
        let id = ChildId(self.children);
        let number = self.starts.entry(role).or_default();
        *number += 1;
        let number = *number;
        if role == Role::Bake
            && let Kind::Bake(spec) = self.kind
        {
            rung.nth = self.host.fleet().enter(&self.name, &rung);
            let key = spare_key(spec, &rung);
            // A spare may have been given cached pipelines.
            let spare = (!rung.unkept).then(|| self.host.spares().take(&key));
            if let Some(spare) = spare.flatten() {
                self.adopt(id, number, rung, spare);
                self.host.spares().want(key);
                return;
            }
        }
        match self.launcher.spawn(id, role, self.events.clone()) {
            Ok(child) => {
                self.listener.event(&Event::Started {
                    role,
                    attempt: number,
                    pid: child.pid,
                    warm: false,
                });
                let assignment = self.assignment(role, &rung);
                let loan = Loan::new(self.host.vault().clone());
                let mut running = Running::new(child, rung, assignment, loan);
                running.number = number;
                running.group = self.host.enter(running.child.pid);
                running.watch = watch(role, self.kind.silence());
                self.running.push(running);
            }
            Err(exit) => {
                let grave = bury::Grave::unborn(number);
                self.buried(unborn(role, None, exit), false, grave);
            }
        }
    }

    /// Makes a spare process this job's own, and forwards its events to this job.
    fn adopt(&mut self, id: ChildId, number: u32, rung: Rung, spare: Spare) {
        let Spare {
            mut running,
            mut events,
            peers,
            ..
        } = spare;
        if let Some(adapter) = &running.adapter {
            self.host.fleet().opened(&self.name, adapter, peers);
        }
        running.child.id = id;
        running.child.owner.change(Arc::clone(&self.name));
        running.child.spawned = Instant::now();
        running.number = number;
        let assignment = self.assignment(Role::Bake, &rung);
        running.dispatcher.adopt(assignment);
        running.rung = rung;
        running.watch = watch(Role::Bake, self.kind.silence());
        running.watch.hello();
        self.listener.event(&Event::Started {
            role: Role::Bake,
            attempt: number,
            pid: running.child.pid,
            warm: true,
        });
        for account in &running.accounts {
            self.report.confined(Role::Bake, account.clone());
        }
        self.running.push(running);
        self.doubt_the_processor(self.running.len() - 1);
        let to = self.events.clone();
        tokio::spawn(async move {
            while let Some((_, event)) = events.recv().await {
                if to.send((id, event)).await.is_err() {
                    break;
                }
            }
        });
        self.dispatch();
    }
}

/// What a spare process must be like to bake a job on a rung.
pub(super) fn spare_key(spec: &Spec, rung: &Rung) -> Key {
    Key {
        warm: spec.warm_job(rung),
        program: spec.baker.clone(),
        sandbox: spec.sandbox,
        log_filter: spec.log_filter.clone(),
        threads: spec.threads,
    }
}

/// The end of a process that never existed.
fn unborn(role: Role, kill: Option<Kill>, exit: Exit) -> Ending {
    Ending {
        hello: false,
        kill,
        ..Ending::new(role, Phase::Start, exit)
    }
}
