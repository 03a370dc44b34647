//! A way to a server that can be closed: connections are refused, or nothing passes any more and nobody is told.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What a gate does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// All passes.
    Open,
    /// Connections are cut, and new ones are closed at once: the server is gone.
    Shut,
    /// Connections stay, and nothing passes: the network is gone.
    Silent,
}

#[derive(Debug)]
struct State {
    passage: Passage,
    /// Both ends of all connections.
    ends: Vec<TcpStream>,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Where it listens.
    pub port: u16,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Gate {
    /// An open gate before this port.
    pub fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let gate = Self {
            port: listener.local_addr().expect("an address").port(),
            state: Arc::new((
                Mutex::new(State {
                    passage: Passage::Open,
                    ends: Vec::new(),
                }),
                Condvar::new(),
            )),
        };
        let of_thread = gate.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A server that is not there closes this connection alone.
                drop(of_thread.pass(client, to));
            }
        });
        gate
    }

    /// Opens or closes it.
    pub fn set(&self, passage: Passage) {
        let mut state = self.lock();
        state.passage = passage;
        if passage == Passage::Shut {
            for end in state.ends.drain(..) {
                drop(end.shutdown(Shutdown::Both));
            }
        }
        self.state.1.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, client: TcpStream, to: u16) -> io::Result<()> {
        let mut state = self.lock();
        if state.passage == Passage::Shut {
            return Ok(());
        }
        let server = TcpStream::connect(("127.0.0.1", to))?;
        state.ends.push(client.try_clone()?);
        state.ends.push(server.try_clone()?);
        drop(state);
        for (from, into) in [(client.try_clone()?, server.try_clone()?), (server, client)] {
            let gate = self.clone();
            std::thread::spawn(move || {
                drop(gate.copy(&from, &into));
                drop(into.shutdown(Shutdown::Write));
            });
        }
        Ok(())
    }

    fn copy(&self, mut from: &TcpStream, mut into: &TcpStream) -> io::Result<()> {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let count = from.read(&mut bytes)?;
            if count == 0 {
                return Ok(());
            }
            let silent = |state: &mut State| state.passage == Passage::Silent;
            let waited = self.state.1.wait_while(self.lock(), silent);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            into.write_all(&bytes[..count])?;
        }
    }
}
