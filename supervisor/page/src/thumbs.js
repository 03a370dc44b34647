// Pictures → small ones, drawn only where they are looked at, and two at a time.

import { h } from "./dom.js";

/** @type {(() => Promise<void>)[]} */
const waiting = [];
let busy = 0;

function next() {
    while (busy < 2) {
        const work = waiting.shift();
        if (!work) return;
        busy += 1;
        work().finally(() => {
            busy -= 1;
            next();
        });
    }
}

const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        seen.unobserve(entry.target);
        const work = work_of.get(entry.target);
        if (work) waiting.push(work);
    }
    next();
});

/** @type {WeakMap<Element, () => Promise<void>>} */
const work_of = new WeakMap();

/**
 * A canvas that shows the picture once it is in sight; beside the words that name it, it is decoration.
 * @param {() => Promise<Blob>} picture @param {number} edge @returns {HTMLCanvasElement}
 */
export function thumb(picture, edge) {
    const canvas = h("canvas", { class: "thumb", width: edge, height: edge, "aria-hidden": "true" });
    work_of.set(canvas, async () => {
        try {
            const image = await createImageBitmap(await picture());
            const scale = (edge / Math.max(image.width, image.height)) * Math.min(2, devicePixelRatio);
            canvas.width = Math.max(1, Math.round(image.width * scale));
            canvas.height = Math.max(1, Math.round(image.height * scale));
            const context = canvas.getContext("2d");
            if (context) context.imageSmoothingQuality = "high";
            context?.drawImage(image, 0, 0, canvas.width, canvas.height);
            image.close();
        } catch {
            canvas.classList.add("broken");
        }
    });
    seen.observe(canvas);
    return canvas;
}
