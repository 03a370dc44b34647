//! The normal matrix, its diagonal, the gradient and the solution against dense double precision, written from the
//! formulas at the head of `backend.rs`.

use crate::bake::fixture::{Random, all_links};
use crate::bake::model::links::{LINK_DOWN, LINK_RIGHT};
use crate::bake::model::row_cache::RowCache;
use crate::bake::model::rows::Entry;
use crate::bake::solve::backend::Strength;
use crate::bake::solve::normal::*;

/// Texels across and down: two plots side by side.
const SIZE: usize = 70;
const DOWN: usize = 3;
const TEXELS: usize = SIZE * DOWN;
const STRENGTH: Strength = Strength {
    smoothness: 0.03,
    seam: 0.2,
};

/// A random small job: what [`Normal`] is given.
struct Job {
    cache: RowCache,
    /// The rows of each view, and the weight of each of its pixels.
    views: Vec<Vec<Rows>>,
    weights: Vec<Vec<f32>>,
    ties: Ties,
    texels: Sums,
    blend: Blend,
}

/// Entries of any texels, or of texels side by side.
fn random_entries(random: &mut Random, count: usize, total: f32) -> Vec<Entry> {
    let near = !random.next().is_multiple_of(4);
    let first = random.next() % (SIZE as u64 - 5);
    let mut entries: Vec<Entry> = Vec::new();
    while entries.len() < count {
        let texel = if near {
            random.next() % DOWN as u64 * SIZE as u64 + first + random.next() % 5
        } else {
            random.next() % TEXELS as u64
        };
        let texel = texel as u32;
        if entries.iter().all(|entry| entry.texel != texel) {
            let weight = random.within(0.1, 1.0) as f32;
            entries.push(Entry { texel, weight });
        }
    }
    let sum: f32 = entries.iter().map(|entry| entry.weight).sum();
    for entry in &mut entries {
        entry.weight *= total / sum;
    }
    entries
}

fn rows(
    random: &mut Random,
    [first, count]: [usize; 2],
    entries: impl Fn(&mut Random) -> Vec<Entry>,
) -> Rows {
    let mut rows = Rows::of_view(0);
    for pixel in first..first + count {
        let entries = entries(random);
        rows.push(&entries, (random.next() as u32).to_le_bytes(), pixel as u32);
    }
    rows
}

impl Job {
    /// Three views of up to three bands; some texels are seen by no row.
    fn new(seed: u64, blend: Blend) -> Self {
        let random = &mut Random(seed);
        let view = |random: &mut Random, bands: usize| -> Vec<Rows> {
            let entries = |random: &mut Random| random_entries(random, 7, 1.0);
            (0..bands)
                .map(|band| rows(random, [20 * band, 20], entries))
                .collect()
        };
        let views = vec![view(random, 3), view(random, 1), view(random, 2)];
        let weights: Vec<Vec<f32>> = views
            .iter()
            .map(|bands| {
                let count = bands.iter().map(Rows::len).sum();
                (0..count).map(|_| random.within(0.0, 1.0) as f32).collect()
            })
            .collect();
        let links = (0..TEXELS)
            .map(|texel| {
                let mut links = (random.next() % 4) as u8;
                if texel % SIZE == SIZE - 1 {
                    links &= !LINK_RIGHT;
                }
                if texel / SIZE == DOWN - 1 {
                    links &= !LINK_DOWN;
                }
                links
            })
            .collect();
        let seams = rows(random, [0, 30], |random| {
            let mut both = random_entries(random, 3, 1.0);
            for entry in random_entries(random, 3, -1.0) {
                match both.iter_mut().find(|other| other.texel == entry.texel) {
                    Some(other) => other.weight += entry.weight,
                    None => both.push(entry),
                }
            }
            both
        });
        let mut cache = RowCache::of_rows(&views, SIZE);
        cache.weigh(|view, pixel| weights[view][pixel as usize]);
        Self {
            cache,
            views,
            weights,
            ties: Ties { links, seams },
            texels: random_texels(random),
            blend,
        }
    }

    fn problem(&self) -> LeastSquares<'_> {
        LeastSquares {
            rows: &self.cache,
            ties: &self.ties,
            blend: self.blend,
        }
    }

    fn normal(&self) -> Normal {
        let mut normal = Normal::new(TEXELS, SIZE, &self.ties.seams);
        normal.weigh(self.problem(), STRENGTH, &self.texels);
        normal
    }

    fn apply(&self, normal: &Normal, x: &[[f32; 4]]) -> Sums {
        let mut out = Sums::new();
        normal.gradient(self.problem(), x, &mut out, |_| 0.0);
        out
    }
}

fn random_texels(random: &mut Random) -> Sums {
    (0..TEXELS)
        .map(|_| std::array::from_fn(|_| random.within(0.0, 1.0) as f32))
        .collect()
}

/// `weight · (Σ a x − target)²`, with the texels and their factors `a`.
type Term = (f64, Vec<(usize, f64)>, f64);

/// All squared terms of one channel's objective.
struct Terms(Vec<Term>);

impl Terms {
    fn new(job: &Job, channel: usize) -> Self {
        let space = |s: f64| match job.blend {
            Blend::Srgb => s,
            Blend::Linear if s <= 0.04045 => s / 12.92,
            Blend::Linear => ((s + 0.055) / 1.055).powf(2.4),
        };
        // The slope of the encoding, with a floor beyond its linear piece.
        let squared_slope = |value: f64| match job.blend {
            Blend::Srgb => 1.0,
            Blend::Linear => (1.055 / 2.4 * value.clamp(0.0032, 1.0).powf(1.0 / 2.4 - 1.0)).powi(2),
        };
        let entries = |rows: &Rows, row: usize| -> Vec<(usize, f64)> {
            rows.row(row)
                .iter()
                .map(|entry| (entry.texel as usize, f64::from(entry.weight)))
                .collect()
        };
        let mut terms = Vec::new();
        let mut observed = [0.0; TEXELS];
        for (bands, weights) in job.views.iter().zip(&job.weights) {
            for band in bands {
                for row in 0..band.len() {
                    let target = space(f64::from(band.colours[row][channel]) / 255.0);
                    let rho = f64::from(weights[band.pixels[row] as usize]);
                    for (texel, a) in entries(band, row) {
                        observed[texel] += rho * a * a;
                    }
                    terms.push((rho * squared_slope(target), entries(band, row), target));
                }
            }
        }
        let seen: Vec<f64> = observed.into_iter().filter(|&sum| sum > 0.0).collect();
        let mean = seen.iter().sum::<f64>() / seen.len() as f64;
        let at = |texel: usize| squared_slope(f64::from(job.texels[texel][channel]));
        for texel in 0..TEXELS {
            for (link, other) in [(LINK_RIGHT, texel + 1), (LINK_DOWN, texel + SIZE)] {
                if job.ties.links[texel] & link != 0 {
                    let lambda = f64::from(STRENGTH.smoothness) * mean;
                    let weight = lambda * (at(texel) + at(other)) / 2.0;
                    terms.push((weight, vec![(texel, 1.0), (other, -1.0)], 0.0));
                }
            }
        }
        for row in 0..job.ties.seams.len() {
            let sides = entries(&job.ties.seams, row);
            let slopes: f64 = sides
                .iter()
                .map(|&(texel, b)| b.abs() / 2.0 * at(texel))
                .sum();
            terms.push((f64::from(STRENGTH.seam) * mean * slopes, sides, 0.0));
        }
        Self(terms)
    }

    fn objective(&self, x: &[f64]) -> f64 {
        self.0
            .iter()
            .map(|(weight, sides, target)| {
                let sum: f64 = sides.iter().map(|&(texel, a)| a * x[texel]).sum();
                weight * (sum - target).powi(2)
            })
            .sum()
    }

    fn matrix(&self) -> Vec<Vec<f64>> {
        let mut matrix = vec![vec![0.0; TEXELS]; TEXELS];
        for (weight, sides, _) in &self.0 {
            for &(i, a) in sides {
                for &(j, b) in sides {
                    matrix[i][j] += weight * a * b;
                }
            }
        }
        matrix
    }

    fn right_hand_side(&self) -> Vec<f64> {
        let mut sums = vec![0.0; TEXELS];
        for (weight, sides, target) in &self.0 {
            for &(i, a) in sides {
                sums[i] += weight * a * target;
            }
        }
        sums
    }
}

/// Solves `matrix · x = b` for a symmetric positive definite matrix, by Cholesky's factors.
fn solve_dense(matrix: &[Vec<f64>], b: &[f64]) -> Vec<f64> {
    let n = b.len();
    let mut l = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let sum: f64 = matrix[i][j] - (0..j).map(|k| l[i][k] * l[j][k]).sum::<f64>();
            l[i][j] = if i == j {
                assert!(sum > 0.0, "not positive definite");
                sum.sqrt()
            } else {
                sum / l[j][j]
            };
        }
    }
    let mut x = b.to_vec();
    for i in 0..n {
        x[i] = (x[i] - (0..i).map(|k| l[i][k] * x[k]).sum::<f64>()) / l[i][i];
    }
    for i in (0..n).rev() {
        x[i] = (x[i] - (i + 1..n).map(|k| l[k][i] * x[k]).sum::<f64>()) / l[i][i];
    }
    x
}

/// Largest difference between `normal` and the dense matrix, relative to the latter's largest entry.
fn matrix_difference(job: &Job, normal: &Normal) -> f64 {
    let dense: Vec<_> = (0..3).map(|c| Terms::new(job, c).matrix()).collect();
    let largest = dense
        .iter()
        .flatten()
        .flatten()
        .fold(0.0f64, |m, &v| m.max(v.abs()));
    let mut worst = 0.0f64;
    for column in 0..TEXELS {
        let mut unit = vec![[0.0; 4]; TEXELS];
        unit[column] = [1.0; 4];
        for (row, sum) in job.apply(normal, &unit).into_iter().enumerate() {
            for channel in 0..3 {
                let wanted = dense[channel][row][column];
                worst = worst.max((f64::from(sum[channel]) - wanted).abs());
            }
        }
    }
    worst / largest
}

#[test]
fn products_are_those_of_the_dense_matrix() {
    for (seed, blend) in [(1, Blend::Linear), (2, Blend::Srgb)] {
        let mut job = Job::new(seed, blend);
        let normal = job.normal();
        // Sums of some ten terms in 32 bits, with weights of 16 bits.
        let difference = matrix_difference(&job, &normal);
        assert!(difference < 1e-4, "{difference}");
        job.weights[1][4] *= 1.5;
        let difference = matrix_difference(&job, &normal);
        assert!(difference > 1e-3, "one weight of another job: {difference}");
    }
}

#[test]
fn diagonal_is_that_of_the_dense_matrix() {
    for (seed, blend) in [(3, Blend::Linear), (4, Blend::Srgb)] {
        let job = Job::new(seed, blend);
        let normal = job.normal();
        for channel in 0..3 {
            let dense = Terms::new(&job, channel).matrix();
            for texel in 0..TEXELS {
                let (got, wanted) = (
                    f64::from(normal.diagonal[texel][channel]),
                    dense[texel][texel],
                );
                assert!((got - wanted).abs() <= 1e-3 * wanted, "{got} for {wanted}");
            }
        }
    }
}

#[test]
fn matrix_is_symmetric_and_positive() {
    let job = Job::new(5, Blend::Linear);
    let normal = job.normal();
    let random = &mut Random(6);
    for _ in 0..10 {
        let (x, y) = (random_texels(random), random_texels(random));
        let (ax, ay) = (job.apply(&normal, &x), job.apply(&normal, &y));
        let (one, other, own) = (dot(&ax, &y), dot(&x, &ay), dot(&x, &ax));
        for channel in 0..3 {
            assert!((one[channel] / other[channel] - 1.0).abs() < 1e-5);
            assert!(own[channel] > 0.0);
        }
    }
}

#[test]
fn defect_is_half_the_falling_gradient_of_the_objective() {
    for (seed, blend) in [(7, Blend::Linear), (8, Blend::Srgb)] {
        let job = Job::new(seed, blend);
        let x = random_texels(&mut Random(9));
        let mut defect = Sums::new();
        job.normal().defect(job.problem(), &x, &mut defect);
        for channel in 0..3 {
            let terms = Terms::new(&job, channel);
            let at: Vec<f64> = x.iter().map(|texel| f64::from(texel[channel])).collect();
            let slope = |texel: usize| {
                // Central differences of a quadratic are exact but for rounding.
                let h = 1e-3;
                let moved = |by: f64| {
                    let mut x = at.clone();
                    x[texel] += by;
                    terms.objective(&x)
                };
                (moved(h) - moved(-h)) / (2.0 * h)
            };
            let wanted: Vec<f64> = (0..TEXELS).map(|texel| -0.5 * slope(texel)).collect();
            let largest = wanted.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            let worst = (0..TEXELS)
                .map(|texel| (f64::from(defect[texel][channel]) - wanted[texel]).abs())
                .fold(0.0, f64::max);
            assert!(worst < 5e-5 * largest, "{worst} of {largest}");
            // Another channel has another gradient.
            let other = (channel + 1) % 3;
            let beside = (0..TEXELS)
                .map(|texel| (f64::from(defect[texel][other]) - wanted[texel]).abs())
                .fold(0.0, f64::max);
            assert!(beside > 1e-2 * largest);
        }
    }
}

#[test]
fn conjugate_gradients_reach_the_solution_and_leave_alpha() {
    let mut job = Job::new(10, Blend::Linear);
    // All links are set, so that every texel is cache and the solution is unique.
    job.ties.links = all_links(SIZE)[..TEXELS].to_vec();
    for links in &mut job.ties.links[TEXELS - SIZE..] {
        *links &= !LINK_DOWN;
    }
    let mut normal = job.normal();
    let start = random_texels(&mut Random(11));
    let solved = |normal: &mut Normal, iterations| {
        let mut x = start.clone();
        conjugate_gradients(normal, job.problem(), &mut x, iterations);
        x
    };
    let (few, many) = (solved(&mut normal, 3), solved(&mut normal, 1000));
    for channel in 0..3 {
        let terms = Terms::new(&job, channel);
        let wanted = solve_dense(&terms.matrix(), &terms.right_hand_side());
        let worst = |x: &Sums| {
            x.iter()
                .zip(&wanted)
                .map(|(x, wanted)| (f64::from(x[channel]) - wanted).abs())
                .fold(0.0, f64::max)
        };
        assert!(worst(&many) < 1e-3, "{}", worst(&many));
        assert!(worst(&few) > 1e-2, "three iterations are not enough");
    }
    for (x, start) in many.iter().zip(&start) {
        assert_eq!(x[3], start[3]);
    }
}

#[test]
fn without_rows_texels_stay() {
    let mut normal = Normal::new(TEXELS, SIZE, &Rows::of_view(0));
    let start = random_texels(&mut Random(12));
    let mut x = start.clone();
    let problem = LeastSquares {
        rows: &RowCache::of_rows(&[], SIZE),
        ties: &Ties::default(),
        blend: Blend::Linear,
    };
    normal.weigh(problem, STRENGTH, &x);
    conjugate_gradients(&mut normal, problem, &mut x, 4);
    assert_eq!(x, start);
}
