//! Arguments of `kiln serve` → its options, with the token read and the default places filled in.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use proto::message::Code;

use super::args::ServeArgs;
use super::paths::baker_path;
use crate::error::JobError;
use crate::home;
use crate::input::{Chosen, whole};
use crate::serve::site::Sites;
use crate::serve::{Options, listen};

/// A token that can be guessed is none.
const LEAST_TOKEN: usize = 16;
/// Bytes that a token's file may have; only its first line counts.
const MAX_TOKEN_FILE: u64 = 64 << 10;

/// See the head of this file.
pub(super) fn options(args: ServeArgs) -> Result<Options, Box<JobError>> {
    Ok(Options {
        socket: args.socket.unwrap_or_else(listen::default_socket),
        tcp: args.tcp,
        token: args.token_file.as_deref().map(token).transpose()?,
        sites: Sites {
            public: args.public_url,
            others: args.cors_origin,
        },
        allow_uid: args.allow_uid,
        store: match args.store {
            Some(folder) => folder,
            None => default_store()?,
        },
        roots: args.roots,
        parallel: args.parallel.map(usize::from),
        bakes: usize::from(args.bakes),
        #[cfg(feature = "fleet")]
        spares: if args.fleet {
            0
        } else {
            usize::from(args.spares)
        },
        #[cfg(not(feature = "fleet"))]
        spares: usize::from(args.spares),
        nice: args.nice,
        memory_limit: args.memory_limit,
        vram_budget: args.vram_budget,
        queue_jobs: args.queue_jobs,
        client_jobs: args.client_jobs,
        queue_bytes: args.queue_bytes,
        keep: args.keep,
        keep_bytes: args.keep_bytes,
        pipelines: crate::host::pipelines::folder(args.pipeline_cache),
        sandbox: !args.insecure_no_sandbox,
        baker: baker_path(args.baker)?,
        stall: args.stall_timeout,
    })
}

/// The first line of the file, which nobody else may read.
pub(super) fn token(path: &Path) -> Result<String, Box<JobError>> {
    let shown = path.display();
    let bad = |why: String| {
        let hint = "make one: umask 077; head -c 32 /dev/urandom | base64 > FILE";
        JobError::own(
            Code::InvalidSpec,
            format!("--token-file {shown}: {why}"),
            hint,
        )
    };
    let (bytes, metadata) = whole(path, MAX_TOKEN_FILE, Chosen::ByUser).map_err(bad)?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(bad("others than its owner may read it".to_owned()));
    }
    let text = String::from_utf8(bytes).map_err(|_bytes| bad("it is not text".to_owned()))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.len() < LEAST_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(bad(format!(
            "its first line must be {LEAST_TOKEN} printable characters or more"
        )));
    }
    Ok(token.to_owned())
}

fn default_store() -> Result<PathBuf, Box<JobError>> {
    home::folder("XDG_STATE_HOME", ".local/state")
        .map(|folder| folder.join("kiln/store"))
        .ok_or_else(|| {
            let message = "neither XDG_STATE_HOME nor HOME tells where to keep jobs";
            JobError::own(Code::InvalidSpec, message, "name a folder with --store")
        })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_token_is_long_and_its_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let write = |text: &str, mode: u32| {
            fs::write(&path, text).expect("room");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
            token(&path).map_err(|error| error.message)
        };
        assert_eq!(
            write("0123456789abcdef\n", 0o600).as_deref(),
            Ok("0123456789abcdef")
        );
        assert!(write("0123456789abcdef\n", 0o640).is_err_and(|why| why.contains("others")));
        assert!(write("short\n", 0o600).is_err_and(|why| why.contains("16")));
        fs::remove_file(&path).expect("there");
        assert!(token(&path).is_err_and(|error| error.message.contains("no such file")));
    }
}
