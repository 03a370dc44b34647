//! The self-test: bakes a sample whose result is known, to see whether this sidecar can bake.
//!
//! The sample is a cube with a different pattern on each face, and eight exactly rendered views of 64². Its first
//! result on an adapter must reach [`LEAST_PSNR`]; later ones on the same adapter and driver must have the same bytes.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proto::job::{Form, Quality, Refine};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::options::Options;
use crate::event::{Event, Listener};
use crate::host::Host;
use crate::input::find;
use crate::job::{self, Kind, Spec};
use crate::output::Target;
use crate::store::Digest;

/// Interval between self-tests of an idle sidecar.
pub const AGE: Duration = Duration::from_secs(600);
/// Least PSNR over the sample's views in dB; a working bake reaches 45.
const LEAST_PSNR: f32 = 40.0;
/// For the whole of it, on a machine that is busy with other things.
const TIMEOUT_S: f64 = 120.0;

/// The sample's files.
const FILES: [(&str, &[u8]); 10] = [
    ("mesh.obj", include_bytes!("proof/mesh.obj")),
    ("transforms.json", include_bytes!("proof/transforms.json")),
    ("0.png", include_bytes!("proof/0.png")),
    ("1.png", include_bytes!("proof/1.png")),
    ("2.png", include_bytes!("proof/2.png")),
    ("3.png", include_bytes!("proof/3.png")),
    ("4.png", include_bytes!("proof/4.png")),
    ("5.png", include_bytes!("proof/5.png")),
    ("6.png", include_bytes!("proof/6.png")),
    ("7.png", include_bytes!("proof/7.png")),
];

/// The latest self-test.
#[derive(Clone, Debug, Default)]
pub struct Proof {
    /// The adapter that baked, or why the test failed; `None` before the first.
    pub outcome: Option<Result<String, String>>,
    /// When it ended.
    pub at: Option<Instant>,
    /// How long it took.
    pub took: Duration,
}

impl Proof {
    /// What a test gives, and how long it takes.
    pub async fn of(test: impl Future<Output = Result<String, String>>) -> Self {
        let began = Instant::now();
        let outcome = test.await;
        if let Err(why) = &outcome {
            tracing::error!("the self-test failed: {why}");
        }
        Self {
            outcome: Some(outcome),
            at: Some(Instant::now()),
            took: began.elapsed(),
        }
    }

    /// The self-test as the API shows it.
    pub fn show(&self) -> Value {
        json!({
            "passed": self.outcome.as_ref().map(Result::is_ok),
            "adapter": self.outcome.as_ref().and_then(|outcome| outcome.as_ref().ok()),
            "error": self.outcome.as_ref().and_then(|outcome| outcome.as_ref().err()),
            "age_s": self.at.map(|at| at.elapsed().as_secs()),
            "ms": self.took.as_secs_f64() * 1e3,
        })
    }

    /// Whether the latest test failed, is missing, or is old.
    pub fn is_due(&self, now: Instant) -> bool {
        let fresh = |at: Instant| now.saturating_duration_since(at) < AGE;
        !self.at.is_some_and(fresh)
    }
}

/// Digests of the first result, by adapter and driver.
#[derive(Debug, Default)]
pub struct Goldens(HashMap<String, Digest>);

impl Goldens {
    /// Bakes the sample in a folder of its own beneath the store; gives the adapter.
    ///
    /// # Errors
    /// What failed.
    pub async fn bake(&mut self, options: &Options, host: &Host) -> Result<String, String> {
        let folder = options.store.join("proof");
        lay_out(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let spec = spec(options, &folder)?;
        let (_orders, received) = mpsc::channel(1);
        let report = job::run(Kind::Bake(&spec), host, &mut Nobody, received).await;
        if let Some(error) = report.error {
            return Err(error.message);
        }
        let adapter = report.device.ok_or("no adapter is named")?;
        let psnr = report.bake.map_or(0.0, |bake| bake.train_psnr_db);
        let name = format!("{} {} {}", adapter.name, adapter.backend, adapter.driver);
        if psnr.is_nan() || psnr < LEAST_PSNR {
            return Err(format!(
                "{name} explains the views with {psnr:.1} dB, less than {LEAST_PSNR}"
            ));
        }
        let bytes = fs::read(folder.join("out.glb")).map_err(|error| error.to_string())?;
        let digest = Digest::of(bytes);
        match self.0.insert(name.clone(), digest) {
            Some(golden) if golden != digest => {
                self.0.insert(name.clone(), golden);
                Err(format!("{name} gave other bytes than before"))
            }
            _ => Ok(name),
        }
    }
}

fn lay_out(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, bytes) in FILES {
        fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}

fn spec(options: &Options, folder: &Path) -> Result<Spec, String> {
    let said = |error: Box<crate::error::JobError>| error.message;
    let at = |name: &str| -> PathBuf { folder.join(name) };
    Ok(Spec {
        name: "self-test".into(),
        mesh: find("the mesh", &at("mesh.obj")).map_err(said)?,
        views: find("the views", &at("transforms.json")).map_err(said)?,
        original: None,
        glb: Some(Target::check(&at("out.glb")).map_err(said)?),
        form: Form::default(),
        beside: Vec::new(),
        preview: None,
        html: None,
        maps: None,
        rejected: None,
        report: None,
        dry_run: false,
        options: crate::options::JobOptions {
            texture_size: 256,
            quality: Quality::Draft,
            refine: Refine::Off,
            vram_budget: options.vram_budget,
            timeout_s: TIMEOUT_S,
            ..crate::options::JobOptions::default()
        },
        sandbox: options.sandbox,
        memory_limit: options.memory_limit,
        crash_root: Some(options.store.join("crashes")),
        pipelines: options.pipelines.clone(),
        stall: options.stall,
        baker: options.baker.clone(),
        log_filter: "warn,baker=info".to_owned(),
        threads: None,
    })
}

/// Ignores events: the report is enough.
struct Nobody;

impl Listener for Nobody {
    fn event(&mut self, _event: &Event<'_>) {}
}
