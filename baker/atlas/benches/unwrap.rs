//! Lays out meshes and prints the time of each step, charts, use of the atlas, length of seams and a hash of the result.
//!
//! `cargo bench -p kiln-atlas -- [threads=1,2] [size=1024] [draft] MESH…`, where a mesh is the path of an OBJ file whose
//! points are welded, `sphere`, or `noise`; `MESH:2` splits each triangle in four, twice.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod meshes;

use std::collections::HashSet;
use std::error::Error;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use kiln_atlas::coverage::measure;
use kiln_atlas::{Atlas, Listener, Mesh, Pages, Views, Wanted, Work, patience, unwrap};
use meshes::{Surface, area_and_normal, distance};

/// What is laid out, and how.
struct Asked {
    threads: Vec<usize>,
    texture_size: u32,
    work: Work,
    meshes: Vec<String>,
}

impl Asked {
    fn read() -> Result<Self, Box<dyn Error>> {
        let mut asked = Self {
            threads: vec![rayon::current_num_threads()],
            texture_size: 1024,
            work: Work::FULL,
            meshes: Vec::new(),
        };
        for word in std::env::args().skip(1).filter(|word| word != "--bench") {
            match word.split_once('=') {
                Some(("threads", list)) => {
                    asked.threads = list.split(',').map(str::parse).collect::<Result<_, _>>()?;
                }
                Some(("size", size)) => asked.texture_size = size.parse()?,
                _ if word == "draft" => asked.work = Work::DRAFT,
                _ => asked.meshes.push(word),
            }
        }
        if asked.meshes.is_empty() {
            asked.meshes = ["sphere", "noise"].map(str::to_owned).into();
        }
        Ok(asked)
    }
}

/// Sums up the times of the steps. Steps of several cuts at once overlap.
#[derive(Default)]
struct Times(Mutex<Vec<(&'static str, Duration)>>);

impl Listener for Times {
    fn took(&self, step: &'static str, time: Duration) {
        let mut all = self.0.lock().expect("no panic");
        match all.iter_mut().find(|(known, _)| *known == step) {
            Some((_, sum)) => *sum += time,
            None => all.push((step, time)),
        }
    }
}

/// One view from above: a triangle is shown by its slope, and what faces down is not.
fn views(surface: &Surface) -> Views {
    let mut views = Views::default();
    for corners in &surface.triangles {
        let (area, normal) = area_and_normal(&surface.positions, corners);
        let shown = 1e4 * normal[1].max(0.0);
        views.best.push(shown);
        views.exposure.push(shown);
        views.pixels.push(shown * area);
    }
    views
}

/// The length of all borders of charts, in diagonals of the surface. Each side of a seam counts half.
fn seams(surface: &Surface, atlas: &Atlas) -> f64 {
    let sides = |corners: &[u32; 3]| [0, 1, 2].map(|k| [corners[k], corners[(k + 1) % 3]]);
    let all: HashSet<[u32; 2]> = atlas.triangles.iter().flat_map(sides).collect();
    let place = |vertex: u32| surface.positions[atlas.points[vertex as usize] as usize];
    let border = all.iter().filter(|&&[a, b]| !all.contains(&[b, a]));
    let length: f64 = border.map(|&[a, b]| distance(place(a), place(b))).sum();
    let bounds = [f32::min, f32::max].map(|of: fn(f32, f32) -> f32| {
        let both = |a: [f32; 3], b: [f32; 3]| [0, 1, 2].map(|axis| of(a[axis], b[axis]));
        surface
            .positions
            .iter()
            .copied()
            .reduce(both)
            .unwrap_or_default()
    });
    length / 2.0 / distance(bounds[0], bounds[1])
}

/// FNV-1a of all arrays.
fn hash(atlas: &Atlas) -> u64 {
    let uvs = atlas.uvs.as_flattened().iter().map(|x| x.to_bits());
    let corners = atlas.triangles.as_flattened().iter().copied();
    let words = uvs.chain(atlas.points.iter().copied()).chain(corners);
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        (hash ^ u64::from(word)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let asked = Asked::read()?;
    for name in &asked.meshes {
        let surface = Surface::named(name)?;
        let views = views(&surface);
        let mesh = Mesh {
            positions: &surface.positions,
            triangles: &surface.triangles,
        };
        let wanted = Wanted {
            texture_size: asked.texture_size,
            pages: Pages::ONE,
            views: Some(&views),
        };
        println!("{name}: {} triangles", mesh.triangles.len());
        for &threads in &asked.threads {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()?;
            let (times, limit) = (Times::default(), patience(mesh.triangles.len()));
            let begun = Instant::now();
            let atlas = pool.install(|| unwrap(&mesh, wanted, limit, asked.work, &times))?;
            let whole = begun.elapsed();
            let covered = measure(&atlas.uvs, &atlas.triangles, 2048);
            println!(
                "{threads:3} threads {:6.3} s, {} charts, {:?}, use {:.4}, seams {:.2}, {} texels twice, {:016x}",
                whole.as_secs_f64(),
                atlas.charts,
                atlas.method,
                atlas.utilisation,
                seams(&surface, &atlas),
                covered.doubly,
                hash(&atlas)
            );
            let steps = times.0.into_inner()?;
            let each = steps
                .iter()
                .map(|(step, time)| format!("{step} {:.3}", time.as_secs_f64()));
            println!("            {}", each.collect::<Vec<_>>().join(", "));
        }
    }
    Ok(())
}
