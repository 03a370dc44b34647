// The textures and maps of a result, flat: as they lie in the file, the pages of several side by side.

import { decompress } from "three/addons/utils/WebGLTextureUtils.js";
import { h } from "./dom.js";

/** A picture here is looked at; more texels than this along an edge are drawn smaller. */
const LARGEST = 4096;

/** @param {import("./model.js").Model} model @returns {HTMLElement[]} a figure for each kind of picture */
export function flatTextures(model) {
    return model.textures.map(({ title, tiles }) => {
        const { width, height } = tiles[0].texture.image;
        const scale = Math.min(1, LARGEST / (model.side * width));
        const [w, t] = [Math.round(width * scale), Math.round(height * scale)];
        const canvas = h("canvas", { role: "img", "aria-label": title, width: w * model.side, height: t * model.side });
        const context = canvas.getContext("2d");
        for (const { texture, place } of tiles) context?.drawImage(pictureOf(texture), place[0] * w, place[1] * t, w, t);
        const pages = model.side > 1 ? `${model.side ** 2} pages of ` : "";
        return h("figure", null, canvas, h("figcaption", null, `${title}, ${pages}${width} × ${height}`));
    });
}

/** What a canvas can draw. @param {any} texture @returns {CanvasImageSource} */
function pictureOf(texture) {
    if (!texture.isCompressedTexture) return texture.image;
    // Drawn by the device, which has the first row at the bottom.
    const { image } = decompress(texture);
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context?.scale(1, -1);
    context?.drawImage(image, 0, -image.height);
    return canvas;
}
