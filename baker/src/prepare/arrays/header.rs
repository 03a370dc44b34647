//! Reads the header of a safetensors file: its tensors and their places, with every byte of the file in exactly one.
//! Also reads their bytes in pieces.
//!
//! The `safetensors` crate supplies the description of a tensor, the sizes of its dtypes and the rule that tensors lie
//! side by side. Its reader is not used: it wants the whole file in memory, accepts a hundred times more header, and
//! names the tensor in only one of its errors. The parts in use allocate nothing by counts of the file and do not panic
//! here.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use proto::limits::MAX_ARRAYS_HEADER_BYTES;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::{ArraysError, Problem};
use crate::worker::folder::{FolderError, Opened};

/// Key of the metadata among the tensors.
const NOTES: &str = "__metadata__";
/// Bytes read at once, rounded down to whole groups of elements.
pub(super) const PIECE: usize = 1 << 20;
/// Names of the file that a message repeats: their number, and the characters of each.
const SHOWN: (usize, usize) = (8, 60);

#[derive(Debug)]
pub(super) struct Arrays {
    file: Opened,
    /// Offset of the data.
    start: u64,
    tensors: Tensors,
    notes: Notes,
}

type Tensors = BTreeMap<String, TensorInfo>;
type Notes = HashMap<String, String>;

/// A tensor with a checked shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tensor<const N: usize> {
    pub(super) name: &'static str,
    pub(super) dtype: Dtype,
    pub(super) shape: [usize; N],
    /// Offset in the file.
    start: u64,
}

/// What an axis of a tensor must be: of this length, or of any, shown as a letter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Axis {
    Is(usize),
    Any(char),
}

impl<const N: usize> Tensor<N> {
    pub(super) fn element(&self) -> usize {
        self.dtype.bitsize() / 8
    }

    pub(super) fn wrong(&self, problem: Problem) -> ArraysError {
        ArraysError::tensor(self.name, problem)
    }

    /// Refuses a tensor with more than `limit` entries along `axis`.
    pub(super) fn at_most(
        &self,
        limit: usize,
        axis: usize,
        what: &'static str,
    ) -> Result<(), ArraysError> {
        let (count, limit) = (self.shape[axis] as u64, limit as u64);
        if count > limit {
            return Err(self.wrong(Problem::TooLarge { what, count, limit }));
        }
        Ok(())
    }
}

impl Arrays {
    pub(super) fn read(file: Opened) -> Result<Self, ArraysError> {
        let layout = |what: String| ArraysError::Layout(what);
        let mut length = [0; 8];
        if file.read_at(&mut length, 0)? < length.len() {
            return Err(layout("it ends before its header".to_owned()));
        }
        let length = u64::from_le_bytes(length);
        if length > MAX_ARRAYS_HEADER_BYTES {
            return Err(layout(format!(
                "its header has {length} bytes, more than the {MAX_ARRAYS_HEADER_BYTES} that are taken"
            )));
        }
        let mut text = vec![0; length as usize];
        if file.read_at(&mut text, 8)? < text.len() {
            return Err(layout("it ends within its header".to_owned()));
        }
        let entries: Entries = serde_json::from_slice(&text)
            .map_err(|error| layout(format!("its header is not readable: {error}")))?;
        let start = 8 + length;
        let present = file.size().saturating_sub(start);
        let (tensors, notes) = entries.judge(present)?;
        Ok(Self {
            file,
            start,
            tensors,
            notes,
        })
    }

    /// The metadata value of `key`.
    pub(super) fn note(&self, key: &str) -> Option<&str> {
        self.notes.get(key).map(String::as_str)
    }

    /// Lists the tensors that are not `known`, for a message.
    pub(super) fn others(&self, known: &[&str]) -> Option<String> {
        let mut names = self.tensors.keys().map(String::as_str);
        let others: Vec<&str> = names
            .by_ref()
            .filter(|name| !known.contains(name))
            .collect();
        (!others.is_empty()).then(|| list(&others))
    }

    /// The tensor `name`, which must have one of these dtypes and this shape.
    pub(super) fn tensor<const N: usize>(
        &self,
        name: &'static str,
        dtypes: &[Dtype],
        shape: [Axis; N],
    ) -> Result<Tensor<N>, ArraysError> {
        self.tensor_if_there(name, dtypes, shape)?
            .ok_or_else(|| ArraysError::Missing {
                name,
                present: self.others(&[]).unwrap_or_else(|| "nothing".to_owned()),
            })
    }

    /// Like [`Self::tensor`], for an optional tensor.
    pub(super) fn tensor_if_there<const N: usize>(
        &self,
        name: &'static str,
        dtypes: &[Dtype],
        shape: [Axis; N],
    ) -> Result<Option<Tensor<N>>, ArraysError> {
        let Some(info) = self.tensors.get(name) else {
            return Ok(None);
        };
        let wrong = |problem| Err(ArraysError::tensor(name, problem));
        if !dtypes.contains(&info.dtype) {
            let wanted: Vec<String> = dtypes.iter().map(Dtype::to_string).collect();
            return wrong(Problem::Dtype {
                found: info.dtype.to_string(),
                wanted: wanted.join(" or "),
            });
        }
        let fits = |(&length, axis): (&usize, &Axis)| match axis {
            Axis::Is(wanted) => length == *wanted,
            Axis::Any(_) => true,
        };
        match <[usize; N]>::try_from(&info.shape[..]) {
            Ok(found) if found.iter().zip(&shape).all(fits) => Ok(Some(Tensor {
                name,
                dtype: info.dtype,
                shape: found,
                start: self.start + info.data_offsets.0 as u64,
            })),
            _ => wrong(Problem::Shape {
                found: info.shape.clone(),
                wanted: format!("[{}]", shape.map(|axis| axis.to_string()).join(", ")),
            }),
        }
    }

    /// Reads `count` elements of the tensor from element `first` on, in pieces of whole groups of `group` elements.
    pub(super) fn pieces<const N: usize>(
        &self,
        tensor: &Tensor<N>,
        first: usize,
        count: usize,
        group: usize,
        mut piece: impl FnMut(&[u8]) -> Result<(), ArraysError>,
    ) -> Result<(), ArraysError> {
        let group = group * tensor.element();
        let mut left = count * tensor.element();
        let mut at = tensor.start + (first * tensor.element()) as u64;
        let mut buffer = vec![0; (PIECE / group * group).max(group).min(left)];
        while left > 0 {
            let bytes = buffer.len().min(left);
            let buffer = &mut buffer[..bytes];
            if self.file.read_at(buffer, at)? < bytes {
                let error = std::io::Error::other("it shrinks while it is read");
                return Err(FolderError::from(error).into());
            }
            piece(buffer)?;
            left -= bytes;
            at += bytes as u64;
        }
        Ok(())
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(length) => write!(f, "{length}"),
            Self::Any(letter) => write!(f, "{letter}"),
        }
    }
}

/// The header's object in its order. A map would keep only the last of two entries of one name.
struct Entries(Vec<(String, Value)>);

impl Entries {
    fn judge(self, present: u64) -> Result<(Tensors, Notes), ArraysError> {
        let mut tensors = Tensors::new();
        let mut notes = Notes::new();
        for (name, value) in self.0 {
            if name == NOTES {
                notes = serde_json::from_value(value).map_err(|error| {
                    ArraysError::Layout(format!("its {NOTES} are not readable: {error}"))
                })?;
                continue;
            }
            let info: TensorInfo = serde_json::from_value(value)
                .map_err(|error| ArraysError::tensor(&name, Problem::Description(error)))?;
            check_size(&name, &info, present)?;
            if tensors.contains_key(&name) {
                return Err(ArraysError::tensor(&name, Problem::Twice));
            }
            tensors.insert(name, info);
        }
        let mut placed: Vec<(String, TensorInfo)> = tensors.clone().into_iter().collect();
        placed.sort_by_key(|(_, info)| info.data_offsets);
        let used = placed.last().map_or(0, |(_, info)| info.data_offsets.1) as u64;
        Metadata::new(None, placed).map_err(|error| match error {
            safetensors::SafeTensorError::InvalidOffset(name) => {
                ArraysError::tensor(&name, Problem::Place)
            }
            error => ArraysError::Layout(error.to_string()),
        })?;
        if used != present {
            return Err(ArraysError::Layout(format!(
                "it has {present} bytes of data, its tensors {used}"
            )));
        }
        Ok((tensors, notes))
    }
}

fn check_size(name: &str, info: &TensorInfo, present: u64) -> Result<(), ArraysError> {
    let (start, end) = info.data_offsets;
    if end as u64 > present {
        let end = end as u64;
        return Err(ArraysError::tensor(name, Problem::Outside { end, present }));
    }
    let bits = info
        .shape
        .iter()
        .try_fold(info.dtype.bitsize(), |bits, &axis| bits.checked_mul(axis));
    let bytes = end.checked_sub(start);
    // At most the file's length, so the product does not overflow.
    if bytes.is_none() || bits != bytes.map(|bytes| bytes * 8) {
        let problem = Problem::Size {
            shape: info.shape.clone(),
            dtype: info.dtype.to_string(),
            bytes: bytes.unwrap_or(0) as u64,
        };
        return Err(ArraysError::tensor(name, problem));
    }
    Ok(())
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object that describes tensors")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries, M::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// A name of the file, shortened for a message.
pub(super) fn shown(name: &str) -> String {
    match name.char_indices().nth(SHOWN.1) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

fn list(names: &[&str]) -> String {
    let mut words: Vec<String> = names.iter().take(SHOWN.0).map(|name| shown(name)).collect();
    if names.len() > SHOWN.0 {
        words.push("…".to_owned());
    }
    words.join(", ")
}
