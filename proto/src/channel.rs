//! One end of a SEQPACKET socket pair. A packet is a whole message with its descriptors.
//!
//! The supervisor sends descriptors and receives none. Its `receive` has no control buffer, so the kernel drops
//! whatever a child attaches, and the call fails with [`ChannelError::UnexpectedFds`].

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::{MAX_PACKET_BYTES, MAX_PACKET_FDS};
use crate::wire::{self, WireError};

/// The most descriptors that the kernel passes in one packet (`SCM_MAX_FD`). The buffer has room for all of them. With
/// a shorter buffer, the descriptors that did fit could not be taken, and so not closed.
const KERNEL_PACKET_FDS: usize = 253;

/// Why a packet did not pass.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other end is closed.
    #[error("the other process closed its end")]
    Closed,
    /// Nothing to read, or no room to write, on a non-blocking call.
    #[error("the call would block")]
    WouldBlock,
    /// Longer than a packet may be.
    #[error("packet is longer than {MAX_PACKET_BYTES} bytes")]
    Truncated,
    /// Descriptors where none are allowed, or too many.
    #[error("packet carries file descriptors that do not belong there")]
    UnexpectedFds,
    /// The bytes are not a message.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The kernel refused.
    #[error("socket")]
    Os(#[source] io::Error),
}

impl From<Errno> for ChannelError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::EAGAIN => Self::WouldBlock,
            Errno::EPIPE | Errno::ECONNRESET => Self::Closed,
            other => Self::Os(other.into()),
        }
    }
}

/// One end.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
}

impl Channel {
    /// Creates two connected ends, closed on exec and blocking. See [`Channel::set_nonblocking`] for the supervisor's
    /// end.
    ///
    /// # Errors
    /// [`ChannelError::Os`] without descriptors.
    pub fn pair() -> Result<(Self, Self), ChannelError> {
        let (ours, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )?;
        Ok((Self { socket: ours }, Self { socket: theirs }))
    }

    /// Takes an inherited descriptor, a child's fd 0. If it is not a socket, the first send fails.
    pub fn from_fd(socket: OwnedFd) -> Self {
        Self { socket }
    }

    /// Gives the descriptor away, for a child's standard input.
    pub fn into_fd(self) -> OwnedFd {
        self.socket
    }

    /// From here on send and receive return [`ChannelError::WouldBlock`] instead of waiting.
    ///
    /// # Errors
    /// [`ChannelError::Os`].
    pub fn set_nonblocking(&self) -> Result<(), ChannelError> {
        use nix::fcntl::{FcntlArg, OFlag, fcntl};
        fcntl(&self.socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(())
    }

    /// Sends one message with its descriptors; the caller keeps its own copies.
    ///
    /// # Errors
    /// [`ChannelError::Closed`], [`ChannelError::WouldBlock`], or a message that does not fit.
    pub fn send<T: Serialize>(
        &self,
        message: &T,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let packet = wire::encode(message)?;
        let raw: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&raw)];
        let control: &[ControlMessage<'_>] = if raw.is_empty() { &[] } else { &rights };
        // A SEQPACKET send is whole or fails, so the count needs no check.
        sendmsg::<()>(
            self.socket.as_raw_fd(),
            &[IoSlice::new(&packet)],
            control,
            MsgFlags::MSG_NOSIGNAL,
            None,
        )?;
        Ok(())
    }

    /// Receives one message and its descriptors (at most [`MAX_PACKET_FDS`]). For the child.
    ///
    /// # Errors
    /// [`ChannelError::Closed`] at the end, otherwise what is wrong with the packet. Descriptors of a bad packet are
    /// closed.
    pub fn receive_with_fds<T: DeserializeOwned>(&self) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        self.take_with_fds(MsgFlags::empty())
    }

    /// The same, without waiting.
    ///
    /// # Errors
    /// As [`Channel::receive_with_fds`]; [`ChannelError::WouldBlock`] if no message is there.
    pub fn try_receive_with_fds<T: DeserializeOwned>(
        &self,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        self.take_with_fds(MsgFlags::MSG_DONTWAIT)
    }

    fn take_with_fds<T: DeserializeOwned>(
        &self,
        how: MsgFlags,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        let mut packet = vec![0; MAX_PACKET_BYTES];
        let mut control = nix::cmsg_space!([std::os::fd::RawFd; KERNEL_PACKET_FDS]);
        let mut slices = [IoSliceMut::new(&mut packet)];
        let message = recvmsg::<()>(
            self.socket.as_raw_fd(),
            &mut slices,
            Some(&mut control),
            how | MsgFlags::MSG_CMSG_CLOEXEC,
        )?;
        let flags = message.flags;
        let length = message.bytes;
        let mut fds = Vec::new();
        for item in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(raw) = item {
                fds.extend(raw.into_iter().map(own));
            }
        }
        if fds.len() > MAX_PACKET_FDS {
            return Err(ChannelError::UnexpectedFds);
        }
        Ok((finish(&packet, length, flags)?, fds))
    }

    /// Receives one message and refuses descriptors. For the supervisor.
    ///
    /// # Errors
    /// As [`Channel::receive_with_fds`]; [`ChannelError::UnexpectedFds`] if any was attached (the kernel has dropped it).
    pub fn receive<T: DeserializeOwned>(&self) -> Result<T, ChannelError> {
        let mut packet = vec![0; MAX_PACKET_BYTES];
        let mut slices = [IoSliceMut::new(&mut packet)];
        let mut take = || {
            let socket = self.socket.as_raw_fd();
            recvmsg::<()>(socket, &mut slices, None, MsgFlags::empty())
                .map(|message| (message.flags, message.bytes))
        };
        // If the other end closes with packets unread, one receive here fails before the packets that it sent are
        // returned. The next receive returns them.
        let (flags, length) = match take() {
            Err(Errno::ECONNRESET) => take()?,
            other => other?,
        };
        if flags.contains(MsgFlags::MSG_CTRUNC) {
            return Err(ChannelError::UnexpectedFds);
        }
        finish(&packet, length, flags)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.socket.as_raw_fd()
    }
}

fn finish<T: DeserializeOwned>(
    packet: &[u8],
    length: usize,
    flags: MsgFlags,
) -> Result<T, ChannelError> {
    if flags.contains(MsgFlags::MSG_TRUNC) {
        return Err(ChannelError::Truncated);
    }
    match packet.get(..length) {
        // SEQPACKET reports a closed end as an empty packet; no message is empty.
        None | Some([]) => Err(ChannelError::Closed),
        Some(bytes) => Ok(wire::decode(bytes)?),
    }
}

#[expect(
    unsafe_code,
    reason = "nix hands received descriptors over as plain numbers"
)]
fn own(raw: std::os::fd::RawFd) -> OwnedFd {
    // SAFETY: the kernel has just installed `raw` in this process for this message, and nothing else has seen the number.
    unsafe { OwnedFd::from_raw_fd(raw) }
}

/// Marks every descriptor above standard error as closed on exec, so that children get none that this program itself
/// inherited. Rust marks those that it opens. Call this before there is a second thread.
///
/// # Errors
/// There is no `/proc`.
pub fn close_inherited_on_exec() -> io::Result<()> {
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    let listed = std::fs::read_dir("/proc/self/fd")?;
    let numbers: Vec<std::os::fd::RawFd> = listed
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in numbers {
        // The listing's own descriptor is among them and closed by now, hence EBADF.
        match fcntl(borrow(number), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)) {
            Ok(_) | Err(Errno::EBADF) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[expect(unsafe_code, reason = "inherited descriptors are known by number only")]
fn borrow(number: std::os::fd::RawFd) -> BorrowedFd<'static> {
    // SAFETY: `number` comes from a listing, so it is not -1. It is used for one fcntl, which merely fails if the
    // descriptor is closed by then.
    unsafe { BorrowedFd::borrow_raw(number) }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::message::{Table, ToChild};

    #[test]
    fn message_and_descriptor_arrive_together() {
        let (ours, theirs) = Channel::pair().expect("sockets");
        let file = File::open("/dev/null").expect("there");
        let sent = ToChild::Grant {
            table: Table::View(7),
        };
        assert!(matches!(
            theirs.try_receive_with_fds::<ToChild>(),
            Err(ChannelError::WouldBlock)
        ));
        ours.send(&sent, &[file.as_fd()]).expect("room");
        let (received, fds): (ToChild, _) = theirs.receive_with_fds().expect("a packet");
        assert_eq!((received, fds.len()), (sent.clone(), 1));
        ours.send(&sent, &[file.as_fd()]).expect("room");
        let (received, fds): (ToChild, _) = theirs.try_receive_with_fds().expect("it came");
        assert_eq!((received, fds.len()), (sent, 1));
    }

    #[test]
    fn descriptors_sent_upwards_are_dropped_and_named() {
        let (ours, theirs) = Channel::pair().expect("sockets");
        let file = File::open("/dev/null").expect("there");
        theirs
            .send(&ToChild::EndOfViews { count: 1 }, &[file.as_fd()])
            .expect("room");
        assert!(matches!(
            ours.receive::<ToChild>(),
            Err(ChannelError::UnexpectedFds)
        ));
    }

    #[test]
    fn the_last_words_of_an_end_that_read_nothing_arrive() {
        let (ours, theirs) = Channel::pair().expect("sockets");
        ours.send(&ToChild::EndOfViews { count: 1 }, &[])
            .expect("room");
        let sent = ToChild::EndOfViews { count: 2 };
        theirs.send(&sent, &[]).expect("room");
        drop(theirs);
        let received: ToChild = ours.receive().expect("its last packet");
        assert_eq!(received, sent);
        assert!(matches!(
            ours.receive::<ToChild>(),
            Err(ChannelError::Closed)
        ));
    }

    #[test]
    fn closed_and_empty_are_told_apart() {
        let (ours, theirs) = Channel::pair().expect("sockets");
        ours.set_nonblocking().expect("socket");
        assert!(matches!(
            ours.receive::<ToChild>(),
            Err(ChannelError::WouldBlock)
        ));
        drop(theirs);
        assert!(matches!(
            ours.receive::<ToChild>(),
            Err(ChannelError::Closed)
        ));
    }
}
