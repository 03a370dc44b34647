"""Named arrays ↔ the safetensors format: 8 bytes of length, a JSON header, the arrays one after the other, little-endian.

Writing copies nothing: an encoded file is a list of parts that refer to the arrays, to be sent one after the other. A tensor
may be given as a list of equal arrays, which stand for their stack.
"""

from __future__ import annotations

import json
import struct
from typing import Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

_NAMES: Dict[str, str] = {
    "|b1": "BOOL", "|u1": "U8", "|i1": "I8",
    "<u2": "U16", "<i2": "I16", "<f2": "F16",
    "<u4": "U32", "<i4": "I32", "<f4": "F32",
    "<u8": "U64", "<i8": "I64", "<f8": "F64",
}
_DTYPES = {name: np.dtype(code) for code, name in _NAMES.items()}
#: As the format has it.
_LONGEST_HEADER = 100_000_000

Tensor = Union[np.ndarray, Sequence[np.ndarray]]


def encode(tensors: Mapping[str, Tensor], metadata: Optional[Mapping[str, str]] = None) -> List[memoryview]:
    """The parts of a file, in order."""
    header: Dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    parts: List[memoryview] = []
    offset = 0
    for name, tensor in tensors.items():
        stacked = not isinstance(tensor, np.ndarray)
        given = [tensor] if isinstance(tensor, np.ndarray) else tensor
        arrays = [_plain(name, array) for array in given]
        if not arrays:
            raise ValueError(f"{name}: an empty list has no shape")
        first = arrays[0]
        for index, array in enumerate(arrays):
            if (array.shape, array.dtype) != (first.shape, first.dtype):
                raise ValueError(
                    f"{name}[{index}] is {array.dtype}{list(array.shape)}, and {name}[0] is {first.dtype}{list(first.shape)}"
                )
        shape = ([len(arrays)] if stacked else []) + list(first.shape)
        end = offset + sum(array.nbytes for array in arrays)
        header[name] = {"dtype": _NAMES[first.dtype.str], "shape": shape, "data_offsets": [offset, end]}
        offset = end
        parts += [array.reshape(-1).view(np.uint8).data for array in arrays if array.nbytes]
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # The data begin at a multiple of 8, so that they can be read in place.
    return [memoryview(struct.pack("<Q", len(text)) + text), *parts]


def decode(file: Union[bytes, bytearray, memoryview]) -> Tuple[Dict[str, np.ndarray], Dict[str, str]]:
    """The arrays of a file, read in place, and its metadata."""
    view = memoryview(file).cast("B")
    if view.nbytes < 8:
        raise ValueError("a safetensors file has 8 bytes or more")
    (length,) = struct.unpack_from("<Q", view)
    if length > min(_LONGEST_HEADER, view.nbytes - 8):
        raise ValueError(f"the header of {length} bytes does not fit the file of {view.nbytes}")
    header = json.loads(bytes(view[8 : 8 + length]))
    if not isinstance(header, dict):
        raise ValueError("the header is no JSON object")
    data = view[8 + length :]
    metadata = header.pop("__metadata__", {})
    arrays: Dict[str, np.ndarray] = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype = _DTYPES.get(entry["dtype"])
        if dtype is None:
            raise ValueError(f"{name}: the type {entry['dtype']} is not known here")
        count = 1
        for edge in entry["shape"]:
            count *= edge
        if not 0 <= begin <= end <= data.nbytes or end - begin != count * dtype.itemsize:
            raise ValueError(f"{name}: bytes {begin} to {end} are not {entry['shape']} of {entry['dtype']}")
        arrays[name] = np.frombuffer(data[begin:end], dtype=dtype).reshape(entry["shape"])
    return arrays, metadata


def _plain(name: str, array: np.ndarray) -> np.ndarray:
    """C-contiguous and little-endian: itself, where it is."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    # ascontiguousarray makes a scalar an array of one.
    plain = plain.reshape(array.shape)
    if plain.dtype.str not in _NAMES:
        raise TypeError(f"{name}: arrays of {array.dtype} cannot be sent")
    return plain
