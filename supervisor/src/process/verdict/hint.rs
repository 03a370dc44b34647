//! Suggests how a person can fix what ended a process.

use nix::libc;
use proto::message::{Code, Role};

use crate::process::reserve;
use crate::process::verdict::{Ending, Exit, Kill};

pub(super) fn hint(ending: &Ending, code: Code) -> String {
    let hint = match (code, ending.role, &ending.exit) {
        (Code::BinaryMismatch, ..) => {
            "install kiln and kiln-baker of one build side by side: ./run.sh builds both"
        }
        (
            Code::SpawnFailed,
            _,
            Exit::NotSpawned {
                transient: false, ..
            },
        ) => "kiln-baker belongs beside kiln: ./run.sh builds both",
        (Code::SpawnFailed, ..) if matches!(ending.kill, Some(Kill::Short(_))) => {
            return reserve::need();
        }
        (Code::SpawnFailed, ..) => {
            "this host is short of processes, memory or descriptors (ulimit -a): fewer jobs at once need less"
        }
        (Code::OutOfHostMemory, ..) => {
            "a smaller --texture-size or fewer or smaller views need less memory"
        }
        // The supervisor did not send this signal itself.
        (Code::WorkerCrashed, _, Exit::Signal(libc::SIGKILL)) if ending.kill.is_none() => {
            "if nobody killed it, the machine ran out of memory: a smaller --texture-size or fewer views need less"
        }
        (Code::WorkerCrashed | Code::WorkerStalled, Role::Bake, _)
            if (ending.adapter.as_ref()).is_some_and(|adapter| adapter.kind == "native") =>
        {
            "no driver had a part in it: please report it with what was kept"
        }
        (Code::WorkerCrashed | Code::WorkerStalled | Code::GpuHang, Role::Bake, _) => {
            "kiln doctor shows adapters and drivers; --device cpu bakes without any driver"
        }
        // Prepare is deterministic, so the input causes this.
        (Code::WorkerCrashed | Code::WorkerStalled, Role::Prepare, _) => {
            "the mesh or a picture probably triggers a bug: -v shows what prepare was doing"
        }
        (Code::ProtocolViolation, ..) => {
            "this is a bug of kiln-baker: please report it with the lines below"
        }
        (Code::SandboxUnavailable, ..) => {
            "kiln doctor says what this system lacks; --insecure-no-sandbox bakes without, for input that you trust"
        }
        (Code::SandboxViolation, ..) => {
            "a driver may need a call that Kiln does not know yet: please report it; --insecure-no-sandbox bakes without"
        }
        _ => "",
    };
    hint.to_owned()
}
