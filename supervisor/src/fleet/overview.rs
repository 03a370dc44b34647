//! `kiln fleet`: the queue's counts and the hosts' heartbeats → a table for people, one JSON object, or `OpenMetrics`.

use kiln_fleet::queue::Depth;
use kiln_fleet::record::Beat;
use kiln_fleet::{Queue, ledger, now_ms};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use proto::exit;
use serde_json::json;

use super::Place;
use crate::remote::RemoteError;
use crate::screen;
use crate::words::printable;

/// How a fleet is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A table.
    People,
    /// One JSON object.
    Json,
    /// `OpenMetrics`.
    Metrics,
}

/// Shows the fleet. Returns the exit code.
pub async fn show(place: &Place, form: Form) -> u8 {
    match look(place).await {
        Ok((depth, hosts)) => {
            let now = now_ms();
            match form {
                Form::People => table(&depth, &hosts, now),
                Form::Json => screen::result(&object(&depth, &hosts, now)),
                Form::Metrics => screen::result(metrics(&depth, &hosts, now).trim_end()),
            }
            exit::OK
        }
        Err(error) => {
            let told = error.report();
            match form {
                Form::Json => {
                    let mut line = json!(told);
                    line["event"] = "error".into();
                    screen::result(&line.to_string());
                }
                Form::People | Form::Metrics => screen::refuse(&told.message, &told.hint),
            }
            told.exit_code
        }
    }
}

async fn look(place: &Place) -> Result<(Depth, Vec<Beat>), RemoteError> {
    let hosts = ledger::hosts(&place.bucket()?).await?;
    let queue = Queue::connect(&place.access("_INBOX".to_owned(), "kiln fleet"), false).await?;
    Ok((queue.depth().await?, hosts))
}

/// Seconds since a moment.
fn since(ms: u64, now_ms: u64) -> u64 {
    now_ms.saturating_sub(ms) / 1000
}

fn is_silent(beat: &Beat, now_ms: u64) -> bool {
    now_ms.saturating_sub(beat.at_ms) >= Beat::FRESH_MS
}

fn object(depth: &Depth, hosts: &[Beat], now: u64) -> String {
    let host = |beat: &Beat| {
        let mut host = json!(beat);
        host["beat_age_s"] = since(beat.at_ms, now).into();
        host["silent"] = is_silent(beat, now).into();
        host
    };
    let hosts: Vec<_> = hosts.iter().map(host).collect();
    json!({ "queue": depth, "hosts": hosts }).to_string()
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Host {
    host: String,
}

/// The fleet as `OpenMetrics`, in the names and units of the sidecar's own.
fn metrics(depth: &Depth, hosts: &[Beat], now: u64) -> String {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let mut registry = Registry::with_prefix("kiln_fleet");
    for (name, help, value) in [
        ("waiting_jobs", "Jobs that no host has", depth.waiting),
        ("taken_jobs", "Jobs that hosts have", depth.taken as u64),
        (
            "redelivered_jobs",
            "Jobs among them that were handed out again",
            depth.redelivered as u64,
        ),
        ("dead_jobs", "Results in KILN_DEAD", depth.dead),
        (
            "oldest_job_seconds",
            "Age of the oldest job",
            depth.oldest_s.unwrap_or(0),
        ),
    ] {
        let gauge = Gauge::<i64>::default();
        gauge.set(number(value));
        registry.register(name, help, gauge);
    }
    type Value<'a> = &'a dyn Fn(&Beat) -> u64;
    let of_host: [(&str, &str, Value<'_>); 6] = [
        ("host_slots", "Jobs that it takes at once", &|beat| {
            beat.slots as u64
        }),
        ("host_running_jobs", "Jobs at work", &|beat| {
            beat.running.len() as u64
        }),
        ("host_resting", "1 if it takes no jobs", &|beat| {
            u64::from(beat.resting.is_some())
        }),
        (
            "host_succeeded_jobs",
            "Jobs done since it started",
            &|beat| beat.succeeded,
        ),
        (
            "host_failed_attempts",
            "Attempts that failed since it started",
            &|beat| beat.failed,
        ),
        (
            "host_heartbeat_age_seconds",
            "Age of its heartbeat",
            &|beat| since(beat.at_ms, now),
        ),
    ];
    for (name, help, value) in of_host {
        let family = Family::<Host, Gauge>::default();
        for beat in hosts {
            let host = beat.host.clone();
            family
                .get_or_create(&Host { host })
                .set(number(value(beat)));
        }
        registry.register(name, help, family);
    }
    let mut text = String::new();
    if encode(&mut text, &registry).is_err() {
        tracing::error!("metrics cannot be written");
    }
    text
}

fn table(depth: &Depth, hosts: &[Beat], now: u64) {
    let oldest = depth.oldest_s;
    let oldest = oldest.map_or(String::new(), |age| format!(", the oldest for {age} s"));
    let Depth {
        waiting,
        taken,
        redelivered,
        dead,
        ..
    } = depth;
    screen::result(&format!(
        "{waiting} jobs wait, {taken} are taken ({redelivered} of them again){oldest}; {dead} dead"
    ));
    let row = |cells: [&str; 6]| {
        let [host, slots, oldest, done, failed, state] = cells;
        let row = format!("{host:<24}  {slots:>7}  {oldest:>8}  {done:>7}  {failed:>6}  {state}");
        screen::result(row.trim_end());
    };
    if !hosts.is_empty() {
        row(["HOST", "AT WORK", "OLDEST", "DONE", "FAILED", "STATE"]);
    }
    for beat in hosts {
        let oldest = beat.running.iter().map(|job| job.since_ms).min();
        let state = match &beat.resting {
            _ if is_silent(beat, now) => format!("silent for {} s", since(beat.at_ms, now)),
            Some(why) => format!("rests: {why}"),
            None if beat.adapters.is_empty() => "takes jobs".to_owned(),
            None => beat.adapters.join(", "),
        };
        row([
            &beat.host,
            &format!("{}/{}", beat.running.len(), beat.slots),
            &oldest.map_or(String::new(), |ms| format!("{} s", since(ms, now))),
            &beat.succeeded.to_string(),
            &beat.failed.to_string(),
            &printable(&state, 120),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_a_heartbeat_is_silent_and_its_age_is_told() {
        let beat = |at_ms| Beat {
            host: "one".to_owned(),
            at_ms,
            since_ms: 0,
            version: String::new(),
            slots: 2,
            running: Vec::new(),
            resting: None,
            adapters: Vec::new(),
            succeeded: 0,
            failed: 0,
        };
        let now = 1_000_000;
        let told = object(
            &Depth::default(),
            &[beat(now - 1_000), beat(now - 90_000)],
            now,
        );
        let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
        let silent: Vec<_> = told["hosts"]
            .as_array()
            .expect("hosts")
            .iter()
            .map(|host| host["silent"].clone())
            .collect();
        assert_eq!(silent, [false, true]);
        assert_eq!(told["hosts"][1]["beat_age_s"], 90);
        let metrics = metrics(
            &Depth {
                waiting: 3,
                ..Depth::default()
            },
            &[beat(now - 2_000)],
            now,
        );
        for line in [
            "kiln_fleet_waiting_jobs 3",
            "kiln_fleet_host_slots{host=\"one\"} 2",
            "kiln_fleet_host_heartbeat_age_seconds{host=\"one\"} 2",
            "# EOF",
        ] {
            assert!(
                metrics.lines().any(|found| found == line),
                "{line} is not in\n{metrics}"
            );
        }
    }
}
