//! Command line flags; the doc comments are the text of `--help`.

use clap::Parser;
use kiln_tests::vulkan::{Cell, LLVMPIPE, Source, Walls};
use vkfault::Fault;

/// Makes each Vulkan call of a whole bake fail in turn, and judges the outcome.
#[derive(Debug, Parser)]
#[command(name = "vulkan_walk", max_term_width = 100)]
pub(crate) struct Args {
    /// Every cell: each call × (four errors × once and for ever, hang).
    #[arg(long, conflicts_with_all = ["seed", "cells", "cell"])]
    pub(crate) all: bool,
    /// Chooses the sample.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Size of the sample.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) cells: usize,
    /// One cell alone: once=CODE@N, sticky=CODE@N, hang@N or drop@N, then /vkCommand to count that command's calls only.
    #[arg(long, value_name = "FAULT", conflicts_with_all = ["seed", "cells"])]
    pub(crate) cell: Option<Fault>,
    /// Drop commands silently instead of failing calls.
    #[arg(long)]
    pub(crate) drops: bool,
    /// Run workers in their sandbox: slower, and a fault hits every process.
    #[arg(long)]
    pub(crate) sandbox: bool,
    /// Bake views of splats, which the adapter draws, in place of pictures.
    #[arg(long)]
    splats: bool,
    /// Only calls of this command.
    #[arg(long, value_name = "vkCommand")]
    pub(crate) command: Option<String>,
    /// The adapter that bakes: a part of its name as `kiln doctor` shows it.
    #[arg(long, value_name = "NAME", default_value = LLVMPIPE)]
    pub(crate) device: String,
    /// Concurrent bakes; by default the number of processors.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

impl Args {
    pub(crate) fn walls(&self) -> Walls {
        if self.sandbox {
            Walls::Sandbox
        } else {
            Walls::Open
        }
    }

    pub(crate) fn source(&self) -> Source {
        match self.splats {
            true => Source::Splats,
            false => Source::Pictures,
        }
    }

    pub(crate) fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or_else(cores).max(1)
    }
}

/// The command line that repeats a cell.
pub(crate) fn again(cell: &Cell, walls: Walls, source: Source) -> String {
    let flag = match walls {
        Walls::Open => "",
        Walls::Sandbox => " --sandbox",
    };
    let views = match source {
        Source::Pictures => "",
        Source::Splats => " --splats",
    };
    format!(
        "target/release/vulkan_walk --cell {}{flag}{views}",
        cell.fault
    )
}
