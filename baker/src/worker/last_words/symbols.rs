//! Function names from this program's file, for a handler that may neither open files nor allocate. The symbol table is
//! mapped beforehand and searched in place. A stripped program has none, and its frames stay numbers.

use std::fs::File;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use nix::sys::mman::{MapFlags, ProtFlags, mmap};

/// Bytes of a section header and of a symbol in a 64-bit ELF file.
const SECTION: usize = 64;
const SYMBOL: usize = 24;
/// Mappings begin at a multiple of the page size; this is the largest one.
const PAGE: u64 = 64 << 10;

/// Two sections of the file, mapped.
struct Table {
    symbols: &'static [u8],
    names: &'static [u8],
}

static TABLE: OnceLock<Option<Table>> = OnceLock::new();

/// Maps the table. Without it frames stay numbers, which is no reason to fail.
pub(super) fn load() {
    TABLE.get_or_init(|| map(&File::open("/proc/self/exe").ok()?));
}

fn map(file: &File) -> Option<Table> {
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    // 64 bits, little-endian.
    if header[..6] != *b"\x7fELF\x02\x01" {
        return None;
    }
    let (offset, count) = (word(&header, 0x28)?, half(&header, 0x3c)?);
    let mut sections = vec![0; SECTION * usize::from(count)];
    file.read_exact_at(&mut sections, offset).ok()?;
    let section = |index: usize| sections.get(index * SECTION..)?.first_chunk::<SECTION>();
    let kind = |section: &[u8; SECTION]| quarter(section, 4);
    let symbols =
        (0..usize::from(count)).find(|&index| section(index).and_then(kind) == Some(2))?;
    let symbols = section(symbols)?;
    let names = section(quarter(symbols, 40)? as usize)?;
    let mapped = |section: &[u8; SECTION]| map_part(file, word(section, 24)?, word(section, 32)?);
    Some(Table {
        symbols: mapped(symbols)?,
        names: mapped(names)?,
    })
}

/// Maps a part of a file for the life of the process.
fn map_part(file: &File, offset: u64, bytes: u64) -> Option<&'static [u8]> {
    let start = offset / PAGE * PAGE;
    let skip = usize::try_from(offset - start).ok()?;
    let bytes = usize::try_from(bytes).ok()?;
    let length = NonZeroUsize::new(skip + bytes)?;
    let (protection, flags) = (ProtFlags::PROT_READ, MapFlags::MAP_PRIVATE);
    let start = i64::try_from(start).ok()?;
    #[expect(unsafe_code, reason = "a mapping of a file")]
    // SAFETY: a new mapping that nothing else uses.
    let memory = unsafe { mmap(None, length, protection, flags, file, start) }.ok()?;
    #[expect(unsafe_code, reason = "a mapping of a file")]
    // SAFETY: it has `length` bytes and is never unmapped. The running program's file cannot be written to (ETXTBSY).
    let mapped = unsafe { std::slice::from_raw_parts(memory.as_ptr().cast::<u8>(), length.get()) };
    mapped.get(skip..)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn quarter(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// An address within this program, and the function that contains it.
#[derive(Clone, Copy)]
pub(super) struct Named {
    /// Relative to the program's base.
    pub(super) address: u64,
    start: u64,
    name: u32,
}

impl Named {
    /// An address before the lookup.
    pub(super) const fn at(address: u64) -> Self {
        Self {
            address,
            start: 0,
            name: 0,
        }
    }
}

/// Finds the functions of all `addresses`, which must be sorted, in one pass over the table.
pub(super) fn find(addresses: &mut [Named]) {
    const FUNCTION: u8 = 2;
    let Some(Some(table)) = TABLE.get() else {
        return;
    };
    for symbol in table.symbols.as_chunks::<SYMBOL>().0 {
        let (Some(name), Some(start), Some(bytes)) =
            (quarter(symbol, 0), word(symbol, 8), word(symbol, 16))
        else {
            continue;
        };
        if symbol[4] & 0xf != FUNCTION || start == 0 {
            continue;
        }
        let first = addresses.partition_point(|named| named.address < start);
        for named in &mut addresses[first..] {
            if named.address - start >= bytes {
                break;
            }
            (named.start, named.name) = (start, name);
        }
    }
}

impl Named {
    /// The linker's name and the offset into the function; none where no function contains the address.
    pub(super) fn function(&self) -> Option<(&'static str, u64)> {
        let table = TABLE.get()?.as_ref()?;
        let name = table.names.get(self.name as usize..)?;
        let end = name.iter().position(|&byte| byte == 0)?;
        let name = str::from_utf8(&name[..end]).ok()?;
        (self.start > 0).then_some((name, self.address - self.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Never inlined, so that the program has a symbol for it.
    #[inline(never)]
    fn a_function_to_be_found() -> Option<&'static Option<Table>> {
        TABLE.get()
    }

    #[test]
    fn a_function_of_this_program_has_its_name() {
        load();
        assert!(a_function_to_be_found().is_some());
        let file = File::open("/proc/self/exe").expect("the test's program");
        let table = map(&file).expect("it has symbols");
        let text = |at: usize| {
            let name = &table.names[at..];
            let end = name.iter().position(|&byte| byte == 0).expect("ended");
            str::from_utf8(&name[..end]).expect("text")
        };
        let wanted = "a_function_to_be_found";
        let symbols = table.symbols.as_chunks::<SYMBOL>().0;
        let found = symbols
            .iter()
            .find(|symbol| text(quarter(*symbol, 0).expect("four bytes") as usize).contains(wanted))
            .expect("it is a function of this program");
        let start = word(found, 8).expect("eight bytes");
        let mut named = [0, 1, 1 << 60].map(|offset| Named::at(start + offset));
        find(&mut named);
        let functions = named.map(|named| named.function());
        assert!(functions[0].expect("known").0.contains(wanted));
        assert_eq!(functions[1].expect("known").1, 1);
        assert_eq!(functions[2], None);
    }
}
