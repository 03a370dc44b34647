"""The sample of this repository → what a pipeline of TRELLIS hands over: a mesh, z up, and views of it as arrays."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List, Tuple

import numpy as np
from PIL import Image

SPOT = Path(__file__).resolve().parents[1] / "data/spot"
#: Of TRELLIS: z up. Of glTF: y up. (x, y, z) there is (x, z, -y) here.
_Y_UP = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]], dtype=np.float64)


def spot(edge: int = 128) -> SimpleNamespace:
    """`vertices`, `faces`, `uvs`, `observations`, `masks`, `extrinsics`, `intrinsics`: the arguments of `bake_texture`."""
    attributes, faces = _mesh(SPOT / "mesh_uv.glb")
    uvs = attributes["TEXCOORD_0"].copy()
    uvs[:, 1] = 1 - uvs[:, 1]  # glTF's v runs down.
    views = json.loads((SPOT / "transforms.json").read_text())
    observations, masks = zip(*(_picture(SPOT / frame["file_path"], edge) for frame in views["frames"]))
    turned = np.eye(4)
    turned[:3, :3] = _Y_UP
    # OpenGL's cameras look along -z with y up, OpenCV's along z with y down.
    poses = [np.array(frame["transform_matrix"]) @ np.diag([1, -1, -1, 1]) for frame in views["frames"]]
    focal = views["fl_x"] / views["w"]
    return SimpleNamespace(
        vertices=np.asarray(attributes["POSITION"] @ _Y_UP, dtype=np.float32),
        faces=faces,
        uvs=uvs,
        observations=list(observations),
        masks=list(masks),
        extrinsics=[np.asarray(np.linalg.inv(pose) @ turned, dtype=np.float32) for pose in poses],
        intrinsics=[np.array([[focal, 0, 0.5], [0, focal, 0.5], [0, 0, 1]], dtype=np.float32) for _ in poses],
    )


def y_up(vertices: np.ndarray) -> np.ndarray:
    """As TRELLIS turns its meshes when it writes them."""
    return vertices @ _Y_UP.T


def _picture(path: Path, edge: int) -> Tuple[np.ndarray, np.ndarray]:
    """On black, and where it shows nothing but the object."""
    with Image.open(path) as image:
        pixels = np.asarray(image.resize((edge, edge), Image.Resampling.BOX))
    mask = pixels[..., 3] == 255
    return np.ascontiguousarray(pixels[..., :3] * mask[..., None]), mask


def _mesh(path: Path) -> Tuple[Dict[str, np.ndarray], np.ndarray]:
    """Attributes and triangles of the one primitive of a GLB."""
    file = path.read_bytes()
    (length,) = struct.unpack_from("<I", file, 12)
    document, binary = json.loads(file[20 : 20 + length]), file[28 + length :]
    (primitive,) = document["meshes"][0]["primitives"]
    read: List[np.ndarray] = []
    for accessor in document["accessors"]:
        view: Dict[str, Any] = document["bufferViews"][accessor["bufferView"]]
        dtype = np.dtype({5126: "<f4", 5125: "<u4", 5123: "<u2"}[accessor["componentType"]])
        width = {"SCALAR": 1, "VEC2": 2, "VEC3": 3}[accessor["type"]]
        begin = view.get("byteOffset", 0) + accessor.get("byteOffset", 0)
        read.append(np.frombuffer(binary, dtype, accessor["count"] * width, begin).reshape(-1, width))
    return {name: read[index] for name, index in primitive["attributes"].items()}, read[primitive["indices"]].reshape(-1, 3).astype(np.int64)
