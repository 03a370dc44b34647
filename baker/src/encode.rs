//! The encode role: mesh and texture (→ picture), or mesh and colours of its vertices → GLB, PLY or OBJ, read back before it counts; then the views that were kept for it → scores and a contact sheet.
//!
//! Views come one by one after the GLB is out and are dropped one by one: what remains of each is a score and, for the
//! sheet, three small pictures.

pub mod glb;
pub mod maps;
pub mod measure;
mod obj;
pub mod picture;
mod ply;
pub mod png;
pub mod preview;
pub mod read_back;

use std::error::Error;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::Duration;

use proto::blob::BlobFile;
use proto::job::{Compress, Container, EncodeJob, Form, Product};
use proto::message::{AtlasFigures, Code, EncodeSummary, Failure, Phase, Table, ViewScore};
use proto::table::{Colours, Mesh, Texture};

use crate::pace;
use crate::progress::{PhaseClock, Progress, each, unit};
use crate::render::{Paint, Textures};
use crate::run::{internal, peak_rss_kib, take_fds};
use crate::session::Session;
use crate::survey;
use glb::{Dress, GlbError, provenance, quantised};
use preview::Row;
use read_back::{ReadBack, Tolerance};

/// A band of a view, whatever the mesh: its pixels are bounded.
const BAND: Duration = Duration::from_secs(1);

/// What bake made.
#[derive(Clone, Debug)]
pub enum Skin {
    /// See [`Product::Texture`].
    Texture(Texture),
    /// See [`Product::VertexColours`]: as the GLB has them, see [`glb::light`].
    Vertices(Vec<[u8; 4]>),
}

impl From<Texture> for Skin {
    fn from(texture: Texture) -> Self {
        Self::Texture(texture)
    }
}

impl Skin {
    fn read(product: Product, blob: &BlobFile, mesh: &Mesh) -> Result<Self, Failure> {
        let input = &mut blob.reader();
        let skin = match product {
            Product::Texture => {
                Self::Texture(Texture::read(input).map_err(|error| internal(&error))?)
            }
            Product::VertexColours => {
                let colours = Colours::read(input).map_err(|error| internal(&error))?;
                if colours.colours.len() != mesh.positions.len() {
                    return Err(internal(&GlbError::Colours {
                        colours: colours.colours.len(),
                        positions: mesh.positions.len(),
                    }));
                }
                Self::Vertices(glb::light(&colours))
            }
        };
        Ok(skin)
    }

    fn paint(&self) -> Paint<'_> {
        match self {
            Self::Texture(texture) => texture.into(),
            Self::Vertices(colours) => Paint::Vertices(colours),
        }
    }
}

/// Runs the role.
///
/// # Errors
/// What the user is told.
pub fn run(
    session: &Session,
    job: &EncodeJob,
    fds: Vec<OwnedFd>,
) -> Result<EncodeSummary, Failure> {
    let [mesh, product] = take_fds(fds)?;
    let open = |fd| BlobFile::open(fd).map_err(|error| internal(&error));
    let (mesh, product) = (open(mesh)?, open(product)?);
    let bytes = mesh.len().max(product.len()) as usize;
    session.expect("reading mesh and product", each(bytes, pace::TABLE_BYTE));
    let mesh = Mesh::read(&mut mesh.reader()).map_err(|error| internal(&error))?;
    unit();
    let skin = Skin::read(job.product, &product, &mesh)?;
    unit();
    let mut clock = PhaseClock::default();

    let Written {
        glb_bytes,
        png_bytes,
        mesh,
        skin,
    } = write_files(session, &job.form, mesh, skin, &mut clock)?;
    let atlas = figures(session, &mesh, &skin, &mut clock);
    let (holdout, rows) = receive_views(session, job, &mesh, skin.paint(), &mut clock)?;
    if job.maps {
        put_maps(session, &skin, &mut clock)?;
    }
    if job.preview {
        let sheet = clock.time(Phase::Preview, || {
            session.progress(Phase::Preview, 0, 1);
            if let Skin::Texture(texture) = &skin {
                session.expect("the sheet", each(texture.texels.len(), pace::TEXEL));
            }
            preview::draw(&mesh, &skin, &rows, &holdout)
        });
        let sheet = sheet.map_err(|error| internal(&error))?;
        put(session, Table::Preview, &sheet)?;
        session.progress(Phase::Preview, 1, 1);
    }
    Ok(EncodeSummary {
        glb_bytes,
        png_bytes,
        atlas,
        holdout_psnr_db: measure::mean_psnr(&holdout),
        holdout,
        times: clock.into_times(),
        peak_rss_kib: peak_rss_kib(),
    })
}

/// The unwrap and its seams, as `kiln compare` would find them in the file.
fn figures(
    session: &Session,
    mesh: &Mesh,
    skin: &Skin,
    clock: &mut PhaseClock,
) -> Option<AtlasFigures> {
    let Skin::Texture(texture) = skin else {
        return None;
    };
    session.progress(Phase::Measure, 0, 0);
    let texels = each(texture.texels.len(), pace::TEXEL);
    session.expect("seams", texels + each(mesh.triangles.len(), pace::TRIANGLE));
    let figures = clock.time(Phase::Measure, || {
        let images = [texture.into()];
        let textures = Textures {
            images: &images,
            of_triangle: &[],
        };
        let owners = [survey::cover(mesh, textures, 0)];
        unit();
        survey::survey(mesh, textures, &owners)
    });
    Some(figures)
}

/// What was handed over: sizes, and what the files hold.
struct Written {
    glb_bytes: u64,
    png_bytes: u64,
    mesh: Mesh,
    skin: Skin,
}

/// Makes the files, reads them back and hands them over.
fn write_files(
    session: &Session,
    form: &Form,
    mut mesh: Mesh,
    mut skin: Skin,
    clock: &mut PhaseClock,
) -> Result<Written, Failure> {
    if form.compress == Compress::Meshopt {
        let (ordered, from) = quantised::order(&mesh);
        if let Skin::Vertices(colours) = &mut skin {
            *colours = from
                .iter()
                .map(|&vertex| colours[vertex as usize])
                .collect();
        }
        mesh = ordered;
    }
    let mut picture = Vec::new();
    if let Skin::Texture(texture) = &mut skin {
        session.progress(Phase::Png, 0, 1);
        let texels = texture.texels.len();
        session.expect("the picture", each(texels, pace::PNG_TEXEL));
        let made = clock.time(Phase::Png, || {
            picture::encode(form.texture, form.quality, texture.size, &texture.texels)
        });
        let (file, held) = made.map_err(|error| internal(&error))?;
        picture = file;
        if let Some(held) = held {
            texture.texels = held;
        }
    }
    session.progress(Phase::Glb, 0, 1);
    let bytes = picture.len() + mesh.byte_len() as usize;
    session.expect("the file", each(bytes, pace::TABLE_BYTE));
    let mut file = clock.time(Phase::Glb, || mesh_file(form, &mesh, &skin, &picture))?;
    if form.provenance && form.container == Container::Glb {
        file = clock.time(Phase::Glb, || {
            with_provenance(session, form, &mesh, &skin, file)
        })?;
    }
    unit();
    let held = clock.time(Phase::Glb, || {
        read_again(session, form, &mesh, &skin, &file)
    })?;
    put(session, Table::Glb, &file)?;
    if form.container != Container::Glb && !picture.is_empty() {
        put(session, Table::Picture, &picture)?;
        if form.container == Container::Obj {
            put(session, Table::Material, &obj::material(form))?;
        }
    }
    session.progress(Phase::Glb, 1, 1);
    // Colours stand with the vertices as they were numbered here.
    if form.compress == Compress::Meshopt && matches!(skin, Skin::Texture(_)) {
        mesh = held;
    }
    Ok(Written {
        glb_bytes: file.len() as u64,
        png_bytes: picture.len() as u64,
        mesh,
        skin,
    })
}

fn mesh_file(form: &Form, mesh: &Mesh, skin: &Skin, picture: &[u8]) -> Result<Vec<u8>, Failure> {
    let dress = match skin {
        Skin::Texture(_) => Dress::Texture(picture, form.texture),
        Skin::Vertices(colours) => Dress::Vertices(colours),
    };
    match form.container {
        Container::Glb => glb::write(mesh, dress, form.compress).map_err(|error| match error {
            GlbError::TooLong(_) => Failure {
                code: Code::LimitExceeded,
                message: error.to_string(),
                hint: "simplify the mesh or use a smaller texture".to_owned(),
            },
            GlbError::Uneven { .. }
            | GlbError::Colours { .. }
            | GlbError::Compress(_)
            | GlbError::Provenance => internal(&error),
        }),
        Container::Ply => Ok(ply::write(mesh, dress, form)),
        Container::Obj => Ok(obj::write(mesh, dress, form)),
    }
}

/// The file with its attribute, which is read back, too; colours of vertices have none.
fn with_provenance(
    session: &Session,
    form: &Form,
    mesh: &Mesh,
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
    provenance::add(&file, &shares, form.compress).map_err(|error| internal(&error))
}

/// Gives the mesh that the file holds.
fn read_again(
    session: &Session,
    form: &Form,
    mesh: &Mesh,
    skin: &Skin,
    file: &[u8],
) -> Result<Mesh, Failure> {
    let texels = match skin {
        Skin::Texture(texture) => Some(&texture.texels[..]),
        Skin::Vertices(_) => None,
    };
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
        tolerance,
    };
    read_back::read_back(&read, file, mesh, &Quiet(session)).map_err(|error| internal(&error))
}

/// Of reading a file again, the phases are not those of reading it first.
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

/// Hands the maps over; vertex colours have none.
fn put_maps(session: &Session, skin: &Skin, clock: &mut PhaseClock) -> Result<(), Failure> {
    let Skin::Texture(texture) = skin else {
        session.warning("no maps: colours of vertices have no texture to map");
        return Ok(());
    };
    let Some(maps) = &texture.maps else {
        return Err(Failure {
            code: Code::Internal,
            message: "the texture came without its maps".to_owned(),
            hint: String::new(),
        });
    };
    for table in [Table::Coverage, Table::Residual, Table::Provenance] {
        session.progress(Phase::Preview, 0, 1);
        session.expect("a map", each(texture.texels.len(), pace::PNG_TEXEL));
        let file = clock.time(Phase::Preview, || match table {
            Table::Coverage => maps::coverage(texture.size, maps),
            Table::Residual => maps::residual(texture.size, maps),
            _ => maps::provenance(texture.size, &texture.provenance),
        });
        put(session, table, &file.map_err(|error| internal(&error))?)?;
        session.progress(Phase::Preview, 1, 1);
    }
    Ok(())
}

/// Scores the held-out views, in the order of their indices, and prepares the rows of the sheet.
fn receive_views(
    session: &Session,
    job: &EncodeJob,
    mesh: &Mesh,
    paint: Paint<'_>,
    clock: &mut PhaseClock,
) -> Result<(Vec<ViewScore>, Vec<Row>), Failure> {
    let mut holdout = Vec::new();
    let mut rows = Vec::new();
    let mut pixels = 0;
    let band = each(mesh.triangles.len(), pace::BAND_TRIANGLE) + BAND;
    while let Some(view) = session.receive_view().map_err(|error| internal(&error))? {
        let draw = job.preview && preview::wants(&rows, &view);
        if !view.holdout && !draw {
            continue;
        }
        session.progress(Phase::Measure, pixels, 0);
        session.expect("a band of a view", band);
        let mut row = draw.then(|| Row::new(&view));
        let score = clock.time(Phase::Measure, || {
            measure::compare(
                mesh,
                paint,
                &view,
                job.blend,
                |pixel| row.iter_mut().for_each(|row| row.add(pixel)),
                |more| {
                    pixels += more;
                    session.progress(Phase::Measure, pixels, 0);
                    session.expect("a band of a view", band);
                },
            )
        });
        if view.holdout {
            holdout.push(score);
        }
        if let Some(row) = row {
            preview::keep(&mut rows, row.finish(score));
        }
    }
    holdout.sort_by_key(|score| score.view);
    Ok((holdout, rows))
}

fn put(session: &Session, table: Table, bytes: &[u8]) -> Result<(), Failure> {
    session
        .put(table, bytes.len() as u64, |out| Ok(out.write_all(bytes)?))
        .map_err(|error: crate::session::SessionError| internal(&error as &dyn Error))
}
