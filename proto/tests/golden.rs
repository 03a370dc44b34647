//! The bytes of every message, pinned: a change of the wire format is a visible diff here, never an accident.
//!
//! To pin a new form on purpose: run, and copy the bytes that the failure prints.

use std::fmt::Debug;
use std::fmt::Write as _;

use proto::job::{
    AlphaMode, BakeJob, Blend, CompareJob, Compress, Container, Detail, Device, EncodeJob, Form,
    Frame, Memory, PrepareJob, Product, Quality, Refine, Repair, Simplify, TextureFormat, Up,
    WarmJob,
};
use proto::labels::{Label, Labels};
use proto::message::{
    AdapterInfo, AtlasFigures, BakeSummary, CameraFate, Code, CompareModel, CompareScore,
    CompareSummary, DetailFigures, Done, EncodeSummary, ExposureFate, Failure, FromChild, LayerFit,
    MeshCounts, MeshStep, NormalFigures, NotAFile, Phase, PhaseTime, PipelineCache, PrepareSummary,
    ProvenanceShares, Refinement, Refusal, Rejected, Role, Root, Side, SplatSummary, StageTime,
    Start, StepFate, StepKind, Table, TextureChoice, ToChild, UnwrapMethod, ViewFit, ViewScore,
};
use proto::pages::Pages;
use proto::plan::{BakePlan, BufferBytes, BufferGroup, DriverAccount, PhaseSeconds, RowsHeld};
use proto::sandbox::{Level, Sandbox};
use proto::splats::{Harmonics, SplatFilter, SplatOptions, SplatViews};
use proto::table::Layer;
use proto::wire;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn labels() -> Labels {
    Labels {
        node: Label::name("n"),
        title: Label::credit("t"),
        ..Labels::default()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("memory takes all");
        text
    })
}

/// Compares all, then complains about all.
fn pinned<T: Serialize + DeserializeOwned + PartialEq + Debug>(cases: &[(T, &str)]) {
    let mut wrong = Vec::new();
    for (message, golden) in cases {
        let bytes = wire::encode(message).expect("fits");
        let back: T = wire::decode(&bytes).expect("its own bytes");
        assert_eq!(&back, message);
        if hex(&bytes) != *golden {
            wrong.push(format!(
                "{message:?}\n    is     {}\n    not    {golden}",
                hex(&bytes)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn times() -> Vec<PhaseTime> {
    vec![PhaseTime {
        phase: Phase::Fit,
        ms: 1.5,
    }]
}

fn sandbox() -> Sandbox {
    Sandbox {
        level: Level::Full,
        landlock_abi: 7,
        seccomp_filters: 4,
        allowed_calls: 36,
        missing: "x".into(),
    }
}

#[test]
fn messages_to_a_child() {
    let prepare = PrepareJob {
        mesh_file: "m.glb".into(),
        original_file: Some("h.glb".into()),
        views_file: "t.json".into(),
        texture_size: 1024,
        pages: Pages::try_from(4).expect("a square"),
        texture_auto: true,
        surface: true,
        splats: SplatOptions {
            views: SplatViews::Count(40),
            filter: SplatFilter::Mip(0.5),
            harmonics: Harmonics::Constant,
        },
        frame: Frame::Given,
        repair: Repair {
            weld: Some(0.5),
            orient: true,
            remove_unseen: true,
            fill_holes: Some(0.25),
            hole_edges: 250,
            up: Up::Z,
        },
        simplify: Simplify::RemoveShare(0.5),
        keep_uvs: true,
        uv_set: Some(1),
        holdout: 2,
        seed: 3,
        quality: Quality::Best,
        unwrap_deadline_ms: 20_000,
        layers: true,
        overview: true,
    };
    let bake = BakeJob {
        product: Product::VertexColours,
        memory: Memory::Small,
        texture_size: Some(512),
        maps: true,
        detail: Detail::Normal,
        refine: Refine::On,
        vram_budget: Some(9),
        gpu_times: true,
        rejected: true,
        dry_run: Some(TextureFormat::Jpeg),
    };
    let warm = WarmJob {
        device: Device::Name("H200".into()),
        avoid: vec!["x".into()],
        nth: 5,
        quality: Quality::Best,
        blend: Blend::Srgb,
    };
    pinned(&[
        (
            ToChild::Start(Start::Prepare(prepare)),
            "0000056d2e676c620105682e676c6206742e6a736f6efb0004040101023430076d69703a302e350101010000003f0101010000803efa01020000003f010101020302fb204e0101",
        ),
        (
            ToChild::Start(Start::Bake(bake)),
            "0001010101fb0002010102010901010101",
        ),
        (
            ToChild::Start(Start::Encode(EncodeJob {
                product: Product::Texture,
                blend: Blend::Linear,
                preview: true,
                html: true,
                view_names: vec![Label::name("v.png")],
                maps: false,
                has_refined: true,
                form: Form {
                    container: Container::Obj,
                    texture: TextureFormat::Jpeg,
                    quality: 90,
                    compress: Compress::Meshopt,
                    provenance: true,
                    pages: Pages::try_from(9).expect("a square"),
                    stem: "a".into(),
                    alpha: AlphaMode::Mask,
                    alpha_cutoff: 0.5,
                    offset: [0.0, 1.5, 0.0],
                    labels: labels(),
                },
                layers: vec![Layer::Normal, Layer::Opacity],
            })),
            "0002000001010105762e706e67000102015a0101090161020000003f0000000000000000000000000000f83f0000000000000000016e0000000000000174020104",
        ),
        (
            ToChild::Start(Start::Compare(CompareJob {
                first: "a.glb".into(),
                second: Some("b.glb".into()),
                normals_of: Some("h.glb".into()),
                views_file: "t.json".into(),
                blend: Blend::Srgb,
                up: Up::Z,
                picture: true,
            })),
            "000305612e676c620105622e676c620105682e676c6206742e6a736f6e010101",
        ),
        (ToChild::View { index: 4095 }, "01fbff0f"),
        (ToChild::EndOfViews { count: 40 }, "0228"),
        (ToChild::Grant { table: Table::Mesh }, "0300"),
        (
            ToChild::Grant {
                table: Table::Surface,
            },
            "0301",
        ),
        (
            ToChild::Grant {
                table: Table::View(7),
            },
            "030207",
        ),
        (
            ToChild::Grant {
                table: Table::Texture,
            },
            "0303",
        ),
        (ToChild::Grant { table: Table::Glb }, "0304"),
        (
            ToChild::Grant {
                table: Table::Preview,
            },
            "0305",
        ),
        (
            ToChild::Grant {
                table: Table::Colours,
            },
            "0306",
        ),
        (
            ToChild::Grant {
                table: Table::Coverage,
            },
            "0307",
        ),
        (
            ToChild::Grant {
                table: Table::Residual,
            },
            "0308",
        ),
        (
            ToChild::Grant {
                table: Table::Layer(Layer::Emissive),
            },
            "030b02",
        ),
        (ToChild::Warm(warm), "04030448323030010178050201"),
        (
            ToChild::Opened {
                outcome: Ok(70_000),
            },
            "0500fc70110100",
        ),
        (
            ToChild::Opened {
                outcome: Err(Refusal::NotAFile(NotAFile::Pipe)),
            },
            "05010501",
        ),
        (
            ToChild::Opened {
                outcome: Err(Refusal::TooLarge { size: 9, limit: 8 }),
            },
            "0501060908",
        ),
        (
            ToChild::Opened {
                outcome: Err(Refusal::Os(13)),
            },
            "0501081a",
        ),
        (ToChild::Pipelines { keep: true }, "0601"),
        (ToChild::Mesh { texture_size: 300 }, "08fb2c01"),
        (ToChild::Delivered { views: 40 }, "0728"),
        (
            ToChild::Sealed {
                table: Table::Picture(3),
            },
            "090903",
        ),
    ]);
}

#[test]
fn messages_from_a_child() {
    let prepare = PrepareSummary {
        offset: [0.0, 1.5, 0.0],
        labels: labels(),
        triangles_read: 100,
        triangles_degenerate: 1,
        triangles: 50,
        vertices: 60,
        nonmanifold_edges: 2,
        mesh: vec![MeshStep {
            step: StepKind::RemoveUnseen,
            fate: StepFate::Refused,
            changed: 7,
            note: "n".into(),
            ms: 1.5,
            before: MeshCounts {
                triangles: 1,
                parts: 2,
                borders: 3,
                border_edges: 4,
                nonmanifold_edges: 5,
            },
            after: MeshCounts::default(),
        }],
        simplify_error: Some(0.25),
        unwrap: UnwrapMethod::Uvunwrap,
        charts: 5,
        atlas_utilisation: 0.5,
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
        view_names: vec![Label::name("v.png")],
        views: 40,
        holdout_views: 2,
        times: times(),
        peak_rss_kib: 1000,
    };
    let adapter = AdapterInfo {
        name: "a".into(),
        backend: "vulkan".into(),
        kind: "discrete".into(),
        driver: "d".into(),
    };
    let bake = BakeSummary {
        adapter: adapter.clone(),
        covered_pixels: 1,
        chart_texels: 2,
        observed_texels: 3,
        filled_texels: 4,
        provenance: ProvenanceShares {
            observed: 0.5,
            weak: 0.25,
            inferred: 0.25,
        },
        iterations: 5,
        rows: RowsHeld {
            rows: 9,
            kept: 8,
            views: 7,
            views_redrawn: 6,
            left_out: 5,
            parts: 7,
        },
        train_psnr_db: 50.0,
        seam_residual: 0.125,
        views: vec![ViewFit {
            view: 1,
            pixels: 2,
            psnr_db: 3.0,
            median_residual: 0.5,
            camera: CameraFate::Moved,
            moved_px: 1.5,
            gain: 1.0,
            channel_gains: [1.0; 3],
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
            cameras_refused: 2,
            directions_held: 3,
            silhouette_before_px: Some(0.5),
            silhouette_after_px: None,
            largest_move_px: 1.5,
            exposure: ExposureFate::Unknown,
            exposure_spread: Some(0.25),
        }),
        channels: vec![LayerFit {
            name: Layer::Occlusion,
            views: 4,
            pixels: 5,
            psnr_db: 40.0,
            seam_residual: 0.5,
            seconds: 1.5,
        }],
        detail: Some(DetailFigures {
            layers: vec![Layer::Normal],
            triangles: 6,
            found: 0.5,
            angle_deg: 8.5,
            seconds: 2.5,
        }),
        times: times(),
        gpu_times: vec![StageTime {
            stage: "apply".into(),
            ms: 0.5,
            count: 3,
        }],
        host_times: vec![StageTime {
            stage: "fill".into(),
            ms: 1.5,
            count: 1,
        }],
        pipeline_cache: Some(PipelineCache::Miss),
        from_mesh_ms: 0.25,
        driver_vram_kib: Some(8),
        uploaded_kib: 9,
        read_back_kib: 10,
        peak_vram_kib: 6,
        peak_rss_kib: 7,
    };
    let encode = EncodeSummary {
        glb_bytes: 300,
        png_bytes: 200,
        atlas: Some(AtlasFigures {
            seam_residual: [1.0, 2.0, 3.0, 4.0],
            seam_length: 0.5,
            charts: 40,
            used: 0.5,
            density_spread: 2.0,
        }),
        unseen_side: Some(Side::Top),
        holdout: vec![ViewScore {
            view: 1,
            pixels: 2,
            psnr_db: 3.0,
        }],
        holdout_psnr_db: None,
        shown: vec![ViewScore {
            view: 4,
            pixels: 5,
            psnr_db: 6.0,
        }],
        times: times(),
        peak_rss_kib: 7,
    };
    let compare = CompareSummary {
        models: vec![CompareModel {
            triangles: 12,
            textures: vec![[4, 5]],
            views: vec![CompareScore {
                view: 1,
                pixels: 2,
                psnr_db: 3.0,
                gain: [1.0, 0.5, 2.0],
                psnr_gain_db: 4.0,
                ssim: 0.5,
            }],
            psnr_db: Some(3.0),
            psnr_gain_db: Some(4.0),
            ssim: None,
            missing: 0.5,
            unseen: Some(0.25),
            atlas: None,
            normals: Some(NormalFigures {
                pixels: 8,
                mean_deg: 0.5,
                median_deg: 0.25,
                p95_deg: 2.0,
            }),
        }],
        times: times(),
        peak_rss_kib: 7,
    };
    let plan = BakePlan {
        adapter: adapter.clone(),
        texture_size: 256,
        driver: Some(DriverAccount {
            used_kib: 1,
            free_kib: 2,
        }),
        budget_kib: Some(3),
        buffers: vec![BufferBytes {
            group: BufferGroup::ReadBack,
            count: 1,
            bytes: 300,
        }],
        peak_vram_kib: 4,
        rows: RowsHeld::default(),
        sampled_views: 5,
        passes: 6,
        textures: 1,
        seconds: vec![PhaseSeconds {
            phase: Phase::Fit,
            seconds: 1.5,
        }],
        bake_rss_kib: 7,
        encode_rss_kib: 8,
        peak_rss_kib: 9,
    };
    let failure = Failure {
        code: Code::InvalidAsset,
        message: "no".into(),
        hint: String::new(),
    };
    pinned(&[
        (
            FromChild::Hello {
                version: 1,
                build_id: "0.1.0+00".into(),
                role: Role::Bake,
                sandbox: sandbox(),
            },
            "000108302e312e302b303001030704240178",
        ),
        (
            FromChild::Progress {
                phase: Phase::Commit,
                done: 1,
                total: 70_000,
            },
            "011301fc70110100",
        ),
        (FromChild::Warning { text: "odd".into() }, "02036f6464"),
        (
            FromChild::Allocate {
                table: Table::View(300),
                bytes: 1 << 30,
            },
            "0302fb2c01fc00000040",
        ),
        (
            FromChild::Filled {
                table: Table::Texture,
            },
            "0403",
        ),
        (
            FromChild::Done(Done::Prepare(prepare)),
            "05000000000000000000000000000000f83f0000000000000000016e00000000000001746401323c0201020307016e000000000000f83f01020304050000000000010000803e00050000003f01fb00020000fa43000096430000003f2801fbe8030302076d69703a302e350172fb00020105762e706e672802010c000000000000f83ffbe803",
        ),
        (
            FromChild::Done(Done::Bake(bake)),
            "050101610676756c6b616e0864697363726574650164010203040000003f0000803e0000803e05090807060507000048420000003e010102000040400000003f010000c03f0000803f0000803f0000803f0000803f010000003f0000803e0000003e000000000101010203010000003f000000c03f02010000803e01030405000020420000003f000000000000f83f010101060000003f000008410000000000000440010c000000000000f83f01056170706c79000000000000e03f03010466696c6c000000000000f83f010101000000000000d03f060108090a07",
        ),
        (
            FromChild::Done(Done::Encode(encode)),
            "0502fb2c01c8010000803f0000004000004040000080400000003f280000003f00000040010101010200004040000104050000c040010c000000000000f83f07",
        ),
        (
            FromChild::Done(Done::Compare(compare)),
            "0503010c010405010102000040400000803f0000003f00000040000080400000003f01000040400100008040000000003f010000803e0001080000003f0000803e00000040010c000000000000f83f07",
        ),
        (
            FromChild::Done(Done::Plan(plan)),
            "050401610676756c6b616e0864697363726574650164fb00010101020103010801fb2c0104000000000000050601010c000000000000f83f070809",
        ),
        (FromChild::Again, "09"),
        (FromChild::Failed(failure), "0601026e6f00"),
        (
            FromChild::Ready {
                adapter,
                peers: 6,
                sandbox: sandbox(),
                pipelines: Some("k".into()),
            },
            "0701610676756c6b616e08646973637265746501640603070424017801016b",
        ),
        (
            FromChild::Filled {
                table: Table::Pipelines,
            },
            "040e",
        ),
        (
            FromChild::Filled {
                table: Table::Refined,
            },
            "040f",
        ),
        (FromChild::Compiled, "0b"),
        (FromChild::Delivered { views: 42 }, "0c2a"),
        (
            FromChild::Verified {
                table: Table::Glb,
                sha256: std::array::from_fn(|k| k as u8),
            },
            "0d04000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        ),
        (
            FromChild::Open {
                root: Root::Views,
                name: "a.png".into(),
                limit: 300,
            },
            "080105612e706e67fb2c01",
        ),
    ]);
}

#[test]
fn small_words() {
    for (number, phase) in (0_u8..).zip(Phase::ALL) {
        assert_eq!(wire::encode(&phase).expect("fits"), [number], "{phase:?}");
        let json = serde_json_word(&phase);
        assert_eq!(json, phase.name(), "one word in packets, logs and JSON");
    }
    for (number, code) in (0_u8..).zip(Code::ALL) {
        assert_eq!(wire::encode(&code).expect("fits"), [number], "{code:?}");
    }
}

/// The word that serde gives a unit variant, without quotes.
fn serde_json_word<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value)
        .expect("a word")
        .trim_matches('"')
        .to_owned()
}

#[test]
#[should_panic(expected = "is     ")]
fn another_byte_is_noticed() {
    pinned(&[(ToChild::View { index: 1 }, "0102")]);
}
