//! Carries out a start that [`crate::life`] decided: asks the gate, then takes a warm spare or starts a fresh process.

use std::time::Instant;

use proto::message::{Phase, Role};
use tokio::sync::mpsc;

use super::lend::Loan;
use super::spare::Spare;
use super::{Job, Running, bury};
use crate::child::{self, ChildId};
use crate::dispatcher::Dispatcher;
use crate::event::Event;
use crate::gate::Entry;
use crate::host::Host;
use crate::ladder::Rung;
use crate::life;
use crate::procfs::Share;
use crate::verdict::{Ending, Exit, Kill, LastWords};
use crate::watch::{STALL_FLOOR, Watch, stall_cap};

/// A start that the gate holds back.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) role: Role,
    rung: Rung,
    pub(super) why: String,
}

/// The job's entry at the gate. It is cleared when the job ends, however it ends.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    pub(super) host: &'a Host,
    pub(super) job: std::sync::Arc<str>,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.host.gate().over(&self.job, Instant::now());
        self.host.leave_slot(&self.job);
    }
}

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
        let fault = crate::verdict::fault(&unborn(
            role,
            Some(Kill::JobOver),
            Exit::NotSpawned {
                error: String::new(),
                transient: true,
            },
        ));
        self.step(life::Event::Ended {
            role,
            fault: Box::new(fault),
            exit: Exit::Code(0),
            adapter: None,
            suspected: false,
        });
        true
    }

    fn try_spawn(&mut self, role: Role, rung: Rung) -> Option<Held> {
        let entry = (self.host.gate()).enter(&self.spec.name, role, &rung, Instant::now());
        match entry {
            Entry::Go(chosen, over) => {
                for line in over {
                    self.warning(role, &line);
                }
                self.launch(role, chosen);
            }
            Entry::Wait(why) => return Some(Held { role, rung, why }),
            Entry::Refuse(mut error) => {
                error.role = Some(role);
                // The life of the job waits for the end of what it started.
                self.held.push(Held {
                    role,
                    rung,
                    why: error.message.clone(),
                });
                self.step(life::Event::Stop(error));
            }
        }
        None
    }

    fn launch(&mut self, role: Role, mut rung: Rung) {
        self.children += 1;
        let id = ChildId(self.children);
        let number = self.starts.entry(role).or_default();
        *number += 1;
        let number = *number;
        if role == Role::Bake {
            rung.nth = self.host.fleet().enter(&self.spec.name, &rung);
            let key = self.spec.spare(&rung);
            // A spare may have been given cached pipelines.
            let spare = (!rung.unkept).then(|| self.host.spares().take(&key));
            if let Some(Spare {
                running,
                events,
                peers,
                ..
            }) = spare.flatten()
            {
                if let Some(adapter) = &running.adapter {
                    (self.host.fleet()).opened(&self.spec.name, adapter, peers);
                }
                self.adopt(id, number, rung, running, events);
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
                let group = self.host.enter(child.pid);
                let floor = self.spec.stall.unwrap_or(STALL_FLOOR);
                let cap = self.spec.stall.unwrap_or_else(|| stall_cap(role));
                self.running.push(Running {
                    child,
                    number,
                    watch: Watch::new(floor, cap, Instant::now()),
                    dispatcher: Dispatcher::new(rung),
                    loan: Loan::new(self.host.vault().clone()),
                    adapter: None,
                    accounts: Vec::new(),
                    answered: None,
                    kill: None,
                    group,
                    share: Share::default(),
                });
            }
            Err(exit) => {
                let grave = bury::Grave::unborn(number);
                self.buried(unborn(role, None, exit), false, grave);
            }
        }
    }

    /// Makes a spare process this job's own, and forwards its events to this job.
    fn adopt(
        &mut self,
        id: ChildId,
        number: u32,
        rung: Rung,
        mut running: Running,
        mut events: mpsc::Receiver<(ChildId, child::Event)>,
    ) {
        running.child.id = id;
        running.child.owner.change(self.spec.name.clone());
        running.child.spawned = Instant::now();
        running.number = number;
        running.dispatcher.adopt(rung);
        let floor = self.spec.stall.unwrap_or(STALL_FLOOR);
        let cap = self.spec.stall.unwrap_or_else(|| stall_cap(Role::Bake));
        running.watch = Watch::new(floor, cap, Instant::now());
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

/// The end of a process that never existed.
pub(super) fn unborn(role: Role, kill: Option<Kill>, exit: Exit) -> Ending {
    Ending {
        role,
        phase: Phase::Start,
        hello: false,
        adapter: None,
        failure: None,
        kill,
        exit,
        memory_kill: None,
        last: LastWords::default(),
    }
}
