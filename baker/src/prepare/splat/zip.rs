//! A zip archive → its files, by its table at the end: stored or deflated, none unpacked farther than the table says.
//!
//! Not read: ZIP64, archives of several parts, encrypted files and other methods.

use std::borrow::Cow;
use std::io::Read;

use flate2::Crc;
use flate2::read::DeflateDecoder;

/// The first bytes of an archive.
pub(super) const MARK: [u8; 4] = *b"PK\x03\x04";
const IN_TABLE: [u8; 4] = *b"PK\x01\x02";
const END: [u8; 4] = *b"PK\x05\x06";
/// Bytes of a file's head, of its row in the table and of the end, without names and comments.
const HEAD: usize = 30;
const ROW: usize = 46;
const TAIL: usize = 22;
/// Longest comment behind the table.
const COMMENT: usize = 65_535;
const ENCRYPTED: u16 = 1;

pub(super) struct Archive<'a> {
    bytes: &'a [u8],
    entries: Vec<Entry<'a>>,
    /// What the names begin with.
    folder: &'a [u8],
}

struct Entry<'a> {
    name: &'a [u8],
    flags: u16,
    method: u16,
    sum: u32,
    packed: u32,
    size: u32,
    /// Of its head.
    at: u32,
}

impl<'a> Archive<'a> {
    /// The folder that holds `first` is taken, the outermost if several do.
    pub(super) fn new(bytes: &'a [u8], first: &str) -> Result<Self, &'static str> {
        let tail = bytes.len().saturating_sub(TAIL + COMMENT);
        let end = bytes[tail..]
            .windows(TAIL)
            .rposition(|window| window.starts_with(&END))
            .ok_or("its zip archive has no table at the end")?;
        let count = half(bytes, tail + end + 10).unwrap_or(0);
        let mut at = word(bytes, tail + end + 16).unwrap_or(0) as usize;
        let mut entries = Vec::new();
        for _ in 0..count {
            let (entry, next) = row(bytes, at).ok_or("the table of its zip archive is broken")?;
            entries.push(entry);
            at = next;
        }
        let folders = entries.iter().filter_map(|entry| {
            let folder = entry.name.strip_suffix(first.as_bytes())?;
            matches!(folder.last(), None | Some(b'/')).then_some(folder)
        });
        let folder = folders.min_by_key(|folder| folder.len()).unwrap_or(b"");
        Ok(Self {
            bytes,
            entries,
            folder,
        })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn find(&self, name: &str) -> Option<&Entry<'a>> {
        let is = |entry: &&Entry<'_>| entry.name.strip_prefix(self.folder) == Some(name.as_bytes());
        self.entries.iter().find(is)
    }

    /// The file of this name, of at most so many bytes; else what is wrong with it.
    pub(super) fn get(&self, name: &str, most: usize) -> Result<Cow<'a, [u8]>, String> {
        let entry = self.find(name).ok_or("is missing")?;
        let (packed, size) = (entry.packed as usize, entry.size as usize);
        if [entry.packed, entry.size, entry.at].contains(&u32::MAX) {
            return Err("is in a ZIP64, which is not read".to_owned());
        }
        if size > most {
            return Err(format!("is {size} bytes large, more than {most}"));
        }
        if entry.flags & ENCRYPTED != 0 {
            return Err("is encrypted".to_owned());
        }
        let outside = "lies outside its archive";
        let at = entry.at as usize;
        let head = self.bytes.get(at..).ok_or(outside)?;
        if !head.starts_with(&MARK) {
            return Err("is not where the table of its archive says".to_owned());
        }
        let names = half(head, 26).zip(half(head, 28)).ok_or(outside)?;
        let start = HEAD + usize::from(names.0) + usize::from(names.1);
        let data = head.get(start..).and_then(|data| data.get(..packed));
        let data = data.ok_or(outside)?;
        let file = match entry.method {
            0 => Cow::Borrowed(data),
            8 => {
                let mut file = Vec::new();
                let limit = size as u64 + 1;
                let read = DeflateDecoder::new(data).take(limit).read_to_end(&mut file);
                read.map_err(|_error| "is damaged: it cannot be unpacked")?;
                Cow::Owned(file)
            }
            method => return Err(format!("is packed by method {method}, which is not read")),
        };
        if file.len() != size {
            return Err("has not the size that its archive says".to_owned());
        }
        let mut sum = Crc::new();
        sum.update(&file);
        match sum.sum() == entry.sum {
            true => Ok(file),
            false => Err("is damaged: its checksum differs".to_owned()),
        }
    }
}

/// The row of the table there, and where the next is.
fn row(bytes: &[u8], at: usize) -> Option<(Entry<'_>, usize)> {
    let row = bytes.get(at..).filter(|row| row.starts_with(&IN_TABLE))?;
    let name = usize::from(half(row, 28)?);
    let others = usize::from(half(row, 30)?) + usize::from(half(row, 32)?);
    let entry = Entry {
        name: row.get(ROW..)?.get(..name)?,
        flags: half(row, 8)?,
        method: half(row, 10)?,
        sum: word(row, 16)?,
        packed: word(row, 20)?,
        size: word(row, 24)?,
        at: word(row, 42)?,
    };
    Some((entry, at + ROW + name + others))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_le_bytes(*bytes))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}
