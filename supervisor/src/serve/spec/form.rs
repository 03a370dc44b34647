//! What a job's JSON says of its result → [`Form`] and [`Product`], checked.

use proto::job::{Form, Product};

use super::{JobSpec, Problem};
use crate::cli::LEAST_MEMORY;
use crate::cli::form::quality;

impl JobSpec {
    pub(super) fn check_form(&self) -> Result<(), Problem> {
        let wrong = |field: &str, why: &str| Err(Problem::field(field, why.to_owned()));
        match self.texture_quality {
            Some(_) if !self.texture_format.has_quality() => {
                return wrong(
                    "texture_quality",
                    "is for texture_format jpeg, webp-lossy and ktx2-etc1s",
                );
            }
            Some(quality) if !(1..=100).contains(&quality) => {
                return wrong("texture_quality", "must be from 1 to 100");
            }
            _ => {}
        }
        if self.vertex_colours && self.maps {
            return wrong(
                "vertex_colours",
                "not together with maps: they have no texture",
            );
        }
        if self.vertex_colours && self.provenance_attribute {
            return wrong("vertex_colours", "not together with provenance_attribute");
        }
        if self.vertex_colours && self.pages != 1 {
            return wrong(
                "vertex_colours",
                "not together with pages: they have no texture",
            );
        }
        if (self.vram_budget).is_some_and(|bytes| bytes < LEAST_MEMORY) {
            return wrong("vram_budget", "must be at least 16777216, which is 16 MiB");
        }
        Ok(())
    }

    /// The form of the result: a GLB.
    #[must_use]
    pub fn form(&self) -> Form {
        let asked = self
            .texture_quality
            .and_then(|asked| u8::try_from(asked).ok());
        Form {
            texture: self.texture_format,
            quality: quality(self.texture_format, asked),
            compress: self.compress,
            provenance: self.provenance_attribute,
            pages: self.pages(),
            alpha: self.alpha_mode,
            alpha_cutoff: self.alpha_cutoff as f32,
            ..Form::default()
        }
    }

    /// What is made.
    #[must_use]
    pub fn product(&self) -> Product {
        match self.vertex_colours {
            true => Product::VertexColours,
            false => Product::Texture,
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::job::{Compress, TextureFormat};

    use super::*;

    #[test]
    fn a_form_is_that_of_the_command_line() {
        let plain = JobSpec::default();
        assert_eq!(plain.product(), Product::Texture);
        assert_eq!(plain.form().texture, TextureFormat::Png);
        let spec = JobSpec {
            texture_format: TextureFormat::Ktx2Etc1s,
            compress: Compress::Meshopt,
            provenance_attribute: true,
            ..JobSpec::default()
        };
        let form = spec.form();
        assert_eq!((form.texture, form.quality), (TextureFormat::Ktx2Etc1s, 75));
        assert_eq!((form.compress, form.provenance), (Compress::Meshopt, true));
        let jpeg = |texture_quality| {
            let texture_format = TextureFormat::Jpeg;
            let spec = JobSpec {
                texture_format,
                texture_quality,
                ..JobSpec::default()
            };
            spec.form().quality
        };
        assert_eq!((jpeg(None), jpeg(Some(40))), (90, 40));
        let of = |texture_format| JobSpec {
            texture_format,
            texture_quality: Some(40),
            ..JobSpec::default()
        };
        let formats = [
            (TextureFormat::Jpeg, "jpeg"),
            (TextureFormat::WebpLossy, "webp-lossy"),
            (TextureFormat::Ktx2Etc1s, "ktx2-etc1s"),
        ];
        let refused = of(TextureFormat::Png).check_form().expect_err("lossless");
        for (format, name) in formats {
            of(format).check_form().expect(name);
            assert!(refused.detail.contains(name), "{}", refused.detail);
        }
        let bare = JobSpec {
            vertex_colours: true,
            ..JobSpec::default()
        };
        assert_eq!(bare.product(), Product::VertexColours);
    }
}
