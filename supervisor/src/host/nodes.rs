//! `/dev` → the nodes of GPUs that are there, whether a driver uses them or not.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders beneath `/dev` and the beginnings of names there, before a number: NVIDIA's cards, and the render nodes of DRM.
const NODES: [(&str, &str); 2] = [("", "nvidia"), ("dri", "renderD")];

/// Nodes of GPUs beneath `dev`, in the order of their names. A node may be of a virtual GPU that draws nothing.
pub fn gpus(dev: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (folder, beginning) in NODES {
        let is_gpu = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            let number = name.and_then(|name| name.strip_prefix(beginning));
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        };
        let entries = fs::read_dir(dev.join(folder)).into_iter().flatten();
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        found.extend(paths.filter(is_gpu));
    }
    found.sort();
    found
}

/// What a job says whose device is `auto` and that no GPU bakes, where `dev` has the node of one.
pub fn unused(dev: &Path) -> Option<String> {
    let node = gpus(dev).into_iter().next()?;
    Some(format!(
        "the node of a GPU is there, {}, but no driver gave it, so the processor bakes: kiln doctor says why; --device cpu is silent about it",
        node.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_and_render_nodes_count_and_nothing_else() {
        let dev = tempfile::tempdir().expect("a folder");
        assert_eq!(gpus(dev.path()), Vec::<PathBuf>::new());
        assert_eq!(unused(dev.path()), None);
        fs::create_dir(dev.path().join("dri")).expect("a folder");
        for other in [
            "nvidiactl",
            "nvidia-uvm",
            "null",
            "dri/card0",
            "dri/by-path",
        ] {
            fs::write(dev.path().join(other), "").expect("a file");
        }
        assert_eq!(gpus(dev.path()), Vec::<PathBuf>::new());
        for node in ["nvidia0", "dri/renderD128"] {
            fs::write(dev.path().join(node), "").expect("a file");
        }
        let both = ["dri/renderD128", "nvidia0"].map(|node| dev.path().join(node));
        assert_eq!(gpus(dev.path()), both);
        assert!(unused(dev.path()).is_some_and(|text| text.contains("renderD128")));
    }
}
