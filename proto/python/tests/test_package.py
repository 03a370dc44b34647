"""What is installed: the client and the programs from their wheels, in an environment of their own; its types; its README."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile
from pathlib import Path

import support

support.isolate()

import kiln  # noqa: E402

HERE = support.ROOT / "proto/python"
SPOT = support.ROOT / "tests/data/spot"
#: Of the client and what it needs, as `pip wheel` makes and fetches them.
WHEELS = Path(os.environ.get("KILN_WHEELS", support.ROOT / "target/wheels"))
#: What no user means, and what kind of an error it is.
WRONG = """
import numpy as np
import kiln

a = np.zeros((3, 3))
kiln.bake_texture(1, "x", a, [a], [a], [a], [a])  # arg-type
kiln.bake_texture(a, a, a, [a], [a], [a], [a], mode="good")  # arg-type
kiln.bake("mesh.glb", "views", quality="good")  # arg-type
kiln.bake("mesh.glb", "views", qualty="best")  # call-arg
kiln.to_glb(None, 1)  # arg-type
_ = kiln.abake_texture("x", a, a, [a], [a], [a], [a])  # arg-type
kiln.bake("mesh.glb").vertices  # attr-defined
"""


def readme():
    """Its Python blocks."""
    return re.findall(r"^```python\n(.*?)^```", (HERE / "README.md").read_text(), re.M | re.S)


class Types(unittest.TestCase):
    def mypy(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            for index, text in enumerate([*readme(), WRONG]):
                Path(folder, f"user{index}.py").write_text(text)
            # Without the modules of their hosts, which have no types.
            for name in ("blender/job.py", "comfyui/nodes.py"):
                shutil.copy(HERE / name, folder)
            # Beside the environment that it is in: kept from run to run.
            strict = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", Path(sys.prefix).parent / "mypy"]
            ran = subprocess.run([*strict, *arguments], cwd=folder, capture_output=True, text=True)
        return ran.stdout + ran.stderr

    def test_the_package_and_its_readme_are_strict(self):
        self.assertRegex(self.mypy("-p", "kiln"), "^Success")
        self.assertGreaterEqual(len(readme()), 3)
        self.assertRegex(self.mypy(*(f"user{index}.py" for index in range(len(readme())))), "^Success")
        self.assertRegex(self.mypy("job.py", "nodes.py"), "^Success")

    def test_what_nobody_means_is_refused(self):
        said = self.mypy(f"user{len(readme())}.py")
        found = [tuple(re.findall(r"^.*?:(\d+): error: .*\[(.+)\]$", line)[0]) for line in said.splitlines() if ": error:" in line]
        wanted = [(str(number), *re.findall(r"# (.+)", line)) for number, line in enumerate(WRONG.splitlines(), 1) if "#" in line]
        # Both the vertices and the faces.
        self.assertEqual(found, sorted([*wanted, wanted[0]], key=lambda each: int(each[0])), said)

    def test_the_readmes_first_program_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(SPOT, folder, dirs_exist_ok=True)
            os.rename(f"{folder}/mesh_nouv.glb", f"{folder}/mesh.glb")
            subprocess.run([sys.executable, "-W", "error", "-c", readme()[0]], cwd=folder, check=True, capture_output=True)
            self.assertTrue({"out.glb", "preview.png"} <= {*os.listdir(folder)})


class Installed(unittest.TestCase):
    def test_the_version_is_that_of_the_package_and_its_build_left_nothing(self):
        self.assertEqual(kiln.__version__, importlib.metadata.version("kiln-client"))
        said = subprocess.run([os.environ["KILN_BIN"], "--version"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(said.split()[1].split("+")[0], kiln.__version__)
        left = [path.name for path in HERE.rglob("*") if path.name in ("build", "dist") or path.name.endswith(".egg-info")]
        self.assertEqual(left, [])

    def test_both_wheels_in_a_fresh_environment_bake(self):
        with tempfile.TemporaryDirectory() as folder:
            made = [sys.executable, HERE / "wheel.py", Path(os.environ["KILN_BIN"]).parent, f"{folder}/dist"]
            wheel = Path(subprocess.run(made, check=True, capture_output=True, text=True).stdout.strip())
            self.assertRegex(wheel.name, r"^kiln_server-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl$")
            with zipfile.ZipFile(wheel) as archive:
                licences = [archive.read(name).decode() for name in archive.namelist() if "/licenses/" in name]
            self.assertTrue(any("The Kiln authors" in text for text in licences))
            for other in ("tokio 1", "wgpu 3", "three 0", "Basis Universal", "The Rust standard library", "Permission is hereby granted"):
                self.assertTrue(any(other in text for text in licences), other)
            programs = Path(os.environ["KILN_BIN"]).parent
            self.assertLess(wheel.stat().st_size, sum((programs / name).stat().st_size for name in ("kiln", "kiln-baker")))
            venv.create(f"{folder}/env")
            links = ["--no-index", "--find-links", WHEELS, "--find-links", f"{folder}/dist"]
            pip = [sys.executable, "-m", "pip", "--python", f"{folder}/env/bin/python", "--disable-pip-version-check", "install", "--quiet"]
            subprocess.run([*pip, *links, "kiln-client[server]"], check=True)
            code = """if True:
                import sys, kiln
                from kiln import sidecar
                print(kiln.__file__, sidecar.binary(), sep="\\n")
                kiln.bake(*sys.argv[1:], quality="draft", texture_size=256)
            """
            # Not activated, with nothing of this run but its folders, and another kiln on the PATH.
            Path(folder, "kiln").symlink_to("/bin/false")
            clean = {name: value for name, value in os.environ.items() if not name.startswith(("KILN_", "PYTHON"))}
            clean["PATH"] = f"{folder}:{clean['PATH']}"
            baked = [f"{folder}/env/bin/python", "-c", code, SPOT / "mesh_nouv.glb", SPOT, f"{folder}/out.glb"]
            ran = subprocess.run(baked, env=clean, capture_output=True, text=True, cwd=folder)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            package, program = ran.stdout.split()
            self.assertTrue(package.startswith(f"{folder}/env/lib"), package)
            self.assertEqual(program, f"{folder}/env/bin/kiln")
            self.assertEqual(Path(folder, "out.glb").read_bytes()[:4], b"glTF")

    def test_programs_that_fit_no_wheel_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for version, why in (("9.9", "pyproject.toml has"), (kiln.__version__, "^kiln and kiln-baker are not programs for Linux")):
                for name in ("kiln", "kiln-baker"):
                    Path(folder, name).write_text(f"#!/bin/sh\necho kiln {version}\n")
                    Path(folder, name).chmod(0o700)
                ran = subprocess.run([sys.executable, HERE / "wheel.py", folder, folder], capture_output=True, text=True)
                self.assertNotEqual(ran.returncode, 0)
                self.assertRegex(ran.stderr, why)


if __name__ == "__main__":
    unittest.main()
