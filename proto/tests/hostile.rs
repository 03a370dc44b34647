//! What a hostile process can send: random, cut, oversized and overloaded packets, unsealed and short memory. Each must
//! end in an error that names it, never in a panic, a wait or an allocation.

use std::fs::File;
use std::io::{IoSlice, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use proto::blob::{Blob, BlobError, BlobFile};
use proto::channel::{Channel, ChannelError};
use proto::job::EncodeJob;
use proto::limits::{MAX_PACKET_BYTES, MAX_PACKET_FDS};
use proto::message::{Code, Failure, FromChild, Phase, Role, Start, Table, ToChild};
use proto::table::{Surface, TableError};
use proto::wire::{self, WireError};

/// xorshift64*: the same bytes each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| (self.next() >> 56) as u8).collect()
    }
}

fn messages() -> Vec<Vec<u8>> {
    let hello = FromChild::Hello {
        sandbox: proto::sandbox::Sandbox::off(),
        version: 1,
        build_id: "x".repeat(40),
        role: Role::Bake,
    };
    let failed = FromChild::Failed(Failure {
        code: Code::Internal,
        message: "m".repeat(300),
        hint: "h".into(),
    });
    let allocate = FromChild::Allocate {
        table: Table::View(4000),
        bytes: 1 << 40,
    };
    [
        hello,
        failed,
        allocate,
        FromChild::Progress {
            phase: Phase::Fit,
            done: u64::MAX,
            total: 0,
        },
    ]
    .iter()
    .map(|message| wire::encode(message).expect("fits"))
    .collect()
}

#[test]
fn random_bytes_never_panic_and_rarely_decode() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut decoded = 0;
    for round in 0..200_000 {
        let count = (random.next() % 64) as usize + usize::from(round % 100 == 0) * 5000;
        let bytes = random.bytes(count);
        decoded += usize::from(wire::decode::<FromChild>(&bytes).is_ok());
        decoded += usize::from(wire::decode::<ToChild>(&bytes).is_ok());
    }
    assert!(
        decoded < 20_000,
        "{decoded} of 400000 random packets look like messages"
    );
}

#[test]
fn a_flipped_bit_never_panics() {
    for bytes in messages() {
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(message) = wire::decode::<FromChild>(&bytes) {
                // A longer form of the same number decodes, too, so the bytes may differ; the message does not.
                let again = wire::encode(&message).expect("fits");
                assert_eq!(
                    wire::decode::<FromChild>(&again).expect("its own bytes"),
                    message
                );
            }
        }
    }
}

#[test]
fn a_cut_or_prolonged_packet_is_refused() {
    for bytes in messages() {
        assert!(
            wire::decode::<FromChild>(&bytes).is_ok(),
            "whole, it decodes"
        );
        for length in 0..bytes.len() {
            assert!(
                wire::decode::<FromChild>(&bytes[..length]).is_err(),
                "{length} of {} bytes",
                bytes.len()
            );
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(matches!(
            wire::decode::<FromChild>(&longer),
            Err(WireError::Trailing(1))
        ));
    }
}

#[test]
fn a_length_in_a_packet_sizes_no_allocation() {
    // Warning with a text of 2^60 bytes: variant 2, then a nine-byte length.
    let packet = [&[2, 253][..], &(1_u64 << 60).to_le_bytes()].concat();
    assert!(matches!(
        wire::decode::<FromChild>(&packet),
        Err(WireError::Decode(_))
    ));
    // The same form with the right length decodes, so it is the length that was refused.
    let packet = [&[2, 253][..], &2_u64.to_le_bytes(), b"ok"].concat();
    assert!(wire::decode::<FromChild>(&packet).is_ok());
}

fn send_raw(channel: &Channel, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let raw: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control: &[ControlMessage<'_>] = if raw.is_empty() { &[] } else { &rights };
    let flags = MsgFlags::MSG_NOSIGNAL;
    sendmsg::<()>(
        channel.as_raw_fd(),
        &[IoSlice::new(bytes)],
        control,
        flags,
        None,
    )
    .expect("sent");
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc").count()
}

#[test]
fn an_oversized_packet_is_named_and_the_next_one_is_whole() {
    let (ours, theirs) = Channel::pair().expect("sockets");
    send_raw(&theirs, &vec![0; MAX_PACKET_BYTES + 1], &[]);
    theirs
        .send(&FromChild::Filled { table: Table::Mesh }, &[])
        .expect("room");
    assert!(matches!(
        ours.receive::<FromChild>(),
        Err(ChannelError::Truncated)
    ));
    assert_eq!(
        ours.receive::<FromChild>().expect("a packet"),
        FromChild::Filled { table: Table::Mesh }
    );
    let text = "x".repeat(MAX_PACKET_BYTES);
    assert!(matches!(
        theirs.send(&FromChild::Warning { text }, &[]),
        Err(ChannelError::Wire(WireError::TooLarge(_)))
    ));
}

#[test]
fn descriptors_beyond_the_limit_are_refused() {
    let (ours, theirs) = Channel::pair().expect("sockets");
    let null = File::open("/dev/null").expect("there");
    let start = wire::encode(&ToChild::Start(Start::Encode(EncodeJob {
        product: proto::job::Product::Texture,
        ..EncodeJob::default()
    })));
    let start = start.expect("fits");
    send_raw(&ours, &start, &[null.as_fd(); MAX_PACKET_FDS]);
    let (_, fds) = theirs
        .receive_with_fds::<ToChild>()
        .expect("as many as may be");
    assert_eq!(fds.len(), MAX_PACKET_FDS);
    send_raw(&ours, &start, &[null.as_fd(); 100]);
    assert!(matches!(
        theirs.receive_with_fds::<ToChild>(),
        Err(ChannelError::UnexpectedFds)
    ));
}

#[test]
fn refused_descriptors_are_closed() {
    let (ours, theirs) = Channel::pair().expect("sockets");
    let null = File::open("/dev/null").expect("there");
    let before = open_descriptors();
    for _ in 0..50 {
        send_raw(&ours, &[0xff], &[null.as_fd(); 100]);
        assert!(theirs.receive_with_fds::<ToChild>().is_err());
        send_raw(&theirs, &[0xff], &[null.as_fd(); 100]);
        assert!(matches!(
            ours.receive::<FromChild>(),
            Err(ChannelError::UnexpectedFds)
        ));
    }
    let after = open_descriptors();
    // A leak would hold at least 4 of each packet's; the other tests of this file hold a few of their own.
    assert!(after < before + 100, "{before} descriptors, then {after}");
}

#[test]
fn an_empty_packet_is_an_end() {
    let (ours, theirs) = Channel::pair().expect("sockets");
    send_raw(&theirs, &[], &[]);
    assert!(matches!(
        ours.receive::<FromChild>(),
        Err(ChannelError::Closed)
    ));
}

#[test]
fn memory_that_can_still_change_size_is_refused() {
    let open = memfd_create(c"hostile", MFdFlags::MFD_ALLOW_SEALING).expect("memory");
    File::from(open.try_clone().expect("fd"))
        .set_len(100)
        .expect("sized");
    assert!(matches!(BlobFile::open(open), Err(BlobError::Unsealed)));
    let file = tempfile::tempfile().expect("a file");
    assert!(matches!(
        BlobFile::open(file.into()),
        Err(BlobError::Unsealed)
    ));
}

#[test]
fn memory_shorter_than_its_table_is_refused() {
    let surface = Surface {
        positions: vec![[0.0; 3]; 3],
        triangles: vec![[0, 1, 2]],
        simplified: None,
    };
    let mut bytes = Vec::new();
    surface.write(&mut bytes).expect("memory takes all");
    for missing in [0, 1] {
        let blob = Blob::create("short", bytes.len() as u64 - missing).expect("memory");
        let child = BlobFile::open(blob.as_fd().try_clone_to_owned().expect("fd")).expect("sealed");
        child
            .writer()
            .write_all(&bytes[..blob.len() as usize])
            .expect("room");
        let read = Surface::read(&mut blob.reader());
        let right = if missing == 0 {
            read.is_ok()
        } else {
            matches!(read, Err(TableError::Io(_)))
        };
        assert!(right, "{missing} bytes are missing: {read:?}");
    }
}
