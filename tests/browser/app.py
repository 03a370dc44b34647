"""An app as users of TRELLIS have it, which bakes with Kiln: choose a sample, press Bake, see the model or what went wrong.

    pip install -r tests/browser/requirements.txt ./proto/python
    python tests/browser/app.py            # PORT: 7860 unless it says otherwise; KILN_DEVICE: auto, gpu, cpu, …

What calls Kiln is `model`; the rest is any Gradio app. `/heartbeat` tells when the app's process, or its event loop, stood still.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import html
import itertools
import os
import signal
import sys
import tempfile
import time
from typing import Any, AsyncIterator, Dict, Optional, Tuple

import gradio as gr
import samples
import trimesh
import uvicorn
from fastapi import FastAPI
from heartbeat import Heartbeat
from kiln import JobFailed, KilnError, bake_texture, to_glb
from PIL import Image

DEVICE = os.environ.get("KILN_DEVICE", "auto")
#: Bakes that wait for their sidecar at the same time, each on a thread of Gradio's.
AT_ONCE = 6
OWN_UVS, NEW_UVS = "Spot, with its own UVs", "Spot, simplified and unwrapped"
SPOT = samples.spot()


def model(sample: str, texture_size: int, mode: str, progress: Any) -> str:
    """The path of a GLB."""
    path = os.path.join(tempfile.mkdtemp(dir=CACHE), "model.glb")
    if sample == NEW_UVS:
        views = (SPOT.observations, SPOT.extrinsics, SPOT.intrinsics)
        quality = "draft" if mode == "fast" else "standard"
        glb = to_glb(
            None, SPOT, simplify=0.95, fill_holes=False, texture_size=texture_size, verbose=False,
            views=views, quality=quality, device=DEVICE, progress=progress,
        )
        glb.export(path)
    else:
        texture = bake_texture(
            SPOT.vertices, SPOT.faces, SPOT.uvs, SPOT.observations, SPOT.masks, SPOT.extrinsics, SPOT.intrinsics,
            texture_size=texture_size, mode=mode, device=DEVICE, progress=progress,
        )
        material = trimesh.visual.material.PBRMaterial(baseColorTexture=Image.fromarray(texture), metallicFactor=0.0)
        visual = trimesh.visual.TextureVisuals(uv=SPOT.uvs, material=material)
        mesh = trimesh.Trimesh(samples.y_up(SPOT.vertices), SPOT.faces, visual=visual, process=False)
        mesh.export(path)
    return path


_numbers = itertools.count(1)


def bake(sample: str, texture_size: int, mode: str, progress: Any = gr.Progress()) -> Tuple[Optional[str], str]:
    """Of the button: the model, or none and why."""
    began = time.monotonic()
    try:
        path = model(sample, int(texture_size), mode, progress)
    except KilnError as error:  # The bake is lost; this process is not.
        return None, outcome("error", told(error))
    return path, outcome("done", f"Baked in {time.monotonic() - began:.1f} s.")


def told(error: KilnError) -> str:
    """For the page: what happened, what helps, and the word to look it up by."""
    code = getattr(error, "code", type(error).__name__)
    text = f"{error.message} {error.hint}" if isinstance(error, JobFailed) else str(error)
    return f"<b>{html.escape(code)}</b> {html.escape(text)}"


def outcome(kind: str, text: str) -> str:
    """A line of the page; its number tells it from the one before."""
    return f'<div id="outcome" class="{kind}" data-bake="{next(_numbers)}">{text}</div>'


def page() -> gr.Blocks:
    """Two columns: what to bake, and what came of it."""
    with gr.Blocks(title="Bake", analytics_enabled=False) as blocks:
        with gr.Row():
            with gr.Column():
                sample = gr.Dropdown([NEW_UVS, OWN_UVS], value=NEW_UVS, label="Sample", elem_id="sample")
                texture_size = gr.Slider(256, 2048, value=1024, step=256, label="Texture size", elem_id="texture-size")
                mode = gr.Radio(["fast", "opt"], value="opt", label="Mode", elem_id="mode")
                button = gr.Button("Bake", variant="primary", elem_id="bake")
            with gr.Column():
                glb = gr.Model3D(label="Model", elem_id="model")
                line = gr.HTML(elem_id="line")
        button.click(bake, [sample, texture_size, mode], [glb, line], concurrency_limit=AT_ONCE)
    return blocks


process, loop = Heartbeat(), Heartbeat()


@contextlib.asynccontextmanager
async def living(_: FastAPI) -> AsyncIterator[None]:
    # What was imported stays: looking whether it is garbage would stop all threads for a tenth of a second, again and again.
    gc.collect()
    gc.freeze()
    process.in_thread()
    beating = asyncio.create_task(loop.in_loop())
    yield
    beating.cancel()


def app() -> FastAPI:
    """The page at `/`, and the heartbeats."""
    server = FastAPI(lifespan=living)

    @server.get("/heartbeat")
    async def heartbeat() -> Dict[str, Any]:
        return {"process": process.told(), "loop": loop.told()}

    blocks = page().queue(max_size=256)
    return gr.mount_gradio_app(server, blocks, path="/", show_error=True, ssr_mode=False, allowed_paths=[CACHE])


#: Models that were shown; it goes with the process.
CACHE = ""


def main() -> None:
    global CACHE
    # uvicorn gives the signal back once it is done; by default Python would die of it then, and clean nothing up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="models-") as CACHE:
        os.environ["GRADIO_TEMP_DIR"] = CACHE
        uvicorn.run(app(), host="127.0.0.1", port=int(os.environ.get("PORT", 7860)), timeout_graceful_shutdown=5, access_log=False)


if __name__ == "__main__":
    main()
