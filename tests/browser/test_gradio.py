"""A Gradio app in a real browser, while what bakes for it is killed, stalled and starved: the app must not notice.

`FAULTS` (200) and `SEED` of the environment make a longer run, or repeat one: the plan of faults is the same then, not its moments.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import time
import unittest
from collections import Counter
from typing import Any, Dict, List, NamedTuple, Optional

import support
from faults import Injector
from glb import read_glb
from heartbeat import Machine, Waits, longest
from playwright.async_api import Page, async_playwright

FAULTS = int(os.environ.get("FAULTS", 200))
SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 32))
TABS = 5
SAMPLES = ("Spot, simplified and unwrapped", "Spot, with its own UVs")
SIZE = 256
#: Of a heartbeat, less what the machine is responsible for.
LONGEST_GAP = 0.250
#: Of a page's. Its viewer makes its shaders anew for each model, on a processor that plays a GPU: half a second, where
#: the browser has half a processor to itself.
LONGEST_GAP_OF_PAGE = 2.0
#: And no more than so many times what was seen before the first fault: five pages share one such processor.
WORSE = 3.0
#: For all of the faults: so many can be injected only while there is work.
ENOUGH = 1800.0
#: For one press of the button. Two jobs are at work at once, and each may have to be done twice.
PATIENCE = 600.0
#: A word of the closed list, or the name of an exception; then words for people.
CLEAR = re.compile(r"^([a-z]+(_[a-z]+)*|[A-Z][A-Za-z]+) \S+ \S+")
UNCLEAR = re.compile(r"Traceback|File \"|Errno|0x[0-9a-f]{6}|None")

#: In the page: a beat each 10 ms, and a question to the app each 250 ms. Times are the wall's, in seconds.
BEAT = """
window.beat = {gaps: [], answers: 0, failures: 0, slowest: 0};
let last = performance.now();
setInterval(() => {
  const now = performance.now();
  if (now - last > 20) beat.gaps.push([(performance.timeOrigin + last) / 1e3, (performance.timeOrigin + now) / 1e3, 0]);
  last = now;
}, 10);
if (location.protocol == 'http:') (async function ask() {
  const began = performance.now();
  try { beat.answers += (await fetch('/heartbeat')).ok; } catch (error) { beat.failures += 1; }
  beat.slowest = Math.max(beat.slowest, (performance.now() - began) / 1e3);
  setTimeout(ask, 250);
})();
"""


class Ended(NamedTuple):
    """What a press of the button came to."""

    sample: str
    kind: str
    text: str
    glb: bytes


class App(support.Program):
    """`app.py`, or another that is like it, on a port that the kernel chose; and beside it what only beats."""

    def __init__(self, folder: support.Isolated, program: str = "app.py") -> None:
        environment = folder.environment(PORT="0", KILN_DEVICE="cpu", PYTHONDONTWRITEBYTECODE="1", GRADIO_ANALYTICS_ENABLED="False")
        super().__init__([sys.executable, "-B", str(support.HERE / program)], environment)
        self._control = subprocess.Popen(
            [sys.executable, "-B", str(support.HERE / "heartbeat.py"), str(self.process.pid)],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        self.url = self.wait_for("Uvicorn running on").split("running on ")[1].split()[0]

    def machine(self) -> Machine:
        """When this machine let nobody run, as the process saw it that only beats. To be asked once."""
        told, _ = self._control.communicate("enough\n", timeout=support.SOON)
        told = json.loads(told)
        return Machine(told["gaps"], told["waits"])

    def __exit__(self, *error: object) -> None:
        self._control.kill()
        self._control.communicate()
        super().__exit__(*error)


class Tab:
    """A page of the app, and the one who sits before it."""

    def __init__(self, page: Page, random_: random.Random) -> None:
        self.page, self._random = page, random_
        self.errors: List[str] = []
        page.on("crash", lambda _: self.errors.append("the page crashed"))
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    @classmethod
    async def open(cls, browser: Any, url: str, random_: random.Random) -> "Tab":
        # Small, as Chromium draws the model by the processor, all the time.
        page = await browser.new_page(viewport={"width": 480, "height": 400})
        page.set_default_timeout(PATIENCE * 1e3)
        tab = cls(page, random_)
        await page.goto(url)
        await page.locator("#texture-size input[type=number]").fill(str(SIZE))
        await page.get_by_label("fast").check()
        return tab

    async def bake(self, sample: str, patience: float = PATIENCE) -> Ended:
        """One press of the button."""
        page = self.page
        if await page.get_by_label("Sample").input_value() != sample:
            await page.get_by_label("Sample").click()
            await page.get_by_role("option", name=sample).click()
        before, link = await self._number(), page.get_by_test_id("model3d-download-link")
        shown = await link.get_attribute("href") if await link.count() else None
        await page.locator("#bake").click()
        await page.wait_for_function(OVER, arg=[before, shown], timeout=patience * 1e3)
        line = page.locator("#outcome")
        kind, text = await line.get_attribute("class"), await line.inner_text()
        if not await line.is_visible():
            raise AssertionError("nobody sees the outcome")
        data = b""
        if kind == "done":
            data = base64.b64decode(await page.evaluate(FETCH, await link.get_attribute("href")))
        return Ended(sample, kind, text, data)

    async def _number(self) -> str:
        line = self.page.locator("#outcome")
        return await line.get_attribute("data-bake") if await line.count() else ""

    async def until(self, over: Any) -> List[Ended]:
        """Presses it again and again."""
        ended = []
        while not over():
            ended.append(await self.bake(self._random.choice(SAMPLES)))
        return ended


#: In the page: another outcome is shown, and with it another model, or none. Gradio puts up one after the other.
OVER = """([before, shown]) => {
  const line = document.querySelector('#outcome'), link = document.querySelector('[data-testid=model3d-download-link]');
  if (!line || line.dataset.bake == before) return false;
  return line.className == 'done' ? link && link.href != shown : !link;
}"""


#: In the page: what the app tells of itself.
HEART = "fetch('/heartbeat').then((answer) => answer.json())"
#: In the page: the bytes behind a link, as base64.
FETCH = """async (href) => {
  const bytes = await (await fetch(href)).bytes();
  return bytes.toBase64();
}"""


class Figures(NamedTuple):
    """Of one run."""

    references: List[Dict[str, bytes]]
    ended: List[Ended]
    pages: List[Dict[str, Any]]
    page_errors: List[str]
    blank: Dict[str, Any]
    #: Of the app, since the first fault.
    heart: Dict[str, Any]
    #: The longest of a page's gaps before it.
    calm_gap: float


async def undisturbed(tab: Tab) -> Dict[str, bytes]:
    """What each sample gives where nobody disturbs it."""
    return {sample: (await tab.bake(sample)).glb for sample in SAMPLES}


async def drive(app: App, injector: Injector) -> Figures:
    """Tabs that bake until all faults were injected, and then once more each."""
    random_ = random.Random(SEED)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**support.launch_options())
        tabs = [await Tab.open(browser, app.url, random_) for _ in range(TABS)]
        blank = await browser.new_page()
        # Each shows a model before it is looked at: until then the viewer comes, and its shaders are made.
        references = await asyncio.gather(*(undisturbed(tab) for tab in tabs))
        for page in (blank, *(tab.page for tab in tabs)):
            await page.evaluate(BEAT)
        references += await asyncio.gather(*(undisturbed(tab) for tab in tabs))
        calm = [await tab.page.evaluate("beat.gaps.splice(0)") for tab in tabs]
        calm_blank = await blank.evaluate("beat.gaps.splice(0)")
        began = time.monotonic()
        injector.start()
        over = lambda: not injector.is_alive() or time.monotonic() - began > ENOUGH  # noqa: E731
        ended = [each for tab in await asyncio.gather(*(tab.until(over) for tab in tabs)) for each in tab]
        last = await asyncio.gather(*(tab.bake(SAMPLES[index % 2]) for index, tab in enumerate(tabs)))
        pages = [await tab.page.evaluate("beat") for tab in tabs]
        heart = await tabs[0].page.evaluate(HEART)
        told = await blank.evaluate("beat")
        await browser.close()
    for beats in heart.values():
        beats["gaps"] = [gap for gap in beats["gaps"] if gap[1] > began]
    calm_gap = max(longest(gaps, Machine(calm_blank)) for gaps in calm)
    return Figures(references, ended + list(last), pages, [error for tab in tabs for error in tab.errors], told, heart, calm_gap)


def unclear(ended: Ended) -> Optional[str]:
    """What is wrong with what the page showed of an error."""
    if not CLEAR.search(ended.text) or UNCLEAR.search(ended.text) or len(ended.text) < 30:
        return f"the page says {ended.text!r}"
    return None


def wrong(ended: Ended, reference: Dict[str, bytes]) -> Optional[str]:
    """What is wrong with a request's end."""
    if ended.kind == "error":
        return unclear(ended)
    if ended.kind != "done":
        return f"neither a model nor an error, but {ended.kind!r}"
    try:
        model = read_glb(ended.glb)
    except ValueError as error:
        return f"a GLB that cannot be read: {error}"
    if model.texture_size != (SIZE, SIZE):
        return f"a texture of {model.texture_size}"
    if ended.glb != reference[ended.sample]:
        return f"{len(ended.glb)} bytes that are not the {len(reference[ended.sample])} of an undisturbed bake"
    return None


class Gradio(unittest.TestCase):
    """The app and its pages."""

    def test_faults_of_the_bakers_reach_neither_the_app_nor_its_page(self) -> None:
        print(f"\nseed {SEED}, {FAULTS} faults", file=sys.stderr)
        with support.isolated() as folder:
            with App(folder) as app:
                injector = Injector(app.process.pid, SEED, FAULTS, folder.path / "faults.jsonl")
                began = time.monotonic()
                try:
                    figures = asyncio.run(drive(app, injector))
                finally:
                    injector.stop()
                machine = app.machine()
                self.assertIsNone(app.process.poll(), app.said())
                report(figures, injector, machine, time.monotonic() - began)
                self.assertEqual(alive(injector.stalled), [], "a worker that hangs was left alone")
            if injector.error:
                raise injector.error
            self.assertEqual(injector.total, FAULTS)
            reference, *others = figures.references
            self.assertTrue(all(other == reference for other in others), "the same job gave other bytes where nobody disturbed it")
            self.assertEqual([why for each in figures.ended if (why := wrong(each, reference))], [])
            self.assertEqual({each.kind for each in figures.ended}, {"done", "error"}, "the faults did nothing, or all was lost")
            self.assertEqual(figures.page_errors, [])
            self.assertEqual(sum(page["failures"] for page in figures.pages), 0)
            for name, heart in figures.heart.items():
                self.assertLessEqual(longest(heart["gaps"], machine), LONGEST_GAP, f"the {name} stood still")
            bound = max(LONGEST_GAP_OF_PAGE, WORSE * figures.calm_gap)
            for page in figures.pages:
                self.assertLessEqual(longest(page["gaps"], Machine(figures.blank["gaps"])), bound, "a page stood still")
            self.assertEqual(app.process.returncode, 0, app.said())
            self.assertEqual(folder.left(), [])
            # What Gradio keeps on purpose, and the list of the faults.
            self.assertEqual({entry.name for entry in folder.path.iterdir()} - {"gradio", "faults.jsonl"}, set())


class Oracles(unittest.TestCase):
    """What would be wrong is seen."""

    def test_an_app_that_bakes_within_itself(self) -> None:
        async def press(app: App) -> Dict[str, Any]:
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(**support.launch_options())
                tab = await Tab.open(browser, app.url, random.Random(0))
                # An error that is swallowed is a line without a word.
                with self.assertRaisesRegex(AssertionError, "nobody sees"):
                    await tab.bake(SAMPLES[0])
                heart = await tab.page.evaluate(HEART)
                # The second press kills the app: nothing comes, and the page hears no answer.
                press = asyncio.ensure_future(tab.bake(SAMPLES[0]))
                await asyncio.to_thread(app.process.wait, support.SOON)
                self.assertEqual((await asyncio.wait([press], timeout=3.0))[0], set())
                press.cancel()
                await browser.close()
            return heart

        with support.isolated() as folder, App(folder, "bad_app.py") as app:
            heart = asyncio.run(press(app))
            machine = app.machine()
            for name, beats in heart.items():
                self.assertGreater(longest(beats["gaps"], machine), LONGEST_GAP, f"the {name} stood still, and it passed")
            self.assertEqual(app.process.wait(support.SOON), -signal.SIGABRT)

    def test_what_of_a_gap_is_the_machines(self) -> None:
        gap = (10.0, 10.6, 0.0)
        waits = [(9.98, 1.0), (10.3, 1.1), (10.61, 1.4), (10.9, 9.0)]
        for machine, expected in [
            (Machine([]), 0.6),
            (Machine([], waits), 0.2),
            (Machine([], waits[:1]), 0.6),
            (Machine([], [(at, 2.0) for at, _ in waits]), 0.6),
            (Machine([(9.0, 9.9, 0.0), (10.5, 10.59, 0.0)]), 0.51),
            (Machine([(10.0, 10.2, 0.0)]), 0.2),
        ]:
            self.assertAlmostEqual(longest([gap], machine), expected)
        # Two that want the same processor wait for each other.
        spin = [sys.executable, "-c", "import os\nos.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\nwhile True: pass"]
        both = [subprocess.Popen(spin) for _ in range(2)]
        try:
            waits, end = Waits(both[0].pid), time.monotonic() + support.SOON
            while not waits.told or (waits.told[-1][1] < 0.1 and time.monotonic() < end):
                waits.look()
            self.assertGreaterEqual(waits.told[-1][1], 0.1)
        finally:
            for each in both:
                each.kill()
                each.wait()

    def test_what_is_no_model_and_what_is_no_clear_error(self) -> None:
        with support.isolated() as folder:
            with subprocess.Popen(["cat"], env=folder.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as left:
                # `Popen` is back while exec still makes the environment that /proc shows; what answers has it.
                left.stdin.write(b"here\n")
                left.stdin.flush()
                self.assertEqual(left.stdout.readline(), b"here\n")
                self.assertEqual(len(folder.left()), 1, "a process that is left passed")
        whole = b"glTF" + struct.pack("<II", 2, 20) + struct.pack("<I4s", 0, b"JSON")
        for kind, text, data in [
            ("done", "", b""),
            ("done", "", whole),
            ("pending", "Baking", b""),
            ("error", "Traceback (most recent call last): File app.py", b""),
            ("error", "Error", b""),
            ("error", "worker_crashed [Errno 111] Connection refused", b""),
        ]:
            self.assertIsNotNone(wrong(Ended("", kind, text, data), {"": whole}), text)
        clear = "worker_crashed The process that bakes was killed by SIGKILL. Try again."
        self.assertIsNone(wrong(Ended("", "error", clear, b""), {}))


def alive(pids: List[int]) -> List[int]:
    """Those that are still there after a while."""
    end = time.monotonic() + support.SOON
    while (left := [pid for pid in pids if os.path.exists(f"/proc/{pid}")]) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def report(figures: Figures, injector: Injector, machine: Machine, seconds: float) -> None:
    """The figures, for people."""
    ended = Counter(each.kind for each in figures.ended)
    codes = Counter(each.text.split(" ")[0] for each in figures.ended if each.kind == "error")
    ms = lambda gaps, others=None: f"{1e3 * longest(gaps, others):.0f} ms"  # noqa: E731
    pages = [gap for page in figures.pages for gap in page["gaps"]]
    lines = [
        f"faults    {injector.total}: {dict(injector.hits)}, by role {dict(injector.by_role)}; {injector.missed} came too late",
        f"requests  {len(figures.ended)} in {seconds:.0f} s: {ended['done']} GLBs, {ended['error']} errors {dict(codes)}",
        *(
            f"{name:<10}largest gap {ms(heart['gaps'])}, of its own {ms(heart['gaps'], machine)}, {heart['beats']} beats"
            for name, heart in figures.heart.items()
        ),
        *(f"          {text[:400]}" for text in sorted({each.text for each in figures.ended if each.kind == "error" and not each.text.startswith("worker_crashed")})),
        f"pages     largest gap {ms(pages)}, of their own {ms(pages, Machine(figures.blank['gaps']))}; "
        f"{sum(page['answers'] for page in figures.pages)} answers, the slowest after {1e3 * max(page['slowest'] for page in figures.pages):.0f} ms",
        f"machine   largest gap {ms(machine.gaps)} of a process that only beats, {ms(figures.blank['gaps'])} of an empty page",
    ]
    print("\n".join(lines), file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
