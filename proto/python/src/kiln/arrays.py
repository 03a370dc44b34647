"""What callers of TRELLIS and SAM 3D Objects pass → tensors for `safetensors.encode`, checked, and without copies where they fit.

| | in | out |
|---|---|---|
| vertices, uvs | [V, 3], [V, 2] of any float | F32 as given, or F64 of vertices far from the origin; v runs up |
| faces | [F, 3] of any integer | I32, U32 or I64 |
| observations | V pictures [H, W, 3], or one array of all; uint8, or floats **0 to 255** as TRELLIS divides by 255 whatever it gets | U8, or F32 0 to 1 |
| masks | V of [H, W]; above 0 is the object | BOOL |
| extrinsics | V of 4x4: world → camera; x right, y down, z forward | F32 or F64 |
| intrinsics | V of 3x3 in units of the picture (cx = cy = 0.5 is its centre) | F32 or F64 |

Tensors of torch (also on a GPU, with gradients, or bfloat16), arrays of jax and cupy are taken by what they can do; none of
these packages is imported.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Protocol, Sequence, Union

import numpy as np

from .safetensors import Tensor


class Array(Protocol):
    """An array of numpy, jax or cupy, or a tensor of torch."""

    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...
    def __len__(self) -> int: ...


Matrix = Union[Array, Sequence[Sequence[float]]]
Matrices = Union[Array, Sequence[Matrix]]
Pictures = Union[Array, Sequence[Array]]

#: `intrinsics` are in units of the picture, not of its pixels.
METADATA = {"intrinsics": "normalized"}

#: Kiln moves a mesh to a local origin whose coordinates exceed this many times its size.
_FAR = 64.0


def pack(
    vertices: Any,
    faces: Any,
    uvs: Optional[Any],
    observations: Any,
    masks: Optional[Any],
    extrinsics: Any,
    intrinsics: Any,
) -> Dict[str, Tensor]:
    """See the head of this module."""
    tensors = mesh(vertices, faces)
    if uvs is not None:
        tensors["uvs"] = _floats("uvs", uvs, 2)
        if len(tensors["uvs"]) != len(tensors["vertices"]):
            raise ValueError(f"there are {len(tensors['uvs'])} uvs and {len(tensors['vertices'])} vertices")
    pictures = [_picture(index, view) for index, view in enumerate(_views("observations", observations))]
    _same("observations", pictures)
    if any(picture.dtype != np.uint8 for picture in pictures):
        if max(float(picture.max()) for picture in pictures) <= 1:
            raise ValueError("observations are floats of 1 at most, and must be from 0 to 255: multiply them by 255")
        pictures = [np.asarray(picture / np.float32(255), dtype=np.float32) for picture in pictures]
    tensors["observations"] = pictures
    if masks is not None:
        shown = [_mask(index, view, pictures[0].shape[:2]) for index, view in enumerate(_views("masks", masks))]
        _count("masks", shown, pictures)
        tensors["masks"] = shown
    for name, given, edge in (("extrinsics", extrinsics, 4), ("intrinsics", intrinsics, 3)):
        matrices = [_matrix(name, index, view, edge) for index, view in enumerate(_views(name, given))]
        _count(name, matrices, pictures)
        tensors[name] = np.stack(matrices)
    return tensors


def mesh(vertices: Any, faces: Any) -> Dict[str, Tensor]:
    """The first two alone."""
    return {"vertices": _vertices(vertices), "faces": _faces(faces)}


def as_numpy(value: Any) -> np.ndarray:
    """A tensor of whatever kind as a numpy array; shares memory where it can."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "detach"):
        value = value.detach()
        if hasattr(value, "resolve_conj"):
            value = value.resolve_conj().resolve_neg()
        value = value.cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()  # numpy has no such type.
        return np.asarray(value.numpy())
    if hasattr(value, "__cuda_array_interface__") and hasattr(value, "get"):
        return np.asarray(value.get())
    return np.asarray(value)


def _views(name: str, value: Any) -> List[np.ndarray]:
    if isinstance(value, (list, tuple)):
        views = [as_numpy(view) for view in value]
    else:
        whole = as_numpy(value)
        if whole.ndim == 0:
            raise ValueError(f"{name}: one of each view is needed, not a single number")
        views = list(whole)
    if not views:
        raise ValueError(f"{name} is empty")
    return views


def _floats(name: str, value: Any, width: int) -> np.ndarray:
    array = as_numpy(value)
    if array.ndim != 2 or array.shape[1] != width or not len(array):
        raise ValueError(f"{name} must be [N, {width}], not {list(array.shape)}")
    return np.asarray(array, dtype=np.float32)


def _vertices(value: Any) -> np.ndarray:
    """Far from the origin only doubles hold the shape."""
    single, array = _floats("vertices", value, 3), as_numpy(value)
    if array.dtype != np.float64 or np.abs(single).max() <= _FAR * np.ptp(single, axis=0).max():
        return single
    return np.ascontiguousarray(array)


def _faces(value: Any) -> np.ndarray:
    array = as_numpy(value)
    if array.ndim != 2 or array.shape[1] != 3 or not len(array):
        raise ValueError(f"faces must be [F, 3], not {list(array.shape)}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"faces must be integers, not {array.dtype}")
    known = (np.int32, np.uint32, np.int64)
    return array if array.dtype in known else array.astype(np.int64)


def _picture(index: int, view: np.ndarray) -> np.ndarray:
    if view.ndim != 3 or view.shape[2] != 3 or not view.size:
        raise ValueError(f"observations[{index}] must be [H, W, 3], not {list(view.shape)}")
    if view.dtype == np.uint8:
        return view
    if view.dtype.kind in "iu":
        if view.min() < 0 or view.max() > 255:
            raise ValueError(f"observations[{index}] has values outside 0 to 255")
        return view.astype(np.uint8)
    if view.dtype.kind == "f":
        return view
    raise TypeError(f"observations[{index}] must be uint8 or floats, not {view.dtype}")


def _mask(index: int, view: np.ndarray, wanted: Sequence[int]) -> np.ndarray:
    if view.shape != tuple(wanted):
        raise ValueError(f"masks[{index}] must be {list(wanted)} as its picture, not {list(view.shape)}")
    return view if view.dtype == np.bool_ else view > 0


def _matrix(name: str, index: int, view: np.ndarray, edge: int) -> np.ndarray:
    if view.shape != (edge, edge):
        raise ValueError(f"{name}[{index}] must be {edge}x{edge}, not {list(view.shape)}")
    return view if view.dtype in (np.float32, np.float64) else view.astype(np.float64)


def _same(name: str, views: Sequence[np.ndarray]) -> None:
    for index, view in enumerate(views):
        if view.shape != views[0].shape:
            raise ValueError(f"{name}[{index}] is {list(view.shape)}, and {name}[0] is {list(views[0].shape)}")


def _count(name: str, views: Sequence[np.ndarray], pictures: Sequence[np.ndarray]) -> None:
    if len(views) != len(pictures):
        raise ValueError(f"there are {len(views)} {name} and {len(pictures)} observations")
