"""ComfyUI's own types → a textured GLB: MESH, IMAGE and MASK batches, LOAD3D_CAMERA, SPLAT, and files as FILE_3D or paths.

| | what it holds (ComfyUI's `comfy_api`) |
|---|---|
| MESH | vertices [B, N, 3], y up; faces [B, M, 3]; vertex_counts and face_counts [B] where items are padded |
| IMAGE, MASK | [B, H, W, 3], 0 to 1; [B, H, W], 1 where the object is, as Render Splat gives it |
| LOAD3D_CAMERA | position, quaternion (looking along -z, y up) or target, fov in degrees, zoom; right-handed, y up |
| SPLAT | positions, scales, rotations (wxyz), opacities, sh [B, N, K, 3]; y **down**, so it is turned by 180° about x |

Nodes are of ComfyUI's first kind, which every version loads. Nothing of ComfyUI is imported before a node runs. The sidecar is
the environment's (`KILN_URL`, `KILN_TOKEN`, …): what is typed into a node is saved in every picture that the workflow makes.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import math
import os
import tempfile
import threading
import types
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

import kiln
from kiln import arrays, png, safetensors, splats

_FILES = ("FILE_3D_GLB", "FILE_3D_GLTF", "FILE_3D_OBJ", "FILE_3D_STL", "FILE_3D_PLY", "FILE_3D")
_SPLATS = ("SPLAT", "FILE_3D_SPLAT_ANY", "FILE_3D_PLY", "FILE_3D_SPZ", "FILE_3D_SPLAT", "FILE_3D")
#: Of cameras that do not say theirs, as Render Splat has it.
_FOV = 35.0
#: Seconds between two looks at ComfyUI's cancel button.
_POLL = 0.1
#: World → camera of OpenGL → that of OpenCV; and a splat's world → ComfyUI's, which is the same half turn about x.
_HALF_TURN = np.diag([1.0, -1.0, -1.0])
#: The signs that it gives to harmonics of degree 0 to 3, in the order of 3D Gaussian Splatting: y and z change theirs.
_SIGNS = np.array([1, -1, -1, 1, -1, 1, 1, -1, 1, -1, 1, -1, -1, 1, -1, 1], np.float32)


class View(NamedTuple):
    """uint8 [H, W, 3]; bool [H, W]; OpenCV's world → camera, 4x4; and 3x3 in units of the picture."""

    image: np.ndarray
    mask: Optional[np.ndarray]
    extrinsic: np.ndarray
    intrinsic: np.ndarray


class KilnViews:
    """Images and the camera that saw them; chained, one for each camera."""

    CATEGORY = "3d/kiln"
    FUNCTION = "views"
    RETURN_TYPES = ("KILN_VIEWS",)
    RETURN_NAMES = ("views",)
    DESCRIPTION = "Images and the camera that saw them. Chain these nodes for more cameras."

    @classmethod
    def INPUT_TYPES(cls) -> Dict[str, Any]:
        orbit = {"tooltip": "Whether a batch is a full turn about the camera's target, as Render Splat's frames are (-360: negative frames)"}
        return {
            "required": {"images": ("IMAGE",), "camera_info": ("LOAD3D_CAMERA",), "orbit": (["off", "+360", "-360"], orbit)},
            "optional": {
                "masks": ("MASK", {"tooltip": "1 where the object is. Without it, the mesh's silhouette says so"}),
                "views": ("KILN_VIEWS", {"tooltip": "Those of other cameras"}),
            },
        }

    def views(
        self, images: Any, camera_info: Dict[str, Any], orbit: str, masks: Any = None, views: Tuple[View, ...] = ()
    ) -> Tuple[Tuple[View, ...]]:
        pictures = np.round(np.clip(arrays.as_numpy(images), 0, 1) * 255).astype(np.uint8)
        shown = None if masks is None else arrays.as_numpy(masks) > 0.5
        count = len(pictures)
        if orbit == "off" and count > 1:
            raise ValueError(f"{count} images and one camera: set orbit for a turntable, or chain a node for each camera")
        if shown is not None and shown.shape != pictures.shape[:3]:
            raise ValueError(f"masks are {list(shown.shape)}, and images {list(pictures.shape[:3])}")
        made = list(views)
        for index, picture in enumerate(pictures):
            turn = float(orbit) * index / count if orbit != "off" else 0.0
            matrices = camera(camera_info, picture.shape[1], picture.shape[0], math.radians(turn))
            made.append(View(picture[..., :3], None if shown is None else shown[index], *matrices))
        return (tuple(made),)


class KilnBake:
    """A mesh and views, or splats alone → a textured GLB, in ComfyUI's output folder."""

    CATEGORY = "3d/kiln"
    FUNCTION = "bake"
    OUTPUT_NODE = True
    RETURN_TYPES = ("FILE_3D_GLB", "STRING", "FLOAT", "IMAGE")
    RETURN_NAMES = ("model_3d", "model_file", "psnr", "preview")
    DESCRIPTION = "Bakes a texture onto a mesh from views or Gaussian splats; without a mesh, onto the surface that splats show."

    @classmethod
    def INPUT_TYPES(cls) -> Dict[str, Any]:
        path = {"default": "", "widgetType": "STRING"}
        sources = {**path, "tooltip": "Kiln: Views, splats, or the path of a transforms.json, a COLMAP model or splats"}
        shapes = {**path, "tooltip": "A mesh, or the path of one. Empty: splats alone"}
        size = {"default": 2048, "min": 256, "max": 8192, "step": 4}
        simplify = {"default": 0.0, "min": 0.0, "max": 0.99, "step": 0.01, "tooltip": "Share of the faces to remove"}
        return {
            "required": {
                "views": (",".join(("STRING", "KILN_VIEWS", *_SPLATS)), sources),
                "texture_size": ("INT", size),
                "quality": (["draft", "standard", "best"], {"default": "standard"}),
                "simplify": ("FLOAT", simplify),
                "up": (["y", "z", "-y"], {"tooltip": "Where the mesh's and the views' up is; MESH and SPLAT are y"}),
                "filename_prefix": ("STRING", {"default": "3d/kiln"}),
            },
            "optional": {"mesh": (",".join(("STRING", "MESH", *_FILES)), shapes)},
        }

    @classmethod
    def IS_CHANGED(cls, views: Any = "", mesh: Any = "", **_: Any) -> List[float]:
        """Files may change where their names do not."""
        paths = [_path(value) for value in (views, mesh) if isinstance(value, str) and value]
        return [os.stat(path).st_mtime if os.path.exists(path) else -1.0 for path in paths]

    def bake(
        self, views: Any, texture_size: int, quality: str, simplify: float, up: str, filename_prefix: str, mesh: Any = ""
    ) -> Dict[str, Any]:
        options: Dict[str, Any] = {"texture_size": texture_size, "quality": quality, "up": up, "preview": True}
        if simplify:
            options["simplify"] = simplify
        with tempfile.TemporaryDirectory(prefix="kiln-comfyui-") as folder:
            shape, seen = mesh_file(mesh, folder), views_file(views, folder)
            if seen is None:
                raise ValueError("views are needed: connect Kiln: Views or splats, or name a file")
            glb = bake(shape or seen, seen if shape else None, options)
        for text in glb.warnings:
            logging.warning("Kiln: %s", text)
        paths = importlib.import_module("folder_paths")
        output, name, counter, subfolder, _ = paths.get_save_image_path(filename_prefix, paths.get_output_directory())
        file = f"{name}_{counter:05}_.glb"
        glb.export(os.path.join(output, file))
        sheet = png.decode(glb.preview or b"")[None, ..., :3].astype(np.float32) / 255
        image = importlib.import_module("torch").from_numpy(sheet)
        psnr = math.nan if glb.psnr is None else glb.psnr
        model = _file_3d(os.path.join(output, file))
        shown = {"3d": [{"filename": file, "subfolder": subfolder, "type": "output"}]}
        return {"ui": shown, "result": (model, os.path.join(subfolder, file), psnr, image)}


NODE_CLASS_MAPPINGS = {"KilnViews": KilnViews, "KilnBake": KilnBake}
NODE_DISPLAY_NAME_MAPPINGS = {"KilnViews": "Kiln: Views", "KilnBake": "Kiln: Bake Texture"}


def camera(info: Dict[str, Any], width: int, height: int, turn: float = 0.0) -> Tuple[np.ndarray, np.ndarray]:
    """A camera_info, moved by `turn` about the vertical through its target, as a view's two matrices. Its angle is that of the
    picture's shorter side, as Render Splat has it."""
    if str(info.get("cameraType", "")).lower().startswith("ortho"):
        raise ValueError("the camera is orthographic: Kiln takes perspective cameras alone")

    def vector(name: str) -> np.ndarray:
        return np.array([float((info.get(name) or {}).get(axis, 0.0)) for axis in "xyz"])

    eye, target = vector("position"), vector("target")
    axes = _rotation(info["quaternion"]) if info.get("quaternion") else _look(eye - target)
    cosine, sine = math.cos(turn), math.sin(turn)
    around = np.array([[cosine, 0, sine], [0, 1, 0], [-sine, 0, cosine]])
    eye, axes = target + around @ (eye - target), around @ axes
    extrinsic = np.eye(4)
    extrinsic[:3, :3] = _HALF_TURN @ axes.T
    extrinsic[:3, 3] = -extrinsic[:3, :3] @ eye
    angle = math.radians(float(info.get("fov") or _FOV))
    focal = min(width, height) / 2 / math.tan(angle / 2) * float(info.get("zoom") or 1.0)
    return extrinsic, np.array([[focal / width, 0, 0.5], [0, focal / height, 0.5], [0, 0, 1]])


def _rotation(quaternion: Dict[str, float]) -> np.ndarray:
    """Its columns are the camera's right, up and back."""
    w, x, y, z = np.array([float(quaternion[name]) for name in "wxyz"]) / math.hypot(*(float(quaternion[name]) for name in "wxyz"))
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _look(back: np.ndarray) -> np.ndarray:
    """The same of a camera that stands upright, as three.js makes it."""
    back = back / np.linalg.norm(back)
    right = np.cross([0, 1, 0] if abs(back[1]) < 0.999 else [0, 0, 1], back)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(back, right), back], axis=1)


def mesh_file(mesh: Any, folder: str) -> Optional[str]:
    """A MESH, a File3D or a path as a file; None for nothing."""
    if hasattr(mesh, "vertices") and hasattr(mesh, "faces"):
        vertices = _only("mesh", mesh.vertices, getattr(mesh, "vertex_counts", None))
        faces = _only("mesh", mesh.faces, getattr(mesh, "face_counts", None))
        return _write(os.path.join(folder, "mesh.safetensors"), arrays.mesh(vertices, faces))
    return _file(mesh, os.path.join(folder, "mesh"))


def views_file(views: Any, folder: str) -> Optional[str]:
    """Views, a SPLAT, a File3D or a path as a file; None for nothing."""
    if isinstance(views, tuple):
        masks = [view.mask for view in views if view.mask is not None]
        if masks and len(masks) != len(views):
            raise ValueError(f"{len(masks)} of {len(views)} views have a mask: give one to each, or to none")
        tensors: Dict[str, safetensors.Tensor] = {
            "observations": [view.image for view in views],
            "extrinsics": np.stack([view.extrinsic for view in views]),
            "intrinsics": np.stack([view.intrinsic for view in views]),
        }
        return _write(os.path.join(folder, "views.safetensors"), {**tensors, "masks": masks} if masks else tensors)
    if hasattr(views, "positions") and hasattr(views, "sh"):
        path = os.path.join(folder, "splats.ply")
        with open(path, "wb") as file:
            file.write(splats.ply(upright(views)))
        return path
    return _file(views, os.path.join(folder, "splats"))


def upright(splat: Any) -> types.SimpleNamespace:
    """A SPLAT in the y-up world of ComfyUI's meshes and cameras, with the fields that `kiln.splats` takes."""
    counts = getattr(splat, "counts", None)
    w, x, y, z = _only("splat", splat.rotations, counts).T
    harmonics = _only("splat", splat.sh, counts)
    harmonics = harmonics * _SIGNS[: harmonics.shape[1], None]
    return types.SimpleNamespace(
        get_xyz=_only("splat", splat.positions, counts) @ _HALF_TURN,
        get_scaling=_only("splat", splat.scales, counts),
        get_rotation=np.stack([-x, w, -z, y], axis=1),
        get_opacity=_only("splat", splat.opacities, counts),
        _features_dc=harmonics[:, :1],
        _features_rest=harmonics[:, 1:],
    )


def _only(name: str, batch: Any, counts: Any) -> np.ndarray:
    """The one item of a batch, without the zeros that fill it up."""
    items = arrays.as_numpy(batch)
    if len(items) != 1:
        raise ValueError(f"{name} is a batch of {len(items)}: Kiln bakes one at a time")
    count = None if counts is None else int(arrays.as_numpy(counts)[0])
    return np.asarray(items[0][:count])


def _file(value: Any, stem: str) -> Optional[str]:
    """Where a File3D lies: in its own place, beside what belongs to it, if it has one."""
    if isinstance(value, str):
        return _path(value) if value else None
    if not hasattr(value, "get_source"):
        raise TypeError(f"this is neither a file nor what Kiln bakes of: {type(value).__name__}")
    source = value.get_source()
    return source if isinstance(source, str) else str(value.save_to(f"{stem}.{value.format}"))


def _path(text: str) -> str:
    """A path, as Load 3D Model has it, is one in ComfyUI's input folder unless it begins at the root."""
    path = os.path.expanduser(text.strip())
    return path if os.path.isabs(path) else str(importlib.import_module("folder_paths").get_annotated_filepath(path))


def _write(path: str, tensors: Dict[str, safetensors.Tensor]) -> str:
    with open(path, "wb") as file:
        for part in safetensors.encode(tensors, arrays.METADATA):
            file.write(part)
    return path


def bake(mesh: str, views: Optional[str], options: Dict[str, Any]) -> kiln.Glb:
    """`kiln.bake`, with ComfyUI's progress bar, and ended by its cancel button."""
    # They are logged of the finished result (`Glb.warnings`).
    warnings.filterwarnings("ignore", category=kiln.KilnWarning)
    advance, interrupted = _host()
    share = 0.0

    def hear(done: float, _: str) -> None:
        nonlocal share
        share = done

    # ComfyUI's own thread runs a loop already; and its bar and button are for that thread.
    loop = asyncio.new_event_loop()
    task = loop.create_task(kiln.abake(mesh, views, progress=hear, **options))

    def run() -> None:
        loop.run_until_complete(asyncio.wait([task]))
        loop.close()

    thread = threading.Thread(target=run, name="kiln", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_POLL)
            interrupted()
            advance(share)
    except BaseException:
        with contextlib.suppress(RuntimeError):  # It ended meanwhile.
            loop.call_soon_threadsafe(task.cancel)
        raise
    return task.result()


def _host() -> Tuple[Callable[[float], object], Callable[[], object]]:
    """What tells ComfyUI of the share that is done, and what raises once its user cancels."""
    try:
        bar = importlib.import_module("comfy.utils").ProgressBar(100)
        management = importlib.import_module("comfy.model_management")
    except ImportError:
        return (lambda _: None), (lambda: None)
    return (lambda share: bar.update_absolute(round(100 * share), 100)), management.throw_exception_if_processing_interrupted


def _file_3d(path: str) -> Any:
    """ComfyUI's own class for files; their path, in versions that have none."""
    try:
        return importlib.import_module("comfy_api.latest").Types.File3D(path)
    except (ImportError, AttributeError):
        return path
