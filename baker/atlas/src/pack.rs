//! Places charts in a square atlas, as large as possible; with pages, each chart within one page.
//!
//! All charts have one scale. They are placed largest first, in the first page with room, at the lowest place that any
//! of their rotations finds ([`super::page`]). The largest scale at which all fit is searched. A bake lives on density,
//! so with few charts other orders and rotations are then tried at a slightly larger scale. Each one that fits raises
//! the scale again.
//!
//! All searches are bounded by counts of work, never by time, so the atlas is the same on any machine.

use crate::input::Pages;
use rayon::prelude::*;

use super::mask::Mask;
use super::page::Page;
use crate::piece::{Chart, turned};
use crate::work::unit;

#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// Texture coordinates of every chart's vertices, within [0, 1].
    pub(crate) uvs: Vec<Vec<[f64; 2]>>,
    /// Share of the square that charts cover.
    pub(crate) utilisation: f64,
}

/// The atlas as cells: `page` cells along the edge of each page.
#[derive(Clone, Copy, Debug)]
struct Grid {
    page: usize,
    pages: Pages,
    /// Edge of a cell in texels.
    cell: f64,
}

impl Grid {
    fn new(texture_size: u32, pages: Pages) -> Self {
        let cells = texture_size.min(MAX_GRID);
        Self {
            page: pages.page(cells) as usize,
            pages,
            cell: f64::from(texture_size) / f64::from(cells.max(1)),
        }
    }

    /// Cells along a page's edge that charts may take.
    fn inner(self) -> usize {
        self.page - 2 * MARGIN
    }

    /// Cells between charts, for this number of charts.
    fn gap(self, charts: usize) -> usize {
        let atlas = self.edge() * self.cell / GAP_ATLAS;
        let of_many = atlas * WIDE_GAP_CHARTS / charts.max(1) as f64;
        let of_page = self.page as f64 * self.cell / GAPS_OF_PAGE;
        let texels = (GAP * atlas.min(atlas.sqrt()).min(of_many)).min(of_page);
        ((texels / self.cell) as usize).max(LEAST_GAP)
    }

    /// Cells along the edge of the atlas.
    fn edge(self) -> f64 {
        self.page as f64 * f64::from(self.pages.side())
    }
}

/// Edge of a cell of the atlas in units of the mesh, at a typical utilisation, for charts of this `area`.
pub(super) fn cell(area: f64, texture_size: u32, pages: Pages) -> f64 {
    (area / FIRST_BRACKET[0].midpoint(FIRST_BRACKET[1])).sqrt()
        / Grid::new(texture_size, pages).edge()
}

/// Largest number of cells along the edge of the atlas. Above 1024² a cell is a block of texels.
const MAX_GRID: u32 = 1024;
/// Texels between charts. More gutter makes seams agree better in mips: on flighthelmet 3, 5, 6 and 7 leave 4.9, 3.4,
/// 2.3 and 1.7 steps of 255 at mip 3, and each costs up to 0.1 dB. Sets with fewer charts lose nothing.
const GAP: f64 = 7.0;
/// Edge of the atlas in texels to which [`GAP`] applies. A smaller atlas has the same share. In a larger one the gap
/// grows with the root of its edge: the levels that a viewer samples need no more, but from the same distance
/// a coarser one is seen.
const GAP_ATLAS: f64 = 1024.0;
/// Number of charts up to which the gap is that wide. With more it shrinks, or gaps would be most of the atlas: a mesh
/// of TRELLIS with 749 charts loses 0.1 dB with 4 cells instead of 3 (4.6 and 5.6 at mip 3), and 0.8 dB with 7 (2.7).
const WIDE_GAP_CHARTS: f64 = 500.0;
/// A page's edge is at least this many gaps, since many small pages lose more to gaps than seams gain.
const GAPS_OF_PAGE: f64 = 48.0;
/// Least number of cells between charts.
pub(super) const LEAST_GAP: usize = 2;
/// Cells between charts and the border.
const MARGIN: usize = 1;
/// First interval in which the utilisation is searched.
const FIRST_BRACKET: [f64; 2] = [0.5, 0.9];
/// Interval that is narrow enough once something fits, the most rounds of the search, and scales tried in each.
const RESOLUTION: f64 = 0.0047;
const LONGEST_SEARCH: usize = 16;
const SCALE_WIDTH: usize = 4;
/// Where the next interval begins if nothing fits, as a share of its end. It is squared each time.
const LOWER: f64 = 0.92;
/// With more charts than this, the first round is one scale, which is too large, and tells the interval: the share of
/// the charts that finds a place is nearly the same for all such scales. flighthelmet and a mesh of TRELLIS are within
/// -1 % and +9 % of it.
const FEW_CHARTS: usize = 300;
const PROBED: f64 = 0.82;
const PREDICTED: [f64; 2] = [0.95, 1.13];
/// Rotations in which the smallest bounding rectangle is upright. The others usually waste space, so only the search
/// uses them.
const UPRIGHT_TURNS: u8 = 4;
/// Charts whose girth is within this ratio of the first of their class share the start of the search for a place.
const SIZE_CLASS: (usize, usize) = (19, 20);
/// Largest number of charts for which other orders are tried.
pub(super) const SEARCHED_CHARTS: usize = 1000;
/// Row tests spent on trying orders. With so many charts that half of the first orders spend that, none is tried: they
/// cost more than all else here, and gain 0.2 %.
const SEARCH_WORK: u64 = 2_000_000;
/// Orders tried at once: a fixed number, so that the result does not depend on the threads.
const SEARCH_WIDTH: u64 = 8;
/// Factor by which the scale of a better order must grow.
const SCALE_STEP: f64 = 1.004;
/// Charts between two reports of the packer: reporting each would be too many.
const TOLD_CHARTS: usize = 32;
/// Number of rotations of a chart.
const TURNS: u8 = 8;

/// A chart's rotations. Four put its smallest bounding rectangle upright, four lie between. Each four are quarter turns.
pub(super) type Turns = Vec<[f64; 2]>;

/// An order of the charts, and the rotation of those for which it is fixed.
#[derive(Clone, Debug)]
struct Plan {
    order: Vec<u32>,
    turn: Vec<Option<u8>>,
}

/// A chart's rotation, its page, the place of its mask there, and the mask's offset.
type Place = (u8, u32, [usize; 2], [f64; 2]);

#[derive(Clone, Debug)]
struct Layout {
    places: Vec<Place>,
    scale: f64,
    /// Row tests that it took.
    work: u64,
}

/// Placed charts, which may still become denser.
pub(crate) struct Packed {
    charts: Vec<Chart>,
    turns: Vec<Turns>,
    plan: Plan,
    layout: Layout,
    grid: Grid,
    area: f64,
}

/// Packs charts for an atlas of `texture_size` texels. None if they do not fit with their gaps at any scale.
pub(crate) fn pack(charts: Vec<Chart>, texture_size: u32, pages: Pages) -> Option<Packed> {
    let grid = Grid::new(texture_size, pages);
    let area: f64 = charts.iter().map(Chart::area).sum();
    if charts.is_empty() || area.is_nan() || area <= 0.0 {
        return None;
    }
    let turns: Vec<Turns> = charts.par_iter().map(turns_of).collect();
    unit();
    let plan = Plan {
        order: by_size(&charts, &turns),
        turn: vec![None; charts.len()],
    };
    let search = Search {
        charts: &charts,
        turns: &turns,
        plan: &plan,
        grid,
        area,
    };
    let layout = search.largest()?;
    Some(Packed {
        charts,
        turns,
        plan,
        layout,
        grid,
        area,
    })
}

impl Packed {
    /// Searches plans that fit at a larger scale than the best so far, by random changes of its order and rotations,
    /// several at once. Each success becomes the best and raises the scale again. Does nothing with too many charts.
    pub(crate) fn improve(&mut self) {
        let is_dear = self.layout.work * SEARCH_WIDTH > 2 * SEARCH_WORK;
        if is_dear || !(2..=SEARCHED_CHARTS).contains(&self.charts.len()) {
            return;
        }
        let grid = self.grid;
        let (mut work, mut round) = (0, 0u64);
        while work < SEARCH_WORK {
            let scale = self.layout.scale * SCALE_STEP;
            let Some(masks) = masks(&self.charts, &self.turns, TURNS, scale, grid.inner()) else {
                return;
            };
            let mut found = None;
            while found.is_none() && work < SEARCH_WORK {
                round += 1;
                let tries: Vec<(Plan, Option<Layout>, u64)> = (0..SEARCH_WIDTH)
                    .into_par_iter()
                    .map(|lane| {
                        let seed = round * SEARCH_WIDTH + lane;
                        let plan = neighbour(
                            &self.plan,
                            &mut Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
                        );
                        let mut work = self.charts.len() as u64;
                        let layout = place(&masks, &plan, grid, scale, &mut work).ok();
                        unit();
                        (plan, layout, work)
                    })
                    .collect();
                work += tries.iter().map(|(.., work)| work).sum::<u64>();
                found = tries
                    .into_iter()
                    .find_map(|(plan, layout, _)| Some((plan, layout?)));
            }
            if let Some((plan, layout)) = found {
                (self.plan, self.layout) = (plan, layout);
            }
        }
    }

    /// The factor by which the layout may grow about its pages' corners, into the space left at their top and right.
    /// All gaps grow too.
    fn growth(&self) -> f64 {
        let mut reach = 0.0f64;
        for ((chart, turns), (turn, _, place, shift)) in
            self.charts.iter().zip(&self.turns).zip(&self.layout.places)
        {
            for &uv in &chart.uvs {
                let point = turned(uv, turns[*turn as usize], self.layout.scale);
                for axis in 0..2 {
                    reach = reach.max(place[axis] as f64 + shift[axis] + point[axis] + 0.01);
                }
            }
        }
        (self.grid.inner() as f64 / reach).max(1.0)
    }

    /// Share of the square per unit of the mesh's area, for charts at full size. Of two cuts whose charts
    /// [`super::budget`] may have shrunk, the one with more is better.
    pub(crate) fn density(&self) -> f64 {
        (self.layout.scale * self.growth() / self.grid.edge()).powi(2)
    }

    /// Share of the square that charts cover.
    pub(crate) fn utilisation(&self) -> f64 {
        self.area * self.density()
    }

    /// The texture coordinates.
    pub(crate) fn atlas(&self) -> Placed {
        let growth = self.growth();
        let (cells, edge) = (self.grid.page as f64, self.grid.edge());
        let placed = |((chart, turns), (turn, page, place, shift)): ((&Chart, &Turns), &Place)| {
            let corner = self.grid.pages.place(*page).map(|x| f64::from(x) * cells);
            let to_uv = |&uv: &[f64; 2]| {
                let point = turned(uv, turns[*turn as usize], self.layout.scale);
                [0, 1].map(|axis| {
                    let cell =
                        (point[axis] + shift[axis] + place[axis] as f64) * growth + MARGIN as f64;
                    (corner[axis] + cell.clamp(0.0, cells)) / edge
                })
            };
            chart.uvs.iter().map(to_uv).collect()
        };
        let uvs = self
            .charts
            .iter()
            .zip(&self.turns)
            .zip(&self.layout.places)
            .map(placed)
            .collect();
        Placed {
            uvs,
            utilisation: self.utilisation(),
        }
    }
}

/// The rotations worth trying: the sides of the smallest of 32 bounding rectangles, and halfway between them.
pub(super) fn turns_of(chart: &Chart) -> Turns {
    let angle = |step: usize| {
        let (sin, cos) = (std::f64::consts::FRAC_PI_2 * step as f64 / 32.0).sin_cos();
        [cos, sin]
    };
    // Of rectangles of similar area the squarer one, since long sides limit an atlas of few charts.
    let cost = |turn| {
        let [width, height] = chart.extent(turn);
        width * height + 0.01 * (width * width + height * height)
    };
    let best = (0..32)
        .map(angle)
        .min_by(|&a, &b| cost(a).total_cmp(&cost(b)))
        .unwrap_or([1.0, 0.0]);
    let quarter =
        |[cos, sin]: [f64; 2], times| (0..times).fold([cos, sin], |[cos, sin], _| [-sin, cos]);
    let (sin, cos) = std::f64::consts::FRAC_PI_4.sin_cos();
    let between = [best[0] * cos - best[1] * sin, best[0] * sin + best[1] * cos];
    (0..4)
        .map(|times| quarter(best, times))
        .chain((0..4).map(|times| quarter(between, times)))
        .collect()
}

/// Largest first by half the girth, which predicts better than area what is hard to place.
fn by_size(charts: &[Chart], turns: &[Turns]) -> Vec<u32> {
    let girth: Vec<f64> = charts
        .iter()
        .zip(turns)
        .map(|(chart, turns)| chart.extent(turns[0]).iter().sum())
        .collect();
    let mut order: Vec<u32> = (0..charts.len() as u32).collect();
    order.sort_by(|&a, &b| girth[b as usize].total_cmp(&girth[a as usize]));
    order
}

/// A chart's masks by rotation; none where it is larger than the page.
type Masks = Vec<Option<Mask>>;

/// The masks of every chart in its first `tried` rotations, four or all. None if a chart fits in no upright one.
fn masks(
    charts: &[Chart],
    turns: &[Turns],
    tried: u8,
    scale: f64,
    inner: usize,
) -> Option<Vec<Masks>> {
    let all = |(number, (chart, turns)): (usize, (&Chart, &Turns))| -> Masks {
        if number.is_multiple_of(TOLD_CHARTS) {
            unit();
        }
        let firsts = turns[..usize::from(tried)].iter().step_by(4);
        firsts
            .flat_map(|&turn| Mask::quarters(chart, turn, scale, inner))
            .collect()
    };
    let masks: Vec<Masks> = charts.par_iter().zip(turns).enumerate().map(all).collect();
    masks
        .iter()
        .all(|masks| {
            masks
                .iter()
                .take(usize::from(UPRIGHT_TURNS))
                .any(Option::is_some)
        })
        .then_some(masks)
}

/// Places all charts in the order of the plan, if they fit; otherwise tells how many did before one that does not. Adds
/// the row tests to `work`.
fn place(
    masks: &[Masks],
    plan: &Plan,
    grid: Grid,
    scale: f64,
    work: &mut u64,
) -> Result<Layout, usize> {
    let (inner, gap) = (grid.inner(), grid.gap(masks.len()));
    let mut pages = vec![Page::new(inner)];
    let mut layout = Layout {
        places: vec![(0, 0, [0; 2], [0.0; 2]); masks.len()],
        scale,
        work: 0,
    };
    // With many charts, the search for a chart of about the same size begins where the last one was placed: lower
    // places and earlier pages had no room for that one.
    let (mut size, mut first, mut start) = (usize::MAX, 0, 0);
    for (number, &chart) in plan.order.iter().enumerate() {
        if number % TOLD_CHARTS == TOLD_CHARTS - 1 {
            unit();
        }
        let girth = masks[chart as usize]
            .iter()
            .flatten()
            .map(|mask| mask.width + mask.height)
            .min()
            .unwrap_or(0);
        if masks.len() <= SEARCHED_CHARTS
            || girth * SIZE_CLASS.1 < size.saturating_mul(SIZE_CLASS.0)
        {
            (size, first, start) = (girth, 0, 0);
        }
        let fixed = plan.turn[chart as usize];
        let found = (first..grid.pages.count() as usize).find_map(|number| {
            if number == pages.len() {
                pages.push(Page::new(inner));
            }
            let start = if number == first { start } else { 0 };
            let found = lowest(
                &masks[chart as usize],
                fixed,
                &mut pages[number],
                inner,
                start,
                work,
            );
            Some((number, found?))
        });
        let (page, (turn, at)) = found.ok_or(number)?;
        let mask = masks[chart as usize][turn as usize]
            .as_ref()
            .ok_or(number)?;
        pages[page].insert(mask, at, gap);
        (first, start) = (page, at[1].max(if page == first { start } else { 0 }));
        layout.places[chart as usize] = (turn, page as u32, at, mask.shift);
    }
    layout.work = *work;
    Ok(layout)
}

/// The lowest place in a page for any rotation of a chart, or for the fixed one.
fn lowest(
    masks: &Masks,
    fixed: Option<u8>,
    page: &mut Page,
    inner: usize,
    start: usize,
    work: &mut u64,
) -> Option<(u8, [usize; 2])> {
    let mut best: Option<(usize, usize, u8, [usize; 2])> = None;
    for (turn, mask) in masks.iter().enumerate() {
        let turn = turn as u8;
        let Some(mask) = mask else { continue };
        if fixed.map_or(turn >= UPRIGHT_TURNS, |fixed| fixed != turn) {
            continue;
        }
        let below = best.map_or(inner + 1, |(top, ..)| top + 1);
        if let Some(place) = page.find(mask, start, below, work) {
            let key = (place[1] + mask.height, place[0]);
            if best.is_none_or(|(top, x, ..)| key < (top, x)) {
                best = Some((key.0, key.1, turn, place));
            }
        }
    }
    best.map(|(.., turn, at)| (turn, at))
}

/// The search for the largest scale at which all charts fit. In terms of the scale's square, which is the utilisation
/// except for gaps.
struct Search<'a> {
    charts: &'a [Chart],
    turns: &'a [Turns],
    plan: &'a Plan,
    grid: Grid,
    area: f64,
}

impl Search<'_> {
    /// The packing of the largest scale found that fits the pages.
    fn largest(&self) -> Option<Layout> {
        let [mut low, mut high] = match self.charts.len() {
            ..=FEW_CHARTS => FIRST_BRACKET,
            _ => self.predicted(),
        };
        let (mut best, mut lower): (Option<Layout>, f64) = (None, LOWER);
        for _ in 0..LONGEST_SEARCH {
            if best.is_some() && high - low <= RESOLUTION {
                break;
            }
            let steps: Vec<f64> = (1..=SCALE_WIDTH)
                .map(|step| low + (high - low) * step as f64 / (SCALE_WIDTH + 1) as f64)
                .collect();
            // From the largest down: what is smaller than one that fits need not be tried.
            let tried = steps.par_iter().enumerate().rev();
            let largest = tried
                .find_map_first(|(step, &utilisation)| Some((step, self.at(utilisation).ok()?)));
            if let Some((step, layout)) = largest {
                high = steps.get(step + 1).copied().unwrap_or(high);
                low = steps[step];
                best = Some(layout);
                continue;
            }
            // Nothing fitted: the lowest step is the new upper end.
            high = steps[0];
            if best.is_none() {
                low = high * lower;
                lower *= lower;
            }
        }
        best
    }

    /// The interval in which the largest utilisation lies, by how much of the charts fits at one that is too large.
    fn predicted(&self) -> [f64; 2] {
        match self.at(PROBED) {
            Err(placed) if placed > 0 => {
                let placed = &self.plan.order[..placed];
                let area: f64 = placed.iter().map(|&k| self.charts[k as usize].area()).sum();
                PREDICTED.map(|part| part * PROBED * area / self.area)
            }
            Err(_) => FIRST_BRACKET,
            Ok(_) => [PROBED, 1.0],
        }
    }

    /// The packing at a scale, or how many charts find a place.
    fn at(&self, utilisation: f64) -> Result<Layout, usize> {
        let edge = (self.grid.inner() * self.grid.pages.side() as usize) as f64;
        let scale = edge * (utilisation / self.area).sqrt();
        let masks = masks(
            self.charts,
            self.turns,
            UPRIGHT_TURNS,
            scale,
            self.grid.inner(),
        );
        place(&masks.ok_or(0_usize)?, self.plan, self.grid, scale, &mut 0)
    }
}

/// A random generator that is the same everywhere (xorshift64*, Vigna, 2016).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        ((high * bound as u64) >> 32) as usize
    }
}

/// A plan a few changes away: two charts swapped, one moved, or one rotated.
fn neighbour(plan: &Plan, random: &mut Random) -> Plan {
    let mut plan = plan.clone();
    let count = plan.order.len();
    for _ in 0..=random.below(3) {
        match random.below(4) {
            0 => plan.order.swap(random.below(count), random.below(count)),
            1 | 2 => {
                let chart = plan.order.remove(random.below(count));
                plan.order.insert(random.below(count), chart);
            }
            _ => {
                let turn = random.below(usize::from(TURNS) + 1) as u8;
                // One value leaves the choice to the page.
                plan.turn[random.below(count)] = (turn < TURNS).then_some(turn);
            }
        }
    }
    plan
}
