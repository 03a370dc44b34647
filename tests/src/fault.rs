//! What a saboteur does, as its tests write it and it reads it: JSON beside the program.

use proto::message::{Code, Role, Table};
use serde::{Deserialize, Serialize};

/// Where in the conversation a fault is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Before `Hello`.
    Spawn,
    /// After `Hello`.
    Hello,
    /// After `Ready`, of a bake on a GPU.
    Ready,
    /// After `Pipelines`, of a bake whose driver keeps them: it compiles.
    Compile,
    /// After `Start` arrived.
    Start,
    /// Some progress was told; bake and encode have all their views.
    Work,
    /// Memory was granted; half of the table is written.
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
    /// Exits with this code and says nothing.
    Exit(i32),
    /// Does nothing more.
    Stall,
    /// Closes the socket and does nothing more.
    Close,
    /// Tells another saboteur of the test that it came so far, and goes on.
    Tell,
    /// Waits until another has told so, and goes on.
    Hear,
    /// Says that it failed.
    Fail(Code),
    /// Sends bytes that are no packet.
    Garbage,
    /// Sends more than a packet may hold.
    Oversized,
    /// Attaches a descriptor to a packet.
    FdUpward,
    /// Says hello with another protocol version. At `Spawn`.
    WrongVersion,
    /// Says hello as another build. At `Spawn`.
    WrongBuild,
    /// Says hello in another role. At `Spawn`.
    WrongRole,
    /// Says hello again.
    SecondHello,
    /// Asks for more memory than any table needs.
    AllocateHuge,
    /// Asks for another role's table.
    AllocateForeign,
    /// Hands pipelines over, though its stages are compiled or nobody wants any.
    LatePipelines,
    /// Asks for room for more pipelines than are kept.
    HugePipelines,
    /// Says that its stages are compiled.
    Compiled,
    /// Asks for its own table a second time. After `HalfTable`.
    AllocateTwice,
    /// Says again that its table is filled. After `Filled`.
    FilledTwice,
    /// Says that a table is filled for which it never asked.
    FilledUnasked,
    /// Says that it is done, without its tables.
    EarlyDone,
    /// Says that it is done, with another role's summary.
    WrongSummary,
    /// Sends packets without end.
    PacketFlood,
    /// Writes log lines as fast as it can, this many, and goes on.
    LogFlood(u32),
    /// Tells the same two counts in turn, without end.
    SameProgress,
    /// Tells growing counts without end.
    EndlessProgress,
    /// Prints and warns with control characters and goes on.
    Escapes,
    /// Gives a view a number in its header that is not its own, and goes on. At `Work` of prepare.
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
    /// Who commits it.
    pub role: Role,
    /// When.
    pub step: Step,
    /// What.
    pub fault: Fault,
    /// In the first so many processes of the role.
    pub times: u32,
}

/// A fault that was committed: one line of the file `faults` beside the saboteur's link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// Who committed it.
    pub role: Role,
    /// In which of its processes, from 1.
    pub attempt: u32,
    /// What.
    pub fault: String,
    /// Before it was committed: [`crate::history::now_us`].
    pub at_us: u64,
}

/// What all saboteurs of a test do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What goes wrong; all else goes right.
    pub faults: Vec<Planned>,
    /// Views that prepare makes, beyond the held-out ones.
    pub views: u32,
    /// Prepare has simplified the mesh.
    pub simplified: bool,
    /// It hands the mesh over after the views, of which a bake may have some by then.
    pub mesh_last: bool,
    /// Bake has so many GPUs, by its word.
    #[serde(default)]
    pub gpus: u32,
    /// Views that prepare makes, beyond the held-out ones, of a mesh that is called [`HOARDER`].
    #[serde(default)]
    pub hoards: u32,
    /// Their driver keeps pipelines: [`PIPELINES`].
    #[serde(default)]
    pub pipelines: bool,
}

/// A mesh of many views.
pub const HOARDER: &str = "hoarder.glb";
/// What a saboteur's driver compiles, and knows again.
pub const PIPELINES: &[u8] = b"compiled by a saboteur";

impl Plan {
    /// A job without faults: four views for the fit, and a simplified mesh.
    #[must_use]
    pub fn healthy() -> Self {
        Self {
            faults: Vec::new(),
            views: 4,
            simplified: true,
            mesh_last: false,
            gpus: 0,
            hoards: 0,
            pipelines: false,
        }
    }

    /// A job in which one role always fails so.
    #[must_use]
    pub fn always(role: Role, step: Step, fault: Fault) -> Self {
        Self::healthy().with(role, step, fault, u32::MAX)
    }

    /// A job in which the first process of a role fails so.
    #[must_use]
    pub fn once(role: Role, step: Step, fault: Fault) -> Self {
        Self::healthy().with(role, step, fault, 1)
    }

    /// And on a GPU.
    #[must_use]
    pub fn on_gpu(self) -> Self {
        self.on_gpus(1)
    }

    /// And its driver keeps pipelines.
    #[must_use]
    pub fn keeping(mut self) -> Self {
        self.pipelines = true;
        self
    }

    /// And on one of so many GPUs.
    #[must_use]
    pub fn on_gpus(mut self, gpus: u32) -> Self {
        self.gpus = gpus;
        self
    }

    /// And this fault.
    #[must_use]
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
