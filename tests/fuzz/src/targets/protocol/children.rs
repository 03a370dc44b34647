//! Three children, the supervisor's state for them, and a plain model of what has happened. [`Children::step`] does one
//! thing and asserts that both agree.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proto::blob::{Blob, BlobFile};
use proto::job::Product;
use proto::limits::{MAX_BLOB_BYTES, MAX_PACKET_FDS, MAX_TEXT_BYTES, MAX_VIEWS};
use proto::message::{AdapterInfo, Done, FromChild, Role, Root, Start, Table, ToChild};
use proto::sandbox::Sandbox;
use proto::table::{Refined, ViewHeader};
use proto::wire;
use serde_json::Value;
use supervisor::host::ladder::Rung;
use supervisor::job::{Kind, Spec};
use supervisor::process::child::{Handed, Parcel};
use supervisor::process::dispatcher::{Dispatcher, encode_views, shown_views};
use supervisor::process::opener::Question;
use supervisor::process::table_store::TableStore;
use supervisor::process::watch::{STALL_FLOOR, Watch, stall_cap};
use supervisor::report::Report;
use supervisor::words::{adapter, printable};

use super::Op;
use super::fixture::{done, least, owner, spec, view};
use crate::targets::harmless;

/// One process, and what it was sent.
struct Child {
    dispatcher: Dispatcher,
    watch: Watch,
    /// The product that a bake must make.
    product: Product,
    warmed: bool,
    ready: bool,
    compiled: bool,
    /// Its open request.
    question: Option<Question>,
    answered: bool,
    started: bool,
    meshed: bool,
    told: bool,
    views: HashSet<u32>,
    ended: bool,
}

/// A table that was granted.
struct Granted {
    owner: Role,
    blob: Arc<Blob>,
    filled: bool,
}

/// The children and both states; see the head of this file.
pub(super) struct Children {
    spec: &'static Spec,
    tables: TableStore,
    report: Report,
    /// By role; `None` if not spawned.
    children: [Option<Child>; 3],
    granted: HashMap<Table, Granted>,
    /// Filled views in order.
    views: Vec<(u32, bool)>,
    finished: bool,
}

/// The packet breaks the protocol: the child is killed.
struct Violation;

impl Children {
    pub(super) fn new(preview: bool) -> Self {
        let spec = spec(preview);
        let mut children = Self {
            spec,
            tables: TableStore::new(spec.options.texture_size),
            report: Report::new(spec),
            children: [None, None, None],
            granted: HashMap::new(),
            views: Vec::new(),
            finished: false,
        };
        children.start(Role::Prepare, Product::Texture);
        children.start(Role::Bake, Product::Texture);
        children.dispatch();
        children
    }

    /// Whether the job's result is complete.
    pub(super) fn finished(&self) -> bool {
        self.finished
    }

    pub(super) fn step(&mut self, op: Op) {
        match op {
            Op::WriteView {
                table,
                index,
                holdout,
            } => {
                let mut bytes = Vec::new();
                let view = view(u32::from(index), holdout);
                view.write(&mut bytes).expect("memory takes all");
                self.write(Table::View(u32::from(table)), &bytes);
            }
            Op::Write(table, bytes) => self.write(table, &bytes),
            Op::Dies(role) => self.dies(role),
            Op::Packet(role, bytes) => match wire::decode(&bytes) {
                Ok(packet) => self.hear(role, packet),
                Err(_) => self.dies(role),
            },
            Op::Allocate(role, table, more) => {
                let bytes = least(table).saturating_add(more);
                self.hear(role, FromChild::Allocate { table, bytes });
            }
            Op::Filled(role, table) => self.hear(role, FromChild::Filled { table }),
            Op::Done(role, fit, holdout) => {
                self.hear(role, FromChild::Done(done(role, fit, holdout)));
            }
            Op::Ready(role) => {
                let text = || "a\u{1b}[31mb\n".to_owned();
                let adapter = AdapterInfo {
                    name: text(),
                    backend: text(),
                    kind: text(),
                    driver: text(),
                };
                let mut sandbox = Sandbox::off();
                sandbox.missing = text();
                let ready = FromChild::Ready {
                    adapter,
                    peers: u32::MAX,
                    sandbox,
                    pipelines: Some(text()),
                };
                self.hear(role, ready);
                self.hear(role, FromChild::Compiled);
            }
            Op::Open(role, views) => {
                let root = if views { Root::Views } else { Root::Mesh };
                let (name, limit) = ("inner.bin".to_owned(), 9);
                self.hear(role, FromChild::Open { root, name, limit });
            }
            Op::Opened(role) => self.opened(role),
            Op::Delivered(role, views) => {
                let views = u32::from(views);
                self.hear(role, FromChild::Delivered { views });
            }
            Op::Progress(role, phase, done, total) => {
                self.hear(role, FromChild::Progress { phase, done, total });
            }
        }
        self.dispatch();
        self.agree();
    }

    fn hear(&mut self, role: Role, packet: FromChild) {
        let here = self.children[role as usize].as_ref();
        if here.is_some_and(|child| !child.answered) && self.packet(role, packet).is_err() {
            self.dies(role);
        }
    }

    /// Handles a packet as `job/hear.rs` does, for a child that has sent its hello.
    fn packet(&mut self, role: Role, packet: FromChild) -> Result<(), Violation> {
        let Some(child) = &mut self.children[role as usize] else {
            return Ok(());
        };
        match packet {
            // No job here lets prepare choose the texture size.
            FromChild::Hello { .. } | FromChild::Chosen { .. } => Err(Violation),
            FromChild::Allocate { .. } | FromChild::Filled { .. } | FromChild::Verified { .. }
                if !child.dispatcher.started() =>
            {
                Err(Violation)
            }
            FromChild::Progress { phase, done, total } => {
                let now = Instant::now();
                let Some(state) = child.watch.progress(phase, done, total, now) else {
                    return Ok(());
                };
                assert!(state.done >= done, "a count never falls");
                let share = state.fraction();
                assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)));
                let _shown = state.time_left(now + Duration::from_secs(86_400));
                Ok(())
            }
            FromChild::Warning { text } => {
                harmless(&printable(&text, MAX_TEXT_BYTES));
                Ok(())
            }
            FromChild::Ready {
                adapter: named,
                peers: _,
                mut sandbox,
                pipelines,
            } => {
                let expected = role == Role::Bake && !std::mem::replace(&mut child.ready, true);
                assert_eq!(child.dispatcher.ready(), expected, "bake is ready, once");
                if !expected {
                    return Err(Violation);
                }
                let AdapterInfo {
                    name,
                    backend,
                    kind,
                    driver,
                } = adapter(named);
                [name, backend, kind, driver]
                    .iter()
                    .for_each(|text| harmless(text));
                sandbox.missing = printable(&sandbox.missing, MAX_TEXT_BYTES);
                self.report.confined(role, sandbox);
                let _any_text_has_a_key =
                    pipelines.map(|offer| supervisor::host::pipelines::key(&offer));
                Ok(())
            }
            FromChild::Compiled => {
                let expected = child.ready && !std::mem::replace(&mut child.compiled, child.ready);
                assert_eq!(
                    child.dispatcher.compile(),
                    expected,
                    "compiled after ready, once"
                );
                expected.then_some(()).ok_or(Violation)
            }
            // Pipelines are not cached here.
            FromChild::Allocate {
                table: Table::Pipelines,
                ..
            }
            | FromChild::Filled {
                table: Table::Pipelines,
            } => Err(Violation),
            FromChild::Open { root, name, limit } => {
                if role != Role::Prepare || !child.dispatcher.started() {
                    return Err(Violation);
                }
                let input = match root {
                    Root::Mesh => Some(&self.spec.mesh),
                    Root::Views | Root::Pictures | Root::Masks => Some(&self.spec.views),
                    Root::Second | Root::Original => None,
                };
                let question = child.dispatcher.opener.admit(input, root, name, limit).ok();
                assert_eq!(
                    question.is_some(),
                    child.question.is_none(),
                    "one at a time"
                );
                child.question = Some(question.ok_or(Violation)?);
                Ok(())
            }
            FromChild::Allocate { table, bytes } => self.allocate(role, table, bytes),
            FromChild::Filled { table } => self.fill(role, table),
            FromChild::Verified { table, sha256 } => {
                let verified = self.tables.verify(role, table, sha256);
                let filled = self.granted.get(&table).is_some_and(|table| table.filled);
                assert!(
                    verified.is_err() || (filled && table.is_file()),
                    "{table:?}"
                );
                verified.map_err(|_| Violation)
            }
            FromChild::Delivered { views } => {
                let all = role == Role::Prepare && self.tables.deliver(views);
                assert!(!all || views as usize == self.views.len(), "all are there");
                all.then_some(()).ok_or(Violation)
            }
            FromChild::Again => {
                let may = role == Role::Bake && child.dispatcher.again();
                may.then_some(()).ok_or(Violation)
            }
            FromChild::Done(done) => {
                if !child.dispatcher.ended() {
                    return Err(Violation);
                }
                self.complete(role, done)
            }
            FromChild::Failed(failure) => {
                harmless(&printable(&failure.message, MAX_TEXT_BYTES));
                Err(Violation)
            }
        }
    }

    fn allocate(&mut self, role: Role, table: Table, bytes: u64) -> Result<(), Violation> {
        let Ok(blob) = self.tables.allocate(role, table, bytes) else {
            return Err(Violation);
        };
        assert_eq!(owner(table), role, "a role gets only its own tables");
        assert_eq!(blob.len(), bytes, "memory has the size asked for");
        assert!((least(table)..=MAX_BLOB_BYTES).contains(&bytes), "{bytes}");
        assert!(!matches!(table, Table::View(index) if index as usize >= MAX_VIEWS));
        let granted = Granted {
            owner: role,
            blob,
            filled: false,
        };
        let before = self.granted.insert(table, granted);
        assert!(before.is_none(), "{table:?} is granted once an attempt");
        Ok(())
    }

    fn fill(&mut self, role: Role, table: Table) -> Result<(), Violation> {
        if self.tables.fill(role, table).is_err() {
            return Err(Violation);
        }
        let granted = self.granted.get_mut(&table).expect("filled after granted");
        assert_eq!(granted.owner, role, "by its owner");
        assert!(!granted.filled, "once");
        granted.filled = true;
        if let Table::View(index) = table {
            let header = ViewHeader::read(&mut granted.blob.reader()).expect("a checked header");
            assert_eq!(header.index, index, "the view is the one announced");
            assert_eq!(header.table_bytes(), granted.blob.len(), "of its size");
            self.views.push((index, header.holdout));
        }
        if table == Table::Mesh {
            let surface = self.granted.get(&Table::Surface);
            assert!(surface.is_none_or(|surface| surface.filled));
        }
        Ok(())
    }

    fn complete(&mut self, role: Role, done: Done) -> Result<(), Violation> {
        let preview = self.spec.preview.is_some();
        let child = self.children[role as usize].as_ref();
        let product = child.map_or(Product::Texture, |child| child.product);
        if self.tables.complete(role, &done, preview, product).is_err() {
            return Err(Violation);
        }
        for (table, granted) in &self.granted {
            let open = granted.owner == role && !granted.filled;
            assert!(!open, "{table:?} was left open");
        }
        let filled = |table| {
            let granted = self.granted.get(&table);
            granted.is_some_and(|granted| granted.filled)
        };
        match (role, &done) {
            (Role::Prepare, Done::Prepare(summary)) => {
                let holdout = self.views.iter().filter(|view| view.1).count();
                assert!(filled(Table::Mesh) && filled(Table::Surface) && self.tables.delivered());
                assert!(holdout < self.views.len(), "some view is for the fit");
                assert_eq!(summary.holdout_views as usize, holdout);
                assert_eq!(summary.views as usize + holdout, self.views.len());
                let numbers: HashSet<u32> = self.views.iter().map(|view| view.0).collect();
                assert!((0..self.views.len() as u32).all(|index| numbers.contains(&index)));
            }
            (Role::Bake, Done::Bake(_)) => {
                let texture = product == Product::Texture;
                assert_eq!(filled(Table::Texture), texture, "what was asked for");
                assert_eq!(filled(Table::Colours), !texture, "and nothing else");
                assert!(self.tables.prepared());
                if let Some(refined) = self.tables.filled(Table::Refined) {
                    let fitted = self.views.iter().filter(|view| !view.1).count();
                    assert_eq!(refined.len(), Refined::byte_len_of(fitted), "of each view");
                }
            }
            (Role::Encode, Done::Encode(_)) => {
                assert!(filled(Table::Glb) && (!preview || filled(Table::Preview)));
            }
            (role, done) => panic!("{role:?} is done with {done:?}"),
        }
        self.report.role_done(done, Duration::from_millis(1));
        if let Some(child) = &mut self.children[role as usize] {
            child.answered = true;
        }
        match role {
            Role::Prepare => {}
            Role::Bake => {
                let keep = encode_views(self.tables.views(), shown_views(preview, false));
                self.tables.release_bake_inputs(&keep);
                self.granted.retain(|table, _| match table {
                    Table::Surface => false,
                    Table::Splats => !keep.is_empty(),
                    Table::View(index) => keep.contains(index),
                    _ => true,
                });
                self.start(Role::Encode, Product::Texture);
            }
            Role::Encode => self.finished = true,
        }
        Ok(())
    }

    /// Hands a file down as `job/hear.rs` does. The target `opener` tests which files may be opened.
    fn opened(&mut self, role: Role) {
        if let Some(child) = &mut self.children[role as usize]
            && child.question.take().is_some()
        {
            child.dispatcher.opener.answered();
        }
    }

    /// Handles a death before the answer as `job/bury.rs` does while a retry is left.
    fn dies(&mut self, role: Role) {
        let Some(child) = &mut self.children[role as usize] else {
            return;
        };
        if child.answered {
            return;
        }
        // Takes the ladder's last rung at once, and leaves it again, so that both products are tested.
        let product = match child.product {
            Product::Texture => Product::VertexColours,
            Product::VertexColours => Product::Texture,
        };
        self.start(role, product);
        self.withdraw(role);
        let bake = &self.children[Role::Bake as usize];
        if role == Role::Prepare
            && let Some(bake) = bake
            && bake.started
        {
            self.start(Role::Bake, bake.product);
            self.withdraw(Role::Bake);
        }
    }

    /// A fresh process in place of the role's last.
    fn start(&mut self, role: Role, product: Product) {
        let rung = Rung {
            product,
            ..Rung::default()
        };
        let assignment = Kind::Bake(self.spec).assignment(role, &rung, &self.tables, None);
        let child = Child::new(role, product, Dispatcher::new(assignment));
        self.children[role as usize] = Some(child);
    }

    fn withdraw(&mut self, role: Role) {
        self.tables.discard(role);
        self.granted.retain(|_, granted| granted.owner != role);
        if role == Role::Prepare {
            self.views.clear();
        }
    }

    /// A child writes to memory that it was granted; frozen memory refuses.
    fn write(&mut self, table: Table, bytes: &[u8]) {
        let Some(granted) = self.granted.get(&table) else {
            return;
        };
        let fd = granted.blob.as_fd().try_clone_to_owned().expect("a fd");
        let file = BlobFile::open(fd).expect("sealed in size");
        let written = file.writer().write_all(bytes).is_ok();
        let fits = bytes.len() as u64 <= granted.blob.len();
        let allowed = bytes.is_empty() || (fits && !granted.filled);
        assert_eq!(written, allowed, "{table:?}: only open memory is written");
    }

    /// Sends what can be sent, and checks that it is what the child may get.
    fn dispatch(&mut self) {
        let splats = self.tables.filled(Table::Splats).is_some();
        for role in [Role::Prepare, Role::Bake, Role::Encode] {
            let Some(child) = &mut self.children[role as usize] else {
                continue;
            };
            if child.answered {
                continue;
            }
            for parcel in child.dispatcher.next(&self.tables, || true) {
                child.receives(role, &parcel, splats);
            }
        }
    }

    /// The table store knows what the model knows.
    fn agree(&self) {
        assert_eq!(self.tables.views(), self.views);
        for (table, granted) in &self.granted {
            let known = self.tables.filled(*table);
            assert_eq!(known.is_some(), granted.filled, "{table:?}");
        }
    }

    /// Asserts that the report is JSON and the closing lines are harmless, whatever the children sent.
    pub(super) fn report(&mut self) {
        self.report.close(Duration::from_secs(1), None);
        let json: Result<Value, _> = serde_json::from_slice(&self.report.to_json());
        let json = json.expect("the report is JSON");
        assert_eq!(json["schema"], 1, "all of it was written");
        printable_texts(&json);
        self.report.summary().iter().for_each(|line| harmless(line));
    }
}

impl Child {
    fn new(role: Role, product: Product, dispatcher: Dispatcher) -> Self {
        let mut watch = Watch::new(STALL_FLOOR, stall_cap(role), Instant::now());
        watch.hello();
        Self {
            dispatcher,
            watch,
            product,
            warmed: false,
            ready: false,
            compiled: false,
            question: None,
            answered: false,
            started: false,
            meshed: false,
            told: false,
            views: HashSet::new(),
            ended: false,
        }
    }

    /// Judges a parcel; `splats` says whether the splats of the views were filled before.
    fn receives(&mut self, role: Role, parcel: &Parcel, splats: bool) {
        assert!(!self.ended, "nothing follows the end of views");
        match &parcel.message {
            ToChild::Warm(_) => {
                assert!(role == Role::Bake && !self.started);
                assert!(!std::mem::replace(&mut self.warmed, true), "warmed once");
            }
            ToChild::Start(start) => {
                assert!(!std::mem::replace(&mut self.started, true), "one start");
                let fds = match start {
                    Start::Prepare(_) => 0,
                    Start::Bake(job) => {
                        assert!(self.compiled, "bake gets no data before it is compiled");
                        assert_eq!(job.product, self.product, "what it is asked to make");
                        1
                    }
                    Start::Encode(job) => 2 + usize::from(job.has_refined),
                    Start::Compare(_) => panic!("no part of a job"),
                };
                let splats = usize::from(splats && role != Role::Prepare);
                assert_eq!(
                    parcel.fds.len(),
                    fds + splats,
                    "a table for each fd, and none more"
                );
            }
            ToChild::View { index } => {
                assert!(self.started && role != Role::Prepare);
                assert!(self.views.insert(*index), "view {index} was sent twice");
            }
            ToChild::Mesh { .. } => {
                assert!(self.started && role == Role::Bake && parcel.fds.len() == 1);
                assert!(!std::mem::replace(&mut self.meshed, true), "one mesh");
            }
            ToChild::Delivered { views } => {
                assert_eq!(*views as usize, self.views.len());
                assert!(role == Role::Bake && !std::mem::replace(&mut self.told, true));
            }
            ToChild::EndOfViews { count } => {
                assert_eq!(*count as usize, self.views.len());
                assert_eq!(self.meshed, role == Role::Bake, "after the mesh of a bake");
                self.ended = true;
            }
            ToChild::Grant { .. }
            | ToChild::Opened { .. }
            | ToChild::Pipelines { .. }
            | ToChild::Sealed { .. } => {
                panic!("it answers a wish")
            }
        }
        assert!(
            parcel.fds.len() <= MAX_PACKET_FDS,
            "more than a packet takes"
        );
        for fd in &parcel.fds {
            if let Handed::Blob(blob) = fd {
                let fd = blob.as_fd().try_clone_to_owned().expect("a fd");
                let file = BlobFile::open(fd).expect("sealed in size");
                let mut first = [0];
                file.reader().read_exact(&mut first).expect("readable");
                assert!(
                    file.writer().write_all(&first).is_err(),
                    "what is handed on is frozen"
                );
            }
        }
    }
}

/// Asserts that any text of the report can be shown.
fn printable_texts(json: &Value) {
    match json {
        Value::String(text) => harmless(text),
        Value::Array(items) => items.iter().for_each(printable_texts),
        Value::Object(fields) => fields.values().for_each(printable_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
