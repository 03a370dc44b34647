//! The flat tables between processes: little-endian, a 64-byte header, then plain arrays without pointers or text.
//!
//! ```text
//!  Mesh     magic "KILNMSH1" | vertices u32 | triangles u32 | charts u32 | 0…  positions f32×3 | normals f32×3 | uvs f32×2
//!                                                                            | surface_vertices u32 | triangles u32×3
//!  Surface  magic "KILNSRF3" | vertices u32 | triangles u32 | both of the simplified mesh, or 0 | 0…
//!                                                                            positions f32×3 | triangles u32×3 | simplified likewise
//!  View     magic "KILNVIW1" | width u32 | height u32 | flags u32 | index…   camera (f64×16) | pixels RGBA8 | layers RGBA8
//!  Texture  magic "KILNTEX1" | size u32 | maps u32 | 0…                      texels RGBA8 | provenance u8
//!                                                                            | coverage u8 | residual u8 (if maps is 1)
//!  Colours  magic "KILNCOL1" | vertices u32 | 0…                             colours RGBA8
//!  Refined  magic "KILNREF2" | views u32 | 0…                                indices u32 | gains f32×3 | cameras (f64×16)
//!  Layer    magic "KILNLAY1" | size u32 | layer u32 | 0…                     texels RGBA8
//!  Splats   magic "KILNSPL1" | splats u32 | degree u32 | views u32 | size…   cameras (f64×16) | positions f32×3 | scales f32×3
//!                                                                            | quaternions f32×4 | opacities f32
//!                                                                            | colours f32×3 | harmonics f32×3
//! ```
//!
//! These tables are the trust boundary. [`Mesh::read`] and its siblings check every count, index and number, so whoever
//! holds a value of these types may index with it.
//!
//! Conventions:
//! - World: right-handed, as in the mesh file (glTF: y up). Units are the file's.
//! - Camera: `OpenCV` axes (x right, y down, z forward), `x_camera = R · x_world + t`. A point projects to
//!   `(fx · x/z + cx, fy · y/z + cy)` in pixels. Pixel (column i, row j) covers `[i, i+1) × [j, j+1)`, with row 0 on
//!   top.
//! - Texture: as in glTF. Row 0 is v = 0; texel (column i, row j) is centred on `((i + ½)/size, (j + ½)/size)`.
//! - Colours: 8-bit sRGB, straight alpha.

mod colours;

mod layers;

pub mod maps;

mod mesh;

mod refined;

mod splats;

mod texture;

use std::io::{self, Read, Write};

use bytemuck::{Pod, Zeroable};

use crate::limits::{MAX_COORDINATE, MAX_VIEW_EDGE, MAX_VIEW_PIXELS};

pub use colours::Colours;
pub use layers::{Layer, LayerSet, LayerTexture, LayeredView, pack_normal, unpack_normal};
pub use mesh::{Mesh, Simplified, Surface};
pub use refined::{Refined, RefinedView};
pub use splats::{Manner, SplatScene};
pub use texture::{Provenance, Texture};

/// Why a table is refused.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "its messages say what the fields are")]
pub enum TableError {
    /// Not this kind of table.
    #[error("not a {0} table")]
    Magic(&'static str),
    /// A count or size is out of bounds, or contradicts another.
    #[error("{what} is {value}, outside its bounds")]
    Bound { what: &'static str, value: u64 },
    /// A triangle refers to a vertex that does not exist.
    #[error("triangle {triangle} names vertex {vertex} of {vertices}")]
    Index {
        triangle: usize,
        vertex: u32,
        vertices: usize,
    },
    /// A number is NaN, infinite or absurdly large.
    #[error("{what} {index} is not a usable number")]
    Number { what: &'static str, index: usize },
    /// The memory ends early or cannot be read.
    #[error("table cannot be read or written")]
    Io(#[from] io::Error),
}

const HEADER_BYTES: usize = 64;

/// A pinhole camera; see the head of this file for conventions.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Camera {
    /// Rotation from world to camera, row by row.
    pub rotation: [[f64; 3]; 3],
    /// Translation from world to camera.
    pub translation: [f64; 3],
    /// Focal lengths in pixels, x and y.
    pub focal: [f64; 2],
    /// Principal point in pixels, x and y; may lie outside the picture.
    pub centre: [f64; 2],
}

impl Default for Camera {
    /// At the origin, looking along z, with one pixel per unit at depth 1.
    fn default() -> Self {
        Self {
            rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            translation: [0.0; 3],
            focal: [1.0; 2],
            centre: [0.0; 2],
        }
    }
}

/// A picture and its camera. Prepare crops it to the part that can matter, so the principal point need not be near its
/// middle.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Its number among the job's views, in the order of `transforms.json`.
    pub index: u32,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Top left corner of the crop in the original picture, in pixels.
    pub crop: [u32; 2],
    /// Whether the picture has its own alpha. Otherwise alpha is 255 everywhere, and the rendered silhouette is the
    /// only mask. If a lens was undistorted, alpha is 0 beyond the border of the original picture in either case.
    pub has_alpha: bool,
    /// Held out: not for the fit, only for measurement.
    pub holdout: bool,
    /// The camera, in pixels of the crop.
    pub camera: Camera,
    /// `width · height` pixels, row by row from the top: sRGB and straight alpha. None where the view is to be drawn of a
    /// [`SplatScene`].
    pub pixels: Vec<[u8; 4]>,
}

/// The header of a [`View`]: all that the supervisor reads of it, to decide which roles get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewHeader {
    /// See [`View::index`].
    pub index: u32,
    /// See [`View::width`].
    pub width: u32,
    /// See [`View::height`].
    pub height: u32,
    /// See [`View::crop`].
    pub crop: [u32; 2],
    /// See [`View::has_alpha`].
    pub has_alpha: bool,
    /// See [`View::holdout`].
    pub holdout: bool,
    /// It has no pixels: it is to be drawn.
    pub undrawn: bool,
    /// The layers that follow the pixels.
    pub layers: LayerSet,
}

impl ViewHeader {
    /// Reads and checks the first 64 bytes of a view.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn read(input: &mut impl Read) -> Result<Self, TableError> {
        let [width, height, flags, index, left, top, layers] =
            read_header(input, View::MAGIC, "view")?;
        bound("view width", width, 1, MAX_VIEW_EDGE as usize)?;
        bound("view height", height, 1, MAX_VIEW_EDGE as usize)?;
        bound(
            "view flags",
            flags,
            0,
            (View::HAS_ALPHA | View::HOLDOUT | View::UNDRAWN) as usize,
        )?;
        let count = u64::from(width) * u64::from(height);
        if count > MAX_VIEW_PIXELS {
            return Err(TableError::Bound {
                what: "number of view pixels",
                value: count,
            });
        }
        let undrawn = flags & View::UNDRAWN != 0;
        // What is drawn of splats is colour alone.
        let most = if undrawn { 0 } else { LayerSet::BITS as usize };
        bound("view layers", layers, 0, most)?;
        Ok(Self {
            index,
            width,
            height,
            crop: [left, top],
            has_alpha: flags & View::HAS_ALPHA != 0,
            holdout: flags & View::HOLDOUT != 0,
            undrawn,
            layers: LayerSet::from_bits(layers).ok_or(TableError::Bound {
                what: "view layers",
                value: u64::from(layers),
            })?,
        })
    }
}

fn header(magic: &[u8; 8], fields: &[u32]) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(magic);
    for (slot, field) in bytes[8..].chunks_exact_mut(4).zip(fields) {
        slot.copy_from_slice(&field.to_le_bytes());
    }
    bytes
}

fn read_header<const N: usize>(
    input: &mut impl Read,
    magic: &[u8; 8],
    name: &'static str,
) -> Result<[u32; N], TableError> {
    let mut bytes = [0; HEADER_BYTES];
    input.read_exact(&mut bytes)?;
    if &bytes[..8] != magic {
        return Err(TableError::Magic(name));
    }
    let mut words = [0; (HEADER_BYTES - 8) / 4];
    for (word, slot) in words.iter_mut().zip(bytes[8..].chunks_exact(4)) {
        *word = u32::from_le_bytes([slot[0], slot[1], slot[2], slot[3]]);
    }
    if let Some(&value) = words[N..].iter().find(|&&word| word != 0) {
        return Err(TableError::Bound {
            what: "unused word of the header",
            value: u64::from(value),
        });
    }
    Ok(std::array::from_fn(|field| words[field]))
}

// Arrays have the machine's byte order, and Kiln runs on little-endian machines.
#[cfg(target_endian = "big")]
compile_error!("the flat tables are little-endian");

/// Memory that is reserved for an array before any of it is read.
const FIRST_READ_BYTES: usize = 64 << 10;

/// Reads an array of `count` elements. Its memory grows with what is read, so a count without bytes behind it takes
/// none.
fn read_array<T: Pod>(input: &mut impl Read, count: usize) -> Result<Vec<T>, TableError> {
    let mut array: Vec<T> = Vec::new();
    while array.len() < count {
        let start = array.len();
        let end = (2 * start)
            .max(FIRST_READ_BYTES / size_of::<T>())
            .min(count);
        array
            .try_reserve_exact(end - start)
            .map_err(|_refused| io::Error::from(io::ErrorKind::OutOfMemory))?;
        array.resize(end, T::zeroed());
        input.read_exact(bytemuck::cast_slice_mut(&mut array[start..]))?;
    }
    Ok(array)
}

fn bound(what: &'static str, value: u32, min: usize, max: usize) -> Result<usize, TableError> {
    let count = value as usize;
    if (min..=max).contains(&count) {
        Ok(count)
    } else {
        Err(TableError::Bound {
            what,
            value: u64::from(value),
        })
    }
}

fn check_numbers<const N: usize>(
    what: &'static str,
    array: &[[f32; N]],
    limit: f32,
) -> Result<(), TableError> {
    // A NaN is not within any limit.
    match array
        .iter()
        .position(|row| !row.iter().all(|x| x.abs() <= limit))
    {
        Some(index) => Err(TableError::Number { what, index }),
        None => Ok(()),
    }
}

fn check_triangles(triangles: &[[u32; 3]], vertices: usize) -> Result<(), TableError> {
    for (triangle, corners) in triangles.iter().enumerate() {
        if let Some(&vertex) = corners.iter().find(|&&corner| corner as usize >= vertices) {
            return Err(TableError::Index {
                triangle,
                vertex,
                vertices,
            });
        }
    }
    Ok(())
}

impl View {
    const MAGIC: &'static [u8; 8] = b"KILNVIW1";
    const HAS_ALPHA: u32 = 1;
    const HOLDOUT: u32 = 2;
    const UNDRAWN: u32 = 4;

    /// Size of the table.
    pub fn byte_len(&self) -> u64 {
        (HEADER_BYTES + size_of::<Camera>()) as u64 + self.pixels.len() as u64 * 4
    }

    /// Writes the table.
    ///
    /// # Errors
    /// [`TableError::Io`].
    pub fn write(&self, out: &mut impl Write) -> Result<(), TableError> {
        self.write_as(LayerSet::default(), out)
    }

    /// Writes the table up to its own pixels; the pixels of `layers` are to follow.
    fn write_as(&self, layers: LayerSet, out: &mut impl Write) -> Result<(), TableError> {
        let flags = if self.has_alpha { Self::HAS_ALPHA } else { 0 }
            | if self.holdout { Self::HOLDOUT } else { 0 }
            | if self.pixels.is_empty() {
                Self::UNDRAWN
            } else {
                0
            };
        let fields = [
            self.width,
            self.height,
            flags,
            self.index,
            self.crop[0],
            self.crop[1],
            layers.bits(),
        ];
        out.write_all(&header(Self::MAGIC, &fields))?;
        out.write_all(bytemuck::bytes_of(&self.camera))?;
        out.write_all(bytemuck::cast_slice(&self.pixels))?;
        Ok(())
    }

    /// Reads and checks a table, without the layers that may follow.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn read(input: &mut impl Read) -> Result<Self, TableError> {
        Self::read_with_set(input).map(|(view, _)| view)
    }

    fn read_with_set(input: &mut impl Read) -> Result<(Self, LayerSet), TableError> {
        let ViewHeader {
            index,
            width,
            height,
            crop,
            has_alpha,
            holdout,
            undrawn,
            layers,
        } = ViewHeader::read(input)?;
        let camera = read_array::<Camera>(input, 1)?[0];
        check_camera(&camera)?;
        let count = if undrawn {
            0
        } else {
            width as usize * height as usize
        };
        let pixels = read_array(input, count)?;
        let view = Self {
            index,
            width,
            height,
            crop,
            has_alpha,
            holdout,
            camera,
            pixels,
        };
        Ok((view, layers))
    }
}

#[expect(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "a NaN is within no limit, so only the negation refuses it"
)]
fn check_camera(camera: &Camera) -> Result<(), TableError> {
    let wrong = |index| {
        Err(TableError::Number {
            what: "camera number",
            index,
        })
    };
    let limit = f64::from(MAX_COORDINATE);
    for row in 0..3 {
        for other in 0..=row {
            let dot: f64 = (0..3)
                .map(|k| camera.rotation[row][k] * camera.rotation[other][k])
                .sum();
            let wanted = if row == other { 1.0 } else { 0.0 };
            if !((dot - wanted).abs() <= 1e-3) {
                return wrong(row);
            }
        }
        if !(camera.translation[row].abs() <= limit) {
            return wrong(row);
        }
    }
    for axis in 0..2 {
        if !(camera.focal[axis] > 0.0
            && camera.focal[axis] <= limit
            && camera.centre[axis].abs() <= limit)
        {
            return wrong(axis);
        }
    }
    Ok(())
}
