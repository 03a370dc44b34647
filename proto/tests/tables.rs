//! Every table with each of its fields out of bounds, cut short, and whole.

use proto::table::maps::Maps;
use proto::table::{
    Camera, Layer, LayerSet, LayerTexture, LayeredView, Manner, Mesh, Refined, RefinedView,
    Simplified, SplatScene, Surface, TableError, Texture, View, ViewHeader,
};

fn mesh() -> Mesh {
    Mesh {
        positions: vec![
            [0.0, 0.0, 0.0],
            [1.0, 0.0, 0.0],
            [0.0, 1.0, 0.0],
            [1.0, 1.0, 0.0],
        ],
        normals: vec![[0.0, 0.0, 1.0]; 4],
        uvs: vec![[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
        surface_vertices: vec![0, 1, 2, 3],
        triangles: vec![[0, 1, 2], [2, 1, 3]],
        charts: 1,
    }
}

fn surface() -> Surface {
    Surface {
        positions: mesh().positions,
        triangles: mesh().triangles,
        simplified: Some(Simplified {
            positions: mesh().positions[1..].to_vec(),
            triangles: vec![[0, 1, 2]],
        }),
    }
}

fn view() -> View {
    let camera = Camera {
        rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        translation: [0.0, 0.0, 2.0],
        focal: [2.0, 2.0],
        centre: [1.0, 1.0],
    };
    let pixels = vec![[1, 2, 3, 255]; 6];
    View {
        index: 1,
        width: 3,
        height: 2,
        crop: [4, 5],
        has_alpha: true,
        holdout: false,
        camera,
        pixels,
    }
}

fn texture() -> Texture {
    let count = 256 * 256;
    Texture {
        size: 256,
        texels: vec![[1, 2, 3, 255]; count],
        provenance: vec![3; count],
        maps: None,
    }
}

/// One with a texel of every kind in front.
fn mapped() -> Texture {
    let mut texture = texture();
    let count = texture.texels.len();
    texture.provenance[..4].copy_from_slice(&[0, 1, 2, 3]);
    let mut maps = Maps {
        coverage: vec![66; count],
        residual: vec![2; count],
    };
    maps.coverage[..4].copy_from_slice(&[0, 1, 65, 255]);
    maps.residual[..4].copy_from_slice(&[0, 1, 255, 1]);
    texture.maps = Some(maps);
    texture
}

fn bytes_of_mesh(mesh: &Mesh) -> Vec<u8> {
    let mut bytes = Vec::new();
    mesh.write(&mut bytes).expect("memory takes all");
    bytes
}

/// Demands that each change of a good table's bytes is refused, and that none of them was refused for a bad table.
fn refused<T>(
    good: &[u8],
    read: impl Fn(&mut &[u8]) -> Result<T, TableError>,
    changes: &[(&str, usize, &[u8])],
) {
    assert!(read(&mut &good[..]).is_ok(), "the table itself is good");
    let mut accepted = Vec::new();
    for (what, offset, bytes) in changes {
        let mut bad = good.to_vec();
        bad[*offset..offset + bytes.len()].copy_from_slice(bytes);
        if read(&mut &bad[..]).is_ok() {
            accepted.push(*what);
        }
    }
    assert!(accepted.is_empty(), "accepted: {accepted:?}");
    for length in [0, 7, 63, 64, good.len() / 2, good.len() - 1] {
        assert!(
            read(&mut &good[..length]).is_err(),
            "{length} of {} bytes",
            good.len()
        );
    }
}

const NAN: [u8; 4] = f32::NAN.to_le_bytes();
const INFINITE: [u8; 4] = f32::INFINITY.to_le_bytes();
const HUGE: [u8; 4] = 1e13_f32.to_le_bytes();
const MAX: [u8; 4] = u32::MAX.to_le_bytes();
const ZERO: [u8; 4] = [0; 4];

#[test]
fn every_field_of_refined_views_is_bounded() {
    let of_view = |index, gain| RefinedView {
        index,
        gain: [1.0, gain, 0.5],
        camera: view().camera,
    };
    let table = Refined {
        views: vec![of_view(1, 0.75), of_view(3, 1.5)],
    };
    let mut good = Vec::new();
    table.write(&mut good).expect("memory takes all");
    assert_eq!(good.len() as u64, table.byte_len());
    assert_eq!(Refined::read(&mut &good[..]).expect("its own"), table);
    assert_eq!(table.view(3), Some(&table.views[1]));
    assert_eq!(table.view(2), None);
    let (gains, cameras) = (64 + 8, 64 + 32);
    let nan = f64::NAN.to_le_bytes();
    refused(
        &good,
        |bytes| Refined::read(bytes),
        &[
            ("magic", 0, b"KILNREF1"),
            ("unused word", 12, &[1, 0, 0, 0]),
            ("no views", 8, &ZERO),
            ("one view more than is there", 8, &3_u32.to_le_bytes()),
            ("views beyond the limit", 8, &4097_u32.to_le_bytes()),
            ("most views", 8, &MAX),
            ("an index twice", 64, &3_u32.to_le_bytes()),
            ("falling indices", 64, &4_u32.to_le_bytes()),
            ("an index beyond the limit", 68, &4096_u32.to_le_bytes()),
            ("gain NaN", gains, &NAN),
            ("gain infinite", gains + 4, &INFINITE),
            ("gain huge", gains + 4, &HUGE),
            ("no gain", gains, &ZERO),
            ("gain below 0", gains, &(-1.0_f32).to_le_bytes()),
            ("camera NaN", cameras, &nan),
            ("no rotation", cameras + 128, &2.0_f64.to_le_bytes()),
            ("focal length 0", cameras + 128 + 96, &0.0_f64.to_le_bytes()),
            ("last centre NaN", cameras + 256 - 8, &nan),
        ],
    );
}

#[test]
fn every_field_of_a_mesh_is_bounded() {
    let good = bytes_of_mesh(&mesh());
    let (positions, normals, uvs) = (64, 64 + 48, 64 + 96);
    let (points, triangles) = (uvs + 32, uvs + 32 + 16);
    refused(
        &good,
        |bytes| Mesh::read(bytes),
        &[
            ("magic", 0, b"KILNMSH2"),
            ("unused word", 60, &[0, 0, 0, 1]),
            ("another table's magic", 0, b"KILNSRF1"),
            ("no vertices", 8, &ZERO),
            ("two vertices", 8, &2_u32.to_le_bytes()),
            ("one vertex more than is there", 8, &5_u32.to_le_bytes()),
            (
                "vertices beyond the limit",
                8,
                &24_000_001_u32.to_le_bytes(),
            ),
            ("most vertices", 8, &MAX),
            ("no triangles", 12, &ZERO),
            (
                "triangles beyond the limit",
                12,
                &8_000_001_u32.to_le_bytes(),
            ),
            ("most triangles", 12, &MAX),
            ("position NaN", positions, &NAN),
            ("position infinite", positions + 4, &INFINITE),
            ("last position huge", positions + 44, &HUGE),
            ("normal NaN", normals, &NAN),
            ("normal long", normals + 44, &1.5_f32.to_le_bytes()),
            ("uv NaN", uvs, &NAN),
            ("uv below 0", uvs + 4, &(-0.01_f32).to_le_bytes()),
            ("uv above 1", uvs + 28, &1.01_f32.to_le_bytes()),
            ("surface vertex", points + 12, &4_u32.to_le_bytes()),
            ("most surface vertex", points, &MAX),
            ("corner", triangles, &4_u32.to_le_bytes()),
            ("last corner", triangles + 20, &MAX),
        ],
    );
}

#[test]
fn every_field_of_a_surface_is_bounded() {
    let mut good = Vec::new();
    surface().write(&mut good).expect("memory takes all");
    refused(
        &good,
        |bytes| Surface::read(bytes),
        &[
            ("magic", 0, b"KILNMSH1"),
            ("unused word", 60, &[0, 0, 0, 1]),
            ("two vertices", 8, &2_u32.to_le_bytes()),
            ("most vertices", 8, &MAX),
            ("no triangles", 12, &ZERO),
            ("most triangles", 12, &MAX),
            ("simplified to two vertices", 16, &2_u32.to_le_bytes()),
            ("simplified to no vertices", 16, &ZERO),
            ("simplified to most vertices", 16, &MAX),
            ("simplified to no triangles", 20, &ZERO),
            ("simplified to most triangles", 20, &MAX),
            ("position NaN", 64, &NAN),
            ("last position huge", 64 + 44, &HUGE),
            ("corner", 64 + 48, &4_u32.to_le_bytes()),
            ("last corner", 64 + 48 + 20, &MAX),
            ("simplified position NaN", 64 + 72, &NAN),
            ("simplified corner", 64 + 72 + 36, &3_u32.to_le_bytes()),
        ],
    );
}

#[test]
fn every_field_of_a_view_is_bounded() {
    let mut good = Vec::new();
    view().write(&mut good).expect("memory takes all");
    let number = |value: f64| value.to_le_bytes();
    let camera = 64;
    let (translation, focal, centre) = (camera + 72, camera + 96, camera + 112);
    let changes: &[(&str, usize, &[u8])] = &[
        ("magic", 0, b"KILNTEX1"),
        ("unused word", 60, &[0, 0, 0, 1]),
        ("unknown flag", 16, &[9]),
        ("no width", 8, &ZERO),
        ("no height", 12, &ZERO),
        ("width beyond the limit", 8, &16_385_u32.to_le_bytes()),
        ("most width", 8, &MAX),
        ("most height", 12, &MAX),
        ("one column more than is there", 8, &4_u32.to_le_bytes()),
        ("rotation NaN", camera, &number(f64::NAN)),
        ("rotation scaled", camera, &number(1.1)),
        ("rotation sheared", camera + 8, &number(0.1)),
        (
            "last of the rotation infinite",
            camera + 64,
            &number(f64::INFINITY),
        ),
        ("translation NaN", translation, &number(f64::NAN)),
        ("translation huge", translation + 16, &number(1e13)),
        ("focal length 0", focal, &number(0.0)),
        ("focal length negative", focal + 8, &number(-2.0)),
        ("focal length NaN", focal, &number(f64::NAN)),
        ("focal length huge", focal + 8, &number(1e13)),
        ("centre NaN", centre, &number(f64::NAN)),
        ("centre huge", centre + 8, &number(-1e13)),
    ];
    refused(&good, |bytes| View::read(bytes), changes);
    // Both edges legal, their product not.
    let mut wide = good.clone();
    wide[8..16].copy_from_slice(&[16_384_u32.to_le_bytes(), 16_384_u32.to_le_bytes()].concat());
    assert!(matches!(
        View::read(&mut &wide[..]),
        Err(TableError::Bound {
            what: "number of view pixels",
            ..
        })
    ));
    assert!(matches!(
        ViewHeader::read(&mut &wide[..]),
        Err(TableError::Bound { .. })
    ));
}

#[test]
fn the_head_of_a_view_tells_what_the_view_tells() {
    let mut bytes = Vec::new();
    let view = View {
        holdout: true,
        ..view()
    };
    view.write(&mut bytes).expect("memory takes all");
    let header = ViewHeader::read(&mut &bytes[..]).expect("good");
    assert_eq!(
        (header.index, header.width, header.height, header.crop),
        (1, 3, 2, [4, 5])
    );
    assert!(header.has_alpha && header.holdout);
    assert_eq!(
        (header.table_bytes(), view.byte_len()),
        (bytes.len() as u64, bytes.len() as u64)
    );
}

#[test]
fn every_field_of_a_texture_is_bounded() {
    let mut good = Vec::new();
    texture().write(&mut good).expect("memory takes all");
    refused(
        &good,
        |bytes| Texture::read(bytes),
        &[
            ("magic", 0, b"KILNVIW1"),
            ("unused word", 60, &[0, 0, 0, 1]),
            ("size 0", 8, &ZERO),
            ("size below the limit", 8, &252_u32.to_le_bytes()),
            ("size beyond the limit", 8, &8196_u32.to_le_bytes()),
            ("most size", 8, &MAX),
            ("four more than is there", 8, &260_u32.to_le_bytes()),
            ("provenance", 64 + 256 * 256 * 4, &[4]),
            ("last provenance", 64 + 256 * 256 * 5 - 1, &[255]),
            ("maps that are not there", 12, &[1]),
            ("two sets of maps", 12, &[2]),
        ],
    );
}

#[test]
fn maps_that_contradict_the_provenance_are_refused() {
    let mut good = Vec::new();
    mapped().write(&mut good).expect("memory takes all");
    let coverage = 64 + 256 * 256 * 5;
    let residual = coverage + 256 * 256;
    refused(
        &good,
        |bytes| Texture::read(bytes),
        &[
            ("coverage outside the charts", coverage, &[1]),
            ("residual outside the charts", residual, &[1]),
            ("coverage of what is filled in", coverage + 1, &[2]),
            ("residual of what is filled in", residual + 1, &[2]),
            ("no coverage within a chart", coverage + 1, &[0]),
            ("no residual within a chart", residual + 1, &[0]),
            ("more than weak", coverage + 2, &[66]),
            ("weak in place of observed", coverage + 3, &[65]),
            ("last coverage", residual - 1, &[65]),
            ("last residual", residual + 256 * 256 - 1, &[0]),
        ],
    );
    let without: &[u8] = &good[..residual - 1];
    assert!(matches!(
        Texture::read(&mut &without[..]),
        Err(TableError::Io(_))
    ));
    // Without maps nothing of them is read, or written.
    good[12] = 0;
    let read = Texture::read(&mut &good[..]).expect("the rest is good");
    assert_eq!(read.maps, None);
    assert_eq!(read.byte_len(), coverage as u64);
    assert_eq!(mapped().byte_len(), good.len() as u64);
}

#[test]
fn tables_come_back_as_they_were() {
    let (mesh, surface, view, texture) = (mesh(), surface(), view(), texture());
    let mut bytes = [const { Vec::new() }; 4];
    mesh.write(&mut bytes[0]).expect("memory takes all");
    surface.write(&mut bytes[1]).expect("memory takes all");
    view.write(&mut bytes[2]).expect("memory takes all");
    texture.write(&mut bytes[3]).expect("memory takes all");
    let lengths = [
        mesh.byte_len(),
        surface.byte_len(),
        view.byte_len(),
        texture.byte_len(),
    ];
    assert_eq!(bytes.each_ref().map(|bytes| bytes.len() as u64), lengths);
    assert_eq!(Mesh::read(&mut &bytes[0][..]).expect("good"), mesh);
    assert_eq!(Surface::read(&mut &bytes[1][..]).expect("good"), surface);
    assert_eq!(View::read(&mut &bytes[2][..]).expect("good"), view);
    assert_eq!(Texture::read(&mut &bytes[3][..]).expect("good"), texture);
    bytes[3].clear();
    mapped().write(&mut bytes[3]).expect("memory takes all");
    assert_eq!(Texture::read(&mut &bytes[3][..]).expect("good"), mapped());
}

/// A view with two layers, each pixel of them its own.
fn layered() -> LayeredView {
    let plane = |first: u8| (0..6).map(|k| [first + k, 2, 3, 4]).collect();
    LayeredView {
        view: view(),
        layers: vec![(Layer::Normal, plane(10)), (Layer::Opacity, plane(20))],
    }
}

#[test]
fn layers_of_a_view_come_back_as_far_as_they_are_wanted() {
    let (wanted, mut bytes) = (layered(), Vec::new());
    wanted.write(&mut bytes).expect("memory takes all");
    assert_eq!(bytes.len() as u64, wanted.byte_len());
    let header = ViewHeader::read(&mut &bytes[..]).expect("right");
    assert_eq!(
        (header.table_bytes(), header.layers),
        (wanted.byte_len(), wanted.set())
    );
    assert_eq!(View::read(&mut &bytes[..]).expect("right"), wanted.view);
    for bits in 0..1 << Layer::ALL.len() {
        let set = LayerSet::from_bits(bits).expect("layers");
        let (read, has) = LayeredView::read(&mut &bytes[..], set).expect("right");
        assert_eq!(has, wanted.set());
        let layers = wanted.layers.iter().filter(|(layer, _)| set.has(*layer));
        assert!(read.layers.iter().eq(layers), "{set:?}");
    }
    for cut in [bytes.len() - 1, bytes.len() - 25] {
        assert!(LayeredView::read(&mut &bytes[..cut], wanted.set()).is_err());
    }
    // The seventh word of the header is the set.
    bytes[8 + 6 * 4] = 1 << Layer::ALL.len();
    assert!(matches!(
        ViewHeader::read(&mut &bytes[..]),
        Err(TableError::Bound { value: 32, .. })
    ));
    let (mut plain, mut same) = (Vec::new(), Vec::new());
    view().write(&mut plain).expect("memory takes all");
    let without = LayeredView {
        view: view(),
        layers: Vec::new(),
    };
    without.write(&mut same).expect("memory takes all");
    assert_eq!(plain, same);
}

#[test]
fn a_layer_comes_back_and_another_does_not() {
    let texture = LayerTexture {
        layer: Layer::Occlusion,
        size: 256,
        texels: (0..256 * 256_u32).map(u32::to_le_bytes).collect(),
    };
    let mut bytes = Vec::new();
    texture.write(&mut bytes).expect("memory takes all");
    assert_eq!(bytes.len() as u64, LayerTexture::bytes_for(256));
    assert_eq!(LayerTexture::read(&mut &bytes[..]).expect("right"), texture);
    for (word, value) in [(0, 255_u32), (0, 8193), (1, 5), (2, 1)] {
        let mut wrong = bytes.clone();
        wrong[8 + 4 * word..12 + 4 * word].copy_from_slice(&value.to_le_bytes());
        assert!(LayerTexture::read(&mut &wrong[..]).is_err(), "{word}");
    }
    assert!(LayerTexture::read(&mut &bytes[..bytes.len() - 1]).is_err());
}

/// Splats of degree 1, and two cameras.
fn splats() -> SplatScene {
    SplatScene {
        positions: vec![[1.0, -2.0, 3.0], [0.5, 0.25, -1e20]],
        scales: vec![[0.1, 0.2, 0.0], [3.0; 3]],
        rotations: vec![[1.0, 0.0, 0.0, 0.0], [0.0, 0.6, -0.8, 0.0]],
        opacities: vec![0.0, 1.0],
        constants: vec![[0.5, -1.5, 2.0]; 2],
        harmonics: (0..6).map(|k| [k as f32; 3]).collect(),
        degree: 1,
        manner: Manner {
            variance: 0.1,
            keeps_sum: true,
            linear: true,
        },
        size: [640, 480],
        cameras: vec![view().camera; 2],
    }
}

#[test]
fn splats_and_undrawn_views_come_back() {
    let (wanted, mut bytes) = (splats(), Vec::new());
    wanted.write(&mut bytes).expect("memory takes all");
    assert_eq!(bytes.len() as u64, wanted.byte_len());
    assert_eq!(SplatScene::read(&mut &bytes[..]).expect("right"), wanted);
    for cut in [0, 63, 64, bytes.len() - 1] {
        assert!(SplatScene::read(&mut &bytes[..cut]).is_err(), "{cut}");
    }
    let undrawn = View {
        pixels: Vec::new(),
        ..view()
    };
    let mut bytes = Vec::new();
    undrawn.write(&mut bytes).expect("memory takes all");
    let header = ViewHeader::read(&mut &bytes[..]).expect("right");
    assert!(header.undrawn && header.table_bytes() == bytes.len() as u64);
    let pixels = u64::from(undrawn.width) * u64::from(undrawn.height);
    assert_eq!(header.pixel_bytes(), 4 * pixels);
    assert_eq!(View::read(&mut &bytes[..]).expect("right"), undrawn);
    // The seventh word of the header is the set of layers.
    bytes[8 + 6 * 4] = 1;
    assert!(
        ViewHeader::read(&mut &bytes[..]).is_err(),
        "layers of nothing"
    );
}

#[test]
fn splats_without_a_meaning_are_refused() {
    type Spoil = fn(&mut SplatScene);
    let cases: [(&str, Spoil); 10] = [
        ("a position", |splats| splats.positions[1][2] = f32::NAN),
        ("a scale", |splats| splats.scales[0][1] = f32::INFINITY),
        ("a negative scale", |splats| splats.scales[1][0] = -0.1),
        ("a quaternion", |splats| splats.rotations[1] = [0.0; 4]),
        ("an opacity", |splats| splats.opacities[0] = 1.5),
        ("a colour", |splats| splats.constants[1][0] = f32::NAN),
        ("a harmonic", |splats| splats.harmonics[5][1] = f32::NAN),
        ("the filter", |splats| splats.manner.variance = -0.1),
        ("a camera", |splats| splats.cameras[1].focal[0] = 0.0),
        ("the size", |splats| splats.size[1] = 0),
    ];
    for (what, spoil) in cases {
        let (mut splats, mut bytes) = (splats(), Vec::new());
        spoil(&mut splats);
        splats.write(&mut bytes).expect("memory takes all");
        assert!(SplatScene::read(&mut &bytes[..]).is_err(), "{what}");
    }
}
