//! `kiln doctor`: reports what can bake on this machine, what is missing, and how to get it.
//!
//! The supervisor links no GPU library. It asks `kiln-baker doctor`, a process of its own under a deadline, since
//! drivers can hang and crash while adapters are merely listed. The answer is one JSON object:
//! `{"adapters":[{"name","backend","kind","driver","limits":{…}}],"problems":[{"what","how_to_mend"}]}`.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use proto::blob::Blob;
use proto::exit;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;

use crate::host::pipelines;
use crate::print::result;
use crate::words::printable;

/// A cold NVIDIA driver takes 2 s to start; several broken ones in a row are slow, too.
const DEADLINE: Duration = Duration::from_secs(20);
/// Bound of the answer: a machine with eight adapters needs 20 KiB.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// Something that prevents a bake, or a fast one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// What is missing or broken.
    pub what: String,
    /// How to get or fix it.
    pub how_to_mend: String,
}

/// A device that can bake.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Adapter {
    /// As `--device` takes it, in whole or in part.
    pub name: String,
    /// `vulkan`, `metal`, `dx12` or `native`.
    pub backend: String,
    /// `discrete`, `integrated`, `virtual`, `software` or `native`.
    pub kind: String,
    /// Driver and version.
    pub driver: String,
    /// Limits that a bake may reach, by name.
    pub limits: Map<String, Value>,
}

/// The answer of `kiln-baker doctor`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Findings {
    /// Devices, best first.
    pub adapters: Vec<Adapter>,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// Asks, prints and returns the exit code: 0 if a bake can run, for which a worker that starts is enough.
pub async fn run(baker: &Path, json: bool) -> u8 {
    let (mut findings, usable) = match ask(baker).await {
        Ok(findings) => (findings, true),
        Err((problem, starts)) => (
            Findings {
                problems: vec![problem],
                ..Findings::default()
            },
            starts,
        ),
    };
    findings.problems.extend(own_problems());
    if json {
        let mut object = serde_json::to_value(&findings).unwrap_or_default();
        if let Value::Object(object) = &mut object {
            object.insert("kiln".to_owned(), proto::BUILD_ID.into());
            object.insert("can_bake".to_owned(), usable.into());
            let kept = pipelines::default_folder().map(|folder| folder.display().to_string());
            object.insert("pipeline_cache".to_owned(), kept.into());
        }
        result(&object.to_string());
    } else {
        for line in lines(&findings, usable) {
            result(&line);
        }
    }
    if usable { exit::OK } else { exit::UNAVAILABLE }
}

/// The worker's findings, or the problem that prevented them and whether the worker can start at all.
async fn ask(baker: &Path) -> Result<Findings, (Problem, bool)> {
    let problem = |what: String, mend: &str| Problem {
        what,
        how_to_mend: mend.to_owned(),
    };
    let spawned = Command::new(baker)
        .arg("doctor")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let mut process = spawned.map_err(|error| {
        let what = format!("{} cannot be started: {error}", baker.display());
        (
            problem(what, "kiln-baker belongs beside kiln: ./run.sh builds both"),
            false,
        )
    })?;
    let mut answer = Vec::new();
    let stdout = process.stdout.take();
    let conversation = async {
        if let Some(stdout) = stdout {
            stdout
                .take(MAX_ANSWER_BYTES)
                .read_to_end(&mut answer)
                .await?;
        }
        process.wait().await
    };
    let ended = timeout(DEADLINE, conversation).await;
    let driver = "a graphics driver may be broken; --device cpu bakes without one";
    let status = match ended {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => {
            return Err((problem(format!("kiln-baker doctor: {error}"), driver), true));
        }
        Err(_elapsed) => {
            if let Err(error) = process.kill().await {
                tracing::debug!(%error, "kill");
            }
            let what = format!(
                "kiln-baker doctor did not answer within {} s and was killed",
                DEADLINE.as_secs()
            );
            return Err((problem(what, driver), true));
        }
    };
    match serde_json::from_slice(&answer) {
        Ok(findings) if status.success() => Ok(findings),
        _ => Err((
            problem(
                format!("kiln-baker doctor gave no answer ({status})"),
                driver,
            ),
            true,
        )),
    }
}

/// Problems of the supervisor's own needs.
fn own_problems() -> Vec<Problem> {
    let sealed = Blob::create("kiln-doctor", 1).and_then(|blob| blob.seal_written());
    let what = match sealed {
        Ok(()) => return Vec::new(),
        Err(error) => format!(
            "shared memory that can be sealed is not to be had: {}",
            crate::words::chain(&error)
        ),
    };
    vec![Problem {
        what,
        how_to_mend: "allow memfd_create in the container's seccomp profile".to_owned(),
    }]
}

fn lines(findings: &Findings, usable: bool) -> Vec<String> {
    let mut lines = vec![format!("kiln {}", proto::BUILD_ID)];
    for Adapter {
        name,
        backend,
        kind,
        driver,
        limits,
    } in &findings.adapters
    {
        let driver = if driver.is_empty() {
            String::new()
        } else {
            format!(", driver {driver}")
        };
        lines.push(format!("adapter: {name} ({kind}, {backend}{driver})"));
        lines.extend(
            limits
                .iter()
                .map(|(limit, value)| format!("    {limit}: {value}")),
        );
    }
    if let Some(folder) = pipelines::default_folder() {
        lines.push(format!("compiled stages are kept in {}", folder.display()));
    }
    for Problem { what, how_to_mend } in &findings.problems {
        lines.push(format!("problem: {what}"));
        if !how_to_mend.is_empty() {
            lines.push(format!("    how to mend it: {how_to_mend}"));
        }
    }
    lines.push(
        match (
            usable,
            findings
                .adapters
                .iter()
                .any(|adapter| !is_software(adapter)),
        ) {
            (false, _) => "kiln cannot bake here".to_owned(),
            (true, true) => "kiln can bake here, on a GPU".to_owned(),
            (true, false) => "kiln can bake here, on the processor".to_owned(),
        },
    );
    lines.iter().map(|line| printable(line, 1024)).collect()
}

fn is_software(adapter: &Adapter) -> bool {
    matches!(adapter.kind.as_str(), "software" | "native")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_and_problems_become_lines() {
        let text = r#"{"adapters":[{"name":"llvmpipe","backend":"vulkan","kind":"software","driver":"Mesa 22.3.6",
            "limits":{"max_buffer_size":134217728}}],"problems":[{"what":"no GPU","how_to_mend":"add one"}],"more":1}"#;
        let findings: Findings = serde_json::from_str(text).expect("the agreed shape");
        let lines = lines(&findings, true).join("\n");
        for part in [
            "adapter: llvmpipe (software, vulkan, driver Mesa 22.3.6)",
            "    max_buffer_size: 134217728",
            "problem: no GPU\n    how to mend it: add one",
            "can bake here, on the processor",
        ] {
            assert!(lines.contains(part), "{part:?} is not in:\n{lines}");
        }
    }
}
