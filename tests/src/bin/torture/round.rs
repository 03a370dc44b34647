//! One supervisor with a list of jobs: starts it, sends signals, records it to its end, and inspects what is left.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use kiln_tests::chance::Chance;
use kiln_tests::fault::Committed;
use kiln_tests::history::{Expect, Line, digest, digest_of, now_us};
use kiln_tests::{Bench, MESH_TEXT, made, names_in, sample, signal_if_there, splats, words};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::plan::{self, Trouble};
use crate::writer::Writer;

/// Which processes get the faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Saboteurs,
    Workers,
    Supervisor,
}

/// See the head of the program.
#[derive(Debug)]
pub(crate) struct Torture {
    writer: Writer,
    programs: PathBuf,
    /// Digest of the real workers' result, by what they are given.
    golden: BTreeMap<Given, String>,
}

/// What real workers are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Given {
    /// A mesh and views of it.
    Views,
    /// A mesh and Gaussian splats.
    Splats,
}

impl Given {
    const ALL: [Self; 2] = [Self::Views, Self::Splats];

    /// Mesh and views; files that are made are put into `folder`.
    fn files(self, folder: &Path) -> [PathBuf; 2] {
        match self {
            Self::Views => ["mesh_nouv.glb", "transforms.json"].map(sample),
            Self::Splats => splats::write(folder),
        }
    }
}

struct Job {
    name: String,
    folder: PathBuf,
    given: Given,
    trouble: Trouble,
    alive: Option<File>,
    /// Process id of the latest process of each role.
    pids: BTreeMap<String, i32>,
}

impl Torture {
    pub(crate) fn new(writer: Writer) -> Self {
        let program = std::env::current_exe().expect("a program has a path");
        Self {
            writer,
            programs: program.parent().expect("a folder").to_path_buf(),
            golden: BTreeMap::new(),
        }
    }

    pub(crate) fn faults(&self) -> u64 {
        self.writer.faults
    }

    pub(crate) fn round(&mut self, number: u64, kind: Kind, chance: &mut Chance) {
        let (count, parallel) = match kind {
            Kind::Saboteurs => (64, 8),
            Kind::Workers => (6, 2),
            Kind::Supervisor => (4, 4),
        };
        if kind == Kind::Workers && self.golden.is_empty() {
            self.golden = Given::ALL.map(|given| (given, undisturbed(given))).into();
        }
        let folder = tempfile::Builder::new()
            .prefix("kiln-torture-")
            .tempdir()
            .expect("a folder");
        self.writer.write(&Line::Round {
            round: number,
            kind: format!("{kind:?}").to_lowercase(),
        });
        let mut jobs: Vec<Job> = (0..count)
            .map(|index| {
                let trouble = match kind {
                    Kind::Saboteurs => plan::saboteurs(chance),
                    Kind::Workers => plan::workers(chance),
                    Kind::Supervisor => plan::none(),
                };
                let given = chance.of(&Given::ALL);
                self.job(&folder, format!("{number}-{index}"), kind, (given, trouble))
            })
            .collect();
        // The supervisor is killed after this many of its lines.
        let end = (kind == Kind::Supervisor).then(|| chance.below(90));
        self.run(&folder, kind, parallel, &mut jobs, end);
        for job in &jobs {
            self.look_over(job);
        }
    }

    fn job(
        &mut self,
        round: &TempDir,
        name: String,
        kind: Kind,
        (given, trouble): (Given, Trouble),
    ) -> Job {
        let folder = round.path().join(&name);
        fs::create_dir_all(folder.join("out")).expect("a folder");
        let real = kind == Kind::Workers;
        let program = if real { "kiln-baker" } else { "saboteur" };
        symlink(self.programs.join(program), folder.join("kiln-baker")).expect("a link");
        let mut alive = None;
        if !real {
            let plan = serde_json::to_string(&trouble.plan).expect("a plan is JSON");
            fs::write(folder.join("kiln-baker.json"), plan).expect("a plan");
            fs::write(folder.join("mesh.glb"), MESH_TEXT).expect("a mesh");
            fs::write(folder.join("transforms.json"), "{}").expect("views");
            for pipe in ["alive", "told"] {
                mkfifo(&folder.join(pipe), Mode::S_IRWXU).expect("a pipe");
            }
            alive = Some(kiln_tests::alive_in(&folder));
            // A pipe reports a hang-up only once somebody has held its other end: a supervisor may die before any
            // saboteur starts.
            drop(
                fs::OpenOptions::new()
                    .write(true)
                    .open(folder.join("alive")),
            );
        }
        let golden = match real {
            true => self.golden[&given].clone(),
            false => digest(&made::model(&[1], &[])),
        };
        self.writer.write(&Line::Accepted {
            job: name.clone(),
            expect: trouble.expect,
            golden,
        });
        Job {
            name,
            folder,
            given,
            trouble,
            alive,
            pids: BTreeMap::new(),
        }
    }

    /// Runs the supervisor over the jobs, and records what it reports until its end.
    fn run(
        &mut self,
        round: &TempDir,
        kind: Kind,
        parallel: usize,
        jobs: &mut [Job],
        shot_after: Option<usize>,
    ) {
        let list: Vec<Value> = jobs.iter().map(|job| entry(job, kind)).collect();
        let path = round.path().join("jobs.json");
        fs::write(&path, Value::Array(list).to_string()).expect("a list");
        let mut child = Command::new(self.programs.join("kiln"))
            .args([
                "bake",
                "--json",
                "--parallel",
                &parallel.to_string(),
                "--jobs",
            ])
            .arg(&path)
            .arg("--crash-folder")
            .arg(round.path().join("crashes"))
            .args((kind != Kind::Workers).then_some("--insecure-no-sandbox"))
            .args(jobs.iter().map(|job| {
                let baker = job.folder.join("kiln-baker");
                format!("--baker-of={}={}", job.name, baker.display())
            }))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kiln starts");
        let mut errors = child.stderr.take().expect("piped");
        let drain = std::thread::spawn(move || errors.read_to_end(&mut Vec::new()));
        let stdout = child.stdout.take().expect("piped");
        let (holds, killed) = self.watch(&mut child, stdout, jobs, shot_after);
        let status = child.wait().expect("reaped");
        let began = now_us();
        for alive in jobs.iter().filter_map(|job| job.alive.as_ref()) {
            kiln_tests::wait_all_gone(alive);
        }
        let gone = now_us() - began;
        drain.join().expect("joined").expect("a pipe");
        self.writer.write(&Line::Ended {
            exit: status.code(),
            signal: status.signal(),
            killed,
            workers_left: if killed { 0 } else { workers_of(round.path()) },
            workers_gone_us: gone,
            holds,
        });
    }

    fn watch(
        &mut self,
        child: &mut Child,
        stdout: ChildStdout,
        jobs: &mut [Job],
        shot_after: Option<usize>,
    ) -> (Vec<Value>, bool) {
        let (mut holds, mut killed) = (Vec::new(), false);
        for (number, line) in BufReader::new(stdout)
            .lines()
            .map_while(Result::ok)
            .enumerate()
        {
            let event: Value =
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if shot_after == Some(number) {
                killed = child.kill().is_ok();
            }
            if event["event"] == "host" {
                holds.push(event["holds"].clone());
                continue;
            }
            // Of all jobs together.
            if event["event"] == "sum" {
                continue;
            }
            let name = event["job"].as_str().unwrap_or_default();
            let Some(job) = jobs.iter_mut().find(|job| job.name == name) else {
                panic!("a line about no job: {line}");
            };
            match event["event"].as_str() {
                Some("done" | "error") => self.writer.write(&Line::Terminal {
                    job: job.name.clone(),
                    event: short(event),
                }),
                Some("started" | "working" | "killing" | "ended" | "retry" | "progress") => {
                    if event["event"] == "started" {
                        let pid = event["pid"]
                            .as_i64()
                            .and_then(|pid| i32::try_from(pid).ok());
                        let role = event["role"].as_str().unwrap_or_default().to_owned();
                        job.pids.insert(role, pid.expect("a process id"));
                    }
                    if event["event"] != "progress" {
                        self.writer.write(&Line::Told {
                            job: job.name.clone(),
                            event: event.clone(),
                        });
                    }
                    self.shoot(job, &event);
                }
                _ => {}
            }
        }
        // If it had already ended by itself, the kill had no effect.
        (holds, killed)
    }

    fn shoot(&mut self, job: &mut Job, event: &Value) {
        let Some(shot) = job.trouble.shot else { return };
        let role = shot.role.name();
        if event["event"] != shot.when || event["role"] != role {
            return;
        }
        job.trouble.shot = None;
        let Some(pid) = job.pids.get(role).copied() else {
            return;
        };
        let at_us = now_us();
        if is_of(&job.folder, pid) && signal_if_there(pid, shot.signal) {
            self.writer.write(&Line::Fault {
                job: job.name.clone(),
                role: shot.role,
                attempt: 1,
                fault: format!("kill {}", shot.signal.as_str()),
                at_us,
            });
        }
    }

    /// Records what the saboteurs did, and what is at the result's place.
    fn look_over(&mut self, job: &Job) {
        let committed = fs::read_to_string(job.folder.join("faults")).unwrap_or_default();
        for line in committed.lines() {
            let Committed {
                role,
                attempt,
                fault,
                at_us,
            } = serde_json::from_str(line).expect("a fault");
            self.writer.write(&Line::Fault {
                job: job.name.clone(),
                role,
                attempt,
                fault,
                at_us,
            });
        }
        let out = job.folder.join("out");
        let mut temporary = names_in(&out);
        temporary.retain(|name| name != "out.glb");
        if job.trouble.expect == Expect::Either {
            // A supervisor that is killed while writing cannot clean up; the next one does.
            temporary.clear();
        }
        self.writer.write(&Line::Output {
            job: job.name.clone(),
            digest: digest_of(&out.join("out.glb")).expect("readable"),
            temporary,
        });
    }
}

/// Digest of the real workers' result, without any fault.
fn undisturbed(given: Given) -> String {
    let bench = Bench::real();
    let [mesh, views] = given.files(&bench.path(""));
    let draft = words("--texture-size 256 --quality draft");
    bench.baked(mesh, views, &draft).assert_code(0);
    digest(&bench.bytes("out/out.glb").expect("a result"))
}

fn entry(job: &Job, kind: Kind) -> Value {
    let mut entry = json!({
        "name": job.name,
        "output": job.folder.join("out/out.glb"),
        "texture-size": 256,
        "device": "cpu",
    });
    let more = if kind == Kind::Workers {
        let [mesh, views] = job.given.files(&job.folder);
        json!({ "mesh": mesh, "views": views, "quality": "draft" })
    } else {
        json!({
            "mesh": job.folder.join("mesh.glb"),
            "views": job.folder.join("transforms.json"),
            "holdout": 1,
        })
    };
    if let (Value::Object(entry), Value::Object(more)) = (&mut entry, more) {
        entry.extend(more);
    }
    entry
}

/// Keeps of a long report only what the rules read.
fn short(event: Value) -> Value {
    if event["event"] == "done" {
        json!({ "event": "done", "attempts": event["report"]["attempts"] })
    } else {
        event
    }
}

/// Whether the process still runs a worker of this job: its pid may have been reused.
fn is_of(folder: &Path, pid: i32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.starts_with(folder.to_string_lossy().as_bytes())
}

/// Number of processes that run a worker of this round.
fn workers_of(round: &Path) -> u64 {
    let entries = fs::read_dir("/proc").expect("/proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_of(round, *pid)).count() as u64
}
