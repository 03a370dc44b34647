//! What [`crate::life`] decided → done.

use std::time::Instant;

use proto::message::{Code, Phase, Role};

use super::{Job, Running, bury, commit};
use crate::child::ChildId;
use crate::event::Event;
use crate::feed::{Feed, encode_views};
use crate::ladder::Rung;
use crate::life::{self, Action};
use crate::procfs::Share;
use crate::verdict::{Ending, LastWords};
use crate::watch::{STALL_FLOOR, Watch, stall_cap};

impl Job<'_> {
    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Spawn { role, rung } => self.spawn(role, rung),
            Action::Wait { role, delay } => self.delayed.push((Instant::now() + delay, role)),
            Action::Retry {
                role,
                fault,
                step,
                delay,
            } if fault.code != Code::Cancelled => self.listener.event(&Event::Retry {
                role,
                fault: &fault,
                step,
                delay,
            }),
            // It only gets the tables of its input's successor: nothing was wrong with it.
            Action::Retry { .. } => {}
            Action::Kill { role, why } => {
                let mut running = self.running.iter_mut();
                if let Some(running) = running.find(|running| running.child.role == role) {
                    running.kill(why, self.listener);
                }
            }
            Action::Discard(role) => self.stock.discard(role),
            Action::ReleaseInputs => {
                let keep = encode_views(self.stock.views(), self.spec.preview.is_some());
                self.stock.release_bake_inputs(&keep);
            }
            Action::Stage => {
                self.report.ladder = self.life.tried().to_vec();
                self.report.product = self.life.rung().product;
                let staging = commit::stage(self.spec, &self.stock, &mut self.report, self.started);
                self.staging = Some(staging);
            }
            Action::Name => {
                let named = match self.staged.take() {
                    Some(batch) => batch.commit(),
                    None => Ok(()),
                };
                self.step(life::Event::Named(named));
            }
            Action::Unstage => self.staged = None,
            Action::Finish(outcome) => self.outcome = Some(outcome),
        }
    }

    fn spawn(&mut self, role: Role, rung: Rung) {
        self.children += 1;
        let id = ChildId(self.children);
        let number = self.starts.entry(role).or_default();
        *number += 1;
        let number = *number;
        match self.launcher.spawn(id, role, self.events.clone()) {
            Ok(child) => {
                self.listener.event(&Event::Started {
                    role,
                    attempt: number,
                    pid: child.pid,
                });
                let floor = self.spec.stall.unwrap_or(STALL_FLOOR);
                let group = self.host.enter(child.pid);
                let cap = self.spec.stall.unwrap_or_else(|| stall_cap(role));
                self.running.push(Running {
                    child,
                    number,
                    watch: Watch::new(floor, cap, Instant::now()),
                    feed: Feed::new(rung),
                    adapter: None,
                    answered: None,
                    kill: None,
                    group,
                    share: Share::default(),
                });
            }
            Err(exit) => {
                let ending = Ending {
                    role,
                    phase: Phase::Start,
                    hello: false,
                    adapter: None,
                    failure: None,
                    kill: None,
                    exit,
                    memory_kill: None,
                    last: LastWords::default(),
                };
                self.buried(ending, false, bury::Grave::unborn(number));
            }
        }
    }
}
