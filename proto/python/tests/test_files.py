"""`kiln.bake`: which files are sent, what comes back, what is told."""

import json
import os
import struct
import sys
import tempfile
import typing
import unittest
import unittest.mock
import warnings
from pathlib import Path

import numpy as np
import support

support.isolate()

import kiln  # noqa: E402
from kiln import client, files, options, safetensors, sidecar, splats  # noqa: E402
from test_bake import Scene  # noqa: E402
from test_splats import box  # noqa: E402

SPOT = support.ROOT / "tests/data/spot"
DRAFT = {"quality": "draft", "texture_size": 256}


class Folder(unittest.TestCase):
    def setUp(self):
        outer = tempfile.TemporaryDirectory()
        self.addCleanup(outer.cleanup)
        self.outer = Path(outer.name)
        self.folder = self.outer / "job"
        self.folder.mkdir()

    def write(self, *names, data=b"x"):
        for name in names:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


class Sources(Folder):
    def names(self, source):
        for name, path in source.files.items():
            self.assertTrue(os.path.isfile(path))
        return source.main, sorted(set(source.files) - {source.main})

    def test_of_a_transforms_json_what_it_names_is_sent_and_no_more(self):
        frames = [
            {"file_path": "./train/r_0"},
            {"file_path": "images/1.JPG", "mask_path": "m/1.png"},
            {"file_path": "images/2.jpg", "channels": {"normal": "n/2", "bad": 7}},
            {"file_path": "gone.png"},
            {"file_path": "linked.png"},
            {"file_path": 7},
        ]
        self.write("transforms.json", data=json.dumps({"frames": frames, "mask_path": "all.png"}).encode("utf-8-sig"))
        there = ["train/r_0.png", "images/1.JPG", "m/1.png", "images/2.jpg", "n/2.webp", "masks/2.png", "images/1.mask.png", "all.png"]
        there.append("dataparser_transforms.json")
        self.write(*there, "train/r_0.jpg", "images/3.jpg", "other.png")
        (self.outer / "secret.png").write_bytes(b"x")
        (self.folder / "linked.png").symlink_to("../secret.png")
        for path in (self.folder, self.folder / "transforms.json"):
            self.assertEqual(self.names(files.views(path)), ("transforms.json", sorted(there)))
        # A cache of downloads: all are links to the files of one other folder.
        cache = self.outer / "cache"
        cache.mkdir()
        for name in ("transforms.json", "train/r_0.png"):
            (cache / name).parent.mkdir(exist_ok=True)
            (cache / name).symlink_to(self.folder / name)
        self.assertEqual(self.names(files.views(cache)), ("transforms.json", ["train/r_0.png"]))
        for path in ("../secret.png", str(self.outer / "secret.png")):
            self.write("transforms.json", data=json.dumps({"frames": [{"file_path": path}]}).encode())
            with self.assertRaisesRegex(ValueError, "not beneath its folder"):
                files.views(self.folder)

    def test_of_a_colmap_model_cameras_pictures_and_masks(self):
        self.write("p/sparse/0/images.bin", "p/sparse/0/cameras.bin", "p/sparse/0/points3D.bin", "p/images/a/1.jpg", "p/images/x.txt", "p/masks/a/1.jpg.png")
        self.write("elsewhere/2.PNG")
        wanted = ["cameras.bin", "images/a/1.jpg", "masks/a/1.jpg.png"]
        for path in ("p", "p/sparse/0", "p/sparse/0/points3D.bin"):
            self.assertEqual(self.names(files.views(self.folder / path)), ("images.bin", wanted))
        self.assertEqual(self.names(files.views(self.folder / "p", self.folder / "elsewhere"))[1], ["cameras.bin", "images/2.PNG"])

    def test_of_a_mesh_or_splats_their_buffers(self):
        document = json.dumps({"buffers": [{"uri": "a%20b.bin"}, {"uri": "data:;base64,AA"}, {}, {"uri": "gone.bin"}], "images": [{"uri": "a.png"}]})
        self.write("m.gltf", data=document.encode())
        self.write("m.glb", data=b"glTF" + struct.pack("<III4s", 2, 0, len(document), b"JSON") + document.encode() + b"more")
        self.write("a b.bin", "a.png", "m.ply", "means.webp", "sog/means.webp")
        for name in ("m.gltf", "m.glb"):
            self.assertEqual(self.names(files.mesh(self.folder / name)), (name, ["a b.bin"]))
        self.assertEqual(self.names(files.mesh(self.folder / "m.ply")), ("m.ply", []))
        self.write("sog/meta.json", data=b'{"version": 2, "means": {"files": ["means.webp", "gone.webp"]}}')
        for source in (files.mesh(self.folder / "sog"), files.views(self.folder / "sog")):
            self.assertEqual(self.names(source), ("meta.json", ["means.webp"]))
        for broken in (b"", b"glTF", b"[" * 9999, b"\xff", b"[1]"):
            self.write("m.gltf", "m.glb", data=broken)
            self.assertEqual([self.names(files.mesh(self.folder / name))[1] for name in ("m.gltf", "m.glb")], [[], []])

    def test_what_is_not_there_is_an_error_with_its_path(self):
        self.write("x.ply")
        for call in (files.mesh, files.views):
            for path in (self.folder, self.folder / "none"):
                with self.assertRaisesRegex(FileNotFoundError, str(path)):
                    call(path)
        with self.assertRaisesRegex(ValueError, "images="):
            files.views(self.folder / "x.ply", self.folder)


class Bake(Folder):
    def test_files_become_a_model_that_tells_how_good_it_is(self):
        out = self.folder / "out.glb"
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            glb = kiln.bake(SPOT / "mesh_nouv.glb", str(SPOT / "transforms.json"), out, preview=True, maps=True, holdout=2, **DRAFT)
        self.assertEqual([str(each.message) for each in told], glb.warnings)
        self.assertEqual(out.read_bytes(), glb.data)
        self.assertEqual(glb.psnr, glb.report["psnr"]["holdout_db"])
        self.assertTrue(20 < glb.psnr < 60 and glb.report["options"]["quality"] == "draft")
        self.assertEqual(set(glb.files), {"preview.png", "coverage.png", "residual.png", "provenance.png"})
        self.assertEqual({data[:4] for data in [glb.preview, *glb.files.values()]}, {b"\x89PNG"})
        self.assertEqual([*sidecar.find().client().list("succeeded")], [])
        self.same_as_trimesh(glb)

    def same_as_trimesh(self, glb):
        mesh = glb.to_trimesh()
        self.assertEqual(len(mesh.faces), glb.report["prepare"]["triangles"])
        self.assertEqual(np.asarray(mesh.visual.material.baseColorTexture).shape[:2], (256, 256))
        np.testing.assert_array_equal(np.asarray(mesh.visual.material.baseColorTexture)[..., :3], glb.texture())
        before = mesh.bounds
        mesh.apply_transform(np.diag([2.0, 2, 2, 1]))
        np.testing.assert_allclose(mesh.bounds, 2 * before)
        self.assertTrue(mesh.export(file_type="obj"))
        # None of it where it is not installed.
        with unittest.mock.patch.dict(sys.modules, {"trimesh": None}), self.assertRaisesRegex(ImportError, "kiln-client.trimesh"):
            glb.to_trimesh()
        for name in ("vertices", "apply_transform"):
            with self.assertRaisesRegex(AttributeError, rf"to_trimesh\(\).{name}"):
                getattr(glb, name)

    def test_a_ruined_bake_warns_its_caller(self):
        views = json.loads((SPOT / "transforms.json").read_text())
        paths = [frame["file_path"] for frame in views["frames"]]
        for frame, path in zip(views["frames"], paths[5:] + paths[:5]):
            frame["file_path"] = path
        self.write("transforms.json", data=json.dumps(views).encode())
        (self.folder / "train").mkdir()
        for picture in (SPOT / "train").iterdir():
            (self.folder / "train" / picture.name).write_bytes(picture.read_bytes())
        with self.assertWarnsRegex(kiln.KilnWarning, r"explains the views with [\d.]+ dB only") as told:
            glb = kiln.bake(SPOT / "mesh_nouv.glb", self.folder, frame="given", refine="off", **DRAFT)
        self.assertEqual(told.filename, __file__)
        self.assertIn(str(told.warning), glb.warnings)
        self.assertLess(glb.psnr, 20)
        with self.assertRaises(kiln.JobFailed) as raised:
            kiln.bake(SPOT / "mesh_nouv.glb", self.folder, frame="given", refine="off", min_psnr=20, **DRAFT)
        self.assertIn("dB", str(raised.exception))

    def test_arrays_tell_the_same_as_files(self):
        texture = kiln.bake_texture(*Scene.arguments, texture_size=256, mode="fast", preview=True)
        self.assertEqual((texture.glb.preview or b"")[:4], b"\x89PNG")
        self.assertEqual(texture.glb.psnr, texture.glb.report["psnr"]["train_db"])
        self.assertIsNone(texture[1:].glb)
        tensors = kiln.arrays.pack(*Scene.arguments)
        self.write("set.safetensors", data=b"".join(safetensors.encode(tensors, kiln.arrays.METADATA)))
        same = {"keep_uvs": True, "quality": "draft", "blend": "srgb", "texture_size": 256}
        glb = kiln.bake(None, self.folder / "set.safetensors", **same)
        np.testing.assert_array_equal(glb.texture(), texture)

    def test_splats_are_views_or_all(self):
        self.write("splats.ply", data=splats.ply(box()))
        vertices, faces, _ = support.box()
        self.write("mesh.safetensors", data=b"".join(safetensors.encode(kiln.arrays.mesh(vertices, faces))))
        for mesh, views in (("mesh.safetensors", self.folder / "splats.ply"), ("splats.ply", None)):
            with self.subTest(mesh):
                glb = kiln.bake(self.folder / mesh, views, splat_views=12, splat_filter="mip:0.1", **DRAFT)
                self.assertGreater(glb.psnr, 20)

    def test_wrong_options_are_told_before_anything_is_sent(self):
        mesh = SPOT / "mesh_nouv.glb"
        for error, words, arguments, keywords in (
            (TypeError, "'texture_sise'", (mesh, SPOT), {"texture_sise": 256}),
            (TypeError, "needs a mesh", (None,), {}),
            (TypeError, "needs a mesh", (None, SPOT), {}),
            (ValueError, "ends? in .glb", (mesh, SPOT, "out.obj"), {}),
            (FileNotFoundError, "folder of the output.*none", (mesh, SPOT, "none/out.glb"), {}),
            (FileNotFoundError, "none.glb", ("none.glb", SPOT), {}),
            (ValueError, "texture_size='auto'", (mesh, SPOT), {"max_texture_size": 512}),
            (kiln.RequestProblem, "texture_size: ", (mesh, SPOT), {"texture_size": 257}),
            (kiln.RequestProblem, "invalid_spec", (mesh,), {"quality": "good"}),
        ):
            with self.subTest(words), self.assertRaisesRegex(error, words):
                kiln.bake(*arguments, **keywords)

    def test_the_options_are_those_of_the_sidecars_schema(self):
        _, document = sidecar.find().client()._request("GET", "/openapi.json", client._object)
        schema = document["components"]["schemas"]["Spec"]["properties"]
        hints = typing.get_type_hints(options.Options)
        self.assertEqual(set(hints) - {"max_texture_size"}, set(schema) - {"mesh", "views", "original", "arrays", "texture_auto", "timeout_s"})
        kinds = {bool: "boolean", int: "integer", float: "number", str: "string"}
        for name, hint in hints.items():
            rule = schema.get(name, {"type": "integer"})
            choices = [each.get("oneOf") for each in [rule, *rule.get("anyOf", [])] if "oneOf" in each]
            values = rule.get("enum") or [each["const"] for each in choices[0]] if choices or "enum" in rule else None
            given = typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else None
            self.assertEqual(sorted(given or []), sorted(values or []), name)
            if not values:
                of = {kinds.get(each) for each in (typing.get_args(hint) or (hint,))}
                self.assertTrue(of & {*(rule["type"] if isinstance(rule["type"], list) else [rule["type"]])}, name)


if __name__ == "__main__":
    unittest.main()
