//! Whole sets of views through the refiner.

use proto::message::{CameraFate, Refinement, ViewFit};
use proto::table::{Mesh, Simplified};

use crate::bake::fixture::{around, camera, cube, memory, paint, surface, view, waves};
use crate::bake::intake::decimate::Mask;
use crate::bake::intake::refine::*;
use crate::bake::model::atlas::Atlas;
use crate::bake::model::scene::Scene;
use crate::worker::progress::Silent;

const SIZE: [u32; 2] = [160, 150];
const VIEWS: u32 = 8;
const GAINS: [f64; 8] = [0.9, 1.1, 1.0, 1.05, 0.95, 1.12, 0.92, 0.97];

/// Has rows left out beyond so many.
fn bound<'a>(refiner: &mut Refiner<'a>, scene: &'a Scene, atlas: &'a Atlas, rows: u64) {
    let decimator = Decimator {
        scene,
        atlas,
        taps: 2,
        memory: memory(rows as f64),
    };
    refiner.decimate(decimator, Observations::new(scene, atlas));
}

/// All views that come out, each with whether `ahead` has it already.
fn drained(
    refiner: &mut Refiner<'_>,
    clock: &mut PhaseClock,
    mut source: impl Iterator<Item = View>,
    mut ahead: Option<&mut dyn Ahead>,
) -> Vec<(View, bool)> {
    let mut next = || {
        let ahead = ahead.as_mut().map(|ahead| &mut **ahead as &mut dyn Ahead);
        refiner.next(&Silent, clock, || Ok(source.next()), ahead)
    };
    std::iter::from_fn(|| next().expect("views")).collect()
}

/// Lets the refiner look at the `early` first views of `source` before the mesh; `all` if none follows.
fn look_early(
    refiner: &mut Refiner<'_>,
    clock: &mut PhaseClock,
    source: &mut impl Iterator<Item = View>,
    early: usize,
    all: bool,
) {
    let mut before = source.take(early);
    let looked = refiner.look_early(&Silent, clock, || Ok(before.next()));
    looked.expect("views");
    if all {
        refiner.settle(&Silent, clock);
    }
}

/// A cube with displaced corners, so that no rotation looks like another.
fn body() -> Mesh {
    let mut mesh = cube();
    for position in &mut mesh.positions {
        let [x, y, z] = *position;
        *position = [1.3 * x + 0.2 * y, y + 0.3 * x * z, 0.8 * z - 0.25 * x * y];
    }
    mesh
}

/// True views, and views as they come: moved by `px`, and exposed by [`GAINS`] to the power of `exposed`.
fn set(px: f64, exposed: f64) -> (Vec<View>, Vec<View>) {
    let mesh = body();
    let texture = paint(&mesh, 256, waves);
    let truth: Vec<View> = (0..VIEWS)
        .map(|k| {
            let camera = camera(around(k, VIEWS, 2.6), 190.0, SIZE, [2.0, -1.0]);
            view(k, &mesh, &texture, camera, SIZE)
        })
        .collect();
    let came = (0..)
        .zip(&truth)
        .map(|(k, view): (i32, &View)| {
            let mut view = view.clone();
            let off = px * 2.6 / 190.0;
            view.camera.translation[0] += off * f64::from(k % 3 - 1);
            view.camera.translation[1] += off * f64::from(1 - k % 2);
            exposure::divide(&mut view, [GAINS[k as usize].powf(-exposed); 3]);
            view
        })
        .collect();
    (truth, came)
}

fn through(views: &[View], mode: Refine, memory: Memory) -> (Vec<View>, Option<Refinement>) {
    through_early(views, mode, memory, 0)
}

/// The same, with `early` views before the mesh.
fn through_early(
    views: &[View],
    mode: Refine,
    memory: Memory,
    early: usize,
) -> (Vec<View>, Option<Refinement>) {
    let mesh = body();
    let shown = Original::new(surface(&mesh));
    let mut refiner = Refiner::new(mode, memory, &shown, true);
    let (mut clock, mut source) = (PhaseClock::default(), views.iter().cloned());
    let all = early == views.len();
    look_early(&mut refiner, &mut clock, &mut source, early, all);
    let out = drained(&mut refiner, &mut clock, source, None);
    let out: Vec<View> = out.into_iter().map(|(view, _)| view).collect();
    let fit = |view: &View| ViewFit {
        view: view.index,
        pixels: 1,
        psnr_db: 1.0,
        median_residual: 0.0,
        camera: CameraFate::Given,
        moved_px: 0.0,
        gain: 1.0,
        channel_gains: [1.0; 3],
        rejected: None,
    };
    let mut fits: Vec<ViewFit> = out.iter().map(fit).collect();
    let refinement = refiner.enter(&mut fits);
    let given = |fit: &ViewFit| fit.camera == CameraFate::Given;
    assert!(fits.iter().all(|fit| given(fit) == (mode == Refine::Off)));
    (out, refinement)
}

/// Largest difference of camera positions, and mean difference of pixels in bytes.
fn apart(one: &[View], other: &[View]) -> (f64, f64) {
    assert_eq!(one.len(), other.len());
    let (mut place, mut colour, mut count) = (0.0_f64, 0.0, 0.0);
    for (a, b) in one.iter().zip(other) {
        assert_eq!(a.index, b.index, "in the order in which they came");
        for axis in 0..3 {
            place = place.max((a.camera.translation[axis] - b.camera.translation[axis]).abs());
        }
        for (a, b) in a.pixels.iter().zip(&b.pixels) {
            colour += (0..3).map(|k| f64::from(a[k].abs_diff(b[k]))).sum::<f64>() / 3.0;
            count += 1.0;
        }
    }
    (place, colour / count)
}

#[test]
fn off_lets_everything_pass() {
    let (_, came) = set(2.0, 1.0);
    let (out, refinement) = through(&came, Refine::Off, Memory::Full);
    assert_eq!((out, refinement), (came, None));
}

#[test]
fn cameras_and_exposures_are_mended_the_same_way_each_time() {
    let (truth, came) = set(2.0, 1.0);
    let (place, colour) = apart(&came, &truth);
    assert!(place > 0.02 && colour > 1.0, "{place} {colour}");
    let (out, refinement) = through(&came, Refine::Auto, Memory::Full);
    let (place, colour) = apart(&out, &truth);
    assert!(place < 0.003, "{place}");
    // The common factor of all exposures is open: theirs have a mean of 0.9985.
    assert!(colour < 0.4, "{colour}");
    let refinement = refinement.expect("asked for");
    assert_eq!(refinement.exposure, ExposureFate::Evened);
    assert!(refinement.cameras_moved >= 6, "{refinement:?}");
    assert_eq!(refinement.cameras_refused, 0);
    let (again, _) = through(&came, Refine::Auto, Memory::Full);
    assert_eq!(out, again);
}

#[test]
fn views_that_come_before_the_mesh_are_mended_as_they_would_be_after_it() {
    let (_, came) = set(2.0, 1.0);
    for mode in [Refine::Auto, Refine::On] {
        let after = through(&came, mode, Memory::Full);
        for early in [1, 5, came.len()] {
            let before = through_early(&came, mode, Memory::Full, early);
            assert!(before == after, "{early} before the mesh");
        }
    }
    let (out, refinement) = through_early(&came, Refine::Off, Memory::Full, came.len());
    assert_eq!((out, refinement), (came, None));
}

#[test]
fn clean_views_stay_as_they_are() {
    let (truth, came) = set(0.0, 0.0);
    let (out, refinement) = through(&came, Refine::Auto, Memory::Full);
    assert_eq!(out, truth);
    let refinement = refinement.expect("asked for");
    assert_eq!(
        (refinement.cameras_moved, refinement.exposure),
        (0, ExposureFate::Alike)
    );
    assert!(refinement.silhouette_before_px.is_some_and(|px| px < 0.1));
}

#[test]
fn cameras_follow_a_wrong_focal_length_but_no_masks_that_are_shrunk_or_grown() {
    let (truth, came) = set(0.0, 0.0);
    for keeps in [255, 1] {
        let mut masked = came.clone();
        for pixel in masked.iter_mut().flat_map(|view| &mut view.pixels) {
            pixel[3] = if pixel[3] >= keeps { 255 } else { 0 };
        }
        let (out, refinement) = through(&masked, Refine::Auto, Memory::Full);
        assert_eq!(apart(&out, &truth).0, 0.0, "{keeps}: {refinement:?}");
        let refinement = refinement.expect("asked for");
        assert!(refinement.silhouette_before_px.is_some_and(|px| px > 0.3));
    }
    let mut zoomed = came;
    for view in &mut zoomed {
        view.camera.focal = view.camera.focal.map(|focal| 1.01 * focal);
    }
    let (_, refinement) = through(&zoomed, Refine::Auto, Memory::Full);
    let refinement = refinement.expect("asked for");
    assert_eq!(refinement.cameras_moved, VIEWS, "{refinement:?}");
}

#[test]
fn held_out_views_are_not_for_the_fit() {
    let (_, mut came) = set(0.0, 0.0);
    came[3].holdout = true;
    for mode in [Refine::Off, Refine::Auto] {
        let (out, _) = through(&came, mode, Memory::Full);
        assert!(out.iter().map(|view| view.index).eq([0, 1, 2, 4, 5, 6, 7]));
    }
}

#[test]
fn views_that_cannot_all_be_held_are_moved_but_not_exposed() {
    let (truth, came) = set(2.0, 1.0);
    let mesh = body();
    let shown = Original::new(surface(&mesh));
    let mut refiner = Refiner::new(Refine::Auto, Memory::Full, &shown, true);
    refiner.held_bytes = 3 * came[0].pixels.len() * 4;
    let source = came.iter().cloned();
    let out = drained(&mut refiner, &mut PhaseClock::default(), source, None);
    let out: Vec<View> = out.into_iter().map(|(view, _)| view).collect();
    assert_eq!(refiner.exposure, ExposureFate::TooLarge);
    assert!(apart(&out, &truth).0 < 0.003);
    for (out, came) in out.iter().zip(&came) {
        assert_eq!(out.pixels, came.pixels);
    }
}

#[test]
fn a_failure_of_the_views_is_passed_on() {
    let (_, came) = set(0.0, 0.0);
    let mesh = body();
    let shown = Original::new(surface(&mesh));
    let mut refiner = Refiner::new(Refine::Auto, Memory::Full, &shown, true);
    let mut source = came.into_iter().take(3).map(Some).map(Ok);
    let failed = Failure {
        code: proto::message::Code::InvalidAsset,
        message: "torn".to_owned(),
        hint: String::new(),
    };
    let mut clock = PhaseClock::default();
    let next = || source.next().unwrap_or_else(|| Err(failed.clone()));
    let found = refiner.next(&Silent, &mut clock, next, None);
    assert_eq!(found, Err(failed));
}

/// An adapter that counts what it takes ahead. `has` are its views by now.
#[derive(Default)]
struct Eager {
    has: Vec<View>,
    forgot: bool,
    /// Notified of each view that it takes.
    tells: Option<mpsc::Sender<()>>,
}

impl Ahead for Eager {
    fn take(&mut self, views: &[&View], decimation: Option<&Decimation>) -> Result<(), Failure> {
        for &view in views {
            let mut view = view.clone();
            if let Some(decimation) = decimation {
                decimation.kept().decimate(&mut view);
            }
            self.has.push(view);
            if let Some(tells) = &self.tells {
                tells.send(()).expect("somebody listens");
            }
        }
        Ok(())
    }

    fn pass(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn forget(&mut self) -> Result<(), Failure> {
        self.has.clear();
        self.forgot = true;
        Ok(())
    }
}

#[test]
fn views_that_are_settled_before_the_mesh_are_taken_as_they_stay() {
    let (_, came) = set(2.0, 1.0);
    let (out, _) = through(&came, Refine::Auto, Memory::Full);
    let shown = Original::new(surface(&body()));
    let mut refiner = Refiner::new(Refine::Auto, Memory::Full, &shown, true);
    let (mut clock, mut source) = (PhaseClock::default(), came.into_iter());
    look_early(&mut refiner, &mut clock, &mut source, VIEWS as usize, true);
    let mut eager = Eager::default();
    let none = std::iter::once_with(|| panic!("all have come"));
    let found = drained(&mut refiner, &mut clock, none, Some(&mut eager));
    let (views, taken): (Vec<View>, Vec<bool>) = found.into_iter().unzip();
    assert!(views == out && taken.iter().all(|&taken| taken));
    assert!(eager.has == out && !eager.forgot);
}

#[test]
fn what_shows_another_surface_is_taken_out_whenever_views_come() {
    let (_, came) = set(2.0, 1.0);
    let mut shown = surface(&body());
    let mut simplified = Simplified {
        positions: shown.positions.clone(),
        triangles: shown.triangles.clone(),
    };
    // All vertices but those of one side stay.
    for at in simplified.positions.iter_mut().filter(|at| at[2] > 0.0) {
        at[2] *= 0.8;
    }
    shown.simplified = Some(simplified);
    let shown = Original::new(shown);
    let (whole, _) = through(&came, Refine::Auto, Memory::Full);
    let mut masked = whole.clone();
    masked.iter_mut().for_each(|view| shown.mask(view));
    let clear = |views: &[View]| {
        let pixels = views.iter().flat_map(|view| &view.pixels);
        pixels.filter(|pixel| pixel[3] == 0).count()
    };
    let all = whole.iter().map(|view| view.pixels.len()).sum::<usize>();
    let taken_out = clear(&masked) - clear(&whole);
    assert!(
        (all / 50..all / 2).contains(&taken_out),
        "{taken_out} of {all}"
    );
    for (mode, early) in [0, 5, came.len()].map(|early| (Refine::Auto, early)) {
        for masks in [true, false] {
            let mut refiner = Refiner::new(mode, Memory::Full, &shown, masks);
            let (mut clock, mut source) = (PhaseClock::default(), came.iter().cloned());
            let all = early == came.len();
            look_early(&mut refiner, &mut clock, &mut source, early, all);
            let mut eager = Eager::default();
            let found = drained(&mut refiner, &mut clock, source, Some(&mut eager));
            let later = found.iter().filter(|(_, ahead)| !ahead);
            let later: Vec<View> = later.map(|(view, _)| view.clone()).collect();
            let out: Vec<View> = found.into_iter().map(|(view, _)| view).collect();
            let wanted = if masks { &masked } else { &whole };
            assert!(out == *wanted, "{early} early");
            eager.has.extend(later);
            assert!(eager.has == *wanted, "{early} early, ahead");
        }
    }
    // These views are not examined.
    let mut refiner = Refiner::new(Refine::Off, Memory::Full, &shown, true);
    let (mut clock, mut source) = (PhaseClock::default(), came.iter().cloned());
    let first = refiner.next(&Silent, &mut clock, || Ok(source.next()), None);
    let mut wanted = came[0].clone();
    shown.mask(&mut wanted);
    assert!(first.expect("views").expect("one").0 == wanted && wanted != came[0]);
}

/// The views that an adapter has in the end, how many of them it took later, and whether it dropped any.
fn eagerly(views: &[View], held_bytes: Option<usize>) -> (Vec<View>, usize, bool) {
    decimated_ahead(views, held_bytes, None, 0)
}

/// The same with memory for only `rows` rows. Each of the views 1 to `before` comes only once the one before it is
/// taken.
fn decimated_ahead(
    views: &[View],
    held_bytes: Option<usize>,
    rows: Option<u64>,
    before: usize,
) -> (Vec<View>, usize, bool) {
    let mesh = body();
    let scene = Scene::new(&mesh, if rows.is_some() { 96 } else { 256 });
    let atlas = Atlas::new(&scene);
    let shown = Original::new(surface(&mesh));
    let mut refiner = Refiner::new(Refine::Auto, Memory::Full, &shown, true);
    refiner.held_bytes = held_bytes.unwrap_or(refiner.held_bytes);
    if let Some(rows) = rows {
        bound(&mut refiner, &scene, &atlas, rows);
    }
    let (tells, hears) = mpsc::channel();
    let (mut clock, mut source) = (PhaseClock::default(), (0..).zip(views.iter().cloned()));
    let tells = (before > 0).then_some(tells);
    let (mut eager, mut later) = (
        Eager {
            tells,
            ..Eager::default()
        },
        0,
    );
    loop {
        let next = || {
            let next = source.next();
            if let Some((number, _)) = &next
                && (1..=before).contains(number)
            {
                hears.recv().expect("the one before is taken");
            }
            Ok(next.map(|(_, view)| view))
        };
        let next = refiner.next(&Silent, &mut clock, next, Some(&mut eager));
        let Some((view, taken)) = next.expect("views") else {
            break;
        };
        if !taken {
            eager
                .take(&[&view], refiner.decimation())
                .expect("no failure");
            later += 1;
        }
    }
    (eager.has, later, eager.forgot)
}

#[test]
fn views_that_stay_are_taken_while_they_are_looked_at() {
    let (clean, _) = set(0.0, 0.0);
    assert_eq!(eagerly(&clean, None), (clean.clone(), 0, false));
    // Exposures are unknown until the last view has come; the first batch is taken ahead.
    let held = 3 * clean[0].pixels.len() * 4;
    assert_eq!(eagerly(&clean, Some(held)), (clean, 5, false));
}

#[test]
fn views_that_do_not_stay_are_taken_again() {
    for (px, exposed) in [(2.0, 0.0), (0.0, 1.0), (2.0, 1.0)] {
        let (_, came) = set(px, exposed);
        let (out, _) = through(&came, Refine::Auto, Memory::Full);
        assert!(apart(&out, &came) != (0.0, 0.0));
        let (has, later, forgot) = eagerly(&came, None);
        assert_eq!(has, out);
        // With cameras that are off, possibly no view was taken before the first was moved.
        assert!(later == out.len() && (forgot || px > 0.0), "{later}");
    }
}

#[test]
fn views_are_decimated_before_they_are_taken_and_the_first_ones_again() {
    let (clean, _) = set(0.0, 0.0);
    let counting = |views: &[View]| views.iter().map(Mask::counting).sum::<usize>();
    let all = counting(&clean);
    assert_eq!(
        decimated_ahead(&clean, None, Some(2 * all as u64), 0),
        (clean.clone(), 0, false)
    );
    let (has, later, forgot) = decimated_ahead(&clean, None, Some(all as u64 / 2), 1);
    assert_eq!(
        (later, forgot),
        (0, true),
        "the first were taken as they came"
    );
    let left = counting(&has);
    assert!(left < 6 * all / 10 && left > all / 4, "{left} of {all}");
    // Where views change, those taken later are decimated, too. Where not all views are known, none is.
    let (_, came) = set(0.0, 1.0);
    let (has, later, _) = decimated_ahead(&came, None, Some(all as u64 / 2), 0);
    assert_eq!((later, counting(&has)), (came.len(), left));
    let held = 3 * clean[0].pixels.len() * 4;
    let (has, ..) = decimated_ahead(&clean, Some(held), Some(all as u64 / 2), 0);
    assert_eq!(counting(&has), all);
}

#[test]
fn views_are_decimated_whether_cameras_are_looked_at_or_not() {
    let (clean, _) = set(0.0, 0.0);
    let mesh = body();
    let (scene, shown) = (Scene::new(&mesh, 48), Original::new(surface(&mesh)));
    let atlas = Atlas::new(&scene);
    let decimated = |mode: Refine| {
        let mut refiner = Refiner::new(mode, Memory::Full, &shown, true);
        let all = clean.iter().map(Mask::counting).sum::<usize>() as u64;
        bound(&mut refiner, &scene, &atlas, all / 2);
        let (mut clock, mut source) = (PhaseClock::default(), clean.iter().cloned());
        let next = refiner.next(&Silent, &mut clock, || Ok(source.next()), None);
        assert_eq!(next.expect("views").map(|(view, _)| view.index), Some(0));
        refiner.decimation().map(Decimation::left_out)
    };
    let [off, auto] = [Refine::Off, Refine::Auto].map(decimated);
    assert!(
        off.is_some_and(|pixels| pixels > 0) && off == auto,
        "{off:?} {auto:?}"
    );
}
