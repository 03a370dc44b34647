"""The Blender add-on: what of it needs no Blender; and in Blender, where a Python has `bpy`: `$KILN_BPY`, or this one."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

import numpy as np
import support

support.isolate()

import kiln  # noqa: E402
from test_package import WHEELS  # noqa: E402

HERE = support.ROOT / "proto/python"
ADDON = HERE / "blender"
SPOT = support.ROOT / "tests/data/spot"


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


job = load(ADDON / "job.py", "kiln_blender_job")


def frustum(left, right, bottom, top, near=0.1, far=100.0):
    """OpenGL's glFrustum, as `calc_matrix_camera` returns it."""
    return [
        [2 * near / (right - left), 0, (right + left) / (right - left), 0],
        [0, 2 * near / (top - bottom), (top + bottom) / (top - bottom), 0],
        [0, 0, -(far + near) / (far - near), -2 * far * near / (far - near)],
        [0, 0, -1, 0],
    ]


#: More to the right and to the bottom than to the left and to the top.
PROJECTION = frustum(-0.03, 0.05, -0.04, 0.02)
WORLD = [[0, 0, 1, 2], [1, 0, 0, 3], [0, 1, 0, 4], [0, 0, 0, 1]]


class Views(unittest.TestCase):
    def test_a_point_lies_where_the_projection_puts_it(self):
        camera = job.Camera("a", PROJECTION, WORLD, "a.png", (160, 90))
        frame = job.frame(camera)
        for point in ([1, -2, -9], [-0.5, 0.3, -2], [0, 0, -1]):
            clip = np.array(PROJECTION) @ [*point, 1]
            right, up = clip[:2] / clip[3]
            wanted = [(1 + right) / 2 * 160, (1 - up) / 2 * 90]
            found = [frame["cx"] + frame["fl_x"] * point[0] / -point[2], frame["cy"] + frame["fl_y"] * -point[1] / -point[2]]
            np.testing.assert_allclose(found, wanted)
        self.assertEqual((frame["w"], frame["h"], frame["transform_matrix"]), (160, 90, WORLD))
        # The middle of the lens is left of the middle of the picture, and above it.
        self.assertTrue(frame["cx"] < 80 and frame["cy"] < 45)

    def test_cameras_without_a_perspective_are_refused(self):
        orthographic = [[2, 0, 0, 0], [0, 3, 0, 0], [0, 0, -0.02, -1], [0, 0, 0, 1]]
        with self.assertRaisesRegex(ValueError, "Eye is no perspective camera"):
            job.frame(job.Camera("Eye", orthographic, WORLD, "a.png", (8, 8)))

    def test_pictures_of_other_proportions_are_refused(self):
        job.check_aspect("a.png", (400, 225), (1920, 1080))
        job.check_aspect("a.png", (333, 187), (1920, 1080))
        with self.assertRaisesRegex(ValueError, "a.png has 1080x1920 pixels, and the scene renders 1920x1080"):
            job.check_aspect("a.png", (1080, 1920), (1920, 1080))
        with self.assertRaisesRegex(ValueError, "a.png cannot be read"):
            job.check_aspect("a.png", (0, 0), (1920, 1080))

    def test_pictures_are_found_by_the_cameras_names_and_lie_beside_the_list(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "Camera.001.jpg").write_bytes(b"one")
            picture = job.find_picture(folder, "Camera.001")
            self.assertEqual(picture, os.path.join(folder, "Camera.001.jpg"))
            self.assertIsNone(job.find_picture(folder, "Camera"))
            camera = job.Camera("Camera.001", PROJECTION, WORLD, picture, (160, 90))
            path = job.write_views(folder, [camera, camera._replace(picture=picture)])
            frames = json.loads(Path(path).read_text())["frames"]
            self.assertEqual([frame["file_path"] for frame in frames], ["0000.jpg", "0001.jpg"])
            self.assertEqual(Path(folder, "0001.jpg").read_bytes(), b"one")

    def test_only_this_machine_is_asked_offline(self):
        for url in ("http://localhost:8080", "http://127.0.0.1:1", "https://[::1]:8", "/run/kiln.sock"):
            self.assertTrue(job.is_here(url), url)
        for url in ("https://kiln.example.org", "http://10.0.0.1", "http://localhost.example.org", "https://"):
            self.assertFalse(job.is_here(url), url)


class Jobs(unittest.TestCase):
    def setUp(self):
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)

    def start(self, views="transforms.json", **options):
        options = {"quality": "draft", "texture_size": 256, **options}
        started = job.Job(str(SPOT / "mesh_nouv.glb"), str(SPOT / views), None, options)
        started.start()
        return started

    def test_a_bake_runs_to_its_end_and_its_warnings_break_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(SPOT / "train", f"{folder}/train")
            views = json.loads((SPOT / "transforms.json").read_text())
            paths = [frame["file_path"] for frame in views["frames"]]
            for frame, path in zip(views["frames"], paths[5:] + paths[:5]):
                frame["file_path"] = path
            Path(folder, "transforms.json").write_text(json.dumps(views))
            done = self.start(f"{folder}/transforms.json", frame="given", refine="off")
            done.join()
        self.assertIsNone(done.error)
        self.assertFalse(done.is_alive())
        self.assertEqual(done.progress[0], 1)
        *told, (kind, last) = done.messages()
        self.assertEqual(told, [("WARNING", text) for text in done.glb.warnings])
        self.assertIn("dB only", str(told))
        self.assertEqual(kind, "INFO")
        self.assertRegex(last, r"^baked: \d\d\.\d dB on the views$")

    def test_a_failure_is_told_by_kilns_own_line(self):
        lost = self.start("nowhere.json")
        lost.join()
        self.assertRegex(str(lost.messages()), r"^\[\('ERROR', .*nowhere.json")

    def test_it_ends_at_once_before_and_while_it_runs(self):
        early = job.Job(str(SPOT / "mesh_nouv.glb"), str(SPOT), None, {})
        early.cancel()
        early.start()
        late = self.start(quality="best", texture_size=4096)
        late.cancel()
        for each in (early, late):
            each.join()
            self.assertEqual(each.messages(), [("INFO", "the bake was cancelled")])
            each.cancel()


class Extension(unittest.TestCase):
    def test_the_manifest_is_of_the_clients_version(self):
        manifest = (ADDON / "blender_manifest.toml").read_text()
        found = dict(re.findall(r'^(\w+) = "(.*)"$', manifest, re.M))
        self.assertEqual((found["schema_version"], found["version"]), ("1.0.0", kiln.__version__))
        (wheel,) = re.findall(r'^wheels = \["\./(.+)"\]$', manifest, re.M)
        self.assertEqual(Path(wheel).name, f"kiln_client-{kiln.__version__}-py3-none-any.whl")

    def test_in_blender(self):
        python = os.environ.get("KILN_BPY") or sys.executable
        where = "import bpy, sys; sys.stdout.write(bpy.utils.system_resource('SCRIPTS'))"
        found = subprocess.run([python, "-c", where], capture_output=True, text=True)
        if found.returncode != 0:
            # Neither a pass nor silent: 350 MB are not installed for a test.
            print(f"\nNOT RUN: the add-on in Blender, since {python} has no bpy: pip install bpy, or set KILN_BPY", file=sys.stderr)
            self.skipTest("no bpy")
        with tempfile.TemporaryDirectory() as folder:
            source = shutil.copytree(ADDON, f"{folder}/addon", ignore=shutil.ignore_patterns("wheels", "__pycache__"))
            (wheel,) = WHEELS.glob(f"kiln_client-{kiln.__version__}-*.whl")
            os.mkdir(f"{source}/wheels")
            shutil.copy(wheel, f"{source}/wheels")
            # What `blender --command extension` runs.
            tool = f"{found.stdout}/addons_core/bl_pkg/cli/blender_ext.py"
            for command in (["build", "--source-dir", source, "--output-dir", folder], ["validate", f"{folder}/kiln-{kiln.__version__}.zip"]):
                subprocess.run([python, tool, *command], check=True, capture_output=True)
            clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KILN_WHEELS"))}
            clean.update(BLENDER_USER_RESOURCES=folder, TMPDIR=os.environ["KILN_TEST_FOLDER"])
            ran = subprocess.run(
                [python, "-B", HERE / "tests/blender_addon.py", f"{folder}/kiln-{kiln.__version__}.zip"],
                env=clean,
                cwd=HERE / "tests",
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertRegex(ran.stderr, r"Ran \d+ tests[^(]*OK\n")


if __name__ == "__main__":
    unittest.main()
