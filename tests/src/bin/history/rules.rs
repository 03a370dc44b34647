//! Checks a history for broken guarantees.

use std::collections::{BTreeMap, BTreeSet};

use kiln_tests::history::{Expect, Line};
use serde_json::Value;

/// Most starts of a role.
const MAX_STARTS: u64 = 4;
/// Most crashes of a job before it must end.
const MAX_CRASHES: usize = 2;
/// Time after the supervisor's end within which its workers must be gone.
const WORKERS_GONE_US: u64 = 30_000_000;

/// The known state of a job.
#[derive(Default)]
struct Job<'a> {
    expect: Option<Expect>,
    golden: &'a str,
    starts: BTreeMap<String, u64>,
    terminal: Vec<&'a Value>,
    digest: Option<&'a str>,
    /// The torture killed its supervisor.
    orphaned: bool,
    /// One of its workers opened an adapter.
    opened: bool,
}

/// Every broken guarantee, one line each.
pub(crate) fn broken(lines: &[Line]) -> Vec<String> {
    let mut broken = Vec::new();
    let mut jobs: BTreeMap<&str, Job<'_>> = BTreeMap::new();
    let mut of_round: BTreeSet<&str> = BTreeSet::new();
    for line in lines {
        match line {
            Line::Round { .. } => of_round.clear(),
            Line::Accepted {
                job,
                expect,
                golden,
            } => {
                of_round.insert(job);
                let known = jobs.entry(job).or_default();
                if known.expect.replace(*expect).is_some() {
                    broken.push(format!("{job}: accepted twice"));
                }
                known.golden = golden;
            }
            Line::Fault { .. } => {}
            Line::Told { job, event } => {
                told(jobs.entry(job).or_default(), job, event, &mut broken);
            }
            Line::Terminal { job, event } => jobs.entry(job).or_default().terminal.push(event),
            Line::Output {
                job,
                digest,
                temporary,
            } => {
                jobs.entry(job).or_default().digest = digest.as_deref();
                if !temporary.is_empty() {
                    broken.push(format!("{job}: temporary files are left: {temporary:?}"));
                }
            }
            Line::Ended { killed, .. } => {
                if *killed {
                    for job in &of_round {
                        jobs.entry(job).or_default().orphaned = true;
                    }
                }
                let failed = of_round
                    .iter()
                    .filter_map(|name| jobs.get(name))
                    .any(|job| job.terminal.iter().any(|event| event["event"] == "error"));
                supervisor(line, failed, &mut broken);
            }
        }
    }
    for (name, job) in &jobs {
        ended(name, job, &mut broken);
    }
    broken
}

fn told<'a>(job: &mut Job<'a>, name: &str, event: &'a Value, broken: &mut Vec<String>) {
    match event["event"].as_str() {
        Some("started") => {
            let role = event["role"].as_str().unwrap_or_default().to_owned();
            let starts = job.starts.entry(role.clone()).or_default();
            *starts += 1;
            if *starts > MAX_STARTS {
                broken.push(format!("{name}: {role} was started {starts} times"));
            }
            if event["attempt"] != *starts {
                broken.push(format!(
                    "{name}: start {starts} of {role} is told as {}",
                    event["attempt"]
                ));
            }
        }
        Some("working") if event["role"] == "bake" => job.opened = true,
        _ => {}
    }
    if !job.terminal.is_empty() {
        broken.push(format!("{name}: something happened after its end: {event}"));
    }
}

fn ended(name: &str, job: &Job<'_>, broken: &mut Vec<String>) {
    let mut say = |what: String| broken.push(format!("{name}: {what}"));
    let Some(expect) = job.expect else {
        say("it was never accepted".to_owned());
        return;
    };
    if job.digest.is_some_and(|digest| digest != job.golden) {
        say(format!(
            "its output is {:?} and should be {}",
            job.digest, job.golden
        ));
    }
    match job.terminal[..] {
        [event] => {
            if event["event"] == "done" {
                if expect == Expect::Failed {
                    say("it was done, and should have failed".to_owned());
                }
                if job.digest.is_none() {
                    say("it was told as done, and there is no output".to_owned());
                }
            } else {
                if expect == Expect::Done {
                    say(format!("it failed, and should have been done: {event}"));
                }
                if job.digest.is_some() {
                    say("it was told as failed, and there is an output".to_owned());
                }
                evidence(job, event, &mut say);
            }
        }
        [] if job.orphaned => {}
        [] => say("it was accepted and never heard of again".to_owned()),
        _ => say(format!("it ended {} times", job.terminal.len())),
    }
}

/// Checks that a failure reports everything that a person needs.
fn evidence(job: &Job<'_>, error: &Value, say: &mut impl FnMut(String)) {
    let text = |key: &str| error[key].as_str().unwrap_or_default();
    for key in ["code", "class", "message"] {
        if text(key).is_empty() {
            say(format!("its error has no {key}: {error}"));
        }
    }
    if error.to_string().to_lowercase().contains("unknown") {
        say(format!("its error calls something unknown: {error}"));
    }
    if text("code") == "cancelled" {
        return;
    }
    for key in ["role", "phase"] {
        if text(key).is_empty() {
            say(format!("its error has no {key}: {error}"));
        }
    }
    let spawned = text("code") != "spawn_failed";
    if spawned && error["signal"].is_null() && error["exit"].is_null() {
        say(format!("its error has neither signal nor exit: {error}"));
    }
    if error["log_tail"].as_array().is_none_or(Vec::is_empty) {
        say(format!("its error has no last lines: {error}"));
    }
    if text("role") == "bake" && job.opened && error["device"].is_null() {
        say(format!("its error names no device: {error}"));
    }
    let Some(attempts) = error["attempts"].as_array().filter(|list| !list.is_empty()) else {
        say(format!("its error lists no attempts: {error}"));
        return;
    };
    let crashes = attempts
        .iter()
        .filter(|attempt| attempt["role"] == error["role"] && attempt["class"] == "ambiguous")
        .count();
    if crashes > MAX_CRASHES {
        say(format!("it crashed {crashes} times"));
    }
}

fn supervisor(line: &Line, failed: bool, broken: &mut Vec<String>) {
    let Line::Ended {
        exit,
        signal,
        killed,
        workers_left,
        workers_gone_us,
        holds,
    } = line
    else {
        return;
    };
    let mut say = |what: String| broken.push(format!("supervisor: {what}"));
    if *workers_left > 0 {
        say(format!("{workers_left} workers are left"));
    }
    if *workers_gone_us > WORKERS_GONE_US {
        say(format!(
            "the last worker went {workers_gone_us} µs after it"
        ));
    }
    if *killed {
        return;
    }
    if let Some(signal) = signal {
        say(format!("it died by signal {signal}"));
    }
    match exit {
        Some(0) if failed => say("it exits with 0, and a job failed".to_owned()),
        Some(code) if *code != 0 && !failed => {
            say(format!("it exits with {code}, and no job failed"));
        }
        Some(_) => {}
        None if signal.is_none() => say("it has neither exit code nor signal".to_owned()),
        None => {}
    }
    let [before, after] = &holds[..] else {
        say(format!("it told {} times what it holds", holds.len()));
        return;
    };
    for key in ["open_fds", "memfds", "children", "parked"] {
        if before[key] != after[key] {
            say(format!(
                "it holds {} {key} and held {}",
                after[key], before[key]
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn accepted(expect: Expect) -> Line {
        Line::Accepted {
            job: "a".into(),
            expect,
            golden: "right".into(),
        }
    }

    fn terminal(event: Value) -> Line {
        Line::Terminal {
            job: "a".into(),
            event,
        }
    }

    fn output(digest: Option<&str>) -> Line {
        Line::Output {
            job: "a".into(),
            digest: digest.map(str::to_owned),
            temporary: Vec::new(),
        }
    }

    fn end(exit: i32) -> Line {
        let held = json!({"open_fds": 9, "memfds": 0, "children": 0, "parked": 0});
        Line::Ended {
            exit: Some(exit),
            signal: None,
            killed: false,
            workers_left: 0,
            workers_gone_us: 10,
            holds: vec![held.clone(), held],
        }
    }

    fn round() -> Line {
        Line::Round {
            round: 0,
            kind: "saboteurs".into(),
        }
    }

    fn failure() -> Value {
        json!({
            "event": "error", "code": "worker_crashed", "class": "ambiguous", "message": "bake died", "role": "bake",
            "phase": "fit", "signal": "SIGSEGV", "log_tail": ["x"],
            "attempts": [{"role": "bake", "class": "ambiguous"}, {"role": "bake", "class": "ambiguous"}],
        })
    }

    fn done() -> Vec<Line> {
        vec![
            round(),
            accepted(Expect::Done),
            terminal(json!({"event": "done"})),
            end(0),
            output(Some("right")),
        ]
    }

    fn failed() -> Vec<Line> {
        vec![
            round(),
            accepted(Expect::Failed),
            terminal(failure()),
            end(70),
            output(None),
        ]
    }

    #[test]
    fn what_is_right_is_not_blamed() {
        assert_eq!(broken(&done()), Vec::<String>::new());
        assert_eq!(broken(&failed()), Vec::<String>::new());
    }

    /// Each promise, broken once: a line in another's place, and the words of what is said of it.
    #[test]
    fn every_broken_promise_is_seen() {
        let started = |attempt: u64| Line::Told {
            job: "a".into(),
            event: json!({"event": "started", "role": "bake", "attempt": attempt}),
        };
        let without = |key: &str, value: Value| {
            let mut error = failure();
            error[key] = value;
            terminal(error)
        };
        let crash = json!({"role": "bake", "class": "ambiguous"});
        let ended = |workers_left, workers_gone_us, signal: Option<i32>, count, more: u64| {
            let Line::Ended { mut holds, .. } = end(0) else {
                unreachable!()
            };
            holds[1]["open_fds"] = (9 + more).into();
            holds.truncate(count);
            Line::Ended {
                exit: signal.map_or(Some(0), |_| None),
                signal,
                killed: false,
                workers_left,
                workers_gone_us,
                holds,
            }
        };
        for (mut lines, place, line, words) in [
            (done(), 4, output(Some("wrong")), "its output is"),
            (done(), 4, output(None), "there is no output"),
            (done(), 1, accepted(Expect::Failed), "should have failed"),
            (failed(), 1, accepted(Expect::Done), "should have been done"),
            (
                failed(),
                4,
                output(Some("right")),
                "told as failed, and there is an output",
            ),
            (failed(), 3, end(0), "exits with 0, and a job failed"),
            (done(), 3, end(1), "no job failed"),
            (failed(), 2, without("code", Value::Null), "has no code"),
            (failed(), 2, without("phase", Value::Null), "has no phase"),
            (
                failed(),
                2,
                without("signal", Value::Null),
                "neither signal nor exit",
            ),
            (
                failed(),
                2,
                without("log_tail", Value::Null),
                "no last lines",
            ),
            (
                failed(),
                2,
                without("attempts", Value::Null),
                "lists no attempts",
            ),
            (
                failed(),
                2,
                without("message", "unknown".into()),
                "something unknown",
            ),
            (
                failed(),
                2,
                without("attempts", json!(vec![crash; 3])),
                "it crashed 3 times",
            ),
            (done(), 2, started(1), "never heard of again"),
            (done(), 3, ended(1, 10, None, 2, 0), "1 workers are left"),
            (
                done(),
                3,
                ended(0, WORKERS_GONE_US + 1, None, 2, 0),
                "the last worker went",
            ),
            (
                done(),
                3,
                ended(0, 10, Some(11), 2, 0),
                "it died by signal 11",
            ),
            (
                done(),
                3,
                ended(0, 10, None, 2, 1),
                "it holds 10 open_fds and held 9",
            ),
            (
                done(),
                3,
                ended(0, 10, None, 0, 0),
                "it told 0 times what it holds",
            ),
        ] {
            lines[place] = line;
            seen(&lines, words);
        }
        let with = |more: Vec<Line>| {
            let mut lines = done();
            lines.splice(3..3, more);
            lines
        };
        seen(
            &with(vec![terminal(json!({"event": "done"}))]),
            "it ended 2 times",
        );
        seen(&with(vec![started(1)]), "something happened after its end");
        seen(&with((1..=5).map(started).collect()), "was started 5 times");
    }

    fn seen(lines: &[Line], words: &str) {
        let told = broken(lines);
        let right = told.iter().any(|line| line.contains(words));
        assert!(right, "{words}: {told:?}");
    }
}
