//! The channels that views show besides colour, and the textures made of them: the material's layers.
//!
//! A view's layers follow its own pixels in the same table, in the order of [`Layer::ALL`], each of the same size. The
//! bake fits their bytes as they are: encoded colours if [`Layer::is_colour`], plain numbers otherwise. Alpha is the
//! weight of the pixel in this layer.

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

use super::{
    Camera, HEADER_BYTES, TableError, View, ViewHeader, bound, header, read_array, read_header,
};
use crate::limits::{MAX_TEXTURE_SIZE, MIN_TEXTURE_SIZE};

worded! {
    /// A layer of the material besides its base colour; users call them channels.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum Layer {
        /// Green is roughness, blue is metallic, as in glTF.
        MetallicRoughness = "metallic_roughness",
        /// Unit vectors n in the result's world, stored as n/2 + ½.
        Normal = "normal",
        /// Emitted light: sRGB, as the base colour.
        Emissive = "emissive",
        /// Share of the ambient light that arrives, in red; 1 is all.
        Occlusion = "occlusion",
        /// Opacity, in red; 0 is clear.
        Opacity = "opacity",
    }
}

impl Layer {
    /// The layer with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layer| layer.name() == name)
    }

    /// Whether it holds sRGB; the others hold plain numbers.
    pub fn is_colour(self) -> bool {
        self == Self::Emissive
    }
}

/// A set of layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LayerSet(u32);

impl LayerSet {
    /// All bits that mean a layer.
    pub(super) const BITS: u32 = (1 << Layer::ALL.len()) - 1;

    /// `None` if a bit means no layer.
    pub fn from_bits(bits: u32) -> Option<Self> {
        (bits <= Self::BITS).then_some(Self(bits))
    }

    /// One bit for each layer.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// The set with `layer` added.
    #[must_use]
    pub fn with(self, layer: Layer) -> Self {
        Self(self.0 | 1 << layer as u32)
    }

    /// The union of both sets.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it holds `layer`.
    pub fn has(self, layer: Layer) -> bool {
        self.0 & 1 << layer as u32 != 0
    }

    /// Its layers, in the order of [`Layer::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Layer> {
        Layer::ALL.into_iter().filter(move |&layer| self.has(layer))
    }

    /// How many there are.
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Layer> for LayerSet {
    fn from_iter<T: IntoIterator<Item = Layer>>(layers: T) -> Self {
        layers.into_iter().fold(Self::default(), Self::with)
    }
}

/// A view and its layers.
#[derive(Clone, Debug, PartialEq)]
pub struct LayeredView {
    /// The view.
    pub view: View,
    /// Pixels of each of its layers, in the order of [`Layer::ALL`], as many as the view has.
    pub layers: Vec<(Layer, Vec<[u8; 4]>)>,
}

impl LayeredView {
    /// The set of its layers.
    pub fn set(&self) -> LayerSet {
        self.layers.iter().map(|(layer, _)| *layer).collect()
    }

    /// Size of the table in bytes.
    pub fn byte_len(&self) -> u64 {
        let pixels = self.view.pixels.len() as u64 * 4;
        self.view.byte_len() + pixels * u64::from(self.set().len())
    }

    /// Writes the table; without layers it is that of the view.
    ///
    /// # Errors
    /// [`TableError::Io`].
    pub fn write(&self, out: &mut impl Write) -> Result<(), TableError> {
        self.view.write_as(self.set(), out)?;
        for (_, pixels) in &self.layers {
            out.write_all(bytemuck::cast_slice(pixels))?;
        }
        Ok(())
    }

    /// Reads and checks a table with the `wanted` ones of its layers. Returns also which layers it has.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn read(input: &mut impl Read, wanted: LayerSet) -> Result<(Self, LayerSet), TableError> {
        let (view, set) = View::read_with_set(input)?;
        let count = view.pixels.len();
        let mut layers = Vec::new();
        for layer in set.iter() {
            if wanted.has(layer) {
                layers.push((layer, read_array(input, count)?));
            } else if layers.len() < wanted.len() as usize {
                let bytes = count as u64 * 4;
                std::io::copy(&mut input.by_ref().take(bytes), &mut std::io::sink())?;
            }
        }
        Ok((Self { view, layers }, set))
    }
}

impl ViewHeader {
    /// Size in bytes of the table that has this header.
    pub fn table_bytes(&self) -> u64 {
        let planes = match self.undrawn {
            true => 0,
            false => 1 + u64::from(self.layers.len()),
        };
        (HEADER_BYTES + size_of::<Camera>()) as u64 + self.pixel_bytes() * planes
    }

    /// Bytes of the view's own pixels, drawn or not.
    pub fn pixel_bytes(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height) * 4
    }
}

/// The baked texture of one layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerTexture {
    /// Which layer.
    pub layer: Layer,
    /// Edge in texels.
    pub size: u32,
    /// `size²` texels, row by row from v = 0. Bytes are as in a view's layer, with alpha 255. For [`Layer::Normal`] see
    /// [`pack_normal`].
    pub texels: Vec<[u8; 4]>,
}

impl LayerTexture {
    const MAGIC: &'static [u8; 8] = b"KILNLAY1";

    /// Size in bytes of the table of a texture of `size²` texels.
    pub fn bytes_for(size: u32) -> u64 {
        HEADER_BYTES as u64 + u64::from(size) * u64::from(size) * 4
    }

    /// Writes the table.
    ///
    /// # Errors
    /// [`TableError::Io`].
    pub fn write(&self, out: &mut impl Write) -> Result<(), TableError> {
        out.write_all(&header(Self::MAGIC, &[self.size, self.layer as u32]))?;
        out.write_all(bytemuck::cast_slice(&self.texels))?;
        Ok(())
    }

    /// Reads and checks a table.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn read(input: &mut impl Read) -> Result<Self, TableError> {
        let [size, layer] = read_header(input, Self::MAGIC, "layer")?;
        bound(
            "layer size",
            size,
            MIN_TEXTURE_SIZE as usize,
            MAX_TEXTURE_SIZE as usize,
        )?;
        let layer = Layer::ALL[bound("layer", layer, 0, Layer::ALL.len() - 1)?];
        let texels = read_array(input, size as usize * size as usize)?;
        Ok(Self {
            layer,
            size,
            texels,
        })
    }
}

/// Packs a unit vector into 31 bits, finer than 0.003°, and one bit for whether pixels show it. One byte per component
/// would be rounded a second time when the normal is rotated into its triangle's frame. Octahedral (Meyer and others,
/// 2010), with 16 and 15 bits.
pub fn pack_normal(normal: [f32; 3], observed: bool) -> [u8; 4] {
    let sum = normal.iter().map(|x| x.abs()).sum::<f32>();
    let [x, y, z] = if sum > 0.0 && sum.is_finite() {
        normal.map(|x| x / sum)
    } else {
        [0.0, 0.0, 1.0]
    };
    let [x, y] = if z >= 0.0 { [x, y] } else { fold([x, y]) };
    let step = |x: f32, most: f32| ((x.clamp(-1.0, 1.0) + 1.0) / 2.0 * most).round() as u32;
    let packed = step(x, 65_535.0) | step(y, 32_767.0) << 16 | u32::from(observed) << 31;
    packed.to_le_bytes()
}

/// Unpacks what [`pack_normal`] packed: a unit vector, and whether pixels show it.
pub fn unpack_normal(texel: [u8; 4]) -> ([f32; 3], bool) {
    let packed = u32::from_le_bytes(texel);
    let x = (packed & 0xffff) as f32 / 65_535.0 * 2.0 - 1.0;
    let y = (packed >> 16 & 0x7fff) as f32 / 32_767.0 * 2.0 - 1.0;
    let z = 1.0 - x.abs() - y.abs();
    let [x, y] = if z >= 0.0 { [x, y] } else { fold([x, y]) };
    let length = (x * x + y * y + z * z).sqrt();
    ([x, y, z].map(|x| x / length), packed >> 31 != 0)
}

/// Unfolds the lower half of the octahedron.
fn fold([x, y]: [f32; 2]) -> [f32; 2] {
    [
        (1.0 - y.abs()) * 1.0_f32.copysign(x),
        (1.0 - x.abs()) * 1.0_f32.copysign(y),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_survive_packing() {
        for k in 0..5000_u32 {
            let z = 1.0 - (2 * k + 1) as f32 / 5000.0;
            let (sin, cos) = (2.399_963 * k as f32).sin_cos();
            let radius = (1.0 - z * z).sqrt();
            let wanted = [radius * cos, radius * sin, z];
            for observed in [false, true] {
                let (found, told) = unpack_normal(pack_normal(wanted, observed));
                let off: f32 = (0..3).map(|i| (found[i] - wanted[i]).powi(2)).sum();
                assert!(off.sqrt() < 1.2e-4, "{wanted:?} is {found:?}");
                assert_eq!(told, observed);
            }
        }
        for none in [[0.0; 3], [f32::NAN; 3], [f32::INFINITY, 0.0, 0.0]] {
            let (found, _) = unpack_normal(pack_normal(none, false));
            assert!((found[2] - 1.0).abs() < 1e-3, "{found:?}");
        }
        for bits in [0, u32::MAX, 0x8000_7fff, 0x4000_8000] {
            let (found, _) = unpack_normal(bits.to_le_bytes());
            let length: f32 = found.iter().map(|x| x * x).sum();
            assert!((length - 1.0).abs() < 1e-5, "{bits:x}");
        }
    }

    #[test]
    fn sets_and_names_know_every_layer() {
        let mut set = LayerSet::default();
        for (count, layer) in (0..).zip(Layer::ALL) {
            assert_eq!((layer as u32, set.len()), (count, count));
            assert_eq!(Layer::from_name(layer.name()), Some(layer));
            assert!(!set.has(layer));
            set = set.with(layer);
        }
        assert_eq!(set.bits(), LayerSet::BITS);
        assert!(set.iter().eq(Layer::ALL));
        assert_eq!(LayerSet::from_bits(LayerSet::BITS + 1), None);
    }
}
