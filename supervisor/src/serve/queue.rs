//! Chooses the next queued job: clients take turns, and each client's jobs keep their order.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use crate::store::JobId;

/// Queued jobs by client.
#[derive(Debug, Default)]
pub(super) struct Queue {
    by_client: BTreeMap<String, VecDeque<JobId>>,
    /// The client whose turn was last.
    last: String,
}

impl Queue {
    /// Appends a job to its client's others.
    pub(super) fn push(&mut self, client: &str, id: JobId) {
        let jobs = self.by_client.entry(client.to_owned()).or_default();
        jobs.push_back(id);
    }

    /// Removes a job; `false` if it was not queued.
    pub(super) fn remove(&mut self, id: JobId) -> bool {
        let mut found = false;
        for jobs in self.by_client.values_mut() {
            jobs.retain(|job| {
                found |= *job == id;
                *job != id
            });
        }
        found
    }

    /// Removes and returns the next job.
    pub(super) fn next(&mut self) -> Option<JobId> {
        self.by_client.retain(|_, jobs| !jobs.is_empty());
        let after = (Bound::Excluded(self.last.clone()), Bound::Unbounded);
        let client = (self.by_client.range(after).next())
            .or_else(|| self.by_client.iter().next())
            .map(|(client, _)| client.clone())?;
        let job = self.by_client.get_mut(&client)?.pop_front();
        self.last = client;
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job id made from a number.
    fn id(number: u8) -> JobId {
        format!("{number:032x}").parse().expect("an id")
    }

    #[test]
    fn clients_take_turns_and_their_jobs_keep_their_order() {
        let mut queue = Queue::default();
        for (client, job) in [
            ("a", 1),
            ("a", 2),
            ("a", 3),
            ("b", 11),
            ("c", 21),
            ("c", 22),
        ] {
            queue.push(client, id(job));
        }
        assert!(queue.remove(id(21)));
        assert!(!queue.remove(id(21)));
        let order: Vec<JobId> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(order, [1, 11, 22, 2, 3].map(id));
        queue.push("b", id(12));
        assert_eq!(queue.next(), Some(id(12)));
        assert_eq!(queue.next(), None);
    }
}
