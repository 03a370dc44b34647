//! Pull-push over the texels on the device: levels, their buffers and their order.

use std::sync::Arc;

use super::batch::Batch;
use super::device::{Device, GpuError};
use super::layout::{Level, TEXEL_LANES, texel_groups};
use super::memory::{Budget, Buffer, STORAGE, UNIFORM, buffer, buffer_with};
use super::planes::Planes;
use super::stage::{Compiled, bind};

/// Fills every texel whose weight is below 1 from its surroundings; weights stay. The levels' memory lives for this call.
pub(super) fn pull_push(
    device: &Device,
    budget: &Arc<Budget>,
    stage: &Compiled,
    planes: &Planes,
    size: u32,
) -> Result<(), GpuError> {
    let mut edges = vec![size];
    while let Some(&edge) = edges.last().filter(|&&edge| edge > 1) {
        edges.push(edge.div_ceil(2));
    }
    // Level 0 is the texture; odd levels lie in one set of planes, even ones in the other.
    let mut starts = vec![0; edges.len()];
    let mut ends = [0u32; 2];
    for level in 1..edges.len() {
        starts[level] = ends[level % 2];
        ends[level % 2] += edges[level] * edges[level];
    }
    let set = |end: u32| -> Result<Vec<Buffer>, GpuError> {
        (0..4)
            .map(|_| buffer(device, budget, "pyramid", u64::from(end) * 4, STORAGE))
            .collect()
    };
    let sets = [set(ends[0])?, set(ends[1])?];
    let texture = [&planes.x[0], &planes.x[1], &planes.x[2], &planes.weight];
    let mut steps = Vec::new();
    for fine in 0..edges.len() - 1 {
        let coarse = fine + 1;
        let level = |count: u32| Level {
            fine: edges[fine],
            coarse: edges[coarse],
            fine_start: starts[fine],
            coarse_start: starts[coarse],
            stride: texel_groups(count) * TEXEL_LANES,
            unused_0: 0,
            unused_1: 0,
            unused_2: 0,
        };
        let fine_planes: Vec<&Buffer> = if fine == 0 {
            texture.to_vec()
        } else {
            sets[fine % 2].iter().collect()
        };
        let group = |count: u32| -> Result<(wgpu::BindGroup, Buffer, u32), GpuError> {
            let uniform = buffer_with(device, budget, "level", &[level(count)], UNIFORM)?;
            let buffers = std::iter::once(&uniform)
                .chain(fine_planes.iter().copied())
                .chain(&sets[coarse % 2]);
            let resources: Vec<_> = buffers
                .map(|buffer| buffer.item.as_entire_binding())
                .collect();
            Ok((
                bind(device, "pyramid", &stage.layout, &resources),
                uniform,
                texel_groups(count),
            ))
        };
        steps.push((
            group(edges[coarse] * edges[coarse])?,
            group(edges[fine] * edges[fine])?,
        ));
    }
    let mut batch = Batch::new(device, "pull_push");
    for ((bind, _, groups), _) in &steps {
        stage.dispatch(&mut batch, "pull", bind, None, [*groups, 1], *groups)?;
    }
    for (_, (bind, _, groups)) in steps.iter().rev() {
        stage.dispatch(&mut batch, "push", bind, None, [*groups, 1], *groups)?;
    }
    batch.send()?;
    device.wait()
}
