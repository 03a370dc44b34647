//! Arguments of `kiln submit`, `status`, `wait`, `cancel`, `list` and `fetch` → a task, with all checked that can be checked
//! before the sidecar is asked.

pub(super) mod args;

#[cfg(feature = "fleet")]
pub mod many;

mod run;

mod show;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proto::message::Code;

use self::args::{
    CancelArgs, FetchArgs, ListArgs, PlaceArgs, StateArg, StatusArgs, SubmitArgs, WaitArgs,
};
use super::args::JobArgs;
use crate::error::JobError;
use crate::input::{self, Input};
use crate::job::MapTargets;
use crate::options::{JobOptions, Source};
use crate::output::Target;
use crate::remote::{Place, collect::Inputs};
use crate::screen::Voice;
use crate::serve::listen;
use crate::store::JobId;

pub use run::carry_out;

/// What is to be done, and with which sidecar.
#[derive(Debug)]
pub struct Task {
    /// JSON on standard output.
    pub json: bool,
    /// How much to show.
    pub voice: Voice,
    at: At,
    patience: Duration,
    what: What,
}

impl Task {
    /// Whether its exit code tells of a job or of files.
    pub fn is_of_job(&self) -> bool {
        !matches!(self.what, What::Status(_) | What::List(..))
    }
}

#[derive(Debug)]
enum What {
    Submit(Box<Submit>),
    Status(String),
    Wait(String, Option<Duration>, Box<Delivery>),
    Cancel(Vec<String>),
    List(Option<&'static str>, usize),
    Fetch(String, Vec<String>, PathBuf),
}

#[derive(Debug)]
struct Submit {
    inputs: Inputs,
    /// Its sources are filled in once the files are sent, unless they are paths.
    options: JobOptions,
    key: String,
    retry: bool,
    /// With `--wait`.
    delivery: Option<Delivery>,
}

/// Where the results go.
#[derive(Debug, Default)]
struct Delivery {
    glb: Option<Target>,
    preview: Option<Target>,
    html: Option<Target>,
    maps: Option<MapTargets>,
    report: Option<Target>,
}

impl Delivery {
    fn targets(&self) -> impl Iterator<Item = &Target> {
        let maps = self.maps.iter();
        let maps = maps.flat_map(|maps| [&maps.coverage, &maps.residual, &maps.provenance]);
        let one = [&self.glb, &self.preview, &self.html, &self.report];
        one.into_iter().flatten().chain(maps)
    }
}

type Checked<T> = Result<T, Box<JobError>>;

/// Who is asked.
#[derive(Clone, Debug)]
enum At {
    Sidecar(Place),
    #[cfg(feature = "fleet")]
    Fleet(crate::fleet::Place),
}

fn task(args: PlaceArgs, what: What) -> Checked<Task> {
    #[cfg(feature = "fleet")]
    let fleet = (args.fleet).place(args.socket.is_some() || args.url.is_some())?;
    let at = match (args.url, &args.token_file) {
        (Some(address), Some(file)) => At::Sidecar(Place::Tcp {
            address,
            token: super::serve::token(file)?,
        }),
        #[cfg(feature = "fleet")]
        _ if fleet.is_some() => fleet.map_or_else(|| unreachable!(), At::Fleet),
        _ => At::Sidecar(Place::Unix {
            path: args.socket.unwrap_or_else(own_socket),
            uids: args.allow_uid,
        }),
    };
    Ok(Task {
        json: args.json,
        voice: match (args.quiet, args.verbose) {
            (true, _) => Voice::Quiet,
            (false, true) => Voice::Verbose,
            (false, false) => Voice::Normal,
        },
        at,
        patience: args.patience,
        what,
    })
}

/// The sidecar's socket, where no flag names it.
pub(super) fn own_socket() -> PathBuf {
    let named = std::env::var_os("KILN_SOCKET").filter(|path| !path.is_empty());
    named.map_or_else(listen::default_socket, PathBuf::from)
}

pub(super) fn submit(args: SubmitArgs) -> Checked<Task> {
    let (mesh, views) = match (&args.views, input::splats_of(&args.mesh)) {
        (Some(views), _) => {
            let mesh = input::find("the mesh", &args.mesh)?;
            (mesh, input::find_views(views, args.job.images.as_deref())?)
        }
        (None, Some(splats)) => {
            let splats = input::find("the splats", &splats)?;
            (splats.clone(), splats)
        }
        (None, None) => {
            let message = "--views is needed: only Gaussian splats bring their own";
            return Err(JobError::own(Code::InvalidSpec, message, ""));
        }
    };
    // Refused here in the words of the flags, not there in those of the JSON.
    let mut options = args.job.options()?;
    let original = super::paths::original(args.job.original.as_deref())?;
    options.name = args.name;
    let JobArgs {
        preview,
        html,
        maps,
        report,
        ..
    } = &args.job;
    let delivery = match &args.output {
        Some(output) => {
            let outputs = [
                Some(output),
                preview.as_ref(),
                html.as_ref(),
                report.as_ref(),
            ];
            let read: Vec<_> = [&mesh, &views].into_iter().chain(&original).collect();
            Some(deliver(
                &super::paths::read(&read),
                outputs,
                maps.as_deref(),
            )?)
        }
        None if [preview, html, maps, report]
            .into_iter()
            .any(Option::is_some) =>
        {
            let message = "--preview, --html, --maps and --report are files that --wait fetches";
            let hint = "add --wait and -o; or --with-preview, --with-html, --with-maps, and kiln fetch later";
            return Err(JobError::own(Code::InvalidSpec, message, hint));
        }
        None => None,
    };
    options.preview |= args.with_preview;
    options.html |= args.with_html;
    options.maps |= args.with_maps;
    if args.by_path {
        // The sidecar follows no links.
        let real = |what: &str, input: &Input| {
            let failed = |error| {
                let message = format!("{what} {}: {error}", input.path.display());
                JobError::own(Code::MissingInput, message, "")
            };
            let path = input.path.canonicalize().map_err(failed)?;
            let images = input
                .pictures
                .as_ref()
                .map(|pictures| pictures.path.canonicalize());
            let images = images.transpose().map_err(failed)?;
            Ok::<_, Box<JobError>>(Some(Source::Path { path, images }))
        };
        options.mesh = real("the mesh", &mesh)?;
        if views.path != mesh.path {
            options.views = real("the views", &views)?;
        }
        if let Some(original) = &original {
            options.original = real("the original", original)?;
        }
    }
    let submit = Submit {
        inputs: Inputs {
            mesh,
            views,
            original,
        },
        options,
        key: args.key.unwrap_or_else(|| JobId::fresh().to_string()),
        retry: args.retry,
        delivery,
    };
    task(args.place, What::Submit(Box::new(submit)))
}

/// Checks GLB, preview, page and report, and the folder of the maps.
fn deliver(
    inputs: &[PathBuf],
    paths: [Option<&PathBuf>; 4],
    maps: Option<&Path>,
) -> Checked<Delivery> {
    let [glb, preview, html, report] = paths;
    let named = paths.into_iter().flatten().cloned();
    let maps_at = maps.into_iter().flat_map(MapTargets::within);
    super::paths::distinct(inputs, &named.chain(maps_at).collect::<Vec<_>>())?;
    let check = |path: Option<&PathBuf>| path.map(|path| Target::anywhere(path)).transpose();
    Ok(Delivery {
        glb: check(glb)?,
        preview: check(preview)?,
        html: check(html)?,
        maps: maps
            .map(|folder| MapTargets::check(folder, Target::anywhere))
            .transpose()?,
        report: check(report)?,
    })
}

pub(super) fn status(args: StatusArgs) -> Checked<Task> {
    task(args.place, What::Status(args.id))
}

pub(super) fn wait(args: WaitArgs) -> Checked<Task> {
    let outputs = [
        args.output.as_ref(),
        args.preview.as_ref(),
        args.html.as_ref(),
        args.report.as_ref(),
    ];
    let delivery = deliver(&[], outputs, args.maps.as_deref())?;
    task(
        args.place,
        What::Wait(args.id, args.timeout, Box::new(delivery)),
    )
}

pub(super) fn cancel(args: CancelArgs) -> Checked<Task> {
    task(args.place, What::Cancel(args.ids))
}

pub(super) fn list(args: ListArgs) -> Checked<Task> {
    let state = args.state.map(|state| match state {
        StateArg::Queued => "queued",
        StateArg::Running => "running",
        StateArg::Succeeded => "succeeded",
        StateArg::Failed => "failed",
        StateArg::Cancelled => "cancelled",
    });
    task(args.place, What::List(state, args.limit as usize))
}

/// Whether a path is a folder, or is to be one: whoever writes a slash means a folder, be it there or not.
fn is_folder(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_bytes().ends_with(b"/")
}

pub(super) fn fetch(args: FetchArgs) -> Checked<Task> {
    // Alone and without a name it is the model.
    let name = args.names.first().map_or("model.glb", String::as_str);
    let (ending, given) = (Path::new(name).extension(), args.output.extension());
    let ending = ending.unwrap_or_default();
    let folder = args.names.len() > 1 || is_folder(&args.output);
    if !folder
        && !ending.is_empty()
        && !given.is_some_and(|given| given.eq_ignore_ascii_case(ending))
    {
        let (output, ending) = (args.output.display(), ending.display());
        return Err(JobError::own(
            Code::InvalidSpec,
            format!("{output}: the name must end in .{ending}, as {name} does"),
            "a new folder has a / at its end",
        ));
    }
    task(args.place, What::Fetch(args.id, args.names, args.output))
}
