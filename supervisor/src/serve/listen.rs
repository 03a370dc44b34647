//! Opens the sockets, and accepts connections with the identity of their peers.
//!
//! The Unix socket has mode 0600, in a folder that was checked ([`super::folder`]); the kernel identifies its peers.
//! TCP is opened only on request, on loopback alone unless a proxy faces the network. Sockets from systemd are used as they
//! are.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use futures_util::future::select_all;
use listenfd::ListenFd;
use nix::unistd::Uid;
use proto::message::Code;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::folder::{Folder, Made};
use crate::error::JobError;

/// The peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of this user id.
    Unix(u32),
    /// Somebody on this machine, at this address, who has not shown the token yet.
    Tcp(IpAddr),
}

impl Peer {
    /// Whether this is the sidecar's own user or root, by the Unix socket: they may use all jobs.
    pub fn rules(&self) -> bool {
        matches!(self, Self::Unix(uid) if *uid == 0 || *uid == Uid::current().as_raw())
    }

    /// Whether the peer may see a job of this client.
    pub fn sees(&self, client: &str) -> bool {
        self.rules() || self.client() == client
    }

    /// The name under which the peer's jobs are counted and owned.
    pub fn client(&self) -> String {
        match self {
            Self::Unix(uid) => format!("uid:{uid}"),
            Self::Tcp(_) => "tcp".to_owned(),
        }
    }
}

/// An accepted connection.
#[derive(Debug)]
pub enum Stream {
    /// Over the Unix socket.
    Unix(UnixStream),
    /// By TCP.
    Tcp(TcpStream),
}

/// The listening sockets.
#[derive(Debug, Default)]
pub struct Sockets {
    unix: Vec<UnixListener>,
    tcp: Vec<TcpListener>,
    /// Our socket's file, to be removed at the end if it is still the same.
    made: Option<(PathBuf, Folder, Made)>,
}

impl Sockets {
    /// Takes systemd's sockets, or else creates the socket at `path`. Also listens at `tcp`, if given; beyond this machine
    /// only for a proxy (`behind_proxy`).
    ///
    /// # Errors
    /// Another sidecar is running, or the system refuses.
    pub fn open(
        path: &Path,
        tcp: Option<SocketAddr>,
        behind_proxy: bool,
    ) -> Result<Self, Box<JobError>> {
        let mut sockets = Self::default();
        sockets
            .inherit(behind_proxy)
            .map_err(|error| refused("a socket of systemd", &error, "its unit says where"))?;
        if sockets.unix.is_empty() && sockets.tcp.is_empty() {
            sockets.make(path)?;
        }
        if let Some(address) = tcp {
            if !behind_proxy && !address.ip().is_loopback() {
                let message = format!("--tcp {address} is not of this machine alone");
                let hint = "use 127.0.0.1 or [::1]; or let a proxy with TLS face the network, and name it with --public-url";
                return Err(JobError::own(Code::InvalidSpec, message, hint));
            }
            let listener = std::net::TcpListener::bind(address)
                .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
                .and_then(TcpListener::from_std)
                .map_err(|error| {
                    let hint =
                        "--tcp names another port; with port 0 the system chooses a free one";
                    refused(&address.to_string(), &error, hint)
                })?;
            sockets.tcp.push(listener);
        }
        Ok(sockets)
    }

    fn inherit(&mut self, behind_proxy: bool) -> io::Result<()> {
        let mut inherited = ListenFd::from_env();
        for index in 0..inherited.len() {
            if let Ok(Some(listener)) = inherited.take_unix_listener(index) {
                listener.set_nonblocking(true)?;
                self.unix.push(UnixListener::from_std(listener)?);
            } else if let Some(listener) = inherited.take_tcp_listener(index)? {
                if !behind_proxy && !listener.local_addr()?.ip().is_loopback() {
                    return Err(io::Error::other("it is not of this machine alone"));
                }
                listener.set_nonblocking(true)?;
                self.tcp.push(TcpListener::from_std(listener)?);
            }
        }
        Ok(())
    }

    fn make(&mut self, path: &Path) -> Result<(), Box<JobError>> {
        let failed = |error: &io::Error| {
            let hint = "--socket names another place";
            refused(&path.display().to_string(), error, hint)
        };
        let folder = Folder::make(path).map_err(|error| failed(&error))?;
        let Some((listener, made)) = folder.listen().map_err(|error| failed(&error))? else {
            let message = format!("{}: another sidecar is at work there", path.display());
            let hint = "use it, stop it, or choose another place with --socket";
            return Err(JobError::own(Code::OutputError, message, hint));
        };
        self.made = Some((path.to_path_buf(), folder, made));
        let listener = listener
            .set_nonblocking(true)
            .and_then(|()| UnixListener::from_std(listener));
        self.unix.push(listener.map_err(|error| failed(&error))?);
        Ok(())
    }

    /// The addresses, for messages.
    pub fn places(&self) -> Vec<String> {
        let made = (self.made.iter()).map(|(path, _, _)| format!("unix:{}", path.display()));
        let given = self.unix.iter().filter(|_| self.made.is_none());
        let unix = made.chain(given.filter_map(|listener| {
            let address = listener.local_addr().ok()?;
            Some(format!("unix:{}", address.as_pathname()?.display()))
        }));
        let tcp = (self.tcp.iter())
            .filter_map(|listener| Some(format!("http://{}", listener.local_addr().ok()?)));
        unix.chain(tcp).collect()
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    /// The system is short of a resource; the next call may succeed.
    pub async fn accept(&self) -> io::Result<(Stream, Peer)> {
        // Polls Unix sockets first, so that TCP connections never delay the owner.
        let unix = any(&self.unix, async |listener: &UnixListener| {
            let (stream, _) = listener.accept().await?;
            let uid = stream.peer_cred()?.uid();
            Ok((Stream::Unix(stream), Peer::Unix(uid)))
        });
        let tcp = any(&self.tcp, async |listener: &TcpListener| {
            let (stream, address) = listener.accept().await?;
            // Fails if the peer has left already; reading will report that.
            drop(stream.set_nodelay(true));
            Ok((Stream::Tcp(stream), Peer::Tcp(address.ip())))
        });
        tokio::select! {
            biased;
            accepted = unix => accepted,
            accepted = tcp => accepted,
        }
    }
}

/// Accepts from whichever listener is ready first. Cancelling loses no connection, since accepting is one step.
async fn any<L>(
    listeners: &[L],
    accept: impl AsyncFn(&L) -> io::Result<(Stream, Peer)>,
) -> io::Result<(Stream, Peer)> {
    match listeners {
        // Of none, nothing can be selected.
        [] => std::future::pending().await,
        some => {
            select_all(some.iter().map(|one| Box::pin(accept(one))))
                .await
                .0
        }
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        if let Some((_, folder, made)) = &self.made
            && let Err(error) = folder.remove(*made)
        {
            tracing::debug!(%error, "the socket stays");
        }
    }
}

fn refused(place: &str, error: &io::Error, hint: &str) -> Box<JobError> {
    let message = format!("cannot listen at {place}: {}", crate::input::reason(error));
    JobError::own(Code::OutputError, message, hint)
}

/// `$XDG_RUNTIME_DIR/kiln/kiln.sock`, or a folder of this user under `/tmp`.
pub fn default_socket() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    runtime
        .filter(|folder| folder.is_absolute())
        .map_or_else(
            || PathBuf::from(format!("/tmp/kiln-{}", Uid::current())),
            |folder| folder.join("kiln"),
        )
        .join("kiln.sock")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn the_socket_is_its_owners_alone_and_goes_with_the_sidecar() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run/kiln.sock");
        let sockets = Sockets::open(&path, None, false).expect("room");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(
            (mode(&path), mode(path.parent().expect("a folder"))),
            (0o600, 0o700)
        );
        let second = Sockets::open(&path, None, false).expect_err("it is taken");
        assert!(
            second.message.contains("another sidecar"),
            "{}",
            second.message
        );
        let client = UnixStream::connect(&path).await.expect("it listens");
        let (_stream, peer) = sockets.accept().await.expect("a connection");
        assert_eq!(peer, Peer::Unix(Uid::current().as_raw()));
        drop((client, sockets));
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn each_socket_that_systemd_passes_is_heard() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |number: u32| folder.path().join(format!("{number}.sock"));
        let listen = |number| UnixListener::bind(path(number)).expect("room");
        let mut sockets = Sockets::default();
        sockets.unix.extend((0..4).map(listen));
        for number in 0..4 {
            let (client, accepted) =
                tokio::join!(UnixStream::connect(path(number)), sockets.accept());
            client.expect("it listens");
            accepted.expect("a connection");
        }
    }

    #[tokio::test]
    async fn a_socket_that_nobody_listens_at_is_replaced_and_a_file_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kiln.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("room"));
        assert!(path.exists());
        drop(Sockets::open(&path, None, false).expect("the dead one is removed"));
        fs::write(&path, "precious").expect("room");
        Sockets::open(&path, None, false).expect_err("a file");
        assert_eq!(fs::read_to_string(&path).expect("still there"), "precious");
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_told_with_the_flag_that_names_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = taken.local_addr().expect("bound");
        let path = folder.path().join("kiln.sock");
        let error = Sockets::open(&path, Some(address), false).expect_err("it is taken");
        assert!(
            error.message.contains(&address.to_string()),
            "{}",
            error.message
        );
        assert!(error.hint.contains("--tcp"), "{}", error.hint);
        assert!(!error.hint.contains("--socket"), "{}", error.hint);
    }

    #[tokio::test]
    async fn nobody_outside_the_machine_can_connect() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kiln.sock");
        let world = "0.0.0.0:0".parse().expect("an address");
        let error = Sockets::open(&path, Some(world), false).expect_err("not the world");
        assert_eq!(error.code, Code::InvalidSpec);
        drop(Sockets::open(&path, Some(world), true).expect("a proxy's network"));
    }
}
