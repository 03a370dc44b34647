// Numbers of a pose and a lens → the matrices with which a 3D view draws the same pixels as the picture.
//
// Poses here are camera to world with OpenGL axes (x right, y up, looking along −z), column by column, as three.js has them.
// Image coordinates run over the areas of pixels, from 0 to the width and the height, rows downwards.

/** @typedef {{fx: number, fy: number, cx: number, cy: number}} Lens In pixels of the picture. */
/** @typedef {{x: number, y: number, width: number, height: number}} Rect */

/** Farthest that an entry of a rotation may be off: files that keep three decimals are off by 0.001. */
const ROUNDING = 5e-3;

/**
 * Three rows of four numbers, camera to world → the pose without the scale that some programs leave in it, and without their
 * rounding (polar decomposition by Newton's iteration).
 * @param {number[][]} rows @returns {{pose: number[]} | {error: string}}
 */
export function poseOf(rows) {
    let m = rows.map((row) => row.slice(0, 3));
    const det = determinant(m);
    const size = Math.max(...m.flat().map(Math.abs));
    if (!Number.isFinite(det) || Math.abs(det) <= 1e-9 * size ** 3) return { error: "is singular" };
    if (det < 0) return { error: "is mirrored" };
    const unit = m.map((row) => row.map((x) => x / Math.cbrt(det)));
    m = unit;
    for (let k = 0; k < 16; k++) {
        const d = determinant(m);
        const now = m;
        m = now.map((row, r) => row.map((x, c) => (x + cofactor(now, r, c) / d) / 2));
    }
    const off = Math.max(...m.flatMap((row, r) => row.map((x, c) => Math.abs(x - unit[r][c]))));
    if (!(off <= ROUNDING)) return { error: "is sheared or stretched" };
    const column = (/** @type {number} */ c) => [m[0][c], m[1][c], m[2][c], 0];
    return { pose: [...column(0), ...column(1), ...column(2), rows[0][3], rows[1][3], rows[2][3], 1] };
}

/**
 * Rows of a matrix world to camera with OpenCV axes (y down, looking along z) → rows of one camera to world with OpenGL axes.
 * @param {number[][]} rows
 */
export function fromOpenCv(rows) {
    const scale = Math.cbrt(determinant(rows.map((row) => row.slice(0, 3))));
    const sign = [1, -1, -1];
    return [0, 1, 2].map((r) => {
        const axis = [0, 1, 2].map((c) => (sign[c] * rows[c][r]) / scale);
        const origin = -[0, 1, 2].reduce((sum, k) => sum + (rows[k][r] / scale) * (rows[k][3] / scale), 0);
        return [...axis, origin];
    });
}

/**
 * The projection for a canvas on which the picture would lie at `rect`, both in the same units; column by column.
 * @param {Lens} lens @param {[number, number]} picture width and height in pixels
 * @param {Rect} rect @param {[number, number]} canvas width and height
 * @param {number} near @param {number} far @returns {number[]}
 */
export function projection(lens, picture, rect, canvas, near, far) {
    const [sx, sy] = [rect.width / picture[0], rect.height / picture[1]];
    const [fx, fy] = [lens.fx * sx, lens.fy * sy];
    const [cx, cy] = [rect.x + lens.cx * sx, rect.y + lens.cy * sy];
    const [w, h] = canvas;
    return [
        (2 * fx) / w, 0, 0, 0,
        0, (2 * fy) / h, 0, 0,
        1 - (2 * cx) / w, (2 * cy) / h - 1, -(far + near) / (far - near), -1,
        0, 0, (-2 * far * near) / (far - near), 0,
    ]; // prettier-ignore
}

/**
 * The largest place for a picture on a canvas, zoomed and moved.
 * @param {[number, number]} picture @param {[number, number]} canvas
 * @param {{zoom: number, x: number, y: number}} [look] x and y in shares of the canvas @returns {Rect}
 */
export function place(picture, canvas, look = { zoom: 1, x: 0, y: 0 }) {
    const scale = Math.min(canvas[0] / picture[0], canvas[1] / picture[1]) * look.zoom;
    const [width, height] = [picture[0] * scale, picture[1] * scale];
    return {
        x: (canvas[0] - width) / 2 + look.x * canvas[0],
        y: (canvas[1] - height) / 2 + look.y * canvas[1],
        width,
        height,
    };
}

/**
 * A pose in a world whose z or −y points up → the same in that world turned to y up, as the job turns it.
 * @param {number[]} pose @param {"z" | "-y"} up
 */
export function yUp(pose, up) {
    return [0, 4, 8, 12].flatMap((k) => {
        const [x, y, z, w] = pose.slice(k, k + 4);
        return up === "z" ? [x, z, -y, w] : [x, -y, -z, w];
    });
}

/**
 * Which way is up for most cameras: along an axis where that is close.
 * @param {number[][]} poses @returns {[number, number, number]}
 */
export function upOf(poses) {
    const sum = [0, 1, 2].map((r) => poses.reduce((total, pose) => total + pose[4 + r], 0));
    const length = Math.hypot(...sum);
    if (!(length > 0.2 * poses.length)) return [0, 1, 0];
    const largest = sum.reduce((best, x, k) => (Math.abs(x) > Math.abs(sum[best]) ? k : best), 0);
    if (Math.abs(sum[largest]) < 0.8 * length) return [sum[0] / length, sum[1] / length, sum[2] / length];
    return /** @type {[number, number, number]} */ ([0, 1, 2].map((k) => (k === largest ? Math.sign(sum[k]) : 0)));
}

/** @param {number[][]} m */
function determinant(m) {
    return [0, 1, 2].reduce((sum, c) => sum + m[0][c] * cofactor(m, 0, c), 0);
}

/** @param {number[][]} m @param {number} r @param {number} c */
function cofactor(m, r, c) {
    const [r1, r2, c1, c2] = [(r + 1) % 3, (r + 2) % 3, (c + 1) % 3, (c + 2) % 3];
    return m[r1][c1] * m[r2][c2] - m[r1][c2] * m[r2][c1];
}
