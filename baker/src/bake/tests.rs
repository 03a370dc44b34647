//! The role as a whole: texels that are no numbers end the job, and the report's PSNR.

use proto::job::{Blend, Memory, Quality, Refine};
use proto::message::Code;
use proto::table::View;

use super::backend::Ties;
use super::fixture::{around, camera, cube, paint, view, waves};
use super::*;
use crate::progress::Silent;

const SIZE: u32 = 48;

/// The processor, whose n-th reading has a texel that is no number.
struct Spoilt {
    native: Native,
    readings: u32,
    nth: u32,
    value: f32,
}

impl Backend for Spoilt {
    fn adapter(&self) -> AdapterInfo {
        self.native.adapter()
    }

    fn row_memory(&self) -> backend::RowMemory {
        self.native.row_memory()
    }

    fn add_view(&mut self, view: &View) -> Result<(), BackendError> {
        self.native.add_view(view)
    }

    fn forget(&mut self) -> Result<(), BackendError> {
        self.native.forget()
    }

    fn rows_held(&self) -> RowsHeld {
        self.native.rows_held()
    }

    fn average(&mut self) -> Result<(), BackendError> {
        self.native.average()
    }

    fn read_texels(&mut self) -> Result<Vec<[f32; 4]>, BackendError> {
        let mut texels = self.native.read_texels()?;
        self.readings += 1;
        if self.readings == self.nth {
            texels[777][(self.nth % 4) as usize] = self.value;
        }
        Ok(texels)
    }

    fn write_texels(&mut self, texels: &[[f32; 4]]) -> Result<(), BackendError> {
        self.native.write_texels(texels)
    }

    fn residuals(&mut self) -> Result<Vec<ViewResiduals>, BackendError> {
        self.native.residuals()
    }

    fn reweight(
        &mut self,
        beliefs: &[backend::Belief],
        strength: backend::Strength,
    ) -> Result<(), BackendError> {
        self.native.reweight(beliefs, strength)
    }

    fn narrow(&mut self, subset: bool) -> Result<(), BackendError> {
        self.native.narrow(subset)
    }

    fn solve(&mut self, iterations: u32) -> Result<(), BackendError> {
        self.native.solve(iterations)
    }

    fn deviations(&mut self) -> Result<Vec<f32>, BackendError> {
        self.native.deviations()
    }

    fn again(
        &mut self,
        scene: &Scene,
        ties: &Ties,
        taps: u32,
        blend: Blend,
    ) -> Result<(), BackendError> {
        self.native.again(scene, ties, taps, blend)
    }

    fn peak_memory(&self) -> u64 {
        self.native.peak_memory()
    }
}

fn bake_spoilt(nth: u32, value: f32) -> Result<Baked, Failure> {
    let mesh = cube();
    let texture = paint(&mesh, SIZE, waves);
    let mut views = (0..4).map(|k| {
        let size = [41, 37];
        let camera = camera(around(k, 4, 2.2), 50.0, size, [0.5, 1.0]);
        view(k, &mesh, &texture, camera, size)
    });
    let plan = Plan::new(Quality::Draft);
    let job = BakeJob {
        texture_size: SIZE,
        product: Product::Texture,
        memory: Memory::Full,
        has_surface: false,
        maps: true,
        refine: Refine::Off,
        vram_budget: None,
        gpu_times: false,
        rejected: false,
        dry_run: None,
    };
    let open = |scene: &Scene, atlas: &Atlas| -> Result<Box<dyn Backend>, Failure> {
        let ties = fixture::ties(atlas);
        Ok(Box::new(Spoilt {
            native: Native::new(scene.clone(), ties, plan.taps, Blend::Linear, Memory::Full),
            readings: 0,
            nth,
            value,
        }))
    };
    bake_on(
        open,
        &mesh,
        None,
        &plan,
        Blend::Linear,
        &job,
        &Silent,
        &mut || Ok(views.next()),
    )
}

#[test]
fn a_texel_that_is_no_number_is_no_texture() {
    // Readings: the averages, their weight among them, and the result.
    for nth in [1, 2, 3] {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let baked = bake_spoilt(nth, value);
            if nth == 3 {
                assert!(baked.is_ok(), "there are two readings");
                continue;
            }
            let failure = baked.expect_err("a texel was no number");
            assert_eq!(failure.code, Code::IncompleteOutput);
            assert!(
                failure.message.contains("1 of 2304 texels are no numbers"),
                "{}",
                failure.message
            );
        }
    }
}

#[test]
fn the_report_says_what_share_of_the_texels_is_known_and_how_well() {
    let baked = bake_spoilt(3, 0.0).expect("nothing is spoilt");
    let of = |kind: u8| {
        let known = baked.texture.provenance.iter();
        known.filter(|&&value| value == kind).count() as f32
    };
    let found = baked.summary.provenance;
    let charted = of(1) + of(2) + of(3);
    let wanted = [of(3), of(2), of(1)].map(|count| count / charted);
    for (found, wanted) in [found.observed, found.weak, found.inferred]
        .into_iter()
        .zip(wanted)
    {
        assert!(
            (found - wanted).abs() < 1e-6 && wanted < 1.0,
            "{found} {wanted}"
        );
    }
    assert!(found.observed > 0.0);
    assert_eq!(shares([0; 3]), ProvenanceShares::default());
    assert_eq!(shares([1, 2, 5]).inferred, 0.625);
}

#[test]
fn psnr_is_best_for_nothing_and_worst_for_no_number() {
    assert_eq!(psnr(0.0), LARGEST_PSNR);
    assert_eq!(psnr(1e-30), LARGEST_PSNR);
    assert!((psnr(1e-4) - 40.0).abs() < 1e-4);
    for worst in [1.0, 4.0, f64::INFINITY, f64::NAN] {
        assert_eq!(psnr(worst), 0.0, "{worst}");
    }
}
