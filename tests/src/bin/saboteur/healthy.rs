//! The saboteur's correct behaviour: tiny real tables, checked as a real worker checks them.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use kiln_tests::MESH_TEXT;
use kiln_tests::fault::{HOARDER, PIPELINES, SELF_TEST, Step};
use kiln_tests::made;
use proto::blob::BlobFile;
use proto::job::{CompareJob, Device};
use proto::message::{
    AdapterInfo, BakeSummary, CompareSummary, Done, EncodeSummary, FromChild, Phase, PhaseTime,
    PrepareSummary, ProvenanceShares, Role, Root, Start, Table, ToChild, UnwrapMethod, ViewScore,
};
use proto::sandbox::Sandbox;
use proto::table::maps::Maps;
use proto::table::{Camera, Mesh, Simplified, Surface, Texture, View};

use crate::worker::Worker;

pub(crate) fn prepare(worker: &Worker) {
    let job = match worker.receive() {
        (ToChild::Start(Start::Prepare(job)), _) => job,
        (ToChild::Start(Start::Compare(job)), _) => return compare(worker, &job),
        _ => panic!("another job"),
    };
    let proof = worker.plan.proves && job.mesh_file == SELF_TEST;
    worker.spared.set(proof);
    worker.reach(Step::Start);
    let mut text = String::new();
    worker
        .open(Root::Mesh, &job.mesh_file)
        .read_to_string(&mut text)
        .expect("text");
    worker.demand(proof || text == MESH_TEXT, "the mesh is opened");
    drop(worker.open(Root::Views, &job.views_file));
    worker.progress(Phase::LoadMesh, 1, 1);
    worker.reach(Step::Work);
    let surface = surface(worker.plan.simplified);
    worker.put(Table::Surface, &bytes_of(|out| surface.write(out)));
    let put_mesh = || worker.put(Table::Mesh, &bytes_of(|out| mesh().write(out)));
    if !worker.plan.mesh_last {
        put_mesh();
    }
    let fit = match job.mesh_file.as_str() {
        HOARDER => worker.plan.hoards,
        _ => worker.plan.views,
    };
    let total = fit + job.holdout;
    for index in 0..total {
        // Held-out views in the middle, and all in reverse: any order is legal.
        let index = total - 1 - index;
        let mut view = view(index, index != 0 && index <= job.holdout);
        if worker.lying.get() {
            view.index += 1;
        }
        worker.put(Table::View(index), &bytes_of(|out| view.write(out)));
        worker.progress(
            Phase::DecodeViews,
            u64::from(total - index),
            u64::from(total),
        );
    }
    worker.send(&FromChild::Delivered { views: total });
    if worker.plan.mesh_last {
        put_mesh();
    }
    worker.reach(Step::Filled);
    worker.done(summary(Role::Prepare, fit, job.holdout));
}

/// Follows the protocol as far as its faults need it: an answer without meshes is refused.
fn compare(worker: &Worker, job: &CompareJob) {
    worker.reach(Step::Start);
    drop(worker.open(Root::Mesh, &job.first));
    worker.progress(Phase::LoadMesh, 1, 1);
    worker.reach(Step::Work);
    worker.done(Done::Compare(CompareSummary {
        models: Vec::new(),
        times: Vec::new(),
        peak_rss_kib: 1,
    }));
}

pub(crate) fn bake(worker: &Worker) {
    let (ToChild::Warm(wish), _) = worker.receive() else {
        panic!("bake is warmed first")
    };
    let mut gpus = gpus(worker.plan.gpus);
    gpus.retain(|gpu| wish.device != Device::Cpu && !wish.avoid.contains(&gpu.name));
    let gpu = !gpus.is_empty();
    let keeps = gpu && worker.plan.pipelines;
    let peers = gpus.len().max(1);
    let chosen = (gpus.into_iter())
        .nth(wish.nth as usize % peers)
        .unwrap_or_else(native);
    worker.send(&FromChild::Ready {
        adapter: chosen.clone(),
        peers: peers as u32,
        sandbox: Sandbox::off(),
        pipelines: keeps.then(|| "a saboteur's driver".to_owned()),
    });
    if keeps {
        compile(worker);
    }
    worker.send(&FromChild::Compiled);
    if gpu {
        worker.reach(Step::Ready);
    }
    let (ToChild::Start(Start::Bake(job)), fds) = worker.receive() else {
        panic!("another job")
    };
    worker.reach(Step::Start);
    let table = |fds: Vec<OwnedFd>| {
        let [fd] = <[OwnedFd; 1]>::try_from(fds).expect("one table");
        let table = BlobFile::open(fd).expect("sealed in size");
        worker.demand(
            table.writer().write_all(&[0]).is_err(),
            "a table is frozen once it is handed on",
        );
        table
    };
    let shown = Surface::read(&mut table(fds).reader()).expect("a surface");
    worker.demand(
        shown == surface(worker.plan.simplified),
        "the surface is as prepare wrote it",
    );
    let mut texture_size = None;
    let views = receive(worker, |message, fds| match message {
        ToChild::Mesh { texture_size: edge } => {
            worker.demand(
                Mesh::read(&mut table(fds).reader()).expect("a mesh") == mesh(),
                "the mesh is as prepare wrote it",
            );
            worker.demand(texture_size.replace(edge).is_none(), "it comes once");
        }
        ToChild::Delivered { views } => worker.demand(
            views == worker.plan.views,
            "it is told how many views there are",
        ),
        other => panic!("{other:?} among the views"),
    });
    worker.demand(texture_size.is_some(), "the mesh comes before the end");
    let size = texture_size.unwrap_or_default();
    let mut indices: Vec<u32> = views.iter().map(|view| view.index).collect();
    indices.sort_unstable();
    worker.demand(
        views.iter().all(|view| !view.holdout),
        "bake gets no view that is held out",
    );
    worker.demand(
        indices.len() == worker.plan.views as usize,
        "bake gets every view of the fit once",
    );
    indices.dedup();
    worker.demand(indices.len() == views.len(), "no view comes twice");
    worker.progress(Phase::Fit, 1, 2);
    worker.reach(Step::Work);
    let count = size as usize * size as usize;
    let texture = Texture {
        size,
        texels: vec![[7, 8, 9, 255]; count],
        provenance: vec![3; count],
        maps: job.maps.then(|| Maps {
            coverage: vec![66; count],
            residual: vec![2; count],
        }),
    };
    if job.rejected {
        for view in &views {
            let table = Table::Rejected(view.index);
            worker.put(table, &made::picture(&format!("{table:?}")));
        }
    }
    worker.put(Table::Texture, &bytes_of(|out| texture.write(out)));
    worker.progress(Phase::Fit, 2, 2);
    worker.reach(Step::Filled);
    let mut done = summary(Role::Bake, worker.plan.views, 0);
    if let Done::Bake(bake) = &mut done {
        bake.adapter = chosen;
    }
    worker.done(done);
}

pub(crate) fn encode(worker: &Worker) {
    let (ToChild::Start(Start::Encode(job)), fds) = worker.receive() else {
        panic!("another job")
    };
    worker.reach(Step::Start);
    let [first, second] = <[OwnedFd; 2]>::try_from(fds).expect("mesh and texture");
    let read = |fd| BlobFile::open(fd).expect("sealed in size");
    worker.demand(
        Mesh::read(&mut read(first).reader()).expect("a mesh") == mesh(),
        "the mesh comes first",
    );
    let texture = Texture::read(&mut read(second).reader()).expect("a texture");
    worker.demand(
        texture.texels[0] == [7, 8, 9, 255],
        "the texture is as bake wrote it",
    );
    let views = receive(worker, |other, _| panic!("{other:?} among the views"));
    worker.progress(Phase::Glb, 1, 2);
    worker.reach(Step::Work);
    let mut held: Vec<u32> = views
        .iter()
        .filter(|view| view.holdout)
        .map(|view| view.index)
        .collect();
    let mut shown: Vec<u32> = views
        .iter()
        .filter(|view| !view.holdout)
        .map(|view| view.index)
        .collect();
    held.sort_unstable();
    shown.sort_unstable();
    worker.put(Table::Glb, &made::model(&held, &shown));
    if job.preview {
        let sheet = made::picture(&format!("shown {shown:?}"));
        worker.put(Table::Preview, &sheet);
    }
    if job.maps {
        for table in [Table::Coverage, Table::Residual, Table::Provenance] {
            worker.put(table, &made::picture(&format!("{table:?}")));
        }
    }
    worker.progress(Phase::Glb, 2, 2);
    worker.reach(Step::Filled);
    let holdout = u32::try_from(held.len()).expect("few");
    worker.done(summary(Role::Encode, 0, holdout));
}

/// Receives all views; passes other messages to `other`.
fn receive(worker: &Worker, mut other: impl FnMut(ToChild, Vec<OwnedFd>)) -> Vec<View> {
    let mut views = Vec::new();
    loop {
        match worker.receive() {
            (ToChild::View { index }, fds) => {
                let blob =
                    BlobFile::open(fds.into_iter().next().expect("an fd")).expect("sealed in size");
                let view = View::read(&mut blob.reader()).expect("a view");
                worker.demand(
                    view == self::view(index, view.holdout),
                    "a view is as prepare wrote it",
                );
                views.push(view);
            }
            (ToChild::EndOfViews { count }, _) => {
                worker.demand(
                    count as usize == views.len(),
                    "the end tells how many views were sent",
                );
                return views;
            }
            (message, fds) => other(message, fds),
        }
    }
}

/// Asks for memory, tries to change its size, and tries to change its bytes after handing it over.
pub(crate) fn tamper(worker: &Worker) {
    let table = Table::Surface;
    let bytes = bytes_of(|out| surface(worker.plan.simplified).write(out));
    worker.send(&FromChild::Allocate {
        table,
        bytes: bytes.len() as u64,
    });
    let (_, fds) = worker.receive();
    let file = File::from(fds.into_iter().next().expect("an fd"));
    let keep = file.try_clone().expect("an fd");
    worker.demand(file.set_len(1).is_err(), "granted memory does not shrink");
    worker.demand(
        file.set_len(1 << 20).is_err(),
        "granted memory does not grow",
    );
    let blob = BlobFile::open(file.into()).expect("sealed in size");
    blob.writer().write_all(&bytes).expect("room");
    worker.send(&FromChild::Filled { table });
    // The answer to the next request proves that the previous message was processed.
    let mesh = bytes_of(|out| mesh().write(out));
    worker.send(&FromChild::Allocate {
        table: Table::Mesh,
        bytes: mesh.len() as u64,
    });
    let (_, fds) = worker.receive();
    worker.demand((&keep).write_all(&[0]).is_err(), "a filled table is frozen");
    let blob = BlobFile::open(fds.into_iter().next().expect("an fd")).expect("sealed in size");
    blob.writer().write_all(&mesh).expect("room");
    worker.send(&FromChild::Filled { table: Table::Mesh });
    let view = view(0, false);
    worker.put(Table::View(0), &bytes_of(|out| view.write(out)));
    worker.send(&FromChild::Delivered { views: 1 });
    worker.done(summary(Role::Prepare, 1, 0));
    std::process::exit(0);
}

fn bytes_of(write: impl FnOnce(&mut Vec<u8>) -> Result<(), proto::table::TableError>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes).expect("memory takes all");
    bytes
}

fn mesh() -> Mesh {
    Mesh {
        positions: vec![[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
        normals: vec![[0.0, 0.0, 1.0]; 3],
        uvs: vec![[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]],
        surface_vertices: vec![0, 1, 2],
        triangles: vec![[0, 1, 2]],
        charts: 1,
    }
}

fn surface(simplified: bool) -> Surface {
    Surface {
        positions: mesh().positions,
        triangles: vec![[0, 1, 2]],
        simplified: simplified.then(|| Simplified {
            positions: mesh().positions,
            triangles: vec![[0, 1, 2]],
        }),
    }
}

fn view(index: u32, holdout: bool) -> View {
    let camera = Camera {
        rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        translation: [0.0, 0.0, 2.0],
        focal: [2.0, 2.0],
        centre: [1.0, 1.0],
    };
    let shade = u8::try_from(index % 256).expect("below 256");
    let pixels = vec![[shade, 1, 2, 255]; 4];
    View {
        index,
        width: 2,
        height: 2,
        crop: [0, 0],
        has_alpha: true,
        holdout,
        camera,
        pixels,
    }
}

/// Takes cached pipelines, which must be another process's, or hands over its own.
fn compile(worker: &Worker) {
    let (ToChild::Pipelines { keep }, fds) = worker.receive() else {
        panic!("whether pipelines are kept comes first")
    };
    let mut kept = Vec::new();
    for fd in fds {
        let blob = BlobFile::open(fd).expect("sealed in size");
        worker.demand(
            blob.writer().write_all(&[0]).is_err(),
            "kept pipelines are frozen",
        );
        blob.reader().read_to_end(&mut kept).expect("memory");
    }
    worker.demand(kept.is_empty() || keep, "nothing is kept");
    worker.demand(kept.is_empty() || kept == PIPELINES, "they are as written");
    let given = if kept.is_empty() {
        "given nothing"
    } else {
        "given pipelines"
    };
    worker.warn(given);
    worker.reach(Step::Compile);
    if keep && kept.is_empty() {
        worker.put(Table::Pipelines, PIPELINES);
    }
}

/// `saboteur`, or `saboteur #1` and so on.
fn gpus(count: u32) -> Vec<AdapterInfo> {
    let name = |number| match count {
        1 => "saboteur".to_owned(),
        _ => format!("saboteur #{number}"),
    };
    (1..=count)
        .map(|number| adapter(&name(number), "vulkan", "discrete"))
        .collect()
}

fn native() -> AdapterInfo {
    adapter("saboteur", "native", "native")
}

fn adapter(name: &str, backend: &str, kind: &str) -> AdapterInfo {
    AdapterInfo {
        name: name.to_owned(),
        backend: backend.to_owned(),
        kind: kind.to_owned(),
        driver: String::new(),
    }
}

pub(crate) fn summary(role: Role, views: u32, holdout: u32) -> Done {
    let times = vec![PhaseTime {
        phase: Phase::Start,
        ms: 1.0,
    }];
    match role {
        Role::Prepare => Done::Prepare(PrepareSummary {
            triangles_read: 1,
            triangles: 1,
            vertices: 3,
            unwrap: UnwrapMethod::Fallback,
            charts: 1,
            atlas_utilisation: 0.5,
            views,
            holdout_views: holdout,
            times,
            peak_rss_kib: 1000,
            ..PrepareSummary::default()
        }),
        Role::Bake => Done::Bake(BakeSummary {
            adapter: native(),
            covered_pixels: 4,
            chart_texels: 10,
            observed_texels: 9,
            filled_texels: 1,
            provenance: ProvenanceShares {
                observed: 0.9,
                weak: 0.0,
                inferred: 0.1,
            },
            iterations: 3,
            train_psnr_db: 42.0,
            times,
            peak_rss_kib: 2000,
            ..BakeSummary::default()
        }),
        Role::Encode => Done::Encode(EncodeSummary {
            glb_bytes: 12,
            png_bytes: 10,
            holdout: (0..holdout)
                .map(|view| ViewScore {
                    view,
                    pixels: 4,
                    psnr_db: 40.0,
                })
                .collect(),
            holdout_psnr_db: (holdout > 0).then_some(40.0),
            times,
            peak_rss_kib: 1500,
            ..EncodeSummary::default()
        }),
    }
}
