//! Silhouettes of views and a mesh → whether they belong together, and if not, in which other frame they do.
//!
//! A mesh that was turned, scaled or moved since its cameras were found, or cameras in another convention, give a ruined
//! texture. The silhouettes show it before any fit: on a coarse grid those of a sound set overlap by nine tenths, those
//! of a wrong frame by less than half. Where the frame as given is clearly off, the conventions in use are tried
//! ([`search`]). A clear winner is taken. A mirrored mesh, pictures in another order, and a mesh that lies nowhere are
//! refused. What can have another reason is left alone: an occluder, a mask, a mesh that is a part of the scene or has
//! the scene around it. Then one of the two silhouettes lies within the other.
//!
//! The same silhouettes tell pictures that were undistorted while their cameras still have a lens ([`straight`]).

mod known;
mod search;
mod silhouette;
#[cfg(test)]
mod tests;
mod words;

use crate::prepare::transforms::Pose;
pub(crate) use known::{DATAPARSER, places};
pub(crate) use search::{Candidate, Reading, Similarity};
use search::{IDENTITY, Matrix, Scene, determinant, median, turns, value};
use silhouette::Overlap;
pub(crate) use silhouette::{Silhouette, spread};

/// Points that a mesh is drawn with, and those of a first look.
pub(crate) const POINTS: usize = 20_000;
const FEW_POINTS: usize = 1_500;
/// Views of a first look at many candidates.
const FEW_VIEWS: usize = 8;
/// Candidates looked at again.
const BEST: usize = 16;
/// Fewest silhouettes that are judged.
const FEWEST: usize = 3;

/// Median overlap of a frame that is not doubted. Sound sets: 0.93 and more.
const FITS: f64 = 0.8;
/// Overlap of a view that fits, and share of such views that makes the frame right whatever the others are.
const VIEW_FITS: f64 = 0.85;
const ENOUGH: f64 = 0.4;
/// Overlap below which a view is off, unless one silhouette lies within the other by [`WITHIN`].
const VIEW_OFF: f64 = 0.7;
const WITHIN: f64 = 0.9;
/// Overlap of a frame that is taken in place of the given one; with a scale that is no unit; and how much larger what
/// others leave uncovered must be.
const TAKEN: f64 = 0.85;
const TAKEN_FREE: f64 = 0.9;
const CLEARLY: f64 = 1.6;
/// Median overlap below which the mesh is nowhere, if no view reaches the second: without a clue, and where both
/// silhouettes lie outside the other.
const NOWHERE: [f64; 2] = [0.35, 0.6];
const ELSEWHERE: [f64; 2] = [0.5, 0.7];
const OUTSIDE: f64 = 0.75;
/// Factors between units in use.
const UNITS: [f64; 13] = [
    1.0,
    1000.0,
    0.001,
    100.0,
    0.01,
    10.0,
    0.1,
    39.370_078_7,
    0.0254,
    3.280_839_9,
    0.3048,
    2.54,
    1.0 / 2.54,
];
/// Largest difference of a scale from a unit's, and overlap that simplicity may cost.
const NEAR_UNIT: f64 = 0.06;
const SIMPLER: f64 = 0.025;

/// What is judged.
pub(crate) struct Input<'a> {
    /// Those of all views, as the file says.
    pub(crate) poses: &'a [Pose],
    /// Numbers of some views, with their silhouettes.
    pub(crate) views: Vec<(usize, Silhouette)>,
    /// Points of the mesh, see [`spread`].
    pub(crate) points: Vec<[f64; 3]>,
    /// The file's matrices are camera-to-world with OpenGL axes, not world-to-camera with `OpenCV` axes.
    pub(crate) opengl: bool,
    /// The cameras are Kiln's own: nobody has written their matrices, or taken pictures with them in another order.
    pub(crate) own: bool,
    /// Places of the mesh that files tell, with what is said of them.
    pub(crate) known: Vec<(String, Similarity)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Too few silhouettes, or they tell nothing.
    Unknown,
    /// The frame as given is right.
    Fits {
        /// Views that are off nevertheless.
        off: Vec<usize>,
    },
    /// It may be wrong.
    Doubtful(String),
    /// Another frame fits, and this is said of it.
    Other(Candidate, String),
    /// The reason, and a hint.
    Refused(String, &'static str),
}

const CHECK: &str = "check the frame and scale of the mesh (--up z where z is up), the convention of the cameras (camera-to-world or \
    world-to-camera, OpenGL or OpenCV axes), their focal length and principal point (fl_x, cx, cy and the size they are for), and the order of the pictures";

/// How to mend splats and a mesh that do not belong together.
const CHECK_SPLATS: &str = "give the mesh that was made of these splats, in their world: turns by right angles, units and an offset are found, \
    other turns are not";

/// Where a mesh should lie; `own`: the cameras are Kiln's, about splats.
const fn among(own: bool) -> &'static str {
    match own {
        true => "among the splats",
        false => "where the cameras look",
    }
}

const fn check(own: bool) -> &'static str {
    match own {
        true => CHECK_SPLATS,
        false => CHECK,
    }
}

/// Numbers of up to `most` of `count` views, evenly spread, the order such that the first few are, too.
pub(crate) fn picked(count: usize, most: usize) -> Vec<usize> {
    let picked: Vec<usize> = match count <= most {
        true => (0..count).collect(),
        false => (0..most).map(|k| k * count / most).collect(),
    };
    // Steps of about a golden section, coprime to the number.
    let step = (0.62 * picked.len() as f64) as usize;
    let coprime = |step: usize| {
        (2..=step).all(|d| !step.is_multiple_of(d) || !picked.len().is_multiple_of(d))
    };
    let step = (1..=step.max(1))
        .rev()
        .find(|&step| coprime(step))
        .unwrap_or(1);
    (0..picked.len())
        .map(|k| picked[k * step % picked.len()])
        .collect()
}

/// Whether these views, some of a set, already show that the frame is right.
pub(crate) fn all_fit(input: &Input<'_>) -> bool {
    let scene = scene(input);
    let overlaps = scene.overlaps(&Candidate::GIVEN);
    overlaps.len() >= FEWEST && overlaps.iter().all(|overlap| overlap.iou() >= VIEW_FITS)
}

/// A refusal of pictures that fit the mesh as a pinhole takes them, and not with the lens of their cameras: somebody has
/// undistorted them, and kept the cameras. One view tells.
pub(crate) fn straight(input: &Input<'_>) -> Option<Verdict> {
    let (lens, _) = input
        .views
        .iter()
        .find_map(|(_, silhouette)| silhouette.lens)?;
    let scene = scene(input);
    let undone = Candidate {
        undone: true,
        ..Candidate::GIVEN
    };
    let [given, undone] = [Candidate::GIVEN, undone].map(|candidate| scene.overlaps(&candidate));
    let clear = value(&undone) >= TAKEN_FREE && clear(value(&undone), value(&given));
    clear.then(|| {
        Verdict::Refused(
            format!(
                "the cameras have a lens ({}), but the pictures are a pinhole's: silhouettes overlap by {} as they are, by {} once the lens is undone ({})",
                lens.name(),
                percent(median_of(&undone, Overlap::iou)),
                percent(median_of(&given, Overlap::iou)),
                of_views(given.len())
            ),
            "the pictures look undistorted already: give the cameras that belong to them (PINHOLE, without k1, k2, …); --frame given undoes the lens all the same",
        )
    })
}

/// Numbers of the views that are off where the frame is right.
pub(crate) fn off(input: &Input<'_>) -> Vec<usize> {
    let given = Given::new(&scene(input));
    given.off().map(|at| input.views[at].0).collect()
}

fn scene(input: &Input<'_>) -> Scene {
    Scene {
        poses: input
            .views
            .iter()
            .map(|(index, _)| input.poses[*index])
            .collect(),
        silhouettes: input
            .views
            .iter()
            .map(|(_, silhouette)| silhouette.clone())
            .collect(),
        points: input.points.clone(),
        opengl: input.opengl,
    }
}

/// A way of reading the matrices and turning the mesh, with the best scale and offset found.
#[derive(Clone, Copy, Debug)]
struct Family {
    candidate: Candidate,
    value: f64,
}

/// Judges. Takes some hundred million steps at most, and few where the given frame fits; calls `tell` now and then.
pub(crate) fn judge(input: &Input<'_>, tell: &dyn Fn()) -> Verdict {
    let scene = scene(input);
    if scene.silhouettes.len() < FEWEST || scene.points.is_empty() {
        return Verdict::Unknown;
    }
    let given = Given::new(&scene);
    let off = || given.off().map(|at| input.views[at].0).collect();
    if given.median >= FITS || given.fitting >= ENOUGH {
        if given.fitting < 1.0 - ENOUGH / 2.0 && !input.own && shuffled(input, &scene, &given, tell)
        {
            return refused_order(&given);
        }
        return Verdict::Fits { off: off() };
    }
    for (name, place) in &input.known {
        let candidate = Candidate {
            place: *place,
            ..Candidate::GIVEN
        };
        let overlaps = scene.overlaps(&candidate);
        if wins(value(&overlaps), given.value) {
            let said = said(name, &overlaps, &given);
            return Verdict::Other(candidate, said);
        }
    }
    if !input.own
        && let Some(verdict) = centred(&scene, &given)
    {
        return verdict;
    }
    let families = families(&scene, input.own, tell);
    if let Some(verdict) = winner(&scene, &families, (&given, input.own)) {
        return verdict;
    }
    if !input.own && shuffled(input, &scene, &given, tell) {
        return refused_order(&given);
    }
    given.verdict(&scene, input.own)
}

/// How the frame as given fits.
struct Given {
    overlaps: Vec<Overlap>,
    median: f64,
    value: f64,
    /// Share of the views that fit.
    fitting: f64,
}

impl Given {
    fn new(scene: &Scene) -> Self {
        let overlaps = scene.overlaps(&Candidate::GIVEN);
        let fitting = overlaps.iter().filter(|overlap| overlap.iou() >= VIEW_FITS);
        Self {
            median: median_of(&overlaps, Overlap::iou),
            value: value(&overlaps),
            fitting: fitting.count() as f64 / overlaps.len() as f64,
            overlaps,
        }
    }

    /// Which of the views are off.
    fn off(&self) -> impl Iterator<Item = usize> {
        let off = |overlap: &Overlap| {
            overlap.iou() < VIEW_OFF && overlap.covered().max(overlap.within()) < WITHIN
        };
        (0..self.overlaps.len()).filter(move |&at| off(&self.overlaps[at]))
    }

    /// What follows where nothing better was found.
    fn verdict(&self, scene: &Scene, own: bool) -> Verdict {
        let best = self.overlaps.iter().map(Overlap::iou).fold(0.0, f64::max);
        let covered = median_of(&self.overlaps, Overlap::covered);
        let within = median_of(&self.overlaps, Overlap::within);
        let below = |[of_median, of_best]: [f64; 2]| self.median < of_median && best < of_best;
        let nowhere = below(NOWHERE) && covered < VIEW_FITS
            || below(ELSEWHERE) && covered.max(within) < OUTSIDE;
        let counted = format!(
            "silhouettes overlap by {} (median of {} views; a matching set has over {})",
            percent(self.median),
            scene.silhouettes.len(),
            percent(FITS)
        );
        if nowhere {
            return Verdict::Refused(
                format!("the mesh does not lie {}: {counted}", among(own)),
                check(own),
            );
        }
        match covered.max(within) < WITHIN {
            true => Verdict::Doubtful(format!("the mesh may not lie {}: {counted}", among(own))),
            false => Verdict::Unknown,
        }
    }
}

fn median_of(overlaps: &[Overlap], of: impl Fn(&Overlap) -> f64) -> f64 {
    median(&mut overlaps.iter().map(of).collect::<Vec<_>>())
}

/// Of how many views a figure is the median.
fn of_views(count: usize) -> String {
    match count {
        1 => "one view".to_owned(),
        count => format!("median of {count} views"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Whether what a frame leaves uncovered is little, and much less than what another leaves.
fn wins(value: f64, other: f64) -> bool {
    value >= TAKEN && clear(value, other)
}

fn clear(value: f64, other: f64) -> bool {
    CLEARLY * (1.0 - value) + 0.01 < 1.0 - other
}

fn said(difference: &str, overlaps: &[Overlap], given: &Given) -> String {
    format!(
        "the views are in another frame than the mesh: {difference}: taken so ({})",
        counted(overlaps, given)
    )
}

fn counted(overlaps: &[Overlap], given: &Given) -> String {
    format!(
        "silhouettes overlap by {}, {} as given; median of {} views",
        percent(median_of(overlaps, Overlap::iou)),
        percent(given.median),
        overlaps.len()
    )
}

fn refused_order(given: &Given) -> Verdict {
    Verdict::Refused(
        format!(
            "the order of the pictures is shuffled against the cameras: silhouettes fit those of other frames, and overlap their own by {} (median of {} views)",
            percent(given.median),
            given.overlaps.len()
        ),
        "give each picture the matrix of its own camera: file_path and transform_matrix are swapped or off by one, or were sorted differently (1, 10, 2)",
    )
}

/// What follows where the principal point fits once it is counted from the other side of the picture, as `MeshLab` counts
/// its y.
fn centred(scene: &Scene, given: &Given) -> Option<Verdict> {
    // Of those that are even, the last is taken.
    let ways = [
        ([true, true], "cx and cy are counted from the bottom right"),
        ([true, false], "cx is counted from the right"),
        ([false, true], "cy is counted from the bottom"),
    ];
    let found = ways.into_iter().map(|(mirrored, name)| {
        let candidate = Candidate {
            mirrored,
            ..Candidate::GIVEN
        };
        (candidate, scene.overlaps(&candidate), name)
    });
    let (candidate, overlaps, name) = found.max_by(|a, b| value(&a.1).total_cmp(&value(&b.1)))?;
    wins(value(&overlaps), given.value).then(|| {
        let said = format!(
            "the principal point is that of the mirrored picture: {name}: taken so ({})",
            counted(&overlaps, given)
        );
        Verdict::Other(candidate, said)
    })
}

fn candidate(reading: Reading, place: Similarity) -> Candidate {
    Candidate {
        reading,
        place,
        ..Candidate::GIVEN
    }
}

/// The best candidates, best first.
fn families(scene: &Scene, own: bool, tell: &dyn Fn()) -> Vec<Family> {
    let few = scene.thinned(FEW_VIEWS, FEW_POINTS);
    let mut found = Vec::new();
    // The first is the format's.
    let readings = Reading::all(scene.opengl).take(if own { 1 } else { usize::MAX });
    for reading in readings {
        let focus = few.focus(reading);
        for turn in turns() {
            let given = Similarity {
                turn,
                ..Similarity::NONE
            };
            let laid = focus.and_then(|focus| few.laid(reading, &turn, focus));
            let places = [Some(given), laid].into_iter().flatten();
            let tried = places.map(|place| {
                let candidate = candidate(reading, place);
                let value = few.value(&candidate);
                Family { candidate, value }
            });
            found.extend(tried.max_by(|a, b| a.value.total_cmp(&b.value)));
            tell();
        }
    }
    let best_first = |all: &mut Vec<Family>| all.sort_by(|a, b| b.value.total_cmp(&a.value));
    best_first(&mut found);
    found.truncate(BEST);
    let some = scene.thinned_points(POINTS / 3);
    let mut found: Vec<Family> = found
        .iter()
        .map(|family| refined(&some, family, tell))
        .collect();
    best_first(&mut found);
    found
}

/// The family with the simplest place that is about as good as the best.
fn refined(scene: &Scene, family: &Family, tell: &dyn Fn()) -> Family {
    let reading = family.candidate.reading;
    let poses: Vec<Pose> = scene.poses.iter().map(|pose| reading.pose(pose)).collect();
    let fitted = |mut place: Similarity, sized: bool| {
        for _ in 0..4 {
            scene.step(&poses, &mut place, sized)?;
        }
        Some(place)
    };
    let rough = family.candidate.place;
    let free = fitted(rough, true).unwrap_or(rough);
    let unit = UNITS
        .into_iter()
        .find(|unit| (free.scale / unit - 1.0).abs() < NEAR_UNIT);
    let turned = |scale: f64| Similarity {
        scale,
        turn: rough.turn,
        offset: [0.0; 3],
    };
    let of_unit = unit.map(|scale| Similarity { scale, ..free });
    let places = [
        Some(turned(1.0)),
        unit.map(turned),
        of_unit.and_then(|place| fitted(place, false)),
        Some(free),
    ];
    let tried: Vec<Family> = places
        .into_iter()
        .flatten()
        .map(|place| {
            tell();
            let candidate = candidate(reading, place);
            let value = scene.value(&candidate);
            Family { candidate, value }
        })
        .collect();
    let best = tried.iter().map(|family| family.value).fold(0.0, f64::max);
    let good = tried.iter().find(|family| family.value >= best - SIMPLER);
    good.copied().unwrap_or(*family)
}

impl Family {
    /// How unusual it is.
    fn rank(&self) -> u32 {
        let Reading {
            inverted,
            opengl,
            flipped,
            roll,
        } = self.candidate.reading;
        let turn = &self.candidate.place.turn;
        let mirrored = u32::from(determinant(turn) < 0.0);
        // Axes that stay on their line.
        let kept = (0..3).filter(|&k| turn[k][k] != 0.0).count();
        let turned = match kept {
            _ if *turn == IDENTITY => 0,
            0 => 2,
            _ => 1,
        };
        let axes = u32::from(flipped != (inverted && opengl));
        u32::from(inverted) + axes + u32::from(roll > 0) + turned + 2 * mirrored
    }

    /// The same poses but for rounding.
    fn is_as(&self, other: &Self, poses: &[Pose]) -> bool {
        let near = |a: &Pose, b: &Pose| {
            let flat = |m: &Matrix| m.iter().flatten().copied().collect::<Vec<f64>>();
            let off = flat(&a.rotation)
                .iter()
                .zip(flat(&b.rotation))
                .any(|(a, b)| (a - b).abs() > 0.05);
            !off
        };
        poses
            .iter()
            .all(|pose| near(&self.candidate.pose(pose), &other.candidate.pose(pose)))
    }
}

/// What follows where one family is better than the given frame and all others.
fn winner(scene: &Scene, families: &[Family], (given, own): (&Given, bool)) -> Option<Verdict> {
    let best = families.first()?.value;
    let even = families.iter().filter(|family| family.value >= best - 0.01);
    let won = even.min_by_key(|family| family.rank())?;
    let unit = UNITS.contains(&won.candidate.place.scale);
    if !wins(won.value, given.value) || (!unit && won.value < TAKEN_FREE) {
        return None;
    }
    let overlaps = scene.overlaps(&won.candidate);
    let (_, radius) = scene.ball();
    let difference = words::difference(&won.candidate, scene.opengl, radius);
    let counted = format!(
        "silhouettes overlap by {} so, by {} as given (median of {} views)",
        percent(median_of(&overlaps, Overlap::iou)),
        percent(given.median),
        overlaps.len()
    );
    if won.candidate.place.is_mirrored() {
        return Some(Verdict::Refused(
            format!(
                "the mesh is mirrored against the views, as by a left-handed export: {counted}"
            ),
            "export the mesh with right-handed axes, or mirror it back (negate one axis and flip the triangles)",
        ));
    }
    let rival = families.iter().find(|other| {
        !clear(won.value, other.value)
            && !other.is_as(won, &scene.poses)
            && (other.rank() <= won.rank() || won.rank() > 1)
    });
    if rival.is_some() {
        return Some(Verdict::Refused(
            format!(
                "the mesh does not lie {}, and several turns of it fit alike, among them: {difference}: {counted}",
                among(own)
            ),
            check(own),
        ));
    }
    Some(Verdict::Other(
        won.candidate,
        said(&difference, &overlaps, given),
    ))
}

/// Whether pictures that are off fit the cameras of other frames.
fn shuffled(input: &Input<'_>, scene: &Scene, given: &Given, tell: &dyn Fn()) -> bool {
    let few = scene.thinned(usize::MAX, FEW_POINTS);
    let own = few.overlaps(&Candidate::GIVEN);
    let step = input.poses.len().div_ceil(512).max(1);
    let (mut off, mut found, mut drawn) = (0, Vec::new(), Vec::new());
    for at in given.off() {
        let silhouette = &few.silhouettes[at];
        off += 1;
        let others = (0..input.poses.len()).step_by(step);
        let fits = others.map(|other| {
            silhouette.draw(&input.poses[other], &few.points, &mut drawn);
            (silhouette.overlap(&drawn).iou(), other)
        });
        let best = fits.max_by(|a, b| a.0.total_cmp(&b.0));
        tell();
        if let Some((iou, other)) = best
            && iou >= VIEW_FITS
            && clear(iou, own[at].iou())
        {
            found.push(other);
        }
    }
    found.sort_unstable();
    found.dedup();
    off >= FEWEST && found.len() * 4 >= off * 3
}
