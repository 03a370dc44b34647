//! An occluder, a hole in the alpha and another surface in one of several views of a cube.

use std::io::Cursor;

use proto::job::{Memory, Quality, Refine};
use proto::message::{BakeSummary, Failure};

use crate::bake::bake_on;
use crate::bake::finish::rejected::*;
use crate::bake::fixture::{Given, around, camera, cube, paint, surface, ties, view, waves};
use crate::bake::model::atlas::Atlas;
use crate::bake::plan::Order;
use crate::bake::plan::quality::Plan;
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::Backend;
use crate::bake::solve::native::Native;
use crate::worker::progress::Silent;

const SIZE: u32 = 48;
const EDGES: [u32; 2] = [64, 60];
/// Columns and rows of the disturbed pixels, near the view's centre.
const OCCLUDED: [std::ops::Range<usize>; 2] = [28..38, 24..34];

fn baked() -> (Vec<(u32, Vec<u8>)>, BakeSummary) {
    let mesh = cube();
    let texture = paint(&mesh, SIZE, waves);
    let mut views = (0..12).map(|k| {
        let camera = camera(around(k, 12, 2.4), 80.0, EDGES, [0.0, 0.0]);
        let mut view = view(k, &mesh, &texture, camera, EDGES);
        for row in OCCLUDED[1].clone() {
            for column in OCCLUDED[0].clone() {
                let pixel = &mut view.pixels[row * EDGES[0] as usize + column];
                match k {
                    5 => *pixel = [255, 0, 255, 255],
                    7 => pixel[3] = 0,
                    _ => {}
                }
            }
        }
        view
    });
    let job = proto::job::BakeJob {
        refine: Refine::Off,
        rejected: true,
        ..proto::job::BakeJob::default()
    };
    let plan = Plan::new(Quality::Draft);
    let open = |scene: &Scene, atlas: &Atlas| -> Result<(Box<dyn Backend>, Window), Failure> {
        let ties = ties(atlas);
        let (taps, full) = (plan.taps, Memory::Full);
        let native = Native::new(scene.clone(), ties, taps, Blend::Linear, full);
        Ok((Box::new(native), scene.window.clone()))
    };
    let order = Order {
        plan: &plan,
        blend: Blend::Linear,
        job: &job,
    };
    let baked = bake_on(
        open,
        surface(&mesh),
        order,
        &Silent,
        &mut Given::new(&mesh, SIZE, || Ok(views.next())),
    );
    let baked = baked.expect("a texture");
    (baked.rejected, baked.summary)
}

fn read(picture: &[u8]) -> Vec<u8> {
    let mut reader = ::png::Decoder::new(Cursor::new(picture))
        .read_info()
        .expect("a PNG");
    let mut codes = vec![0; reader.output_buffer_size().expect("a size")];
    reader.next_frame(&mut codes).expect("pixels");
    codes
}

#[test]
fn what_contradicts_the_other_views_stands_out_and_nothing_else() {
    let (pictures, summary) = baked();
    assert_eq!(pictures.len(), 12);
    for (view, picture) in &pictures {
        let codes = read(picture);
        let shares = summary
            .views
            .iter()
            .find(|fit| fit.view == *view)
            .expect("in the report");
        let shares = shares.rejected.expect("asked for");
        let inside = |pixel: usize| {
            let (x, y) = (pixel % EDGES[0] as usize, pixel / EDGES[0] as usize);
            OCCLUDED[0].contains(&x) && OCCLUDED[1].contains(&y)
        };
        // The neighbourhood weight lowers the occluder's block and its neighbours; farther away nothing is rejected.
        let near = |pixel: usize| {
            let (x, y) = (pixel % EDGES[0] as usize, pixel / EDGES[0] as usize);
            (8..56).contains(&x) && (8..56).contains(&y)
        };
        let doubted = |code: u8| code > BELIEVED + 200;
        let mut elsewhere = 0;
        for (pixel, &code) in codes.iter().enumerate() {
            match view {
                5 if inside(pixel) => assert!(doubted(code), "occluded: {pixel} has {code}"),
                7 if inside(pixel) => assert_eq!(code, ALPHA, "{pixel}"),
                5 if near(pixel) => {}
                _ => elsewhere += usize::from(doubted(code)),
            }
        }
        // Edges of the cube, of which a texture of this size shows little.
        assert!(elsewhere < 40, "view {view}: {elsewhere} pixels");
        let on_mesh = codes.iter().filter(|&&code| code != BESIDE).count() as f32;
        let patch = (OCCLUDED[0].len() * OCCLUDED[1].len()) as f32 / on_mesh;
        match view {
            5 => assert!(shares.outliers > 0.9 * patch, "{shares:?}"),
            7 => assert!(
                (shares.alpha - patch).abs() < 1e-6 && shares.outliers < 0.1,
                "{shares:?}"
            ),
            _ => assert!(shares.alpha == 0.0 && shares.outliers < 0.1, "{shares:?}"),
        }
        assert!(shares.outline > 0.0 && shares.outline < 0.3 && shares.surface == 0.0);
    }
}

#[test]
fn another_surface_is_told_from_what_the_picture_left_out() {
    let mesh = cube();
    let texture = paint(&mesh, SIZE, waves);
    let scene = Scene::new(&mesh, SIZE);
    let camera = camera([0.0, 0.2, 2.4], 80.0, EDGES, [0.0, 0.0]);
    let mut view = view(0, &mesh, &texture, camera, EDGES);
    let before = opaque(&view);
    let middle = 30 * EDGES[0] as usize + 32;
    view.pixels[middle][3] = 0;
    let texels = vec![[0.5; 4]; scene.texels()];
    let against = Against {
        scene: &scene,
        texels: &texels,
        taps: 2,
        scale: f32::INFINITY,
        blend: Blend::Linear,
    };
    let codes = codes(against, &view, &before);
    assert_eq!((codes[middle], codes[middle + 1]), (SURFACE, BELIEVED));
    assert_eq!(codes[0], BESIDE);
    assert!(codes.contains(&OUTLINE));
    let shares = shares(&codes);
    assert!(shares.surface > 0.0 && shares.outliers == 0.0);
}
