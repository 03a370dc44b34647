// A safetensors file of mesh and views → its header, and single views of it: pose, lens, pixels. The file itself is never read
// as a whole. Names, shapes and axes are those of baker/src/prepare/arrays.rs.

import { fromOpenCv, poseOf } from "./camera.js";

/** @typedef {import("./camera.js").Lens} Lens */
/** @typedef {{dtype: string, shape: number[], data_offsets: [number, number]}} Tensor */
/** @typedef {{tensors: Record<string, Tensor>, normalized: boolean, start: number}} Header */

/** A longer header is none of ours. */
const LONGEST_HEADER = 1 << 20;
const BYTES = /** @type {Record<string, number>} */ ({ U8: 1, BOOL: 1, F32: 4, F64: 8, I32: 4, U32: 4, I64: 8 });

/** @param {Blob} file @returns {Promise<Header | null>} none where it is no such file */
export async function readHeader(file) {
    const head = new DataView(await file.slice(0, 8).arrayBuffer());
    if (head.byteLength < 8) return null;
    const length = Number(head.getBigUint64(0, true));
    if (length < 2 || length > LONGEST_HEADER || 8 + length > file.size) return null;
    try {
        const { __metadata__: metadata, ...tensors } = JSON.parse(await file.slice(8, 8 + length).text());
        return { tensors, normalized: metadata?.intrinsics === "normalized", start: 8 + length };
    } catch {
        return null;
    }
}

/** What the file lacks to bring a mesh, or views. @param {Header} header @param {"mesh" | "views"} what @returns {string[]} */
export function lacks({ tensors }, what) {
    const needed = what === "mesh" ? ["vertices", "faces"] : ["observations", "extrinsics", "intrinsics"];
    return needed.filter((name) => !tensors[name]);
}

/** @param {Header} header @returns {number} */
export function viewsIn({ tensors }) {
    return tensors.observations?.shape[0] ?? 0;
}

/** Bytes of the part `index` of a tensor. @param {Blob} file @param {Header} header @param {Tensor} tensor @param {number} index */
async function part(file, header, tensor, index) {
    const size = tensor.shape.slice(1).reduce((product, x) => product * x, BYTES[tensor.dtype]);
    const from = header.start + tensor.data_offsets[0] + index * size;
    return file.slice(from, from + size).arrayBuffer();
}

/** @param {Tensor} tensor @param {ArrayBuffer} bytes @returns {ArrayLike<number>} */
function numbers(tensor, bytes) {
    if (tensor.dtype === "F64") return new Float64Array(bytes);
    return tensor.dtype === "F32" ? new Float32Array(bytes) : new Uint8Array(bytes);
}

/**
 * @param {Blob} file @param {Header} header @param {number} index
 * @returns {Promise<{pose: number[] | null, lens: Lens}>}
 */
export async function cameraOf(file, header, index) {
    const { extrinsics, intrinsics, observations } = header.tensors;
    const e = Array.from(numbers(extrinsics, await part(file, header, extrinsics, index)));
    const k = Array.from(numbers(intrinsics, await part(file, header, intrinsics, index)));
    const [, height, width] = observations.shape;
    const [sx, sy] = header.normalized ? [width, height] : [1, 1];
    const pose = poseOf(fromOpenCv([0, 4, 8].map((r) => e.slice(r, r + 4))));
    return {
        pose: "pose" in pose ? pose.pose : null,
        lens: { fx: k[0] * sx, fy: k[4] * sy, cx: k[2] * sx, cy: k[5] * sy },
    };
}

/**
 * Pixels of a view, row 0 on top, with the mask as alpha.
 * @param {Blob} file @param {Header} header @param {number} index
 * @returns {Promise<{width: number, height: number, rgba: Uint8ClampedArray}>}
 */
export async function pixelsOf(file, header, index) {
    const { observations, masks } = header.tensors;
    const [, height, width] = observations.shape;
    const colours = numbers(observations, await part(file, header, observations, index));
    const alpha = masks && numbers(masks, await part(file, header, masks, index));
    const scale = observations.dtype === "F32" ? 255 : 1;
    // A mask of bytes is made of zeros and ones unless something in it is larger.
    const ones = alpha && (masks.dtype !== "U8" || !Array.prototype.some.call(alpha, (x) => x > 1));
    const rgba = new Uint8ClampedArray(4 * width * height);
    for (let k = 0; k < width * height; k++) {
        for (let c = 0; c < 3; c++) rgba[4 * k + c] = colours[3 * k + c] * scale;
        rgba[4 * k + 3] = alpha ? alpha[k] * (ones ? 255 : 1) : 255;
    }
    return { width, height, rgba };
}
