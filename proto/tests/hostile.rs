//! What a hostile process can send: random, cut, oversized and overloaded packets, unsealed and short memory, and tables
//! with every field out of bounds. Each must end in an error that names it, never in a panic, a wait or an allocation.

use std::fs::File;
use std::io::{IoSlice, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use proto::blob::{Blob, BlobError, BlobFile};
use proto::channel::{Channel, ChannelError};
use proto::job::{Blend, EncodeJob};
use proto::limits::{MAX_PACKET_BYTES, MAX_PACKET_FDS};
use proto::message::{Code, Failure, FromChild, Phase, Role, Start, Table, ToChild};
use proto::table::{Camera, Mesh, Surface, TableError, Texture, View, ViewHeader};
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
        blend: Blend::Linear,
        preview: false,
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
    let bytes = bytes_of_mesh(&mesh());
    let blob = Blob::create("short", bytes.len() as u64 - 1).expect("memory");
    let child =
        BlobFile::open(blob.as_fd().try_clone_to_owned().expect("fd")).expect("sealed in size");
    child
        .writer()
        .write_all(&bytes[..bytes.len() - 1])
        .expect("room");
    assert!(matches!(
        Mesh::read(&mut blob.reader()),
        Err(TableError::Io(_))
    ));
}

fn mesh() -> Mesh {
    Mesh {
        positions: vec![
            [0.0, 0.0, 0.0],
            [1.0, 0.0, 0.0],
            [0.0, 1.0, 0.0],
            [1.0, 1.0, 0.0],
        ],
        normals: vec![[0.0, 0.0, 1.0]; 4],
        uvs: vec![[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
        surface_vertices: vec![0, 1, 2, 3],
        triangles: vec![[0, 1, 2], [2, 1, 3]],
        charts: 1,
    }
}

fn surface() -> Surface {
    Surface {
        positions: mesh().positions,
        triangles: mesh().triangles,
    }
}

fn view() -> View {
    let camera = Camera {
        rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        translation: [0.0, 0.0, 2.0],
        focal: [2.0, 2.0],
        centre: [1.0, 1.0],
    };
    let pixels = vec![[1, 2, 3, 255]; 6];
    View {
        index: 1,
        width: 3,
        height: 2,
        crop: [4, 5],
        has_alpha: true,
        holdout: false,
        camera,
        pixels,
    }
}

fn texture() -> Texture {
    let count = 256 * 256;
    Texture {
        size: 256,
        texels: vec![[1, 2, 3, 255]; count],
        provenance: vec![3; count],
    }
}

fn bytes_of_mesh(mesh: &Mesh) -> Vec<u8> {
    let mut bytes = Vec::new();
    mesh.write(&mut bytes).expect("memory takes all");
    bytes
}

/// Demands that each change of a good table's bytes is refused, and that none of them was refused for a bad table.
fn refused<T>(
    good: &[u8],
    read: impl Fn(&mut &[u8]) -> Result<T, TableError>,
    changes: &[(&str, usize, &[u8])],
) {
    assert!(read(&mut &good[..]).is_ok(), "the table itself is good");
    let mut accepted = Vec::new();
    for (what, offset, bytes) in changes {
        let mut bad = good.to_vec();
        bad[*offset..offset + bytes.len()].copy_from_slice(bytes);
        if read(&mut &bad[..]).is_ok() {
            accepted.push(*what);
        }
    }
    assert!(accepted.is_empty(), "accepted: {accepted:?}");
    for length in [0, 7, 63, 64, good.len() / 2, good.len() - 1] {
        assert!(
            read(&mut &good[..length]).is_err(),
            "{length} of {} bytes",
            good.len()
        );
    }
}

const NAN: [u8; 4] = f32::NAN.to_le_bytes();
const INFINITE: [u8; 4] = f32::INFINITY.to_le_bytes();
const HUGE: [u8; 4] = 1e13_f32.to_le_bytes();
const MAX: [u8; 4] = u32::MAX.to_le_bytes();
const ZERO: [u8; 4] = [0; 4];

#[test]
fn every_field_of_a_mesh_is_bounded() {
    let good = bytes_of_mesh(&mesh());
    let (positions, normals, uvs) = (64, 64 + 48, 64 + 96);
    let (points, triangles) = (uvs + 32, uvs + 32 + 16);
    refused(
        &good,
        |bytes| Mesh::read(bytes),
        &[
            ("magic", 0, b"KILNMSH2"),
            ("another table's magic", 0, b"KILNSRF1"),
            ("no vertices", 8, &ZERO),
            ("two vertices", 8, &2_u32.to_le_bytes()),
            ("one vertex more than is there", 8, &5_u32.to_le_bytes()),
            (
                "vertices beyond the limit",
                8,
                &24_000_001_u32.to_le_bytes(),
            ),
            ("most vertices", 8, &MAX),
            ("no triangles", 12, &ZERO),
            (
                "triangles beyond the limit",
                12,
                &8_000_001_u32.to_le_bytes(),
            ),
            ("most triangles", 12, &MAX),
            ("position NaN", positions, &NAN),
            ("position infinite", positions + 4, &INFINITE),
            ("last position huge", positions + 44, &HUGE),
            ("normal NaN", normals, &NAN),
            ("normal long", normals + 44, &1.5_f32.to_le_bytes()),
            ("uv NaN", uvs, &NAN),
            ("uv below 0", uvs + 4, &(-0.01_f32).to_le_bytes()),
            ("uv above 1", uvs + 28, &1.01_f32.to_le_bytes()),
            ("surface vertex", points + 12, &4_u32.to_le_bytes()),
            ("most surface vertex", points, &MAX),
            ("corner", triangles, &4_u32.to_le_bytes()),
            ("last corner", triangles + 20, &MAX),
        ],
    );
}

#[test]
fn every_field_of_a_surface_is_bounded() {
    let mut good = Vec::new();
    surface().write(&mut good).expect("memory takes all");
    refused(
        &good,
        |bytes| Surface::read(bytes),
        &[
            ("magic", 0, b"KILNMSH1"),
            ("two vertices", 8, &2_u32.to_le_bytes()),
            ("most vertices", 8, &MAX),
            ("no triangles", 12, &ZERO),
            ("most triangles", 12, &MAX),
            ("position NaN", 64, &NAN),
            ("last position huge", 64 + 44, &HUGE),
            ("corner", 64 + 48, &4_u32.to_le_bytes()),
            ("last corner", 64 + 48 + 20, &MAX),
        ],
    );
}

#[test]
fn every_field_of_a_view_is_bounded() {
    let mut good = Vec::new();
    view().write(&mut good).expect("memory takes all");
    let number = |value: f64| value.to_le_bytes();
    let camera = 64;
    let (translation, focal, centre) = (camera + 72, camera + 96, camera + 112);
    let changes: &[(&str, usize, &[u8])] = &[
        ("magic", 0, b"KILNTEX1"),
        ("no width", 8, &ZERO),
        ("no height", 12, &ZERO),
        ("width beyond the limit", 8, &16_385_u32.to_le_bytes()),
        ("most width", 8, &MAX),
        ("most height", 12, &MAX),
        ("one column more than is there", 8, &4_u32.to_le_bytes()),
        ("rotation NaN", camera, &number(f64::NAN)),
        ("rotation scaled", camera, &number(1.1)),
        ("rotation sheared", camera + 8, &number(0.1)),
        (
            "last of the rotation infinite",
            camera + 64,
            &number(f64::INFINITY),
        ),
        ("translation NaN", translation, &number(f64::NAN)),
        ("translation huge", translation + 16, &number(1e13)),
        ("focal length 0", focal, &number(0.0)),
        ("focal length negative", focal + 8, &number(-2.0)),
        ("focal length NaN", focal, &number(f64::NAN)),
        ("focal length huge", focal + 8, &number(1e13)),
        ("centre NaN", centre, &number(f64::NAN)),
        ("centre huge", centre + 8, &number(-1e13)),
    ];
    refused(&good, |bytes| View::read(bytes), changes);
    // Both edges legal, their product not.
    let mut wide = good.clone();
    wide[8..16].copy_from_slice(&[16_384_u32.to_le_bytes(), 16_384_u32.to_le_bytes()].concat());
    assert!(matches!(
        View::read(&mut &wide[..]),
        Err(TableError::Bound {
            what: "number of view pixels",
            ..
        })
    ));
    assert!(matches!(
        ViewHeader::read(&mut &wide[..]),
        Err(TableError::Bound { .. })
    ));
}

#[test]
fn the_head_of_a_view_tells_what_the_view_tells() {
    let mut bytes = Vec::new();
    let view = View {
        holdout: true,
        ..view()
    };
    view.write(&mut bytes).expect("memory takes all");
    let header = ViewHeader::read(&mut &bytes[..]).expect("good");
    assert_eq!(
        (header.index, header.width, header.height, header.crop),
        (1, 3, 2, [4, 5])
    );
    assert!(header.has_alpha && header.holdout);
    assert_eq!(
        (header.table_bytes(), view.byte_len()),
        (bytes.len() as u64, bytes.len() as u64)
    );
}

#[test]
fn every_field_of_a_texture_is_bounded() {
    let mut good = Vec::new();
    texture().write(&mut good).expect("memory takes all");
    refused(
        &good,
        |bytes| Texture::read(bytes),
        &[
            ("magic", 0, b"KILNVIW1"),
            ("size 0", 8, &ZERO),
            ("size below the limit", 8, &252_u32.to_le_bytes()),
            ("size beyond the limit", 8, &8196_u32.to_le_bytes()),
            ("most size", 8, &MAX),
            ("four more than is there", 8, &260_u32.to_le_bytes()),
            ("provenance", 64 + 256 * 256 * 4, &[4]),
            ("last provenance", 64 + 256 * 256 * 5 - 1, &[255]),
        ],
    );
}

#[test]
fn tables_come_back_as_they_were() {
    let (mesh, surface, view, texture) = (mesh(), surface(), view(), texture());
    let mut bytes = [const { Vec::new() }; 4];
    mesh.write(&mut bytes[0]).expect("memory takes all");
    surface.write(&mut bytes[1]).expect("memory takes all");
    view.write(&mut bytes[2]).expect("memory takes all");
    texture.write(&mut bytes[3]).expect("memory takes all");
    let lengths = [
        mesh.byte_len(),
        surface.byte_len(),
        view.byte_len(),
        texture.byte_len(),
    ];
    assert_eq!(bytes.each_ref().map(|bytes| bytes.len() as u64), lengths);
    assert_eq!(Mesh::read(&mut &bytes[0][..]).expect("good"), mesh);
    assert_eq!(Surface::read(&mut &bytes[1][..]).expect("good"), surface);
    assert_eq!(View::read(&mut &bytes[2][..]).expect("good"), view);
    assert_eq!(Texture::read(&mut &bytes[3][..]).expect("good"), texture);
}
