//! Merges border points that lie almost at the same place.
//!
//! Cleaning merges points that are bitwise equal. Points that another program cut and moved are off by rounding. Only
//! border points move, each to the first one within reach, so nothing thin is crushed. Triangles that lose their area
//! are dropped, and so are all but the first of triangles with the same corners.

use std::collections::{HashMap, HashSet};

use proto::message::StepFate;

use super::edit;
use super::step::Outcome;
use super::topology::{Topology, ends};
use crate::prepare::clean::{self, CleanMesh, MIN_HEIGHT};

/// Welds border points nearer than `share` of the diagonal.
pub(super) fn weld(mesh: &mut CleanMesh, topology: &Topology, share: f64) -> Outcome {
    let reach = share * 2.0 * mesh.radius;
    let mut border: Vec<u32> = topology
        .border_halves()
        .flat_map(|half| ends(&mesh.triangles, half))
        .collect();
    border.sort_unstable();
    border.dedup();
    let mut moved: HashMap<u32, u32> = HashMap::new();
    let mut cells: HashMap<[i64; 3], Vec<u32>> = HashMap::new();
    let place = |point: u32| mesh.positions[point as usize].map(f64::from);
    for point in border {
        let at = place(point);
        let cell = at.map(|x| (x / reach).floor() as i64);
        let near = |other: &u32| {
            let other = place(*other);
            (0..3)
                .map(|axis| (at[axis] - other[axis]).powi(2))
                .sum::<f64>()
                <= reach * reach
        };
        let around = (0..27).map(|n| {
            [n % 3, n / 3 % 3, n / 9]
                .iter()
                .zip(cell)
                .map(|(step, at)| at.saturating_add(step - 1))
                .collect::<Vec<i64>>()
        });
        let first = around
            .filter_map(|cell| cells.get(&[cell[0], cell[1], cell[2]]))
            .flatten()
            .filter(|other| near(other))
            .min();
        match first {
            Some(&first) => {
                moved.insert(point, first);
            }
            None => cells.entry(cell).or_default().push(point),
        }
    }
    if moved.is_empty() {
        return Outcome::without(StepFate::Unchanged, "");
    }
    let mut met: HashSet<[u32; 3]> = HashSet::new();
    let least = MIN_HEIGHT * 2.0 * mesh.radius;
    let mut kept = Vec::with_capacity(mesh.triangles.len());
    for (number, corners) in mesh.triangles.iter().enumerate() {
        let welded = corners.map(|point| moved.get(&point).copied().unwrap_or(point));
        let mut any_order = welded;
        any_order.sort_unstable();
        let whole = any_order[0] < any_order[1] && any_order[1] < any_order[2];
        let places = welded.map(|point| mesh.positions[point as usize]);
        if whole && clean::has_area(places, least) && met.insert(any_order) {
            kept.push((number, welded));
        }
    }
    if kept.is_empty() {
        return Outcome::without(StepFate::Refused, "nothing with area would be left");
    }
    let uvs = mesh.corner_uvs.as_ref();
    let uvs = uvs.map(|uvs| kept.iter().map(|&(number, _)| uvs[number]).collect());
    let triangles = kept.iter().map(|&(_, corners)| corners).collect();
    *mesh = edit::rebuild(mesh, triangles, uvs);
    Outcome {
        fate: StepFate::Done,
        changed: moved.len() as u64,
        note: String::new(),
    }
}
