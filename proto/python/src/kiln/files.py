"""Paths that a user names → the files that belong to a job, each under the name by which the sidecar opens it.

Files are those that `kiln submit` sends: the buffers of a glTF; the pictures, masks and channels in the frames of a
transforms.json; the cameras of a COLMAP model and the pictures in its `images` and `masks`; the planes of an unpacked SOG. A
missing file is left out, and the job says so. A file that lies outside of its folder, also by a link, is not sent: whoever
wrote the list could read any file by it.
"""

from __future__ import annotations

import json
import os
import re
import struct
import urllib.parse
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union

Path = Union[str, "os.PathLike[str]"]

_PICTURES = (".png", ".jpg", ".jpeg", ".webp")
#: Of pictures that a list names with their endings.
_FURTHER = (".tif", ".tiff", ".bmp", ".pnm", ".ppm", ".pgm", ".exr", ".hdr")
_LISTS = ("transforms.json", "transforms_train.json")
#: Where a project's COLMAP model may lie, and how far above it its `images`.
_WITHIN = ("", "0", "sparse/0", "sparse", "colmap/sparse/0", "colmap/sparse", "dense/0/sparse", "dense/sparse")
_ABOVE = 3


class Source(NamedTuple):
    """The file that a user named, and all that belongs to it: bytes, or the path where they are."""

    main: str
    files: Mapping[str, Union[bytes, str]]


def mesh(path: Path) -> Source:
    """A mesh, or splats alone; of an unpacked SOG its folder will do."""
    path = _there(path, ("meta.json",))
    return _named(path, ((name,) for name in _parts(path)))


def views(path: Path, images: Optional[Path] = None) -> Source:
    """A list of views, or the folder around one; a COLMAP model, whose pictures may lie in `images`; safetensors or splats."""
    path = os.fspath(path)
    models = [os.path.join(within, f"images.{ending}") for within in _WITHIN for ending in ("bin", "txt")]
    path = _there(path, [*models, *_LISTS] if images is not None else [*_LISTS, *models, "meta.json"])
    folder, main = os.path.split(path)
    if re.fullmatch(r"(images|cameras|points3D|frames|rigs)\.(bin|txt)", main):
        ending = main.rpartition(".")[2]
        return _model(folder, ending, images)
    if images is not None:
        raise ValueError(f"images= is for a COLMAP model, which {path} is not: it names its pictures itself")
    if main == "meta.json" or not main.endswith(".json"):
        return _named(path, ((name,) for name in _parts(path)))
    return _named(path, _frames(path))


def _there(path: Path, within: Iterable[str]) -> str:
    """The path itself; for a folder, the first of these files in it."""
    path = os.fspath(path)
    if not os.path.isdir(path):
        os.stat(path)
        return path
    for name in within:
        if os.path.isfile(os.path.join(path, name)):
            return os.path.join(path, name)
    raise FileNotFoundError(f"no file for a job is in this folder (a transforms.json, a COLMAP model, an unpacked SOG): {path}")


def _parts(path: str) -> List[str]:
    """Names in a glTF or the list of a SOG."""
    ending = path.lower().rpartition(".")[2]
    if ending == "glb":
        with open(path, "rb") as file:
            head = file.read(20)
            document = file.read(struct.unpack_from("<I", head, 12)[0]) if len(head) == 20 and head[:4] == b"glTF" else b""
    elif ending == "gltf" or os.path.basename(path) == "meta.json":
        with open(path, "rb") as file:
            document = file.read()
    else:
        return []
    value = _parsed(document)
    uris = [buffer.get("uri") for buffer in _objects(value.get("buffers"))]
    planes = [name for part in _objects([*value.values()]) for name in part.get("files") or []]
    named = [urllib.parse.unquote(uri) for uri in uris if isinstance(uri, str) and not uri.startswith("data:") and "://" not in uri]
    return named + [name for name in planes if isinstance(name, str)]


def _frames(path: str) -> Iterator[Tuple[str, ...]]:
    """The names that each picture of a transforms.json may have."""
    with open(path, "rb") as file:
        document = _parsed(file.read())
    yield ("dataparser_transforms.json",)
    frames = _objects(document.get("frames"))
    for frame in [document, *frames]:
        channels = frame.get("channels")
        named = [frame.get("file_path"), frame.get("mask_path"), *(channels.values() if isinstance(channels, dict) else ())]
        for name in named:
            if isinstance(name, str) and name:
                yield (name, *(name + ending for ending in _PICTURES))
                yield _masks(name)


def _masks(name: str) -> Tuple[str, ...]:
    """Masks that are found beside a picture without being named."""
    folder, file = name[: name.rfind("/") + 1], name[name.rfind("/") + 1 :]
    stem = file.rpartition(".")[0] or file
    beside = [f"{folder}dynamic_mask_{stem}.png", f"{folder}{stem}.alpha.png", f"{folder}{stem}.mask.png"]
    if "images" in folder:
        beside += [folder.replace("images", "masks", 1) + each for each in (f"{file}.png", f"{stem}.png")]
    return tuple(beside)


def _model(folder: str, ending: str, images: Optional[Path]) -> Source:
    """A COLMAP model."""
    files = {name: os.path.join(folder, name) for name in (f"images.{ending}", f"cameras.{ending}")}
    if images is None:
        above = [os.path.join(os.path.abspath(folder), *[os.pardir] * up) for up in range(_ABOVE + 1)]
        images = next((place for place in (os.path.join(up, "images") for up in above) if os.path.isdir(place)), None)
        if images is None:
            raise FileNotFoundError(f"no folder images is beside the COLMAP model or above it: images= names it: {folder}")
    pictures = os.path.abspath(os.fspath(images))
    for place, name in ((pictures, "images"), (os.path.join(os.path.dirname(pictures), "masks"), "masks")):
        for inner, _, names in os.walk(place):
            within = os.path.relpath(inner, place).replace(os.sep, "/")
            for each in names:
                if each.lower().endswith((*_PICTURES, *_FURTHER)):
                    path = os.path.join(inner, each)
                    if _beneath(path, [place]):
                        files["/".join(part for part in (name, within, each) if part != ".")] = path
    return Source(f"images.{ending}", {name: path for name, path in files.items() if os.path.isfile(path)})


def _named(path: str, names: Iterable[Tuple[str, ...]]) -> Source:
    """A file, and the first of each tuple of names that is there."""
    folder, main = os.path.split(path)
    # In a cache of downloads the file is a link, and those beside it lead to the same folder.
    tops = [os.path.realpath(folder or os.curdir), os.path.dirname(os.path.realpath(path))]
    files: Dict[str, Union[bytes, str]] = {main: path}
    for candidates in names:
        for name in candidates:
            place = os.path.join(folder, name)
            if not os.path.isfile(place):
                continue
            parts = [part for part in name.split("/") if part not in ("", ".")]
            if os.path.isabs(name) or ".." in parts:
                raise ValueError(f"{path} names {name}: a file that is not beneath its folder cannot be sent")
            if _beneath(place, tops):
                files.setdefault("/".join(parts), place)
            break
    return Source(main, files)


def _beneath(path: str, tops: Iterable[str]) -> bool:
    real = os.path.realpath(path)
    return any(real.startswith(os.path.join(os.path.realpath(top), "")) for top in tops)


def _parsed(document: bytes) -> Dict[str, Any]:
    """A broken file names nothing: the job says what is wrong with it."""
    try:
        value = json.loads(document.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> List[Dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
