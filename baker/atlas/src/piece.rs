//! A flattened part of the surface.

/// A flattened piece of the surface.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Chart {
    /// Coordinates of its vertices in units of the mesh.
    pub(crate) uvs: Vec<[f64; 2]>,
    /// Corners as indices of its vertices.
    pub(crate) triangles: Vec<[u32; 3]>,
}

impl Chart {
    pub(crate) fn area(&self) -> f64 {
        let double = |corners: &[u32; 3]| self.double_area(corners);
        self.triangles.iter().map(double).sum::<f64>() / 2.0
    }

    pub(crate) fn area_of(&self, triangle: u32) -> f64 {
        self.double_area(&self.triangles[triangle as usize]) / 2.0
    }

    fn double_area(&self, corners: &[u32; 3]) -> f64 {
        let [[ax, ay], [bx, by], [cx, cy]] = corners.map(|corner| self.uvs[corner as usize]);
        ((bx - ax) * (cy - ay) - (by - ay) * (cx - ax)).abs()
    }

    /// Extent along both axes once rotated.
    pub(crate) fn extent(&self, turn: [f64; 2]) -> [f64; 2] {
        let (mut low, mut high) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
        for &uv in &self.uvs {
            let point = turned(uv, turn, 1.0);
            for axis in 0..2 {
                low[axis] = low[axis].min(point[axis]);
                high[axis] = high[axis].max(point[axis]);
            }
        }
        [high[0] - low[0], high[1] - low[1]]
    }
}

/// A point of a chart in cells, before the offset.
pub(crate) fn turned(uv: [f64; 2], turn: [f64; 2], scale: f64) -> [f64; 2] {
    [
        (uv[0] * turn[0] - uv[1] * turn[1]) * scale,
        (uv[0] * turn[1] + uv[1] * turn[0]) * scale,
    ]
}

/// A chart and the part of the surface that it shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Piece {
    pub(crate) chart: Chart,
    /// Triangles of the surface, in the order of the chart's triangles.
    pub(crate) faces: Vec<u32>,
    /// Points of the surface, one per vertex of the chart.
    pub(crate) points: Vec<u32>,
}

impl Piece {
    /// The part of the piece with the wanted triangles (by index in it), with unchanged coordinates.
    pub(crate) fn part(&self, wanted: impl Fn(usize) -> bool) -> Self {
        self.part_at((0..self.faces.len()).filter(|&row| wanted(row)))
    }

    /// The part with these triangles, by index in the piece.
    pub(crate) fn part_at(&self, rows: impl Iterator<Item = usize>) -> Self {
        let mut part = Self::default();
        let mut numbers = vec![u32::MAX; self.points.len()];
        for row in rows {
            let corners = self.chart.triangles[row].map(|corner| {
                let number = &mut numbers[corner as usize];
                if *number == u32::MAX {
                    *number = part.points.len() as u32;
                    part.points.push(self.points[corner as usize]);
                    part.chart.uvs.push(self.chart.uvs[corner as usize]);
                }
                *number
            });
            part.faces.push(self.faces[row]);
            part.chart.triangles.push(corners);
        }
        part
    }
}
