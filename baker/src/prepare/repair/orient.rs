//! Winds each connected part of a surface consistently, with its front on the side from which most of it is seen.
//!
//! Triangles that share an edge agree if they run along it in opposite directions. A one-sided part (a Moebius strip)
//! has no front and is left as it is. The winding of a part is first the one of most of its area. Then visibility from
//! all around decides: for a closed surface the front is the outside, for a bowl the less occluded side. A part that is
//! unseen, or seen from both sides alike (a leaf), keeps the winding of most of its area.

use kiln_raster::vector::{cross, sub};
use proto::message::StepFate;

use super::edit;
use super::sight::{self, Groups};
use super::step::{Outcome, pass};
use super::topology::{Topology, ends};
use super::unseen::length;
use crate::prepare::clean::CleanMesh;
use crate::worker::progress::Progress;

/// Pairs of views that decide; the sides differ by much or not at all.
const PAIRS: usize = 48;
/// A part is flipped if its back is seen by more pixels than its front times this.
const MARGIN: f64 = 1.05;

pub(super) fn orient(
    mesh: &mut CleanMesh,
    topology: &Topology,
    progress: &dyn Progress,
) -> Outcome {
    let (mut turned, one_sided) = agree(mesh, topology);
    majority(mesh, topology, &one_sided, &mut turned);
    for (triangle, _) in turned.iter().enumerate().filter(|(_, turned)| **turned) {
        edit::flip(mesh, triangle);
    }
    let groups = Groups {
        positions: &mesh.positions,
        triangles: &mesh.triangles,
        of: &topology.parts,
        count: topology.part_count,
    };
    let sight = sight::from_all_around(groups, [PAIRS, 1], progress);
    progress.expect("turning triangles outwards", pass(mesh));
    if let Some(sight) = &sight {
        let inside_out = |part: u32| {
            let [front, back] = sight.pixels[part as usize];
            !one_sided[part as usize] && back as f64 > MARGIN * front as f64
        };
        for (triangle, &part) in topology.parts.iter().enumerate() {
            if inside_out(part) {
                edit::flip(mesh, triangle);
                turned[triangle] = !turned[triangle];
            }
        }
    }
    let changed = turned.iter().filter(|turned| **turned).count() as u64;
    let mut notes = Vec::new();
    match one_sided.iter().filter(|part| **part).count() {
        0 => {}
        count => notes.push(format!(
            "{count} of {} parts have one side only, like a Moebius strip, and stay as they came",
            topology.part_count
        )),
    }
    if sight.is_none() {
        notes.push(
            "which side is outside was not looked at: its triangles overlap too often".to_owned(),
        );
    }
    Outcome {
        fate: StepFate::of(changed),
        changed,
        note: notes.join("; "),
    }
}

/// Which triangles to flip so that neighbours agree with the first of their part, and which parts are one-sided.
fn agree(mesh: &CleanMesh, topology: &Topology) -> (Vec<bool>, Vec<bool>) {
    let mut turned = vec![false; mesh.triangles.len()];
    let mut met = vec![false; mesh.triangles.len()];
    let mut one_sided = vec![false; topology.part_count];
    let mut open = Vec::new();
    for seed in 0..mesh.triangles.len() {
        if std::mem::replace(&mut met[seed], true) {
            continue;
        }
        open.push(seed);
        while let Some(triangle) = open.pop() {
            for half in 3 * triangle as u32..3 * triangle as u32 + 3 {
                let Some(mate) = topology.mate(half) else {
                    continue;
                };
                let other = mate as usize / 3;
                let along = ends(&mesh.triangles, half)[0] == ends(&mesh.triangles, mate)[0];
                let wanted = turned[triangle] ^ along;
                if !std::mem::replace(&mut met[other], true) {
                    turned[other] = wanted;
                    open.push(other);
                } else if turned[other] != wanted {
                    one_sided[topology.parts[triangle] as usize] = true;
                }
            }
        }
    }
    for (triangle, &part) in topology.parts.iter().enumerate() {
        turned[triangle] &= !one_sided[part as usize];
    }
    (turned, one_sided)
}

/// Inverts the flips of a part where they concern more than half of its area.
fn majority(mesh: &CleanMesh, topology: &Topology, one_sided: &[bool], turned: &mut [bool]) {
    let mut sums = vec![[0.0; 2]; topology.part_count];
    for (triangle, &part) in topology.parts.iter().enumerate() {
        let [a, b, c] =
            mesh.triangles[triangle].map(|point| mesh.positions[point as usize].map(f64::from));
        sums[part as usize][usize::from(turned[triangle])] += length(cross(sub(b, a), sub(c, a)));
    }
    for (triangle, &part) in topology.parts.iter().enumerate() {
        let [kept, turned_area] = sums[part as usize];
        if turned_area > kept && !one_sided[part as usize] {
            turned[triangle] = !turned[triangle];
        }
    }
}
