"""The Blender add-on in Blender itself, without a window: `test_blender.py` runs this by a Python that has `bpy`, with the zip
of the extension. A box that looks like no mirror image of itself is rendered, baked from the renders, and rendered again."""

import os
import sys
import tempfile
import types
import unittest

import bpy
import numpy as np

ZIP = sys.argv.pop()
#: With other proportions than the pictures' pixels, and none of the camera's defaults.
RESOLUTION, PIXEL = (168, 112), (1.0, 1.25)
VIEWS, CHECKS = 14, 2
FOLDER = os.environ.get("KILN_BLENDER_KEEP") or tempfile.mkdtemp(dir=os.environ["BLENDER_USER_RESOURCES"])


def install():
    """As a user does: from disk, wheels and all."""
    for repository in bpy.context.preferences.extensions.repos:
        os.makedirs(repository.directory, exist_ok=True)
    bpy.ops.extensions.package_install_files(filepath=ZIP, repo="user_default", enable_on_install=True)


def box():
    """A box of three different edges, turned and stretched by itself and by its parent, in colours of no symmetry."""
    corners = [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    mesh = bpy.data.meshes.new("Box")
    mesh.from_pydata(corners, [], sides)
    layer = mesh.uv_layers.new(name="UVMap")
    for side in range(6):
        for corner, (s, t) in enumerate(((0, 0), (1, 0), (1, 1), (0, 1))):
            layer.data[4 * side + corner].uv = ((side % 3 + 0.02 + 0.96 * s) / 3, (side // 3 + 0.02 + 0.96 * t) / 2)
    u, v = np.meshgrid((np.arange(384) + 0.5) / 384, (np.arange(256) + 0.5) / 256)
    colours = [0.15 + 0.7 * u, 0.15 + 0.7 * v, 0.45 + 0.3 * np.sin(40 * u + 23 * v), np.ones_like(u)]
    image = bpy.data.images.new("Colours", 384, 256)
    image.pixels.foreach_set(np.stack(colours, axis=-1).astype(np.float32).ravel())
    image.pack()
    mesh.materials.append(glowing(image))
    parent = bpy.data.objects.new("Parent", None)
    parent.location, parent.rotation_euler, parent.scale = (0.3, -0.2, 0.1), (0.2, 0.4, 0.7), (1.2, 1.2, 1.2)
    thing = bpy.data.objects.new("Box", mesh)
    thing.parent, thing.scale, thing.rotation_euler = parent, (0.5, 0.35, 0.25), (0.1, 0.5, -0.3)
    for each in (parent, thing):
        bpy.context.scene.collection.objects.link(each)
    return thing


def glowing(image):
    """A material whose light is the picture's colour, whatever shines on it."""
    material = bpy.data.materials.new("Glow")
    material.use_nodes = True
    nodes, links = material.node_tree.nodes, material.node_tree.links
    nodes.clear()
    texture, emission, output = (nodes.new(f"ShaderNode{kind}") for kind in ("TexImage", "Emission", "OutputMaterial"))
    texture.image = image
    links.new(texture.outputs["Color"], emission.inputs["Color"])
    links.new(emission.outputs["Emission"], output.inputs["Surface"])
    return material


def cameras():
    """Around the box, each with another lens, fit and shift; the last ones have no picture in the folder."""
    target = bpy.data.objects["Parent"]
    for index in range(VIEWS + CHECKS):
        name = f"Eye.{index:02}" if index < VIEWS else f"Check.{index - VIEWS}"
        data = bpy.data.cameras.new(name)
        data.lens, data.sensor_fit = 40 + 3 * (index % 4), ("AUTO", "HORIZONTAL", "VERTICAL")[index % 3]
        data.sensor_height = 22
        data.shift_x, data.shift_y = 0.06 * (index % 3 - 1), 0.04 * (index % 4 - 1.2)
        camera = bpy.data.objects.new(name, data)
        height, turn = 2 * (index + 0.5) / (VIEWS + CHECKS) - 1, 2.4 * index
        width = np.sqrt(1 - height**2)
        camera.location = tuple(np.array(target.location) + 3.4 * np.array([width * np.cos(turn), width * np.sin(turn), height]))
        track = camera.constraints.new("TRACK_TO")
        track.target, track.track_axis, track.up_axis = target, "TRACK_NEGATIVE_Z", "UP_Y"
        camera.scale = (1.5, 1.5, 1.5)  # Which changes nothing of what a camera sees.
        bpy.context.scene.collection.objects.link(camera)


def prepare_render():
    scene, render = bpy.context.scene, bpy.context.scene.render
    render.engine, scene.cycles.device, scene.cycles.samples = "CYCLES", "CPU", 16
    render.resolution_x, render.resolution_y = RESOLUTION
    render.pixel_aspect_x, render.pixel_aspect_y = PIXEL
    render.film_transparent, scene.view_settings.view_transform = True, "Standard"
    render.image_settings.file_format, render.image_settings.color_mode = "PNG", "RGBA"


def photograph(name, path):
    """Height, width, RGBA, 0 to 1, from the camera `name`."""
    scene = bpy.context.scene
    scene.camera, scene.render.filepath = bpy.data.objects[name], path
    bpy.ops.render.render(write_still=True)
    image = bpy.data.images.load(path)
    image.colorspace_settings.name = "Non-Color"
    pixels = np.empty(len(image.pixels), np.float32)
    image.pixels.foreach_get(pixels)
    bpy.data.images.remove(image)
    return pixels.reshape(RESOLUTION[1], RESOLUTION[0], 4)


def psnr(left, right):
    """Over the pixels that both see whole."""
    both = (left[..., 3] > 0.999) & (right[..., 3] > 0.999)
    return -10 * np.log10(np.mean((left - right)[both][..., :3] ** 2))


def coordinates(thing):
    return np.array([corner.uv for corner in thing.data.uv_layers.active.data])


def cover(left, right):
    return float(np.mean(np.abs(left[..., 3] - right[..., 3])))


class Context:
    """Blender's, but for the window."""

    window = None

    def __init__(self):
        self.window_manager = types.SimpleNamespace(ended=0)
        for name in ("event_timer_add", "progress_begin", "progress_update", "progress_end", "modal_handler_add"):
            setattr(self.window_manager, name, lambda *_, **__: None)
        self.workspace = types.SimpleNamespace(status_text_set=lambda _: None)
        self.window_manager.event_timer_remove = self.end

    def end(self, _):
        self.window_manager.ended += 1

    def __getattr__(self, name):
        return getattr(bpy.context, name)


class AddOn(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        bpy.ops.wm.read_factory_settings(use_empty=True)
        install()
        cls.thing = box()
        cameras()
        prepare_render()
        cls.pictures = os.path.join(FOLDER, "pictures")
        for index in range(VIEWS):
            photograph(f"Eye.{index:02}", os.path.join(cls.pictures, f"Eye.{index:02}.png"))
        cls.wanted = [photograph(f"Check.{index}", os.path.join(FOLDER, f"wanted{index}.png")) for index in range(CHECKS)]

    def setUp(self):
        self.settings = bpy.context.scene.kiln
        self.settings.source, self.settings.pictures = "CAMERAS", self.pictures
        self.settings.texture_size, self.settings.quality, self.settings.up = "512", "draft", "z"
        self.settings.hide, self.settings.keep_uvs = True, False
        self.show(self.thing)
        self.before = set(bpy.data.objects)

    def tearDown(self):
        for each in set(bpy.data.objects) - self.before:
            bpy.data.objects.remove(each)

    def show(self, thing):
        thing.hide_set(False)
        thing.hide_render = False
        bpy.ops.object.select_all(action="DESELECT")
        thing.select_set(True)
        bpy.context.view_layer.objects.active = thing

    def made(self):
        (result,) = set(bpy.data.objects) - self.before
        return result

    def compare(self, kind):
        """What the result looks like from cameras that took no part."""
        result = self.made()
        (material,) = result.data.materials
        (image,) = [node.image for node in material.node_tree.nodes if node.type == "TEX_IMAGE"]
        result.data.materials[0] = glowing(image)
        for index, wanted in enumerate(self.wanted):
            got = photograph(f"Check.{index}", os.path.join(FOLDER, f"{kind}{index}.png"))
            self.assertGreater(psnr(got, wanted), 30)
            self.assertLess(cover(got, wanted), 0.002)
            print(f"{kind}, camera {index}: {psnr(got, wanted):.1f} dB, silhouettes differ by {cover(got, wanted):.5f}", file=sys.stderr)
            for wrong in (got[:, ::-1], got[::-1], got[::-1, ::-1]):
                self.assertLess(psnr(wrong, wanted), 25)

    def test_renders_of_the_scenes_cameras_are_baked_to_where_the_mesh_is(self):
        self.assertEqual(bpy.ops.object.kiln_bake(), {"FINISHED"})
        self.assertTrue(self.thing.hide_get() and self.thing.hide_render)
        self.assertEqual(self.made().name, "Box Kiln")
        self.compare("cameras")

    def test_a_cameras_background_image_comes_before_the_folder(self):
        self.settings.pictures, self.settings.hide = "", False
        for index in range(VIEWS):
            path = os.path.join(self.pictures, f"Eye.{index:02}.png")
            data = bpy.data.objects[f"Eye.{index:02}"].data
            data.background_images.new().image = bpy.data.images.load(path, check_existing=True)
        try:
            self.assertEqual(bpy.ops.object.kiln_bake(), {"FINISHED"})
        finally:
            for index in range(VIEWS):
                bpy.data.objects[f"Eye.{index:02}"].data.background_images.clear()
        self.assertFalse(self.thing.hide_get())
        self.thing.hide_render = True
        self.compare("background")

    def test_a_file_of_views_in_either_axes(self):
        addon = sys.modules["bl_ext.user_default.kiln"]
        seen, _ = addon._cameras(bpy.context)
        turn = np.array([[1, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
        for up in ("z", "y"):
            folder = os.path.join(FOLDER, up)
            os.makedirs(folder)
            turned = [camera._replace(world=(turn @ np.array(camera.world)).tolist() if up == "y" else camera.world) for camera in seen]
            turned = [camera._replace(world=[list(map(float, row)) for row in camera.world]) for camera in turned]
            self.settings.source, self.settings.path = "FILE", addon.jobs.write_views(folder, turned)
            self.settings.up = up
            self.show(self.thing)
            self.assertEqual(bpy.ops.object.kiln_bake(), {"FINISHED"})
            self.compare(f"file_{up}")
            self.tearDown()

    def test_the_meshs_own_uvs_stay(self):
        self.settings.keep_uvs = True
        self.assertEqual(bpy.ops.object.kiln_bake(), {"FINISHED"})
        kept, wanted = (coordinates(thing) for thing in (self.made(), self.thing))
        self.assertTrue(all(np.abs(wanted - uv).max(axis=1).min() < 1e-3 for uv in kept))
        self.compare("uvs")

    def test_what_is_wrong_is_told_and_leaves_nothing(self):
        def clear():
            self.settings.pictures = ""

        def small():
            bpy.context.scene.render.resolution_y = 90

        def flat():
            bpy.data.objects["Eye.00"].data.type = "ORTHO"

        def gone():
            self.settings.source, self.settings.path = "FILE", "//nowhere.json"

        def broken():
            self.settings.source, self.settings.path = "FILE", os.path.join(FOLDER, "broken.json")
            with open(self.settings.path, "w") as file:
                file.write("{")

        cases = [
            (clear, "no camera has a picture"),
            (small, "has 168x112 pixels, and the scene renders 168x90"),
            (flat, "Eye.00 is no perspective camera"),
            (gone, "no such file: .*nowhere.json"),
            # Kiln's own line.
            (broken, r"Kiln: broken.json: is not readable: .*\(invalid_asset\)"),
        ]
        for spoil, said in cases:
            self.setUp()
            spoil()
            with self.assertRaisesRegex(RuntimeError, said):
                bpy.ops.object.kiln_bake()
            bpy.context.scene.render.resolution_y = RESOLUTION[1]
            bpy.data.objects["Eye.00"].data.type = "PERSP"
            self.assertEqual(set(bpy.data.objects), self.before)
        self.assertEqual([name for name in os.listdir(tempfile.gettempdir()) if name.startswith("kiln-blender-")], [])

    def test_the_window_stays_awake_and_escape_ends_the_bake(self):
        """Without a window nobody sends events: those of a user are made here."""
        operator = sys.modules["bl_ext.user_default.kiln"].OBJECT_OT_kiln_bake
        told, context = [], Context()
        this = types.SimpleNamespace(report=lambda kind, text: told.append((*kind, text)))
        for name in ("_begin", "_end", "_leave", "cancel", "modal"):
            setattr(this, name, types.MethodType(getattr(operator, name), this))
        timer, escape, mouse = (types.SimpleNamespace(type=kind, value="PRESS") for kind in ("TIMER", "ESC", "MOUSEMOVE"))
        self.settings.quality = "best"
        # Blender calls cancel where it ends or loads another file.
        ends = ((lambda: self.assertEqual(this.modal(context, escape), {"CANCELLED"})), lambda: this.cancel(context))
        for end in ends:
            self.assertEqual(operator.invoke(this, context, None), {"RUNNING_MODAL"})
            self.assertEqual(this.modal(context, mouse), {"PASS_THROUGH"})
            self.assertEqual(this.modal(context, timer), {"PASS_THROUGH"})
            end()
            this._job.join()
            self.assertEqual(this._job.messages(), [("INFO", "the bake was cancelled")])
            self.assertEqual(set(bpy.data.objects), self.before)
            self.assertFalse(os.path.exists(this._folder))
        self.settings.quality = "draft"
        self.assertEqual(operator.invoke(this, context, None), {"RUNNING_MODAL"})
        this._job.join()
        self.assertEqual(this.modal(context, timer), {"FINISHED"})
        self.assertIn(("WARNING", "Kiln: no picture for Check.0, Check.1"), told)
        self.assertRegex(told[-1][1], r"^Kiln: baked: \d\d\.\d dB on the views$")
        self.assertEqual(context.window_manager.ended, 3)
        self.compare("modal")

    def test_a_mesh_is_asked_for(self):
        bpy.context.view_layer.objects.active = bpy.data.objects["Parent"]
        with self.assertRaisesRegex(RuntimeError, "Select a mesh in Object Mode|context is incorrect"):
            bpy.ops.object.kiln_bake()

    def test_another_machine_is_asked_only_online(self):
        preferences = bpy.context.preferences.addons["bl_ext.user_default.kiln"].preferences
        preferences.url = "https://kiln.example.org"
        try:
            with self.assertRaisesRegex(RuntimeError, "may not go online"):
                bpy.ops.object.kiln_bake()
        finally:
            preferences.url = ""


if __name__ == "__main__":
    passed = unittest.main(exit=False).result.wasSuccessful()
    sys.stderr.flush()
    # bpy 4.2 crashes at its end once its own importer of glTF has run.
    os._exit(0 if passed else 1)
