"""Meshes and posed views, as arrays → textures and GLBs, baked by a sidecar process.

Nothing here renders, decodes or optimises: a crash of a driver ends a job with an exception, never this process.

    from kiln import bake_texture        # the call of TRELLIS and SAM 3D Objects
    texture = bake_texture(vertices, faces, uvs, observations, masks, extrinsics, intrinsics)
"""

from .bake import abake_texture, ato_glb, bake_texture, to_glb
from .client import Client, Event, Job
from .errors import Cancelled, JobFailed, KilnError, RequestProblem, SidecarUnavailable, TimedOut
from .glb import Glb

__all__ = [
    "Cancelled",
    "Client",
    "Event",
    "Glb",
    "Job",
    "JobFailed",
    "KilnError",
    "RequestProblem",
    "SidecarUnavailable",
    "TimedOut",
    "abake_texture",
    "ato_glb",
    "bake_texture",
    "to_glb",
]
