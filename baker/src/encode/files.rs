//! Mesh, texture and layers → the files of the result, each read back from the sealed memory in which it is handed over.

use std::borrow::Cow;
use std::time::Duration;

use proto::job::{Compress, Container, Form, TextureFormat};
use proto::message::{Code, Failure, Phase, Table};
use proto::pages::Pages;
use proto::table::Mesh;

use super::glb::{self, Dress, GlbError, Leaf, provenance, quantised};
use super::material::{self, Layers, Material};
use super::pages::{self, Sheets};
use super::read_back::{self, ReadBack, Tolerance};
use super::skin::Skin;
use super::{obj, part, picture, ply, tangents};
use crate::image::png::Kind;
use crate::worker::failure::internal;
use crate::worker::pace;
use crate::worker::progress::{PhaseClock, Progress, each, unit};
use crate::worker::session::{Session, unchanged};

/// What was handed over: sizes, and the contents of the files.
pub(super) struct Written {
    pub(super) glb_bytes: u64,
    pub(super) png_bytes: u64,
    /// With atlas coordinates, like the textures below. Pages exist in the files alone.
    pub(super) mesh: Mesh,
    pub(super) sheets: Sheets,
    pub(super) skin: Skin,
    pub(super) material: Material,
}

/// Writes the files, reads them back and hands them over.
pub(super) fn write_files(
    session: &Session,
    form: &Form,
    mut mesh: Mesh,
    mut skin: Skin,
    layers: Layers,
    clock: &mut PhaseClock,
) -> Result<Written, Failure> {
    let mut writer = Writer {
        session,
        form,
        clock,
    };
    if let Skin::Vertices(colours) = &mut skin {
        // Without coordinates nothing is left of seams, and a closed surface stays closed.
        let (joined, from) = part::joined(&mesh);
        (mesh, *colours) = (joined, moved(colours, &from));
    }
    let mut tangents = None;
    if layers.have_normals() {
        (mesh, tangents) = writer.tangents(&mesh);
    }
    let pages = match &skin {
        Skin::Texture(_) => form.pages,
        Skin::Vertices(_) => Pages::ONE,
    };
    let (mesh, from, sheets) = pages::arrange(mesh, pages, form.compress);
    if let Some(from) = from {
        if let Skin::Vertices(colours) = &mut skin {
            *colours = moved(colours, &from);
        }
        tangents = tangents.map(|tangents| moved(&tangents, &from));
    }
    let (material, pictures) = writer.pictures((&mesh, &sheets), layers, tangents, &mut skin)?;
    let shares = writer.provenance(&mesh, &skin);
    let picture_bytes: usize = pictures.files.iter().map(Vec::len).sum();
    session.progress(Phase::Glb, 0, 1);
    let bytes = picture_bytes + mesh.byte_len() as usize;
    session.expect("the file", each(bytes, pace::TABLE_BYTE));
    let on_pages = sheets.on_pages(&mesh);
    let content = Content {
        mesh: &on_pages,
        sheets: &sheets,
        skin: &skin,
        material: &material,
        shares: shares.as_deref(),
    };
    let file = writer
        .clock
        .time(Phase::Glb, || content.mesh_file(form, &pictures))?;
    unit();
    let glb_bytes = file.len() as u64;
    let read = |file: &[u8]| {
        let quiet = Quiet(session);
        writer
            .clock
            .time(Phase::Glb, || content.read_again(form, file, &quiet))
    };
    let held = session.put_file(Table::Glb, file, read)?;
    if form.container != Container::Glb {
        put_beside(session, form, &sheets, pictures.files)?;
    }
    session.progress(Phase::Glb, 1, 1);
    drop(on_pages);
    // Vertex colours follow the vertex numbering of `mesh`, so it is kept then.
    let lossy = form.compress == Compress::Meshopt && matches!(skin, Skin::Texture(_));
    let mesh = if lossy { sheets.on_atlas(held) } else { mesh };
    Ok(Written {
        glb_bytes,
        png_bytes: picture_bytes as u64,
        mesh,
        sheets,
        skin,
        material,
    })
}

/// A list by vertex once the vertices are sorted; `from` are their former indices.
fn moved<T: Copy>(all: &[T], from: &[u32]) -> Vec<T> {
    from.iter().map(|&vertex| all[vertex as usize]).collect()
}

/// Puts the pictures and the material that a PLY or OBJ names.
fn put_beside(
    session: &Session,
    form: &Form,
    sheets: &Sheets,
    pictures: Vec<Vec<u8>>,
) -> Result<(), Failure> {
    if pictures.is_empty() {
        return Ok(());
    }
    let put = |table, file: Vec<u8>| {
        let unchanged = unchanged(&file);
        session.put_file(table, file, unchanged)
    };
    for (leaf, picture) in sheets.leaves().iter().zip(pictures) {
        put(Table::Picture(leaf.number), picture)?;
    }
    match form.container {
        Container::Obj => put(Table::Material, obj::material(sheets, form)),
        Container::Glb | Container::Ply => Ok(()),
    }
}

/// The base colour's pictures, one per page; none with vertex colours.
#[derive(Default)]
struct Pictures {
    files: Vec<Vec<u8>>,
    format: TextureFormat,
}

struct Writer<'a> {
    session: &'a Session,
    form: &'a Form,
    clock: &'a mut PhaseClock,
}

impl Writer<'_> {
    /// The mesh with vertices split where tangents differ, and a tangent for each.
    fn tangents(&mut self, mesh: &Mesh) -> (Mesh, Option<Vec<[f32; 4]>>) {
        self.session.progress(Phase::Png, 0, 1);
        let corners = 3 * mesh.triangles.len();
        self.session
            .expect("tangents", each(corners, pace::CLEAN_TRIANGLE));
        let (split, found) = self.clock.time(Phase::Png, || tangents::tangents(mesh));
        (split, Some(found))
    }

    /// Makes all pictures of the material. The texture's texels become those that the files hold.
    fn pictures(
        &mut self,
        mesh: (&Mesh, &Sheets),
        layers: Layers,
        tangents: Option<Vec<[f32; 4]>>,
        skin: &mut Skin,
    ) -> Result<(Material, Pictures), Failure> {
        let (session, form) = (self.session, self.form);
        let Skin::Texture(texture) = skin else {
            return Ok(Default::default());
        };
        session.progress(Phase::Png, 0, 1);
        let material = self.clock.time(Phase::Png, || {
            material::material(layers, mesh, tangents, texture, form, session)
        })?;
        let (mut format, quality) = (form.texture, form.quality);
        let texels = texture.texels.len();
        session.expect("the picture", each(texels, picture::pace(format)));
        if material.alpha.is_some() && format == TextureFormat::Jpeg {
            session.warning("a JPEG has no alpha: the base colour is a PNG");
            format = TextureFormat::Png;
        }
        let within = |kind, size, texels: &[[u8; 4]]| {
            picture::encode_within(kind, format, quality, size, texels)
        };
        let made = self.clock.time(Phase::Png, || {
            mesh.1
                .encode(texture.size, &texture.texels, |size, texels| {
                    match (form.container, &material.alpha) {
                        (Container::Glb, Some(_)) => within(Kind::Translucent, size, texels),
                        (Container::Glb, None) => within(Kind::Colour, size, texels),
                        (_, Some(_)) => picture::encode_translucent(format, quality, size, texels),
                        (_, None) => picture::encode(format, quality, size, texels),
                    }
                })
        });
        let (files, held) = made.map_err(|error| internal(&error))?;
        if let Some(held) = held {
            texture.texels = held;
        }
        Ok((material, Pictures { files, format }))
    }

    /// The attribute of each vertex, where it is asked for. Vertex colours have none.
    fn provenance(&mut self, mesh: &Mesh, skin: &Skin) -> Option<Vec<u8>> {
        if !self.form.provenance || self.form.container != Container::Glb {
            return None;
        }
        let Skin::Texture(texture) = skin else {
            self.session
                .warning("no _PROVENANCE: it is a texture's, and the colours are the vertices'");
            return None;
        };
        self.session.progress(Phase::Glb, 0, 1);
        let texels = each(texture.texels.len(), pace::TEXEL);
        let triangles = each(mesh.triangles.len(), pace::TRIANGLE);
        self.session.expect("provenance", texels + triangles);
        let shares = self
            .clock
            .time(Phase::Glb, || provenance::shares(mesh, texture));
        unit();
        Some(shares)
    }
}

/// What the mesh file holds.
#[derive(Clone, Copy)]
struct Content<'a> {
    /// With page coordinates.
    mesh: &'a Mesh,
    sheets: &'a Sheets,
    skin: &'a Skin,
    material: &'a Material,
    /// The provenance of each vertex.
    shares: Option<&'a [u8]>,
}

impl Content<'_> {
    fn mesh_file(self, form: &Form, pictures: &Pictures) -> Result<Vec<u8>, Failure> {
        let Self {
            mesh,
            sheets,
            material,
            ..
        } = self;
        let dress = |page: usize| match self.skin {
            Skin::Texture(_) => Dress::Texture(&pictures.files[page], pictures.format),
            Skin::Vertices(colours) => Dress::Vertices(colours),
        };
        match form.container {
            Container::Glb => {
                let tangents = material.tangents.as_deref();
                let leaf = |(page, leaf): (usize, &pages::Leaf)| Leaf {
                    mesh: sheets.part(mesh, leaf),
                    dress: dress(page),
                    tangents: tangents.map(|all| sheets.of_vertices(all, leaf)),
                    provenance: self.shares.map(|all| sheets.of_vertices(all, leaf)),
                    tile: sheets.tile(leaf),
                };
                let leaves: Vec<Leaf<'_>> = sheets.leaves().iter().enumerate().map(leaf).collect();
                let file = glb::write_leaves(&leaves, material, form);
                file.map_err(|error| match error {
                    GlbError::TooLong(_) => Failure {
                        code: Code::LimitExceeded,
                        message: error.to_string(),
                        hint: "simplify the mesh or use a smaller texture".to_owned(),
                    },
                    GlbError::Uneven { .. }
                    | GlbError::Colours { .. }
                    | GlbError::Compress(_)
                    | GlbError::Provenance => internal(&error),
                })
            }
            Container::Ply => Ok(ply::write(mesh, dress(0), form)),
            Container::Obj => Ok(obj::write(mesh, sheets, dress(0), form)),
        }
    }

    /// Reads the file back and checks it. Returns the mesh that it holds, with page coordinates.
    fn read_again(self, form: &Form, file: &[u8], progress: &Quiet<'_>) -> Result<Mesh, Failure> {
        let Self {
            mesh,
            sheets,
            material,
            ..
        } = self;
        let texels: Option<Vec<Cow<'_, [[u8; 4]]>>> = match self.skin {
            Skin::Texture(texture) => {
                let cut = |leaf| sheets.cut(leaf, texture.size, &texture.texels);
                Some(sheets.leaves().iter().map(cut).collect())
            }
            Skin::Vertices(_) => None,
        };
        let texels = texels.as_deref();
        let (name, within, tolerance) = match (form.container, form.compress) {
            (Container::Glb, Compress::None) => ("model.glb", texels, Tolerance::NONE),
            (Container::Glb, Compress::Meshopt) => {
                let tolerance = Tolerance {
                    position: quantised::position_error(mesh),
                    uv: quantised::UV_ERROR,
                };
                ("model.glb", texels, tolerance)
            }
            (Container::Ply, _) => ("model.ply", None, Tolerance::TURNED),
            (Container::Obj, _) => ("model.obj", None, Tolerance::TURNED),
        };
        let read = ReadBack {
            name,
            offset: form.offset,
            uvs: texels.is_some(),
            texels: within,
            of_triangle: &sheets.of_triangle(),
            alpha: material.alpha.is_some(),
            tolerance,
        };
        if form.container == Container::Glb {
            read_back::read_material(file, material, sheets).map_err(|error| internal(&error))?;
        }
        if self.shares.is_some() && provenance::read(file).as_deref() != self.shares {
            return Err(internal(&GlbError::Provenance));
        }
        let tiled = (form.container == Container::Obj).then(|| sheets.as_read(mesh));
        let mesh = tiled.as_ref().unwrap_or(mesh);
        read_back::read_back(&read, file, mesh, progress).map_err(|error| internal(&error))
    }
}

/// Passes predictions on, but not the phases of reading: these are other phases than those of the first reading.
struct Quiet<'a>(&'a Session);

impl Progress for Quiet<'_> {
    fn progress(&self, _: Phase, _: u64, _: u64) {
        unit();
    }

    fn expect(&self, label: &str, predicted: Duration) {
        self.0.expect(label, predicted);
    }

    fn warning(&self, _: &str) {}
}
