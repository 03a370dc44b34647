//! What each role may write, in which order, and how large.

use std::io::Write;
use std::os::fd::AsFd;

use proto::blob::BlobFile;
use proto::limits::MAX_GALLERY_BYTES;
use proto::message::{BakeSummary, CompareModel, EncodeSummary};
use proto::plan::BakePlan;
use proto::table::{LayerTexture, LayeredView, SplatScene, View};

use crate::process::table_store::*;

fn view(index: u32, holdout: bool) -> View {
    View {
        index,
        width: 2,
        height: 1,
        has_alpha: true,
        holdout,
        pixels: vec![[0; 4]; 2],
        ..View::default()
    }
}

fn write(blob: &Blob, bytes: &[u8]) {
    let file =
        BlobFile::open(blob.as_fd().try_clone_to_owned().expect("fd")).expect("sealed in size");
    file.writer().write_all(bytes).expect("room");
}

fn put(tables: &mut TableStore, number: u32, view: &View) -> Result<(), TableStoreError> {
    let table = Table::View(number);
    let blob = tables.allocate(Role::Prepare, table, view.byte_len())?;
    let mut bytes = Vec::new();
    view.write(&mut bytes)?;
    write(&blob, &bytes);
    tables.fill(Role::Prepare, table)
}

/// The least that passes for a file of this table.
fn least(table: Table) -> &'static [u8] {
    match table {
        Table::Glb => b"glTF\x02\0\0\0\x18\0\0\0\x04\0\0\0JSON{}  ",
        Table::Material => b"newmtl a_page\n",
        Table::Gallery => b"<section>\n</section>\n",
        _ => b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0IEND\xae\x42\x60\x82",
    }
}

/// A finished file, written and read back.
fn file(
    tables: &mut TableStore,
    role: Role,
    table: Table,
    bytes: &[u8],
) -> Result<(), TableStoreError> {
    let blob = tables.allocate(role, table, bytes.len() as u64)?;
    write(&blob, bytes);
    tables.fill(role, table)?;
    tables.verify(role, table, [7; 32])
}

/// Bake is done.
fn bake_done() -> Done {
    Done::Bake(BakeSummary {
        covered_pixels: 1,
        chart_texels: 1,
        observed_texels: 1,
        iterations: 1,
        train_psnr_db: 30.0,
        peak_rss_kib: 1,
        ..BakeSummary::default()
    })
}

/// Encode is done, with a GLB of 12 bytes.
fn encoded() -> Done {
    Done::Encode(EncodeSummary {
        glb_bytes: 12,
        peak_rss_kib: 1,
        ..EncodeSummary::default()
    })
}

#[test]
fn a_view_is_sorted_by_its_own_header() {
    let mut tables = TableStore::new(256);
    put(&mut tables, 1, &view(1, true)).expect("right");
    put(&mut tables, 0, &view(0, false)).expect("right");
    assert_eq!(tables.views(), [(1, true), (0, false)]);
    assert!(
        matches!(
            put(&mut tables, 2, &view(7, false)),
            Err(TableStoreError::Header(2))
        ),
        "another's number"
    );
    tables.discard(Role::Prepare);
    assert!(tables.views().is_empty() && tables.filled(Table::View(0)).is_none());
}

#[test]
fn nobody_writes_what_is_not_theirs_or_twice() {
    let mut tables = TableStore::new(256);
    let texture = 64 + 256 * 256 * 5;
    assert!(matches!(
        tables.allocate(Role::Prepare, Table::Texture, texture),
        Err(TableStoreError::Foreign(..))
    ));
    assert!(matches!(
        tables.allocate(Role::Encode, Table::Mesh, 500),
        Err(TableStoreError::Foreign(..))
    ));
    assert!(matches!(
        tables.allocate(Role::Prepare, Table::View(4096), 500),
        Err(TableStoreError::Foreign(..))
    ));
    tables
        .allocate(Role::Bake, Table::Texture, texture)
        .expect("right");
    assert!(matches!(
        tables.allocate(Role::Bake, Table::Texture, texture),
        Err(TableStoreError::Twice(_))
    ));
    assert!(matches!(
        tables.fill(Role::Encode, Table::Texture),
        Err(TableStoreError::Foreign(..))
    ));
    tables.fill(Role::Bake, Table::Texture).expect("right");
    assert!(matches!(
        tables.fill(Role::Bake, Table::Texture),
        Err(TableStoreError::NotOpen(_))
    ));
    assert!(matches!(
        tables.fill(Role::Prepare, Table::Mesh),
        Err(TableStoreError::NotOpen(_))
    ));
}

#[test]
fn sizes_are_bounded_before_memory_is_made() {
    let mut tables = TableStore::new(256);
    for (role, table, bytes) in [
        (Role::Bake, Table::Texture, 64 + 256 * 256 * 5 + 1),
        (Role::Bake, Table::Texture, 64 + 256 * 256 * 5 - 1),
        (Role::Prepare, Table::Mesh, 10),
        (Role::Prepare, Table::Mesh, u64::MAX),
        (
            Role::Prepare,
            Table::View(0),
            64 + 128 + (64 << 20) * 4 * 6 + 1,
        ),
        (Role::Encode, Table::Glb, 0),
    ] {
        let result = tables.allocate(role, table, bytes);
        assert!(
            matches!(result, Err(TableStoreError::Size { .. })),
            "{table:?} of {bytes}: {result:?}"
        );
    }
}

#[test]
fn the_surface_is_there_before_the_mesh() {
    let mut tables = TableStore::new(256);
    tables
        .allocate(Role::Prepare, Table::Surface, 200)
        .expect("right");
    tables
        .allocate(Role::Prepare, Table::Mesh, 200)
        .expect("right");
    assert!(matches!(
        tables.fill(Role::Prepare, Table::Mesh),
        Err(TableStoreError::Late(Table::Surface, Table::Mesh))
    ));
    tables.fill(Role::Prepare, Table::Surface).expect("right");
    tables.fill(Role::Prepare, Table::Mesh).expect("right");

    let mut tables = TableStore::new(256);
    tables
        .allocate(Role::Prepare, Table::Mesh, 200)
        .expect("right");
    tables.fill(Role::Prepare, Table::Mesh).expect("right");
    let late = tables.allocate(Role::Prepare, Table::Surface, 200);
    assert!(matches!(
        late,
        Err(TableStoreError::Late(Table::Surface, Table::Mesh))
    ));
}

#[test]
fn views_without_pixels_are_drawn_of_splats_that_came_first() {
    let undrawn = View {
        pixels: Vec::new(),
        ..view(0, false)
    };
    let splats = |tables: &mut TableStore| {
        let [least, _] = SplatScene::BYTES;
        tables.allocate(Role::Prepare, Table::Splats, least)
    };
    let surface = |tables: &mut TableStore| {
        let surface = (Role::Prepare, Table::Surface);
        tables.allocate(surface.0, surface.1, 200)?;
        tables.fill(surface.0, surface.1)
    };
    let mut tables = TableStore::new(256);
    let early = put(&mut tables, 0, &undrawn);
    assert!(matches!(early, Err(TableStoreError::Undrawn(0))));

    let mut tables = TableStore::new(256);
    splats(&mut tables).expect("right");
    let early = surface(&mut tables);
    assert!(matches!(
        early,
        Err(TableStoreError::Late(Table::Splats, Table::Surface))
    ));
    tables.fill(Role::Prepare, Table::Splats).expect("right");
    tables.fill(Role::Prepare, Table::Surface).expect("right");
    put(&mut tables, 0, &undrawn).expect("right");
    assert_eq!((tables.pixel_bytes(0), tables.pixel_bytes(1)), (8, 0));
    // Encode draws the views that it gets.
    tables.release_bake_inputs(&[0]);
    assert!(tables.filled(Table::Splats).is_some());
    tables.release_bake_inputs(&[]);
    assert!(tables.filled(Table::Splats).is_none());

    let mut tables = TableStore::new(256);
    surface(&mut tables).expect("right");
    let late = splats(&mut tables);
    assert!(matches!(late, Err(TableStoreError::Late(..))));
}

#[test]
fn a_texture_with_maps_is_larger_and_all_pictures_come() {
    let texels = 256 * 256;
    let mut tables = TableStore::new(256).with_maps(true);
    for bytes in [64 + texels * 5, 64 + texels * 7 + 1] {
        let refused = tables.allocate(Role::Bake, Table::Texture, bytes);
        assert!(matches!(refused, Err(TableStoreError::Size { .. })));
    }
    let done = encoded();
    let fill = |tables: &mut TableStore, role, table, bytes| {
        tables.allocate(role, table, bytes).expect("right");
        tables.fill(role, table).expect("right");
    };
    file(&mut tables, Role::Encode, Table::Glb, least(Table::Glb)).expect("a GLB");
    let complete =
        |tables: &mut TableStore| tables.complete(Role::Encode, &done, false, Product::Texture);
    // Colours of vertices have no maps.
    complete(&mut tables).expect("there is no texture");
    fill(&mut tables, Role::Bake, Table::Texture, 64 + texels * 7);
    for table in [Table::Coverage, Table::Residual, Table::Provenance] {
        let error = complete(&mut tables).expect_err("a map is missing");
        assert!(matches!(
            error,
            TableStoreError::Incomplete("there are no maps")
        ));
        file(&mut tables, Role::Encode, table, least(table)).expect("a PNG");
    }
    complete(&mut tables).expect("all is there");
}

#[test]
fn a_page_is_not_complete_without_its_views() {
    let (encode, glb, gallery) = (Role::Encode, Table::Glb, Table::Gallery);
    let complete =
        |tables: &mut TableStore| tables.complete(encode, &encoded(), false, Product::Texture);
    for html in [false, true] {
        let mut tables = TableStore::new(256).with_html(html);
        file(&mut tables, encode, glb, least(glb)).expect("a GLB");
        assert_eq!(complete(&mut tables).is_ok(), !html);
        file(&mut tables, encode, gallery, least(gallery)).expect("rows of views");
        complete(&mut tables).expect("all is there");
    }
    let large = TableStore::new(256).allocate(encode, gallery, MAX_GALLERY_BYTES + 1);
    assert!(matches!(large, Err(TableStoreError::Size { .. })));
}

#[test]
fn a_file_counts_once_its_maker_has_read_it_back() {
    let mut tables = TableStore::new(256);
    let (encode, glb) = (Role::Encode, Table::Glb);
    let blob = tables.allocate(encode, glb, least(glb).len() as u64);
    write(&blob.expect("right"), least(glb));
    let early = tables.verify(encode, glb, [7; 32]);
    assert!(
        matches!(early, Err(TableStoreError::NotOpen(_))),
        "not sealed"
    );
    tables.fill(encode, glb).expect("right");
    let unread = tables.complete(encode, &encoded(), false, Product::Texture);
    assert!(matches!(
        unread,
        Err(TableStoreError::Incomplete("a file was not read back"))
    ));
    assert!(tables.file(glb).is_none());
    let other = tables.verify(Role::Bake, glb, [7; 32]);
    assert!(matches!(other, Err(TableStoreError::Foreign(..))));
    tables.verify(encode, glb, [7; 32]).expect("read back");
    let twice = tables.verify(encode, glb, [8; 32]);
    assert!(matches!(twice, Err(TableStoreError::NotOpen(_))), "once");
    assert_eq!(tables.file(glb).expect("a file").1, [7; 32]);
    let complete = tables.complete(encode, &encoded(), false, Product::Texture);
    complete.expect("all is there");

    // A text is no model, whatever its maker says; and a table is no file.
    tables.discard(encode);
    let text = file(
        &mut tables,
        encode,
        glb,
        b"a text, and long enough for a GLB",
    );
    assert!(
        matches!(text, Err(TableStoreError::Shape(Table::Glb, _))),
        "{text:?}"
    );
    let texture = Texture::bytes_for(256, false);
    tables
        .allocate(Role::Bake, Table::Texture, texture)
        .expect("right");
    tables.fill(Role::Bake, Table::Texture).expect("right");
    let table = tables.verify(Role::Bake, Table::Texture, [7; 32]);
    assert!(matches!(table, Err(TableStoreError::NotOpen(_))));
}

#[test]
fn pictures_beside_a_mesh_are_those_of_its_pages() {
    let four = Pages::try_from(4).expect("a square");
    let mut tables = TableStore::new(512).with_container(Container::Obj, four);
    let beyond = tables.allocate(Role::Encode, Table::Picture(4), 12);
    assert!(matches!(beyond, Err(TableStoreError::Foreign(..))));
    let done = encoded();
    let texture = Texture::bytes_for(512, false);
    tables
        .allocate(Role::Bake, Table::Texture, texture)
        .expect("right");
    tables.fill(Role::Bake, Table::Texture).expect("right");
    let obj: &[u8] = b"# kiln\nv 1 2 3\n";
    for (table, bytes) in [
        (Table::Glb, obj),
        (Table::Material, least(Table::Material)),
        // Three pages have no charts.
        (Table::Picture(3), least(Table::Picture(3))),
    ] {
        let complete = tables.complete(Role::Encode, &done, false, Product::Texture);
        assert!(complete.is_err(), "{table:?} is missing");
        file(&mut tables, Role::Encode, table, bytes).expect("right");
    }
    let complete = tables.complete(Role::Encode, &done, false, Product::Texture);
    complete.expect("all is there");
}

#[test]
fn bake_makes_the_layers_that_views_of_the_fit_have_and_no_others() {
    let mut tables = TableStore::new(256);
    let layered = |index, holdout, layer| LayeredView {
        view: view(index, holdout),
        layers: vec![(layer, vec![[0; 4]; 2])],
    };
    for (index, holdout, layer) in [(0, false, Layer::Normal), (1, true, Layer::Emissive)] {
        let view = layered(index, holdout, layer);
        let table = Table::View(index);
        let blob = tables.allocate(Role::Prepare, table, view.byte_len());
        let mut bytes = Vec::new();
        view.write(&mut bytes).expect("memory takes all");
        write(&blob.expect("room"), &bytes);
        tables.fill(Role::Prepare, table).expect("its own header");
    }
    let bytes = LayerTexture::bytes_for(256);
    let ask = |tables: &mut TableStore, role, layer, bytes| {
        tables.allocate(role, Table::Layer(layer), bytes).map(drop)
    };
    assert!(matches!(
        ask(&mut tables, Role::Bake, Layer::Normal, bytes),
        Err(TableStoreError::Foreign(..)),
    ));
    tables.prepared = true;
    for (role, layer, bytes) in [
        (Role::Bake, Layer::Emissive, bytes),
        (Role::Bake, Layer::Occlusion, bytes),
        (Role::Encode, Layer::Normal, bytes),
        (Role::Bake, Layer::Normal, bytes + 4),
    ] {
        assert!(ask(&mut tables, role, layer, bytes).is_err(), "{layer:?}");
    }
    assert_eq!(tables.baked_layers().count(), 0);
    ask(&mut tables, Role::Bake, Layer::Normal, bytes).expect("a view has it");
    let table = Table::Layer(Layer::Normal);
    tables.fill(Role::Bake, table).expect("asked for");
    assert!(tables.baked_layers().eq([Layer::Normal]));
    tables.release_bake_inputs(&[]);
    assert!(tables.filled(table).is_some(), "encode reads it");
    tables.discard(Role::Bake);
    assert_eq!(tables.baked_layers().count(), 0);
    tables.discard(Role::Prepare);
    assert!(tables.layers.is_empty());
}

#[test]
fn the_cameras_of_the_fit_are_those_of_its_views_and_stay_for_encode() {
    let baked = |cameras: usize| {
        let mut tables = TableStore::new(256);
        for (index, holdout) in [(0, false), (1, true), (2, false)] {
            put(&mut tables, index, &view(index, holdout)).expect("right");
        }
        tables.prepared = true;
        let texture = Texture::bytes_for(256, false);
        let cameras = Refined::byte_len_of(cameras);
        for (table, bytes) in [(Table::Refined, cameras), (Table::Texture, texture)] {
            tables.allocate(Role::Bake, table, bytes)?;
            tables.fill(Role::Bake, table)?;
        }
        let complete = tables.complete(Role::Bake, &bake_done(), false, Product::Texture);
        complete.map(|()| tables)
    };
    let refused = [0, 1, 3, MAX_VIEWS + 1].map(|cameras| baked(cameras).map(drop));
    assert!(
        matches!(
            refused,
            [
                Err(TableStoreError::Size { .. }),
                Err(TableStoreError::Incomplete(_)),
                Err(TableStoreError::Incomplete(_)),
                Err(TableStoreError::Size { .. }),
            ]
        ),
        "{refused:?}"
    );
    let mut tables = baked(2).expect("one for each view of the fit");
    tables.release_bake_inputs(&[1]);
    assert!(tables.filled(Table::Refined).is_some(), "encode reads it");
    tables.discard(Role::Bake);
    assert!(
        tables.filled(Table::Refined).is_none(),
        "the next bake's own"
    );
}

#[test]
fn a_dry_run_owes_a_plan_and_makes_nothing() {
    let plan = || {
        Done::Plan(BakePlan {
            texture_size: 256,
            textures: 1,
            ..BakePlan::default()
        })
    };
    let complete =
        |tables: &mut TableStore| tables.complete(Role::Bake, &plan(), false, Product::Texture);
    let mut dry = TableStore::new(256).with_dry_run(true);
    complete(&mut dry).expect("a plan");
    complete(&mut TableStore::new(256)).expect_err("a texture is owed");
    let bytes = Texture::bytes_for(256, false);
    let blob = dry.allocate(Role::Bake, Table::Texture, bytes);
    write(&blob.expect("room"), &vec![0; bytes as usize]);
    dry.fill(Role::Bake, Table::Texture).expect("filled");
    complete(&mut dry).expect_err("nothing was to be made");
}

#[test]
fn a_comparison_gives_its_figures_and_the_picture_that_was_asked_for() {
    let figures = |models: usize| {
        let model = CompareModel {
            triangles: 1,
            ..CompareModel::default()
        };
        Done::Compare(CompareSummary {
            models: vec![model; models],
            times: Vec::new(),
            peak_rss_kib: 1,
        })
    };
    let complete = |tables: &mut TableStore, models| {
        tables.complete(Role::Prepare, &figures(models), true, Product::Texture)
    };
    let (prepare, sheet) = (Role::Prepare, Table::Preview);
    for (picture, wanted) in [(false, [true, false]), (true, [false, true])] {
        let mut tables = TableStore::of_comparison(2, picture);
        assert!(tables.allocate(prepare, Table::Mesh, 500).is_err());
        assert!(!tables.deliver(0), "it delivers no views");
        assert!(complete(&mut tables, 1).is_err(), "of one model, not two");
        assert_eq!(complete(&mut tables, 2).is_ok(), wanted[0]);
        let drawn = file(&mut tables, prepare, sheet, least(sheet));
        assert_eq!(drawn.is_ok(), picture);
        assert_eq!(drawn.is_ok() && complete(&mut tables, 2).is_ok(), wanted[1]);
    }
    let mut bake = TableStore::new(256);
    assert!(complete(&mut bake, 2).is_err(), "nobody asked for it");
}
