"""What the tests share: the program to test, a torch-like tensor, a PNG writer, and a scene whose every colour is known."""

from __future__ import annotations

import atexit
import os
import shutil
import struct
import tempfile
import zlib
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]


def isolate() -> None:
    """No test finds a sidecar of the user's, or leaves a folder behind: all goes to folders of this run."""
    program = Path(os.environ.setdefault("KILN_BIN", str(ROOT / "target/release/kiln")))
    if not program.exists():
        raise FileNotFoundError(f"{program} is missing: cargo build --release --workspace --bins, or set KILN_BIN")
    os.environ.pop("KILN_SOCKET", None)
    if "KILN_TEST_FOLDER" not in os.environ:
        folder = tempfile.mkdtemp(prefix="kt-")
        os.environ["KILN_TEST_FOLDER"] = folder
        # Before the package registers its own: handlers run in the opposite order.
        owner = os.getpid()
        atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    os.environ["XDG_RUNTIME_DIR"] = os.environ["TMPDIR"] = tempfile.tempdir = os.environ["KILN_TEST_FOLDER"]


class Tensor:
    """What a tensor of torch on a GPU with gradients is to this package: numpy only through detach().cpu().numpy()."""

    def __init__(self, array, detached=False, on_cpu=False):
        self._array, self._detached, self._on_cpu = np.asarray(array), detached, on_cpu

    @property
    def dtype(self):
        return f"torch.{self._array.dtype}"

    def detach(self):
        return Tensor(self._array, True, self._on_cpu)

    def cpu(self):
        return Tensor(self._array, self._detached, True)

    def numpy(self):
        if not (self._detached and self._on_cpu):
            raise RuntimeError("can't convert this tensor to numpy")
        return self._array

    def __array__(self, *_, **__):
        raise TypeError("can't convert cuda tensor to numpy")


def write_png(pixels: np.ndarray, filters=None, parts: int = 1) -> bytes:
    """The specification's filters byte by byte, `filters[y]` for row y; the data in `parts` chunks."""
    height, width, channels = pixels.shape
    flat = pixels.reshape(height, -1).astype(int)
    rows = bytearray()
    for y in range(height):
        kind = filters[y] if filters is not None else 0
        rows.append(kind)
        for x in range(flat.shape[1]):
            a = flat[y, x - channels] if x >= channels else 0
            b = flat[y - 1, x] if y else 0
            c = flat[y - 1, x - channels] if y and x >= channels else 0
            p = a + b - c
            nearest = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            guess = (0, a, b, (a + b) // 2, nearest)[kind] if kind < 5 else 0
            rows.append((flat[y, x] - guess) % 256)
    data = zlib.compress(bytes(rows))
    cuts = [len(data) * part // parts for part in range(parts + 1)]

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, {3: 2, 4: 6}[channels], 0, 0, 0)
    body = b"".join(chunk(b"IDAT", data[begin:end]) for begin, end in zip(cuts, cuts[1:]))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"tEXt", b"Comment\0x") + body + chunk(b"IEND", b"")


#: Half the edges of the box: none is like another, so that no turned axis goes unnoticed.
HALF = np.array([0.5, 0.35, 0.25])
#: Charts of the six sides: lower left corners of cells of a third by a half, with a margin.
_MARGIN = 0.02


def box():
    """Vertices, faces and uvs of a box with a chart for each side; v runs up."""
    vertices, faces, uvs = [], [], []
    for side in range(6):
        for corner in ((0, 0), (1, 0), (1, 1), (0, 1)):
            s, t = (np.array(corner) * 2 - 1).astype(float)
            vertices.append(side_point(side, s, t))
            uvs.append(side_uv(side, s, t))
        base = 4 * side
        order = [[0, 1, 2], [0, 2, 3]] if side % 2 == 0 else [[0, 2, 1], [0, 3, 2]]
        faces += [[base + index for index in face] for face in order]
    return np.array(vertices, np.float32), np.array(faces, np.int64), np.array(uvs, np.float32)


def side_point(side: int, s, t) -> np.ndarray:
    """Where (s, t), each -1 to 1, of a side lies; axes follow each other, so that the first order of corners faces outwards."""
    axis, sign = side // 2, 1.0 if side % 2 == 0 else -1.0
    point = np.empty(3)
    point[axis], point[(axis + 1) % 3], point[(axis + 2) % 3] = sign, s, t
    return point * HALF


def side_uv(side: int, s, t):
    u = (side % 3 + _MARGIN + (s + 1) / 2 * (1 - 2 * _MARGIN)) / 3
    v = (side // 3 + _MARGIN + (t + 1) / 2 * (1 - 2 * _MARGIN)) / 2
    return u, v


def colour(u, v) -> np.ndarray:
    """0 to 1, smooth, and like nothing of itself turned or mirrored."""
    return np.stack([0.15 + 0.7 * u, 0.15 + 0.7 * v, 0.45 + 0.3 * np.sin(9 * u + 5 * v)], axis=-1)


def true_texture(size: int):
    """As TRELLIS returns it, row 0 at v = 1; and which texels lie well inside a chart."""
    u, v = np.meshgrid((np.arange(size) + 0.5) / size, 1 - (np.arange(size) + 0.5) / size)
    inner = np.minimum(np.abs(u * 3 % 1 - 0.5), 1) < 0.5 - 2 * _MARGIN
    inner &= np.abs(v * 2 % 1 - 0.5) < 0.5 - 2 * _MARGIN
    return np.round(colour(u, v) * 255).astype(np.uint8), inner


def cameras(count: int):
    """As TRELLIS's render_multiview: OpenCV world → camera, and intrinsics in units of the picture."""
    extrinsics, intrinsics = [], []
    focal = 0.5 / np.tan(np.radians(40) / 2)
    for index in range(count):
        yaw, pitch = 2.4 * index, np.arcsin(2 * (index + 0.5) / count - 1)
        eye = 2 * np.array([np.sin(yaw) * np.cos(pitch), np.cos(yaw) * np.cos(pitch), np.sin(pitch)])
        forward = -eye / 2
        right = np.cross(forward, [0, 0, 1.0])
        right /= np.linalg.norm(right)
        turn = np.stack([right, np.cross(forward, right), forward])
        extrinsic = np.eye(4, dtype=np.float32)
        extrinsic[:3, :3], extrinsic[:3, 3] = turn, -turn @ eye
        extrinsics.append(extrinsic)
        intrinsics.append(np.array([[focal, 0, 0.5], [0, focal, 0.5], [0, 0, 1]], np.float32))
    return extrinsics, intrinsics


def photographs(extrinsics, intrinsics, size: int, samples: int = 3):
    """Pictures of the box on black, uint8 [H, W, 3], and their masks: each pixel the mean of samples squared rays."""
    pictures, masks = [], []
    fine = size * samples
    grid = (np.arange(fine) + 0.5) / fine
    x, y = np.meshgrid(grid, grid)
    for extrinsic, intrinsic in zip(extrinsics, intrinsics):
        turn, shift = extrinsic[:3, :3].astype(float), extrinsic[:3, 3].astype(float)
        eye = -turn.T @ shift
        focal, centre = intrinsic[[0, 1], [0, 1]], intrinsic[:2, 2]
        local = np.stack([(x - centre[0]) / focal[0], (y - centre[1]) / focal[1], np.ones_like(x)], axis=-1)
        rays = local @ turn
        with np.errstate(divide="ignore"):
            slabs = np.sort(np.stack([(-HALF - eye) / rays, (HALF - eye) / rays]), axis=0)
        enter, leave = slabs[0].max(axis=-1), slabs[1].min(axis=-1)
        hit = enter < leave
        axis = slabs[0].argmax(axis=-1)
        point = (eye + rays * np.where(hit, enter, 0)[..., None]) / HALF
        picture = np.zeros((fine, fine, 3))
        for side in range(6):
            sign = 1 if side % 2 == 0 else -1
            seen = hit & (axis == side // 2) & (np.sign(point[..., side // 2]) == sign)
            s, t = point[..., (side // 2 + 1) % 3][seen], point[..., (side // 2 + 2) % 3][seen]
            picture[seen] = colour(*side_uv(side, s, t))
        small = picture.reshape(size, samples, size, samples, 3).mean(axis=(1, 3))
        cover = hit.reshape(size, samples, size, samples).mean(axis=(1, 3))
        pictures.append((small * 255).astype(np.uint8))
        # Only pixels that are all object: the others are dark by their background.
        masks.append(cover == 1)
    return pictures, masks
