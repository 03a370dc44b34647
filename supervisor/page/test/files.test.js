// Files, folders, zips and arrays → what a job would be made of.

import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { test } from "node:test";
import { zipSync } from "fflate";
import { cameraOf, pixelsOf, readHeader } from "../src/arrays.js";
import { countViews, recognise } from "../src/recognise.js";
import { unzip } from "../src/zip.js";

const SPOT = new URL("../../../tests/data/spot/", import.meta.url);
const POSE = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 4], [0, 0, 0, 1]]; // prettier-ignore

const item = (path, content = "x") => ({ path, blob: new Blob([content]) });
const views = (...names) => JSON.stringify({ fl_x: 9, frames: names.map((file_path) => ({ file_path, transform_matrix: POSE })) });
const names = (source) => [...source.files.keys()].sort();

/** Files of the sample as a folder that was chosen. */
function spot(beneath = "", prefix = "spot/") {
    return readdirSync(new URL(beneath, SPOT)).flatMap((name) => {
        const path = beneath + name;
        if (statSync(new URL(path, SPOT)).isDirectory()) return spot(`${path}/`, prefix);
        return [{ path: prefix + path, blob: new Blob([readFileSync(new URL(path, SPOT))]) }];
    });
}

test("the sample is recognised, with a choice of meshes and of views", async () => {
    const found = await recognise(spot());
    assert.equal(found.missing, null);
    assert.deepEqual(found.meshes, ["spot/mesh_nouv.glb", "spot/mesh_uv.glb"]);
    assert.deepEqual(found.viewSets, ["spot/transforms.json", "spot/transforms_test.json"]);
    assert.deepEqual([found.mesh.main, found.views.main, countViews(found)], ["mesh_nouv.glb", "transforms.json", 16]);
    assert.equal(found.views.files.size, 17);
    assert.ok(found.views.files.has("train/r_000.png"), names(found.views).join());
    const other = await recognise(spot(), { mesh: "spot/mesh_uv.glb", views: "spot/transforms_test.json" });
    assert.deepEqual([other.mesh.main, other.views.main], ["mesh_uv.glb", "transforms_test.json"]);
});

test("what is missing is said in one line", async () => {
    const said = async (...items) => (await recognise(items)).missing;
    assert.equal(await said(item("a.glb")), "cameras are missing: a transforms.json, a model of COLMAP, or Gaussian splats");
    assert.match(await said(item("transforms.json", views("0.png")), item("0.png")), /^a mesh is missing/);
    const some = [item("a.obj"), item("transforms.json", views("i/0", "i/1.png", "i/2.png")), item("i/0.jpg")];
    assert.equal(await said(...some), "2 of the 3 pictures that transforms.json names are missing: i/1.png, i/2.png");
    assert.match(await said(item("a.obj"), item("transforms.json", "{")), /^transforms.json is not readable: /);
    const gltf = JSON.stringify({ buffers: [{ uri: "a%20b.bin" }, { uri: "data:,x" }] });
    assert.match(await said(item("m.gltf", gltf), item("transforms.json", views("0.png")), item("0.png")), /m.gltf refers to a b.bin/);
});

test("splats are views, a mesh is none of them, and a SOG brings its planes", async () => {
    const header = (...names) => `ply\nformat ascii 1.0\nelement vertex 0\n${names.map((name) => `property float ${name}\n`).join("")}end_header\n`;
    const [mesh, splats] = [item("a.ply", header("x", "y", "z")), item("b.ply", header("x", "f_dc_0", "opacity"))];
    for (const items of [[mesh, splats], [splats, mesh]]) {
        const found = await recognise(items);
        assert.deepEqual([found.missing, found.meshes, found.viewSets, found.mesh.main, found.views.main], [null, ["a.ply"], ["b.ply"], "a.ply", "b.ply"]);
        assert.deepEqual(names(found.views), ["b.ply"]);
    }
    const alone = await recognise([splats]);
    assert.deepEqual([alone.missing, alone.mesh.main, alone.views], [null, "b.ply", null]);
    for (const name of ["b.spz", "b.splat", "b.SOG"]) assert.equal((await recognise([mesh, item(name)])).views.main, name);
    const sog = await recognise([mesh, item("s/meta.json", "{}"), item("s/means_l.webp"), item("other.webp")]);
    assert.deepEqual([sog.missing, sog.views.main, names(sog.views)], [null, "meta.json", ["means_l.webp", "meta.json"]]);
    // A glTF of splats alone, with its buffer; one with triangles is a mesh.
    const gltf = (...modes) => {
        const primitives = modes.map((mode) => ({ mode, extensions: mode === 0 ? { KHR_gaussian_splatting: {} } : {} }));
        return JSON.stringify({ buffers: [{ uri: "s.bin" }], meshes: [{ primitives }] });
    };
    for (const items of [[mesh, item("s.gltf", gltf(0)), item("s.bin")], [mesh, item("s.gltf", gltf(1, 0)), item("s.bin")]]) {
        const found = await recognise(items);
        assert.deepEqual([found.missing, found.meshes, names(found.views)], [null, ["a.ply"], ["s.bin", "s.gltf"]]);
    }
    const own = await recognise([item("s.gltf", gltf(0)), item("s.bin")]);
    assert.deepEqual([own.missing, names(own.mesh), own.views], [null, ["s.bin", "s.gltf"], null]);
    assert.match((await recognise([item("s.gltf", gltf(0))])).missing, /s.gltf refers to s.bin/);
    for (const modes of [[0, 4], [0, undefined], [1]]) {
        const found = await recognise([item("s.gltf", gltf(...modes)), item("s.bin")]);
        assert.deepEqual([found.viewSets, names(found.mesh)], [[], ["s.bin", "s.gltf"]]);
        assert.match(found.missing, /cameras are missing/);
    }
    // Cameras with pictures come first.
    const both = await recognise([mesh, splats, item("transforms.json", views("0.png")), item("0.png")]);
    assert.deepEqual([both.views.main, both.viewSets], ["transforms.json", ["transforms.json", "b.ply"]]);
});

test("files go under the names by which they are called", async () => {
    const gltf = JSON.stringify({ buffers: [{ uri: "buffers/a%20b.bin" }] });
    const found = await recognise([
        item("scan/model/m.gltf", gltf), item("scan/model/buffers/a b.bin"), item("scan/model/unused.bin"),
        item("scan/views/transforms.json", views("./images//0", "images/1.png")), item("scan/views/images/0.jpg"),
        item("scan/views/images/1.png"), item("scan/notes.json", "{}"),
    ]); // prettier-ignore
    assert.equal(found.missing, null);
    assert.deepEqual(names(found.mesh), ["buffers/a b.bin", "m.gltf"]);
    assert.deepEqual(names(found.views), ["images/0.jpg", "images/1.png", "transforms.json"]);
});

test("pictures that lost their folder are found by their names, unless two have one name", async () => {
    const set = item("transforms.json", views("images/0.png", "images/10.png"));
    const flat = await recognise([item("m.ply"), set, item("0.png"), item("10.png")]);
    assert.equal(flat.missing, null);
    assert.deepEqual(names(flat.views), ["images/0.png", "images/10.png", "transforms.json"]);
    const twice = await recognise([item("m.ply"), set, item("0.png"), item("b/0.png"), item("10.png")]);
    assert.match(twice.missing, /^1 of the 2 pictures/);
    const outside = await recognise([item("m.ply"), item("transforms.json", views("../0.png")), item("0.png")]);
    assert.match(outside.missing, /^1 of the 1 pictures/);
});

test("a zip is unpacked, stored or deflated, and a broken one is refused", async () => {
    const noise = Uint8Array.from({ length: 100_000 }, (_, k) => (k * 2654435761) >>> 24);
    const archive = zipSync({
        "scan/mesh.glb": [noise, { level: 0 }], "scan/views/transforms.json": new TextEncoder().encode(views("0.png")),
        "scan/views/0.png": noise, "__MACOSX/scan/._mesh.glb": noise, "scan/.DS_Store": noise,
    }); // prettier-ignore
    const files = await unzip(new Blob([archive]));
    assert.deepEqual(files.map(({ path }) => path).sort(), ["scan/mesh.glb", "scan/views/0.png", "scan/views/transforms.json"]); // prettier-ignore
    for (const { path, blob } of files.filter(({ path }) => !path.endsWith(".json"))) {
        assert.deepEqual(new Uint8Array(await blob.arrayBuffer()), noise, path);
    }
    assert.equal((await recognise(files)).missing, null);
    for (const cut of [20, 100, 50_000, 100_300, 101_000]) await assert.rejects(unzip(new Blob([archive.slice(0, cut)])), `${cut}`);
    await assert.rejects(unzip(new Blob(["no zip at all"])), /no files/);
});

/** A safetensors file with these tensors. */
function arrays(tensors, metadata) {
    const header = metadata ? { __metadata__: metadata } : {};
    let at = 0;
    const parts = Object.entries(tensors).map(([name, [dtype, shape, data]]) => {
        header[name] = { dtype, shape, data_offsets: [at, at + data.byteLength] };
        at += data.byteLength;
        return data;
    });
    const text = new TextEncoder().encode(JSON.stringify(header));
    const length = new DataView(new ArrayBuffer(8));
    length.setBigUint64(0, BigInt(text.length), true);
    return new Blob([length, text, ...parts]);
}

test("single views are read out of a safetensors file", async () => {
    const eye = new Float32Array([1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 4, 0, 0, 0, 1]);
    const lens = new Float32Array([1.5, 0, 0.5, 0, 3, 0.25, 0, 0, 1]);
    const file = arrays(
        {
            vertices: ["F32", [0, 3], new Float32Array()],
            faces: ["I32", [0, 3], new Int32Array()],
            observations: ["U8", [2, 1, 2, 3], new Uint8Array([0, 0, 0, 0, 0, 0, 10, 20, 30, 40, 50, 60])],
            masks: ["U8", [2, 1, 2], new Uint8Array([1, 1, 1, 0])],
            extrinsics: ["F32", [2, 4, 4], new Float32Array([...eye, ...eye])],
            intrinsics: ["F32", [2, 3, 3], new Float32Array([...lens, ...lens])],
        },
        { intrinsics: "normalized" },
    );
    const found = await recognise([{ path: "scene.safetensors", blob: file }]);
    assert.deepEqual([found.missing, countViews(found)], [null, 2]);
    const { width, height, rgba } = await pixelsOf(file, found.arrays.header, 1);
    assert.deepEqual([width, height, ...rgba], [2, 1, 10, 20, 30, 255, 40, 50, 60, 0]);
    const camera = await cameraOf(file, found.arrays.header, 1);
    assert.deepEqual(camera.lens, { fx: 3, fy: 3, cx: 1, cy: 0.25 });
    // OpenCV's camera four behind the origin looks along z: in OpenGL's axes y and z are turned.
    const wanted = [1, 0, 0, 0, 0, -1, 0, 0, 0, 0, -1, 0, 0, 0, -4, 1];
    camera.pose.forEach((x, k) => assert.ok(Math.abs(x - wanted[k]) < 1e-12, String(camera.pose)));
    assert.equal(await readHeader(new Blob(["not one of ours"])), null);
    const bare = await recognise([{ path: "a.safetensors", blob: arrays({ vertices: ["F32", [0, 3], new Float32Array()] }) }]);
    assert.match(bare.missing, /no faces, no observations/);
});

test("arrays may be the mesh, the views, or both", async () => {
    const mesh = { vertices: ["F32", [0, 3], new Float32Array()], faces: ["I32", [0, 3], new Int32Array()] };
    const seen = {
        observations: ["U8", [1, 1, 1, 3], new Uint8Array(3)],
        extrinsics: ["F32", [1, 4, 4], new Float32Array(16)],
        intrinsics: ["F32", [1, 3, 3], new Float32Array(9)],
    };
    const file = (path, tensors) => ({ path, blob: arrays(tensors) });
    const told = ({ missing, arrays, mesh, views }) => [missing, arrays?.name ?? null, mesh?.main ?? null, views?.main ?? null];
    const [both, body, cameras] = [file("both.safetensors", { ...mesh, ...seen }), file("mesh.safetensors", mesh), file("views.safetensors", seen)];
    const set = [item("transforms.json", views("0.png")), item("0.png")];
    for (const [items, wanted] of [
        [[both], [null, "both.safetensors", null, null]],
        [[body, cameras], [null, null, "mesh.safetensors", "views.safetensors"]],
        [[item("a.glb"), cameras], [null, null, "a.glb", "views.safetensors"]],
        [[item("a.glb"), both], [null, null, "a.glb", "both.safetensors"]],
        [[body, ...set], [null, null, "mesh.safetensors", "transforms.json"]],
    ]) {
        const found = await recognise(items);
        assert.deepEqual(told(found), wanted);
        assert.equal(countViews(found), 1);
    }
});

test("masks and channels of a frame are sent with it", async () => {
    const frame = { file_path: "images/a.png", transform_matrix: POSE, channels: { normal: "normal/a.png" } };
    const set = JSON.stringify({ fl_x: 9, mask_path: "all.png", frames: [frame] });
    const beside = ["normal/a.png", "all.png", "masks/a.png.png", "images/a.alpha.png", "dataparser_transforms.json"];
    const found = await recognise([item("s/m.stl"), item("s/transforms.json", set), item("s/images/a.png"), item("s/images/b.png"), ...beside.map((name) => item(`s/${name}`))]);
    assert.deepEqual([found.missing, names(found.views)], [null, ["transforms.json", "images/a.png", ...beside].sort()]);
});
