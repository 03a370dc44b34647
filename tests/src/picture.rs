//! PNG files: 8-bit samples in and out.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use png::{BitDepth, ColorType, Compression, Decoder, Encoder};

/// A picture of 8-bit samples.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Width and height in pixels.
    pub size: [u32; 2],
    /// What a pixel is; of a palette, its index.
    pub colour: ColorType,
    /// The samples, row after row.
    pub bytes: Vec<u8>,
}

impl Picture {
    /// Reads a PNG of 8 bits a sample.
    pub fn decode(file: &[u8]) -> Self {
        let mut reader = Decoder::new(Cursor::new(file)).read_info().expect("a PNG");
        let mut bytes = vec![0; reader.output_buffer_size().expect("small")];
        let info = reader.next_frame(&mut bytes).expect("pixels");
        assert_eq!(info.bit_depth, BitDepth::Eight);
        bytes.truncate(info.buffer_size());
        Self {
            size: [info.width, info.height],
            colour: info.color_type,
            bytes,
        }
    }

    /// As [`Self::decode`], from a file.
    pub fn read(path: &Path) -> Self {
        Self::decode(&fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    /// Writes a PNG.
    pub fn write(&self, path: &Path) {
        let mut file = Vec::new();
        let mut encoder = Encoder::new(&mut file, self.size[0], self.size[1]);
        encoder.set_color(self.colour);
        // Hundreds of large views are written for a benchmark.
        encoder.set_compression(Compression::Fast);
        let mut writer = encoder.write_header().expect("memory");
        writer.write_image_data(&self.bytes).expect("pixels");
        writer.finish().expect("memory");
        fs::write(path, file).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Samples of a pixel.
    pub fn width(&self) -> usize {
        self.colour.samples()
    }
}
