//! What each role reports of its work when it is done. The report and `kiln compare --json` show these structs as they are.

use serde::{Deserialize, Serialize};

use crate::job::Refine;
use crate::labels::{Label, Labels};
use crate::list::list;
use crate::plan::{BakePlan, RowsHeld};
use crate::role::{AdapterInfo, Phase};
use crate::table::Layer;

/// What each role reports of its work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Done {
    /// For the role of the same name.
    Prepare(PrepareSummary),
    /// For the role of the same name.
    Bake(BakeSummary),
    /// For the role of the same name.
    Encode(EncodeSummary),
    /// Of prepare, where that was its job.
    Compare(CompareSummary),
    /// Of bake, where that was to be a dry run.
    Plan(BakePlan),
}

/// Wall time of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseTime {
    /// The phase.
    pub phase: Phase,
    /// Wall time in milliseconds.
    pub ms: f64,
}

/// How the atlas was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnwrapMethod {
    /// The `uvunwrap` crate.
    #[default]
    Uvunwrap,
    /// The linear-time fallback.
    Fallback,
    /// The mesh's own coordinates.
    Kept,
}

/// A step of repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Points of borders that lie as good as in one place become one.
    Weld,
    /// Each part is wound one way, outwards.
    Orient,
    /// What no view from outside sees goes.
    RemoveUnseen,
    /// Small holes are filled.
    FillHoles,
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepFate {
    /// It changed the mesh.
    Done,
    /// There was nothing to do.
    Unchanged,
    /// It would have taken too long; the mesh is as before.
    Skipped,
    /// It would have done harm; the mesh is as before.
    Refused,
}

impl StepFate {
    /// Of a step that changed so many.
    pub fn of(changed: u64) -> Self {
        match changed {
            0 => Self::Unchanged,
            _ => Self::Done,
        }
    }
}

/// What a mesh is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeshCounts {
    /// Triangles.
    pub triangles: u64,
    /// What hangs together across edges of two triangles.
    pub parts: u64,
    /// Closed borders without a point twice: holes, and the rims of sheets.
    pub borders: u64,
    /// Edges of one triangle.
    pub border_edges: u64,
    /// Edges of more than two triangles.
    pub nonmanifold_edges: u64,
}

/// One step of the mesh's repair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeshStep {
    /// Which.
    pub step: StepKind,
    /// What became of it.
    pub fate: StepFate,
    /// Points welded, triangles turned or removed, holes filled.
    pub changed: u64,
    /// What it left, and why; empty where there is nothing to say.
    pub note: String,
    /// Wall time in milliseconds.
    pub ms: f64,
    /// What it found.
    pub before: MeshCounts,
    /// What it left.
    pub after: MeshCounts,
}

/// Result of prepare.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PrepareSummary {
    /// Where the local origin of a mesh that lies far from its own is, in the result's coordinates (y up): a whole number,
    /// or a fraction of powers of two for a small object. All zero near the origin.
    #[serde(default)]
    pub offset: [f64; 3],
    /// Names and credits of the mesh's file that the result repeats.
    #[serde(default)]
    pub labels: Labels,
    /// Triangles in the file.
    pub triangles_read: u64,
    /// Triangles of zero area or with a repeated corner, dropped.
    pub triangles_degenerate: u64,
    /// Triangles handed on.
    pub triangles: u64,
    /// Vertices handed on, split at chart borders.
    pub vertices: u64,
    /// Edges with more than two triangles.
    pub nonmanifold_edges: u64,
    /// Steps of repair, in their order; empty where none was asked for.
    #[serde(default, deserialize_with = "list")]
    pub mesh: Vec<MeshStep>,
    /// Error that simplification reached, as a share of the mesh's radius; none where nothing was simplified.
    pub simplify_error: Option<f32>,
    /// How the atlas was made.
    pub unwrap: UnwrapMethod,
    /// Charts of the atlas.
    pub charts: u64,
    /// Share of the atlas that charts cover, 0-1.
    pub atlas_utilisation: f32,
    /// The edge of the texture and why, where it was left to prepare.
    #[serde(default)]
    pub texture: Option<TextureChoice>,
    /// What the views were drawn from, where they are splats.
    #[serde(default)]
    pub splats: Option<SplatSummary>,
    /// Name of each view, as the views' file has it, by the views' indices; none where there are too many for one packet.
    #[serde(default, deserialize_with = "list")]
    pub view_names: Vec<Label>,
    /// Views handed on for the fit.
    pub views: u32,
    /// Views handed on to measure with.
    pub holdout_views: u32,
    /// Wall time by phase.
    #[serde(deserialize_with = "list")]
    pub times: Vec<PhaseTime>,
    /// Peak resident memory in KiB.
    pub peak_rss_kib: u64,
}

/// Splats that views were drawn from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SplatSummary {
    /// Splats that were drawn.
    pub splats: u64,
    /// Splats left out: their numbers have no meaning, or one of their scales is a million times the extent of all.
    pub dropped: u64,
    /// Degree of their spherical harmonics, 0-3.
    pub degree: u32,
    /// The filter, as `--splat-filter` has it.
    pub filter: String,
    /// Why it was taken.
    pub reason: String,
    /// Edge of the pictures in pixels.
    pub edge: u32,
}

/// The edge of a texture that the views resolve: at which half of the seen surface has no more texels than pixels in the view
/// that shows it largest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TextureChoice {
    /// The edge that was taken, in texels: of each page.
    pub size: u32,
    /// The edge that was wanted, before rounding and bounds.
    pub wanted: f32,
    /// Pixels on the length of the bounding box's diagonal, of the best view of each place, median over the seen surface.
    pub pixels: f32,
    /// Share of the surface that some view sees, 0-1.
    pub seen: f32,
    /// Views whose picture's size and lens were known.
    pub views: u32,
}

/// How well one view was explained.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewFit {
    /// Index of the view.
    pub view: u32,
    /// Pixels that took part in the fit.
    pub pixels: u32,
    /// PSNR of the fit on them in dB, in sRGB; 0 where no pixel took part.
    pub psnr_db: f32,
    /// Median absolute residual in sRGB, 0-1.
    pub median_residual: f32,
    /// What became of its camera.
    pub camera: CameraFate,
    /// How far the mesh's vertices moved in the picture, root mean square, in pixels.
    pub moved_px: f32,
    /// Exposure that was divided out, in linear light, the mean over the channels; 1 where none was.
    pub gain: f32,
    /// The same of red, green and blue.
    pub channel_gains: [f32; 3],
    /// What the fit did not believe, where that was asked for.
    #[serde(default)]
    pub rejected: Option<Rejected>,
}

/// What the fit did not believe of a view: shares of the pixels that show the mesh, 0-1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rejected {
    /// Occluders, highlights and what else contradicts the other views: mean of one minus the robust weight, over all these
    /// pixels.
    pub outliers: f32,
    /// Pixels that lie on the mesh in part only.
    pub outline: f32,
    /// Pixels that are less than half opaque.
    pub alpha: f32,
    /// Pixels where the surface before simplification lies elsewhere.
    pub surface: f32,
}

/// What became of a view's camera.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CameraFate {
    /// Taken as given: nobody asked.
    #[default]
    Given,
    /// Moved.
    Moved,
    /// Left alone: picture and mesh have the same silhouette.
    Agrees,
    /// Left alone: the picture has no alpha, so no silhouette.
    NoAlpha,
    /// Left alone: there is no silhouette of the mesh in the picture, or too little of one.
    NoSilhouette,
    /// Left alone: no move makes the silhouettes agree, so the mesh has another outline than what the picture shows.
    OtherOutline,
    /// Left alone: it would have to move too far to be trusted.
    TooFar,
}

/// What came of moving cameras and exposures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refinement {
    /// What was asked for.
    pub mode: Refine,
    /// Views whose camera was moved.
    pub cameras_moved: u32,
    /// Views whose camera would have been, but for a reason that [`ViewFit::camera`] names.
    pub cameras_refused: u32,
    /// Of 6 directions that a camera can move in, those that were held because its silhouette does not show them: most of any
    /// view that was moved.
    pub directions_held: u32,
    /// Distance of the two silhouettes before in pixels, median over the views.
    pub silhouette_before_px: Option<f32>,
    /// The same with the cameras as they were used.
    pub silhouette_after_px: Option<f32>,
    /// Largest of [`ViewFit::moved_px`].
    pub largest_move_px: f32,
    /// Whether exposures were evened out.
    pub exposure: ExposureFate,
    /// Standard deviation of the exposures' logarithm, as measured; none where it could not be.
    pub exposure_spread: Option<f32>,
}

/// What became of the exposures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExposureFate {
    /// Evened out.
    Evened,
    /// Left alone: the views are exposed alike, or evening them out would not make them agree better.
    #[default]
    Alike,
    /// Left alone: views do not overlap enough to compare them.
    Unknown,
    /// Left alone: the views are too large to be held at once.
    TooLarge,
}

/// Time of one stage on the GPU, or of one step on the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageTime {
    /// Entry point of its shader, or what the host does.
    pub stage: String,
    /// Sum over all its dispatches or runs, in milliseconds.
    pub ms: f64,
    /// Dispatches or runs.
    pub count: u32,
}

/// Where a bake's pipelines came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipelineCache {
    /// All of them from an earlier process, by the driver's word: it had nothing to add. (A driver that keeps nothing says so, too.)
    Hit,
    /// At least one was compiled, and all are kept for the next process.
    Miss,
    /// All were compiled and none is kept: it is switched off, or a process that was given kept ones has failed.
    Off,
    /// All were compiled: the adapter has no means to keep them.
    Unsupported,
}

/// Shares of the texels inside charts, 0-1, together 1 where there are any. A texel's confidence is the number of pixels that
/// it makes up in all views together: it falls with the angle from which it is seen, with distance and with coarse pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProvenanceShares {
    /// Of one pixel or more.
    pub observed: f32,
    /// Of less than one pixel.
    pub weak: f32,
    /// Seen by none: filled from the neighbours on the surface.
    pub inferred: f32,
}

impl ProvenanceShares {
    /// What a person can do about texels that the views show coarsely or not, and why; nothing where nearly all are
    /// observed. Most of what is not seen faces `unseen_side`.
    pub fn advice(&self, unseen_side: Option<Side>) -> Vec<String> {
        let mut advice = Vec::new();
        let percent = |share: f32| (100.0 * share).round();
        if self.inferred >= NOTABLE {
            let (facing, from) = unseen_side.map_or(("", "there"), Side::words);
            advice.push(format!(
                "no view shows {} % of the texture{facing}: add views {from}, or --remove-unseen what is inside",
                percent(self.inferred)
            ));
        }
        if self.weak >= MOSTLY {
            advice.push(format!(
                "{} % of the texture is finer than the views: a smaller one, or auto, looks as good",
                percent(self.weak)
            ));
        }
        advice
    }
}

/// Share of unseen texels from which on it is worth more views.
const NOTABLE: f32 = 0.02;
/// Share of weak texels from which on a texture is larger than its views are worth.
const MOSTLY: f32 = 0.5;

/// A side of the result, whose y points up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// -y.
    Bottom,
    /// +y.
    Top,
    /// -x.
    NegativeX,
    /// +x.
    PositiveX,
    /// -z.
    NegativeZ,
    /// +z.
    PositiveZ,
}

impl Side {
    /// How a surface on this side faces, and where its views are to be taken from.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Bottom => (", most of it facing down", "from below"),
            Self::Top => (", most of it facing up", "from above"),
            Self::NegativeX => (", most of it facing -x", "from -x"),
            Self::PositiveX => (", most of it facing +x", "from +x"),
            Self::NegativeZ => (", most of it facing -z", "from -z"),
            Self::PositiveZ => (", most of it facing +z", "from +z"),
        }
    }
}

/// How well one channel was explained.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerFit {
    /// Which.
    pub name: Layer,
    /// Views that have it.
    pub views: u32,
    /// Pixels that took part in the fit.
    pub pixels: u64,
    /// PSNR on them in dB: of its bytes, sRGB or plain numbers; 0 where no pixel took part. Channels that were fitted
    /// together have one figure.
    pub psnr_db: f32,
    /// Mean absolute difference across chart seams, 0-1.
    pub seam_residual: f32,
    /// Wall time in seconds; of channels that were fitted together, of all of them.
    pub seconds: f64,
}

/// What was made of the surface before simplification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DetailFigures {
    /// The layers.
    #[serde(deserialize_with = "list")]
    pub layers: Vec<Layer>,
    /// Triangles of the surface.
    pub triangles: u64,
    /// Share of the mesh, by texels, that has a counterpart on it, 0-1.
    pub found: f32,
    /// Mean angle between the mesh's smooth normals and those of the surface, in degrees.
    pub angle_deg: f32,
    /// Wall time in seconds.
    pub seconds: f64,
}

/// Result of bake.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BakeSummary {
    /// The adapter that did it.
    pub adapter: AdapterInfo,
    /// Pixels that took part in the fit.
    pub covered_pixels: u64,
    /// Texels inside charts.
    pub chart_texels: u64,
    /// Chart texels that some pixel observes.
    pub observed_texels: u64,
    /// Chart texels that no pixel observes: filled from their neighbours on the surface.
    pub filled_texels: u64,
    /// Shares of the chart texels by what is known of them; reports of earlier builds have none.
    #[serde(default)]
    pub provenance: ProvenanceShares,
    /// Conjugate gradient iterations in all.
    pub iterations: u32,
    /// What became of the rows; of channels beside the base colour, those of the last set.
    #[serde(default)]
    pub rows: RowsHeld,
    /// PSNR over all fitted pixels in dB, in sRGB, before the texture is rounded to 8 bits.
    pub train_psnr_db: f32,
    /// Mean absolute difference across chart seams in sRGB, 0-1.
    pub seam_residual: f32,
    /// One entry for each view of the fit.
    #[serde(deserialize_with = "list")]
    pub views: Vec<ViewFit>,
    /// What came of moving cameras and exposures; none where nobody asked.
    pub refinement: Option<Refinement>,
    /// What was fitted beside the base colour.
    #[serde(default, deserialize_with = "list")]
    pub channels: Vec<LayerFit>,
    /// What was made of the surface before simplification, if it was asked for.
    #[serde(default)]
    pub detail: Option<DetailFigures>,
    /// Wall time by phase.
    #[serde(deserialize_with = "list")]
    pub times: Vec<PhaseTime>,
    /// Time of each GPU stage by the device's own clock, the longest first, where the job asked for it.
    #[serde(default, deserialize_with = "list")]
    pub gpu_times: Vec<StageTime>,
    /// Wall time of the host's steps within the phases, in the order in which they first ran; waiting for the device is in it.
    #[serde(default, deserialize_with = "list")]
    pub host_times: Vec<StageTime>,
    /// Whether the stages had been compiled by an earlier process; none where the processor bakes, which compiles none.
    #[serde(default)]
    pub pipeline_cache: Option<PipelineCache>,
    /// Wall time in ms from the moment at which the mesh came to the one at which the result was handed over; views that came before
    /// it had been looked at by then.
    #[serde(default)]
    pub from_mesh_ms: f64,
    /// Largest sum of GPU buffers and textures alive at once in KiB; 0 for the native adapter.
    pub peak_vram_kib: u64,
    /// Device memory of the process after the fit by the driver's own account (`VK_EXT_memory_budget`) in KiB, if it gives one.
    /// With channels it is that of the last set's fit.
    #[serde(default)]
    pub driver_vram_kib: Option<u64>,
    /// Written to the device's memory by the host in KiB.
    #[serde(default)]
    pub uploaded_kib: u64,
    /// Read back from it in KiB.
    #[serde(default)]
    pub read_back_kib: u64,
    /// Peak resident memory in KiB.
    pub peak_rss_kib: u64,
}

/// How well the finished texture explains a view.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewScore {
    /// Index of the view.
    pub view: u32,
    /// Pixels compared.
    pub pixels: u32,
    /// PSNR in dB, in sRGB.
    pub psnr_db: f32,
}

/// What a mesh's unwrap is like, and how well its texture hides it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AtlasFigures {
    /// Mean absolute difference of the two sides of the seams at the mip levels 0 to 3, as steps of 8-bit sRGB: both sides looked up
    /// bilinearly along each seam edge. 0 without seams.
    pub seam_residual: [f32; 4],
    /// Length of all seams on the surface, in diagonals of the mesh's bounding box.
    pub seam_length: f32,
    /// Parts of the surface that hang together in the texture.
    pub charts: u64,
    /// Share of the texels whose centre lies in a chart, 0-1.
    pub used: f32,
    /// Spread of the texels per length over the surface: the 95th percentile by area over the 5th; 1 is even, 0 without charts.
    pub density_spread: f32,
}

/// Result of encode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EncodeSummary {
    /// Size of the GLB, or of the PLY or OBJ in its place.
    pub glb_bytes: u64,
    /// Size of the texture's picture within it or beside it, PNG or not.
    pub png_bytes: u64,
    /// The unwrap and its seams, in the texture as it is stored; none of vertex colours.
    pub atlas: Option<AtlasFigures>,
    /// The side that most of the surface faces which no view shows; none where it faces several, or views show all.
    #[serde(default)]
    pub unseen_side: Option<Side>,
    /// One entry for each held-out view.
    #[serde(deserialize_with = "list")]
    pub holdout: Vec<ViewScore>,
    /// Mean of the held-out views' PSNR in dB; none without such views.
    pub holdout_psnr_db: Option<f32>,
    /// One entry for each view of the fit on the report's page, else on the contact sheet: the same measure, by the cameras
    /// and exposures that the fit ended with.
    #[serde(default, deserialize_with = "list")]
    pub shown: Vec<ViewScore>,
    /// Wall time by phase.
    #[serde(deserialize_with = "list")]
    pub times: Vec<PhaseTime>,
    /// Peak resident memory in KiB.
    pub peak_rss_kib: u64,
}

/// How well a mesh explains one view of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareScore {
    /// Index of the view.
    pub view: u32,
    /// Pixels compared.
    pub pixels: u32,
    /// PSNR on them in dB, in sRGB.
    pub psnr_db: f32,
    /// How much brighter the view is than the mesh by channel, in linear light: the gain that explains it best.
    pub gain: [f32; 3],
    /// PSNR in dB after this gain.
    pub psnr_gain_db: f32,
    /// SSIM on them.
    pub ssim: f32,
}

/// One of the meshes that were compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompareModel {
    /// Triangles.
    pub triangles: u64,
    /// Width and height of its textures; several where its materials have several.
    #[serde(deserialize_with = "list")]
    pub textures: Vec<[u32; 2]>,
    /// One entry for each view.
    #[serde(deserialize_with = "list")]
    pub views: Vec<CompareScore>,
    /// Mean over the views' PSNR in dB; none where nothing can be compared.
    pub psnr_db: Option<f32>,
    /// Mean over the views' PSNR in dB after one gain per view and channel; none where nothing can be compared.
    pub psnr_gain_db: Option<f32>,
    /// Mean over the views' SSIM; none where nothing can be compared.
    pub ssim: Option<f32>,
    /// Share of the pixels that are surely on the object and that the mesh does not cover, 0-1.
    pub missing: f32,
    /// Share of the chart texels that lie open to no view, 0-1; none without a texture.
    pub unseen: Option<f32>,
    /// The unwrap and its seams; none without a texture.
    pub atlas: Option<AtlasFigures>,
    /// How far its normals differ from those of the surface that it was simplified from; none where none is named.
    pub normals: Option<NormalFigures>,
}

/// Angles between the normals that a mesh is shaded with and those of the surface that it was simplified from, over the
/// pixels of all views that show both.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NormalFigures {
    /// Pixels that show both.
    pub pixels: u64,
    /// Their mean, in degrees.
    pub mean_deg: f32,
    /// The angle that half of them do not exceed.
    pub median_deg: f32,
    /// The angle that 95 % of them do not exceed.
    pub p95_deg: f32,
}

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareSummary {
    /// One or two meshes, in the order given.
    #[serde(deserialize_with = "list")]
    pub models: Vec<CompareModel>,
    /// Wall time by phase.
    #[serde(deserialize_with = "list")]
    pub times: Vec<PhaseTime>,
    /// Peak resident memory in KiB.
    pub peak_rss_kib: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_given_where_it_holds() {
        let shares = |weak, inferred| ProvenanceShares {
            observed: 1.0 - weak - inferred,
            weak,
            inferred,
        };
        for (shares, side, wanted) in [
            (shares(0.1, 0.01), Some(Side::Bottom), &[][..]),
            (ProvenanceShares::default(), None, &[]),
            (
                shares(0.0, 0.12),
                None,
                &[
                    "no view shows 12 % of the texture: add views there, or --remove-unseen what is inside",
                ],
            ),
            (
                shares(0.6, 0.02),
                Some(Side::Bottom),
                &[
                    "no view shows 2 % of the texture, most of it facing down: add views from below, or --remove-unseen what is inside",
                    "60 % of the texture is finer than the views: a smaller one, or auto, looks as good",
                ],
            ),
        ] {
            assert_eq!(shares.advice(side), wanted);
        }
    }
}
