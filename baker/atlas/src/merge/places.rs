//! Where each face of the surface is laid.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::piece::Piece;

/// The number of a face's chart, and the index of its triangle there.
pub(super) type Place = (u32, u32);

/// The place of each face.
///
/// Threads that move different charts write the places of different faces. A thread may read the place of a face that
/// another one moves, before or after: either way it learns that the face is in none of its own charts, and no more.
#[derive(Debug)]
pub(super) struct Places(Vec<AtomicU64>);

impl Places {
    pub(super) fn new(faces: usize) -> Self {
        Self((0..faces).map(|_| AtomicU64::new(u64::MAX)).collect())
    }

    /// Where a face is; none for what is no face.
    pub(super) fn of(&self, face: u32) -> Option<Place> {
        let place = self.0.get(face as usize)?.load(Ordering::Relaxed);
        Some(((place >> 32) as u32, place as u32))
    }

    pub(super) fn set(&self, face: u32, (chart, row): Place) {
        let place = u64::from(chart) << 32 | u64::from(row);
        self.0[face as usize].store(place, Ordering::Relaxed);
    }

    /// Enters all triangles of a chart.
    pub(super) fn enter(&self, number: u32, piece: &Piece) {
        for (row, &face) in (0..).zip(&piece.faces) {
            self.set(face, (number, row));
        }
    }
}
