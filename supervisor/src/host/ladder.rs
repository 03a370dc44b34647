//! What a retried bake does differently: same plan → smaller plan → other adapter → software adapter → vertex colours.
//! Pure.
//!
//! [`steps`] is the table of the steps that may help against a fault. The caller's [`Policy`] limits it, and [`climb`]
//! takes no step twice. The report names the rung on which a job was done.

use proto::job::{Device, Memory, Product};
use proto::message::{AdapterInfo, Code};
use serde::{Deserialize, Serialize};

use crate::process::verdict::{Exit, Fault};

/// A step from one rung to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Without the pipelines that an earlier process cached.
    FreshPipelines,
    /// In a fresh process, with nothing else changed.
    SamePlan,
    /// With a quarter of the memory.
    SmallerPlan,
    /// On another adapter than the one that failed.
    OtherAdapter,
    /// On the processor, without any driver.
    SoftwareAdapter,
    /// With one colour per vertex instead of a texture.
    VertexColours,
}

impl Step {
    /// For messages, after "trying again".
    pub fn describe(self) -> &'static str {
        match self {
            Self::FreshPipelines => "with freshly compiled stages",
            Self::SamePlan => "in a fresh process",
            Self::SmallerPlan => "with a quarter of the memory",
            Self::OtherAdapter => "on another adapter",
            Self::SoftwareAdapter => "on the processor",
            Self::VertexColours => "with a colour for each vertex in place of a texture",
        }
    }
}

/// How a bake is to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rung {
    /// The adapter to use.
    pub device: Device,
    /// Names of adapters that failed and are avoided.
    pub avoid: Vec<String>,
    /// Index among adapters that would do equally well: see [`crate::host::fleet`].
    #[serde(skip)]
    pub nth: u32,
    /// The memory to plan with.
    pub memory: Memory,
    /// What to make.
    pub product: Product,
    /// Neither reads nor writes the pipeline cache.
    #[serde(skip)]
    pub unkept: bool,
}

/// How far up the ladder a job may climb.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    clap::ValueEnum,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// At most a fresh process.
    SamePlan,
    /// Also a quarter of the memory.
    SmallerPlan,
    /// Also another adapter or the processor, if `--device auto` leaves the choice.
    #[default]
    Adapters,
    /// Also a colour for each vertex, rather than no result.
    VertexColours,
}

impl Policy {
    fn allows(self, step: Step) -> bool {
        match step {
            Step::FreshPipelines | Step::SamePlan => true,
            Step::SmallerPlan => self >= Self::SmallerPlan,
            Step::OtherAdapter | Step::SoftwareAdapter => self >= Self::Adapters,
            Step::VertexColours => self >= Self::VertexColours,
        }
    }
}

/// The steps that may help against a fault of bake, mildest first.
pub fn steps(code: Code, exit: &Exit, adapter: Option<&AdapterInfo>) -> &'static [Step] {
    use Step::{OtherAdapter, SamePlan, SmallerPlan, SoftwareAdapter, VertexColours};
    let driver = adapter.is_some_and(|adapter| adapter.kind != "native");
    match code {
        Code::OutOfHostMemory => &[SmallerPlan, VertexColours],
        Code::OutOfDeviceMemory => &[SmallerPlan, OtherAdapter, SoftwareAdapter, VertexColours],
        Code::GpuDeviceLost | Code::GpuHang => &[SamePlan, OtherAdapter, SoftwareAdapter],
        // The same adapter would fail again.
        Code::ShaderRejected | Code::IncompleteOutput => &[OtherAdapter, SoftwareAdapter],
        // A second crash is the last. If a driver may be at fault, the only retry uses no driver.
        Code::WorkerCrashed if driver && exit.is_own_doing() => &[SoftwareAdapter, SamePlan],
        Code::WorkerCrashed
        | Code::WorkerStalled
        | Code::ProtocolViolation
        | Code::SandboxViolation
        | Code::SpawnFailed
        | Code::IoError
        | Code::Internal => &[SamePlan],
        Code::InvalidSpec
        | Code::InvalidAsset
        | Code::MissingInput
        | Code::LimitExceeded
        | Code::UnsupportedFeature
        | Code::NoAdapter
        | Code::DeadlineExceeded
        | Code::OutputError
        | Code::Cancelled
        | Code::BinaryMismatch
        | Code::SandboxUnavailable => &[],
    }
}

/// The mildest step that is allowed, possible and not tried yet, with the rung that it leads to.
pub fn climb(
    rung: &Rung,
    tried: &[Step],
    policy: Policy,
    fault: &Fault,
    exit: &Exit,
    adapter: Option<&AdapterInfo>,
) -> Option<(Step, Rung)> {
    steps(fault.code, exit, adapter)
        .iter()
        .filter(|step| policy.allows(**step) && !tried.contains(step))
        .find_map(|&step| Some((step, on(rung, step, adapter)?)))
}

/// The rung that a step leads to; `None` where the step changes nothing.
fn on(rung: &Rung, step: Step, adapter: Option<&AdapterInfo>) -> Option<Rung> {
    let mut next = rung.clone();
    let driver = adapter.filter(|adapter| adapter.kind != "native");
    match step {
        Step::FreshPipelines => next.unkept = true,
        Step::SamePlan => {}
        Step::SmallerPlan => {
            if next.memory == Memory::Small {
                return None;
            }
            next.memory = Memory::Small;
        }
        Step::OtherAdapter => {
            if !matches!(rung.device, Device::Auto | Device::Gpu) {
                return None;
            }
            next.avoid.push(driver?.name.clone());
        }
        Step::SoftwareAdapter => {
            if rung.device != Device::Auto || driver.is_none() {
                return None;
            }
            next.device = Device::Cpu;
        }
        Step::VertexColours => {
            if rung.product == Product::VertexColours {
                return None;
            }
            next = Rung {
                device: Device::Cpu,
                avoid: Vec::new(),
                nth: 0,
                memory: Memory::Small,
                product: Product::VertexColours,
                unkept: rung.unkept,
            };
        }
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::verdict::RetryClass;

    fn adapter(kind: &str) -> AdapterInfo {
        AdapterInfo {
            name: format!("the {kind} one"),
            kind: kind.to_owned(),
            ..AdapterInfo::default()
        }
    }

    /// Climbs until no rung is left.
    fn ladder(code: Code, signal: i32, device: Device, kind: &str, policy: Policy) -> Vec<Step> {
        let fault = Fault {
            code,
            class: RetryClass::of(code),
            message: String::new(),
            hint: String::new(),
        };
        let mut rung = Rung {
            device,
            ..Rung::default()
        };
        let mut tried = Vec::new();
        while let Some((step, next)) = climb(
            &rung,
            &tried,
            policy,
            &fault,
            &Exit::Signal(signal),
            Some(&adapter(kind)),
        ) {
            tried.push(step);
            rung = next;
        }
        tried
    }

    #[test]
    fn each_fault_climbs_its_own_rungs_once() {
        use Step::{OtherAdapter, SamePlan, SmallerPlan, SoftwareAdapter, VertexColours};
        let all = Policy::VertexColours;
        let auto = || Device::Auto;
        assert_eq!(
            ladder(Code::OutOfDeviceMemory, 0, auto(), "discrete", all),
            [SmallerPlan, OtherAdapter, SoftwareAdapter, VertexColours]
        );
        assert_eq!(
            ladder(Code::OutOfHostMemory, 9, auto(), "native", all),
            [SmallerPlan, VertexColours]
        );
        assert_eq!(
            ladder(Code::GpuDeviceLost, 0, auto(), "discrete", all),
            [SamePlan, OtherAdapter, SoftwareAdapter]
        );
        assert_eq!(
            ladder(Code::ShaderRejected, 0, auto(), "discrete", all),
            [OtherAdapter, SoftwareAdapter]
        );
        assert_eq!(ladder(Code::InvalidAsset, 0, auto(), "discrete", all), []);
    }

    #[test]
    fn a_crash_in_a_driver_is_repeated_without_one_and_a_kill_is_not_blamed_on_it() {
        use Step::{SamePlan, SoftwareAdapter};
        let first = |signal, kind| {
            ladder(
                Code::WorkerCrashed,
                signal,
                Device::Auto,
                kind,
                Policy::default(),
            )
            .first()
            .copied()
        };
        assert_eq!(first(11, "discrete"), Some(SoftwareAdapter));
        assert_eq!(first(9, "discrete"), Some(SamePlan));
        assert_eq!(first(11, "native"), Some(SamePlan));
    }

    #[test]
    fn a_device_that_was_asked_for_is_never_left_and_the_policy_binds() {
        let lost = |device, policy| ladder(Code::GpuDeviceLost, 0, device, "discrete", policy);
        assert_eq!(
            lost(Device::Name("x".into()), Policy::VertexColours),
            [Step::SamePlan]
        );
        assert_eq!(
            lost(Device::Gpu, Policy::VertexColours),
            [Step::SamePlan, Step::OtherAdapter]
        );
        assert_eq!(lost(Device::Auto, Policy::SmallerPlan), [Step::SamePlan]);
        let memory = |policy| ladder(Code::OutOfHostMemory, 9, Device::Cpu, "native", policy);
        assert_eq!(memory(Policy::SamePlan), []);
        assert_eq!(memory(Policy::Adapters), [Step::SmallerPlan]);
    }
}
