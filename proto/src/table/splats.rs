//! Splats, and the cameras that look at them: what bake and encode draw the views of, where views come without pixels.

use std::io::{Read, Write};

use super::{
    Camera, HEADER_BYTES, TableError, bound, check_camera, check_numbers, header, read_array,
    read_header,
};
use crate::limits::{MAX_SPLATS, MAX_VIEW_EDGE, MAX_VIEWS};

/// Highest degree of spherical harmonics.
const MAX_DEGREE: usize = 3;
/// Bytes of a splat's centre, deviations, quaternion, opacity and constant colour.
const SPLAT_BYTES: u64 = 4 * (3 + 3 + 4 + 1 + 3);
/// Farthest that a quaternion's length may be from 1.
const ROUNDING: f32 = 1e-3;

/// Splats in a world of their own, and a camera there for each view of the job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SplatScene {
    /// Centres.
    pub positions: Vec<[f32; 3]>,
    /// Standard deviations along each splat's axes, 0 or more.
    pub scales: Vec<[f32; 3]>,
    /// Unit quaternions (w, x, y, z) from a splat's axes to the world.
    pub rotations: Vec<[f32; 4]>,
    /// 0 to 1.
    pub opacities: Vec<f32>,
    /// Constant coefficients of red, green and blue.
    pub constants: Vec<[f32; 3]>,
    /// The other coefficients, (degree + 1)² - 1 for each splat, degree by degree.
    pub harmonics: Vec<[f32; 3]>,
    /// Degree of the harmonics.
    pub degree: u32,
    /// How pixels are filtered, and what colours mean.
    pub manner: Manner,
    /// Width and height of every whole picture in pixels.
    pub size: [u32; 2],
    /// By index of the view, in pixels of the whole picture.
    pub cameras: Vec<Camera>,
}

/// How splats are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Manner {
    /// Variance in px² that each splat gains.
    pub variance: f32,
    /// Opacity falls as a splat gains it, such that its sum stays (Yu et al., "Mip-Splatting", 2024).
    pub keeps_sum: bool,
    /// Colours are linear light, and sRGB is made of them in the end.
    pub linear: bool,
}

impl SplatScene {
    const MAGIC: &'static [u8; 8] = b"KILNSPL1";
    const KEEPS_SUM: u32 = 1;
    const LINEAR: u32 = 2;

    /// Least and largest size of a table in bytes.
    pub const BYTES: [u64; 2] = {
        let camera = size_of::<Camera>() as u64;
        let fixed = HEADER_BYTES as u64;
        let harmonics = 12 * coefficients(MAX_DEGREE) as u64;
        [
            fixed + SPLAT_BYTES + camera,
            fixed + MAX_SPLATS * (SPLAT_BYTES + harmonics) + MAX_VIEWS as u64 * camera,
        ]
    };

    /// Size of the table in bytes.
    pub fn byte_len(&self) -> u64 {
        let cameras = size_of_val(self.cameras.as_slice()) as u64;
        let harmonics = size_of_val(self.harmonics.as_slice()) as u64;
        HEADER_BYTES as u64 + self.positions.len() as u64 * SPLAT_BYTES + harmonics + cameras
    }

    /// Writes the table.
    ///
    /// # Errors
    /// [`TableError::Io`].
    pub fn write(&self, out: &mut impl Write) -> Result<(), TableError> {
        let Manner {
            variance,
            keeps_sum,
            linear,
        } = self.manner;
        let flags =
            if keeps_sum { Self::KEEPS_SUM } else { 0 } | if linear { Self::LINEAR } else { 0 };
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let fields = [
            count(self.positions.len()),
            self.degree,
            count(self.cameras.len()),
            self.size[0],
            self.size[1],
            flags,
            variance.to_bits(),
        ];
        out.write_all(&header(Self::MAGIC, &fields))?;
        out.write_all(bytemuck::cast_slice(&self.cameras))?;
        out.write_all(bytemuck::cast_slice(&self.positions))?;
        out.write_all(bytemuck::cast_slice(&self.scales))?;
        out.write_all(bytemuck::cast_slice(&self.rotations))?;
        out.write_all(bytemuck::cast_slice(&self.opacities))?;
        out.write_all(bytemuck::cast_slice(&self.constants))?;
        out.write_all(bytemuck::cast_slice(&self.harmonics))?;
        Ok(())
    }

    /// Reads and checks a table.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn read(input: &mut impl Read) -> Result<Self, TableError> {
        let [splats, degree, views, width, height, flags, variance] =
            read_header(input, Self::MAGIC, "splats")?;
        let splats = bound("splats", splats, 1, MAX_SPLATS as usize)?;
        let coefficients = coefficients(bound("degree", degree, 0, MAX_DEGREE)?);
        let views = bound("cameras of splats", views, 1, MAX_VIEWS)?;
        bound("width of splats' views", width, 1, MAX_VIEW_EDGE as usize)?;
        bound("height of splats' views", height, 1, MAX_VIEW_EDGE as usize)?;
        bound(
            "flags of splats",
            flags,
            0,
            (Self::KEEPS_SUM | Self::LINEAR) as usize,
        )?;
        let variance = f32::from_bits(variance);
        let cameras: Vec<Camera> = read_array(input, views)?;
        cameras.iter().try_for_each(check_camera)?;
        let scene = Self {
            positions: read_array(input, splats)?,
            scales: read_array(input, splats)?,
            rotations: read_array(input, splats)?,
            opacities: read_array(input, splats)?,
            constants: read_array(input, splats)?,
            harmonics: read_array(input, splats * coefficients)?,
            degree,
            manner: Manner {
                variance,
                keeps_sum: flags & Self::KEEPS_SUM != 0,
                linear: flags & Self::LINEAR != 0,
            },
            size: [width, height],
            cameras,
        };
        scene.check()?;
        Ok(scene)
    }

    fn check(&self) -> Result<(), TableError> {
        check_numbers("position of splat", &self.positions, f32::MAX)?;
        check_numbers("scale of splat", &self.scales, f32::MAX)?;
        check_numbers("constant colour of splat", &self.constants, f32::MAX)?;
        check_numbers("harmonic of splat", &self.harmonics, f32::MAX)?;
        let number = |what, wrong: Option<usize>| match wrong {
            Some(index) => Err(TableError::Number { what, index }),
            None => Ok(()),
        };
        // A NaN is in no range.
        let most = 0.0..=f32::MAX;
        number(
            "variance of splats",
            (!most.contains(&self.manner.variance)).then_some(0),
        )?;
        let negative = |scales: &[f32; 3]| scales.iter().any(|scale| *scale < 0.0);
        number("scale of splat", self.scales.iter().position(negative))?;
        let beyond = |opacity: &f32| !(0.0..=1.0).contains(opacity);
        number("opacity of splat", self.opacities.iter().position(beyond))?;
        let unit = 1.0 - ROUNDING..=1.0 + ROUNDING;
        let turned = |q: &[f32; 4]| !unit.contains(&q.iter().map(|q| q * q).sum::<f32>());
        number(
            "quaternion of splat",
            self.rotations.iter().position(turned),
        )
    }
}

/// Coefficients of spherical harmonics up to a degree, the constant one left out.
const fn coefficients(degree: usize) -> usize {
    (degree + 1) * (degree + 1) - 1
}
