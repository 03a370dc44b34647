// Poses, lenses and projections, against numbers worked out by hand and against the sample's own files.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fromOpenCv, place, poseOf, projection, upOf, yUp } from "../src/camera.js";
import { parseTransforms } from "../src/transforms.js";

const IDENTITY = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 4]]; // prettier-ignore

/** Where a point of the world lies on the canvas, through the matrices as a GPU applies them. */
function pixel(point, pose, matrix, [width, height]) {
    const from = point.map((x, k) => x - pose[12 + k]);
    const eye = [0, 1, 2].map((axis) => from.reduce((sum, x, k) => sum + x * pose[4 * axis + k], 0)).concat(1);
    const clip = [0, 1, 2, 3].map((row) => eye.reduce((sum, x, k) => sum + x * matrix[4 * k + row], 0));
    return [((clip[0] / clip[3] + 1) / 2) * width, ((1 - clip[1] / clip[3]) / 2) * height, clip[2] / clip[3]];
}

function near(got, wanted, within = 1e-9) {
    got.forEach((x, k) => assert.ok(Math.abs(x - wanted[k]) <= within, `${got} is not ${wanted}`));
}

test("a point falls on the pixel that the pinhole says", () => {
    const lens = { fx: 300, fy: 200, cx: 70, cy: 40 };
    const { pose } = poseOf(IDENTITY);
    const full = projection(lens, [160, 120], { x: 0, y: 0, width: 160, height: 120 }, [160, 120], 1, 10);
    // Four ahead, a half to the right, a quarter up: 70 + 300 · 0.5 / 4, 40 − 200 · 0.25 / 4.
    near(pixel([0.5, 0.25, 0], pose, full, [160, 120]).slice(0, 2), [107.5, 27.5]);
    near([pixel([0, 0, 3], pose, full, [160, 120])[2], pixel([0, 0, -6], pose, full, [160, 120])[2]], [-1, 1]);
    // The same picture twice as large, away from the canvas's corner.
    const moved = projection(lens, [160, 120], { x: 30, y: -10, width: 320, height: 240 }, [500, 300], 1, 10);
    near(pixel([0.5, 0.25, 0], pose, moved, [500, 300]).slice(0, 2), [30 + 215, -10 + 55]);
});

test("a camera that is turned with its world sees the same", () => {
    const lens = { fx: 300, fy: 200, cx: 70, cy: 40 };
    const matrix = projection(lens, [160, 120], { x: 0, y: 0, width: 160, height: 120 }, [160, 120], 1, 10);
    const { pose } = poseOf([[0, 0, 1, 5], [1, 0, 0, 0.5], [0, 1, 0, -0.25]]); // prettier-ignore
    // What is 2 above the middle, along z, is so along y; what is 3 along y is 3 against z.
    const [[x, y, z], turned] = [[0.5, 3, 2], [0.5, 2, -3]]; // prettier-ignore
    near(pixel(turned, yUp(pose, "z"), matrix, [160, 120]), pixel([x, y, z], pose, matrix, [160, 120]));
    near(pixel([x, -y, -z], yUp(pose, "-y"), matrix, [160, 120]), pixel([x, y, z], pose, matrix, [160, 120]));
    assert.deepEqual(upOf([pose]), [0, 0, 1]);
    assert.deepEqual(upOf([yUp(pose, "z")]), [0, 1, 0]);
});

test("a picture lies in the middle, as large as it fits", () => {
    assert.deepEqual(place([100, 50], [200, 200]), { x: 0, y: 50, width: 200, height: 100 });
    assert.deepEqual(place([100, 50], [200, 200], { zoom: 2, x: 0.25, y: 0 }), { x: -50, y: 0, width: 400, height: 200 });
});

test("scales and roundings leave a matrix, and what is no pose is refused", () => {
    const turned = [[0, -2, 0, 1], [2, 0, 0, 2], [0, 0, 2, 3]]; // prettier-ignore
    near(poseOf(turned).pose, [0, 1, 0, 0, -1, 0, 0, 0, 0, 0, 1, 0, 1, 2, 3, 1]);
    const rounded = [[0.866, -0.5, 0, 0], [0.5, 0.866, 0, 0], [0, 0, 1, 0]]; // prettier-ignore
    const { pose } = poseOf(rounded);
    near([pose[0] ** 2 + pose[1] ** 2, pose[0] * pose[4] + pose[1] * pose[5]], [1, 0]);
    assert.match(poseOf([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, 0]]).error, /mirrored/); // prettier-ignore
    assert.match(poseOf([[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]]).error, /singular/); // prettier-ignore
    assert.match(poseOf([[1, 0.2, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]).error, /sheared/); // prettier-ignore
});

test("world to camera in OpenCV's axes is the same camera", () => {
    // Looks along the world's −x from (5, 1, 2), its y down is the world's −z.
    const rows = [[0, 1, 0, -1], [0, 0, -1, 2], [-1, 0, 0, 5]]; // prettier-ignore
    const { pose } = poseOf(fromOpenCv(rows));
    near(pose.slice(12, 15), [5, 1, 2]);
    near(pose.slice(8, 11), [1, 0, 0]);
    near(pose.slice(4, 7), [0, 0, 1]);
});

test("most cameras say where up is", () => {
    const looking = (up) => [1, 0, 0, 0, ...up, 0, 0, 0, 1, 0, 0, 0, 0, 1];
    assert.deepEqual(upOf([looking([0.1, 0, 0.9]), looking([-0.2, 0.3, 0.8])]), [0, 0, 1]);
    assert.deepEqual(upOf([looking([0, -1, 0])]), [0, -1, 0]);
    assert.deepEqual(upOf([looking([0, 1, 0]), looking([0, -1, 0])]), [0, 1, 0]);
    assert.deepEqual(upOf([]), [0, 1, 0]);
});

test("the ways to write a lens agree", () => {
    const lens = (file, frame = {}, picture = [256, 128]) => {
        const frames = [{ file_path: "a", transform_matrix: [...IDENTITY, [0, 0, 0, 1]], ...frame }];
        return parseTransforms(JSON.stringify({ ...file, frames })).frames[0].lens(picture);
    };
    const angle = 2 * Math.atan(128 / 300);
    const wanted = [300, 300, 128, 64];
    const numbers = ({ fx, fy, cx, cy }) => [fx, fy, cx, cy];
    near(numbers(lens({ camera_angle_x: angle })), wanted, 1e-9);
    near(numbers(lens({ fl_x: 300 })), wanted);
    near(numbers(lens({ fl_x: 600, w: 512, h: 256, cx: 256, cy: 128 })), wanted);
    near(numbers(lens({ fl_x: 600, w: 512, h: 256 }, {}, [256, 129])), [300, (300 * 129) / 128, 128, 64.5]);
    near(numbers(lens({ fl_x: 1, fl_y: 9 }, { fl_x: 300 })), wanted);
    near(numbers(lens({ camera_angle_y: 2 * Math.atan(64 / 300) })), wanted, 1e-9);
    near(numbers(lens({ fl_x: 300, fl_y: 310, cx: 100 })), [300, 310, 100, 64]);
    assert.equal(lens({}), null);
});

test("matrices may be nested or flat, and lists hold views out", () => {
    const flat = [1, 0, 0, 7, 0, 1, 0, 8, 0, 0, 1, 9];
    const frames = ["./a//b.png", "c.png", "d.png"].map((file_path) => ({ file_path, transform_matrix: flat }));
    const read = parseTransforms(JSON.stringify({ frames, test_filenames: ["a/b.png"], train_filenames: ["./a/b.png", "d.png"] }));
    assert.deepEqual(read.frames.map(({ heldOut }) => heldOut), [true, true, false]); // prettier-ignore
    assert.deepEqual(read.frames[0].pose.slice(12, 15), [7, 8, 9]);
    assert.equal(parseTransforms('{"frames":[{"file_path":"a","transform_matrix":[1,2]}]}').frames[0].pose, null);
    for (const text of ["", "[]", "{}", '{"frames":[]}', "nonsense"]) assert.ok("error" in parseTransforms(text), text);
});

test("the sample's cameras look at the model", () => {
    const text = readFileSync(new URL("../../../tests/data/spot/transforms.json", import.meta.url), "utf8");
    const { frames } = parseTransforms(text);
    assert.equal(frames.length, 16);
    for (const { pose, lens } of frames) {
        const matrix = projection(lens([256, 256]), [256, 256], { x: 0, y: 0, width: 256, height: 256 }, [256, 256], 0.1, 10);
        const [x, y] = pixel([0, 0, 0], pose, matrix, [256, 256]);
        assert.ok(Math.hypot(x - 128, y - 128) < 60, `the origin is at ${x}, ${y}`);
    }
});
