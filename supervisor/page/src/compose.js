// "New bake": files that are dropped → what was found in them, options, and a job.

import { call, json, Problem, sleep } from "./api.js";
import { fill, h, say } from "./dom.js";
import { fromDrop, fromList, unpack } from "./drop.js";
import { count, percent, size } from "./format.js";
import { remember, rememberAs, viewsOf } from "./inputs.js";
import { nameOf } from "./jobs.js";
import { inWords, labelOf } from "./labels.js";
import { Options } from "./options.js";
import { countViews, hasSplats, recognise } from "./recognise.js";
import { thumb } from "./thumbs.js";
import { upload } from "./upload.js";

const THUMBS = 16;
/** Of a safetensors file: one above is sent as the body of the job, unread. */
const HASHED = 256 << 20;

/** @typedef {import("./drop.js").Item} Item */

/** @param {any} abilities /v1/capabilities @param {Record<string, any>} schema properties of a spec */
export function compose(abilities, schema) {
    /** @type {Map<string, Item>} */
    const items = new Map();
    /** @type {{mesh?: string, views?: string}} */
    const choice = {};
    /** @type {import("./recognise.js").Found | null} */
    let found = null;
    /** A job whose files are used again, in place of files that are dropped. @type {any} */
    let kept = null;
    /** @type {AbortController | null} */
    let sending = null;
    // What was submitted stays to be seen, and makes room for what comes next.
    let used = false;
    // One until the job is accepted: pressed again after a lost answer, it is the same job.
    let key = crypto.randomUUID();
    const options = new Options(abilities, schema);
    options.element.addEventListener("input", () => (key = crypto.randomUUID()));

    const files = h("input", { type: "file", id: "files", class: "unseen", multiple: true, onchange: () => take(fromChosen(files)) });
    const folder = h("input", { type: "file", id: "folder", class: "unseen", webkitdirectory: true, onchange: () => take(fromChosen(folder)) });
    const facts = h("div", { class: "facts", role: "status" });
    const thumbs = h("div", { class: "thumbs" });
    const wrong = h("p", { class: "error", role: "alert" });
    const go = h("button", { class: "main", disabled: true }, "Bake");
    const stop = h("button", { type: "button", hidden: true, onclick: () => sending?.abort(new Error("stopped")) }, "Stop");
    const meter = h("progress", { max: 1, value: 0, hidden: true, "aria-label": "Sent" });
    const reset = h("button", { type: "button", class: "plain", hidden: true, onclick: clear }, "Clear");
    const zone = h("div", { class: "zone" },
        h("p", { class: "big" }, "Drop a mesh and its views here"),
        h("p", { class: "hint" }, "GLB, glTF, PLY, OBJ, STL or OFF; transforms.json or a model of COLMAP with its pictures, or Gaussian splats; .safetensors for either or both. As files, a folder or a zip."),
        h("div", { class: "row" },
            h("label", { class: "button", for: "files" }, "Choose files"), files,
            h("label", { class: "button", for: "folder" }, "Choose a folder"), folder, reset)); // prettier-ignore
    const form = h("form", { class: "compose", "aria-labelledby": "compose-title", novalidate: true },
        h("h2", { id: "compose-title" }, "New bake"), zone, facts, thumbs,
        h("div", { class: "ready", hidden: true }, options.element, wrong, h("div", { class: "row" }, go, stop, meter))); // prettier-ignore
    const ready = /** @type {HTMLElement} */ (form.querySelector(".ready"));

    /** @param {HTMLInputElement} input */
    function fromChosen(input) {
        const chosen = fromList(/** @type {FileList} */ (input.files));
        // The same files may be chosen again.
        input.value = "";
        return chosen;
    }

    /** @param {Item[] | Promise<Item[]>} given */
    async function take(given) {
        say(wrong, "");
        try {
            fill(facts, "Reading …");
            const fresh = await unpack(await given, (text) => say(facts, text));
            if (used || kept) forget();
            for (const item of fresh) items.set(item.path, item);
        } catch (error) {
            await look();
            fill(facts, h("p", { class: "error" }, error instanceof Error ? error.message : String(error)));
            return;
        }
        await look();
    }

    async function look() {
        key = crypto.randomUUID();
        if (kept) return lookAt(kept);
        found = items.size > 0 ? await recognise([...items.values()], choice) : null;
        ready.hidden = reset.hidden = !found;
        form.classList.toggle("filled", Boolean(found));
        const usable = found !== null && found.missing === null;
        go.toggleAttribute("disabled", !usable);
        if (!found) {
            fill(facts);
            fill(thumbs);
            return;
        }
        const views = countViews(found);
        const meshName = found.arrays?.name ?? found.mesh?.main ?? "";
        const of = hasSplats(found) ? "splats" : `${views} views`;
        options.suggestName(meshName ? `${meshName.replace(/\.[^.]*$/, "")}, ${of}`.slice(0, 70) : "");
        fill(facts, ...describe(found, views));
        const pictures = found.views?.pictures.filter((blob) => blob !== null) ?? [];
        fill(thumbs, pictures.slice(0, THUMBS).map((blob) => thumb(async () => blob, 56)),
            pictures.length > THUMBS && h("span", { class: "more" }, `and ${pictures.length - THUMBS} more`)); // prettier-ignore
    }

    /** The files of a job that the sidecar has. @param {any} job */
    function lookAt(job) {
        found = null;
        ready.hidden = reset.hidden = false;
        form.classList.add("filled");
        go.removeAttribute("disabled");
        options.suggestName(nameOf(job).slice(0, 70));
        fill(facts, h("p", { class: "row" }, h("strong", null, "Files"), `those of ${nameOf(job)}`, h("span", { class: "hint" }, "kept by the sidecar, and not sent again")));
        fill(thumbs);
        viewsOf(job).catch(() => null).then((views) => kept === job && fill(thumbs, (views ?? []).slice(0, THUMBS).map(({ picture }) => thumb(picture, 56)))); // prettier-ignore
    }

    /** Takes up the files and options of a job. @param {string} id @param {AbortSignal} signal */
    async function reuse(id, signal) {
        if (kept?.id === id) return;
        try {
            const job = await json(`/v1/jobs/${id}`, { signal });
            forget();
            kept = job;
            options.show(job.spec);
            await look();
            form.scrollIntoView({ block: "nearest" });
            /** @type {HTMLElement} */ (go).focus();
        } catch (error) {
            if (!signal.aborted) fill(facts, h("p", { class: "error" }, /** @type {Error} */ (error).message));
        }
    }

    /** @param {import("./recognise.js").Found} found @param {number} views */
    function describe(found, views) {
        const rows = [];
        const bytes = (/** @type {Iterable<Blob>} */ blobs) => size([...blobs].reduce((sum, blob) => sum + blob.size, 0));
        const row = (/** @type {string} */ term, /** @type {any} */ ...what) => rows.push(h("p", { class: "row" }, h("strong", null, term), ...what));
        if (found.arrays) row("Arrays", found.arrays.name, h("span", { class: "hint" }, `${count(views)} views, ${size(found.arrays.blob.size)}`));
        if (found.mesh) row("Mesh", chooser("mesh", found.meshes, found.mesh.main), h("span", { class: "hint" }, bytes(found.mesh.files.values())));
        if (found.views) {
            const here = found.views.pictures.filter((blob) => blob !== null);
            const what = hasSplats(found) ? `Gaussian splats, ${bytes(found.views.files.values())}` : `${count(views)} views, ${bytes(here)}`;
            row("Views", chooser("views", found.viewSets, found.views.main), h("span", { class: "hint" }, what));
        }
        if (found.missing) rows.push(h("p", { class: "error missing" }, `Not yet: ${found.missing}.`));
        return rows;
    }

    /** @param {"mesh" | "views"} what @param {string[]} paths @param {string} main */
    function chooser(what, paths, main) {
        if (paths.length < 2) return main;
        const select = h("select", { "aria-label": what === "mesh" ? "Mesh" : "Views", onchange: () => {
            choice[what] = select.value;
            look().then(() => form.querySelector(`select[aria-label="${select.getAttribute("aria-label")}"]`))
                .then((next) => next instanceof HTMLElement && next.focus());
        } }, paths.map((path) => h("option", { value: path }, path))); // prettier-ignore
        select.value = choice[what] && paths.includes(choice[what]) ? choice[what] : paths[0];
        return select;
    }

    function forget() {
        used = false;
        kept = null;
        items.clear();
        delete choice.mesh;
        delete choice.views;
    }

    function clear() {
        forget();
        look();
        files.focus();
    }

    form.addEventListener("submit", (event) => {
        event.preventDefault();
        if (((found && !found.missing) || kept) && !sending) submit(found);
    });

    /** @param {import("./recognise.js").Found | null} found none where the files of a job are used again */
    async function submit(found) {
        sending = new AbortController();
        say(wrong, "");
        go.setAttribute("disabled", "");
        [stop.hidden, meter.hidden] = [false, false];
        try {
            // Others may be dropped meanwhile.
            const from = kept;
            const inputs = found ? inputsOf(found) : async () => ({ mesh: from.spec.mesh, views: from.spec.views, arrays: from.spec.arrays });
            const job = await send(inputs, options.spec(), key, sending.signal, (share) => {
                meter.value = share;
                say(go, `Sending ${percent(share)}`);
            });
            if (found) remember(job.id, found);
            else rememberAs(from.id, job.id);
            used = true;
            key = crypto.randomUUID();
            location.hash = `#/jobs/${job.id}`;
        } catch (error) {
            if (!sending.signal.aborted) complain(/** @type {Error} */ (error));
        } finally {
            sending = null;
            say(go, "Bake");
            go.removeAttribute("disabled");
            [stop.hidden, meter.hidden] = [true, true];
        }
    }

    /** @param {Error} error */
    function complain(error) {
        const field = error instanceof Problem ? (error.field ?? "").split(/[.[]/)[0] : "";
        if (field && options.complain(field, inWords(error.message))) return;
        if (field === "files" && kept) return fill(wrong, "Not submitted: the sidecar has no longer all of these files. Drop them anew.");
        const what = labelOf(field) || field;
        fill(wrong, `Not submitted: ${what ? `${what}: ` : ""}${inWords(error.message)}.`);
    }

    form.addEventListener("dragover", (event) => event.preventDefault());
    return { element: form, take, reuse, drop: (/** @type {DataTransfer} */ transfer) => take(fromDrop(transfer)), stop: () => sending?.abort(new Error("left")) };
}

/** @typedef {(signal: AbortSignal, tell: (done: number, total: number) => void) => Promise<Record<string, any> | Blob>} Inputs */

/** Sends the files that are missing; gives the keys of a spec that name them, or arrays that are sent with the job. @param {import("./recognise.js").Found} found @returns {Inputs} */
function inputsOf(found) {
    return async (signal, tell) => {
        if (found.arrays && found.arrays.blob.size > HASHED) return found.arrays.blob;
        if (found.arrays) {
            const digests = await upload(new Map([["arrays", found.arrays.blob]]), signal, tell);
            return { arrays: digests.get("arrays") };
        }
        const { mesh, views } = /** @type {{mesh: any, views: any}} */ (found);
        // Together, for one measure of progress; apart again by their names.
        const all = new Map([...mesh.files].map(([name, blob]) => [`mesh/${name}`, blob]));
        for (const [name, blob] of views?.files ?? []) all.set(`views/${name}`, blob);
        const digests = await upload(all, signal, tell);
        const source = (/** @type {string} */ what, /** @type {any} */ { files, main }) => {
            const names = [...files.keys()].map((name) => [name, digests.get(`${what}/${name}`)]);
            return { files: Object.fromEntries(names), main };
        };
        // Splats alone bring their views.
        return { mesh: source("mesh", mesh), views: views && source("views", views) };
    };
}

/**
 * Sends the inputs, and the job.
 * @param {Inputs} inputs @param {Record<string, any>} spec @param {string} key @param {AbortSignal} signal
 * @param {(share: number) => void} tell @returns {Promise<any>} the job
 */
async function send(inputs, spec, key, signal, tell) {
    let again = true;
    for (let attempt = 1; ; attempt++) {
        const sent = await inputs(signal, (done, total) => tell(total > 0 ? done / total : 1));
        const headers = { "Idempotency-Key": key, "Content-Type": sent instanceof Blob ? "application/safetensors" : "application/json" };
        const place = sent instanceof Blob ? `/v1/jobs?${new URLSearchParams({ spec: JSON.stringify(spec) })}` : "/v1/jobs";
        const body = sent instanceof Blob ? sent : JSON.stringify({ ...spec, ...sent });
        try {
            return await (await call(place, { method: "POST", headers, body, signal })).json();
        } catch (error) {
            // What was there expired in between: once more from the start.
            const expired = error instanceof Problem && error.field === "files" && again;
            const later = error instanceof Problem && error.retryable && attempt < 5 && error.code !== "insufficient_storage";
            if (!expired && !later) throw error;
            if (expired) again = false;
            await sleep(Math.min(error.after ?? 1, 10) * 1000, signal);
        }
    }
}
