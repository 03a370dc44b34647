"""Bytes ↔ arrays: safetensors, PNG, GLB, and what callers pass."""

import json
import random
import struct
import unittest

import numpy as np
import support

from kiln import arrays, glb, png, safetensors


class Safetensors(unittest.TestCase):
    def test_what_is_written_reads_back_for_each_type(self):
        given = {
            name: np.arange(6, dtype=name).reshape(2, 3)
            for name in ("u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8")
        }
        given.update(bool=np.array([True, False]), empty=np.zeros((0, 3), "f4"), scalar=np.array(2.5))
        given["big"] = np.arange(3, dtype=">i4")
        given["turned"] = np.arange(6, dtype="f4").reshape(2, 3).T
        read, metadata = safetensors.decode(b"".join(safetensors.encode(given, {"intrinsics": "normalized"})))
        self.assertEqual(metadata, {"intrinsics": "normalized"})
        self.assertEqual(set(read), set(given))
        for name, array in given.items():
            self.assertEqual((read[name].shape, read[name].dtype.newbyteorder("=")), (array.shape, array.dtype.newbyteorder("=")))
            np.testing.assert_array_equal(read[name], array)

    def test_the_bytes_are_those_of_the_format(self):
        parts = safetensors.encode({"a": np.array([[1, 2]], np.uint8), "b": np.array([1.0], np.float32)})
        header = b'{"a":{"dtype":"U8","shape":[1,2],"data_offsets":[0,2]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}}'
        header += b" " * (-len(header) % 8)
        self.assertEqual(b"".join(parts), struct.pack("<Q", len(header)) + header + b"\1\2" + b"\0\0\x80\x3f")

    def test_a_list_stands_for_its_stack_and_nothing_is_copied(self):
        views = [np.full((2, 2), index, np.uint8) for index in range(3)]
        parts = safetensors.encode({"views": views})
        self.assertEqual(len(parts), 4)
        for view, part in zip(views, parts[1:]):
            self.assertTrue(np.shares_memory(view, np.asarray(part)))
        np.testing.assert_array_equal(safetensors.decode(b"".join(parts))[0]["views"], np.stack(views))
        with self.assertRaisesRegex(ValueError, r"views\[1\]"):
            safetensors.encode({"views": [views[0], views[0][:1]]})
        with self.assertRaisesRegex(TypeError, "complex"):
            safetensors.encode({"a": np.zeros(2, complex)})

    def test_a_broken_file_is_refused(self):
        whole = b"".join(safetensors.encode({"a": np.arange(4, dtype="i4")}))
        for broken in (b"", whole[:7], whole[:20], whole[:-1], struct.pack("<Q", 1 << 60) + whole[8:]):
            with self.assertRaises(ValueError):
                safetensors.decode(broken)
        with self.assertRaisesRegex(ValueError, "BF16"):
            safetensors.decode(whole.replace(b'"I32"', b'"BF16"').replace(b'  ', b' '))


class Png(unittest.TestCase):
    def test_each_filter_and_any_mixture_is_undone(self):
        rng = np.random.default_rng(1)
        random.seed(1)
        for height, width, channels in ((1, 1, 3), (1, 9, 4), (9, 1, 3), (7, 12, 3), (16, 5, 4)):
            pixels = rng.integers(0, 256, (height, width, channels), dtype=np.uint8)
            for kind in range(5):
                np.testing.assert_array_equal(png.decode(support.write_png(pixels, [kind] * height)), pixels)
            for _ in range(5):
                kinds = [random.randrange(5) for _ in range(height)]
                np.testing.assert_array_equal(png.decode(support.write_png(pixels, kinds, parts=3)), pixels)

    def test_what_it_cannot_read_is_refused(self):
        pixels = np.zeros((4, 4, 3), np.uint8)
        good = support.write_png(pixels)
        png.decode(good)
        wrong = {
            "no signature": b"x" + good[1:],
            "16 bits": good[:24] + b"\x10" + good[25:],
            "palette": good[:25] + b"\3" + good[26:],
            "interlaced": good[:28] + b"\1" + good[29:],
            "taller than its data": good[:20] + struct.pack(">I", 5) + good[24:],
            "less tall": good[:20] + struct.pack(">I", 3) + good[24:],
            "no data": good[:33],
            "filter 5": support.write_png(pixels, [5] * 4),
        }
        for name, file in wrong.items():
            with self.subTest(name), self.assertRaises(ValueError):
                png.decode(file)


class GlbFile(unittest.TestCase):
    def test_its_texture_is_found_and_keeps_its_rows(self):
        pixels = np.arange(4 * 6 * 4, dtype=np.uint8).reshape(4, 6, 4)
        picture = support.write_png(pixels)
        document = {
            "materials": [{"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}],
            "textures": [{"source": 0}],
            "images": [{"bufferView": 1, "mimeType": "image/png"}],
            "bufferViews": [{"buffer": 0, "byteLength": 8}, {"buffer": 0, "byteOffset": 8, "byteLength": len(picture)}],
        }
        model = glb.Glb(_glb(document, b"12345678" + picture))
        np.testing.assert_array_equal(model.texture(), pixels[..., :3])
        del document["materials"][0]["pbrMetallicRoughness"]["baseColorTexture"]
        with self.assertRaisesRegex(ValueError, "no base colour texture"):
            glb.texture(_glb(document, b""))
        with self.assertRaisesRegex(ValueError, "not a GLB"):
            glb.texture(b"GIF89a")
        with self.assertRaisesRegex(ValueError, "obj"):
            model.export("model.obj")


def _glb(document, binary):
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    binary += b"\0" * (-len(binary) % 4)
    chunks = struct.pack("<II", len(text), 0x4E4F534A) + text + struct.pack("<II", len(binary), 0x004E4942) + binary
    return b"glTF" + struct.pack("<II", 2, 12 + len(chunks)) + chunks


class Arguments(unittest.TestCase):
    def setUp(self):
        self.vertices, self.faces, self.uvs = support.box()
        self.extrinsics, self.intrinsics = support.cameras(3)
        self.views = [np.full((4, 6, 3), index + 1, np.uint8) for index in range(3)]
        self.masks = [np.ones((4, 6)) * index for index in range(3)]

    def pack(self, **changed):
        names = ("vertices", "faces", "uvs", "observations", "masks", "extrinsics", "intrinsics")
        own = (self.vertices, self.faces, self.uvs, self.views, self.masks, self.extrinsics, self.intrinsics)
        return arrays.pack(*{**dict(zip(names, own)), **changed}.values())

    def test_tensors_on_a_gpu_and_lists_of_them_are_taken_without_torch(self):
        plain = self.pack()
        tensors = self.pack(
            vertices=support.Tensor(self.vertices),
            faces=support.Tensor(self.faces),
            uvs=support.Tensor(self.uvs),
            observations=[support.Tensor(view) for view in self.views],
            masks=support.Tensor(np.stack(self.masks)),
            extrinsics=[support.Tensor(matrix) for matrix in self.extrinsics],
            intrinsics=support.Tensor(np.stack(self.intrinsics)),
        )
        self.assertEqual(*(b"".join(safetensors.encode(each)) for each in (plain, tensors)))
        self.assertTrue(np.shares_memory(plain["vertices"], self.vertices))
        self.assertTrue(np.shares_memory(plain["observations"][0], self.views[0]))

    def test_types_become_those_that_the_sidecar_takes(self):
        packed = self.pack(vertices=self.vertices.astype("f8"), faces=self.faces.astype("u2"), extrinsics=[m.tolist() for m in self.extrinsics])
        header = {name: array.dtype for name, array in safetensors.decode(b"".join(safetensors.encode(packed)))[0].items()}
        kinds = ("vertices", "f4"), ("faces", "i8"), ("observations", "u1"), ("masks", "?"), ("extrinsics", "f8"), ("intrinsics", "f4")
        for name, kind in kinds:
            self.assertEqual(header[name], np.dtype(kind), name)
        self.assertEqual([bool(mask.any()) for mask in packed["masks"]], [False, True, True])
        self.assertNotIn("masks", self.pack(masks=None))
        far = self.vertices.astype("f8") + [451_200.125, 96.5, -5_412_300.25]
        np.testing.assert_array_equal(self.pack(vertices=far)["vertices"], far)

    def test_floats_run_to_255_as_in_trellis(self):
        packed = self.pack(observations=[view.astype("f8") for view in self.views])
        np.testing.assert_allclose(packed["observations"][2], 3 / 255, rtol=1e-6)
        self.assertEqual(packed["observations"][2].dtype, np.float32)
        mixed = self.pack(observations=[self.views[0], *(view.astype("f4") for view in self.views[1:])])
        np.testing.assert_allclose([view.max() * 255 for view in mixed["observations"]], [1, 2, 3], rtol=1e-6)
        with self.assertRaisesRegex(ValueError, "multiply"):
            self.pack(observations=[view / 255 for view in self.views])

    def test_what_does_not_fit_is_named(self):
        wrong = {
            "vertices": self.vertices[:, :2],
            "faces": self.faces.astype("f4"),
            "uvs": self.uvs[1:],
            "observations": [*self.views[:2], self.views[2][:2]],
            "masks": self.masks[:2],
            "extrinsics": [matrix[:3] for matrix in self.extrinsics],
            "intrinsics": self.intrinsics[:1],
        }
        for name, value in wrong.items():
            with self.subTest(name), self.assertRaisesRegex((ValueError, TypeError), name):
                self.pack(**{name: value})
        for value in ([], 5, self.views[0], [view + 0j for view in self.views], [view.astype("i4") + 300 for view in self.views]):
            with self.assertRaisesRegex((ValueError, TypeError), "observations"):
                self.pack(observations=value)


if __name__ == "__main__":
    unittest.main()
