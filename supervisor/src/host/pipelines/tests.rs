use std::io::Read;
use std::os::unix::fs::FileExt;

use nix::libc::{SIGKILL, SIGSEGV};

use crate::host::pipelines::*;

#[test]
fn a_driver_is_suspected_and_nobody_else() {
    let (crash, kill, exit) = (Exit::Signal(SIGSEGV), Exit::Signal(SIGKILL), Exit::Code(70));
    for compiled in [false, true] {
        assert!(suspected(Code::WorkerCrashed, &crash, compiled));
        assert!(suspected(Code::GpuHang, &kill, compiled));
        assert!(suspected(Code::GpuDeviceLost, &exit, compiled));
        assert!(suspected(Code::IncompleteOutput, &exit, compiled));
        assert!(suspected(Code::ShaderRejected, &exit, compiled));
        for code in [Code::Cancelled, Code::OutOfHostMemory, Code::InvalidAsset] {
            assert!(!suspected(code, &kill, compiled), "{code:?}");
        }
        // Before there is data nothing else can have killed it; later anything can.
        assert_eq!(suspected(Code::WorkerCrashed, &kill, compiled), !compiled);
        assert_eq!(suspected(Code::WorkerStalled, &kill, compiled), !compiled);
        assert_eq!(
            suspected(Code::OutOfDeviceMemory, &exit, compiled),
            !compiled
        );
    }
}

/// The cached pipelines, as soon as they are there: a bake waits for a bounded time only.
async fn kept(vault: &Vault, key: Key) -> Arc<Blob> {
    loop {
        vault.settle().await;
        if let Some(blob) = vault.clone().load(key).await {
            return blob;
        }
    }
}

#[tokio::test]
async fn what_two_processes_died_of_is_not_kept_any_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let vault = Vault::new(Some(folder.path().join("kept")));
    let (bad, good) = (key("bad"), key("good"));
    let blob = Arc::new(Blob::create("test", 3).expect("memory"));
    blob.file().write_all_at(b"abc", 0).expect("room");
    for keeps in [true, false] {
        assert!(vault.keeps(&bad));
        vault.store(bad, Arc::clone(&blob));
        let loaded = kept(&vault, bad).await;
        let mut bytes = Vec::new();
        loaded.reader().read_to_end(&mut bytes).expect("memory");
        assert_eq!(bytes, b"abc");
        vault.blame(bad);
        while vault.clone().load(bad).await.is_some() {
            vault.settle().await;
        }
        assert_eq!(vault.keeps(&bad), keeps);
    }
    assert!(vault.keeps(&good));
    assert!(!Vault::default().keeps(&good), "it is switched off");
}
