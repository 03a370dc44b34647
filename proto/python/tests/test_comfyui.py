"""The ComfyUI nodes, loaded and called as ComfyUI does: by a stand-in for its loader, its checks of inputs, and what it lets
nodes import. Its tensors are stand-ins, too."""

import importlib.util
import io
import json
import math
import os
import re
import sys
import tempfile
import types
import unittest
import unittest.mock
import warnings
from pathlib import Path

import numpy as np
import support

support.isolate()

import kiln  # noqa: E402
from test_bake import _at, _attributes, _indices  # noqa: E402
from test_splats import box as gaussians  # noqa: E402

PACK = support.ROOT / "proto/python/comfyui"
SPOT = support.ROOT / "tests/data/spot"
EDGE, COUNT = 160, 18


def load_custom_node(folder):
    """As ComfyUI: the folder's __init__.py by its path, with a module name that no import statement could spell."""
    name = str(folder).replace(".", "_x_")
    spec = importlib.util.spec_from_file_location(name, os.path.join(folder, "__init__.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    for node in module.NODE_CLASS_MAPPINGS.values():
        node.RELATIVE_PYTHON_MODULE = f"custom_nodes.{os.path.basename(folder)}"
    return module.NODE_CLASS_MAPPINGS, module.NODE_DISPLAY_NAME_MAPPINGS


NODES, NAMES = load_custom_node(PACK)
nodes = sys.modules[NODES["KilnBake"].__module__]


def queue(node, links=(), **inputs):
    """Checks inputs as ComfyUI does before it runs a node, and calls it. `links` has the type that a connected input comes with;
    the others are typed into the node."""
    links, described = dict(links), NODES[node].INPUT_TYPES()
    known = {**described["required"], **described.get("optional", {})}
    for name, (kind, *settings) in known.items():
        if name not in inputs and name in described["required"]:
            inputs[name] = settings[0]["default"] if settings and "default" in settings[0] else kind[0]
        if name in links:
            assert set(links[name].split(",")) & set(kind.split(",")), f"{links[name]} does not fit {name}: {kind}"
        elif name in inputs and isinstance(kind, list):
            assert inputs[name] in kind, (name, inputs[name])
        elif name in inputs:
            assert isinstance(inputs[name], {"INT": int, "FLOAT": float}.get(kind, str)), (name, inputs[name])
    assert set(inputs) <= set(known), inputs
    made = getattr(NODES[node](), NODES[node].FUNCTION)(**inputs)
    result = made["result"] if isinstance(made, dict) else made
    assert len(result) == len(NODES[node].RETURN_TYPES) == len(NODES[node].RETURN_NAMES)
    return made


class File3D:
    """As far as `comfy_api`'s goes: a path, or bytes."""

    def __init__(self, source, file_format=""):
        self.source, self.format = source, file_format or os.path.splitext(source)[1][1:]

    def get_source(self):
        return self.source

    def save_to(self, path):
        Path(path).write_bytes(self.source.getvalue())
        return path


def batch(array, padding=0):
    """One item of a batch, filled up with zeros, as a tensor."""
    return support.Tensor(np.concatenate([array, np.zeros((padding, *array.shape[1:]), array.dtype)])[None])


def quaternion(turn):
    """Of a rotation by less than half a turn or so."""
    w = math.sqrt(1 + np.trace(turn)) / 2
    x, y, z = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]) / (4 * w)
    return {"x": x, "y": y, "z": z, "w": w}


def point(vector):
    return dict(zip("xyz", map(float, vector)))


def infos(count):
    """Cameras of the box, rolled by turns; of three.js's axes: right, up, back."""
    made = []
    while len(made) < count:
        index = len(made)
        height = 2 * (index + 0.5) / count - 1
        eye = 2.2 * np.array([math.sqrt(1 - height**2) * math.cos(2.4 * index), height, math.sqrt(1 - height**2) * math.sin(2.4 * index)])
        axes = nodes._look(eye)
        roll = 0.4 * (index % 3)
        axes = axes @ [[math.cos(roll), -math.sin(roll), 0], [math.sin(roll), math.cos(roll), 0], [0, 0, 1]]
        if np.trace(axes) < -0.9:
            axes = axes @ np.diag([-1.0, -1.0, 1.0])
        made.append({"position": point(eye), "quaternion": quaternion(axes), "fov": 40.0, "zoom": 1.1, "cameraType": "perspective"})
    return made


class Loaded(unittest.TestCase):
    def test_the_loader_finds_two_nodes_that_describe_themselves(self):
        self.assertEqual({name: NAMES[name] for name in NODES}, {"KilnViews": "Kiln: Views", "KilnBake": "Kiln: Bake Texture"})
        for node in NODES.values():
            json.dumps([node.INPUT_TYPES(), node.RETURN_TYPES, node.RETURN_NAMES, node.CATEGORY, node.DESCRIPTION])
        bakes = NODES["KilnBake"].INPUT_TYPES()["required"]
        self.assertEqual(kiln.options.Quality.__args__, tuple(bakes["quality"][0]))

    def test_the_registry_finds_what_it_asks_for(self):
        project = (PACK / "pyproject.toml").read_text()
        found = dict(re.findall(r'^(\w+) = "(.*)"$', project, re.M))
        self.assertRegex(found["name"], r"^[a-z][a-z0-9]*$")
        self.assertEqual((found["version"], found["DisplayName"]), (kiln.__version__, "Kiln"))
        self.assertIn(f'dependencies = ["kiln-client[server]=={kiln.__version__}"]', project)
        self.assertTrue({"Repository", "PublisherId"} <= set(found))


class Cameras(unittest.TestCase):
    def test_a_point_lies_where_three_js_shows_it(self):
        info = {**infos(5)[3], "fov": 30.0, "zoom": 1.5}
        x, y, z, w = (info["quaternion"][name] for name in "xyzw")
        for width, height in ((200, 100), (100, 200)):
            extrinsic, intrinsic = nodes.camera(info, width, height)
            for place in ([0.1, 0.2, -0.3], [0, 0, 0], [0.4, -0.1, 0.2]):
                away = np.array(place) - [info["position"][axis] for axis in "xyz"]
                # The quaternion turned backwards: v + 2 q × (q × v - w v), written for its conjugate.
                axis = -np.array([x, y, z])
                local = away + 2 * np.cross(axis, np.cross(axis, away) + w * away)
                half = math.tan(math.radians(15)) / 1.5
                across = local[:2] / -local[2] / half * min(width, height) / np.array([width, height])
                wanted = [(1 + across[0]) / 2, (1 - across[1]) / 2]
                seen = intrinsic @ (extrinsic @ [*place, 1])[:3]
                np.testing.assert_allclose(seen[:2] / seen[2], wanted, atol=1e-9)

    def test_without_a_quaternion_it_looks_at_its_target_upright(self):
        extrinsic, _ = nodes.camera({"position": point([3, 1, 0]), "target": point([0, 1, 0])}, 8, 8)
        np.testing.assert_allclose(extrinsic @ [0, 1, 0, 1], [0, 0, 3, 1], atol=1e-12)
        np.testing.assert_allclose(extrinsic @ [0, 2, 0, 1], [0, -1, 3, 1], atol=1e-12)

    def test_an_orbit_turns_about_the_target(self):
        info = {"position": point([1, 0.5, 2]), "target": point([1, 0, 0]), "fov": 40.0}
        images = support.Tensor(np.zeros((4, 8, 8, 3), np.float32))
        for orbit, sign in (("+360", 1), ("-360", -1)):
            (views,) = queue("KilnViews", {"images": "IMAGE", "camera_info": "LOAD3D_CAMERA"}, images=images, camera_info=info, orbit=orbit)
            eyes = [-view.extrinsic[:3, :3].T @ view.extrinsic[:3, 3] for view in views]
            np.testing.assert_allclose(eyes, [[1, 0.5, 2], [1 + 2 * sign, 0.5, 0], [1, 0.5, -2], [1 - 2 * sign, 0.5, 0]], atol=1e-12)
            for view in views:
                seen = view.extrinsic @ [1, 0, 0, 1]
                np.testing.assert_allclose(seen[:2], 0, atol=1e-12)

    def test_what_makes_no_views_is_told(self):
        images, info = support.Tensor(np.zeros((2, 8, 8, 3), np.float32)), infos(1)[0]
        for changed, said in (
            ({}, "2 images and one camera"),
            ({"orbit": "+360", "masks": support.Tensor(np.zeros((2, 8, 9)))}, r"masks are \[2, 8, 9\]"),
            ({"orbit": "+360", "camera_info": {**info, "cameraType": "orthographic"}}, "orthographic"),
        ):
            with self.assertRaisesRegex(ValueError, said):
                NODES["KilnViews"]().views(**{"images": images, "camera_info": info, "orbit": "off", **changed})


class Harmonics(unittest.TestCase):
    def test_a_turned_splat_has_the_same_colours_from_the_turned_side(self):
        random = np.random.default_rng(1)
        sh = random.normal(size=(1, 16, 3))
        turned = nodes.upright(types.SimpleNamespace(
            positions=batch(np.zeros((1, 3))), scales=batch(np.ones((1, 3))), rotations=batch(np.array([[0.5, 0.1, -0.7, 0.5]])),
            opacities=batch(np.ones((1, 1))), sh=batch(sh), counts=None,
        ))
        harmonics = np.concatenate([turned._features_dc, turned._features_rest], axis=1)[0]
        for direction in random.normal(size=(5, 3)):
            x, y, z = direction / np.linalg.norm(direction)
            np.testing.assert_allclose(basis(x, y, z) @ sh[0], basis(x, -y, -z) @ harmonics, atol=1e-12)
        rotation = lambda row: nodes._rotation(dict(zip("wxyz", row)))  # noqa: E731
        np.testing.assert_allclose(rotation(turned.get_rotation[0]), np.diag([1, -1, -1]) @ rotation([0.5, 0.1, -0.7, 0.5]), atol=1e-12)


def basis(x, y, z):
    """Of the reference code of 3D Gaussian Splatting, but for each function's constant."""
    return np.array([
        1, -y, z, -x, x * y, -y * z, 2 * z * z - x * x - y * y, -x * z, x * x - y * y, -y * (3 * x * x - y * y), x * y * z,
        -y * (4 * z * z - x * x - y * y), z * (2 * z * z - 3 * x * x - 3 * y * y), -x * (4 * z * z - x * x - y * y),
        z * (x * x - y * y), -x * (x * x - 3 * y * y),
    ])  # fmt: skip


class Batches(unittest.TestCase):
    def test_one_item_is_taken_without_what_fills_it_up(self):
        rows = np.arange(12.0).reshape(4, 3)
        for counts in (None, support.Tensor(np.array([4]))):
            np.testing.assert_array_equal(nodes._only("mesh", batch(rows, 0 if counts is None else 3), counts), rows)


class Bakes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(folder.cleanup)
        self.addCleanup(caught.__exit__, None, None, None)
        self.folder, self.shares, self.interrupt = Path(folder.name), [], lambda: None
        names = "folder_paths torch comfy comfy.utils comfy.model_management comfy_api comfy_api.latest"
        made = {name: types.ModuleType(name) for name in names.split()}
        (self.folder / "output/3d").mkdir(parents=True)
        made["folder_paths"].get_output_directory = lambda: str(self.folder / "output")
        made["folder_paths"].get_annotated_filepath = lambda name: str(self.folder / "input" / name)
        made["folder_paths"].get_save_image_path = lambda prefix, output: (f"{output}/3d", "kiln", 7, "3d", prefix)
        made["torch"].from_numpy = support.Tensor
        bar = types.SimpleNamespace(update_absolute=lambda value, total: self.shares.append((value, total)))
        made["comfy.utils"].ProgressBar = lambda total: bar
        made["comfy.model_management"].throw_exception_if_processing_interrupted = lambda: self.interrupt()
        made["comfy_api.latest"].Types = types.SimpleNamespace(File3D=File3D)
        patched = unittest.mock.patch.dict(sys.modules, made)
        patched.start()
        self.addCleanup(patched.stop)
        vertices, faces, _ = support.box()
        self.mesh = types.SimpleNamespace(
            vertices=batch(vertices, 3), vertex_counts=support.Tensor(np.array([24])),
            faces=batch(faces, 2), face_counts=support.Tensor(np.array([12])),
        )  # fmt: skip

    def bake(self, links, **inputs):
        made = queue("KilnBake", links, **{"texture_size": 256, "quality": "draft", **inputs})
        self.assertEqual(made["ui"], {"3d": [{"filename": "kiln_00007_.glb", "subfolder": "3d", "type": "output"}]})
        model, name, psnr, preview = made["result"]
        self.assertEqual((model.format, name), ("glb", os.path.join("3d", "kiln_00007_.glb")))
        self.assertEqual(preview._array.shape[0], 1)
        self.assertEqual((preview._array.ndim, preview._array.shape[3], preview._array.dtype), (4, 3, np.float32))
        self.assertEqual(self.shares, sorted(self.shares))
        self.assertEqual(self.shares[-1], (100, 100))
        return Path(model.get_source()).read_bytes(), psnr

    def check(self, data, most, exactly=True):
        """That each side has its colours; of a mesh that was found, at the vertex that lies nearest."""
        positions, coordinates = _attributes(data)
        texture, wrong = kiln.glb.texture(data).astype(float) / 255, []
        for side in range(6):
            for s, t in ((0.5, 0.5), (-0.5, 0.5), (0.5, -0.5)):
                place = support.side_point(side, s, t)
                near = np.linalg.norm(positions - place, axis=1).argmin()
                u, v = _at(positions, coordinates, _indices(data), place) if exactly else coordinates[near]
                got = texture[min(int(v * 256), 255), min(int(u * 256), 255)]
                wrong.append(np.abs(got - support.colour(*support.side_uv(side, s, t))).max())
        self.assertLess(max(wrong), most)

    def views(self, with_masks=True):
        views = ()
        for info in infos(COUNT):
            # Not by the nodes' own matrices: what three.js says of a camera, in OpenCV's axes.
            x, y, z, w = (info["quaternion"][name] for name in "xyzw")
            axes = np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                             [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                             [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])  # fmt: skip
            extrinsic = np.eye(4)
            extrinsic[:3, :3] = (axes * [1, -1, -1]).T
            extrinsic[:3, 3] = -extrinsic[:3, :3] @ [info["position"][axis] for axis in "xyz"]
            focal = 1.1 / (2 * math.tan(math.radians(20)))
            (picture,), (mask,) = support.photographs([extrinsic], [np.array([[focal, 0, 0.5], [0, focal, 0.5], [0, 0, 1]])], EDGE)
            given = {"images": support.Tensor(picture[None].astype(np.float32) / 255), "camera_info": info, "views": views}
            links = {"images": "IMAGE", "camera_info": "LOAD3D_CAMERA", "views": "KILN_VIEWS"}
            if with_masks:
                given["masks"], links["masks"] = support.Tensor(mask[None].astype(np.float32)), "MASK"
            (views,) = queue("KilnViews", links, **given)
        return views

    def test_images_and_cameras_onto_a_mesh(self):
        for with_masks in (True, False):
            self.shares.clear()
            views = self.views(with_masks)
            data, psnr = self.bake({"views": "KILN_VIEWS", "mesh": "MESH"}, views=views, mesh=self.mesh)
            self.assertGreater(psnr, 35)
            self.check(data, 0.03)
        mixed = (views[0]._replace(mask=np.ones((EDGE, EDGE), bool)), *views[1:])
        with self.assertRaisesRegex(ValueError, "1 of 18 views have a mask"):
            self.bake({"views": "KILN_VIEWS", "mesh": "MESH"}, views=mixed, mesh=self.mesh)

    def splat(self):
        made, down = gaussians(30), np.diag([1.0, -1.0, -1.0])
        centres = made.get_xyz._array @ down
        return types.SimpleNamespace(
            positions=batch(centres.astype(np.float32), 5), scales=batch(made.get_scaling._array, 5), rotations=batch(made.get_rotation._array, 5),
            opacities=batch(made.get_opacity._array, 5), sh=batch(made._features_dc._array, 5), counts=support.Tensor(np.array([len(centres)])),
        )  # fmt: skip

    def test_a_splat_onto_a_mesh_and_alone(self):
        # The splat's world is y down, the mesh's y up.
        data, _ = self.bake({"views": "SPLAT", "mesh": "MESH"}, views=self.splat(), mesh=self.mesh)
        self.check(data, 0.04)
        self.shares.clear()
        data, _ = self.bake({"views": "SPLAT"}, views=self.splat())
        self.check(data, 0.15, exactly=False)

    def test_files_by_their_paths_and_as_comfyuis_own(self):
        (self.folder / "input").symlink_to(SPOT)
        with open(SPOT / "mesh_nouv.glb", "rb") as file:
            loose = File3D(io.BytesIO(file.read()), "glb")
        for links, views, mesh in (
            ({}, "transforms.json", "mesh_nouv.glb"),
            ({"mesh": "FILE_3D"}, str(SPOT), File3D(str(SPOT / "mesh_nouv.glb"))),
            ({"mesh": "FILE_3D_GLB"}, str(SPOT / "transforms.json"), loose),
        ):
            self.shares.clear()
            _, psnr = self.bake(links, views=views, mesh=mesh, simplify=0.5)
            self.assertGreater(psnr, 30)
        node = NODES["KilnBake"]
        self.assertEqual(node.IS_CHANGED(views="transforms.json", mesh=None), [os.stat(SPOT / "transforms.json").st_mtime])
        self.assertEqual(node.IS_CHANGED(views="nowhere", mesh=""), [-1.0])

    def test_what_cannot_be_baked_is_told(self):
        two = types.SimpleNamespace(vertices=support.Tensor(np.zeros((2, 3, 3))), faces=support.Tensor(np.zeros((2, 1, 3), int)))
        for links, inputs, error, said in (
            ({}, {}, ValueError, "views are needed"),
            ({"mesh": "MESH"}, {"mesh": two, "views": str(SPOT)}, ValueError, "mesh is a batch of 2"),
            ({"mesh": "FILE_3D"}, {"mesh": 3, "views": str(SPOT)}, TypeError, "neither a file"),
            ({}, {"mesh": "gone.glb", "views": str(SPOT)}, FileNotFoundError, "gone.glb"),
            ({}, {"mesh": str(SPOT / "transforms.json"), "views": str(SPOT)}, kiln.KilnError, "transforms.json"),
        ):
            with self.assertRaisesRegex(error, said):
                self.bake(links, **inputs)
        self.assertEqual(list((self.folder / "output/3d").iterdir()), [])

    def test_comfyuis_cancel_button_ends_the_job(self):
        class Interrupted(Exception):
            pass

        def interrupt():
            # Once there is a job, and before it is done.
            if any(job.state != "queued" for job in client.list() if not job.is_over):
                raise Interrupted

        client = kiln.sidecar.find().client()
        self.interrupt = interrupt
        with self.assertRaises(Interrupted):
            self.bake({}, views=str(SPOT), mesh=str(SPOT / "mesh_nouv.glb"), texture_size=4096, quality="best")
        newest = next(client.list())
        self.assertEqual(client.wait(newest.id, 60).state, "cancelled")

    def test_it_runs_without_comfyui(self):
        with unittest.mock.patch.dict(sys.modules, {"comfy": None, "comfy.utils": None, "comfy_api.latest": None}):
            glb = nodes.bake(str(SPOT / "mesh_nouv.glb"), str(SPOT), {"quality": "draft", "texture_size": 256})
            self.assertGreater(glb.psnr, 30)
            self.assertEqual(nodes._file_3d("a.glb"), "a.glb")


if __name__ == "__main__":
    unittest.main()
