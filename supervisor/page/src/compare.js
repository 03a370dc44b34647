// A picture and the result from the same camera → both on one stage: a wipe, side by side, the one in place of the other while
// a key is held, or what differs.

import { fill, h } from "./dom.js";

/** @typedef {"wipe" | "side" | "blink" | "difference"} Mode */

const MODES = /** @type {const} */ ([
    ["wipe", "Wipe", "The picture on the left of the line, the result on the right"],
    ["side", "Side by side", "The picture beside the result"],
    ["blink", "Blink", "The result; the picture while you hold B or press here"],
    ["difference", "Difference ×8", "How far they are apart, eight times as bright"],
]);

/** What a hand or a key does on the stage. */
export class Compare {
    /** @type {import("./view3d.js").View3D | null} */
    #view = null;
    /** @type {Mode} */
    mode = "wipe";
    #shown = false;
    /** @type {string | null} */
    #url = null;

    constructor() {
        this.canvas = h("canvas", {
            tabindex: 0,
            role: "application",
            "aria-roledescription": "3D view",
            "aria-label": "The result",
            "aria-describedby": "stage-keys",
        });
        this.image = h("img", { alt: "", draggable: "false" });
        this.line = h("div", { class: "line", "aria-hidden": "true" });
        this.stage = h(
            "div",
            { class: "stage", "data-mode": "free" },
            h("div", { class: "pane picture" }, this.image),
            h("div", { class: "pane render" }, this.canvas),
            this.line,
        );
        this.range = h("input", { type: "range", min: 0, max: 100, step: 0.5, "aria-label": "Where the wipe is" });
        this.range.value = "50";
        this.range.addEventListener("input", () => this.#wipe());
        const radios = MODES.map(([mode, label, title]) =>
            h("label", { class: "chip", title }, h("input", {
                type: "radio", name: "compare", value: mode, checked: mode === "wipe", onchange: () => this.setMode(mode),
            }), label)); // prettier-ignore
        const hold = h("button", { type: "button", title: "Hold: the picture" }, "Hold to see the picture");
        hold.addEventListener("pointerdown", () => this.blink(true));
        for (const end of ["pointerup", "pointerleave", "pointercancel", "blur"]) hold.addEventListener(end, () => this.blink(false));
        hold.addEventListener("keydown", (event) => (event.key === " " || event.key === "Enter") && this.blink(true));
        hold.addEventListener("keyup", () => this.blink(false));
        this.hold = hold;
        this.bar = h("fieldset", { class: "chips compare", hidden: true }, h("legend", { class: "unseen" }, "Compare"), radios, this.range, hold);
        this.#hands();
        this.#wipe();
    }

    /** @param {import("./view3d.js").View3D} view */
    attach(view) {
        this.#view = view;
        view.onplace = (rect) => rect && this.#placed(rect);
    }

    /** Shows the result as a picture saw it, with the picture. @param {import("./inputs.js").View} input @returns {Promise<string | null>} what is in the way */
    async show(input) {
        const url = URL.createObjectURL(await input.picture());
        const probe = new Image();
        probe.src = url;
        try {
            await probe.decode();
        } catch {
            URL.revokeObjectURL(url);
            return `${input.name} is no picture that this browser can show`;
        }
        const camera = await input.camera([probe.naturalWidth, probe.naturalHeight]);
        if (!camera) {
            URL.revokeObjectURL(url);
            return `${input.name} has no camera that this page understands`;
        }
        if (this.#url) URL.revokeObjectURL(this.#url);
        this.#url = url;
        this.image.src = url;
        this.image.alt = `The input picture ${input.name}`;
        this.#shown = true;
        this.setMode(this.mode);
        this.#view?.show(camera);
        return null;
    }

    /** Free again. */
    leave() {
        if (!this.#shown) return;
        this.#shown = false;
        this.setMode(this.mode);
        this.#view?.leave();
    }

    get isShown() {
        return this.#shown;
    }

    /** @param {Mode} mode */
    setMode(mode) {
        this.mode = mode;
        this.stage.dataset.mode = this.#shown ? mode : "free";
        this.bar.hidden = !this.#shown;
        this.range.hidden = mode !== "wipe";
        this.hold.hidden = mode !== "blink";
        this.blink(false);
        this.#wipe();
    }

    /** The picture in place of the result. @param {boolean} on */
    blink(on) {
        this.stage.classList.toggle("blinks", on && this.#shown);
    }

    #wipe() {
        this.stage.style.setProperty("--wipe", `${this.range.value}%`);
    }

    /** @param {import("./camera.js").Rect} rect */
    #placed(rect) {
        const { style } = this.image;
        [style.left, style.top] = [`${rect.x}px`, `${rect.y}px`];
        [style.width, style.height] = [`${rect.width}px`, `${rect.height}px`];
        const magnified = rect.width * devicePixelRatio > 2 * this.image.naturalWidth;
        this.image.classList.toggle("pixels", magnified);
    }

    /** While a view is shown, hands move and magnify both; on the line, they move the line. */
    #hands() {
        /** @type {{x: number, y: number, line: boolean} | null} */
        let held = null;
        const box = () => this.canvas.getBoundingClientRect();
        this.stage.addEventListener("pointerdown", (event) => {
            if (!this.#shown || event.button !== 0) return;
            const all = this.stage.getBoundingClientRect();
            const line = all.left + (all.width * Number(this.range.value)) / 100;
            held = { x: event.clientX, y: event.clientY, line: this.mode === "wipe" && Math.abs(event.clientX - line) < 16 };
            this.stage.setPointerCapture(event.pointerId);
        });
        this.stage.addEventListener("pointermove", (event) => {
            if (!held) return;
            const all = this.stage.getBoundingClientRect();
            if (held.line) {
                this.range.value = String(((event.clientX - all.left) / all.width) * 100);
                this.#wipe();
            } else {
                this.#view?.move((event.clientX - held.x) / box().width, (event.clientY - held.y) / box().height);
            }
            [held.x, held.y] = [event.clientX, event.clientY];
        });
        for (const end of ["pointerup", "pointercancel"]) this.stage.addEventListener(end, () => (held = null));
        this.stage.addEventListener(
            "wheel",
            (event) => {
                if (!this.#shown) return;
                event.preventDefault();
                const { left, top, width, height } = box();
                const x = (event.clientX - left) / width;
                // Over the picture of two side by side, it is the same place of the other.
                this.#view?.magnify(Math.exp(-event.deltaY / 400), x < 0 ? x + 1 : x, (event.clientY - top) / height);
            },
            { passive: false },
        );
        this.stage.addEventListener("dblclick", () => this.#shown && this.#view?.magnify(2));
    }

    dispose() {
        if (this.#url) URL.revokeObjectURL(this.#url);
    }
}

/** What the keys do, for people. @param {HTMLElement} element @param {boolean} views */
export function explainKeys(element, views) {
    const keys = [
        ["arrows", "turn"], ["shift + arrows", "move"], ["+ −", "nearer, farther"], ["F", "all of it"], ["1 – 8", "surface"],
    ]; // prettier-ignore
    if (views) keys.push(["[ ]", "the view before, after"], ["B", "hold: the picture"], ["Esc", "free"]);
    fill(element, keys.map(([key, what]) => h("span", null, h("kbd", null, key), ` ${what}`)));
}
