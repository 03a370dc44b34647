//! `--gpu`: makes its own inputs, bakes along several axes, and writes a table and JSON.
//!
//! ```text
//!  axes ─ points ─ input (mesh and views, rendered here) ─ measure (kiln bake, twice; a list of jobs) ─► rows
//! ```
//!
//! Around one base point, each axis changes one number: views, their edge, the texture's edge, triangles, memory.
//! `splats` bakes Gaussian splats, whose views Kiln draws; `simplified` is what apps ask for, `photographs` are those of a reconstruction, `figures` are the sizes that are compared with other tools, `throughput` is many
//! jobs at once, and `largest` is one large job within a budget. It needs only this program, `kiln` and `kiln-baker`.

mod input;
mod measure;
mod photographs;

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::args::Args;
use crate::{BenchError, at, machine};
use input::{Cloud, Input, Sizes};
use measure::Measured;

/// What can be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Axis {
    /// Number of views: 10 to 400.
    Views,
    /// Edge of the views in pixels: 256 to 2048.
    Size,
    /// Edge of the texture in texels: 512 to 8192.
    Texture,
    /// Triangles: 1,000 to 1.5 million.
    Faces,
    /// Gaussian splats: 10,000 to 5 million, without and with harmonics, seen by 10 to 400 views.
    Splats,
    /// What image-to-3D apps ask for: views of 375,000 triangles, of which one in twenty stays.
    Simplified,
    /// 12 photographs of 4000×3000 without alpha, of other exposures, onto 175,000 triangles and 4096².
    Photographs,
    /// The sizes of published figures: 40 views of 512² and 100 of 1024².
    Figures,
    /// Less and less of the device's memory.
    Budget,
    /// Many jobs at once.
    Throughput,
    /// 400 views of 2048² into 8192² within 8 GiB: some ten minutes, and 8 GB of the disk.
    Largest,
}

/// One bake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Point {
    axis: Axis,
    #[serde(flatten)]
    sizes: Sizes,
    texture: u32,
    /// Further flags of `kiln bake`.
    flags: Vec<String>,
}

impl Point {
    fn name(&self) -> String {
        let Sizes { views, edge, .. } = self.sizes;
        let (triangles, texture) = (self.sizes.triangles(), self.texture);
        let mut name = match self.sizes.cloud {
            Some(Cloud { splats, degree }) => format!("{splats} splats of degree {degree}"),
            None if self.sizes.photographs => {
                let [width, height] = photographs::size(edge);
                format!("{views} photographs of {width}×{height}")
            }
            None => format!("{views} × {edge}²"),
        };
        name.push_str(&format!(" → {texture}², {triangles} triangles"));
        for flag in &self.flags {
            name.push(' ');
            name.push_str(flag);
        }
        name
    }
}

const BASE: Sizes = Sizes {
    views: 40,
    edge: 512,
    level: 0,
    cloud: None,
    photographs: false,
};
const TEXTURE: u32 = 1024;

/// The points of an axis, smallest first.
fn points(axis: Axis) -> Vec<Point> {
    let point = |sizes, texture, flags: &[&str]| Point {
        axis,
        sizes,
        texture,
        flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
    };
    let large = Sizes {
        views: 100,
        edge: 1024,
        ..BASE
    };
    match axis {
        Axis::Views => [10, 40, 100, 200, 400]
            .map(|views| point(Sizes { views, ..BASE }, TEXTURE, &[]))
            .to_vec(),
        Axis::Size => [256, 512, 1024, 2048]
            .map(|edge| point(Sizes { edge, ..BASE }, TEXTURE, &[]))
            .to_vec(),
        Axis::Texture => [512, 1024, 2048, 4096, 8192]
            .map(|texture| point(BASE, texture, &[]))
            .to_vec(),
        Axis::Faces => [-1, 0, 1, 2, 3, 4]
            .map(|level| point(Sizes { level, ..BASE }, TEXTURE, &[]))
            .to_vec(),
        Axis::Splats => {
            let of = |(splats, degree, views)| {
                let cloud = Some(Cloud { splats, degree });
                let sizes = Sizes {
                    level: 1,
                    cloud,
                    ..BASE
                };
                point(sizes, 2048, &["--splat-views", views, "--holdout", "2"])
            };
            [
                (10_000, 0, "100"),
                (100_000, 0, "100"),
                (400_000, 0, "10"),
                (400_000, 0, "100"),
                (400_000, 0, "400"),
                (400_000, 3, "100"),
                (1_000_000, 0, "100"),
                (5_000_000, 0, "100"),
                (5_000_000, 3, "100"),
            ]
            .map(of)
            .to_vec()
        }
        Axis::Simplified => {
            let of = |sizes: Sizes, texture| {
                let sizes = Sizes { level: 3, ..sizes };
                let stay = (sizes.triangles() / 20).to_string();
                point(sizes, texture, &["--target-faces", &stay])
            };
            vec![of(BASE, TEXTURE), of(large, 2048)]
        }
        Axis::Photographs => {
            let sizes = Sizes {
                views: 12,
                edge: 3000,
                level: 3,
                photographs: true,
                ..BASE
            };
            let draft = &["--quality", "draft"];
            vec![point(sizes, 4096, &[]), point(sizes, 4096, draft)]
        }
        Axis::Figures => vec![
            point(BASE, TEXTURE, &[]),
            point(BASE, TEXTURE, &["--quality", "draft"]),
            point(large, 2048, &[]),
        ],
        Axis::Budget => ["1G", "512M", "300M"]
            .map(|budget| point(BASE, TEXTURE, &["--vram-budget", budget]))
            .to_vec(),
        Axis::Throughput => vec![point(BASE, TEXTURE, &[]), point(large, 2048, &[])],
        Axis::Largest => {
            let sizes = Sizes {
                views: 400,
                edge: 2048,
                ..BASE
            };
            vec![point(sizes, 8192, &["--vram-budget", "8G"])]
        }
    }
}

/// Runs the benchmark; returns whether every bake succeeded.
pub(crate) fn run(args: &Args, kiln: &Path) -> Result<bool, BenchError> {
    let facts = machine::facts(kiln);
    let mut axes = args.axes.clone();
    if axes.is_empty() {
        axes = Axis::value_variants().to_vec();
        axes.retain(|&axis| ![Axis::Largest, Axis::Photographs].contains(&axis));
    }
    let mut all: Vec<Point> = axes.iter().copied().flat_map(points).collect();
    if args.smallest {
        let smallest = |point: &mut Point| {
            point.sizes.views = point.sizes.views.min(8);
            point.sizes.edge = point.sizes.edge.min(128);
            point.texture = point.texture.min(256);
        };
        all.iter_mut().for_each(smallest);
        all.dedup_by_key(|point| point.axis);
    }
    let mut made: Option<(Sizes, Input, Option<TempDir>)> = None;
    let mut rows: Vec<(Point, Result<Measured, String>)> = Vec::new();
    println!("{}", Measured::heading());
    for (number, point) in (1..).zip(&all) {
        eprintln!(
            "[{number}/{}] {:?}: {}",
            all.len(),
            point.axis,
            point.name()
        );
        // One input at a time: 400 views are gigabytes.
        let (_, input, _) = match made.take().filter(|(sizes, ..)| *sizes == point.sizes) {
            Some(same) => made.insert(same),
            None => {
                let (folder, gone_with) = folder(args, point.sizes)?;
                let input = input::make(point.sizes, &folder).map_err(at(&folder))?;
                made.insert((point.sizes, input, gone_with))
            }
        };
        let keep = (args.keep.as_ref()).map(|folder| folder.join(format!("{number:02}")));
        let measured = measure::measure(args, kiln, point, input, keep.as_deref());
        match &measured {
            Ok(measured) => println!("{}  {}", measured.line(), point.name()),
            Err(error) => println!("failed: {error}  {}", point.name()),
        }
        rows.push((point.clone(), measured));
        // After each point, so that an interrupted benchmark keeps its results.
        write(&args.json, &format!("{:#}\n", whole(args, &facts, &rows)))?;
    }
    println!("{}", machine::line(&facts));
    eprintln!("everything else: {}", args.json.display());
    Ok(rows.iter().all(|(_, measured)| measured.is_ok()))
}

/// The folder where an input is made, and its guard if it is temporary.
fn folder(args: &Args, sizes: Sizes) -> Result<(PathBuf, Option<TempDir>), BenchError> {
    if let Some(keep) = &args.keep {
        let Sizes { views, edge, .. } = sizes;
        let seen = match sizes.cloud {
            Some(Cloud { splats, degree }) => format!("{splats}d{degree}"),
            None if sizes.photographs => format!("{views}p{edge}"),
            None => format!("{views}x{edge}"),
        };
        let name = format!("{seen}_{}", sizes.triangles());
        return Ok((keep.join(name), None));
    }
    let folder = tempfile::Builder::new()
        .prefix("kiln-bench-")
        .tempdir()
        .map_err(at(&std::env::temp_dir()))?;
    Ok((folder.path().to_owned(), Some(folder)))
}

fn whole(args: &Args, facts: &Value, rows: &[(Point, Result<Measured, String>)]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|(point, measured)| match measured {
            Ok(measured) => json!({ "point": point, "measured": measured }),
            Err(error) => json!({ "point": point, "error": error }),
        })
        .collect();
    json!({ "schema": 1, "machine": facts, "flags": args.kiln, "points": rows })
}

fn write(path: &PathBuf, text: &str) -> Result<(), BenchError> {
    fs::write(path, text).map_err(at(path))
}
