//! Arguments of `kiln compare` → the comparison, and its figures → a table for people or an object for programs.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use indicatif::MultiProgress;
use proto::exit;
use proto::job::{Blend, Up};
use proto::message::{Code, CompareModel, NormalFigures};
use serde_json::{Value, json};

use super::paths::{PNG, baker_path, distinct, file, named, read};
use crate::error::JobError;
use crate::input::{self, Input};
use crate::job::compare::{Compared, Comparison};
use crate::job::many;
use crate::options::{JobOptions, PSNR, bytes, flag, seconds};
use crate::output::Target;
use crate::screen::{self, Voice, result};
use crate::words::printable;

/// What `kiln compare` is told.
#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// A textured mesh: GLB or glTF.
    ///
    /// Of Kiln or of anybody else.
    #[arg(value_parser = named())]
    pub(super) first: PathBuf,
    /// Another one, to be set beside it.
    ///
    /// Of the same object.
    #[arg(value_parser = named())]
    pub(super) second: Option<PathBuf>,
    /// Views to compare with.
    ///
    /// A transforms.json or a model of COLMAP, or the folder that holds one, or a safetensors file, or Gaussian
    /// splats, which are drawn from all around the mesh. All of them count.
    #[arg(value_parser = named(), long, value_name = "FILE")]
    pub(super) views: PathBuf,
    /// What the meshes were simplified from.
    ///
    /// A mesh file in the same place and size, as `kiln bake --original` takes it: tells how far the normals that each mesh is
    /// shaded with, its normal map included, lie beside those of this surface, over the pixels of the views.
    #[arg(value_parser = named(), long, value_name = "FILE")]
    pub(super) normals_of: Option<PathBuf>,
    /// The pictures of a COLMAP model.
    ///
    /// If not in `images` beside it.
    #[arg(value_parser = named(), long, value_name = "FOLDER")]
    pub(super) images: Option<PathBuf>,
    /// Views, renders and errors side by side: .png.
    ///
    /// Of some views.
    #[arg(value_parser = file(PNG), long, value_name = "FILE")]
    pub(super) picture: Option<PathBuf>,
    /// How the views blend colours within a pixel.
    ///
    /// `linear` for renders and photographs, `srgb` for Gaussian splats. By default `srgb` where the views are
    /// splats, else `linear`.
    #[arg(long, value_enum, value_name = "SPACE")]
    pub(super) blend: Option<Blend>,
    /// What points up in the views.
    ///
    /// With `z` or `-y` they are turned as `kiln bake --up` turned them, whose meshes have y up, as every glTF has.
    #[arg(
        long,
        value_enum,
        value_name = "AXIS",
        default_value_t,
        allow_hyphen_values = true
    )]
    pub(super) up: Up,
    /// Exit with 65 below this PSNR, in dB.
    ///
    /// That of each mesh, the mean over the views. The figures and the picture are there all the same.
    #[arg(long, value_name = "DB", allow_negative_numbers = true, value_parser = flag(PSNR))]
    pub(super) fail_below: Option<f64>,
    /// One JSON object per line on standard output.
    ///
    /// `compared` has all figures, those of each view too.
    #[arg(long)]
    pub(super) json: bool,
    /// Say nothing but the figures and errors.
    #[arg(short, long, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// Show what the worker logs.
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Give up after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value = "3600", allow_negative_numbers = true, value_parser = seconds)]
    pub(super) timeout: Duration,
    /// Kill a worker that uses more memory.
    ///
    /// Such as 3G or 512M, where G is 2^30 bytes.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(super) memory_limit: Option<u64>,
    /// Run the worker without its sandbox.
    ///
    /// Where this system has none and the input is trusted.
    #[arg(long)]
    pub(super) insecure_no_sandbox: bool,
    /// The worker program.
    #[arg(value_parser = named(), long, value_name = "PATH", hide = true)]
    pub(super) baker: Option<PathBuf>,
    /// Silence that the worker is allowed, in seconds.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds, hide = true)]
    pub(super) stall_timeout: Option<Duration>,
}

/// A comparison, and how to tell it.
#[derive(Debug)]
pub struct Task {
    comparison: Comparison,
    /// In dB: less is a failure.
    least: Option<f64>,
    /// One JSON object per line.
    pub json: bool,
    /// How much to show.
    pub voice: Voice,
}

/// Checks the arguments.
pub(super) fn task(args: CompareArgs) -> Result<Task, Box<JobError>> {
    let first = input::find("the mesh", &args.first)?;
    let second = args.second.as_deref();
    let second = second.map(|path| input::find("the second mesh", path));
    let second = second.transpose()?;
    let views = input::find_views(&args.views, args.images.as_deref())?;
    // The same mesh twice is no mistake, and shows that nothing differs; an output in an input's place is one.
    let mut inputs = vec![&first, &views];
    let normals_of = super::paths::original(args.normals_of.as_deref())?;
    inputs.extend(second.iter().chain(&normals_of));
    distinct(&read(&inputs), args.picture.as_slice())?;
    let picture = args.picture.as_deref().map(Target::anywhere).transpose()?;
    let log_filter = if args.verbose {
        "warn,baker=debug"
    } else {
        "warn,baker=info"
    };
    Ok(Task {
        comparison: Comparison {
            first,
            second,
            normals_of,
            blend: JobOptions::blended(args.blend, &views.name),
            views,
            picture,
            up: args.up,
            sandbox: !args.insecure_no_sandbox,
            memory_limit: args.memory_limit,
            timeout: args.timeout,
            stall: args.stall_timeout,
            baker: baker_path(args.baker)?,
            log_filter: log_filter.to_owned(),
        },
        least: args.fail_below,
        json: args.json,
        voice: match (args.quiet, args.verbose) {
            (true, _) => Voice::Quiet,
            (false, true) => Voice::Verbose,
            (false, false) => Voice::Normal,
        },
    })
}

/// Compares and tells; gives the exit code.
pub async fn carry_out(task: Task, bars: &MultiProgress) -> u8 {
    let Task {
        comparison,
        least,
        json,
        voice,
    } = task;
    let mut listener = screen::listener(json, voice, bars);
    let compared = many::compare(&comparison, &mut *listener).await;
    // With it go its bars.
    drop(listener);
    match compared {
        Ok(compared) => {
            if json {
                result(&line(&comparison, &compared).to_string());
            } else {
                for line in table(&compared.summary.models) {
                    result(&line);
                }
                for line in normals(&compared.summary.models) {
                    result(&line);
                }
                if !comparison.sandbox {
                    screen::say("the worker ran without its sandbox");
                }
            }
            let models = &compared.summary.models;
            let poor = least.and_then(|least| poor(least, models, &comparison));
            poor.map_or(exit::OK, |error| told(&error, json))
        }
        Err(error) => told(&error, json),
    }
}

/// Tells an error, and gives its exit code.
fn told(error: &JobError, json: bool) -> u8 {
    match json {
        true => result(&screen::error_line(error).to_string()),
        false => screen::complain("", error),
    }
    error.exit_code
}

/// The error of the first mesh that explains the views with less than `least` dB.
fn poor(least: f64, models: &[CompareModel], comparison: &Comparison) -> Option<Box<JobError>> {
    let below = |model: &&CompareModel| !model.psnr_db.is_some_and(|db| f64::from(db) >= least);
    let (model, input) = models
        .iter()
        .zip(inputs(comparison))
        .find(|(model, _)| below(model))?;
    let psnr = (model.psnr_db).map_or_else(
        || format!("no PSNR, and --fail-below asks for {least} dB"),
        |db| format!("{db:.2} dB, less than the {least} dB of --fail-below"),
    );
    let message = format!("{} has {psnr}", input.path.display());
    let hint = "--picture shows where it is wrong";
    Some(JobError::own(Code::InvalidAsset, message, hint))
}

/// The meshes that are compared.
fn inputs(comparison: &Comparison) -> impl Iterator<Item = &Input> {
    let second = comparison.second.as_ref();
    [Some(&comparison.first), second].into_iter().flatten()
}

/// Everything, for programs.
fn line(comparison: &Comparison, compared: &Compared) -> Value {
    let models = compared.summary.models.iter().zip(inputs(comparison));
    let models: Vec<Value> = models
        .map(|(model, input)| {
            let mut model = serde_json::to_value(model).unwrap_or_default();
            model["path"] = json!(input.path.to_string_lossy());
            model
        })
        .collect();
    json!({
        "event": "compared",
        "schema": 1,
        "models": models,
        "views": comparison.views.path.to_string_lossy(),
        "normals_of": comparison.normals_of.as_ref().map(|original| original.path.to_string_lossy()),
        "up": comparison.up,
        "picture": comparison.picture.as_ref().map(|target| target.path().to_string_lossy()),
        "sandbox": comparison.sandbox,
        "times": compared.summary.times,
        "peak_rss_kib": compared.summary.peak_rss_kib,
        "warnings": compared.warnings,
    })
}

/// A line for each figure, a column for each mesh.
fn table(models: &[CompareModel]) -> Vec<String> {
    type Figure = (&'static str, fn(&CompareModel) -> Option<String>);
    let figures: [Figure; 17] = [
        ("views compared", |m| {
            let compared = m.views.iter().filter(|view| view.pixels > 0).count();
            Some(format!("{compared} of {}", m.views.len()))
        }),
        ("PSNR, mean (dB)", |m| {
            m.psnr_db.map(|db| format!("{db:.2}"))
        }),
        ("PSNR after gains, mean (dB)", |m| {
            m.psnr_gain_db.map(|db| format!("{db:.2}"))
        }),
        ("PSNR, worst view (dB)", |m| {
            let counted = m.views.iter().filter(|view| view.pixels > 0);
            let worst = counted.min_by(|a, b| a.psnr_db.total_cmp(&b.psnr_db))?;
            Some(format!("{:.2} (view {})", worst.psnr_db, worst.view))
        }),
        ("SSIM, mean", |m| m.ssim.map(|ssim| format!("{ssim:.4}"))),
        ("object not covered (%)", |m| {
            Some(format!("{:.2}", m.missing * 100.0))
        }),
        ("texels no view sees (%)", |m| {
            m.unseen.map(|share| format!("{:.2}", share * 100.0))
        }),
        ("seam residual, mip 0 (/255)", |m| seam(m, 0)),
        ("  mip 1", |m| seam(m, 1)),
        ("  mip 2", |m| seam(m, 2)),
        ("  mip 3", |m| seam(m, 3)),
        ("seam length (diagonals)", |m| {
            m.atlas.map(|atlas| format!("{:.2}", atlas.seam_length))
        }),
        ("charts", |m| m.atlas.map(|atlas| atlas.charts.to_string())),
        ("texture used (%)", |m| {
            m.atlas.map(|atlas| format!("{:.1}", atlas.used * 100.0))
        }),
        ("texel density, spread", |m| {
            m.atlas.map(|atlas| format!("{:.2}", atlas.density_spread))
        }),
        ("textures", |m| {
            let sizes = m.textures.iter().map(|[w, h]| format!("{w}x{h}"));
            Some(sizes.collect::<Vec<_>>().join(" "))
        }),
        ("triangles", |m| Some(m.triangles.to_string())),
    ];
    let mut lines = Vec::new();
    if models.len() > 1 {
        lines.push(format!("{:28}  {:>18}  {:>18}", "", "A", "B"));
    }
    for (name, figure) in figures {
        let mut line = format!("{name:28}");
        for model in models {
            let text = figure(model).unwrap_or_else(|| "-".to_owned());
            line.push_str(&format!("  {:>18}", printable(&text, 60)));
        }
        lines.push(line);
    }
    lines
}

/// Lines of [`table`] for normals, where they were compared.
fn normals(models: &[CompareModel]) -> Vec<String> {
    type Figure = (&'static str, fn(&NormalFigures) -> f32);
    let figures: [Figure; 3] = [
        ("normals beside (degrees)", |all| all.mean_deg),
        ("  median", |all| all.median_deg),
        ("  95 % are within", |all| all.p95_deg),
    ];
    if models.iter().all(|model| model.normals.is_none()) {
        return Vec::new();
    }
    let line = |(name, figure): Figure| {
        let cells = models.iter().map(|model| {
            let text = (model.normals.as_ref()).map(|all| format!("{:.2}", figure(all)));
            format!("  {:>18}", text.unwrap_or_else(|| "-".to_owned()))
        });
        format!("{name:28}{}", cells.collect::<String>())
    };
    figures.map(line).into()
}

fn seam(model: &CompareModel, level: usize) -> Option<String> {
    let residual = model.atlas?.seam_residual;
    residual.get(level).map(|value| format!("{value:.2}"))
}

#[cfg(test)]
mod tests {
    use proto::message::{AtlasFigures, CompareScore};

    use super::*;

    fn model(psnr: f32) -> CompareModel {
        let view = |view, pixels, psnr_db| CompareScore {
            view,
            pixels,
            psnr_db,
            gain: [1.0; 3],
            psnr_gain_db: psnr_db + 2.0,
            ssim: 0.98,
        };
        CompareModel {
            triangles: 12,
            textures: vec![[1024, 512]],
            views: vec![
                view(0, 9, psnr + 1.0),
                view(1, 9, psnr - 1.0),
                view(2, 0, 0.0),
            ],
            psnr_db: Some(psnr),
            psnr_gain_db: Some(psnr + 2.0),
            ssim: Some(0.98),
            missing: 0.25,
            unseen: None,
            atlas: Some(AtlasFigures {
                seam_residual: [1.0, 2.0, 3.0, 4.0],
                charts: 7,
                ..AtlasFigures::default()
            }),
            normals: None,
        }
    }

    #[test]
    fn every_figure_stands_in_its_column() {
        let lines = table(&[model(40.0), model(50.0)]);
        let cells = |name: &str| -> Vec<String> {
            let line = lines
                .iter()
                .find(|line| line.trim_start().starts_with(name));
            let line = line.unwrap_or_else(|| panic!("no {name} in {lines:#?}"));
            line[28..]
                .split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(cells("PSNR, mean"), ["40.00", "50.00"]);
        assert_eq!(cells("PSNR after"), ["42.00", "52.00"]);
        assert_eq!(cells("PSNR, worst"), ["39.00 (view 1)", "49.00 (view 1)"]);
        assert_eq!(cells("views compared"), ["2 of 3", "2 of 3"]);
        assert_eq!(cells("mip 3"), ["4.00", "4.00"]);
        assert_eq!(cells("object not covered"), ["25.00", "25.00"]);
        assert_eq!(cells("texels no view"), ["-", "-"]);
        assert_eq!(cells("textures"), ["1024x512", "1024x512"]);
        assert!(normals(&[model(40.0)]).is_empty());
        let normals = normals(&[CompareModel {
            normals: Some(NormalFigures {
                pixels: 9,
                mean_deg: 1.5,
                median_deg: 0.5,
                p95_deg: 7.25,
            }),
            ..model(40.0)
        }]);
        let ends = ["1.50", "0.50", "7.25"];
        assert!(
            normals
                .iter()
                .zip(ends)
                .all(|(line, end)| line.ends_with(end))
        );
        assert!(
            !table(&[model(40.0)])[0].contains('A'),
            "one mesh needs no name"
        );
    }

    #[test]
    fn a_missing_file_is_named_and_an_input_is_no_output() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        for name in ["a.glb", "transforms.json"] {
            std::fs::write(path(name), "x").expect("a file");
        }
        let args = |second: Option<&str>, picture: Option<&str>| {
            let mut words = vec!["kiln".into(), "compare".into(), path("a.glb")];
            words.extend(second.map(path));
            words.extend(["--views".into(), folder.path().to_path_buf()]);
            words.extend(picture.map(|name| format!("--picture={}", path(name).display()).into()));
            super::super::parse(words.into_iter().map(PathBuf::into_os_string))
        };
        let refused = |second, picture| args(second, picture).expect_err("refused").error;
        let missing = refused(Some("b.glb"), None);
        assert_eq!(missing.code, Code::MissingInput);
        assert!(
            missing.message.contains("the second mesh"),
            "{}",
            missing.message
        );
        let taken = refused(None, Some("a.glb"));
        assert_eq!(taken.code, Code::InvalidSpec);
        assert!(matches!(
            args(Some("a.glb"), Some("out.png")).expect("the same twice"),
            super::super::Command::Compare(_)
        ));
    }
}
