//! The packets, one enum for each direction. Field order and variant order are the wire format: both ends are of one build
//! ([`crate::BUILD_ID`]), so it may change with each.

use std::io;

use serde::{Deserialize, Serialize};

use crate::job::{BakeJob, CompareJob, EncodeJob, PrepareJob, WarmJob};
use crate::place;
use crate::sandbox::Sandbox;
use crate::table::Layer;

pub use crate::role::{AdapterInfo, Phase, Role};
pub use crate::summary::{
    AtlasFigures, BakeSummary, CameraFate, CompareModel, CompareScore, CompareSummary,
    DetailFigures, Done, EncodeSummary, ExposureFate, LayerFit, MeshCounts, MeshStep,
    NormalFigures, PhaseTime, PipelineCache, PrepareSummary, ProvenanceShares, Refinement,
    Rejected, Side, SplatSummary, StageTime, StepFate, StepKind, TextureChoice, UnwrapMethod,
    ViewFit, ViewScore,
};

/// Names a table that a child fills or reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// [`crate::table::Mesh`].
    Mesh,
    /// [`crate::table::Surface`]: what the views show, before the mesh.
    Surface,
    /// [`crate::table::View`] by its index, counted without gaps from 0.
    View(u32),
    /// [`crate::table::Texture`].
    Texture,
    /// The bytes of the GLB, or of what was asked for in its place: see [`crate::job::Container`].
    Glb,
    /// The bytes of the preview PNG.
    Preview,
    /// [`crate::table::Colours`]: in place of the texture on the ladder's last rung.
    Colours,
    /// The bytes of the coverage PNG, see [`crate::table::maps`].
    Coverage,
    /// The bytes of the residual PNG, see [`crate::table::maps`].
    Residual,
    /// The bytes of the texture's file beside a PLY or OBJ, by its page.
    Picture(u32),
    /// The bytes of the material's file beside an OBJ.
    Material,
    /// [`crate::table::LayerTexture`], by its layer.
    Layer(Layer),
    /// The bytes of the provenance PNG: its indices are [`crate::table::Provenance`].
    Provenance,
    /// The bytes of the PNG of what the fit did not believe of a view, by the view's index.
    Rejected(u32),
    /// Pipelines as a driver compiled them, for later processes: written before there is data, or not at all.
    Pipelines,
    /// [`crate::table::Refined`]: only where some camera or exposure was not taken as given.
    Refined,
    /// [`crate::table::SplatScene`], where views come without pixels: before the surface.
    Splats,
    /// The bytes of the views' and the texture's part of the report's page: HTML.
    Gallery,
}

impl Table {
    /// Whether its bytes are a finished file, which its maker reads back once it is sealed: [`FromChild::Verified`].
    pub fn is_file(self) -> bool {
        match self {
            Self::Glb
            | Self::Preview
            | Self::Coverage
            | Self::Residual
            | Self::Provenance
            | Self::Picture(_)
            | Self::Material
            | Self::Gallery
            | Self::Rejected(_) => true,
            Self::Mesh
            | Self::Surface
            | Self::View(_)
            | Self::Texture
            | Self::Colours
            | Self::Layer(_)
            | Self::Pipelines
            | Self::Refined
            | Self::Splats => false,
        }
    }
}

/// SHA-256 of a file's bytes.
pub type Sha256 = [u8; 32];

/// Supervisor to child.
#[expect(
    clippy::large_enum_variant,
    reason = "a process gets one job, and few messages are held at once"
)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToChild {
    /// The job; answers `Hello`. Fds: the input tables (see the job's own text).
    Start(Start),
    /// A view, with its fd. Indices may come in any order, each once; to a bake also before its mesh.
    View {
        /// Index of the view.
        index: u32,
    },
    /// No view follows.
    EndOfViews {
        /// How many were sent.
        count: u32,
    },
    /// The memory that was asked for, with its fd.
    Grant {
        /// The table asked for.
        table: Table,
    },
    /// Open the adapter, and whatever else can be had before the job is known. Answered by `Ready`.
    Warm(WarmJob),
    /// Answers `Open`, with the file's fd if there is one: for reading, at its start.
    Opened {
        /// Size of the file in bytes, or why it is not opened.
        outcome: Result<u64, Refusal>,
    },
    /// Answers `Ready` where that offered to keep pipelines. Fd: those of an earlier process, if there are any.
    Pipelines {
        /// Whether they are used, and handed over where there are more in the end.
        keep: bool,
    },
    /// All views were sent: `EndOfViews` follows when prepare has answered, too. To a bake alone.
    Delivered {
        /// How many.
        views: u32,
    },
    /// The mesh of a bake, with its fd: once after `Start`, before `EndOfViews`.
    Mesh {
        /// Edge of its atlas in texels: of the texture, or of all its pages together.
        texture_size: u32,
    },
    /// Answers `Filled` of a file ([`Table::is_file`]): nobody can change a byte of it any more.
    Sealed {
        /// Which table.
        table: Table,
    },
}

/// The first message of the supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Start {
    /// For the role of the same name.
    Prepare(PrepareJob),
    /// For the role of the same name.
    Bake(BakeJob),
    /// For the role of the same name.
    Encode(EncodeJob),
    /// For prepare, in place of its own.
    Compare(CompareJob),
}

/// Child to supervisor.
#[expect(
    clippy::large_enum_variant,
    reason = "a handful in a job, and none is kept"
)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromChild {
    /// The first packet.
    Hello {
        /// [`crate::PROTOCOL_VERSION`].
        version: u32,
        /// [`crate::BUILD_ID`].
        build_id: String,
        /// What the process was started as.
        role: Role,
        /// What it gave up before it said this.
        sandbox: Sandbox,
    },
    /// Work was done. The supervisor takes any growth of `done` for a sign of life.
    Progress {
        /// Where in the pipeline.
        phase: Phase,
        /// Units done of this phase.
        done: u64,
        /// Units in all, 0 where unknown.
        total: u64,
    },
    /// Something the user should know; the job goes on.
    Warning {
        /// One line.
        text: String,
    },
    /// Asks for memory to write a table to.
    Allocate {
        /// Which table.
        table: Table,
        /// Its exact size.
        bytes: u64,
    },
    /// The table is written and will not be touched again.
    Filled {
        /// Which table.
        table: Table,
    },
    /// The role's work is complete; every table was filled.
    Done(Done),
    /// The role cannot do its work.
    Failed(Failure),
    /// The adapter is open. Answered by `Pipelines` where it offers to keep them.
    Ready {
        /// The one.
        adapter: AdapterInfo,
        /// How many would have done equally well, with it.
        peers: u32,
        /// What it gave up since its hello, too.
        sandbox: Sandbox,
        /// For which adapter and driver, and for which of our stages, pipelines can be kept; none where they cannot.
        pipelines: Option<String>,
    },
    /// Prepare asks for an input file: it cannot open any itself. One question at a time.
    Open {
        /// The folder that the name is relative to.
        root: Root,
        /// Bytes of a path.
        name: String,
        /// A larger file is refused.
        limit: u64,
    },
    /// Bake asks for every view once more, and `EndOfViews` after them: once for each set of layers that it fits.
    Again,
    /// The edge of the atlas, where that was left to prepare; before the mesh is there.
    Chosen {
        /// In texels, all pages together.
        texture_size: u32,
    },
    /// After `Ready`: every stage is compiled, and what is to be kept of that was handed over. From here on data may come.
    Compiled,
    /// Prepare has filled every view; the mesh may follow.
    Delivered {
        /// How many, those among them that are held out.
        views: u32,
    },
    /// After `Sealed`: the file reads back from the sealed memory as what it was made of.
    Verified {
        /// Which table.
        table: Table,
        /// Of the bytes that were read back.
        sha256: Sha256,
    },
}

/// A folder that input files lie beneath.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Root {
    /// Of the mesh file.
    Mesh,
    /// Of `transforms.json`, or what stands in its place.
    Views,
    /// Of the second mesh file of a comparison.
    Second,
    /// Of the pictures that a model of COLMAP names.
    Pictures,
    /// Of the masks beside those pictures. It need not exist.
    Masks,
    /// Of the surface that the mesh was simplified from.
    Original,
}

/// Why a file is not opened. The name is the caller's to add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The empty name.
    #[error("the file name is empty")]
    EmptyName,
    /// A name with a NUL character.
    #[error("the file name contains a NUL character")]
    NulInName,
    /// The name leaves the folder.
    #[error("lies outside its folder")]
    Outside,
    /// Neither what the user named, nor of a kind that meshes and views are made of; or hidden.
    #[error("is not a file of a mesh or a view, going by its name")]
    Unlisted,
    /// Nothing of this name.
    #[error("no such file")]
    Missing,
    /// A directory, device, pipe or socket.
    #[error("is {0}, not a regular file")]
    NotAFile(NotAFile),
    /// Larger than the caller's bound.
    #[error("has {size} bytes, more than the {limit} that are taken")]
    TooLarge {
        /// Size of the file in bytes.
        size: u64,
        /// The bound in bytes.
        limit: u64,
    },
    /// Its file system does not answer.
    #[error("did not open within {0} seconds: its file system does not answer")]
    Slow(u32),
    /// The system refuses for another reason: its error number.
    #[error("cannot be read ({})", io::Error::from_raw_os_error(*.0))]
    Os(i32),
    /// A symbolic link on its way leaves the folder, or leads to nothing: what is said of it.
    #[error("{0}")]
    Link(String),
}

impl Refusal {
    /// The code under which a user is told.
    pub fn code(&self) -> Code {
        match self {
            Self::EmptyName | Self::NulInName => Code::InvalidAsset,
            Self::Outside | Self::Unlisted | Self::Missing | Self::NotAFile(_) | Self::Link(_) => {
                Code::MissingInput
            }
            Self::Os(errno) if place::is_wrong(&io::Error::from_raw_os_error(*errno)) => {
                Code::MissingInput
            }
            Self::Slow(_) | Self::Os(_) => Code::IoError,
            Self::TooLarge { .. } => Code::LimitExceeded,
        }
    }
}

/// What is not a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum NotAFile {
    /// A directory.
    #[error("a directory")]
    Directory,
    /// A pipe.
    #[error("a pipe")]
    Pipe,
    /// A device or socket.
    #[error("a device or socket")]
    Device,
}

worded! {
    /// The closed list of causes. The wire, the report and the exit code use the same words.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum Code {
        /// The options contradict each other or leave their range.
        InvalidSpec = "invalid_spec",
        /// A mesh, a picture or the camera file is not what it says it is, or names a file that cannot be had.
        InvalidAsset = "invalid_asset",
        /// A file that the user named is not there. One that the input names is [`Self::InvalidAsset`].
        MissingInput = "missing_input",
        /// A bound of [`crate::limits`].
        LimitExceeded = "limit_exceeded",
        /// Valid, but not something that Kiln does.
        UnsupportedFeature = "unsupported_feature",
        /// The host's memory.
        OutOfHostMemory = "out_of_host_memory",
        /// The adapter's memory.
        OutOfDeviceMemory = "out_of_device_memory",
        /// The adapter went away.
        GpuDeviceLost = "gpu_device_lost",
        /// The driver refused a pipeline.
        ShaderRejected = "shader_rejected",
        /// The adapter answered, but not with all of the work.
        IncompleteOutput = "incomplete_output",
        /// No adapter fits `--device`.
        NoAdapter = "no_adapter",
        /// The process ended without an answer.
        WorkerCrashed = "worker_crashed",
        /// The process lived and did nothing.
        WorkerStalled = "worker_stalled",
        /// The job's time ran out.
        DeadlineExceeded = "deadline_exceeded",
        /// The process could not be started.
        SpawnFailed = "spawn_failed",
        /// The process spoke out of turn.
        ProtocolViolation = "protocol_violation",
        /// The result cannot be created where it is wanted.
        OutputError = "output_error",
        /// The caller ended the job.
        Cancelled = "cancelled",
        /// A bug of ours.
        Internal = "internal",
        /// `kiln` and `kiln-baker` come from different builds.
        BinaryMismatch = "binary_mismatch",
        /// The adapter took work and never came back from it.
        GpuHang = "gpu_hang",
        /// The process tried what its sandbox forbids.
        SandboxViolation = "sandbox_violation",
        /// The sandbox cannot be had on this system.
        SandboxUnavailable = "sandbox_unavailable",
        /// Reading or writing a file failed, and not for its name: the disk is full, broken or gone.
        IoError = "io_error",
    }
}

/// A failure as its process names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The cause.
    pub code: Code,
    /// One line for people: what, where.
    pub message: String,
    /// One line for people: how to mend it; may be empty.
    pub hint: String,
}
