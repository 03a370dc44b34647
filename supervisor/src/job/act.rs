//! Carries out what [`crate::job::life`] decided.

use std::time::Instant;

use proto::message::Code;

use super::{Job, commit};
use crate::event::Event;
use crate::job::life::{self, Action};
use crate::process::dispatcher::encode_views;

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
            // Nothing was wrong with this process: it only starts over because prepare makes new tables.
            Action::Retry { .. } => {}
            Action::Kill { role, .. } if self.forgo(role) => {}
            Action::Kill { role, why } => {
                let mut running = self.running.iter_mut();
                if let Some(running) = running.find(|running| running.child.role == role) {
                    running.kill(why, self.listener);
                }
            }
            Action::Discard(role) => self.tables.discard(role),
            Action::ReleaseInputs => {
                let keep = encode_views(self.tables.views(), self.kind.shown_views());
                self.tables.release_bake_inputs(&keep);
            }
            Action::Stage => {
                self.report.ladder = self.life.tried().to_vec();
                let staging =
                    commit::stage(self.kind, &self.tables, &mut self.report, self.started);
                self.staging = Some(staging);
            }
            Action::Name => {
                let named = match self.staged.take() {
                    Some(batch) => batch.commit(&self.given),
                    None => Ok(()),
                };
                self.step(life::JobEvent::Named(named));
            }
            Action::Unstage => self.staged = None,
            Action::Finish(outcome) => self.outcome = Some(outcome),
        }
    }
}
