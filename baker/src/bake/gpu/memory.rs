//! Device memory. Sizes are summed before anything is allocated, and checked against the budget and the adapter's
//! bounds. A driver that allocates lazily accepts everything and fails later, so its answer is not relied on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use rayon::prelude::*;
use wgpu::BufferUsages as Usages;

use super::batch::Batch;
use super::device::{Device, GpuError};
use super::tally;

/// Bytes in use, and their bound.
#[derive(Debug)]
pub(super) struct Budget {
    cap: u64,
    /// Largest binding: the adapter's, or less in tests.
    pub(super) binding: u64,
    in_use: AtomicU64,
    peak: AtomicU64,
}

/// Bytes that count against a budget until they are dropped.
#[derive(Debug)]
struct Share {
    bytes: u64,
    budget: Arc<Budget>,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.in_use.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A buffer or texture that counts against the budget while it lives.
#[derive(Debug)]
pub(super) struct Held<T> {
    pub(super) item: T,
    share: Share,
}

impl<T> Held<T> {
    pub(super) fn bytes(&self) -> u64 {
        self.share.bytes
    }
}

pub(super) type Buffer = Held<wgpu::Buffer>;

/// Read and written by stages; filled or read back by the host.
pub(super) const STORAGE: Usages =
    (Usages::STORAGE.union(Usages::COPY_DST)).union(Usages::COPY_SRC);
pub(super) const UNIFORM: Usages = Usages::UNIFORM.union(Usages::COPY_DST);

impl Budget {
    pub(super) fn new(cap: u64, binding: u64) -> Arc<Self> {
        Arc::new(Self {
            cap,
            binding,
            in_use: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        })
    }

    pub(super) fn cap(&self) -> u64 {
        self.cap
    }

    pub(super) fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::Relaxed)
    }

    pub(super) fn left(&self) -> u64 {
        self.cap.saturating_sub(self.in_use())
    }

    pub(super) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Counts `bytes` as used, or fails if they exceed the budget.
    fn take(self: &Arc<Self>, what: &str, bytes: u64) -> Result<Share, GpuError> {
        let left = self.left();
        if bytes > left {
            let why = format!("{left} bytes are left of a budget of {}", self.cap);
            return Err(GpuError::out_of_memory(what, bytes, why));
        }
        let now = self.in_use.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
        Ok(Share {
            bytes,
            budget: Arc::clone(self),
        })
    }

    /// Size of a buffer that is to hold `bytes` bytes, if a binding can hold it.
    fn buffer_bytes(&self, label: &str, bytes: u64, usage: Usages) -> Result<u64, GpuError> {
        let bytes = bytes.max(16).next_multiple_of(16);
        if usage.contains(Usages::STORAGE) && bytes > self.binding {
            let why = format!("a binding holds {} bytes here", self.binding);
            return Err(GpuError::out_of_memory(label, bytes, why));
        }
        Ok(bytes)
    }
}

/// Makes buffers and textures: on a device, or only as a count for a dry run. Both go through the same code, so a dry
/// run counts what a bake makes.
pub(super) trait Maker {
    type Buffer;
    type Target;

    /// Makes a buffer of at least `bytes` bytes; it is never empty, since a binding must not be.
    fn buffer(
        &self,
        label: &str,
        bytes: u64,
        usage: Usages,
    ) -> Result<Held<Self::Buffer>, GpuError>;

    /// Makes a texture to draw to and to read from.
    fn target(
        &self,
        label: &str,
        edge: u32,
        format: wgpu::TextureFormat,
    ) -> Result<Held<Self::Target>, GpuError>;
}

/// Counts only.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted<'a>(pub(super) &'a Arc<Budget>);

impl Maker for Counted<'_> {
    type Buffer = ();
    type Target = ();

    fn buffer(&self, label: &str, bytes: u64, usage: Usages) -> Result<Held<()>, GpuError> {
        let share = (self.0).take(label, self.0.buffer_bytes(label, bytes, usage)?)?;
        Ok(Held { item: (), share })
    }

    fn target(
        &self,
        label: &str,
        edge: u32,
        _format: wgpu::TextureFormat,
    ) -> Result<Held<()>, GpuError> {
        let share = self.0.take(label, target_bytes(edge))?;
        Ok(Held { item: (), share })
    }
}

fn target_bytes(edge: u32) -> u64 {
    u64::from(edge) * u64::from(edge) * 4
}

/// A device, and the budget that counts what is made on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnDevice<'a> {
    pub(super) device: &'a Device,
    pub(super) budget: &'a Arc<Budget>,
}

impl<'a> OnDevice<'a> {
    pub(super) fn new(device: &'a Device, budget: &'a Arc<Budget>) -> Self {
        Self { device, budget }
    }

    fn held<T>(
        self,
        what: &str,
        bytes: u64,
        make: impl FnOnce(&wgpu::Device) -> T,
    ) -> Result<Held<T>, GpuError> {
        let share = self.budget.take(what, bytes)?;
        let made = self.device.scoped(|| make(&self.device.device));
        self.device.check()?;
        // wgpu reports a buffer beyond the adapter's bounds as a validation error; here it counts as lack of memory.
        let item = made.map_err(|error| GpuError::out_of_memory(what, bytes, error.to_string()))?;
        Ok(Held { item, share })
    }
}

impl Maker for OnDevice<'_> {
    type Buffer = wgpu::Buffer;
    type Target = wgpu::TextureView;

    fn buffer(&self, label: &str, bytes: u64, usage: Usages) -> Result<Buffer, GpuError> {
        let size = self.budget.buffer_bytes(label, bytes, usage)?;
        let descriptor = wgpu::BufferDescriptor {
            label: Some(label),
            size,
            usage,
            mapped_at_creation: false,
        };
        self.held(label, size, |device| device.create_buffer(&descriptor))
    }

    fn target(
        &self,
        label: &str,
        edge: u32,
        format: wgpu::TextureFormat,
    ) -> Result<Held<wgpu::TextureView>, GpuError> {
        let descriptor = wgpu::TextureDescriptor {
            label: Some(label),
            size: wgpu::Extent3d {
                width: edge,
                height: edge,
                depth_or_array_layers: 1,
            },
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format,
            usage: wgpu::TextureUsages::RENDER_ATTACHMENT | wgpu::TextureUsages::TEXTURE_BINDING,
            view_formats: &[],
        };
        self.held(label, target_bytes(edge), |device| {
            let texture = device.create_texture(&descriptor);
            texture.create_view(&wgpu::TextureViewDescriptor::default())
        })
    }
}

/// Fills a buffer from its start. Large contents go in pieces, as the queue holds a copy of each until it is done.
pub(super) fn write<T: bytemuck::Pod>(device: &Device, to: &Buffer, contents: &[T]) {
    const PIECE: usize = 16 << 20;
    let bytes: &[u8] = bytemuck::cast_slice(contents);
    device.uploaded(bytes.len());
    for (index, piece) in bytes.chunks(PIECE).enumerate() {
        device
            .queue
            .write_buffer(&to.item, (index * PIECE) as u64, piece);
    }
}

/// Fills planes from texels of four numbers. All cores write straight into the queue's memory; a vector in between
/// would be copied by one core.
pub(super) fn write_planes(
    device: &Device,
    planes: [&Buffer; 4],
    texels: &[[f32; 4]],
) -> Result<(), GpuError> {
    const PIECE: usize = 4 << 20;
    const PART: usize = 1 << 14;
    for (channel, plane) in planes.into_iter().enumerate() {
        device.uploaded(texels.len() * 4);
        for (index, texels) in texels.chunks(PIECE).enumerate() {
            let size = wgpu::BufferSize::new(texels.len() as u64 * 4);
            let offset = (index * PIECE * 4) as u64;
            let view =
                size.and_then(|size| device.queue.write_buffer_with(&plane.item, offset, size));
            let Some(mut view) = view else {
                device.check()?;
                return Err(device.lost("the queue takes no texels"));
            };
            let fill = |to: wgpu::WriteOnly<'_, [u8]>, texels: &[[f32; 4]]| {
                let (numbers, _) = to.into_chunks::<4>();
                numbers.write_iter(texels.iter().map(|texel| texel[channel].to_ne_bytes()));
            };
            let (parts, rest) = view.slice(..).into_chunks::<{ 4 * PART }>();
            let whole = texels.chunks_exact(PART);
            fill(rest, whole.remainder());
            let parts: Vec<_> = parts.into_iter().zip(whole).collect();
            (parts.into_par_iter()).for_each(|(to, texels)| fill(to.into(), texels));
        }
        // Submits the queue's copies before the next plane's are made.
        let mut batch = Batch::new(device, "write texels");
        batch.encoder();
        batch.send()?;
    }
    device.check()
}

/// Buffers that the host reads from. Each piece brings the device's count of its work along.
#[derive(Debug)]
pub(super) struct Staging<B = wgpu::Buffer> {
    /// Two where there is more than one piece: the device copies to one while the host reads the other.
    pub(super) halves: Vec<Held<B>>,
    /// Bytes of each buffer in a piece.
    piece: usize,
}

impl Staging {
    fn first(&self) -> &wgpu::Buffer {
        &self.halves[0].item
    }
}

impl<B> Staging<B> {
    /// Makes staging for `bytes` bytes of each of `buffers` buffers.
    pub(super) fn made<M: Maker<Buffer = B>>(
        make: &M,
        buffers: usize,
        bytes: usize,
    ) -> Result<Self, GpuError> {
        const PIECE: usize = 8 << 20;
        let piece = (PIECE / buffers).min(bytes);
        let usage = Usages::MAP_READ | Usages::COPY_DST;
        let room = (piece * buffers) as u64 + tally::BYTES;
        let half = |_| make.buffer("read-back", room, usage);
        let halves = (0..if bytes > piece { 2 } else { 1 }).map(half);
        Ok(Self {
            halves: halves.collect::<Result<_, _>>()?,
            piece,
        })
    }
}

/// Reads the first `count` numbers of `from`, after all work submitted so far. Fails unless that was all done
/// ([`Coming::arrive`]).
pub(super) fn read_as<T: bytemuck::Pod>(
    on: OnDevice<'_>,
    from: &Buffer,
    count: usize,
) -> Result<Vec<T>, GpuError> {
    let staging = Staging::made(&on, 1, count * size_of::<T>())?;
    read_through(on.device, &staging, from, count)
}

/// [`read_as`] through `staging`, which may be made for more buffers.
pub(super) fn read_through<T: bytemuck::Pod>(
    device: &Device,
    staging: &Staging,
    from: &Buffer,
    count: usize,
) -> Result<Vec<T>, GpuError> {
    let mut out = vec![T::zeroed(); count];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut out);
    read_pieces(device, staging, &[from], bytes.len(), |start, data| {
        bytes[start..start + data.len()].copy_from_slice(data);
    })?;
    Ok(out)
}

/// [`read_as`] of four planes, as `[a, b, c, d]` of each texel, through `staging` made for four.
pub(super) fn read_planes(
    device: &Device,
    staging: &Staging,
    planes: [&Buffer; 4],
    count: usize,
) -> Result<Vec<[f32; 4]>, GpuError> {
    let mut out = vec![[0.0; 4]; count];
    read_pieces(device, staging, &planes, count * 4, |start, data| {
        let length = data.len() / 4;
        let planes: [&[f32]; 4] =
            std::array::from_fn(|k| bytemuck::cast_slice(&data[k * length..(k + 1) * length]));
        out[start / 4..][..length / 4]
            .par_iter_mut()
            .enumerate()
            .with_min_len(1 << 13)
            .for_each(|(at, out)| *out = planes.map(|plane| plane[at]));
    })?;
    Ok(out)
}

/// A read-back under way: bytes of some buffers side by side, and the device's count of its work up to there.
#[derive(Debug)]
struct Coming {
    bytes: u64,
    asked: u32,
    sent: wgpu::SubmissionIndex,
    mapped: mpsc::Receiver<Result<(), wgpu::BufferAsyncError>>,
}

impl Coming {
    /// Starts to read `part` bytes of each of `from`, beginning at `start`.
    fn send(
        device: &Device,
        from: &[&Buffer],
        (start, part): (u64, u64),
        to: &wgpu::Buffer,
    ) -> Result<Self, GpuError> {
        let bytes = part * from.len() as u64;
        let mut batch = Batch::new(device, "read-back");
        batch.tick();
        let encoder = batch.encoder();
        for (at, from) in (0..).zip(from) {
            encoder.copy_buffer_to_buffer(&from.item, start, to, at * part, part);
        }
        let tally = device.tally();
        encoder.copy_buffer_to_buffer(&tally.buffer, 0, to, bytes, tally::BYTES);
        let asked = tally.asked();
        let sent = (batch.submit()?).ok_or_else(|| device.lost("a read-back was not sent"))?;
        let (sender, mapped) = mpsc::channel();
        to.map_async(wgpu::MapMode::Read, ..bytes + tally::BYTES, move |result| {
            // The receiver outlives the poll below, or the read has already failed.
            drop(sender.send(result));
        });
        Ok(Self {
            bytes,
            asked,
            sent,
            mapped,
        })
    }

    /// Waits for the data and passes it to `take`. It does so only if poll and map succeeded, the device is not lost,
    /// and the tally that came along says that all work before it was done.
    fn arrive(
        self,
        device: &Device,
        to: &wgpu::Buffer,
        take: impl FnOnce(&[u8]),
    ) -> Result<(), GpuError> {
        device.wait_for(self.sent)?;
        match self.mapped.try_recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(device.lost(format!("read-back: {error}"))),
            Err(_) => return Err(device.lost("read-back was never answered")),
        }
        let mapped = to
            .get_mapped_range(..self.bytes + tally::BYTES)
            .map_err(|error| device.lost(error.to_string()))?;
        let (data, count) = mapped.split_at(self.bytes as usize);
        device.verify(tally::counted(count), self.asked)?;
        take(data);
        device.read_back(data.len());
        drop(mapped);
        to.unmap();
        Ok(())
    }
}

/// A small read-back that the device may answer while it gets more work.
#[derive(Debug)]
pub(super) struct Question {
    staging: Staging,
    coming: Coming,
}

impl Question {
    /// Asks for the first `count` words of `from`, as they will be after everything submitted so far.
    pub(super) fn ask(on: OnDevice<'_>, from: &Buffer, count: usize) -> Result<Self, GpuError> {
        let bytes = count * size_of::<u32>();
        let staging = Staging::made(&on, 1, bytes)?;
        let coming = Coming::send(on.device, &[from], (0, bytes as u64), staging.first())?;
        Ok(Self { staging, coming })
    }

    pub(super) fn answer(self, device: &Device) -> Result<Vec<u32>, GpuError> {
        let mut words = Vec::new();
        let Self { staging, coming } = self;
        coming.arrive(device, staging.first(), |data| {
            words = bytemuck::pod_collect_to_vec(data);
        })?;
        Ok(words)
    }
}

/// A buffer through which one read-back after the other comes, while the device gets more work.
#[derive(Debug)]
pub(super) struct Inbox {
    buffer: Buffer,
    coming: Option<Coming>,
}

impl Inbox {
    /// Makes one for up to `bytes` bytes.
    pub(super) fn made(on: OnDevice<'_>, bytes: u64) -> Result<Self, GpuError> {
        let usage = Usages::MAP_READ | Usages::COPY_DST;
        Ok(Self {
            buffer: on.buffer("read-back", bytes + tally::BYTES, usage)?,
            coming: None,
        })
    }

    /// Asks for the first `bytes` bytes of `from`, a multiple of 4, as they will be after everything submitted so far.
    pub(super) fn send(
        &mut self,
        device: &Device,
        from: &Buffer,
        bytes: u64,
    ) -> Result<(), GpuError> {
        let coming = Coming::send(device, &[from], (0, bytes), &self.buffer.item)?;
        self.coming = Some(coming);
        Ok(())
    }

    /// Waits for what was asked for, and passes it to `take`.
    pub(super) fn arrive(
        &mut self,
        device: &Device,
        take: impl FnOnce(&[u8]),
    ) -> Result<(), GpuError> {
        match self.coming.take() {
            Some(coming) => coming.arrive(device, &self.buffer.item, take),
            None => Ok(()),
        }
    }
}

/// Reads the first `bytes` bytes of each of some buffers, piece by piece. `take` gets the offset of a piece, and the
/// piece's bytes of all buffers, one buffer after the other.
fn read_pieces(
    device: &Device,
    staging: &Staging,
    from: &[&Buffer],
    bytes: usize,
    mut take: impl FnMut(usize, &[u8]),
) -> Result<(), GpuError> {
    let piece = staging.piece.max(1);
    let mut halves = staging.halves.iter().cycle();
    let mut starts = (0..bytes).step_by(piece);
    let mut send = || -> Result<_, GpuError> {
        let (Some(start), Some(half)) = (starts.next(), halves.next()) else {
            return Ok(None);
        };
        let part = piece.min(bytes - start) as u64;
        let coming = Coming::send(device, from, (start as u64, part), &half.item)?;
        Ok(Some((start, coming, &half.item)))
    };
    let mut next = send()?;
    while let Some((start, coming, half)) = next {
        // The other half, if there is one, is under way while this one is taken.
        next = send()?;
        coming.arrive(device, half, |data| take(start, data))?;
    }
    Ok(())
}
