"""`bake_texture` and `to_glb` against a box whose colours are known: nothing may be mirrored, turned or moved."""

import asyncio
import os
import signal
import sys
import threading
import time
import types
import unittest

import numpy as np
import support

support.isolate()

import kiln  # noqa: E402
from kiln import sidecar  # noqa: E402

VIEWS, EDGE, SIZE = 24, 192, 256


class Scene:
    vertices, faces, uvs = support.box()
    extrinsics, intrinsics = support.cameras(VIEWS)
    observations, masks = support.photographs(extrinsics, intrinsics, EDGE)
    arguments = (vertices, faces, uvs, observations, masks, extrinsics, intrinsics)


def difference(left, right, where):
    return float(np.abs(left.astype(float) - right)[where].mean())


class BakeTexture(unittest.TestCase):
    def test_the_texture_is_the_one_that_was_photographed(self):
        heard = []
        texture = kiln.bake_texture(*Scene.arguments, texture_size=SIZE, progress=lambda *each: heard.append(each))
        self.assertEqual((texture.shape, texture.dtype), ((SIZE, SIZE, 3), np.uint8))
        true, inner = support.true_texture(SIZE)
        # Pictures of 192 pixels show the 256 texels about one to one; the colours are smooth.
        self.assertLess(difference(texture, true, inner), 1.5)
        # What any wrong convention would have made is far off: the test can fail.
        for wrong in (true[::-1], true[:, ::-1], true[::-1, ::-1], true.swapaxes(0, 1), true[..., ::-1]):
            self.assertGreater(difference(wrong, true, inner), 15)
        self.assertGreater(len(heard), 3)
        self.assertEqual([share for share, _ in heard], sorted(share for share, _ in heard))

    def test_tensors_give_the_same_bytes_and_the_result_is_the_callers(self):
        plain = kiln.bake_texture(*Scene.arguments, texture_size=SIZE, mode="fast", device="cuda:0", rendering_engine="pytorch3d")
        tensors = [[support.Tensor(each) for each in value] if isinstance(value, list) else support.Tensor(value) for value in Scene.arguments]
        again = kiln.bake_texture(*tensors, SIZE, 0.1, 10.0, "fast", 1e-2, False)
        np.testing.assert_array_equal(plain, again)
        plain[0, 0] = 1

    def test_wrong_arguments_are_told_before_anything_is_sent(self):
        for changed in ({"mode": "quick"}, {"fallback": "vertex_colours"}):
            with self.assertRaises(ValueError):
                kiln.bake_texture(*Scene.arguments, **changed)
        with self.assertRaises(kiln.RequestProblem) as raised:
            kiln.bake_texture(*Scene.arguments, texture_size=1001)
        self.assertEqual(raised.exception.field, "texture_size")

    def test_a_bad_mesh_is_an_error_with_its_report(self):
        uvs = Scene.uvs * 3
        with self.assertRaises(kiln.JobFailed) as raised:
            kiln.bake_texture(*Scene.arguments[:2], uvs, *Scene.arguments[3:], texture_size=SIZE)
        self.assertEqual((raised.exception.code, raised.exception.class_), ("invalid_asset", "input"))
        self.assertTrue(raised.exception.attempts)

    def test_what_progress_raises_ends_the_job(self):
        def enough(share, phase):
            raise RuntimeError("the user left")

        with self.assertRaisesRegex(RuntimeError, "the user left"):
            kiln.bake_texture(*Scene.arguments, texture_size=2048, quality="best", progress=enough)
        self.assertTrue(_idle())

    def test_time_that_is_over_ends_the_job(self):
        with self.assertRaisesRegex(kiln.TimedOut, "its timeout of 0.5 s"):
            kiln.bake_texture(*Scene.arguments, texture_size=2048, quality="best", timeout=0.5)
        self.assertTrue(_idle())

    def test_a_sidecar_that_is_stopped_takes_no_more_time_than_there_is(self):
        sidecar.find()
        pid = sidecar._private._process.pid
        began = time.monotonic()
        try:
            with self.assertRaises(kiln.TimedOut):
                kiln.bake_texture(
                    *Scene.arguments, texture_size=2048, quality="best", timeout=8.0, progress=lambda *_: os.kill(pid, signal.SIGSTOP)
                )
            # A busy machine may add some; what had no end took two minutes.
            self.assertLess(time.monotonic() - began, 20)
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertTrue(_idle())

    def test_nothing_is_left_of_a_call_in_a_private_sidecar(self):
        kiln.bake_texture(*Scene.arguments, texture_size=SIZE, mode="fast")
        self.assertEqual([job.id for job in sidecar.find().client().list("succeeded")], [])

    def test_other_threads_run_while_one_waits(self):
        longest, over = [0.0], threading.Event()

        def beat():
            last = time.monotonic()
            while not over.wait(0.005):
                now = time.monotonic()
                longest[0], last = max(longest[0], now - last), now

        heart, began = threading.Thread(target=beat), time.monotonic()
        heart.start()
        try:
            kiln.bake_texture(*Scene.arguments, texture_size=1024)
        finally:
            over.set()
            heart.join()
        # A call that kept the GIL would keep it for all of the bake; a machine that is busy with that stops anybody for a while.
        self.assertLess(longest[0], (time.monotonic() - began) / 2)


def _idle() -> bool:
    """Whether the sidecar soon has nothing more to do."""
    client, end = sidecar.find().client(), time.monotonic() + 60
    while time.monotonic() < end:
        if not [*client.list("running"), *client.list("queued")]:
            return True
        time.sleep(0.02)
    return False


class Asynchronous(unittest.TestCase):
    def test_several_at_once_and_the_loop_goes_on(self):
        async def go():
            heard = []
            loop = threading.get_ident()
            calls = [
                kiln.abake_texture(*Scene.arguments, texture_size=SIZE, mode="fast", progress=lambda *_: heard.append(threading.get_ident()))
                for _ in range(3)
            ]
            return await asyncio.gather(*calls), set(heard) == {loop}

        textures, in_loop = asyncio.run(go())
        self.assertTrue(in_loop)
        for texture in textures[1:]:
            np.testing.assert_array_equal(texture, textures[0])

    def test_a_cancelled_task_cancels_its_job(self):
        async def go():
            begun = asyncio.Event()
            task = asyncio.ensure_future(
                kiln.abake_texture(*Scene.arguments, texture_size=2048, quality="best", progress=lambda *_: begun.set())
            )
            await asyncio.wait_for(begun.wait(), 60)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(go())
        self.assertTrue(_idle())

    def test_an_error_arrives(self):
        with self.assertRaises(kiln.RequestProblem):
            asyncio.run(kiln.abake_texture(*Scene.arguments, texture_size=1001))


class ToGlb(unittest.TestCase):
    def test_the_callers_package_renders_and_the_model_stands_upright(self):
        package = types.ModuleType("fake_trellis.utils.render_utils")
        asked = []

        def render_multiview(sample, resolution, nviews):
            asked.append((sample, resolution, nviews))
            return Scene.observations, [support.Tensor(each) for each in Scene.extrinsics], [support.Tensor(each) for each in Scene.intrinsics]

        package.render_multiview = render_multiview
        for name in ("fake_trellis", "fake_trellis.utils"):
            sys.modules[name] = types.ModuleType(name)
        sys.modules["fake_trellis.utils.render_utils"] = package
        Gaussian = type("Gaussian", (), {"__module__": "fake_trellis.representations.gaussian.gaussian_model"})
        mesh = types.SimpleNamespace(vertices=support.Tensor(Scene.vertices), faces=support.Tensor(Scene.faces))
        sample = Gaussian()
        glb = kiln.to_glb(sample, mesh, simplify=0, texture_size=SIZE, verbose=False)
        self.assertEqual(asked, [(sample, 1024, 100)])
        positions, coordinates = _attributes(glb.data)
        # z up → y up: (x, y, z) → (x, z, -y).
        half = support.HALF[[0, 2, 1]]
        np.testing.assert_allclose([positions.min(axis=0), positions.max(axis=0)], [-half, half], atol=1e-5)
        # Each corner of the model shows, half-way to its side's middle, the colour that the box has there.
        texture, edge = glb.texture().astype(float) / 255, SIZE
        wrong = []
        for side in range(6):
            axis = side // 2
            normal = np.zeros(3)
            normal[axis] = 1 if side % 2 == 0 else -1
            for s, t in ((0.5, 0.5), (-0.5, 0.5), (0.5, -0.5)):
                x, y, z = support.side_point(side, s, t)
                u, v = _at(positions, coordinates, _indices(glb.data), np.array([x, z, -y]))
                got = texture[int(v * edge), int(u * edge)]
                wrong.append(np.abs(got - support.colour(*support.side_uv(side, s, t))).max())
        self.assertLess(max(wrong), 0.04)

        path = os.path.join(os.environ["KILN_TEST_FOLDER"], "model.glb")
        glb.export(path)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), glb.data)

    def test_hidden_faces_go_and_holes_are_filled_as_in_trellis(self):
        whole, edge = len(Scene.faces), 2 * support.HALF.max()
        hollow = (np.concatenate([Scene.vertices, 0.5 * Scene.vertices]), np.concatenate([Scene.faces, Scene.faces + len(Scene.vertices)]))
        opened = (Scene.vertices, Scene.faces[1:])
        views = (Scene.observations, Scene.extrinsics, Scene.intrinsics)

        def triangles(shape, **arguments):
            mesh = types.SimpleNamespace(vertices=shape[0], faces=shape[1])
            glb = kiln.to_glb(None, mesh, simplify=0, texture_size=SIZE, verbose=False, views=views, quality="draft", **arguments)
            return len(_indices(glb.data))

        self.assertEqual(triangles(hollow), whole)
        self.assertEqual(triangles(hollow, fill_holes=False), 2 * whole)
        self.assertEqual(triangles(hollow, with_mesh_postprocess=False), 2 * whole)
        # The hole is half a side of the box, in the units of the caller.
        self.assertEqual(triangles(opened), whole - 1)
        self.assertEqual(triangles(opened, fill_holes_max_size=edge**2), whole)
        with self.assertRaisesRegex(ValueError, "fill_holes_max_size"):
            triangles(opened, fill_holes_max_size=-1)

    def test_what_cannot_be_rendered_and_what_is_not_made_is_said(self):
        mesh = types.SimpleNamespace(vertices=Scene.vertices, faces=Scene.faces)
        with self.assertRaisesRegex(TypeError, "views="):
            kiln.to_glb(object(), mesh, fill_holes=False)
        with self.assertRaisesRegex(ValueError, "with_texture_baking"):
            kiln.to_glb(None, mesh, with_texture_baking=False)


def _accessor(data, index):
    document, binary = kiln.glb._chunks(data)
    accessor = document["accessors"][index]
    view = document["bufferViews"][accessor["bufferView"]]
    kind = {5126: "<f4", 5125: "<u4", 5123: "<u2"}[accessor["componentType"]]
    width = {"SCALAR": 1, "VEC2": 2, "VEC3": 3}[accessor["type"]]
    begin = view.get("byteOffset", 0) + accessor.get("byteOffset", 0)
    assert view.get("byteStride", np.dtype(kind).itemsize * width) == np.dtype(kind).itemsize * width
    return np.frombuffer(binary, kind, accessor["count"] * width, begin).reshape(-1, width)


def _primitive(data):
    return kiln.glb._chunks(data)[0]["meshes"][0]["primitives"][0]


def _attributes(data):
    attributes = _primitive(data)["attributes"]
    return _accessor(data, attributes["POSITION"]), _accessor(data, attributes["TEXCOORD_0"])


def _indices(data):
    return _accessor(data, _primitive(data)["indices"]).reshape(-1, 3)


def _at(positions, coordinates, faces, point):
    """Where on the texture a point of the surface is: by the triangle that it lies in."""
    best = None
    for face in faces:
        a, b, c = positions[face].astype(float)
        weights, distance, *_ = np.linalg.lstsq(np.stack([b - a, c - a], axis=1), point - a, rcond=None)
        off = np.linalg.norm(a + weights @ np.stack([b - a, c - a]) - point)
        outside = max(0, -weights.min(), weights.sum() - 1)
        if best is None or off + outside < best[0]:
            best = off + outside, (1 - weights.sum(), *weights), face
    assert best[0] < 1e-4, best
    return np.array(best[1]) @ coordinates[best[2]]


if __name__ == "__main__":
    unittest.main()
