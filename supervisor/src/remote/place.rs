//! Where a sidecar is → a connection to it: its Unix socket, or loopback with a token.
//!
//! The kernel tells who listens at a Unix socket, and its folder who could have put it there: only this user's own and root's sidecar is spoken to, and those of users that
//! the caller named. There is no TLS, so there is no TCP beyond this machine.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::Uri;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use nix::unistd::Uid;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::error::RemoteError;
use crate::serve::folder::{Folder, Unsafe};

/// Lines of an answer's head.
const HEADERS: usize = 64;
/// Bytes of an answer's head, and of what is read ahead.
const BUFFER: usize = 64 << 10;

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A Unix socket.
    Unix {
        /// Where.
        path: PathBuf,
        /// Users beside this one and root whose sidecar is trusted.
        uids: Vec<u32>,
    },
    /// A port of this machine.
    Tcp {
        /// Where.
        address: SocketAddr,
        /// What opens the door.
        token: String,
    },
}

impl Place {
    /// In words.
    pub fn shown(&self) -> String {
        match self {
            Self::Unix { path, .. } => path.display().to_string(),
            Self::Tcp { address, .. } => format!("http://{address}"),
        }
    }

    /// The value of `Host`.
    pub fn host(&self) -> String {
        match self {
            Self::Unix { .. } => "localhost".to_owned(),
            Self::Tcp { address, .. } => address.to_string(),
        }
    }

    /// A connection for one request.
    ///
    /// # Errors
    /// Nobody is there, or somebody who is not trusted.
    pub async fn connect(&self) -> Result<SendRequest<Body>, RemoteError> {
        match self {
            Self::Unix { path, uids } => {
                self.check_folder(path)?;
                let stream = UnixStream::connect(path)
                    .await
                    .map_err(|error| self.unreachable(&error))?;
                let peer = stream
                    .peer_cred()
                    .map_err(|error| self.unreachable(&error))?
                    .uid();
                if peer != 0 && peer != Uid::current().as_raw() && !uids.contains(&peer) {
                    let why = format!("{} is served by user {peer}", self.shown());
                    return Err(RemoteError::Untrusted {
                        why,
                        hint: "--allow-uid trusts that user",
                    });
                }
                self.speak(stream).await
            }
            Self::Tcp { address, .. } => {
                let stream = TcpStream::connect(address)
                    .await
                    .map_err(|error| self.unreachable(&error))?;
                stream
                    .set_nodelay(true)
                    .map_err(|error| self.unreachable(&error))?;
                self.speak(stream).await
            }
        }
    }

    /// Whose folder it is says who could put another socket there.
    fn check_folder(&self, path: &Path) -> Result<(), RemoteError> {
        match Folder::open(path) {
            Ok(_) => Ok(()),
            Err(error) if Unsafe::is(&error) => Err(RemoteError::Untrusted {
                why: format!("{} is not trusted: {error}", self.shown()),
                hint: "--socket or $KILN_SOCKET names another place",
            }),
            Err(error) => Err(self.unreachable(&error)),
        }
    }

    async fn speak<T: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        &self,
        stream: T,
    ) -> Result<SendRequest<Body>, RemoteError> {
        let mut builder = Builder::new();
        builder.max_headers(HEADERS).max_buf_size(BUFFER);
        let (sender, connection) =
            builder
                .handshake(TokioIo::new(stream))
                .await
                .map_err(|error| RemoteError::Unreachable {
                    why: format!("the sidecar at {} is lost: {error}", self.shown()),
                    absent: false,
                })?;
        // It ends with the request; what goes wrong is told there, too.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }

    fn unreachable(&self, error: &io::Error) -> RemoteError {
        use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound};
        RemoteError::Unreachable {
            why: format!(
                "no sidecar answers at {}: {}",
                self.shown(),
                crate::input::reason(error)
            ),
            absent: matches!(error.kind(), NotFound | ConnectionRefused | NotADirectory),
        }
    }
}

/// `http://127.0.0.1:8017`, `http://[::1]:8017` or `http://localhost:8017`.
///
/// # Errors
/// Why it is none of them.
pub fn address(url: &str) -> Result<SocketAddr, String> {
    let uri: Uri = url.parse().map_err(|_| "is no URL".to_owned())?;
    if uri.scheme_str() != Some("http") || !matches!(uri.path(), "" | "/") || uri.query().is_some()
    {
        return Err("must be http://ADDRESS:PORT and nothing else".to_owned());
    }
    let ip = match uri.host().unwrap_or_default() {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        "[::1]" => IpAddr::V6(Ipv6Addr::LOCALHOST),
        host => host
            .parse()
            .map_err(|_| "must be an address of this machine".to_owned())?,
    };
    if !ip.is_loopback() {
        return Err("must be of this machine: a token would cross the network in clear".to_owned());
    }
    Ok(SocketAddr::new(ip, uri.port_u16().unwrap_or(80)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_of_this_machine_and_nothing_but_a_place() {
        for (url, wanted) in [
            ("http://127.0.0.1:8017", "127.0.0.1:8017"),
            ("http://127.0.0.1:8017/", "127.0.0.1:8017"),
            ("http://localhost:1", "127.0.0.1:1"),
            ("http://[::1]:2", "[::1]:2"),
        ] {
            assert_eq!(address(url).map(|at| at.to_string()).as_deref(), Ok(wanted));
        }
        for url in [
            "https://127.0.0.1:8017",
            "127.0.0.1:8017",
            "http://10.0.0.1:8017",
            "http://example.org",
            "http://127.0.0.1:8017/v1",
            "http://127.0.0.1:8017/?a",
            "",
        ] {
            address(url).expect_err(url);
        }
    }
}
