//! A plan against the bake of the same views, on the processor.

use proto::job::{Blend, Device, Quality, Refine, WarmJob};
use proto::table::View;

use crate::bake::bake;
use crate::bake::fixture::{self, Given, around, camera, cube, paint, view, waves};
use crate::bake::intake::decimate::{Mask, Survey};
use crate::bake::model::atlas::Atlas;
use crate::bake::model::scene::Scene;
use crate::bake::plan::dry_run::*;
use crate::worker::progress::Silent;

const SIZE: u32 = 64;

fn views() -> impl FnMut() -> Result<Option<View>, Failure> {
    let mesh = cube();
    let texture = paint(&mesh, SIZE, waves);
    let mut next = 0..5;
    move || {
        Ok(next.next().map(|k| {
            let size = [41, 37];
            let camera = camera(around(k, 5, 2.2), 50.0, size, [0.5, 1.0]);
            view(k, &mesh, &texture, camera, size)
        }))
    }
}

fn job(product: Product) -> BakeJob {
    BakeJob {
        product,
        refine: Refine::Off,
        dry_run: Some(TextureFormat::Png),
        ..BakeJob::default()
    }
}

fn warm() -> Warm {
    let wanted = WarmJob {
        device: Device::Cpu,
        quality: Quality::Draft,
        blend: Blend::Linear,
        ..WarmJob::default()
    };
    Warm::up(&wanted, &Silent).expect("the processor opens")
}

#[test]
fn rows_that_were_all_counted_are_those_of_the_bake() {
    let (mesh, job) = (cube(), job(Product::Texture));
    let format = TextureFormat::Png;
    let given = || Given::new(&mesh, SIZE, views());
    let shown = || fixture::surface(&mesh);
    let planned = plan(shown(), warm(), &job, format, &Silent, &mut given());
    let planned = planned.expect("a plan");
    let baked = bake(shown(), warm(), &job, &Silent, &mut given()).expect("a texture");
    assert_eq!(planned.rows, baked.summary.rows);
    assert!(planned.rows.rows > 0 && planned.rows.kept == planned.rows.rows);
    assert_eq!(planned.sampled_views, 5);
    assert_eq!(planned.textures, 1);
    assert_eq!(planned.adapter, baked.summary.adapter);
    assert_eq!((planned.peak_vram_kib, planned.budget_kib), (0, None));
}

#[test]
fn rows_that_the_bake_leaves_out_are_not_counted() {
    let scene = Scene::new(&cube(), 16);
    let atlas = Atlas::new(&scene);
    let mut all = Vec::new();
    let mut next = views();
    while let Some(view) = next().expect("views") {
        all.push(view);
    }
    let sample = || {
        let mut sample = Sample::default();
        all.iter().for_each(|view| sample.add(view));
        sample
    };
    let drawn = |mut sample: Sample| {
        let mut seen = Vec::new();
        let note = |view: &View| seen.push(view.counting());
        sample.draw(&scene, None, 2, note);
        assert_eq!(sample.counting, seen.iter().sum::<usize>() as u64);
        sample
    };
    let rows = |sample: &Sample| sample.kept().map(|(rows, _)| rows).sum::<u64>();
    let before = rows(&drawn(sample()));
    let decimator = |all: u64| Decimator {
        scene: &scene,
        atlas: &atlas,
        taps: 2,
        memory: RowMemory {
            all,
            row: 1.0,
            entry: 0.0,
            word: 0.0,
        },
    };
    assert!(matches!(
        sample().decide(decimator(1 << 20)),
        Decision::AllFit
    ));
    assert!(matches!(
        sample().decide(decimator(before / 50)),
        Decision::TooMany(None)
    ));
    let Decision::Decimated(decimation) = Survey::of(decimator(before / 2), &all) else {
        panic!("half of them fit");
    };
    let Decision::Decimated(planned) = sample().decide(decimator(before / 2)) else {
        panic!("half of them fit");
    };
    assert_eq!(planned.left_out(), decimation.left_out());
    let mut decimated = sample();
    decimated.decimate(&planned);
    let decimated = drawn(decimated);
    let counted = |view: &View| {
        let mut view = view.clone();
        decimation.kept().decimate(&mut view);
        let chunks = crate::bake::model::footprint::footprints(&scene, &view, 2);
        chunks.iter().map(|rows| rows.len() as u64).sum::<u64>()
    };
    let (planned, real) = (rows(&decimated), all.iter().map(counted).sum::<u64>());
    assert_eq!(planned, real, "all views are drawn");
    assert!(real < 3 * before / 4, "{real} of {before}");
}

#[test]
fn what_does_not_fit_the_processors_budget_is_drawn_again_as_it_is_there() {
    let mut sample = Sample::default();
    let mut next = views();
    let scene = Scene::new(&cube(), SIZE);
    while let Some(view) = next().expect("views") {
        sample.add(&view);
    }
    sample.draw(&scene, None, 2, |_| ());
    let bytes: Vec<usize> = sample.kept().map(|(_, bytes)| bytes).collect();
    let held = processor_rows(&sample, &mut RowBudget::new(bytes[0] + bytes[1]));
    assert_eq!((held.views, held.views_redrawn), (5, 3));
    let rows: Vec<u64> = sample.kept().map(|(rows, _)| rows).collect();
    assert_eq!(held.kept, rows[0] + rows[1]);
    assert_eq!(held.rows, rows.iter().sum::<u64>());
}
