//! Facts about the machine of the measurement, without its name or anything that identifies it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// Facts that times depend on; an unknown one is `null`.
pub(crate) fn facts(kiln: &Path) -> Value {
    let version = Command::new(kiln).arg("--version").output().ok();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let kib = field("/proc/meminfo", "MemTotal");
    let kib = kib.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    let load = fs::read_to_string("/proc/loadavg").ok();
    let load = load.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    json!({
        "kiln": version,
        "cpu": field("/proc/cpuinfo", "model name"),
        "cores": std::thread::available_parallelism().ok().map(usize::from),
        "memory_mib": kib.map(|kib| kib / 1024),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned()),
        // Load by other work before the first bake: if above zero, the times are upper limits.
        "load_before": load,
    })
}

/// The facts as a line for a reader of the table.
pub(crate) fn line(facts: &Value) -> String {
    let text = |name: &str| match &facts[name] {
        Value::String(text) => text.clone(),
        Value::Null => format!("unknown {name}"),
        other => other.to_string(),
    };
    format!(
        "{} cores of {}, {}; load before it began {}",
        text("cores"),
        text("cpu"),
        text("kiln"),
        text("load_before")
    )
}
