//! `kiln doctor`: reports what can bake on this machine, what is missing, and how to get it.
//!
//! The supervisor links no GPU library. It asks `kiln-baker doctor`, a process of its own under a deadline, since
//! drivers can hang and crash while adapters are merely listed. The answer is one JSON object:
//! `{"adapters":[{"name","backend","kind","driver","limits":{…}}],"problems":[{"what","how_to_mend"}],
//! "sandbox":{"level","missing",…}}`. What the Vulkan loader writes meanwhile, and the nodes in `/dev`, tell why a GPU that is there was not found.

mod loader;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::unistd::{AccessFlags, access};
use proto::blob::Blob;
use proto::exit;
use proto::sandbox::{Level, Sandbox};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

use self::loader::{Loader, WHOLE_NVIDIA};
use crate::host::{nodes, pipelines};
use crate::print::result;
use crate::process::sandbox::enough;
use crate::words::printable;

/// A cold NVIDIA driver takes 2 s to start; several broken ones in a row are slow, too.
const DEADLINE: Duration = Duration::from_secs(20);
/// Bound of the answer, and of the loader's words: a machine with eight adapters needs 20 KiB.
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
    /// What a bake gives up here before it gets data.
    pub sandbox: Option<Sandbox>,
}

/// Asks, prints and returns the exit code: 0 if a bake can run, for which a worker that starts is enough.
pub async fn run(baker: &Path, json: bool) -> u8 {
    let mut loader = Loader::default();
    let asked = ask(baker, &mut loader).await;
    let answered = asked.is_ok();
    let (mut findings, usable) = match asked {
        Ok(findings) => (findings, true),
        Err((problem, starts)) => (
            Findings {
                problems: vec![problem],
                ..Findings::default()
            },
            starts,
        ),
    };
    let confined = (findings.sandbox.as_ref()).is_none_or(|sandbox| enough(sandbox.level));
    let usable = usable && confined;
    findings
        .problems
        .extend(findings.sandbox.as_ref().and_then(unconfined));
    findings.problems.append(&mut loader.problems);
    findings.problems.extend(own_problems());
    if answered && findings.adapters.iter().all(is_software) {
        let gpus = nodes::gpus(Path::new("/dev"));
        findings.problems.extend(no_gpu(&gpus, &loader, may_open));
    }
    if json {
        let mut object = serde_json::to_value(&findings).unwrap_or_default();
        if let Value::Object(object) = &mut object {
            object.insert("kiln".to_owned(), proto::BUILD_ID.into());
            object.insert("can_bake".to_owned(), usable.into());
            let kept = pipelines::default_folder().map(|folder| folder.display().to_string());
            object.insert("pipeline_cache".to_owned(), kept.into());
            object.insert("vulkan_loader".to_owned(), loader.version.into());
        }
        result(&object.to_string());
    } else {
        for line in lines(&findings, usable) {
            result(&line);
        }
    }
    if usable { exit::OK } else { exit::UNAVAILABLE }
}

/// The worker's findings, or the problem that prevented them and whether the worker can start at all; and the words of the
/// Vulkan loader in it.
async fn ask(baker: &Path, loader: &mut Loader) -> Result<Findings, (Problem, bool)> {
    let problem = |what: String, mend: &str| Problem {
        what,
        how_to_mend: mend.to_owned(),
    };
    let spawned = Command::new(baker)
        .arg("doctor")
        .env(loader::ASK.0, loader::ASK.1)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
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
    let (mut answer, mut words) = (Vec::new(), Vec::new());
    let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
    let conversation = async {
        let (answered, said) =
            tokio::join!(bounded(stdout, &mut answer), bounded(stderr, &mut words));
        answered.and(said)?;
        process.wait().await
    };
    let ended = timeout(DEADLINE, conversation).await;
    *loader = Loader::read(&String::from_utf8_lossy(&words));
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

/// Reads a pipe to its end; what exceeds the bound is dropped, so that the writer goes on.
async fn bounded(pipe: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) -> io::Result<()> {
    if let Some(mut pipe) = pipe {
        let mut most = (&mut pipe).take(MAX_ANSWER_BYTES);
        most.read_to_end(into).await?;
        tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await?;
    }
    Ok(())
}

fn may_open(node: &Path) -> bool {
    access(node, AccessFlags::R_OK | AccessFlags::W_OK).is_ok()
}

/// Why no GPU bakes: `gpus` are the nodes in `/dev`, of which this user may open some.
fn no_gpu(gpus: &[PathBuf], loader: &Loader, may_open: impl Fn(&Path) -> bool) -> Vec<Problem> {
    let Some(first) = gpus.first() else {
        return vec![Problem {
            what: "no GPU is there; bakes run on the processor".to_owned(),
            how_to_mend: "install the driver of a GPU that /dev does not show, and in a container pass the GPU in; for a software adapter to test \
                 with, apt-get install mesa-vulkan-drivers"
                .to_owned(),
        }];
    };
    let mut problems = Vec::new();
    let mut problem = |why: &str, how_to_mend: &str| {
        problems.push(Problem {
            what: format!(
                "{} is there, but no driver gave a GPU: {why}",
                first.display()
            ),
            how_to_mend: how_to_mend.to_owned(),
        });
    };
    let shut = gpus.iter().find(|node| !may_open(node));
    let of_nvidia = gpus.iter().any(|node| node.ends_with("nvidia0"));
    let manifest = (loader.manifests.iter()).any(|path| !of_nvidia || path.contains("nvidia"));
    if let Some(node) = shut {
        problem(
            &format!("this user may not open {}", node.display()),
            "join the group of that node (ls -l names it, mostly render or video); a container takes it by --group-add",
        );
    }
    if !loader.there {
        problem(
            "there is no Vulkan loader, libvulkan.so.1",
            "apt-get install libvulkan1",
        );
    } else if !manifest && of_nvidia {
        problem(
            "no manifest of NVIDIA's Vulkan driver is there",
            WHOLE_NVIDIA,
        );
    } else if !manifest {
        problem(
            "no manifest of a Vulkan driver is there",
            "apt-get install mesa-vulkan-drivers",
        );
    } else if shut.is_none() {
        problem(
            &format!("the loader read {}", loader.manifests.join(", ")),
            "what does not load is named above; else the driver does not fit this GPU or the kernel's part of it, or the GPU has no Vulkan",
        );
    }
    problems
}

/// Why jobs are refused here, whose workers cannot be confined.
fn unconfined(sandbox: &Sandbox) -> Option<Problem> {
    (!enough(sandbox.level)).then(|| Problem {
        what: format!(
            "workers cannot be confined here ({}): {}",
            sandbox.level.name(),
            sandbox.missing
        ),
        how_to_mend: "let the container's seccomp profile allow seccomp and landlock_*; within another sandbox that you trust, \
             or for input that you trust, --insecure-no-sandbox bakes without"
            .to_owned(),
    })
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
    if let Some(sandbox) = &findings.sandbox {
        let Sandbox {
            level,
            landlock_abi,
            missing,
            ..
        } = sandbox;
        lines.push(match level {
            Level::Full => format!("sandbox: full, with Landlock {landlock_abi}"),
            level => format!("sandbox: {}: {missing}", level.name()),
        });
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
            "limits":{"max_buffer_size":134217728}}],"problems":[{"what":"no GPU","how_to_mend":"add one"}],"more":1,
            "sandbox":{"level":"no_landlock","landlock_abi":0,"seccomp_filters":6,"allowed_calls":44,"missing":"Landlock: none"}}"#;
        let findings: Findings = serde_json::from_str(text).expect("the agreed shape");
        let lines = lines(&findings, true).join("\n");
        for part in [
            "adapter: llvmpipe (software, vulkan, driver Mesa 22.3.6)",
            "    max_buffer_size: 134217728",
            "sandbox: no_landlock: Landlock: none",
            "problem: no GPU\n    how to mend it: add one",
            "can bake here, on the processor",
        ] {
            assert!(lines.contains(part), "{part:?} is not in:\n{lines}");
        }
    }

    #[test]
    fn a_gpu_that_is_there_and_not_found_has_a_reason_and_a_way_out() {
        let loader = |manifests: &[&str]| Loader {
            there: true,
            manifests: manifests.iter().map(|&path| path.to_owned()).collect(),
            ..Loader::default()
        };
        let (nvidia, mesa) = ("/dev/nvidia0", "/dev/dri/renderD128");
        let icd = "/etc/vulkan/icd.d/nvidia_icd.json";
        for (gpus, loader, opens, whys) in [
            (&[][..], Loader::default(), true, &["no GPU is there"][..]),
            (
                &[nvidia][..],
                Loader::default(),
                true,
                &["no Vulkan loader"],
            ),
            (
                &[mesa],
                loader(&[]),
                true,
                &["no manifest of a Vulkan driver"],
            ),
            (
                &[mesa, nvidia],
                loader(&["lvp_icd.json"]),
                true,
                &["no manifest of NVIDIA's"],
            ),
            (
                &[mesa],
                loader(&["radeon_icd.json"]),
                false,
                &["may not open /dev/dri/renderD128"],
            ),
            (
                &[nvidia],
                loader(&[]),
                false,
                &["may not open", "no manifest of NVIDIA's"],
            ),
            (
                &[nvidia],
                loader(&[icd]),
                true,
                &["the loader read /etc/vulkan/icd.d/nvidia_icd.json"],
            ),
        ] {
            let gpus: Vec<PathBuf> = gpus.iter().map(PathBuf::from).collect();
            let problems = no_gpu(&gpus, &loader, |_| opens);
            assert_eq!(problems.len(), whys.len(), "{problems:#?}");
            for (problem, why) in problems.iter().zip(whys) {
                assert!(problem.what.contains(why), "{why}: {problem:#?}");
                assert!(!problem.how_to_mend.is_empty(), "{problem:#?}");
            }
        }
    }
}
