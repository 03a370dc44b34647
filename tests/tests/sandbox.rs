//! Nothing escapes from a role's sandbox: a subverted worker makes every attempt, each in its own process.
//!
//! The attacker links the worker's own code and enters the sandbox as `kiln-baker` does. Without a sandbox its attempts
//! succeed, which proves them meaningful.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use kiln_tests::{Bench, Run, program, words};
use nix::errno::Errno;
use nix::libc;
use proto::message::Role;
use proto::sandbox::{Level, Sandbox, Stage, filters};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use serde_json::Value;
use tempfile::TempDir;

/// Least number of escapes tried per role (G16).
const ESCAPES: usize = 40;
/// Least number of them that succeed without a sandbox.
const WORTH: usize = 20;

fn attacker(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attacker"));
    command
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if arguments[0] == "bake" {
        command.envs([
            ("MESA_SHADER_CACHE_DISABLE", "true"),
            ("XDG_RUNTIME_DIR", "/tmp"),
        ]);
    }
    command
}

/// A user's folder with a manifest of Mesa's software driver, and a secret beside it.
fn home() -> TempDir {
    let home = tempfile::tempdir().expect("a folder");
    let installed = std::fs::read_dir("/usr/share/vulkan/icd.d").expect("Mesa's drivers");
    let mut manifests = installed.map(|entry| entry.expect("an entry").path());
    let manifest = manifests
        .find(|path| path.to_string_lossy().contains("lvp_icd"))
        .expect("the manifest of llvmpipe");
    std::fs::copy(manifest, home.path().join("driver.json")).expect("copied");
    std::fs::write(home.path().join("secret"), "secret").expect("written");
    home
}

fn attempts(arguments: &[&str]) -> Vec<Value> {
    let home = home();
    let mut command = attacker(arguments);
    command.env("LD_LIBRARY_PATH", home.path());
    if arguments[0] == "bake" {
        command.env("VK_DRIVER_FILES", home.path().join("driver.json"));
    }
    let output = command.output().expect("the attacker starts");
    assert!(output.status.success(), "{:?}", output.status);
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Every attempt must have the expected outcome, and enough of them must be escapes.
fn nothing_gets_out(arguments: &[&str]) {
    let attempts = attempts(arguments);
    let escapes = attempts
        .iter()
        .filter(|attempt| attempt["escape"] == true)
        .count();
    let wrong: Vec<String> = attempts
        .iter()
        .filter(|attempt| attempt["held"] != true)
        .map(ToString::to_string)
        .collect();
    assert!(
        wrong.is_empty(),
        "{arguments:?}: {} of {} attempts:\n{}",
        wrong.len(),
        attempts.len(),
        wrong.join("\n")
    );
    assert!(escapes >= ESCAPES, "only {escapes} ways out are tried");
}

#[test]
fn nothing_gets_out_of_prepare() {
    nothing_gets_out(&["prepare"]);
}

#[test]
fn nothing_gets_out_of_encode() {
    nothing_gets_out(&["encode"]);
}

#[test]
fn nothing_gets_out_of_bake_on_the_processor() {
    nothing_gets_out(&["bake"]);
}

#[test]
fn nothing_gets_out_of_bake_before_it_is_sealed() {
    nothing_gets_out(&["bake", "--unsealed"]);
}

#[test]
fn nothing_gets_out_of_bake_with_an_open_vulkan_device() {
    nothing_gets_out(&["bake", "--device", "llvmpipe"]);
}

#[test]
fn without_a_sandbox_the_attempts_succeed() {
    for role in ["prepare", "bake", "encode"] {
        let attempts = attempts(&[role, "--no-sandbox"]);
        let escapes = attempts.iter().filter(|attempt| attempt["escape"] == true);
        let succeeded = escapes
            .clone()
            .filter(|attempt| attempt["got"] == "success")
            .count();
        let held = escapes.filter(|attempt| attempt["held"] == true).count();
        assert!(succeeded >= WORTH, "{role}: only {succeeded} succeed");
        // Sealed memory refuses this without a sandbox.
        assert!(held <= 12, "{role}: {held} fail as if there were a sandbox");
    }
}

/// Runs `act` where these system calls fail with `errno`, as under a kernel or in a container without them.
fn refusing<T: Send>(calls: &[i64], errno: Errno, act: impl FnOnce() -> T + Send) -> T {
    let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(errno as u32);
    let arch = std::env::consts::ARCH
        .try_into()
        .expect("a known processor");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch);
    let filter: BpfProgram = filter.and_then(TryInto::try_into).expect("it compiles");
    // The filter binds the thread and what it starts.
    let confined = || {
        seccompiler::apply_filter(&filter).expect("seccomp");
        act()
    };
    std::thread::scope(|scope| scope.spawn(confined).join().expect("no panic"))
}

/// The calls of Landlock.
const LANDLOCK: [i64; 3] = [
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_restrict_self,
];

#[test]
fn nothing_gets_out_of_a_sealed_bake_without_landlock() {
    for device in ["", "llvmpipe"] {
        let mut arguments = vec!["bake"];
        if !device.is_empty() {
            arguments.extend(["--device", device]);
        }
        let attempts = refusing(&LANDLOCK, Errno::ENOSYS, || attempts(&arguments));
        let mut escapes = attempts.iter().filter(|attempt| attempt["escape"] == true);
        let out: Vec<&Value> = (escapes.clone())
            .filter(|attempt| attempt["held"] != true)
            .collect();
        assert!(out.is_empty(), "{out:#?}");
        assert!(escapes.nth(ESCAPES - 1).is_some());
    }
}

#[test]
fn what_this_system_confines_is_told_before_a_job_and_by_each() {
    let seccomp = [libc::SYS_seccomp];
    for (calls, errno, level, [doctors, jobs]) in [
        (&LANDLOCK[..], Errno::ENOSYS, "no_landlock", [0, 0]),
        (&LANDLOCK, Errno::EPERM, "no_landlock", [0, 0]),
        (&seccomp, Errno::EPERM, "partial", [69, 77]),
    ] {
        let bench = Bench::sphere();
        let more =
            words("--quality draft --texture-size 256 --device llvmpipe --fallback same-plan");
        let (doctor, outcome) = refusing(calls, errno, || {
            let doctor = bench.command(&words("doctor --json")).output();
            let job = bench.bake_for_real("mesh.obj", "transforms.json", &more);
            (doctor.expect("kiln starts"), Run::start(job).finish())
        });
        let answer: Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
        assert_eq!(answer["sandbox"]["level"], level, "{answer:#}");
        assert_eq!(doctor.status.code(), Some(doctors), "{answer:#}");
        outcome.assert_code(jobs);
        if jobs == 0 {
            let sandboxes = outcome.report()["sandbox"].clone();
            for role in sandboxes.as_array().expect("a list") {
                let wanted = if role["role"] == "bake" {
                    level
                } else {
                    "full"
                };
                assert_eq!(role["level"], wanted, "{sandboxes:#}");
            }
        }
    }
}

#[test]
fn an_environment_that_was_not_cleared_is_refused() {
    for role in ["prepare", "bake", "encode"] {
        let output = Command::new(program("kiln-baker"))
            .arg(role)
            .env_clear()
            .env("KILN_LOG", "error")
            .env("AWS_SECRET_ACCESS_KEY", "x")
            .stdin(Stdio::null())
            .output()
            .expect("kiln-baker starts");
        assert_eq!(output.status.code(), Some(i32::from(proto::exit::NOPERM)));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("AWS_SECRET_ACCESS_KEY"), "{said}");
    }
}

/// A process in its sandbox, until it is dropped.
struct Held {
    child: Child,
    account: Sandbox,
}

impl Held {
    fn start(arguments: &[&str]) -> Self {
        let mut arguments = arguments.to_vec();
        arguments.push("hold");
        let mut child = attacker(&arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the attacker starts");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        stdout.read_line(&mut line).expect("a pipe");
        let account = serde_json::from_str(&line).expect("an account");
        Self { child, account }
    }

    /// The status of each of its threads.
    fn threads(&self) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("alive");
        tasks
            .map(|task| {
                let path = task.expect("a thread").path().join("status");
                std::fs::read_to_string(path).expect("a status")
            })
            .collect()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|rest| rest.strip_prefix(':')).expect(name);
    u64::from_str_radix(value.trim(), 16).expect("a number")
}

#[test]
fn the_kernel_says_of_every_live_thread_what_the_process_says() {
    let cases: [(&[&str], Role, Stage, u16); 4] = [
        (&["prepare"], Role::Prepare, Stage::Entered, 30),
        (&["encode"], Role::Encode, Stage::Entered, 30),
        (&["bake"], Role::Bake, Stage::Sealed, 45),
        (
            &["bake", "--device", "llvmpipe"],
            Role::Bake,
            Stage::Sealed,
            45,
        ),
    ];
    for (arguments, role, stage, most_calls) in cases {
        let held = Held::start(arguments);
        let account = &held.account;
        assert_eq!(account.level, Level::Full, "{arguments:?}: {account:?}");
        assert_eq!(account.seccomp_filters, filters(role, stage));
        assert!(
            (1..=most_calls).contains(&account.allowed_calls),
            "{account:?}"
        );
        let threads = held.threads();
        if role == Role::Bake {
            assert!(threads.len() > 1, "bake has threads from before the seal");
        }
        for status in &threads {
            assert_eq!(field(status, "NoNewPrivs"), 1, "{arguments:?} {status}");
            assert_eq!(field(status, "Seccomp"), 2, "{arguments:?} {status}");
            assert_eq!(field(status, "CapEff"), 0, "{arguments:?} {status}");
            assert_eq!(
                field(status, "Seccomp_filters"),
                u64::from(account.seccomp_filters),
                "{arguments:?} {status}"
            );
        }
    }
    let held = Held::start(&["bake", "--no-sandbox"]);
    assert_eq!(held.account, Sandbox::off());
    assert_eq!(
        field(&held.threads()[0], "Seccomp"),
        0,
        "the oracle sees it"
    );
}

#[test]
fn the_live_workers_of_a_real_bake_are_in_their_sandboxes() {
    let bench = Bench::real();
    let spot = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/spot");
    // The preview and the held-out views keep encode alive for far longer than a look at it takes.
    let more = words("--quality draft --preview out/out.png --holdout 4");
    let (mesh, views) = (spot.join("mesh_nouv.glb"), spot.join("transforms.json"));
    let mut run = Run::start(bench.bake_for_real(&mesh, &views, &more));
    let pids = RefCell::new(HashMap::new());
    // Each in a phase in which it works on data.
    for (role, stage, phase) in [
        (Role::Prepare, Stage::Entered, "load_mesh"),
        (Role::Bake, Stage::Sealed, "fit"),
        (Role::Encode, Stage::Entered, "png"),
    ] {
        run.wait_for(|event| {
            if event["event"] == "started" {
                pids.borrow_mut()
                    .insert(event["role"].to_string(), event["pid"].as_u64());
            }
            event["event"] == "progress" && event["role"] == role.name() && event["phase"] == phase
        });
        let pid = pids.borrow()[&format!("{:?}", role.name())].expect("a process id");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("alive");
        assert_eq!(field(&status, "NoNewPrivs"), 1, "{role:?}");
        assert_eq!(field(&status, "Seccomp"), 2, "{role:?}");
        assert_eq!(field(&status, "CapEff"), 0, "{role:?}");
        let wanted = u64::from(filters(role, stage));
        assert_eq!(field(&status, "Seccomp_filters"), wanted, "{role:?}");
    }
    let outcome = run.finish();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
}
