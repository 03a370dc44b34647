//! Counters of the sidecar, as `OpenMetrics`. Names start with `kiln_`, units are base units, and no label names a job.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

use crate::process::procfs::Holdings;
use crate::report::Report;
use crate::words::word;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    outcome: String,
    code: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Exit {
    role: String,
    how: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Class {
    class: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Request {
    route: String,
    status: u16,
}

/// All metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    jobs: Family<Outcome, Counter>,
    seconds: Histogram,
    exits: Family<Exit, Counter>,
    retries: Family<Class, Counter>,
    requests: Family<Request, Counter>,
    queued: Gauge,
    queued_bytes: Gauge,
    running: Gauge,
    open_fds: Gauge,
    memfds: Gauge,
    unkillable: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        // A draft takes a second, an 8192² texture on a slow machine half an hour.
        let bounds = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 180.0, 600.0, 1800.0];
        let mut registry = Registry::with_prefix("kiln");
        let of = &mut registry;
        let seconds = Histogram::new(bounds);
        Self {
            jobs: new(of, "jobs", "Jobs that ended"),
            seconds: {
                let help = "From a job's begin to its end";
                of.register_with_unit("job_duration", help, Unit::Seconds, seconds.clone());
                seconds
            },
            exits: new(of, "worker_exits", "Worker processes that ended"),
            retries: new(of, "retries", "Processes that took a failed one's place"),
            requests: new(of, "http_requests", "Requests that were answered"),
            queued: new(of, "queue_jobs", "Jobs that wait"),
            queued_bytes: {
                let (help, bytes) = ("Inputs of the jobs that wait", Gauge::default());
                of.register_with_unit("queue", help, Unit::Bytes, bytes.clone());
                bytes
            },
            running: new(of, "running_jobs", "Jobs at work"),
            open_fds: new(of, "open_fds", "Open descriptors"),
            memfds: new(of, "memfds", "Tables in shared memory"),
            unkillable: new(of, "unkillable_workers", "Killed, and still there"),
            registry: Mutex::new(registry),
        }
    }
}

/// A registered metric.
fn new<M: Metric + Clone + Default>(of: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    of.register(name, help, metric.clone());
    metric
}

impl Metrics {
    /// Counts a job that has ended.
    pub fn job(&self, report: &Report, time: Duration) {
        let (outcome, code) = match &report.error {
            None => ("succeeded", String::new()),
            Some(error) => ("failed", error.code.name().to_owned()),
        };
        let outcome = outcome.to_owned();
        self.jobs.get_or_create(&Outcome { outcome, code }).inc();
        self.seconds.observe(time.as_secs_f64());
        for attempt in &report.attempts {
            let role = attempt.role.name().to_owned();
            // Without durations, each of which would be a label of its own: `stalled for 2.1 s`.
            let how = attempt
                .ended
                .split(" for ")
                .next()
                .unwrap_or_default()
                .to_owned();
            self.exits.get_or_create(&Exit { role, how }).inc();
            if let Some(class) = &attempt.class {
                let class = word(class);
                self.retries.get_or_create(&Class { class }).inc();
            }
        }
    }

    /// Counts an answered request.
    pub fn request(&self, route: &str, status: u16) {
        let route = route.to_owned();
        self.requests
            .get_or_create(&Request { route, status })
            .inc();
    }

    /// The metrics as text, with current gauges.
    pub fn text(&self, queue: crate::store::Queue, running: usize, holds: &Holdings) -> String {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.queued.set(number(queue.jobs));
        self.queued_bytes.set(number(queue.bytes));
        self.running.set(number(running as u64));
        self.open_fds.set(number(holds.open_fds as u64));
        self.memfds.set(number(holds.memfds as u64));
        self.unkillable.set(number(holds.parked as u64));
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if encode(&mut text, &registry).is_err() {
            tracing::error!("metrics cannot be written");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_shown_in_the_words_of_openmetrics() {
        let metrics = Metrics::default();
        metrics.request("/v1/jobs", 202);
        metrics.request("/v1/jobs", 202);
        let queue = crate::store::Queue { jobs: 3, bytes: 70 };
        let text = metrics.text(queue, 2, &Holdings::count(0));
        for line in [
            "kiln_http_requests_total{route=\"/v1/jobs\",status=\"202\"} 2",
            "kiln_queue_jobs 3",
            "kiln_queue_bytes 70",
            "kiln_running_jobs 2",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is not in\n{text}"
            );
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
