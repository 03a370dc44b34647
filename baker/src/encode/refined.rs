//! Refined cameras and exposures of the fit → views as the fit ended with them, for drawing and measuring.

use proto::blob::BlobFile;
use proto::message::{Code, Failure};
use proto::table::{Refined, View};

use crate::worker::failure::internal;

/// The cameras and exposures of the fit; none where it took all as given.
#[derive(Debug, Default)]
pub(super) struct AsFitted(Option<Refined>);

/// How a view was taken, apart from its camera.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken {
    /// Its camera was moved by the refinement.
    pub moved: bool,
    /// Its exposure by channel, in linear light: it shows the texture times this.
    pub gain: [f32; 3],
}

impl Taken {
    /// As given.
    pub const AS_GIVEN: Self = Self {
        moved: false,
        gain: [1.0; 3],
    };
}

impl AsFitted {
    /// Reads bake's table.
    ///
    /// # Errors
    /// It is broken, or its size is not what it states.
    pub(super) fn read(blob: &BlobFile) -> Result<Self, Failure> {
        let refined = Refined::read(&mut blob.reader()).map_err(|error| internal(&error))?;
        if refined.byte_len() != blob.len() {
            let views = refined.views.len();
            return Err(contradiction(format!(
                "the cameras of {views} views take {} bytes",
                blob.len()
            )));
        }
        Ok(Self(Some(refined)))
    }

    /// Gives a view the camera that the fit ended with, and returns how it was taken.
    ///
    /// # Errors
    /// The fit had no such view.
    pub(super) fn apply(&self, view: &mut View) -> Result<Taken, Failure> {
        let Some(refined) = self.0.as_ref().filter(|_| !view.holdout) else {
            return Ok(Taken::AS_GIVEN);
        };
        let Some(of_view) = refined.view(view.index) else {
            let index = view.index;
            return Err(contradiction(format!(
                "the fit left no camera of view {index}"
            )));
        };
        let given = std::mem::replace(&mut view.camera, of_view.camera);
        Ok(Taken {
            moved: given != of_view.camera,
            gain: of_view.gain,
        })
    }
}

fn contradiction(message: String) -> Failure {
    Failure {
        code: Code::Internal,
        message,
        hint: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use proto::job::Blend;
    use proto::message::ViewScore;
    use proto::table::{Camera, RefinedView};

    use super::*;
    use crate::image::measure::compare;
    use crate::image::measure::tests::scene;

    /// The view of the scene with a camera off by two pixels and darker by a fifth, and the refinement that undoes
    /// both.
    fn off() -> (View, AsFitted) {
        let (.., mut view) = scene();
        view.holdout = false;
        let truth = RefinedView {
            index: view.index,
            gain: [0.8; 3],
            camera: view.camera,
        };
        view.camera.translation[0] += 2.0;
        for channel in view.pixels.iter_mut().flat_map(|pixel| &mut pixel[..3]) {
            use crate::image::render::srgb::{decode, encode};
            let light = 0.8 * decode(f32::from(*channel) / 255.0);
            *channel = (encode(light) * 255.0).round() as u8;
        }
        let views = vec![RefinedView { index: 2, ..truth }, truth];
        (view, AsFitted(Some(Refined { views })))
    }

    fn score(view: &View, gain: [f32; 3]) -> ViewScore {
        let (mesh, texture, _) = scene();
        let paint = (&texture).into();
        compare(&mesh, paint, view, (Blend::Linear, gain), None, |_| {})
    }

    #[test]
    fn a_view_of_the_fit_is_taken_as_the_fit_ended_with_it() {
        let (mut view, as_fitted) = off();
        let given = score(&view, [1.0; 3]).psnr_db;
        let taken = as_fitted.apply(&mut view).expect("it is there");
        assert_eq!((taken.moved, taken.gain), (true, [0.8; 3]));
        let fitted = score(&view, taken.gain).psnr_db;
        // 58.9 dB with one rounding; here there are two.
        assert!(given < 30.0 && fitted > 55.0, "{given} dB, {fitted} dB");
    }

    #[test]
    fn a_view_to_measure_with_keeps_its_camera_and_so_does_any_where_nothing_was_moved() {
        let (view, as_fitted) = off();
        for (holdout, as_fitted) in [(true, as_fitted), (false, AsFitted::default())] {
            let mut taken = View {
                holdout,
                ..view.clone()
            };
            let camera: Camera = taken.camera;
            assert_eq!(as_fitted.apply(&mut taken), Ok(Taken::AS_GIVEN));
            assert_eq!(taken.camera, camera);
        }
    }

    #[test]
    fn a_view_that_the_fit_does_not_know_is_refused() {
        let (mut view, as_fitted) = off();
        view.index = 3;
        let failure = as_fitted.apply(&mut view).expect_err("of another view");
        assert_eq!(failure.message, "the fit left no camera of view 3");
    }
}
