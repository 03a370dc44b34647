//! Reads the tables that the supervisor hands over: the mesh, and the views in their order.
//!
//! Threads read the next views while one is taken in. Where prepare was faster all tables are there at the start, and a
//! single thread would copy them at only a few GB/s.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use proto::blob::BlobFile;
use proto::message::{Failure, Table};
use proto::table::{LayerSet, LayerTexture, LayeredView, Mesh, View};

use crate::bake::intake::view_source::{Unwrapped, ViewSource};
use crate::worker::failure::internal;
use crate::worker::progress::{each, expect, unit};
use crate::worker::session::{Handed, Session, SessionError, read_view};
use crate::worker::{last_words, pace};

/// Most threads that read.
const THREADS: usize = 8;
/// Bytes of tables that are read ahead of the one that is asked for.
const AHEAD: u64 = 128 << 20;

/// A view with the wanted ones of its other channels, and the set of those that it has.
type Layered = (LayeredView, LayerSet);

/// A table, the channels wanted of it, and where the result goes.
type Task = (BlobFile, LayerSet, SyncSender<Read>);
type Read = Result<Layered, SessionError>;

/// See the head of this file.
#[derive(Debug)]
pub struct HandedViews<'a> {
    session: &'a Session,
    /// None where the system gives no thread.
    readers: Option<Sender<Task>>,
    /// Views being read, with the bytes of their tables.
    ahead: VecDeque<(u64, Receiver<Read>)>,
    bytes: u64,
    /// The mesh's table, the edge of its atlas, and when it came, until it is asked for.
    mesh: Option<(BlobFile, u32, Instant)>,
    /// Whether all views were handed over.
    delivered: bool,
    ended: bool,
}

impl<'a> HandedViews<'a> {
    /// The views of this session.
    #[must_use]
    pub fn new(session: &'a Session) -> Self {
        let (readers, tasks) = channel::<Task>();
        let tasks = Arc::new(Mutex::new(tasks));
        let reader = || {
            let tasks = Arc::clone(&tasks);
            move || {
                last_words::guard_thread();
                loop {
                    let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((blob, wanted, to)) = task else { return };
                    // After an error nobody waits for further ones.
                    let _unheard = to.send(read_view(&blob, wanted));
                }
            }
        };
        let threads = THREADS.min(rayon::current_num_threads());
        let spawn = |_| {
            thread::Builder::new()
                .name("read".to_owned())
                .spawn(reader())
        };
        let some = (0..threads).filter_map(|nth| spawn(nth).ok()).count() > 0;
        Self {
            session,
            readers: some.then_some(readers),
            ahead: VecDeque::new(),
            bytes: 0,
            mesh: None,
            delivered: false,
            ended: false,
        }
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
        let bytes = blob.len();
        let (to, read) = sync_channel(1);
        let refused = match &self.readers {
            Some(readers) => readers.send((blob, wanted, to)).err().map(|error| error.0),
            None => Some((blob, wanted, to)),
        };
        if let Some((blob, wanted, to)) = refused {
            let _room_for_one = to.send(read_view(&blob, wanted));
        }
        self.ahead.push_back((bytes, read));
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
        read.map(Some).map_err(|error| internal(&error))
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
        let mut views = HandedViews::new(&session);
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
            let mut views = HandedViews::new(&session);
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
        assert!(HandedViews::new(&session).mesh().is_err());
    }

    #[test]
    fn a_table_that_is_none_is_told_after_those_before_it() {
        let (ours, theirs) = Channel::pair().expect("sockets");
        hand(&ours, &table(3), 3);
        hand(&ours, &Blob::create("view", 400).expect("memory"), 4);
        let session = Session::over(theirs);
        let mut views = HandedViews::new(&session);
        let first = views.next(LayerSet::default()).expect("a table");
        assert_eq!(first.expect("a view").0.view.index, 3);
        assert!(views.next(LayerSet::default()).is_err());
    }
}
