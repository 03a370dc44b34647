//! Shapes and views made to hit one loop each, from files to files: between two units of work lies half a second of one
//! processor's time at most, or what was announced of a library's call. All in one test: another beside it would be
//! charged to its units.

use std::collections::HashMap;
use std::f64::consts::TAU;
use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use baker::bake::plan::warm::Warm;
use baker::worker::progress::{Silent, record};
use baker::worker::session::Session;
use baker::{bake, compare, encode, prepare};
use nix::time::ClockId;
use proto::blob::Blob;
use proto::channel::Channel;
use proto::job::{
    BakeJob, Blend, CompareJob, Detail, Device, EncodeJob, Memory, PrepareJob, Quality, Repair,
    Simplify, Up, WarmJob,
};
use proto::message::{Code, FromChild, Refusal, Table, ToChild};
use proto::recorder::{RECORDER_BYTES, Recorder, read_state};
use proto::splats::{SplatOptions, SplatViews};
use serde_json::json;

/// On one processor, between two units: a quarter of the silence that the supervisor allows where nothing is announced.
const LIMIT: Duration = Duration::from_millis(500);
/// Calls of libraries, which do not tell of their work; what is announced of them is four times what they take, or more.
const CALLS: [&str; 1] = ["flattening"];
/// How often the account is looked at.
const LOOK: Duration = Duration::from_millis(2);

type Tables = HashMap<Table, Blob>;

/// Time of all threads of this process on the processors.
fn used() -> Duration {
    let now = ClockId::CLOCK_PROCESS_CPUTIME_ID.now();
    Duration::from(now.expect("the clock of the process"))
}

/// The longest silences by phase and label, each with what was announced of it. They are never told longer than they were.
fn listen(account: &File, over: &AtomicBool) -> HashMap<String, (Duration, Duration)> {
    let mut longest: HashMap<String, (Duration, Duration)> = HashMap::new();
    let (mut work, mut since) = (0, Duration::MAX);
    while !over.load(Ordering::Relaxed) {
        let now = used();
        let state = read_state(account).expect("the account");
        if let Some(state) = state {
            if state.work != work {
                (work, since) = (state.work, used());
            }
            let silent = now.saturating_sub(since);
            let key = format!("{}: {}", state.phase().name(), state.label());
            let known = longest.entry(key).or_default();
            *known = (*known).max((silent, Duration::from_millis(state.predicted_ms)));
        }
        thread::sleep(LOOK);
    }
    longest
}

/// Runs a role that is sent what it asks for, `mesh` and `views`; what it fills.
fn role(
    folder: &Path,
    mesh: Option<(&Blob, u32)>,
    views: &[&Blob],
    run: impl FnOnce(&Session),
) -> Tables {
    let (ours, theirs) = Channel::pair().expect("sockets");
    let session = Session::over(theirs);
    thread::scope(|scope| {
        let supervisor = scope.spawn(move || supervise(folder, &ours, mesh, views));
        run(&session);
        drop(session);
        supervisor.join().expect("no panic")
    })
}

fn supervise(
    folder: &Path,
    channel: &Channel,
    mesh: Option<(&Blob, u32)>,
    views: &[&Blob],
) -> Tables {
    let send = |message: &ToChild, fds: &[BorrowedFd<'_>]| {
        channel.send(message, fds).expect("is received");
    };
    if let Some((mesh, texture_size)) = mesh {
        send(&ToChild::Mesh { texture_size }, &[mesh.as_fd()]);
    }
    for (index, view) in (0..).zip(views) {
        send(&ToChild::View { index }, &[view.as_fd()]);
    }
    let count = views.len() as u32;
    send(&ToChild::EndOfViews { count }, &[]);
    let mut tables = Tables::new();
    while let Ok(message) = channel.receive::<FromChild>() {
        match message {
            FromChild::Allocate { table, bytes } => {
                let blob = Blob::create("table", bytes).expect("memory");
                send(&ToChild::Grant { table }, &[blob.as_fd()]);
                tables.insert(table, blob);
            }
            FromChild::Open { name, .. } => {
                let Ok(file) = File::open(folder.join(name)) else {
                    // Masks are looked for beside each picture.
                    let outcome = Err(Refusal::Missing);
                    send(&ToChild::Opened { outcome }, &[]);
                    continue;
                };
                let outcome = Ok(file.metadata().expect("its size").len());
                send(&ToChild::Opened { outcome }, &[file.as_fd()]);
            }
            FromChild::Filled { table } if table.is_file() => {
                send(&ToChild::Sealed { table }, &[]);
            }
            _ => {}
        }
    }
    tables
}

fn fd(of: impl AsFd) -> OwnedFd {
    of.as_fd().try_clone_to_owned().expect("a descriptor")
}

/// What is baked, and how.
struct Case {
    name: &'static str,
    /// Lines of an OBJ.
    mesh: String,
    texture_size: u32,
    views: Views,
    quality: Quality,
    /// Everything that takes triangles away or adds some, and layers of what was there before.
    mended: bool,
}

#[derive(Clone, Copy)]
enum Views {
    Pinholes,
    Fisheye,
    Panorama,
    /// Drawn of splats.
    Splats,
}

impl Views {
    fn file(self) -> String {
        let name = match self {
            Self::Splats => SPLATS,
            Self::Pinholes | Self::Fisheye | Self::Panorama => "transforms.json",
        };
        name.to_owned()
    }
}

impl Case {
    fn new(name: &'static str, mesh: impl Into<String>, texture_size: u32) -> Self {
        Self {
            name,
            mesh: mesh.into(),
            texture_size,
            views: Views::Pinholes,
            quality: Quality::Draft,
            mended: false,
        }
    }

    fn of_views(views: Views, name: &'static str, texture_size: u32) -> Self {
        Self {
            views,
            ..Self::new(name, SQUARE, texture_size)
        }
    }

    fn mended(self) -> Self {
        Self {
            mended: true,
            ..self
        }
    }

    fn detail(&self) -> Detail {
        match self.mended {
            true => Detail::Both,
            false => Detail::Off,
        }
    }
}

fn job(case: &Case) -> PrepareJob {
    let mending = Repair {
        weld: Some(Repair::WELD),
        orient: true,
        remove_unseen: true,
        fill_holes: Some(Repair::HOLE_SIZE),
        ..Repair::default()
    };
    PrepareJob {
        mesh_file: "mesh.obj".to_owned(),
        views_file: case.views.file(),
        texture_size: case.texture_size,
        splats: SplatOptions {
            views: SplatViews::Count(2),
            ..SplatOptions::default()
        },
        repair: if case.mended {
            mending
        } else {
            Repair::default()
        },
        simplify: match case.mended {
            true => Simplify::RemoveShare(0.5),
            false => Simplify::Keep,
        },
        holdout: 1,
        quality: case.quality,
        unwrap_deadline_ms: 60_000,
        layers: true,
        ..PrepareJob::default()
    }
}

/// Prepares, bakes, encodes and compares.
fn walk(case: &Case) {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::write(folder.join("mesh.obj"), &case.mesh).expect("a mesh");
    write_views(folder, case.views);
    let Case {
        texture_size,
        quality,
        ..
    } = *case;
    let tables = role(folder, None, &[], |session| {
        prepare::run(session, &job(case)).expect("it is prepared");
    });
    let views: Vec<&Blob> = (0..)
        .map_while(|index| tables.get(&Table::View(index)))
        .collect();
    let splats = || tables.get(&Table::Splats).map(fd);
    let wanted = WarmJob {
        device: Device::Cpu,
        quality,
        ..WarmJob::default()
    };
    let job = BakeJob {
        memory: Memory::Small,
        maps: true,
        detail: case.detail(),
        ..BakeJob::default()
    };
    let warm = Warm::up(&wanted, &Silent).expect("the processor opens");
    let mesh = &tables[&Table::Mesh];
    let baked = role(folder, Some((mesh, texture_size)), &views, |session| {
        let fds = [fd(&tables[&Table::Surface])].into_iter().chain(splats());
        bake::run(session, warm, &job, fds.collect()).expect("it is baked");
    });
    let job = EncodeJob {
        preview: true,
        maps: true,
        ..EncodeJob::default()
    };
    let fds = [fd(mesh), fd(&baked[&Table::Texture])].into_iter();
    let fds = fds.chain(splats()).collect();
    let encoded = role(folder, None, &views[..2], |session| {
        encode::run(session, &job, fds).expect("it is encoded");
    });
    let model = &mut encoded[&Table::Glb].reader();
    let mut file = File::create(folder.join("model.glb")).expect("room");
    io::copy(model, &mut file).expect("room");
    let job = CompareJob {
        normals_of: None,
        first: "model.glb".to_owned(),
        second: None,
        views_file: case.views.file(),
        blend: Blend::Linear,
        up: Up::Y,
        picture: true,
    };
    role(folder, None, &[], |session| {
        // What is mended may be smaller than a pixel.
        if let Err(failure) = compare::run(session, &job) {
            assert_eq!(failure.code, Code::InvalidAsset, "{failure:?}");
        }
    });
}

fn write_views(folder: &Path, views: Views) {
    match views {
        Views::Pinholes => write_pinholes(folder),
        Views::Fisheye => write_wide(
            folder,
            [1200, 1200],
            &json!({"camera_model": "OPENCV_FISHEYE",
            "fl_x": 650.0, "fl_y": 650.0, "k1": 0.02, "k2": -0.01}),
        ),
        Views::Panorama => {
            write_wide(
                folder,
                [3072, 1536],
                &json!({"camera_model": "EQUIRECTANGULAR"}),
            );
        }
        Views::Splats => write_splats(folder),
    }
}

/// Splats close together on a ball, nearly opaque, as the reference code writes them.
fn write_splats(folder: &Path) {
    let (positions, _) = kiln_atlas::surface::icosphere(3);
    let names =
        "x y z f_dc_0 f_dc_1 f_dc_2 opacity scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3";
    let properties = names
        .split(' ')
        .map(|name| format!("property float {name}\n"));
    let mut bytes = format!(
        "ply\nformat binary_little_endian 1.0\nelement vertex {}\n{}end_header\n",
        positions.len(),
        properties.collect::<String>()
    )
    .into_bytes();
    let size = 0.1_f32.ln();
    for at in positions {
        let row = [at, at, [3.0, size, size], [size, 1.0, 0.0], [0.0; 3]];
        bytes.extend(
            row.concat()[..14]
                .iter()
                .flat_map(|value| value.to_le_bytes()),
        );
    }
    fs::write(folder.join(SPLATS), bytes).expect("room");
}

/// Two pictures by a lens that sees much of what lies about the origin in the plane z = 0.
fn write_wide(folder: &Path, [width, height]: [u32; 2], lens: &serde_json::Value) {
    let picture = image::RgbImage::from_fn(width, height, |x, y| {
        image::Rgb([(x >> 3) as u8, (y >> 3) as u8, 77])
    });
    picture.save(folder.join("0.png")).expect("a picture");
    fs::copy(folder.join("0.png"), folder.join("1.png")).expect("room");
    let frame = |number: u32| {
        let x = 0.1 - 0.2 * f64::from(number);
        json!({"file_path": format!("{number}.png"), "transform_matrix": [
            [1.0, 0.0, 0.0, x], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 2.0], [0.0, 0.0, 0.0, 1.0]]})
    };
    let mut file = lens.clone();
    file["frames"] = json!([frame(0), frame(1)]);
    fs::write(folder.join("transforms.json"), file.to_string()).expect("cameras");
}

/// Four pictures of what lies about the origin in the plane z = 0.
fn write_pinholes(folder: &Path) {
    let frames = (0..4).map(|number| {
        let name = format!("{number}.png");
        let picture = image::RgbImage::from_fn(128, 128, |x, y| {
            image::Rgb([(7 * x) as u8, (5 * y) as u8, (x * y) as u8])
        });
        picture.save(folder.join(&name)).expect("a picture");
        let (sin, cos) = (0.3 * (f64::from(number) - 1.5)).sin_cos();
        json!({"file_path": name, "transform_matrix": [
            [cos, 0.0, sin, 3.0 * sin], [0.0, 1.0, 0.0, 0.0], [-sin, 0.0, cos, 3.0 * cos], [0.0, 0.0, 0.0, 1.0]]})
    });
    let file = json!({"camera_angle_x": 0.8, "frames": frames.collect::<Vec<_>>()});
    fs::write(folder.join("transforms.json"), file.to_string()).expect("cameras");
}

/// The lines of points on the unit circle.
fn ring(count: u32) -> String {
    (0..count).fold(String::new(), |mut lines, k| {
        let (sin, cos) = (TAU * f64::from(k) / f64::from(count)).sin_cos();
        writeln!(lines, "v {cos} {sin} 0").expect("memory takes all");
        lines
    })
}

/// Triangles that share the middle of a disk.
fn fan(count: u32) -> String {
    let hub = count + 1;
    let faces = (1..=count).map(|k| format!("f {hub} {k} {}\n", k % count + 1));
    format!("{}v 0 0 0\n{}", ring(count), faces.collect::<String>())
}

/// One face of so many corners.
fn polygon(corners: u32) -> String {
    let names: String = (1..=corners).map(|k| format!(" {k}")).collect();
    format!("{}f{names}\n", ring(corners))
}

/// Thin teeth on a back that all of them share.
fn comb(teeth: u32) -> String {
    let place = |k: u32| 2.0 * f64::from(k) / f64::from(teeth) - 1.0;
    let mut lines = "v -1 -1 0\nv 1 -1 0\n".to_owned();
    for tooth in 0..teeth {
        let [left, right] = [place(tooth), place(tooth + 1)];
        let tip = f64::midpoint(left, right);
        writeln!(lines, "v {left} -0.9 0\nv {tip} 1 0").expect("memory takes all");
    }
    writeln!(lines, "v 1 -0.9 0").expect("memory takes all");
    for tooth in 0..teeth {
        let first = 2 * tooth + 3;
        writeln!(
            lines,
            "f 1 {} {first}\nf {first} {} {}",
            first + 2,
            first + 2,
            first + 1
        )
        .expect("memory takes all");
    }
    writeln!(lines, "f 1 2 {}", 2 * teeth + 3).expect("memory takes all");
    lines
}

/// Needles anywhere, none of which touches another.
fn needles(count: u32) -> String {
    let mut lines = String::new();
    for k in 0..count {
        let turn = 2.399_963 * f64::from(k);
        let radius = (f64::from(k) / f64::from(count)).sqrt();
        let [x, y] = [radius * turn.cos() / 2.0, radius * turn.sin() / 2.0];
        let (sin, cos) = (7.0 * turn).sin_cos();
        let (z, first) = (f64::from(k) * 1e-6, 3 * k + 1);
        writeln!(
            lines,
            "v {x} {y} {z}\nv {} {} {z}\nv {} {} {z}\nf {first} {} {}",
            x + cos / 2.0,
            y + sin / 2.0,
            x + cos / 2.0 - 1e-3 * sin,
            y + sin / 2.0 + 1e-3 * cos,
            first + 1,
            first + 2
        )
        .expect("memory takes all");
    }
    lines
}

/// A ball that cuts of all ways compete for.
fn ball(level: u32) -> String {
    let (positions, triangles) = kiln_atlas::surface::icosphere(level);
    let mut lines = String::new();
    for [x, y, z] in positions {
        writeln!(lines, "v {x} {y} {z}").expect("memory takes all");
    }
    for [a, b, c] in triangles {
        writeln!(lines, "f {} {} {}", a + 1, b + 1, c + 1).expect("memory takes all");
    }
    lines
}

const SPLATS: &str = "splats.ply";
const SQUARE: &str = "v -1 -1 0\nv 1 -1 0\nv 1 1 0\nv -1 1 0\nf 1 2 3\nf 1 3 4\n";

fn cases() -> Vec<Case> {
    vec![
        Case::new("a fan", fan(40_000), 512),
        Case::new("a mended fan", fan(20_000), 256).mended(),
        Case::new("a polygon", polygon(20_000), 512),
        Case::new("a comb", comb(10_000), 1024),
        Case::new("a mended comb", comb(10_000), 256).mended(),
        Case::new("needles", needles(5_000), 1024),
        Case::new("mended needles", needles(1_000), 256).mended(),
        // A quarter of the largest texture: that takes a minute and a half of one processor, and 12 GiB.
        Case::new("one chart", SQUARE, 4096),
        Case {
            quality: Quality::Standard,
            ..Case::new("a ball", ball(5), 512)
        },
        Case::of_views(Views::Fisheye, "a fisheye", 256),
        Case::of_views(Views::Panorama, "a panorama", 256),
        Case {
            views: Views::Splats,
            ..Case::new("splats of a ball", ball(3), 256)
        },
    ]
}

#[test]
#[expect(
    clippy::print_stdout,
    reason = "shown where it fails: what was silent for how long"
)]
fn no_shape_keeps_a_worker_silent() {
    // Work of one thread is what a machine with one processor waits for.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1);
    pool.build_global().expect("the first pool of this process");
    let blob = Blob::create("recorder", RECORDER_BYTES).expect("memory");
    record(Recorder::new(fd(&blob)));
    let account = File::from(fd(&blob));
    let mut late = Vec::new();
    for case in cases() {
        let name = case.name;
        let (over, begun) = (AtomicBool::new(false), used());
        let silences = thread::scope(|scope| {
            let listener = scope.spawn(|| listen(&account, &over));
            let walked = catch_unwind(AssertUnwindSafe(|| walk(&case)));
            over.store(true, Ordering::Relaxed);
            walked.unwrap_or_else(|panic| resume_unwind(panic));
            listener.join().expect("no panic")
        });
        let longest = silences.iter().max_by_key(|(_, (silent, _))| silent);
        println!("{name}: {:?} in all; {longest:?}", used() - begun);
        assert!(silences.len() > 10, "{name}: {silences:?}");
        for (what, (silent, announced)) in silences {
            let is_call = CALLS.iter().any(|call| what.ends_with(call));
            let limit = if is_call { announced.max(LIMIT) } else { LIMIT };
            if silent > limit {
                late.push(format!("{name}: {what}: {silent:?} of {limit:?}"));
            }
        }
    }
    assert!(late.is_empty(), "{late:#?}");
}
