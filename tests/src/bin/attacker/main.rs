//! A subverted worker: enters a role's sandbox as `kiln-baker` does and then tries to escape, each attempt in its own
//! process.
//!
//! ```text
//! attacker ROLE [--device NAME] [--unsealed] [--no-sandbox]      prints one line of JSON per attempt
//! attacker ROLE [--device NAME] [--unsealed] [--no-sandbox] hold prints its account and waits to be killed
//! ```
//!
//! Each attempt runs in a fork made before the sandbox is entered. It reports through a pipe on descriptor 1; its
//! parent sees what the kernel does to it. With `--device`, bake really opens that adapter before it is sealed. With
//! `--unsealed`, it attacks before that.

#![expect(
    clippy::print_stdout,
    reason = "what it prints is what it is for: its test reads it"
)]

mod probes;
mod sys;

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use baker::bake::gpu::device::{self, Device as Gpu};
use baker::worker::sandbox::{self, Options};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, pipe};
use proto::job::{Device, WarmJob};
use proto::message::Role;
use proto::sandbox::{Sandbox, Stage};
use serde_json::json;

use crate::probes::{ESCAPES, Got, HONEST, Place, Probe};

/// Address space of prepare and encode: far more than most attempts need, and less than one of them asks for.
const ADDRESS_SPACE: u64 = 4 << 30;

struct Setting {
    role: Role,
    stage: Stage,
    options: Options,
    device: Device,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let role = match arguments.next().as_deref() {
        Some("prepare") => Role::Prepare,
        Some("bake") => Role::Bake,
        Some("encode") => Role::Encode,
        _ => return ExitCode::from(64),
    };
    let mut setting = Setting {
        role,
        stage: Stage::Sealed,
        options: Options {
            enabled: true,
            address_space: Some(ADDRESS_SPACE),
        },
        device: Device::Cpu,
    };
    let mut hold = false;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--unsealed" => setting.stage = Stage::Entered,
            "--no-sandbox" => setting.options.enabled = false,
            "--device" => setting.device = Device::Name(arguments.next().unwrap_or_default()),
            "hold" => hold = true,
            _ => return ExitCode::from(64),
        }
    }
    if hold {
        hold_still(&setting);
    }
    let place = Place::new();
    let stage = setting.stage;
    let probes = HONEST.iter().chain(ESCAPES);
    for probe in probes.filter(|probe| probe.meant_for(role, stage)) {
        let expected = probe.expected(role, stage);
        let got = setting.attempt(probe, &place);
        let line = json!({
            "probe": probe.name,
            "expected": expected.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "got": got.to_string(),
            "held": expected.contains(&got),
            "escape": probe.escape,
        });
        println!("{line}");
    }
    ExitCode::SUCCESS
}

fn hold_still(setting: &Setting) -> ! {
    let (account, _device) = setting.enter();
    println!("{}", serde_json::to_string(&account).expect("an account"));
    loop {
        std::thread::park();
    }
}

impl Setting {
    /// Enters the sandbox as `kiln-baker` does, up to where data would arrive. Includes the device's threads.
    fn enter(&self) -> (Sandbox, Option<Gpu>) {
        sandbox::check_surroundings(self.role, &self.options).expect("a cleared environment");
        let entered = sandbox::enter(self.role, &self.options).expect("filters compile");
        if self.role != Role::Bake || !self.options.enabled || self.stage == Stage::Entered {
            return (entered, None);
        }
        // Threads of ours and of the driver that precede the last filter, which must bind them, too.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2);
        pool.build_global().expect("threads");
        let job = WarmJob {
            device: self.device.clone(),
            ..WarmJob::default()
        };
        let device = device::open(&job).expect("the adapter opens");
        (sandbox::seal_gpu().expect("filters compile"), device)
    }

    fn attempt(&self, probe: &Probe, place: &Place) -> Got {
        let (read, write) = pipe().expect("a pipe");
        match sys::forked() {
            ForkResult::Parent { child } => {
                drop(write);
                self.judge(child, read)
            }
            ForkResult::Child => {
                sys::become_worker(probe.stdin, write);
                let _held = self.enter();
                sys::report_traps();
                let outcome = (probe.act)(place);
                sys::report(outcome);
            }
        }
    }

    fn judge(&self, child: Pid, read: OwnedFd) -> Got {
        let mut text = String::new();
        File::from(read).read_to_string(&mut text).expect("a pipe");
        let status = waitpid(child, None).expect("a child");
        match (status, text.is_empty()) {
            (WaitStatus::Signaled(_, signal, _), true) => Got::Signal(signal as i32),
            (WaitStatus::Exited(_, 0), false) => Got::parse(&text),
            (status, _) => Got::Odd(format!("{status:?} {text}")),
        }
    }
}
