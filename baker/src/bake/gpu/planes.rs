//! Planes: buffers with one number for each texel.
//!
//! A plane holds one number of one channel. At 4096² it has 64 MiB, half of the smallest known binding limit
//! (lavapipe's 128 MiB); four channels together would need 256 MiB. At 8192² it has 256 MiB, which real GPUs bind.
//! Stages over rows bind three channels of a quantity, stages over texels all planes.

use super::batch::Batch;
use super::device::{Device, GpuError};
use super::layout::{Scalars, TALLY_WORDS, TEXEL_LANES, Texels, texel_groups};
use super::memory::{Buffer, Held, Maker, OnDevice, STORAGE, UNIFORM, write};
use super::stage::{Compiled, bind_buffers};
use crate::bake::plan::window::Window;
use crate::bake::solve::multilevel;

pub(super) type Colour<B = wgpu::Buffer> = [Held<B>; 3];

#[derive(Debug)]
pub(super) struct Planes<B = wgpu::Buffer> {
    pub(super) count: u32,
    /// Capacity in texels.
    pub(super) room: u32,
    pub(super) size: u32,
    /// Texels, in the space of the fit.
    pub(super) x: Colour<B>,
    /// Observed weight.
    pub(super) weight: Held<B>,
    /// Residual; before it, the integer sums that it is made of.
    pub(super) r: Colour<B>,
    /// Search direction.
    pub(super) p: Colour<B>,
    /// Product with the normal matrix; also the bounds of the sums.
    pub(super) q: Colour<B>,
    pub(super) diagonal: Colour<B>,
    /// Powers of two that scale the sums, one byte for each channel.
    pub(super) exponents: Held<B>,
    /// Number of rows that touch a texel.
    pub(super) counts: Held<B>,
    /// λ at the texels of the last reweighting.
    pub(super) lambda: Colour<B>,
    /// Σ over pixels of row weight · Σ a², which λ is relative to.
    pub(super) trusted: Held<B>,
    /// One byte a texel: its links, and whether it takes part in the solution.
    pub(super) links: Held<B>,
    /// Partial reductions: one of each workgroup for each channel.
    pub(super) partials: Held<B>,
    pub(super) scalars: Held<B>,
    /// Two numbers for each cell of the coarse levels.
    pub(super) coarse: Colour<B>,
    pub(super) texels: Held<B>,
}

const TRUSTED: u64 = 4 * TALLY_WORDS as u64;

fn colour<B>(
    mut make: impl FnMut(&str) -> Result<Held<B>, GpuError>,
    label: &str,
) -> Result<Colour<B>, GpuError> {
    Ok([
        make(&format!("{label}_r"))?,
        make(&format!("{label}_g"))?,
        make(&format!("{label}_b"))?,
    ])
}

fn coarse_bytes(size: u32, texels: u32) -> u64 {
    let edges = [size, texels.div_ceil(size.max(1))].map(|edge| edge as usize);
    2 * 4 * multilevel::cells(edges) as u64
}

/// Three planes of `count` texels.
pub(super) fn colour_planes<M: Maker>(
    make: &M,
    label: &str,
    count: u32,
) -> Result<Colour<M::Buffer>, GpuError> {
    colour(
        |label| make.buffer(label, u64::from(count) * 4, STORAGE),
        label,
    )
}

impl<B> Planes<B> {
    /// Makes the buffers of a window, still empty, with room for windows of up to `room` texels.
    pub(super) fn made<M: Maker<Buffer = B>>(
        make: &M,
        window: &Window,
        room: usize,
    ) -> Result<Self, GpuError> {
        let (size, count) = (window.size, window.texels() as u32);
        let room = count.max(room as u32);
        let plane = |label: &str| make.buffer(label, u64::from(room) * 4, STORAGE);
        let partials = u64::from(texel_groups(room)) * 3 * 8;
        let scalars = 3 * size_of::<Scalars>() as u64;
        Ok(Self {
            count,
            room,
            size,
            x: colour(plane, "x")?,
            weight: plane("weight")?,
            r: colour(plane, "r")?,
            p: colour(plane, "p")?,
            q: colour(plane, "q")?,
            diagonal: colour(plane, "diagonal")?,
            exponents: plane("exponents")?,
            counts: plane("counts")?,
            lambda: colour(plane, "lambda")?,
            trusted: make.buffer("trusted", TRUSTED, STORAGE)?,
            links: make.buffer("links", u64::from(room), STORAGE)?,
            partials: make.buffer("partials", partials, STORAGE)?,
            scalars: make.buffer("scalars", scalars, STORAGE)?,
            coarse: colour(
                |label| make.buffer(label, coarse_bytes(size, room), STORAGE),
                "coarse",
            )?,
            texels: make.buffer("texels", size_of::<Texels>() as u64, UNIFORM)?,
        })
    }
}

impl Planes<()> {
    /// Bytes of the planes of `texels` texels, in a texture with rows of `size` texels.
    pub(super) fn bytes(size: u32, texels: usize) -> u64 {
        let groups = u64::from(texel_groups(texels as u32));
        let fixed = (3 * size_of::<Scalars>() + size_of::<Texels>()) as u64 + TRUSTED;
        let plane = |bytes: u64| bytes.max(16).next_multiple_of(16);
        let coarse = 3 * plane(coarse_bytes(size, texels as u32));
        21 * plane(4 * texels as u64) + plane(texels as u64) + coarse + groups * 3 * 8 + fixed
    }

    /// Its buffers, for callers that only need their bytes.
    pub(super) fn into_buffers(self) -> Vec<Held<()>> {
        let Self {
            count: _,
            room: _,
            size: _,
            x,
            weight,
            r,
            p,
            q,
            diagonal,
            exponents,
            counts,
            lambda,
            trusted,
            links,
            partials,
            scalars,
            coarse,
            texels,
        } = self;
        let colours = [x, r, p, q, diagonal, lambda, coarse];
        let others = [
            weight, exponents, counts, trusted, links, partials, scalars, texels,
        ];
        colours.into_iter().flatten().chain(others).collect()
    }
}

impl Planes {
    /// [`Self::made`] on a device, without smoothness.
    pub(super) fn new(on: OnDevice<'_>, window: &Window, room: usize) -> Result<Self, GpuError> {
        let planes = Self::made(&on, window, room)?;
        planes.set_strength(on.device, 0.0, 0.0, false);
        Ok(planes)
    }

    /// Resets the planes for another window, as if they were new.
    pub(super) fn renew(&mut self, device: &Device, window: &Window) -> Result<(), GpuError> {
        (self.size, self.count) = (window.size, window.texels() as u32);
        let colours = [
            &self.x,
            &self.r,
            &self.p,
            &self.q,
            &self.diagonal,
            &self.lambda,
            &self.coarse,
        ];
        let others = [
            &self.weight,
            &self.exponents,
            &self.counts,
            &self.trusted,
            &self.links,
            &self.partials,
            &self.scalars,
        ];
        let mut batch = Batch::new(device, "planes");
        for plane in colours.into_iter().flatten().chain(others) {
            batch.encoder().clear_buffer(&plane.item, 0, None);
        }
        batch.send()?;
        self.set_strength(device, 0.0, 0.0, false);
        Ok(())
    }

    /// Sets the smoothness: λ of links relative to the mean diagonal, and the weight of seams relative to links.
    /// `narrowed` says that only the rows of the subset exist.
    pub(super) fn set_strength(
        &self,
        device: &Device,
        smoothness: f32,
        seam_ratio: f32,
        narrowed: bool,
    ) {
        let groups = texel_groups(self.count);
        let texels = Texels {
            size: self.size,
            count: self.count,
            groups,
            stride: groups * TEXEL_LANES,
            smoothness,
            seam_ratio,
            narrowed: narrowed.into(),
        };
        write(device, &self.texels, &[texels]);
    }

    /// Group 1 of `regularise`, `multilevel` and `solve`.
    pub(super) fn solve_group(&self, device: &Device, stage: &Compiled) -> wgpu::BindGroup {
        let mut buffers = vec![&self.texels];
        for colour in [&self.x, &self.r, &self.p, &self.q, &self.diagonal] {
            buffers.extend(colour);
        }
        buffers.extend([&self.exponents, &self.counts]);
        buffers.extend(&self.lambda);
        buffers.extend([&self.trusted, &self.links, &self.partials, &self.scalars]);
        buffers.extend(&self.coarse);
        bind_buffers(device, "solve", &stage.layout, &buffers)
    }

    /// Group 1 of `normal`: reads `v`, sums into `out`.
    pub(super) fn normal_group(
        &self,
        device: &Device,
        stage: &Compiled,
        v: &Colour,
        out: &Colour,
    ) -> wgpu::BindGroup {
        let mut buffers = vec![&self.texels];
        buffers.extend(v.iter().chain(out));
        buffers.extend([&self.exponents, &self.scalars, &self.trusted]);
        bind_buffers(device, "normal", &stage.layout, &buffers)
    }

    /// Group 1 of `average`, which borrows the solver's planes for its sums.
    pub(super) fn average_group(&self, device: &Device, stage: &Compiled) -> wgpu::BindGroup {
        let mut buffers = vec![&self.texels, &self.counts];
        buffers.extend(self.r.iter().chain([&self.q[0]]));
        buffers.extend(self.x.iter().chain([&self.weight]));
        bind_buffers(device, "average", &stage.layout, &buffers)
    }

    /// Group 1 of `deviation`, which borrows the solver's planes: sums in the first two of `r`, the result in the first
    /// of `q`.
    pub(super) fn deviation_group(&self, device: &Device, stage: &Compiled) -> wgpu::BindGroup {
        let mut buffers = vec![&self.texels];
        buffers.extend(self.x.iter().chain([&self.counts]));
        buffers.extend(self.r[..2].iter().chain([&self.q[0]]));
        bind_buffers(device, "deviation", &stage.layout, &buffers)
    }
}

pub(super) fn clear(encoder: &mut wgpu::CommandEncoder, planes: &[Buffer]) {
    for plane in planes {
        encoder.clear_buffer(&plane.item, 0, None);
    }
}
