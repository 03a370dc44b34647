//! Estimates the seconds of each stage from rows, texels and passes.
//!
//! The rates are fitted by hand to measured bakes. Those of the processor come from two threads (`spot_small` and
//! `avocado` at 1024²), and are scaled by the time in which this machine draws the sample. Those of software adapters
//! are llvmpipe's on two threads; those of GPUs come from an NVIDIA H200. There, estimates are within a fifth.
//! Another GPU may be several times slower.

use proto::job::{Refine, TextureFormat};
use proto::message::Phase;
use proto::plan::PhaseSeconds;

use crate::bake::plan::quality::Plan;
use crate::bake::solve::fit::passes;

/// Seconds on two threads of the reference machine: for a sample, an entry, and a triangle in each view.
const DRAWN: [f64; 3] = [1.7e-8, 4.7e-9, 7e-7];

/// How many times slower this machine is than the reference now: `took` seconds for so many samples, entries and
/// triangles.
pub(super) fn slower(took: f64, counts: [u64; 3]) -> f64 {
    let parts = DRAWN.iter().zip(counts);
    let expected: f64 = parts.map(|(rate, count)| rate * count as f64).sum();
    if expected > 0.0 { took / expected } else { 1.0 }
}

/// Speed of an adapter, in seconds.
#[derive(Clone, Copy, Debug)]
struct Speed {
    /// For an entry, in each pass.
    entry: f64,
    /// For a texel, in each pass.
    texel: f64,
    /// To draw a sample.
    sample: f64,
    /// For each view.
    view: f64,
    /// To transfer a texel there and back.
    moved: f64,
    /// Whether the processor does the work, so that its speed scales these.
    scaled: bool,
}

const NATIVE: Speed = Speed {
    entry: 1.9e-9,
    texel: 1.5e-8,
    sample: 0.0,
    view: 0.0,
    moved: 0.0,
    scaled: true,
};
const SOFTWARE: Speed = Speed {
    entry: 3.5e-8,
    texel: 2.9e-7,
    sample: 5.2e-7,
    view: 0.0,
    moved: 0.0,
    scaled: true,
};
const GPU: Speed = Speed {
    entry: 1.0 / 2.2e10,
    texel: 1.0 / 6e9,
    sample: 1.6e-10,
    view: 1e-3,
    moved: 3e-8,
    scaled: false,
};

/// Amount of work of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) views: f64,
    /// Of all views.
    pub(super) pixels: f64,
    pub(super) rows: u64,
    pub(super) entries: f64,
    pub(super) texels: f64,
    /// How often all rows are built before they are stored, and how many are fitted for each that exists: 1 and 1,
    /// unless the texture is fitted in subdomains.
    pub(super) parts: [f64; 2],
    /// Textures that are fitted one after the other.
    pub(super) textures: f64,
    /// Seconds until the first view could be taken in, as measured in this run.
    pub(super) opened: f64,
    /// Seconds to build all rows on the processor.
    pub(super) drawn: f64,
    /// How much slower the processor is than the reference, see [`slower`].
    pub(super) slower: f64,
    /// Seconds of the reference machine for the detail of the original.
    pub(super) detail: f64,
}

/// Seconds of the stages of bake and encode, in their order.
pub(super) fn seconds(
    kind: &str,
    plan: &Plan,
    refine: Refine,
    format: TextureFormat,
    load: &Load,
) -> Vec<PhaseSeconds> {
    let slower = load.slower;
    let samples = load.pixels * f64::from(plan.taps * plan.taps);
    let speed = match kind {
        "native" => NATIVE,
        "software" => SOFTWARE,
        _ => GPU,
    };
    let scale = if speed.scaled { slower } else { 1.0 };
    let raster = match kind {
        "native" => load.drawn,
        _ => scale * (samples * speed.sample + load.views * speed.view),
    };
    let passes = passes(plan, load.rows);
    let pass = scale * (load.entries * speed.entry + load.texels * speed.texel);
    let [draws, visits] = load.parts;
    let host = |fixed: f64, texel: f64| slower * (fixed + load.texels * texel);
    let refined = match refine {
        Refine::Off => 0.0,
        Refine::Auto | Refine::On => slower * (0.02 + load.pixels * 3.2e-8),
    };
    let moved = load.texels * speed.moved;
    let all = [
        (Phase::OpenDevice, load.opened),
        (Phase::Refine, refined),
        (Phase::Raster, load.textures * draws * raster),
        (
            Phase::Init,
            load.textures * visits * (f64::from(passes.average) * pass + host(0.0, 3.6e-8) + moved),
        ),
        (
            Phase::Fit,
            load.textures * visits * f64::from(passes.fit) * pass,
        ),
        (Phase::Detail, slower * load.detail),
        (Phase::Gutter, load.textures * (host(0.06, 1.15e-7) + moved)),
        (Phase::Png, load.textures * load.texels * stored(format)),
        (Phase::Glb, 0.02 + load.textures * load.texels * 1.5e-8),
        (Phase::Measure, load.texels * 2.2e-8),
    ];
    all.into_iter()
        .filter(|&(phase, seconds)| phase != Phase::Detail || seconds > 0.0)
        .map(|(phase, seconds)| PhaseSeconds { phase, seconds })
        .collect()
}

/// Seconds to encode a texel in this format and read it back.
fn stored(format: TextureFormat) -> f64 {
    match format {
        TextureFormat::Png => 4e-8,
        TextureFormat::Jpeg | TextureFormat::Webp => 1e-7,
        TextureFormat::WebpLossy => 2e-7,
        TextureFormat::Ktx2Etc1s => 3.5e-6,
        TextureFormat::Ktx2Uastc => 2.1e-6,
    }
}

#[cfg(test)]
mod tests {
    use proto::job::Quality;

    use super::*;

    const LOAD: Load = Load {
        views: 16.0,
        pixels: 5e5,
        rows: 450_000,
        entries: 6e6,
        texels: 1e6,
        parts: [1.0; 2],
        textures: 1.0,
        opened: 0.03,
        drawn: 0.2,
        slower: 1.0,
        detail: 0.0,
    };

    fn all(kind: &str, quality: Quality, load: Load) -> f64 {
        let plan = Plan::new(quality);
        let seconds = seconds(kind, &plan, Refine::Auto, TextureFormat::Png, &load);
        seconds.iter().map(|phase| phase.seconds).sum()
    }

    #[test]
    fn the_rates_tell_what_they_were_fitted_to() {
        // `spot_small` at 1024² on two threads: 2.3 s of bake and encode.
        let native = all("native", Quality::Standard, LOAD);
        assert!((1.7..3.0).contains(&native), "{native} s");
        // 40 views of 512² into 1024² on an H200: 0.15 s of the device, of 0.4 to 0.48 in bake.
        let fit = |load| {
            let plan = Plan::new(Quality::Standard);
            let all = seconds("discrete", &plan, Refine::Off, TextureFormat::Png, &load);
            let fit = all.iter().find(|phase| phase.phase == Phase::Fit);
            fit.map_or(0.0, |phase| phase.seconds)
        };
        let fitted = fit(Load {
            entries: 3.4e7,
            ..LOAD
        });
        assert!((0.1..0.25).contains(&fitted), "{fitted} s");
    }

    #[test]
    fn more_work_takes_longer_and_a_faster_machine_shorter() {
        for kind in ["native", "software", "discrete"] {
            let plain = all(kind, Quality::Standard, LOAD);
            assert!(all(kind, Quality::Draft, LOAD) < plain, "{kind}");
            assert!(all(kind, Quality::Best, LOAD) > plain, "{kind}");
            let in_parts = Load {
                parts: [4.0, 1.3],
                ..LOAD
            };
            assert!(all(kind, Quality::Standard, in_parts) > plain, "{kind}");
            let detailed = Load {
                detail: 0.5,
                ..LOAD
            };
            let more = all(kind, Quality::Standard, detailed) - plain;
            assert!((more - 0.5).abs() < 1e-9, "{kind}");
            let faster = Load {
                slower: 0.25,
                ..LOAD
            };
            assert!(all(kind, Quality::Standard, faster) < plain, "{kind}");
        }
        assert_eq!(slower(0.0, [0; 3]), 1.0);
        assert!((slower(0.1, [1_000_000, 0, 0]) - 0.1 / 0.017).abs() < 1e-6);
    }
}
