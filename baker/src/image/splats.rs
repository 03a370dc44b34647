//! Splats that prepare handed over → the pixels of the views that it left undrawn, on the processor.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kiln_splat::{Cloud, Filter, draw};
use proto::blob::BlobFile;
use proto::message::{Failure, StageTime};
use proto::table::{Camera, Manner, SplatScene, TableError, View};

use super::render::srgb;
use crate::worker::failure::internal;
use crate::worker::pace;
use crate::worker::progress::{Ticker, each, expect, unit};

/// Predicted duration of what a view takes however few splats there are.
pub(crate) const VIEW: Duration = Duration::from_secs(2);

/// Has the work of the drawing counted as this process's own.
pub(crate) fn announce() {
    kiln_splat::install(|count| Ticker::default().did(count));
}

/// Splats, and the cameras that look at them.
#[derive(Debug)]
pub(crate) struct Undrawn {
    pub(crate) cloud: Cloud,
    pub(crate) filter: Filter,
    /// Colours are linear light, and sRGB is made of them in the end.
    pub(crate) linear: bool,
    size: [u32; 2],
    cameras: Vec<Camera>,
    drawn: Mutex<Drawn>,
}

/// Views that were drawn, and the time in which at least one thread drew.
#[derive(Debug, Default)]
struct Drawn {
    views: usize,
    time: Duration,
    threads: usize,
    /// When the first of the threads at work began.
    since: Option<Instant>,
}

impl Undrawn {
    /// Reads the table of the first descriptor, where there is one.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub(crate) fn read_first(fds: Vec<OwnedFd>) -> Result<Option<Self>, Failure> {
        let Some(fd) = fds.into_iter().next() else {
            return Ok(None);
        };
        let blob = BlobFile::open(fd).map_err(|error| internal(&error))?;
        let read = Self::read(&blob).map_err(|error| internal(&error))?;
        Ok(Some(read))
    }

    fn read(blob: &BlobFile) -> Result<Self, TableError> {
        announce();
        expect(
            "reading splats",
            each(blob.len() as usize, pace::TABLE_BYTE),
        );
        let scene = SplatScene::read(&mut blob.reader())?;
        unit();
        let Manner {
            variance,
            keeps_sum,
            linear,
        } = scene.manner;
        Ok(Self {
            cloud: Cloud {
                positions: scene.positions,
                scales: scene.scales,
                rotations: scene.rotations,
                opacities: scene.opacities,
                constants: scene.constants,
                harmonics: scene.harmonics,
                degree: scene.degree as usize,
            },
            filter: match keeps_sum {
                true => Filter::Mip(variance),
                false => Filter::Classic(variance),
            },
            linear,
            size: scene.size,
            cameras: scene.cameras,
            drawn: Mutex::default(),
        })
    }

    /// What a view shows, whole, and the window of that picture which the view is: left, top, width and height in pixels.
    ///
    /// # Errors
    /// There is no such view.
    pub(crate) fn shot(&self, view: &View) -> Result<(kiln_splat::View, [u32; 4]), TableError> {
        let camera = self.cameras.get(view.index as usize);
        let camera = camera.ok_or(TableError::Bound {
            what: "index of a view of splats",
            value: u64::from(view.index),
        })?;
        let [width, height] = self.size;
        let [left, top] = view.crop;
        let inside =
            |from: u32, edge: u32, whole| from.checked_add(edge).is_some_and(|end| end <= whole);
        if !inside(left, view.width, width) || !inside(top, view.height, height) {
            return Err(TableError::Bound {
                what: "window of a view of splats",
                value: u64::from(view.index),
            });
        }
        let whole = kiln_splat::View {
            rotation: camera.rotation.map(|row| row.map(|x| x as f32)),
            translation: camera.translation.map(|x| x as f32),
            focal: camera.focal.map(|x| x as f32),
            centre: camera.centre.map(|x| x as f32),
            size: self.size,
        };
        Ok((whole, [left, top, view.width, view.height]))
    }

    /// Draws a view that has no pixels.
    ///
    /// # Errors
    /// There are no splats, or no such view of them.
    pub(crate) fn complete(splats: Option<&Self>, view: &mut View) -> Result<(), Failure> {
        let missing = TableError::Bound {
            what: "number of pixels of a view without splats",
            value: 0,
        };
        let drawn = splats.ok_or(missing).and_then(|splats| splats.draw(view));
        drawn.map_err(|error| internal(&error))
    }

    fn draw(&self, view: &mut View) -> Result<(), TableError> {
        let (whole, [left, top, wide, high]) = self.shot(view)?;
        expect(
            "a view of the splats",
            each(self.cloud.len(), pace::SPLAT) + VIEW,
        );
        let drawn = self.timed(1, || {
            draw(&self.cloud, &whole, self.filter, self.cloud.degree)
        });
        unit();
        let rows = (top..top + high).map(|row| (row * whole.size[0] + left) as usize);
        view.pixels.clear();
        for row in rows {
            let row = row..row + wide as usize;
            let colours = drawn.colour[row.clone()].iter().zip(&drawn.alpha[row]);
            let pixels = colours.map(|(&colour, &alpha)| pixel(colour, alpha, self.linear));
            view.pixels.extend(pixels);
        }
        Ok(())
    }

    /// Notes how long `draw` takes for so many views.
    pub(crate) fn timed<T>(&self, views: usize, draw: impl FnOnce() -> T) -> T {
        let note = || self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut drawn = note();
        drawn.threads += 1;
        drawn.since.get_or_insert_with(Instant::now);
        drop(drawn);
        let made = draw();
        let mut drawn = note();
        drawn.views += views;
        drawn.threads -= 1;
        if drawn.threads == 0 {
            let since = drawn.since.take();
            drawn.time += since.map_or(Duration::ZERO, |since| since.elapsed());
        }
        made
    }

    /// The views that were drawn so far, and the time that it took.
    pub(crate) fn drawn(&self) -> StageTime {
        let drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        StageTime {
            stage: "views of splats".to_owned(),
            ms: drawn.time.as_secs_f64() * 1e3,
            count: drawn.views as u32,
        }
    }

    /// Bytes that drawing a view takes, about.
    pub(crate) fn drawing_bytes(&self) -> usize {
        drawing_bytes(self.cloud.len(), self.size)
    }
}

/// Bytes that drawing a view takes, an upper bound for splats that are small.
pub(crate) fn drawing_bytes(splats: usize, [width, height]: [u32; 2]) -> usize {
    // An ellipse and its entries; colour, alpha, depths, and the picture.
    splats * 128 + width as usize * height as usize * (12 + 4 * 3 + 4)
}

/// The pixel of a colour that is multiplied by alpha; of linear light, its sRGB.
pub(crate) fn pixel(colour: [f32; 3], alpha: f32, linear: bool) -> [u8; 4] {
    let shown = |x: f32| match linear {
        true => srgb::encode(x / alpha.max(1e-6)),
        false => x / alpha.max(1e-6),
    };
    let [r, g, b] = colour.map(|x| byte(shown(x)));
    [r, g, b, byte(alpha)]
}

fn byte(share: f32) -> u8 {
    (share * 255.0).round().clamp(0.0, 255.0) as u8
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Round splats of three colours in a row, and two cameras of 40 × 24 pixels that look at them.
    pub(crate) fn row_of_three() -> SplatScene {
        let camera = |x: f64| Camera {
            rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            translation: [x, 0.0, 4.0],
            focal: [40.0; 2],
            centre: [20.0, 12.0],
        };
        SplatScene {
            positions: vec![[-1.0, 0.0, 0.0], [0.0, 0.2, 0.0], [1.0, -0.2, 0.0]],
            scales: vec![[0.3; 3]; 3],
            rotations: vec![[1.0, 0.0, 0.0, 0.0]; 3],
            opacities: vec![0.9; 3],
            constants: vec![[1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]],
            harmonics: Vec::new(),
            degree: 0,
            manner: Manner {
                variance: 0.3,
                ..Manner::default()
            },
            size: [40, 24],
            cameras: vec![camera(0.0), camera(0.5)],
        }
    }

    /// The splats of a scene, as they come out of shared memory.
    pub(crate) fn handed_on(scene: &SplatScene) -> Undrawn {
        let blob = proto::blob::Blob::create("splats", scene.byte_len()).expect("memory");
        let fd = || {
            std::os::fd::AsFd::as_fd(&blob)
                .try_clone_to_owned()
                .expect("a descriptor")
        };
        let file = BlobFile::open(fd()).expect("sealed in size");
        scene.write(&mut file.writer()).expect("room");
        let read = Undrawn::read_first(vec![fd()]).expect("right");
        read.expect("splats")
    }

    /// A window of a view without pixels.
    pub(crate) fn undrawn(index: u32, [left, top, width, height]: [u32; 4]) -> View {
        View {
            index,
            width,
            height,
            crop: [left, top],
            has_alpha: true,
            camera: row_of_three().cameras[0],
            ..View::default()
        }
    }

    #[test]
    fn a_window_is_a_part_of_the_whole() {
        let splats = handed_on(&row_of_three());
        for index in [0, 1] {
            let (mut whole, mut part) = (
                undrawn(index, [0, 0, 40, 24]),
                undrawn(index, [7, 5, 20, 11]),
            );
            Undrawn::complete(Some(&splats), &mut whole).expect("a view");
            Undrawn::complete(Some(&splats), &mut part).expect("a view");
            assert_eq!((whole.pixels.len(), part.pixels.len()), (40 * 24, 20 * 11));
            for (at, pixel) in part.pixels.iter().enumerate() {
                let (x, y) = (7 + at % 20, 5 + at / 20);
                assert_eq!(*pixel, whole.pixels[y * 40 + x], "{x} {y}");
            }
            // Red is left of green, and green of blue; the second camera stands to the left of the first.
            let middle = |colour: usize| {
                let seen = whole.pixels.iter().enumerate();
                let seen = seen.filter(|(_, p)| p[3] > 128 && (0..3).all(|k| p[k] <= p[colour]));
                let columns: Vec<usize> = seen.map(|(at, _)| at % 40).collect();
                columns.iter().sum::<usize>() as f64 / columns.len() as f64
            };
            let shift = 5.0 * f64::from(index);
            for (colour, column) in [9.5, 19.5, 29.5].into_iter().enumerate() {
                let found = middle(colour);
                assert!((found - column - shift).abs() < 1.5, "{colour} at {found}");
            }
        }
        assert_eq!(splats.drawn().count, 4);
    }

    #[test]
    fn what_is_no_view_of_them_is_refused() {
        let splats = handed_on(&row_of_three());
        for (index, window) in [
            (2, [0, 0, 40, 24]),
            (0, [1, 0, 40, 24]),
            (0, [0, 20, 40, 5]),
            (0, [u32::MAX, 0, 2, 2]),
        ] {
            let mut view = undrawn(index, window);
            assert!(
                Undrawn::complete(Some(&splats), &mut view).is_err(),
                "{index} {window:?}"
            );
        }
        assert!(Undrawn::complete(None, &mut undrawn(0, [0, 0, 1, 1])).is_err());
    }
}
