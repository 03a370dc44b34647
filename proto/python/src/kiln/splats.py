"""Gaussians as TRELLIS and SAM 3D Objects hold them → a PLY of splats, as the reference code of 3D Gaussian splatting writes it.

| | what it is | in the PLY |
|---|---|---|
| `get_xyz` | [N, 3], centres | x, y, z |
| `get_scaling` | [N, 3], standard deviations | scale_0 …: their logarithms |
| `get_rotation` | [N, 4], quaternions w, x, y, z of any length but 0 | rot_0 … |
| `get_opacity` | [N, 1], 0 to 1 | opacity: its logit |
| `_features_dc` | [N, 1, 3], constant harmonics | f_dc_0 … |
| `_features_rest` | [N, K, 3], the others, or None | f_rest_0 …: all of red, then of green, then of blue |

These are the fields after their activations and biases, as their own renderers take them. Tensors are taken as `kiln.arrays` takes
them; torch is not imported.
"""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

from .arrays import as_numpy

_FIELDS = ("get_xyz", "get_scaling", "get_rotation", "get_opacity", "_features_dc")
#: Nearest opacity to 0 and 1 whose logit is a number.
_EDGE = 1e-7


def are_in(value: Any) -> bool:
    """Whether it has the fields of these classes."""
    return all(hasattr(value, name) for name in _FIELDS)


def ply(gaussians: Any) -> bytes:
    """See the head of this module."""
    centres = _rows(gaussians, "get_xyz", None)
    count = len(centres)
    if centres.shape[1] != 3 or not count:
        raise ValueError(f"get_xyz must be [N, 3], not {list(centres.shape)}")
    with np.errstate(divide="ignore", invalid="ignore"):
        scales = np.log(_rows(gaussians, "get_scaling", count, 3))
        opacity = np.clip(_rows(gaussians, "get_opacity", count, 1), _EDGE, 1 - _EDGE)
        opacity = np.log(opacity / (1 - opacity))
    columns: Dict[str, np.ndarray] = {}

    def add(name: str, values: np.ndarray) -> None:
        columns.update({f"{name}_{k}": values[:, k] for k in range(values.shape[1])})

    columns.update(zip("xyz", centres.T))
    add("f_dc", _rows(gaussians, "_features_dc", count, 3))
    rest = getattr(gaussians, "_features_rest", None)
    if rest is not None and as_numpy(rest).size:
        coefficients = as_numpy(rest)
        if coefficients.ndim != 3 or coefficients.shape[0] != count or coefficients.shape[2] != 3:
            raise ValueError(f"_features_rest must be [{count}, K, 3], not {list(coefficients.shape)}")
        add("f_rest", coefficients.transpose(0, 2, 1).reshape(count, -1))
    columns["opacity"] = opacity[:, 0]
    add("scale", scales)
    add("rot", _rows(gaussians, "get_rotation", count, 4))
    table = np.empty((count, len(columns)), dtype="<f4")
    for k, values in enumerate(columns.values()):
        table[:, k] = values
    properties = "".join(f"property float {name}\n" for name in columns)
    header = f"ply\nformat binary_little_endian 1.0\nelement vertex {count}\n{properties}end_header\n"
    return header.encode() + table.tobytes()


def _rows(gaussians: Any, name: str, count: Any, width: Any = None) -> np.ndarray:
    """A field as doubles, [count, width]."""
    given = as_numpy(getattr(gaussians, name))
    rows = given.reshape(len(given), -1).astype(np.float64) if given.ndim else given.reshape(0, 0)
    if (count is not None and len(rows) != count) or (width is not None and rows.shape[1] != width):
        raise ValueError(f"{name} must be [{count}, {width}], not {list(given.shape)}")
    return rows
