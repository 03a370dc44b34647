//! Computes figures from a history: faults by kind, and times to detection and recovery.

use std::collections::BTreeMap;

use kiln_tests::history::Line;
use serde_json::Value;

/// A process, by job, role and attempt.
type Process = (String, String, u64);

#[derive(Default)]
struct Times {
    /// From a death at a known moment to its report.
    noticed: Vec<u64>,
    /// From the start of a stall at a known moment to the kill.
    stalled: Vec<u64>,
    /// From the report of a kill for a stall to the process's end.
    killed: Vec<u64>,
    /// From a reported death to the moment when the role's next process has its job.
    mended: Vec<u64>,
}

pub(crate) fn print(lines: &[Line]) {
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    let mut faults: BTreeMap<Process, (&str, u64)> = BTreeMap::new();
    let (mut told, mut killing) = (BTreeMap::new(), BTreeMap::new());
    let (mut jobs, mut done, mut failed, mut supervisors) = (0, 0, 0, 0);
    let mut times = Times::default();
    let mut rss: Vec<(u64, u64)> = Vec::new();
    for line in lines {
        if let Line::Fault {
            job,
            role,
            attempt,
            fault,
            at_us,
        } = line
        {
            let kind = fault.split(['(', ' ']).next().unwrap_or(fault);
            *kinds.entry(kind.to_owned()).or_default() += 1;
            let process = (job.clone(), role.name().to_owned(), u64::from(*attempt));
            faults.insert(process, (fault, *at_us));
        }
    }
    for line in lines {
        match line {
            Line::Round { .. } => supervisors += 1,
            Line::Accepted { .. } => jobs += 1,
            // Taken first: a worker's own account is read after its supervisor has ended.
            Line::Fault { .. } => {}
            Line::Told { job, event } => {
                let key = key(job, event);
                let at = event["monotonic_us"].as_u64().unwrap_or(0);
                match event["event"].as_str() {
                    Some("killing") if event["why"] == "stall" => {
                        if let Some((fault, began)) = faults.get(&key)
                            && fault.starts_with("Stall")
                        {
                            times.stalled.push(at.saturating_sub(*began));
                        }
                        killing.insert(key, at);
                    }
                    Some("ended") => {
                        if let Some((fault, began)) = faults.get(&key)
                            && deadly(fault)
                        {
                            times.noticed.push(at.saturating_sub(*began));
                        }
                        if let Some(killed) = killing.get(&key) {
                            times.killed.push(at.saturating_sub(*killed));
                        }
                        told.insert(key, at);
                    }
                    Some("working") => {
                        let (job, role, attempt) = key;
                        if let Some(died) = told.get(&(job, role, attempt.saturating_sub(1))) {
                            times.mended.push(at.saturating_sub(*died));
                        }
                    }
                    _ => {}
                }
            }
            Line::Terminal { event, .. } if event["event"] == "done" => done += 1,
            Line::Terminal { .. } => failed += 1,
            Line::Ended { holds, .. } => {
                let kib = |value: Option<&Value>| value.and_then(|held| held["rss_kib"].as_u64());
                if let (Some(before), Some(after)) = (kib(holds.first()), kib(holds.last())) {
                    rss.push((before, after));
                }
            }
            Line::Output { .. } => {}
        }
    }
    let total: u64 = kinds.values().sum();
    println!(
        "{total} faults in {jobs} jobs under {supervisors} supervisors: {done} done, {failed} failed"
    );
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    println!("  {}", kinds.join(" · "));
    row("death noticed", times.noticed);
    row("stall noticed", times.stalled);
    row("stall: told to be killed → gone", times.killed);
    row("fault → same role at work again", times.mended);
    let largest = rss.iter().map(|(_, after)| *after).max().unwrap_or(0);
    println!("supervisor: {largest} KiB resident at most, after its last job");
}

fn key(job: &str, event: &Value) -> Process {
    let role = event["role"].as_str().unwrap_or_default().to_owned();
    (job.to_owned(), role, event["attempt"].as_u64().unwrap_or(0))
}

/// Whether the process is gone the moment the fault is committed.
fn deadly(fault: &str) -> bool {
    (fault.starts_with("Signal(") && fault != "Signal(19)")
        || (fault.starts_with("kill ") && fault != "kill SIGSTOP")
}

fn row(name: &str, mut times: Vec<u64>) {
    if times.is_empty() {
        return;
    }
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    println!(
        "{name}: p50 {:.2} ms, p99 {:.2} ms, longest {:.2} ms, of {}",
        at(0.5),
        at(0.99),
        at(1.0),
        times.len()
    );
}
