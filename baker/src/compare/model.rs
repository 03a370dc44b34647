//! A GLB → its mesh in the renderer's form, its pictures, and the figures of its unwrap.

use proto::message::{AtlasFigures, Code, Failure};
use proto::table::Mesh;

use crate::image::render::{Image, Textures};
use crate::image::survey::{cover, survey, weld};
use crate::prepare::load::{self, NoUvs, Offset, Pictures, RawMesh};
use crate::worker::folder::Folder;
use crate::worker::pace;
use crate::worker::progress::{Progress, each};

pub(super) struct Model {
    pub(super) mesh: Mesh,
    pub(super) pictures: Pictures,
    /// For each picture the triangle of each texel; empty where all colours are plain.
    pub(super) owners: Vec<Vec<u32>>,
    /// None where all colours are plain.
    pub(super) atlas: Option<AtlasFigures>,
    /// What the mesh's positions are less.
    pub(super) offset: Offset,
}

impl Model {
    /// Reads a file at an offset, or at the one that suits it.
    pub(super) fn read(
        folder: &Folder<'_>,
        name: &str,
        offset: Option<Offset>,
        progress: &dyn Progress,
    ) -> Result<Self, Failure> {
        let (raw, pictures, offset) = load::read_painted(folder, name, offset, progress)
            .map_err(|error| error.failure(name))?;
        let model = Self::new(raw, pictures, progress).map_err(|missing| Failure {
            code: Code::InvalidAsset,
            message: format!("{name}: {missing}, and a texture is shown"),
            hint: String::new(),
        })?;
        Ok(Self { offset, ..model })
    }

    fn new(raw: RawMesh, pictures: Pictures, progress: &dyn Progress) -> Result<Self, NoUvs> {
        let plain = pictures
            .pictures
            .iter()
            .all(|picture| picture.texels.len() == 1);
        let uvs = match raw.uvs {
            Ok(uvs) => uvs,
            Err(NoUvs::Absent) if plain => vec![[0.0; 2]; raw.positions.len()],
            Err(missing) => return Err(missing),
        };
        if uvs.iter().flatten().any(|x| !(-0.001..=1.001).contains(x)) {
            progress.warning("texture coordinates outside 0 to 1 are clamped, not repeated");
        }
        let mesh = Mesh {
            normals: vec![[0.0; 3]; raw.positions.len()],
            surface_vertices: weld(&raw.positions),
            positions: raw.positions,
            uvs,
            triangles: raw.triangles,
            charts: 0,
        };
        let mut model = Self {
            mesh,
            pictures,
            owners: Vec::new(),
            atlas: None,
            offset: Offset::default(),
        };
        if !plain {
            let images = model.pictures.images();
            let textures = model.textures(&images);
            let texels: usize = model.pictures.pictures.iter().map(|p| p.texels.len()).sum();
            let step = each(texels, pace::TEXEL) + each(model.mesh.triangles.len(), pace::TRIANGLE);
            progress.expect("the map of the texture", step);
            let owners: Vec<Vec<u32>> = (0..images.len())
                .map(|image| {
                    let owners = cover(&model.mesh, textures, image);
                    crate::worker::progress::unit();
                    owners
                })
                .collect();
            progress.expect("seams", step);
            let atlas = survey(&model.mesh, textures, &owners);
            (model.owners, model.atlas) = (owners, Some(atlas));
        }
        Ok(model)
    }

    pub(super) fn textures<'a>(&'a self, images: &'a [Image<'a>]) -> Textures<'a> {
        Textures {
            images,
            of_triangle: &self.pictures.of_triangle,
        }
    }

    /// Sizes of the pictures with more than one texel.
    pub(super) fn texture_sizes(&self) -> Vec<[u32; 2]> {
        let sizes = self.pictures.pictures.iter();
        let sizes = sizes.filter(|picture| picture.texels.len() > 1);
        sizes
            .map(|picture| [picture.width as u32, picture.height as u32])
            .collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::prepare::load::painted_of;
    use crate::worker::progress::Silent;

    /// The card of the encode tests with its texture, as if it had been read from a file.
    pub(in crate::compare) fn card() -> Model {
        let (mesh, texture, _) = crate::image::measure::tests::scene();
        let raw = RawMesh {
            positions: mesh.positions,
            uvs: Ok(mesh.uvs),
            triangles: mesh.triangles,
        };
        Model::new(
            raw,
            painted_of(texture.size as usize, texture.texels),
            &Silent,
        )
        .unwrap()
    }

    #[test]
    fn a_card_is_one_chart_that_fills_its_texture() {
        let atlas = card().atlas.unwrap();
        assert_eq!((atlas.charts, atlas.used, atlas.seam_length), (1, 1.0, 0.0));
        assert_eq!(atlas.seam_residual, [0.0; 4]);
    }

    #[test]
    fn plain_colours_need_no_coordinates_and_textures_do() {
        let (mesh, _, _) = crate::image::measure::tests::scene();
        let raw = || RawMesh {
            positions: mesh.positions.clone(),
            uvs: Err(NoUvs::Absent),
            triangles: mesh.triangles.clone(),
        };
        let plain = Model::new(raw(), painted_of(1, vec![[9, 9, 9, 255]]), &Silent).unwrap();
        assert!(plain.atlas.is_none() && plain.texture_sizes().is_empty());
        let texture = painted_of(2, vec![[9, 9, 9, 255]; 4]);
        assert_eq!(
            Model::new(raw(), texture, &Silent).err(),
            Some(NoUvs::Absent)
        );
    }

    #[test]
    fn points_at_one_place_are_one() {
        let positions = [[0.0, 1.0, 2.0], [3.0, 1.0, 2.0], [-0.0, 1.0, 2.0]];
        assert_eq!(weld(&positions), [0, 1, 0]);
    }
}
