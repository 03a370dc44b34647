//! What a repeated bake does differently: same plan → smaller plan → other adapter → software adapter → vertex colours. Pure.
//!
//! Which rungs a fault may climb to is the table in [`steps`]; the caller's [`Policy`] cuts it off. Nothing is repeated on a
//! rung that has been tried, and the report names the rung on which a job was done.

use proto::job::{Device, Memory, Product};
use proto::message::{AdapterInfo, Code};
use serde::{Deserialize, Serialize};

use crate::verdict::{Exit, Fault};

/// A rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Without the pipelines that an earlier process left.
    FreshPipelines,
    /// A fresh process, and nothing else changed.
    SamePlan,
    /// A quarter of the memory.
    SmallerPlan,
    /// The adapter that failed is passed over.
    OtherAdapter,
    /// The processor, without any driver.
    SoftwareAdapter,
    /// One colour for each vertex in place of a texture.
    VertexColours,
}

impl Step {
    /// For people, after "trying again".
    #[must_use]
    pub fn words(self) -> &'static str {
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

/// What a bake is asked to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rung {
    /// Adapter.
    pub device: Device,
    /// Adapters by name that failed.
    pub avoid: Vec<String>,
    /// Which of several adapters that would do equally well: see [`crate::fleet`].
    #[serde(skip)]
    pub nth: u32,
    /// Memory to plan with.
    pub memory: Memory,
    /// What to make.
    pub product: Product,
    /// Without kept pipelines, and none of it is kept.
    #[serde(skip)]
    pub unkept: bool,
}

/// How far a job may climb.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// A fresh process at most.
    SamePlan,
    /// Less memory, too.
    SmallerPlan,
    /// Other adapters, the processor among them, where `--device auto` leaves the choice.
    #[default]
    Adapters,
    /// Vertex colours before nothing.
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

/// The rungs that may help against a fault of bake, the mildest first.
#[must_use]
pub fn steps(code: Code, exit: &Exit, adapter: Option<&AdapterInfo>) -> &'static [Step] {
    use Step::{OtherAdapter, SamePlan, SmallerPlan, SoftwareAdapter, VertexColours};
    let driver = adapter.is_some_and(|adapter| adapter.kind != "native");
    match code {
        Code::OutOfHostMemory => &[SmallerPlan, VertexColours],
        Code::OutOfDeviceMemory => &[SmallerPlan, OtherAdapter, SoftwareAdapter, VertexColours],
        Code::GpuDeviceLost | Code::GpuHang => &[SamePlan, OtherAdapter, SoftwareAdapter],
        // The same adapter would do the same again.
        Code::ShaderRejected | Code::IncompleteOutput => &[OtherAdapter, SoftwareAdapter],
        // A second crash is the last: where a driver may have been at fault, the one repetition goes without any.
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

/// The mildest rung that is allowed, possible and not tried yet.
#[must_use]
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

/// The rung that a step leads to; none where it leads nowhere.
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
    use crate::verdict::RetryClass;

    fn adapter(kind: &str) -> AdapterInfo {
        AdapterInfo {
            name: format!("the {kind} one"),
            backend: String::new(),
            kind: kind.to_owned(),
            driver: String::new(),
        }
    }

    /// Climbs until there is no rung left.
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
