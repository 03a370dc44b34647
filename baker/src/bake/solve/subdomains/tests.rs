//! A texture fitted in subdomains against the same fitted at once, on the processor.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use proto::job::{Blend, Memory, Quality};
use proto::table::View;

use crate::bake::fixture::{around, camera, cube, memory, paint, view, waves};
use crate::bake::intake::decimate::{ENTRIES, Mask};
use crate::bake::model::atlas::Atlas;
use crate::bake::model::colour::Space;
use crate::bake::model::footprint::footprints;
use crate::bake::model::scene::Scene;
use crate::bake::plan::quality::Plan;
use crate::bake::plan::window::{COARSE, across, square};
use crate::bake::solve::backend::{PerRow, RowMemory};
use crate::bake::solve::fit_texture::{Taken, fit_views};
use crate::bake::solve::native::Native;
use crate::bake::solve::subdomains::plan::{sparser, tied};
use crate::bake::solve::subdomains::shown::rows_drawn;
use crate::bake::solve::subdomains::*;
use crate::worker::progress::{Silent, Stages};

const SIZE: u32 = 200;
const COUNT: u32 = 14;

fn views() -> Vec<View> {
    let mesh = cube();
    let texture = paint(&mesh, SIZE, waves);
    let of = |k| {
        let size = [90, 80];
        let camera = camera(around(k, COUNT, 2.2), 105.0, size, [0.5, 1.0]);
        view(k, &mesh, &texture, camera, size)
    };
    (0..COUNT).map(of).collect()
}

/// A scene, its atlas, and its subdomains if so many rows fit.
fn parts_of(views: &[View], rows: f64) -> (Scene, Atlas, Subdomains) {
    let scene = Scene::new(&cube(), SIZE);
    let atlas = Atlas::new(&scene);
    let parts = Subdomains::of(&scene, &atlas, 3, |_| memory(rows), 1, views);
    (scene, atlas, parts)
}

/// Fits the views at once, or in subdomains of so many rows.
fn fitted(views: &[View], rows: Option<f64>, quality: Quality) -> (Fit, u32) {
    let (scene, atlas, parts) = parts_of(views, rows.unwrap_or(1e9));
    let plan = Plan {
        taps: 3,
        ..Plan::new(quality)
    };
    let context = FitContext {
        scene: &scene,
        atlas: &atlas,
        original: None,
        plan: &plan,
        stages: &Stages::new(&Silent),
        step: Duration::ZERO,
    };
    let ties = ties(&atlas, &scene.window);
    let mut native = Native::new(scene.clone(), ties, 3, Blend::Linear, Memory::Full);
    let taken = match rows {
        Some(_) => Taken::InParts(&parts, views),
        None => {
            let add = |view: &View| native.add_view(view);
            views
                .iter()
                .try_for_each(add)
                .expect("the processor does not fail");
            Taken::All
        }
    };
    let wanted = Wanted {
        space: Space::Colour(Blend::Linear),
        maps: true,
    };
    let fitted = fit_views(&context, &mut native, &taken, wanted);
    (fitted.expect("likewise"), parts.count())
}

/// Root mean square difference over the texels that both observe.
fn distance(one: &Fit, other: &Fit) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for (texel, (one, other)) in one.texels.iter().zip(&other.texels).enumerate() {
        if other[3] > 0.5 && one[3] > 0.5 {
            for channel in 0..3 {
                sum += f64::from(one[channel] - other[channel]).powi(2);
            }
            count += 3.0;
        }
        assert!(one.iter().all(|value| value.is_finite()), "texel {texel}");
    }
    assert!(count > 20_000.0, "{count} numbers");
    (sum / count).sqrt()
}

#[test]
fn a_texture_in_parts_is_that_of_one_fit_and_every_pixel_counts_once() {
    let views = views();
    let (whole, one) = fitted(&views, None, Quality::Standard);
    let rows: u64 = whole.fitted.residuals.iter().map(|view| view.rows).sum();
    assert_eq!((one, whole.rows.parts), (1, 0));
    let (parts, count) = fitted(&views, Some(0.5 * rows as f64), Quality::Standard);
    assert!((3..9).contains(&count), "{count} parts");
    let of = |fit: &Fit| -> Vec<(u32, u64)> {
        let views = fit.fitted.residuals.iter();
        views.map(|view| (view.view, view.rows)).collect()
    };
    assert_eq!(of(&parts), of(&whole), "of every view as many pixels");
    let counted: u32 = parts
        .fitted
        .residuals
        .iter()
        .flat_map(|view| view.histogram)
        .sum();
    assert_eq!(u64::from(counted), rows);
    let RowsHeld {
        rows: all,
        kept,
        parts: told,
        ..
    } = parts.rows;
    assert_eq!((all, kept, told), (rows, rows, count));
    // Observed weights depend on the pixels alone.
    let worst = parts
        .observed
        .iter()
        .zip(&whole.observed)
        .map(|(one, other)| (one - other).abs());
    assert!(worst.fold(0.0, f32::max) < 1e-3);
    let off = distance(&parts, &whole);
    assert!(off < 0.004, "{off} of what is between 0.2 and 0.8");
    let (one, other) = (
        parts.deviations.expect("maps"),
        whole.deviations.expect("maps"),
    );
    assert!(
        one.iter()
            .zip(&other)
            .all(|(one, other)| (one < &0.0) == (other < &0.0))
    );
}

#[test]
fn an_error_at_the_edges_of_bands_would_be_noticed() {
    let views = views();
    let (whole, _) = fitted(&views, None, Quality::Draft);
    let rows: u64 = whole.fitted.residuals.iter().map(|view| view.rows).sum();
    let (mut parts, _) = fitted(&views, Some(0.5 * rows as f64), Quality::Draft);
    assert!(distance(&parts, &whole) < 0.006);
    let (_, _, planned) = parts_of(&views, 0.5 * rows as f64);
    for band in &planned.bands {
        let edge = band.core().start * SIZE as usize;
        for texel in &mut parts.texels[edge..][..2 * SIZE as usize] {
            texel[0] += 0.1;
        }
    }
    assert!(distance(&parts, &whole) > 0.006);
}

#[test]
fn bands_are_the_texture_and_show_no_more_than_there_is_room_for() {
    let views = views();
    let all: f64 = parts_of(&views, 1e9)
        .2
        .windows()
        .skip(1)
        .map(|(_, share)| share)
        .sum();
    assert!((all - 1.0).abs() < 1e-9, "one band shows all: {all}");
    let counting = views.iter().map(Mask::counting).sum::<usize>() as f64;
    let mut counts = Vec::new();
    for share in [0.7, 0.4, 0.2] {
        let (_, _, parts) = parts_of(&views, share * counting);
        let mut next = 0;
        for band in &parts.bands {
            assert_eq!(band.core().start, next);
            next = band.core().end;
        }
        assert_eq!(next, SIZE as usize);
        let shares: Vec<f64> = parts.windows().map(|(_, share)| share).collect();
        let (least, most) = (32, SIZE as usize);
        for (band, own) in parts.bands.iter().zip(&shares[1..]) {
            let small = band.core().len() <= least.min(most);
            assert!(
                *own <= 0.91 * share || small,
                "{own} of {share}, {:?}",
                band.core()
            );
        }
        counts.push(parts.bands.len());
    }
    assert!(
        counts[0] > 1 && counts.is_sorted() && counts[2] > counts[0],
        "{counts:?}"
    );
}

/// Two texels of a seam row couple the squares around each to the other's line.
#[test]
fn a_line_is_tied_to_what_lies_around_the_other_sides_of_its_seams() {
    let atlas = Atlas::new(&Scene::new(&cube(), SIZE));
    let (edge, across) = (square(SIZE), across(SIZE));
    for reach in [0, 3, 2 * edge] {
        let mut ties = vec![BTreeSet::new(); across as usize];
        for row in 0..atlas.seams.len() {
            let texels = || atlas.seams.row(row).iter().map(|entry| entry.texel);
            for (texel, other) in texels().flat_map(|texel| texels().map(move |b| (texel, b))) {
                let around = |at: u32| at.saturating_sub(reach)..(at + reach + 1).min(SIZE);
                for y in around(texel / SIZE) {
                    for x in around(texel % SIZE) {
                        let (line, square) = (other / SIZE / edge, y / edge * across + x / edge);
                        if line != y / edge {
                            ties[line as usize].insert(square);
                        }
                    }
                }
            }
        }
        assert!(ties.iter().any(|line| line.len() > 4), "no seams");
        let found = tied(&atlas, SIZE, reach);
        let found: Vec<BTreeSet<u32>> = found.into_iter().map(BTreeSet::from_iter).collect();
        assert_eq!(found, ties, "{reach}");
    }
}

#[test]
fn a_rehearsal_lies_all_over_the_texture_or_where_something_is() {
    let views = views();
    let (_, _, parts) = parts_of(&views, 2e4);
    let strips = parts
        .rehearsal
        .squares()
        .iter()
        .filter(|square| **square & COARSE == 0)
        .count();
    let share = strips as f64 / f64::from(across(SIZE).pow(2));
    assert!((0.05..0.35).contains(&share), "{share}");
    let shown = parts.windows().next().expect("the rehearsal").1;
    assert!(shown > 0.3 * share, "{shown} shown by {share}");
    // One face, in a corner of the texture that no strip meets.
    let mut mesh = cube();
    mesh.triangles.truncate(2);
    for uv in &mut mesh.uvs {
        *uv = uv.map(|at| at * 0.1);
    }
    let scene = Scene::new(&mesh, 1024);
    let atlas = Atlas::new(&scene);
    let parts = Subdomains::of(&scene, &atlas, 3, |_| memory(4e3), 1, &views);
    let shown = parts.windows().next().expect("the rehearsal").1;
    assert!(shown > 0.3, "{shown} of all pixels");
}

#[test]
fn what_rows_come_to_in_pools_is_planned_with_where_they_are_kept_so() {
    let views = views();
    let (scene, atlas, _) = parts_of(&views, 1e9);
    let count = |row: f64, word: f64| {
        let memory = |_| RowMemory {
            all: 200_000,
            row,
            entry: 0.0,
            word,
        };
        Subdomains::of(&scene, &atlas, 3, memory, 1, &views).count()
    };
    // Less than the minimum of a row, then several times as much.
    assert_eq!(count(10.0, 0.0), count(10.0, 1.0));
    let [few, many] = [1.0, 20.0].map(|word| count(10.0, word));
    assert!(many > few, "{many} {few}");
}

#[test]
fn strips_whose_rows_do_not_fit_become_sparser_as_long_as_they_tell_of_the_whole() {
    let strips = first_window(1024, |_| true);
    let lines = |window: &Window| window.core[1] - window.core[0];
    let mut all = vec![strips];
    while let Some(sparser) = sparser(&all[all.len() - 1]) {
        all.push(sparser);
    }
    let lines: Vec<u32> = all.iter().map(lines).collect();
    assert_eq!(lines, [128, 64, 32, 16], "of 1024");
    // A band has no sparser version.
    assert!(sparser(&Window::whole(1024)).is_none());
    let band = Window::band(1024, 0..8, 0..6, &[].into());
    assert!(sparser(&band).is_none());
}

#[test]
fn windows_are_as_small_as_memory_asks_for() {
    let asked = RefCell::new(Vec::new());
    let window = first_window(1024, |texels| {
        asked.borrow_mut().push(texels);
        texels < 1024 * 1024 / 12
    });
    let asked = asked.into_inner();
    assert!(
        asked.is_sorted_by(|a, b| a > b) && asked.len() > 1,
        "{asked:?}"
    );
    assert!(window.texels() < 1024 * 1024 / 12);
    let smallest = first_window(1024, |_| false);
    // A strip, and one texel for each square elsewhere.
    let rows = 16 + 1024 / square(1024).pow(2);
    assert!(smallest.rows <= rows, "{} and {rows}", smallest.rows);
    for size in [1, 8, 9, 100] {
        assert!(first_window(size, |_| false).texels() > 0, "{size}");
    }
}

#[test]
fn entries_are_those_of_the_rows_however_small_the_squares_are_in_the_views() {
    for (size, taps) in [(24, 2), (96, 2), (1600, 3)] {
        let scene = Scene::new(&cube(), size);
        let views = views();
        let [mut rows, mut entries] = [0, 0];
        for chunk in views.iter().flat_map(|view| footprints(&scene, view, taps)) {
            rows += chunk.len();
            entries += chunk.entries.len();
        }
        let wanted = entries as f64 / rows as f64;
        let PerRow {
            entries: found,
            words,
        } = rows_drawn(&scene, taps, &views);
        // Two weights a word where a row's texels are its box; at most, each entry has its own texel in a list.
        assert!((found / 2.0..2.0 * found).contains(&words), "{words}");
        // From a sixteenth of some of the views.
        assert!(
            (found / wanted - 1.0).abs() < 0.15,
            "{found} of {wanted} at {size}²"
        );
    }
    let none = rows_drawn(&Scene::new(&cube(), 24), 2, &[] as &[View]);
    assert_eq!(none, ENTRIES.into());
}
