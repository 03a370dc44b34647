//! Views → the chart texels whose place on the surface is visible in one of them.

use proto::table::View;
use rayon::prelude::*;

use super::model::Model;
use crate::image::render::Sight;
use crate::image::survey::NOTHING;
use crate::worker::progress::{Ticker, unit};

/// What has been seen of a model so far: a mark for each texel of each picture.
pub(super) struct Seen {
    marks: Vec<Vec<Mark>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// In no chart.
    Outside,
    Unseen,
    Seen,
}

impl Seen {
    pub(super) fn new(model: &Model) -> Self {
        let mark = |&owner: &u32| match owner {
            NOTHING => Mark::Outside,
            _ => Mark::Unseen,
        };
        let marks = |owners: &Vec<u32>| owners.iter().map(mark).collect();
        Self {
            marks: model.owners.iter().map(marks).collect(),
        }
    }

    /// Marks what this view sees, where its picture is not fully transparent.
    pub(super) fn look(&mut self, model: &Model, view: &View) {
        if self.marks.is_empty() {
            return;
        }
        let mesh = &model.mesh;
        let sight = Sight::new(mesh, &view.camera, [view.width, view.height]);
        let pictures = model.pictures.pictures.iter().zip(&model.owners);
        for (marks, (picture, owners)) in self.marks.iter_mut().zip(pictures) {
            let width = picture.width;
            let rows = marks.par_chunks_mut(width).zip(owners.par_chunks(width));
            let rows = rows.enumerate();
            rows.for_each_init(Ticker::default, |ticker, (row, (marks, owners))| {
                ticker.did(width);
                for (column, (mark, &owner)) in marks.iter_mut().zip(owners).enumerate() {
                    if *mark != Mark::Unseen {
                        continue;
                    }
                    let at = [
                        (column as f64 + 0.5) / width as f64,
                        (row as f64 + 0.5) / picture.height as f64,
                    ];
                    let point = point(model, owner, at);
                    let pixel = sight.pixel(point);
                    if pixel.is_some_and(|pixel| view.pixels[pixel][3] > 0) {
                        *mark = Mark::Seen;
                    }
                }
            });
            unit();
        }
    }

    /// Share of the chart texels that no view has seen; none without chart texels.
    pub(super) fn unseen(&self) -> Option<f32> {
        let count = |wanted: Mark| {
            let marks = self.marks.iter().flatten();
            marks.filter(|&&mark| mark == wanted).count() as f64
        };
        let (unseen, seen) = (count(Mark::Unseen), count(Mark::Seen));
        (unseen + seen > 0.0).then(|| (unseen / (unseen + seen)) as f32)
    }
}

/// The surface point at texture coordinate `at` of the triangle that owns it.
fn point(model: &Model, triangle: u32, at: [f64; 2]) -> [f32; 3] {
    let corners = model.mesh.triangles[triangle as usize];
    let [a, b, c] = corners.map(|corner| model.mesh.uvs[corner as usize].map(f64::from));
    let edge = |p: [f64; 2], q: [f64; 2], r: [f64; 2]| {
        (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])
    };
    let area = edge(a, b, c);
    let weights = [edge(b, c, at), edge(c, a, at), edge(a, b, at)];
    let positions = corners.map(|corner| model.mesh.positions[corner as usize]);
    std::array::from_fn(|axis| {
        let sum: f64 = (weights.iter().zip(&positions))
            .map(|(weight, position)| weight / area * f64::from(position[axis]))
            .sum();
        sum as f32
    })
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::card;
    use super::*;

    #[test]
    fn what_the_picture_shows_is_seen() {
        let (_, _, view) = crate::image::measure::tests::scene();
        let model = card();
        let mut seen = Seen::new(&model);
        assert_eq!(seen.unseen(), Some(1.0));
        // The card covers columns 4-44. A picture of its left half, columns 0-24, sees half of it.
        let mut half = view.clone();
        for (index, pixel) in half.pixels.iter_mut().enumerate() {
            if index % 48 >= 24 {
                pixel[3] = 0;
            }
        }
        seen.look(&model, &half);
        assert_eq!(seen.unseen(), Some(0.5));
        seen.look(&model, &view);
        assert_eq!(seen.unseen(), Some(0.0));
    }
}
