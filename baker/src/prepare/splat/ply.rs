//! PLY → splats: the layout of the reference code of Kerbl et al. (2023), that of TRELLIS (no harmonics), flat discs with two
//! scales (Huang et al., 2DGS, 2024), and `PlayCanvas`' compressed one ([`super::packed`]). Properties may have any order.

use kiln_splat::{Cloud, Dropped, Splat, coefficients};

use super::content::{Origin, SplatError, Splats, check_count, share};
use super::packed::Packed;
use crate::prepare::load::ply::{Element, Values, header, rows, skip};

/// Properties of TRELLIS' `save_ply`, in order.
const TRELLIS: [&str; 17] = [
    "x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2", "opacity", "scale_0", "scale_1",
    "scale_2", "rot_0", "rot_1", "rot_2", "rot_3",
];
/// How far from the origin TRELLIS' splats lie along each axis: half its cube, and some room.
const TRELLIS_REACH: f32 = 0.55;
/// Harmonics of each channel by degree; of degree 4 those of degree 3 are taken.
const HARMONICS: [usize; 5] = [0, 3, 8, 15, 24];

/// None where the vertices are no splats.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Splats>, SplatError> {
    let (encoding, elements, body) = header(bytes)?;
    let mut values = Values {
        encoding,
        rest: body,
    };
    let has = |element: &Element, name| element.place(&[name], false).is_some();
    let vertices = elements.iter().find(|element| element.name == "vertex");
    let Some(vertices) = vertices.filter(|all| has(all, "f_dc_0") || has(all, "packed_position"))
    else {
        return Ok(None);
    };
    check_count(vertices.count)?;
    let is_packed = has(vertices, "packed_position");
    let (mut packed, mut plain) = (Packed::default(), None);
    for element in &elements {
        values.check_count(element)?;
        match element.name.as_str() {
            "vertex" if is_packed => packed.read_vertices(element, &mut values)?,
            "vertex" => plain = Some(read_vertices(element, &mut values)?),
            "chunk" if is_packed => packed.read_chunks(element, &mut values)?,
            "sh" if is_packed => packed.read_harmonics(element, &mut values)?,
            _ => skip(element, &mut values)?,
        }
    }
    match plain {
        Some(splats) => Ok(Some(splats)),
        None => packed.splats().map(Some),
    }
}

/// Places of the properties of a vertex.
struct Places {
    position: [usize; 3],
    constant: [usize; 3],
    opacity: usize,
    scales: [usize; 2],
    /// Discs have none.
    third: Option<usize>,
    rotation: [usize; 4],
    /// Of red, then of green, then of blue.
    harmonics: Vec<usize>,
}

impl Places {
    fn new(element: &Element) -> Result<Self, SplatError> {
        let place = |name| element.place(&[name], false);
        let needed = |name| place(name).ok_or(SplatError::Missing(name));
        let rest = |number: usize| element.place(&[format!("f_rest_{number}").as_str()], false);
        let harmonics: Vec<usize> = (0..).map_while(rest).collect();
        if !harmonics.len().is_multiple_of(3) || !HARMONICS.contains(&(harmonics.len() / 3)) {
            return Err(SplatError::Harmonics(harmonics.len() / 3));
        }
        Ok(Self {
            position: [needed("x")?, needed("y")?, needed("z")?],
            constant: [needed("f_dc_0")?, needed("f_dc_1")?, needed("f_dc_2")?],
            opacity: needed("opacity")?,
            scales: [needed("scale_0")?, needed("scale_1")?],
            third: place("scale_2"),
            rotation: [
                needed("rot_0")?,
                needed("rot_1")?,
                needed("rot_2")?,
                needed("rot_3")?,
            ],
            harmonics,
        })
    }

    fn degree(&self) -> usize {
        let each = self.harmonics.len() / 3;
        (0..=3)
            .rev()
            .find(|&degree| coefficients(degree) <= each)
            .unwrap_or(0)
    }

    fn splat(&self, row: &[f64]) -> Splat {
        let number = |at: usize| row[at] as f32;
        let [first, second] = self.scales.map(|at| row[at].exp() as f32);
        Splat {
            position: self.position.map(number),
            scales: [
                first,
                second,
                self.third.map_or(0.0, |at| row[at].exp() as f32),
            ],
            rotation: self.rotation.map(number),
            opacity: share(row[self.opacity]),
            constant: self.constant.map(number),
        }
    }
}

fn read_vertices(element: &Element, values: &mut Values<'_>) -> Result<Splats, SplatError> {
    let places = Places::new(element)?;
    let (degree, each) = (places.degree(), places.harmonics.len() / 3);
    let mut cloud = Cloud::new(degree);
    let mut dropped = Dropped::default();
    let mut harmonics = vec![[0.0; 3]; coefficients(degree)];
    rows(element, values, |row| {
        for (k, harmonic) in harmonics.iter_mut().enumerate() {
            *harmonic = [0, 1, 2].map(|channel| row[places.harmonics[channel * each + k]] as f32);
        }
        dropped.meaningless += usize::from(!cloud.push(&places.splat(row), &harmonics));
    })?;
    let names: Vec<&str> = element
        .properties
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    // Its objects fill a cube about the origin. A capture whose harmonics were dropped has the same layout.
    let within = (cloud.positions.iter().flatten()).all(|x| x.abs() <= TRELLIS_REACH);
    let origin = match (places.third, names == TRELLIS && within) {
        (None, _) => Origin::Discs,
        (_, true) => Origin::Trellis,
        _ => Origin::Inria,
    };
    Ok(Splats {
        cloud,
        dropped,
        origin,
    })
}
