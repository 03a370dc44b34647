"""The options of a job as keywords, with the names and defaults of `kiln bake`; `kiln bake --help` explains each.

They are the keys of the sidecar's own schema (`Spec` in its `/openapi.json`), from which a test holds this list.
"""

from __future__ import annotations

from typing import Literal, TypedDict, Union

Quality = Literal["draft", "standard", "best"]
Blend = Literal["linear", "srgb"]
Fallback = Literal["same_plan", "smaller_plan", "adapters", "vertex_colours"]
Refine = Literal["off", "auto", "on"]
Frame = Literal["auto", "given"]


class Options(TypedDict, total=False):
    """Keywords of `kiln.bake`. Sizes in memory are bytes; `timeout` and what goes into files are keywords of their own."""

    name: str
    texture_size: Union[int, Literal["auto"]]
    max_texture_size: int
    pages: Literal[1, 4, 9, 16]
    target_faces: int
    simplify: float
    keep_uvs: bool
    uv_set: int
    texture_format: Literal["png", "jpeg", "webp", "webp-lossy", "ktx2-etc1s", "ktx2-uastc"]
    texture_quality: int
    compress: Literal["none", "meshopt"]
    vertex_colours: bool
    provenance_attribute: bool
    detail: Literal["off", "normal", "occlusion", "normal,occlusion"]
    alpha_mode: Literal["auto", "opaque", "mask", "blend"]
    alpha_cutoff: float
    remove_unseen: bool
    fill_holes: float
    hole_edges: int
    weld: float
    orient: bool
    up: Literal["y", "z", "-y"]
    frame: Frame
    quality: Quality
    blend: Blend
    refine: Refine
    device: str
    holdout: int
    seed: int
    min_psnr: float
    splat_views: Union[int, str]
    splat_filter: str
    sh: Literal["view", "0"]
    vram_budget: int
    gpu_times: bool
    fallback: Fallback
    preview: bool
    html: bool
    maps: bool
