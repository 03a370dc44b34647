//! Losses of one adapter that several jobs meet at once → whose fault it was. Pure.
//!
//! A reset of a GPU takes every process's device away, and none of them knows who caused it. Losses of one adapter within
//! [`WINDOW`] by different jobs are one incident: all of its jobs count as victims, and until each of them has baked or is
//! over, bakes on the adapter take turns. Who loses the adapter while it has the turn was alone on it, and so is at fault.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Losses that lie closer together have one cause.
pub const WINDOW: Duration = Duration::from_secs(2);

/// A job by its name.
pub type JobName = Arc<str>;

#[derive(Debug, Default)]
struct Incident {
    /// Have lost the adapter and not baked alone since.
    suspects: HashSet<JobName>,
    /// Who may bake now.
    turn: Option<JobName>,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Incidents {
    /// Adapter, job, time.
    recent: Vec<(String, JobName, Instant)>,
    by_adapter: HashMap<String, Incident>,
}

impl Incidents {
    /// A job lost an adapter. Tells whether it is a victim, as far as anyone can say.
    pub fn lost(&mut self, adapter: &str, job: &JobName, now: Instant) -> bool {
        self.recent
            .retain(|(_, _, time)| now.saturating_duration_since(*time) < WINDOW);
        let mut others: HashSet<JobName> = self
            .recent
            .iter()
            .filter(|(other, name, _)| other == adapter && name != job)
            .map(|(_, name, _)| Arc::clone(name))
            .collect();
        self.recent.push((adapter.to_owned(), Arc::clone(job), now));
        if let Some(incident) = self.by_adapter.get_mut(adapter) {
            if incident.turn.as_ref() == Some(job) {
                incident.turn = None;
                incident.suspects.remove(job);
                // Losses before this one are explained.
                self.recent.retain(|(other, _, _)| other != adapter);
                self.settle(adapter);
                return false;
            }
            incident.suspects.insert(Arc::clone(job));
            return true;
        }
        if others.is_empty() {
            return false;
        }
        others.insert(Arc::clone(job));
        self.by_adapter.insert(
            adapter.to_owned(),
            Incident {
                suspects: others,
                turn: None,
            },
        );
        true
    }

    /// Whether a job may bake on any of the adapters that `meets` names: it takes the turn of every incident there.
    pub fn turn(&mut self, job: &JobName, meets: impl Fn(&str) -> bool) -> bool {
        let taken = |incident: &Incident| incident.turn.as_ref().is_some_and(|turn| turn != job);
        let mut met = self
            .by_adapter
            .iter_mut()
            .filter(|(adapter, _)| meets(adapter))
            .map(|(_, incident)| incident);
        if met.any(|incident| taken(incident)) {
            return false;
        }
        for (adapter, incident) in &mut self.by_adapter {
            if meets(adapter) {
                incident.turn = Some(Arc::clone(job));
            }
        }
        true
    }

    /// A job's bake has ended; `done`: well, on this adapter.
    pub fn ended(&mut self, job: &JobName, done: Option<&str>) {
        for (adapter, incident) in &mut self.by_adapter {
            if incident.turn.as_ref() == Some(job) {
                incident.turn = None;
            }
            if done == Some(adapter) {
                incident.suspects.remove(job);
            }
        }
        self.settle_all();
    }

    /// A job is over, or has left these adapters for another.
    pub fn over(&mut self, job: &JobName) {
        for incident in self.by_adapter.values_mut() {
            incident.suspects.remove(job);
            if incident.turn.as_ref() == Some(job) {
                incident.turn = None;
            }
        }
        self.settle_all();
    }

    fn settle(&mut self, adapter: &str) {
        self.by_adapter.retain(|name, incident| {
            name != adapter || !incident.suspects.is_empty() || incident.turn.is_some()
        });
    }

    fn settle_all(&mut self) {
        self.by_adapter
            .retain(|_, incident| !incident.suspects.is_empty() || incident.turn.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs() -> [JobName; 3] {
        ["a", "b", "c"].map(Arc::from)
    }

    const HERE: fn(&str) -> bool = |adapter| adapter == "gpu";

    #[test]
    fn a_lone_loss_is_the_jobs_own() {
        let mut incidents = Incidents::default();
        let [a, b, _] = jobs();
        let now = Instant::now();
        assert!(!incidents.lost("gpu", &a, now));
        assert!(!incidents.lost("gpu", &a, now), "twice the same job");
        assert!(!incidents.lost("other", &b, now), "another adapter");
        assert!(!incidents.lost("gpu", &b, now + WINDOW), "later");
        assert!(incidents.turn(&a, HERE) && incidents.turn(&b, HERE));
    }

    #[test]
    fn jobs_that_lose_an_adapter_together_are_replayed_one_at_a_time() {
        let mut incidents = Incidents::default();
        let [a, b, c] = jobs();
        let now = Instant::now();
        assert!(!incidents.lost("gpu", &a, now), "nobody knows yet");
        assert!(incidents.lost("gpu", &b, now));
        assert!(incidents.lost("gpu", &c, now));
        // The first one's repetition was under way: it did not have the turn, so it says nothing.
        assert!(incidents.lost("gpu", &a, now));
        assert!(incidents.turn(&b, HERE));
        assert!(!incidents.turn(&a, HERE) && !incidents.turn(&c, HERE));
        assert!(incidents.turn(&c, |adapter| adapter == "other"));
        incidents.ended(&b, Some("gpu"));
        // The guilty one is found: alone, and lost.
        assert!(incidents.turn(&a, HERE));
        assert!(!incidents.lost("gpu", &a, now));
        assert!(incidents.turn(&c, HERE));
        incidents.ended(&c, Some("gpu"));
        assert!(incidents.by_adapter.is_empty());
        assert!(incidents.turn(&a, HERE) && incidents.turn(&b, HERE));
    }

    #[test]
    fn a_job_that_is_over_holds_nobody_back() {
        let mut incidents = Incidents::default();
        let [a, b, c] = jobs();
        let now = Instant::now();
        incidents.lost("gpu", &a, now);
        incidents.lost("gpu", &b, now);
        assert!(incidents.turn(&a, HERE));
        incidents.over(&a);
        assert!(incidents.turn(&c, HERE), "one that was not there, too");
        incidents.ended(&c, Some("gpu"));
        incidents.over(&b);
        assert!(incidents.by_adapter.is_empty());
    }
}
