//! Finds which job is at fault when several lose one adapter at once. Pure.
//!
//! A reset of a GPU takes the device from every process, and none of them knows who caused it. Losses of one adapter by
//! different jobs within [`WINDOW`] are one incident, and all of its jobs count as victims. Bakes on that adapter then
//! take turns until each of these jobs has baked or is over. A job that loses the adapter during its turn was alone on
//! it, so it is at fault.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Losses that lie closer together than this have one cause.
pub const WINDOW: Duration = Duration::from_secs(2);

/// A job's name.
pub type JobName = Arc<str>;

#[derive(Debug, Default)]
struct Incident {
    /// Jobs that lost the adapter and have not baked alone since.
    suspects: HashSet<JobName>,
    /// The job that may bake now.
    turn: Option<JobName>,
}

#[derive(Debug)]
struct Loss {
    adapter: String,
    job: JobName,
    time: Instant,
    /// The job has baked there since, or is over.
    settled: bool,
}

/// All recent losses and open incidents; see the head of this file.
#[derive(Debug, Default)]
pub struct Incidents {
    recent: Vec<Loss>,
    by_adapter: HashMap<String, Incident>,
}

impl Incidents {
    /// A job lost an adapter. Returns whether it counts as a victim, as far as is known.
    pub fn lost(&mut self, adapter: &str, job: &JobName, now: Instant) -> bool {
        self.recent
            .retain(|loss| now.saturating_duration_since(loss.time) < WINDOW);
        let others =
            (self.recent.iter()).filter(|loss| loss.adapter == adapter && loss.job != *job);
        let alone = others.clone().count() == 0;
        let mut suspects: HashSet<JobName> = others
            .filter(|loss| !loss.settled)
            .map(|loss| Arc::clone(&loss.job))
            .collect();
        self.recent.push(Loss {
            adapter: adapter.to_owned(),
            job: Arc::clone(job),
            time: now,
            settled: false,
        });
        if let Some(incident) = self.by_adapter.get_mut(adapter) {
            if incident.turn.as_ref() == Some(job) {
                incident.turn = None;
                incident.suspects.remove(job);
                // This loss explains the earlier ones.
                self.recent.retain(|loss| loss.adapter != adapter);
                self.settle(adapter);
                return false;
            }
            incident.suspects.insert(Arc::clone(job));
            return true;
        }
        if alone {
            return false;
        }
        suspects.insert(Arc::clone(job));
        let turn = None;
        (self.by_adapter).insert(adapter.to_owned(), Incident { suspects, turn });
        true
    }

    /// Whether a job may bake on the adapters for which `meets` is true. If so, it takes the turn of every incident
    /// there.
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

    /// A job's bake has ended. `done` is the adapter on which it succeeded.
    pub fn ended(&mut self, job: &JobName, done: Option<&str>) {
        for (adapter, incident) in &mut self.by_adapter {
            if incident.turn.as_ref() == Some(job) {
                incident.turn = None;
            }
            if done == Some(adapter) {
                incident.suspects.remove(job);
            }
        }
        for loss in &mut self.recent {
            loss.settled |= loss.job == *job && done == Some(&loss.adapter);
        }
        self.settle_all();
    }

    /// A job is over, or has moved from these adapters to another.
    pub fn over(&mut self, job: &JobName) {
        for incident in self.by_adapter.values_mut() {
            incident.suspects.remove(job);
            if incident.turn.as_ref() == Some(job) {
                incident.turn = None;
            }
        }
        for loss in &mut self.recent {
            loss.settled |= loss.job == *job;
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
    use proptest::prelude::*;

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
        // The first job's retry was already running without the turn, so its loss proves nothing.
        assert!(incidents.lost("gpu", &a, now));
        assert!(incidents.turn(&b, HERE));
        assert!(!incidents.turn(&a, HERE) && !incidents.turn(&c, HERE));
        assert!(incidents.turn(&c, |adapter| adapter == "other"));
        incidents.ended(&b, Some("gpu"));
        // The job at fault is found: it was alone and lost the adapter.
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

    #[test]
    fn who_has_baked_since_or_is_over_is_no_suspect_and_still_a_witness() {
        let [a, b, c] = jobs();
        let now = Instant::now();
        for over in [false, true] {
            let mut incidents = Incidents::default();
            incidents.lost("gpu", &a, now);
            match over {
                true => incidents.over(&a),
                false => incidents.ended(&a, Some("gpu")),
            }
            assert!(incidents.lost("gpu", &b, now), "two jobs lost it");
            assert!(incidents.turn(&b, HERE) && !incidents.turn(&c, HERE));
            incidents.ended(&b, Some("gpu"));
            assert!(incidents.by_adapter.is_empty(), "over: {over}");
        }
    }

    /// The state of a job that loses the adapter once and then bakes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Stand {
        First,
        Waits,
        Again,
        Baked,
        Over,
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn whatever_the_order_one_waits_for_the_other_and_nothing_is_left(
            order in prop::collection::vec((0..4_usize, 0..8), 40),
        ) {
            let jobs: Vec<JobName> = ["a", "b", "c", "d"].map(Arc::from).into();
            let mut stands = vec![Stand::First; jobs.len()];
            let mut incidents = Incidents::default();
            let now = Instant::now();
            // Whatever the order, every job comes to an end.
            for (k, chance) in order.into_iter().chain((0..4).cycle().map(|k| (k, 1)).take(64)) {
                let job = &jobs[k];
                stands[k] = match stands[k] {
                    // Cancelled.
                    Stand::Waits | Stand::Again if chance == 0 => {
                        incidents.over(job);
                        Stand::Over
                    }
                    Stand::First => {
                        incidents.lost("gpu", job, now);
                        incidents.ended(job, None);
                        Stand::Waits
                    }
                    Stand::Waits if incidents.turn(job, HERE) => Stand::Again,
                    Stand::Again => {
                        incidents.ended(job, Some("gpu"));
                        Stand::Baked
                    }
                    Stand::Baked => {
                        incidents.over(job);
                        Stand::Over
                    }
                    stand @ (Stand::Waits | Stand::Over) => stand,
                };
                let again = stands.iter().filter(|&&stand| stand == Stand::Again);
                // The first job's retry may have begun before the incident was known.
                prop_assert!(again.count() <= 2);
            }
            prop_assert_eq!(stands, [Stand::Over; 4]);
            prop_assert!(incidents.by_adapter.is_empty());
        }
    }
}
