//! The store across sudden ends and failing disks, in its own process: the next open finds all that was answered,
//! nothing twice, and nothing partial.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kiln_tests::names_in;
use kiln_tests::shim::{Cell, Deed, counts, preload, read_log, sabotage};
use kiln_tests::walk::{all_right, demand, in_parallel, said};
use nix::libc;
use supervisor::store::{Accepted, Clock, Digest, JobId, Limits, NewJob, State, Store, StoreError};

const KEEPER: &str = env!("CARGO_BIN_EXE_keeper");
const KILLS: u64 = 60;
/// Far more than a loaded machine needs for one script.
const DEADLINE: Duration = Duration::from_secs(60);

/// The answers that a keeper received.
#[derive(Debug, Default)]
struct Told {
    accepted: BTreeMap<String, JobId>,
    finished: BTreeSet<JobId>,
    forgotten: BTreeSet<JobId>,
    errors: Vec<String>,
    opened: bool,
    healthy: Option<bool>,
}

impl Told {
    fn line(&mut self, line: &str) {
        let id = |text: &str| text.parse::<JobId>().expect("an id");
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["open", _restarted] => self.opened = true,
            ["accepted", key, job] => {
                let before = self.accepted.insert((*key).to_owned(), id(job));
                assert!(before.is_none(), "{key} was accepted twice");
            }
            ["finished", job] => assert!(self.finished.insert(id(job)), "{job} ended twice"),
            ["forgotten", job] => assert!(self.forgotten.insert(id(job)), "{job} went twice"),
            ["healthy", word] => self.healthy = Some(*word == "true"),
            ["error", ..] => self.errors.push(line.to_owned()),
            other => panic!("what is {other:?}?"),
        }
    }
}

fn limits() -> Limits {
    Limits {
        queue_jobs: 1_000_000,
        free_bytes: 0,
        free_percent: 0,
        keep_percent: 100,
        ..Limits::default()
    }
}

fn folder(root: &Path) -> PathBuf {
    let folder = root.join("store");
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&folder)
        .expect("a folder");
    folder
}

/// Whether a keeper removes the job of this key: `keeper serve` one in seven, some of which it never begins, and `keeper
/// script`, whose keys have no number, one that is finished.
fn removed(key: &str, finished: bool) -> bool {
    let number = key.rsplit('-').next().and_then(|text| text.parse().ok());
    number.map_or(finished, |number: u64| {
        number % 7 == 1 && (finished || number.is_multiple_of(3))
    })
}

/// Damages an upload between two processes, in one round of four: a file is missing or truncated.
fn harm(folder: &Path, round: u64) -> bool {
    let blobs = folder.join("blobs");
    let files = names_in(&blobs).into_iter().flat_map(|branch| {
        let branch = blobs.join(branch);
        names_in(&branch)
            .into_iter()
            .map(move |name| branch.join(name))
    });
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    let place = usize::try_from(round).expect("small") * 7919 % files.len().max(1);
    let Some(path) = files.get(place).filter(|_| round % 4 == 3) else {
        return false;
    };
    fs::remove_file(path).expect("ours");
    if round % 8 == 3 {
        fs::write(path, "the me").expect("room");
    }
    true
}

fn said_so(error: StoreError) -> String {
    error.to_string()
}

/// Opens what a keeper left, and compares it with what it was answered.
fn check(folder: &Path, told: &Told, harmed: bool) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let opened = Store::open(folder, limits(), Clock::default());
    let (store, recovered) = opened.map_err(|error| format!("open: {error}"))?;
    runtime.expect("a runtime").block_on(async {
        demand(names_in(&folder.join("spool")).is_empty(), || {
            "half uploads".into()
        })?;
        let mut all = BTreeMap::new();
        let mut cursor = None;
        loop {
            let page = store.list(None, cursor, 1000).await.map_err(said_so)?;
            for id in page.jobs {
                let job = store.get(id).await.map_err(said_so)?;
                let key = job.key.clone();
                demand(job.spec == format!("{{\"name\":{key:?}}}"), || {
                    format!("half a job: {job:?}")
                })?;
                demand(all.insert(key, job).is_none(), || "a key twice".into())?;
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let mut folders: BTreeSet<String> = names_in(&folder.join("jobs")).into_iter().collect();
        let mut waiting = Vec::new();
        for job in all.values() {
            if job.state == State::Queued {
                waiting.push(job.id);
                continue;
            }
            demand(job.state == State::Succeeded, || {
                format!("{job:?} after open")
            })?;
            let [artifact] = job.artifacts.as_slice() else {
                return Err(format!("half a success: {job:?}"));
            };
            let bytes = fs::read(store.artifact_path(job.id, artifact))
                .map_err(|error| format!("{job:?}: {error}"))?;
            let right = bytes == format!("glTF of the mesh of {}", job.key).into_bytes();
            demand(right && Digest::of(&bytes) == artifact.digest, || {
                format!("half a result: {job:?}")
            })?;
            folders.remove(&job.id.to_string());
        }
        demand(folders.is_empty(), || {
            format!("folders of no result: {folders:?}")
        })?;
        waiting.sort();
        let queued: Vec<JobId> = recovered.queued.iter().map(|job| job.id).collect();
        demand(queued == waiting, || {
            "another queue than the rows tell of".into()
        })?;
        for (key, id) in &told.accepted {
            let there = all.get(key).filter(|job| job.id == *id);
            match (told.forgotten.contains(id), there) {
                (false, None) => {
                    // It may have been removed while the answer was lost.
                    let gone = store.get(*id).await == Err(StoreError::Gone);
                    let due = removed(key, told.finished.contains(id));
                    demand(gone && due, || format!("{key} is lost"))?;
                }
                (true, Some(_)) => return Err(format!("{key} was forgotten")),
                (true, None) => {}
                (false, Some(job)) => demand(
                    !told.finished.contains(id) || job.state == State::Succeeded,
                    || format!("its end is lost: {job:?}"),
                )?,
            }
        }
        // The store still works: a repeated request is recognised, and queued jobs can start.
        if let Some(job) = all.values().next_back() {
            let again = NewJob {
                client: job.client.clone(),
                key: job.key.clone(),
                spec_digest: job.spec_digest,
                spec: job.spec.clone(),
                inputs: BTreeMap::new(),
                path_bytes: 0,
            };
            let answer = store.accept(again).await.map_err(said_so)?;
            let same = matches!(&answer, Accepted::Replayed(same) if same.id == job.id);
            demand(same, || format!("accepted twice: {answer:?}"))?;
        }
        for id in waiting.iter().take(1) {
            let job = store.begin(*id).await.map_err(said_so)?;
            let mut inputs = store.materialise(*id).await;
            if harmed && matches!(inputs, Err(StoreError::MissingBlobs(_))) {
                let mut upload = store.upload(None).await.map_err(said_so)?;
                let mesh = format!("the mesh of {}", job.key);
                upload.write(mesh).await.map_err(said_so)?;
                upload.finish(None).await.map_err(said_so)?;
                inputs = store.materialise(*id).await;
            }
            inputs.map_err(|error| format!("inputs of {id}: {error}"))?;
        }
        store.close().await.map_err(said_so)
    })
}

#[test]
fn sixty_kills_lose_nothing_double_nothing_and_leave_nothing_half() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = folder(root.path());
    let (mut told, mut harmed) = (Told::default(), false);
    let start = Instant::now();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..KILLS {
        // A third each runs with the wall clock right, a month ahead or a year behind.
        const DAY_MS: i64 = 24 * 60 * 60 * 1000;
        let ahead = [0, 30 * DAY_MS, -365 * DAY_MS][usize::try_from(round % 3).expect("small")];
        let mut keeper = Command::new(KEEPER)
            .arg("serve")
            .arg(&folder)
            .env("KEEPER_CLOCK_AHEAD_MS", ahead.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a keeper");
        let out = keeper.stdout.take().expect("piped");
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // From before it opens to well into its work, whatever the disk's speed, and somewhere within the next
        // operation.
        let lines = usize::try_from((seed >> 33) % 40).expect("small");
        let wait = Duration::from_micros((seed >> 20) % 4_000);
        let mut end = || {
            std::thread::sleep(wait);
            keeper.kill().expect("it lives");
        };
        let mut heard = 0;
        if lines == 0 {
            end();
        }
        for line in BufReader::new(out).lines() {
            told.line(&line.expect("text"));
            heard += 1;
            if heard == lines {
                end();
            }
        }
        keeper.wait().expect("it is ours");
        assert!(told.errors.is_empty(), "round {round}: {:?}", told.errors);
        // Damage shows only when the upload's job starts, maybe some rounds later.
        harmed |= harm(&folder, round);
        if let Err(what) = check(&folder, &told, harmed) {
            panic!("round {round}, killed {wait:?} after line {lines}: {what}");
        }
    }
    let (accepted, finished) = (told.accepted.len(), told.finished.len());
    said(&format!(
        "{KILLS} kills in {:.1} s: {accepted} accepted, {finished} finished, {} forgotten",
        start.elapsed().as_secs_f64(),
        told.forgotten.len()
    ));
    assert!(
        accepted > 100 && finished > 50,
        "{accepted} accepted, {finished} finished"
    );
}

/// Runs the script once under the shim; returns the exit code and the answers.
fn run(folder: &Path, log: &Path, cell: Option<&Cell>) -> (Option<i32>, Told, String) {
    let mut command = Command::new(KEEPER);
    command
        .arg("script")
        .arg(folder)
        .env("IOFAULT_UNDER", folder);
    preload(&mut command, log);
    if let Some(cell) = cell {
        sabotage(&mut command, cell);
    }
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a keeper");
    let start = Instant::now();
    while child.try_wait().expect("it is ours").is_none() {
        if start.elapsed() > DEADLINE {
            child.kill().expect("it lives");
            child.wait().expect("it is ours");
            return (None, Told::default(), format!("it hangs: {cell:?}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().expect("its lines");
    let mut told = Told::default();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        told.line(line);
    }
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), told, stderr)
}

fn cells(counts: &BTreeMap<String, u32>) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (call, count) in counts {
        let errnos: &[i32] = match call.as_str() {
            "write" | "pwrite" | "fsync" | "create" => &[libc::ENOSPC, libc::EIO],
            "link" => &[libc::EMLINK, libc::ENOSPC, libc::EIO],
            "rename" | "open" | "read" | "pread" | "unlink" | "ftruncate" => &[libc::EIO],
            // 256 of them are alike.
            "mkdir" => &[libc::ENOSPC],
            _ => &[],
        };
        for nth in (1..=*count).filter(|nth| call != "mkdir" || nth % 50 == 1 || nth + 12 > *count)
        {
            let mut cell = |sticky, deed| cells.push(Cell::new(call, nth, sticky, deed));
            // Once, and from then on: a bad block, and a disk that fills up.
            if let Some(errno) = errnos.last() {
                cell(false, Deed::Errno(*errno));
            }
            if let Some(errno) = errnos.first() {
                cell(true, Deed::Errno(*errno));
            }
            if call == "write" {
                cell(false, Deed::Cut);
            }
            cell(false, Deed::Kill);
        }
    }
    cells
}

fn suffer(root: &Path, cell: &Cell) -> Result<bool, String> {
    let (folder, log) = (folder(root), root.join("calls.log"));
    let (code, told, stderr) = run(&folder, &log, Some(cell));
    let hit = read_log(&log).iter().any(|call| call.hit);
    let shown = || format!("{told:?}\n{stderr}");
    demand(!stderr.contains("panicked"), || {
        format!("a panic: {}", shown())
    })?;
    match (code, cell.deed) {
        (None, Deed::Kill) => {}
        (Some(74), _) => demand(told.errors.len() == 1 && !told.opened, shown)?,
        (Some(0), _) => {
            let well = told.healthy == Some(true);
            demand(told.opened && (well || cell.sticky), || {
                format!("not well: {}", shown())
            })?;
            demand(well || !told.errors.is_empty(), shown)?;
        }
        other => return Err(format!("{other:?}: {}", shown())),
    }
    // The disk works again.
    check(&folder, &told, false).map_err(|what| format!("{what}: {}", shown()))?;
    Ok(hit)
}

#[test]
fn any_failing_call_is_an_error_of_its_request_and_costs_nothing_that_was_answered() {
    let root = tempfile::tempdir().expect("a folder");
    let log = root.path().join("calls.log");
    let (code, told, stderr) = run(&folder(root.path()), &log, None);
    assert_eq!(
        (code, told.errors.as_slice()),
        (Some(0), [].as_slice()),
        "{stderr}"
    );
    assert_eq!(
        (told.accepted.len(), told.finished.len(), told.healthy),
        (3, 2, Some(true))
    );
    let counts = counts(&read_log(&log));
    for kind in ["write", "fsync", "link", "create", "unlink", "mkdir"] {
        assert!(counts.contains_key(kind), "no {kind} among {counts:?}");
    }
    let cells = cells(&counts);
    let start = Instant::now();
    let results = in_parallel(3, &cells, |cell| {
        suffer(tempfile::tempdir().expect("a folder").path(), cell)
    });
    let hits = all_right(&cells, results, |cell| format!("{cell:?}"));
    let hits = hits.into_iter().filter(|hit| *hit).count();
    said(&format!(
        "{} cells, {hits} of them hit, in {:.1} s: {counts:?}",
        cells.len(),
        start.elapsed().as_secs_f64()
    ));
    assert!(
        hits * 10 > cells.len() * 9,
        "{hits} of {} cells hit anything",
        cells.len()
    );
}

#[test]
fn the_checks_see_what_is_lost_and_what_is_half() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = folder(root.path());
    let log = root.path().join("calls.log");
    let (_, mut told, _) = run(&folder, &log, None);
    check(&folder, &told, false).expect("all is well");
    let finished = *told
        .finished
        .difference(&told.forgotten)
        .next()
        .expect("one is kept");
    let waits = told
        .accepted
        .values()
        .find(|id| !told.finished.contains(id))
        .copied();
    let sees = |told: &Told, what: &str| {
        let found = check(&folder, told, false).expect_err("it sees nothing");
        assert!(found.contains(what), "{found}");
    };
    // An end and a job that the store never received.
    let mut more = Told {
        accepted: told.accepted.clone(),
        ..Told::default()
    };
    more.finished.insert(waits.expect("one waits"));
    more.forgotten.clone_from(&told.forgotten);
    sees(&more, "its end is lost");
    told.accepted.insert(
        "never".into(),
        "00000000000070008000000000000000".parse().expect("an id"),
    );
    sees(&told, "never is lost");
    told.accepted.remove("never");
    fs::write(folder.join(format!("jobs/{finished}/model.glb")), "glTF of").expect("ours");
    sees(&told, "half a result");
}
