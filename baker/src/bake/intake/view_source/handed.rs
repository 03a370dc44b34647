//! Reads the tables that the supervisor hands over: the mesh, and the views in their order.
//!
//! Threads read the next views while one is taken in. Where prepare was faster all tables are there at the start, and a
//! single thread would copy them at only a few GB/s. Views that come without pixels are drawn of splats, by these threads
//! or by one that has a GPU for it.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use proto::blob::BlobFile;
use proto::message::{Failure, StageTime, Table};
use proto::table::{LayerSet, LayerTexture, LayeredView, Mesh, View, ViewHeader};

use crate::bake::intake::view_source::{Artist, Unwrapped, ViewSource};
use crate::image::splats::Undrawn;
use crate::worker::failure::internal;
use crate::worker::progress::{each, expect, unit};
use crate::worker::session::{Handed, Session, SessionError, read_view};
use crate::worker::{last_words, pace};

/// Most threads that read.
const THREADS: usize = 8;
/// Bytes of views that are read ahead of the one that is asked for.
const AHEAD: u64 = 128 << 20;
/// Most views that an artist draws at once: the first of them waits for the last.
const TOGETHER: usize = 8;
/// Bytes that views take while they are drawn side by side, unless a single one takes more.
const DRAWING: usize = 512 << 20;

/// A view with the wanted ones of its other channels, and the set of those that it has.
type Layered = (LayeredView, LayerSet);

/// A table, the channels wanted of it, and where the result goes.
type Task = (BlobFile, LayerSet, SyncSender<Read>);
type Read = Result<Layered, Failure>;

/// Reads a view, and draws it where it has no pixels.
fn read(blob: &BlobFile, wanted: LayerSet, splats: Option<&Undrawn>) -> Read {
    let (mut layered, set) = read_view(blob, wanted).map_err(|error| internal(&error))?;
    if layered.view.pixels.is_empty() {
        Undrawn::complete(splats, &mut layered.view)?;
    }
    Ok((layered, set))
}

/// Takes the next task, once there is one; none where no further ones come.
fn next_task(tasks: &Mutex<Receiver<Task>>) -> Option<Task> {
    let tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
    tasks.recv().ok()
}

/// Reads and draws views for as long as some are asked for.
fn work(tasks: &Mutex<Receiver<Task>>, splats: Option<&Undrawn>) {
    while let Some((blob, wanted, to)) = next_task(tasks) {
        // After an error nobody waits for further ones.
        let _unheard = to.send(read(&blob, wanted, splats));
    }
}

/// The same, by an artist that draws several views at a time.
fn work_together(tasks: &Mutex<Receiver<Task>>, splats: &Undrawn, artist: &mut dyn Artist) {
    while let Some(first) = next_task(tasks) {
        let others = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let all = [first].into_iter().chain(others.try_iter());
        let all: Vec<Task> = all.take(TOGETHER).collect();
        drop(others);
        let (mut views, mut empty) = (Vec::new(), Vec::new());
        for (blob, wanted, to) in all {
            match read_view(&blob, wanted).map_err(|error| internal(&error)) {
                Ok(layered) if layered.0.view.pixels.is_empty() => empty.push((layered, to)),
                read => views.push((read, to)),
            }
        }
        let mut undrawn: Vec<&mut View> = empty
            .iter_mut()
            .map(|((layered, _), _)| &mut layered.view)
            .collect();
        let drawn = artist.draw(splats, &mut undrawn);
        let drawn = empty.into_iter().map(|(layered, to)| match &drawn {
            Ok(()) => (Ok(layered), to),
            Err(failure) => (Err(failure.clone()), to),
        });
        for (read, to) in views.into_iter().chain(drawn) {
            let _unheard = to.send(read);
        }
    }
}

/// See the head of this file.
#[derive(Debug)]
pub struct HandedViews<'a> {
    session: &'a Session,
    /// None where the system gives no thread.
    readers: Option<Sender<Task>>,
    splats: Arc<Option<Undrawn>>,
    /// Views being read, with the bytes of their tables or of the pixels that they are to have.
    ahead: VecDeque<(u64, Receiver<Read>)>,
    bytes: u64,
    /// The mesh's table, the edge of its atlas, and when it came, until it is asked for.
    mesh: Option<(BlobFile, u32, Instant)>,
    /// Whether all views were handed over.
    delivered: bool,
    ended: bool,
}

impl<'a> HandedViews<'a> {
    /// The views of this session. Those without pixels are drawn of `splats`, by the artist where there is one.
    pub(crate) fn new(
        session: &'a Session,
        splats: Option<Undrawn>,
        artist: Option<Box<dyn Artist + Send>>,
    ) -> Self {
        let (readers, tasks) = channel::<Task>();
        let tasks = Arc::new(Mutex::new(tasks));
        let bytes = splats.as_ref().map_or(0, Undrawn::drawing_bytes);
        let most = DRAWING
            .checked_div(bytes)
            .unwrap_or(THREADS)
            .clamp(1, THREADS);
        let splats = Arc::new(splats);
        let mut works: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        match artist {
            Some(mut artist) => {
                let (tasks, splats) = (Arc::clone(&tasks), Arc::clone(&splats));
                works.push(Box::new(move || match &*splats {
                    Some(splats) => work_together(&tasks, splats, &mut *artist),
                    None => work(&tasks, None),
                }));
            }
            None => works.extend((0..most.min(rayon::current_num_threads())).map(|_| {
                let (tasks, splats) = (Arc::clone(&tasks), Arc::clone(&splats));
                Box::new(move || work(&tasks, splats.as_ref().as_ref())) as Box<dyn FnOnce() + Send>
            })),
        }
        let spawn = |work: Box<dyn FnOnce() + Send>| {
            let work = move || {
                last_words::guard_thread();
                work();
            };
            thread::Builder::new().name("read".to_owned()).spawn(work)
        };
        let some = works
            .into_iter()
            .filter_map(|work| spawn(work).ok())
            .count()
            > 0;
        Self {
            session,
            readers: some.then_some(readers),
            splats,
            ahead: VecDeque::new(),
            bytes: 0,
            mesh: None,
            delivered: false,
            ended: false,
        }
    }

    /// The views that were drawn of splats, and the time that it took; none where there are no splats.
    pub(crate) fn drawn(&self) -> Option<StageTime> {
        self.splats.as_ref().as_ref().map(Undrawn::drawn)
    }

    /// Starts reading what was handed over.
    fn begin(&mut self, handed: Handed, wanted: LayerSet) {
        let blob = match handed {
            Handed::View(blob) => blob,
            Handed::Mesh { blob, texture_size } => {
                self.mesh = Some((blob, texture_size, Instant::now()));
                return;
            }
            Handed::Delivered => {
                self.delivered = true;
                return;
            }
            Handed::End => {
                self.ended = true;
                return;
            }
        };
        let header = ViewHeader::read(&mut blob.reader());
        let bytes = header
            .map_or(0, |header| header.pixel_bytes())
            .max(blob.len());
        let (to, from) = sync_channel(1);
        let refused = match &self.readers {
            Some(readers) => readers.send((blob, wanted, to)).err().map(|error| error.0),
            None => Some((blob, wanted, to)),
        };
        if let Some((blob, wanted, to)) = refused {
            let splats = self.splats.as_ref().as_ref();
            let _room_for_one = to.send(read(&blob, wanted, splats));
        }
        self.ahead.push_back((bytes, from));
        self.bytes += bytes;
    }

    fn await_next(&mut self, wanted: LayerSet) -> Result<(), Failure> {
        let handed = self.session.receive_handed();
        self.begin(handed.map_err(|error| internal(&error))?, wanted);
        Ok(())
    }

    /// Takes tables that have come, within the limit of reading ahead.
    fn take_what_came(&mut self, wanted: LayerSet) -> Result<(), Failure> {
        let failed = |error: SessionError| internal(&error);
        while !self.ended
            && self.bytes < AHEAD
            && let Some(handed) = self.session.try_receive_handed().map_err(failed)?
        {
            self.begin(handed, wanted);
        }
        Ok(())
    }

    /// The first of the views being read.
    fn first(&mut self) -> Result<Option<Layered>, Failure> {
        let Some((bytes, read)) = self.ahead.pop_front() else {
            return Ok(None);
        };
        self.bytes -= bytes;
        let read = read.recv().map_err(|error| internal(&error))?;
        read.map(Some)
    }
}

impl ViewSource for HandedViews<'_> {
    fn early(&mut self) -> Result<Option<(View, LayerSet)>, Failure> {
        let none = LayerSet::default();
        self.take_what_came(none)?;
        while self.ahead.is_empty() && self.mesh.is_none() && !self.delivered {
            self.await_next(none)?;
        }
        // Everything waits for the mesh, so it goes first.
        if self.mesh.is_some() {
            return Ok(None);
        }
        let view = self.first()?;
        Ok(view.map(|(layered, set)| (layered.view, set)))
    }

    fn all_came(&self) -> bool {
        self.delivered && self.ahead.is_empty()
    }

    fn mesh(&mut self) -> Result<Unwrapped, Failure> {
        // No later call of `next` would consume the end of the views, so it is consumed here.
        let last = self.all_came();
        while !self.ended && (last || self.mesh.is_none()) {
            self.await_next(LayerSet::default())?;
        }
        let Some((blob, texture_size, came)) = self.mesh.take() else {
            return Err(internal(&SessionError::OutOfTurn("EndOfViews")));
        };
        let bytes = usize::try_from(blob.len()).unwrap_or(usize::MAX);
        expect("reading the mesh", each(bytes, pace::TABLE_BYTE));
        let mesh = Mesh::read(&mut blob.reader()).map_err(|error| internal(&error))?;
        unit();
        Ok(Unwrapped {
            mesh,
            texture_size,
            came,
        })
    }

    fn next(&mut self, wanted: LayerSet) -> Result<Option<Layered>, Failure> {
        while self.ahead.is_empty() && !self.ended {
            self.await_next(wanted)?;
        }
        self.take_what_came(wanted)?;
        self.first()
    }

    fn again(&mut self) -> Result<(), Failure> {
        (self.delivered, self.ended) = (false, false);
        self.session.again().map_err(|error| internal(&error))
    }

    fn put(&mut self, texture: &LayerTexture) -> Result<(), Failure> {
        let bytes = LayerTexture::bytes_for(texture.size);
        let put = self
            .session
            .put(Table::Layer(texture.layer), bytes, |out| texture.write(out));
        put.map_err(|error| internal(&error))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use proto::blob::Blob;
    use proto::channel::Channel;
    use proto::message::{FromChild, ToChild};

    use super::*;
    use crate::bake::fixture::{blank_view, camera};
    use crate::image::splats::tests::{handed_on, row_of_three, undrawn};

    const VIEWS: u32 = 40;

    /// The table of a view whose size is derived from its index.
    fn table(index: u32) -> Blob {
        let size = [index % 7 + 1, index + 1];
        let camera = camera([0.0, 0.0, 3.0], 4.0, size, [0.0; 2]);
        let pixels = vec![[index as u8; 4]; (size[0] * size[1]) as usize];
        let view = blank_view(index, camera, size, pixels);
        let blob = Blob::create("view", view.byte_len()).expect("memory");
        let file = blob.as_fd().try_clone_to_owned().expect("a descriptor");
        let file = BlobFile::open(file).expect("sealed in size");
        view.write(&mut file.writer()).expect("room");
        blob
    }

    fn hand(to: &Channel, blob: &Blob, index: u32) {
        let message = ToChild::View { index };
        to.send(&message, &[blob.as_fd()]).expect("room");
    }

    #[test]
    fn views_come_in_their_order_and_once_more_where_they_are_asked_for() {
        let (ours, theirs) = Channel::pair().expect("sockets");
        let supervisor = thread::spawn(move || {
            for again in [false, true] {
                if again {
                    let asked = ours.receive::<FromChild>().expect("a packet");
                    assert_eq!(asked, FromChild::Again);
                }
                (0..VIEWS).for_each(|index| hand(&ours, &table(index), index));
                let end = ToChild::EndOfViews { count: VIEWS };
                ours.send(&end, &[]).expect("room");
            }
        });
        let session = Session::over(theirs);
        let mut views = HandedViews::new(&session, None, None);
        for pass in 0..2 {
            if pass > 0 {
                views.again().expect("the supervisor is there");
            }
            for index in 0..VIEWS {
                let next = views.next(LayerSet::default()).expect("a table");
                let view = next.expect("a view").0.view;
                assert_eq!((view.index, view.height), (index, index + 1));
                assert!(view.pixels.iter().all(|pixel| pixel[0] == index as u8));
            }
            let end = views.next(LayerSet::default()).expect("an end");
            assert!(end.is_none());
        }
        supervisor.join().expect("no panic");
    }

    /// Fills in one colour, or fails.
    struct OneColour(Option<Failure>);

    impl Artist for OneColour {
        fn draw(&mut self, _splats: &Undrawn, views: &mut [&mut View]) -> Result<(), Failure> {
            if let Some(failure) = &self.0 {
                return Err(failure.clone());
            }
            assert!(views.len() <= TOGETHER);
            for view in views {
                view.pixels = vec![[view.index as u8; 4]; (view.width * view.height) as usize];
            }
            Ok(())
        }
    }

    /// Views of splats: index, window, and whether it was drawn before.
    fn of_splats(artist: Option<OneColour>) -> Vec<Result<Option<View>, Failure>> {
        let (ours, theirs) = Channel::pair().expect("sockets");
        for index in 0..VIEWS {
            let drawn = index % 7 == 3;
            let view = View {
                pixels: if drawn { vec![[9; 4]; 16] } else { Vec::new() },
                ..undrawn(index % 2, [index % 30, 3, 8, 2])
            };
            let blob = Blob::create("view", view.byte_len()).expect("memory");
            let file = blob.as_fd().try_clone_to_owned().expect("a descriptor");
            let file = BlobFile::open(file).expect("sealed in size");
            view.write(&mut file.writer()).expect("room");
            hand(&ours, &blob, index);
        }
        let end = ToChild::EndOfViews { count: VIEWS };
        ours.send(&end, &[]).expect("room");
        let session = Session::over(theirs);
        let artist = artist.map(|artist| Box::new(artist) as Box<dyn Artist + Send>);
        let splats = Some(handed_on(&row_of_three()));
        let mut views = HandedViews::new(&session, splats, artist);
        let next = |_| {
            let next = views.next(LayerSet::default());
            next.map(|next| next.map(|(layered, _)| layered.view))
        };
        (0..=VIEWS).map(next).collect()
    }

    #[test]
    fn views_without_pixels_are_drawn_in_their_order() {
        let splats = handed_on(&row_of_three());
        let [processor, together] = [None, Some(OneColour(None))].map(of_splats);
        for index in 0..VIEWS {
            let of = |views: &[Result<Option<View>, Failure>]| {
                let view = views[index as usize].as_ref().expect("drawn");
                view.clone().expect("a view")
            };
            let mut wanted = undrawn(index % 2, [index % 30, 3, 8, 2]);
            Undrawn::complete(Some(&splats), &mut wanted).expect("a view");
            let [mut by_hand, mut at_once] = [&processor, &together].map(|views| of(views));
            if index % 7 == 3 {
                wanted.pixels = vec![[9; 4]; 16];
                assert_eq!(by_hand.pixels, at_once.pixels);
            } else {
                assert!(
                    at_once
                        .pixels
                        .iter()
                        .all(|pixel| pixel[0] == (index % 2) as u8)
                );
            }
            assert_eq!(by_hand, wanted, "{index}");
            (by_hand.pixels, at_once.pixels) = (Vec::new(), Vec::new());
            assert_eq!(by_hand, at_once, "{index}");
        }
        let ends = [processor, together].map(|mut views| views.pop());
        assert!(ends.iter().all(|end| matches!(end, Some(Ok(None)))));
    }

    #[test]
    fn an_artist_s_failure_is_that_of_its_views() {
        let failure = Failure {
            code: proto::message::Code::GpuDeviceLost,
            message: "lost".to_owned(),
            hint: String::new(),
        };
        let views = of_splats(Some(OneColour(Some(failure.clone()))));
        assert_eq!(views[0].as_ref().expect_err("nothing was drawn"), &failure);
        assert!(
            views[3].as_ref().is_ok_and(Option::is_some),
            "it has pixels"
        );
    }

    /// The table of a mesh of twelve triangles.
    fn mesh() -> Blob {
        let mesh = crate::bake::fixture::cube();
        let blob = Blob::create("mesh", mesh.byte_len()).expect("memory");
        let file = blob.as_fd().try_clone_to_owned().expect("a descriptor");
        let file = BlobFile::open(file).expect("sealed in size");
        mesh.write(&mut file.writer()).expect("room");
        blob
    }

    #[test]
    fn views_come_before_the_mesh_and_after_it_and_none_is_lost() {
        for before in [0, 3, 7] {
            let (ours, theirs) = Channel::pair().expect("sockets");
            let send = |message: &ToChild, blob: Option<&Blob>| {
                let fds: Vec<_> = blob.iter().map(|blob| blob.as_fd()).collect();
                ours.send(message, &fds).expect("room");
            };
            (0..before).for_each(|index| hand(&ours, &table(index), index));
            if before == 7 {
                send(&ToChild::Delivered { views: 7 }, None);
            }
            let session = Session::over(theirs);
            let mut views = HandedViews::new(&session, None, None);
            let mut indices = Vec::new();
            // Unless all views were delivered, only those that have come are requested: `early` would wait for others.
            let enough = if before == 7 { 8 } else { before };
            for _ in 0..enough {
                let next = views.early().expect("a table");
                indices.extend(next.map(|(view, _)| view.index));
            }
            assert!(indices.iter().copied().eq(0..before) && views.all_came() == (before == 7));
            send(&ToChild::Mesh { texture_size: 300 }, Some(&mesh()));
            (before..7).for_each(|index| hand(&ours, &table(index), index));
            if before < 7 {
                send(&ToChild::Delivered { views: 7 }, None);
                assert!(views.early().expect("the mesh").is_none());
                assert!(!views.all_came());
            }
            send(&ToChild::EndOfViews { count: 7 }, None);
            let came = views.mesh().expect("a mesh");
            assert_eq!((came.texture_size, came.mesh.triangles.len()), (300, 12));
            while let Some((layered, _)) = views.next(LayerSet::default()).expect("a table") {
                indices.push(layered.view.index);
            }
            assert!(indices.into_iter().eq(0..7), "{before} before the mesh");
        }
    }

    #[test]
    fn without_a_mesh_there_is_an_end() {
        let (ours, theirs) = Channel::pair().expect("sockets");
        ours.send(&ToChild::EndOfViews { count: 0 }, &[])
            .expect("room");
        let session = Session::over(theirs);
        assert!(HandedViews::new(&session, None, None).mesh().is_err());
    }

    #[test]
    fn a_table_that_is_none_is_told_after_those_before_it() {
        let (ours, theirs) = Channel::pair().expect("sockets");
        hand(&ours, &table(3), 3);
        hand(&ours, &Blob::create("view", 400).expect("memory"), 4);
        let session = Session::over(theirs);
        let mut views = HandedViews::new(&session, None, None);
        let first = views.next(LayerSet::default()).expect("a table");
        assert_eq!(first.expect("a view").0.view.index, 3);
        assert!(views.next(LayerSet::default()).is_err());
    }
}
