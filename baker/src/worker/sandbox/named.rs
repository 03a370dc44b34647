//! Finds driver files that the user's environment variables name, file by file: a folder in a variable may be a home
//! folder, so no whole folder is opened.
//!
//! Manifests are read as the loader reads them, for the library that they name. What a library needs, or opens by name,
//! is beside it or in a folder of `LD_LIBRARY_PATH`, so every shared library there may be read.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Variables with manifests: files, or folders of files that end in `.json`.
const MANIFESTS: [&str; 7] = [
    "VK_DRIVER_FILES",
    "VK_ADD_DRIVER_FILES",
    "VK_ICD_FILENAMES",
    "VK_LAYER_PATH",
    "VK_ADD_LAYER_PATH",
    "VK_IMPLICIT_LAYER_PATH",
    "VK_ADD_IMPLICIT_LAYER_PATH",
];
/// Variable with a file that names manifests.
const SETTINGS: &str = "VK_LOADER_SETTINGS_FILE";
/// Variable with folders of libraries.
const LIBRARIES: &str = "LD_LIBRARY_PATH";

/// Most paths in one variable or settings file.
const MOST_PATHS: usize = 64;
/// Most entries of one folder.
const MOST_ENTRIES: usize = 4096;
/// Most bytes of a manifest: the loader's own have a few hundred.
const LONGEST_MANIFEST: u64 = 1 << 20;

/// The named files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// Files that may be read.
    pub(super) read: Vec<PathBuf>,
    /// Folders that may be listed: the loader looks for manifests in them.
    pub(super) list: Vec<PathBuf>,
}

impl Named {
    /// Reads the environment through `variable`. Files beneath `known` may be read anyway.
    pub(super) fn new(variable: impl Fn(&str) -> Option<OsString>, known: &[PathBuf]) -> Self {
        let mut named = Self::default();
        let paths = |name: &str| -> Vec<PathBuf> {
            let list = variable(name).unwrap_or_default();
            let paths = std::env::split_paths(&list).filter(|path| path.is_absolute());
            paths.take(MOST_PATHS).collect()
        };
        for path in MANIFESTS.iter().flat_map(|name| paths(name)) {
            named.manifests(&path);
        }
        for path in paths(SETTINGS) {
            for manifest in strings(&named.json(&path), "path") {
                named.manifests(Path::new(&manifest));
            }
        }
        for folder in paths(LIBRARIES) {
            named.libraries(&folder);
            for better in entries(&folder.join("glibc-hwcaps")) {
                named.libraries(&better);
            }
        }
        let known: Vec<PathBuf> = known.iter().filter_map(|p| p.canonicalize().ok()).collect();
        named.read.retain(|path| {
            let real = path.canonicalize();
            real.is_ok_and(|real| !known.iter().any(|folder| real.starts_with(folder)))
        });
        named.read.sort_unstable();
        named.read.dedup();
        named
    }

    fn manifests(&mut self, path: &Path) {
        if !path.is_dir() {
            return self.manifest(path);
        }
        self.list.push(path.to_owned());
        for file in entries(path) {
            if file
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                self.manifest(&file);
            }
        }
    }

    fn manifest(&mut self, path: &Path) {
        let manifest = self.json(path);
        let folder = path.parent().unwrap_or(path);
        for library in strings(&manifest, "library_path") {
            // A plain name is searched in the system's libraries and in LD_LIBRARY_PATH.
            if library.contains('/') {
                let library: PathBuf = folder.join(library).components().collect();
                self.libraries(library.parent().unwrap_or(folder));
                self.read.push(library);
            }
        }
    }

    /// The file may be read even if it is not JSON: the loader then reports what is wrong.
    fn json(&mut self, path: &Path) -> Value {
        if !path.is_file() {
            return Value::Null;
        }
        self.read.push(path.to_owned());
        let mut text = Vec::new();
        let read = File::open(path).map(|file| file.take(LONGEST_MANIFEST).read_to_end(&mut text));
        match read {
            Ok(Ok(_)) => serde_json::from_slice(&text).unwrap_or_default(),
            Ok(Err(_)) | Err(_) => Value::Null,
        }
    }

    /// Adds the shared libraries of a folder, without subfolders.
    fn libraries(&mut self, folder: &Path) {
        self.read
            .extend(entries(folder).into_iter().filter(|path| is_library(path)));
    }
}

fn is_library(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let named = name.is_some_and(|name| name.ends_with(".so") || name.contains(".so."));
    let mut magic = [0; 4];
    // Other things with such a name, such as pipes, are not opened.
    named
        && path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
        && magic == *b"\x7fELF"
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries
        .take(MOST_ENTRIES + 1)
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    if paths.len() > MOST_ENTRIES {
        tracing::warn!(
            ?folder,
            "more than {MOST_ENTRIES} entries: the driver may read no file beyond them"
        );
        paths.truncate(MOST_ENTRIES);
    }
    paths
}

/// All values of a key, at any depth.
fn strings(value: &Value, key: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Value::Object(map) => {
                found.extend(map.get(key).and_then(Value::as_str).map(str::to_owned));
                rest.extend(map.values());
            }
            Value::Array(values) => rest.extend(values),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found.truncate(MOST_PATHS);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELF: &[u8] = b"\x7fELF and so on";

    fn named(variables: &[(&str, String)]) -> Named {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.into())
        };
        Named::new(variable, &["/usr/lib".into()])
    }

    /// `home/driver.json` and `home/lib/libdriver.so`, among private files.
    fn home() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir_all(at("lib/glibc-hwcaps/x86-64-v3")).unwrap();
        fs::create_dir(at("lib/deep")).unwrap();
        let manifest = r#"{"ICD": {"library_path": "./lib/libdriver.so"}}"#;
        fs::write(at("driver.json"), manifest).unwrap();
        for library in ["libdriver.so", "libneeded.so.1", "deep/libdeep.so"] {
            fs::write(at("lib").join(library), ELF).unwrap();
        }
        fs::write(at("lib/glibc-hwcaps/x86-64-v3/libfast.so"), ELF).unwrap();
        for secret in ["secret", "lib/secret", "lib/secret.so", "lib/program"] {
            fs::write(at(secret), "secret").unwrap();
        }
        fs::write(at("lib/program"), ELF).unwrap();
        nix::unistd::mkfifo(&at("lib/pipe.so"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        home
    }

    fn below(home: &tempfile::TempDir, paths: &[PathBuf]) -> Vec<String> {
        let names = paths.iter().map(|path| path.strip_prefix(home.path()));
        let mut names: Vec<String> = names.map(|p| p.unwrap().display().to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_manifest_opens_itself_its_library_and_the_libraries_beside_that() {
        let home = home();
        let manifest = home.path().join("driver.json").display().to_string();
        let named = named(&[("VK_DRIVER_FILES", manifest)]);
        assert_eq!(
            below(&home, &named.read),
            ["driver.json", "lib/libdriver.so", "lib/libneeded.so.1"]
        );
        assert_eq!(named.list, Vec::<PathBuf>::new());
    }

    #[test]
    fn a_folder_of_manifests_is_listed_and_opens_no_other_file() {
        let home = home();
        let folder = home.path().display().to_string();
        let named = named(&[("VK_LAYER_PATH", folder)]);
        assert_eq!(named.list, [home.path()]);
        assert!(!below(&home, &named.read).contains(&"secret".to_owned()));
        assert!(below(&home, &named.read).contains(&"driver.json".to_owned()));
    }

    #[test]
    fn a_folder_of_libraries_opens_libraries_alone() {
        let home = home();
        let folder = home.path().join("lib").display().to_string();
        let named = named(&[("LD_LIBRARY_PATH", format!("relative:{folder}:/usr/lib"))]);
        assert_eq!(
            below(&home, &named.read),
            [
                "lib/glibc-hwcaps/x86-64-v3/libfast.so",
                "lib/libdriver.so",
                "lib/libneeded.so.1"
            ]
        );
        assert_eq!(named.list, Vec::<PathBuf>::new());
    }

    #[test]
    fn settings_open_the_manifests_that_they_name() {
        let home = home();
        let settings = home.path().join("settings.json");
        let manifest = home.path().join("driver.json");
        let text = serde_json::json!({ "settings": { "layers": [{ "path": manifest }] } });
        fs::write(&settings, text.to_string()).unwrap();
        let named = named(&[("VK_LOADER_SETTINGS_FILE", settings.display().to_string())]);
        let read = below(&home, &named.read);
        assert!(read.contains(&"settings.json".to_owned()), "{read:?}");
        assert!(read.contains(&"lib/libneeded.so.1".to_owned()), "{read:?}");
    }

    #[test]
    fn what_is_not_there_or_no_manifest_opens_nothing_more() {
        let home = home();
        let at = |name: &str| home.path().join(name).display().to_string();
        fs::write(home.path().join("broken.json"), "{").unwrap();
        for (file, read) in [("absent.json", 0), ("broken.json", 1)] {
            let named = named(&[("VK_ICD_FILENAMES", at(file))]);
            assert_eq!(named.read.len(), read, "{file}");
        }
        assert_eq!(named(&[]), Named::default());
    }
}
