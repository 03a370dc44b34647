// What a job was made from → its views: a name, a camera, a picture each. From the files that were dropped in this page, or else
// from the sidecar, which keeps what was sent to it.

import { cameraOf, pixelsOf, readHeader, viewsIn } from "./arrays.js";
import { call } from "./api.js";
import { yUp } from "./camera.js";
import { companion, parseModel } from "./colmap.js";
import { ENDINGS, parseTransforms, plain } from "./transforms.js";

/** @typedef {import("./camera.js").Lens} Lens */
/** @typedef {{pose: number[], lens: Lens, size: [number, number]}} Camera */
/**
 * @typedef {object} View
 * @property {number} index its number in the file, as the report counts
 * @property {string} name
 * @property {boolean} heldOut by the file itself
 * @property {() => Promise<Blob>} picture
 * @property {(size: [number, number]) => Promise<Camera | null>} camera for a picture of that size
 */

/** Arrays beyond this are not fetched only to be looked at. */
const LARGEST_ARRAYS = 256 << 20;

/** Views of jobs that were submitted from this page, by job. @type {Map<string, View[]>} */
const dropped = new Map();

/** @param {string} id @param {import("./recognise.js").Found} found */
export function remember(id, found) {
    if (found.arrays) dropped.set(id, ofArrays(found.arrays.blob, found.arrays.header));
    else if (found.views) {
        const { frames, pictures, arrays, files, main } = found.views;
        if (arrays) dropped.set(id, ofArrays(/** @type {Blob} */ (files.get(main)), arrays));
        else if (frames.length > 0) dropped.set(id, ofFrames(frames, async (index) => pictures[index]));
    }
}

/** A job of the same files as another. @param {string} from @param {string} to */
export function rememberAs(from, to) {
    const views = dropped.get(from);
    if (views) dropped.set(to, views);
}

/** In the axes of the job's result. @param {any} job @returns {Promise<View[] | null>} none where they cannot be had here */
export async function viewsOf(job) {
    const views = dropped.get(job.id) ?? (await keptOf(job));
    const up = job.spec?.up ?? "y";
    return up !== "y" && views ? views.map((view) => turned(view, up)) : views;
}

/** With the world's up turned to y. @param {View} view @param {"z" | "-y"} up @returns {View} */
function turned(view, up) {
    return {
        ...view,
        camera: async (size) => {
            const camera = await view.camera(size);
            return camera && { ...camera, pose: yUp(camera.pose, up) };
        },
    };
}

/** @param {any} job @returns {Promise<View[] | null>} from the sidecar */
async function keptOf(job) {
    const source = job.spec?.views;
    if (job.spec?.arrays) return arraysOf(job.spec.arrays);
    // Splats have no cameras of their own, and files of the sidecar's machine are not given to browsers.
    if (!source?.files) return null;
    const { files, main } = source;
    if (main.endsWith(".safetensors")) return arraysOf(files[main]);
    const cameras = companion(main.slice(main.lastIndexOf("/") + 1));
    if (!cameras && !main.endsWith(".json")) return null;
    const beside = main.slice(0, main.lastIndexOf("/") + 1);
    const [list, lenses] = await Promise.all([fetched(files[main]), cameras && fetched(files[beside + cameras])]);
    if (!list) return null;
    const read = cameras ? { frames: lenses ? await parseModel(list, lenses, main.endsWith(".txt")) : [] } : parseTransforms(await list.text());
    if (!("frames" in read) || read.frames.length === 0) return null;
    return ofFrames(read.frames, async (_, frame) => {
        const names = ENDINGS.map((end) => `${beside}${cameras ? "images/" : ""}${plain(frame.file + end)}`);
        const name = names.find((name) => files[name]);
        return name ? fetched(files[name]) : null;
    });
}

/** @param {string} digest @returns {Promise<Blob | null>} */
async function fetched(digest) {
    const response = await call(`/v1/blobs/${digest}`, { accept: [404, 405] });
    return response.ok ? response.blob() : null;
}

/** @param {string} digest */
async function arraysOf(digest) {
    const head = await call(`/v1/blobs/${digest}`, { method: "HEAD", accept: [404] });
    if (!head.ok || Number(head.headers.get("content-length") ?? 0) > LARGEST_ARRAYS) return null;
    const blob = await fetched(digest);
    const header = blob && (await readHeader(blob));
    return blob && header ? ofArrays(blob, header) : null;
}

/**
 * @param {import("./transforms.js").Frame[]} frames
 * @param {(index: number, frame: import("./transforms.js").Frame) => Promise<Blob | null>} picture
 * @returns {View[]}
 */
function ofFrames(frames, picture) {
    return frames.map((frame, index) => ({
        index,
        name: frame.file,
        heldOut: frame.heldOut,
        picture: async () => {
            const blob = await picture(index, frame);
            if (!blob) throw new Error(`${frame.file} is not kept by the sidecar any more`);
            return blob;
        },
        camera: async (size) => {
            const lens = frame.lens(size);
            return frame.pose && lens ? { pose: frame.pose, lens, size } : null;
        },
    }));
}

/** @param {Blob} blob @param {import("./arrays.js").Header} header @returns {View[]} */
function ofArrays(blob, header) {
    return Array.from({ length: viewsIn(header) }, (_, index) => ({
        index,
        name: `view ${index}`,
        heldOut: false,
        picture: async () => {
            const { width, height, rgba } = await pixelsOf(blob, header, index);
            const canvas = new OffscreenCanvas(width, height);
            const pixels = new ImageData(/** @type {any} */ (rgba), width, height);
            canvas.getContext("2d")?.putImageData(pixels, 0, 0);
            return canvas.convertToBlob();
        },
        camera: async (size) => {
            const { pose, lens } = await cameraOf(blob, header, index);
            return pose ? { pose, lens, size } : null;
        },
    }));
}
