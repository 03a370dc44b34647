// The sample's cameras as a model of COLMAP, in text and in binary → the views that its transforms.json gives.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { parseModel } from "../src/colmap.js";
import { countViews, recognise } from "../src/recognise.js";
import { parseTransforms } from "../src/transforms.js";

const SPOT = JSON.parse(readFileSync(new URL("../../../tests/data/spot/transforms.json", import.meta.url), "utf8"));
const CAMERA = [SPOT.fl_x, SPOT.fl_y ?? SPOT.fl_x, SPOT.w / 2, SPOT.h / 2];

/** World to camera in OpenCV's axes, as a quaternion w x y z and a translation. @param {number[][]} m camera to world in OpenGL's */
function poseOf(m) {
    const sign = [1, -1, -1];
    const r = [0, 1, 2].map((row) => [0, 1, 2].map((column) => sign[row] * m[column][row]));
    const t = r.map((row) => -(row[0] * m[0][3] + row[1] * m[1][3] + row[2] * m[2][3]));
    // By the largest of four, which divides the others.
    const squares = [1 + r[0][0] + r[1][1] + r[2][2], 1 + r[0][0] - r[1][1] - r[2][2], 1 - r[0][0] + r[1][1] - r[2][2], 1 - r[0][0] - r[1][1] + r[2][2]];
    const at = squares.indexOf(Math.max(...squares));
    const [a, b, c] = [r[2][1] - r[1][2], r[0][2] - r[2][0], r[1][0] - r[0][1]];
    const [d, e, f] = [r[0][1] + r[1][0], r[0][2] + r[2][0], r[1][2] + r[2][1]];
    const q = [[squares[0], a, b, c], [a, squares[1], d, e], [b, d, squares[2], f], [c, e, f, squares[3]]][at]; // prettier-ignore
    const length = Math.hypot(...q);
    return [...q.map((x) => x / length), ...t];
}

const IMAGES = SPOT.frames.map((frame, k) => ({ id: k + 1, name: frame.file_path, pose: poseOf(frame.transform_matrix) }));

function text() {
    const images = IMAGES.map(({ id, name, pose }) => `${id} ${pose.join(" ")} 7 ${name}\n${id % 2 ? "" : "1.5 2.5 -1"}\n`);
    return { "cameras.txt": `# a comment\n7 OPENCV ${SPOT.w} ${SPOT.h} ${CAMERA.join(" ")} 0 0 0 0\n`, "images.txt": `# two lines each\n${images.join("")}` };
}

function binary() {
    const bytes = (...parts) => new Blob(parts.map(([kind, ...values]) => {
        const size = { u32: 4, i32: 4, u64: 8, f64: 8 }[kind];
        const view = new DataView(new ArrayBuffer(size * values.length));
        values.forEach((value, k) => {
            if (kind === "u64") view.setBigUint64(8 * k, BigInt(value), true);
            else view[{ u32: "setUint32", i32: "setInt32", f64: "setFloat64" }[kind]](size * k, value, true);
        });
        return view;
    })); // prettier-ignore
    const image = ({ id, name, pose }) => [bytes(["u32", id], ["f64", ...pose], ["u32", 7]), `${name}\0`, bytes(["u64", id % 3], ["f64", ...Array(3 * (id % 3)).fill(0)])];
    return {
        "cameras.bin": bytes(["u64", 1], ["u32", 7], ["i32", 1], ["u64", SPOT.w, SPOT.h], ["f64", ...CAMERA]),
        "images.bin": new Blob([bytes(["u64", IMAGES.length]), ...IMAGES.flatMap(image)]),
    };
}

test("both forms give the poses and lenses that the model was made of", async () => {
    const wanted = parseTransforms(JSON.stringify(SPOT)).frames;
    const blob = (part) => new Blob([part]);
    const [t, b] = [text(), binary()];
    for (const frames of [await parseModel(blob(t["images.txt"]), blob(t["cameras.txt"]), true), await parseModel(b["images.bin"], b["cameras.bin"], false)]) {
        assert.deepEqual(frames.map(({ file }) => file), wanted.map(({ file }) => file)); // prettier-ignore
        frames.forEach((frame, k) => {
            frame.pose.forEach((x, c) => assert.ok(Math.abs(x - wanted[k].pose[c]) < 1e-5, `${frame.file}: ${frame.pose}`));
            // Twice as large, so is the lens.
            const [got, want] = [frame.lens([2 * SPOT.w, 2 * SPOT.h]), wanted[k].lens([2 * SPOT.w, 2 * SPOT.h])];
            for (const key of ["fx", "fy", "cx", "cy"]) assert.ok(Math.abs(got[key] - want[key]) < 1e-6, `${key}: ${got[key]}`);
        });
    }
    assert.deepEqual(await parseModel(new Blob(["short"]), new Blob(["short"]), false), []);
});

test("a project brings its model, its pictures and its masks, under the names that Kiln looks for", async () => {
    const item = (path, content = "x") => ({ path, blob: content instanceof Blob ? content : new Blob([content]) });
    const pictures = IMAGES.map(({ name }) => item(`scan/images/${name}`));
    const model = (files, folder) => Object.entries(files).map(([name, content]) => item(`${folder}${name}`, content));
    const masks = [item(`scan/masks/${IMAGES[0].name}.png`), item(`scan/masks/${IMAGES[1].name}`)];
    const rest = [item("scan/mesh.obj"), item("scan/sparse/0/points3D.bin"), ...masks, ...pictures];
    const found = await recognise([...model(binary(), "scan/sparse/0/"), ...model(text(), "scan/sparse/0/"), ...rest]);
    assert.deepEqual([found.missing, found.viewSets, countViews(found)], [null, ["scan/sparse/0/images.bin"], IMAGES.length]);
    const names = [...found.views.files.keys()];
    assert.deepEqual(names.filter((name) => !name.startsWith("images/")).sort(), ["cameras.bin", "images.bin", `masks/${IMAGES[0].name}.png`, `masks/${IMAGES[1].name}`].sort());
    assert.equal(names.filter((name) => name.startsWith("images/")).length, IMAGES.length);
    const flat = await recognise([item("mesh.obj"), ...model(text(), ""), ...IMAGES.map(({ name }) => item(name.split("/").pop()))]);
    assert.equal(flat.missing, null);
    const without = await recognise([item("mesh.obj"), item("images.txt", text()["images.txt"])]);
    assert.match(without.missing, /cameras.txt is not beside it/);
});
