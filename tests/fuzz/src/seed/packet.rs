//! One packet of each kind and direction.

use proto::job::{
    BakeJob, Blend, CompareJob, Detail, Device, EncodeJob, Frame, Memory, PrepareJob, Product,
    Quality, Refine, Repair, Simplify, TextureFormat, Up, WarmJob,
};
use proto::labels::{Label, Labels};
use proto::message::{
    AdapterInfo, BakeSummary, CameraFate, Code, DetailFigures, Done, EncodeSummary, ExposureFate,
    Failure, FromChild, LayerFit, MeshCounts, MeshStep, NotAFile, Phase, PhaseTime, PrepareSummary,
    ProvenanceShares, Refinement, Refusal, Rejected, Role, Root, Side, SplatSummary, Start,
    StepFate, StepKind, Table, TextureChoice, ToChild, UnwrapMethod, ViewFit, ViewScore,
};
use proto::pages::Pages;
use proto::plan::RowsHeld;
use proto::sandbox::{Level, Sandbox};
use proto::splats::{Harmonics, SplatFilter, SplatOptions, SplatViews};
use proto::table::Layer;
use proto::wire;

use super::Seed;

pub(super) fn add(seeds: &mut Vec<Seed>) {
    let down = to_child().into_iter().map(|packet| wire::encode(&packet));
    let up = from_child().into_iter().map(|packet| wire::encode(&packet));
    for (number, bytes) in down.chain(up).enumerate() {
        let bytes = bytes.expect("it fits");
        seeds.push(("packet", format!("made-{number}"), bytes));
    }
}

fn to_child() -> Vec<ToChild> {
    let start = [
        Start::Prepare(PrepareJob {
            mesh_file: "mesh.glb".to_owned(),
            original_file: None,
            views_file: "transforms.json".to_owned(),
            texture_size: 1024,
            pages: Pages::ONE,
            texture_auto: true,
            surface: true,
            splats: SplatOptions {
                views: SplatViews::Count(40),
                filter: SplatFilter::Mip(0.5),
                harmonics: Harmonics::Constant,
            },
            frame: Frame::Given,
            repair: Repair {
                weld: Some(Repair::WELD),
                orient: true,
                remove_unseen: true,
                fill_holes: Some(Repair::HOLE_SIZE),
                ..Repair::default()
            },
            simplify: Simplify::RemoveShare(0.5),
            keep_uvs: true,
            uv_set: Some(1),
            holdout: 2,
            seed: 7,
            quality: Quality::Standard,
            unwrap_deadline_ms: 20_000,
            layers: true,
            overview: true,
        }),
        Start::Bake(BakeJob {
            product: Product::VertexColours,
            memory: Memory::Small,
            texture_size: Some(512),
            maps: true,
            detail: Detail::Both,
            refine: Refine::On,
            vram_budget: Some(1 << 30),
            gpu_times: true,
            rejected: true,
            dry_run: Some(TextureFormat::Jpeg),
        }),
        Start::Encode(EncodeJob {
            product: Product::Texture,
            blend: Blend::Linear,
            preview: true,
            html: false,
            view_names: vec![Label::name("v.png")],
            maps: true,
            has_refined: true,
            form: proto::job::Form::default(),
            layers: Layer::ALL.to_vec(),
        }),
        Start::Compare(CompareJob {
            first: "a.glb".to_owned(),
            second: Some("b.glb".to_owned()),
            normals_of: Some("high.ply".to_owned()),
            views_file: "transforms.json".to_owned(),
            blend: Blend::Srgb,
            up: Up::Z,
            picture: true,
        }),
    ];
    let mut packets: Vec<ToChild> = start.map(ToChild::Start).into();
    packets.extend([
        ToChild::View { index: 300 },
        ToChild::EndOfViews { count: 40 },
        ToChild::Delivered { views: 40 },
        ToChild::Mesh { texture_size: 1024 },
        ToChild::Grant {
            table: Table::View(3),
        },
        ToChild::Warm(WarmJob {
            device: Device::Name("llvmpipe".to_owned()),
            avoid: vec!["NVIDIA".to_owned(), String::new()],
            nth: 1,
            quality: Quality::Best,
            blend: Blend::Srgb,
        }),
        ToChild::Opened { outcome: Ok(4096) },
        ToChild::Pipelines { keep: true },
    ]);
    packets.extend(
        [
            Refusal::EmptyName,
            Refusal::Unlisted,
            Refusal::NotAFile(NotAFile::Pipe),
            Refusal::TooLarge { size: 9, limit: 8 },
            Refusal::Slow(10),
            Refusal::Os(-5),
            Refusal::Link("is a symbolic link to b, where nothing is".to_owned()),
        ]
        .map(|refusal| ToChild::Opened {
            outcome: Err(refusal),
        }),
    );
    packets
}

fn from_child() -> Vec<FromChild> {
    let mut packets = vec![
        FromChild::Hello {
            version: proto::PROTOCOL_VERSION,
            build_id: "0.1.0+0123456789abcdef".to_owned(),
            role: Role::Bake,
            sandbox: sandbox(),
        },
        FromChild::Ready {
            adapter: adapter(),
            peers: 2,
            sandbox: sandbox(),
            pipelines: Some("wgpu_pipeline_cache_vulkan_65541_0|llvmpipe".to_owned()),
        },
        FromChild::Compiled,
        FromChild::Filled {
            table: Table::Pipelines,
        },
        FromChild::Open {
            root: Root::Views,
            name: "train/r_0.png".to_owned(),
            limit: 512 << 20,
        },
        FromChild::Again,
        FromChild::Delivered { views: 42 },
        FromChild::Filled {
            table: Table::Layer(Layer::Opacity),
        },
        FromChild::Filled {
            table: Table::Colours,
        },
        FromChild::Progress {
            phase: Phase::Fit,
            done: 70_000,
            total: u64::MAX,
        },
        FromChild::Warning {
            text: "odd".to_owned(),
        },
        FromChild::Allocate {
            table: Table::Texture,
            bytes: 5 << 20,
        },
        FromChild::Filled {
            table: Table::View(255),
        },
        FromChild::Failed(Failure {
            code: Code::InvalidAsset,
            message: "mesh.glb: the file is empty".to_owned(),
            hint: String::new(),
        }),
    ];
    packets.extend(summaries().map(FromChild::Done));
    packets
}

fn sandbox() -> Sandbox {
    Sandbox {
        level: Level::Full,
        landlock_abi: 7,
        seccomp_filters: 6,
        allowed_calls: 36,
        missing: "Landlock: no \u{1b}[0m sockets".to_owned(),
    }
}

fn adapter() -> AdapterInfo {
    AdapterInfo {
        // This would change a terminal's colour.
        name: "llvm\u{1b}[31mpipe\n".to_owned(),
        backend: "vulkan".to_owned(),
        kind: "software".to_owned(),
        driver: "Mesa".to_owned(),
    }
}

/// One of each role.
pub(crate) fn summaries() -> [Done; 3] {
    let times = vec![PhaseTime {
        phase: Phase::Raster,
        ms: 12.5,
    }];
    [
        Done::Prepare(PrepareSummary {
            offset: [451_200.0, 96.5, -5_412_300.0],
            labels: Labels {
                node: Label::name("Chair"),
                copyright: Label::credit("© 2026 somebody"),
                ..Labels::default()
            },
            triangles_read: 5856,
            triangles_degenerate: 1,
            triangles: 5855,
            vertices: 9000,
            nonmanifold_edges: 2,
            mesh: vec![MeshStep {
                step: StepKind::FillHoles,
                fate: StepFate::Done,
                changed: 3,
                note: "1 borders stay open that are larger than allowed".to_owned(),
                ms: 12.5,
                before: MeshCounts {
                    triangles: 5852,
                    parts: 1,
                    borders: 4,
                    border_edges: 40,
                    nonmanifold_edges: 2,
                },
                after: MeshCounts::default(),
            }],
            simplify_error: Some(0.25),
            unwrap: UnwrapMethod::Uvunwrap,
            charts: 31,
            atlas_utilisation: 0.75,
            texture: Some(TextureChoice {
                size: 512,
                wanted: 500.0,
                pixels: 300.0,
                seen: 0.5,
                views: 40,
            }),
            splats: Some(SplatSummary {
                splats: 1000,
                dropped: 3,
                degree: 2,
                filter: "mip:0.5".to_owned(),
                reason: "r".to_owned(),
                edge: 512,
            }),
            view_names: vec![Label::name("<b>.png")],
            views: 1,
            holdout_views: 1,
            times: times.clone(),
            peak_rss_kib: 90_000,
        }),
        Done::Bake(BakeSummary {
            adapter: adapter(),
            covered_pixels: 1 << 20,
            chart_texels: 1 << 19,
            observed_texels: 1 << 18,
            filled_texels: 1 << 18,
            provenance: ProvenanceShares {
                observed: 0.25,
                weak: 0.25,
                inferred: 0.5,
            },
            iterations: 64,
            rows: RowsHeld::default(),
            train_psnr_db: 48.5,
            seam_residual: 0.01,
            views: vec![ViewFit {
                view: 0,
                pixels: 4096,
                psnr_db: 40.0,
                median_residual: 0.002,
                camera: CameraFate::Moved,
                moved_px: 1.5,
                gain: 1.05,
                channel_gains: [1.05; 3],
                rejected: Some(Rejected {
                    outliers: 0.5,
                    outline: 0.25,
                    alpha: 0.125,
                    surface: 0.0,
                }),
            }],
            refinement: Some(Refinement {
                mode: Refine::Auto,
                cameras_moved: 1,
                cameras_refused: 0,
                directions_held: 1,
                silhouette_before_px: Some(1.25),
                silhouette_after_px: Some(0.02),
                largest_move_px: 1.5,
                exposure: ExposureFate::Evened,
                exposure_spread: Some(0.05),
            }),
            channels: vec![LayerFit {
                name: Layer::Normal,
                views: 1,
                pixels: 4096,
                psnr_db: 40.0,
                seam_residual: 0.01,
                seconds: 0.5,
            }],
            detail: Some(DetailFigures {
                layers: vec![Layer::Normal, Layer::Occlusion],
                triangles: 375_000,
                found: 0.99,
                angle_deg: 8.0,
                seconds: 1.5,
            }),
            times: times.clone(),
            gpu_times: Vec::new(),
            host_times: Vec::new(),
            pipeline_cache: None,
            from_mesh_ms: 600.0,
            driver_vram_kib: None,
            uploaded_kib: 0,
            read_back_kib: 0,
            peak_vram_kib: 400_000,
            peak_rss_kib: 550_000,
        }),
        Done::Encode(EncodeSummary {
            glb_bytes: 1 << 20,
            png_bytes: 1 << 19,
            atlas: None,
            unseen_side: Some(Side::Bottom),
            holdout: vec![ViewScore {
                view: 1,
                pixels: 4096,
                psnr_db: f32::INFINITY,
            }],
            holdout_psnr_db: Some(f32::NAN),
            shown: vec![ViewScore {
                view: 0,
                pixels: 9,
                psnr_db: 41.5,
            }],
            times,
            peak_rss_kib: 120_000,
        }),
    ]
}
