"""Blender's side: preferences, a panel in the sidebar, and the operator that exports, bakes and imports."""

import os
import shutil
import tempfile

import bpy
from bpy.props import BoolProperty, EnumProperty, FloatProperty, PointerProperty, StringProperty

import kiln

from . import job as jobs

#: Seconds between two looks at a bake that runs.
_POLL = 0.1
#: Blender 4.5 and newer ask whether a path may begin with `//`, the folder of the .blend file.
_PATH = {"PATH_SUPPORTS_BLEND_RELATIVE"} if bpy.app.version >= (4, 5, 0) else set()
#: What the environment names, where the preferences name nothing.
_PROGRAM = os.environ.get("KILN_BIN")


class Preferences(bpy.types.AddonPreferences):
    bl_idname = __package__

    program: StringProperty(
        name="Program",
        description="The program kiln, with kiln-baker beside it (Linux), where no sidecar runs. Empty: the one on the PATH",
        subtype="FILE_PATH",
        options=_PATH,
    )
    url: StringProperty(
        name="Sidecar",
        description="A Kiln elsewhere, as https://kiln.example.org, or the path of its socket. Windows and macOS need one",
    )
    token: StringProperty(name="Token", description="What the sidecar asks for", subtype="PASSWORD")

    def draw(self, context):
        for name in ("program", "url", "token"):
            self.layout.prop(self, name)


class KILN_PG_settings(bpy.types.PropertyGroup):
    source: EnumProperty(
        name="Views",
        items=(
            ("CAMERAS", "Scene Cameras", "The cameras of this scene and their pictures"),
            ("FILE", "File", "A transforms.json, a COLMAP model or Gaussian splats"),
        ),
    )
    pictures: StringProperty(
        name="Pictures",
        description="Folder of a picture for each camera, named as the camera is. A camera's background image comes first",
        subtype="DIR_PATH",
        options=_PATH,
    )
    path: StringProperty(
        name="File",
        description="A transforms.json, the folder of a COLMAP model, or splats as PLY, SPZ, SOG or .splat",
        subtype="FILE_PATH",
        options=_PATH,
    )
    up: EnumProperty(
        name="Up",
        description="The axes of the file",
        items=(
            ("z", "Z Up", "As in Blender: the mesh was imported without turning it, as a PLY is"),
            ("y", "Y Up", "As in glTF: the mesh was imported from a GLB or an OBJ, which turns it"),
        ),
    )
    texture_size: EnumProperty(
        name="Texture",
        items=[("auto", "What Views Resolve", "")] + [(str(size), f"{size}²", "") for size in (512, 1024, 2048, 4096, 8192)],
        default="2048",
    )
    quality: EnumProperty(
        name="Quality",
        items=[(name, name.capitalize(), "") for name in ("draft", "standard", "best")],
        default="standard",
    )
    simplify: FloatProperty(name="Simplify", description="Share of the faces to remove", min=0, max=0.99)
    keep_uvs: BoolProperty(name="Keep UVs", description="Bake for the mesh's own UV map in place of a new one")
    hide: BoolProperty(name="Hide Original", description="Show the result in place of the mesh", default=True)


class OBJECT_OT_kiln_bake(bpy.types.Operator):
    bl_idname = "object.kiln_bake"
    bl_label = "Bake with Kiln"
    bl_description = "Make a textured copy of the active mesh. Esc cancels"
    bl_options = {"UNDO"}

    @classmethod
    def poll(cls, context):
        if context.mode != "OBJECT" or context.object is None or context.object.type != "MESH":
            cls.poll_message_set("Select a mesh in Object Mode")
            return False
        return True

    def execute(self, context):
        """For scripts: returns when the result is there."""
        if not self._begin(context):
            return {"CANCELLED"}
        self._job.join()
        return self._end(context)

    def invoke(self, context, event):
        if not self._begin(context):
            return {"CANCELLED"}
        manager = context.window_manager
        self._timer = manager.event_timer_add(_POLL, window=context.window)
        manager.progress_begin(0, 100)
        manager.modal_handler_add(self)
        return {"RUNNING_MODAL"}

    def modal(self, context, event):
        if event.type == "ESC" and event.value == "PRESS":
            self._job.cancel()
            self.report({"INFO"}, "Kiln: the bake was cancelled")
            self._leave(context)
            return {"CANCELLED"}
        if event.type != "TIMER":
            return {"PASS_THROUGH"}
        if self._job.is_alive():
            share, phase = self._job.progress
            context.window_manager.progress_update(round(100 * share))
            context.workspace.status_text_set(f"Kiln: {share:.0%} {phase}. Esc cancels")
            return {"PASS_THROUGH"}
        try:
            return self._end(context)
        finally:
            self._leave(context)

    def cancel(self, context):
        """Blender ends, or loads another file."""
        self._job.cancel()
        self._leave(context)

    def _leave(self, context):
        context.window_manager.event_timer_remove(self._timer)
        context.window_manager.progress_end()
        if context.workspace:
            context.workspace.status_text_set(None)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _begin(self, context):
        """Whether a bake has been started; otherwise it is said why not."""
        settings = context.scene.kiln
        self._name = context.object.name
        self._folder = tempfile.mkdtemp(prefix="kiln-blender-")
        mesh = os.path.join(self._folder, "mesh.glb")
        try:
            client = _client(context)
            if settings.source == "CAMERAS":
                cameras, without = _cameras(context)
                if without:
                    self.report({"WARNING"}, f"Kiln: no picture for {', '.join(without)}")
                views, up, frame = jobs.write_views(self._folder, cameras), "z", "given"
            else:
                views, up, frame = bpy.path.abspath(settings.path), settings.up, "auto"
                if not os.path.exists(views):
                    raise ValueError(f"no such file: {views or 'set it in the panel'}")
            _export(context, mesh, up, settings.keep_uvs)
        except (ValueError, OSError, RuntimeError, kiln.KilnError) as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            self.report({"ERROR"}, f"Kiln: {error}")
            return False
        size = settings.texture_size
        options = {
            "name": self._name,
            "texture_size": size if size == "auto" else int(size),
            "quality": settings.quality,
            "keep_uvs": settings.keep_uvs,
            "up": up,
            "frame": frame,
        }
        if settings.simplify:
            options["simplify"] = settings.simplify
        self._job = jobs.Job(mesh, views, client, options)
        self._job.start()
        return True

    def _end(self, context):
        """Imports what was made, and says how it went."""
        try:
            if self._job.glb is not None:
                made = os.path.join(self._folder, "model.glb")
                self._job.glb.export(made)
                bpy.ops.import_scene.gltf(filepath=made)
                for result in context.selected_objects:
                    result.name = f"{self._name} Kiln"
                original = context.scene.objects.get(self._name)
                if context.scene.kiln.hide and original is not None:
                    original.hide_set(True)
                    original.hide_render = True
        except (OSError, RuntimeError) as error:
            self.report({"ERROR"}, f"Kiln: the result cannot be imported: {error}")
            return {"CANCELLED"}
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        for kind, text in self._job.messages():
            self.report({kind}, f"Kiln: {text}")
        return {"CANCELLED"} if self._job.glb is None else {"FINISHED"}


class VIEW3D_PT_kiln(bpy.types.Panel):
    bl_label = "Kiln"
    bl_category = "Kiln"
    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"

    def draw(self, context):
        layout, settings = self.layout, context.scene.kiln
        layout.use_property_split = True
        layout.prop(settings, "source")
        for name in ("pictures",) if settings.source == "CAMERAS" else ("path", "up"):
            layout.prop(settings, name)
        for name in ("texture_size", "quality", "simplify", "keep_uvs", "hide"):
            layout.prop(settings, name)
        layout.operator(OBJECT_OT_kiln_bake.bl_idname)


def _client(context):
    """The sidecar that the preferences name; None for the one that the client finds or starts."""
    preferences = context.preferences.addons[__package__].preferences
    if preferences.url:
        if not (jobs.is_here(preferences.url) or bpy.app.online_access):
            raise ValueError("the sidecar is on another machine, and Blender may not go online: Preferences > System > Network")
        return kiln.Client(preferences.url, preferences.token)
    program = bpy.path.abspath(preferences.program) if preferences.program else _PROGRAM
    if program:
        os.environ["KILN_BIN"] = program
    else:
        os.environ.pop("KILN_BIN", None)
    return None


def _cameras(context):
    """The scene's cameras that have a picture, and the names of those that have none."""
    folder = context.scene.kiln.pictures
    render, graph = context.scene.render, context.evaluated_depsgraph_get()
    cameras, without = [], []
    for camera in (each for each in context.scene.objects if each.type == "CAMERA"):
        picture = _background(camera.data) or (folder and jobs.find_picture(bpy.path.abspath(folder), camera.name))
        if not picture:
            without.append(camera.name)
            continue
        size = _size(picture)
        jobs.check_aspect(picture, size, (render.resolution_x, render.resolution_y))
        if camera.data.type != "PERSP":
            raise ValueError(f"{camera.name} is no perspective camera: Kiln takes those alone")
        projection = camera.calc_matrix_camera(
            graph, x=size[0], y=size[1], scale_x=render.pixel_aspect_x, scale_y=render.pixel_aspect_y
        )
        world = camera.evaluated_get(graph).matrix_world.normalized()
        cameras.append(jobs.Camera(camera.name, projection, world, picture, size))
    if not cameras:
        raise ValueError("no camera has a picture: set the folder of pictures that are named as the cameras, or background images")
    return cameras, without


def _background(camera):
    """The file of the picture through which the camera is looked at, as photogrammetry's importers set it."""
    images = [each.image for each in camera.background_images if each.source == "IMAGE" and each.image]
    return next((bpy.path.abspath(image.filepath) for image in images if image.source == "FILE" and image.filepath), None)


def _size(picture):
    known = set(bpy.data.images)
    image = bpy.data.images.load(picture, check_existing=True)
    try:
        return tuple(image.size)
    finally:
        if image not in known:
            bpy.data.images.remove(image)


def _export(context, path, up, keep_uvs):
    """The active mesh as it is seen, in the world, in the axes of the views."""
    active, selected = context.object, context.selected_objects
    bpy.ops.object.select_all(action="DESELECT")
    active.select_set(True)
    try:
        bpy.ops.export_scene.gltf(
            filepath=path,
            export_format="GLB",
            use_selection=True,
            export_yup=up == "y",
            export_apply=True,
            export_materials="NONE",
            export_texcoords=keep_uvs,
            export_animations=False,
            export_skins=False,
            export_morph=False,
        )
    finally:
        bpy.ops.object.select_all(action="DESELECT")
        for each in selected:
            each.select_set(True)


_CLASSES = (Preferences, KILN_PG_settings, OBJECT_OT_kiln_bake, VIEW3D_PT_kiln)


def register():
    for each in _CLASSES:
        bpy.utils.register_class(each)
    bpy.types.Scene.kiln = PointerProperty(type=KILN_PG_settings)


def unregister():
    del bpy.types.Scene.kiln
    for each in reversed(_CLASSES):
        bpy.utils.unregister_class(each)
