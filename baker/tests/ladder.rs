//! The ladder's rungs from files to files: prepare, bake and encode in this process, over channels, with a supervisor that only
//! opens files and keeps tables.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use baker::bake::plan::warm::Warm;
use baker::worker::progress::Silent;
use baker::worker::session::Session;
use baker::{bake, encode, prepare};
use proto::blob::Blob;
use proto::channel::Channel;
use proto::job::{BakeJob, Device, EncodeJob, Memory, PrepareJob, Product, Quality, WarmJob};
use proto::message::{BakeSummary, EncodeSummary, Failure, FromChild, Refusal, Table, ToChild};
use proto::table::{Mesh, ViewHeader};
use serde_json::Value;

const TEXTURE: u32 = 256;

fn data(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests")
        .join(of)
}

/// What a role has made.
type Tables = HashMap<Table, Blob>;

/// Runs a role that is sent `mesh` if it asks for none by itself, and `views`, and keeps what it fills.
fn role<T>(
    mesh: Option<&Blob>,
    views: &[&Blob],
    run: impl FnOnce(&Session) -> Result<T, Failure>,
) -> (T, Tables) {
    let (ours, theirs) = Channel::pair().expect("sockets");
    let session = Session::over(theirs);
    thread::scope(|scope| {
        let supervisor = scope.spawn(move || supervise(&ours, mesh, views));
        let done = run(&session).expect("the role does its work");
        drop(session);
        (done, supervisor.join().expect("no panic"))
    })
}

fn supervise(channel: &Channel, mesh: Option<&Blob>, views: &[&Blob]) -> Tables {
    fn send(channel: &Channel, message: &ToChild, fds: &[BorrowedFd<'_>]) {
        channel.send(message, fds).expect("is received");
    }
    if let Some(mesh) = mesh {
        let message = ToChild::Mesh {
            texture_size: TEXTURE,
        };
        send(channel, &message, &[mesh.as_fd()]);
    }
    for (index, view) in (0..).zip(views) {
        send(channel, &ToChild::View { index }, &[view.as_fd()]);
    }
    let count = views.len() as u32;
    send(channel, &ToChild::EndOfViews { count }, &[]);
    let mut tables = Tables::new();
    while let Ok(message) = channel.receive::<FromChild>() {
        match message {
            FromChild::Allocate { table, bytes } => {
                let blob = Blob::create("table", bytes).expect("memory");
                send(channel, &ToChild::Grant { table }, &[blob.as_fd()]);
                tables.insert(table, blob);
            }
            FromChild::Open { name, .. } => {
                let Ok(file) = File::open(data("data/spot").join(name)) else {
                    // Masks are looked for beside each picture.
                    let outcome = Err(Refusal::Missing);
                    send(channel, &ToChild::Opened { outcome }, &[]);
                    continue;
                };
                let outcome = Ok(file.metadata().expect("its size").len());
                send(channel, &ToChild::Opened { outcome }, &[file.as_fd()]);
            }
            FromChild::Filled { table } if table.is_file() => {
                tables[&table].seal_written().expect("no mapping");
                send(channel, &ToChild::Sealed { table }, &[]);
            }
            FromChild::Verified { table, sha256 } => {
                assert_eq!(sha256, proto::blob::sha256(&bytes(&tables[&table])));
            }
            _ => {}
        }
    }
    tables
}

fn fd(of: impl AsFd) -> OwnedFd {
    of.as_fd().try_clone_to_owned().expect("a descriptor")
}

/// Tables of the small set that is kept in the repository, three views of it held out.
fn prepared() -> Tables {
    let job = PrepareJob {
        mesh_file: "mesh_nouv.glb".to_owned(),
        views_file: "transforms.json".to_owned(),
        texture_size: TEXTURE,
        holdout: 3,
        unwrap_deadline_ms: 60_000,
        layers: true,
        ..PrepareJob::default()
    };
    role(None, &[], |session| prepare::run(session, &job)).1
}

/// The views in their order, held-out ones or the others.
fn views(tables: &Tables, holdout: bool) -> Vec<&Blob> {
    let is_wanted = |blob: &&Blob| {
        let header = ViewHeader::read(&mut blob.reader()).expect("a view");
        header.holdout == holdout
    };
    (0..)
        .map_while(|index| tables.get(&Table::View(index)))
        .filter(is_wanted)
        .collect()
}

fn baked(tables: &Tables, product: Product, memory: Memory) -> (BakeSummary, Tables) {
    let wanted = WarmJob {
        device: Device::Cpu,
        quality: Quality::Draft,
        ..WarmJob::default()
    };
    let job = BakeJob {
        product,
        memory,
        maps: true,
        ..BakeJob::default()
    };
    let warm = Warm::up(&wanted, &Silent).expect("the processor opens");
    let mesh = Some(&tables[&Table::Mesh]);
    role(mesh, &views(tables, false), |session| {
        bake::run(session, warm, &job, vec![fd(&tables[&Table::Surface])])
    })
}

fn encoded(tables: &Tables, product: Product, baked: &Blob) -> (EncodeSummary, Tables) {
    let job = EncodeJob {
        product,
        preview: true,
        maps: true,
        ..EncodeJob::default()
    };
    let mut views = views(tables, true);
    views.extend(self::views(tables, false).into_iter().take(2));
    let fds = vec![fd(&tables[&Table::Mesh]), fd(baked)];
    role(None, &views, |session| encode::run(session, &job, fds))
}

fn bytes(blob: &Blob) -> Vec<u8> {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut blob.reader(), &mut bytes).expect("memory");
    bytes
}

/// What the Khronos validator says of a file.
fn validate(path: &Path) -> (bool, String) {
    let folder = data("validator");
    assert!(
        folder.join("node_modules/gltf-validator").is_dir(),
        "the validator is not installed: `npm ci --ignore-scripts` in tests/validator, or ./run.sh test"
    );
    let mut command = Command::new("node");
    command.arg(folder.join("validate.mjs")).arg(path);
    let output = command.output().expect("node runs");
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), words)
}

#[test]
fn vertex_colours_become_a_valid_glb_with_scores_and_a_sheet() {
    let tables = prepared();
    let (summary, made) = baked(&tables, Product::VertexColours, Memory::Small);
    assert_eq!(made.len(), 1);
    let mesh = Mesh::read(&mut tables[&Table::Mesh].reader()).expect("a table");
    let points = mesh
        .surface_vertices
        .iter()
        .max()
        .map_or(0, |most| most + 1);
    assert!(
        summary.observed_texels > 2000 && summary.covered_pixels > 100_000,
        "{summary:?}"
    );
    assert_eq!(
        (
            summary.adapter.kind.as_str(),
            summary.views.len(),
            summary.iterations
        ),
        ("native", 13, 0)
    );

    let (summary, files) = encoded(&tables, Product::VertexColours, &made[&Table::Colours]);
    // 22.0 dB was measured; colours that are not decoded to linear light give 15.1.
    let psnr = summary.holdout_psnr_db.expect("three views are held out");
    assert!((21.5..30.0).contains(&psnr), "{psnr} dB on held-out views");
    assert_eq!((summary.png_bytes, summary.holdout.len()), (0, 3));
    assert!(bytes(&files[&Table::Preview]).starts_with(b"\x89PNG\r\n\x1a\n"));
    assert_eq!(files.len(), 2, "there are no maps of vertex colours");

    let glb = bytes(&files[&Table::Glb]);
    let json = u32::from_le_bytes(glb[12..16].try_into().expect("four bytes")) as usize;
    let json: Value = serde_json::from_slice(&glb[20..20 + json]).expect("JSON");
    let attributes = &json["meshes"][0]["primitives"][0]["attributes"];
    let accessor = &json["accessors"][attributes["COLOR_0"].as_u64().expect("colours") as usize];
    assert_eq!(
        accessor["count"].as_u64(),
        Some(points as u64),
        "one vertex for each point of the surface"
    );
    assert!(json["textures"].is_null() && json["images"].is_null());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("colours.glb");
    std::fs::write(&path, &glb).expect("written");
    let (clean, words) = validate(&path);
    assert!(clean, "{words}");
    // The validator looks at the colours: told that they are three floats it finds them too long for their bytes.
    let text = String::from_utf8_lossy(&glb[20..]);
    let colours = text.find("VEC4").expect("four components");
    let begin = text[..colours].rfind('{').expect("an accessor");
    let end = colours + text[colours..].find('}').expect("an accessor");
    let lie = text[begin..end].find("5123").expect("numbers of 16 bits") + begin + 20;
    let mut lying = glb;
    lying[lie..lie + 4].copy_from_slice(b"5126");
    std::fs::write(&path, &lying).expect("written");
    assert!(
        !validate(&path).0,
        "floats where numbers of 16 bits are passed"
    );
}
