"""Gaussians of a class like TRELLIS's → a PLY, and a textured model of them by the sidecar."""

import types
import unittest

import numpy as np
import support

support.isolate()
import kiln  # noqa: E402
from kiln import splats  # noqa: E402
from test_bake import _at, _attributes, _indices  # noqa: E402

C0 = 0.28209479177387814


class Gaussians:
    """The fields of TRELLIS's class, as tensors on a GPU with gradients."""

    def __init__(self, centres, scales, rotations, opacities, colours, rest=None):
        self.get_xyz = support.Tensor(centres)
        self.get_scaling = support.Tensor(scales)
        self.get_rotation = support.Tensor(rotations)
        self.get_opacity = support.Tensor(opacities)
        self._features_dc = support.Tensor(((colours - 0.5) / C0)[:, None, :].astype(np.float32))
        self._features_rest = rest


def box(edge=40):
    """Flat splats on the sides of the scene's box, in its colours."""
    grid = (np.arange(edge) + 0.5) / edge * 2 - 1
    centres, scales, colours = [], [], []
    for side in range(6):
        scale = np.full(3, 1.4 / edge) * support.HALF
        scale[side // 2] = 0.001
        for s in grid:
            for t in grid:
                centres.append(support.side_point(side, s, t))
                scales.append(scale)
                colours.append(support.colour(*support.side_uv(side, s, t)))
    count = len(centres)
    rotations = np.tile(np.array([2, 0, 0, 0], np.float32), (count, 1))
    opacities = np.full((count, 1), 0.95, np.float32)
    return Gaussians(np.array(centres, np.float32), np.array(scales, np.float32), rotations, opacities, np.array(colours))


class Splats(unittest.TestCase):
    def test_the_file_holds_what_the_fields_do(self):
        rest = np.arange(2 * 3 * 3, dtype=np.float32).reshape(2, 3, 3)
        gaussians = Gaussians(
            np.array([[1, 2, 3], [4, 5, 6]], np.float32),
            np.exp(np.array([[-1, -2, -3], [-4, -5, -6]], np.float32)),
            np.array([[1, 0, 0, 0], [0, 2, 0, 0]], np.float32),
            np.array([[0.5], [1.0]], np.float32),
            np.array([[0.5, 0.5 + C0, 0.5 - C0]] * 2),
            support.Tensor(rest),
        )
        self.assertTrue(splats.are_in(gaussians))
        head, body = splats.ply(gaussians).split(b"end_header\n", 1)
        names = [line.split()[2] for line in head.decode().splitlines() if line.startswith("property")]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("element vertex 2", head.decode())
        table = np.frombuffer(body, "<f4").reshape(2, len(names))
        rows = [dict(zip(names, row)) for row in table]
        for name, wanted in {"x": 1, "z": 3, "scale_0": -1, "scale_2": -3, "opacity": 0, "f_dc_0": 0, "f_dc_1": 1, "f_dc_2": -1, "rot_0": 1}.items():
            self.assertAlmostEqual(rows[0][name], wanted, 5, name)
        # Channel by channel: the coefficients of red come first.
        self.assertEqual([rows[0][f"f_rest_{k}"] for k in range(9)], [0, 3, 6, 1, 4, 7, 2, 5, 8])
        self.assertTrue(np.isfinite(table).all() and rows[1]["opacity"] > 15)
        gaussians.get_opacity = support.Tensor(np.array([0.5], np.float32))
        with self.assertRaisesRegex(ValueError, "get_opacity"):
            splats.ply(gaussians)

    def test_splats_become_a_textured_model(self):
        vertices, faces, _ = support.box()
        mesh = types.SimpleNamespace(vertices=support.Tensor(vertices), faces=support.Tensor(faces))
        glb = kiln.to_glb(box(), mesh, simplify=0, fill_holes=False, texture_size=256, verbose=False, quality="draft", splat_views="24")
        positions, coordinates = _attributes(glb.data)
        texture, wrong = glb.texture().astype(float) / 255, []
        for side in range(6):
            for s, t in ((0.5, 0.5), (-0.5, 0.5), (0.5, -0.5)):
                x, y, z = support.side_point(side, s, t)
                u, v = _at(positions, coordinates, _indices(glb.data), np.array([x, z, -y]))
                got = texture[int(v * 256), int(u * 256)]
                wrong.append(np.abs(got - support.colour(*support.side_uv(side, s, t))).max())
        self.assertLess(max(wrong), 0.03)

    def test_splats_alone_become_a_model(self):
        glb = kiln.to_glb(box(), texture_size=256, verbose=False, quality="draft", splat_views="24")
        positions, coordinates = _attributes(glb.data)
        half = support.HALF[[0, 2, 1]]
        np.testing.assert_allclose([positions.min(axis=0), positions.max(axis=0)], [-half, half], atol=0.03)
        faces = _indices(glb.data)
        self.assertLessEqual(len(faces), 30_000)
        texture, wrong = glb.texture().astype(float) / 255, []
        for side in range(6):
            x, y, z = support.side_point(side, 0.5, 0.5)
            near = np.linalg.norm(positions - np.array([x, z, -y]), axis=1).argmin()
            u, v = coordinates[near]
            got = texture[min(int(v * 256), 255), min(int(u * 256), 255)]
            wrong.append(np.abs(got - support.colour(*support.side_uv(side, 0.5, 0.5))).max())
        self.assertLess(max(wrong), 0.1)
        with self.assertRaisesRegex(TypeError, "give a mesh"):
            kiln.to_glb(object())

    def test_what_is_no_gaussian_is_left_to_its_own_package(self):
        self.assertFalse(splats.are_in(object()))
        with self.assertRaisesRegex(TypeError, "views="):
            kiln.to_glb(object(), types.SimpleNamespace(vertices=np.zeros((3, 3)), faces=np.array([[0, 1, 2]])), fill_holes=False)


if __name__ == "__main__":
    unittest.main()
