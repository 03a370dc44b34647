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
use super::png::Kind;
use super::read_back::{self, ReadBack, Tolerance};
use super::{Skin, obj, picture, ply, tangents};
use crate::pace;
use crate::progress::{PhaseClock, Progress, each, unit};
use crate::run::internal;
use crate::session::Session;

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
    let mut tangents = None;
    if layers.have_normals() {
        session.progress(Phase::Png, 0, 1);
        let corners = 3 * mesh.triangles.len();
        session.expect("tangents", each(corners, pace::CLEAN_TRIANGLE));
        let (split, found) = clock.time(Phase::Png, || tangents::tangents(&mesh));
        (mesh, tangents) = (split, Some(found));
    }
    let pages = match &skin {
        Skin::Texture(_) => form.pages,
        Skin::Vertices(_) => Pages::ONE,
    };
    let (mesh, from, sheets) = pages::arrange(mesh, pages, form.compress);
    if let Some(from) = from {
        if let Skin::Vertices(colours) = &mut skin {
            *colours = from
                .iter()
                .map(|&vertex| colours[vertex as usize])
                .collect();
        }
        if let Some(tangents) = &mut tangents {
            *tangents = from.iter().map(|&v| tangents[v as usize]).collect();
        }
    }
    let mut pictures = Vec::new();
    let mut material = Material::default();
    let mut format = form.texture;
    if let Skin::Texture(texture) = &mut skin {
        session.progress(Phase::Png, 0, 1);
        material = clock.time(Phase::Png, || {
            material::material(layers, (&mesh, &sheets), tangents, texture, form, session)
        })?;
        let texels = texture.texels.len();
        session.expect("the picture", each(texels, picture::pace(format)));
        if material.alpha.is_some() && format == TextureFormat::Jpeg {
            session.warning("a JPEG has no alpha: the base colour is a PNG");
            format = TextureFormat::Png;
        }
        let quality = form.quality;
        let within = |kind, size, texels: &[[u8; 4]]| {
            picture::encode_within(kind, format, quality, size, texels)
        };
        let made = clock.time(Phase::Png, || {
            sheets.encode(texture.size, &texture.texels, |size, texels| {
                match (form.container, &material.alpha) {
                    (Container::Glb, Some(_)) => within(Kind::Translucent, size, texels),
                    (Container::Glb, None) => within(Kind::Colour, size, texels),
                    (_, Some(_)) => picture::encode_translucent(format, quality, size, texels),
                    (_, None) => picture::encode(format, quality, size, texels),
                }
            })
        });
        let (files, held) = made.map_err(|error| internal(&error))?;
        pictures = files;
        if let Some(held) = held {
            texture.texels = held;
        }
    }
    session.progress(Phase::Glb, 0, 1);
    let picture_bytes: usize = pictures.iter().map(Vec::len).sum();
    let bytes = picture_bytes + mesh.byte_len() as usize;
    session.expect("the file", each(bytes, pace::TABLE_BYTE));
    let on_pages = sheets.on_pages(&mesh);
    let stored = (&*on_pages, &sheets);
    let mut file = clock.time(Phase::Glb, || {
        mesh_file(form, stored, &skin, &material, (&pictures, format))
    })?;
    if form.provenance && form.container == Container::Glb {
        file = clock.time(Phase::Glb, || {
            with_provenance(session, form, (&mesh, &sheets), &skin, file)
        })?;
    }
    unit();
    let glb_bytes = file.len() as u64;
    let read = |file: &[u8]| {
        clock.time(Phase::Glb, || {
            read_again(session, form, stored, &skin, &material, file)
        })
    };
    let held = session.put_file(Table::Glb, file, read)?;
    if form.container != Container::Glb && !pictures.is_empty() {
        let put = |table, file: Vec<u8>| {
            let unchanged = read_back::unchanged(&file);
            session.put_file(table, file, unchanged)
        };
        for (leaf, picture) in sheets.leaves().iter().zip(pictures) {
            put(Table::Picture(leaf.number), picture)?;
        }
        if form.container == Container::Obj {
            put(Table::Material, obj::material(&sheets, form))?;
        }
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

/// Writes the mesh file. `mesh` has page coordinates.
fn mesh_file(
    form: &Form,
    (mesh, sheets): (&Mesh, &Sheets),
    skin: &Skin,
    material: &Material,
    (pictures, format): (&[Vec<u8>], TextureFormat),
) -> Result<Vec<u8>, Failure> {
    let dress = |page: usize| match skin {
        Skin::Texture(_) => Dress::Texture(&pictures[page], format),
        Skin::Vertices(colours) => Dress::Vertices(colours),
    };
    match form.container {
        Container::Glb => {
            let tangents = material.tangents.as_deref();
            let leaf = |(page, leaf): (usize, &pages::Leaf)| Leaf {
                mesh: sheets.part(mesh, leaf),
                dress: dress(page),
                tangents: tangents.map(|all| sheets.of_vertices(all, leaf)),
                tile: sheets.tile(leaf),
            };
            let leaves: Vec<Leaf<'_>> = sheets.leaves().iter().enumerate().map(leaf).collect();
            let file = glb::write_leaves(&leaves, material, form.compress);
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

/// Adds the provenance attribute to the file. Vertex colours have none.
fn with_provenance(
    session: &Session,
    form: &Form,
    (mesh, sheets): (&Mesh, &Sheets),
    skin: &Skin,
    file: Vec<u8>,
) -> Result<Vec<u8>, Failure> {
    let Skin::Texture(texture) = skin else {
        session.warning("no _PROVENANCE: it is a texture's, and the colours are the vertices'");
        return Ok(file);
    };
    let texels = each(texture.texels.len(), pace::TEXEL);
    session.expect(
        "provenance",
        texels + each(mesh.triangles.len(), pace::TRIANGLE),
    );
    let shares = provenance::shares(mesh, texture);
    unit();
    let leaves = sheets.leaves().iter();
    let of_leaves: Vec<&[u8]> = leaves
        .map(|leaf| sheets.of_vertices(&shares, leaf))
        .collect();
    provenance::add(&file, &of_leaves, form.compress).map_err(|error| internal(&error))
}

/// Reads the file back and checks it. Returns the mesh that it holds, with page coordinates like `mesh`.
fn read_again(
    session: &Session,
    form: &Form,
    (mesh, sheets): (&Mesh, &Sheets),
    skin: &Skin,
    material: &Material,
    file: &[u8],
) -> Result<Mesh, Failure> {
    let texels: Option<Vec<Cow<'_, [[u8; 4]]>>> = match skin {
        Skin::Texture(texture) => {
            let cut = |leaf| sheets.cut(leaf, texture.size, &texture.texels);
            Some(sheets.leaves().iter().map(cut).collect())
        }
        Skin::Vertices(_) => None,
    };
    let texels = texels.as_deref();
    let (name, within, tolerance) = match (form.container, form.compress) {
        (Container::Glb, Compress::None) => ("model.glb", texels, Tolerance::NONE),
        (Container::Glb, Compress::Meshopt) => (
            "model.glb",
            texels,
            Tolerance {
                position: quantised::position_error(mesh),
                uv: quantised::UV_ERROR,
            },
        ),
        (Container::Ply, _) => ("model.ply", None, Tolerance::TURNED),
        (Container::Obj, _) => ("model.obj", None, Tolerance::TURNED),
    };
    let read = ReadBack {
        name,
        uvs: texels.is_some(),
        texels: within,
        of_triangle: &sheets.of_triangle(),
        alpha: material.alpha.is_some(),
        tolerance,
    };
    if form.container == Container::Glb {
        read_back::read_material(file, material, sheets).map_err(|error| internal(&error))?;
    }
    let tiled = (form.container == Container::Obj).then(|| sheets.as_read(mesh));
    let mesh = tiled.as_ref().unwrap_or(mesh);
    read_back::read_back(&read, file, mesh, &Quiet(session)).map_err(|error| internal(&error))
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
