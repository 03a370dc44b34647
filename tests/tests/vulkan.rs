//! Vulkan faults without a GPU: a sample of the cells that `vulkan_walk --all` walks, on llvmpipe. Without llvmpipe an error.

#![expect(
    clippy::print_stderr,
    reason = "the seed of a sample is told with the failure"
)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use kiln_tests::vulkan::{Cell, Kind, LLVMPIPE, World, drops, faults, judge, sample};
use vkfault::Fault;

const SABOTEUR: &str = env!("CARGO_BIN_EXE_saboteur");
/// Of failing and hanging calls, and of dropped commands.
const CELLS: [usize; 2] = [50, 10];

fn world() -> World {
    World::new(SABOTEUR, LLVMPIPE).unwrap_or_else(|error| panic!("{error}"))
}

fn cell(fault: &str, call: &str) -> Cell {
    Cell {
        fault: fault.parse::<Fault>().expect(fault),
        call: call.to_owned(),
    }
}

/// Judges the cells four at a time, since those that hang need no processor; gives what is wrong.
fn violations(world: &World, cells: &[Cell]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    let work = || {
        while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
            let finished = world.run(cell).expect("a folder");
            if let Err(violation) = judge(&cell.fault, &finished, &world.golden, LLVMPIPE) {
                let again = format!("target/release/vulkan_walk --cell {}", cell.fault);
                let violation = format!("{cell}: {violation}; again: {again}");
                found.lock().expect("not poisoned").push(violation);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(work);
        }
    });
    found.into_inner().expect("not poisoned")
}

#[test]
fn a_failing_vulkan_call_is_a_right_result_or_an_error_that_says_so() {
    let world = world();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = now.expect("after 1970").as_secs();
    let [failing, dropped] = CELLS;
    let mut cells = sample(faults(&world.log), seed, failing);
    cells.extend(sample(drops(&world.log), seed, dropped));
    eprintln!("seed {seed}: {} cells", cells.len());
    assert_eq!(
        cells.len(),
        failing + dropped,
        "the bake makes too few calls"
    );
    let violations = violations(&world, &cells);
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn each_kind_of_fault_ends_as_it_should_and_is_told_from_the_others() {
    let world = world();
    let kind = |cell: &Cell| {
        let finished = world.run(cell).expect("a folder");
        let seen = judge(&cell.fault, &finished, &world.golden, LLVMPIPE)
            .unwrap_or_else(|violation| panic!("{cell}: {violation}: {finished:#?}"));
        assert!(seen.struck, "{cell} was not reached: {finished:#?}");
        seen.kind
    };
    let submit = "vkQueueSubmit";
    for (fault, call, wanted) in [
        ("once=-4@20/vkQueueSubmit", submit, Kind::Recovered),
        (
            "sticky=-4@20/vkQueueSubmit",
            submit,
            Kind::Failed("gpu_device_lost"),
        ),
        (
            "once=-4@3/vkWaitSemaphores",
            "vkWaitSemaphores",
            Kind::Recovered,
        ),
        (
            "once=-2@3/vkAllocateMemory",
            "vkAllocateMemory",
            Kind::Recovered,
        ),
        (
            "sticky=-13@1/vkCreateDevice",
            "vkCreateDevice",
            Kind::Failed("no_adapter"),
        ),
        ("hang@20/vkQueueSubmit", submit, Kind::Recovered),
        ("hang@1/vkCreateDevice", "vkCreateDevice", Kind::Recovered),
        (
            "drop@20/vkQueueSubmit",
            submit,
            Kind::Failed("incomplete_output"),
        ),
        (
            "drop@100/vkCmdDispatch",
            "vkCmdDispatch",
            Kind::Failed("incomplete_output"),
        ),
        (
            "drop@1/vkCmdDraw",
            "vkCmdDraw",
            Kind::Failed("incomplete_output"),
        ),
    ] {
        assert_eq!(kind(&cell(fault, call)), wanted, "{fault}");
    }
}

#[test]
fn a_result_that_is_not_the_golden_one_is_found() {
    let mut world = world();
    let fault = cell("once=-13@1000000", "beyond the count");
    assert!(violations(&world, std::slice::from_ref(&fault)).is_empty());
    world.golden[100] ^= 1;
    let found = violations(&world, &[fault]);
    assert!(
        found.len() == 1 && found[0].contains("WRONG RESULT"),
        "{found:?}"
    );
}
