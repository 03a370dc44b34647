//! The role as a whole: NaN texels end the job, and the report's PSNR.

use std::time::Instant;

use proto::job::{BakeJob, Blend, Memory, Quality, Refine};
use proto::message::{AdapterInfo, Code, Failure};
use proto::plan::RowsHeld;
use proto::table::{Layer, LayerSet, LayerTexture, LayeredView, Mesh, View};

use super::bake_on;
use super::fixture::{around, camera, cube, paint, view, waves};
use super::plan::Order;
use super::*;
use crate::bake::model::atlas::Atlas;
use crate::bake::model::row_cache::RowBudget;
use crate::bake::model::scene::Scene;
use crate::bake::plan::quality::Plan;
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::{
    Backend, BackendError, Belief, RowMemory, Strength, Ties, ViewResiduals,
};
use crate::bake::solve::native::Native;
use crate::worker::progress::Silent;

const SIZE: u32 = 48;

/// The processor, whose n-th reading of the texels contains NaN or infinity.
struct Spoilt {
    native: Native,
    readings: u32,
    nth: u32,
    value: f32,
    /// The row memory that it claims to have, if not the true one.
    told: Option<RowMemory>,
}

impl Backend for Spoilt {
    fn adapter(&self) -> AdapterInfo {
        self.native.adapter()
    }

    fn row_memory(&self, texels: usize) -> RowMemory {
        let told = self.told;
        told.unwrap_or_else(|| self.native.row_memory(texels))
    }

    fn overflows(&self) -> bool {
        self.native.overflows()
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

    fn reweight(&mut self, beliefs: &[Belief], strength: Strength) -> Result<(), BackendError> {
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

    fn reset(
        &mut self,
        scene: &Scene,
        ties: &Ties,
        taps: u32,
        blend: Blend,
    ) -> Result<(), BackendError> {
        self.native.reset(scene, ties, taps, blend)
    }

    fn peak_memory(&self) -> u64 {
        self.native.peak_memory()
    }
}

fn job() -> BakeJob {
    BakeJob {
        maps: true,
        refine: Refine::Off,
        ..BakeJob::default()
    }
}

fn order<'a>(plan: &'a Plan, job: &'a BakeJob) -> Order<'a> {
    let blend = Blend::Linear;
    Order { plan, blend, job }
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
    let job = job();
    let open = |scene: &Scene, atlas: &Atlas| -> Result<(Box<dyn Backend>, Window), Failure> {
        let ties = fixture::ties(atlas);
        let spoilt = Box::new(Spoilt {
            native: Native::new(scene.clone(), ties, plan.taps, Blend::Linear, Memory::Full),
            readings: 0,
            nth,
            value,
            told: None,
        });
        Ok((spoilt, scene.window.clone()))
    };
    bake_on(
        open,
        fixture::surface(&mesh),
        order(&plan, &job),
        &Silent,
        &mut fixture::Given::new(&mesh, SIZE, || Ok(views.next())),
    )
}

#[test]
fn a_texel_that_is_no_number_is_no_texture() {
    // There are two readings: the averages, and the result.
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
}

/// Views with an emissive channel in their own colours, which can be requested again. Counts the requests, and keeps
/// the emissive texture.
struct Again {
    mesh: Mesh,
    views: Vec<View>,
    next: usize,
    asked: u32,
    glow: Vec<[u8; 4]>,
}

impl ViewSource for Again {
    fn early(&mut self) -> Result<Option<(View, LayerSet)>, Failure> {
        Ok(None)
    }

    fn all_came(&self) -> bool {
        false
    }

    fn mesh(&mut self) -> Result<Unwrapped, Failure> {
        Ok(Unwrapped {
            mesh: self.mesh.clone(),
            texture_size: 160,
            came: Instant::now(),
        })
    }

    fn next(&mut self, wanted: LayerSet) -> Result<Option<(LayeredView, LayerSet)>, Failure> {
        let view = self.views.get(self.next).cloned();
        self.next += 1;
        Ok(view.map(|view| {
            let glows = wanted.has(Layer::Emissive);
            let glow = glows.then(|| (Layer::Emissive, view.pixels.clone()));
            let layers = glow.into_iter().collect();
            (
                LayeredView { view, layers },
                [Layer::Emissive].into_iter().collect(),
            )
        }))
    }

    fn again(&mut self) -> Result<(), Failure> {
        (self.next, self.asked) = (0, self.asked + 1);
        Ok(())
    }

    fn put(&mut self, texture: &LayerTexture) -> Result<(), Failure> {
        self.glow.clone_from(&texture.texels);
        Ok(())
    }
}

/// Bakes on the processor with room for so many bytes of rows. It reports that room, or `told` instead. Returns also
/// how often it requested the views again, and the texture of the other channel.
fn bake_within(room: usize, told: Option<RowMemory>) -> (Baked, Again) {
    let mesh = cube();
    let texture = paint(&mesh, 160, waves);
    let views = (0..9).map(|k| {
        let size = [90, 80];
        let camera = camera(around(k, 9, 2.2), 105.0, size, [0.5, 1.0]);
        let mut view = view(k, &mesh, &texture, camera, size);
        view.holdout = k == 4;
        view
    });
    let mut supply = Again {
        mesh: mesh.clone(),
        views: views.collect(),
        next: 0,
        asked: 0,
        glow: Vec::new(),
    };
    let plan = Plan::new(Quality::Draft);
    let job = BakeJob {
        refine: Refine::Auto,
        rejected: true,
        ..job()
    };
    let open = |scene: &Scene, atlas: &Atlas| -> Result<(Box<dyn Backend>, Window), Failure> {
        let ties = fixture::ties(atlas);
        let room = RowBudget::new(room);
        let native = Native::with_budget(scene.clone(), ties, plan.taps, Blend::Linear, room);
        let backend = Spoilt {
            native,
            readings: 0,
            nth: u32::MAX,
            value: 0.0,
            told,
        };
        Ok((Box::new(backend), scene.window.clone()))
    };
    let baked = bake_on(
        open,
        fixture::surface(&mesh),
        order(&plan, &job),
        &Silent,
        &mut supply,
    );
    (baked.expect("a texture"), supply)
}

#[test]
fn what_overflows_is_fitted_in_parts_whether_it_was_foreseen_or_not() {
    let (whole, supply) = bake_within(1 << 30, None);
    let (rows, glow) = (whole.summary.rows, supply.glow);
    assert_eq!((rows.parts, rows.kept, supply.asked), (0, rows.rows, 1));
    let bytes = rows.rows as usize * 60;
    let plenty = RowMemory {
        all: 1 << 30,
        row: 1.0,
        entry: 1.0,
        word: 0.0,
    };
    // One request more is for the other channel.
    for (told, again) in [(None, 1), (Some(plenty), 2)] {
        let (parts, supply) = bake_within(bytes / 2, told);
        let own = parts.summary.rows;
        assert!(
            own.parts > 1 && supply.asked == again,
            "{own:?}, asked {} times",
            supply.asked
        );
        assert_eq!(
            (own.rows, own.views, own.left_out),
            (rows.rows, rows.views, 0)
        );
        let of = |baked: &Baked| -> Vec<(u32, u32)> {
            let views = baked.summary.views.iter();
            views.map(|view| (view.view, view.pixels)).collect()
        };
        assert_eq!(of(&parts), of(&whole));
        let [one, other] = [&parts, &whole].map(|baked| baked.summary.train_psnr_db);
        assert!(one > other - 2.5, "{one} and {other} dB");
        assert_eq!(parts.rejected.len(), whole.rejected.len());
        for (one, other) in [
            (&parts.texture.texels, &whole.texture.texels),
            (&supply.glow, &glow),
        ] {
            let differs = |(a, b): &(&[u8; 4], &[u8; 4])| (0..3).any(|c| a[c].abs_diff(b[c]) > 12);
            let far = one.iter().zip(other).filter(differs).count();
            assert!(
                one.len() == other.len() && far < one.len() / 50,
                "{far} texels differ"
            );
        }
        assert!(parts.texture.maps.is_some());
    }
}

#[test]
fn a_texture_is_the_same_whether_views_come_before_the_mesh_or_after_it() {
    let mesh = cube();
    let texture = paint(&mesh, SIZE, waves);
    let views: Vec<View> = (0..6)
        .map(|k| {
            let size = [81, 77];
            let mut camera = camera(around(k, 6, 2.2), 100.0, size, [0.5, 1.0]);
            camera.translation[0] += 0.01 * f64::from(k % 3);
            view(k, &mesh, &texture, camera, size)
        })
        .collect();
    let baked = |early: usize| {
        let (before, after) = views.split_at(early);
        let mut after = after.iter().cloned();
        let mut supply = fixture::Given::new(&mesh, SIZE, || Ok(after.next()))
            .with_early(before.to_vec(), early == views.len());
        let plan = Plan::new(Quality::Draft);
        let open = |scene: &Scene, atlas: &Atlas| -> Result<(Box<dyn Backend>, Window), Failure> {
            let ties = fixture::ties(atlas);
            let (scene, window) = (scene.clone(), scene.window.clone());
            let native = Native::new(scene, ties, plan.taps, Blend::Linear, Memory::Full);
            Ok((Box::new(native), window))
        };
        let job = BakeJob {
            refine: Refine::On,
            ..job()
        };
        let shown = fixture::surface(&mesh);
        let baked = bake_on(open, shown, order(&plan, &job), &Silent, &mut supply);
        let baked = baked.expect("a texture");
        (baked.texture, baked.refined.map(|refined| refined.views))
    };
    let after = baked(0);
    assert!(after.1.is_some(), "some camera is moved");
    for early in [2, views.len()] {
        assert!(baked(early) == after, "{early} before the mesh");
    }
}
