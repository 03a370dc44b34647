use crate::bake::fixture::{IDENTITY, Random, around, camera, cube, noise, sphere, view};
use crate::bake::intake::refine::camera::*;
use crate::bake::model::scene::Scene;
use crate::bake::model::vec3::dot;
use proto::table::Mesh;

const SIZE: [u32; 2] = [300, 260];

/// A body without symmetry: a stretched sphere with bumps of three sizes.
fn potato() -> Mesh {
    let mut mesh = sphere(96, 64);
    for position in &mut mesh.positions {
        let [x, y, z] = *position;
        let swell =
            1.0 + 0.25 * (2.0 * x + 0.7).sin() * (3.0 * y).cos() + 0.15 * (4.0 * z + x).sin();
        *position = [1.1 * x * swell, 0.8 * y * swell, 0.9 * z * swell + 0.2 * x];
    }
    mesh
}

pub(in crate::bake::intake::refine) fn shape(scene: &Scene) -> ShownMesh<'_> {
    ShownMesh {
        frame: scene.frame,
        positions: &scene.positions,
        triangles: &scene.triangles,
    }
}

/// The picture from the `k`th position, and a camera with noise (0.2° and 0.2 % at `amount` 1).
fn pair(mesh: &Mesh, k: u32, amount: f64) -> (View, Camera) {
    let mut truth = camera(around(k, 7, 3.6), 330.0, SIZE, [6.0, -9.0]);
    truth.focal[1] = 345.0;
    let view = view(k, mesh, &noise(64, 5), truth, SIZE);
    let mut random = Random(100 + u64::from(k));
    let turn = 0.2 / 180.0 * std::f64::consts::PI * 1.7 * amount;
    let shift = 0.002 * 3.6 * 1.7 * amount;
    let mut step = [0.0; 6];
    for (axis, number) in step.iter_mut().enumerate() {
        *number = random.within(-1.0, 1.0) * if axis < 3 { turn } else { shift };
    }
    // About the camera's own position, like the noise of a tracker.
    let turn = [step[0], step[1], step[2], 0.0, 0.0, 0.0];
    let still = Camera {
        translation: [0.0; 3],
        ..truth
    };
    let (mut off, turned) = (moved(&still, &turn), moved(&IDENTITY, &turn));
    for row in 0..3 {
        off.translation[row] = dot(turned.rotation[row], truth.translation) + step[3 + row];
    }
    (
        View {
            camera: off,
            ..view
        },
        truth,
    )
}

/// Distance of two world cameras, as the mesh shows it.
fn apart(scene: &Scene, one: &Camera, other: &Camera) -> f64 {
    let (one, other) = (scene.camera(one), scene.camera(other));
    shift(&one, &other, &points(shape(scene), &one))
}

#[test]
fn a_known_perturbation_is_undone() {
    let mesh = potato();
    let scene = Scene::new(&mesh, 64);
    for (amount, k) in (0..7).map(|k| (if k < 5 { 1.0 } else { 2.5 }, k)) {
        let (view, truth) = pair(&mesh, k, amount);
        let off = apart(&scene, &view.camera, &truth);
        assert!(off > 0.6 * amount, "view {k} begins {off} px off");
        for mode in [Refine::Auto, Refine::On] {
            let verdict = refine(shape(&scene), &view, mode);
            assert_eq!(verdict.fate, CameraFate::Moved, "view {k}: {verdict:?}");
            let left = apart(&scene, &verdict.camera, &truth);
            assert!(left < 0.08, "view {k}: {off} px became {left}");
            assert!((verdict.moved - off).abs() < 0.1, "{verdict:?}, {off}");
            assert_eq!(verdict.camera.focal, truth.focal);
            assert_eq!(verdict.camera.centre, truth.centre);
        }
    }
}

#[test]
fn true_cameras_are_left_alone_and_hardly_moved_on_demand() {
    let mesh = potato();
    let scene = Scene::new(&mesh, 64);
    for k in 0..7 {
        let (view, truth) = pair(&mesh, k, 0.0);
        let verdict = refine(shape(&scene), &view, Refine::Auto);
        assert_eq!(verdict.fate, CameraFate::Agrees, "{verdict:?}");
        assert_eq!((verdict.camera, verdict.moved), (view.camera, 0.0));
        let verdict = refine(shape(&scene), &view, Refine::On);
        let left = apart(&scene, &verdict.camera, &truth);
        assert!(left < 0.05, "view {k}: {left} px");
    }
}

#[test]
fn a_sphere_is_not_turned() {
    let mesh = sphere(256, 128);
    let scene = Scene::new(&mesh, 64);
    let truth = camera([0.4, 0.3, 3.6], 330.0, SIZE, [6.0, -9.0]);
    let picture = view(0, &mesh, &noise(64, 5), truth, SIZE);
    let mut off = truth;
    off.translation[0] += 0.02;
    off.translation[2] -= 0.03;
    let view = View {
        camera: off,
        ..picture
    };
    let verdict = refine(shape(&scene), &view, Refine::Auto);
    assert_eq!((verdict.fate, verdict.held), (CameraFate::Moved, 3));
    // The shift is undone by the move that changes the surface least, which includes a small rotation: half a pixel of
    // the rim is a tenth of the radius deep.
    for row in 0..3 {
        let left = verdict.camera.translation[row] - truth.translation[row];
        assert!(left.abs() < 3e-3, "{left}");
        for column in 0..3 {
            let turned = verdict.camera.rotation[row][column] - truth.rotation[row][column];
            assert!(turned.abs() < 8e-3, "{turned} of {verdict:?}");
        }
    }
}

/// A sphere's silhouette is the same from everywhere: it does not show a rotation about its centre.
#[test]
fn a_turn_that_no_silhouette_shows_is_left_as_it_is() {
    let mesh = sphere(256, 128);
    let scene = Scene::new(&mesh, 64);
    let truth = camera([0.4, 0.3, 3.6], 330.0, SIZE, [6.0, -9.0]);
    let view = View {
        camera: moved(&truth, &[0.02, -0.01, 0.03, 0.0, 0.0, 0.0]),
        ..view(0, &mesh, &noise(64, 5), truth, SIZE)
    };
    let off = apart(&scene, &view.camera, &truth);
    assert!(off > 2.0, "{off}");
    for mode in [Refine::Auto, Refine::On] {
        let verdict = refine(shape(&scene), &view, mode);
        assert!(verdict.moved < 0.05, "{verdict:?}");
    }
}

#[test]
fn another_outline_moves_nothing() {
    let mesh = potato();
    let scene = Scene::new(&mesh, 64);
    let mut slim = scene.clone();
    for position in &mut slim.positions {
        // The outline of a mesh of few triangles differs from its original in this way: in and out along it.
        let wave =
            (21.0 * position[0]).sin() + (17.0 * position[1]).sin() + (19.0 * position[2]).sin();
        *position = position.map(|x| x * (1.0 + 0.008 * wave));
    }
    for k in 0..7 {
        let (view, _) = pair(&mesh, k, 0.0);
        let verdict = refine(shape(&slim), &view, Refine::Auto);
        assert_ne!(verdict.fate, CameraFate::Moved, "{verdict:?}");
        assert_ne!(verdict.fate, CameraFate::Agrees, "{verdict:?}");
        assert_eq!(verdict.camera, view.camera);
    }
}

#[test]
fn what_has_no_silhouette_says_so() {
    let mesh = potato();
    let scene = Scene::new(&mesh, 64);
    let (view, _) = pair(&mesh, 0, 1.0);
    let fate = |view: &View| refine(shape(&scene), view, Refine::On).fate;
    let mut opaque = view.clone();
    opaque.has_alpha = false;
    assert_eq!(fate(&opaque), CameraFate::NoAlpha);
    // A picture as from within the object: opaque to its borders.
    let mut close = view.clone();
    close.pixels.fill([9, 9, 9, 255]);
    close.camera.focal = [3000.0; 2];
    assert_eq!(fate(&close), CameraFate::NoSilhouette);
    // A picture that shows nothing.
    let mut away = view.clone();
    away.pixels.fill([0; 4]);
    away.camera.centre[0] -= 5000.0;
    assert_eq!(fate(&away), CameraFate::NoSilhouette);
    let mut far = view;
    far.camera.translation[0] += 0.7;
    let fate = fate(&far);
    assert!(
        matches!(fate, CameraFate::TooFar | CameraFate::OtherOutline),
        "{fate:?}"
    );
}

#[test]
fn an_occluder_does_not_pull() {
    let mesh = potato();
    let scene = Scene::new(&mesh, 64);
    let (mut view, truth) = pair(&mesh, 2, 1.0);
    // A block that extends beyond the object, over background too.
    for row in 20..110 {
        for column in 120..170 {
            view.pixels[row * SIZE[0] as usize + column] = [200, 30, 30, 255];
        }
    }
    let verdict = refine(shape(&scene), &view, Refine::On);
    assert_eq!(verdict.fate, CameraFate::Moved);
    let left = apart(&scene, &verdict.camera, &truth);
    assert!(left < 0.25, "{left} px");
}

#[test]
fn a_crop_through_the_object_is_not_taken_for_its_edge() {
    let mesh = potato();
    let scene = Scene::new(&mesh, 64);
    let (view, truth) = pair(&mesh, 3, 1.0);
    // The right third is missing, as if the picture ended there.
    let width = 175;
    let pixels = view
        .pixels
        .chunks_exact(SIZE[0] as usize)
        .flat_map(|row| row[..width].to_vec())
        .collect();
    let cut = View {
        width: width as u32,
        pixels,
        ..view
    };
    let verdict = refine(shape(&scene), &cut, Refine::Auto);
    assert_eq!(verdict.fate, CameraFate::Moved, "{verdict:?}");
    let left = apart(&scene, &verdict.camera, &truth);
    assert!(left < 0.2, "{left} px");
}

/// The right-hand side is the gradient of the residuals, and a known step changes them accordingly.
#[test]
fn the_equations_predict_how_the_silhouette_moves() {
    let mesh = cube();
    let scene = Scene::new(&mesh, 64);
    let truth = camera([1.5, 1.1, 2.9], 330.0, SIZE, [6.0, -9.0]);
    let view = view(0, &mesh, &noise(64, 5), truth, SIZE);
    let outline = Outline::new(&view);
    let start = outline.camera(&scene.camera(&truth));
    for direction in 0..6 {
        let mut step = [0.0; 6];
        step[direction] = if direction < 3 { 5e-3 } else { 15e-3 };
        // The picture shows the mesh where it would be after the step back.
        let look = Comparison::new(&outline, shape(&scene), moved(&start, &step));
        let cover = &look.cover;
        let [share, rim, nearness] =
            [&cover.share, &cover.rim, &cover.nearness].map(|plane| plane.blurred(3.0));
        let band = SilhouetteBand::new(&outline, &outline.alpha.blurred(3.0), &share, 3.0);
        let equations = band.equations(&rim, &nearness, &look.camera);
        for k in 0..6 {
            let wanted: f64 = -(0..6).map(|l| equations.a[k][l] * step[l]).sum::<f64>();
            let size =
                (equations.a[k][k] * equations.a[direction][direction]).sqrt() * step[direction];
            let off = (equations.b[k] - wanted) / size;
            assert!(off.abs() < 0.08, "{direction} {k}: {off}");
        }
    }
}
