"""The calls of TRELLIS and SAM 3D Objects, with the same arguments and results, done by the sidecar.

Where they differ: the fit is deterministic, and its smoothing found from the views, so `lambda_tv` changes nothing; `near` and
`far` clip nothing; `mode='fast'` is a quicker fit of the same kind. Texels that no view sees are filled from the surface around.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import sys
import threading
import time
from typing import Any, Callable, Dict, Mapping, Optional, Tuple, TypeVar

import numpy as np

from . import arrays, safetensors, sidecar, splats
from .client import Client, Event
from .errors import KilnError
from .glb import Glb

#: Called with the share that is done, 0 to 1, and what is being done; a `gradio.Progress()` will do. What it raises ends the job.
Progress = Callable[[float, str], object]
_T = TypeVar("_T")

_QUALITY = {"fast": "draft", "opt": "standard"}
#: Seconds that a call whose time is over, or that is interrupted, still has to say so to the sidecar: of a `timeout`, at most
#: this share.
_PARTING, _PARTING_SHARE = 1.0, 0.1
#: And one that is cancelled on a thread of its own, for which nobody waits.
_CANCELLING = 30.0
#: Bounds of the spec's `fill_holes`.
_HOLE_SIZES = (1e-12, 100.0)


def bake_texture(
    vertices: Any,
    faces: Any,
    uvs: Any,
    observations: Any,
    masks: Any,
    extrinsics: Any,
    intrinsics: Any,
    texture_size: int = 2048,
    near: float = 0.1,
    far: float = 10.0,
    mode: str = "opt",
    lambda_tv: float = 1e-2,
    verbose: bool = False,
    rendering_engine: Optional[str] = None,
    device: str = "auto",
    *,
    progress: Optional[Progress] = None,
    timeout: Optional[float] = None,
    quality: Optional[str] = None,
    blend: str = "srgb",
    seed: int = 0,
    fallback: str = "adapters",
    refine: str = "auto",
    frame: str = "auto",
) -> np.ndarray:
    """The texture for the caller's own `uvs`: uint8 [S, S, 3], row 0 at v = 1, as TRELLIS returns it.

    Arguments are those of TRELLIS (`kiln.arrays` says which arrays are taken); `rendering_engine` is SAM 3D Objects's and means
    nothing here. `device`: `auto`, `gpu`, `cpu` or a part of an adapter's name; torch's `cuda` means `auto`. `timeout` is in
    seconds for the whole call. `quality`: `draft`, `standard` or `best`. `blend`: `srgb` for views whose colours were blended
    as they are encoded, as splats are; `linear` for photographs. `fallback`: how far a failed bake may be repeated otherwise.
    `refine`: whether cameras and exposures are moved first, `off`, `auto` (where they are clearly off) or `on`.
    `frame`: `auto` takes another convention of axes, units or matrices where silhouettes show that it is meant, and warns of it;
    `given` takes mesh and cameras as they are.
    Raises JobFailed, Cancelled, RequestProblem, SidecarUnavailable or TimedOut.
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
    }
    call = _Call(progress, timeout, verbose)
    tensors = arrays.pack(vertices, faces, uvs, observations, masks, extrinsics, intrinsics)
    result = call.run(tensors, spec).texture()
    if result.shape != (size, size, 3):
        raise KilnError(f"the sidecar made a texture of {list(result.shape)} in place of {size}")
    return result


async def abake_texture(*args: Any, progress: Optional[Progress] = None, **kwargs: Any) -> np.ndarray:
    """`bake_texture` without blocking the loop; cancelling the task cancels the job. `progress` is called in the loop."""
    return await _apart(bake_texture, args, kwargs, progress)


def to_glb(
    app_rep: Any,
    mesh: Any = None,
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
    views: Optional[Tuple[Any, Any, Any]] = None,
    progress: Optional[Progress] = None,
    timeout: Optional[float] = None,
    quality: str = "standard",
    device: str = "auto",
    blend: str = "srgb",
    seed: int = 0,
    fallback: str = "adapters",
    refine: str = "auto",
    frame: str = "auto",
    splat_filter: str = "mip:0.1",
    splat_views: str = "auto",
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
    call = _Call(progress, timeout, verbose)
    spec = {
        "texture_size": int(texture_size),
        "quality": quality,
        "blend": blend,
        "device": _device(device),
        "seed": seed,
        "fallback": fallback,
        "refine": refine,
        "frame": frame,
        # TRELLIS turns its meshes from z up to y up as it writes them.
        "up": "z",
    }
    if mesh is None:
        if not splats.are_in(app_rep):
            raise TypeError("only Gaussians show a surface of their own: give a mesh")
        spec.update(splat_filter=splat_filter, splat_views=splat_views)
        return call.run({}, spec, splats.ply(app_rep))
    if with_mesh_postprocess and simplify > 0:
        spec["simplify"] = float(simplify)
    shape = arrays.mesh(mesh.vertices, mesh.faces)
    if with_mesh_postprocess and fill_holes:
        spec["remove_unseen"] = True
        spec["fill_holes"] = _hole_size(np.asarray(shape["vertices"]), np.asarray(shape["faces"]), fill_holes_max_size)
    if views is None and splats.are_in(app_rep):
        spec.update(splat_filter=splat_filter, splat_views=splat_views)
        return call.run(shape, spec, splats.ply(app_rep))
    observations, extrinsics, intrinsics = _render(app_rep) if views is None else views
    tensors = arrays.pack(mesh.vertices, mesh.faces, None, observations, None, extrinsics, intrinsics)
    pictures = tensors["observations"]
    tensors["masks"] = [np.any(picture > 0, axis=-1) for picture in pictures]
    return call.run(tensors, spec)


async def ato_glb(*args: Any, progress: Optional[Progress] = None, **kwargs: Any) -> Glb:
    """`to_glb` without blocking the loop; cancelling the task cancels the job. `progress` is called in the loop."""
    return await _apart(to_glb, args, kwargs, progress)


class _Call:
    """One call of the above: its job, and what is told about it."""

    def __init__(self, progress: Optional[Progress], timeout: Optional[float], verbose: bool) -> None:
        self._progress = progress
        self._line = verbose and progress is None
        self._end = None if timeout is None else time.monotonic() + timeout
        # What follows, the cancel, counts too.
        self._deadline = None if timeout is None else time.monotonic() + timeout - min(_PARTING, _PARTING_SHARE * timeout)
        self._phase = "queued"
        self._stop = _stop.get() or _Stop()

    def run(self, tensors: Mapping[str, safetensors.Tensor], spec: Mapping[str, Any], views: Optional[bytes] = None) -> Glb:
        """Submits, waits and fetches. `views`: a PLY of splats, where the tensors hold the mesh alone or nothing."""
        place = sidecar.find(self._deadline)
        client = place.client()
        if self._end is not None:
            spec = {**spec, "timeout_s": max(0.001, self._end - time.monotonic())}
        parts = safetensors.encode(tensors, arrays.METADATA)
        if views is None:
            job = client.submit(spec, parts, deadline=self._deadline)
        else:
            sources = {"mesh": ("splats.ply", views)}
            if tensors:
                sources = {"mesh": ("mesh.safetensors", b"".join(parts)), "views": ("splats.ply", views)}
            for source, (name, data) in sources.items():
                digest = client.upload(data, deadline=self._deadline)
                spec = {**spec, source: {"files": {name: digest}, "main": name}}
            job = client.submit(spec, deadline=self._deadline)
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
        if place.is_private:
            # Nobody else looks at its jobs, and the arrays take room.
            _quietly(client.forget, done.id, self._parting())
        return Glb(data, done.raw)

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


async def _apart(
    function: Callable[..., _T], args: Tuple[Any, ...], kwargs: Dict[str, Any], progress: Optional[Progress]
) -> _T:
    """Runs `function` on a thread of its own, so that no number of waiting calls fills the loop's pool of threads."""
    loop = asyncio.get_running_loop()
    result: "asyncio.Future[_T]" = loop.create_future()
    stop = _Stop()

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
