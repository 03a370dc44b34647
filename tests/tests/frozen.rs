//! A worker that the kernel does not let die, really frozen, like one that hangs in a driver: the job continues.

use std::fs;
use std::time::Instant;

use kiln_tests::fault::{Fault, Plan, Step};
use kiln_tests::host::OldGroup;
use kiln_tests::walk::said;
use kiln_tests::{Bench, DEADLINE, status_of, wait_all_gone};
use nix::sys::signal::Signal;
use proto::message::Role;

/// Freezes a process for real: it is in state D, and SIGKILL has no effect until it is thawed.
fn freeze(pid: i32, name: &str) -> Option<OldGroup> {
    let group = match OldGroup::new("freezer", name) {
        Ok(group) => group,
        Err(why) => {
            said(&format!(
                "no process can be frozen here, so none that cannot be killed: {why}"
            ));
            return None;
        }
    };
    group.set("cgroup.procs", &pid.to_string());
    group.set("freezer.state", "FROZEN");
    let until = Instant::now() + DEADLINE;
    while group.get("freezer.state") != "FROZEN" {
        assert!(Instant::now() < until, "it does not freeze");
    }
    Some(group)
}

/// Kiln has ended, and the worker that it could not kill ends once it is thawed.
fn thaw(group: &OldGroup, pid: i32, alive: &fs::File) {
    let state = status_of(&pid.to_string(), "State").unwrap_or_default();
    assert!(state.contains('D'), "killed, and still there: {state}");
    group.set("freezer.state", "THAWED");
    wait_all_gone(alive);
}

#[test]
fn a_worker_that_cannot_be_killed_holds_up_neither_cancel_nor_end() {
    let bench = Bench::new(&Plan::always(Role::Bake, Step::Work, Fault::Stall));
    let alive = bench.alive();
    let mut run = bench.start(&[]);
    let pid = run.wait_progress("bake");
    let Some(group) = freeze(pid, "cancel") else {
        return;
    };
    run.send(Signal::SIGTERM);
    // Kiln does not wait for a process that never dies.
    let outcome = run.finish();
    outcome.assert_code(143);
    thaw(&group, pid, &alive);
    bench.assert_clean(&[]);
}

#[test]
fn a_worker_that_cannot_be_killed_is_replaced() {
    let bench = Bench::new(&Plan::once(Role::Bake, Step::Work, Fault::Stall));
    let alive = bench.alive();
    let mut run = bench.start(&["--stall-timeout", "2", "--timeout", "60"]);
    let pid = run.wait_progress("bake");
    let Some(group) = freeze(pid, "replace") else {
        return;
    };
    let outcome = run.finish();
    outcome.assert_code(0);
    thaw(&group, pid, &alive);
    bench.assert_clean(&["out.glb"]);
}
