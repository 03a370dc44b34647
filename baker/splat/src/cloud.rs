//! Splats as files describe them → splats that can be drawn: parameters activated, those without a meaning left out.

use crate::work::did;

/// Highest degree of spherical harmonics.
pub const MAX_DEGREE: usize = 3;
/// Largest scale, as a multiple of the extent of all splats. A larger one covers every pixel with a constant.
const LARGEST: f32 = 1e6;
/// Splats between two counts of work.
const COUNTED: usize = 1 << 10;

/// Opacity of splats that say where the object is, and share of them that decides how far they reach.
const SOLID: f32 = 0.1;
const MOST: f64 = 0.98;

/// Coefficients of spherical harmonics up to a degree, the constant one left out.
pub const fn coefficients(degree: usize) -> usize {
    (degree + 1) * (degree + 1) - 1
}

/// One splat, activated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Splat {
    /// Centre.
    pub position: [f32; 3],
    /// Standard deviations along its axes, 0 or more. A flat disc has one of 0.
    pub scales: [f32; 3],
    /// Quaternion (w, x, y, z) from its axes to the world; of any length but 0.
    pub rotation: [f32; 4],
    /// 0 to 1.
    pub opacity: f32,
    /// Constant coefficient of each channel: the colour is `0.5 + 0.2821 · constant` in display space.
    pub constant: [f32; 3],
}

/// Splats that can be drawn, one entry each in every list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cloud {
    /// Centres.
    pub positions: Vec<[f32; 3]>,
    /// Standard deviations along each splat's axes.
    pub scales: Vec<[f32; 3]>,
    /// Unit quaternions (w, x, y, z).
    pub rotations: Vec<[f32; 4]>,
    /// 0 to 1.
    pub opacities: Vec<f32>,
    /// Constant coefficients of red, green and blue.
    pub constants: Vec<[f32; 3]>,
    /// The others, [`coefficients`] of [`Self::degree`] for each splat, degree by degree.
    pub harmonics: Vec<[f32; 3]>,
    /// Degree of the spherical harmonics, at most [`MAX_DEGREE`].
    pub degree: usize,
}

/// Splats that were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// A number of it is NaN or infinite, or its quaternion is 0.
    pub meaningless: usize,
    /// One of its scales is a million times the extent of all.
    pub huge: usize,
}

impl Dropped {
    /// How many.
    pub const fn count(self) -> usize {
        self.meaningless + self.huge
    }
}

impl Cloud {
    /// None yet, with harmonics of this degree.
    ///
    /// # Panics
    /// The degree is above [`MAX_DEGREE`].
    pub fn new(degree: usize) -> Self {
        assert!(degree <= MAX_DEGREE, "degree {degree}");
        Self {
            degree,
            ..Self::default()
        }
    }

    /// How many splats there are.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Adds a splat with its harmonics. Returns false, and adds nothing, where a number is NaN or infinite, a scale is
    /// negative, or the quaternion is 0.
    ///
    /// # Panics
    /// There are not as many harmonics as the degree has.
    pub fn push(&mut self, splat: &Splat, harmonics: &[[f32; 3]]) -> bool {
        assert_eq!(harmonics.len(), coefficients(self.degree), "harmonics");
        let [w, x, y, z] = splat.rotation;
        // In f64, where no square of an f32 overflows or vanishes.
        let length = [w, x, y, z]
            .map(f64::from)
            .map(|q| q * q)
            .iter()
            .sum::<f64>()
            .sqrt();
        let finite = splat.position.iter().all(|x| x.is_finite())
            && splat.scales.iter().all(|s| s.is_finite() && *s >= 0.0)
            && splat.constant.iter().all(|x| x.is_finite())
            && harmonics.iter().flatten().all(|x| x.is_finite());
        if !finite || !length.is_normal() || !(0.0..=1.0).contains(&splat.opacity) {
            return false;
        }
        self.positions.push(splat.position);
        self.scales.push(splat.scales);
        self.rotations
            .push(splat.rotation.map(|q| (f64::from(q) / length) as f32));
        self.opacities.push(splat.opacity);
        self.constants.push(splat.constant);
        self.harmonics.extend_from_slice(harmonics);
        if self.len().is_multiple_of(COUNTED) {
            did(4 * COUNTED);
        }
        true
    }

    /// Removes splats a million times as large as the extent of all centres. Returns how many.
    pub fn drop_huge(&mut self) -> usize {
        let mut corners = [[f32::INFINITY; 3], [f32::NEG_INFINITY; 3]];
        did(self.len());
        for at in &self.positions {
            for k in 0..3 {
                corners[0][k] = corners[0][k].min(at[k]);
                corners[1][k] = corners[1][k].max(at[k]);
            }
        }
        let extent = (0..3)
            .map(|k| corners[1][k] - corners[0][k])
            .fold(0.0, f32::max);
        // Splats in one point have no extent to compare with.
        if extent <= 0.0 || !extent.is_finite() {
            return 0;
        }
        let keep: Vec<bool> = self
            .scales
            .iter()
            .map(|scales| scales.iter().all(|&scale| scale <= LARGEST * extent))
            .collect();
        let before = self.len();
        self.retain(&keep);
        before - self.len()
    }

    /// The middle of most splats that are solid, and how far most of these reach from it: the rest may be floaters.
    ///
    /// # Panics
    /// There is no splat.
    pub fn ball(&self) -> ([f64; 3], f64) {
        let solid = |least: f32| -> Vec<[f64; 3]> {
            let all = self.positions.iter().zip(&self.opacities);
            let solid = all.filter(|(_, opacity)| **opacity >= least);
            solid.map(|(at, _)| at.map(f64::from)).collect()
        };
        let mut points = solid(SOLID);
        if points.is_empty() {
            points = solid(0.0);
        }
        let at = |numbers: &mut Vec<f64>, share: f64| {
            did(numbers.len());
            let index = ((numbers.len() - 1) as f64 * share) as usize;
            *numbers.select_nth_unstable_by(index, f64::total_cmp).1
        };
        let centre = [0, 1, 2].map(|axis| {
            let mut along: Vec<f64> = points.iter().map(|point| point[axis]).collect();
            (at(&mut along, 1.0 - MOST) + at(&mut along, MOST)) / 2.0
        });
        let away = |point: &[f64; 3]| {
            let squares = (0..3).map(|k| (point[k] - centre[k]).powi(2));
            squares.sum::<f64>().sqrt()
        };
        let mut far: Vec<f64> = points.iter().map(away).collect();
        let radius = at(&mut far, MOST);
        // Splats in one point are as large as the largest of them.
        let largest = self.scales.iter().flatten().copied().fold(0.0, f32::max);
        let radius = if radius > 0.0 {
            radius
        } else {
            f64::from(largest)
        };
        (centre, if radius > 0.0 { radius } else { 1.0 })
    }

    /// Keeps the splats whose entry is true.
    ///
    /// # Panics
    /// There are not as many entries as splats.
    pub fn retain(&mut self, keep: &[bool]) {
        assert_eq!(keep.len(), self.len(), "entries");
        if keep.iter().all(|&keep| keep) {
            return;
        }
        fn sift<T>(list: &mut Vec<T>, keep: &[bool], each: usize) {
            let mut at = 0;
            did(list.len());
            list.retain(|_| {
                at += 1;
                keep[(at - 1) / each]
            });
        }
        sift(&mut self.positions, keep, 1);
        sift(&mut self.scales, keep, 1);
        sift(&mut self.rotations, keep, 1);
        sift(&mut self.opacities, keep, 1);
        sift(&mut self.constants, keep, 1);
        if self.degree > 0 {
            sift(&mut self.harmonics, keep, coefficients(self.degree));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: Splat = Splat {
        position: [1.0, 2.0, 3.0],
        scales: [0.1, 0.2, 0.0],
        rotation: [0.0, 2.0, 0.0, 0.0],
        opacity: 0.5,
        constant: [0.1, -0.2, 0.3],
    };

    #[test]
    fn splats_without_a_meaning_are_left_out() {
        let mut cloud = Cloud::new(1);
        let harmonics = [[0.1; 3], [0.2; 3], [0.3; 3]];
        assert!(cloud.push(&SOUND, &harmonics));
        assert_eq!(cloud.rotations, [[0.0, 1.0, 0.0, 0.0]]);
        let spoilt = [
            Splat {
                position: [f32::NAN, 0.0, 0.0],
                ..SOUND
            },
            Splat {
                scales: [1.0, f32::INFINITY, 1.0],
                ..SOUND
            },
            Splat {
                scales: [1.0, -1.0, 1.0],
                ..SOUND
            },
            Splat {
                rotation: [0.0; 4],
                ..SOUND
            },
            Splat {
                rotation: [f32::INFINITY, 0.0, 0.0, 0.0],
                ..SOUND
            },
            Splat {
                opacity: f32::NAN,
                ..SOUND
            },
            Splat {
                opacity: 1.5,
                ..SOUND
            },
            Splat {
                constant: [0.0, f32::NAN, 0.0],
                ..SOUND
            },
        ];
        for splat in spoilt {
            assert!(!cloud.push(&splat, &harmonics), "{splat:?}");
        }
        assert!(!cloud.push(&SOUND, &[[0.1; 3], [f32::NAN; 3], [0.3; 3]]));
        assert_eq!(cloud.len(), 1);
        // The largest and the least numbers have a length.
        for length in [f32::MAX, 1e-30] {
            assert!(cloud.push(
                &Splat {
                    rotation: [length, 0.0, 0.0, 0.0],
                    ..SOUND
                },
                &harmonics
            ));
            assert_eq!(cloud.rotations.last(), Some(&[1.0, 0.0, 0.0, 0.0]));
        }
    }

    #[test]
    fn what_covers_everything_is_dropped_with_its_harmonics() {
        let mut cloud = Cloud::new(1);
        for (k, scale) in [0.1_f32, 1e9, 0.3].into_iter().enumerate() {
            let k = k as f32;
            let splat = Splat {
                position: [k, 0.0, 0.0],
                scales: [scale; 3],
                ..SOUND
            };
            assert!(cloud.push(&splat, &[[k; 3], [k + 0.1; 3], [k + 0.2; 3]]));
        }
        assert_eq!(cloud.drop_huge(), 1);
        assert_eq!(cloud.scales, [[0.1; 3], [0.3; 3]]);
        assert_eq!(cloud.harmonics.len(), 6);
        assert_eq!(cloud.harmonics[3], [2.0; 3]);
        // In one point nothing is huge.
        let mut point = Cloud::new(0);
        assert!(point.push(
            &Splat {
                scales: [1e9; 3],
                ..SOUND
            },
            &[]
        ));
        assert_eq!(point.drop_huge(), 0);
    }
}
