//! Filling: colours spread from seen texels over the surface, and reach every texel.

use crate::bake::fixture::{cube, sphere};
use crate::bake::plan::window::{Window, across};
use crate::bake::solve::fill::*;
use proto::table::Mesh;

/// Place on the surface of each texel, none in the gutter.
type Places = Vec<Option<[f32; 3]>>;

/// Fills a texture in which `seen` gives the colour of a place on the surface, if it is seen there.
fn filled(
    mesh: &Mesh,
    size: u32,
    seen: impl Fn([f32; 3]) -> Option<[f32; 3]>,
) -> (Scene, Vec<[f32; 4]>, Places) {
    let scene = Scene::new(mesh, size);
    let atlas = Atlas::new(&scene);
    let places: Places = atlas
        .triangles
        .iter()
        .enumerate()
        .map(|(texel, &triangle)| {
            (triangle != NOTHING).then(|| {
                let weights = barycentrics(&scene, triangle, texel);
                let corners = mesh.triangles[triangle as usize].map(|k| mesh.positions[k as usize]);
                std::array::from_fn(|axis| (0..3).map(|k| weights[k] * corners[k][axis]).sum())
            })
        })
        .collect();
    let mut texels: Vec<[f32; 4]> = places
        .iter()
        .map(|place| match place.and_then(&seen) {
            Some([r, g, b]) => [r, g, b, 0.7],
            None => [0.0; 4],
        })
        .collect();
    fill(&scene, &atlas, &mut texels);
    (scene, texels, places)
}

#[test]
fn the_unseen_half_of_a_sphere_lies_between_the_colours_of_the_seen() {
    let red = |at: [f32; 3]| 0.4 + 0.2 * at[1];
    let (_, texels, places) = filled(&sphere(24, 16), 96, |at| {
        (at[0] > 0.05).then(|| [red(at), 0.5, 0.1])
    });
    let mut unseen = 0;
    for (texel, place) in texels.iter().zip(&places) {
        // All texels, the gutter too: nothing is black, and nothing is outside of the range that was seen.
        assert!((0.19..=0.61).contains(&texel[0]), "{texel:?}");
        assert!((texel[1] - 0.5).abs() < 1e-4 && (texel[2] - 0.1).abs() < 1e-4);
        if let Some(at) = place {
            if at[0] > 0.05 {
                assert_eq!((texel[0], texel[3]), (red(*at), 0.7), "seen texels stay");
            } else {
                unseen += 1;
                assert_eq!(texel[3], 0.0, "the observed weight stays");
                // Not far behind the terminator the north is still redder than the south.
                if at[0] > -0.5 && at[1].abs() > 0.6 {
                    assert_eq!(texel[0] > 0.4, at[1] > 0.0, "{texel:?} at {at:?}");
                }
            }
        }
    }
    assert!(unseen > 2000);
}

#[test]
fn colour_crosses_the_border_of_a_chart_as_the_surface_does() {
    // Only the face x = +½ of the cube is seen. It is a chart of its own, and adjacent in the texture also to faces
    // that are not its neighbours.
    let seen = |at: [f32; 3]| (at[0] > 0.499).then_some([0.1 + at[1].max(0.0), 0.2, 0.3]);
    let (scene, texels, places) = filled(&cube(), 48, seen);
    for (texel, place) in texels.iter().zip(&places) {
        assert!((texel[1] - 0.2).abs() < 1e-4 && (texel[2] - 0.3).abs() < 1e-4);
        if let Some(at) = place
            && at[0] > 0.4
            && at[0] < 0.499
            && at[1].abs() > 0.499
        {
            // Faces y = ±½ continue the colour of the edge that they share with the seen face.
            assert_eq!(texel[0] > 0.25, at[1] > 0.0, "{texel:?} at {at:?}");
        }
    }
    // If charts were not joined on the surface, all faces would take the mean.
    let mut cut = scene;
    cut.surface_vertices = (0..cut.surface_vertices.len() as u32).collect();
    let atlas = Atlas::new(&cut);
    let mut alone: Vec<[f32; 4]> = places
        .iter()
        .map(|place| match place.and_then(seen) {
            Some([r, g, b]) => [r, g, b, 1.0],
            None => [0.0; 4],
        })
        .collect();
    fill(&cut, &atlas, &mut alone);
    let unseen: Vec<f32> = alone
        .iter()
        .zip(&places)
        .filter(|(texel, place)| place.is_some() && texel[3] == 0.0)
        .map(|(texel, _)| texel[0])
        .collect();
    let (low, high) = unseen
        .iter()
        .fold((1.0f32, 0.0f32), |(l, h), &x| (l.min(x), h.max(x)));
    assert!(high - low < 1e-4, "{low} to {high}");
}

#[test]
fn a_body_that_no_view_sees_takes_the_mean() {
    // Two spheres, the second in a strip of the texture of its own.
    let mut mesh = sphere(8, 6);
    let count = mesh.positions.len() as u32;
    let other = mesh.clone();
    for uv in &mut mesh.uvs {
        uv[1] *= 0.5;
    }
    mesh.positions
        .extend(other.positions.iter().map(|at| [at[0] + 5.0, at[1], at[2]]));
    mesh.uvs
        .extend(other.uvs.iter().map(|uv| [uv[0], 0.5 + 0.5 * uv[1]]));
    mesh.surface_vertices
        .extend(other.surface_vertices.iter().map(|vertex| vertex + count));
    mesh.triangles.extend(
        other
            .triangles
            .iter()
            .map(|t| t.map(|corner| corner + count)),
    );
    let seen = |at: [f32; 3]| (at[0] < 2.0).then_some([if at[0] > 0.0 { 0.8 } else { 0.2 }; 3]);
    let (_, texels, places) = filled(&mesh, 64, seen);
    let mut count = 0;
    for (texel, place) in texels.iter().zip(&places) {
        if place.is_some_and(|at| at[0] > 2.0) {
            count += 1;
            assert!((texel[0] - 0.5).abs() < 0.1, "{texel:?}");
        }
    }
    assert!(count > 500);
}

#[test]
fn where_nothing_is_seen_nothing_fails() {
    let (_, texels, _) = filled(&cube(), 16, |_| None);
    assert!(texels.iter().all(|texel| *texel == [0.0; 4]));
}

#[test]
fn far_from_what_is_seen_colours_come_over_the_surface_and_near_it_they_stay() {
    let mesh = sphere(24, 16);
    let size = 160;
    let scene = Scene::new(&mesh, size);
    let atlas = Atlas::new(&scene);
    let grey = |texel: usize| 0.2 + 0.2 * (texel % 7) as f32 / 7.0;
    // Rows 40 to 59 are observed, and the texels near them were filled from them. All others have a colour that nothing
    // on the surface has.
    let row = |texel: usize| texel / size as usize;
    let observed =
        |texel: usize| (40..60).contains(&row(texel)) && atlas.triangles[texel] != NOTHING;
    // Links are straight up and down here, within the single chart.
    let off = |texel: usize| {
        40_usize
            .saturating_sub(row(texel))
            .max(row(texel).saturating_sub(59))
    };
    let before: Vec<[f32; 4]> = (0..scene.texels())
        .map(|texel| {
            let weight = if observed(texel) { 0.3 } else { 0.0 };
            match off(texel) <= NEAR as usize {
                true => [grey(texel), grey(texel), grey(texel), weight],
                false => [0.0, 0.0, 1.0, 0.0],
            }
        })
        .collect();
    let mut texels = before.clone();
    fill_far(&scene, &atlas, &mut texels);
    let (mut near, mut far) = (0, 0);
    for (texel, (own, was)) in texels.iter().zip(&before).enumerate() {
        assert_eq!(own[3], was[3], "weights stay");
        if atlas.triangles[texel] == NOTHING {
            continue;
        }
        let off = off(texel);
        if off <= NEAR as usize {
            assert_eq!(own, was, "{off} rows off");
            near += usize::from(off > 0);
        } else {
            far += 1;
            let known = |value: f32| (0.19..0.41).contains(&value);
            assert!(
                own[..3].iter().all(|value| known(*value)),
                "{own:?}, {off} rows off"
            );
        }
    }
    assert!(near > 3000 && far > 5000, "{near} and {far}");
    let mut all = before.clone();
    all.iter_mut().for_each(|texel| texel[3] = 1.0);
    let seen = all.clone();
    fill_far(&scene, &atlas, &mut all);
    assert_eq!(all, seen, "nothing is far");
}

#[test]
fn what_one_part_of_a_texture_tells_reaches_those_after_it() {
    const SIZE: u32 = 96;
    // The upper half of the texture is seen.
    let (scene, whole, places) = filled(&sphere(24, 16), SIZE, |_| None);
    let atlas = Atlas::new(&scene);
    let half = (SIZE * SIZE / 2) as usize;
    let start: Vec<[f32; 4]> = (places.iter().enumerate())
        .map(|(texel, place)| match place {
            Some(at) if texel < half => [0.4 + 0.2 * at[1], 0.5 + 0.1 * at[2], 0.1, 0.7],
            _ => [0.0; 4],
        })
        .collect();
    assert!(whole.iter().all(|texel| texel[..3] == [0.0; 3]));
    let mut whole = start.clone();
    fill(&scene, &atlas, &mut whole);

    let lines = across(SIZE);
    let mut tones = Tones::none(&scene);
    for core in [0..lines / 2, lines / 2..lines] {
        let window = Window::band(SIZE, core.clone(), core, &[3, 200].into());
        let of_texture = window.places();
        let mut texels: Vec<[f32; 4]> = (of_texture.iter())
            .map(|texel| texel.map_or([0.0; 4], |texel| start[texel as usize]))
            .collect();
        // Texels that stand for squares elsewhere are seen, but have no place.
        for (texel, of) in texels.iter_mut().zip(&of_texture) {
            if of.is_none() {
                *texel = [9.0, 9.0, 9.0, 0.1];
            }
        }
        let place = |texel: usize| of_texture[texel].map(|texel| texel as usize);
        tones.fill(&scene, &atlas, &mut texels, place);
        for (texel, of) in texels.iter().zip(&of_texture) {
            let Some(of) = of.map(|of| of as usize) else {
                assert_eq!(*texel, [9.0, 9.0, 9.0, 0.1]);
                continue;
            };
            assert_eq!(texel[3], start[of][3], "the weight that it had");
            if places[of].is_some() && of >= half && window.core().contains(&(of / SIZE as usize)) {
                for (own, wanted) in texel.iter().zip(whole[of]) {
                    assert!((own - wanted).abs() < 1e-5, "{texel:?} at {of}");
                }
            }
        }
    }
}
