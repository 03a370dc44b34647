"""A finished model: its bytes, its texture, what the job told of it."""

from __future__ import annotations

import json
import os
import struct
import uuid
from typing import IO, TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple, Union

import numpy as np

from . import png

if TYPE_CHECKING:
    import trimesh

_JSON, _BIN = 0x4E4F534A, 0x004E4942


class Glb:
    """A finished model. `export` is called as that of `trimesh.Trimesh`, which TRELLIS's `to_glb` returns; `to_trimesh` makes one."""

    def __init__(self, data: bytes, job: Optional[Dict[str, Any]] = None, files: Optional[Mapping[str, bytes]] = None) -> None:
        self.data = data
        #: The job that made it, as the sidecar shows it.
        self.job: Dict[str, Any] = job or {}
        #: What else it made: `preview.png`, `report.html`, and of `maps=True` `coverage.png`, `residual.png` and `provenance.png`.
        self.files: Dict[str, bytes] = dict(files or {})

    @property
    def report(self) -> Dict[str, Any]:
        """What `kiln bake --report` writes."""
        return self.job.get("report") or {}

    @property
    def psnr(self) -> Optional[float]:
        """How well the texture explains the views, in dB: those held out if there are, else those of the fit."""
        psnr = self.report.get("psnr") or {}
        return next((float(psnr[key]) for key in ("holdout_db", "train_db") if psnr.get(key) is not None), None)

    @property
    def warnings(self) -> List[str]:
        """What the user should know; each was a `KilnWarning`, too."""
        return [str(warning.get("text", "")) for warning in self.job.get("warnings") or []]

    @property
    def preview(self) -> Optional[bytes]:
        """The contact sheet, a PNG, of a job with `preview=True`."""
        return self.files.get("preview.png")

    def export(self, file_obj: Union[str, "os.PathLike[str]", IO[bytes], None] = None, file_type: Optional[str] = None) -> bytes:
        """Writes the GLB to a path (whole, or not at all) or an open file; returns its bytes."""
        name = file_obj if isinstance(file_obj, (str, os.PathLike)) else ""
        kind = file_type or os.path.splitext(os.fspath(name))[1].lstrip(".") or "glb"
        if kind.lower() != "glb":
            raise ValueError(f"a GLB is exported as glb, not as {kind}; to_trimesh() knows other formats")
        if isinstance(file_obj, (str, os.PathLike)):
            _write_whole(os.fspath(file_obj), self.data)
        elif file_obj is not None:
            file_obj.write(self.data)
        return self.data

    def texture(self) -> np.ndarray:
        """uint8 [H, W, 3], row 0 at the top: glTF's v = 0, OpenGL's v = 1."""
        return texture(self.data)

    def to_trimesh(self) -> "trimesh.Trimesh":
        """With `.vertices`, `.faces`, `.visual`, `.apply_transform` and formats of `.export`, as TRELLIS's own result has them. Vertices
        stay one for each corner of a chart. Of several pages, see `trimesh.load_scene`."""
        import io

        try:
            import PIL  # noqa: F401 (trimesh leaves pictures out without it)
            import trimesh
        except ImportError as error:
            raise ImportError(f"{error}: pip install 'kiln-client[trimesh]' brings what to_trimesh needs") from error
        return trimesh.load_mesh(io.BytesIO(self.data), file_type="glb", process=False)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            hint = "" if name.startswith("_") else f": to_trimesh().{name} may be meant"
            raise AttributeError(f"a Glb has no {name}{hint}")


def _write_whole(path: str, data: bytes) -> None:
    """A file that is there with all of its bytes, on disk, or not at all, however many write it at once."""
    folder = os.path.dirname(path) or os.curdir
    part = os.path.join(folder, f".kiln-{uuid.uuid4().hex}.part")
    try:
        with open(part, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        try:
            os.unlink(part)
        except OSError:
            pass  # It was never made, or is in place.
        if isinstance(error, OSError) and error.filename == part:
            error.filename, error.filename2 = path, None
        raise
    if not hasattr(os, "O_DIRECTORY"):
        return
    # The name is on disk with its folder.
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def texture(file: bytes) -> np.ndarray:
    """The base colour texture of the first material."""
    document, binary = _chunks(file)
    try:
        material = document["materials"][0]["pbrMetallicRoughness"]
        source = document["textures"][material["baseColorTexture"]["index"]]["source"]
        view = document["bufferViews"][document["images"][source]["bufferView"]]
        begin = int(view.get("byteOffset", 0))
        picture = binary[begin : begin + int(view["byteLength"])]
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError("the GLB has no base colour texture") from error
    return np.ascontiguousarray(png.decode(picture)[..., :3])


def _chunks(file: bytes) -> Tuple[Dict[str, Any], bytes]:
    if len(file) < 20 or file[:4] != b"glTF":
        raise ValueError("not a GLB")
    at, document, binary = 12, None, b""
    while at + 8 <= len(file):
        length, kind = struct.unpack_from("<II", file, at)
        body = file[at + 8 : at + 8 + length]
        if kind == _JSON:
            document = json.loads(body)
        elif kind == _BIN:
            binary = body
        at += 8 + length
    if not isinstance(document, dict):
        raise ValueError("the GLB has no JSON")
    return document, binary
