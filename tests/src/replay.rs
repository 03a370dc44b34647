//! Computes from the log of a commit's file operations what a power cut may leave at every moment.
//!
//! The model of the disk is pessimistic. Bytes are on it only once their file was synced. Names are on it once their
//! folder was synced; before that, any number of them may be, in the order in which they were given.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::shim::Logged;

/// The files of a folder by path.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

#[derive(Clone, Debug, Default)]
struct File {
    written: Vec<u8>,
    synced: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Naming {
    Link(u64, PathBuf),
    Rename(PathBuf, PathBuf),
    Exchange(PathBuf, PathBuf),
    Unlink(PathBuf),
}

/// See the head of this file.
#[derive(Clone, Debug)]
struct Disk {
    folder: PathBuf,
    files: BTreeMap<u64, File>,
    /// Names that are certainly on the disk.
    names: BTreeMap<PathBuf, u64>,
    /// Names that may not be on the disk yet.
    pending: Vec<Naming>,
}

/// Everything that a power cut may leave: one entry for each moment and each number of names on the disk. The last
/// entry is the folder after the whole log, with all names.
pub fn crashes(folder: &Path, before: &Files, log: &[Logged]) -> Vec<Files> {
    let mut disk = Disk::new(folder, before);
    let mut states = Vec::new();
    disk.states(&mut states);
    for call in log {
        disk.apply(call);
        disk.states(&mut states);
    }
    states
}

/// What is certainly on the disk after the log: nothing that is still pending.
pub fn durable(folder: &Path, before: &Files, log: &[Logged]) -> Files {
    let mut disk = Disk::new(folder, before);
    for call in log {
        disk.apply(call);
    }
    disk.pending.clear();
    disk.seen(0)
}

impl Disk {
    fn new(folder: &Path, before: &Files) -> Self {
        let mut disk = Self {
            folder: folder.to_path_buf(),
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            pending: Vec::new(),
        };
        // Inode numbers that no file system uses.
        for ((path, bytes), number) in before.iter().zip(u64::MAX / 2..) {
            let (written, synced) = (bytes.clone(), bytes.clone());
            disk.files.insert(number, File { written, synced });
            disk.names.insert(path.clone(), number);
        }
        disk
    }

    fn apply(&mut self, call: &Logged) {
        let (path, second) = (call.path.clone(), call.second.clone());
        match call.call.as_str() {
            _ if call.hit => {}
            "write" => {
                let file = self.files.entry(call.inode).or_default();
                file.written.extend_from_slice(&call.data);
            }
            "fsync" if path == self.folder => {
                let pending = std::mem::take(&mut self.pending);
                for naming in pending {
                    naming.carry_out(&mut self.names);
                }
            }
            "fsync" => {
                let file = self.files.entry(call.inode).or_default();
                file.synced.clone_from(&file.written);
            }
            "link" => self.pending.push(Naming::Link(call.inode, second)),
            "rename" => self.pending.push(Naming::Rename(path, second)),
            "exchange" => self.pending.push(Naming::Exchange(path, second)),
            "unlink" => self.pending.push(Naming::Unlink(path)),
            // These read a file, or create it without a name.
            "open" | "create" | "read" | "fcntl" => {}
            other => panic!("the model of a disk does not know {other}"),
        }
    }

    fn states(&self, states: &mut Vec<Files>) {
        states.extend((0..=self.pending.len()).map(|count| self.seen(count)));
    }

    /// The folder with this many of the pending names.
    fn seen(&self, count: usize) -> Files {
        let mut names = self.names.clone();
        for naming in &self.pending[..count] {
            naming.carry_out(&mut names);
        }
        let bytes = |number| self.files.get(number).map(|file| file.synced.clone());
        names
            .iter()
            .map(|(path, number)| (path.clone(), bytes(number).unwrap_or_default()))
            .collect()
    }
}

impl Naming {
    /// Works as in the kernel: an exchange needs both names, and a missing file cannot be moved.
    fn carry_out(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Link(number, to) => {
                names.insert(to.clone(), *number);
            }
            Self::Rename(from, to) => {
                if let Some(number) = names.remove(from) {
                    names.insert(to.clone(), number);
                }
            }
            Self::Exchange(from, to) => {
                if let (Some(one), Some(other)) = (names.get(from).copied(), names.get(to).copied())
                {
                    names.insert(from.clone(), other);
                    names.insert(to.clone(), one);
                }
            }
            Self::Unlink(name) => {
                names.remove(name);
            }
        }
    }
}
