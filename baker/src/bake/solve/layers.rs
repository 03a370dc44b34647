//! Fits the views' other channels ("layers") into textures of their own: the same fit with the same scene, atlas,
//! cameras and masks, once for each set of channels that go together.
//!
//! One set is in memory at a time, so a job with channels needs no more memory than one without. A fit has three
//! channels. Scalar channels share one fit where the very same views have them: roughness and metallic with occlusion,
//! as glTF stores them, or else with opacity. A set is weighted by its own residuals alone: a highlight is an outlier
//! of the colours, and none of the roughness. Exposures belong to the colours, and are not divided out of anything
//! else.
//!
//! Normals are fitted as world vectors, which are alike on both sides of a seam: their gutter only continues the
//! charts. They are normalised at the end; encode converts them to tangent space.

use std::time::Instant;

use proto::job::Blend;
use proto::message::{DetailFigures, Failure, LayerFit};
use proto::table::{Layer, LayerSet, LayerTexture, LayeredView, View, pack_normal};
use rayon::prelude::*;

use crate::bake::detail::Details;
use crate::bake::error::failure;
use crate::bake::finish::summary::psnr_of;
use crate::bake::intake::view_source::ViewSource;
use crate::bake::intake::{Came, Done, Intake, cut, hand_over};
use crate::bake::model::colour::{Space, to_byte};
use crate::bake::solve::backend::Backend;
use crate::bake::solve::fit_context::{Fit, FitContext, Wanted, ties};
use crate::bake::solve::fit_texture::{FittedTexture, Taken, doubted, fit_texture};
use crate::bake::solve::subdomains::Subdomains;
use crate::worker::progress::unit;

/// A fit of normals below this PSNR was likely read in other axes than it was written in: that gives 12 dB on a ball.
const CONTRADICTION: f32 = 20.0;

/// For each channel of the fit, a layer and its channel.
type Slots = [(Layer, usize); 3];

/// Fits every layer that a fitted view has, in the subdomains of the base colour, if it has `parts`. What no view shows
/// of a layer comes of `details`, and so do further layers.
///
/// # Errors
/// Those of the source and of the adapter, or no view shows a channel.
pub(crate) fn bake(
    context: &FitContext<'_>,
    backend: &mut dyn Backend,
    intake: &Intake<'_>,
    (parts, mut details): (Option<&Subdomains>, Details),
    blend: Blend,
    source: &mut impl ViewSource,
) -> Result<(Vec<LayerFit>, Option<DetailFigures>), Failure> {
    let mut fits = Vec::new();
    let mut before = intake.sets.len() as u64;
    for set in together(&intake.sets) {
        let begun = Instant::now();
        let fitting = Fitting {
            context,
            intake,
            parts,
            set,
            space: space(set, blend),
            slots: slots(set),
        };
        let (fitted, with) = fitting.fit(backend, before, source)?;
        before += u64::from(with);
        for layer in set.iter() {
            let mut texels = texels(layer, &fitting.slots, &fitted);
            details.fill(layer, &mut texels, &fitted.fit.observed);
            source.put(&LayerTexture {
                layer,
                size: context.scene.size,
                texels,
            })?;
        }
        for fit in report(set, with, &fitted, begun.elapsed().as_secs_f64()) {
            if fit.name == Layer::Normal && fit.psnr_db < CONTRADICTION {
                context.stages.progress.warning(&format!(
                    "the views contradict each other about normals ({:.1} dB), as they do with another normal_space: \
                     \"world\" and \"camera\" are the choices",
                    fit.psnr_db
                ));
            }
            fits.push(fit);
        }
    }
    for texture in details.rest() {
        source.put(&texture)?;
    }
    fits.sort_by_key(|fit| fit.name);
    Ok((fits, details.figures))
}

/// One set of layers that is fitted at once.
struct Fitting<'a> {
    context: &'a FitContext<'a>,
    intake: &'a Intake<'a>,
    parts: Option<&'a Subdomains>,
    set: LayerSet,
    space: Space,
    slots: Slots,
}

impl Fitting<'_> {
    /// Fits the views that have the set, after `before` other views. Returns their number, too.
    fn fit(
        &self,
        backend: &mut dyn Backend,
        before: u64,
        source: &mut impl ViewSource,
    ) -> Result<(FittedTexture, u32), Failure> {
        let (context, set) = (self.context, self.set);
        let progress = context.stages.progress;
        progress.expect(
            "a texture's buffers",
            context.step + crate::worker::pace::ADAPTER,
        );
        if self.parts.is_none() {
            let (scene, taps) = (context.scene, context.plan.taps);
            let ties = ties(context.atlas, &scene.window);
            backend
                .reset(scene, &ties, taps, self.space.blend())
                .map_err(failure)?;
        }
        unit();
        let (mut with, mut apart) = (0, Vec::new());
        Intake::again(source, set, |layered, has| {
            if !set.iter().all(|layer| has.has(layer)) {
                return Ok(());
            }
            let cut = || self.cut(layered);
            match self.parts {
                Some(_) => apart.push(cut()),
                None => hand_over(context, backend, before + u64::from(with), cut)?,
            }
            with += 1;
            Ok(())
        })?;
        let taken = match self.parts {
            Some(parts) => Taken::InParts(parts, &apart),
            None => Taken::All,
        };
        let wanted = Wanted {
            space: self.space,
            maps: false,
        };
        let fitted = fit_texture(context, backend, &taken, wanted, None);
        let fitted = fitted.map_err(|failure| name(failure, set))?;
        if let Some(doubted) = doubted(&fitted.fit.fitted) {
            progress.warning(&named(&doubted, set));
        }
        Ok((fitted, with))
    }

    /// The view of these layers, with the base colour's camera and decimation. Exposures belong to colours alone.
    fn cut(&self, LayeredView { mut view, layers }: LayeredView) -> View {
        let refiner = &self.intake.refiner;
        mix(&self.slots, &layers, &mut view.pixels);
        if let Some(camera) = refiner.camera(view.index) {
            view.camera = camera;
        }
        let done = Done::Before;
        cut(
            self.context,
            Came { view, done },
            refiner.decimation(),
            None,
        )
    }
}

/// Names the channel in the failure: that nothing shows it is the user's to find.
fn name(mut failure: Failure, set: LayerSet) -> Failure {
    failure.message = named(&failure.message, set);
    failure
}

/// Number of textures beside the base colour, which are fitted one after the other.
pub(crate) fn sets(views: &[LayerSet]) -> usize {
    together(views).len()
}

fn named(message: &str, set: LayerSet) -> String {
    let names: Vec<&str> = set.iter().map(Layer::name).collect();
    format!("channel {}: {message}", names.join(", "))
}

/// Sets of layers that are fitted at once; colours first, since the adapter is set up for them.
fn together(views: &[LayerSet]) -> Vec<LayerSet> {
    let all = views
        .iter()
        .fold(LayerSet::default(), |all, &set| all.or(set));
    let same = |one, other| {
        all.has(one) && all.has(other) && views.iter().all(|set| set.has(one) == set.has(other))
    };
    let (metal, occlusion, opacity) = (Layer::MetallicRoughness, Layer::Occlusion, Layer::Opacity);
    let with_metal = [occlusion, opacity]
        .into_iter()
        .find(|&layer| same(metal, layer));
    let mut sets: Vec<LayerSet> = Vec::new();
    for layer in [Layer::Emissive, Layer::Normal, metal, occlusion, opacity] {
        if !all.has(layer) || sets.iter().any(|set| set.has(layer)) {
            continue;
        }
        let beside = match layer {
            Layer::MetallicRoughness => with_metal,
            Layer::Occlusion => {
                Some(opacity).filter(|_| with_metal != Some(opacity) && same(occlusion, opacity))
            }
            Layer::Emissive | Layer::Normal | Layer::Opacity => None,
        };
        sets.push(std::iter::once(layer).chain(beside).collect());
    }
    sets
}

fn space(set: LayerSet, blend: Blend) -> Space {
    match set.iter().all(Layer::is_colour) {
        true => Space::Colour(blend),
        false if set.has(Layer::Normal) => Space::Direction,
        false => Space::Data,
    }
}

/// The content of each channel of a set's fit. A spare channel repeats another, so that it adds no error of its own.
fn slots(set: LayerSet) -> Slots {
    let has = |layer| set.has(layer);
    let (metal, occlusion, opacity) = (Layer::MetallicRoughness, Layer::Occlusion, Layer::Opacity);
    match () {
        () if has(Layer::Normal) => [0, 1, 2].map(|channel| (Layer::Normal, channel)),
        () if has(Layer::Emissive) => [0, 1, 2].map(|channel| (Layer::Emissive, channel)),
        () if has(metal) => {
            let red = [occlusion, opacity].into_iter().find(|&layer| has(layer));
            let red = red.map_or((metal, 1), |layer| (layer, 0));
            [red, (metal, 1), (metal, 2)]
        }
        () if has(occlusion) && has(opacity) => [(occlusion, 0), (opacity, 0), (opacity, 0)],
        () if has(occlusion) => [(occlusion, 0); 3],
        () => [(opacity, 0); 3],
    }
}

/// Assembles the fit's pixels from layers' pixels; alpha is the least of them.
fn mix(slots: &Slots, layers: &[(Layer, Vec<[u8; 4]>)], pixels: &mut [[u8; 4]]) {
    let of = |layer: Layer| {
        let mut found = layers.iter().filter(|(known, _)| *known == layer);
        found.next().map_or(&[][..], |(_, pixels)| pixels)
    };
    let sources = slots.map(|(layer, channel)| (of(layer), channel));
    for (at, pixel) in pixels.iter_mut().enumerate() {
        let of_slots = sources.map(|(layer, channel)| {
            // Every layer of the set came with the view, and has as many pixels.
            let found = layer.get(at).copied().unwrap_or([0; 4]);
            [found[channel], found[3]]
        });
        let alpha = of_slots.iter().map(|[_, alpha]| *alpha).min();
        let [r, g, b] = of_slots.map(|[value, _]| value);
        *pixel = [r, g, b, alpha.unwrap_or(0)];
    }
}

/// The fitted texels of one layer, as its table stores them.
fn texels(layer: Layer, slots: &Slots, explained: &FittedTexture) -> Vec<[u8; 4]> {
    let Fit {
        texels, observed, ..
    } = &explained.fit;
    if layer == Layer::Normal {
        let pack = |(texel, &observed): (&[f32; 4], &f32)| {
            let [x, y, z, _] = texel.map(|value| value.clamp(0.0, 1.0) * 2.0 - 1.0);
            pack_normal([x, y, z], observed > 0.0)
        };
        return texels.par_iter().zip(observed).map(pack).collect();
    }
    // Bytes are in the fit's own space, light or not: colours were fitted in light.
    let place = |channel: usize| slots.iter().position(|&slot| slot == (layer, channel));
    let places = match layer {
        Layer::MetallicRoughness => [None, place(1), place(2)],
        Layer::Occlusion | Layer::Opacity => [place(0); 3],
        Layer::Emissive | Layer::Normal => [place(0), place(1), place(2)],
    };
    let blend = explained.space.blend();
    let byte = |texel: &[f32; 4]| {
        // The red channel of metallic-roughness belongs to occlusion: none.
        let [r, g, b] = places.map(|place| place.map_or(255, |at| to_byte(texel[at], blend)));
        [r, g, b, 255]
    };
    texels.par_iter().map(byte).collect()
}

fn report(
    set: LayerSet,
    views: u32,
    explained: &FittedTexture,
    seconds: f64,
) -> impl Iterator<Item = LayerFit> {
    let (psnr_db, pixels) = psnr_of(&explained.fit.fitted.residuals);
    let seam_residual = explained.seam_residual;
    set.iter().map(move |name| LayerFit {
        name,
        views,
        pixels,
        psnr_db,
        seam_residual,
        seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bake::solve::fit::{Course, Fitted};

    fn set(layers: &[Layer]) -> LayerSet {
        layers.iter().copied().collect()
    }

    #[test]
    fn numbers_of_the_same_views_are_fitted_at_once() {
        use Layer::{Emissive, MetallicRoughness, Normal, Occlusion, Opacity};
        let all = set(&Layer::ALL);
        let sets = together(&[all, all, LayerSet::default()]);
        let wanted = [
            set(&[Emissive]),
            set(&[Normal]),
            set(&[MetallicRoughness, Occlusion]),
            set(&[Opacity]),
        ];
        assert_eq!(sets, wanted);
        let of = |views: &[&[Layer]]| {
            let views: Vec<LayerSet> = views.iter().map(|layers| set(layers)).collect();
            together(&views)
        };
        assert_eq!(
            of(&[
                &[MetallicRoughness, Occlusion, Opacity],
                &[MetallicRoughness, Opacity]
            ]),
            [set(&[MetallicRoughness, Opacity]), set(&[Occlusion])]
        );
        assert_eq!(
            of(&[&[Occlusion, Opacity], &[MetallicRoughness]]),
            [set(&[MetallicRoughness]), set(&[Occlusion, Opacity])]
        );
        assert_eq!(
            of(&[&[Occlusion], &[Opacity]]),
            [set(&[Occlusion]), set(&[Opacity])]
        );
        assert_eq!(of(&[&[]]), []);
    }

    #[test]
    fn every_channel_of_every_set_goes_in_and_comes_out_again() {
        for bits in 1..1 << Layer::ALL.len() {
            let all = LayerSet::from_bits(bits).expect("layers");
            for set in together(&[all]) {
                let slots = slots(set);
                let layers: Vec<_> = set
                    .iter()
                    .map(|layer| {
                        let first = 40 * layer as u8;
                        (
                            layer,
                            vec![[first, first + 10, first + 20, 200 + layer as u8]],
                        )
                    })
                    .collect();
                let mut pixels = vec![[1; 4]];
                mix(&slots, &layers, &mut pixels);
                let least = layers.iter().map(|(_, pixels)| pixels[0][3]).min();
                assert_eq!(Some(pixels[0][3]), least);
                let [r, g, b, _] = pixels[0];
                let fit = Fit {
                    texels: vec![[r, g, b, 0].map(|byte| f32::from(byte) / 255.0)],
                    observed: vec![1.0],
                    fitted: Fitted {
                        smoothness: 0.0,
                        scale: 0.0,
                        iterations: 0,
                        residuals: Vec::new(),
                        outliers: Vec::new(),
                        course: Course::default(),
                    },
                    deviations: None,
                    rows: proto::plan::RowsHeld::default(),
                    mending: None,
                };
                let explained = FittedTexture {
                    fit,
                    seam_residual: 0.0,
                    drawn: Vec::new(),
                    space: Space::Data,
                };
                for (layer, given) in &layers {
                    let [r, g, b, _] = given[0];
                    let wanted = match layer {
                        Layer::MetallicRoughness => [255, g, b, 255],
                        Layer::Occlusion | Layer::Opacity => [r, r, r, 255],
                        Layer::Emissive => [r, g, b, 255],
                        Layer::Normal => {
                            let value = |byte: u8| f32::from(byte) / 127.5 - 1.0;
                            pack_normal([r, g, b].map(value), true)
                        }
                    };
                    assert_eq!(texels(*layer, &slots, &explained), [wanted], "{set:?}");
                }
            }
        }
    }
}
