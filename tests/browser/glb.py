"""The bytes of a GLB → what a viewer needs of it, or ValueError where one would stumble."""

from __future__ import annotations

import io
import json
import struct
from typing import NamedTuple, Tuple

import numpy as np
from PIL import Image


class Model(NamedTuple):
    """A textured mesh."""

    triangles: int
    texture_size: Tuple[int, int]


def read_glb(file: bytes) -> Model:
    """Header, chunks, JSON, the positions of its one mesh, and its base colour texture, decoded."""
    if len(file) < 20:
        raise ValueError(f"{len(file)} bytes are no GLB")
    magic, version, length, json_length, json_kind = struct.unpack_from("<4sII I4s", file)
    if (magic, version, length, json_kind) != (b"glTF", 2, len(file), b"JSON"):
        raise ValueError(f"its head is {magic!r}, {version}, {length} of {len(file)} bytes, {json_kind!r}")
    try:
        document = json.loads(file[20 : 20 + json_length])
        binary_length, binary_kind = struct.unpack_from("<I4s", file, 20 + json_length)
        binary = file[28 + json_length :]
        if (binary_length, binary_kind) != (len(binary), b"BIN\0"):
            raise ValueError("its second chunk is not the rest")
        (mesh,) = document["meshes"]
        (primitive,) = mesh["primitives"]
        position = document["accessors"][primitive["attributes"]["POSITION"]]
        view = document["bufferViews"][position["bufferView"]]
        begin = view.get("byteOffset", 0) + position.get("byteOffset", 0)
        points = np.frombuffer(binary, "<f4", 3 * position["count"], begin)
        if not np.isfinite(points).all() or not np.ptp(points.reshape(-1, 3), axis=0).all():
            raise ValueError("its points are no body")
        triangles = document["accessors"][primitive["indices"]]["count"] // 3
        material = document["materials"][primitive["material"]]["pbrMetallicRoughness"]
        image = document["images"][document["textures"][material["baseColorTexture"]["index"]]["source"]]
        view = document["bufferViews"][image["bufferView"]]
        begin = view.get("byteOffset", 0)
        with Image.open(io.BytesIO(binary[begin : begin + view["byteLength"]])) as picture:
            pixels = np.asarray(picture.convert("RGB"))
    except (KeyError, IndexError, TypeError, struct.error, OSError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if pixels.std() < 5:
        raise ValueError("its texture has one colour")
    return Model(triangles, (pixels.shape[1], pixels.shape[0]))
