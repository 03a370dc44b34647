//! Hits and paint into colours: lookup of each sample, mean over the samples of a pixel.

use proto::job::Blend;
use proto::table::{Mesh, Texture};

use super::raster::Hit;
use super::srgb;

/// A texture to look up: sRGB texels, row 0 at v = 0. Need not be square.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    width: usize,
    height: usize,
    texels: &'a [[u8; 4]],
}

impl<'a> Image<'a> {
    /// None unless there are exactly `width · height` texels, and at least one.
    #[must_use]
    pub fn new(width: usize, height: usize, texels: &'a [[u8; 4]]) -> Option<Self> {
        (!texels.is_empty() && width.checked_mul(height) == Some(texels.len())).then_some(Self {
            width,
            height,
            texels,
        })
    }

    /// Width and height.
    #[must_use]
    pub fn size(&self) -> [usize; 2] {
        [self.width, self.height]
    }

    pub(crate) fn texels(&self) -> &'a [[u8; 4]] {
        self.texels
    }

    /// The colour at `uv` in the space of `blend`.
    fn sample(&self, uv: [f32; 2], blend: Blend) -> [f32; 3] {
        let decode = match blend {
            Blend::Linear => srgb::linear_table(),
            Blend::Srgb => srgb::display_table(),
        };
        let mut sum = [0.0_f32; 3];
        for (texel, weight) in self.taps(uv) {
            for channel in 0..3 {
                sum[channel] += weight * decode[texel[channel] as usize];
            }
        }
        sum
    }

    /// The four texels around `uv` with their weights, clamped to the edge.
    fn taps(&self, [u, v]: [f32; 2]) -> [([u8; 4], f32); 4] {
        let (column, across) = split(u, self.width);
        let (row, down) = split(v, self.height);
        let texel = |c: usize, r: usize| self.texels[r * self.width + c];
        [
            (texel(column[0], row[0]), (1.0 - across) * (1.0 - down)),
            (texel(column[1], row[0]), across * (1.0 - down)),
            (texel(column[0], row[1]), (1.0 - across) * down),
            (texel(column[1], row[1]), across * down),
        ]
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

/// Several textures, one for each material.
#[derive(Clone, Copy, Debug)]
pub struct Textures<'a> {
    /// At least one.
    pub images: &'a [Image<'a>],
    /// The image of each triangle; empty where there is one for all.
    pub of_triangle: &'a [u16],
}

impl<'a> Textures<'a> {
    /// The number of a triangle's image.
    pub(crate) fn number(&self, triangle: usize) -> usize {
        let image = self.of_triangle.get(triangle);
        image.map_or(0, |&image| usize::from(image))
    }

    pub(crate) fn image(&self, triangle: usize) -> &'a Image<'a> {
        &self.images[self.number(triangle)]
    }
}

/// What the surface's colours come from.
#[derive(Clone, Copy, Debug)]
pub enum Paint<'a> {
    /// A texture.
    Image(Image<'a>),
    /// Several.
    Textures(Textures<'a>),
    /// Colours of the mesh's vertices, as many as it has, in linear light as glTF has them.
    Vertices(&'a [[u8; 4]]),
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

impl Paint<'_> {
    /// What a sample sees, in the space of `blend`.
    fn sample(&self, mesh: &Mesh, hit: &Hit, blend: Blend) -> [f32; 3] {
        match self {
            Self::Image(image) => image.sample(uv(mesh, hit), blend),
            Self::Textures(textures) => {
                let image = textures.image(hit.triangle as usize);
                image.sample(uv(mesh, hit), blend)
            }
            Self::Vertices(colours) => {
                let mut sum = [0.0_f32; 3];
                let value = srgb::display_table();
                for (corner, weight) in corners(mesh, hit) {
                    let colour = colours[corner as usize];
                    for channel in 0..3 {
                        sum[channel] += weight * value[colour[channel] as usize];
                    }
                }
                match blend {
                    Blend::Linear => sum,
                    Blend::Srgb => sum.map(srgb::encode),
                }
            }
        }
    }
}

/// The two neighbours along one axis and the second one's share. Texel k is centred on `(k + ½)/edge`.
pub(crate) fn split(coordinate: f32, edge: usize) -> ([usize; 2], f32) {
    let last = edge as f32 - 1.0;
    let x = coordinate * edge as f32 - 0.5;
    let floor = x.floor();
    // Clamped as floats, so that no coordinate, however far outside, overflows an index.
    (
        [
            floor.clamp(0.0, last) as usize,
            (floor + 1.0).clamp(0.0, last) as usize,
        ],
        x - floor,
    )
}

/// Fills the pixels of one band from its hits, which are `width · samples` to a row.
pub(super) fn shade(
    mesh: &Mesh,
    paint: Paint<'_>,
    hits: &[Hit],
    [width, samples]: [usize; 2],
    blend: Blend,
    colours: &mut [[f32; 3]],
    coverage: &mut [f32],
) {
    for (pixel, (colour, covered)) in colours.iter_mut().zip(coverage).enumerate() {
        let (column, row) = (pixel % width, pixel / width);
        let mut sum = [0.0_f32; 3];
        let mut count = 0_u32;
        for line in row * samples..(row + 1) * samples {
            for hit in &hits[(line * width + column) * samples..][..samples] {
                if hit.triangle == Hit::NONE {
                    continue;
                }
                count += 1;
                let seen = paint.sample(mesh, hit, blend);
                for channel in 0..3 {
                    sum[channel] += seen[channel];
                }
            }
        }
        if count > 0 {
            let mean = sum.map(|x| x / count as f32);
            *colour = if blend == Blend::Linear {
                mean.map(srgb::encode)
            } else {
                mean
            };
            *covered = count as f32 / (samples * samples) as f32;
        }
    }
}

/// The vertices of the triangle that was hit, with their weights.
fn corners(mesh: &Mesh, hit: &Hit) -> [(u32, f32); 3] {
    let [a, b, c] = mesh.triangles[hit.triangle as usize];
    let [second, third] = hit.second_third;
    [(a, 1.0 - second - third), (b, second), (c, third)]
}

fn uv(mesh: &Mesh, hit: &Hit) -> [f32; 2] {
    let mut sum = [0.0; 2];
    for (corner, weight) in corners(mesh, hit) {
        let uv = mesh.uvs[corner as usize];
        sum[0] += weight * uv[0];
        sum[1] += weight * uv[1];
    }
    sum
}
