//! Samples the most memory that `kiln` and its workers hold at one moment.
//!
//! Tables are in memory files that no process maps, so they are in no resident set. Their pages are added from the
//! files themselves, once per file. Pages of programs and libraries that processes share count once per process, which
//! adds a few MiB. A peak shorter than the interval of the samples can be missed.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use kiln_tests::kib_of;

/// Time between two samples.
pub(crate) const INTERVAL: Duration = Duration::from_millis(50);

/// Prefix of the links to descriptors of `proto::blob`.
const BLOB: &str = "/memfd:kiln-";

/// Samples one `kiln`.
#[derive(Debug)]
pub(crate) struct Sampler {
    kiln: u32,
    workers: Vec<u32>,
    peak_kib: u64,
}

impl Sampler {
    /// A sampler of the process `kiln`.
    pub(crate) fn new(kiln: u32) -> Self {
        Self {
            kiln,
            workers: Vec::new(),
            peak_kib: 0,
        }
    }

    /// Adds a worker that it has started.
    pub(crate) fn worker(&mut self, pid: u32) {
        self.workers.push(pid);
    }

    /// The peak so far.
    pub(crate) fn peak_kib(&self) -> u64 {
        self.peak_kib
    }

    /// Takes one sample.
    pub(crate) fn sample(&mut self) {
        let mut total = 0;
        let mut blobs = HashMap::new();
        let kiln = self.kiln;
        // A pid whose process is not a child of kiln has been reused.
        self.workers
            .retain(|&pid| number(pid, "PPid") == Some(kiln.into()));
        for &pid in self.workers.iter().chain([&kiln]) {
            total += number(pid, "VmRSS").unwrap_or(0);
            collect_blobs(pid, &mut blobs);
        }
        total += blobs.values().sum::<u64>();
        self.peak_kib = self.peak_kib.max(total);
    }
}

/// None once the process has ended: memory even before its parent has waited for it.
fn number(pid: u32, name: &str) -> Option<u64> {
    kib_of(i32::try_from(pid).ok()?, name)
}

/// Adds the pages of the memory files that the process holds, in KiB by inode. A process that ends meanwhile has none.
fn collect_blobs(pid: u32, blobs: &mut HashMap<u64, u64>) {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return;
    };
    for path in descriptors.flatten().map(|entry| entry.path()) {
        let is_blob = fs::read_link(&path).is_ok_and(|to| to.to_string_lossy().starts_with(BLOB));
        if let (true, Ok(file)) = (is_blob, fs::metadata(&path)) {
            blobs.insert(file.ino(), file.blocks() / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use proto::blob::Blob;

    use super::*;

    #[test]
    fn blobs_count_once_and_only_as_far_as_they_are_written() {
        let pid = std::process::id();
        let of_file = |ino: u64| {
            let mut blobs = HashMap::new();
            collect_blobs(pid, &mut blobs);
            blobs.get(&ino).copied()
        };
        let blob = Blob::create("kiln-bench", 3 << 20).expect("memory");
        let twin = fs::File::from(blob.as_fd().try_clone_to_owned().expect("an fd"));
        let ino = twin.metadata().expect("a file").ino();
        assert_eq!(of_file(ino), Some(0));
        (&twin).write_all(&vec![1; 2 << 20]).expect("room");
        assert_eq!(of_file(ino), Some(2048));
        let mut sampler = Sampler::new(pid);
        // A pid that is not a child of this process.
        sampler.worker(1);
        // Read before the sample: other tests allocate, too.
        let resident = number(pid, "VmRSS").expect("it lives");
        sampler.sample();
        assert!(sampler.workers.is_empty());
        assert!(sampler.peak_kib() >= 2048 + resident / 2);
        drop((blob, twin));
        assert_eq!(of_file(ino), None);
    }
}
