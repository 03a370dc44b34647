//! Both versions on folders that only look like control groups, and one real group with a real OOM kill.
//!
//! In a fake folder, a write creates the file that the kernel would provide. Files keep the folder from being removed,
//! as processes keep a real group.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::process::cgroup::*;

const LIMITS: Limits = Limits {
    memory: Some(64 << 20),
    pids: Some(32),
};
/// A pid that no process has: Linux allows at most 2²².
const DEAD: u32 = 1 << 30;

struct Fake {
    root: tempfile::TempDir,
    own: String,
    mounts: String,
}

impl Fake {
    fn new(own: &str, mounts: &[(&str, &str, &str)]) -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let mounts = mounts.iter().map(|(point, kind, options)| {
            let at = root.path().join(point);
            format!(
                "35 31 0:32 / {} rw,relatime - {kind} none rw,{options}\n",
                at.display()
            )
        });
        let mounts = mounts.collect();
        Self {
            own: own.to_owned(),
            mounts,
            root,
        }
    }

    fn v2() -> Self {
        let fake = Self::new("0::/job\n", &[("unified", "cgroup2", "nsdelegate")]);
        fake.put("unified/job/cgroup.controllers", "cpu memory pids\n");
        fake.put("unified/job/cgroup.subtree_control", "memory pids\n");
        fake
    }

    fn v1() -> Self {
        let own = "8:pids:/\n4:memory:/box\n0::/\n";
        let mounts = [("memory", "cgroup", "memory"), ("pids", "cgroup", "pids")];
        let fake = Self::new(own, &mounts);
        for folder in ["memory/box", "pids"] {
            fs::create_dir_all(fake.root.path().join(folder)).expect("a folder");
        }
        fake
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn find(&self, owner: u32) -> Cgroups {
        Cgroups::beneath(&self.own, &self.mounts, LIMITS, owner)
    }

    fn group(&self, folder: &str) -> PathBuf {
        let entries = fs::read_dir(self.root.path().join(folder)).expect("the folder");
        let groups = entries
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.is_dir());
        let number = |path: &PathBuf| {
            let name = path.file_name()?.to_str()?.rsplit('-').next()?;
            name.parse::<u32>().ok()
        };
        groups.max_by_key(number).expect("a group")
    }
}

fn text(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap_or_else(|error| format!("{file}: {error}"))
}

/// Simulates the end of the process in a real group.
fn empty(folder: &Path) {
    for entry in fs::read_dir(folder).expect("the group") {
        fs::remove_file(entry.expect("an entry").path()).expect("a file");
    }
}

#[test]
fn version_2_gets_one_group_with_all_limits() {
    let fake = Fake::v2();
    let groups = fake.find(7);
    assert_eq!(groups.support(Controller::Memory), &Ok(Version::V2));
    assert_eq!(groups.support(Controller::Pids), &Ok(Version::V2));
    let group = groups.enter(4711);
    let folder = fake.group("unified/job");
    for (file, wanted) in [
        ("memory.max", "67108864"),
        ("memory.swap.max", "0"),
        ("pids.max", "32"),
        ("cgroup.procs", "4711"),
    ] {
        assert_eq!(text(&folder, file), wanted, "{file}");
    }
    let events =
        |oom, kill| format!("low 0\nhigh 0\nmax 9\noom {oom}\noom_kill {kill}\noom_group_kill 0\n");
    fs::write(folder.join("memory.peak"), "67100000\n").expect("a file");
    fs::write(folder.join("memory.events"), events(3, 0)).expect("a file");
    assert_eq!(
        group.oom_killed(),
        None,
        "a limit that was reached is no kill"
    );
    fs::write(folder.join("memory.events"), events(3, 1)).expect("a file");
    let oom = Oom {
        peak_bytes: 67_100_000,
        limit: LIMITS.memory,
        scope: OomScope::Group,
    };
    assert_eq!(group.oom_killed(), Some(oom));
    fs::write(folder.join("memory.events"), events(0, 1)).expect("a file");
    let scope = group.oom_killed().map(|oom| oom.scope);
    assert_eq!(scope, Some(OomScope::Host), "its own limit was not reached");
}

#[test]
fn version_1_gets_a_group_in_each_hierarchy() {
    let fake = Fake::v1();
    let groups = fake.find(7);
    assert_eq!(groups.support(Controller::Memory), &Ok(Version::V1));
    let group = groups.enter(4711);
    let (memory, pids) = (fake.group("memory/box"), fake.group("pids"));
    assert_eq!(text(&memory, "memory.limit_in_bytes"), "67108864");
    assert_eq!(text(&memory, "memory.memsw.limit_in_bytes"), "67108864");
    assert_eq!(text(&memory, "cgroup.procs"), "4711");
    assert_eq!(text(&pids, "pids.max"), "32");
    assert_eq!(text(&pids, "cgroup.procs"), "4711");
    assert!(!memory.join("pids.max").exists() && !pids.join("memory.limit_in_bytes").exists());
    let control = |kills| format!("oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n");
    fs::write(memory.join("memory.max_usage_in_bytes"), "5000\n").expect("a file");
    fs::write(memory.join("memory.failcnt"), "12\n").expect("a file");
    fs::write(memory.join("memory.oom_control"), control(0)).expect("a file");
    assert_eq!(group.oom_killed(), None);
    fs::write(memory.join("memory.oom_control"), control(1)).expect("a file");
    let oom = group.oom_killed().expect("killed");
    assert_eq!((oom.peak_bytes, oom.scope), (5000, OomScope::Group));
    fs::write(memory.join("memory.failcnt"), "0\n").expect("a file");
    let scope = || group.oom_killed().map(|oom| oom.scope);
    assert_eq!(scope(), Some(OomScope::Host), "far below its limit");
    fs::write(memory.join("memory.max_usage_in_bytes"), "67000000\n").expect("a file");
    assert_eq!(scope(), Some(OomScope::Group), "where nothing is counted");
}

#[test]
fn a_group_with_a_process_left_in_it_is_removed_later() {
    let fake = Fake::v2();
    let groups = fake.find(7);
    empty(&fake.group("unified/job"));
    assert_eq!(groups.sweep(), 0, "the one that was made to try it");
    let group = groups.enter(4711);
    let folder = fake.group("unified/job");
    drop(group);
    assert_eq!((groups.sweep(), folder.exists()), (1, true));
    empty(&folder);
    assert_eq!((groups.sweep(), folder.exists()), (0, false));
}

#[test]
fn groups_of_dead_supervisors_are_removed_and_others_are_not() {
    let fake = Fake::v2();
    let job = fake.root.path().join("unified/job");
    let folder = |name: String| {
        fs::create_dir_all(job.join(&name)).expect("a folder");
        job.join(name)
    };
    let stale = folder(format!("kiln-{DEAD}-3"));
    let used = folder(format!("kiln-{DEAD}-4"));
    fs::write(used.join("cgroup.procs"), "4711").expect("a file");
    let living = folder(format!("kiln-{}-0", std::process::id()));
    let foreign = folder("user.slice".to_owned());
    drop(fake.find(DEAD - 1));
    assert!(!stale.exists(), "its supervisor is dead");
    assert!(used.exists(), "a process is in it");
    assert!(living.exists(), "its supervisor lives");
    assert!(foreign.exists(), "not ours");
}

#[test]
fn a_group_shared_with_others_is_not_divided() {
    let fake = Fake::v2();
    // A folder in place of the control file, so that delegation fails.
    let control = fake.root.path().join("unified/job/cgroup.subtree_control");
    fs::remove_file(&control).expect("there");
    fs::create_dir(&control).expect("a folder");
    let groups = fake.find(7);
    let why = groups.support(Controller::Memory).as_ref().expect_err("no");
    assert!(why.contains("is not ours to divide"), "{why}");
    assert!(!groups.enter(4711).counts_memory());
}

#[test]
fn what_is_missing_is_named() {
    let fake = Fake::v2();
    fake.put("unified/job/cgroup.controllers", "cpu pids\n");
    let groups = fake.find(7);
    let why = groups.support(Controller::Memory).as_ref().expect_err("no");
    assert!(why.contains("was not given the memory controller"), "{why}");
    assert_eq!(groups.support(Controller::Pids), &Ok(Version::V2));
    for (own, mounts, wanted) in [
        ("0::/job\n", "", "its cgroup2 hierarchy is not mounted here"),
        (
            "4:memory:/x\n0::/\n",
            "",
            "its cgroup hierarchy is not mounted here",
        ),
        ("1:cpu:/\n", "", "the kernel has no memory controller"),
        (
            "4:memory:/../x\n",
            "1 2 0:3 / /m rw - cgroup none rw,memory\n",
            "not mounted here",
        ),
    ] {
        let groups = Cgroups::beneath(own, mounts, LIMITS, 7);
        let why = groups.support(Controller::Memory).as_ref().expect_err("no");
        assert!(why.contains(wanted), "{why}");
        let group = groups.enter(4711);
        assert_eq!((group.oom_killed(), group.peak_bytes()), (None, None));
    }
}

#[test]
fn a_container_sees_its_own_part_of_a_hierarchy() {
    let root = tempfile::tempdir().expect("a folder");
    let point = root.path().join("a b");
    fs::create_dir_all(point.join("deep")).expect("a folder");
    let shown = point.display().to_string().replace(' ', "\\040");
    let mounts = format!("1 2 0:3 /docker/x {shown} ro - cgroup none rw,pids,memory\n");
    let groups = Cgroups::beneath("4:memory:/docker/x/deep\n", &mounts, LIMITS, 7);
    assert_eq!(groups.support(Controller::Memory), &Ok(Version::V1));
    let made = fs::read_dir(point.join("deep"))
        .expect("the folder")
        .count();
    assert_eq!(made, 1, "the group that was made to try it");
}

/// A program that reads a line and then allocates all the memory it can get.
fn hungry() -> std::process::Child {
    Command::new("sh")
        .args(["-c", "read go && exec tail /dev/zero"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("sh")
}

#[expect(
    clippy::print_stderr,
    reason = "a machine without groups is said to be one"
)]
fn said(why: &str) {
    eprintln!("no control group for memory on this machine, so no real OOM kill here: {why}");
}

#[test]
fn the_kernel_tells_an_oom_kill_from_any_other() {
    let limit = 16 << 20;
    let groups = Cgroups::find(Limits {
        memory: Some(limit),
        pids: Some(16),
    });
    if let Err(why) = groups.support(Controller::Memory) {
        said(why);
        let (mut child, group) = (hungry(), groups.enter(std::process::id()));
        child.kill().expect("there");
        child.wait().expect("reaped");
        assert_eq!((group.counts_memory(), group.oom_killed()), (false, None));
        return;
    }
    let mut victim = hungry();
    let group = groups.enter(victim.id());
    assert!(group.counts_memory());
    assert_eq!(group.oom_killed(), None);
    victim
        .stdin
        .take()
        .expect("piped")
        .write_all(b"go\n")
        .expect("a pipe");
    assert_eq!(victim.wait().expect("reaped").signal(), Some(9));
    let oom = group.oom_killed().expect("the kernel killed it");
    assert_eq!((oom.limit, oom.scope), (Some(limit), OomScope::Group));
    assert!(
        oom.peak_bytes > limit / 2 && oom.peak_bytes <= limit,
        "{oom:?}"
    );
    drop(group);
    assert_eq!(groups.sweep(), 0, "an empty group goes at once");

    let mut victim = hungry();
    let group = groups.enter(victim.id());
    victim.kill().expect("there");
    assert_eq!(victim.wait().expect("reaped").signal(), Some(9));
    assert_eq!(group.oom_killed(), None, "killed by somebody else");
    drop(group);
    assert_eq!(groups.sweep(), 0);

    // Two in one supervisor: one's death must not be reported as the other's.
    let (mut first, mut second) = (hungry(), hungry());
    let (mine, other) = (groups.enter(first.id()), groups.enter(second.id()));
    second
        .stdin
        .take()
        .expect("piped")
        .write_all(b"go\n")
        .expect("a pipe");
    assert_eq!(second.wait().expect("reaped").signal(), Some(9));
    assert_eq!(mine.oom_killed(), None);
    assert!(other.oom_killed().is_some());
    drop(mine);
    // In version 2 the group has killed it.
    if groups.support(Controller::Memory) == &Ok(Version::V1) {
        assert_ne!(groups.sweep(), 0, "its process is still there");
        first.kill().expect("there");
    }
    assert_eq!(first.wait().expect("reaped").signal(), Some(9));
    assert_eq!(groups.sweep(), 0);
}
