//! Hits and paint → colours: the lookup of each sample and the mean over the samples of a pixel.

use std::ops::Range;

use proto::job::Blend;
use proto::table::{Mesh, Texture};

use crate::image::render::srgb;
use kiln_raster::{Edges, Hits, NOTHING, Scene};

/// A texture: sRGB texels, row 0 at v = 0. It need not be square.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    width: usize,
    height: usize,
    texels: &'a [[u8; 4]],
}

impl<'a> Image<'a> {
    /// None unless there are exactly `width · height` texels, and at least one.
    pub fn new(width: usize, height: usize, texels: &'a [[u8; 4]]) -> Option<Self> {
        (!texels.is_empty() && width.checked_mul(height) == Some(texels.len())).then_some(Self {
            width,
            height,
            texels,
        })
    }

    /// Width and height.
    pub fn size(&self) -> [usize; 2] {
        [self.width, self.height]
    }

    pub(crate) fn texels(&self) -> &'a [[u8; 4]] {
        self.texels
    }
}

impl<'a> From<&'a Texture> for Image<'a> {
    fn from(texture: &'a Texture) -> Self {
        let edge = texture.size as usize;
        Self {
            width: edge,
            height: edge,
            texels: &texture.texels,
        }
    }
}

/// Several textures, one per material.
#[derive(Clone, Copy, Debug)]
pub struct Textures<'a> {
    /// At least one.
    pub images: &'a [Image<'a>],
    /// The image of each triangle; empty if all use the first.
    pub of_triangle: &'a [u16],
}

impl<'a> Textures<'a> {
    pub(crate) fn number(&self, triangle: usize) -> usize {
        let image = self.of_triangle.get(triangle);
        image.map_or(0, |&image| usize::from(image))
    }

    pub(crate) fn image(&self, triangle: usize) -> &'a Image<'a> {
        &self.images[self.number(triangle)]
    }
}

/// The source of the surface's colours.
#[derive(Clone, Copy, Debug)]
pub enum Paint<'a> {
    /// A texture.
    Image(Image<'a>),
    /// Several.
    Textures(Textures<'a>),
    /// Vertex colours, one per vertex, in linear light as in glTF.
    Vertices(&'a [[u16; 4]]),
}

impl<'a> From<Image<'a>> for Paint<'a> {
    fn from(image: Image<'a>) -> Self {
        Self::Image(image)
    }
}

impl<'a> From<&'a Texture> for Paint<'a> {
    fn from(texture: &'a Texture) -> Self {
        Self::Image(texture.into())
    }
}

impl<'a> Paint<'a> {
    /// The image of a triangle; none for vertex colours.
    fn image(&self, triangle: usize) -> Option<Image<'a>> {
        match self {
            Self::Image(image) => Some(*image),
            Self::Textures(textures) => Some(*textures.image(triangle)),
            Self::Vertices(_) => None,
        }
    }
}

/// The two neighbouring texels along one axis, and the weight of the second. Texel k is centred on `(k + ½)/edge`.
pub(crate) fn split(coordinate: f32, edge: usize) -> ([usize; 2], f32) {
    let (below, share) = below(coordinate, edge as f32);
    let below = below as usize;
    ([below, (below + 1).min(edge - 1)], share)
}

/// Added to a number between -2²² and 2²², it leaves no bits for a fraction: the lowest bits of the sum are the integer
/// part. Additions vectorise on every processor, unlike conversions and `floor`.
const WHOLE: f32 = 12_582_912.0;

/// The first of the two neighbouring texels, and the weight of the second.
fn below(coordinate: f32, edge: f32) -> (u32, f32) {
    // Clamped as floats, so that no coordinate overflows an index. NaN counts as 0.
    let (x, last) = (coordinate * edge - 0.5, edge - 1.0);
    let x = if x > 0.0 { x } else { 0.0 };
    let x = if x < last { x } else { last };
    // The centre of a texel may count as it or as all of the one before; the colour is the same.
    let sum = (x - 0.5) + WHOLE;
    (sum.to_bits() - WHOLE.to_bits(), x - (sum - WHOLE))
}

/// Samples looked up at once.
const TOGETHER: usize = 4;

/// Turns hits into colours. Samples of a pixel mostly share a triangle and texels, so the state of a triangle is kept,
/// and texel weights are summed before the lookup.
pub(super) struct Shader<'a> {
    mesh: &'a Mesh,
    paint: Paint<'a>,
    scene: &'a Scene<'a>,
    blend: Blend,
    /// The triangle hit last, or [`NOTHING`].
    triangle: u32,
    edges: Edges,
    coat: Coat,
    gathered: Gathered<'a>,
}

enum Coat {
    /// From an image: texture coordinate of the first corner, and offsets of the others.
    Image([[f32; 2]; 3]),
    /// Vertex colours of its corners in linear light.
    Vertices([[f32; 3]; 3]),
}

impl<'a> Shader<'a> {
    pub(super) fn new(
        mesh: &'a Mesh,
        paint: Paint<'a>,
        scene: &'a Scene<'a>,
        blend: Blend,
    ) -> Self {
        let decode = match blend {
            Blend::Linear => srgb::linear_table(),
            Blend::Srgb => srgb::display_table(),
        };
        Self {
            mesh,
            paint,
            scene,
            blend,
            triangle: NOTHING,
            edges: Edges::default(),
            coat: Coat::Vertices([[0.0; 3]; 3]),
            gathered: Gathered::new(paint.image(0), decode),
        }
    }

    /// Fills pixels from their hits, `width · samples` per row. `first` is their first row in the picture.
    pub(super) fn shade(
        &mut self,
        hits: &Hits,
        first: usize,
        [width, samples]: [usize; 2],
        colours: &mut [[f32; 3]],
        coverage: &mut [f32],
    ) {
        let step = 1.0 / samples as f64;
        for (pixel, (colour, covered)) in colours.iter_mut().zip(coverage).enumerate() {
            let (column, row) = (pixel % width, pixel / width);
            let mut sum = [0.0_f32; 3];
            let mut count = 0;
            for line in row * samples..(row + 1) * samples {
                let y = ((first * samples + line) as f64 + 0.5) * step;
                let seen = &hits.triangles[(line * width + column) * samples..][..samples];
                let mut at = column * samples;
                for same in seen.chunk_by(|one, next| one == next) {
                    if same[0] != NOTHING {
                        count += same.len();
                        self.take(same[0], &mut sum);
                        self.add(y, at..at + same.len(), step, &mut sum);
                    }
                    at += same.len();
                }
            }
            if count > 0 {
                self.gathered.finish(&mut sum);
                let mean = sum.map(|x| x / count as f32);
                *colour = if self.blend == Blend::Linear {
                    mean.map(srgb::encode)
                } else {
                    mean
                };
                *covered = count as f32 / (samples * samples) as f32;
            }
        }
    }

    /// Switches to a triangle for the next samples.
    fn take(&mut self, triangle: u32, sum: &mut [f32; 3]) {
        if triangle == self.triangle {
            return;
        }
        self.triangle = triangle;
        self.edges = self.scene.edges(triangle);
        let corners = self.mesh.triangles[triangle as usize].map(|corner| corner as usize);
        if let Paint::Vertices(colours) = self.paint {
            self.coat = Coat::Vertices(corners.map(|corner| {
                let [r, g, b, _] = colours[corner];
                [r, g, b].map(|step| f32::from(step) / f32::from(u16::MAX))
            }));
            return;
        }
        if let Paint::Textures(_) = self.paint {
            self.gathered.finish(sum);
            self.gathered.image = self.paint.image(triangle as usize);
        }
        let [a, b, c] = corners.map(|corner| self.mesh.uvs[corner]);
        let from_a = |uv: [f32; 2]| [uv[0] - a[0], uv[1] - a[1]];
        self.coat = Coat::Image([a, from_a(b), from_a(c)]);
    }

    /// Adds the colours of some samples of a row, or gathers their weights.
    fn add(&mut self, y: f64, samples: Range<usize>, step: f64, sum: &mut [f32; 3]) {
        let line = self.edges.along(y);
        for first in samples.clone().step_by(TOGETHER) {
            // Samples beyond the end are not counted.
            let count = (samples.end - first).min(TOGETHER);
            let mut x = [0.0; TOGETHER];
            for (k, x) in (first as i32..).zip(&mut x) {
                *x = (f64::from(k) + 0.5) * step;
            }
            let second_third = line.second_third(x);
            match &self.coat {
                Coat::Image(uvs) => self.gathered.add(uvs, second_third, count, sum),
                Coat::Vertices(colours) => {
                    for sample in 0..count {
                        let seen = mixed(colours, second_third.map(|of| of[sample]), self.blend);
                        for channel in 0..3 {
                            sum[channel] += seen[channel];
                        }
                    }
                }
            }
        }
    }
}

/// Mixes the linear colours of three corners by the barycentrics of the last two. The result is in the space of
/// `blend`.
fn mixed(colours: &[[f32; 3]; 3], [second, third]: [f32; 2], blend: Blend) -> [f32; 3] {
    let weights = [1.0 - second - third, second, third];
    let light = [0, 1, 2].map(|channel| {
        let parts = (0..3).map(|k| weights[k] * colours[k][channel]);
        parts.sum::<f32>()
    });
    match blend {
        Blend::Linear => light,
        Blend::Srgb => light.map(srgb::encode),
    }
}

/// Edge in texels of the window of an image whose weights are gathered.
const WINDOW: usize = 8;

/// Samples of one pixel, as weights of texels.
struct Gathered<'a> {
    image: Option<Image<'a>>,
    /// Decodes a byte of a texel.
    decode: &'static [f32; 256],
    /// Column and row of the window's first texel; [`Self::NOWHERE`] before the first sample.
    origin: [u32; 2],
    /// Weights of the window's texels, row-major.
    weights: [f32; WINDOW * WINDOW],
    /// One bit for each texel with a weight.
    touched: u64,
}

impl<'a> Gathered<'a> {
    /// So far from any texel that this window holds none.
    const NOWHERE: [u32; 2] = [u32::MAX / 2; 2];

    fn new(image: Option<Image<'a>>, decode: &'static [f32; 256]) -> Self {
        Self {
            image,
            decode,
            origin: Self::NOWHERE,
            weights: [0.0; WINDOW * WINDOW],
            touched: 0,
        }
    }

    /// Adds the first `count` samples of a triangle, given by the barycentrics of its second and third corner.
    fn add(
        &mut self,
        [a, b, c]: &[[f32; 2]; 3],
        [second, third]: [[f32; TOGETHER]; 2],
        count: usize,
        sum: &mut [f32; 3],
    ) {
        let Some(image) = self.image else {
            return;
        };
        let (width, height) = (image.width as f32, image.height as f32);
        let (mut columns, mut rows) = ([0; TOGETHER], [0; TOGETHER]);
        let mut weights = [[0.0; 4]; TOGETHER];
        for k in 0..TOGETHER {
            let u = a[0] + second[k] * b[0] + third[k] * c[0];
            let v = a[1] + second[k] * b[1] + third[k] * c[1];
            let (column, across) = below(u, width);
            let (row, down) = below(v, height);
            (columns[k], rows[k]) = (column, row);
            let (left, above) = (1.0 - across, 1.0 - down);
            weights[k] = [left * above, across * above, left * down, across * down];
        }
        for k in 0..count {
            self.add_one([columns[k], rows[k]], weights[k], sum);
        }
    }

    /// Adds a sample by its weights of a texel, its right neighbour, and the two below them.
    fn add_one(&mut self, texel: [u32; 2], weights: [f32; 4], sum: &mut [f32; 3]) {
        let within = |origin: [u32; 2]| {
            [0, 1].map(|axis: usize| texel[axis].wrapping_sub(origin[axis]) as usize)
        };
        let mut at = within(self.origin);
        if at[0] >= WINDOW - 1 || at[1] >= WINDOW - 1 {
            self.finish(sum);
            // Centred, since samples are as likely to continue in either direction.
            self.origin = texel.map(|at| at.wrapping_sub(WINDOW as u32 / 2 - 1));
            at = [WINDOW / 2 - 1; 2];
        }
        let first = at[1] * WINDOW + at[0];
        self.weights[first] += weights[0];
        self.weights[first + 1] += weights[1];
        self.weights[first + WINDOW] += weights[2];
        self.weights[first + WINDOW + 1] += weights[3];
        self.touched |= (0b11 | 0b11 << WINDOW) << first;
    }

    /// Looks up the gathered texels and adds them to `sum`.
    fn finish(&mut self, sum: &mut [f32; 3]) {
        let Some(image) = self.image else {
            return;
        };
        while self.touched != 0 {
            let cell = self.touched.trailing_zeros() as usize;
            self.touched &= self.touched - 1;
            let weight = std::mem::take(&mut self.weights[cell % (WINDOW * WINDOW)]);
            let inside = [cell % WINDOW, cell / WINDOW];
            let at = [0, 1].map(|axis: usize| self.origin[axis].wrapping_add(inside[axis] as u32));
            // Beyond the last texel it repeats.
            let column = (at[0] as usize).min(image.width - 1);
            let row = (at[1] as usize).min(image.height - 1);
            let texel = image.texels[row * image.width + column];
            for channel in 0..3 {
                sum[channel] += weight * self.decode[usize::from(texel[channel])];
            }
        }
        self.origin = Self::NOWHERE;
    }
}

#[cfg(test)]
mod tests;
