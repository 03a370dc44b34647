//! The first and the last bytes of a file that a worker made → whether it is of its kind, and as long as it says.
//!
//! Nothing deeper: its maker has read it back in full, and vouches for its digest. A file that is none at all is found here,
//! whatever its maker says.

use std::os::unix::fs::FileExt;

use proto::blob::Blob;
use proto::job::Container;
use proto::message::Table;

/// Of a text, at each end.
const TEXT_BYTES: u64 = 4096;
/// The header of a PLY of ours takes some 400 bytes, the name of its texture and five credits.
const PLY_HEADER_BYTES: u64 = 16 << 10;
const PNG_HEAD: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
const PNG_TAIL: &[u8] = b"\0\0\0\0IEND\xae\x42\x60\x82";
const PLY_HEAD: &[u8] = b"ply\nformat binary_little_endian 1.0\n";
const JSON: u32 = u32::from_le_bytes(*b"JSON");
const BIN: u32 = u32::from_le_bytes(*b"BIN\0");

/// Checks a file; an error is what it is not.
pub(crate) fn check(table: Table, container: Container, blob: &Blob) -> Result<(), &'static str> {
    let good = match (table, container) {
        (Table::Glb, Container::Glb) => (glb(blob), "no whole GLB"),
        (Table::Glb, Container::Ply) => (ply(blob), "no whole PLY"),
        (Table::Glb, Container::Obj) => (text(blob, b"# "), "no whole OBJ"),
        (Table::Material, _) => (text(blob, b"newmtl "), "no whole material"),
        (Table::Gallery, _) => (text(blob, b"<section>\n"), "no whole page"),
        (Table::Picture(_), _) => (picture(blob), "no whole PNG, JPEG or WebP"),
        _ => (png(blob), "no whole PNG"),
    };
    match good {
        (Some(()), _) => Ok(()),
        (None, what) => Err(what),
    }
}

/// Bytes at an offset, if there are so many.
fn at(blob: &Blob, offset: u64, bytes: u64) -> Option<Vec<u8>> {
    let end = offset.checked_add(bytes)?;
    let mut found = vec![0; usize::try_from(bytes).ok().filter(|_| end <= blob.len())?];
    blob.file().read_exact_at(&mut found, offset).ok()?;
    Some(found)
}

fn word(blob: &Blob, offset: u64) -> Option<u32> {
    Some(u32::from_le_bytes(at(blob, offset, 4)?.try_into().ok()?))
}

fn begins(blob: &Blob, wanted: &[u8]) -> Option<()> {
    (at(blob, 0, wanted.len() as u64)? == wanted).then_some(())
}

fn ends(blob: &Blob, wanted: &[u8]) -> Option<()> {
    let length = wanted.len() as u64;
    let offset = blob.len().checked_sub(length)?;
    (at(blob, offset, length)? == wanted).then_some(())
}

/// Header, a chunk of JSON, and perhaps one of binary data, to the last byte (glTF 2.0, 4.4).
fn glb(blob: &Blob) -> Option<()> {
    begins(blob, b"glTF\x02\0\0\0")?;
    let length = u64::from(word(blob, 8)?);
    let mut offset = 12;
    for kind in [JSON, BIN] {
        if offset == blob.len() && kind == BIN {
            break;
        }
        let bytes = u64::from(word(blob, offset)?);
        if word(blob, offset + 4)? != kind || !bytes.is_multiple_of(4) {
            return None;
        }
        offset += 8 + bytes;
    }
    let json = at(blob, 20, 1)? == b"{";
    (json && length == blob.len() && offset == length).then_some(())
}

/// A header, and as many bytes as its elements take: vertices of doubles, floats and bytes, and triangles.
fn ply(blob: &Blob) -> Option<()> {
    begins(blob, PLY_HEAD)?;
    let head = at(blob, 0, PLY_HEADER_BYTES.min(blob.len()))?;
    let end = b"\nend_header\n";
    let end = head.windows(end.len()).position(|bytes| bytes == end)? + end.len();
    let (mut bytes, mut count, mut row) = (end as u64, 0_u64, 0_u64);
    for line in std::str::from_utf8(&head[..end]).ok()?.lines() {
        let mut words = line.split(' ');
        match (words.next(), words.next()) {
            (Some("element"), Some(_)) => {
                bytes = bytes.checked_add(count.checked_mul(row)?)?;
                (count, row) = (words.next()?.parse().ok()?, 0);
            }
            (Some("property"), Some("double")) => row += 8,
            (Some("property"), Some("float")) => row += 4,
            (Some("property"), Some("uchar")) => row += 1,
            // A count of three, and three numbers.
            (Some("property"), Some("list")) => row += 13,
            _ => {}
        }
    }
    bytes = bytes.checked_add(count.checked_mul(row)?)?;
    (bytes == blob.len()).then_some(())
}

/// Lines to the end, and nothing that no text has.
fn text(blob: &Blob, head: &[u8]) -> Option<()> {
    begins(blob, head)?;
    ends(blob, b"\n")?;
    let length = TEXT_BYTES.min(blob.len());
    let both = [0, blob.len() - length].map(|offset| at(blob, offset, length));
    let plain = |&byte: &u8| byte == b'\n' || byte >= b' ';
    let mut both = both.into_iter();
    both.all(|end| end.is_some_and(|end| end.iter().all(plain)))
        .then_some(())
}

fn picture(blob: &Blob) -> Option<()> {
    png(blob).or_else(|| jpeg(blob)).or_else(|| webp(blob))
}

fn png(blob: &Blob) -> Option<()> {
    begins(blob, PNG_HEAD)?;
    ends(blob, PNG_TAIL)
}

fn jpeg(blob: &Blob) -> Option<()> {
    begins(blob, b"\xff\xd8\xff")?;
    ends(blob, b"\xff\xd9")
}

fn webp(blob: &Blob) -> Option<()> {
    begins(blob, b"RIFF")?;
    let whole = u64::from(word(blob, 4)?) + 8 == blob.len();
    (whole && at(blob, 8, 4)? == b"WEBP").then_some(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use proto::blob::BlobFile;

    use super::*;

    fn judge(table: Table, container: Container, bytes: &[u8]) -> Result<(), &'static str> {
        let blob = Blob::create("test", bytes.len() as u64).expect("memory");
        let file = BlobFile::open(blob.as_fd().try_clone_to_owned().expect("fd")).expect("sealed");
        file.writer().write_all(bytes).expect("room");
        check(table, container, &blob)
    }

    /// Every cut of a whole file, and the file with a byte more, is none.
    fn whole(table: Table, container: Container, bytes: &[u8]) {
        assert_eq!(judge(table, container, bytes), Ok(()));
        for end in 1..bytes.len() {
            assert!(judge(table, container, &bytes[..end]).is_err(), "{end}");
        }
        let longer = [bytes, b"\0"].concat();
        assert!(judge(table, container, &longer).is_err(), "a byte more");
    }

    fn glb(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
        let word = |number: usize| u32::try_from(number).expect("small").to_le_bytes();
        let chunks: Vec<u8> = chunks
            .iter()
            .flat_map(|(kind, data)| [&word(data.len())[..], *kind, data].concat())
            .collect();
        let head = [&b"glTF\x02\0\0\0"[..], &word(12 + chunks.len())].concat();
        [head, chunks].concat()
    }

    #[test]
    fn a_file_is_whole_or_none_of_its_kind() {
        let json: &[u8] = b"{\"a\": 1}";
        whole(Table::Glb, Container::Glb, &glb(&[(b"JSON", json)]));
        let both = glb(&[(b"JSON", json), (b"BIN\0", &[7; 12])]);
        whole(Table::Glb, Container::Glb, &both);
        let png = [PNG_HEAD, &[7; 40], PNG_TAIL].concat();
        for table in [Table::Preview, Table::Rejected(3), Table::Picture(1)] {
            whole(table, Container::Glb, &png);
        }
        let ply = "ply\nformat binary_little_endian 1.0\ncomment a 1\nelement vertex 2\nproperty double x\nproperty float s\n\
            property uchar red\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n";
        let ply = [ply.as_bytes(), &[9; 2 * 13 + 13]].concat();
        whole(Table::Glb, Container::Ply, &ply);
        whole(
            Table::Picture(0),
            Container::Obj,
            b"\xff\xd8\xff\xe0 \xff\xd9",
        );
        whole(Table::Picture(0), Container::Obj, b"RIFF\x08\0\0\0WEBPabcd");
        let text = b"# kiln\nv 1 2 3\n";
        assert_eq!(judge(Table::Glb, Container::Obj, text), Ok(()));
        let text = b"<section>\n<p>x</p>\n</section>\n";
        assert_eq!(judge(Table::Gallery, Container::Glb, text), Ok(()));
        let text = b"newmtl a\nmap_Kd a.png\n";
        assert_eq!(judge(Table::Material, Container::Obj, text), Ok(()));
    }

    #[test]
    fn what_is_of_another_kind_is_refused() {
        let text = b"# a text that would be a model\n";
        for (table, container) in [
            (Table::Glb, Container::Glb),
            (Table::Glb, Container::Ply),
            (Table::Preview, Container::Glb),
            (Table::Gallery, Container::Glb),
            (Table::Coverage, Container::Glb),
            (Table::Picture(0), Container::Obj),
        ] {
            assert!(judge(table, container, text).is_err(), "{table:?}");
        }
        let json: &[u8] = b"{\"a\": 1}";
        for bytes in [
            glb(&[(b"BIN\0", json)]),
            glb(&[(b"JSON", b"text....")]),
            glb(&[(b"JSON", json), (b"JSON", json)]),
            glb(&[(b"JSON", json), (b"BIN\0", &[]), (b"BIN\0", &[])]),
            [&b"glTF\x02\0\0\0\x14\0\0\0\xff\xff\xff\xffJSON"[..], b"{}"].concat(),
        ] {
            assert!(
                judge(Table::Glb, Container::Glb, &bytes).is_err(),
                "{bytes:?}"
            );
        }
        for bytes in [&b"# a\0b\n"[..], b"# no end", b"v 1 2 3\n"] {
            assert!(judge(Table::Glb, Container::Obj, bytes).is_err());
        }
    }
}
