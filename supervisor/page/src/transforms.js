// transforms.json of instant-ngp, nerfstudio or Blender → views: a file each, its pose, its lens for a picture of some size.
//
// The same reading as baker/src/prepare/transforms: a key of a frame goes before the same key of the file; a focal length before
// an angle; with w and h, lengths scale with the picture; a frame's fl_x goes with its own fl_y. What Kiln refuses, it refuses
// with its own words when the job runs: here a view without a usable camera is only left out of the comparison.

import { poseOf } from "./camera.js";

/** @typedef {import("./camera.js").Lens} Lens */
/**
 * @typedef {object} Frame
 * @property {string} file `file_path` as written
 * @property {string[]} beside other pictures that it names: its mask, its channels
 * @property {boolean} heldOut by the file's lists of names
 * @property {number[] | null} pose see camera.js; none where the matrix is none
 * @property {(picture: [number, number]) => Lens | null} lens
 */

/** Tried in this order behind a name that is not there as it is. */
export const ENDINGS = ["", ".png", ".jpg", ".jpeg", ".webp"];

/** @param {string} text @returns {{frames: Frame[]} | {error: string}} */
export function parseTransforms(text) {
    /** @type {any} */
    let file;
    try {
        file = JSON.parse(text.replace(/^\uFEFF/, ""));
    } catch (error) {
        return { error: `is not readable: ${error instanceof Error ? error.message : error}` };
    }
    if (!Array.isArray(file?.frames)) return { error: 'has no list "frames"' };
    if (file.frames.length === 0) return { error: "has no frames" };
    const heldOut = split(file);
    const frames = file.frames.map((/** @type {any} */ frame) => {
        const name = typeof frame?.file_path === "string" ? frame.file_path : "";
        const rows = rowsOf(frame?.transform_matrix);
        const pose = rows && poseOf(rows);
        return {
            file: name,
            beside: [frame?.mask_path ?? file.mask_path, ...Object.values(Object(frame?.channels))].filter((name) => typeof name === "string" && name !== ""),
            heldOut: heldOut(plain(name)),
            pose: pose && "pose" in pose ? pose.pose : null,
            lens: (/** @type {[number, number]} */ picture) => lensOf(frame ?? {}, file, picture),
        };
    });
    return { frames };
}

/** nerfstudio's lists. @param {any} file @returns {(name: string) => boolean} */
function split(file) {
    const list = (/** @type {string} */ key) =>
        Array.isArray(file[key]) ? new Set(file[key].map((/** @type {unknown} */ name) => plain(String(name)))) : null;
    const [train, val, test] = ["train_filenames", "val_filenames", "test_filenames"].map(list);
    return (name) => Boolean(val?.has(name) || test?.has(name) || (train && !train.has(name)));
}

/** The path without what leads nowhere: `./a//b` is `a/b`. @param {string} path */
export function plain(path) {
    const parts = path.split("/").filter((part) => part !== "" && part !== ".");
    return (path.startsWith("/") ? "/" : "") + parts.join("/");
}

/** Three rows of four from 4×4, 3×4, 16 or 12 numbers. @param {unknown} matrix @returns {number[][] | null} */
function rowsOf(matrix) {
    if (!Array.isArray(matrix)) return null;
    const numbers = matrix.flat();
    const fits = (numbers.length === 16 || numbers.length === 12) && numbers.every((x) => Number.isFinite(x));
    return fits ? [0, 4, 8].map((k) => numbers.slice(k, k + 4)) : null;
}

/** @param {any} frame @param {any} file @param {[number, number]} picture @returns {Lens | null} */
function lensOf(frame, file, picture) {
    const number = (/** @type {unknown} */ x) => (typeof x === "number" && Number.isFinite(x) ? x : null);
    const either = (/** @type {string} */ key) => number(frame[key]) ?? number(file[key]);
    const [w, h] = [either("w"), either("h")];
    let scale = [1, 1];
    if (w && h) scale = [picture[0] / w, picture[1] / h];
    else if (w) scale = [picture[0] / w, picture[0] / w];
    else if (h) scale = [picture[1] / h, picture[1] / h];
    const focal = (/** @type {any} */ level, /** @type {0 | 1} */ axis) => {
        const length = number(level[axis ? "fl_y" : "fl_x"]);
        if (length) return length * scale[axis];
        const angle = number(level[axis ? "camera_angle_y" : "camera_angle_x"]);
        return angle ? picture[axis] / 2 / Math.tan(angle / 2) : null;
    };
    const level = [frame, file].find((level) => focal(level, 0) || focal(level, 1));
    if (!level) return null;
    // One axis alone means square pixels.
    const [x, y] = [focal(level, 0), focal(level, 1)];
    const fx = x ?? (Number(y) * scale[0]) / scale[1];
    const fy = y ?? (Number(x) * scale[1]) / scale[0];
    const centre = (/** @type {string} */ key, /** @type {0 | 1} */ axis) => {
        const value = either(key);
        return value === null ? picture[axis] / 2 : value * scale[axis];
    };
    return { fx, fy, cx: centre("cx", 0), cy: centre("cy", 1) };
}
