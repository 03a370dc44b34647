//! The saboteur's conversation with the supervisor, and its faults.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kiln_tests::fault::{Committed, Fault, Forgery, Plan, Step};
use kiln_tests::history::now_us;
use nix::sys::prctl;
use nix::sys::signal::{Signal, raise};
use nix::sys::socket::{MsgFlags, sendmsg};
use nix::unistd::pause;
use proto::blob::{BlobFile, sha256};
use proto::channel::Channel;
use proto::limits::{MAX_BLOB_BYTES, MAX_PACKET_BYTES, MAX_PIPELINES_BYTES};
use proto::message::{Done, Failure, FromChild, Phase, Role, Root, Table, ToChild};
use proto::sandbox::Sandbox;

use crate::{healthy, kin};

pub(crate) struct Worker {
    channel: Channel,
    pub(crate) role: Role,
    pub(crate) plan: Plan,
    /// Number of this process among those of its role, from 1.
    attempt: u32,
    /// Prepare's next view states a wrong number.
    pub(crate) lying: Cell<bool>,
    /// Prepare works on the sidecar's self-test: it commits no fault.
    pub(crate) spared: Cell<bool>,
    /// The file to forge.
    forging: Cell<Option<(Table, Forgery)>>,
    _alive: File,
    /// The pipe of [`Fault::Tell`] and [`Fault::Hear`]. Its contents last as long as somebody holds it open.
    told: PathBuf,
    telling: Cell<Option<File>>,
}

impl Worker {
    pub(crate) fn connect(link: &Path, role: Role) -> Self {
        prctl::set_pdeathsig(Signal::SIGKILL).expect("death signal");
        let text = fs::read(link.with_extension("json")).expect("the plan");
        let plan = serde_json::from_slice(&text).expect("a plan");
        let attempt = (1..)
            .find(|number| {
                File::create_new(link.with_file_name(format!("{}-{number}", role.name()))).is_ok()
            })
            .expect("a free number");
        // Opened in both directions, since opening for writing blocks without a reader.
        let alive = File::options()
            .read(true)
            .write(true)
            .open(link.with_file_name("alive"))
            .expect("the pipe");
        let socket = io::stdin().as_fd().try_clone_to_owned().expect("fd 0");
        let lying = Cell::new(false);
        let worker = Self {
            channel: Channel::from_fd(socket),
            role,
            plan,
            attempt,
            lying,
            spared: Cell::new(false),
            forging: Cell::new(None),
            _alive: alive,
            told: link.with_file_name("told"),
            telling: Cell::new(None),
        };
        worker.reach(Step::Spawn);
        worker.hello(proto::PROTOCOL_VERSION, proto::BUILD_ID, role);
        worker.check_surroundings();
        worker.reach(Step::Hello);
        worker
    }

    fn hello(&self, version: u32, build_id: &str, role: Role) {
        self.send(&FromChild::Hello {
            version,
            build_id: build_id.to_owned(),
            role,
            sandbox: Sandbox::off(),
        });
    }

    /// Checks what every worker may rely on.
    fn check_surroundings(&self) {
        let directory = std::env::current_dir().expect("a folder");
        self.demand(directory == Path::new("/"), "it starts in the root folder");
        self.demand(
            std::env::var_os("KILN_TEST_SECRET").is_none(),
            "the environment is cleared",
        );
        self.demand(
            std::env::var_os("XDG_RUNTIME_DIR").is_some(),
            "there is a runtime directory",
        );
        let open = fs::read_dir("/proc/self/fd").expect("/proc");
        let mut numbers: Vec<i32> = open
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        numbers.sort_unstable();
        // Its own: the pipe, the clone of the socket, and the folder being read.
        self.demand(
            numbers == [0, 1, 2, 3, 4, 5],
            &format!("descriptors are {numbers:?}"),
        );
        let stdout = fs::read_link("/proc/self/fd/1").expect("/proc");
        self.demand(
            stdout.to_string_lossy().starts_with("/memfd:kiln-recorder"),
            "standard output is the flight recorder",
        );
    }

    /// Fails the job if the supervisor broke a guarantee.
    pub(crate) fn demand(&self, kept: bool, promise: &str) {
        if !kept {
            let message = format!("promise broken: {promise}");
            self.send(&FromChild::Failed(Failure {
                code: Code::InvalidSpec,
                message,
                hint: String::new(),
            }));
            std::process::exit(64);
        }
    }

    pub(crate) fn send(&self, message: &FromChild) {
        self.channel
            .send(message, &[])
            .expect("the supervisor listens");
    }

    pub(crate) fn receive(&self) -> (ToChild, Vec<OwnedFd>) {
        self.channel
            .receive_with_fds()
            .expect("the supervisor speaks")
    }

    pub(crate) fn progress(&self, phase: Phase, done: u64, total: u64) {
        self.send(&FromChild::Progress { phase, done, total });
    }

    pub(crate) fn warn(&self, text: &str) {
        self.send(&FromChild::Warning {
            text: text.to_owned(),
        });
    }

    /// Commits the fault planned for this step, if any.
    pub(crate) fn reach(&self, step: Step) {
        let due = |planned: &&kiln_tests::fault::Planned| {
            planned.role == self.role
                && planned.step == step
                && self.attempt <= planned.times
                && !self.spared.get()
        };
        for planned in self.plan.faults.iter().filter(due) {
            self.commit(&planned.fault);
        }
    }

    /// Asks for an input file.
    pub(crate) fn open(&self, root: Root, name: &str) -> File {
        let (name, limit) = (name.to_owned(), 1 << 20);
        self.send(&FromChild::Open { root, name, limit });
        let (opened, fds) = self.receive();
        assert!(
            matches!(opened, ToChild::Opened { outcome: Ok(_) }),
            "{opened:?}"
        );
        File::from(fds.into_iter().next().expect("an fd"))
    }

    /// Asks for memory, writes `bytes` and hands it over, with a step in the middle.
    pub(crate) fn put(&self, table: Table, bytes: &[u8]) {
        let forgery = (self.forging.get()).filter(|(forged, _)| *forged == table);
        let forgery = forgery.map(|(_, how)| how);
        let forged = forged(bytes, forgery);
        let bytes = &forged[..];
        self.send(&FromChild::Allocate {
            table,
            bytes: bytes.len() as u64,
        });
        let (granted, fds) = self.receive();
        assert_eq!(granted, ToChild::Grant { table }, "a grant");
        let blob = BlobFile::open(fds.into_iter().next().expect("an fd")).expect("sealed in size");
        self.demand(
            blob.len() == bytes.len() as u64,
            "granted memory has the size asked for",
        );
        let mut writer = blob.writer();
        let (first, second) = bytes.split_at(bytes.len() / 2);
        writer.write_all(first).expect("room");
        self.reach(Step::HalfTable);
        writer.write_all(second).expect("room");
        self.send(&FromChild::Filled { table });
        if !table.is_file() {
            return;
        }
        assert_eq!(self.receive().0, ToChild::Sealed { table }, "sealed");
        self.demand(
            blob.writer().write_all(&[0]).is_err(),
            "a sealed file is frozen",
        );
        let mut back = Vec::new();
        blob.reader().read_to_end(&mut back).expect("memory");
        self.demand(back == bytes, "a sealed file is as it was written");
        let sha256 = match forgery {
            Some(Forgery::Unread) => return,
            Some(Forgery::Digest) => sha256(b"another file"),
            _ => sha256(&back),
        };
        self.send(&FromChild::Verified { table, sha256 });
    }

    fn commit(&self, fault: &Fault) {
        tracing_line("ERROR", &format!("about to commit {fault:?}"));
        self.confess(fault);
        match fault {
            Fault::Signal(number) => {
                let signal = Signal::try_from(*number).expect("a signal");
                // The runtime's handler for stack overflows lets the first SIGSEGV return.
                loop {
                    raise(signal).expect("raised");
                    if signal == Signal::SIGSTOP {
                        wait_for_ever();
                    }
                }
            }
            Fault::Exit(code) => std::process::exit(*code),
            Fault::Stall => wait_for_ever(),
            Fault::Close => {
                nix::sys::socket::shutdown(
                    self.channel.as_raw_fd(),
                    nix::sys::socket::Shutdown::Both,
                )
                .expect("shut down");
                wait_for_ever();
            }
            Fault::Tell => {
                let mut pipe = self.told();
                pipe.write_all(b"!").expect("room");
                self.telling.set(Some(pipe));
            }
            Fault::Hear => self.told().read_exact(&mut [0]).expect("told"),
            Fault::Pause(ms) => std::thread::sleep(Duration::from_millis(u64::from(*ms))),
            Fault::Fail(code) => {
                let message = "the saboteur says no".to_owned();
                let hint = "change the plan".to_owned();
                self.send(&FromChild::Failed(Failure {
                    code: *code,
                    message,
                    hint,
                }));
                std::process::exit(i32::from(proto::exit::of(*code)));
            }
            Fault::Garbage => self.raw(&[0xff; 100]),
            Fault::Oversized => self.raw(&vec![0; MAX_PACKET_BYTES + 1]),
            Fault::FdUpward => {
                let progress = FromChild::Progress {
                    phase: Phase::Start,
                    done: 1,
                    total: 1,
                };
                self.channel
                    .send(&progress, &[io::stderr().as_fd()])
                    .expect("sent");
                wait_for_ever();
            }
            Fault::WrongVersion => {
                self.hello(proto::PROTOCOL_VERSION + 1, proto::BUILD_ID, self.role);
                wait_for_ever();
            }
            Fault::WrongBuild => {
                self.hello(proto::PROTOCOL_VERSION, "0.0.0+0000000000000000", self.role);
                wait_for_ever();
            }
            Fault::WrongRole => {
                let other = if self.role == Role::Bake {
                    Role::Encode
                } else {
                    Role::Bake
                };
                self.hello(proto::PROTOCOL_VERSION, proto::BUILD_ID, other);
                wait_for_ever();
            }
            Fault::SecondHello => {
                self.hello(proto::PROTOCOL_VERSION, proto::BUILD_ID, self.role);
                wait_for_ever();
            }
            Fault::AllocateHuge => self.say(FromChild::Allocate {
                table: self.own_table(),
                bytes: MAX_BLOB_BYTES,
            }),
            Fault::AllocateForeign => {
                let table = if self.role == Role::Bake {
                    Table::Mesh
                } else {
                    Table::Texture
                };
                self.say(FromChild::Allocate {
                    table,
                    bytes: 64 + 256 * 256 * 5,
                });
            }
            Fault::LatePipelines => self.say(FromChild::Allocate {
                table: Table::Pipelines,
                bytes: 64,
            }),
            Fault::HugePipelines => self.say(FromChild::Allocate {
                table: Table::Pipelines,
                bytes: MAX_PIPELINES_BYTES + 1,
            }),
            Fault::Compiled => self.say(FromChild::Compiled),
            Fault::AllocateTwice => {
                self.say(FromChild::Allocate {
                    table: self.own_table(),
                    bytes: 64 + 256 * 256 * 5,
                });
            }
            Fault::FilledTwice | Fault::FilledUnasked => self.say(FromChild::Filled {
                table: self.own_table(),
            }),
            Fault::EarlyDone => self.say(FromChild::Done(healthy::summary(self.role, 0, 0))),
            Fault::WrongSummary => {
                let other = if self.role == Role::Bake {
                    Role::Encode
                } else {
                    Role::Bake
                };
                self.say(FromChild::Done(healthy::summary(other, 0, 0)));
            }
            Fault::PacketFlood => loop {
                self.progress(Phase::Start, 1, 0);
            },
            Fault::LogFlood(count) => {
                for number in 0..*count {
                    tracing_line("INFO", &format!("flood {number} {}", "x".repeat(200)));
                }
            }
            Fault::SameProgress => loop {
                self.progress(Phase::Raster, 1, 2);
                self.progress(Phase::Fit, 1, 2);
                breathe();
            },
            Fault::EndlessProgress => {
                for done in 1.. {
                    self.progress(Phase::Fit, done, 0);
                    breathe();
                }
            }
            Fault::Escapes => {
                eprintln!("raw \x1b[2J\x07 line");
                tracing_line("WARN", "\\u001b[31mred");
                self.send(&FromChild::Warning {
                    text: "a\x1b[31m\nb".to_owned(),
                });
            }
            Fault::Forge(table, how) => self.forging.set(Some((*table, *how))),
            Fault::Fork(kin) => kin::start(*kin, &self.channel),
            Fault::CloseAll => {
                for number in 0..64 {
                    if nix::unistd::close(number).is_err() {
                        // It was not open.
                    }
                }
                wait_for_ever();
            }
            Fault::LyingView => self.lying.set(true),
            Fault::Tamper => healthy::tamper(self),
        }
    }

    /// Records the fault that it is about to commit.
    fn confess(&self, fault: &Fault) {
        if matches!(fault, Fault::Tell | Fault::Hear | Fault::Pause(_)) {
            return;
        }
        let committed = Committed {
            role: self.role,
            attempt: self.attempt,
            fault: format!("{fault:?}"),
            at_us: now_us(),
        };
        let mut line = serde_json::to_string(&committed).expect("JSON");
        line.push('\n');
        let mut options = File::options();
        let mut file = options
            .append(true)
            .create(true)
            .open(self.told.with_file_name("faults"))
            .expect("a file");
        // One write, so that lines of two processes do not mix.
        file.write_all(line.as_bytes()).expect("room");
    }

    fn told(&self) -> File {
        // Opened in both directions, so that opening does not block.
        let mut options = File::options();
        options.read(true).write(true);
        options.open(&self.told).expect("the pipe")
    }

    fn own_table(&self) -> Table {
        match self.role {
            Role::Prepare => Table::Mesh,
            Role::Bake => Table::Texture,
            Role::Encode => Table::Glb,
        }
    }

    /// Sends a message and waits to be killed for it.
    fn say(&self, message: FromChild) {
        self.send(&message);
        wait_for_ever();
    }

    fn raw(&self, bytes: &[u8]) {
        let flags = MsgFlags::MSG_NOSIGNAL;
        sendmsg::<()>(
            self.channel.as_raw_fd(),
            &[IoSlice::new(bytes)],
            &[],
            flags,
            None,
        )
        .expect("sent");
        wait_for_ever();
    }

    pub(crate) fn done(&self, done: Done) {
        self.send(&FromChild::Done(done));
        self.reach(Step::Done);
    }
}

use proto::message::Code;

/// The bytes of a file, or forged ones.
fn forged(bytes: &[u8], how: Option<Forgery>) -> Vec<u8> {
    let mut forged = bytes.to_vec();
    match how {
        Some(Forgery::Text) => {
            b"a text, and long enough to pass for any file that there is\n".to_vec()
        }
        Some(Forgery::Cut) => bytes[..bytes.len() - 4].to_vec(),
        Some(Forgery::Length) => {
            forged[8] ^= 4;
            forged
        }
        Some(Forgery::Digest | Forgery::Unread) | None => forged,
    }
}

/// A log line in the workers' format.
fn tracing_line(level: &str, message: &str) {
    eprintln!(
        r#"{{"level":"{level}","fields":{{"message":"{}"}},"target":"saboteur"}}"#,
        message.replace('"', "'")
    );
}

/// Waits for a signal that ends the process.
fn wait_for_ever() {
    loop {
        pause();
    }
}

/// Sleeps a tenth of a second, so that an endless count is not a flood.
fn breathe() {
    std::thread::sleep(Duration::from_millis(100));
}
