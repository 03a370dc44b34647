//! What the Vulkan loader writes under `VK_LOADER_DEBUG` → the drivers that it found, and why some do not load.
//!
//! The loader knows best which manifests count and what the dynamic linker says. Its lines are `ERROR | DRIVER: words`,
//! since 1.3.2xx behind `[Vulkan Loader]`; it repeats them for each instance.

use super::Problem;

/// The variable of the environment that makes it speak, and what it is to speak about.
pub(super) const ASK: (&str, &str) = ("VK_LOADER_DEBUG", "error,info,driver");

/// How the linker's words for a missing library end.
const ABSENT: &str = ": cannot open shared object file";
/// How the loader goes on after them, and names the driver.
const NOT_LOADED: &str = "Failed loading library associated with ICD JSON ";

/// What it says last where no driver is left, which the adapters show.
const NONE: &str = "Found no drivers";

/// Libraries that drivers need and small systems lack, with the packages of Debian and Ubuntu.
const PACKAGES: [(&str, &str); 13] = [
    ("libX11.so.6", "libx11-6"),
    ("libXext.so.6", "libxext6"),
    ("libGLdispatch.so.0", "libglvnd0"),
    ("libEGL.so.1", "libegl1"),
    ("libX11-xcb.so.1", "libx11-xcb1"),
    ("libxcb.so.1", "libxcb1"),
    ("libxcb-dri3.so.0", "libxcb-dri3-0"),
    ("libxcb-present.so.0", "libxcb-present0"),
    ("libxshmfence.so.1", "libxshmfence1"),
    ("libwayland-client.so.0", "libwayland-client0"),
    ("libdrm.so.2", "libdrm2"),
    ("libdrm_amdgpu.so.1", "libdrm-amdgpu1"),
    ("libzstd.so.1", "libzstd1"),
];

/// How NVIDIA's driver gets into a container whole.
pub(super) const WHOLE_NVIDIA: &str = "install all of NVIDIA's driver (Debian: nvidia-vulkan-icd, Ubuntu: libnvidia-gl-VERSION); start a container with \
     NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics";

/// What the loader said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Loader {
    /// Whether it said anything, and so is there.
    pub(super) there: bool,
    /// Its version, if it told.
    pub(super) version: String,
    /// Manifests of drivers that it read.
    pub(super) manifests: Vec<String>,
    /// Each driver or manifest that failed.
    pub(super) problems: Vec<Problem>,
}

impl Loader {
    /// Reads all that the asked process wrote; lines of others are passed over.
    pub(super) fn read(text: &str) -> Self {
        let mut loader = Self::default();
        let mut linker = None;
        for (flags, words) in text.lines().filter_map(line) {
            loader.there = true;
            if let Some((_, version)) = words.split_once("Vulkan Loader Version ") {
                version.clone_into(&mut loader.version);
            } else if let Some((_, rest)) = words.split_once("Found ICD manifest file ") {
                let path = rest.split_once(", version").map_or(rest, |(path, _)| path);
                add(&mut loader.manifests, path.to_owned());
            } else if !flags.contains("ERROR") || words.contains(NONE) {
            } else if words.contains(ABSENT) {
                linker = Some(words);
            } else {
                add(&mut loader.problems, problem(words, linker.take()));
            }
        }
        loader
    }
}

fn add<T: PartialEq>(list: &mut Vec<T>, entry: T) {
    if !list.contains(&entry) {
        list.push(entry);
    }
}

/// Flags and words of a line of the loader's.
fn line(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix("[Vulkan Loader]").unwrap_or(line);
    let (flags, words) = line.trim_start().split_once(':')?;
    let known = [
        "ERROR", "WARNING", "INFO", "DEBUG", "DRIVER", "LAYER", "PERF",
    ];
    let all = flags.split('|').all(|flag| known.contains(&flag.trim()));
    all.then(|| (flags, words.trim()))
}

/// An error of the loader's, and what the linker said just before.
fn problem(words: &str, linker: Option<&str>) -> Problem {
    let driver = words.split_once(NOT_LOADED).map(|(_, rest)| {
        rest.strip_suffix(". Ignoring this JSON")
            .unwrap_or(rest)
            .trim()
    });
    let what = match (driver, linker) {
        (Some(driver), Some(linker)) => {
            format!("the Vulkan driver {driver} does not load: {linker}")
        }
        (Some(driver), None) => format!("the Vulkan driver {driver} does not load"),
        (None, Some(linker)) => format!("the Vulkan loader says: {linker}; {words}"),
        (None, None) => format!("the Vulkan loader says: {words}"),
    };
    let missing = linker.and_then(|linker| linker.split_once(ABSENT));
    let how_to_mend = match missing.map(|(library, _)| library) {
        Some(library) => match PACKAGES.iter().find(|(known, _)| *known == library) {
            Some((_, package)) => format!("apt-get install {package}"),
            None if library.contains("nvidia") => WHOLE_NVIDIA.to_owned(),
            None => format!(
                "install the package that has {library}, or remove the manifest that names it"
            ),
        },
        None => match words.split_whitespace().find(|word| word.contains(".json")) {
            Some(path) => format!(
                "mend or remove {}; some loaders find no driver at all because of it",
                path.trim_end_matches(',')
            ),
            // What NVIDIA's driver does where it cannot open this library.
            None if words.contains("vk_icdGetInstanceProcAddr") => {
                "for NVIDIA's driver: apt-get install libegl1".to_owned()
            }
            None => String::new(),
        },
    };
    Problem { what, how_to_mend }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As loader 1.3.239 writes it, and one of 1.4.
    const OLD: &str = "\
INFO:             Vulkan Loader Version 1.3.239
DRIVER:           Searching for driver manifest files
DRIVER:           Found ICD manifest file /etc/vulkan/icd.d/nvidia_icd.json, version \"1.0.0\"
DEBUG | DRIVER:   Searching for ICD drivers named libGLX_nvidia.so.0
ERROR:            libX11.so.6: cannot open shared object file: No such file or directory
ERROR | DRIVER:   loader_icd_scan: Failed loading library associated with ICD JSON libGLX_nvidia.so.0. Ignoring this JSON
ERROR:            vkCreateInstance: Found no drivers!
ERROR:            loader_get_json: Failed to parse JSON file /etc/vulkan/icd.d/b.json, this is usually because something ran out of memory.
{\"level\":\"WARN\",\"text\":\"ERROR: of another\"}
ERROR:            libX11.so.6: cannot open shared object file: No such file or directory
ERROR | DRIVER:   loader_icd_scan: Failed loading library associated with ICD JSON libGLX_nvidia.so.0. Ignoring this JSON";

    fn mended(text: &str) -> Vec<(String, String)> {
        let problems = Loader::read(text).problems.into_iter();
        problems
            .map(|problem| (problem.what, problem.how_to_mend))
            .collect()
    }

    #[test]
    fn each_driver_gets_the_reason_and_the_package_once() {
        let read = Loader::read(OLD);
        assert!(read.there);
        assert_eq!(read.version, "1.3.239");
        assert_eq!(read.manifests, ["/etc/vulkan/icd.d/nvidia_icd.json"]);
        let problems = mended(OLD);
        assert_eq!(problems.len(), 2, "{problems:#?}");
        assert_eq!(
            problems[0].0,
            "the Vulkan driver libGLX_nvidia.so.0 does not load: libX11.so.6: cannot open shared object file: No such file or directory"
        );
        assert_eq!(problems[0].1, "apt-get install libx11-6");
        assert!(
            problems[1]
                .1
                .starts_with("mend or remove /etc/vulkan/icd.d/b.json;")
        );
        let new: Vec<String> = OLD
            .lines()
            .map(|line| format!("[Vulkan Loader] {line}"))
            .collect();
        assert_eq!(Loader::read(&new.join("\n")), read);
    }

    #[test]
    fn other_reasons_have_their_own_way_out() {
        let load = |library: &str| {
            format!(
                "ERROR: {library}: cannot open shared object file: No such\nERROR: {NOT_LOADED}x.so. Ignoring this JSON"
            )
        };
        let broken = "ERROR: loader_scanned_icd_add: Could not get 'vkCreateInstance' via 'vk_icdGetInstanceProcAddr' for ICD x".to_owned();
        for (text, mend) in [
            (load("libGLX_nvidia.so.0"), WHOLE_NVIDIA),
            (load("libEGL.so.1"), "apt-get install libegl1"),
            (
                load("libodd.so"),
                "install the package that has libodd.so, or remove the manifest that names it",
            ),
            (broken, "for NVIDIA's driver: apt-get install libegl1"),
        ] {
            let problems = mended(&text);
            assert_eq!(problems.len(), 1, "{text}");
            assert_eq!(problems[0].1, mend);
        }
        assert_eq!(
            Loader::read("warning: something else\n\n"),
            Loader::default()
        );
    }
}
