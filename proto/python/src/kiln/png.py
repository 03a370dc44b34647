"""A PNG (8 bits, RGB or RGBA, not interlaced) → its pixels, by zlib and numpy alone.

A filtered byte depends on the pixels to the left, above, and above left, so all pixels of one anti-diagonal can be done at
once: 4,095 steps for 2048², whatever filters the rows have.
"""

from __future__ import annotations

import struct
import zlib
from typing import List

import numpy as np

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {2: 3, 6: 4}
#: Of one side; Kiln's largest texture has 8192.
_LARGEST = 16384


def decode(file: bytes) -> np.ndarray:
    """uint8 [height, width, 3 or 4], row 0 at the top."""
    if file[:8] != _SIGNATURE:
        raise ValueError("not a PNG")
    width = height = channels = 0
    data: List[bytes] = []
    at = 8
    while at + 12 <= len(file):
        length, kind = struct.unpack_from(">I4s", file, at)
        body = file[at + 8 : at + 8 + length]
        at += 12 + length
        if kind == b"IHDR" and length == 13:
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            channels = _CHANNELS.get(colour, 0)
            if depth != 8 or not channels or interlaced:
                raise ValueError(f"a PNG of {depth} bits, colour type {colour}, interlace {interlaced} is not read here")
            if not (0 < width <= _LARGEST and 0 < height <= _LARGEST):
                raise ValueError(f"a PNG of {width}x{height} is not read here")
        elif kind == b"IDAT":
            data.append(body)
        elif kind == b"IEND":
            break
    if not channels:
        raise ValueError("the PNG has no header")
    size = height * (1 + width * channels)
    # One byte more than there can be shows a stream that is too long; the checksum is zlib's.
    stream = zlib.decompressobj()
    rows = stream.decompress(b"".join(data), size + 1)
    if len(rows) != size or not stream.eof and stream.decompress(stream.unconsumed_tail, 1):
        raise ValueError("the PNG's data do not fit its size")
    return _unfilter(rows, width, height, channels)


def _unfilter(rows: bytes, width: int, height: int, channels: int) -> np.ndarray:
    line = 1 + width * channels
    # From one pixel of an anti-diagonal to the next: a row further, and one pixel back.
    read, write = line - channels, (width - 1) * channels
    source = np.frombuffer(rows, np.uint8)
    kinds = source.reshape(height, line)[:, 0]
    if kinds.max() > 4:
        raise ValueError("the PNG has a filter that does not exist")
    subs, ups, means, paeths = (kinds == kind for kind in (1, 2, 3, 4))
    target = np.empty(height * width * channels, np.uint8)
    # Channels first: the long axis must be the inner one. The diagonals before, by row + 1; 0 outside the picture.
    last, before, now = (np.zeros((channels, height + 1), np.int16) for _ in range(3))
    for diagonal in range(width + height - 1):
        first = max(0, diagonal - width + 1)
        end = min(diagonal, height - 1) + 1
        some, below = slice(first, end), slice(first + 1, end + 1)
        left, up, corner = last[:, below], last[:, some], before[:, some]
        to_left, to_up = up - corner, left - corner
        from_corner = np.abs(to_left + to_up)
        from_left, from_up = np.abs(to_left, out=to_left), np.abs(to_up, out=to_up)
        guess = now[:, below]
        guess[...] = 0
        paeth = paeths[some]
        np.copyto(guess, corner, where=paeth)
        np.copyto(guess, up, where=paeth & (from_up <= from_corner))
        np.copyto(guess, left, where=paeth & (from_left <= np.minimum(from_up, from_corner)))
        np.copyto(guess, (left + up) >> 1, where=means[some])
        np.copyto(guess, up, where=ups[some])
        np.copyto(guess, left, where=subs[some])
        column = diagonal - first
        guess += _diagonal(source, first * line + 1 + column * channels, read, end - first, channels)
        guess &= 255
        _diagonal(target, (first * width + column) * channels, write, end - first, channels)[...] = guess
        last, before, now = now, last, before
    return target.reshape(height, width, channels)


def _diagonal(flat: np.ndarray, begin: int, step: int, count: int, channels: int) -> np.ndarray:
    """`count` pixels that lie `step` bytes apart, as a view [channels, count]."""
    return np.ndarray((channels, count), np.uint8, flat, begin, (1, step))
