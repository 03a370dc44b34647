//! Hands cached pipelines to a bake that opened its adapter, and caches what it compiled. Used for a job's own process
//! and for spares.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proto::blob::Blob;
use proto::limits::MAX_PIPELINES_BYTES;
use proto::message::{Role, Table, ToChild};

use super::running::Running;
use crate::host::pipelines::{self, Key, Vault};
use crate::process::child::Parcel;
use crate::process::reserve::lend;
use crate::words::chain;

/// What one bake has been given of the pipeline cache, and what it offers.
#[derive(Debug, Default)]
pub(super) struct Loan {
    vault: Vault,
    /// Key of the pipelines that it may hand over; `None` if it may not.
    key: Option<Key>,
    /// It was given pipelines of an earlier process.
    given: Arc<AtomicBool>,
    /// The pipelines that it hands over, while it writes them.
    open: Option<Arc<Blob>>,
    /// The same, once it has written them.
    written: Option<Arc<Blob>>,
}

impl Loan {
    pub(super) fn new(vault: Vault) -> Self {
        Self {
            vault,
            ..Self::default()
        }
    }

    /// The key of the pipelines that it was given, if it was given any.
    pub(super) fn given(&self) -> Option<Key> {
        self.key.filter(|_| self.given.load(Ordering::Relaxed))
    }
}

impl Running {
    /// Answers a bake's offer of pipelines, if it made one.
    pub(super) fn lend(&mut self, offer: Option<&str>) -> Result<(), String> {
        let Some(offer) = offer else { return Ok(()) };
        let vault = self.loan.vault.clone();
        let key = pipelines::key(offer);
        if self.rung.unkept || !vault.keeps(&key) {
            let message = ToChild::Pipelines { keep: false };
            return self.child.send(Parcel::bare(message));
        }
        self.loan.key = Some(key);
        let given = Arc::clone(&self.loan.given);
        self.child.send_when(async move {
            let blob = vault.load(key).await;
            given.store(blob.is_some(), Ordering::Relaxed);
            Parcel::with(ToChild::Pipelines { keep: true }, &blob)
        });
        Ok(())
    }

    /// The bake asks for memory to hand pipelines over. Allowed only before its stages are compiled, and so before it
    /// has seen any data.
    pub(super) fn pipelines_asked(&mut self, bytes: u64) -> Result<(), String> {
        let Loan {
            key, open, written, ..
        } = &mut self.loan;
        let early = self.child.role == Role::Bake && !self.dispatcher.compiled();
        if !early || key.is_none() || open.is_some() || written.is_some() {
            return Err("it hands pipelines over out of turn".to_owned());
        }
        if !(1..=MAX_PIPELINES_BYTES).contains(&bytes) {
            return Err(format!("pipelines of {bytes} bytes"));
        }
        let blob = lend(|| Blob::create("kiln-pipelines", bytes));
        let blob = Arc::new(blob.map_err(|error| chain(&error))?);
        *open = Some(Arc::clone(&blob));
        let table = Table::Pipelines;
        (self.child).send(Parcel::with(ToChild::Grant { table }, [&blob]))
    }

    /// The pipelines are written.
    pub(super) fn pipelines_filled(&mut self) -> Result<(), String> {
        let open = self.loan.open.take();
        let blob = open.ok_or("it fills pipelines out of turn")?;
        blob.seal_written().map_err(|error| chain(&error))?;
        self.loan.written = Some(blob);
        Ok(())
    }

    /// The stages are compiled. What it wrote is cached; nothing that it writes later is.
    pub(super) fn compiled(&mut self) -> Result<(), String> {
        if self.loan.open.is_some() || !self.dispatcher.compile() {
            return Err("its stages are compiled out of turn".to_owned());
        }
        if let (Some(key), Some(blob)) = (self.loan.key, self.loan.written.take()) {
            self.loan.vault.store(key, blob);
        }
        Ok(())
    }
}
