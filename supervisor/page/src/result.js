// A job that is done → its model in 3D, the views that it was made from beside it, and its maps flat.

import { call } from "./api.js";
import { upOf } from "./camera.js";
import { Compare, explainKeys } from "./compare.js";
import { decibel, size } from "./format.js";
import { fill, h, say } from "./dom.js";
import { saver } from "./files.js";
import { viewsOf } from "./inputs.js";
import { flatMap, legend, MAPS } from "./maps.js";
import { thumb } from "./thumbs.js";

/** @typedef {import("./model.js").Surface} Surface */

const SURFACES = /** @type {[Surface, string, string][]} */ ([
    ["colour", "Colour", "The texture as it was baked"],
    ["lit", "Lit", "In a lit room: gloss, relief and emission as far as the views brought them"],
    ["clay", "Clay", "The shape alone"],
    ["wire", "Wireframe", "The triangles on the texture"],
    ["checker", "UV checker", "Where the texture lies: u in red, v in green"],
    ["coverage", "Coverage", "How well the views saw each texel"],
    ["residual", "Residual", "How far texture and views are apart"],
    ["provenance", "Provenance", "What the views showed, and what was filled in"],
]);

/** @param {any} job @param {string} name @param {AbortSignal} signal */
async function artifact(job, name, signal) {
    const known = job.artifacts.find((/** @type {any} */ entry) => entry.name === name);
    return known ? (await call(known.href, { signal })).blob() : null;
}

/**
 * Fills `place`; gives what takes it down again.
 * @param {HTMLElement} place @param {any} job @param {Promise<any>} report @param {AbortSignal} signal
 */
export async function showResult(place, job, report, signal) {
    const compare = new Compare();
    const keys = h("p", { id: "stage-keys", class: "keys" });
    const strip = h("div", { class: "strip", role: "group", "aria-label": "Input views" });
    const note = h("p", { class: "note", role: "status" }, "Loading the model …");
    const surfaces = h("fieldset", { class: "chips" }, h("legend", { class: "unseen" }, "Surface"));
    const flat = h("div", { class: "flat" });
    const tools = h("div", { class: "row tools" }, surfaces);
    const shown = h("div", { class: "shown" }, tools, compare.stage, compare.bar, note, keys);
    fill(place, h("div", { class: "result" }, shown, strip), flat);
    const made = job.artifacts.find((/** @type {any} */ entry) => entry.name === "model.glb");
    if (made) tools.append(...saver(made, `Download, ${size(made.bytes)}`, ""));
    if (document.fullscreenEnabled) tools.append(fullscreen(shown));

    const [{ View3D }, { flatTextures }, glb, views] = await Promise.all([
        import("./view3d.js"),
        import("./flat.js"),
        artifact(job, "model.glb", signal),
        viewsOf(job).catch(() => null),
    ]);
    if (!glb || signal.aborted) return;
    const cameras = views ? await Promise.all(views.map((view) => view.camera([1, 1]).catch(() => null))) : [];
    const up = upOf(cameras.flatMap((camera) => (camera ? [camera.pose] : [])));
    let view;
    try {
        view = await View3D.open(compare.canvas, await glb.arrayBuffer(), job.spec?.pages ?? 1, up);
    } catch (error) {
        const why = error instanceof Error ? error.message : error;
        fill(note, `This browser cannot show it in 3D (${why}); the file is below.`);
        compare.stage.hidden = true;
        await sheet(flat, job, signal);
        return;
    }
    signal.addEventListener("abort", () => {
        view.dispose();
        compare.dispose();
    });
    compare.attach(view);
    fill(note, "");

    const maps = await Promise.all(
        Object.keys(MAPS).map(async (name) => {
            const picture = await artifact(job, `${name}.png`, signal);
            if (picture) await view.model.addMap(/** @type {Surface} */ (name), picture);
            return picture ? [{ name, picture }] : [];
        }),
    );
    const has = new Set(maps.flat().map(({ name }) => name));
    const offered = SURFACES.filter(([name]) => !(name in MAPS) || has.has(name));
    const key = h("p", { class: "key", hidden: true });
    /** @param {Surface} surface */
    const choose = (surface) => {
        view.setSurface(surface);
        key.hidden = !(surface in MAPS);
        fill(key, surface in MAPS && legend(surface));
    };
    const radios = offered.map(([name, label, title], index) =>
        h("label", { class: "chip", title: `${title} (${index + 1})` },
            h("input", { type: "radio", name: "surface", value: name, checked: index === 0, onchange: () => choose(name) }), label)); // prettier-ignore
    surfaces.append(...radios);
    compare.bar.before(key);

    const strips = await fillStrip(strip, views, report, compare, note);
    explainKeys(keys, strips !== null);
    listen(compare, view, strips, (index) => radios[index]?.querySelector("input")?.click());
    if (!views) {
        const sheets = await sheet(flat, job, signal);
        fill(note, `The sidecar has no pictures of its own for this job${sheets ? ": the contact sheet below shows them" : ""}.`);
    }
    flat.append(...flatTextures(view.model));
    flat.append(...(await Promise.all(maps.flat().map(({ name, picture }) => flatMap(name, picture)))));
}

/**
 * One button for each view, with how well the texture explains it.
 * @param {HTMLElement} strip @param {import("./inputs.js").View[] | null} views @param {Promise<any>} report
 * @param {Compare} compare @param {HTMLElement} note
 */
async function fillStrip(strip, views, report, compare, note) {
    if (!views) {
        strip.hidden = true;
        return null;
    }
    const free = h("button", { type: "button", class: "view free", "aria-pressed": "true", onclick: () => pick(-1) }, "Free view");
    const figures = views.map(() => h("span", { class: "figure" }));
    const buttons = views.map((view, index) =>
        h("button", { type: "button", class: "view", "aria-pressed": "false", title: view.name, onclick: () => pick(index) },
            thumb(view.picture, 96), h("span", { class: "name" }, view.name), figures[index])); // prettier-ignore
    fill(strip, free, buttons);
    let [current, turn] = [-1, 0];

    /** @param {number} index */
    async function pick(index) {
        const mine = ++turn;
        let wrong = null;
        if (index < 0) compare.leave();
        else wrong = await compare.show(/** @type {any} */ (views)[index]).catch((error) => String(error.message));
        if (mine !== turn) return;
        say(note, wrong ?? "");
        if (wrong) return;
        current = index;
        free.setAttribute("aria-pressed", String(index < 0));
        buttons.forEach((button, k) => button.setAttribute("aria-pressed", String(k === index)));
        buttons[index]?.scrollIntoView({ block: "nearest", inline: "nearest" });
    }

    report.then((read) => {
        // Each panorama is six views there.
        const count = (read?.prepare?.views ?? 0) + (read?.prepare?.holdout_views ?? 0);
        if (count > 0 && count !== views.length) return;
        const held = new Map((read?.encode?.holdout ?? []).map((/** @type {any} */ score) => [score.view, score.psnr_db]));
        const fitted = new Map((read?.bake?.views ?? []).map((/** @type {any} */ fit) => [fit.view, fit.psnr_db]));
        views.forEach(({ index }, k) => {
            const out = held.has(index);
            if (out || fitted.has(index)) say(figures[k], decibel(held.get(index) ?? fitted.get(index)) + (out ? " held out" : ""));
        });
    });
    return {
        step: (/** @type {number} */ by) => pick((current + by + views.length + (current < 0 && by < 0 ? 1 : 0)) % views.length),
        leave: () => pick(-1),
    };
}

/**
 * Keys of the stage.
 * @param {Compare} compare @param {import("./view3d.js").View3D} view
 * @param {{step: (by: number) => void, leave: () => void} | null} strip @param {(index: number) => void} surface
 */
function listen(compare, view, strip, surface) {
    const ways = /** @type {Record<string, any>} */ ({
        ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", "+": "in", "=": "in", "-": "out", _: "out",
    }); // prettier-ignore
    const moves = /** @type {Record<string, [number, number]>} */ ({ left: [0.05, 0], right: [-0.05, 0], up: [0, 0.05], down: [0, -0.05] });
    compare.canvas.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const way = ways[event.key];
        if (way && compare.isShown) {
            if (way === "in" || way === "out") view.magnify(way === "in" ? 1.25 : 0.8);
            else view.move(...moves[way]);
        } else if (way) view.step(way, event.shiftKey);
        else if (event.key === "[" || event.key === "]") strip?.step(event.key === "[" ? -1 : 1);
        else if (event.key === "Escape") strip?.leave();
        else if (event.key.toLowerCase() === "b") compare.blink(true);
        else if (event.key.toLowerCase() === "f") {
            strip?.leave();
            view.fit();
        } else if (/^[1-8]$/.test(event.key)) surface(Number(event.key) - 1);
        else return;
        event.preventDefault();
    });
    compare.canvas.addEventListener("keyup", () => compare.blink(false));
    compare.canvas.addEventListener("blur", () => compare.blink(false));
}

/** The stage and all that belongs to it as large as the screen. @param {HTMLElement} shown */
function fullscreen(shown) {
    const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
        if (document.fullscreenElement) document.exitFullscreen();
        else shown.requestFullscreen().catch(() => {});
    } }, "Full screen"); // prettier-ignore
    shown.addEventListener("fullscreenchange", () => button.setAttribute("aria-pressed", String(document.fullscreenElement === shown)));
    return button;
}

/** The contact sheet, for who cannot have the views themselves. @param {HTMLElement} flat @param {any} job @param {AbortSignal} signal */
async function sheet(flat, job, signal) {
    const picture = await artifact(job, "preview.png", signal);
    if (!picture) return false;
    const url = URL.createObjectURL(picture);
    const image = h("img", { src: url, alt: "Input views, result and error side by side", onload: () => URL.revokeObjectURL(url) });
    flat.prepend(h("figure", { class: "wide" }, image, h("figcaption", null, `Contact sheet, ${size(picture.size)}`)));
    return true;
}
