//! The mesh of an atlas → its pages, each with the coordinates of its own texture. Also cuts texels out of the atlas
//! and puts them back.
//!
//! No triangle spans two pages, so nothing is split. Triangles and vertices are sorted by page, each page a contiguous
//! range. A page without triangles is left out. With one page nothing is moved or copied.

use std::borrow::Cow;
use std::ops::Range;

use proto::job::Compress;
use proto::pages::Pages;
use proto::table::Mesh;

use super::part::{order, part};
use super::picture::Encoded;

/// Texels as files hold them.
type Texels<'a> = Cow<'a, [[u8; 4]]>;

/// The files of the pages, and the atlas texels as the files hold them where they differ.
pub type EncodedPages = (Vec<Vec<u8>>, Option<Vec<[u8; 4]>>);

/// A page with its ranges of vertices and triangles.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Page number, see [`Pages::place`].
    pub number: u32,
    vertices: Range<usize>,
    triangles: Range<usize>,
}

/// The pages that have triangles.
#[derive(Clone, Debug)]
pub struct Sheets {
    pages: Pages,
    leaves: Vec<Leaf>,
}

/// A mesh sorted by page, the former index of each vertex if they were moved, and the pages.
pub type Arranged = (Mesh, Option<Vec<u32>>, Sheets);

/// Sorts a mesh by page, and each page into the order that compresses best where compression is asked for.
pub fn arrange(mesh: Mesh, pages: Pages, compress: Compress) -> Arranged {
    if pages == Pages::ONE {
        let (mesh, from) = match compress {
            Compress::None => (mesh, None),
            Compress::Meshopt => {
                let (mesh, from) = order(&mesh);
                (mesh, Some(from))
            }
        };
        let sheets = Sheets::one(&mesh);
        return (mesh, from, sheets);
    }
    let mut of_page = vec![Vec::new(); pages.count() as usize];
    for corners in &mesh.triangles {
        let middle = |axis: usize| {
            let all = corners.map(|corner| mesh.uvs[corner as usize][axis]);
            all.into_iter().sum::<f32>() / 3.0
        };
        of_page[pages.at([middle(0), middle(1)]) as usize].push(*corners);
    }
    let mut arranged = Mesh {
        charts: mesh.charts,
        ..Mesh::default()
    };
    let (mut all, mut leaves) = (Vec::new(), Vec::new());
    for (number, triangles) in (0..).zip(of_page) {
        if triangles.is_empty() {
            continue;
        }
        let (mut part, mut from) = part(&mesh, triangles);
        if compress == Compress::Meshopt {
            let (ordered, first) = order(&part);
            from = first.iter().map(|&vertex| from[vertex as usize]).collect();
            part = ordered;
        }
        let (vertices, triangles) = (arranged.positions.len(), arranged.triangles.len());
        let corners = part.triangles.iter();
        let corners = corners.map(|corners| corners.map(|corner| vertices as u32 + corner));
        arranged.triangles.extend(corners);
        arranged.positions.extend(part.positions);
        arranged.normals.extend(part.normals);
        arranged.uvs.extend(part.uvs);
        arranged.surface_vertices.extend(part.surface_vertices);
        all.extend(from);
        leaves.push(Leaf {
            number,
            vertices: vertices..arranged.positions.len(),
            triangles: triangles..arranged.triangles.len(),
        });
    }
    // A surface point may have lost vertices, but its number must stay below the number of vertices.
    renumber(&mut arranged.surface_vertices);
    (arranged, Some(all), Sheets { pages, leaves })
}

/// Renumbers the points in the order of first use.
fn renumber(points: &mut [u32]) {
    let most = points.iter().max().map_or(0, |&most| most as usize + 1);
    let (mut numbers, mut next) = (vec![u32::MAX; most], 0);
    for point in points {
        let number = &mut numbers[*point as usize];
        if *number == u32::MAX {
            (*number, next) = (next, next + 1);
        }
        *point = *number;
    }
}

impl Sheets {
    /// The whole mesh as one page.
    pub fn one(mesh: &Mesh) -> Self {
        Self {
            pages: Pages::ONE,
            leaves: vec![Leaf {
                number: 0,
                vertices: 0..mesh.positions.len(),
                triangles: 0..mesh.triangles.len(),
            }],
        }
    }

    /// The pages, in the order of the mesh.
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// A page's UDIM tile; none with one page.
    pub fn tile(&self, leaf: &Leaf) -> Option<u32> {
        (self.pages != Pages::ONE).then(|| self.pages.udim(leaf.number))
    }

    /// Converts atlas coordinates to page coordinates, each from 0 to 1.
    pub fn on_pages<'a>(&self, atlas: &'a Mesh) -> Cow<'a, Mesh> {
        if self.pages == Pages::ONE {
            return Cow::Borrowed(atlas);
        }
        let mut mesh = atlas.clone();
        let side = self.pages.side() as f32;
        self.each_uv(&mut mesh, |uv, corner| {
            [0, 1].map(|axis| (uv[axis] * side - corner[axis]).clamp(0.0, 1.0))
        });
        Cow::Owned(mesh)
    }

    /// Converts page coordinates back to atlas coordinates.
    pub fn on_atlas(&self, mut pages: Mesh) -> Mesh {
        let side = self.pages.side() as f32;
        if self.pages != Pages::ONE {
            self.each_uv(&mut pages, |uv, corner| {
                [0, 1].map(|axis| (uv[axis] + corner[axis]) / side)
            });
        }
        pages
    }

    /// Converts page coordinates to UDIM tiles, with v up.
    pub fn on_tiles(&self, pages: &Mesh) -> Mesh {
        let mut mesh = pages.clone();
        self.each_uv(&mut mesh, |[u, v], [column, row]| {
            [u + column, row + (1.0 - v)]
        });
        mesh
    }

    /// Converts page coordinates to what a reader finds that flips v and does not know tiles.
    pub fn as_read(&self, pages: &Mesh) -> Mesh {
        let mut mesh = self.on_tiles(pages);
        mesh.uvs.iter_mut().for_each(|[_, v]| *v = 1.0 - *v);
        mesh
    }

    fn each_uv(&self, mesh: &mut Mesh, change: impl Fn([f32; 2], [f32; 2]) -> [f32; 2]) {
        for leaf in &self.leaves {
            let corner = self.pages.place(leaf.number).map(|x| x as f32);
            for uv in &mut mesh.uvs[leaf.vertices.clone()] {
                *uv = change(*uv, corner);
            }
        }
    }

    /// The part of a mesh on a page.
    pub fn part<'a>(&self, mesh: &'a Mesh, leaf: &Leaf) -> Cow<'a, Mesh> {
        if self.pages == Pages::ONE {
            return Cow::Borrowed(mesh);
        }
        let (vertices, first) = (leaf.vertices.clone(), leaf.vertices.start as u32);
        let triangles = mesh.triangles[leaf.triangles.clone()].iter();
        Cow::Owned(Mesh {
            positions: mesh.positions[vertices.clone()].to_vec(),
            normals: mesh.normals[vertices.clone()].to_vec(),
            uvs: mesh.uvs[vertices.clone()].to_vec(),
            surface_vertices: mesh.surface_vertices[vertices].to_vec(),
            triangles: triangles.map(|t| t.map(|corner| corner - first)).collect(),
            charts: mesh.charts,
        })
    }

    /// The range of a per-vertex list that belongs to a page.
    pub fn of_vertices<'a, T>(&self, all: &'a [T], leaf: &Leaf) -> &'a [T] {
        &all[leaf.vertices.clone()]
    }

    /// The triangles of a mesh on a page.
    pub fn triangles<'a>(&self, mesh: &'a Mesh, leaf: &Leaf) -> &'a [[u32; 3]] {
        &mesh.triangles[leaf.triangles.clone()]
    }

    /// For each triangle the index of its page among the leaves; empty with one page.
    pub fn of_triangle(&self) -> Vec<u16> {
        let leaves = (0..).zip(&self.leaves);
        let leaves = leaves.filter(|_| self.pages != Pages::ONE);
        let each = |(place, leaf): (u16, &Leaf)| std::iter::repeat_n(place, leaf.triangles.len());
        leaves.flat_map(each).collect()
    }

    /// Edge of each page of an atlas in texels.
    pub fn edge(&self, atlas: u32) -> u32 {
        self.pages.page(atlas)
    }

    /// Cuts a page's texels out of an atlas.
    pub fn cut<'a>(&self, leaf: &Leaf, atlas: u32, texels: &'a [[u8; 4]]) -> Texels<'a> {
        if self.pages == Pages::ONE {
            return Cow::Borrowed(texels);
        }
        let rows = self.rows(leaf, atlas).map(|row| &texels[row]);
        Cow::Owned(rows.flatten().copied().collect())
    }

    /// The ranges of a page's rows in its atlas.
    fn rows(&self, leaf: &Leaf, atlas: u32) -> impl Iterator<Item = Range<usize>> + use<> {
        let (atlas, edge) = (atlas as usize, self.edge(atlas) as usize);
        let [column, row] = self.pages.place(leaf.number).map(|x| x as usize * edge);
        (row..row + edge).map(move |row| {
            let start = row * atlas + column;
            start..start + edge
        })
    }

    /// Encodes each page of an atlas.
    ///
    /// # Errors
    /// The first that `encode` returns.
    pub fn encode<E>(
        &self,
        atlas: u32,
        texels: &[[u8; 4]],
        mut encode: impl FnMut(u32, &[[u8; 4]]) -> Result<Encoded, E>,
    ) -> Result<EncodedPages, E> {
        if self.pages == Pages::ONE {
            let (file, held) = encode(atlas, texels)?;
            return Ok((vec![file], held));
        }
        let (mut files, mut all) = (Vec::new(), None);
        for leaf in &self.leaves {
            let page = self.cut(leaf, atlas, texels);
            let (file, held) = encode(self.edge(atlas), &page)?;
            files.push(file);
            if let Some(held) = held {
                let all = all.get_or_insert_with(|| texels.to_vec());
                let rows = held.chunks_exact(self.edge(atlas) as usize);
                for (place, row) in self.rows(leaf, atlas).zip(rows) {
                    all[place].copy_from_slice(row);
                }
            }
        }
        Ok((files, all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A triangle on each of the pages 0, 1 and 3 of four, on the second page two. Their points meet at the atlas'
    /// middle.
    fn mesh() -> Mesh {
        let mut mesh = Mesh {
            charts: 3,
            ..Mesh::default()
        };
        for (page, [x, y]) in [
            (3, [0.5, 0.5]),
            (0, [0.0, 0.0]),
            (1, [0.5, 0.0]),
            (1, [0.5, 0.0]),
        ] {
            let first = mesh.positions.len() as u32;
            for (corner, [u, v]) in [[0.1, 0.1], [0.4, 0.1], [0.1, 0.4]].into_iter().enumerate() {
                mesh.positions
                    .push([page as f32, corner as f32, first as f32]);
                mesh.normals.push([0.0, 0.0, 1.0]);
                mesh.uvs.push([x + u, y + v]);
                mesh.surface_vertices.push(first + 2 - corner as u32);
            }
            mesh.triangles.push([first, first + 1, first + 2]);
        }
        mesh
    }

    fn four() -> Pages {
        Pages::try_from(4).expect("a square")
    }

    #[test]
    fn pages_become_runs_and_nothing_is_lost() {
        let before = mesh();
        for compress in [Compress::None, Compress::Meshopt] {
            let (after, from, sheets) = arrange(before.clone(), four(), compress);
            let from = from.expect("moved");
            let numbers: Vec<u32> = sheets.leaves().iter().map(|leaf| leaf.number).collect();
            assert_eq!(numbers, [0, 1, 3]);
            assert_eq!(sheets.of_triangle(), [0, 1, 1, 2]);
            for (vertex, &old) in from.iter().enumerate() {
                assert_eq!(after.positions[vertex], before.positions[old as usize]);
                assert_eq!(after.uvs[vertex], before.uvs[old as usize]);
            }
            // Each triangle is there, its corners in order.
            let corners =
                |mesh: &Mesh, t: &[u32; 3]| t.map(|c| mesh.positions[c as usize].map(f32::to_bits));
            let sorted = |mesh: &Mesh| {
                let mut all: Vec<_> = mesh.triangles.iter().map(|t| corners(mesh, t)).collect();
                for t in &mut all {
                    let least = (0..3).min_by_key(|&k| t[k]).expect("three");
                    t.rotate_left(least);
                }
                all.sort_unstable();
                all
            };
            assert_eq!(sorted(&after), sorted(&before));
            // Points are still numbers of vertices, as the table demands.
            let count = after.positions.len() as u32;
            assert!(after.surface_vertices.iter().all(|&point| point < count));

            let local = sheets.on_pages(&after);
            for leaf in sheets.leaves() {
                let part = sheets.part(&local, leaf);
                assert!(
                    part.triangles
                        .as_flattened()
                        .iter()
                        .all(|&c| (c as usize) < part.uvs.len())
                );
                for uv in &part.uvs {
                    assert!(uv.iter().all(|x| (0.19..0.81).contains(x)), "{uv:?}");
                }
            }
            // Exact, since the factor is a power of two.
            assert_eq!(sheets.on_atlas(local.clone().into_owned()), after);
            let tiles = sheets.on_tiles(&local);
            let last = tiles.uvs.last().expect("some");
            assert!(
                (1.0..2.0).contains(&last[0]) && (1.0..2.0).contains(&last[1]),
                "{last:?}"
            );
        }
    }

    #[test]
    fn texels_are_cut_out_and_put_back() {
        let (_, _, sheets) = arrange(mesh(), four(), Compress::None);
        let texels: Vec<[u8; 4]> = (0..64_u8).map(|k| [k, 0, 0, 255]).collect();
        let mut pages = Vec::new();
        let invert = |edge: u32, page: &[[u8; 4]]| {
            assert_eq!((edge, page.len()), (4, 16));
            pages.push(page[0][0]);
            let held = page.iter().map(|[r, ..]| [255 - r, 0, 0, 255]).collect();
            Ok::<Encoded, ()>((vec![page[5][0]], Some(held)))
        };
        let (files, held) = sheets.encode(8, &texels, invert).expect("encodes");
        assert_eq!(
            (pages, files),
            (vec![0, 4, 36], vec![vec![9], vec![13], vec![45]])
        );
        for (number, (held, given)) in held.expect("others").iter().zip(&texels).enumerate() {
            // The page without triangles is unchanged: rows from the fourth on, left half.
            let left = number / 8 >= 4 && number % 8 < 4;
            let wanted = if left { given[0] } else { 255 - given[0] };
            assert_eq!(held[0], wanted, "{number}");
        }
    }

    #[test]
    fn one_page_is_the_mesh_as_it_came() {
        let (after, from, sheets) = arrange(mesh(), Pages::ONE, Compress::None);
        assert_eq!((&after, from), (&mesh(), None));
        let local = sheets.on_pages(&after);
        assert!(matches!(local, Cow::Borrowed(_)));
        assert!(sheets.of_triangle().is_empty() && sheets.tile(&sheets.leaves()[0]).is_none());
    }
}
