//! Everything that has one number for each texel.
//!
//! One buffer holds one number of one channel: at 4096² that is 64 MiB, half of the smallest binding seen (lavapipe's
//! 128 MiB), where four channels together would be 256 MiB; at 8192² it is 256 MiB, which real GPUs bind. Row stages bind the
//! three channels side by side, texel stages run once for each.

use std::sync::Arc;

use super::device::{Device, GpuError};
use super::layout::{Scalars, TEXEL_LANES, Texels, texel_groups};
use super::memory::{Budget, Buffer, STORAGE, UNIFORM, buffer, write};
use super::stage::{Compiled, bind};

/// One plane for each of red, green and blue.
pub(super) type Colour = [Buffer; 3];

#[derive(Debug)]
pub(super) struct Planes {
    pub(super) count: u32,
    size: u32,
    /// Texels, in the space of the fit.
    pub(super) x: Colour,
    /// Observed weight.
    pub(super) weight: Buffer,
    /// Residual; before, the sums that it is made of.
    pub(super) r: Colour,
    /// Direction.
    pub(super) p: Colour,
    /// Product with the normal matrix; also the bounds of the sums.
    pub(super) q: Colour,
    pub(super) diagonal: Colour,
    /// Powers of two that the sums are scaled with, one byte for each channel.
    pub(super) exponents: Buffer,
    /// Rows that touch a texel.
    pub(super) counts: Buffer,
    /// λ at the texels of the last reweighting.
    pub(super) lambda: Colour,
    /// Sum of the pixels' part that λ is relative to.
    pub(super) trusted: Buffer,
    /// One byte a texel.
    pub(super) links: Buffer,
    /// For each channel, one of every workgroup.
    pub(super) partials: Buffer,
    pub(super) scalars: Buffer,
    /// One for each channel.
    pub(super) texels: Colour,
}

fn colour(
    mut make: impl FnMut(&str) -> Result<Buffer, GpuError>,
    label: &str,
) -> Result<Colour, GpuError> {
    Ok([
        make(&format!("{label}_r"))?,
        make(&format!("{label}_g"))?,
        make(&format!("{label}_b"))?,
    ])
}

impl Planes {
    pub(super) fn new(device: &Device, budget: &Arc<Budget>, size: u32) -> Result<Self, GpuError> {
        let count = size * size;
        let plane = |label: &str| buffer(device, budget, label, u64::from(count) * 4, STORAGE);
        let uniform =
            |label: &str| buffer(device, budget, label, size_of::<Texels>() as u64, UNIFORM);
        let planes = Self {
            count,
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
            trusted: buffer(device, budget, "trusted", 8, STORAGE)?,
            links: buffer(device, budget, "links", u64::from(count), STORAGE)?,
            partials: buffer(
                device,
                budget,
                "partials",
                u64::from(texel_groups(count)) * 3 * 8,
                STORAGE,
            )?,
            scalars: buffer(
                device,
                budget,
                "scalars",
                3 * size_of::<Scalars>() as u64,
                STORAGE,
            )?,
            texels: colour(uniform, "texels")?,
        };
        planes.set_strength(device, 0.0, 0.0);
        Ok(planes)
    }

    /// Another set of colour planes.
    pub(super) fn another(
        &self,
        device: &Device,
        budget: &Arc<Budget>,
        label: &str,
    ) -> Result<Colour, GpuError> {
        colour(
            |label| buffer(device, budget, label, u64::from(self.count) * 4, STORAGE),
            label,
        )
    }

    /// Sets the ties' strength: of links relative to the mean diagonal, of seams relative to links.
    pub(super) fn set_strength(&self, device: &Device, smoothness: f32, seam_ratio: f32) {
        let groups = texel_groups(self.count);
        for (channel, to) in (0..).zip(&self.texels) {
            let texels = Texels {
                size: self.size,
                count: self.count,
                channel,
                groups,
                stride: groups * TEXEL_LANES,
                smoothness,
                seam_ratio,
                unused: 0,
            };
            write(device, to, &[texels]);
        }
    }

    /// Own group of `regularise` and `solve`, one for each channel.
    pub(super) fn channel_groups(&self, device: &Device, stage: &Compiled) -> [wgpu::BindGroup; 3] {
        std::array::from_fn(|c| {
            let buffers = [
                &self.texels[c],
                &self.x[c],
                &self.r[c],
                &self.p[c],
                &self.q[c],
                &self.diagonal[c],
                &self.exponents,
                &self.counts,
                &self.lambda[c],
                &self.trusted,
                &self.links,
                &self.partials,
                &self.scalars,
            ];
            bind(
                device,
                "solve",
                &stage.layout,
                &buffers.map(|buffer| buffer.item.as_entire_binding()),
            )
        })
    }

    /// Own group of `normal`: reads `v`, sums into `out`.
    pub(super) fn normal_group(
        &self,
        device: &Device,
        stage: &Compiled,
        v: &Colour,
        out: &Colour,
    ) -> wgpu::BindGroup {
        let buffers = [
            &self.texels[0],
            &v[0],
            &v[1],
            &v[2],
            &out[0],
            &out[1],
            &out[2],
            &self.exponents,
            &self.scalars,
            &self.trusted,
        ];
        bind(
            device,
            "normal",
            &stage.layout,
            &buffers.map(|buffer| buffer.item.as_entire_binding()),
        )
    }

    /// Own group of `average`, which borrows the solver's planes for its sums.
    pub(super) fn average_group(&self, device: &Device, stage: &Compiled) -> wgpu::BindGroup {
        let [x_r, x_g, x_b] = &self.x;
        let [r_r, r_g, r_b] = &self.r;
        let buffers = [
            &self.texels[0],
            &self.counts,
            r_r,
            r_g,
            r_b,
            &self.q[0],
            x_r,
            x_g,
            x_b,
            &self.weight,
        ];
        bind(
            device,
            "average",
            &stage.layout,
            &buffers.map(|buffer| buffer.item.as_entire_binding()),
        )
    }

    /// Own group of `deviation`, which borrows the solver's planes: sums in the first two of `r`, the result in the first
    /// of `q`.
    pub(super) fn deviation_group(&self, device: &Device, stage: &Compiled) -> wgpu::BindGroup {
        let [x_r, x_g, x_b] = &self.x;
        let buffers = [
            &self.texels[0],
            x_r,
            x_g,
            x_b,
            &self.counts,
            &self.r[0],
            &self.r[1],
            &self.q[0],
        ];
        bind(
            device,
            "deviation",
            &stage.layout,
            &buffers.map(|buffer| buffer.item.as_entire_binding()),
        )
    }
}

/// Records that planes are to be zero.
pub(super) fn clear(encoder: &mut wgpu::CommandEncoder, planes: &[Buffer]) {
    for plane in planes {
        encoder.clear_buffer(&plane.item, 0, None);
    }
}
