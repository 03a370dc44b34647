// A sparse model of COLMAP, its `images` and `cameras` in binary or in text → views: a file each, its pose, its lens for a picture of
// some size. The same reading as baker/src/prepare/colmap; what Kiln refuses, it refuses with its own words when the job runs.
//
// Distortion is left out, as in transforms.js: the comparison is off by it. A lens that is resampled has none here.

import { fromOpenCv, poseOf } from "./camera.js";

/** @typedef {import("./transforms.js").Frame} Frame */
/** @typedef {{width: number, height: number, model: number, params: number[]}} Camera */
/** @typedef {{name: string, camera: number, pose: number[]}} Image pose: a quaternion w x y z and a translation, world to camera */

/** Models in the order of their numbers: how many parameters each has, and whether the first two are focal lengths. */
const MODELS = /** @type {[string, number, boolean, boolean?][]} */ ([
    ["SIMPLE_PINHOLE", 3, false], ["PINHOLE", 4, true], ["SIMPLE_RADIAL", 4, false], ["RADIAL", 5, false], ["OPENCV", 8, true],
    ["OPENCV_FISHEYE", 8, true, true], ["FULL_OPENCV", 12, true], ["FOV", 5, true, true], ["SIMPLE_RADIAL_FISHEYE", 4, false, true],
    ["RADIAL_FISHEYE", 5, false, true], ["THIN_PRISM_FISHEYE", 12, true, true], ["RAD_TAN_THIN_PRISM_FISHEYE", 16, true, true],
    ["SIMPLE_DIVISION", 4, false, true], ["DIVISION", 5, true, true], ["SIMPLE_FISHEYE", 3, false, true], ["FISHEYE", 4, true, true],
    ["EUCM", 6, true, true], ["EQUIRECTANGULAR", 2, false, true],
]); // prettier-ignore

/** The file of cameras that belongs to a list of images, if it is one. @param {string} name */
export function companion(name) {
    const ending = /^images\.(bin|txt)$/.exec(name)?.[1];
    return ending ? `cameras.${ending}` : null;
}

/** @param {Blob} images @param {Blob} cameras @param {boolean} text @returns {Promise<Frame[]>} none where it cannot be read */
export async function parseModel(images, cameras, text) {
    try {
        const known = text ? camerasOfText(await cameras.text()) : camerasOf(new DataView(await cameras.arrayBuffer()));
        const list = text ? imagesOfText(await images.text()) : imagesOf(new DataView(await images.arrayBuffer()));
        return list.map(({ name, camera, pose }) => {
            const made = poseOf(fromOpenCv(rowsOf(pose)));
            return { file: name, beside: [], heldOut: false, pose: "pose" in made ? made.pose : null, lens: (picture) => lensOf(known.get(camera), picture) };
        });
    } catch {
        // Too short, or none at all.
        return [];
    }
}

/** Rotation and translation of a quaternion w x y z and a vector. @param {number[]} pose */
function rowsOf([w, x, y, z, ...t]) {
    const n = 2 / (w * w + x * x + y * y + z * z);
    return [
        [1 - n * (y * y + z * z), n * (x * y - w * z), n * (x * z + w * y), t[0]],
        [n * (x * y + w * z), 1 - n * (x * x + z * z), n * (y * z - w * x), t[1]],
        [n * (x * z - w * y), n * (y * z + w * x), 1 - n * (x * x + y * y), t[2]],
    ];
}

/** @param {Camera | undefined} camera @param {[number, number]} picture */
function lensOf(camera, picture) {
    const [, , both, fisheye] = MODELS[camera?.model ?? -1] ?? [];
    if (!camera || both === undefined || fisheye) return null;
    const [sx, sy] = [picture[0] / camera.width, picture[1] / camera.height];
    const [fx, fy, cx, cy] = both ? camera.params : [camera.params[0], ...camera.params];
    return { fx: fx * sx, fy: fy * sy, cx: cx * sx, cy: cy * sy };
}

/** Reads on through bytes. @param {DataView} view */
function reader(view) {
    let at = 0;
    const next = (/** @type {"getUint32" | "getInt32" | "getFloat64"} */ read, /** @type {number} */ size) => {
        at += size;
        return view[read](at - size, true);
    };
    return {
        u32: () => next("getUint32", 4),
        i32: () => next("getInt32", 4),
        f64: (/** @type {number} */ count) => Array.from({ length: count }, () => next("getFloat64", 8)),
        u64: () => {
            at += 8;
            return Number(view.getBigUint64(at - 8, true));
        },
        text: () => {
            const from = at;
            while (view.getUint8(at) !== 0) at += 1;
            at += 1;
            return new TextDecoder().decode(new Uint8Array(view.buffer, from, at - 1 - from));
        },
        skip: (/** @type {number} */ bytes) => (at += bytes),
    };
}

/** @param {DataView} view */
function camerasOf(view) {
    const read = reader(view);
    /** @type {Map<number, Camera>} */
    const cameras = new Map();
    for (let left = read.u64(); left > 0; left--) {
        const [id, model, width, height] = [read.u32(), read.i32(), read.u64(), read.u64()];
        cameras.set(id, { model, width, height, params: read.f64(MODELS[model][1]) });
    }
    return cameras;
}

/** @param {DataView} view @returns {Image[]} */
function imagesOf(view) {
    const read = reader(view);
    const images = [];
    for (let left = read.u64(); left > 0; left--) {
        read.u32();
        const [pose, camera, name] = [read.f64(7), read.u32(), read.text()];
        read.skip(24 * read.u64());
        images.push({ name, camera, pose });
    }
    return images;
}

/** @param {string} text */
function camerasOfText(text) {
    /** @type {Map<number, Camera>} */
    const cameras = new Map();
    for (const line of text.split("\n").map((line) => line.trim())) {
        if (line === "" || line.startsWith("#")) continue;
        const [id, model, width, height, ...params] = line.split(/\s+/);
        cameras.set(Number(id), { model: MODELS.findIndex(([name]) => name === model), width: Number(width), height: Number(height), params: params.map(Number) });
    }
    return cameras;
}

/** A line of an image, then one of its points, which may be empty. @param {string} text @returns {Image[]} */
function imagesOfText(text) {
    const images = [];
    const lines = text.split("\n").map((line) => line.trim());
    for (let at = 0; at < lines.length; at++) {
        if (lines[at] === "" || lines[at].startsWith("#")) continue;
        const [, pose, camera, name] = /^\S+\s+((?:\S+\s+){7})(\S+)\s+(.+)$/.exec(lines[at]) ?? [];
        if (!name) break;
        images.push({ pose: pose.trim().split(/\s+/).map(Number), camera: Number(camera), name });
        at += 1;
    }
    return images;
}
