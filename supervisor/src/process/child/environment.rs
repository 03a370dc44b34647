//! The supervisor's environment → the few variables that a child gets: no secret of the caller's reaches a worker.

use std::ffi::OsString;

use proto::message::Role;
use proto::sandbox::passes;

/// How a worker's memory is had: what it frees it will want again, and giving it back to the system, which zeroes it page by page
/// when it is next touched, costs more than the work done there. Pages of 2 MiB, where the system lends them on request.
const ALLOCATOR: &str = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=1073741824";

/// The variables of `role` out of `ours`.
pub(super) fn environment(
    role: Role,
    log_filter: &str,
    threads: Option<usize>,
    ours: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    // A backtrace of the standard library's reads files, which the sandbox forbids; workers write down their own stacks.
    let listed = |name: &OsString| {
        name.to_str()
            .is_some_and(|name| passes(role, name) && name != "RUST_BACKTRACE")
    };
    // A later pair of the same name wins, so these are defaults. Mesa complains without a runtime directory.
    let mut variables: Vec<(OsString, OsString)> = vec![
        ("KILN_LOG".into(), log_filter.into()),
        ("XDG_RUNTIME_DIR".into(), "/tmp".into()),
        ("GLIBC_TUNABLES".into(), ALLOCATOR.into()),
    ];
    variables.extend(threads.map(|count| ("RAYON_NUM_THREADS".into(), count.to_string().into())));
    if role == Role::Bake {
        // The sandbox lets no cache be written: one job's compiled shaders are nothing for the next.
        variables.push(("MESA_SHADER_CACHE_DISABLE".into(), "true".into()));
        variables.push(("__GL_SHADER_DISK_CACHE".into(), "0".into()));
    }
    variables.extend(ours.filter(|(name, _)| listed(name)));
    #[cfg(feature = "failpoints")]
    {
        drop(crate::failpoint::at("spawn"));
        let points = proto::failpoint::for_child(role);
        variables.extend(points.map(|points| (proto::failpoint::VARIABLE.into(), points.into())));
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(role: Role) -> Vec<(String, String)> {
        given(role, None)
    }

    fn given(role: Role, threads: Option<usize>) -> Vec<(String, String)> {
        let ours = [
            "PATH",
            "AWS_SECRET_ACCESS_KEY",
            "VK_DRIVER_FILES",
            "HOME",
            "DISPLAY",
            "RAYON_NUM_THREADS",
        ];
        let ours = ours.into_iter().map(|name| (name.into(), "x".into()));
        let text = |text: OsString| text.into_string().expect("ascii");
        environment(role, "warn", threads, ours)
            .into_iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect()
    }

    #[test]
    fn a_child_gets_listed_variables_only() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let common = [
            pair("KILN_LOG", "warn"),
            pair("XDG_RUNTIME_DIR", "/tmp"),
            pair("GLIBC_TUNABLES", ALLOCATOR),
        ];
        let rayon = pair("RAYON_NUM_THREADS", "x");
        assert_eq!(
            names(Role::Prepare),
            [&common[..], std::slice::from_ref(&rayon)].concat()
        );
        let bake = [
            pair("MESA_SHADER_CACHE_DISABLE", "true"),
            pair("__GL_SHADER_DISK_CACHE", "0"),
            pair("VK_DRIVER_FILES", "x"),
            pair("HOME", "x"),
            rayon,
        ];
        assert_eq!(names(Role::Bake), [&common[..], &bake].concat());
        // What the caller says comes later, and wins.
        let threads: Vec<String> = given(Role::Prepare, Some(4))
            .into_iter()
            .filter(|(name, _)| name == "RAYON_NUM_THREADS")
            .map(|(_, count)| count)
            .collect();
        assert_eq!(threads, ["4", "x"]);
    }
}
