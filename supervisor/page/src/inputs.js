// What a job was made from → its views: a name, a camera, a picture each. From the files that were dropped in this page, or else
// from the sidecar, which keeps what was sent to it.

import { cameraOf, pixelsOf, readHeader, viewsIn } from "./arrays.js";
import { call } from "./api.js";
import { yUp } from "./camera.js";
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
        const { frames, pictures } = found.views;
        dropped.set(id, ofFrames(frames, async (index) => pictures[index]));
    }
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
    // Splats have no cameras of their own.
    if (!source?.files || !source.main.endsWith(".json")) return null;
    const blob = await fetched(source.files[source.main]);
    if (!blob) return null;
    const read = parseTransforms(await blob.text());
    if (!("frames" in read)) return null;
    const beside = source.main.slice(0, source.main.lastIndexOf("/") + 1);
    return ofFrames(read.frames, async (_, frame) => {
        const names = ENDINGS.map((end) => beside + plain(frame.file + end));
        const name = names.find((name) => source.files[name]);
        return name ? fetched(source.files[name]) : null;
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
