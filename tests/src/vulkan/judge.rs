//! Judges a finished bake: right, or what is wrong with it.

use std::collections::HashSet;

use proto::exit;
use proto::message::Code;
use serde_json::Value;
use vkfault::{Action, Error, Fault};

use super::world::Finished;
use crate::Outcome;

/// A correct ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The same GLB, bit for bit, in one attempt.
    Same,
    /// The same GLB after a retry in a fresh process.
    Recovered,
    /// An error with this code, as in packets and the report.
    Failed(&'static str),
}

/// What a correct ending showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// How it ended.
    pub kind: Kind,
    /// Whether the fault happened. It does not if timing made the call unnecessary.
    pub struck: bool,
}

/// What is wrong with an ending.
pub type Violation = String;

/// Judges a bake with `fault`. `golden` is the file of the undisturbed bake; `device` is the adapter that was to bake.
///
/// # Errors
/// What is wrong.
pub fn judge(
    fault: &Fault,
    finished: &Finished,
    golden: &[u8],
    device: &str,
) -> Result<Seen, Violation> {
    if !finished.left.is_empty() {
        return Err(format!("left behind: {}", finished.left.join(", ")));
    }
    let Some(last) = finished.outcome.events.last() else {
        return Err("said nothing".to_owned());
    };
    retries(&finished.outcome)?;
    let struck = finished.struck();
    let kind = if last["event"] == "done" {
        success(last, finished, golden, device)?
    } else {
        failure(last, finished, fault, struck)?
    };
    if fault.action == Action::Drop && struck.is_some() && !matches!(kind, Kind::Failed(_)) {
        return Err("work was dropped, and the bake says that it is complete".to_owned());
    }
    Ok(Seen {
        kind,
        struck: struck.is_some(),
    })
}

/// Each code that a fault is told by costs at most one retry. One more may do without the pipelines that the first
/// attempt has left. A fault that lasts can be told by two codes: the call that it counts to is another one where
/// pipelines are compiled. Seconds are not judged, since they are the machine's load as well: a bake that does not end
/// runs into [`crate::DEADLINE`].
fn retries(outcome: &Outcome) -> Result<(), Violation> {
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let retries: Vec<(String, String)> = (outcome.events.iter())
        .filter(|event| event["event"] == "retry" && event["role"] == "bake")
        .map(|event| (text(event, "code"), text(event, "step")))
        .collect();
    let attempts = outcome.attempts("bake").len();
    if attempts > retries.len() + 1 {
        return Err(format!(
            "{attempts} attempts after {} retries",
            retries.len()
        ));
    }
    let mut codes = HashSet::new();
    let mut steps = HashSet::new();
    let twice = retries.iter().find(|(code, step)| {
        let told_before = step != "fresh_pipelines" && !codes.insert(code);
        !steps.insert(step) || told_before
    });
    twice.map_or(Ok(()), |(code, step)| {
        Err(format!(
            "a retry too many: {step} after {code}, of {retries:?}"
        ))
    })
}

fn success(
    done: &Value,
    finished: &Finished,
    golden: &[u8],
    wanted: &str,
) -> Result<Kind, Violation> {
    if finished.outcome.code != Some(0) {
        return Err(format!("done with exit code {:?}", finished.outcome.code));
    }
    let report = &done["report"];
    let device = report["device"]["name"].as_str().unwrap_or_default();
    if !device.contains(wanted) {
        return Err(format!("baked by {device:?} where {wanted} was asked for"));
    }
    match &finished.glb {
        None => return Err("done without a file".to_owned()),
        Some(glb) if glb != golden => {
            return Err("WRONG RESULT: the file differs from the undisturbed one".to_owned());
        }
        Some(_) => {}
    }
    let attempts = finished.outcome.attempts("bake").len();
    Ok(if attempts > 1 {
        Kind::Recovered
    } else {
        Kind::Same
    })
}

fn failure(
    error: &Value,
    finished: &Finished,
    fault: &Fault,
    struck: Option<&str>,
) -> Result<Kind, Violation> {
    let text = |field: &str| error[field].as_str().unwrap_or_default();
    let told = format!("{}: {}", text("code"), text("message"));
    let Some(struck) = struck else {
        return Err(format!("failed without a fault: {told}"));
    };
    if error["event"] != "error" {
        return Err(format!("the last line is {error}"));
    }
    let code: Code = serde_json::from_value(error["code"].clone())
        .map_err(|_unknown| format!("unknown code: {told}"))?;
    let wanted = Some(i32::from(exit::of(code)));
    if finished.outcome.code != wanted
        || error["exit_code"].as_i64().map(|code| code as i32) != wanted
    {
        return Err(format!("exit code {:?} for {told}", finished.outcome.code));
    }
    if finished.glb.is_some() {
        return Err(format!("left a file and failed: {told}"));
    }
    for field in ["class", "message", "role", "phase"] {
        if text(field).is_empty() {
            return Err(format!("no {field}: {told}"));
        }
    }
    if text("role") != "bake" || finished.outcome.attempts("bake").is_empty() {
        return Err(format!("not bake's attempts: {told}"));
    }
    let mut allowed = codes(
        fault.action,
        struck,
        !error["device"].is_null() && text("phase") != "gutter",
    );
    if text("message").contains("during open device")
        && matches!(fault.action, Action::Once(_) | Action::Sticky(_))
    {
        // Wgpu does not say why a device did not open.
        allowed.push(Code::GpuDeviceLost);
    }
    if !allowed.contains(&code) {
        return Err(format!("{struck} should end as {allowed:?}: {told}"));
    }
    Ok(Kind::Failed(name(code)))
}

/// Codes that are right for a fault of `action` at a command; `at_work`: an adapter was open and in use. Wgpu does not
/// say whose memory ran out.
fn codes(action: Action, command: &str, at_work: bool) -> Vec<Code> {
    let opening = matches!(
        command,
        "vkCreateInstance"
            | "vkCreateDevice"
            | "vkEnumeratePhysicalDevices"
            | "vkEnumerateDeviceExtensionProperties"
    );
    let compiling = matches!(
        command,
        "vkCreateShaderModule" | "vkCreateComputePipelines" | "vkCreateGraphicsPipelines"
    );
    let mut codes = match action {
        Action::Hang if at_work => return vec![Code::GpuHang],
        Action::Hang => return vec![Code::WorkerStalled],
        Action::Drop => return vec![Code::IncompleteOutput],
        Action::Once(error) | Action::Sticky(error) => match error {
            Error::OutOfHostMemory | Error::OutOfDeviceMemory => {
                vec![Code::OutOfDeviceMemory, Code::OutOfHostMemory]
            }
            Error::DeviceLost => vec![Code::GpuDeviceLost],
            Error::Unknown if compiling => vec![Code::GpuDeviceLost, Code::ShaderRejected],
            Error::Unknown => vec![Code::GpuDeviceLost],
        },
    };
    let memory = matches!(
        action,
        Action::Once(Error::OutOfHostMemory | Error::OutOfDeviceMemory)
            | Action::Sticky(Error::OutOfHostMemory | Error::OutOfDeviceMemory)
    );
    if memory && matches!(command, "vkAllocateMemory" | "vkMapMemory") {
        // Wgpu's allocator knows only a device out of memory, and only from the first command. Anything else counts as
        // a lost device.
        codes.push(Code::GpuDeviceLost);
    }
    if opening {
        // No adapter was found, or one that gives no device.
        codes.push(Code::NoAdapter);
    }
    codes
}

fn name(code: Code) -> &'static str {
    match code {
        Code::OutOfHostMemory => "out_of_host_memory",
        Code::OutOfDeviceMemory => "out_of_device_memory",
        Code::GpuDeviceLost => "gpu_device_lost",
        Code::ShaderRejected => "shader_rejected",
        Code::IncompleteOutput => "incomplete_output",
        Code::NoAdapter => "no_adapter",
        Code::GpuHang => "gpu_hang",
        Code::WorkerStalled => "worker_stalled",
        _ => "another",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    /// Adds retries before the last line.
    fn retried(mut finished: Finished, retries: &[(&str, &str)]) -> Finished {
        let events = retries.iter().map(
            |(code, step)| json!({"event": "retry", "role": "bake", "code": code, "step": step}),
        );
        finished.outcome.events.splice(0..0, events);
        finished
    }

    fn finished(code: i32, last: Value, glb: Option<&[u8]>, log: &[&str]) -> Finished {
        Finished {
            outcome: Outcome {
                code: Some(code),
                events: vec![last],
                ..Outcome::default()
            },
            glb: glb.map(<[u8]>::to_vec),
            left: Vec::new(),
            logs: vec![log.iter().map(|&call| call.to_owned()).collect()],
            time: Duration::ZERO,
        }
    }

    fn done(device: &str, attempts: usize) -> Value {
        let attempts = vec![json!({"role": "bake", "ended": "exit 0", "class": null}); attempts];
        json!({"event": "done", "report": {"device": {"name": device}, "attempts": attempts}})
    }

    fn error(code: &str, exit: i32) -> Value {
        json!({
            "event": "error", "code": code, "class": "ambiguous", "message": "device lost", "role": "bake", "phase": "fit",
            "exit_code": exit, "attempts": [{"role": "bake", "ended": "exit 70", "class": "ambiguous"}],
        })
    }

    /// The error of an adapter at work.
    fn hung() -> Value {
        let mut error = error("gpu_hang", 70);
        error["device"] = json!({"name": "llvmpipe"});
        error
    }

    fn verdict(fault: &str, finished: &Finished) -> Result<Kind, Violation> {
        judge(&fault.parse().expect(fault), finished, b"glTF", "llvmpipe").map(|seen| seen.kind)
    }

    #[test]
    fn right_ends_are_right() {
        let log = ["vkCreateDevice", "!vkQueueSubmit"];
        let same = finished(0, done("llvmpipe (x)", 1), Some(b"glTF"), &log);
        assert_eq!(verdict("once=-4@2", &same), Ok(Kind::Same));
        let once = [("gpu_device_lost", "same_plan")];
        let again = finished(0, done("llvmpipe (x)", 2), Some(b"glTF"), &log);
        assert_eq!(
            verdict("once=-4@2", &retried(again, &once)),
            Ok(Kind::Recovered)
        );
        let hung = finished(70, hung(), None, &log);
        assert_eq!(verdict("hang@2", &hung), Ok(Kind::Failed("gpu_hang")));
        let lost = finished(70, error("gpu_device_lost", 70), None, &log);
        assert_eq!(
            verdict("sticky=-4@2", &lost),
            Ok(Kind::Failed("gpu_device_lost"))
        );
        let two_codes = [
            ("gpu_device_lost", "same_plan"),
            ("gpu_device_lost", "fresh_pipelines"),
            ("out_of_device_memory", "smaller_plan"),
        ];
        let again = finished(0, done("llvmpipe", 4), Some(b"glTF"), &log);
        assert_eq!(
            verdict("once=-4@2", &retried(again, &two_codes)),
            Ok(Kind::Recovered)
        );
    }

    #[test]
    fn wrong_ends_are_violations() {
        let log = ["vkCreateDevice", "!vkQueueSubmit"];
        let all = |finished: Finished| (finished, "once=-4@2");
        let lost = || error("gpu_device_lost", 70);
        let lost_then = |step| ("gpu_device_lost", step);
        let after = |retries: &[(&str, &str)]| {
            let attempts = retries.len() + 1;
            let done = finished(0, done("llvmpipe", attempts), Some(b"glTF"), &log);
            retried(done, retries)
        };
        let mut process = finished(70, lost(), None, &log);
        process.left.push("kiln-baker bake".to_owned());
        let mut nameless = lost();
        nameless["phase"] = Value::Null;
        let mut silent = finished(70, lost(), None, &log);
        silent.outcome.events.clear();
        let wrong = [
            all(finished(0, done("llvmpipe", 1), Some(b"else"), &log)),
            all(finished(0, done("llvmpipe", 1), None, &log)),
            all(finished(
                0,
                done("processor (2 threads)", 1),
                Some(b"glTF"),
                &log,
            )),
            all(finished(1, done("llvmpipe", 1), Some(b"glTF"), &log)),
            all(finished(70, error("worker_crashed", 70), None, &log)),
            all(finished(70, error("internal", 70), None, &log)),
            all(finished(70, error("unknown", 70), None, &log)),
            all(finished(69, error("no_adapter", 69), None, &log)),
            all(finished(70, error("out_of_device_memory", 70), None, &log)),
            all(finished(65, lost(), None, &log)),
            all(finished(70, lost(), Some(b"glTF"), &log)),
            all(finished(70, nameless, None, &log)),
            all(finished(70, lost(), None, &["vkQueueSubmit"])),
            all(finished(0, done("llvmpipe", 2), Some(b"glTF"), &log)),
            all(after(&[lost_then("same_plan"), lost_then("other_adapter")])),
            all(after(&[lost_then("same_plan"), ("gpu_hang", "same_plan")])),
            all(process),
            all(silent),
            (
                finished(0, done("llvmpipe", 1), Some(b"glTF"), &log),
                "drop@2",
            ),
            (finished(70, lost(), None, &log), "drop@2"),
            (finished(70, lost(), None, &log), "hang@2"),
            (finished(70, error("gpu_hang", 70), None, &log), "hang@2"),
        ];
        for (finished, fault) in wrong {
            let verdict = verdict(fault, &finished);
            assert!(verdict.is_err(), "{verdict:?} for {fault} and {finished:?}");
        }
    }
}
