//! A fleet on one machine: a real NATS server, a store (a folder, or moto's S3), and hosts, each a bench with its sidecar and a
//! real `kiln worker`.

pub mod chaos;
mod gate;
mod nats;
mod program;
mod s3;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

pub use self::gate::{Gate, Passage};
pub use self::nats::{Nats, Wire};
pub use self::program::{Program, free_port};
pub use self::s3::{Proxy, S3, Spoil, Spoilt};
use crate::fault::Plan;
use crate::sidecar::Sidecar;
use crate::{Bench, DEADLINE, Outcome, Run};

/// Where a fleet is: what its commands and its workers are told.
#[derive(Clone, Debug)]
pub struct Site {
    variables: Vec<(&'static str, String)>,
}

impl Site {
    /// With a folder as store.
    pub fn with_folder(nats: &Nats, folder: &Path) -> Self {
        Self {
            variables: vec![
                ("KILN_QUEUE", nats.address()),
                ("KILN_STORE", folder.display().to_string()),
            ],
        }
    }

    /// With S3 at this port.
    pub fn with_s3(nats: &Nats, port: u16) -> Self {
        let text = str::to_owned;
        Self {
            variables: vec![
                ("KILN_QUEUE", nats.address()),
                ("KILN_STORE", text("s3://kiln/fleet")),
                ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
                ("AWS_ALLOW_HTTP", text("true")),
                ("AWS_ACCESS_KEY_ID", text("test")),
                ("AWS_SECRET_ACCESS_KEY", text("test")),
                ("AWS_REGION", text("us-east-1")),
            ],
        }
    }

    /// With one more variable.
    #[must_use]
    pub fn and(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.retain(|(known, _)| *known != name);
        self.variables.push((name, value.into()));
        self
    }

    fn tell(&self, command: &mut Command) {
        for (name, value) in &self.variables {
            command.env(name, value);
        }
    }

    /// Starts `kiln` with these arguments, in the folder of a bench.
    pub fn start(&self, bench: &Bench, arguments: &[&str]) -> Run {
        let mut command = bench.kiln();
        command.args(arguments);
        self.tell(&mut command);
        Run::start(command)
    }

    /// Starts the worker of a host whose sidecar listens at `sidecar`.
    pub fn worker(&self, bench: &Bench, name: &str, sidecar: &Path) -> Program {
        self.work(bench, name, sidecar, &[])
    }

    fn work(&self, bench: &Bench, name: &str, sidecar: &Path, more: &[&str]) -> Program {
        let mut command = bench.kiln();
        command.args(["worker", "--name", name]).arg("--sidecar");
        command.arg(sidecar).args(more);
        self.tell(&mut command);
        Program::start(command)
    }

    /// Starts a sidecar in the folder of a bench that passes its jobs on.
    pub fn front(&self, bench: &Bench) -> Sidecar {
        let socket = bench.path("run/kiln.sock");
        let mut command = bench.command(&["serve", "--fleet"]);
        command.arg("--socket").arg(&socket);
        command.arg("--store").arg(bench.path("store"));
        command.arg("--root").arg(bench.path(""));
        self.tell(&mut command);
        Sidecar::spawn(command, socket)
    }

    /// Runs it to its end.
    #[must_use]
    pub fn kiln(&self, bench: &Bench, arguments: &[&str]) -> Outcome {
        self.start(bench, arguments).finish()
    }

    /// Submits the bench's own inputs; gives the id.
    pub fn submitted(&self, bench: &Bench, more: &[&str]) -> String {
        let outcome = self.kiln(bench, &crate::errand::submit(&[&["-q"], more].concat()));
        outcome.assert_code(0);
        outcome.stdout[0].clone()
    }
}

/// A host: a bench, its sidecar, and a worker. What is `None` is dead.
#[derive(Debug)]
pub struct Host {
    /// Its folder, with its saboteurs.
    pub bench: Bench,
    /// Its sidecar.
    pub sidecar: Option<Sidecar>,
    /// Its worker.
    pub worker: Option<Program>,
    name: String,
    /// Open for as long as saboteurs may wait for it: to them, a pipe without a writer is at its end.
    told: File,
}

impl Host {
    /// A host whose sidecar is ready, and whose worker takes jobs.
    pub fn start(name: &str, site: &Site, plan: Plan) -> Self {
        let bench = Bench::new(&Plan::healthy().proving());
        let mut host = Self {
            told: bench.told(),
            bench,
            sidecar: None,
            worker: None,
            name: name.to_owned(),
        };
        host.serve();
        host.work(site, &[]).wait_for("takes jobs");
        host.plan(plan);
        host
    }

    /// Changes what its saboteurs do. The self-test passes all the same.
    pub fn plan(&self, plan: Plan) {
        self.bench.set_plan(&plan.proving());
    }

    /// Starts its sidecar, anew if there was one.
    pub fn serve(&mut self) {
        self.sidecar = None;
        self.sidecar = Some(Sidecar::start(
            &self.bench,
            &["--bakes", "2", "--spares", "0", "--stall-timeout", "600"],
        ));
    }

    /// Starts its worker, anew if there was one.
    pub fn work(&mut self, site: &Site, more: &[&str]) -> &mut Program {
        self.worker = None;
        let socket = self.bench.path("run/kiln.sock");
        let more = [&["--slots", "2"], more].concat();
        let worker = site.work(&self.bench, &self.name, &socket, &more);
        self.worker.insert(worker)
    }

    /// The id of its sidecar's only job that is not over, once there is one.
    pub fn at_work(&self) -> String {
        let until = Instant::now() + DEADLINE;
        let sidecar = self.sidecar.as_ref().expect("a sidecar");
        loop {
            let list = sidecar.get("/v1/jobs").json();
            let jobs = list["jobs"].as_array().expect("jobs");
            let over = |job: &&Value| {
                !["succeeded", "failed", "cancelled"]
                    .contains(&job["state"].as_str().expect("a state"))
            };
            if let Some(job) = jobs.iter().find(over) {
                return job["id"].as_str().expect("an id").to_owned();
            }
            assert!(Instant::now() < until, "no job comes: {list}");
            std::thread::yield_now();
        }
    }

    /// Waits until its sidecar bakes a job: with a plan that holds it, until it is held.
    pub fn wait_baking(&self) -> String {
        let id = self.at_work();
        let sidecar = self.sidecar.as_ref().expect("a sidecar");
        sidecar.wait_baking(&id);
        id
    }

    /// Lets a worker go on that waits for it.
    pub fn release(&mut self) {
        self.told.write_all(b"!").expect("a pipe");
    }
}
