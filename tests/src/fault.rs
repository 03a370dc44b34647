//! The faults that a saboteur commits: its tests write them as JSON beside the program, and it reads them.

use proto::message::{Code, Role, Table};
use serde::{Deserialize, Serialize};

/// The point of the protocol at which a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Before `Hello`.
    Spawn,
    /// After `Hello`.
    Hello,
    /// After `Ready`, for a bake on a GPU.
    Ready,
    /// After `Pipelines`, while a bake whose driver saves them compiles.
    Compile,
    /// After `Start` arrived.
    Start,
    /// After the first progress; bake and encode have all their views.
    Work,
    /// Memory was granted, and half of the table is written.
    HalfTable,
    /// Every table is filled.
    Filled,
    /// After `Done`.
    Done,
}

/// Ways to fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// Dies by this signal, as a crash does. SIGSTOP only stops.
    Signal(i32),
    /// Exits with this code without an answer.
    Exit(i32),
    /// Does nothing more.
    Stall,
    /// Closes the socket and does nothing more.
    Close,
    /// Signals another saboteur of the test, and goes on.
    Tell,
    /// Waits for that signal, and goes on.
    Hear,
    /// Does nothing for so many milliseconds, and goes on.
    Pause(u32),
    /// Reports a failure with this code.
    Fail(Code),
    /// Sends bytes that are not a packet.
    Garbage,
    /// Sends more than a packet may hold.
    Oversized,
    /// Attaches a descriptor to a packet.
    FdUpward,
    /// Sends a hello with another protocol version. At `Spawn`.
    WrongVersion,
    /// Sends a hello of another build. At `Spawn`.
    WrongBuild,
    /// Sends a hello of another role. At `Spawn`.
    WrongRole,
    /// Sends a second hello.
    SecondHello,
    /// Asks for more memory than any table needs.
    AllocateHuge,
    /// Asks for another role's table.
    AllocateForeign,
    /// Hands pipelines over too late: its stages are compiled, or nobody wants any.
    LatePipelines,
    /// Asks for memory for more pipelines than the cache takes.
    HugePipelines,
    /// Reports that its stages are compiled.
    Compiled,
    /// Asks for its own table a second time. After `HalfTable`.
    AllocateTwice,
    /// Reports twice that its table is filled. After `Filled`.
    FilledTwice,
    /// Reports a filled table that it never asked for.
    FilledUnasked,
    /// Reports that it is done, without its tables.
    EarlyDone,
    /// Reports that it is done, with another role's summary.
    WrongSummary,
    /// Sends endless packets.
    PacketFlood,
    /// Writes this many log lines as fast as it can, and goes on.
    LogFlood(u32),
    /// Reports the same two counts alternately, without end.
    SameProgress,
    /// Reports growing counts without end.
    EndlessProgress,
    /// Prints and warns with control characters, and goes on.
    Escapes,
    /// Writes a wrong index into a view's header, and goes on. At `Work` of prepare.
    LyingView,
    /// Hands over this file of its so. At `Start`.
    Forge(Table, Forgery),
    /// Starts a process, which nobody has asked for, and goes on.
    Fork(Kin),
    /// Closes all of its descriptors and does nothing more.
    CloseAll,
    /// Tries to change memory that was frozen or has a fixed size, fails if it can, and goes on.
    Tamper,
}

/// Ways to hand over a file that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Forgery {
    /// A text in its place.
    Text,
    /// Without its end.
    Cut,
    /// With a length that is not its own, at the ninth byte.
    Length,
    /// Right, with the digest of another.
    Digest,
    /// Right, and never read back.
    Unread,
}

/// A process that a worker starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kin {
    /// A child, in the worker's process group.
    Child,
    /// An orphan in a session of its own.
    Orphan,
    /// Orphans in a session of their own that write to the socket and to the log without end. At `Done`.
    Flood,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// Which role commits it.
    pub role: Role,
    /// When.
    pub step: Step,
    /// What.
    pub fault: Fault,
    /// Only the first this many processes of the role commit it.
    pub times: u32,
}

/// A fault that was committed: one line of the file `faults` beside the saboteur's link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// Which role committed it.
    pub role: Role,
    /// Which of the role's processes, from 1.
    pub attempt: u32,
    /// What.
    pub fault: String,
    /// Time before it was committed: [`crate::history::now_us`].
    pub at_us: u64,
}

/// What all saboteurs of a test do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The faults; all else works.
    pub faults: Vec<Planned>,
    /// Number of views that prepare makes, besides the held-out ones.
    pub views: u32,
    /// Whether prepare has simplified the mesh.
    pub simplified: bool,
    /// Whether prepare hands the mesh over after the views. A bake may have some views by then.
    pub mesh_last: bool,
    /// Number of GPUs that bake reports.
    #[serde(default)]
    pub gpus: u32,
    /// Views that prepare makes, beyond the held-out ones, of a mesh that is called [`HOARDER`].
    #[serde(default)]
    pub hoards: u32,
    /// Their driver keeps pipelines: [`PIPELINES`].
    #[serde(default)]
    pub pipelines: bool,
    /// They pass the sidecar's self-test, in which prepare commits no faults after its start.
    #[serde(default)]
    pub proves: bool,
}

/// The mesh of the sidecar's self-test.
pub const SELF_TEST: &str = "mesh.obj";
/// A mesh of many views.
pub const HOARDER: &str = "hoarder.glb";
/// What a saboteur's driver compiles, and knows again.
pub const PIPELINES: &[u8] = b"compiled by a saboteur";

impl Plan {
    /// A job without faults: four views for the fit, and a simplified mesh.
    pub fn healthy() -> Self {
        Self {
            faults: Vec::new(),
            views: 4,
            simplified: true,
            mesh_last: false,
            gpus: 0,
            hoards: 0,
            pipelines: false,
            proves: false,
        }
    }

    /// A job in which a role always fails in this way.
    pub fn always(role: Role, step: Step, fault: Fault) -> Self {
        Self::healthy().with(role, step, fault, u32::MAX)
    }

    /// A job in which the first process of a role fails in this way.
    pub fn once(role: Role, step: Step, fault: Fault) -> Self {
        Self::healthy().with(role, step, fault, 1)
    }

    /// The same plan, with a GPU.
    pub fn on_gpu(self) -> Self {
        self.on_gpus(1)
    }

    /// The same plan, with a driver that saves pipelines.
    pub fn keeping(mut self) -> Self {
        self.pipelines = true;
        self
    }

    /// The same plan, for a sidecar that is to be ready.
    pub fn proving(mut self) -> Self {
        self.proves = true;
        self
    }

    /// The same plan, with this many GPUs.
    pub fn on_gpus(mut self, gpus: u32) -> Self {
        self.gpus = gpus;
        self
    }

    /// The same plan, with this fault as well.
    pub fn with(mut self, role: Role, step: Step, fault: Fault, times: u32) -> Self {
        self.faults.push(Planned {
            role,
            step,
            fault,
            times,
        });
        self
    }
}
