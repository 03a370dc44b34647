"""What the add-on does without Blender: cameras and their pictures → a folder of views; a bake that runs beside the window.

Blender's camera looks along -Z with Y up, as OpenGL's, which is what a transforms.json holds. Lens, sensor fit, shift and pixel
aspect are taken from the projection that Blender itself computes of them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import shutil
import threading
import urllib.parse
import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import kiln

Rows = Sequence[Sequence[float]]

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", ".exr", ".hdr")
#: By how much the sides of a picture may be rounded differently from those of the render.
_ASPECT = 0.01


class Camera(NamedTuple):
    """A camera of the scene: `projection` for a picture of `size` (`Object.calc_matrix_camera`), `world` camera → world."""

    name: str
    projection: Rows
    world: Rows
    picture: str
    size: Tuple[int, int]


def frame(camera: Camera) -> Dict[str, Any]:
    """Its entry of a transforms.json, without the picture."""
    (x, skew, right, _), (_, y, up, _), _, last = camera.projection
    if [round(value, 6) for value in last] != [0, 0, -1, 0] or abs(skew) > 1e-6:
        raise ValueError(f"{camera.name} is no perspective camera: Kiln takes those alone")
    width, height = camera.size
    return {
        "transform_matrix": [list(row) for row in camera.world],
        "w": width,
        "h": height,
        "fl_x": x * width / 2,
        "fl_y": y * height / 2,
        # A shift to the right moves what is in the middle of the lens to the left, and the picture's rows run down.
        "cx": (1 - right) * width / 2,
        "cy": (1 + up) * height / 2,
    }


def check_aspect(picture: str, size: Tuple[int, int], render: Tuple[float, float]) -> None:
    """A picture of other proportions is not one that this camera saw."""
    if not size[0] or not size[1]:
        raise ValueError(f"{picture} cannot be read")
    if abs(size[0] * render[1] / (size[1] * render[0]) - 1) > _ASPECT:
        raise ValueError(
            f"{picture} has {size[0]}x{size[1]} pixels, and the scene renders {render[0]:g}x{render[1]:g}: give it the pictures' resolution"
        )


def find_picture(folder: str, name: str) -> Optional[str]:
    """The picture that is named as its camera."""
    places = (os.path.join(folder, name + ending) for ending in PICTURES)
    return next((place for place in places if os.path.isfile(place)), None)


def write_views(folder: str, cameras: Sequence[Camera]) -> str:
    """A transforms.json with copies of the pictures: the client sends files from beneath one folder alone."""
    frames = []
    for index, camera in enumerate(cameras):
        name = f"{index:04}{os.path.splitext(camera.picture)[1].lower()}"
        entry = frame(camera)
        shutil.copyfile(camera.picture, os.path.join(folder, name))
        frames.append({"file_path": name, **entry})
    path = os.path.join(folder, "transforms.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"frames": frames}, file)
    return path


def is_here(url: str) -> bool:
    """Whether an address is of this machine, for which Blender asks no leave to go online."""
    host = urllib.parse.urlsplit(url).hostname if "://" in url else "localhost"
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


class Job(threading.Thread):
    """`kiln.bake` on a thread of its own. `glb` or `error` is there once it is no longer alive."""

    def __init__(self, mesh: str, views: str, client: Optional[kiln.Client], options: Dict[str, Any]) -> None:
        super().__init__(name="kiln", daemon=True)
        self._arguments = (mesh, views)
        self._keywords = {**options, "client": client, "progress": self._hear}
        self._loop = asyncio.new_event_loop()
        self._task: Optional["asyncio.Task[kiln.Glb]"] = None
        self._cancelled = False
        self.progress: Tuple[float, str] = (0.0, "queued")
        self.glb: Optional[kiln.Glb] = None
        self.error: Optional[BaseException] = None
        # They are told of the finished result (`Glb.warnings`), to the user and not on the console.
        warnings.filterwarnings("ignore", category=kiln.KilnWarning)

    def run(self) -> None:
        try:
            self.glb = self._loop.run_until_complete(self._bake())
        except (Exception, asyncio.CancelledError) as error:
            self.error = error
        finally:
            self._loop.close()

    def cancel(self) -> None:
        """Ends the bake, from any thread; the sidecar is told while nobody waits."""
        self._cancelled = True
        try:
            self._loop.call_soon_threadsafe(self._end_if_cancelled)
        except RuntimeError:
            pass  # It is over.

    def messages(self) -> List[Tuple[str, str]]:
        """What to tell of the end: Blender's kind of report, and Kiln's own line."""
        if isinstance(self.error, asyncio.CancelledError):
            return [("INFO", "the bake was cancelled")]
        if self.error is not None:
            return [("ERROR", str(self.error) or type(self.error).__name__)]
        if self.glb is None:
            return []
        psnr = self.glb.psnr
        found = "baked" if psnr is None else f"baked: {psnr:.1f} dB on the views"
        return [*(("WARNING", text) for text in self.glb.warnings), ("INFO", found)]

    async def _bake(self) -> kiln.Glb:
        self._task = asyncio.ensure_future(kiln.abake(*self._arguments, **self._keywords))
        self._end_if_cancelled()
        return await self._task

    def _end_if_cancelled(self) -> None:
        if self._cancelled and self._task is not None:
            self._task.cancel()

    def _hear(self, share: float, phase: str) -> None:
        self.progress = (share, phase)
