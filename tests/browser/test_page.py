"""The sidecar's page in a real browser, against the real programs: what it is for, and what goes wrong on the way.

Chromium draws with its software GPU, so that WebGL's pixels are there on any machine.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import pty
import re
import secrets
import socket
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path
from typing import Dict, List, Optional
from urllib.parse import quote, urlsplit

import numpy as np
import support
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

SPOT = support.ROOT / "tests/data/spot"
#: For a small bake on a busy machine.
BAKED_MS = 300_000
#: Between a view's picture and the canvas, in dB over pixels that the object covers wholly, both scaled to 128 × 128. The right
#: camera reaches 33 and more; another one 11.
LEAST_PSNR, MOST_WRONG_PSNR = 28.0, 20.0
#: Where pictures of the page go, if somebody wants to look at them.
SHOTS = os.environ.get("SHOTS")
# A busy machine draws slowly.
expect.set_options(timeout=60_000)

#: In a page of its own, which no policy of ours binds: two PNGs → PSNR where the first is opaque.
PSNR = """async ([picture, canvas]) => {
  const edge = 128;
  const read = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes]), {resizeWidth: edge, resizeHeight: edge, resizeQuality: 'high'});
    const context = new OffscreenCanvas(edge, edge).getContext('2d');
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, edge, edge).data;
  };
  const [wanted, got] = [await read(picture), await read(canvas)];
  let [sum, count] = [0, 0];
  for (let k = 0; k < wanted.length; k += 4) {
    if (wanted[k + 3] < 255) continue;
    for (let c = 0; c < 3; c++) sum += (wanted[k + c] - got[k + c]) ** 2;
    count += 3;
  }
  if (count < 3000) throw new Error(`only ${count} values to compare`);
  return 10 * Math.log10(255 ** 2 * count / sum);
}"""

#: A drop as a file manager makes it: the files are in the event.
DROP = """([selector, name, text]) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name));
  for (const kind of ['dragenter', 'dragover', 'drop']) {
    const target = document.querySelector(selector);
    target.dispatchEvent(new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer: transfer}));
  }
}"""


class Sidecar:
    """`kiln serve` that can be ended and started again at the same address, over the same store."""

    def __init__(self, folder: support.Isolated) -> None:
        self.folder = folder
        self.store = Path(tempfile.mkdtemp(prefix="p-", dir=folder.path))
        self.token = secrets.token_urlsafe(24)
        self.token_file = self.store / "token"
        self.token_file.touch(0o600)
        self.token_file.write_text(self.token)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.program: Optional[support.Program] = None

    def start(self) -> None:
        command = [str(support.kiln()), "serve", "--socket", str(self.store / "s"), "--store", str(self.store / "store")]
        command += ["--tcp", self.address, "--token-file", str(self.token_file)]
        self.program = support.Program(command, self.folder.environment())
        self.said = self.program.wait_for("its page: ")
        self.program.wait_for("serves")

    def end(self) -> None:
        if self.program:
            self.program.end()
            self.program = None

    @property
    def page(self) -> str:
        return f"http://{self.address}/#token={quote(self.token)}"


def spot_files(*, mesh: bytes = b"") -> List[Dict[str, object]]:
    """The sample without its folders, with another mesh where one is given."""
    paths = [SPOT / "transforms.json", *sorted((SPOT / "train").iterdir())]
    files = [{"name": path.name, "mimeType": "", "buffer": path.read_bytes()} for path in paths]
    return [{"name": "mesh.glb", "mimeType": "", "buffer": mesh or (SPOT / "mesh_nouv.glb").read_bytes()}, *files]


def spot_zip() -> bytes:
    """The sample, with its folders, in one more."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in [SPOT / "mesh_nouv.glb", SPOT / "transforms.json", *(SPOT / "train").iterdir()]:
            packed.write(path, f"scan/{path.relative_to(SPOT)}")
    return archive.getvalue()


def colmap_zip() -> bytes:
    """The sample as a project of COLMAP: the same cameras in its axes, the pictures in `images`."""
    views = json.loads((SPOT / "transforms.json").read_text())
    lines = []
    for number, frame in enumerate(views["frames"], 1):
        # COLMAP's cameras look along z with y down, OpenGL's along -z with y up.
        pose = np.linalg.inv(np.array(frame["transform_matrix"]) @ np.diag([1, -1, -1, 1]))
        x, y, z, w = quaternion(pose[:3, :3])
        moved = " ".join(map(str, [w, x, y, z, *pose[:3, 3]]))
        lines.append(f"{number} {moved} 1 {Path(frame['file_path']).name}\n\n")
    lens = f"1 PINHOLE {views['w']} {views['h']} {views['fl_x']} {views.get('fl_y', views['fl_x'])} {views['w'] / 2} {views['h'] / 2}\n"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.write(SPOT / "mesh_nouv.glb", "scan/mesh_nouv.glb")
        packed.writestr("scan/sparse/0/cameras.txt", lens)
        packed.writestr("scan/sparse/0/images.txt", "".join(lines))
        for path in (SPOT / "train").iterdir():
            packed.write(path, f"scan/images/{path.name}")
    return archive.getvalue()


def quaternion(r: np.ndarray) -> np.ndarray:
    """x y z w of a rotation: the eigenvector of Bar-Itzhack's matrix that belongs to its largest value."""
    k = np.array([
        [r[0, 0] - r[1, 1] - r[2, 2], 0, 0, 0],
        [r[1, 0] + r[0, 1], r[1, 1] - r[0, 0] - r[2, 2], 0, 0],
        [r[2, 0] + r[0, 2], r[2, 1] + r[1, 2], r[2, 2] - r[0, 0] - r[1, 1], 0],
        [r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1], r.trace()],
    ])  # fmt: skip
    return np.linalg.eigh(k / 3)[1][:, -1]


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        cls.sidecar = Sidecar(stack.enter_context(support.isolated()))
        stack.callback(cls.sidecar.end)
        cls.sidecar.start()
        options = support.launch_options()
        options["args"] = [*options["args"], "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
        playwright = stack.enter_context(sync_playwright())
        cls.browser = playwright.chromium.launch(**options)
        stack.callback(cls.browser.close)

    def setUp(self) -> None:
        self.context = self.browser.new_context(viewport={"width": 1360, "height": 900}, permissions=["clipboard-read", "clipboard-write"])
        self.addCleanup(self.context.close)
        self.wrong: List[str] = []
        self.hosts: Dict[str, str] = {}
        self.page = self.watched(self.context.new_page())

    def watched(self, page: Page) -> Page:
        """What the page complains about, and whom it asks."""
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: self.wrong.append(f"thrown: {error}"))
        page.on("console", lambda message: message.type in ("error", "warning") and self.wrong.append(f"{message.text} {message.location}"))
        page.on("request", lambda request: self.hosts.setdefault(urlsplit(request.url).netloc, request.url))
        return page

    def check_quiet(self, *, allowed: str = r"(?!)") -> None:
        """No error of a script or of the policy, and nobody asked but the sidecar. Chromium complains of each answer that is none of
        200; that a blob is not there, or the sidecar not ready yet, is an answer like any other."""
        answers = r"with a status of 404 .*/v1/blobs/|with a status of 503 .*/readyz"
        wrong = [line for line in self.wrong if not re.search(f"{answers}|{allowed}", line)]
        self.assertEqual(wrong, [])
        self.assertEqual({host for host in self.hosts if host}, {self.sidecar.address}, self.hosts)

    def open(self) -> None:
        self.page.goto(self.sidecar.page)
        expect(self.page.locator(".zone")).to_be_visible()

    def shot(self, name: str) -> None:
        if SHOTS:
            self.page.screenshot(path=f"{SHOTS}/{name}.png")

    def check_fits(self) -> None:
        """No rule of axe is broken, in light or in dark, and nothing is wider than a phone."""
        page = self.page
        before = page.viewport_size
        for width, scheme in ((360, "dark"), (1360, "dark"), (1360, "light")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
            found = Axe().run(page).response["violations"]
            told = [(rule["id"], rule["help"], [node["html"][:200] for node in rule["nodes"]]) for rule in found]
            self.assertEqual(told, [], f"{scheme}, {width}")
        page.set_viewport_size(before)

    def submit(self, *, quality: str = "draft", size: str = "512", **more: str) -> None:
        page = self.page
        expect(page.locator(".missing")).to_have_count(0)
        page.select_option("#opt-quality", quality)
        page.select_option("#opt-texture_size", size)
        page.select_option("#opt-device", "cpu")
        for key, value in more.items():
            page.fill(f"#opt-{key}", value)
        page.get_by_role("button", name="Bake", exact=True).click()
        page.wait_for_url(re.compile("#/jobs/"))

    def psnr(self, picture: Path, canvas: bytes) -> float:
        bench = self.context.new_page()
        try:
            texts = [base64.b64encode(data).decode() for data in (picture.read_bytes(), canvas)]
            return bench.evaluate(PSNR, texts)
        finally:
            bench.close()

    def drawn(self) -> bytes:
        """The canvas alone, where the picture would lie."""
        page = self.page
        page.locator("input[value=blink]").check(force=True)
        page.locator(".stage").scroll_into_view_if_needed()
        box = page.locator(".picture img").bounding_box()
        return page.screenshot(clip=box)

    def colours(self, png: bytes) -> Dict[str, float]:
        """The share of each colour in a picture."""
        with Image.open(io.BytesIO(png)) as picture:
            pixels = picture.convert("RGB").getcolors(picture.width * picture.height)
            return {",".join(map(str, colour)): count / (picture.width * picture.height) for count, colour in pixels}

    def pixels(self, png: bytes) -> np.ndarray:
        with Image.open(io.BytesIO(png)) as picture:
            return np.asarray(picture.convert("RGB"), dtype=np.float32)

    def pick(self, index: int) -> Path:
        """Chooses a view, and waits until it is drawn; gives its picture."""
        frames = self.page.locator(".stage canvas").get_attribute("data-frames")
        self.page.locator(".view:not(.free)").nth(index).click()
        expect(self.page.locator(".view:not(.free)").nth(index)).to_have_attribute("aria-pressed", "true")
        expect(self.page.locator(".stage canvas")).not_to_have_attribute("data-frames", frames or "")
        return SPOT / f"train/r_{index:03}.png"


class Bakes(PageTest):
    def test_dropped_zip_is_baked_watched_and_compared_with_its_views(self) -> None:
        self.open()
        page = self.page
        self.assertNotIn(self.sidecar.token, page.url)
        self.assertIn("token", self.sidecar.said)
        page.evaluate(DROP, [".zone", "scan.zip", base64.b64encode(spot_zip()).decode()])
        expect(page.locator(".facts")).to_contain_text("16 views")
        self.shot("dropped")
        # Each column of the stages, each time that it changes: the last states alone would not tell that they were live.
        page.evaluate("""() => {
          window.seen = new Set();
          new MutationObserver(() => document.querySelectorAll('.stages > li')
            .forEach((column) => window.seen.add(column.dataset.state + ' ' + column.querySelector('h2').firstChild.data)))
            .observe(document.body, {subtree: true, childList: true, attributes: true});
        }""")
        self.submit(holdout="2", name="Spot")
        expect(page.locator(".badge")).to_have_text("succeeded", timeout=BAKED_MS)
        seen = set(page.evaluate("[...window.seen]"))
        self.assertGreaterEqual(seen, {"done Prepare", "done Bake", "done Encode"})
        # A browser that hears of the beginning and the end of a short stage at once shows the end alone.
        self.assertTrue(seen & {"working Prepare", "working Bake"}, seen)
        expect(page.locator("h1")).to_have_text("Spot")
        expect(page.locator(".view:not(.free)")).to_have_count(16)
        expect(page.locator(".view .figure", has_text="held out")).to_have_count(2)
        self.assertRegex(page.locator(".terms").inner_text(), r"processor \(\d+ threads?\)")
        self.check_canvas()
        self.check_cameras()
        self.check_modes()
        self.check_fits()
        self.check_reloaded()
        self.check_quiet()

    def check_canvas(self) -> None:
        """It shows something else than one colour."""
        page = self.page
        expect(page.locator(".stage canvas")).to_have_attribute("data-frames", re.compile(r"\d"))
        shot = page.locator(".stage canvas").screenshot()
        bench = self.context.new_page()
        colours = bench.evaluate(
            """async (text) => {
              const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
              const image = await createImageBitmap(new Blob([bytes]));
              const context = new OffscreenCanvas(image.width, image.height).getContext('2d');
              context.drawImage(image, 0, 0);
              return new Set(new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer)).size;
            }""",
            base64.b64encode(shot).decode(),
        )
        bench.close()
        self.assertGreater(colours, 100)
        self.shot("result")

    def check_cameras(self) -> None:
        """Each view's camera draws what its picture shows; another view's does not."""
        figures = []
        for index in (0, 5, 11):
            picture = self.pick(index)
            drawn = self.drawn()
            right = self.psnr(picture, drawn)
            wrong = self.psnr(SPOT / f"train/r_{(index + 1) % 16:03}.png", drawn)
            figures.append((index, round(right, 1), round(wrong, 1)))
        print(f"\nview, dB to its picture, dB to the next one's: {figures}")
        for index, right, wrong in figures:
            self.assertGreater(right, LEAST_PSNR, f"view {index}")
            self.assertLess(wrong, MOST_WRONG_PSNR, f"view {index}: the measure tells nothing")

    def check_modes(self) -> None:
        """Each way to compare, and each surface, draws something of its own; the stage fills the screen."""
        page = self.page
        small = page.locator(".stage").bounding_box()["height"]
        page.get_by_role("button", name="Full screen").click()
        expect(page.get_by_role("button", name="Full screen")).to_have_attribute("aria-pressed", "true")
        page.wait_for_function("(small) => document.querySelector('.stage').clientHeight > small + 50", arg=small)
        self.shot("fullscreen")
        page.get_by_role("button", name="Full screen").click()
        expect(page.get_by_role("button", name="Full screen")).to_have_attribute("aria-pressed", "false")
        shots = {}
        for mode in page.locator("input[name=compare]").all():
            mode.check(force=True)
            shots[mode.get_attribute("value")] = page.locator(".stage").screenshot()
        page.locator("input[value=wipe]").check(force=True)
        self.shot("compared")
        page.get_by_role("button", name="Free view").click()
        for surface in page.locator("input[name=surface]").all():
            surface.check(force=True)
            shots[surface.get_attribute("value")] = page.locator(".stage").screenshot()
            self.shot(f"surface_{surface.get_attribute('value')}")
        self.assertGreaterEqual(len(shots), 8)
        self.assertEqual(len(set(shots.values())), len(shots), "two look the same")
        if page.locator("input[value=coverage]").count():
            expect(page.locator(".flat figure")).to_have_count(4)
            page.get_by_label("The coverage map").hover()
            expect(page.locator(".told").first).to_have_text(re.compile(r"seen by|outside every chart"))
        with page.expect_download() as download:
            page.get_by_role("button", name="model.glb").click()
        self.assertEqual(Path(download.value.path()).read_bytes()[:4], b"glTF")

    def check_reloaded(self) -> None:
        """After a reload the pictures come from the sidecar; what is asked is asked from it alone, and the page itself from the cache."""
        page = self.page
        page.reload()
        expect(page.locator(".view:not(.free)")).to_have_count(16)
        sent = page.evaluate("""performance.getEntriesByType('resource').filter(({name}) => name.includes('/page/'))
          .map(({name, transferSize}) => [name, transferSize])""")
        self.assertGreaterEqual(len(sent), 3)
        self.assertEqual([name for name, size in sent if size > 0], [], "not from the cache")
        picture = self.pick(3)
        self.assertGreater(self.psnr(picture, self.drawn()), LEAST_PSNR)

    def test_further_options_are_those_of_the_job(self) -> None:
        self.open()
        page = self.page
        page.set_input_files("#files", spot_files())
        page.get_by_text("More options").click()
        self.shot("options")
        self.check_fits()
        wanted = {"refine": "off", "up": "z", "alpha_mode": "opaque", "texture_format": "jpeg"}
        for key, value in wanted.items():
            page.select_option(f"#opt-{key}", value)
        for key in ("texture_auto", "remove_unseen", "orient"):
            page.check(f"#opt-{key}")
        page.fill("#opt-fill_holes", "0.04")
        page.fill("#opt-weld", "5")
        # What is wrong with a field is shown though the group was folded again.
        page.get_by_text("More options").click()
        page.get_by_role("button", name="Bake", exact=True).click()
        expect(page.locator("#opt-weld-error")).to_have_text(re.compile("0.01"))
        expect(page.locator("#opt-weld")).to_be_focused()
        self.submit(weld="0.0001")
        expect(page.locator(".badge")).to_have_text("succeeded", timeout=BAKED_MS)
        spec = json.loads(page.locator("pre[aria-label=Options]").text_content() or "")
        flags = {"texture_auto": True, "remove_unseen": True, "orient": True, "fill_holes": 0.04, "weld": 0.0001}
        self.assertEqual({key: spec[key] for key in (*wanted, *flags)}, {**wanted, **flags})
        # The cameras are turned with the model.
        self.check_cameras()
        self.check_quiet(allowed=r"status of 422 .*/v1/jobs")

    def test_each_page_shows_its_own_texture_and_its_own_square_of_the_maps(self) -> None:
        self.open()
        page = self.page
        page.set_input_files("#files", spot_files())
        page.select_option("#opt-pages", "4")
        self.submit(size="256")
        expect(page.locator(".badge")).to_have_text("succeeded", timeout=BAKED_MS)
        expect(page.locator(".flat figcaption").first).to_have_text("Colour, 4 pages of 256 × 256")
        for surface in ("coverage", "residual", "provenance"):
            page.locator(f"input[value={surface}]").check(force=True)
            shares = self.colours(page.locator(".stage canvas").screenshot())
            self.shot(f"pages_{surface}")
            # What lies outside every chart is grey, and is on no triangle.
            self.assertLess(shares.get("60,60,66", 0), 0.002, surface)
        # Every camera sees charts of all pages: with another page's texture none of them would be right.
        page.locator("input[value=colour]").check(force=True)
        self.check_cameras()
        self.check_quiet()

    def test_compressed_models_and_textures_are_shown(self) -> None:
        # The same pictures as a channel: what glows is seen in the lit view alone.
        views = json.loads((SPOT / "transforms.json").read_text())
        for frame in views["frames"]:
            frame["channels"] = {"emissive": frame["file_path"]}
        files = [file for file in spot_files() if file["name"] != "transforms.json"]
        files.append({"name": "transforms.json", "mimeType": "", "buffer": json.dumps(views).encode()})
        flat: Dict[str, List[np.ndarray]] = {}
        for textures, compress in (("png", "none"), ("ktx2-etc1s", "meshopt"), ("ktx2-uastc", "none")):
            self.open()
            page = self.page
            page.set_input_files("#files", files)
            page.locator(".options details").evaluate("(details) => (details.open = true)")
            page.select_option("#opt-texture_format", textures)
            page.select_option("#opt-compress", compress)
            self.submit()
            expect(page.locator(".badge")).to_have_text("succeeded", timeout=BAKED_MS)
            self.check_cameras()
            expect(page.locator(".flat figcaption").nth(0)).to_have_text("Colour, 512 × 512")
            expect(page.locator(".flat figcaption").nth(1)).to_have_text("Emission, 512 × 512")
            urls = page.locator(".flat canvas").evaluate_all("(all) => all.slice(0, 2).map((canvas) => canvas.toDataURL())")
            flat[textures] = [self.pixels(base64.b64decode(url.split(",")[1])) for url in urls]
            page.locator("input[value=lit]").check(force=True)
            self.shot(f"compressed_{textures}")
            with page.expect_download() as download:
                page.get_by_role("button", name="Download").click()
            file = Path(download.value.path()).read_bytes()
            self.assertEqual(b"KHR_texture_basisu" in file, textures != "png")
            self.assertEqual(b"EXT_meshopt_compression" in file, compress == "meshopt")
        # Flat they are those of the PNG, the right way up. A mesh that is quantised has the same atlas.
        for textures in ("ktx2-etc1s", "ktx2-uastc"):
            for wanted, got in zip(flat["png"], flat[textures]):
                self.assertLess(np.abs(wanted - got).mean(), 8, textures)
                self.assertGreater(np.abs(wanted[::-1] - got).mean(), 16, "the measure tells nothing")
        self.check_quiet()

    def test_a_colmap_project_is_baked_listed_and_baked_again_from_what_is_kept(self) -> None:
        self.open()
        page = self.page
        page.evaluate(DROP, [".zone", "scan.zip", base64.b64encode(colmap_zip()).decode()])
        expect(page.locator(".facts")).to_contain_text("images.txt16 views")
        self.submit()
        expect(page.locator(".badge")).to_have_text("succeeded", timeout=BAKED_MS)
        self.check_cameras()
        page.get_by_role("link", name="Bake again with other options").click()
        expect(page.locator(".facts")).to_contain_text("those of mesh_nouv, 16 views")
        expect(page.locator("#opt-texture_size")).to_have_value("512")
        expect(page.locator(".thumbs .thumb:not(.broken)")).to_have_count(16)
        row = page.locator(".jobs li", has=page.get_by_role("link", name="mesh_nouv, 16 views")).first
        row.scroll_into_view_if_needed()
        drawn = "(canvas) => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value > 0)"
        page.wait_for_function(drawn, arg=row.locator("canvas").element_handle())
        self.shot("again")
        self.check_fits()
        sent: List[str] = []
        page.on("request", lambda request: request.method == "PUT" and sent.append(request.url))
        self.submit(size="256")
        expect(page.locator(".badge")).to_have_text("succeeded", timeout=BAKED_MS)
        expect(page.locator(".view:not(.free)")).to_have_count(16)
        spec = json.loads(page.locator("pre[aria-label=Options]").text_content() or "")
        self.assertEqual((spec["texture_size"], spec["quality"], sent), (256, "draft", []))
        self.check_quiet()


class Trouble(PageTest):
    def test_bad_mesh_ends_in_a_report_that_can_be_copied(self) -> None:
        self.open()
        self.page.set_input_files("#files", spot_files(mesh=b"glTF and nothing more that could be read"))
        self.submit()
        page = self.page
        expect(page.get_by_role("heading", name="Why it failed")).to_be_visible(timeout=BAKED_MS)
        expect(page.locator(".failure .message")).to_contain_text("mesh.glb")
        expect(page.locator(".failure .terms")).to_contain_text("prepare")
        expect(page.locator(".failure tbody tr").first).to_contain_text("exit 65")
        expect(page.locator(".failure pre")).to_contain_text("mesh.glb")
        page.get_by_role("button", name="Copy the report").click()
        expect(page.locator(".failure [role=status]")).to_have_text("Copied.")
        self.assertRegex(page.evaluate("navigator.clipboard.readText()"), r"(?s)^Kiln job \w{32}: failed\ncode: .*attempt: prepare 1, exit 65")
        self.shot("failed")
        self.check_fits()
        failed = page.url
        page.get_by_role("button", name="Try again").click()
        page.wait_for_url(lambda url: "#/jobs/" in url and url != failed)
        expect(page.get_by_role("heading", name="Why it failed")).to_be_visible(timeout=BAKED_MS)
        expect(page.locator(".failure .message")).to_contain_text("A file has something that Kiln does not read. mesh.glb")
        page.get_by_role("button", name="Delete", exact=True).click()
        page.locator("#ask").get_by_role("button", name="Delete").click()
        expect(page.locator(".zone")).to_be_visible()
        self.check_quiet()

    def test_what_is_missing_or_wrong_is_said_where_it_is(self) -> None:
        self.open()
        page = self.page
        page.set_input_files("#files", spot_files()[:9])
        expect(page.locator(".missing")).to_contain_text("9 of the 16 pictures that transforms.json names are missing")
        expect(page.get_by_role("button", name="Bake", exact=True)).to_be_disabled()
        page.set_input_files("#files", spot_files())
        expect(page.locator(".missing")).to_have_count(0)
        page.fill("#opt-holdout", "4096")
        page.get_by_role("button", name="Bake", exact=True).click()
        expect(page.locator("#opt-holdout-error")).to_have_text(re.compile("must be a whole number below"))
        expect(page.locator("#opt-holdout")).to_be_focused()
        expect(page.locator("#opt-holdout")).to_have_attribute("aria-invalid", "true")
        self.check_quiet(allowed=r"status of 422 .*/v1/jobs")

    def test_running_job_is_cancelled(self) -> None:
        self.open()
        self.page.set_input_files("#folder", SPOT)
        self.submit(quality="best", size="4096")
        page = self.page
        expect(page.locator('.stages [data-state="working"]').first).to_be_visible(timeout=BAKED_MS)
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("heading", name="Cancelled")).to_be_visible(timeout=BAKED_MS)
        self.check_quiet()

    def test_sidecar_that_restarts_is_found_again_with_its_job(self) -> None:
        self.open()
        self.page.set_input_files("#folder", SPOT)
        # Work for as long as it takes to see it.
        self.submit(quality="best", size="1024")
        page = self.page
        expect(page.locator('.stages [data-state="working"]').first).to_be_visible(timeout=BAKED_MS)
        self.sidecar.program.process.kill()
        self.sidecar.end()
        expect(page.locator("#banner")).to_contain_text("does not answer")
        self.shot("away")
        self.sidecar.start()
        expect(page.locator("#banner")).to_be_hidden()
        expect(page.locator(".badge")).to_have_text("succeeded", timeout=BAKED_MS)
        expect(page.locator(".below .terms")).to_contain_text("2 times")
        self.check_quiet(allowed=r"net::ERR_|Failed to load resource: net")

    def test_nobody_comes_in_without_the_token(self) -> None:
        page = self.page
        page.goto(f"http://{self.sidecar.address}/")
        expect(page.locator("#token")).to_be_focused()
        page.keyboard.type("not the token at all")
        page.keyboard.press("Enter")
        expect(page.locator("#token-error")).to_have_text("This token is not the sidecar’s.")
        page.locator("#token").fill(self.sidecar.token)
        page.keyboard.press("Enter")
        expect(page.locator(".zone")).to_be_visible()
        expect(page.locator("#token")).to_be_hidden()
        # Another tab asks the first.
        other = self.watched(self.context.new_page())
        other.goto(f"http://{self.sidecar.address}/")
        expect(other.locator(".zone")).to_be_visible()
        expect(other.locator("#token")).to_be_hidden()
        self.check_quiet(allowed="status of 401")

    def test_a_terminal_is_given_a_link_to_open_and_a_log_is_not(self) -> None:
        self.assertNotIn(self.sidecar.token, self.sidecar.said)
        master, slave = pty.openpty()
        folder = Path(tempfile.mkdtemp(prefix="t-", dir=self.sidecar.folder.path))
        command = [str(support.kiln()), "serve", "--socket", str(folder / "s"), "--store", str(folder / "store")]
        command += ["--tcp", "127.0.0.1:0", "--token-file", str(self.sidecar.token_file)]
        with subprocess.Popen(command, env=self.sidecar.folder.environment(), stdin=subprocess.DEVNULL, stdout=slave, stderr=slave) as program:
            os.close(slave)
            with open(master, encoding="utf-8", errors="replace", newline="") as terminal:
                link = next(found for line in terminal if (found := re.search(r"http://\S+/#token=\S+", line)))
                self.page.goto(link.group())
                expect(self.page.locator(".zone")).to_be_visible()
                self.assertNotIn("token", self.page.url)
                program.terminate()


class Hands(PageTest):
    def test_keyboard_alone_is_enough(self) -> None:
        page = self.page
        # The browser hands choosers over from the first listener on, which it learns beside the key that is pressed.
        page.on("filechooser", lambda _: None)
        self.open()
        press = page.keyboard.press

        def tab_to(selector: str) -> None:
            for _ in range(60):
                press("Tab")
                if page.evaluate("(selector) => document.activeElement?.matches(selector)", selector):
                    return
            self.fail(f"the keyboard does not reach {selector}")

        tab_to("#files")
        with page.expect_file_chooser() as chooser:
            press("Enter")
        chooser.value.set_files(spot_files())
        expect(page.locator(".facts")).to_contain_text("16 views")
        tab_to("#opt-texture_size")
        press("5")
        tab_to("#opt-quality")
        press("d")
        tab_to("#opt-device")
        press("p")
        self.assertEqual(page.evaluate("['texture_size', 'quality', 'device'].map((key) => document.getElementById(`opt-${key}`).value)"), ["512", "draft", "cpu"])
        press("Enter")
        tab_to("button.main")
        press("Enter")
        page.wait_for_url(re.compile("#/jobs/"))
        expect(page.locator("h1")).to_be_focused()
        expect(page.locator(".view:not(.free)")).to_have_count(16, timeout=BAKED_MS)
        tab_to(".stage canvas")
        canvas = page.locator(".stage canvas")
        free = canvas.screenshot()
        press("ArrowLeft")
        turned = canvas.screenshot()
        self.assertNotEqual(free, turned)
        press("]")
        expect(page.locator(".view:not(.free)").first).to_have_attribute("aria-pressed", "true")
        page.keyboard.down("b")
        expect(page.locator(".stage")).to_have_class(re.compile("blinks"))
        page.keyboard.up("b")
        expect(page.locator(".stage")).not_to_have_class(re.compile("blinks"))
        press("2")
        expect(page.locator("input[value=lit]")).to_be_checked()
        tab_to("input[name=compare]")
        press("ArrowRight")
        expect(page.locator(".stage")).to_have_attribute("data-mode", "side")
        self.check_quiet()

    def test_narrow_and_dark_fit(self) -> None:
        self.open()
        page = self.page
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for width in (1360, 800, 360):
                page.set_viewport_size({"width": width, "height": 800})
                wide = page.evaluate("document.documentElement.scrollWidth")
                self.assertLessEqual(wide, width, f"{scheme}, {width}")
        self.check_fits()
        page.emulate_media(color_scheme="dark")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        self.assertRegex(ground, r"rgb\(2\d, 2\d, 2\d\)")
        self.check_quiet()


if __name__ == "__main__":
    unittest.main()
