//! The encode role: mesh and texture with its layers, or mesh and vertex colours → GLB, PLY or OBJ, read back before it
//! counts. Then the views kept for it → scores, a contact sheet and the views' part of the report's page.
//!
//! Views arrive one by one after the GLB is out, and are dropped one by one. Of each remain a score and, for sheet and
//! page, three small pictures.

mod files;
mod gallery;
pub mod glb;
pub mod ktx2;
pub mod maps;
pub mod material;
mod obj;
pub mod pages;
mod part;
pub mod picture;
mod ply;
pub mod preview;
pub mod read_back;
mod refined;
pub mod relief;
mod skin;
pub mod tangents;
mod unseen;

use std::os::fd::OwnedFd;
use std::time::Duration;

use proto::blob::BlobFile;
use proto::job::EncodeJob;
use proto::message::{AtlasFigures, Code, EncodeSummary, Failure, Phase, Table, ViewScore};
use proto::table::Mesh;

use crate::image::measure::{self, Pixel};
use crate::image::render::{Image, Paint, Textures};
use crate::image::splats::Undrawn;
use crate::image::{png, survey};
use crate::worker::failure::internal;
use crate::worker::memory::peak_rss_kib;
use crate::worker::pace;
use crate::worker::progress::{PhaseClock, Progress, each, unit};
use crate::worker::session::{Session, take_fds, unchanged};
use files::{Written, write_files};
use gallery::Gallery;
use material::Layers;
use pages::Sheets;
use preview::{Findings, RowSet, Shown};
use refined::AsFitted;
pub use skin::Skin;

/// Predicted duration of a band of a view, whose pixels are bounded, for any mesh.
const BAND: Duration = Duration::from_secs(1);

/// Runs the role.
///
/// # Errors
/// What the user is told.
pub fn run(
    session: &Session,
    job: &EncodeJob,
    mut fds: Vec<OwnedFd>,
) -> Result<EncodeSummary, Failure> {
    let mut of_views = fds.split_off(fds.len().min(2));
    let mut of_layers = of_views.split_off(of_views.len().min(usize::from(job.has_refined)));
    let of_splats = of_layers.split_off(of_layers.len().min(job.layers.len()));
    let [mesh, product] = take_fds(fds)?;
    let open = |fd| BlobFile::open(fd).map_err(|error| internal(&error));
    let (mesh, product) = (open(mesh)?, open(product)?);
    let bytes = mesh.len().max(product.len()) as usize;
    session.expect("reading mesh and product", each(bytes, pace::TABLE_BYTE));
    let mesh = Mesh::read(&mut mesh.reader()).map_err(|error| internal(&error))?;
    unit();
    let skin = Skin::read(job.product, &product, &mesh)?;
    unit();
    let as_fitted = match job.has_refined {
        true => {
            let [refined] = take_fds(of_views)?;
            AsFitted::read(&open(refined)?)?
        }
        false => AsFitted::default(),
    };
    let splats = Undrawn::read_first(of_splats)?;
    let blobs = of_layers
        .into_iter()
        .map(open)
        .collect::<Result<Vec<_>, _>>()?;
    let layers = match &skin {
        Skin::Texture(texture) => Layers::read(&blobs, texture.size, &job.layers)?,
        Skin::Vertices(_) => Layers::default(),
    };
    unit();
    let mut clock = PhaseClock::default();

    let Written {
        glb_bytes,
        png_bytes,
        mesh,
        sheets,
        skin,
        material,
    } = write_files(session, &job.form, mesh, skin, layers, &mut clock)?;
    let atlas = figures(session, (&mesh, &sheets), &skin, &mut clock);
    let unseen_side = match &skin {
        Skin::Texture(texture) => unseen::side(&mesh, texture),
        Skin::Vertices(_) => None,
    };
    let Compared {
        holdout,
        sheet,
        page,
    } = receive_views(
        session,
        job,
        (&as_fitted, splats.as_ref()),
        (&mesh, skin.paint()),
        &mut clock,
    )?;
    if job.maps {
        put_maps(session, &skin, &mut clock)?;
    }
    if job.preview {
        let drawn = clock.time(Phase::Preview, || {
            session.progress(Phase::Preview, 0, 1);
            if let Skin::Texture(texture) = &skin {
                session.expect("the sheet", each(texture.texels.len(), pace::TEXEL));
            }
            let findings = Findings {
                holdout: &holdout,
                unseen_side,
            };
            preview::draw(&mesh, &skin, &material, &sheet, findings)
        });
        let drawn = drawn.map_err(|error| internal(&error))?;
        let whole = |file: &[u8]| png::decode(file).map_err(|error| internal(&error));
        session.put_file(Table::Preview, drawn, whole)?;
        session.progress(Phase::Preview, 1, 1);
    }
    if job.html {
        let gallery = Gallery {
            rows: &page,
            names: &job.view_names,
            skin: &skin,
            material: &material,
            unseen_side,
        };
        put_gallery(session, &gallery, &mut clock)?;
    }
    let shown = if job.html { &page } else { &sheet };
    Ok(EncodeSummary {
        glb_bytes,
        png_bytes,
        atlas,
        unseen_side,
        holdout_psnr_db: measure::mean_psnr(&holdout),
        shown: shown.iter().filter_map(Shown::of_the_fit).collect(),
        holdout,
        times: clock.into_times(),
        peak_rss_kib: peak_rss_kib(),
    })
}

/// Figures of the unwrap and its seams, as `kiln compare` would find them in the file.
fn figures(
    session: &Session,
    (mesh, sheets): (&Mesh, &Sheets),
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
        let leaves = sheets.leaves().iter();
        let texels: Vec<_> = leaves
            .map(|leaf| sheets.cut(leaf, texture.size, &texture.texels))
            .collect();
        let edge = sheets.edge(texture.size) as usize;
        let images: Vec<Image<'_>> = texels
            .iter()
            .filter_map(|texels| Image::new(edge, edge, texels))
            .collect();
        let (mesh, of_triangle) = (sheets.on_pages(mesh), sheets.of_triangle());
        let textures = Textures {
            images: &images,
            of_triangle: &of_triangle,
        };
        let owners: Vec<Vec<u32>> = (0..images.len())
            .map(|image| survey::cover(&mesh, textures, image))
            .collect();
        unit();
        survey::survey(&mesh, textures, &owners)
    });
    Some(figures)
}

/// Puts the maps; vertex colours have none.
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
        let file = file.map_err(|error| internal(&error))?;
        let unchanged = unchanged(&file);
        session.put_file(table, file, unchanged)?;
        session.progress(Phase::Preview, 1, 1);
    }
    Ok(())
}

/// Puts the views' and the texture's part of the report's page.
fn put_gallery(
    session: &Session,
    gallery: &Gallery<'_>,
    clock: &mut PhaseClock,
) -> Result<(), Failure> {
    session.progress(Phase::Preview, 0, 1);
    let texels = match gallery.skin {
        Skin::Texture(texture) => texture.texels.len(),
        Skin::Vertices(_) => 0,
    };
    let pictures = 3 * gallery.rows.len() * gallery::CELL.pow(2);
    let predicted = each(texels, pace::TEXEL) + each(pictures, pace::PNG_TEXEL);
    session.expect("the page's pictures", predicted);
    let made = clock.time(Phase::Preview, || gallery.write());
    let made = made.map_err(|error| internal(&error))?;
    let unchanged = unchanged(&made);
    session.put_file(Table::Gallery, made, unchanged)?;
    session.progress(Phase::Preview, 1, 1);
    Ok(())
}

struct Compared {
    /// Scores of the held-out views, by index.
    holdout: Vec<ViewScore>,
    /// Rows of the sheet, in order.
    sheet: Vec<Shown>,
    /// Rows of the report's page, in order.
    page: Vec<Shown>,
}

/// Scores the held-out views and prepares the rows of sheet and page. The fit's views have their refined cameras and
/// exposures. Held-out views stay as given, since the mesh fixes the frame in which cameras were refined.
fn receive_views(
    session: &Session,
    job: &EncodeJob,
    (as_fitted, splats): (&AsFitted, Option<&Undrawn>),
    (mesh, paint): (&Mesh, Paint<'_>),
    clock: &mut PhaseClock,
) -> Result<Compared, Failure> {
    let mut holdout = Vec::new();
    // The sheet shows the same views whether there is a page, for which more are sent.
    let mut sheet = job.preview.then(|| preview::rows(gallery::ROWS[0]));
    let mut page = job.html.then(gallery::rows);
    let mut pixels = 0;
    let band = each(mesh.triangles.len(), pace::BAND_TRIANGLE) + BAND;
    while let Some(mut view) = session.receive_view().map_err(|error| internal(&error))? {
        if !view.holdout && !job.preview && !job.html {
            continue;
        }
        session.progress(Phase::Measure, pixels, 0);
        if view.pixels.is_empty() {
            clock.time(Phase::Measure, || Undrawn::complete(splats, &mut view))?;
        }
        session.expect("a band of a view", band);
        let taken = as_fitted.apply(&mut view)?;
        let begin = |rows: &Option<RowSet>| rows.as_ref().and_then(|rows| rows.begin(&view, taken));
        let mut rows = [begin(&sheet), begin(&page)];
        let score = clock.time(Phase::Measure, || {
            let drawn = rows.iter().any(Option::is_some);
            let mut add = drawn.then_some(|pixel| {
                for row in rows.iter_mut().flatten() {
                    row.add(pixel);
                }
            });
            measure::compare(
                mesh,
                paint,
                &view,
                (job.blend, taken.gain),
                add.as_mut().map(|add| add as &mut dyn FnMut(Pixel)),
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
        for (row, kept) in rows.into_iter().zip([&mut sheet, &mut page]) {
            if let (Some(row), Some(kept)) = (row, kept) {
                kept.keep(row.finish(score));
            }
        }
    }
    holdout.sort_by_key(|score| score.view);
    let spread = |rows: Option<RowSet>, most| rows.map_or_else(Vec::new, |rows| rows.spread(most));
    Ok(Compared {
        holdout,
        sheet: spread(sheet, preview::ROWS[0]),
        page: spread(page, gallery::ROWS[0]),
    })
}
