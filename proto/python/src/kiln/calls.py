"""`bake` for files, and the calls of TRELLIS and SAM 3D Objects with the same arguments and results, done by the sidecar.

Where the latter differ: the fit is deterministic, and its smoothing found from the views, so `lambda_tv` changes nothing; `near` and
`far` clip nothing; `mode='fast'` is a quicker fit of the same kind. Texels that no view sees are filled from the surface around.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import importlib
import os
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any, Callable, Coroutine, Dict, Literal, Mapping, Optional, Protocol, Sequence, Tuple, TypeVar

import numpy as np

from . import arrays, files, safetensors, sidecar, splats
from .arrays import Matrices, Matrix, Pictures
from .client import Client, Event
from .errors import JobFailed, KilnError, KilnWarning, TimedOut
from .glb import Glb
from .options import Blend, Fallback, Frame, Options, Quality, Refine

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, Unpack

    _P = ParamSpec("_P")

#: Called with the share that is done, 0 to 1, and what is being done; a `gradio.Progress()` will do. What it raises ends the job.
Progress = Callable[[float, str], object]
_T = TypeVar("_T")

_QUALITY: Dict[str, Quality] = {"fast": "draft", "opt": "standard"}
#: Seconds that a call whose time is over, or that is interrupted, still has to say so to the sidecar: of a `timeout`, at most
#: this share.
_PARTING, _PARTING_SHARE = 1.0, 0.1
#: And one that is cancelled on a thread of its own, for which nobody waits.
_CANCELLING = 30.0
#: Bounds of the spec's `fill_holes`.
_HOLE_SIZES = (1e-12, 100.0)
#: What `texture_size="auto"` chooses at most, by pages, unless told otherwise.
_MOST_CHOSEN = {9: 2728, 16: 2048}


class Mesh(Protocol):
    """What `to_glb` takes as a mesh."""

    @property
    def vertices(self) -> Matrix: ...
    @property
    def faces(self) -> Matrix: ...


class Texture(np.ndarray[Any, np.dtype[np.uint8]]):
    """What `bake_texture` returns, an array like another. `glb` is the model that it was made on, with `psnr`, `report` and
    `warnings`; views and copies have none."""

    glb: Optional[Glb] = None


def bake(
    mesh: Optional[files.Path],
    views: Optional[files.Path] = None,
    output: Optional[files.Path] = None,
    *,
    images: Optional[files.Path] = None,
    original: Optional[files.Path] = None,
    client: Optional[Client] = None,
    progress: Optional[Progress] = None,
    timeout: Optional[float] = None,
    verbose: bool = False,
    **options: Unpack[Options],
) -> Glb:
    """Files as `kiln bake` takes them → a GLB, written to `output` if that is given.

    Gaussian splats may be the views, or the mesh without any views; a safetensors file of views may hold the mesh, which is
    None then. `images` is the folder of a COLMAP model's pictures. `original` is the mesh that `mesh` was simplified from, for
    `detail`. `options` are the flags of `kiln bake` (`kiln.options`);
    `preview=True` and `maps=True` put the pictures into the result's `files`. `client`: the sidecar to use; by default
    `kiln.sidecar` finds or starts one. `timeout` is in seconds for the whole call.
    Raises OSError for files, and otherwise as `bake_texture` does.
    """
    for name in options:
        if name not in Options.__annotations__:
            raise TypeError(f"bake() got an unexpected keyword argument {name!r}")
    if output is not None:
        folder = os.path.dirname(os.fspath(output))
        if not os.fspath(output).lower().endswith(".glb"):
            raise ValueError(f"the output is a GLB, and must end in .glb: {output}")
        if not os.path.isdir(folder or os.curdir):
            raise FileNotFoundError(f"the folder of the output is not there: {folder}")
    spec: Dict[str, Any] = dict(options)
    most = spec.pop("max_texture_size", None)
    if spec.get("texture_size") == "auto":
        spec.update(texture_size=most or _MOST_CHOSEN.get(spec.get("pages", 1), 4096), texture_auto=True)
    elif most is not None:
        raise ValueError("max_texture_size is for texture_size='auto'")
    if "splat_views" in spec:
        spec["splat_views"] = str(spec["splat_views"])
    call = _Call(progress, timeout, verbose, client)
    if mesh is not None:
        sources = {"mesh": files.mesh(mesh)}
        if views is not None:
            sources["views"] = files.views(views, images)
    elif views is not None and os.fspath(views).endswith(".safetensors"):
        sources = {"arrays": files.views(views)}
    else:
        raise TypeError("bake() needs a mesh, or a safetensors file of views that holds one")
    if original is not None:
        sources["original"] = files.mesh(original)
    glb = call.run(spec, sources=sources)
    if output is not None:
        glb.export(output)
    return glb


def bake_texture(
    vertices: Matrix,
    faces: Matrix,
    uvs: Matrix,
    observations: Pictures,
    masks: Pictures,
    extrinsics: Matrices,
    intrinsics: Matrices,
    texture_size: int = 2048,
    near: float = 0.1,
    far: float = 10.0,
    mode: Literal["opt", "fast"] = "opt",
    lambda_tv: float = 1e-2,
    verbose: bool = False,
    rendering_engine: Optional[str] = None,
    device: str = "auto",
    *,
    client: Optional[Client] = None,
    progress: Optional[Progress] = None,
    timeout: Optional[float] = None,
    quality: Optional[Quality] = None,
    blend: Blend = "srgb",
    seed: int = 0,
    fallback: Fallback = "adapters",
    refine: Refine = "auto",
    frame: Frame = "auto",
    preview: bool = False,
) -> Texture:
    """The texture for the caller's own `uvs`: uint8 [S, S, 3], row 0 at v = 1, as TRELLIS returns it.

    Arguments are those of TRELLIS (`kiln.arrays` says which arrays are taken); `rendering_engine` is SAM 3D Objects's and means
    nothing here. `client`: the sidecar to use. `device`: `auto`, `gpu`, `cpu` or a part of an adapter's name; torch's `cuda`
    means `auto`. `timeout` is in seconds for the whole call. `quality`: `draft`, `standard` or `best`. `blend`: `srgb` for views whose colours were blended
    as they are encoded, as splats are; `linear` for photographs. `fallback`: how far a failed bake may be repeated otherwise.
    `refine`: whether cameras and exposures are moved first, `off`, `auto` (where they are clearly off) or `on`.
    `frame`: `auto` takes another convention of axes, units or matrices where silhouettes show that it is meant, and warns of it;
    `given` takes mesh and cameras as they are. `preview`: the result's `glb.preview` is a contact sheet to judge it by.
    Raises JobFailed, Cancelled, RequestProblem, SidecarUnavailable or TimedOut. What a job warns of is a KilnWarning.
    """
    if mode not in _QUALITY:
        raise ValueError(f"Unknown mode: {mode}")
    if uvs is None:
        raise ValueError("uvs are needed: to_glb makes its own")
    if fallback == "vertex_colours":
        raise ValueError("fallback='vertex_colours' makes no texture to return")
    size = int(texture_size)
    spec = {
        "texture_size": size,
        "keep_uvs": True,
        "quality": quality or _QUALITY[mode],
        "blend": blend,
        "device": _device(device),
        "seed": seed,
        "fallback": fallback,
        "refine": refine,
        "frame": frame,
        "preview": preview,
    }
    call = _Call(progress, timeout, verbose, client)
    tensors = arrays.pack(vertices, faces, uvs, observations, masks, extrinsics, intrinsics)
    glb = call.run(spec, safetensors.encode(tensors, arrays.METADATA))
    result = glb.texture().view(Texture)
    if result.shape != (size, size, 3):
        raise KilnError(f"the sidecar made a texture of {list(result.shape)} in place of {size}")
    result.glb = glb
    return result


def to_glb(
    app_rep: object,
    mesh: Optional[Mesh] = None,
    simplify: float = 0.95,
    fill_holes: bool = True,
    fill_holes_max_size: float = 0.04,
    texture_size: int = 1024,
    debug: bool = False,
    verbose: bool = True,
    with_mesh_postprocess: bool = True,
    with_texture_baking: bool = True,
    use_vertex_color: bool = False,
    rendering_engine: Optional[str] = None,
    *,
    views: Optional[Tuple[Pictures, Matrices, Matrices]] = None,
    client: Optional[Client] = None,
    progress: Optional[Progress] = None,
    timeout: Optional[float] = None,
    quality: Quality = "standard",
    device: str = "auto",
    blend: Blend = "srgb",
    seed: int = 0,
    fallback: Fallback = "adapters",
    refine: Refine = "auto",
    frame: Frame = "auto",
    splat_filter: str = "mip:0.1",
    splat_views: str = "auto",
    preview: bool = False,
) -> Glb:
    """A mesh and its appearance → a GLB, y up, that `export`s as TRELLIS's result does.

    `mesh` has `vertices` and `faces`; without one it is the closed surface that the Gaussians show, of 30,000 triangles. `app_rep` has the Gaussians of TRELLIS or SAM 3D Objects (`kiln.splats` says which fields):
    they are sent as they are, and the sidecar draws its views of them, by `splat_filter` and from `splat_views` as `kiln bake` has
    them. Views of another representation are rendered by the package that it comes from, as its own `to_glb` does (100 of 1024²),
    or given: `views=(observations, extrinsics, intrinsics)`, with `app_rep=None`. `simplify` is the share of
    the faces to remove, as there. `fill_holes`: faces that no view can see are cut off, and holes filled, up to an area of
    `fill_holes_max_size` in the mesh's own units; before the simplification here, where it costs no detail. SAM 3D Objects's
    `with_mesh_postprocess=False` does neither. `debug`, `use_vertex_color` and `rendering_engine` mean nothing here.
    """
    if not with_texture_baking:
        raise ValueError("with_texture_baking=False asks for a GLB without a texture, which is not made here")
    call = _Call(progress, timeout, verbose, client)
    spec: Dict[str, Any] = {
        "texture_size": int(texture_size),
        "quality": quality,
        "blend": blend,
        "device": _device(device),
        "seed": seed,
        "fallback": fallback,
        "refine": refine,
        "frame": frame,
        "preview": preview,
        # TRELLIS turns its meshes from z up to y up as it writes them.
        "up": "z",
    }
    if mesh is None:
        if not splats.are_in(app_rep):
            raise TypeError("only Gaussians show a surface of their own: give a mesh")
        spec.update(splat_filter=splat_filter, splat_views=splat_views)
        return call.run(spec, sources={"mesh": _file("splats.ply", splats.ply(app_rep))})
    if with_mesh_postprocess and simplify > 0:
        spec["simplify"] = float(simplify)
    shape = arrays.mesh(mesh.vertices, mesh.faces)
    if with_mesh_postprocess and fill_holes:
        spec["remove_unseen"] = True
        spec["fill_holes"] = _hole_size(np.asarray(shape["vertices"]), np.asarray(shape["faces"]), fill_holes_max_size)
    if views is None and splats.are_in(app_rep):
        spec.update(splat_filter=splat_filter, splat_views=splat_views)
        own = _file("mesh.safetensors", b"".join(safetensors.encode(shape, arrays.METADATA)))
        return call.run(spec, sources={"mesh": own, "views": _file("splats.ply", splats.ply(app_rep))})
    observations, extrinsics, intrinsics = _render(app_rep) if views is None else views
    tensors = arrays.pack(mesh.vertices, mesh.faces, None, observations, None, extrinsics, intrinsics)
    pictures = tensors["observations"]
    tensors["masks"] = [np.any(picture > 0, axis=-1) for picture in pictures]
    return call.run(spec, safetensors.encode(tensors, arrays.METADATA))


def _file(name: str, data: bytes) -> files.Source:
    return files.Source(name, {name: data})


class _Call:
    """One call of the above: its job, and what is told about it."""

    def __init__(self, progress: Optional[Progress], timeout: Optional[float], verbose: bool, client: Optional[Client]) -> None:
        self._progress = progress
        self._line = verbose and progress is None
        self._client = client
        self._timeout = timeout
        self._end = None if timeout is None else time.monotonic() + timeout
        # What follows, the cancel, counts too.
        self._deadline = None if timeout is None else time.monotonic() + timeout - min(_PARTING, _PARTING_SHARE * timeout)
        self._phase = "queued"
        self._stop = _stop.get() or _Stop()

    def run(
        self, spec: Mapping[str, Any], tensors: Optional[Sequence[memoryview]] = None, sources: Mapping[str, files.Source] = {}
    ) -> Glb:
        """Submits, waits, fetches and warns. The inputs are `tensors`, or files by their keys in the spec."""
        try:
            glb = self._run(spec, tensors, sources)
        except (TimedOut, JobFailed) as error:
            if self._timeout is None or isinstance(error, JobFailed) and error.code != "deadline_exceeded":
                raise
            # A job that failed says so in the words of the command line.
            where = "" if isinstance(error, JobFailed) else f": {error}"
            raise TimedOut(f"the call took longer than its timeout of {self._timeout:g} s{where}") from error
        for text in glb.warnings:
            warnings.warn(text, KilnWarning, stacklevel=_callers_level())
        return glb

    def _run(
        self, spec: Mapping[str, Any], tensors: Optional[Sequence[memoryview]], sources: Mapping[str, files.Source]
    ) -> Glb:
        client, private = self._client, False
        if client is None:
            place = sidecar.find(self._deadline)
            client, private = place.client(), place.is_private
        for key, source in sources.items():
            digests = {}
            for name, data in source.files.items():
                if isinstance(data, str):
                    with open(data, "rb") as file:
                        data = file.read()
                digests[name] = client.upload(data, deadline=self._deadline)
            named = digests[source.main] if key == "arrays" else {"files": digests, "main": source.main}
            spec = {**spec, key: named}
        if self._end is not None:
            spec = {**spec, "timeout_s": max(0.001, self._end - time.monotonic())}
        job = client.submit(spec, tensors, deadline=self._deadline)
        try:
            self._stop.concerns(client, job.id)
            left = None if self._deadline is None else self._deadline - time.monotonic()
            done = client.wait(job.id, left, self._heard)
        except BaseException:
            # Ctrl-C, a timeout, or what `progress` raised: nobody waits for the result any more.
            _quietly(client.cancel, job.id, self._parting())
            raise
        finally:
            if self._line:
                print(file=sys.stderr)
        data = client.fetch(done.check(), deadline=self._end)
        # The report is in the job.
        others = [name for name in done.artifacts if name not in ("model.glb", "report.json")]
        more = {name: client.fetch(done, name, deadline=self._end) for name in others}
        if private:
            # Nobody else looks at its jobs, and the arrays take room.
            _quietly(client.forget, done.id, self._parting())
        return Glb(data, done.raw, more)

    def _parting(self) -> float:
        """Until when a last word may take: a moment, even where what `progress` did took all the time there was."""
        now = time.monotonic()
        return now + _PARTING if self._end is None else max(min(now + _PARTING, self._end), now + 0.1 * _PARTING)

    def _heard(self, event: Event) -> None:
        if event.kind == "log":
            return
        self._phase = event.data.get("phase") or event.data.get("state") or self._phase
        share = event.data.get("progress")
        if share is None:
            return
        if self._progress is not None:
            self._progress(float(share), str(self._phase))
        elif self._line:
            print(f"\rkiln: {100 * float(share):3.0f} % {self._phase:<20}", end="", file=sys.stderr, flush=True)


class _Stop:
    """Cancels a job from another thread: now, or as soon as there is one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._job: Optional[Tuple[Client, str]] = None
        self._stopped = False

    def concerns(self, client: Client, job_id: str) -> None:
        with self._lock:
            self._job = (client, job_id)
            stopped = self._stopped
        if stopped:
            client.cancel(job_id, deadline=time.monotonic() + _CANCELLING)

    def stop(self) -> None:
        with self._lock:
            self._stopped, job = True, self._job
        if job is not None:
            _quietly(job[0].cancel, job[1], time.monotonic() + _CANCELLING)


#: Of the call that is made in this context.
_stop: "contextvars.ContextVar[Optional[_Stop]]" = contextvars.ContextVar("kiln_stop", default=None)


def _apart(function: Callable[_P, _T]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """`function` without blocking the loop: on a thread of its own, so that no number of waiting calls fills the loop's pool."""

    @functools.wraps(function)
    async def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await _on_thread(function, args, dict(kwargs))

    call.__name__ = call.__qualname__ = f"a{function.__name__}"
    call.__doc__ = f"`{function.__name__}` without blocking the loop; cancelling the task cancels the job. `progress` is called in the loop."
    return call


async def _on_thread(function: Callable[..., _T], args: Sequence[Any], kwargs: Dict[str, Any]) -> _T:
    loop = asyncio.get_running_loop()
    result: "asyncio.Future[_T]" = loop.create_future()
    stop = _Stop()
    progress = kwargs.get("progress")

    def tell(then: Callable[..., object], *values: object) -> None:
        try:
            loop.call_soon_threadsafe(then, *values)
        except RuntimeError:
            pass  # The loop is closed: nobody listens.

    def settle(value: Optional[_T], error: Optional[BaseException]) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # type: ignore[arg-type]

    def work() -> None:
        _stop.set(stop)
        if progress is not None:
            kwargs["progress"] = lambda share, phase: tell(progress, share, phase)
        try:
            value = function(*args, **kwargs)
        except BaseException as error:
            tell(settle, None, error)
        else:
            tell(settle, value, None)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="kiln call", daemon=True).start()
    try:
        return await result
    except asyncio.CancelledError:
        # Not here: asking the sidecar may take its time, and the loop has others to serve.
        threading.Thread(target=stop.stop, name="kiln cancel", daemon=True).start()
        raise


abake = _apart(bake)
abake_texture = _apart(bake_texture)
ato_glb = _apart(to_glb)


def _callers_level() -> int:
    """The `stacklevel` of the first frame outside of this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    return level


def _quietly(call: Callable[..., object], job_id: str, deadline: float) -> None:
    try:
        call(job_id, deadline=deadline)
    except (KilnError, OSError):
        pass  # Over, gone, or out of reach: the sidecar's own limits end it.


def _hole_size(vertices: np.ndarray, faces: np.ndarray, size: float) -> float:
    """An area in the mesh's units → a share of the square of its longest side."""
    if not size >= 0:
        raise ValueError(f"fill_holes_max_size must be an area, not {size}")
    used = vertices[np.unique(faces)] if faces.size and faces.min() >= 0 and faces.max() < len(vertices) else vertices
    side = float(np.ptp(used.astype(np.float64), axis=0).max()) if len(used) else 0.0
    # A mesh without size, or with NaN, is the sidecar's to refuse.
    share = size / side**2 if side > 0 else 1.0
    return float(np.clip(share, *_HOLE_SIZES))


def _device(name: str) -> str:
    return "auto" if name.split(":")[0] == "cuda" else name


def _render(app_rep: Any) -> Tuple[Any, Any, Any]:
    """As TRELLIS's `to_glb`: by `render_multiview` of the package that the representation is defined in."""
    module = type(app_rep).__module__
    package, found, _ = module.partition(".representations.")
    if not found:
        raise TypeError(
            f"{module}.{type(app_rep).__qualname__} cannot be rendered here: give views=(observations, extrinsics, intrinsics)"
        )
    renderer = importlib.import_module(f"{package}.utils.render_utils")
    observations, extrinsics, intrinsics = renderer.render_multiview(app_rep, resolution=1024, nviews=100)
    return observations, extrinsics, intrinsics
