//! Hosts that are short of something: a small disk, a control group, a process that the kernel does not let die; and one
//! that has the nodes of GPUs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::unistd::geteuid;

use crate::Bench;

/// A small file system for a bench's output folder. Dropping it removes it, however the test ends.
#[derive(Debug)]
pub struct SmallDisk {
    folder: PathBuf,
    holder: Child,
}

impl SmallDisk {
    /// Mounts a tmpfs with these options as `bench`'s output folder.
    ///
    /// It is mounted in a mount namespace that a waiting process holds, and is reached through that process's `/proc`
    /// entry. Without root it also uses a user namespace.
    pub fn new(bench: &Bench, options: &str) -> Self {
        let (point, out) = (bench.path("disk"), bench.path("out"));
        fs::create_dir(&point).expect("a folder");
        let mut command = Command::new("unshare");
        if !geteuid().is_root() {
            command.arg("--map-root-user");
        }
        command.args(["--mount", "sh", "-c"]);
        command.arg("mount -t tmpfs -o \"$1\" none \"$2\" && echo mounted && read end");
        command.args(["sh", options]).arg(&point);
        let mut holder = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare, of util-linux");
        let mut line = String::new();
        let mut told = BufReader::new(holder.stdout.take().expect("piped"));
        told.read_line(&mut line).expect("a pipe");
        assert_eq!(
            line, "mounted\n",
            "no small disk: this test needs root, or user namespaces for everybody"
        );
        let inside = format!("/proc/{}/root{}", holder.id(), point.display());
        fs::remove_dir(&out).expect("the empty folder");
        symlink(&inside, &out).expect("a link");
        Self {
            folder: inside.into(),
            holder,
        }
    }

    /// Fills the disk except for this many pages of 4 KiB.
    pub fn leave_pages(&self, pages: usize) {
        let filler = self.folder.join("filler");
        drop(fs::remove_file(&filler));
        let all = usize::try_from(self.stat().blocks_available()).expect("a small disk");
        fs::write(&filler, vec![1; 4096 * all.saturating_sub(pages)]).expect("room");
    }

    /// Creates files until only this many more can be created.
    pub fn leave_files(&self, files: usize) {
        let mut number = 0;
        while self.stat().files_available() > files as u64 {
            fs::write(self.folder.join(format!("filler-{number}")), "").expect("room");
            number += 1;
        }
    }

    fn stat(&self) -> nix::sys::statvfs::Statvfs {
        nix::sys::statvfs::statvfs(&self.folder).expect("a file system")
    }
}

/// `command` with a `/dev` of its own: the devices that every process needs, and empty files of these names for GPUs.
pub fn with_nodes(bench: &Bench, command: &Command, nodes: &[&str]) -> Command {
    let dev = bench.path("dev");
    drop(fs::remove_dir_all(&dev));
    fs::create_dir(&dev).expect("a folder");
    let devices = ["null", "zero", "urandom"];
    for name in devices.iter().chain(nodes) {
        fs::write(dev.join(name), "").expect("room");
    }
    let mut own = Command::new("unshare");
    if !geteuid().is_root() {
        own.arg("--map-root-user");
    }
    let bind = format!(
        "for name in {}; do mount --bind \"/dev/$name\" \"$1/$name\"; done && mount --rbind \"$1\" /dev && shift && exec \"$@\"",
        devices.join(" ")
    );
    own.args(["--mount", "sh", "-c", &bind, "sh"]).arg(&dev);
    own.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => own.env(name, value),
            None => own.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        own.current_dir(folder);
    }
    own.stdin(Stdio::null());
    own
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if self
            .holder
            .kill()
            .and_then(|()| self.holder.wait())
            .is_err()
        {
            // It has ended already, which is all that matters.
        }
    }
}

/// A control group of version 1 beneath the test's own. Dropping it thaws, empties and removes it.
#[derive(Debug)]
pub struct OldGroup {
    folder: PathBuf,
}

impl OldGroup {
    /// Creates one. The error says why that failed: no root, or a machine that has only version 2.
    ///
    /// # Errors
    /// One line.
    pub fn new(controller: &str, name: &str) -> Result<Self, String> {
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let path = own.lines().find_map(|line| {
            let (names, path) = line.split_once(':')?.1.split_once(':')?;
            names
                .split(',')
                .any(|name| name == controller)
                .then_some(path)
        });
        let path = path.ok_or(format!("{controller} is no controller of version 1 here"))?;
        let folder = Path::new("/sys/fs/cgroup")
            .join(controller)
            .join(path.trim_start_matches('/'))
            .join(format!("kiln-test-{}-{name}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { folder })
    }

    /// Writes one of its files.
    pub fn set(&self, file: &str, value: &str) {
        fs::write(self.folder.join(file), value)
            .unwrap_or_else(|error| panic!("{value} into {file}: {error}"));
    }

    /// Reads one of its files.
    pub fn get(&self, file: &str) -> String {
        let text = fs::read_to_string(self.folder.join(file)).expect("a file of the group");
        text.trim().to_owned()
    }

    /// The file through which a process enters the group.
    pub fn door(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }
}

impl Drop for OldGroup {
    fn drop(&mut self) {
        // Only a freezer has this file; a test that failed leaves it frozen.
        drop(fs::write(self.folder.join("freezer.state"), "THAWED"));
        // Its processes have been killed by then, and end once thawed.
        while fs::read_to_string(self.door()).is_ok_and(|inside| !inside.is_empty())
            && !std::thread::panicking()
        {
            std::thread::yield_now();
        }
        drop(fs::remove_dir(&self.folder));
    }
}

/// `command`, started by a shell that runs `first` and then becomes the command.
pub fn after(first: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(format!("{first}; exec \"$@\""))
        .arg("sh");
    shell.arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    shell.stdin(Stdio::null());
    shell
}
