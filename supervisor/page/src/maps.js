// Maps of a texture, as baker/src/encode/maps.rs draws them: what their colours mean, as a legend and texel by texel.
//
// A map is an indexed PNG. Code 0 lies outside every chart; 1 is where nothing is known; from 2 on codes tell how much.

import { h, say } from "./dom.js";

/** stops: of the ramp, if the map has one. @typedef {{title: string, nothing: string, swatches: [string, string][], stops: string, ticks: [number, string][], value: (code: number) => string}} Map */

const OUTSIDE = "rgb(60 60 66)";

/** @type {Record<string, Map>} */
export const MAPS = {
    coverage: {
        title: "Coverage",
        nothing: "seen by no view, filled in",
        swatches: [["rgb(255 0 200)", "filled in"], ["linear-gradient(90deg, rgb(150 90 0), rgb(240 190 40))", "less than a pixel"], [OUTSIDE, "no chart"]],
        stops: "rgb(0 62 110), rgb(0 122 135) 17%, rgb(60 180 140) 34%, rgb(130 215 170) 51%, rgb(240 255 240)",
        ticks: [[0, "1 pixel"], [34, "16"], [68, "256"], [100, "3,700"]],
        value: (code) => {
            const pixels = Number((2 ** ((code - 66) / 16)).toPrecision(2));
            return `seen by ${pixels.toLocaleString("en")} ${pixels === 1 ? "pixel" : "pixels"}`;
        },
    },
    residual: {
        title: "Residual",
        nothing: "no pixel counts there",
        swatches: [["rgb(120 190 220)", "unknown"], [OUTSIDE, "no chart"]],
        stops: "rgb(0 0 4), rgb(66 10 104) 20%, rgb(147 38 103) 40%, rgb(221 81 58) 60%, rgb(252 165 10) 80%, rgb(252 255 164)",
        ticks: [[0, "0"], [25, "4"], [50, "16"], [100, "64 of 255"]],
        value: (code) => `${(255 * ((code - 2) / 506) ** 2).toFixed(1)} of 255 apart`,
    },
    provenance: {
        title: "Provenance",
        nothing: "filled in from the surface around it",
        swatches: [["rgb(0 158 115)", "observed"], ["rgb(240 200 60)", "less than a pixel in all views"], ["rgb(204 90 140)", "filled in"], [OUTSIDE, "no chart"]],
        stops: "",
        ticks: [],
        value: (code) => (code === 2 ? "less than a pixel in all views" : "observed by a pixel or more"),
    },
}; // prettier-ignore

/** @param {string} name */
export function legend(name) {
    const { stops, swatches, ticks } = MAPS[name];
    const box = (/** @type {string} */ colour, /** @type {string} */ kind) => {
        const element = h("span", { class: kind });
        element.style.background = colour;
        return element;
    };
    const marks = ticks.map(([at, text]) => {
        const mark = h("span", { class: at === 0 ? "first" : at === 100 ? "last" : "" }, text);
        mark.style.left = `${at}%`;
        return mark;
    });
    return h("span", { class: "legend" },
        stops !== "" && h("span", { class: "ramp" }, box(`linear-gradient(90deg, ${stops})`, "colours"), h("span", { class: "marks" }, marks)),
        swatches.map(([colour, text]) => h("span", { class: "swatch" }, box(colour, "colour"), text))); // prettier-ignore
}

/** What a code of a map says. @param {string} name @param {number} code */
export function meaning(name, code) {
    if (code === 0) return "outside every chart";
    return code === 1 ? MAPS[name].nothing : MAPS[name].value(code);
}

/** Codes by colour (red · 65536 + green · 256 + blue) of an indexed PNG. @param {ArrayBuffer} png @returns {globalThis.Map<number, number>} */
export function paletteOf(png) {
    const view = new DataView(png);
    const codes = new globalThis.Map();
    for (let at = 8; at + 12 <= view.byteLength; at += 12 + view.getUint32(at)) {
        if (view.getUint32(at + 4) !== 0x504c5445) continue; // PLTE
        for (let k = 0; 3 * k < view.getUint32(at); k++) {
            const [r, g, b] = [0, 1, 2].map((c) => view.getUint8(at + 8 + 3 * k + c));
            const colour = (r << 16) | (g << 8) | b;
            if (!codes.has(colour)) codes.set(colour, k);
        }
    }
    return codes;
}

/** A map flat, which says what is beneath the pointer. @param {string} name @param {Blob} picture @returns {Promise<HTMLElement>} */
export async function flatMap(name, picture) {
    const { title } = MAPS[name];
    const image = await createImageBitmap(picture, { premultiplyAlpha: "none", colorSpaceConversion: "none" });
    const canvas = h("canvas", { role: "img", "aria-label": `The ${name} map`, width: image.width, height: image.height });
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context?.drawImage(image, 0, 0);
    const codes = paletteOf(await picture.arrayBuffer());
    const told = h("span", { class: "told" });
    canvas.addEventListener("pointermove", (event) => {
        const box = canvas.getBoundingClientRect();
        const x = Math.floor(((event.clientX - box.left) / box.width) * image.width);
        const y = Math.floor(((event.clientY - box.top) / box.height) * image.height);
        const [r, g, b] = context?.getImageData(x, y, 1, 1).data ?? [0, 0, 0];
        const code = codes.get((r << 16) | (g << 8) | b);
        say(told, code === undefined ? "" : ` at ${x}, ${y}: ${meaning(name, code)}`);
    });
    canvas.addEventListener("pointerleave", () => say(told, ""));
    return h("figure", null, canvas, h("figcaption", null, title, told, legend(name)));
}
