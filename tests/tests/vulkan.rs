//! Vulkan faults without a GPU: a sample of `vulkan_walk --all`, on llvmpipe. Fails without llvmpipe.

#![expect(
    clippy::print_stderr,
    reason = "the seed of a sample is told with the failure"
)]

use std::sync::LazyLock;
use std::time::SystemTime;

use kiln_tests::vulkan::{
    Cell, Kind, LLVMPIPE, Source, Walls, World, drops, faults, judge, sample,
};
use kiln_tests::walk::in_parallel;
use vkfault::Fault;

/// Of failing and hanging calls, of dropped commands, and of either in the sandbox: from pictures, and from splats.
const CELLS: [usize; 3] = [40, 6, 6];
const CELLS_OF_SPLATS: [usize; 3] = [20, 4, 2];

/// One walk for all tests.
static WORLD: LazyLock<World> = LazyLock::new(|| world(Source::Pictures));

fn world(source: Source) -> World {
    World::new(LLVMPIPE, source).unwrap_or_else(|error| panic!("{error}"))
}

fn cell(fault: &str, call: &str) -> Cell {
    Cell {
        fault: fault.parse::<Fault>().expect(fault),
        call: call.to_owned(),
    }
}

/// Judges the cells four at a time, since hanging ones need no processor; returns what is wrong.
fn violations(world: &World, golden: &[u8], cells: &[(Cell, Walls)]) -> Vec<String> {
    let judged = in_parallel(4, cells, |(cell, walls)| {
        let finished = world.run(cell, *walls).expect("a folder");
        let violation = judge(&cell.fault, &finished, golden, LLVMPIPE).err()?;
        let flag = if *walls == Walls::Sandbox {
            " --sandbox"
        } else {
            ""
        };
        let views = match world.source {
            Source::Pictures => "",
            Source::Splats => " --splats",
        };
        let fault = &cell.fault;
        let again = format!("target/release/vulkan_walk --cell {fault}{flag}{views}");
        Some(format!(
            "{cell}: {violation}; again: {again}; {finished:#?}"
        ))
    });
    judged.into_iter().flatten().collect()
}

#[test]
fn a_failing_vulkan_call_is_a_right_result_or_an_error_that_says_so() {
    walk(&WORLD, CELLS);
}

#[test]
fn likewise_where_the_adapter_draws_splats() {
    walk(&world(Source::Splats), CELLS_OF_SPLATS);
}

/// Judges a sample of this many cells.
fn walk(world: &World, [failing, dropped, confined]: [usize; 3]) {
    let log = &world.log;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let told = std::env::var("KILN_VULKAN_SEED").ok();
    let seed = told.map_or_else(
        || now.expect("after 1970").as_secs(),
        |seed| seed.parse().expect("KILN_VULKAN_SEED is a number"),
    );
    let mut cells: Vec<(Cell, Walls)> = sample(faults(log), seed, failing)
        .into_iter()
        .chain(sample(drops(log), seed, dropped))
        .map(|cell| (cell, Walls::Open))
        .collect();
    let all = faults(log).into_iter().chain(drops(log)).collect();
    let others = sample(all, seed + 1, confined).into_iter();
    cells.extend(others.map(|cell| (cell, Walls::Sandbox)));
    eprintln!("KILN_VULKAN_SEED={seed}: {} cells", cells.len());
    assert_eq!(
        cells.len(),
        failing + dropped + confined,
        "the bake makes too few calls"
    );
    let violations = violations(world, &world.golden, &cells);
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn each_kind_of_fault_ends_as_it_should_and_is_told_from_the_others() {
    use Kind::{Failed, Recovered};
    let kind = |cell: &Cell, walls| {
        let finished = WORLD.run(cell, walls).expect("a folder");
        let seen = judge(&cell.fault, &finished, &WORLD.golden, LLVMPIPE)
            .unwrap_or_else(|violation| panic!("{cell}: {violation}: {finished:#?}"));
        assert!(seen.struck, "{cell} was not reached: {finished:#?}");
        seen.kind
    };
    let of = |fault: &str| {
        let (_, command) = fault.split_once('/').expect(fault);
        cell(fault, command)
    };
    for (fault, wanted) in [
        ("once=-4@20/vkQueueSubmit", Recovered),
        ("sticky=-4@20/vkQueueSubmit", Failed("gpu_device_lost")),
        ("once=-4@3/vkWaitSemaphores", Recovered),
        ("once=-2@3/vkAllocateMemory", Recovered),
        (
            "sticky=-2@3/vkAllocateMemory",
            Failed("out_of_device_memory"),
        ),
        // wgpu takes a driver that gives no reason for not opening a device as lost.
        ("sticky=-13@1/vkCreateDevice", Failed("gpu_device_lost")),
        (
            "sticky=-13@1/vkEnumeratePhysicalDevices",
            Failed("no_adapter"),
        ),
        ("hang@20/vkQueueSubmit", Recovered),
        ("hang@1/vkCreateDevice", Recovered),
        ("drop@20/vkQueueSubmit", Failed("incomplete_output")),
        ("drop@100/vkCmdDispatch", Failed("incomplete_output")),
        ("drop@1/vkCmdDispatchIndirect", Failed("incomplete_output")),
    ] {
        assert_eq!(kind(&of(fault), Walls::Open), wanted, "{fault}");
    }
    for (fault, wanted) in [
        ("once=-4@20/vkQueueSubmit", Failed("gpu_device_lost")),
        ("once=-2@3/vkAllocateMemory", Failed("out_of_device_memory")),
        ("hang@20/vkQueueSubmit", Failed("gpu_hang")),
        ("drop@1/vkCmdDispatchIndirect", Failed("incomplete_output")),
    ] {
        assert_eq!(
            kind(&of(fault), Walls::Sandbox),
            wanted,
            "{fault} in the sandbox"
        );
    }
}

#[test]
fn a_result_that_is_not_the_golden_one_is_found() {
    let fault = cell("once=-13@1000000", "beyond the count");
    let cells = [(fault.clone(), Walls::Open), (fault, Walls::Sandbox)];
    let none = violations(&WORLD, &WORLD.golden, &cells);
    assert!(none.is_empty(), "{}", none.join("\n"));
    let mut other = WORLD.golden.clone();
    other[100] ^= 1;
    let found = violations(&WORLD, &other, &cells);
    assert!(
        found.len() == 2 && found.iter().all(|found| found.contains("WRONG RESULT")),
        "{}",
        found.join("\n")
    );
}
