"""Meshes and posed views, as arrays → textures and GLBs, baked by a sidecar process.

Nothing here renders, decodes or optimises: a crash of a driver ends a job with an exception, never this process.

    import kiln
    glb = kiln.bake("mesh.glb", "transforms.json", "out.glb")     # files
    texture = kiln.bake_texture(vertices, faces, uvs, observations, masks, extrinsics, intrinsics)    # as in TRELLIS
"""

from importlib.metadata import version as _version

from .calls import Texture, abake, abake_texture, ato_glb, bake, bake_texture, to_glb
from .client import Client, Event, Job
from .errors import Cancelled, JobFailed, KilnError, KilnWarning, RequestProblem, SidecarUnavailable, TimedOut
from .glb import Glb

__version__ = _version("kiln-client")

__all__ = [
    "Cancelled",
    "Client",
    "Event",
    "Glb",
    "Job",
    "JobFailed",
    "KilnError",
    "KilnWarning",
    "RequestProblem",
    "SidecarUnavailable",
    "Texture",
    "TimedOut",
    "abake",
    "abake_texture",
    "ato_glb",
    "bake",
    "bake_texture",
    "to_glb",
]
